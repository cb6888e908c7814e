"""Where a case to replay lies, and whether torch is there to replay it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from gg_datalog.extract import CaseFiles, case_files
from gg_datalog.foundation.errors import InputError
from gg_datalog.foundation.folders import MANIFEST
from gg_datalog.foundation.hashes import case_of
from gg_datalog.foundation.progress import Progress
from gg_datalog.foundation.regular import is_there
from gg_datalog.foundation.visible import visible_json, visible_lines
from gg_datalog.result.printable import printable
from gg_datalog.result.sources import remembered
from gg_datalog.result.store import check_version


def replayed(
    folder: Path, form: str, operators: Sequence[Path], say: Progress, **asked: Any
) -> tuple[str, str]:
    """The report of a replay (``human`` or ``json``), and its verdict. ``asked`` are the further
    arguments of :func:`gg_datalog.replay.command.replay`."""
    files, earlier = _files(folder)
    if find_spec("torch") is None:
        raise InputError(
            "replay executes graphs with torch, which is not installed",
            None,
            "install it: pip install 'gg-datalog[torch]'",
        )
    try:
        from gg_datalog.replay.command import as_document, as_lines, replay
    except (ImportError, OSError) as error:
        raise InputError(
            f"torch is installed, but cannot be used: {str(error).strip() or type(error).__name__}",
            None,
            "install it again: pip install 'gg-datalog[torch]'",
        ) from None

    found = replay(files, [*earlier, *operators], say=say, **asked)
    if form == "json":
        return visible_json(as_document(found)), found.report.verdict
    found.report = printable(found.report)
    return visible_lines(as_lines(found)), found.report.verdict


def _files(folder: Path) -> tuple[CaseFiles, list[Path]]:
    manifest = folder / MANIFEST
    if not is_there(manifest):
        return case_files(folder), []
    try:
        document = json.loads(manifest.read_text(encoding="utf-8"))
        if document["kind"] == "case":
            return case_files(folder), []
        case = case_of(document) if document["kind"] == "facts" else None
    except (ValueError, KeyError, TypeError, AttributeError, OSError):
        case = None
    if not isinstance(case, dict):
        raise InputError(
            "the manifest is not that of facts", str(manifest), "give a case or a facts folder"
        )
    check_version(document, folder)
    return remembered(case, "give the case folder instead")
