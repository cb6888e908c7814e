"""Numbers against numbers: floats up to rounding of the coarsest type of the program, integers
exactly, modulo the width of their type where both sides have the same one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from gg_datalog.replay.evaluate import NotEvaluated

from .combos import Combo, Draw

Tensor = torch.Tensor
WIDTHS = {"uint8": 8, "int8": 8, "int16": 16, "int32": 32, "int64": 64}
TOLERANCES = {"float64": 1e-9, "float32": 5e-5, "float16": 3e-2, "bfloat16": 2e-1}
INTEGERS = tuple(getattr(torch, name) for name in WIDTHS)
EXACT = 2**24  # beyond, a float32 is not every integer
NEAR = 1e-6  # a share, by which integers differ that were floats on the way
POLE = 1e7
TINY = 1e-30  # below, float32 has few numbers or none
LARGE = 2**53  # beyond, a float is not every integer


def plain(value: Any) -> Any:
    """Integers as 64 bits and floats as double: what arithmetic on them gives is exact, or rounded
    late."""
    if isinstance(value, (tuple, list)):
        return tuple(plain(v) for v in value)
    if not isinstance(value, Tensor) or value.is_complex():
        return value
    return value.detach().to(torch.float64 if value.is_floating_point() else torch.int64)


@dataclass(frozen=True)
class Rounding:
    """How far floats of one draw may be apart: a share of the largest of them."""

    tolerance: float
    largest: float  # of the inputs
    limit: float  # beyond, the type has no numbers
    whole: int = 0  # the largest integer of the inputs

    @classmethod
    def of(cls, combo: Combo, draw: Draw) -> Rounding:
        """That of the coarsest type in the graphs."""
        docs = combo.documents
        types = [f.get("dtype") for g in (docs.seq, *docs.dist.values()) for f in g["nodes"]]
        given = [x for envs in draw.given.values() for env in envs for x in env.values()]
        floats = [float(x.abs().max()) for x in given if x.is_floating_point() and x.numel()]
        whole = [
            int(x.to(torch.int64).abs().max())
            for x in given
            if x.dtype in (*INTEGERS, torch.bool) and x.numel()
        ]
        if whole:  # a function of integers may vanish where they lie: it is of the size of one
            floats.append(1.0)
        coarsest = max(TOLERANCES.get(t or "", 0.0) for t in types) or TOLERANCES["float64"]
        known = [getattr(torch, t) for t in types if TOLERANCES.get(t or "") == coarsest]
        limit = min((torch.finfo(t).max for t in known), default=torch.finfo(torch.float64).max)
        return cls(coarsest, max(floats, default=0.0), limit, max(whole, default=0))

    def differs(self, found: Tensor, expected: Tensor, types: tuple[str, str]) -> str | None:
        """What is different, if it is no rounding; ``types`` are those that the numbers had."""
        found, expected = torch.broadcast_tensors(found, expected)
        if found.is_complex() or expected.is_complex():
            both = (x.to(torch.complex128) for x in (found, expected))
            found, expected = map(torch.view_as_real, both)
        if types[0] in WIDTHS and types[1] in WIDTHS:
            found, expected = _whole(found), _whole(expected)
        if not found.is_floating_point() and not expected.is_floating_point():
            apart = found - expected
            width = WIDTHS.get(types[0], 64) if types[0] == types[1] else 64
            if width < 64:
                half = 2 ** (width - 1)
                apart = (apart + half) % 2**width - half
            bad = apart != 0
            size = torch.maximum(found.to(torch.float64).abs(), expected.to(torch.float64).abs())
            if (
                self.whole > EXACT
                and bool((apart.abs() <= NEAR * size)[bad].all())
                and bool(bad.any())
            ):
                raise NotEvaluated("integers beyond those that a float holds")
            return f"differs: {_first(found, expected, bad)}" if bool(bad.any()) else None
        return self._floats(found.to(torch.float64), expected.to(torch.float64))

    def _floats(self, found: Tensor, expected: Tensor) -> str | None:
        narrow = self.tolerance > TOLERANCES["float64"]
        if self.whole > (EXACT if narrow else LARGE):
            raise NotEvaluated("integers beyond those that a float holds")
        if narrow and self.whole and bool((expected.abs() > POLE).any()):
            raise NotEvaluated("a function of integers next to a pole")
        if narrow:  # what overflows on the way is infinite, of any sign, or no number
            found, expected = (
                torch.where(x.isfinite() & (x.abs() < self.limit / 16), x, float("inf"))
                for x in (found, expected)
            )
        else:  # next to the largest number the real one may be beyond it
            found, expected = (
                torch.where(x.abs() < self.limit / 16, x, x * float("inf"))
                for x in (found, expected)
            )
        # at a pole parts are infinite with other signs than their sum is: there is nothing to compare
        found = torch.where(found.isfinite() | expected.isfinite(), found, expected)
        one_sided = found.isnan() != expected.isnan()
        if bool(one_sided.any()):
            return f"differs: {_first(found, expected, one_sided)}"
        known = found.isfinite() & expected.isfinite()
        seen = [float(x[known].abs().max()) for x in (found, expected) if bool(known.any())]
        bound = self.tolerance * max(self.largest, *seen, 0.0) + (TINY if narrow else 0.0)
        off = (found - expected).abs() > bound
        bad = (off & known) | (~known & ~found.isnan() & (found != expected))
        return f"differs: {_first(found, expected, bad)}" if bool(bad.any()) else None


def _whole(x: Tensor) -> Tensor:
    """Integers that were computed as floats."""
    if not x.is_floating_point() or not bool((x == x.round()).all()):
        return x
    if bool((x.abs() >= LARGE).any()):
        raise NotEvaluated("integers beyond those that a float holds")
    return x.to(torch.int64)


def _first(found: Tensor, expected: Tensor, where: Tensor) -> str:
    place = tuple(int(i) for i in where.nonzero()[0])
    return f"{found[place].item()} instead of {expected[place].item()} at {list(place)}"
