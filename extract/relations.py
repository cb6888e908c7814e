"""Input relations: reading rows, guessing them where none are given, refusing contradictions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gg_datalog.extract.case import Case
from gg_datalog.extract.graph import Graph, Node
from gg_datalog.foundation.errors import InputError

Box = tuple[tuple[int, int], ...]
KEYS = {"seq", "seq_box", "rank", "dist", "dist_box", "permute"}


@dataclass(frozen=True)
class Row:
    """``seq[seq_box] == dist[dist_box]`` on ``rank``; boxes are (lo, hi) per dimension.

    With ``permute`` it is ``seq[seq_box].permute(permute)``: dimension ``i`` of the distributed
    tensor is dimension ``permute[i]`` of the sequential one. Empty where the order is the same."""

    seq: str
    rank: int
    dist: str
    seq_box: Box
    dist_box: Box
    permute: tuple[int, ...] = ()

    @property
    def order(self) -> tuple[int, ...]:
        """Per distributed dimension the sequential one."""
        return self.permute or tuple(range(len(self.seq_box)))


def input_rows(case: Case) -> list[Row]:
    """The rows given, checked; or guessed ones, each noted as an assumption."""
    if case.relations is None:
        return list(_guessed(case))
    rows = [_read(r, i, case) for i, r in enumerate(case.relations)]
    kept = list(dict.fromkeys(r for r in rows if r is not None))
    _check_consistent(kept, case)
    return kept


def _is_source(node: Node | None) -> bool:
    """May an input relation name the node: placeholder, constant, no operands?"""
    return node is not None and (
        node.op in ("placeholder", "get_attr")
        or (node.op == "call_function" and not node.references)
    )


def cut_in_two_ways(rows: Sequence[Row]) -> bool:
    """Are there tensors that are spread over the ranks in different ways, or in two dimensions?"""
    boxes: dict[str, dict[Box, list[int]]] = {}
    for row in rows:
        boxes.setdefault(row.seq, {}).setdefault(row.seq_box, []).append(row.rank)
    ways = set()
    for cuts in boxes.values():
        if len(cuts) < 2:
            continue
        dims = [i for i, column in enumerate(zip(*cuts, strict=True)) if len(set(column)) > 1]
        if len(dims) > 1:
            return True
        ways.add(frozenset(tuple(sorted(ranks)) for ranks in cuts.values()))
    return len(ways) > 1


# ---- rows given
def _read(row: Mapping[str, Any], number: int, case: Case) -> Row | None:
    where = f"{case.relations_path}: row {number}"
    rank, seq, dist = row.get("rank"), row.get("seq"), row.get("dist")
    if not isinstance(seq, str) or not isinstance(dist, str) or type(rank) is not int:
        raise InputError("a row has `seq`, `rank` and `dist`", where, "see docs/format.md")
    if unknown := set(row) - KEYS:
        raise InputError(
            f"unknown key `{min(unknown)}`", where, f"known: {', '.join(sorted(KEYS))}"
        )
    if rank not in case.dist:
        case.warnings.append(
            f"row {number} of the input relations names rank {rank}, which has no graph"
        )
        return None
    ours = _node(case.seq, seq, where)
    theirs = _node(case.dist[rank], dist, where)
    if ours is None or theirs is None:
        case.warnings.append(
            f"row {number} of the input relations is left out: `{seq}` has a symbolic size"
        )
        return None
    boxes = _box(row.get("seq_box"), ours, where), _box(row.get("dist_box"), theirs, where)
    permute = _permutation(row.get("permute"), len(boxes[0]), where)
    sizes = [tuple(hi - lo for lo, hi in box) for box in boxes]
    sizes[0] = tuple(sizes[0][i] for i in permute) if permute else sizes[0]
    if sizes[0] != sizes[1]:
        raise InputError(
            f"`{seq}` {list(sizes[0])} and `{dist}` of rank {rank} {list(sizes[1])} differ in size",
            where,
            "both boxes hold the same elements",
        )
    if _family(ours.dtype) != _family(theirs.dtype):
        raise InputError(
            f"`{seq}` is {ours.dtype}, `{dist}` of rank {rank} is {theirs.dtype}", where
        )
    return Row(seq, rank, dist, *boxes, permute)


def _permutation(given: Any, dimensions: int, where: str) -> tuple[int, ...]:
    """The order of dimensions, checked; empty where it changes nothing."""
    same = list(range(dimensions))
    if given is None:
        return ()
    numbers = isinstance(given, list) and all(type(i) is int for i in given)
    if not numbers or sorted(given) != same:
        raise InputError(
            f"permute {given!r} is no order of {dimensions} dimensions",
            where,
            "list, per dimension of the distributed tensor, the sequential dimension it is",
        )
    return () if given == same else tuple(given)


def _node(graph: Graph, name: str, where: str) -> Node | None:
    node = graph.nodes.get(name)
    if node is None:
        raise InputError(f"`{name}` is no node of {graph.path}", where, "check the name")
    if not _is_source(node):
        raise InputError(
            f"`{name}` of {graph.path} is computed from other nodes",
            where,
            "input relations speak of placeholders, constants and nodes without operands",
        )
    if node.shape is None:
        raise InputError(f"`{name}` of {graph.path} is not one tensor", where)
    return None if any(isinstance(e, str) for e in node.shape) else node


def _family(dtype: str | None) -> str:
    text = dtype or ""
    return "bool" if text == "bool" else "int" if text.startswith(("int", "uint")) else "float"


def _box(box: Any, node: Node, where: str) -> Box:
    shape = [int(e) for e in node.shape or ()]
    if box is None:
        return tuple((0, e) for e in shape)
    fits = (
        isinstance(box, list)
        and len(box) == len(shape)
        and all(isinstance(b, list) and len(b) == 2 and all(type(v) is int for v in b) for b in box)
    )
    if not fits:
        raise InputError(f"box {box} of `{node.name}` is not one [lo, hi] per dimension", where)
    for (lo, hi), extent in zip(box, shape, strict=True):
        if not 0 <= lo < hi <= extent:
            raise InputError(
                f"[{lo}, {hi}] of `{node.name}` is outside [0, {extent}] or empty", where
            )
    return tuple((lo, hi) for lo, hi in box)


def _check_consistent(rows: Sequence[Row], case: Case) -> None:
    """Rows that speak of the same elements of a distributed tensor have to say the same."""
    groups: dict[tuple[int, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.rank, row.dist), []).append(row)
    for (rank, dist), mine in groups.items():
        for i, a in enumerate(mine):
            for b in mine[:i]:
                if _meet(a.dist_box, b.dist_box) and not _agree(a, b):
                    raise InputError(
                        f"`{dist}` of rank {rank} is said to hold both "
                        f"`{a.seq}`{_text(a.seq_box)} and `{b.seq}`{_text(b.seq_box)}",
                        case.relations_path,
                        "rows that overlap have to agree element by element",
                    )


def _meet(a: Box, b: Box) -> bool:
    return all(x[0] < y[1] and y[0] < x[1] for x, y in zip(a, b, strict=True))


def _agree(a: Row, b: Row) -> bool:
    """Do two rows that meet say the same of the elements that they share?"""
    shared = [
        (max(x[0], y[0]), min(x[1], y[1])) for x, y in zip(a.dist_box, b.dist_box, strict=True)
    ]
    long = [i for i, (lo, hi) in enumerate(shared) if hi - lo > 1]
    return (
        a.seq == b.seq
        and _corner(a, shared) == _corner(b, shared)
        and all(a.order[i] == b.order[i] for i in long)
    )


def _corner(row: Row, shared: Sequence[tuple[int, int]]) -> list[int]:
    """The sequential position of the first element of a distributed box."""
    found = [0] * len(row.order)
    for i, of in enumerate(row.order):
        found[of] = row.seq_box[of][0] - row.dist_box[i][0] + shared[i][0]
    return found


def _text(box: Box) -> str:
    return "[" + ", ".join(f"{lo}:{hi}" for lo, hi in box) + "]"


# ---- rows guessed
def _guessed(case: Case) -> list[Row]:
    rows: list[Row] = []
    ours = [n for n in case.seq.nodes.values() if n.op == "placeholder"]
    for node in ours:
        name = node.name
        for place, (rank, graph) in enumerate(case.dist.items()):
            other = graph.nodes.get(name)
            if not _is_source(other) or other is None or other.shape is None or node.shape is None:
                case.warnings.append(
                    f"`{name}` of rank {rank}: no placeholder of that name to pair with"
                )
                continue
            row = _guess(node, other, rank, place, len(case.dist))
            if row is None:
                case.warnings.append(
                    f"`{name}` of rank {rank} is {list(other.shape)}, "
                    f"sequentially {list(node.shape)}: left open, give an input relation"
                )
                continue
            how = "a replica" if row.seq_box == row.dist_box else f"the shard {_text(row.seq_box)}"
            case.notes.append(("guessed relation", f"`{name}` of rank {rank} is taken as {how}"))
            rows.append(row)
    return rows


def _guess(node: Node, other: Node, rank: int, place: int, ranks: int) -> Row | None:
    ours, theirs = node.shape or (), other.shape or ()
    if len(ours) != len(theirs) or any(isinstance(e, str) for e in (*ours, *theirs)):
        return None
    full = tuple((0, int(e)) for e in theirs)
    if ours == theirs:
        return Row(node.name, rank, other.name, full, full)
    cut = [i for i, (a, b) in enumerate(zip(ours, theirs, strict=True)) if a != b]
    if len(cut) != 1 or int(theirs[cut[0]]) * ranks != ours[cut[0]]:
        return None
    box = list(full)
    width = int(theirs[cut[0]])
    box[cut[0]] = (place * width, (place + 1) * width)
    return Row(node.name, rank, other.name, tuple(box), full)
