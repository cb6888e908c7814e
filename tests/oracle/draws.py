"""Numbers for the operands of a sample, drawn so that what is wrong shows.

Floats around 0 with zeros among them; integers of every size their type has, where the operator
takes any; positions and other numbers that an operator asks something of stay those of the sample,
in another order.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from .samples import Sample

Tensor = torch.Tensor
STYLES = ("plain", "recorded", "wide", "positive")
SWAPS: dict[torch.dtype, tuple[torch.dtype, ...]] = {
    torch.float64: (torch.float64, torch.float64, torch.float32),
    torch.int64: (torch.int64, torch.int32, torch.uint8),
    torch.bool: (torch.bool,),
}


def drawn(
    sample: Sample,
    shapes: Sequence[Sequence[int]],
    types: Sequence[torch.dtype],
    style: str,
    generator: torch.Generator,
) -> list[Tensor]:
    """The operands, in these extents and types."""
    found = []
    for i, (x, shape, dtype) in enumerate(zip(sample.operands, shapes, types, strict=True)):
        kept = style == "recorded" or not sample.free[i]
        made = _recorded(x, shape, generator) if kept else _fresh(dtype, shape, style, generator)
        found.append(made.to(dtype))
    return found


def _recorded(x: Tensor, shape: Sequence[int], generator: torch.Generator) -> Tensor:
    """Numbers of torch's own sample; finite ones, as inputs are taken to be."""
    x = x.nan_to_num(0.0, 1.0, -1.0) if x.is_floating_point() else x
    count = torch.Size(shape).numel()
    flat = x.reshape(-1).repeat(count // max(1, x.numel()) + 1)[:count]
    return flat[torch.randperm(count, generator=generator)].reshape(list(shape))


def _fresh(
    dtype: torch.dtype, shape: Sequence[int], style: str, generator: torch.Generator
) -> Tensor:
    shape = list(shape)
    if dtype == torch.bool:
        return torch.rand(shape, generator=generator) < 0.5
    if dtype.is_floating_point:
        made = torch.randn(shape, generator=generator, dtype=torch.float64) * 2
        if style == "positive":
            return made.abs() + 0.05
        if style == "wide":
            return made * 1e-3
        return made.masked_fill(torch.rand(shape, generator=generator) < 0.15, 0)
    info = torch.iinfo(dtype)
    if style == "wide":
        low, high = max(info.min, -(2**62)), min(info.max, 2**62) + 1
    elif style == "positive":
        low, high = 1, 7
    else:
        low, high = max(info.min, -60), 200 if dtype == torch.uint8 else 60
    return torch.randint(low, high, shape, generator=generator, dtype=torch.int64)
