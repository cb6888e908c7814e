"""All ranks of a side together: collectives are matched by their place in the program of each
member, and become sums, concatenations and slices of the members' tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

from gg_datalog.extract.context import SENSELESS, Context, Unsupported, senseless
from gg_datalog.extract.context import result_shapes as result_shapes_of
from gg_datalog.extract.dtypes import arithmetic, interval, is_integer, learn, single, total
from gg_datalog.extract.exponent_rules import (
    of_sum,
)
from gg_datalog.extract.flight import waited_for
from gg_datalog.extract.graph import Node, Ref, is_symbolic
from gg_datalog.extract.lower import Call, lower
from gg_datalog.extract.lower_movement import joined, need
from gg_datalog.extract.piecewise import summed
from gg_datalog.extract.scale import scale
from gg_datalog.extract.side import At
from gg_datalog.extract.view import View
from gg_datalog.foundation.errors import InputError


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
    views: tuple[View | None, ...]
    many: bool  # a list of tensors, not one

    @property
    def node(self) -> Node:
        """The node of the collective."""
        return self.call.node


@dataclass(frozen=True)
class Message:
    """One end of a transfer between two ranks: the ``number``-th of its kind with this key."""

    key: tuple[Communicator, int, int, int]  # communicator, from, to, tag
    view: View | None
    dtype: str
    receives: bool
    number: int = 0

    @property
    def peer(self) -> int:
        """The other rank."""
        _, sender, receiver, _ = self.key
        return sender if self.receives else receiver


@dataclass(frozen=True)
class Transfer:
    """What a rank sends and receives with one call. Where it is ``started`` the rank goes on, and
    waits later for both: a message is sent where the other rank receives it."""

    call: Call
    messages: tuple[Message, ...]
    many: bool
    started: bool = False

    @property
    def awaited(self) -> list[Message]:
        """What its rank waits for. That what nobody waits for was sent is not asked."""
        return [m for m in self.messages if m.receives or self.started]


@dataclass
class World:
    """The ranks of one side while they are lowered in step."""

    contexts: dict[int, Context]
    groups: Groups
    instances: list[tuple[int, str, str, str, int, str]] = field(default_factory=list)
    mismatches: list[tuple[int, str, str, str]] = field(default_factory=list)
    _by_ranks: dict[tuple[str, tuple[Any, ...]], Communicator] = field(default_factory=dict)
    # both ends of messages, by key, in order
    _sent: dict[Any, list[tuple[int, Node, Message]]] = field(default_factory=dict)
    _wanted: dict[Any, list[tuple[int, Node, Message]]] = field(default_factory=dict)

    def run(self, progress: Callable[[int], None] | None = None) -> None:
        """Lowers every graph to its end."""
        running = {rank: lower(ctx) for rank, ctx in self.contexts.items()}
        waiting: dict[int, Waiting] = {}
        receiving: dict[int, tuple[Node, Transfer]] = {}
        while running:
            for rank in [r for r in running if r not in waiting and r not in receiving]:
                call = next(running[rank], None)
                if call is None:
                    del running[rank]
                    if progress:
                        progress(rank)
                elif call.of:
                    receiving[rank] = call.node, self.contexts[rank].started[call.of]
                elif call.name in TRANSFERS:
                    transfer = self._post(rank, call)
                    if not transfer.started:
                        receiving[rank] = call.node, transfer
                else:
                    waiting[rank] = self._arrive(rank, call)
            done = [r for r, (_, transfer) in receiving.items() if self._receive(r, transfer)]
            for rank in done:
                del receiving[rank]
            if done or any(r not in waiting and r not in receiving for r in running):
                continue
            ready = self._ready(waiting)
            if ready is not None:
                self._perform(ready, [waiting.pop(rank) for rank in ready.ranks])
            elif running:
                self._stuck(waiting, receiving)
                waiting.clear()
                receiving.clear()
        self._lost()
        for ctx in self.contexts.values():
            self.mismatches += ctx.early

    # ---- transfers between two ranks
    def _post(self, rank: int, call: Call) -> Transfer:
        """Posts what the rank sends and what it wants. One that is waited for later (a batch is
        not: its items are) gives nothing yet."""
        ctx, node = self.contexts[rank], call.node
        ctx.node = node
        group = self._group(rank, node)
        many = call.name == "batch_p2p_ops"
        try:
            kinds, peers, tags, tensors = _batch(node) if many else _transfer(call)
            into = {m for k, t in zip(kinds, tensors, strict=True) for m in _received(ctx, k, t)}
            ends = [
                self._message(rank, group, kind, int(peer), int(tag), tensor, into)
                for kind, peer, tag, tensor in zip(kinds, peers, tags, tensors, strict=True)
            ]
        except SENSELESS as error:
            raise senseless(ctx, error) from error
        messages = []
        for end in ends:
            posted = (self._wanted if end.receives else self._sent).setdefault(end.key, [])
            message = replace(end, number=len(posted))
            posted.append((rank, node, message))
            messages.append(message)
        started = not many and node.name in waited_for(ctx)
        transfer = Transfer(call, tuple(messages), many, started)
        if started:
            ctx.started[node.name] = transfer
            self._opaque(rank, node, [m.view for m in messages])
            if not messages[0].receives:
                ctx.values[node.name] = messages[0].view
        return transfer

    def _message(
        self,
        rank: int,
        group: Communicator,
        kind: str,
        peer: int,
        tag: int,
        tensor: Any,
        into: set[str],
    ) -> Message:
        ctx = self.contexts[rank]
        if not 0 <= peer < len(group.ranks):
            raise ValueError(f"peer {peer} is no member of {list(group.ranks)}")
        value, other = ctx.value(tensor), group.ranks[peer]
        receives = kind.endswith("recv")
        ends = (other, rank) if receives else (rank, other)
        # what is sent while something else comes into its memory has no value
        spoilt = not receives and isinstance(tensor, Ref) and tensor.name in into
        view = value if isinstance(value, View) and not spoilt else None
        return Message((group, *ends, tag), view, ctx.dtype_of(tensor), receives)

    def _receive(self, rank: int, transfer: Transfer) -> bool:
        """Takes what was sent, where all of it is there, and what the rank sends is received."""
        if self._lacking(transfer):
            return False
        node = transfer.call.node
        values: list[View | None] = []
        for message in transfer.messages:
            if not message.receives:
                values.append(message.view)
                continue
            sender, from_node, sent = self._sent[message.key][message.number]
            instance = len({i[0] for i in self.instances})
            ranks = f"{sender},{rank}"
            self.instances.append((instance, "send", "", ranks, sender, from_node.name))
            self.instances.append((instance, "recv", "", ranks, rank, node.name))
            values.append(self._delivered(rank, node, message, sent, sender))
        self._give(rank, transfer, tuple(values) if transfer.many else values[0])
        return True

    def _lacking(self, transfer: Transfer) -> list[Message]:
        """The messages of which the other end is not there."""
        found = []
        for message in transfer.awaited:
            others = self._sent if message.receives else self._wanted
            if len(others.get(message.key, ())) <= message.number:
                found.append(message)
        return found

    def _give(self, rank: int, transfer: Transfer, value: Any) -> None:
        """The value of the node, which is there when it was waited for."""
        ctx, node = self.contexts[rank], transfer.call.node
        flight = ctx.flights.get(node.name) if transfer.started else None
        if flight is None:
            ctx.values[node.name] = value
        elif transfer.messages[0].receives and not flight.spoilt:
            flight.values[node.name] = value

    def _delivered(
        self, rank: int, node: Node, message: Message, sent: Message, sender: int
    ) -> View | None:
        if sent.view is None:
            return None
        into = message.view.shape if message.view is not None else sent.view.shape
        if into == sent.view.shape and message.dtype == sent.dtype:
            if any(map(is_symbolic, into)):
                return None
            return sent.view
        problem = (
            f"it receives {message.dtype}{list(into)}, "
            f"rank {sender} sends {sent.dtype}{list(sent.view.shape)}"
        )
        self.mismatches.append((rank, node.name, "recv", problem))
        ctx = self.contexts[rank]
        ctx.side.at = At(rank, node.name, node.target)
        return ctx.side.source(into, "mismatch", [sent.view.base])

    def _lost(self) -> None:
        """What was sent and never received."""
        for key, messages in self._sent.items():
            for rank, node, _ in messages[len(self._wanted.get(key, ())) :]:
                problem = f"rank {key[2]} never receives it (tag {key[3]})"
                self.mismatches.append((rank, node.name, "send", problem))

    # ---- collectives
    def _group(self, rank: int, node: Node) -> Communicator:
        """The communicator that a collective names."""
        ctx = self.contexts[rank]
        if isinstance(listed := node.bound.get("ranks"), tuple):
            return self._listed(str(node.bound.get("tag")), listed)
        name = next((node.bound[k] for k in GROUP if k in node.bound), None)
        if not isinstance(name, str):
            raise InputError(
                f"collective `{node.target}` names no group",
                ctx.where(),
                "its last argument is the name of a process group",
            )
        group = self.groups.get((rank, name))
        if group is None:
            raise InputError(
                f"group `{name}` of rank {rank} is not known",
                ctx.where(),
                "list it in groups.json with its ranks and its name on every member",
            )
        return group

    def _listed(self, tag: str, ranks: tuple[Any, ...]) -> Communicator:
        """The communicator of an operator that lists its ranks itself, as torch 2.0 and 2.1 did."""
        numbers = [group.number for group in (*self.groups.values(), *self._by_ranks.values())]
        fresh = Communicator(max(numbers, default=-1) + 1, ranks)
        return self._by_ranks.setdefault((tag, ranks), fresh)

    def _arrive(self, rank: int, call: Call) -> Waiting:
        ctx, node = self.contexts[rank], call.node
        ctx.node = node
        group = self._group(rank, node)
        if not node.bound:
            raise InputError(
                f"collective `{node.target}` has no operand", ctx.where(), "capture it again"
            )
        first = next(iter(node.bound.values()))
        many = isinstance(first, tuple)
        operands = first if many else (first,)
        found = [ctx.value(a) for a in operands]
        views = tuple(v if isinstance(v, View) else None for v in found)
        reduction = str(next((node.bound[k] for k in REDUCTION if k in node.bound), "sum"))
        numbers = tuple(
            (k, a)
            for k, a in node.bound.items()
            if isinstance(a, (int, tuple)) and a is not first and k not in ("ranks", "tag")
        )
        shapes = tuple(v.shape if v is not None else None for v in views)
        dtypes = ",".join(ctx.dtype_of(a) for a in operands)
        form = (call.name, reduction.lower(), dtypes, numbers, shapes)
        if call.name.startswith("all_to_all_single"):
            form = (*form[:3], (), tuple(s[1:] if s else s for s in shapes))
        if call.name == "scatter":  # only the root has something to give
            form = (*form[:2], "", numbers, ())
        return Waiting(call, group, call.name, reduction.lower(), form, views, many)

    def _ready(self, waiting: Mapping[int, Waiting]) -> Communicator | None:
        """A communicator at which all members have arrived."""
        for one in waiting.values():
            members = [waiting.get(rank) for rank in one.group.ranks]
            if all(m is not None and m.group == one.group for m in members):
                return one.group
        return None

    def _stuck(
        self,
        waiting: Mapping[int, Waiting],
        receiving: Mapping[int, tuple[Node, Transfer]],
    ) -> None:
        """Nobody can go on: the program hangs here."""
        lacking = {rank: self._lacking(transfer) for rank, (_, transfer) in receiving.items()}
        cycle = _cycle_text(
            {r: (one.node, one.group.ranks) for r, one in waiting.items()}
            | {r: (node, [m.peer for m in lacking[r]]) for r, (node, _) in receiving.items()},
            {r: one.group for r, one in waiting.items()},
        )
        for rank, one in sorted(waiting.items()):
            absent = []
            for other in one.group.ranks:
                found = waiting.get(other)
                if other in receiving:
                    absent.append(f"rank {other} waits at `{receiving[other][0].name}`")
                elif found is None:
                    absent.append(f"rank {other} never joins")
                elif found.group != one.group:
                    absent.append(
                        f"rank {other} waits at `{found.node.name}` for {list(found.group.ranks)}"
                    )
            self._mismatch(rank, one, "; ".join(absent) + cycle)
            self._opaque(rank, one.node, one.views)
        for rank, (_, transfer) in sorted(receiving.items()):
            messages = dict.fromkeys((m.receives, m.peer, m.key[3]) for m in lacking[rank])
            told = ", ".join(f"rank {peer} (tag {tag})" for _, peer, tag in messages)
            receives = any(m.receives for m in lacking[rank])
            kind, node = "recv" if receives else "send", transfer.call.node
            verb = "nothing comes from" if receives else "it waits until it is received by"
            self.mismatches.append((rank, node.name, kind, f"{verb} {told}{cycle}"))
            if not transfer.started:
                self._opaque(rank, node, [m.view for m in transfer.messages])

    def _mismatch(self, rank: int, one: Waiting, problem: str) -> None:
        self.mismatches.append((rank, one.node.name, one.kind, problem))

    def _opaque(self, rank: int, node: Node, views: Sequence[View | None]) -> None:
        ctx = self.contexts[rank]
        ctx.side.at = At(rank, node.name, node.target)
        needs = [v.base for v in views if v is not None]
        shapes = [node.shape] if node.shape is not None else result_shapes_of(ctx, node)
        values = [
            ctx.side.source([int(e) for e in shape], "mismatch", needs)
            if shape is not None and all(isinstance(e, int) for e in shape)
            else None
            for shape in shapes
        ]
        ctx.values[node.name] = values[0] if node.shape is not None else tuple(values)

    def _perform(self, group: Communicator, members: Sequence[Waiting]) -> None:
        instance = len({i[0] for i in self.instances})
        ranks = ",".join(map(str, group.ranks))
        for rank, one in zip(group.ranks, members, strict=True):
            self.instances.append((instance, one.kind, one.reduction, ranks, rank, one.node.name))
        forms = {one.form for one in members}
        if len(forms) > 1:
            for rank, one in zip(group.ranks, members, strict=True):
                others = [m for m in members if m.form != one.form]
                self._mismatch(rank, one, f"{_form(one)} meets {_form(others[0])}")
                self._opaque(rank, one.node, one.views)
            return
        first = self.contexts[group.ranks[0]]
        first.node = members[0].node
        first.side.at = At(group.ranks[0], first.node.name, first.node.target)
        try:
            outs = self._outs(first, members, group)
        except Misfit as problem:
            for rank, one in zip(group.ranks, members, strict=True):
                self._mismatch(rank, one, str(problem))
                self._opaque(rank, one.node, one.views)
            return
        except SENSELESS as error:
            raise senseless(first, error) from error
        except Unsupported as reason:
            for rank, one in zip(group.ranks, members, strict=True):
                row = (first.side.name, rank, one.node.name, one.node.target, str(reason))
                first.notes.unsupported.append(row)
                self._opaque(rank, one.node, one.views)
            return
        for rank, one, out in zip(group.ranks, members, outs, strict=True):
            ctx = self.contexts[rank]
            if isinstance(out, View):
                _same_shape(ctx, one.node, out)
            elif out is None and one.views and one.views[0] is not None:
                ctx.side.at = At(rank, one.node.name, one.node.target)
                out = ctx.side.source(one.views[0].shape, "uninitialised")
                ctx.notes.uninitialised.append((ctx.side.name, rank, one.node.name))
            ctx.values[one.node.name] = out

    def _outs(self, ctx: Context, members: Sequence[Waiting], group: Communicator) -> list[Any]:
        """The result on each member: a view, views, or None where it gets nothing."""
        for one in members:
            strange = set(list(one.node.bound)[1:]) - KNOWN - {"out"}
            if strange:
                raise Unsupported(f"argument `{min(map(str, strange))}` is not described")
        for view in (v for one in members for v in one.views if v is not None):
            if any(map(is_symbolic, view.shape)):
                raise Unsupported("a size that depends on data")
        kind = _plain(members[0].kind)
        if kind == "scatter":
            return _scattered(members, group)
        known = [[v for v in one.views if v is not None] for one in members]
        if any(len(k) < len(one.views) for k, one in zip(known, members, strict=True)):
            raise Unsupported("an operand is not known")
        if kind == "gather":
            root = _root(members[0], group)
            pieces = tuple(k[0] for k in known)
            return [pieces if i == root else () for i in range(len(members))]
        if not members[0].many:
            return list(_results(ctx, members, group, [k[0] for k in known]))
        if not kind.endswith("_coalesced"):
            raise Unsupported("a list of tensors")
        columns = [
            list(_results(ctx, members, group, list(column))) for column in zip(*known, strict=True)
        ]
        return [tuple(row) for row in zip(*columns, strict=True)]


GROUP = ("group_name", "group")
REDUCTION = ("reduce_op", "reduceOp", "red_op")
ROOT = ("src", "dst")
SIZE = ("group_size", "world_size")
SPLITS = ("output_split_sizes", "input_split_sizes")
KNOWN = frozenset([*GROUP, *REDUCTION, *ROOT, *SIZE, *SPLITS, "dim", "tag", "ranks"])
TRANSFERS = ("isend", "irecv", "batch_p2p_ops")


def _plain(kind: str) -> str:
    """The collective, whether it writes into its operand or into memory that is given."""
    return kind.removesuffix("_out").removesuffix("_")


def _batch(node: Node) -> tuple[Any, ...]:
    """Kinds, peers, tags and tensors of a batch of transfers."""
    return tuple(node.bound[k] for k in ("op_list", "peer_list", "tag_list", "tensors"))


def _transfer(call: Call) -> tuple[Any, ...]:
    """The same of a single transfer."""
    bound = call.node.bound
    peer = next((bound[k] for k in ROOT if k in bound), None)
    if peer is None:
        raise ValueError("it names no peer")
    return (call.name,), (peer,), (bound.get("tag", 0),), (next(iter(bound.values())),)


def _received(ctx: Context, kind: str, tensor: Any) -> set[str]:
    """The nodes whose memory a transfer receives into."""
    if not kind.endswith("recv") or not isinstance(tensor, Ref):
        return set()
    return ctx.memory.get(tensor.name, {tensor.name})


def _root(one: Waiting, group: Communicator) -> int:
    """The root's place in the group."""
    root = next((one.node.bound[k] for k in ROOT if k in one.node.bound), None)
    if not isinstance(root, int):
        raise ValueError("it names no root")
    if not 0 <= root < len(group.ranks):
        raise Misfit(f"its root {root} is no member of {list(group.ranks)}")
    return root


