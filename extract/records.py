"""What one side of a case is lowered to: operators, sums, slices, concatenations of bases."""

from __future__ import annotations

from dataclasses import dataclass, field

from gg_datalog.extract.view import Base, View


@dataclass(frozen=True)
class Label:
    """A dimension of an operator: labels of equal factor may be paired between the sides.

    ``kind``: parallel, sum, max, min (reduced), whole (must not be cut), created (by the operator).
    """

    extent: int
    factor: str
    kind: str


# Per base dimension, innermost digit first: (extent, label, stride within the label).
DigitMap = tuple[tuple[tuple[int, int, int], ...], ...]


@dataclass(eq=False)
class Operator:
    """An operator with ``operands`` (their digits in ``maps``) and one label list per result."""

    name: str
    signature: str
    operands: list[View]
    labels: tuple[Label, ...]
    maps: list[DigitMap]
    gives: list[tuple[Base, tuple[int, ...]]]
    target: str = ""
    node: str = ""
    rank: int = 0
    made_as: Operator | Concat | None = None  # what this is another form of


@dataclass(eq=False)
class Sum:
    """``gives`` = sum (max, min) of terms; a term has one digit list per dimension of ``gives``.
    ``other``: this is another form of what some record gives."""

    name: str
    kind: str
    terms: list[View]
    gives: Base
    target: str = ""
    node: str = ""
    rank: int = 0
    other: bool = False


@dataclass(eq=False)
class Slice:
    """``gives`` = [start, start+size) of dimension ``dim`` of ``of``. ``other``: this is another
    form of what some record gives."""

    name: str
    of: View
    dim: int
    start: int
    size: int
    gives: Base
    target: str = ""
    node: str = ""
    rank: int = 0
    other: bool = False


@dataclass(eq=False)
class Concat:
    """``gives`` = members one after the other along ``dim``: (view, offset). ``other``: this is
    another form of what some record gives."""

    name: str
    members: list[tuple[View, int]]
    dim: int
    gives: Base
    local: bool
    target: str = ""
    node: str = ""
    rank: int = 0
    other: bool = False


@dataclass(eq=False)
class Lookup:
    """A lookup in a table, its rows masked to 0 where ``mask`` is true."""

    name: str
    operands: list[View]  # table, ids
    labels: tuple[Label, ...]
    maps: list[DigitMap]
    label: int
    result: tuple[int, ...]
    gives: Base
    mask: Base | None = None


@dataclass(eq=False)
class OneHot:
    """``gives`` is 1 where dimension ``label`` is the id, else 0; all 0 where ``mask`` is true."""

    name: str
    ids: View
    labels: tuple[Label, ...]
    maps: list[DigitMap]
    label: int
    result: tuple[int, ...]
    gives: Base
    mask: Base | None = None


@dataclass
class IntegerFacts:
    """Elementwise integer operators on whole bases, for the vocabulary lemma."""

    tests: list[tuple[Base, Base, str, int]] = field(default_factory=list)
    pairs: list[tuple[Base, str, Base, Base]] = field(default_factory=list)
    nots: list[tuple[Base, Base]] = field(default_factory=list)
    fills: list[tuple[Base, Base, Base, int]] = field(default_factory=list)
    clamps: list[tuple[Base, Base, int, int]] = field(default_factory=list)
    sums: list[tuple[Base, list[tuple[Base, int]]]] = field(default_factory=list)
