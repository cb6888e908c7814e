"""Runs the Datalog rules on Soufflé, where its binary is installed, or on clingo.

Both engines read the same ``.dl`` files and give the same relations. Importing this
package is cheap: lark, pyarrow and clingo are imported by the call that needs them.
"""

from __future__ import annotations

from pathlib import Path

from .base import Engine, EngineResult
from .program import Program

__all__ = ["Engine", "EngineResult", "Program", "parse_program", "select_engine"]


def parse_program(path: Path | str) -> Program:
    """Parse a program and everything it includes."""
    from .parser import parse_program as parse

    return parse(Path(path))


def select_engine(choice: str = "auto") -> Engine:
    """The engine of that name; ``auto`` is Soufflé where it is usable, else clingo."""
    from gg_datalog.foundation.errors import EngineError

    from .clingo_engine import ClingoEngine
    from .pysouffle import SouffleEngine, souffle_usable

    if choice == "auto":
        return SouffleEngine() if souffle_usable() else ClingoEngine()
    if choice == "souffle":
        return SouffleEngine()
    if choice == "clingo":
        return ClingoEngine()
    raise EngineError(f"there is no engine {choice!r}", hint="use auto, souffle or clingo")
