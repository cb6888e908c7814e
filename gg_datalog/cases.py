"""Where a case lies, as the manifest of its facts remembers it, and its extraction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gg_datalog.errors import InputError
from gg_datalog.extract import CaseFiles, extract_case
from gg_datalog.progress import Progress

if TYPE_CHECKING:
    import pyarrow as pa


def extracted(
    files: CaseFiles, operators: Sequence[Path], progress: Progress
) -> tuple[dict[str, pa.Table], dict[str, Any]]:
    """The facts of a case, and what the manifest keeps so that they can be extracted again."""
    return extract_case(files, operators, progress), _remembered(files, operators)


def extracted_again(
    case: Mapping[str, Any], operators: Sequence[Path], progress: Progress
) -> dict[str, pa.Table]:
    """The facts of a remembered case with more operators."""
    files, earlier = remembered(case, "run `gg-datalog extract` with --operators instead")
    return extract_case(files, [*earlier, *operators], progress)


def remembered(case: Mapping[str, Any], hint: str) -> tuple[CaseFiles, list[Path]]:
    """The files of a case as the manifest of its facts remembers them, and its operator files."""
    try:
        files = CaseFiles(
            Path(case["seq"]),
            [Path(path) for path in case["dist"]],
            **{name: _path(case[name]) for name in ("groups", "relations", "outputs")},
            about=_path(case.get("about")),
            chosen=list(case["chosen"]),
            partial=list(case["partial"]),
        )
        earlier = [Path(path) for path in case["operators"]]
    except (KeyError, TypeError):
        raise InputError(
            "the manifest does not say which graphs the facts came from", None, hint
        ) from None
    for path in [
        files.seq,
        *files.dist,
        files.groups,
        files.relations,
        files.outputs,
        files.about,
        *earlier,
    ]:
        if path is not None and not path.is_file():
            raise InputError("the graphs are needed, and this file is gone", str(path), hint)
    return files, earlier


def _path(text: str | None) -> Path | None:
    return None if text is None else Path(text)


def _remembered(files: CaseFiles, operators: Sequence[Path]) -> dict[str, Any]:
    def absolute(path: Path | None) -> str | None:
        return None if path is None else str(path.absolute())

    return {
        "seq": absolute(files.seq),
        "dist": [absolute(path) for path in files.dist],
        "groups": absolute(files.groups),
        "relations": absolute(files.relations),
        "outputs": absolute(files.outputs),
        "about": absolute(files.about),
        "chosen": list(files.chosen),
        "partial": list(files.partial),
        "operators": [absolute(path) for path in operators],
    }
