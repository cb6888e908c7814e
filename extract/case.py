"""A case: the graphs of both sides with groups, input relations and outputs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from gg_datalog.extract.collectives import Communicator
from gg_datalog.extract.graph import Graph, Ref, load_graph, read_json
from gg_datalog.foundation.errors import InputError
from gg_datalog.foundation.regular import is_there

RANK_FILE = re.compile(r"dist\.r(\d+)\.json")


@dataclass(frozen=True)
class Output:
    """A sequential output and, per rank, the distributed node that is meant to hold it; where no
    rank returns anything for it, it cannot be rebuilt.

    ``name`` is what the program calls it, where a capture knows: a parameter's gradient; with
    ``any_layout`` the ranks may return its elements in any order; ``state`` are the sequential
    input that it is the new value of, and per rank what held that; ``lacks`` says per rank which
    input it uses without returning the gradient that the output is. ``gradient``: the output is
    declared to be a gradient."""

    seq: str
    dist: Mapping[int, str]
    partial: bool = False
    name: str = ""
    any_layout: bool = False
    state: tuple[str, Mapping[int, str]] | None = None
    lacks: Mapping[int, str] = field(default_factory=dict)
    gradient: bool = False

    @property
    def kind(self) -> str:
        """What it is, where the case says so: ``state`` or ``gradient``."""
        if self.state is not None:
            return "state"
        return "gradient" if self.gradient or self.lacks else ""


@dataclass(frozen=True)
class CaseFiles:
    """Where a case lies. ``chosen`` overrides the outputs file: ``SEQ`` or ``SEQ=DIST``."""

    seq: Path
    dist: Sequence[Path]
    groups: Path | None = None
    relations: Path | None = None
    outputs: Path | None = None
    chosen: Sequence[str] = ()
    partial: Sequence[str] = ()
    about: Path | None = None

    def below(self, old: Path, new: Path) -> CaseFiles:
        """The same files after their folder was renamed."""

        def moved(path: Path | None) -> Path | None:
            inside = path is not None and path.is_relative_to(old)
            return new / path.relative_to(old) if path is not None and inside else path

        return replace(
            self,
            seq=moved(self.seq) or self.seq,
            dist=[moved(path) or path for path in self.dist],
            groups=moved(self.groups),
            relations=moved(self.relations),
            outputs=moved(self.outputs),
            about=moved(self.about),
        )


@dataclass
class Case:
    """A case that was read."""

    seq: Graph
    dist: dict[int, Graph]
    groups: dict[str, dict[tuple[int, str], Communicator]]
    relations: list[dict[str, Any]] | None
    relations_path: str
    outputs: list[Output]
    notes: list[tuple[str, str]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def case_files(folder: Path) -> CaseFiles:
    """The files of a case folder."""
    if not folder.is_dir():
        raise InputError(
            "no such case folder", str(folder), "give a folder with seq.json and dist.r0.json"
        )
    ranked = sorted(
        (int(m.group(1)), p) for p in folder.iterdir() if (m := RANK_FILE.fullmatch(p.name))
    )
    if not is_there(folder / "seq.json"):
        raise InputError(
            "seq.json not found", str(folder), "a case folder holds seq.json and dist.r<rank>.json"
        )
    if not ranked:
        raise InputError(
            "no dist.r<rank>.json found", str(folder), "a case folder holds one graph per rank"
        )
    groups, relations, outputs, about = (
        p if is_there(p := folder / f"{name}.json") else None
        for name in ("groups", "relations", "outputs", "capture")
    )
    return CaseFiles(
        folder / "seq.json",
        [p for _, p in ranked],
        groups=groups,
        relations=relations,
        outputs=outputs,
        about=about,
    )


def load_case(files: CaseFiles) -> Case:
    """Reads and checks all files of a case."""
    if not files.dist:
        raise InputError("no distributed graph given", None, "give --dist once per rank")
    dist: dict[int, Graph] = {}
    for place, path in enumerate(files.dist):
        named = RANK_FILE.fullmatch(path.name)
        rank = int(named.group(1)) if named else place
        if rank in dist:
            raise InputError(
                f"two graphs for rank {rank}", str(path), "name them dist.r<rank>.json"
            )
        dist[rank] = load_graph(path, rank)
    dist = dict(sorted(dist.items()))
    case = Case(load_graph(files.seq, 0), dist, {}, None, str(files.relations), [])
    case.groups = _groups(files.groups, case)
    case.relations = None if files.relations is None else _rows(files.relations, "relations")
    case.outputs = _outputs(files, case)
    if files.about is not None:
        _read_about(files.about, case)
    return case


def _read_about(path: Path, case: Case) -> None:
    """How the graphs were made: what the capture took on trust is an assumption of the verdict."""
    document = read_json(path, "capture.json")
    lists = (
        [document.get(key, []) for key in ("assumptions", "warnings")]
        if isinstance(document, dict)
        else []
    )
    if len(lists) < 2 or not all(isinstance(rows, list) for rows in lists):
        raise InputError(
            "capture.json is an object with lists `assumptions` and `warnings`",
            str(path),
            "see docs/format.md",
        )
    for row in lists[0]:
        pair = (row.get("kind"), row.get("text")) if isinstance(row, dict) else (None, None)
        if not all(isinstance(text, str) for text in pair):
            raise InputError(f"assumption {row!r} needs `kind` and `text`", str(path))
        case.notes.append((str(pair[0]), str(pair[1])))
    for text in lists[1]:
        if not isinstance(text, str):
            raise InputError(f"warning {text!r} is no text", str(path))
        case.warnings.append(text)


def _rows(path: Path, what: str) -> list[dict[str, Any]]:
    rows = read_json(path, what)
    if not isinstance(rows, list) or not all(isinstance(r, dict) for r in rows):
        raise InputError(f"{what} must be a list of objects", str(path), "see docs/format.md")
    return rows


# ---- groups
def _groups(path: Path | None, case: Case) -> dict[str, dict[tuple[int, str], Communicator]]:
    graphs = {"seq": {0: case.seq}, "dist": case.dist}
    if path is None:
        case.notes.append(("groups", "no groups given: every process group is taken as all ranks"))
        return {side: _everyone(ranks) for side, ranks in graphs.items()}
    document = read_json(path, "groups")
    if not isinstance(document, dict):
        raise InputError(
            "groups must be an object with `seq` and `dist`", str(path), "see docs/format.md"
        )
    return {side: _side_groups(document.get(side, []), path, side) for side in graphs}


class _Everyone(dict[tuple[int, str], Communicator]):
    def __init__(self, ranks: Sequence[int]) -> None:
        super().__init__()
        self.ranks = tuple(ranks)
        self.named: dict[str, Communicator] = {}

    def get(self, key: tuple[int, str], default: Any = None) -> Communicator:
        """The group of that name, whoever asks."""
        return self.named.setdefault(key[1], Communicator(len(self.named), self.ranks))


def _everyone(ranks: Mapping[int, Graph]) -> dict[tuple[int, str], Communicator]:
    return _Everyone(list(ranks))


def _side_groups(entries: Any, path: Path, side: str) -> dict[tuple[int, str], Communicator]:
    found: dict[tuple[int, str], Communicator] = {}
    if not isinstance(entries, list):
        raise InputError(f"`{side}` must be a list", str(path), "see docs/format.md")
    for number, entry in enumerate(entries):
        where = f"{path}: {side} group {number}"
        ranks, names = (
            (entry.get("ranks"), entry.get("names")) if isinstance(entry, dict) else (None, None)
        )
        if not isinstance(ranks, list) or not isinstance(names, dict) or not ranks:
            raise InputError("a group has `ranks` and `names`", where, "see docs/format.md")
        if not all(type(r) is int and r >= 0 for r in ranks) or len(set(ranks)) < len(ranks):
            raise InputError(
                f"ranks {ranks} are not distinct integers", where, "see docs/format.md"
            )
        group = Communicator(number, tuple(ranks))
        for rank, name in names.items():
            if not rank.isdecimal() or int(rank) not in ranks:
                raise InputError(
                    f"`names` speaks of rank {rank}, which is no member",
                    where,
                    "list it in `ranks`, or leave its name out",
                )
            if not isinstance(name, str):
                raise InputError(f"the name {name!r} on rank {rank} is no string", where)
            if (int(rank), name) in found:
                raise InputError(
                    f"two groups are called `{name}` on rank {rank}", where, "names are unique"
                )
            found[int(rank), name] = group
    return found


# ---- outputs
def _outputs(files: CaseFiles, case: Case) -> list[Output]:
    if files.chosen:
        rows = [_chosen(text, case) for text in files.chosen]
    elif files.outputs is not None:
        rows = [_output(r, files.outputs) for r in _rows(files.outputs, "outputs")]
    else:
        rows = _default_outputs(case)
    rows = [_marked(r, files.partial) for r in rows]
    if not rows:
        raise InputError(
            "there is no output to check",
            str(files.outputs or files.seq),
            "list outputs in outputs.json or give --output SEQ=DIST",
        )
    for row in rows:
        _check_output(row, case)
        if not row.dist:
            title = f" (`{row.name}`)" if row.name else ""
            case.warnings.append(f"no rank returns anything for output `{row.seq}`{title}")
    for name in set(files.partial) - {r.seq for r in rows}:
        raise InputError(
            f"--allow-partial names `{name}`, which is no output", None, "check the name"
        )
    return rows


def _marked(row: Output, partial: Sequence[str]) -> Output:
    return replace(row, partial=row.partial or row.seq in partial)


def _chosen(text: str, case: Case) -> Output:
    seq, equals, dist = text.partition("=")
    if not equals:
        for row in _default_outputs(case):
            if row.seq == seq:
                return row
    return Output(seq, dict.fromkeys(case.dist, dist or seq))


def _output(row: Mapping[str, Any], path: Path) -> Output:
    seq, dist = row.get("seq"), row.get("dist")
    names: dict[str, Any] = dist if isinstance(dist, dict) else {"": dist}
    texts = isinstance(seq, str) and all(isinstance(name, str) for name in names.values())
    ranked = isinstance(dist, str) or all(rank.isdecimal() for rank in names)
    if not texts or not ranked:
        raise InputError(f"row {row} needs `seq` and `dist`", str(path), "see docs/format.md")
    partial = row.get("partial", False)
    if not isinstance(partial, bool):
        raise InputError(f"`partial` of output `{seq}` is neither true nor false", str(path))
    title = row.get("name", "")
    if not isinstance(title, str):
        raise InputError(f"`name` of output `{seq}` is no string", str(path))
    if row.get("placement", "any") != "any":
        hint = 'leave it out, or say "any"; orders that are known belong into relations.json'
        raise InputError(f"unknown `placement` of output `{seq}`", str(path), hint)
    if row.get("kind", "gradient") != "gradient":
        hint = 'leave it out, or say "gradient"; new values of inputs have `state`'
        raise InputError(f"unknown `kind` of output `{seq}`", str(path), hint)
    found = {int(r or -1): node for r, node in names.items()}
    return Output(
        str(seq),
        found,
        partial,
        title,
        any_layout="placement" in row,
        state=_state(row, path),
        lacks=_lacks(row, path),
        gradient="kind" in row,
    )


def _lacks(row: Mapping[str, Any], path: Path) -> Mapping[int, str]:
    """The ranks that use what an output is the gradient of and return none: what they use."""
    names = _by_rank(row.get("lacks", {}))
    if names is None:
        hint = '{"1": NODE, ...}; see docs/format.md'
        raise InputError(f"`lacks` of output `{row.get('seq')}` names no inputs", str(path), hint)
    return names


def _by_rank(given: Any) -> dict[int, str] | None:
    """The nodes of ranks; None where it is none."""
    if not isinstance(given, dict):
        return None
    if not all(isinstance(node, str) and rank.isdecimal() for rank, node in given.items()):
        return None
    return {int(rank): node for rank, node in given.items()}


def _state(row: Mapping[str, Any], path: Path) -> tuple[str, Mapping[int, str]] | None:
    """What an output is the new value of; None where it is no state."""
    given = row.get("state")
    if given is None:
        return None
    seq, dist = (given.get("seq"), given.get("dist")) if isinstance(given, dict) else (None, None)
    names = _by_rank(dist if isinstance(dist, dict) else {})
    if not isinstance(seq, str) or names is None:
        hint = '{"seq": NODE, "dist": {"0": NODE, ...}}; see docs/format.md'
        raise InputError(f"`state` of output `{row.get('seq')}` names no inputs", str(path), hint)
    return seq, names


def _default_outputs(case: Case) -> list[Output]:
    """Paired by position where both sides return as many, else by name."""
    seq, dist = _returned(case.seq), {rank: _returned(g) for rank, g in case.dist.items()}
    if all(len(d) == len(seq) for d in dist.values()):
        how = "position"
        found = [
            Output(s, {r: name for r, d in dist.items() if (name := d[i]) is not None})
            for i, s in enumerate(seq)
            if s is not None
        ]
    else:
        how = "name"
        found = [
            Output(s, {r: s for r, d in dist.items() if s in d})
            for s in dict.fromkeys(seq)
            if s is not None
        ]
    if not any(row.dist for row in found):
        raise InputError(
            "no sequential output has a counterpart in the distributed graphs",
            case.seq.path,
            "pair them with --output SEQ=DIST or in outputs.json",
        )
    case.notes.append(("outputs", f"outputs are paired by {how}"))
    return found


def _returned(graph: Graph) -> list[str | None]:
    return [r.name if isinstance(r, Ref) else None for r in graph.returns]


def _check_output(row: Output, case: Case) -> None:
    if row.seq not in case.seq.nodes:
        raise InputError(
            f"output `{row.seq}` is no node of the sequential graph",
            case.seq.path,
            "check the name",
        )
    _check_state(row, case)
    for rank, name in row.dist.items():
        for graph in case.dist.values() if rank == -1 else [case.dist.get(rank)]:
            if graph is None:
                raise InputError(
                    f"output `{row.seq}` names rank {rank}, which has no graph",
                    None,
                    "give the graph of that rank, or leave the rank out",
                )
            if name not in graph.nodes:
                raise InputError(
                    f"output `{name}` is no node of rank {graph.rank}", graph.path, "check the name"
                )
            returned = {r.name for r in graph.returns if isinstance(r, Ref)}
            if name not in returned:
                raise InputError(
                    f"rank {graph.rank} does not return `{name}`",
                    graph.path,
                    "an output pairs what both sides return",
                )


def _check_state(row: Output, case: Case) -> None:
    """The inputs that an output is the new value of, or the gradient of, are there."""
    seq, dist = row.state or ("", {})
    graphs: list[tuple[str, Graph | None, str]] = []
    graphs += [("state", case.seq, seq)] if row.state else []
    graphs += [("state", case.dist.get(rank), name) for rank, name in dist.items()]
    graphs += [("lacks", case.dist.get(rank), name) for rank, name in row.lacks.items()]
    for key, graph, name in graphs:
        node = None if graph is None else graph.nodes.get(name)
        if node is None or node.op not in ("placeholder", "get_attr"):
            where = None if graph is None else graph.path
            text = f"`{key}` of output `{row.seq}` names `{name}`, which is no input"
            raise InputError(text, where, "name placeholders, on ranks that have a graph")


def output_on(row: Output, rank: int) -> str | None:
    """The node that rank ``rank`` returns for the output."""
    return row.dist.get(rank, row.dist.get(-1))
