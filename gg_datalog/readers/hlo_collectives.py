"""Collectives: as torch's functional ones name them, along dimension 0."""

from __future__ import annotations

import re
from collections.abc import Callable

from gg_datalog.readers.hlo_graph import Result, Value
from gg_datalog.readers.hlo_opaque import expression
from gg_datalog.readers.hlo_program import Program, lowers
from gg_datalog.readers.hlo_reduce import combines, root_of
from gg_datalog.readers.hlo_scan import numbers
from gg_datalog.readers.hlo_shapes import Array, leaves

SPACE = "_c10d_functional"
REDUCTIONS = {"add": "sum", "maximum": "max", "minimum": "min", "or": "max", "and": "min"}
# Collectives whose flag `use_global_device_ids` is there to be absent.
FLAGGED = ("all-reduce", "all-gather", "reduce-scatter")


def members(p: Program, opcode: str) -> tuple[int, ...] | None:
    """The ranks of the group at hand in member order; None where this device is in none."""
    given = p.at.attributes
    channel = given.get("channel_id", "0") not in ("0", "-1")
    flat = given.get("use_global_device_ids") == "true" if opcode in FLAGGED else None
    text = given.get("replica_groups", "{}")
    if p.devices.partitions == 1:  # ids are replicas, whatever they are called
        channel, flat = False, None
    p.need(flat is not True or channel, "use_global_device_ids goes with channel_id")
    return p.devices.groups(text, channel, flat, p.rank)


def group_of(p: Program, opcode: str) -> tuple[str, tuple[int, ...]]:
    """(name, ranks) of the group at hand, in which this device has to be."""
    found = members(p, opcode)
    if found is None:
        raise p.error(f"no group of `replica_groups` holds device {p.rank}", "dump it again")
    return p.groups.setdefault(found, "g" + "_".join(map(str, found))), found


def reduction(p: Program) -> str:
    """What members' tensors are combined by: the root of the computation says it."""
    computation = p.called()
    combines(p, computation, *p.operands())
    kind = root_of(computation)
    if kind not in REDUCTIONS:
        text = expression(p, computation)
        raise p.error(f"it reduces by `{text[:80]}`", "sums, maxima and minima are described")
    return REDUCTIONS[kind]


def _front(p: Program, x: Value, dim: int) -> Value:
    """Dimension ``dim`` first."""
    if dim == 0:
        return x
    order = [dim, *(i for i in range(len(x.shape.dims)) if i != dim)]
    return p.permuted(x, order, "front")


def _back(p: Program, x: Value, dim: int) -> Value:
    """The first dimension in place ``dim``, under the name of the instruction."""
    if dim == 0:
        return p.alias(x)
    order = [*range(1, dim + 1), 0, *range(dim + 1, len(x.shape.dims))]
    return p.permuted(x, order)


def _along(p: Program, x: Value, dim: int, name: str, size: int, *args: object) -> Value:
    """A collective along a dimension; ``size`` is what becomes of it."""
    p.need(dim < len(x.shape.dims), f"it has no dimension {dim}")
    front = _front(p, x, dim)
    shape = Array(x.shape.dtype, (size, *front.shape.dims[1:]))
    target = f"{SPACE}.{name}.default"
    if dim == 0:
        return p.make(target, [front.ref, *args], shape)
    return _back(p, p.make(target, [front.ref, *args], shape, "moved"), dim)


def _results(p: Program, one: Callable[[Value], Value], values: list[Value]) -> Result:
    """A collective of several tensors, one by one."""
    if isinstance(p.at.shape, Array) or len(values) == 1:
        made = one(values[0])
        return made if isinstance(p.at.shape, Array) or p.at.opcode.endswith("start") else (made,)
    return tuple(one(x) for x in values)


@lowers("all-reduce", "all-reduce-start")
def all_reduce(p: Program) -> Result:
    """Members' tensors combined."""
    name, ranks = group_of(p, "all-reduce")
    kind = reduction(p)

    def one(x: Value) -> Value:
        p.need(x.shape in leaves(p.at.shape), f"it is given {x.shape}")
        if len(ranks) == 1:
            return p.alias(x, x.shape)
        return p.make(f"{SPACE}.all_reduce.default", [x.ref, kind, name], x.shape)

    return _results(p, one, p.operands())


def _dimension(p: Program) -> int:
    dims = p.ints("dimensions")
    p.need(len(dims) == 1, "it names no dimension")
    return dims[0]


@lowers("all-gather", "all-gather-start")
def all_gather(p: Program) -> Result:
    """Members' tensors one after the other along a dimension."""
    name, ranks = group_of(p, "all-gather")
    dim = _dimension(p)

    def one(x: Value) -> Value:
        if len(ranks) == 1:
            return p.alias(x, x.shape)
        size = x.shape.dims[dim] * len(ranks)
        return _along(p, x, dim, "all_gather_into_tensor", size, len(ranks), name)

    return _results(p, one, p.operands())


