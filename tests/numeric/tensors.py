"""What steps and layouts speak of: tensors on both sides, operands, and how an operator is spread over
a mesh."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from .promotion import Invalid
from .writing import Layout, Ref, Site

LETTERS = "abcde"
ADDS = ("sum", "avg")
EXTREMA = ("max", "min")
EVERY = (*ADDS, *EXTREMA)


@dataclass(frozen=True)
class Tensor:
    """A sequential tensor, and the ranks' tensors that are meant to hold it in some layout."""

    seq: str
    dist: tuple[str, ...]
    shape: tuple[int, ...]
    layout: Layout
    made: bool = True  # by an operator
    dtype: str = "float32"


@dataclass(frozen=True)
class New:
    """An operand that becomes an input, laid out as the operator needs it."""

    dtype: str = "float32"
    stem: str = "x"


Operand = Tensor | New
Shard = tuple[str, tuple[int, ...], int]  # letter, sizes, blocks of which each has a part
Emit = Callable[[Site], Sequence[Ref]]


@dataclass(frozen=True)
class Split:
    """How an operator is spread over an axis of the mesh: a letter is cut, or operand ``part`` (-1:
    all of them) stays an open ``kind``, or only rank ``live`` does it, or every rank does the same."""

    shard: Shard | None = None
    part: int | None = None
    kind: str = ""
    live: int | None = None


@dataclass(frozen=True)
class Rule:
    """Which letters the operands and results of an operator have, and what may be cut or open."""

    operands: Sequence[str]
    results: Sequence[str]
    whole: str = ""  # letters that may not be cut
    open: Mapping[int, Sequence[str]] = field(default_factory=dict)  # which may be open in what
    together: Sequence[str] = ()  # in what all operands may be open at once
    kind: str = "sum"  # of the reduction over letters that results lack
    prefer: str = ""  # a letter to be cut rather than others
    extents: Mapping[str, int] = field(default_factory=dict)
    carry: Callable[[Shard], Shard] | None = None  # what becomes of a cut letter


# ---- for steps ---------------------------------------------------------------------------------------
def letters(x: Tensor) -> str:
    """A letter per dimension."""
    return LETTERS[: len(x.shape)]


def ranked(x: Tensor, least: int, most: int = 5) -> str:
    """The letters of a tensor with so many dimensions, else :class:`Invalid`."""
    if not least <= len(x.shape) <= most:
        raise Invalid("another number of dimensions")
    return letters(x)
