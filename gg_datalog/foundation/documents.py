"""TOML that the user wrote."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gg_datalog.foundation.errors import InputError
from gg_datalog.foundation.regular import refuse_special


def read_toml(path: Path, what: str, hint: str, gone: str | None = None) -> dict[str, Any]:
    """The document at ``path``; ``what`` it is called in an error, and what to do then: ``gone``
    where the file itself cannot be read."""
    refuse_special(path)
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
        wrong = next((text for text in _texts(document) if "\0" in text), None)
    except OSError as error:
        text = f"{what} cannot be read: {error.strerror or error}"
        raise InputError(text, str(path), gone or "give the path of an existing file") from None
    except RecursionError:
        raise InputError(f"{what} is nested too deeply", str(path), hint) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{what} is not TOML: {error}", str(path), hint) from None
    if wrong is not None:
        raise InputError(f"{what} holds a text with a null byte: {wrong!r}", str(path), hint)
    return document


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, (list, dict)):
        for one in value:
            yield from _texts(one)
        for one in value.values() if isinstance(value, dict) else ():
            yield from _texts(one)
