"""Collectives of eager code, which write into their operands, as functional operators."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch.distributed import ReduceOp
from torch.utils._pytree import tree_flatten

from gg_datalog.tracing.draws import is_random, noted
from gg_datalog.tracing.futures import RUNNING, Arriving
from gg_datalog.tracing.inputs import local_of
from gg_datalog.tracing.private import (
    DEVICE,
    FakeTensor,
    FakeWork,
    ProcessGroup,
    TorchDispatchMode,
    Work,
    below_autograd,
    device_of,
    storage_of,
)
from gg_datalog.tracing.refusal import Refused
from gg_datalog.tracing.source import is_library

functional = torch.ops._c10d_functional
REDUCTIONS = {"SUM": "sum", "AVG": "avg", "MAX": "max", "MIN": "min", "PRODUCT": "product"}
KINDS = (*REDUCTIONS, "BAND", "BOR", "BXOR", "PREMUL_SUM")

# Transfers and rooted collectives that torch has no functional form of (docs/format.md).
LIBRARY = torch.library.Library("gg_datalog", "FRAGMENT")
for _schema in (
    "isend(Tensor x, int peer, int tag, str group) -> Tensor",
    "irecv(Tensor x, int peer, int tag, str group) -> Tensor",
    "reduce(Tensor x, str reduction, int root, str group) -> Tensor",
    "gather(Tensor x, int root, str group, int parts) -> Tensor[]",
    "scatter(Tensor[] parts, Tensor like, int root, str group) -> Tensor",
    "broadcast(Tensor x, int root, str group) -> Tensor",
    "in_flight(Tensor x) -> Tensor",
    "in_memory_order(Tensor x, str call) -> Tensor",
    "misused(Tensor x, str problem) -> Tensor",
):
    LIBRARY.define(_schema)
ours = torch.ops.gg_datalog


def _same_form(x: torch.Tensor, *_: Any) -> torch.Tensor:
    return torch.empty_like(x)


for _name in (
    "isend", "irecv", "reduce", "broadcast", "in_flight", "in_memory_order", "misused",
):  # fmt: skip
    LIBRARY.impl(_name, _same_form, "CompositeExplicitAutograd")
LIBRARY.impl(
    "gather",
    lambda x, root, group, parts: [torch.empty_like(x) for _ in range(parts)],
    "CompositeExplicitAutograd",
)
LIBRARY.impl(
    "scatter",
    lambda parts, like, root, group: torch.empty_like(like),
    "CompositeExplicitAutograd",
)
for _name in (
    "isend", "irecv", "reduce", "gather", "scatter", "broadcast", "in_memory_order", "misused",
):  # fmt: skip
    torch.fx.node.has_side_effect(getattr(ours, _name).default)
for _name in ("all_reduce", "all_gather_into_tensor", "reduce_scatter_tensor", "all_to_all_single"):
    torch.fx.node.has_side_effect(getattr(functional, _name).default)


class Pending(Work):  # type: ignore[misc]
    """A collective that was started: what it gives comes into its tensors when it is waited for.

    Until then they hold no value (``in_flight``), and what it reads must not be written.
    """

    def __init__(
        self,
        into: Sequence[torch.Tensor],
        reads: Sequence[torch.Tensor],
        finish: Any,
        sends: bool = False,
    ):
        super().__init__()
        self.into, self.finish, self.sends = list(into), finish, sends
        self.fills, self.reads = [_extent(x) for x in into], [_extent(x) for x in reads]
        self.done = self.marked = self.spoilt = False

    def wait(self, timeout: Any = None) -> bool:
        """The values are there now."""
        if not self.done:
            self.done = True
            with below_autograd():  # as the collective itself
                self.finish()
                if self.spoilt:
                    self._mark()
        return True

    def synchronize(self) -> None:
        """As :meth:`wait`."""
        self.wait()

    def get_future(self) -> torch.futures.Future[list[torch.Tensor]]:
        """For communication hooks, and for torch itself, which waits for it before it looks."""
        if RUNNING:
            return Arriving(self.wait, self.into)
        if not is_library(sys._getframe(1).f_code.co_filename):
            raise Refused(
                "the program takes the future of a collective, whose callbacks run at any time",
                "wait for the collective: .wait()",
            )
        self.wait()
        future: torch.futures.Future[list[torch.Tensor]] = torch.futures.Future()
        future.set_result(self.into)
        return future

    def is_completed(self) -> bool:
        """Nothing moves here."""
        if not self.done:
            raise Refused(
                "the program asks whether a collective is completed, which depends on time",
                "wait for it: .wait()",
            )
        return True

    def passed_by(self, func: Any, args: Sequence[Any], kwargs: Any) -> None:
        """Another operator comes between the start and the waiting: it may write what is read, or
        look at what is still to be written. One that only gives a view does neither, nor does one
        that asks for a device or a size."""
        schema = func._schema
        if schema.name.startswith(("prim::", "aten::sym_")):
            return
        if schema.returns and all(_is_view(r) for r in schema.returns):
            return
        given = zip(schema.arguments, args, strict=False)
        named = ((a, (kwargs or {}).get(a.name)) for a in schema.arguments)
        for argument, value in (*given, *named):
            tensors = [t for t in tree_flatten(value)[0] if isinstance(t, torch.Tensor)]
            met = [_extent(t) for t in tensors]
            if argument.alias_info is not None and argument.alias_info.is_write:
                self._written(met)
            if not self.marked and _meet(met, self.fills):
                self.marked = True
                self._mark()

    def meets(self, other: Pending) -> None:
        """Another one is started: what it receives comes into its memory at any time."""
        if not self.done:
            self._written(other.fills)

    def _written(self, extents: Sequence[Extent]) -> None:
        """Something comes into this memory before the program has waited."""
        if _meet(extents, self.reads):
            self.spoilt = True
            if self.sends:
                self._misused("it writes what is still sent")
        if _meet(extents, self.fills):
            self._misused("it writes where something is still received")

    def _misused(self, problem: str) -> None:
        with below_autograd():
            ours.misused(torch.empty(1), problem)

    def passed_by_end(self) -> None:
        """The program ends."""
        if not self.done and self.sends:
            self._misused("nothing waits for what is sent: it may never be")
        if not self.done and not self.marked:
            self.marked = True
            with below_autograd():
                self._mark()

    def _mark(self) -> None:
        for x in self.into:
            x.copy_(ours.in_flight(x))


Extent = tuple[int, int, int]  # a storage, and from where to where in it, in bytes


def _extent(x: torch.Tensor) -> Extent:
    """The part of its memory that a tensor spans."""
    x = local_of(x)
    steps = zip(x.shape, x.stride(), strict=True)
    span = sum((n - 1) * abs(step) for n, step in steps) + 1 if x.numel() else 0
    start, size = x.storage_offset(), x.element_size()
    return storage_of(x), start * size, (start + span) * size


def _meet(some: Sequence[Extent], others: Sequence[Extent]) -> bool:
    return any(a[0] == b[0] and a[1] < b[2] and b[1] < a[2] for a in some for b in others)


def _is_view(result: Any) -> bool:
    return result.alias_info is not None and not result.alias_info.is_write


STARTED: list[Pending] = []  # by the mode that is entered; one at a time in a process


def never_waited() -> None:
    """At the end of a program: what was started and not waited for has no value."""
    for one in STARTED:
        one.passed_by_end()


class Watched(TorchDispatchMode):  # type: ignore[misc]
    """Rewrites ``c10d`` operators: a functional operator, then a copy into the operand. Operators
    that draw random numbers are noted (:mod:`gg_datalog.tracing.draws`).

    It runs below autograd, so that what eager code differentiates stays as it is: a collective
    that writes into its operand has the identity as its backward. The copy is made where the
    program waits for the collective; until then its operand has no value.
    """

    def __enter__(self) -> Any:
        STARTED.clear()
        return super().__enter__()

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Nothing is compiled while it is entered, and torch's wrapper costs as much as it does."""
        return False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        """Every operator comes by; those of c10d are rewritten."""
        if func is DEVICE and type(args[0]) is FakeTensor:
            return device_of(args[0])
        for one in [p for p in STARTED if not p.done]:
            one.passed_by(func, args, kwargs)
        if getattr(func, "namespace", "") != "c10d":
            kwargs = kwargs or {}
            return noted(func, args, kwargs) if is_random(func) else func(*args, **kwargs)
        name = func._schema.name.removeprefix("c10d::")
        rewrite = REWRITES.get(name)
        if rewrite is None:
            raise Refused(
                f"the collective c10d.{name} has no functional form here",
                "use another collective, or write the program with functional collectives",
            )
        given = dict(zip((a.name for a in func._schema.arguments), args, strict=False))
        return rewrite({**given, **(kwargs or {})})


