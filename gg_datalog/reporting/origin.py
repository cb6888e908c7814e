"""Where the graphs of a result lie, so that reports of many pairs can be told apart."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from gg_datalog.errors import InputError
from gg_datalog.folders import read_manifest
from gg_datalog.report import Finding
from gg_datalog.reporting.places import Place, place

TOOL = "gg-datalog"


def case_name(result: Path) -> str:
    """The folder of the graphs, from the current one where it lies below; else its last part."""
    seq = _case(result).get("seq")
    if not isinstance(seq, str):
        return TOOL
    folder = Path(os.path.normpath(seq)).parent
    if folder.is_relative_to(Path.cwd()):
        return folder.relative_to(Path.cwd()).as_posix()
    return folder.name or TOOL


def graph_place(result: Path, found: Finding) -> Place | None:
    """The graph that a finding is about: where code lines are not known, the place to look at."""
    case = _case(result)
    path: Any = case.get("seq")
    of_rank = re.match(r"r(\d+)\.", found.dist[0]) if found.dist else None
    graphs = case.get("dist")
    if of_rank and isinstance(graphs, list) and int(of_rank[1]) < len(graphs):
        path = graphs[int(of_rank[1])]
    return place(f"{path}:1") if isinstance(path, str) else None


def _case(result: Path) -> dict[str, Any]:
    try:
        case = read_manifest(result, "result", "gg-datalog run").get("case")
    except InputError:
        return {}
    return case if isinstance(case, dict) else {}
