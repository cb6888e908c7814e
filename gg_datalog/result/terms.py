"""What the records of the rules say, as typed values; the only reader of their text.

The engines write ``[1, 0, [2, nil]]``. Symbols in records are ids: extraction keeps brackets,
commas and blanks out of them (``extract.side.plain_name``), whatever nodes are called.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache
from math import prod
from typing import Any, NamedTuple

from gg_datalog.foundation.errors import GGError

MANY = 2**14  # texts that are remembered: a replay asks for the same ones for every draw
_TOKEN = re.compile(r"\s*([\[\],]|[^\[\],]*)")


class Run(NamedTuple):
    """Positions ``stride * (lo + c)`` of a dimension of the sequential tensor, for 0 <= c < n; they
    are positions ``dist_stride * (dist_lo + c)`` of dimension ``dim`` of the ranks' tensor (-1: it
    has none, and n is 1)."""

    stride: int
    lo: int
    n: int
    dim: int
    dist_stride: int
    dist_lo: int


Block = tuple[tuple[Run, ...], ...]
"""The runs of every dimension of the sequential base tensor; positions of one dimension add up."""


class Part(NamedTuple):
    """Only [lo, lo + n) of ``extent`` positions of an axis have been reduced by ``kind``; of every
    ``extent`` positions where the axis has more of them.

    ``along`` is the axis: last an operator with the label that it reduces, before it, the outermost
    first, the operators that passed it on, each with the place of the operand."""

    along: tuple[tuple[str, int], ...]
    kind: str
    lo: int
    n: int
    extent: int


Parts = tuple[Part, ...]
"""Open reductions, the outermost first; none where the tensor is complete."""


class Coefficient(NamedTuple):
    """``num / den`` times ``over / under``, which are products of decimal numbers ("": 1)."""

    num: int
    den: int
    over: str
    under: str

    @property
    def value(self) -> Fraction:
        """The number that it stands for."""
        above, below = (
            prod(map(Fraction, filter(None, words.split("*")))) for words in (self.over, self.under)
        )
        return Fraction(self.num, self.den) * above / below

    @property
    def rational(self) -> Fraction | None:
        """The number, where it has no further scalars."""
        return None if self.over or self.under or not self.den else Fraction(self.num, self.den)

    @property
    def text(self) -> str:
        """As a person writes it: ``1/2 * 0.1``."""
        ratio = str(self.num) if self.den == 1 else f"{self.num}/{self.den}"
        scalars = f"{self.over or 1} / ({self.under})" if self.under else self.over
        if not scalars:
            return ratio
        return scalars if ratio == "1" else f"{ratio} * {scalars}"


ONE = Coefficient(1, 1, "", "")


@lru_cache(MANY)
def read_block(text: str) -> Block:
    """The block that a record says; :class:`GGError` where it is none."""
    try:
        return tuple(tuple(Run(*run) for run in chain(runs)) for runs in chain(parse_record(text)))
    except (TypeError, ValueError):
        raise _unknown("block", text) from None


@lru_cache(MANY)
def read_parts(text: str) -> Parts:
    """The open reductions that a record says; :class:`GGError` where it says something else."""
    try:
        return tuple(
            Part(tuple((str(by), place) for by, place in _axis(along)), str(kind), lo, n, extent)
            for along, kind, lo, n, extent in chain(parse_record(text))
        )
    except (TypeError, ValueError):
        raise _unknown("part of a reduction", text) from None


@lru_cache(MANY)
def read_coefficient(text: str) -> Coefficient:
    """The coefficient that a record says; :class:`GGError` where it is none."""
    try:
        num, den, over, under = parse_record(text)
    except (TypeError, ValueError):
        raise _unknown("coefficient", text) from None
    return Coefficient(num, den, *("" if x is None else str(x) for x in (over, under)))


def _axis(record: Any) -> Iterator[tuple[Any, int]]:
    while record is not None:
        by, place, record = record
        yield by, place


def _unknown(what: str, text: str) -> GGError:
    return GGError(f"{text!r} is no {what}", "the answer of the engine", "please report this")


# ---- records as they are ---------------------------------------------------------------------
def parse_record(text: str) -> Any:
    """Nested tuples; ``nil`` is None, digits are numbers, everything else stays text."""
    tokens = _tokens(text)
    return _value(next(tokens), tokens)


def _tokens(text: str) -> Iterator[str]:
    """Brackets and what lies between brackets and commas, which may be empty."""
    at = 0
    before = ""
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None or match.end() == at:
            break
        at = match.end()
        token = match[1].strip()
        if token in (",", "]") and before in (",", "["):
            yield ""
        if token:
            yield token
            before = token


def _value(token: str, tokens: Iterator[str]) -> Any:
    if token != "[":
        return None if token == "nil" else int(token) if _number(token) else token
    items: list[Any] = []
    for inner in tokens:
        if inner == "]":
            break
        if inner != ",":
            items.append(_value(inner, tokens))
    return tuple(items)


def _number(token: str) -> bool:
    return token.isascii() and token.removeprefix("-").isdigit()


def chain(record: Any) -> list[Any]:
    """The items of a list of records, whose last field is the rest of the list."""
    found = []
    while record is not None:
        if not isinstance(record, tuple):
            raise TypeError(f"{record!r} is no list")
        found.append(record[0] if len(record) == 2 else record[:-1])
        record = record[-1]
    return found