def drop_unread(graph: torch.fx.GraphModule) -> None:
    """Takes the marks of collectives in flight out of a graph where nothing reads them."""
    marks = graph.graph.find_nodes(op="call_function", target=ours.in_flight.default)
    for mark in marks:
        for user in [u for u in mark.users if not u.users and u.op != OUTPUT]:
            graph.graph.erase_node(user)
        if not mark.users:
            graph.graph.erase_node(mark)
    graph.recompile()


OUTPUT = "output"
Given = dict[str, Any]


def _done() -> Any:
    return Work.boxed(FakeWork())


def _started(
    values: Sequence[tuple[torch.Tensor, Any]],
    reads: Sequence[torch.Tensor],
    sent: Sequence[torch.Tensor] = (),
) -> Any:
    """A handle of what was started: each tensor gets its value when it is waited for, and what is
    sent is waited for then."""

    def finish() -> None:
        for one in sent:
            _waited(one)
        for into, value in values:
            into.copy_(value())

    one = Pending([into for into, _ in values], reads, finish, bool(sent))
    for other in STARTED:
        other.meets(one)
        if one.sends and not other.done and _meet(other.fills, one.reads):
            one._misused("it sends where something is still received")
    STARTED.append(one)
    return Work.boxed(one)


def _group(given: Given) -> tuple[str, int]:
    group = given["process_group"]
    group = ProcessGroup.unbox(group) if isinstance(group, torch.ScriptObject) else group
    return str(group.group_name), group.size()


