"""From captured graphs to relational facts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

    from gg_datalog.extract.case import CaseFiles, case_files

__all__ = ["CaseFiles", "case_files", "extract_case"]


def __getattr__(name: str) -> Any:
    """Loaded when it is asked for: who only reads facts needs their schema, not the lowering."""
    if name in ("CaseFiles", "case_files"):
        from gg_datalog.extract import case

        return getattr(case, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def extract_case(
    files: CaseFiles,
    operators: Sequence[Path] = (),
    progress: Callable[[str], None] | None = None,
) -> dict[str, pa.Table]:
    """The facts of a case, one Arrow table per relation of :mod:`gg_datalog.extract.schema`."""
    from gg_datalog.extract.facts import build

    return build(files, operators, progress)
