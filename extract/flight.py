"""Collectives in flight: their values are there once they were waited for, and not before.

A collective whose result some later `wait_tensor` waits for is in flight until then: who reads the
result earlier reads anything, and who writes into its operand meanwhile sends anything. One that no
node waits for gives its value at once, as those of HLO and of kernels that wait themselves do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gg_datalog.extract.context import Context, Value, lowers
from gg_datalog.extract.graph import Node, Ref, references
from gg_datalog.extract.memory import unknown
from gg_datalog.extract.names import is_collective
from gg_datalog.extract.side import At
from gg_datalog.extract.signature import packet_of


@dataclass
class Flight:
    """What a collective will give: ``values`` by the nodes that have it then, and the nodes whose
    memory it reads until then; ``spoilt`` where that was written meanwhile."""

    values: dict[str, Value]
    reads: list[str]
    spoilt: bool = False


def depart(ctx: Context, node: Node, name: str, written: Sequence[str]) -> None:
    """After a node: what it waits for is hidden; what it wrote spoils what still reads it."""
    for flight in list(ctx.flights.values()):
        memory = {m for read in flight.reads for m in ctx.memory.get(read, {read})}
        if memory & set(written):
            first = _first(flight)
            does = "receives into" if "recv" in ctx.graph.nodes[first].target else "sends"
            _complain(ctx, node, f"it writes what `{first}` still {does}")
            flight.spoilt = True
            flight.values = {n: unknown(ctx, v) for n, v in flight.values.items()}
    source = _collective_of(ctx, node, name)
    if source is None or node.name not in waited_for(ctx):
        return
    hidden = [node.name, *(w for w in written if w in ctx.values)]
    values = {n: ctx.values[n] for n in hidden}
    ctx.flights[node.name] = Flight(values, list(references(tuple(source.bound.values()))))
    for one in hidden:
        ctx.side.at = At(ctx.rank, one, "in flight")
        ctx.values[one] = unknown(ctx, values[one])


def _collective_of(ctx: Context, node: Node, name: str) -> Node | None:
    """The collective that a node is, or of whose results it takes one."""
    if is_collective(name):
        ctx.collectives.add(node.name)
        return node
    of = node.args[0] if node.args else None
    item = "getitem" in node.target and isinstance(of, Ref) and of.name in ctx.collectives
    return ctx.graph.nodes[of.name] if item and isinstance(of, Ref) else None


def arrive(ctx: Context, node: Node, name: str) -> None:
    """Before a node: what it waits for is there; what it reads may not be there yet."""
    names = node.references
    if name.endswith(".wait_tensor"):
        for one in names:
            if (flight := ctx.flights.pop(one, None)) is not None:
                ctx.values.update(flight.values)
                _landed(ctx, node, one, flight)
        return
    if "getitem" in node.target:
        return
    early = [n for n in names for f in ctx.flights.values() if n in f.values]
    if early:
        _complain(ctx, node, f"it reads `{early[0]}` before it was waited for")


def _landed(ctx: Context, node: Node, name: str, flight: Flight) -> None:
    """Views that were taken of the memory meanwhile hold something else now; the other results of
    the same collective are no views of this one."""
    for view in ctx.memory.get(name, set()) - {node.name, *flight.values} - ctx.collectives:
        if view in ctx.values:
            ctx.side.at = At(ctx.rank, view, "landed")
            ctx.values[view] = unknown(ctx, ctx.values[view])


@lowers("_c10d_functional.in_flight")
def in_flight(ctx: Context) -> Value:
    """What capture says of memory that an asynchronous collective is still to write: something
    reads it before the program has waited."""
    x, node = ctx.tensor("input"), ctx.node
    if _is_read(ctx, node.name):
        _complain(ctx, node, "something reads what it receives before it was waited for")
    return ctx.side.source(x.shape, "opaque")


@lowers("_c10d_functional.in_memory_order")
def in_memory_order(ctx: Context) -> Value:
    """What capture says of a collective that reads and fills memory in order, given a tensor whose
    memory is in another one."""
    x, call = ctx.tensor("input"), ctx.raw("call")
    problem = (
        f"`{call}` goes through memory in order, and a tensor that it is given is not contiguous"
    )
    _complain(ctx, ctx.node, f"{problem}: elements end up elsewhere (as gloo does it)")
    return ctx.side.source(x.shape, "opaque")


@lowers("_c10d_functional.misused")
def misused(ctx: Context) -> Value:
    """What capture says of memory that is written, or left, while a transfer is under way."""
    x, problem = ctx.tensor("input"), str(ctx.raw("problem"))
    _complain(ctx, ctx.node, problem)
    return ctx.side.source(x.shape, "opaque")


def _is_read(ctx: Context, name: str) -> bool:
    """Does any node look at the values of this one? A copy into it overwrites them."""
    for user in ctx.graph.users.get(name, ()):
        if not user.target.startswith("aten.copy."):
            return True
        if user.bound["src"] == Ref(name) and _is_read(ctx, user.name):
            return True
    return False


def waited_for(ctx: Context) -> set[str]:
    """The nodes of the graph that some node waits for."""
    if ctx.waits is None:
        waits = (n for n in ctx.graph.nodes.values() if ".wait_tensor" in n.target)
        ctx.waits = {name for n in waits for name in n.references}
    return ctx.waits


def _first(flight: Flight) -> str:
    return next(iter(flight.values))


def _complain(ctx: Context, node: Node, problem: str) -> None:
    row = (ctx.rank, node.name, packet_of(node.target), problem)
    if row not in ctx.early:
        ctx.early.append(row)
