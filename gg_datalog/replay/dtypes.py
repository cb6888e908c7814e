"""Types to compute in: float64 for every float, its own width for every integer."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from zlib import crc32

import torch

from gg_datalog.replay.tensor import Tensor

# Old names of types, and widths that torch has no arithmetic for.
NAMES = {"long": "int64", "int": "int32", "short": "int16", "char": "int8", "byte": "uint8"}
NARROW = (torch.uint16, torch.uint32, torch.uint64)  # torch computes little with these


def dtype_of(name: str | None) -> torch.dtype | None:
    """The type to compute in; None where nothing is said."""
    if name is None or name == "":
        return None
    name = name.removeprefix("torch.")
    name = NAMES.get(name, name)
    if name == "bool":
        return torch.bool
    if name.startswith("complex"):
        return torch.complex128
    if name.startswith(("int", "uint")):
        found = getattr(torch, name, None)
        whole = isinstance(found, torch.dtype) and found.itemsize * 8 == int(name.lstrip("uint"))
        return found if whole else torch.uint8 if name.startswith("u") else torch.int8
    return torch.float64


@contextmanager
def exact() -> Iterator[None]:
    """Numbers of which no type is said are float64; torch keeps its warnings to itself."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        torch.set_default_dtype(before)


def is_integer(dtype: torch.dtype) -> bool:
    """Is it a type of whole numbers modulo its width?"""
    return not dtype.is_floating_point and not dtype.is_complex and dtype != torch.bool


def is_float(dtype: torch.dtype) -> bool:
    """Is it a type of real numbers?"""
    return bool(dtype.is_floating_point)


def as_dtype(value: Tensor, wanted: torch.dtype) -> Tensor:
    """The numbers in another type: fractions are cut off, integers taken modulo their width."""
    if value.dtype == wanted:
        return value
    if value.dtype.is_floating_point and is_integer(wanted):
        return value.nan_to_num().trunc().to(torch.int64).to(wanted)
    return value.to(wanted)


def wide(value: Tensor) -> Tensor:
    """An unsigned tensor in a type that torch computes with; ValueError where it does not fit."""
    if value.dtype not in NARROW:
        return value
    made = value.to(torch.int64)
    if value.dtype == torch.uint64 and bool((made < 0).any()):
        raise ValueError("unsigned numbers of 64 bits beyond those with a sign")
    return made


def unwritten(value: Tensor, text: str) -> Tensor:
    """Fills memory that nobody has written: no number; of a type without one, anything."""
    if value.is_floating_point() or value.is_complex():
        return value.fill_(float("nan"))
    if not value.numel():
        return value
    generator = torch.Generator().manual_seed(crc32(text.encode()))
    bits = torch.randint(0, 2, list(value.shape), generator=generator)
    return value.copy_(bits)


def times(value: Tensor, factor: float) -> Tensor:
    """A multiple; of integers modulo their width, where the factor is one."""
    if is_integer(value.dtype) and float(factor).is_integer() and abs(factor) < 2**62:
        return as_dtype(value.to(torch.int64) * int(factor), value.dtype)
    return value * factor
