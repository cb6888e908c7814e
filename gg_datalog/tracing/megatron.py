"""Which part of a parameter a rank holds, as Megatron-Core says it: in attributes of the parameter,
and in the model's ``sharded_state_dict``, which checkpoints are made with."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from torch import nn

from gg_datalog.foundation.errors import InputError
from gg_datalog.tracing.pieces import Piece, Placed, agree

STATE = "megatron.core.parallel_state"
BY_STATE, BY_ATTRIBUTES = "Megatron-Core's sharded_state_dict", "Megatron-Core's attributes"
EXPERT = "allreduce"  # false on parameters of experts, which are cut over another group


# ---- attributes
def by_attributes(tensor: Any, name: str) -> Placed:
    """``tensor_model_parallel``, ``partition_dim`` and ``partition_stride`` of Megatron-Core."""
    shape = list(tensor.shape)
    size, rank = _tensor_parallel()
    if not getattr(tensor, "tensor_model_parallel", False) or size == 1:
        whole = [[0, e] for e in shape]
        return tuple(shape), [(whole, whole)], BY_ATTRIBUTES, ["Replicate()"]
    dim, stride = int(tensor.partition_dim), int(getattr(tensor, "partition_stride", 1) or 1)
    full = [*shape[:dim], shape[dim] * size, *shape[dim + 1 :]]
    if shape[dim] % stride:
        raise InputError(
            f"`{name}` {shape} has partition_stride {stride}, which does not divide {shape[dim]}",
            None,
            "give the relation in relations.toml",
        )
    width = shape[dim] // stride
    starts = [(s * size + rank) * width for s in range(stride)]
    pieces = []
    for place, start in enumerate(starts):
        whole = [[0, e] for e in full]
        here = [[0, e] for e in shape]
        whole[dim], here[dim] = [start, start + width], [place * width, (place + 1) * width]
        pieces.append((whole, here))
    text = f"Shard({dim})" if stride == 1 else f"Shard({dim}) in {stride} parts"
    return tuple(full), pieces, BY_ATTRIBUTES, [text]


def _tensor_parallel() -> tuple[int, int]:
    """Size of the tensor-parallel group and place in it, as Megatron-Core keeps them."""
    state: Any = sys.modules.get(STATE)
    if state is None or not state.model_parallel_is_initialized():
        return 1, 0
    return (
        int(state.get_tensor_model_parallel_world_size()),
        int(state.get_tensor_model_parallel_rank()),
    )


# ---- sharded_state_dict
def by_state(module: nn.Module) -> dict[str, Placed]:
    """Parameters by name, for every part of a program that can say where its parameters lie."""
    state: Any = sys.modules.get(STATE)
    if state is None or not state.model_parallel_is_initialized():
        return {}
    found: dict[str, Placed] = {}
    for path, one in _models(module):
        shapes = {name: list(p.shape) for name, p in one.named_parameters()}
        for name, entry in _sharded(one, state).items():
            if name in shapes and (placed := _placed(shapes[name], list(_tensors(entry)))):
                found[f"{path}.{name}".lstrip(".")] = placed
    return found


def checked(name: str, tensor: Any, stated: Placed, attributes: Placed) -> Placed:
    """What the state dict says, unless the attributes of the parameter contradict it."""
    told = hasattr(tensor, "partition_dim") and getattr(tensor, EXPERT, True)
    ours, theirs = stated[1] or [], attributes[1] or []
    same = stated[0] == attributes[0] and agree(ours, theirs) and agree(theirs, ours)
    if told and not same:
        raise InputError(
            f"`{name}`: {BY_ATTRIBUTES} say {', '.join(attributes[3])} of {list(attributes[0])}, "
            f"{BY_STATE} says {', '.join(stated[3])} of {list(stated[0])}",
            None,
            "say in relations.toml which it is, with `overrules = true`",
        )
    return stated


def _models(module: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """The outermost modules that have a sharded state dict."""
    if hasattr(module, "sharded_state_dict"):
        yield "", module
        return
    for name, child in module.named_children():
        for path, one in _models(child):
            yield f"{name}.{path}".rstrip("."), one


def _sharded(module: Any, state: Any) -> Mapping[str, Any]:
    """The sharded state dict; empty where this release or this model cannot give it."""
    try:
        group = state.get_data_parallel_group(with_context_parallel=True)
        found = module.sharded_state_dict(metadata={"dp_cp_group": group})
    except Exception:  # attributes, or the names and shapes, have to do
        return {}
    return found if isinstance(found, Mapping) else {}


def _tensors(entry: Any) -> Iterator[Any]:
    """The sharded tensors of an entry, in the order in which they lie on the rank."""
    if hasattr(entry, "global_offset") and hasattr(entry, "local_shape"):
        yield entry
    elif hasattr(entry, "build"):
        yield from _tensors(entry.build())
    elif isinstance(entry, Mapping):
        for one in entry.values():
            yield from _tensors(one)
    elif isinstance(entry, (list, tuple)):
        for one in entry:
            yield from _tensors(one)


def _placed(shape: Sequence[int], shards: Sequence[Any]) -> Placed | None:
    """Shards that lie one after the other along one dimension of the rank's tensor."""
    cut = [_cut(one) for one in shards]
    if not cut or any(len(local) != len(shape) for _, local, _ in cut):
        return None
    wholes = {tuple(whole) for whole, _, _ in cut}
    dim = _dimension(shape, [local for _, local, _ in cut])
    if len(wholes) > 1 or dim is None:
        return None
    pieces: list[Piece] = []
    at = 0
    for _, local, offset in cut:
        there = [[lo, lo + n] for lo, n in zip(offset, local, strict=True)]
        here = [[0, n] for n in local]
        here[dim] = [at, at + local[dim]]
        at += local[dim]
        pieces.append((there, here))
    (whole,) = wholes
    return whole, pieces, BY_STATE, [_text(whole, shape, dim, len(cut))]


def _cut(shard: Any) -> tuple[list[int], list[int], list[int]]:
    """(global shape, local shape, offset), without the axes that number layers."""
    first = int(getattr(shard, "prepend_axis_num", 0) or 0)
    whole, offset = (list(map(int, x))[first:] for x in (shard.global_shape, shard.global_offset))
    return whole, list(map(int, shard.local_shape)), offset


def _dimension(shape: Sequence[int], locals_: Sequence[Sequence[int]]) -> int | None:
    for dim in range(len(shape)):
        rest = all(
            [n for i, n in enumerate(local) if i != dim]
            == [n for i, n in enumerate(shape) if i != dim]
            for local in locals_
        )
        if rest and sum(local[dim] for local in locals_) == shape[dim]:
            return dim
    return 0 if not shape and len(locals_) == 1 else None


def _text(whole: Sequence[int], shape: Sequence[int], dim: int, parts: int) -> str:
    cut = [i for i, (a, b) in enumerate(zip(whole, shape, strict=True)) if a != b]
    if not cut:
        return "Replicate()"
    return f"Shard({cut[0]})" + (f" in {parts} parts" if parts > 1 else "")