@lowers("reduce-scatter")
def reduce_scatter(p: Program) -> Result:
    """A member's share of a dimension of the sum."""
    name, ranks = group_of(p, "reduce-scatter")
    dim, kind = _dimension(p), reduction(p)

    def one(x: Value) -> Value:
        if len(ranks) == 1:
            return p.alias(x, x.shape)
        size, rest = divmod(x.shape.dims[dim], len(ranks))
        p.need(rest == 0, f"{x.shape} does not split into {len(ranks)} parts")
        return _along(p, x, dim, "reduce_scatter_tensor", size, kind, len(ranks), name)

    return _results(p, one, p.operands())


@lowers("all-to-all")
def all_to_all(p: Program) -> Result:
    """Part j of member i goes to member j: parts of a dimension, or operands."""
    name, ranks = group_of(p, "all-to-all")
    if isinstance(p.at.shape, Array):
        x, dim = p.operand(0), _dimension(p)
        if len(ranks) == 1:
            return p.alias(x)
        p.need(x.shape.dims[dim] % len(ranks) == 0, f"{x.shape} does not split")
        return _along(p, x, dim, "all_to_all_single", x.shape.dims[dim], [], [], name)
    values = p.operands()
    if len(ranks) == 1:
        return tuple(values)
    p.need(len(values) == len(ranks), f"{len(values)} operands for {len(ranks)} members")
    first = values[0].shape
    p.need(all(v.shape == first for v in values), "its operands differ in shape")
    rows = [p.view(v, [1, *first.dims], f"part{i}") for i, v in enumerate(values)]
    all_rows = p.joined(rows, 0, "parts")
    args = [all_rows.ref, [], [], name]
    given = p.make(f"{SPACE}.all_to_all_single.default", args, all_rows.shape)
    parts = [p.cut(given, 0, i, i + 1, f"row{i}") for i in range(len(ranks))]
    return tuple(p.view(part, first.dims, f"item{i}") for i, part in enumerate(parts))


@lowers("collective-broadcast")
def collective_broadcast(p: Program) -> Result:
    """The first member's tensor; 0 on devices in no group."""
    x, found = p.operand(0), members(p, "collective-broadcast")
    if found is None:
        return p.filled(False if x.shape.dtype == "pred" else 0, p.array())
    name, ranks = group_of(p, "collective-broadcast")
    if len(ranks) == 1:
        return p.alias(x)
    return p.make(f"{SPACE}.broadcast.default", [x.ref, 0, name])


@lowers("collective-permute", "collective-permute-start")
def collective_permute(p: Program) -> Result:
    """What another device sends; 0 where none does."""
    x = p.operand(0)
    pairs = _pairs(p)
    sends = [t for s, t in pairs if s == p.rank]
    comes = [s for s, t in pairs if t == p.rank]
    if comes == [p.rank]:
        p.need(sends == [p.rank], "a device sends to itself and to others")
        return p.alias(x, x.shape)
    kinds = ["isend"] * len(sends) + ["irecv"] * len(comes)
    zero: int | bool = False if x.shape.dtype == "pred" else 0
    if not kinds:
        return p.filled(zero, x.shape)
    everyone = tuple(range(p.devices.count))
    name = p.groups.setdefault(everyone, "g" + "_".join(map(str, everyone)))
    tag = int(p.at.attributes.get("channel_id", "0"))
    args = [kinds, [*sends, *comes], [tag] * len(kinds), [x.ref] * len(kinds), name]
    node = p.emit(f"{SPACE}.batch_p2p_ops.default", args, None, "transfers")
    if not comes:
        return p.filled(zero, x.shape)
    made = p.item(node, len(sends), x.shape, "received")
    return p.alias(made, x.shape)


def _pairs(p: Program) -> list[tuple[int, int]]:
    """(from, to) as ranks: partitions where there is a channel, else replicas."""
    text = p.at.attributes.get("source_target_pairs", "")
    found = [(int(a), int(b)) for a, b in re.findall(r"\{\s*(\d+)\s*,\s*(\d+)\s*\}", text)]
    p.need(2 * len(found) == len(numbers(text)), f"source_target_pairs {text[:40]}")
    for side in zip(*found, strict=True):
        p.need(len(set(side)) == len(side), "a device sends or receives twice")
    parts = p.devices.partitions
    replica, partition = divmod(p.rank, parts)
    channel = p.at.attributes.get("channel_id", "0") not in ("0", "-1")
    if channel and parts > 1:
        found = [(replica * parts + a, replica * parts + b) for a, b in found]
    else:
        found = [(a * parts + partition, b * parts + partition) for a, b in found]
    inside = all(0 <= n < p.devices.count for pair in found for n in pair)
    p.need(inside, f"source_target_pairs name more than {p.devices.count} devices")
    return found
