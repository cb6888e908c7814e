"""Which rule application gave a relation: found among the relations that were derived.

The rules derive; here every relation that a step uses or gives is a row of `holds`. What a rule
would conclude from some of them is computed by the checker of certificates, so that a step that is
found is one that it accepts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice, product
from math import prod
from typing import Any

from gg_datalog.proofs.checker import Checker, Coefficient, Part, Statement
from gg_datalog.proofs.positions import Block, Digits, Refused, normal
from gg_datalog.result import terms
from gg_datalog.result.records import Relation

TRIALS = 4096
"""How many combinations of operands are tried for one relation."""


@dataclass(frozen=True)
class Derivation:
    """One application of a rule: what it is applied to, and the statements it uses."""

    rule: str
    by: tuple[Any, ...]
    uses: tuple[tuple[Statement, ...], ...] = ()

    def concluded(self, checker: Checker) -> Statement | None:
        """What follows, if anything."""
        try:
            found: Statement = getattr(checker, self.rule)(self.by, self.uses)
        except (Refused, LookupError, ValueError):
            return None
        return found


def statement(row: Relation) -> Statement:
    """A row of `holds` as the checker says it."""
    num, den, over, under = row.times
    times, parts = Coefficient(Fraction(num, den), over, under), (Part(*x) for x in row.parts)
    return Statement(row.dist, row.seq, times, tuple(parts), _block(row.block))


def _block(block: terms.Block) -> Block:
    seq: dict[int, int] = {}
    dist: dict[int, int] = defaultdict(int)
    runs = []
    for p, entry in enumerate(block):
        seq[p] = 0
        for stride, lo, n, d, dist_stride, dist_lo in entry:
            seq[p] += stride * lo
            if d >= 0:
                dist[d] += dist_stride * dist_lo
                runs.append((p, stride, n, d, dist_stride))
    return normal(seq, dist, runs)


def elements(x: Statement) -> int:
    """How many pairs of positions a statement speaks of."""
    return prod(run.n for run in x.block.runs)


class Derivations:
    """Finds the rule applications behind the rows of `holds`."""

    def __init__(self, facts: Checker, rows: Iterable[Relation]) -> None:
        self.facts = facts
        self._rows: dict[tuple[str, str], list[Relation]] = defaultdict(list)
        for row in rows:
            self._rows[row.dist, row.seq].append(row)
        self._between: dict[tuple[str, str], list[Statement]] = {}
        self._row: dict[int, Relation] = {}
        self._givers = _givers(facts)

    def between(self, dist: str, seq: str) -> list[Statement]:
        """What was derived between two base tensors."""
        pair = dist, seq
        if pair not in self._between:
            found: list[Statement] = []
            for row in self._rows.get(pair, ()):
                x = statement(row)
                if x not in found:
                    found.append(x)
                    self._row[id(x)] = row
            self._between[pair] = found
        return self._between[pair]

    def row(self, x: Statement) -> Relation:
        """The row of `holds` that a statement, which :meth:`between` gave, is read from."""
        return self._row[id(x)]

    def about(self, tensor: str) -> list[Statement]:
        """Everything that was derived about a base tensor of either side."""
        pairs = [pair for pair in self._rows if tensor in pair]
        return [found for pair in pairs for found in self.between(*pair)]

    def of(self, wanted: Statement) -> Iterator[Derivation]:
        """The rule applications that give a statement; none that uses the statement itself."""
        for find in FINDERS:
            for found in islice(find(self, wanted), TRIALS):
                used = any(x == wanted for group in found.uses for x in group)
                if not used and found.concluded(self.facts) == wanted:
                    yield found

    def givers(self, relation: str, tensor: str) -> list[Any]:
        """The rows of a relation whose result is this tensor."""
        return self._givers[relation].get(tensor, [])


GIVES = {
    **{"result_of": 2, "related_input": 1, "dist_sum": 3, "seq_sum": 3, "seq_slice": 6},
    **{"dist_slice": 6, "seq_concat": 2, "dist_concat": 2, "dist_lookup": 5, "seq_lookup": 5},
    **{"dist_onehot": 4, "seq_onehot": 4},
}


def _givers(facts: Checker) -> dict[str, dict[str, list[Any]]]:
    found: dict[str, dict[str, list[Any]]] = {}
    for relation, column in GIVES.items():
        index = found[relation] = defaultdict(list)
        for row in facts.rows.get(relation, ()):
            index[row[column]].append(row)
    return found


# ---- one finder for each rule ----------------------------------------------------------------
def _inputs(known: Derivations, wanted: Statement) -> Iterator[Derivation]:
    for row, _, seq in known.givers("related_input", wanted.dist):
        if seq == wanted.seq:
            yield Derivation("related_input", (row,))


def _counting(known: Derivations, wanted: Statement) -> Iterator[Derivation]:
    if known.facts.all("dist_counting", wanted.dist) and known.facts.all(
        "seq_counting", wanted.seq
    ):
        yield Derivation("counted_range", (wanted.dist, wanted.seq))


def _operators(known: Derivations, wanted: Statement) -> Iterator[Derivation]:
    facts = known.facts
    for o, place, _ in known.givers("result_of", wanted.dist):
        for s, other, _ in known.givers("result_of", wanted.seq):
            mine, theirs = facts.all("dist_operator", o), facts.all("seq_operator", s)
            if place != other or not mine or not theirs or mine[0][0] != theirs[0][0]:
                continue
            pairs = zip(facts.all("operand_of", o), facts.all("operand_of", s), strict=False)
            operands = [_groups(known.between(a[1], b[1])) for a, b in pairs]
            for at, found in enumerate(operands):  # masks that compare positions need nothing
                if facts.all("operand_half", o, at) and facts.all("operand_half", s, at):
                    found.append(())
            for uses in product(*operands):
                yield Derivation("operator_holds", (o, s, place), uses)


def _groups(found: Sequence[Statement]) -> list[tuple[Statement, ...]]:
    """Each statement alone, then those that continue each other, or may do so on labels."""
    alike: dict[Any, list[Statement]] = defaultdict(list)
    for x in found:
        alike[x.times, x.parts].append(x)
    groups: list[tuple[Statement, ...]] = [(x,) for x in found]
    for same in alike.values():
        row = sorted(same, key=lambda x: [*x.block.seq.values()])
        chains: list[tuple[tuple[Statement, ...], Block]] = [((x,), x.block) for x in row]
        for pieces, block in chains:  # grows while it is walked
            for x in row[row.index(pieces[-1]) + 1 :]:
                whole = _continued(block, x.block)
                if whole is not None and len(chains) < TRIALS:
                    chains.append(((*pieces, x), whole))
        groups += [pieces for pieces, _ in chains[len(row) :]]
        groups += [tuple(row)] if len(row) > 1 else []
    return groups


def _continued(a: Block, b: Block) -> Block | None:
    try:
        return a.joined(b)
    except (Refused, LookupError, ValueError):
        return None


def _bare(known: Derivations, wanted: Statement) -> Iterator[Derivation]:
    for side, tensor in (("seq", wanted.seq), ("dist", wanted.dist)):
        for by, _, _ in known.givers("result_of", tensor):
            if known.facts.all("hidden_by", by):
                of = known.facts.one("operand_of", by, 0)[0]
                pair = (wanted.dist, of) if side == "seq" else (of, wanted.seq)
                for x in known.between(*pair):
                    yield Derivation(f"{side}_bare", (by,), ((x,),))


def _closings(known: Derivations, wanted: Statement) -> Iterator[Derivation]:
    for s, _, _ in known.givers("result_of", wanted.seq):
        for _, f in known.facts.all("seq_operator", s):
            if known.facts.all("label_fades", f):
                for x in known.between(wanted.dist, wanted.seq):
                    yield Derivation("part_closes", (s,), ((x,),))


def _alone(known: Derivations, wanted: Statement) -> Iterator[Derivation]:
    for s, _, _ in known.givers("result_of", wanted.seq):
        for signed, _ in known.facts.all("seq_operator", s):
            plain = ("plain_sum", "plain_extremum")
            if any(known.facts.all(relation, signed) for relation in plain):
                _, operand, _ = known.facts.all("operand_of", s)[0]
                for x in known.between(wanted.dist, operand):
                    yield Derivation("alone_holds", (None, s, 0), ((x,),))


def _sums(known: Derivations, wanted: Statement) -> Iterator[Derivation]:
    facts = known.facts
    for o, kind, total, _ in known.givers("dist_sum", wanted.dist):
        aims = [(s, False) for s, same, _, _ in known.givers("seq_sum", wanted.seq) if same == kind]
        for aim, whole in [*aims, (wanted.seq, True)]:
            terms = [(0, aim, "1", facts.one("seq_tensor", aim)[0])] if whole else []
            terms = terms or sorted(facts.all("term_of", aim))
            mine = sorted(facts.all("term_of", o))
            options = [_counted(known, wanted, term, terms) for term in mine]
            if len(mine) == total and all(options):
                for chosen in _fitting(options):
                    uses, at, exchanged = zip(*chosen, strict=True)
                    yield Derivation("sum_holds", (o, aim, whole, at, exchanged), uses)


Option = tuple[tuple[Statement], int, bool]


def _counted(known: Derivations, wanted: Statement, term: Any, terms: Any) -> list[Option]:
    """The ways in which a term may count: what it holds, of which sequential term."""
    found: list[Option] = []
    _, tensor, _, g = term
    dist = known.facts.shape(g)
    for j, of, _, f in terms:
        seq = known.facts.shape(f)
        for x in known.between(tensor, of):
            try:
                half = x.block.unfolded(seq.digits[0]).turned()
                view = half.unfolded(dist.digits[0]).turned()
            except Refused:
                continue
            if _lies(view, seq.results[0], wanted.block) and _lies(
                view.turned(), dist.results[0], wanted.block.turned()
            ):
                swaps = [False, True] if len(x.parts) > 1 else [False]
                found += [((x,), j, swap) for swap in swaps]
    return found


def _lies(view: Block, labels: Sequence[int], block: Block) -> bool:
    """Does the sequential side of what is seen on labels lie where that of the result lies?"""
    for dim, label in enumerate(labels):
        if label in view.seq:
            mine = {(run.step, run.n) for run in view.runs if run.seq == label}
            theirs = {(run.step, run.n) for run in block.runs if run.seq == dim}
            if view.seq[label] != block.seq[dim] or mine != theirs:
                return False
    return True


def _fitting(options: Sequence[Sequence[Option]]) -> Iterator[list[Option]]:
    """Choices in which no range overlaps another one in part; the last term varies first."""
    stack: list[tuple[list[Option], dict[int, Any]]] = [([], {})]
    while stack:
        chosen, tally = stack.pop()
        if len(chosen) == len(options):
            yield chosen
            continue
        for option in reversed(options[len(chosen)]):
            counted = _with(tally, option)
            if counted is not None:
                stack.append(([*chosen, option], counted))


def _with(tally: dict[int, Any], option: Option) -> dict[int, Any] | None:
    (x,), j, exchanged = option
    parts = x.parts
    if exchanged:
        parts = (parts[1], parts[0], *parts[2:])
    axis, _, lo, n, extent = parts[0] if parts else (None, "", 0, 1, 1)
    key = axis, extent, parts[1:]
    known, spans = tally.get(j, (key, ()))
    apart = all((a, m) == (lo, n) or a + m <= lo or lo + n <= a for a, m in spans)
    return {**tally, j: (key, (*spans, (lo, n)))} if apart and known == key else None


def _seq_slices(known: Derivations, wanted: Statement) -> Iterator[Derivation]:
    for s, of, *_ in known.givers("seq_slice", wanted.seq):
        for x in known.between(wanted.dist, of):
            yield Derivation("seq_slice_holds", (s,), ((x,),))


def _dist_slices(known: Derivations, wanted: Statement) -> Iterator[Derivation]:
    for o, of, *_ in known.givers("dist_slice", wanted.dist):
        for x in known.between(of, wanted.seq):
            yield Derivation("dist_slice_holds", (o,), ((x,),))


def _seq_members(known: Derivations, wanted: Statement) -> Iterator[Derivation]:
    for s, _, _ in known.givers("seq_concat", wanted.seq):
        for place, of, *_ in known.facts.all("seq_member", s):
            for x in known.between(wanted.dist, of):
                yield Derivation("seq_member_holds", (s, place), ((x,),))


def _dist_concats(known: Derivations, wanted: Statement) -> Iterator[Derivation]:
    for o, _, _, local in known.givers("dist_concat", wanted.dist):
        members = sorted(known.facts.all("dist_member", o))
        options = [known.between(of, wanted.seq) for _, of, *_ in members]
        for uses in product(*options):
            yield Derivation("dist_concat_holds", (o, 0), tuple((x,) for x in uses))
        for place, found in enumerate(options if local else ()):
            for x in found:
                yield Derivation("dist_concat_holds", (o, place), ((x,),))


def _lookups(known: Derivations, wanted: Statement) -> Iterator[Derivation]:
    for o, table, *_ in known.givers("dist_lookup", wanted.dist):
        for s, whole, _, f, label, _ in known.givers("seq_lookup", wanted.seq):
            digits = known.facts.shape(f).digits[0]
            for rows, ids in product(known.between(table, whole), _ids(known, o, s)):
                lo = _position(rows.block, digits, label)
                yield Derivation("lookup_holds", (o, s, lo), ((rows,), (ids,)))


def _position(block: Block, digits: Sequence[Digits], label: int) -> int:
    """Where the sequential side of a block begins along a label."""
    try:
        return block.unfolded(digits).seq.get(label, 0)
    except (Refused, ValueError):
        return 0


def _onehots(known: Derivations, wanted: Statement) -> Iterator[Derivation]:
    for o, *_ in known.givers("dist_onehot", wanted.dist):
        for s, _, f, label, _ in known.givers("seq_onehot", wanted.seq):
            dim = known.facts.shape(f).results[0].index(label)
            for ids in _ids(known, o, s):
                yield Derivation("onehot_holds", (o, s, wanted.block.seq[dim]), ((ids,),))


def _ids(known: Derivations, o: str, s: str) -> list[Statement]:
    """What was derived between the integer tensors that two lookups go back to."""
    mine, theirs = (_read(known.facts, side, by) for side, by in (("dist", o), ("seq", s)))
    return [x for a in mine for b in theirs for x in known.between(a, b)]


INTEGER = {
    **{"integer_test": (0,), "integer_pair": (1, 2), "integer_not": (0,)},
    **{"integer_same": (0,), "integer_fill": (0, 1), "integer_clamp": (0,), "integer_term": (1,)},
}


def _read(facts: Checker, side: str, by: str) -> list[str]:
    """The integer tensors that a lookup reads, its ids first."""
    ids = [row[1] for row in facts.all(f"{side}_lookup", by)]
    ids += [row[0] for row in facts.all(f"{side}_onehot", by)]
    todo, found = [*ids, *(mask for (mask,) in facts.all("lookup_masked", by))], []
    while todo:
        tensor = todo.pop(0)
        if tensor not in found:
            found.append(tensor)
            for relation, columns in INTEGER.items():
                todo += [row[at] for row in facts.all(relation, tensor) for at in columns]
    return found


Finder = Callable[[Derivations, Statement], Iterator[Derivation]]
FINDERS: tuple[Finder, ...] = (
    *(_inputs, _counting, _operators, _bare, _closings, _alone, _sums, _seq_slices, _dist_slices),
    *(_seq_members, _dist_concats, _lookups, _onehots),
)
