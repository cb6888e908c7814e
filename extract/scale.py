"""Scalar coefficients: a small rational times scalars that are none (up to their rounding)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from struct import pack, unpack

LIMIT = 2**20
WORD = 2**31
SMALL = 2**10  # denominators of fractions that a float may stand for
NEAR = 2**51  # one part of it, a float is off from what it stands for (it may be computed itself)
DIGITS = 9  # that tell every float32 from every other


@dataclass(frozen=True)
class Scale:
    """``ratio`` times the product of ``atoms``: (decimal text, exponent), sorted."""

    ratio: Fraction = Fraction(1)
    atoms: tuple[tuple[str, int], ...] = ()

    def __mul__(self, other: Scale) -> Scale:
        if self is ONE or other is ONE:
            return other if self is ONE else self
        powers: Counter[str] = Counter(dict(self.atoms))
        for atom, power in other.atoms:
            powers[atom] += power
        left = tuple(sorted((a, p) for a, p in powers.items() if p))
        return _fold(self.ratio * other.ratio, left)

    def inverse(self) -> Scale:
        """1 / self; ZeroDivisionError for 0."""
        return Scale(1 / self.ratio, tuple((a, -p) for a, p in self.atoms))

    @property
    def zero(self) -> bool:
        """Is it 0?"""
        return self.ratio == 0

    @property
    def integer(self) -> int | None:
        """The value where it is an integer."""
        return None if self.atoms or self.ratio.denominator != 1 else self.ratio.numerator

    def row(self) -> tuple[str, int, int, str, str]:
        """(id, num, den, over, under) as the rules read it."""
        over = "*".join(a for a, p in self.atoms for _ in range(p))
        under = "*".join(a for a, p in self.atoms for _ in range(-p))
        return str(self), self.ratio.numerator, self.ratio.denominator, over, under

    def __str__(self) -> str:
        _, parts = None, [str(self.ratio)] if self.ratio != 1 or not self.atoms else []
        return "*".join([*parts, *(a if p == 1 else f"{a}^{p}" for a, p in self.atoms)])


def _fold(ratio: Fraction, atoms: tuple[tuple[str, int], ...]) -> Scale:
    """A ratio that outgrew the rules' words becomes an atom of its own."""
    if max(abs(ratio.numerator), ratio.denominator) < LIMIT * LIMIT // 512:
        return Scale(ratio, atoms)
    return Scale(Fraction(1 if ratio > 0 else -1), tuple(sorted((*atoms, (str(abs(ratio)), 1)))))


ONE = Scale()
ZERO = Scale(Fraction(0))


def finite(value: float | int) -> bool:
    """Is it a number, and not infinite?"""
    return value == value and abs(value) != float("inf")


def scale(value: float | int | bool, single: bool = False) -> Scale:
    """The number as a coefficient: exact where it is a small dyadic rational, a fraction where it
    is the float next to a small one, else an atom. ``single``: the program computes in float32 at
    most, where a number and its float32 are one."""
    ratio = Fraction(value)
    if max(abs(ratio.numerator), ratio.denominator) < LIMIT:
        return Scale(ratio)
    if (
        1 in (abs(ratio.numerator), ratio.denominator)
        and max(abs(ratio.numerator), ratio.denominator) < WORD
    ):
        return Scale(ratio)  # an integer, or one over one: a loss scale and its inverse
    near = ratio.limit_denominator(SMALL)
    close = abs(near - ratio) * NEAR <= abs(ratio)
    if single and near and not close:
        close = _float32(near) == value  # (of what is no float32, all digits count)
    if close and abs(near.numerator) < LIMIT:
        return Scale(near)  # a fraction, rounded as a float is: 0.1, 1 / 3
    return Scale(Fraction(1 if ratio > 0 else -1), ((_written(abs(value), single), 1),))


def _float32(value: float | int | Fraction) -> float | None:
    """The float32 next to a number; None where there is none of its size."""
    try:
        (found,) = unpack("f", pack("f", value))
    except OverflowError:
        return None
    return float(found) if found and finite(found) else None


def _written(value: float | int, single: bool) -> str:
    """A number as text: in float32 one that is a float32 with no more digits than tell it from
    others, so that 0.1 and its float32 are one. (Of others all digits count.)"""
    rounded = _float32(value) if single else None
    if rounded is None or rounded != value:
        return repr(value)
    texts = (f"{rounded:.{digits}g}" for digits in range(1, DIGITS + 1))
    return next(repr(float(text)) for text in texts if _float32(float(text)) == rounded)
