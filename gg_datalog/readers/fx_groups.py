"""Process groups of printed graphs: the text holds names, the command line says who they are."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from gg_datalog.extract.names import COLLECTIVE_SPACES
from gg_datalog.extract.signature import packet_of
from gg_datalog.extract.table import Table, load_table
from gg_datalog.foundation.errors import InputError
from gg_datalog.readers.fx_nodes import Program
from gg_datalog.readers.fx_values import Json

RANKED = re.compile(r"(\d+):(.+)")
SIZED = ("all_gather_into_tensor", "reduce_scatter_tensor")
SEVERAL = "where a name means another group on another rank, say of which: --group 2:NAME=2,3"


@dataclass
class _Entry:
    """A communicator: its members, and what each calls it. ``ranked``: named rank by rank."""

    ranks: tuple[int, ...]
    names: dict[int, str] = field(default_factory=dict)
    ranked: bool = False


def group_document(
    given: Mapping[str, tuple[int, ...]], seq: Program, dist: Mapping[int, Program]
) -> Json | None:
    """The groups of a case, where any were given; every collective then has to find its own."""
    if not given:
        return None
    entries: list[_Entry] = []
    for name, ranks in given.items():
        _add(entries, name, ranks, dist)
    _check(entries, dist)
    return {"seq": _alone(seq), "dist": [_document(entry) for entry in entries if entry.names]}


def _add(
    entries: list[_Entry], text: str, ranks: tuple[int, ...], dist: Mapping[int, Program]
) -> None:
    option = f"--group {text}={','.join(map(str, ranks))}"
    absent = [rank for rank in ranks if rank not in dist]
    if absent or len(set(ranks)) < len(ranks):
        what = f"there is no file for rank {absent[0]}" if absent else "a rank is named twice"
        raise InputError(f"{option}: {what}", None, f"the files given are of ranks {list(dist)}")
    found = RANKED.fullmatch(text)
    ranked = found is not None and not any(text in _words(one) for one in dist.values())
    names = {rank: text for rank in ranks if text in _words(dist[rank])}
    if found is not None and ranked:
        names = {int(found[1]): found[2]}
        if int(found[1]) not in ranks:
            raise InputError(f"{option}: rank {found[1]} is no member", None, "list it there")
    _join(entries, _Entry(ranks, names, ranked))


def _join(entries: list[_Entry], new: _Entry) -> None:
    """Options that name one group rank by rank: by the name they share, else in their order."""
    free = [
        old
        for old in entries
        if old.ranks == new.ranks
        and (old.ranked or new.ranked)
        and not set(old.names) & set(new.names)
    ]
    shared = [old for old in free if set(old.names.values()) & set(new.names.values())]
    if free:
        (shared or free)[0].names |= new.names
    else:
        entries.append(new)


def _check(entries: list[_Entry], dist: Mapping[int, Program]) -> None:
    """Every collective finds its group, and only one."""
    known: dict[tuple[int, str], _Entry] = {}
    for entry in entries:
        for rank, name in entry.names.items():
            if (rank, name) in known:
                raise InputError(f"two groups are called `{name}` on rank {rank}", None, SEVERAL)
            known[rank, name] = entry
    for rank, program in dist.items():
        for node, name in _collectives(program):
            if (rank, name) not in known:
                raise InputError(
                    f"node `{node['name']}` of rank {rank}: its group `{name}` is not given",
                    program.where(node["name"]),
                    f"give its members: --group {name}=0,1,... "
                    f"(of this rank alone: --group {rank}:{name}=0,1,...)",
                )


def unused(given: Mapping[str, tuple[int, ...]], document: Json | None) -> Iterator[str]:
    """Warnings about options that speak of no collective."""
    entries = document["dist"] if document else []
    named = {(int(r), name) for e in entries for r, name in e["names"].items()}
    for text in given:
        found = RANKED.fullmatch(text)
        plain = any(name == text for _, name in named)
        if not plain and not (found and (int(found[1]), found[2]) in named):
            yield f"--group {text}=...: no graph names such a group"


def _alone(seq: Program) -> list[Json]:
    """The sequential program is one process: each of its groups has one member."""
    names = dict.fromkeys(name for _, name in _collectives(seq))
    return [{"ranks": [0], "names": {"0": name}} for name in names]


def _document(entry: _Entry) -> Json:
    return {
        "ranks": list(entry.ranks),
        "names": {str(rank): name for rank, name in sorted(entry.names.items())},
    }


def _collectives(program: Program) -> Iterator[tuple[Json, str]]:
    """The collectives with the names of their groups."""
    table = load_table()
    for node in program.nodes:
        kind = _kind(node, table)
        if kind is not None and (words := list(_texts(node))):
            yield node, words[-1]


def _kind(node: Json, table: Table) -> str | None:
    """Which collective a node is, if it is one."""
    space, _, kernel = table.called(packet_of(node["target"])).partition(".")
    collective = space in COLLECTIVE_SPACES and kernel != "wait_tensor"
    return kernel if collective and node["op"] == "call_function" else None


def _texts(node: Json) -> Iterator[str]:
    yield from (value for value in node["args"] if isinstance(value, str))
    words = (node["kwargs"].get(key) for key in ("group_name", "group"))
    yield from (value for value in words if isinstance(value, str))


def _words(program: Program) -> set[str]:
    """Every text among the arguments: operators of the user's own may be collectives too."""
    found: set[str] = set()
    for node in program.nodes:
        found.update(v for v in [*node["args"], *node["kwargs"].values()] if isinstance(v, str))
    return found


def contradictions(seq: Json, dist: Mapping[int, Json]) -> None:
    """Where no groups are given every group is taken as all ranks: do the graphs say otherwise?"""
    table = load_table()
    for ranks, graph in [(1, seq), *((len(dist), graph) for graph in dist.values())]:
        for node in graph["nodes"]:
            kind = (_kind(node, table) or "").removesuffix("_coalesced")
            sizes = [v for v in node["args"][1:] if type(v) is int]
            if kind in SIZED and sizes and sizes[-1] != ranks:
                name = ([*_texts(node)] or ["NAME"])[-1]
                raise InputError(
                    f"node `{node['name']}` says that its group `{name}` has {sizes[-1]} members, "
                    f"not all {ranks} of this side",
                    graph.get("origin"),
                    f"say who they are: --group {name}=0,1,..., or give --groups FILE",
                )
