"""Collectives of eager code, which write into their operands, as functional operators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.distributed import ReduceOp

from gg_datalog.tracing.private import FakeWork, ProcessGroup, TorchDispatchMode, Work
from gg_datalog.tracing.refusal import Refused

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
):
    LIBRARY.define(_schema)
ours = torch.ops.gg_datalog


def _same_form(x: torch.Tensor, *_: Any) -> torch.Tensor:
    return torch.empty_like(x)


for _name in ("isend", "irecv", "reduce", "broadcast"):
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
for _name in ("isend", "irecv", "reduce", "gather", "scatter", "broadcast"):
    torch.fx.node.has_side_effect(getattr(ours, _name).default)
for _name in ("all_reduce", "all_gather_into_tensor", "reduce_scatter_tensor", "all_to_all_single"):
    torch.fx.node.has_side_effect(getattr(functional, _name).default)


class FunctionalCollectives(TorchDispatchMode):  # type: ignore[misc]
    """Rewrites ``c10d`` operators: a functional operator, then a copy into the operand.

    It runs below autograd, so that what eager code differentiates stays as it is: a collective
    that writes into its operand has the identity as its backward.
    """

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        """Every operator comes by; those of c10d are rewritten."""
        if getattr(func, "namespace", "") != "c10d":
            return func(*args, **(kwargs or {}))
        name = func._schema.name.removeprefix("c10d::")
        rewrite = REWRITES.get(name)
        if rewrite is None:
            raise Refused(
                f"the collective c10d.{name} has no functional form here",
                "use another collective, or write the program with functional collectives",
            )
        given = dict(zip((a.name for a in func._schema.arguments), args, strict=False))
        return rewrite({**given, **(kwargs or {})})


Given = dict[str, Any]


def _done() -> Any:
    return Work.boxed(FakeWork())


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
    for x in given["tensors"]:
        x.copy_(_waited(functional.all_reduce(x, _reduction(given), name)))
    return given["tensors"], _done()


def _all_reduce_coalesced(given: Given) -> Any:
    return _all_reduce(given)[1]


def _gathered(x: torch.Tensor, given: Given) -> Any:
    name, size = _group(given)
    flat = x.contiguous().reshape(1) if x.dim() == 0 else x.contiguous()
    return _waited(functional.all_gather_into_tensor(flat, size, name))


def _all_gather_base(given: Given) -> Any:
    out = given["output_tensor"]
    out.copy_(_gathered(given["input_tensor"], given).view(out.shape))
    return out, _done()


def _all_gather(given: Given) -> Any:
    for outs, x in zip(given["output_tensors"], given["input_tensors"], strict=True):
        for out, part in zip(outs, _gathered(x, given).chunk(len(outs)), strict=True):
            out.copy_(part.reshape(out.shape))
    return given["output_tensors"], _done()


def _all_gather_list(given: Given) -> Any:
    for out, x in zip(given["outputs"], given["inputs"], strict=True):
        out.copy_(_gathered(x, given).view(out.shape))
    return _done()


def _scattered(x: torch.Tensor, given: Given) -> Any:
    name, size = _group(given)
    op = functional.reduce_scatter_tensor
    return _waited(op(x.contiguous(), _reduction(given), size, name))


def _reduce_scatter_base(given: Given) -> Any:
    out, x = given["output_tensor"], given["input_tensor"]
    _, size = _group(given)
    if x.dim() == 0 or x.shape[0] % size:
        x = x.reshape(size, -1)
    out.copy_(_scattered(x, given).reshape(out.shape))
    return out, _done()


def _reduce_scatter(given: Given) -> Any:
    for out, parts in zip(given["output_tensors"], given["input_tensors"], strict=True):
        shares = _scattered(torch.stack(list(parts)), given)
        out.copy_(shares.reshape(out.shape))
    return given["output_tensors"], _done()


def _reduce_scatter_list(given: Given) -> Any:
    for out, x in zip(given["outputs"], given["inputs"], strict=True):
        out.copy_(_scattered(x, given).reshape(out.shape))
    return _done()


def _all_to_all_base(given: Given) -> Any:
    out, x = given["output"], given["input"]
    name, size = _group(given)
    splits = []
    for tensor, key in ((out, "output_split_sizes"), (x, "input_split_sizes")):
        splits.append(list(given[key]) or [tensor.shape[0] // size] * size)
    result = functional.all_to_all_single(x.contiguous(), splits[0], splits[1], name)
    out.copy_(_waited(result).view(out.shape))
    return _done()


def _all_to_all(given: Given) -> Any:
    outs, parts = given["output_tensors"], given["input_tensors"]
    name, _ = _group(given)
    sizes = [[t.numel() for t in side] for side in (outs, parts)]
    flat = torch.cat([part.reshape(-1) for part in parts])
    got = _waited(functional.all_to_all_single(flat, sizes[0], sizes[1], name))
    for out, piece in zip(outs, got.split(sizes[0]), strict=True):
        out.copy_(piece.view(out.shape))
    return outs, _done()


def _broadcast(given: Given) -> Any:
    name, _ = _group(given)
    for x in given["tensors"]:
        x.copy_(ours.broadcast(x, given["root_rank"], name))
    return given["tensors"], _done()


def _reduce(given: Given) -> Any:
    name, _ = _group(given)
    for x in given["tensors"]:
        # What is left elsewhere than on the root is not defined.
        x.copy_(ours.reduce(x, _reduction(given), given["root_rank"], name))
    return _done()


def _gather(given: Given) -> Any:
    name, size = _group(given)
    root = given["root_rank"]
    here = _rank(given) == root
    for place, x in enumerate(given["input_tensors"]):
        parts = ours.gather(x, root, name, size if here else 0)
        if here:
            for out, part in zip(given["output_tensors"][place], parts, strict=True):
                out.copy_(part)
    return _done()


def _scatter(given: Given) -> Any:
    name, _ = _group(given)
    for place, out in enumerate(given["output_tensors"]):
        parts = given["input_tensors"][place] if given["input_tensors"] else []
        out.copy_(ours.scatter(list(parts), out, given["root_rank"], name))
    return given["output_tensors"], _done()


def _send(given: Given) -> Any:
    name, _ = _group(given)
    for x in given["tensors"]:
        ours.isend(x, given["dst"], given["tag"], name)
    return _done()


def _receive(given: Given) -> Any:
    name, _ = _group(given)
    for x in given["tensors"]:
        x.copy_(ours.irecv(x, given["src"], given["tag"], name))
    return _done()


def _barrier(given: Given) -> Any:
    return _done()


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
    "monitored_barrier_": lambda given: None,
}