def _rank(given: Given) -> int:
    group = given["process_group"]
    return int(
        (ProcessGroup.unbox(group) if isinstance(group, torch.ScriptObject) else group).rank()
    )


def _reduction(given: Given) -> str:
    kind = given["reduce_op"].op()
    name = next((n for n in KINDS if kind == getattr(ReduceOp, n)), str(kind))
    if name not in REDUCTIONS:
        raise Refused(
            f"the reduction {name} of a collective is not known here",
            f"known: {', '.join(sorted(REDUCTIONS.values()))}",
        )
    return REDUCTIONS[name]


def _waited(x: Any) -> Any:
    return functional.wait_tensor(x)


def _all_reduce(given: Given) -> Any:
    name, _ = _group(given)
    kind = _reduction(given)
    made = [(x, functional.all_reduce(x, kind, name)) for x in given["tensors"]]
    later = [(x, partial(_waited, value)) for x, value in made]
    return given["tensors"], _started(later, given["tensors"])


def _all_reduce_coalesced(given: Given) -> Any:
    return _all_reduce(given)[1]


def _gathered(x: torch.Tensor, given: Given) -> Any:
    name, size = _group(given)
    flat = x.contiguous().reshape(1) if x.dim() == 0 else x.contiguous()
    return functional.all_gather_into_tensor(flat, size, name)


