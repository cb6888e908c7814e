"""Which random numbers a program draws: the seed of the generator, and how far it is used.

Fake tensors use no random numbers up. Here every draw uses some of the real generator, how many its
call and its form tell: so its state tells one draw from the next, and equal states with equal calls
are equal draws. What torch itself uses up depends on kernels; programs that came to one state by
different draws are taken to be in different ones.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
from torch import fx

from gg_datalog.tracing.private import (
    TorchDispatchMode,
    disable_current_modes,
    fx_traceback,
)
from gg_datalog.tracing.schemas import is_drawn

NOBODYS = 0x6764_6461_7461_6C6F  # the seed of what no program has seeded
MOST = 65_521  # numbers that a draw may use up
KEY = "draw"
OWN = ("aten", "prims")  # namespaces whose schemas tell everything


@contextmanager
def unseeded() -> Iterator[None]:
    """The default generator has a seed that no program gives; what it was comes back afterwards."""
    generator = torch.default_generator
    before = generator.get_state()
    generator.manual_seed(NOBODYS)
    try:
        yield
    finally:
        generator.set_state(before)


class Draws(TorchDispatchMode):  # type: ignore[misc]
    """Notes with every node that draws random numbers in what state the generator was."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Every operator comes by."""
        return noted(func, args, kwargs or {}) if is_random(func) else func(*args, **(kwargs or {}))


def noted(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Runs an operator that draws; its node says in what state the generator was."""
    generator = kwargs.get("generator") or torch.default_generator
    meta = fx_traceback.current_meta
    before = meta.get("custom")
    with disable_current_modes():
        # the form that it has here: functionalization gives it another one
        form = _form(args[0]) if args and _is_tensor(args[0]) else ""
        meta["custom"] = {**(before or {}), KEY: (*_state(generator), form)}
    try:
        out = func(*args, **kwargs)
    finally:
        if before is None:
            meta.pop("custom", None)
        else:
            meta["custom"] = before
    with disable_current_modes():
        _use_up(generator, func, out[0] if isinstance(out, (tuple, list)) else out)
    return out


@cache
def is_random(func: Any) -> bool:
    """Is it an operator of torch's own that draws random numbers?"""
    return func.namespace in OWN and is_drawn(str(func))


def _state(generator: torch.Generator) -> tuple[str, str]:
    """The seed (``-`` where nobody gave one), and the state in brief."""
    seed = generator.initial_seed()
    state = bytes(generator.get_state().tolist())
    return "-" if seed == NOBODYS else str(seed), hashlib.sha256(state).hexdigest()


def _use_up(generator: torch.Generator, call: Any, made: torch.Tensor) -> None:
    if generator.device.type == "cpu":
        told = hashlib.sha256(f"{call} {_form(made)}".encode()).digest()
        torch.rand(1 + int.from_bytes(told[:8], "big") % MOST, generator=generator)


def _form(made: torch.Tensor) -> str:
    """Type, shape, and the order in which the elements lie in memory: so they are drawn."""
    dims = [i for i, extent in enumerate(made.shape) if extent != 1]
    order = sorted(dims, key=lambda i: -made.stride(i))
    turned = "" if order == dims else f" {order}"
    return f"{made.dtype} {list(map(str, made.shape))}{turned}"


def note_compiled(graph: fx.Graph) -> None:
    """The same for a graph that was captured as a whole: all of it draws from the default
    generator, in its order."""
    generator = torch.default_generator
    before = generator.get_state()
    for node in graph.nodes:
        value = node.meta.get("val")
        first = value[0] if isinstance(value, (tuple, list)) and value else value
        func = node.target
        if isinstance(func, torch._ops.OpOverload) and is_random(func) and _is_tensor(first):
            noted = (*_state(generator), "")
            node.meta["custom"] = {**(node.meta.get("custom") or {}), KEY: noted}
            _use_up(generator, func, first)
    generator.set_state(before)


def _is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)


def drawn(node: fx.Node, result: Any) -> str:
    """What the case format says of a node that draws ``result``: seed, state and call, which are
    equal where the same numbers are drawn one after the other, and the form that they get."""
    custom = node.meta.get("custom")
    noted = custom.get(KEY) if isinstance(custom, dict) else None
    first = result[0] if isinstance(result, (tuple, list)) and result else result
    if noted is None or not isinstance(node.target, torch._ops.OpOverload):
        return ""
    if not is_random(node.target) or not _is_tensor(first):
        return ""
    seed, state, form = noted
    given = [a for a in node.args if isinstance(a, (int, float))]
    parts = f"{state} {node.target} {given}", f"{form} {_form(first)}"
    return ":".join([seed, *(hashlib.sha256(p.encode()).hexdigest()[:12] for p in parts)])
