"""Records as the engines write them: ``[1, 0, [2, nil]]``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fractions import Fraction
from math import prod
from typing import Any

_TOKEN = re.compile(r"\s*([\[\],]|[^\[\],]*)")


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
        found.append(record[0] if len(record) == 2 else record[:-1])
        record = record[-1]
    return found


def runs_of(block: str) -> Iterator[tuple[int, int, tuple[int, int, int, int, int, int]]]:
    """The runs of a block: sequential dimension, place among the runs of that dimension, and
    (stride, lo, n, dimension of the ranks' tensor, its stride, its lo)."""
    for place, runs in enumerate(chain(parse_record(block))):
        for level, run in enumerate(chain(runs)):
            yield place, level, run


def coefficient_value(text: str) -> Fraction:
    """The number that ``[num, den, over, under]`` stands for, ``over`` and ``under`` being
    products of decimal numbers."""
    num, den, over, under = parse_record(text)
    above, below = (
        prod(map(Fraction, filter(None, str("" if words is None else words).split("*"))))
        for words in (over, under)
    )
    return Fraction(num, den) * above / below


def coefficient_text(text: str) -> str:
    """``[1, 2, 0.1, ]`` as a person writes it: ``1/2 * 0.1``."""
    num, den, over, under = parse_record(text)
    ratio = str(num) if den == 1 else f"{num}/{den}"
    scalars = f"{over or 1} / ({under})" if under not in ("", None) else str(over)
    if not scalars:
        return ratio
    return scalars if ratio == "1" else f"{ratio} * {scalars}"
