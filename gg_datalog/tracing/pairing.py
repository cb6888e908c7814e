"""Input relations of a captured pair: from placements, from what the user declares, or guessed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import torch

from gg_datalog.foundation.errors import InputError
from gg_datalog.tracing.located import located, uninformative
from gg_datalog.tracing.override import Declared, Override
from gg_datalog.tracing.pieces import Box, Piece, agree
from gg_datalog.tracing.record import InputRecord, RankRecord
from gg_datalog.tracing.values import unpacked

Json = dict[str, Any]
Held = tuple[InputRecord, int, InputRecord]  # of the sequential program, rank, of the rank


@dataclass
class Related:
    """The rows of relations.json, and what was taken on trust.

    ``held`` says which input of the sequential program an input of a rank belongs to, ``compared``
    names those whose values say it, ``in_part`` those whose gradient some ranks may lack,
    ``shapes`` what every rank has under a name, ``records`` all that is known of it.
    """

    rows: list[Json] = field(default_factory=list)
    held: list[Held] = field(default_factory=list)
    compared: dict[str, None] = field(default_factory=dict)
    in_part: set[str] = field(default_factory=set)
    guessed: dict[str, dict[str, None]] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    shapes: dict[str, dict[int, Sequence[int | str]]] = field(default_factory=dict)
    records: dict[int, RankRecord] = field(default_factory=dict)

    def guess(self, name: str, what: str) -> None:
        """Remembers that an input is taken, by its name and shape, to be that."""
        self.guessed.setdefault(what, {})[name] = None

    def assumptions(self) -> list[tuple[str, str]]:
        """One text for all that is guessed in the same way."""
        how = "taken, by name or place and by shape, as"
        said = [
            ("guessed relation", f"{how} {what}: {listed(list(names))}")
            for what, names in self.guessed.items()
        ]
        if self.compared:
            names = listed(list(self.compared))
            said.append(("computed values", f"hold what building the program computes: {names}"))
        return said


SHOWN = 12


def listed(names: Sequence[str]) -> str:
    """Names for a message, the first dozen of them."""
    shown = ", ".join(f"`{name}`" for name in names[:SHOWN])
    return shown + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")


def relate(
    sequential: RankRecord, ranks: Sequence[RankRecord], override: Override, world_size: int
) -> Related:
    """One or more rows for every input of every rank whose counterpart is known."""
    found = Related()
    used: set[str] = set()
    for record in ranks:
        found.records[record.rank] = record
        for one in record.inputs:
            found.shapes.setdefault(one.name, {})[record.rank] = one.local
    for record in ranks:
        belongs = counterparts(sequential, record, override)
        for one in record.inputs:
            declared, ours = override.declared(one.name), belongs.get(one.node)
            if ours is None:
                _without_counterpart(one, record, declared, found)
                continue
            used.add(ours.node)
            found.held.append((ours, record.rank, one))
            if override.in_part(one.name):
                found.in_part.add(ours.update)
            for row in _rows(ours, one, record, declared, world_size, found):
                found.rows.append(row)
    for one in sequential.inputs:
        if one.node not in used:
            found.warnings.append(f"no rank has an input that holds `{one.name}`")
    override.check_used()
    return found


def counterparts(
    sequential: RankRecord, record: RankRecord, override: Override
) -> dict[str, InputRecord]:
    """The sequential input that an input of a rank, by its node, belongs to, where there is one."""
    found: dict[str, InputRecord] = {}
    theirs = _by_place(sequential)
    passed = theirs if theirs.keys() == _by_place(record).keys() else {}
    named: dict[str, list[InputRecord]] = {}
    for other in sequential.inputs:
        named.setdefault(other.name, []).append(other)
    for one in record.inputs:
        declared = override.declared(one.name)
        name = one.name if declared is None else declared.sequential(one.name)
        ours = None if declared is not None else passed.get(one.passed)
        ours = ours or _counterpart(named.get(name, ()), one.kind)
        found |= {} if ours is None else {one.node: ours}
    return found


def _by_place(record: RankRecord) -> dict[str, InputRecord]:
    """Arguments by the place at which they are passed, those that are passed by place."""
    return {one.passed: one for one in record.inputs if one.passed}


def _counterpart(named: Sequence[InputRecord], kind: str) -> InputRecord | None:
    """Of the sequential inputs of one name one of the same kind, where an argument is called as a
    parameter is."""
    return next((one for one in named if one.kind == kind), next(iter(named), None))


def _without_counterpart(
    one: InputRecord, record: RankRecord, declared: Declared | None, found: Related
) -> None:
    if declared is not None and not declared.optional:
        raise InputError(
            f"{declared.where} pairs `{one.name}` of {record.who} with "
            f"`{declared.sequential(one.name)}`, which is no input "
            "of the sequential program",
            None,
            "correct `sequential` there",
        )
    if one.kind in ("parameter", "input"):
        found.warnings.append(
            f"{one.kind} `{one.name}` of {record.who} has no counterpart of that name in the "
            "sequential program: nothing is known of it (relations.toml can say)"
        )


def _rows(
    ours: InputRecord,
    one: InputRecord,
    record: RankRecord,
    declared: Declared | None,
    world_size: int,
    found: Related,
) -> Iterator[Json]:
    head = {"seq": ours.node, "rank": record.rank, "dist": one.node}
    if any(isinstance(e, str) for e in (*ours.shape, *one.local)):
        found.warnings.append(f"`{one.name}` of {record.who} has a size that depends on data")
        return
    if declared is not None:
        said = declared.pieces(_sizes(ours.shape), _sizes(one.local), record.rank, world_size)
        _check_agreement(said, one, record, declared)
        for seq_box, dist_box in said:
            row = {**head, "seq_box": seq_box, "dist_box": dist_box}
            yield row | ({"permute": list(declared.permute)} if declared.permute else {})
        return
    if one.pieces is not None:
        _check_shape(ours, one, record)
        for seq_box, dist_box in one.pieces:
            yield {**head, "seq_box": seq_box, "dist_box": dist_box}
        return
    yield from _guessed(ours, one, record, head, world_size, found)


def _own_shape(one: InputRecord) -> list[int]:
    """The shape that the program has."""
    sizes = _sizes(one.local)
    return [prod(sizes)] if one.flattened else sizes


def _sizes(shape: Sequence[int | str]) -> list[int]:
    return [int(e) for e in shape]


def _check_shape(ours: InputRecord, one: InputRecord, record: RankRecord) -> None:
    if tuple(one.shape) != tuple(ours.shape):
        raise InputError(
            f"`{one.name}` is {list(ours.shape)} in the sequential program, and globally "
            f"{list(one.shape)} according to {one.because} of {record.who}",
            None,
            "is it padded, or fused in another way? say so in relations.toml",
        )


def _check_agreement(
    said: Sequence[Any], one: InputRecord, record: RankRecord, declared: Declared
) -> None:
    """What the user declares and what the framework says must not contradict each other."""
    if one.pieces is None or declared.overrules:
        return
    order = declared.permute
    ours = [([seq[i] for i in order] or seq, dist) for seq, dist in said]
    if not (agree(ours, one.pieces) and agree(one.pieces, ours)):
        raise InputError(
            f"`{one.name}` of {record.who}: {declared.where} says {_text(said)}, "
            f"{one.because} say {_text(one.pieces)}",
            None,
            "correct one of them, or write `overrules = true` there",
        )


def _text(pieces: Sequence[Any]) -> str:
    shown = ["[" + ", ".join(f"{lo}:{hi}" for lo, hi in seq) + "]" for seq, _ in pieces[:4]]
    return ", ".join(shown) + (", ..." if len(pieces) > 4 else "")


def _guessed(
    ours: InputRecord,
    one: InputRecord,
    record: RankRecord,
    head: Mapping[str, Any],
    world_size: int,
    found: Related,
) -> Iterator[Json]:
    """By name and shape: equal shapes are replicas, one smaller dimension is a shard."""
    guess = _uneven(ours, one, record, world_size, found)
    guess = guess or _guess(ours, one, record, world_size)
    theirs, mine = told(one), told(ours)
    if theirs is not None and mine is not None:
        expected = guess[0] if guess is not None else None
        pieces = located(mine, theirs, expected)
        if pieces is not None:
            yield from _compared(pieces, expected, one, record, head, found)
            return
    if guess is None:
        found.warnings.append(
            f"`{one.name}` of {record.who} is {_own_shape(one)}, sequentially "
            f"{_sizes(ours.shape)}: left open, say in relations.toml what it holds"
        )
        return
    box, what = guess
    found.guess(one.name, f"{what}, flattened" if one.flattened else what)
    yield {**head} if one.local == ours.shape else {**head, "seq_box": box}


def told(record: InputRecord) -> torch.Tensor | None:
    """The values of an input, where they say what it is: one number everywhere says nothing of
    what a checkpoint will put there."""
    value = unpacked(record.value) if record.value is not None else None
    return None if value is not None and record.saved and uninformative(value) else value


def _guess(
    ours: InputRecord, one: InputRecord, record: RankRecord, world_size: int
) -> tuple[Box, str] | None:
    """The part of the sequential input that a rank seems to hold, in words, too."""
    mine, theirs = _sizes(ours.shape), _sizes(one.local)
    box = [[0, e] for e in theirs]
    if mine == theirs:
        return box, "replicas of the sequential input"
    if one.flattened:
        return _flat_guess(mine, theirs, one, record, world_size)
    cut = [d for d, (a, b) in enumerate(zip(mine, theirs, strict=False)) if a != b]
    parts = mine[cut[0]] // theirs[cut[0]] if len(cut) == 1 and theirs[cut[0]] else 0
    fits = len(mine) == len(theirs) and len(cut) == 1 and parts * theirs[cut[0]] == mine[cut[0]]
    if not fits or parts < 2 or world_size % parts:
        return None
    place, order = _place(one, record, parts, world_size)
    width = theirs[cut[0]]
    box[cut[0]] = [place * width, (place + 1) * width]
    return box, f"one of {parts} shards of dimension {cut[0]}, {order}"


def _flat_guess(
    mine: Sequence[int],
    theirs: Sequence[int],
    one: InputRecord,
    record: RankRecord,
    world_size: int,
) -> tuple[Box, str] | None:
    """What a rank seems to hold of all elements, share after share: of a flattened input."""
    count = prod(theirs)
    parts, rest = divmod(prod(mine), count)
    if rest or world_size % parts:
        return None
    place, order = _place(one, record, parts, world_size)
    box, first = list[list[int]](), place * count
    for dim, width in enumerate(theirs):
        inner = prod(mine[dim + 1 :])
        start = first // inner % mine[dim]
        if start + width > mine[dim]:
            return None
        box.append([start, start + width])
    return box, f"one of {parts} shares of all elements, {order}"


def _uneven(
    ours: InputRecord,
    one: InputRecord,
    record: RankRecord,
    world_size: int,
    found: Related,
) -> tuple[Box, str] | None:
    """The same where shards have several sizes: those of all ranks are known, and add up."""
    shapes = found.shapes[one.name]
    theirs = [shapes[r] for r in sorted(shapes)]
    if len(theirs) != world_size or any(len(shape) != len(ours.shape) for shape in theirs):
        return None
    cut = {d for shape in theirs for d, e in enumerate(shape) if e != ours.shape[d]}
    if len(cut) != 1 or any(isinstance(e, str) for shape in theirs for e in shape):
        return None
    (dim,) = cut
    widths = [int(shape[dim]) for shape in theirs]
    if len(set(widths)) == 1:
        return None
    for parts in (n for n in range(2, world_size + 1) if world_size % n == 0):
        placed = [_place(one, found.records[r], parts, world_size) for r in range(world_size)]
        places = [place for place, _ in placed]
        shards = dict(zip(places, widths, strict=True))
        if [shards[place] for place in places] != widths or sum(shards.values()) != ours.shape[dim]:
            continue
        place, order = placed[record.rank]
        start = sum(shards[p] for p in range(place))
        box = [[0, e] for e in _sizes(one.local)]
        box[dim] = [start, start + widths[record.rank]]
        return box, f"one of {parts} uneven shards of dimension {dim}, {order}"
    return None


def _compared(
    pieces: Sequence[Piece],
    expected: Box | None,
    one: InputRecord,
    record: RankRecord,
    head: Mapping[str, Any],
    found: Related,
) -> Iterator[Json]:
    """Values say which part it is, whatever its place among the ranks."""
    found.compared[one.name] = None
    if not pieces:
        found.warnings.append(
            f"{one.kind} `{one.name}` of {record.who} holds nothing of what the sequential one "
            "holds, as their values show: nothing is known of it"
        )
    elif (
        expected is not None and [seq for seq, _ in pieces] != [expected] and not _own_integers(one)
    ):
        found.warnings.append(
            f"{one.kind} `{one.name}` of {record.who} holds {_text(pieces)} of the sequential one, "
            f"as their values show, where its place among the ranks lets expect "
            f"{_text([(expected, expected)])}"
        )
    for seq_box, dist_box in pieces:
        yield {**head, "seq_box": seq_box, "dist_box": dist_box}


def _own_integers(one: InputRecord) -> bool:
    """Are they integers that a rank computes for itself, a map of its experts: which of them occur
    elsewhere, too, says nothing?"""
    value = unpacked(one.value) if one.value is not None else None
    return value is not None and not one.saved and not value.is_floating_point()


def _place(one: InputRecord, record: RankRecord, parts: int, world_size: int) -> tuple[int, str]:
    """Which shard a rank is taken to hold: weights are cut over neighbouring ranks, batches over
    the others, as is the custom of tensor and data parallelism. Where a rank communicates in one
    group of as many ranks as there are shards, its order counts; where all groups are of all ranks,
    there is no other dimension of parallelism: heads that are fewer than the ranks recur on
    neighbours."""
    rank, together = record.rank, {tuple(ranks) for ranks, _ in record.groups.values()}
    if parts == world_size:
        return rank, "in the order of the ranks"
    fitting = [ranks for ranks in together if len(ranks) == parts and rank in ranks]
    if one.kind != "input" and len(fitting) == 1:
        return fitting[0].index(rank), "in the order of each group of as many ranks"
    alone = bool(together) and {len(ranks) for ranks in together} == {world_size}
    if one.kind == "input" or alone:
        return rank // (world_size // parts), "blocks of neighbouring ranks holding the same"
    return rank % parts, "over neighbouring ranks"
