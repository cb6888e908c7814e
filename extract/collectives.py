"""All ranks of a side together: collectives are matched by their place in the program of each
member, and become sums, concatenations and slices of the members' tensors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

from gg_datalog.errors import InputError
from gg_datalog.extract.context import SENSELESS, Context, Unsupported, senseless
from gg_datalog.extract.dtypes import is_float
from gg_datalog.extract.graph import Node
from gg_datalog.extract.lower import Call, lower
from gg_datalog.extract.lower_movement import joined, need
from gg_datalog.extract.scale import scale
from gg_datalog.extract.side import At
from gg_datalog.extract.view import View


@dataclass(frozen=True)
class Communicator:
    """A group of ranks, in member order; two groups of the same ranks are two communicators."""

    number: int
    ranks: tuple[int, ...]


Groups = Mapping[tuple[int, str], Communicator]


@dataclass(frozen=True)
class Waiting:
    """A rank at a collective: everything in ``form`` has to be the same on all members."""

    call: Call
    group: Communicator
    kind: str
    reduction: str
    form: tuple[Any, ...]
    view: View | None


@dataclass
class World:
    """The ranks of one side while they are lowered in step."""

    contexts: dict[int, Context]
    groups: Groups
    instances: list[tuple[int, str, str, str, int, str]] = field(default_factory=list)
    mismatches: list[tuple[int, str, str, str]] = field(default_factory=list)
    _count: Counter[Communicator] = field(default_factory=Counter)

    def run(self, progress: Callable[[int], None] | None = None) -> None:
        """Lowers every graph to its end."""
        running = {rank: lower(ctx) for rank, ctx in self.contexts.items()}
        waiting: dict[int, Waiting] = {}
        while running:
            for rank in [r for r in running if r not in waiting]:
                call = next(running[rank], None)
                if call is None:
                    del running[rank]
                    if progress:
                        progress(rank)
                else:
                    waiting[rank] = self._arrive(rank, call)
            if not running:
                return
            ready = self._ready(waiting)
            if ready is None:
                self._stuck(waiting)
                waiting.clear()
                continue
            self._perform(ready, [waiting.pop(rank) for rank in ready.ranks])

    def _arrive(self, rank: int, call: Call) -> Waiting:
        ctx = self.contexts[rank]
        ctx.node = call.node
        words = [a for a in call.node.args if isinstance(a, str)]
        words += [
            v
            for k, v in call.node.kwargs.items()
            if k in ("group_name", "group") and isinstance(v, str)
        ]
        if not words:
            raise InputError(
                f"collective `{call.node.target}` names no group",
                ctx.where(),
                "its last argument is the name of a process group",
            )
        if not call.node.args:
            raise InputError(
                f"collective `{call.node.target}` has no operand", ctx.where(), "capture it again"
            )
        group = self.groups.get((rank, words[-1]))
        if group is None:
            raise InputError(
                f"group `{words[-1]}` of rank {rank} is not known",
                ctx.where(),
                "list it in groups.json with its ranks and its name on every member",
            )
        reduction = ctx.node.kwargs.get("reduce_op") or (words[0] if len(words) > 1 else "sum")
        first = ctx.value(call.node.args[0]) if call.node.args else None
        view = first if isinstance(first, View) else None
        numbers = tuple(a for a in call.node.args[1:] if isinstance(a, (int, tuple)))
        shape = view.shape if view is not None else None
        form = (call.name, str(reduction).lower(), ctx.dtype_of(call.node.args[0]), numbers, shape)
        if call.name in ("all_to_all_single", "all_to_all_single_autograd"):
            form = (*form[:3], (), None)
        return Waiting(call, group, call.name, str(reduction).lower(), form, view)

    def _ready(self, waiting: Mapping[int, Waiting]) -> Communicator | None:
        """A communicator at which all members have arrived."""
        for one in waiting.values():
            members = [waiting.get(rank) for rank in one.group.ranks]
            if all(m is not None and m.group == one.group for m in members):
                return one.group
        return None

    def _stuck(self, waiting: Mapping[int, Waiting]) -> None:
        """Nobody can go on: the program hangs here."""
        for rank, one in sorted(waiting.items()):
            absent = []
            for other in one.group.ranks:
                found = waiting.get(other)
                if found is None:
                    absent.append(f"rank {other} never joins")
                elif found.group != one.group:
                    absent.append(
                        f"rank {other} waits at `{found.call.node.name}` "
                        f"for {list(found.group.ranks)}"
                    )
            self._mismatch(rank, one, "; ".join(absent))
            self._opaque(rank, one)

    def _mismatch(self, rank: int, one: Waiting, problem: str) -> None:
        self.mismatches.append((rank, one.call.node.name, one.kind, problem))

    def _opaque(self, rank: int, one: Waiting) -> None:
        ctx = self.contexts[rank]
        ctx.side.at = At(rank, one.call.node.name, one.call.node.target)
        shape = one.call.node.shape
        ok = shape is not None and all(isinstance(e, int) for e in shape)
        needs = [one.view.base] if one.view else []
        value = ctx.side.source([int(e) for e in shape or ()], "mismatch", needs) if ok else None
        ctx.values[one.call.node.name] = value

    def _perform(self, group: Communicator, members: Sequence[Waiting]) -> None:
        instance = len({i[0] for i in self.instances})
        ranks = ",".join(map(str, group.ranks))
        for rank, one in zip(group.ranks, members, strict=True):
            self.instances.append(
                (instance, one.kind, one.reduction, ranks, rank, one.call.node.name)
            )
        forms = {one.form for one in members}
        if len(forms) > 1:
            for rank, one in zip(group.ranks, members, strict=True):
                others = [m for m in members if m.form != one.form]
                self._mismatch(rank, one, f"{_form(one)} meets {_form(others[0])}")
                self._opaque(rank, one)
            return
        first = self.contexts[group.ranks[0]]
        first.node = members[0].call.node
        first.side.at = At(group.ranks[0], first.node.name, first.node.target)
        try:
            views = [one.view for one in members]
            if any(v is None for v in views):
                raise Unsupported("an operand is not known")
            for one in members:
                if strange := set(one.call.node.kwargs) - KEYWORDS:
                    raise Unsupported(f"keyword `{min(strange)}` is not described")
            outs = list(_results(first, members[0], group, [v for v in views if v is not None]))
        except Misfit as problem:
            for rank, one in zip(group.ranks, members, strict=True):
                self._mismatch(rank, one, str(problem))
                self._opaque(rank, one)
            return
        except SENSELESS as error:
            raise senseless(first, error) from error
        except Unsupported as reason:
            for rank, one in zip(group.ranks, members, strict=True):
                row = (first.side.name, rank, one.call.node.name, one.call.node.target, str(reason))
                first.notes.unsupported.append(row)
                self._opaque(rank, one)
            return
        for rank, one, out in zip(group.ranks, members, outs, strict=True):
            _same_shape(self.contexts[rank], one.call.node, out)
            self.contexts[rank].values[one.call.node.name] = out


KEYWORDS = frozenset(["group_name", "group", "reduce_op", "tag"])


class Misfit(Exception):
    """A collective that contradicts its own group."""


def _form(one: Waiting) -> str:
    kind, reduction, dtype, numbers, shape = one.form
    return f"{kind}({reduction}) of {dtype}{list(shape or ())} with {list(numbers)}"


def _same_shape(ctx: Context, node: Node, out: View) -> None:
    if node.shape is not None and tuple(node.shape) != out.shape:
        ctx.node = node
        raise InputError(
            f"its shape is given as {list(node.shape)}, its operands make it {list(out.shape)}",
            ctx.where(),
            "the shapes of the graph do not add up: capture it again",
        )


def _results(ctx: Context, one: Waiting, group: Communicator, views: list[View]) -> Iterator[View]:
    """The result on each member, in the group's order."""
    size = len(group.ranks)
    kind = one.kind.removesuffix("_").removesuffix("_coalesced")
    ints = [a for a in one.call.node.args[1:] if isinstance(a, int)]
    if kind in ("all_gather_into_tensor", "reduce_scatter_tensor") and ints and ints[-1] != size:
        raise Misfit(f"it says {ints[-1]} members, its group has {size}")
    if kind == "all_reduce":
        yield from [reduce(ctx, views, one.reduction)] * size
    elif kind == "all_gather_into_tensor":
        dim = ints[0] if len(ints) > 1 else 0
        yield from [gather(ctx, views, dim)] * size
    elif kind == "reduce_scatter_tensor":
        yield from shares(ctx, reduce(ctx, views, one.reduction), size)
    elif kind == "broadcast":
        if not 0 <= ints[0] < size:
            raise Misfit(f"its source {ints[0]} is no member of {list(group.ranks)}")
        yield from [views[ints[0]]] * size
    elif kind == "all_to_all_single" and not any(isinstance(a, tuple) for a in one.call.node.args):
        parts = [list(shares(ctx, v, size)) for v in views]
        for member in range(size):
            yield gather(ctx, [row[member] for row in parts], 0)
    else:
        raise Unsupported("a collective that is not in the table")


