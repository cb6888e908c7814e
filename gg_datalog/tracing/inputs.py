"""The inputs of a captured program: parameters, buffers, attributes and what it is called with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import nn

from gg_datalog.tracing.megatron import by_state, checked
from gg_datalog.tracing.pieces import Piece
from gg_datalog.tracing.placements import placed
from gg_datalog.tracing.program import Program, named_inputs, passed_at
from gg_datalog.tracing.values import Computed
from gg_datalog.tracing.wrapped import plain_names


@dataclass(frozen=True, eq=False)
class Input:
    """One input of one rank: ``tensor`` is local; ``pieces`` say which part of the global tensor
    it holds, where something in the program says so, and ``because`` what that is; ``passed`` is
    the place of an argument that is passed by place."""

    name: str
    kind: str
    tensor: torch.Tensor
    shape: tuple[int, ...]
    pieces: Sequence[Piece] | None = None
    because: str = ""
    placements: Sequence[str] = ()
    passed: str = ""
    value: torch.Tensor | None = None
    saved: bool = False
    sample: tuple[int, int] | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)

    def document(self) -> dict[str, Any]:
        """What the case format says of the placeholder."""
        known: dict[str, Any] = {"kind": self.kind, self.kind: self.name}
        if self.because:
            known |= {"global_shape": list(self.shape), "placements": list(self.placements)}
        if self.sample is not None:
            known["sample"] = list(self.sample)
        return known


VALUED = ("buffer", "attribute")


def local_of(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor that this rank holds of a DTensor; any other tensor is what it is."""
    return getattr(tensor, "_local_tensor", tensor)


def program_inputs(
    module: nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    computed: Computed | None = None,
) -> list[Input]:
    """All inputs, each once, in the order of parameters, buffers, attributes and arguments."""
    found: dict[int, Input] = {}
    plain = plain_names(module)
    stated, places, saved = by_state(module), passed_at(args), set(_saved(module))
    for kind, name, tensor in _all(module, args, kwargs):
        local = local_of(tensor)
        if id(local) not in found:
            placement = placed(tensor, name)
            if kind == "parameter" and name in stated:
                placement = checked(name, tensor, stated[name], placement)
            at = places.get(id(tensor), "")
            held = (kind == "buffer" and name in saved) or kind == "parameter"
            value = computed.value(local) if computed and kind in VALUED else None
            shown = name if kind == "input" else plain(name)
            found[id(local)] = Input(shown, kind, local, *placement, at, value, held)
    return list(found.values())


def with_samples(
    inputs: Sequence[Input], program: Program, module: nn.Module, rank: int, world_size: int
) -> list[Input]:
    """The inputs, and of integers between what they lie as ``make_inputs`` gives them. Where it
    cannot be run with numbers nothing is known."""
    size = sum(one.tensor.numel() for one in inputs if one.kind == "input")
    if size > MOST or not any(_is_integer(one) for one in inputs):
        return list(inputs)
    try:
        with torch.random.fork_rng(devices=[]):
            given = dict(named_inputs(module, *program.inputs(rank, world_size)))
        return [
            replace(one, sample=_between(given[one.name])) if _is_integer(one) else one
            for one in inputs
        ]
    except Exception:  # whatever the user's function does with numbers: it is evidence, no more
        return list(inputs)


MOST = 2**26  # elements of all inputs: more would take long to make


def _is_integer(one: Input) -> bool:
    floats = one.tensor.dtype.is_floating_point or one.tensor.dtype.is_complex
    return one.kind == "input" and not floats and one.tensor.dtype != torch.bool


def _between(tensor: torch.Tensor) -> tuple[int, int] | None:
    return (int(tensor.min()), int(tensor.max())) if tensor.numel() else None


def _saved(module: nn.Module) -> Iterator[str]:
    """The names of the buffers that a checkpoint has, too."""
    for path, one in module.named_modules():
        for name in one._buffers.keys() - one._non_persistent_buffers_set:
            yield f"{path}.{name}".lstrip(".")


def _all(
    module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Iterator[tuple[str, str, torch.Tensor]]:
    yield from (("parameter", name, p) for name, p in module.named_parameters())
    yield from (("buffer", name, b) for name, b in module.named_buffers())
    yield from (("attribute", name, t) for name, t in attributes_of(module))
    yield from (("input", name, t) for name, t in named_inputs(module, args, kwargs))


def attributes_of(module: nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """Tensors that modules hold as plain attributes."""
    for path, one in module.named_modules():
        for name, value in vars(one).items():
            if isinstance(value, torch.Tensor):
                yield f"{path}.{name}".lstrip("."), value
