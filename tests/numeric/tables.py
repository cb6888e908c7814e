"""The tables of ``tests/rules`` (and :mod:`rare`) as programs, to be judged and executed."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from . import rare
from .program import Program, load

ROOT = Path(__file__).resolve().parents[1] / "rules"
PACKAGE = "rule_tables"  # pytest imports these files under names of its own


@cache
def _package() -> ModuleType:
    """The package of the tables; :mod:`build` of it."""
    place = ROOT / "__init__.py"
    spec = spec_from_file_location(PACKAGE, place, submodule_search_locations=[str(ROOT)])
    assert spec is not None and spec.loader is not None
    sys.modules[PACKAGE] = module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return import_module(f"{PACKAGE}.build")


def _tabled() -> dict[str, Any]:
    """Every case of every table, by module and name; not those with operators of their own, nor
    those that hold in float32 only: they are executed in doubles."""
    found: dict[str, Any] = {}
    for path in sorted(ROOT.glob("test_*.py")):
        for test in vars(import_module(f"{PACKAGE}.{path.stem}")).values():
            marks = [m for m in getattr(test, "pytestmark", ()) if m.name == "parametrize"]
            values = [getattr(p, "values", (p,))[0] for mark in marks for p in mark.args[1]]
            for value in values:
                if isinstance(value, _package().Case) and not (value.operators or value.single):
                    found[f"{path.stem}: {value.name}"] = value
    return found


def program(case: Any) -> Program:
    """The documents of a case."""
    with tempfile.TemporaryDirectory() as folder:
        _package().write(case, Path(folder))
        return load(Path(folder))


@contextmanager
def written(found: Program) -> Iterator[Path]:
    """The program in a folder."""
    with tempfile.TemporaryDirectory() as folder:
        found.write(Path(folder))
        yield Path(folder)


def programs() -> dict[str, Program]:
    """All of them by name."""
    build = _package()
    cases = _tabled() | {f"rare: {c.name}": c for c in rare.cases(build.Case)}
    cases |= {f"defect: {c.name}": c for c in rare.defects(build.Case)}
    return {name: program(case) for name, case in cases.items()}


def zeros() -> Program:
    """A pair that has to be judged on its own."""
    return program(rare.zeros(_package().Case))
