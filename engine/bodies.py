"""What of a rule's body is known where it calls a relation on demand, and so asks.

All that stands before the call in the rule is: it is what the demand rests on. So the order of a
body says how much is asked. Left out are other calls before it that tell nothing of what is given,
with all that depends on their answers, where the rule itself derives on demand, and calls of the
same relation: they are asked at once, and not one after the other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence

from gg_datalog.foundation.errors import EngineError

from .check import bound_variables
from .program import (
    Atom,
    Clause,
    Comparison,
    Declaration,
    Expr,
    Literal,
    Negation,
    Op,
    Rec,
    Var,
    Wild,
    variables,
)


def asking(
    head: Atom,
    before: Sequence[Literal],
    called: str,
    relations: Mapping[str, Declaration],
    apart: Container[str],
) -> Clause:
    """The rule by which a call asks. What the rule negates is left out: what is asked may depend on
    it, and the call then asks for more than it uses.

    Args:
        head: what is asked, with what the call gives.
        before: what stands before the call in the body.
        called: the relation that is called.
        relations: the relations on demand.
        apart: the relations of which calls before it are left out where they tell nothing of what
            is given.

    Raises:
        EngineError: what is given is not known from what stands before.
    """
    head = _built(head, before)
    missing = sorted(used(head) - _bound(before))
    if missing or any(_has_wild(arg) for arg in head.args):
        raise _unknown(called, relations[called], missing, head)
    body = _independent(_decided(before), used(head), apart)
    return plain(Clause(head, tuple(body), head.pos))


def used(literal: Literal) -> set[str]:
    """The variables of a literal."""
    return set().union(*(variables(expr) for expr in _expressions(literal)))


def _unknown(called: str, relation: Declaration, missing: list[str], head: Atom) -> EngineError:
    columns = [column.name for column in relation.columns[: relation.given]]
    what = missing[0] if missing else "_"
    return EngineError(
        f"{called} is asked here, but nothing before says what {what} is:"
        f" whoever asks gives {', '.join(columns)}",
        str(head.pos),
        "put what it is known from before the call",
    )


def _built(head: Atom, before: Sequence[Literal]) -> Atom:
    """The head with records in place of the variables that stand for them alone."""
    bound = _bound(before)
    values: dict[str, Expr] = {}
    for literal in before:
        if isinstance(literal, Comparison) and literal.op == "=":
            left, right = literal.left, literal.right
            for name, value in ((left, right), (right, left)):
                if isinstance(name, Var) and isinstance(value, Rec) and name.name not in bound:
                    values[name.name] = value
    args = tuple(values.get(a.name, a) if isinstance(a, Var) else a for a in head.args)
    return Atom(head.relation, args, head.pos)


def _bound(literals: Iterable[Literal]) -> set[str]:
    body = tuple(literals)
    if not body:
        return set()
    return bound_variables(Clause(Atom("", (), body[0].pos), body, body[0].pos))


def _decided(before: Sequence[Literal]) -> list[Literal]:
    """The atoms, and the comparisons of which all variables are known."""
    bound = _bound(before)
    positive = [part for part in before if not isinstance(part, Negation)]
    return [part for part in positive if isinstance(part, Atom) or used(part) <= bound]


def _independent(body: list[Literal], needed: set[str], apart: Container[str]) -> list[Literal]:
    """Without calls that tell nothing of what is needed, the last ones first."""
    for call in reversed([part for part in body if isinstance(part, Atom)]):
        if call.relation not in apart:
            continue
        rest, told = _without(body, call)
        if told and needed <= _bound(rest):
            body = rest
    return body


def _without(body: list[Literal], call: Atom) -> tuple[list[Literal], set[str]]:
    """The body without a call and without what depends on its answer, and the variables of that."""
    before = body[: body.index(call)]
    told = used(call) - _bound(before)
    rest = before
    for part in body[len(before) + 1 :]:
        if used(part) & told:
            told |= used(part) - _bound(rest)
        else:
            rest = [*rest, part]
    return rest, told


# ---- the rule as it is written ------------------------------------------------------------------
def plain(clause: Clause) -> Clause:
    """Without values that nothing uses, and `_` for variables that stand there once."""
    body = list(clause.body)
    while True:
        counts = Counter(name for part in (clause.head, *body) for name in _names(part))
        single = {name for name, count in counts.items() if count == 1}
        idle = [part for part in body if _gives_only(part, single)]
        if not idle:
            break
        body = [part for part in body if part not in idle]
    shown = tuple(_anonymous(part, single) for part in body)
    return Clause(clause.head, shown, clause.pos)


def _gives_only(part: Literal, single: set[str]) -> bool:
    """A value for a variable that nothing uses."""
    if not isinstance(part, Comparison) or part.op != "=":
        return False
    sides = ((part.left, part.right), (part.right, part.left))
    return any(
        isinstance(one, Var) and one.name in single and not isinstance(other, Rec)
        for one, other in sides
    )


def _anonymous(part: Literal, single: set[str]) -> Literal:
    if isinstance(part, Negation):
        return part
    if isinstance(part, Comparison):
        left, right = _hidden(part.left, single), _hidden(part.right, single)
        return Comparison(part.op, left, right, part.pos)
    return Atom(part.relation, tuple(_hidden(arg, single) for arg in part.args), part.pos)


def _hidden(expr: Expr, single: set[str]) -> Expr:
    if isinstance(expr, Var):
        return Wild() if expr.name in single else expr
    if isinstance(expr, Rec):
        return Rec(tuple(_hidden(arg, single) for arg in expr.args))
    return expr


def _names(part: Literal) -> list[str]:
    return [name for expr in _expressions(part) for name in _occurring(expr)]


def _occurring(expr: Expr) -> list[str]:
    if isinstance(expr, Var):
        return [expr.name]
    if isinstance(expr, Rec | Op):
        return [name for arg in expr.args for name in _occurring(arg)]
    return []


def _has_wild(expr: Expr) -> bool:
    if isinstance(expr, Rec | Op):
        return any(_has_wild(arg) for arg in expr.args)
    return isinstance(expr, Wild)


def _expressions(literal: Literal) -> tuple[Expr, ...]:
    if isinstance(literal, Comparison):
        return literal.left, literal.right
    return literal.atom.args if isinstance(literal, Negation) else literal.args
