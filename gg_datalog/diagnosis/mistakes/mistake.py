"""What a mistake declares: its page (code, title, level, what it is, what to do, an example), how
far a finding of it goes, and what may repair it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeVar

from gg_datalog.result.report import Finding


@dataclass(frozen=True, kw_only=True)
class Example:
    """A small pair of programs: ``wrong`` on the ranks gives the finding that ``says`` so, with
    ``right`` it is gone; ``relate`` are rows of the input relations, where shapes do not tell;
    ``names`` is what the program calls its outputs, ``kinds`` what they are, ``state`` the inputs
    that they are the new values of, ``lacks`` those whose gradients they are, and whose gradient
    rank 1 lacks."""

    sequential: str
    wrong: str
    says: str
    right: str = ""
    world: int = 2
    groups: Mapping[str, Any] | None = None
    relate: Mapping[str, Any] | None = None
    names: Sequence[str] = ()
    kinds: Sequence[str] = ()
    state: Sequence[str] = ()
    lacks: Sequence[str] = ()

    def __post_init__(self) -> None:
        for name in ("sequential", "wrong", "right"):
            object.__setattr__(self, name, getattr(self, name).strip("\n"))


class Change(Enum):
    """Changes of the ranks' programs that may repair a mistake (see ``gg_datalog.repairs``)."""

    REDUCTION = "a reduction that completes parts"
    FACTOR = "a factor that sets a coefficient right"
    GATHERING = "an all-gather of pieces"
    BROADCAST = "a broadcast into memory that nothing has written"


EVERY = tuple(Change)
"""What is tried for an error, the most natural first."""


@dataclass(frozen=True, kw_only=True)
class Mistake:
    """A kind of finding: its stable code, what it is, how bad (``error``, ``warning``, ``note``),
    why it matters (``note``), what to do about it (``remedy``), and an example where one is small.

    ``certain``: what is found and what was expected are both derived, and nothing behind it can
    make it good, unless a finding says otherwise. (Of orders, and of what is elsewhere, this cannot
    be said.) ``explains``: it explains whatever else breaks behind it. Numbers say nothing of any
    output where a mistake is ``static``: it is what it is, whatever is computed; nor of an output
    whose elements are elsewhere (``layout``). ``repairs`` is what may repair an error, in the order
    in which it is tried.
    """

    code: str
    title: str
    level: str
    note: str
    remedy: str
    example: Example | None = None
    certain: bool = False
    explains: bool = False
    static: bool = False
    layout: bool = False
    repairs: tuple[Change, ...] = EVERY

    def __post_init__(self) -> None:
        for name in ("note", "remedy"):
            object.__setattr__(self, name, " ".join(getattr(self, name).split()))

    def finding(self, message: str, **where: Any) -> Finding:
        """A finding of this mistake; ``where`` are further fields of it."""
        given = {"certain": self.certain, **where}
        return Finding(self.code, self.level, message, title=self.title, **given)


Place = TypeVar("Place")
Check = Callable[[Place], Finding | None]
"""Looks for a mistake at a place; None where it is not there."""
Look = Callable[[Place], Iterable[Finding]]
"""Looks for all mistakes of a kind in a whole."""


def first(checks: Sequence[Check[Place]], place: Place) -> Finding | None:
    """The first mistake that one of the checks finds at a place."""
    return next((found for check in checks if (found := check(place)) is not None), None)
