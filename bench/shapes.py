"""Shape and dtype of the result of every operator that the generators write.

Each rule takes the arguments of an operator and asserts that they fit together, so a graph that
was written without an error is consistent: no shape in it is stated by hand.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any, TypeVar

Shape = tuple[int, ...]
Meta = tuple[Shape, str]
"""Shape and dtype."""

DTYPES = ("bool", "int32", "int64", "float16", "bfloat16", "float32")


@dataclass(frozen=True)
class Tensor:
    """A node of a graph that is one tensor."""

    name: str
    shape: Shape
    dtype: str

    @property
    def meta(self) -> Meta:
        """Shape and dtype."""
        return self.shape, self.dtype


Rule = Callable[..., Meta | list[Meta | None]]
RuleT = TypeVar("RuleT", bound=Rule)
RULES: dict[str, Rule] = {}


def rule(*targets: str) -> Callable[[RuleT], RuleT]:
    """Register a rule for operators."""

    def register(function: RuleT) -> RuleT:
        RULES.update(dict.fromkeys(targets, function))
        return function

    return register


def broadcast(a: Shape, b: Shape) -> Shape:
    """The common shape of two operands; an extent of 1 stretches."""
    rank = max(len(a), len(b))
    wide = [(1,) * (rank - len(shape)) + shape for shape in (a, b)]
    for left, right in zip(*wide, strict=True):
        assert left == right or 1 in (left, right), f"{a} and {b} do not broadcast"
    return tuple(max(pair) for pair in zip(*wide, strict=True))


def resized(shape: Shape, dim: int, size: int) -> Shape:
    """The shape with another extent of one dimension, which may count from the end."""
    dim %= len(shape)
    return (*shape[:dim], size, *shape[dim + 1 :])


def promote(x: Tensor, y: Any) -> str:
    """The dtype of arithmetic on a tensor and a tensor or number."""
    if isinstance(y, Tensor):
        return max(x.dtype, y.dtype, key=DTYPES.index)
    return "int64" if x.dtype == "bool" else x.dtype


@rule(
    *("aten.clone.default", "aten.detach.default", "aten.empty_like.default", "aten.exp.default"),
    *("aten.gelu.default", "aten.log.default", "aten.sin.default", "aten.cos.default"),
    *("aten.bitwise_not.default", "aten.lift_fresh_copy.default", "hlo.logistic"),
    "_c10d_functional.wait_tensor.default",
)
def _same(x: Tensor, **_: Any) -> Meta:
    return x.meta


@rule("_c10d_functional.all_reduce.default", "vllm.all_reduce.default")
def _all_reduce(x: Tensor, *_: str) -> Meta:
    return x.meta


@rule("_c10d_functional.all_gather_into_tensor.default")
def _all_gather(x: Tensor, ranks: int, _group: str) -> Meta:
    return resized(x.shape, 0, x.shape[0] * ranks), x.dtype


@rule("_c10d_functional.reduce_scatter_tensor.default")
def _reduce_scatter(x: Tensor, _op: str, ranks: int, _group: str) -> Meta:
    assert x.shape[0] % ranks == 0
    return resized(x.shape, 0, x.shape[0] // ranks), x.dtype


@rule("aten._to_copy.default")
def _to_copy(x: Tensor, dtype: dict[str, str], **_: Any) -> Meta:
    return x.shape, dtype["dtype"]


@rule("aten.copy.default")
def _copy(x: Tensor, y: Tensor) -> Meta:
    assert x.meta == y.meta
    return x.meta


@rule("aten.zeros.default", "aten.empty.memory_format")
def _filled(shape: list[int], dtype: dict[str, str] | None = None, **_: Any) -> Meta:
    return tuple(shape), dtype["dtype"] if dtype else "float32"


@rule("aten.arange.start")
def _arange(lo: int, hi: int, **_: Any) -> Meta:
    return (hi - lo,), "int64"


@rule("aten.add.Tensor", "aten.sub.Tensor", "aten.mul.Tensor", "aten.div.Tensor")
def _arithmetic(x: Tensor, y: Any) -> Meta:
    shape = broadcast(x.shape, y.shape) if isinstance(y, Tensor) else x.shape
    return shape, promote(x, y)


@rule("aten.bitwise_or.Tensor", "aten.bitwise_and.Tensor", "aten.le.Tensor", "aten.ge.Tensor")
def _truth(x: Tensor, y: Tensor) -> Meta:
    assert x.dtype == y.dtype
    return broadcast(x.shape, y.shape), "bool"


@rule("aten.lt.Scalar", "aten.ge.Scalar")
def _compare(x: Tensor, _y: int) -> Meta:
    return x.shape, "bool"


@rule("aten.masked_fill.Scalar")
def _masked_fill(x: Tensor, mask: Tensor, _value: float) -> Meta:
    assert mask.dtype == "bool" and broadcast(x.shape, mask.shape) == x.shape
    return x.meta


@rule("aten.view.default")
def _view(x: Tensor, shape: list[int]) -> Meta:
    known = prod(size for size in shape if size != -1)
    assert shape.count(-1) <= 1 and prod(x.shape) % known == 0
    result = tuple(prod(x.shape) // known if size == -1 else size for size in shape)
    assert prod(result) == prod(x.shape), f"view of {x.shape} as {shape}"
    return result, x.dtype


@rule("aten.t.default")
def _t(x: Tensor) -> Meta:
    rows, columns = x.shape
    return (columns, rows), x.dtype


@rule("aten.transpose.int")
def _transpose(x: Tensor, a: int, b: int) -> Meta:
    order = list(range(len(x.shape)))
    order[a], order[b] = order[b], order[a]
    return tuple(x.shape[dim] for dim in order), x.dtype


@rule("aten.permute.default")
def _permute(x: Tensor, order: list[int]) -> Meta:
    assert sorted(order) == list(range(len(x.shape)))
    return tuple(x.shape[dim] for dim in order), x.dtype


@rule("aten.unsqueeze.default")
def _unsqueeze(x: Tensor, dim: int) -> Meta:
    assert dim == -1
    return (*x.shape, 1), x.dtype


@rule("aten.cat.default")
def _cat(parts: list[Tensor], dim: int) -> Meta:
    first = parts[0]
    for part in parts:
        assert resized(part.shape, dim, 0) == resized(first.shape, dim, 0)
        assert part.dtype == first.dtype
    return resized(first.shape, dim, sum(part.shape[dim] for part in parts)), first.dtype


@rule("aten.slice.Tensor")
def _slice(x: Tensor, dim: int, lo: int, hi: int, step: int = 1) -> Meta:
    hi = min(hi, x.shape[dim])
    assert 0 <= lo <= hi and step == 1
    return resized(x.shape, dim, hi - lo), x.dtype


@rule("aten.slice_scatter.default")
def _slice_scatter(x: Tensor, piece: Tensor, dim: int, lo: int, hi: int) -> Meta:
    assert _slice(x, dim, lo, hi) == piece.meta and 0 <= lo < x.shape[dim]
    return x.meta


@rule("aten.split_with_sizes.default")
def _split(x: Tensor, sizes: list[int], dim: int) -> list[Meta | None]:
    assert sum(sizes) == x.shape[dim]
    return [(resized(x.shape, dim, size), x.dtype) for size in sizes]


@rule("aten.mm.default")
def _mm(x: Tensor, y: Tensor) -> Meta:
    assert len(x.shape) == len(y.shape) == 2
    assert x.shape[1] == y.shape[0] and x.dtype == y.dtype, f"mm of {x} and {y}"
    return (x.shape[0], y.shape[1]), x.dtype


@rule("aten.addmm.default")
def _addmm(bias: Tensor, x: Tensor, y: Tensor) -> Meta:
    shape, dtype = _mm(x, y)
    assert broadcast(bias.shape, shape) == shape and bias.dtype == dtype
    return shape, dtype


@rule("aten.bmm.default")
def _bmm(x: Tensor, y: Tensor) -> Meta:
    (batch, rows, inner), (batch_y, inner_y, columns) = x.shape, y.shape
    assert (batch, inner, x.dtype) == (batch_y, inner_y, y.dtype), f"bmm of {x} and {y}"
    return (batch, rows, columns), x.dtype


@rule("aten.baddbmm.default")
def _baddbmm(base: Tensor, x: Tensor, y: Tensor, **_: float) -> Meta:
    assert _bmm(x, y) == base.meta
    return base.meta


@rule("aten._softmax.default")
def _softmax(x: Tensor, dim: int, _half: bool) -> Meta:
    assert -len(x.shape) <= dim < len(x.shape)
    return x.meta


@rule("aten.sum.default")
def _sum(x: Tensor) -> Meta:
    return (), x.dtype


@rule("aten.sum.dim_IntList")
def _sum_dim(x: Tensor, dims: list[int], keep: bool = False) -> Meta:
    (dim,) = dims
    assert not keep
    return _reduce_max(x, dim)


@rule("hlo.reduce_max")
def _reduce_max(x: Tensor, dim: int) -> Meta:
    dim %= len(x.shape)
    return x.shape[:dim] + x.shape[dim + 1 :], x.dtype


@rule("aten.max.dim")
def _max_dim(x: Tensor, dim: int) -> list[Meta | None]:
    shape, dtype = _reduce_max(x, dim)
    return [(shape, dtype), (shape, "int64")]


@rule("aten.native_dropout.default")
def _dropout(x: Tensor, _p: float, _train: bool) -> list[Meta | None]:
    return [x.meta, (x.shape, "bool")]


@rule("aten.embedding.default")
def _embedding(table: Tensor, ids: Tensor) -> Meta:
    assert ids.dtype == "int64"
    return (*ids.shape, table.shape[1]), table.dtype


@rule("aten.index.Tensor")
def _index(x: Tensor, indices: list[Tensor]) -> Meta:
    shape = indices[0].shape
    for index in indices:
        assert index.dtype == "int64" and index.shape == shape
    return shape + x.shape[len(indices) :], x.dtype


@rule("aten.index_put.default")
def _index_put(x: Tensor, indices: list[Tensor], values: Tensor) -> Meta:
    (mask,) = indices
    assert mask.dtype == "bool" and mask.shape == x.shape[: len(mask.shape)]
    assert values.shape == () and values.dtype == x.dtype
    return x.meta
