"""Simple placements that the numbers show: is an output on every rank, cut along one dimension, or
a sum of what the ranks have? What is so on every draw and was not derived is *missed*."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from gg_datalog.replay.evaluate import NotEvaluated

from .combos import Combo
from .deriving import Derived
from .placements import CUTS, shares
from .rounding import Rounding, plain

Tensor = torch.Tensor
JOIN = {"sum": torch.add, "max": torch.maximum, "min": torch.minimum}


def shown(combo: Combo, roundings: Sequence[Rounding], wants: int) -> str:
    """The first simple placement that all draws agree on; "" where there is none, or where too
    little differs in an output to say so."""
    draws = _draws(combo, wants)
    if draws is None or not _telling([seq for seq, _ in draws]):
        return ""
    kind = _kind(combo, wants)
    left = list(_candidates(*draws[0]))
    for (seq, dist), rounding in zip(draws, roundings, strict=True):
        left = [c for c in left if _holds(c, seq, dist, rounding, kind)]
    return left[0][0] if left else ""


def holds(claim: str, combo: Combo, roundings: Sequence[Rounding], wants: int) -> bool:
    """Is an output placed like this (`R`, `S(1)`; cuts are even) on all draws?"""
    draws = _draws(combo, wants)
    if draws is None:
        return False
    kind = _kind(combo, wants)
    found = [[c for c in _candidates(seq, dist) if c[0] == claim][:1] for seq, dist in draws]
    every = zip(found, draws, roundings, strict=True)
    return all(c and _holds(c[0], seq, dist, r, kind) for c, (seq, dist), r in every)


def _draws(combo: Combo, wants: int) -> list[tuple[Tensor, list[Tensor]]] | None:
    """The output on each draw: sequential, and of each rank; None where it is no plain tensor."""
    ours, theirs = combo.outputs[wants]
    draws = [
        (plain(d.values["seq"][0][ours]), [plain(env[theirs]) for env in d.values["dist"]])
        for d in combo.draws
    ]
    every = [x for seq, dist in draws for x in (seq, *dist)]
    return draws if all(isinstance(x, Tensor) and not x.is_complex() for x in every) else None


def _kind(combo: Combo, wants: int) -> str:
    value = combo.draws[0].values["seq"][0][combo.outputs[wants][0]]
    return str(value.dtype).removeprefix("torch.")


def _telling(values: Sequence[Tensor]) -> bool:
    """Do the numbers differ enough to tell placements apart?"""
    flat = torch.cat([v.reshape(-1).to(torch.float64) for v in values])
    flat = flat[flat.isfinite()]
    enough = 8 if len(flat.unique()) <= 2 else 2  # of truth values many are alike by chance
    return len(flat) >= enough and len(flat.unique()) > 1


def _candidates(seq: Tensor, dist: Sequence[Tensor]) -> Iterator[tuple[str, Any]]:
    if all(x.shape == seq.shape for x in dist):
        yield "R", None
    for dim in range(seq.dim()):
        for how in CUTS:
            cut = shares(seq.shape[dim], how, len(dist))
            if cut and all(_fits(seq, x, dim, mine) for x, mine in zip(dist, cut, strict=True)):
                yield f"S({dim})", (dim, cut)
    if all(x.shape == seq.shape for x in dist):
        yield from ((f"P({how})", how) for how in JOIN)


def _fits(seq: Tensor, piece: Tensor, dim: int, ranges: Sequence[tuple[int, int]]) -> bool:
    shape = list(seq.shape)
    shape[dim] = sum(hi - lo for lo, hi in ranges)
    return list(piece.shape) == shape


def _holds(*question: Any) -> bool:
    try:
        return _agrees(*question)
    except NotEvaluated:
        return False


def _agrees(
    candidate: Any, seq: Tensor, dist: Sequence[Tensor], rounding: Rounding, kind: str
) -> bool:
    what, how = candidate
    if what == "R":
        return all(rounding.differs(x, seq, (kind, kind)) is None for x in dist)
    if what[0] == "S":
        dim, cut = how
        parts = [torch.cat([seq.narrow(dim, lo, hi - lo) for lo, hi in mine], dim) for mine in cut]
        pairs = zip(dist, parts, strict=True)
        return all(rounding.differs(x, part, (kind, kind)) is None for x, part in pairs)
    total = dist[0]
    for one in dist[1:]:
        total = JOIN[how](total, one)
    return rounding.differs(total, seq, (kind, kind)) is None


def is_derived(placement: str, combo: Combo, derived: Derived, wants: int) -> bool:
    """Do the rules say of an output what the numbers show? Of a sum that each rank has a part."""
    if wants in derived.mapped:
        return True
    if placement[0] != "P":
        return False
    ranks = {r["rank"] for r in derived.returned if r["wants"] == wants and r["parts"] != "nil"}
    return ranks == set(range(combo.wanted.ranks))
