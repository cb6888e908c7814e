"""Ranges of a dimension: what several of them cover."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from gg_datalog.result.placement import spans_text

Range = tuple[int, int]  # [lo, hi)


def coverage(spans: Sequence[Range], extent: int) -> str:
    """What ranges leave out of [0, extent), and what they have twice."""
    twice, missing, at = [], [], 0
    for lo, hi in sorted(set(spans)):
        if lo > at:
            missing.append((at, lo))
        if lo < at:
            twice.append((lo, min(at, hi)))
        at = max(at, hi)
    if at < extent:
        missing.append((at, extent))
    texts = [f"{spans_text(missing)} of {extent} is missing"] if missing else []
    texts += [f"{spans_text(twice)} is there twice"] if twice else []
    return " and ".join(texts)


def complete(spans: Sequence[Range], extent: int) -> bool:
    """Do these ranges, in this order, follow each other from 0 to the extent?"""
    meet = all(a[1] == b[0] for a, b in pairwise(spans))
    return meet and (spans[0][0], spans[-1][1]) == (0, extent)


def covered(lo: int, hi: int, spans: Sequence[Range]) -> bool:
    """Do these ranges have all of [lo, hi) between them?"""
    for start, end in sorted(spans):
        if start <= lo:
            lo = max(lo, end)
    return lo >= hi
