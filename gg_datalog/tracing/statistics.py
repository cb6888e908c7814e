"""Batch norms whose running statistics move on: in operators that a trace sees."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch


@contextmanager
def statistics_as_operators() -> Iterator[None]:
    """Under it a batch norm in training writes its running statistics with operators of their own:
    of its kernel, which writes them itself, a trace does not say so."""
    plain = torch.batch_norm
    torch.batch_norm = _of(plain)
    try:
        yield
    finally:
        torch.batch_norm = plain


def _of(plain: Callable[..., Any]) -> Callable[..., Any]:
    def normed(
        x: torch.Tensor,
        weight: torch.Tensor | None,
        bias: torch.Tensor | None,
        mean: torch.Tensor | None,
        spread: torch.Tensor | None,
        training: bool,
        momentum: float,
        *rest: Any,
    ) -> Any:
        if not training or mean is None or spread is None:
            return plain(x, weight, bias, mean, spread, training, momentum, *rest)
        with torch.no_grad():
            _move_on(x, mean, spread, momentum)
        return plain(x, weight, bias, None, None, training, momentum, *rest)

    return normed


def _move_on(x: torch.Tensor, mean: torch.Tensor, spread: torch.Tensor, momentum: float) -> None:
    over = [i for i in range(x.dim()) if i != 1]
    mean.mul_(1 - momentum).add_(x.mean(over), alpha=momentum)
    spread.mul_(1 - momentum).add_(x.var(over), alpha=momentum)
