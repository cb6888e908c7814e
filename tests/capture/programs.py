"""The programs of `examples/`, and what a verdict says of their results."""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from gg_datalog import Result

EXAMPLES = Path(__file__).parents[2] / "examples"


def example(folder: str, name: str = "model") -> Any:
    """The module `examples/FOLDER/NAME.py`, which is in no package."""
    spec = spec_from_file_location(f"{folder}_{name}", EXAMPLES / folder / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def unmapped(result: Result) -> set[str]:
    """What is not rebuilt, by the names that capture gives to outputs."""
    return {row.name for row in result.outputs if row.status != "mapped"}
