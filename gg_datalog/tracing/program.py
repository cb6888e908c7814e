"""What is captured: how a program is built, run and finished, and what it is given."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

from gg_datalog.foundation.errors import InputError
from gg_datalog.tracing.wrapped import innermost

Tensors = dict[str, torch.Tensor]


@dataclass(frozen=True)
class Program:
    """A program as its user describes it.

    ``build(rank, world_size)`` gives the module, ``make_inputs(rank, world_size)`` (or without
    arguments) what it is called with: a tuple, a mapping of keywords, or a pair of both.
    ``loss(output, *inputs)`` gives the scalar to differentiate, ``step(module)`` runs after the
    backward pass.
    """

    build: Callable[[int, int], nn.Module]
    make_inputs: Callable[..., Any]
    backward: bool = False
    loss: Callable[..., torch.Tensor] | None = None
    step: Callable[[nn.Module], Any] | None = None

    def module(self, rank: int, world_size: int) -> nn.Module:
        """The module of one rank."""
        module = _called(self.build, rank, world_size)
        if not isinstance(module, nn.Module):
            raise InputError(
                f"`build` returned {type(module).__name__}, not a torch.nn.Module",
                None,
                "wrap a function in a module whose forward calls it",
            )
        return module

    def inputs(self, rank: int, world_size: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Positional and keyword inputs of one rank, no tensor twice: values do not count."""
        args, kwargs = self._given(rank, world_size)
        known: set[int] = set()
        return pytree.tree_map_only(  # type: ignore[no-any-return]
            torch.Tensor, lambda tensor: _another(tensor, known), (args, kwargs)
        )

    def _given(self, rank: int, world_size: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
        given = _called(self.make_inputs, rank, world_size)
        if isinstance(given, Mapping):
            return (), dict(given)
        if isinstance(given, torch.Tensor):
            return (given,), {}
        if not isinstance(given, (tuple, list)):
            raise InputError(
                f"`make_inputs` returned {type(given).__name__}",
                None,
                "return a tuple of inputs, a mapping of keywords, or a pair of both",
            )
        pair = len(given) == 2 and isinstance(given[0], (tuple, list))
        if pair and isinstance(given[1], Mapping):
            return tuple(given[0]), dict(given[1])
        return tuple(given), {}


def _another(tensor: torch.Tensor, known: set[int]) -> torch.Tensor:
    """The tensor, or one like it where it was given before: two inputs may differ."""
    if id(tensor) not in known:
        known.add(id(tensor))
        return tensor
    return tensor.detach().clone().requires_grad_(tensor.requires_grad)


def _called(function: Callable[..., Any], rank: int, world_size: int) -> Any:
    """Calls with (rank, world_size), or with nothing where the function takes nothing."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return function(rank, world_size)
    taken = [p for p in parameters if p.kind not in (p.KEYWORD_ONLY, p.VAR_KEYWORD)]
    if not taken:
        return function()
    return function(rank, world_size)


WRAPPED = "gg_datalog_program"


class WithLoss(nn.Module):  # type: ignore[misc]
    """A module whose result is the loss of another one, which it has under a name of its own."""

    def __init__(self, module: nn.Module, loss: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.add_module(WRAPPED, module)
        self.loss = loss

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The loss, as the user's function computes it of output and inputs."""
        return self.loss(getattr(self, WRAPPED)(*args, **kwargs), *args, **kwargs)


def named(value: Any, prefix: str = "") -> list[tuple[str, torch.Tensor]]:
    """The tensors in a result or an input, each with the way to it: ``output.logits``."""
    leaves, _ = pytree.tree_flatten_with_path(value)
    found = []
    for path, leaf in leaves:
        if isinstance(leaf, torch.Tensor):
            way = ".".join(_key(step) for step in path)
            found.append(("_".join(p for p in (prefix, way) if p) or "value", leaf))
    return found


def _key(step: Any) -> str:
    for attribute in ("key", "idx", "name"):
        if hasattr(step, attribute):
            return str(getattr(step, attribute))
    return str(step)


def passed_at(args: tuple[Any, ...]) -> dict[int, str]:
    """By the identity of a tensor that is passed by place: the place, and the way inside of it."""
    return {id(tensor): way for way, tensor in reversed(named(args))}


def named_inputs(
    module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> list[tuple[str, torch.Tensor]]:
    """Input tensors by the names that ``forward`` gives them."""
    try:
        bound = inspect.signature(innermost(module).forward).bind(*args, **kwargs).arguments
    except (TypeError, ValueError):
        bound = {**{f"input{i}": a for i, a in enumerate(args)}, **kwargs}
    found = []
    for name, value in bound.items():
        found += [(text.rstrip("_"), t) for text, t in named(value, name)]
    return found
