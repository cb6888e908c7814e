"""Values that are there while a program is built: of tensors made from literals and shapes alone.

Capture builds programs of fake tensors, which hold nothing. What follows from literals and shapes
(rotary tables, tables of experts, masks, positions) is small enough to be computed beside them.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from functools import lru_cache, partial
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree
from torch.utils.weak import WeakIdKeyDictionary

from gg_datalog.tracing.draws import OWN, is_random
from gg_datalog.tracing.private import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    TorchDispatchMode,
    storage_of,
    unset_fake_temporarily,
)

LARGEST = 1 << 20  # elements of a tensor that is computed
UNWRITTEN = ("aten::empty", "aten::new_empty", "aten::_empty")
NUMBER = torch.ops.aten._local_scalar_dense.default
OVERWRITING = ("aten::fill_", "aten::zero_", "aten::copy_")


class Computed(TorchDispatchMode):  # type: ignore[misc]
    """Computes, beside what runs under it, the tensors of which everything is known."""

    def __init__(self) -> None:
        super().__init__()
        # by fake tensor: the computed one, and the fake memory that it stands for
        self._known: Any = WeakIdKeyDictionary()
        # memory of the program that holds something else than what was computed, and whose it is
        self._unknown: dict[int, torch.Tensor] = {}

    def value(self, tensor: torch.Tensor) -> torch.Tensor | None:
        """What a tensor holds, where that is known."""
        if storage_of(tensor) in self._unknown:
            return None
        if isinstance(tensor, FakeTensor):
            return self._beside(tensor)
        plain = type(tensor) in (torch.Tensor, nn.Parameter) and tensor.device.type == "cpu"
        return tensor.detach() if plain else None

    def _beside(self, tensor: Any) -> torch.Tensor | None:
        """The computed tensor of a fake one, unless that was given other memory since."""
        real, memory = self._known.get(tensor, (None, 0))
        same = real is not None and memory == storage_of(tensor) and real.shape == tensor.shape
        return real if same else None

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Every operator comes by."""
        kwargs = kwargs or {}
        if func is NUMBER and (known := self.value(args[0])) is not None:
            with unset_fake_temporarily():
                return known.item()
        try:
            out = func(*args, **kwargs)
        except (DataDependentOutputException, DynamicOutputShapeException):
            return self._evaluated(func, args, kwargs)
        try:
            with unset_fake_temporarily(), torch.no_grad():
                followed = self._follow(func, args, kwargs, out)
        except Exception:  # whatever a kernel does not take: then its result is not known
            followed = False
        if not followed:
            self._forget(func, args, kwargs)
        return out

    def _evaluated(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """What an operator gives whose size, or which as such, depends on values: they are known,
        or its own error is raised."""
        given = [t for t in pytree.tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)]
        fakes = [t for t in given if isinstance(t, FakeTensor)]
        plain = func.namespace in OWN and not is_random(func) and not func._schema.is_mutable
        if not (fakes and plain) or any(self.value(t) is None for t in given):
            raise
        with unset_fake_temporarily(), torch.no_grad():
            real_args, real_kwargs = pytree.tree_map_only(
                torch.Tensor, self._stand_in, (args, _on_cpu(kwargs))
            )
            real = func(*real_args, **real_kwargs)
        return pytree.tree_map_only(torch.Tensor, partial(self._as_fake, fakes[0].fake_mode), real)

    def _as_fake(self, mode: Any, real: torch.Tensor) -> torch.Tensor:
        """A fake tensor that is known to hold this."""
        with unset_fake_temporarily():
            fake = mode.from_tensor(real.clone(), static_shapes=True)
        self._known[fake] = (real, storage_of(fake))
        return fake

    def _follow(self, func: Any, args: Any, kwargs: dict[str, Any], out: Any) -> bool:
        results = pytree.tree_leaves(out)
        fakes = [t for t in results if isinstance(t, FakeTensor)]
        if not fakes or any(t.numel() > LARGEST for t in fakes):
            return False
        name = func._schema.name
        if func.namespace not in OWN or is_random(func):
            return False
        written = list(_written(func, args, kwargs))
        if any(not isinstance(t, FakeTensor) for t in written):
            return False
        unwritten, overwritten = name.startswith(UNWRITTEN), name in OVERWRITING
        given = pytree.tree_leaves((args, kwargs))
        read = given[1:] if overwritten else given
        if any(self.value(t) is None for t in read if isinstance(t, torch.Tensor)):
            return False
        real_args, real_kwargs = pytree.tree_map_only(
            torch.Tensor, self._stand_in, (args, _on_cpu(kwargs))
        )
        real = func(*real_args, **real_kwargs)
        for fake, one in zip(results, pytree.tree_leaves(real), strict=True):
            if isinstance(fake, FakeTensor) and fake.shape == one.shape and fake.dtype == one.dtype:
                self._known[fake] = (one, storage_of(fake))
                if unwritten:
                    self._unknown[storage_of(fake)] = fake
                elif overwritten and one.numel() * one.itemsize == one.untyped_storage().nbytes():
                    self._unknown.pop(storage_of(fake), None)
        return True

    def _stand_in(self, tensor: torch.Tensor) -> torch.Tensor:
        """The computed tensor for a fake one; any other is not written into here."""
        real = self._beside(tensor) if isinstance(tensor, FakeTensor) else tensor.clone()
        if real is None:
            raise LookupError
        return real

    def _forget(self, func: Any, args: Any, kwargs: dict[str, Any]) -> None:
        """What an operator writes that is not followed is not known."""
        for tensor in _written(func, args, kwargs):
            self._unknown[storage_of(tensor)] = tensor


def _written(func: Any, args: Any, kwargs: dict[str, Any]) -> Iterator[torch.Tensor]:
    """The tensors that an operator may write into: schemas of others than torch's own (those of
    collectives) leave that out."""
    told = func.namespace in (*OWN, "prim")
    for place, argument in enumerate(func._schema.arguments):
        if not told or (argument.alias_info is not None and argument.alias_info.is_write):
            value = args[place] if place < len(args) else kwargs.get(argument.name)
            yield from (t for t in pytree.tree_leaves(value) if isinstance(t, torch.Tensor))


def _on_cpu(kwargs: dict[str, Any]) -> dict[str, Any]:
    """Where to compute."""
    plain = {k: v for k, v in kwargs.items() if k not in ("device", "pin_memory")}
    return plain | ({"device": torch.device("cpu")} if "device" in kwargs else {})


def packed(tensor: torch.Tensor) -> bytes:
    """The tensor as bytes, which cross processes; :func:`unpacked` reads them."""
    out = io.BytesIO()
    torch.save(tensor.contiguous().clone(), out)
    return out.getvalue()


@lru_cache(maxsize=256)
def unpacked(data: bytes) -> torch.Tensor:
    """What :func:`packed` was given."""
    return torch.load(io.BytesIO(data), weights_only=True)