def _scattered(members: Sequence[Waiting], group: Communicator) -> list[Any]:
    """What the root gives to each member: a list of tensors, one each."""
    given = members[_root(members[0], group)]
    if len(given.views) != len(members):
        raise Misfit(f"its root gives {len(given.views)} tensors to {len(members)} members")
    if any(v is None for v in given.views):
        raise Unsupported("an operand is not known")
    return list(given.views)


def _cycle_text(
    awaited: Mapping[int, tuple[Node, Sequence[int]]], groups: Mapping[int, Communicator]
) -> str:
    """Ranks that wait for each other in a circle, if there are some: who waits where for whom."""

    def blocked(rank: int) -> list[int]:
        mine = groups.get(rank)
        others = [other for other in awaited[rank][1] if other != rank and other in awaited]
        return [other for other in others if mine is None or groups.get(other) != mine]

    for start in sorted(awaited):
        way, seen = [start], {start}
        while following := [other for other in blocked(way[-1]) if other not in seen]:
            way.append(following[0])
            seen.add(following[0])
        back = [other for other in blocked(way[-1]) if other in seen]
        if back:
            way = way[way.index(back[0]) :]
            told = ", ".join(
                f"rank {rank} at `{awaited[rank][0].name}` for rank {other}"
                for rank, other in zip(way, [*way[1:], way[0]], strict=True)
            )
            return f"; they wait for each other: {told}"
    return ""


