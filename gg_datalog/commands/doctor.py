"""``doctor``: what is installed and usable."""

from __future__ import annotations

import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from gg_datalog.foundation.errors import GGError
from gg_datalog.foundation.version import __version__

NEEDED = ("clingo", "duckdb", "lark", "pyarrow")


def findings() -> tuple[list[str], bool]:
    """Lines to show, and whether a run can work."""
    packages = {name: _package(name) for name in (*NEEDED, "torch")}
    lines = [
        f"gg-datalog {__version__}, Python {platform.python_version()}",
        *(_engine(name) for name in ("souffle", "clingo")),
        f"engine auto: {_auto()}",
    ]
    for name, found in packages.items():
        optional = "" if name in NEEDED else " (optional: for `replay` and capturing graphs)"
        lines.append(f"{name}: {found or 'not installed' + optional}")
    lines.append(f"configuration: {_configuration()}")
    usable = all(packages[name] for name in NEEDED)
    return lines, usable


def _configuration() -> str:
    from gg_datalog.settings.configuration import found

    try:
        return str(found(Path.cwd()).path or "none")
    except GGError as error:
        return f"not usable: {' '.join(str(error).split())}"


def _package(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _engine(name: str) -> str:
    from gg_datalog.engine import select_engine

    try:
        engine = select_engine(name)
        return f"engine {name}: usable, version {engine.version()}, {engine.word_bits()} bits"
    except GGError as error:
        return f"engine {name}: not usable: {' '.join(str(error).split())}"
    except ImportError as error:
        return f"engine {name}: not usable: {error} ({sys.executable})"


def _auto() -> str:
    from gg_datalog.engine import select_engine

    return select_engine("auto").name
