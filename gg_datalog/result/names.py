"""Nodes of the ranks as findings and reports name them: ``r1.mm`` is `mm` of rank 1."""

from __future__ import annotations


def ranked(name: str) -> tuple[int, str]:
    """Rank and node of ``r1.mm``, however the node is called; rank -1 where there is none."""
    rank, dot, node = name.partition(".")
    digits = rank[1:]
    known = dot and rank[:1] == "r" and digits.isascii() and digits.isdigit()
    return (int(digits), node) if known else (-1, name)