def reduce(ctx: Context, views: list[View], reduction: str) -> View:
    """Members' tensors added up (avg, max, min)."""
    if len({v.shape for v in views}) > 1:
        raise Unsupported("members of different shapes")
    if reduction in ("sum", "avg"):
        if reduction == "avg" and not is_float(ctx.dtype_of(ctx.node.args[0]) or "float"):
            raise Unsupported("an average of integers")
        total = need(ctx.side.sum(views))
        return total.scaled(scale(len(views)).inverse()) if reduction == "avg" else total
    if reduction in ("max", "min"):
        if any(v.scale != views[0].scale for v in views):
            raise Unsupported("a maximum of scaled tensors")
        return need(ctx.side.sum(views, reduction))
    raise Unsupported(f"reduction `{reduction}`")


def gather(ctx: Context, views: list[View], dim: int) -> View:
    """Members' tensors one after the other."""
    dim = ctx.dim(dim, len(views[0].dims))
    made = ctx.side.concat(views, dim, local=False)
    return joined(ctx, views, dim) if made is None else made


def shares(ctx: Context, whole: View, size: int) -> Iterator[View]:
    """Dimension 0 in equal parts."""
    if not whole.dims or whole.shape[0] % size or not prod(whole.shape):
        raise Unsupported(f"dimension 0 does not split into {size} parts")
    part = whole.shape[0] // size
    for member in range(size):
        yield need(ctx.side.slice(whole, 0, member * part, part))
