"""Where a case lies, as the manifest of its facts remembers it, and its extraction."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gg_datalog.extract import extract_case
from gg_datalog.foundation.errors import InputError
from gg_datalog.foundation.hashes import SOURCES, file_hash, sources
from gg_datalog.foundation.progress import Progress
from gg_datalog.foundation.regular import is_there, refuse_special

if TYPE_CHECKING:
    import pyarrow as pa

    from gg_datalog.extract import CaseFiles


def extracted(
    files: CaseFiles, operators: Sequence[Path], progress: Progress
) -> tuple[dict[str, pa.Table], dict[str, Any]]:
    """The facts of a case, and what the manifest keeps so that they can be extracted again."""
    # Hashed first: what is changed while it is read is known as another one later.
    case = _remembered(files, operators)
    return extract_case(files, operators, progress), case


def extracted_again(
    case: Mapping[str, Any], operators: Sequence[Path], progress: Progress
) -> tuple[dict[str, pa.Table], dict[str, Any]]:
    """The facts of a remembered case with more operators, and that case."""
    files, earlier = remembered(case, "run `gg-datalog extract` with --operators instead")
    return extracted(files, [*earlier, *operators], progress)


def remembered(case: Mapping[str, Any], hint: str) -> tuple[CaseFiles, list[Path]]:
    """The files of a case as the manifest of its facts remembers them, and its operator files."""
    from gg_datalog.extract import CaseFiles

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
    for path in _paths(files, earlier):
        if not is_there(path):
            raise InputError(
                "the facts were extracted from it, and this file is gone", str(path), hint
            )
    for path in changed(case):
        raise InputError("this was changed after the facts were extracted", str(path), hint)
    return files, earlier


def changed(case: Mapping[str, Any]) -> Iterator[Path]:
    """Files of a remembered case that are there, and not as they were when it was extracted."""
    for role, hashes in sources(case).items():
        for path, text in zip(_list(case.get(role)), _list(hashes), strict=False):
            if path and text and Path(path).is_file() and file_hash(Path(path)) != text:
                yield Path(path)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _path(text: str | None) -> Path | None:
    return None if text is None else Path(text)


def _paths(files: CaseFiles, operators: Sequence[Path]) -> list[Path]:
    others = (files.groups, files.relations, files.outputs, files.about)
    given = [files.seq, *files.dist, *others, *operators]
    return [path for path in given if path is not None]


def _remembered(files: CaseFiles, operators: Sequence[Path]) -> dict[str, Any]:
    roles: dict[str, Any] = {
        "seq": files.seq,
        "dist": files.dist,
        "groups": files.groups,
        "relations": files.relations,
        "outputs": files.outputs,
        "about": files.about,
        "operators": operators,
    }
    return {
        **{role: _each(given, lambda path: str(path.absolute())) for role, given in roles.items()},
        "chosen": list(files.chosen),
        "partial": list(files.partial),
        SOURCES: {role: _each(given, _hash) for role, given in roles.items()},
    }


def _each(given: Path | Sequence[Path] | None, told: Callable[[Path], str | None]) -> Any:
    if given is None or isinstance(given, Path):
        return None if given is None else told(given)
    return [told(path) for path in given]


def _hash(path: Path) -> str | None:
    """None where it cannot be read, which whoever reads it says."""
    try:
        refuse_special(path)
        return file_hash(path)
    except (InputError, OSError):
        return None
