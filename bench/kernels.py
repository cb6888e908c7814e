"""Shape rules of operators outside ATen: HLO, apex, and vLLM's kernels."""

from __future__ import annotations

from math import prod
from typing import Any

from shapes import Meta, Tensor, rule


@rule("apex.fused_layer_norm_affine_fwd.default")
def _layer_norm(
    x: Tensor, weight: Tensor, bias: Tensor, shape: list[int], _epsilon: float
) -> list[Meta | None]:
    assert weight.shape == bias.shape == tuple(shape) == x.shape[-len(shape) :]
    statistic: Meta = ((prod(x.shape[: -len(shape)]),), "float32")
    return [x.meta, statistic, statistic]


@rule("hlo.AwsNeuronRmsNorm")
def _hlo_rms_norm(x: Tensor, weight: Tensor, _epsilon: float) -> Meta:
    assert weight.shape == x.shape[:1]
    return x.meta


@rule("hlo.broadcast")
def _hlo_broadcast(x: Any, dims: list[int], shape: list[int]) -> Meta:
    own = x.shape if isinstance(x, Tensor) else ()
    assert own == tuple(shape[dim] for dim in dims), f"broadcast of {own} to {dims} of {shape}"
    return tuple(shape), x.dtype if isinstance(x, Tensor) else "float16"


@rule("hlo.select")
def _hlo_select(mask: Tensor, x: Tensor, y: Tensor) -> Meta:
    assert mask.dtype == "bool" and mask.shape == x.shape and x.meta == y.meta
    return x.meta


@rule("hlo.dot")
def _hlo_dot(
    x: Tensor,
    y: Tensor,
    inner_x: list[int],
    inner_y: list[int],
    batch_x: list[int],
    batch_y: list[int],
) -> Meta:
    for a, b in zip(inner_x + batch_x, inner_y + batch_y, strict=True):
        assert x.shape[a] == y.shape[b], f"dot of {x} and {y}"
    assert x.dtype == y.dtype
    shape = [x.shape[dim] for dim in batch_x]
    for operand, used in ((x, inner_x + batch_x), (y, inner_y + batch_y)):
        shape += [size for dim, size in enumerate(operand.shape) if dim not in used]
    return tuple(shape), x.dtype


@rule("hlo.gather")
def _hlo_gather(
    x: Tensor,
    index: Tensor,
    offset_dims: list[int],
    collapsed: list[int],
    start_map: list[int],
    vector_dim: int,
    sizes: list[int],
) -> Meta:
    """Only rows of dimension 0, picked by a vector."""
    assert (collapsed, start_map, vector_dim) == ([0], [0], len(index.shape))
    assert offset_dims == [1, 2] and (1, *x.shape[1:]) == tuple(sizes)
    return index.shape + x.shape[1:], x.dtype


@rule("auto_functionalized")
def _auto_functionalized(target: str, **operands: Any) -> list[Meta | None]:
    """A vLLM kernel: no result of its own, then the operands that it writes."""
    written = {
        "_C.rms_norm.default": ["result"],
        "_C.fused_add_rms_norm.default": ["input", "residual"],
        "_C.rotary_embedding.default": ["query", "key"],
        "_C.silu_and_mul.default": ["out"],
        "vllm.unified_attention_with_output.default": ["output"],
    }[target]
    return [None, *(operands[name].meta for name in written)]
