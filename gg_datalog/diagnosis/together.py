"""One cause, one finding: what is alike at several places is told once.

A gradient that is not reduced is rarely alone: where a hook is missing, all that should have gone
through it come back as parts. What places have in common to be one cause, and in which words
several of them are told, is said in ``order.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from gg_datalog.result.placement import some
from gg_datalog.result.report import Finding

Place = TypeVar("Place")
Told = tuple[Place, Finding]
"""A place with what is found there."""
Likeness = Callable[[Place, Finding], Hashable]
"""What places have in common that have one cause."""
Words = Mapping[str, Callable[[Sequence[Place]], str]]
"""By code the message about several places; findings of other codes are told one by one."""


def together(
    told: Iterable[Told[Place]], likeness: Sequence[Likeness[Place]], words: Words[Place]
) -> Iterator[Finding]:
    """One finding for all places that are alike in one of the ways, in the order of the first."""
    groups = [[one] for one in told]
    for alike in likeness:
        groups = _merged(groups, alike, words)
    for group in groups:
        yield group[0][1] if len(group) == 1 else _joined(group, words)


def _merged(
    groups: Sequence[list[Told[Place]]], alike: Likeness[Place], words: Words[Place]
) -> list[list[Told[Place]]]:
    """The groups, those whose first places are alike as one."""
    found: dict[Hashable, list[Told[Place]]] = {}
    for number, group in enumerate(groups):
        place, one = group[0]
        key = (one.code, one.level, one.certain, alike(place, one))
        found.setdefault(key if one.code in words else number, []).extend(group)
    return list(found.values())


def _joined(group: Sequence[Told[Place]], words: Words[Place]) -> Finding:
    """The first finding, in words about all of them, with the nodes and outputs of all."""
    first = group[0][1]
    return replace(
        first,
        message=words[first.code]([place for place, _ in group]),
        dist=tuple(dict.fromkeys(name for _, one in group for name in one.dist)),
        outputs=_all_outputs([one for _, one in group]),
    )


# ---- operators of one line -----------------------------------------------------------------------
def of_lines(told: Iterable[Told[Place]], kind: Callable[[Place], str]) -> list[Told[Place]]:
    """Of operators of one kind that one line gives, and of which the same is found on the same
    ranks, the first finding, which names all; so of what is found in the same words."""
    groups: dict[Hashable, list[Told[Place]]] = {}
    for place, one in told:
        groups.setdefault((one.code, one.message, one.dist), []).append((place, one))
    lines: dict[Hashable, list[Told[Place]]] = {}
    for number, ((place, one), *same) in enumerate(groups.values()):
        found = replace(one, outputs=_all_outputs([one, *(other for _, other in same)]))
        written = one.dist_source, one.seq_source
        alike = one.code, one.level, one.certain, one.ranks, kind(place), written
        lines.setdefault(alike if all(written) else number, []).append((place, found))
    return [(group[0][0], _of_line([one for _, one in group])) for group in lines.values()]


def _of_line(found: Sequence[Finding]) -> Finding:
    first, *others = found
    if not others:
        return first
    more = some([f"`{node}`" for one in others if (node := one.seq) is not None])
    return replace(
        first,
        message=f"{first.message}; the same of {more}, which this line gives, too",
        dist=tuple(dict.fromkeys(name for one in found for name in one.dist)),
        outputs=_all_outputs(found),
    )


def _all_outputs(found: Sequence[Finding]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(seq for one in found for seq in one.outputs))
