"""The ranks' graphs as JSON, and copies of them with something put in."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from gg_datalog.extract import CaseFiles
from gg_datalog.extract.case import RANK_FILE
from gg_datalog.extract.graph import read_json
from gg_datalog.foundation.errors import InputError
from gg_datalog.repairs.candidate import Candidate, Group
from gg_datalog.repairs.edits import Json, edited, fresh


def referenced(value: Any) -> Iterator[str]:
    """Names of the nodes in an argument."""
    if isinstance(value, dict):
        if value.keys() == {"node"}:
            yield str(value["node"])
        else:
            for part in value.values():
                yield from referenced(part)
    elif isinstance(value, list):
        for part in value:
            yield from referenced(part)


def operands(row: Json) -> list[str]:
    """The nodes that a node uses."""
    return list(dict.fromkeys(referenced([row.get("args", []), row.get("kwargs", {})])))


@dataclass
class Programs:
    """The documents of a case, read when they are first asked for."""

    files: CaseFiles
    _graphs: dict[int, Json] = field(default_factory=dict)

    def paths(self) -> dict[int, Path]:
        """The graph files by rank."""
        found = {}
        for place, path in enumerate(self.files.dist):
            named = RANK_FILE.fullmatch(path.name)
            found[int(named.group(1)) if named else place] = path
        return found

    def graph(self, rank: int) -> Json:
        """The graph of a rank, which is not to be changed."""
        if rank not in self._graphs:
            self._graphs[rank] = read_json(self.paths()[rank], "graph")
        return self._graphs[rank]

    def sequential(self) -> Json:
        """The sequential graph."""
        found: Json = read_json(self.files.seq, "graph")
        return found

    def rows(self, rank: int) -> dict[str, Json]:
        """The nodes of a rank by name."""
        return {row["name"]: row for row in self.graph(rank)["nodes"]}

    def groups(self) -> Json | None:
        """What groups.json says; None where there is none and a group is all ranks."""
        path = self.files.groups
        return None if path is None else read_json(path, "groups")

    def changed(self, candidate: Candidate, folder: Path) -> CaseFiles:
        """The case with the candidate put in: what changes is written to ``folder``.

        Raises:
            InputError: the graphs are not those that the facts came from, or the groups that the
                candidate needs cannot be told.
        """
        names, groups = self._names(candidate.groups, folder)
        paths = self.paths()
        for rank in candidate.ranks:
            graph = self.graph(rank)
            for site in (s for s in candidate.sites if s.rank == rank):
                graph = edited(graph, site, candidate, names)
            paths[rank] = folder / f"dist.r{rank}.json"
            _write(paths[rank], graph)
        return replace(self.files, dist=list(paths.values()), groups=groups)

    def _names(self, groups: Sequence[Group], folder: Path) -> tuple[dict[Group, str], Path | None]:
        """What each group is called (on all of its ranks), and the file that says so."""
        document = self.groups()
        if not groups or document is None:
            if any(set(group) != set(self.paths()) for group in groups):
                raise InputError("without groups.json every group is all ranks")
            return dict.fromkeys(groups, "repair"), self.files.groups
        entries = list(document.get("dist", []))
        used = {name for entry in entries for name in entry["names"].values()}
        names = {}
        for number, group in enumerate(groups):
            names[group] = fresh(f"repair_{number}", used)
            told = {str(rank): names[group] for rank in group}
            entries.append({"ranks": list(group), "names": told})
        path = folder / "groups.json"
        _write(path, {**document, "dist": entries})
        return names, path


def _write(path: Path, document: Json) -> None:
    path.write_text(json.dumps(document), encoding="utf-8")
