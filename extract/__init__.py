"""From captured graphs to relational facts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gg_datalog.extract.case import CaseFiles, case_files

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["CaseFiles", "case_files", "extract_case"]


def extract_case(
    files: CaseFiles,
    operators: Sequence[Path] = (),
    progress: Callable[[str], None] | None = None,
) -> dict[str, pa.Table]:
    """The facts of a case, one Arrow table per relation of :mod:`gg_datalog.extract.schema`."""
    from gg_datalog.extract.facts import build

    return build(files, operators, progress)
