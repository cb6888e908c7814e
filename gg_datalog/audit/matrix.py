"""Matrices of a plan: every combination of values, without those that are excluded."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

NAMED = re.compile(r"\$(?:(\w+)|\{(\w+)\})")
Values = Mapping[str, Any]


def combinations(axes: Mapping[str, Sequence[Any]], excluded: Sequence[Values]) -> Iterator[Values]:
    """Every combination of one value for each axis, the last axis running fastest."""
    for values in product(*axes.values()):
        chosen = dict(zip(axes, values, strict=True))
        if not any(fits(rule, chosen) for rule in excluded):
            yield chosen


def fits(rule: Values, chosen: Values) -> bool:
    """Does a combination have the values of a rule? A list in a rule stands for any of its
    values; booleans and numbers are told apart."""
    return all(
        any(_same(one, chosen.get(name)) for one in (value if isinstance(value, list) else [value]))
        for name, value in rule.items()
    )


def _same(one: Any, other: Any) -> bool:
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


def named(value: Any) -> set[str]:
    """The axes that a value of a plan speaks of, as ``$axis`` or ``${axis}``."""
    if isinstance(value, str):
        return {found[1] or found[2] for found in NAMED.finditer(value)}
    if isinstance(value, Mapping):
        return set().union(*map(named, value.values()))
    return set().union(*map(named, value)) if isinstance(value, list) else set()


def filled(value: Any, chosen: Values) -> Any:
    """A value with what ``$axis`` stands for; a text that is nothing else becomes the value
    itself, of its own type.

    Raises:
        ValueError: there is no such axis.
    """
    if isinstance(value, list):
        return [filled(one, chosen) for one in value]
    if isinstance(value, Mapping):
        return {name: filled(one, chosen) for name, one in value.items()}
    if not isinstance(value, str):
        return value
    if unknown := sorted(named(value) - chosen.keys()):
        axes = ", ".join(chosen) or "none"
        raise ValueError(f"`${unknown[0]}` names no axis of the matrix (axes: {axes})")
    whole = NAMED.fullmatch(value)
    if whole is not None:
        return chosen[whole[1] or whole[2]]
    return NAMED.sub(lambda found: _text(chosen[found[1] or found[2]]), value)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
