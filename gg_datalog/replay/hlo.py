"""Operators of HLO, as torch computes them; arguments by the names of their schemas."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from gg_datalog.replay.calls import NotExecuted
from gg_datalog.replay.dtypes import is_integer, wide
from gg_datalog.replay.tensor import Tensor

HLO: dict[str, Callable[..., Any]] = {}


def hlo(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Registers an operator of HLO."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        HLO[f"hlo.{name}"] = function
        return function

    return register


# ---- movement, products, reductions
@hlo("dot")
def _dot(
    self: Tensor,
    other: Tensor,
    l_contract: Any,
    r_contract: Any,
    l_batch: Any = None,
    r_batch: Any = None,
) -> Tensor:
    ka, kb, na, nb = (list(x or []) for x in (l_contract, r_contract, l_batch, r_batch))
    a, b = self, other
    left, right = list(range(a.dim())), [a.dim() + j for j in range(b.dim())]
    for i, j in zip([*ka, *na], [*kb, *nb], strict=True):
        right[j] = left[i]
    out = [left[i] for i in na]
    out += [n for i, n in enumerate(left) if i not in (*ka, *na)]
    out += [n for j, n in enumerate(right) if j not in (*kb, *nb)]
    return torch.einsum(a, left, b, right, out)


@hlo("broadcast")
def _broadcast(self: Any, dims: Sequence[int], shape: Sequence[int]) -> Tensor:
    x = self if isinstance(self, torch.Tensor) else torch.as_tensor(self, dtype=torch.float64)
    places = [d % len(shape) for d in dims][: x.dim()]
    order = sorted(range(x.dim()), key=lambda i: places[i])
    wide_ = [1] * len(shape)
    for extent, dim in zip(x.shape, places, strict=True):
        wide_[dim] = extent
    return x.permute(order).reshape(wide_).expand(list(shape))


@hlo("gather")
def _gather(
    self: Tensor,
    index: Tensor,
    offset_dims: Any,
    collapsed_dims: Any,
    index_vector_dim: int,
    **_: Any,
) -> Tensor:
    if len(collapsed_dims) != 1:
        raise NotExecuted("a gather of several dimensions")
    ids = index.squeeze(index_vector_dim) if index_vector_dim < index.dim() else index
    moved = self.movedim(collapsed_dims[0], 0)[ids.long()]
    batch = [i for i in range(moved.dim()) if i not in offset_dims]
    order = [*batch, *offset_dims]
    return moved.permute([order.index(i) for i in range(moved.dim())])


@hlo("select")
def _select(condition: Tensor, self: Any, other: Any) -> Tensor:
    return torch.where(condition.bool(), self, other)


@hlo("reduce_max")
def _reduce_max(self: Tensor, dim: Any, keepdim: bool = False) -> Tensor:
    return wide(self).amax(dim, keepdim)


@hlo("reduce_add")
def _reduce_add(self: Tensor, dim: Any, keepdim: bool = False, **_: Any) -> Tensor:
    return self.sum(dim, keepdim)


@hlo("reduce_multiply")
def _reduce_multiply(self: Tensor, dim: Any, keepdim: bool = False) -> Tensor:
    for one in sorted(d % self.dim() for d in ([dim] if isinstance(dim, int) else dim))[::-1]:
        self = wide(self).prod(one, keepdim)
    return self


@hlo("iota")
def _iota(length: int, start: int = 0, step: int = 1, **_: Any) -> Tensor:
    return torch.arange(length) * step + start


@hlo("clamp")
def _clamp(min: Tensor, self: Tensor, max: Tensor, **_: Any) -> Tensor:
    return torch.minimum(torch.maximum(wide(self), wide(min)), wide(max))


@hlo("complex")
def _complex(real: Tensor, imag: Tensor, **_: Any) -> Tensor:
    return torch.complex(real, imag)


@hlo("real")
def _real(self: Tensor, **_: Any) -> Tensor:
    return self.real if self.is_complex() else self


@hlo("imag")
def _imag(self: Tensor, **_: Any) -> Tensor:
    return self.imag if self.is_complex() else torch.zeros_like(self)


@hlo("reduce_min")
def _reduce_min(self: Tensor, dim: Any, keepdim: bool = False) -> Tensor:
    return wide(self).amin(dim, keepdim)


@hlo("concatenate")
def _concatenate(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    return torch.cat(list(tensors), dim)


# ---- element by element, operands by place
@hlo("logistic")
def _logistic(x: Tensor) -> Tensor:
    return x.sigmoid()


@hlo("tan")
def _tan(x: Tensor) -> Tensor:
    return x.tan()


@hlo("atan2")
def _atan2(a: Tensor, b: Tensor) -> Tensor:
    return torch.atan2(a, b)


@hlo("cbrt")
def _cbrt(x: Tensor) -> Tensor:
    return x.sign() * x.abs() ** (1 / 3)


@hlo("is_finite")
def _is_finite(x: Tensor) -> Tensor:
    return x.isfinite()


@hlo("round_away")
def _round_away(x: Tensor) -> Tensor:
    return x.sign() * (x.abs() + 0.5).floor()


@hlo("divide_integer")
def _divide(a: Tensor, b: Tensor) -> Tensor:
    a, b = wide(a), wide(b)
    made = torch.div(a, torch.where(b == 0, 1, b), rounding_mode="trunc")
    return torch.where(b == 0, -1, made)


@hlo("remainder_integer")
def _remainder(a: Tensor, b: Tensor) -> Tensor:
    a, b = wide(a), wide(b)
    return torch.where(b == 0, a, torch.fmod(a, torch.where(b == 0, 1, b)))


@hlo("power_integer")
def _power(a: Tensor, b: Tensor) -> Tensor:
    """By squaring, modulo the width; what is raised below 0 is 1, -1 or 0 at its end."""
    base, left, made = (
        a.to(torch.int64),
        wide(b).to(torch.int64),
        torch.ones_like(a, dtype=torch.int64),
    )
    below = torch.where(base == 1, 1, torch.where(base == -1, 1 - 2 * (left & 1), 0))
    for _ in range(63):
        made = torch.where(left & 1 == 1, made * base, made)
        base, left = base * base, left.clamp(min=0) >> 1
    return torch.where(wide(b) < 0, below, made)


def _total(x: Tensor) -> Tensor:
    """Numbers in the order in which -0 comes before 0 and what is no number at the ends."""
    if not x.is_floating_point():
        return wide(x)
    bits = x.contiguous().view(torch.int64)
    return bits ^ ((bits >> 63) & (2**63 - 1))


def _comparison(name: str) -> None:
    kernel = getattr(torch, name)
    HLO[f"hlo.compare_total_{name}"] = lambda a, b: kernel(_total(a), _total(b))


COMPARED = ("eq", "ne", "lt", "le", "gt", "ge")
for _name in COMPARED:
    _comparison(_name)


def _bits(x: Tensor) -> tuple[Tensor, int]:
    """The bits of numbers of up to 32 bits as a number without a sign, and how many there are."""
    width = x.dtype.itemsize * 8
    if not is_integer(x.dtype) or width > 32:
        raise NotExecuted(f"bits of {x.dtype}")
    return x.to(torch.int64) & ((1 << width) - 1), width


@hlo("population_count")
def _population(x: Tensor) -> Tensor:
    bits, width = _bits(x)
    return torch.stack([(bits >> i) & 1 for i in range(width)]).sum(0)


@hlo("count_leading_zeros")
def _leading(x: Tensor) -> Tensor:
    bits, width = _bits(x)
    return torch.stack([(bits >> i) == 0 for i in range(width)]).sum(0)


@hlo("shift_left")
def _shift_left(x: Tensor, by: Tensor) -> Tensor:
    (bits, width), (steps, _) = _bits(x), _bits(by)
    return torch.where(steps < width, bits << steps.clamp(max=width - 1), 0)


@hlo("shift_right_logical")
def _shift_right(x: Tensor, by: Tensor) -> Tensor:
    (bits, width), (steps, _) = _bits(x), _bits(by)
    return torch.where(steps < width, bits >> steps.clamp(max=width - 1), 0)


@hlo("shift_right_arithmetic")
def _shift_right_signed(x: Tensor, by: Tensor) -> Tensor:
    (bits, width), (steps, _) = _bits(x), _bits(by)
    signed = bits - ((bits >> (width - 1)) << width)
    return signed >> steps.clamp(max=width - 1)


PLACED = frozenset(
    f"hlo.{name}"
    for name in ("logistic", "tan", "atan2", "cbrt", "is_finite", "round_away", "power_integer",
                 "divide_integer", "remainder_integer", "population_count", "count_leading_zeros",
                 "shift_left", "shift_right_logical", "shift_right_arithmetic",
                 *(f"compare_total_{name}" for name in COMPARED))
)  # fmt: skip