class Misfit(Exception):
    """A collective that contradicts its own group."""


def _form(one: Waiting) -> str:
    kind, reduction, dtype, numbers, shapes = one.form
    told = ", ".join(str(list(s or ())) for s in shapes)
    more = ", ".join(f"{k}={list(n) if isinstance(n, tuple) else n}" for k, n in numbers)
    return f"{kind}({reduction}) of {dtype}{told}" + (f" with {more}" if more else "")


def _same_shape(ctx: Context, node: Node, out: View) -> None:
    if node.shape is not None and tuple(node.shape) != out.shape:
        ctx.node = node
        raise InputError(
            f"its shape is given as {list(node.shape)}, its operands make it {list(out.shape)}",
            ctx.where(),
            "the shapes of the graph do not add up: capture it again",
        )


def _results(
    ctx: Context, members: Sequence[Waiting], group: Communicator, views: list[View]
) -> Iterator[View | None]:
    """The result on each member, in the group's order."""
    size, one = len(group.ranks), members[0]
    kind, bound = _plain(one.kind).removesuffix("_coalesced"), one.node.bound
    said = next((bound[k] for k in SIZE if k in bound), size)
    if said != size:
        raise Misfit(f"it says {said} members, its group has {size}")
    if kind == "all_reduce":
        yield from [reduce(ctx, views, one.reduction)] * size
    elif kind == "all_gather_into_tensor":
        yield from [gather(ctx, views, bound.get("dim", 0))] * size
    elif kind == "reduce_scatter_tensor":
        yield from shares(ctx, reduce(ctx, views, one.reduction), size)
    elif kind == "broadcast":
        yield from [views[_root(one, group)]] * size
    elif kind == "reduce":
        root, whole = _root(one, group), reduce(ctx, views, one.reduction)
        yield from (whole if i == root else None for i in range(size))
    elif kind == "all_to_all_single":
        yield from exchanged(ctx, members, views)
    else:
        raise Unsupported("a collective that is not in the table")


