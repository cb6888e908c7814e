"""The reader ``fx-text``: graphs as ``GraphModule.print_readable()`` and TORCH_TRACE print them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gg_datalog.extract.documents import CaseDocuments
from gg_datalog.foundation.errors import InputError
from gg_datalog.readers import ReaderInput
from gg_datalog.readers.fx_constants import with_values
from gg_datalog.readers.fx_groups import group_document, unused
from gg_datalog.readers.fx_join import joined
from gg_datalog.readers.fx_nodes import Program
from gg_datalog.readers.fx_syntax import program
from gg_datalog.readers.fx_values import Json


def read(given: ReaderInput) -> CaseDocuments:
    """The graphs in the texts: the first file is the sequential one, then one per rank."""
    if len(given.files) < 2:
        raise InputError(
            "no rank's graph is given", None, "give the sequential text, then one per rank"
        )
    programs = []
    for path in given.files:
        given.progress(f"read {path}")
        programs.append(_program(path))
    seq, dist = programs[0], dict(enumerate(programs[1:]))
    assumptions = [*_constants("sequential", seq)]
    for rank, one in dist.items():
        assumptions += _constants(f"rank {rank}", one)
    groups = group_document(given.groups, seq, dist)
    about = {
        "route": "fx-text",
        "assumptions": [{"kind": "constants", "text": text} for text in assumptions],
        "warnings": list(unused(given.groups, groups)),
    }
    graphs = {rank: _document(rank, one) for rank, one in dist.items()}
    return CaseDocuments(_document(0, seq), graphs, groups, about=about)


def parts(path: Path) -> list[Path]:
    """The files that an argument names: one, or ``FWD.txt+BWD.txt``."""
    if path.is_file():
        return [path]
    words = str(path).split("+")
    for place in range(1, len(words)):
        pair = [Path("+".join(words[:place])), Path("+".join(words[place:]))]
        if all(part.is_file() for part in pair):
            return pair
    return [path]


def _program(path: Path) -> Program:
    found = [program(part) for part in parts(path)]
    return found[0] if len(found) == 1 else joined(*found)


def _constants(side: str, one: Program) -> list[str]:
    """Values of constants; what they rest on, one sentence for each kind of evidence."""
    found: dict[str, list[str]] = {}
    for name, how in with_values(one.nodes, one.constants):
        found.setdefault(how, []).append(f"`{name}`")
    return [
        f"the text does not hold the value of {', '.join(names)} ({side}), put at a mask: {how}"
        for how, names in found.items()
    ]


def _document(rank: int, one: Program) -> Json:
    document: dict[str, Any] = {"format": "fx-graph", "version": 2, "rank": rank}
    return document | {"origin": one.path, "nodes": one.nodes}