def _in_form(value: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    return _waited(value).reshape(like.shape)


def _in_order(value: torch.Tensor, call: str, tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """What a collective gives that reads and fills memory in order, whatever the strides: gloo's
    all_to_all_single and scatter do so, its send and recv refuse what is not contiguous, and its
    other collectives copy. (Seen by running torch 2.13; NCCL was not.)"""
    if all(x.is_contiguous() for x in tensors):
        return value
    return ours.in_memory_order(value, call)


def _read(x: torch.Tensor) -> torch.Tensor:
    """What such a collective reads of a tensor: its elements as they lie in memory."""
    order = None if x.is_contiguous() else _memory(x)
    return x.contiguous() if order is None else x.permute(order).reshape(x.shape)


def _filled(value: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    """What is in a tensor after such a collective has filled its memory."""
    order = None if out.is_contiguous() else _memory(out)
    if order is None:
        return value
    places = sorted(range(out.dim()), key=order.__getitem__)
    return value.reshape([out.shape[dim] for dim in order]).permute(places)


def _memory(x: torch.Tensor) -> list[int] | None:
    """The dimensions as they lie in memory, outermost first; None where it has gaps."""
    order = sorted(range(x.dim()), key=lambda dim: (-x.stride(dim), dim))
    return order if x.permute(order).is_contiguous() else None


def _all_gather_base(given: Given) -> Any:
    out, x = given["output_tensor"], given["input_tensor"]
    return out, _started([(out, partial(_in_form, _gathered(x, given), out))], [x])


def _all_gather(given: Given) -> Any:
    later: list[tuple[torch.Tensor, Any]] = []
    for outs, x in zip(given["output_tensors"], given["input_tensors"], strict=True):
        later += _shares_of(_gathered(x, given), outs)
    return given["output_tensors"], _started(later, given["input_tensors"])


def _shares_of(value: torch.Tensor, outs: Sequence[torch.Tensor]) -> list[tuple[torch.Tensor, Any]]:
    """Each tensor with its part of a value that is waited for once."""
    parts: list[torch.Tensor] = []

    def part(place: int) -> torch.Tensor:
        if not parts:
            parts.extend(_waited(value).chunk(len(outs)))
        return parts[place].reshape(outs[place].shape)

    return [(out, partial(part, place)) for place, out in enumerate(outs)]


def _all_gather_list(given: Given) -> Any:
    pairs = zip(given["outputs"], given["inputs"], strict=True)
    later = [(out, partial(_in_form, _gathered(x, given), out)) for out, x in pairs]
    return _started(later, given["inputs"])


def _scattered(x: torch.Tensor, given: Given) -> Any:
    name, size = _group(given)
    op = functional.reduce_scatter_tensor
    return op(x.contiguous(), _reduction(given), size, name)


def _reduce_scatter_base(given: Given) -> Any:
    out, x = given["output_tensor"], given["input_tensor"]
    _, size = _group(given)
    if x.dim() == 0 or x.shape[0] % size:
        x = x.reshape(size, -1)
    later = [(out, partial(_in_form, _scattered(x, given), out))]
    return out, _started(later, [given["input_tensor"]])


def _reduce_scatter(given: Given) -> Any:
    later = []
    for out, parts in zip(given["output_tensors"], given["input_tensors"], strict=True):
        later.append((out, partial(_in_form, _scattered(torch.stack(list(parts)), given), out)))
    reads = [part for parts in given["input_tensors"] for part in parts]
    return given["output_tensors"], _started(later, reads)


def _reduce_scatter_list(given: Given) -> Any:
    pairs = zip(given["outputs"], given["inputs"], strict=True)
    later = [(out, partial(_in_form, _scattered(x, given), out)) for out, x in pairs]
    return _started(later, given["inputs"])


def _all_to_all_base(given: Given) -> Any:
    out, x = given["output"], given["input"]
    name, size = _group(given)
    splits = []
    for tensor, key in ((out, "output_split_sizes"), (x, "input_split_sizes")):
        splits.append(list(given[key]) or [tensor.shape[0] // size] * size)
    result = functional.all_to_all_single(x.contiguous(), splits[0], splits[1], name)

    def received() -> torch.Tensor:
        return _in_order(_filled(_in_form(result, out), out), "all_to_all_single", (out, x))

    return _started([(out, received)], [x])


def _all_to_all(given: Given) -> Any:
    outs, parts = given["output_tensors"], given["input_tensors"]
    name, _ = _group(given)
    sizes = [[t.numel() for t in side] for side in (outs, parts)]
    flat = torch.cat([part.reshape(-1) for part in parts])
    got = functional.all_to_all_single(flat, sizes[0], sizes[1], name)
    pieces: list[torch.Tensor] = []

    def piece(place: int) -> torch.Tensor:
        if not pieces:
            pieces.extend(_waited(got).split(sizes[0]))
        return pieces[place].view(outs[place].shape)

    return outs, _started([(out, partial(piece, i)) for i, out in enumerate(outs)], parts)


def _broadcast(given: Given) -> Any:
    name, _ = _group(given)
    made = [(x, ours.broadcast(x, given["root_rank"], name)) for x in given["tensors"]]
    later = [(x, partial(_itself, value)) for x, value in made]
    return given["tensors"], _started(later, given["tensors"])


def _itself(value: torch.Tensor) -> torch.Tensor:
    return value


def _reduce(given: Given) -> Any:
    name, _ = _group(given)
    # What is left elsewhere than on the root is not defined.
    root, kind = given["root_rank"], _reduction(given)
    made = [(x, ours.reduce(x, kind, root, name)) for x in given["tensors"]]
    return _started([(x, partial(_itself, value)) for x, value in made], given["tensors"])


def _gather(given: Given) -> Any:
    name, size = _group(given)
    root = given["root_rank"]
    here = _rank(given) == root
    later: list[tuple[torch.Tensor, Any]] = []
    for place, x in enumerate(given["input_tensors"]):
        parts = ours.gather(x, root, name, size if here else 0)
        if here:
            pairs = zip(given["output_tensors"][place], parts, strict=True)
            later += [(out, partial(_itself, part)) for out, part in pairs]
    return _started(later, given["input_tensors"])


def _scatter(given: Given) -> Any:
    name, _ = _group(given)
    later = []
    for place, out in enumerate(given["output_tensors"]):
        parts = given["input_tensors"][place] if given["input_tensors"] else []
        made = ours.scatter([_read(part) for part in parts], out, given["root_rank"], name)
        later.append((out, partial(_scattered_to, made, out, parts)))
    reads = [part for parts in given["input_tensors"] for part in parts]
    return given["output_tensors"], _started(later, reads)


def _scattered_to(
    value: torch.Tensor, out: torch.Tensor, parts: Sequence[torch.Tensor]
) -> torch.Tensor:
    return _in_order(_filled(value, out), "scatter", (out, *parts))


def _send(given: Given) -> Any:
    name, _ = _group(given)
    made = [
        ours.isend(_in_order(x, "send", (x,)), given["dst"], given["tag"], name)
        for x in given["tensors"]
    ]
    return _started([], given["tensors"], made)


def _receive(given: Given) -> Any:
    name, _ = _group(given)
    src, tag = given["src"], given["tag"]
    # graphs are functional: what is received is a value, and the memory for it is not looked at
    made = [(x, ours.irecv(torch.empty_like(x), src, tag, name)) for x in given["tensors"]]
    later = [(x, partial(_arrived, value, x)) for x, value in made]
    return _started(later, [])


def _arrived(value: torch.Tensor, into: torch.Tensor) -> torch.Tensor:
    return _in_order(_waited(value), "recv", (into,))


def _barrier(given: Given) -> Any:
    """All of a group meet: as in a reduction of which nobody reads the result."""
    name, _ = _group(given)
    _waited(functional.all_reduce(torch.zeros(1), "sum", name))
    return _done()


def _monitored_barrier(given: Given) -> None:
    _barrier(given)


REWRITES: dict[str, Callable[[Given], Any]] = {
    "allreduce_": _all_reduce,
    "allreduce_coalesced_": _all_reduce_coalesced,
    "_allgather_base_": _all_gather_base,
    "allgather_": _all_gather,
    "allgather_into_tensor_coalesced_": _all_gather_list,
    "_reduce_scatter_base_": _reduce_scatter_base,
    "reduce_scatter_": _reduce_scatter,
    "reduce_scatter_tensor_coalesced_": _reduce_scatter_list,
    "alltoall_base_": _all_to_all_base,
    "alltoall_": _all_to_all,
    "broadcast_": _broadcast,
    "reduce_": _reduce,
    "gather_": _gather,
    "scatter_": _scatter,
    "send": _send,
    "recv_": _receive,
    "barrier": _barrier,
    "monitored_barrier_": _monitored_barrier,
}