def exchanged(ctx: Context, members: Sequence[Waiting], views: list[View]) -> Iterator[View]:
    """all_to_all: member i gives its part j to member j."""
    size = len(views)
    given = [_splits(one, v, size) for one, v in zip(members, views, strict=True)]
    for member, one in enumerate(members):
        sizes = tuple(row[member] for row in given)
        if (asked := _sizes(one, "output_split_sizes")) and asked != sizes:
            raise Misfit(f"member {member} expects {list(asked)} rows, it is sent {list(sizes)}")
    for member in range(size):
        parts = []
        for row, view in zip(given, views, strict=True):
            if row[member]:
                start = sum(row[:member])
                parts.append(need(ctx.side.slice(view, 0, start, row[member])))
        if not parts:
            raise Unsupported("a member that gets nothing")
        yield gather(ctx, parts, 0, local=True)


def _splits(one: Waiting, view: View, size: int) -> tuple[int, ...]:
    """How the rows of a member are split."""
    sizes = _sizes(one, "input_split_sizes")
    if not sizes:
        if not view.dims or view.shape[0] % size:
            raise Unsupported(f"dimension 0 does not split into {size} parts")
        return (view.shape[0] // size,) * size
    if len(sizes) != size or sum(sizes) != view.shape[0]:
        raise Misfit(f"splits {list(sizes)} do not make up {view.shape[0]} rows")
    return sizes


def _sizes(one: Waiting, name: str) -> tuple[int, ...]:
    """Split sizes, empty where the parts are equal."""
    found = one.node.bound.get(name)
    if found is not None and not all(type(e) is int and e >= 0 for e in found):
        raise Unsupported("split sizes that depend on data")
    return tuple(found or ())


def reduce(ctx: Context, views: list[View], reduction: str) -> View:
    """Members' tensors added up (avg, max, min). Of integers a sum is one modulo their width; of
    truth values there is none."""
    if len({v.shape for v in views}) > 1:
        raise Unsupported("members of different shapes")
    dtype = ctx.dtype_of(_first_tensor(ctx.node))
    if reduction in ("sum", "avg"):
        return _added(ctx, views, reduction, dtype)
    if reduction in ("max", "min"):
        views = [single(ctx, v, dtype) for v in views]
        if any(v.scale != views[0].scale for v in views):
            raise Unsupported("a maximum of scaled tensors")
        return need(ctx.side.sum(views, reduction))
    raise Unsupported(f"reduction `{reduction}`")


def _first_tensor(node: Node) -> Any:
    first = next(iter(node.bound.values()))
    return first[0] if isinstance(first, tuple) and first else first


def _added(ctx: Context, views: list[View], reduction: str, dtype: str) -> View:
    if dtype == "bool":
        raise Unsupported("a sum of truth values by a collective")
    found = None
    if is_integer(dtype):
        if reduction == "avg":
            raise Unsupported("an average of integers")
        found = total(interval(v, dtype) for v in views)
        views = arithmetic(ctx, views, dtype, found)

    def add(terms: list[View]) -> View | None:
        made = ctx.side.sum(terms)
        if made is not None and len(terms) > 3:
            ctx.side.sum_in_blocks(made, terms)
        return made

    if is_integer(dtype):
        whole = need(add(views))
    else:
        whole = of_sum(ctx, summed(ctx.side, views, add) or need(add(views)), views)
    if found is not None and not whole.base.ring:
        learn(whole, found)
    return whole.scaled(scale(len(views)).inverse()) if reduction == "avg" else whole


def gather(ctx: Context, views: list[View], dim: int, local: bool = False) -> View:
    """Members' tensors one after the other; ``local`` where they need not continue each other."""
    dim = ctx.dim(dim, len(views[0].dims))
    made = ctx.side.concat(views, dim, local=local)
    return joined(ctx, views, dim) if made is None else made


def shares(ctx: Context, whole: View, size: int) -> Iterator[View]:
    """Dimension 0 in equal parts."""
    if not whole.dims or whole.shape[0] % size or not prod(whole.shape):
        raise Unsupported(f"dimension 0 does not split into {size} parts")
    part = whole.shape[0] // size
    for member in range(size):
        yield need(ctx.side.slice(whole, 0, member * part, part))
