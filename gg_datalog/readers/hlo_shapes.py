"""Shapes and element types of HLO text: ``f32[8,16]{1,0}``, ``(f32[], s32[4])``, ``token[]``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import TypeAlias

from gg_datalog.readers.hlo_scan import closing, split

DTYPES = {
    "pred": "bool",
    "f16": "float16",
    "bf16": "bfloat16",
    "f32": "float32",
    "f64": "float64",
    "c64": "complex64",
    "c128": "complex128",
    **{f"s{n}": f"int{n}" for n in (1, 2, 4, 8, 16, 32, 64)},
    **{f"u{n}": f"uint{n}" for n in (1, 2, 4, 8, 16, 32, 64)},
}
EIGHT = re.compile(r"f(4|8)(e\dm\d\w*)")
ARRAY = re.compile(r"([a-z]\w*)\[([^\]]*)\]")
NO_TENSORS = ("token", "opaque")


@dataclass(frozen=True)
class Array:
    """One tensor: HLO's name of the element type, and its sizes."""

    dtype: str
    dims: tuple[int, ...]

    @property
    def size(self) -> int:
        """The number of elements."""
        return prod(self.dims)

    @property
    def torch(self) -> str:
        """The element type by torch's name."""
        found = DTYPES.get(self.dtype)
        if found is None and (eight := EIGHT.fullmatch(self.dtype)):
            return f"float{eight[1]}_{eight[2]}"
        return found or self.dtype

    @property
    def floats(self) -> bool:
        """Does it hold floating-point numbers?"""
        return self.dtype.startswith(("f", "bf"))

    @property
    def complex(self) -> bool:
        """Does it hold complex numbers?"""
        return self.dtype.startswith("c")

    @property
    def unsigned(self) -> bool:
        """Does it hold integers without a sign?"""
        return self.dtype.startswith("u")

    @property
    def signed(self) -> bool:
        """Does it hold integers with a sign?"""
        return self.dtype.startswith("s")

    @property
    def integers(self) -> bool:
        """Does it hold integers or truth values?"""
        return self.dtype == "pred" or self.dtype[0] in "su"

    def kin(self, other: Array) -> bool:
        """Is the element type the same? HLO lets operators mix floats of any precision."""
        return self.dtype == other.dtype or (self.floats and other.floats)

    def __str__(self) -> str:
        return f"{self.dtype}[{','.join(map(str, self.dims))}]"


Shape: TypeAlias = "Array | tuple[Shape, ...]"


class BadShape(ValueError):
    """A text that is no shape."""


def read_shape(text: str, at: int = 0) -> tuple[Shape, int]:
    """The shape at a position, and where it ends; its layout means nothing here."""
    if at < len(text) and text[at] == "(":
        end = closing(text, at)
        items = split(text[at + 1 : end])
        return tuple(_one(item) for item in items if item.strip()), end + 1
    found = ARRAY.match(text, at)
    if found is None:
        raise BadShape(f"no shape at {text[at : at + 30]!r}")
    return _array(found[1], found[2]), _layout_end(text, found.end())


def _one(text: str) -> Shape:
    text = text.strip()
    if text.startswith("%") or (": " in text and not text.startswith("(")):
        text = text.partition(":")[2].strip()
    return read_shape(text)[0]


def _layout_end(text: str, at: int) -> int:
    """Past the layout, if there is one: ``{1,0:T(8,128)}``, not the `{` of a computation."""
    if at < len(text) and text[at] == "{":
        return closing(text, at) + 1
    return at


@lru_cache(maxsize=4096)
def _array(dtype: str, sizes: str) -> Array:
    if dtype not in (*DTYPES, *NO_TENSORS) and not EIGHT.fullmatch(dtype):
        raise BadShape(f"the element type `{dtype}` is not known")
    dims = [d.strip() for d in sizes.split(",")] if sizes.strip() else []
    if any(d.startswith(("<=", "?")) for d in dims):
        raise BadShape(f"{dtype}[{sizes}] has a size that depends on data")
    if not all(d.isdecimal() for d in dims):
        raise BadShape(f"{dtype}[{sizes}] is no shape")
    return Array(dtype, tuple(map(int, dims)))


def leaves(shape: Shape) -> list[Array]:
    """The tensors of a shape, in order."""
    if isinstance(shape, Array):
        return [shape]
    return [leaf for item in shape for leaf in leaves(item)]
