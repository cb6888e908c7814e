"""What the sequential program does with the same experts to one group after the other, done to all
groups at once.

Where ranks exchange tokens an expert gets those of all groups together, while the sequential
program goes through the groups. An operator that is applied to tensors of one shape, with the same
matrices, is one operator on all of these, stacked; and what it gives for each is a slice. So are
the operators that follow, element by element.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from gg_datalog.extract.records import Operator, Slice, Sum
from gg_datalog.extract.side import At, Side, _as_term
from gg_datalog.extract.view import Base, Digit, View, compose, identity

MOST = 64  # groups
MATRICES = 3  # dimensions of a parameter that holds a matrix per expert
SIDES = {(0, 1): "b", (0,): "i", (1,): "j"}


@dataclass(frozen=True, eq=False)
class Family:
    """Tensors of one shape, and all of them stacked: the first dimension of ``stack`` counts them,
    the others are those of each."""

    members: tuple[Base, ...]
    stack: View


@dataclass
class Twins:
    """The families of a side, by each member."""

    side: Side
    of: dict[Base, Family]
    alike: dict[Any, Operator | Sum | Slice]  # by form and operands

    def expected(self, bases: Sequence[Base], i: int) -> tuple[Base, ...]:
        """The operands of the ``i``-th twin of what has these ones."""
        return tuple(self.of[b].members[i] if b in self.of else b for b in bases)


def stacked_twins(side: Side) -> None:
    """Notes other forms of what a side does to several groups with the same experts."""
    records = [r for b in side.bases if isinstance(r := b.made, (Operator, Sum, Slice))]
    records = list(dict.fromkeys(records))
    twins = Twins(side, {}, {(_form(r), _bases(r)): r for r in records})
    seeds = dict(_seeds(records))
    for record in records:
        group = seeds.get(record) if isinstance(record, Operator) else None
        if group is not None and not _known(twins, record):
            _seed(twins, group)
        if _known(twins, record):
            _follow(twins, record)


def _form(record: Operator | Sum | Slice) -> Any:
    """What a record does, whatever its operands are."""
    if isinstance(record, Operator):
        scales = tuple(v.scale for v in record.operands)
        gives = tuple(labels for _, labels in record.gives)
        return record.signature, record.labels, tuple(record.maps), scales, gives
    if isinstance(record, Sum):
        return record.kind, tuple((t.dims, t.scale) for t in record.terms), record.gives.shape
    return record.of.dims, record.of.scale, record.dim, record.start, record.size


def _bases(record: Operator | Sum | Slice) -> tuple[Base, ...]:
    if isinstance(record, Slice):
        return (record.of.base,)
    views = record.operands if isinstance(record, Operator) else record.terms
    return tuple(v.base for v in views)


def _gives(record: Operator | Sum | Slice) -> Base:
    return record.gives[0][0] if isinstance(record, Operator) else record.gives


def _known(twins: Twins, record: Operator | Sum | Slice) -> bool:
    return any(base in twins.of for base in _bases(record))


# ---- the first ones
def _seeds(records: Sequence[Any]) -> Iterator[tuple[Operator, list[Operator]]]:
    """Products of several tensors with the same matrices: the first of them, and all."""
    groups: dict[Any, list[Operator]] = {}
    for record in records:
        if not isinstance(record, Operator) or record.signature != "contract":
            continue
        for place, view in enumerate(record.operands):
            if view.base.kind == "input" and len(view.base.shape) >= MATRICES:
                groups.setdefault((_form(record), place, view.base), []).append(record)
    for group in groups.values():
        if 1 < len(group) <= MOST:
            yield group[0], group


def _seed(twins: Twins, group: Sequence[Operator]) -> None:
    """The family of what is multiplied with the same matrices."""
    columns = list(zip(*(_bases(record) for record in group), strict=True))
    places = [column for column in columns if len(set(column)) == len(group)]
    if len(places) != 1 or len({b.shape for b in places[0]}) > 1:
        return
    if any(b in twins.of or b.ring for b in places[0]):
        return
    twins.side.at = At(group[0].rank, group[0].node, group[0].target)
    stack = twins.side.plain_concat([identity(b).unsqueezed(0) for b in places[0]], 0, local=True)
    if stack is not None:
        twins.of |= dict.fromkeys(places[0], Family(places[0], stack))


# ---- those that follow
def _follow(twins: Twins, record: Operator | Sum | Slice) -> None:
    """The family of what a record and its twins give, if it has some and is the first of them."""
    bases, form = _bases(record), _form(record)
    families = [twins.of[b] for b in bases if b in twins.of]
    count = len(families[0].members)
    if any(len(f.members) != count for f in families) or _gives(record) in twins.of:
        return
    found = [twins.alike.get((form, twins.expected(bases, i))) for i in range(count)]
    group = [r for r in found if r is not None]
    if len(group) < count or group[0] is not record:
        return
    twins.side.at = At(record.rank, record.node, record.target)
    stack = _stacked(twins, record, count)
    if stack is None:
        return
    members = tuple(_gives(r) for r in group)
    twins.of |= dict.fromkeys(members, Family(members, stack))
    of = View(stack.base, stack.dims)
    for i, member in enumerate(members):
        name = f"{stack.base.name}?{i}"
        cut = Slice(name, of, 0, i, 1, member, record.target, record.node, record.rank, True)
        twins.side.slices.append(cut)
        member.needs.append(stack.base)


def _stacked(twins: Twins, record: Operator | Sum | Slice, count: int) -> View | None:
    if isinstance(record, Operator):
        found = _operator(twins, record)
    elif isinstance(record, Sum):
        terms = [_over(twins, term, count) for term in record.terms]
        known = [term for term in terms if term is not None]
        found = twins.side.sum(known, record.kind) if len(known) == len(terms) else None
    else:
        of = _over(twins, record.of, count)
        found = of and twins.side.slice(of, record.dim + 1, record.start, record.size)
        if found is not None and record.size == 1:
            found = found.without(record.dim + 1)
    whole = found is not None and found.scale.ratio == 1 and not found.scale.atoms
    return found if whole else None


def _over(twins: Twins, view: View, count: int) -> View | None:
    """A view of a member as the same of all members; what is no member recurs."""
    family = twins.of.get(view.base)
    if family is None:
        again = Digit(-1, count, 1)
        return View(view.base, ((again,), *view.dims), view.scale)
    stack = family.stack
    inner = compose(view, stack.dims[1:], stack.base, stack.scale)
    return inner and View(inner.base, (stack.dims[0], *inner.dims), inner.scale)


def _operator(twins: Twins, record: Operator) -> View | None:
    """A product, or what works element by element, on all members at once."""
    product = record.signature == "contract"
    kinds = {(label.factor, label.kind) for label in record.labels}
    if len(record.gives) > 1 or not (product or kinds <= {("e", "parallel")}):
        return None
    if record.signature in twins.side.draws:
        return None
    operands = []
    for view, digits in zip(record.operands, record.maps, strict=True):
        term = _as_term(view, digits, record.labels)
        carried = [i for i, dim in enumerate(term.dims) if any(d.dim >= 0 for d in dim)]
        seen = View(view.base, tuple(term.dims[i] for i in carried), view.scale)
        letters = [str(i) for i in carried]
        if view.base in twins.of:
            over = _over(twins, seen, 0)
            if over is None:
                return None
            seen, letters = over, ["g", *letters]
        operands.append((seen, letters))
    places = tuple(i for i, (_, letters) in enumerate(operands) if "g" in letters)

    def naming(letter: str, _: tuple[int, ...]) -> tuple[str, str]:
        if letter == "g":
            return (SIDES[places] if product else "e"), "parallel"
        label = record.labels[int(letter)]
        return label.factor, label.kind

    out = ["g", *(str(i) for i in record.gives[0][1])]
    linear = [i for s, i in twins.side.linear if s == record.signature]
    passes = [(i, kind) for s, i, kind in twins.side.passes if s == record.signature]
    found = twins.side.operator(
        record.signature, operands, [out], naming, linear=linear, passes=passes
    )
    return None if found is None else found[0]
