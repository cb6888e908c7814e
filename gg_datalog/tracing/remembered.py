"""What operators give, remembered by the forms of what they are given.

A fake tensor is a form: extents, strides, type, place in its memory. What an operator gives for
operands of some forms it gives for all others of these forms: in another layer, on another rank.
torch remembers this, too, but asks more of each operand than is left to ask of one that is plain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch._C import _DisableTorchDispatch
from torch._subclasses.fake_tensor import FakeTensor

META = torch.device("meta")
FRESH = -1  # memory of its own
SIZED = (torch.ops.aten.as_strided.default,)  # look at the size of a memory
empty_strided = torch.ops.aten.empty_strided.default


@dataclass(frozen=True, slots=True)
class Form:
    """One tensor: extents and strides in elements, and whose memory it is in, from which element
    on: a place among the tensors that are given, or :data:`FRESH`."""

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype
    offset: int
    memory: int


Forms = Form | tuple[Form, ...]
KNOWN: dict[Any, tuple[Forms, type]] = {}


def performed(func: Any, args: Any, kwargs: Any, tensors: Sequence[Any]) -> Any:
    """What the operator gives for fake tensors and plain values, as if it were called.

    ``tensors`` are the fake tensors among the arguments, in order.
    """
    valued = any(one.constant is not None for one in tensors)  # more than a form
    if not tensors or valued or not _is_remembered(func):
        return func(*args, **kwargs)
    key = _name(func), _key(args), _key(tuple(kwargs.items())), torch.get_default_dtype()
    known = KNOWN.get(key)
    if known is None:
        out = func(*args, **kwargs)
        if (found := _forms(out, tensors)) is not None:
            KNOWN[key] = found, type(out)
        return out
    forms, kind = known
    if isinstance(forms, Form):
        return made(forms, tensors)
    return kind(made(form, tensors) for form in forms)


def learnt(since: int) -> list[Any]:
    """What came to be known, behind the first ``since``: plain data, for another process."""
    return list(KNOWN.items())[since:]


_name = cache(str)


@cache
def _is_remembered(func: Any) -> bool:
    schema = func._schema
    random = torch.Tag.nondeterministic_seeded in func.tags
    return not schema.is_mutable and not random and func not in SIZED


def _key(value: Any) -> Any:
    """What tells arguments apart: 1, 1.0 and True are three."""
    kind = type(value)
    if kind is FakeTensor:
        return (
            value.shape, value.stride(), value.dtype, value.storage_offset(), value.fake_device,
            value.is_conj(), value.is_neg(),
        )  # fmt: skip
    if kind is tuple or kind is list:
        return kind, *map(_key, value)
    return kind, value


def _forms(out: Any, tensors: Sequence[Any]) -> Forms | None:
    """The forms of what was given; None where a form does not say all of it."""
    memories = [one.untyped_storage()._cdata for one in tensors]
    if type(out) is FakeTensor:
        return _form(out, tensors, memories)
    if type(out) not in (tuple, list) or not out:
        return None
    forms = [_form(one, tensors, memories) if type(one) is FakeTensor else None for one in out]
    shared = {one.untyped_storage()._cdata for one in out if type(one) is FakeTensor}
    several = sum(form is not None and form.memory == FRESH for form in forms)
    if None in forms or (several and len(shared - set(memories)) != several):
        return None
    return tuple(form for form in forms if form is not None)


def _form(out: Any, tensors: Sequence[Any], memories: Sequence[int]) -> Form | None:
    first = tensors[0]
    plain = out.layout is torch.strided and not (out.is_conj() or out.is_neg())
    alike = out.fake_device == first.fake_device and out.fake_mode is first.fake_mode
    beside = out.constant is not None or any(one is out for one in tensors)
    if not plain or not alike or beside or out._has_symbolic_sizes_strides or out.requires_grad:
        return None
    shape, stride, offset = tuple(out.shape), out.stride(), out.storage_offset()
    storage = out.untyped_storage()
    if memories.count(storage._cdata) > 1:
        return None  # which of them it is in is another question
    if storage._cdata in memories:
        return Form(shape, stride, out.dtype, offset, memories.index(storage._cdata))
    with _DisableTorchDispatch():
        size = empty_strided(shape, stride, dtype=out.dtype, device=META).untyped_storage().nbytes()
    if offset or storage.nbytes() != size:
        return None
    return Form(shape, stride, out.dtype, 0, FRESH)


def made(form: Form, tensors: Sequence[Any]) -> Any:
    """A fake tensor of that form."""
    with _DisableTorchDispatch():
        meta = empty_strided(form.shape, form.stride, dtype=form.dtype, device=META)
        if form.memory != FRESH:
            storage = tensors[form.memory].untyped_storage()
            meta.set_(storage, form.offset, form.shape, form.stride)
    return _like(tensors[0], meta)


def snapshot(tensor: Any) -> Any:
    """Another name of the same memory, which keeps its form when that of the tensor changes."""
    with _DisableTorchDispatch():
        meta = empty_strided((0,), (1,), dtype=tensor.dtype, device=META)
        meta.set_(tensor.untyped_storage(), tensor.storage_offset(), tensor.shape, tensor.stride())
    return _like(tensor, meta)


def _like(first: Any, meta: torch.Tensor) -> Any:
    """A fake tensor of the same mode and device."""
    mode, device = first.fake_mode, first.fake_device
    if mode not in ATTRIBUTES:
        ATTRIBUTES.clear()
        ATTRIBUTES[mode] = {}
    beside = ATTRIBUTES[mode]
    if device not in beside:
        fake = FakeTensor(mode, meta, device)
        beside[device] = dict(vars(fake))
        return fake
    fake = torch.Tensor._make_subclass(
        FakeTensor, meta, False, dispatch_device=True, device_for_backend_keys=device
    )
    torch._C._set_throw_on_mutable_data_ptr(fake)
    vars(fake).update(beside[device])
    return fake


# What a fake tensor has beside its form, of one mode: the same for all that are new.
ATTRIBUTES: dict[Any, dict[torch.device, dict[str, Any]]] = {}
