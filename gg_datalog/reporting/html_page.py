"""What all pages of HTML share: one file that needs no network and lets nothing leave it."""

from __future__ import annotations

import base64
import hashlib
import re
from importlib.resources import files
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from markupsafe import Markup


def filled(package: str, template: str, style: str, script: str, content: dict[str, Any]) -> str:
    """The page of a template in the folder ``page`` of a package, with its style and script."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader(package, "page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["code"] = _code
    page = environment.get_template(template).render(
        style=_markup(style), script=_markup(script), policy=_policy(style, script), **content
    )
    return page + "\n"


def asset(package: str, name: str) -> str:
    """A file of the folder ``page`` of a package, which becomes a part of a page as it is."""
    return files(package).joinpath("page", name).read_text("utf-8")


def _markup(text: str) -> Markup:
    from markupsafe import Markup

    return Markup(text)


def _code(text: str) -> Markup:
    """Text with what stands between backticks as code."""
    from markupsafe import Markup, escape

    parts = re.split(r"`([^`]*)`", text)
    shown = [
        Markup("<code>{}</code>").format(part) if index % 2 else escape(part)
        for index, part in enumerate(parts)
    ]
    return Markup("").join(shown)


def _policy(style: str, script: str) -> str:
    """Nothing may be loaded or sent, and only these two may run."""
    hashes = [
        base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode()
        for text in (style, script)
    ]
    return (
        f"default-src 'none'; style-src 'sha256-{hashes[0]}'; script-src 'sha256-{hashes[1]}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
