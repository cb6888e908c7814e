"""Python's ``max`` and ``min`` of numbers that a program computes: ``max(tokens, 1)``.

Python compares them and takes the one or the other, so that a value steers the program. The result
is a function of both all the same, which torch has as an operator.
"""

from __future__ import annotations

import builtins
import operator
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import reduce
from typing import Any

import torch


@contextmanager
def extremes_as_operators() -> Iterator[None]:
    """Under it ``max`` and ``min`` of scalar tensors are operators; of anything else they are
    Python's."""
    kept = builtins.max, builtins.min
    builtins.max, builtins.min = _of(kept[0], _larger), _of(kept[1], _smaller)
    try:
        yield
    finally:
        builtins.max, builtins.min = kept


def _of(plain: Callable[..., Any], pair: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def chosen(*args: Any, **kwargs: Any) -> Any:
        scalars = len(args) > 1 and not kwargs and any(isinstance(a, torch.Tensor) for a in args)
        if scalars and _one_kind(args):
            return reduce(pair, args)
        return plain(*args, **kwargs)

    return chosen


def _one_kind(args: tuple[Any, ...]) -> bool:
    """Are these scalar tensors of one type, and numbers that are of it as well? Then what comes out
    is of that type, whichever it is."""
    tensors = [a for a in args if isinstance(a, torch.Tensor)]
    rest = [a for a in args if not isinstance(a, torch.Tensor)]
    dtypes = {t.dtype for t in tensors}
    if len(dtypes) > 1 or any(t.dim() for t in tensors) or torch.bool in dtypes:
        return False
    (dtype,) = dtypes
    numbers = (int, float) if dtype.is_floating_point else (int,)
    return not dtype.is_complex and all(type(a) in numbers for a in rest)


def _larger(first: Any, second: Any) -> Any:
    """``second`` where it is larger, else ``first``: also where one of them is no number."""
    return _either(first, second, operator.gt, torch.maximum, "min")


def _smaller(first: Any, second: Any) -> Any:
    return _either(first, second, operator.lt, torch.minimum, "max")


def _either(
    first: Any,
    second: Any,
    takes: Callable[[Any, Any], Any],
    both: Callable[[Any, Any], Any],
    bound: str,
) -> Any:
    """Of integers, and of a tensor with a number after it, an operator says the same."""
    if isinstance(first, torch.Tensor) and not isinstance(second, torch.Tensor):
        return torch.clamp(first, **{bound: second})
    if not isinstance(second, torch.Tensor):
        return second if takes(second, first) else first
    if second.dtype.is_floating_point:
        return torch.where(takes(second, first), second, first)
    if isinstance(first, torch.Tensor):
        return both(first, second)
    return torch.clamp(second, **{bound: first})
