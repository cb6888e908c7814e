"""Demand that is there anyway is not written twice.

A rule that asks is left out where the others ask for the same already, and a rule of a relation on
demand does not look at what is asked where its body says so: a row of such a relation is only there
if it was asked. Both change no relation, and spare a join and a round.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count

from .bodies import used
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
    Sym,
    Var,
    Wild,
)

DEPTH = 3  # how many rules that ask may follow from each other
LIMIT = 40  # how many facts are looked at

Values = dict[str, Expr]


@dataclass(slots=True)
class Asked:
    """The relations on demand, the name of what is asked of one, and the rules that ask."""

    relations: Mapping[str, Declaration]
    want: Callable[[str], str]
    by_head: Mapping[str, list[Clause]] = field(default_factory=dict)
    copies: dict[str, Clause] = field(default_factory=dict)

    def of(self, row: Atom) -> Atom | None:
        """What was asked for a row of a relation on demand to be there."""
        relation = self.relations.get(row.relation)
        if relation is None:
            return None
        return original(Atom(self.want(row.relation), row.args[: relation.given], row.pos), self)


def without_implied(rules: Iterable[Clause], asked: Asked) -> list[Clause]:
    """The rules without those of which the others ask the same."""
    distinct = {(rule.head.relation, *_shape(rule)): rule for rule in rules}
    kept = by_head(distinct.values())
    longest = list(distinct.values())
    longest.reverse()  # of two that ask the same the first one stays
    longest.sort(key=lambda rule: -len(rule.body))
    for rule in longest:
        alike = kept[rule.head.relation]
        kept[rule.head.relation] = [other for other in alike if other is not rule]
        if not _follows(rule.head, rule.body, kept, asked):
            kept[rule.head.relation] = alike
    return [rule for alike in kept.values() for rule in alike]


def shortened(clause: Clause, asked: Asked) -> Clause:
    """The clause without looking at what is asked, where the rest of its body says it."""
    first = clause.body[0] if clause.body else None
    if not isinstance(first, Atom) or first.relation not in asked.by_head:
        return clause
    rest = clause.body[1:]
    return replace(clause, body=rest) if _follows(first, rest, asked.by_head, asked) else clause


def without_copies(rules: Sequence[Clause], asked: Asked) -> list[Clause]:
    """The rules without those by which a relation asks for just what is asked of another one: this
    is looked at instead."""
    while (copy := _copy(rules)) is not None:
        asked.copies[copy.head.relation] = copy
        others = [_looking(rule, asked) for rule in rules if rule is not copy]
        rules = [rule for rule in others if rule.body != (rule.head,)]
    return list(rules)


def _copy(rules: Sequence[Clause]) -> Clause | None:
    found = by_head(rules)
    single = (asking[0] for asking in found.values() if len(asking) == 1)
    return next((rule for rule in single if _copies(rule, found)), None)


def _copies(rule: Clause, rules: Mapping[str, list[Clause]]) -> bool:
    source = rule.body[0] if len(rule.body) == 1 else None
    names = [arg.name for arg in rule.head.args if isinstance(arg, Var)]
    return (
        isinstance(source, Atom)
        and source.relation in rules
        and source.relation != rule.head.relation
        and len(set(names)) == len(rule.head.args)
        and all(isinstance(arg, Var | Wild) for arg in source.args)
    )


def original(atom: Atom, asked: Asked) -> Atom:
    """The atom, or the one that a copy is of."""
    while atom.relation in asked.copies:
        rule = asked.copies[atom.relation]
        values = _all_matched(rule.head.args, atom.args, {})
        source = rule.body[0]
        assert isinstance(source, Atom) and values is not None
        atom = Atom(source.relation, _all_put(source.args, values), atom.pos)
    return atom


def _looking(clause: Clause, asked: Asked) -> Clause:
    return replace(clause, body=looking(clause.body, asked))


def looking(body: Iterable[Literal], asked: Asked) -> tuple[Literal, ...]:
    """A body that looks at what copies are of."""
    return tuple(original(part, asked) if isinstance(part, Atom) else part for part in body)


def _shape(rule: Clause) -> tuple[object, ...]:
    """The same for rules that are told apart only by where they stand."""
    parts: list[object] = [rule.head.args]
    for part in rule.body:
        if isinstance(part, Comparison):
            parts.append((part.op, part.left, part.right))
        else:
            atom = part.atom if isinstance(part, Negation) else part
            parts.append((isinstance(part, Negation), atom.relation, atom.args))
    return tuple(parts)


def by_head(rules: Iterable[Clause]) -> dict[str, list[Clause]]:
    """The rules by the relation that they derive."""
    found: dict[str, list[Clause]] = {}
    for rule in rules:
        found.setdefault(rule.head.relation, []).append(rule)
    return found


def _follows(
    goal: Atom, body: Sequence[Literal], rules: Mapping[str, list[Clause]], asked: Asked
) -> bool:
    """Whether what is asked in ``goal`` is asked wherever the body holds, by these rules alone."""
    numbers = count()
    facts = [_named(literal, numbers) for literal in body]
    for fact in facts:
        known = _behind(fact, rules, asked, numbers)
        facts += [one for one in known if one not in facts and len(facts) < LIMIT]
    return _proved(goal, facts, rules, DEPTH)


def _behind(
    fact: Literal, rules: Mapping[str, list[Clause]], asked: Asked, numbers: Iterator[int]
) -> list[Literal]:
    """What holds since a row is there: that it was asked, and why, where one rule alone asks."""
    if not isinstance(fact, Atom):
        return []
    request = asked.of(fact)
    if request is not None:
        return [_named(request, numbers)]
    asking = rules.get(fact.relation, [])
    values = _all_matched(asking[0].head.args, fact.args, {}) if len(asking) == 1 else None
    if values is None:
        return []
    return [_put_in_all(_named(part, numbers), values, numbers) for part in asking[0].body]


def _proved(
    goal: Atom, facts: list[Literal], rules: Mapping[str, list[Clause]], depth: int
) -> bool:
    if any(_same(goal, fact) for fact in facts):
        return True
    if not depth:
        return False
    for rule in rules.get(goal.relation, ()):
        values = _all_matched(rule.head.args, goal.args, {})
        if values is not None and _holds(rule.body, values, facts, rules, depth - 1):
            return True
    return False


def _holds(
    body: Sequence[Literal],
    values: Values,
    facts: list[Literal],
    rules: Mapping[str, list[Clause]],
    depth: int,
) -> bool:
    """Whether the facts have all literals of a body, or what is asked follows from them."""
    if not body:
        return True
    first, rest = body[0], body[1:]
    for fact in facts:
        found = _matched(first, fact, values)
        if found is not None and _holds(rest, found, facts, rules, depth):
            return True
    if not isinstance(first, Atom) or first.relation not in rules:
        return False
    goal = Atom(first.relation, _all_put(first.args, values), first.pos)
    return _proved(goal, facts, rules, depth) and _holds(rest, values, facts, rules, depth)


def _matched(pattern: Literal, fact: Literal, values: Values) -> Values | None:
    if isinstance(pattern, Comparison):
        if not isinstance(fact, Comparison) or pattern.op != fact.op:
            return None
        return _all_matched((pattern.left, pattern.right), (fact.left, fact.right), values)
    if isinstance(pattern, Negation) and isinstance(fact, Negation):
        # Of `_` all rows are meant there: it is matched as it is.
        pattern, fact = _strict(pattern.atom), _strict(fact.atom)
    if isinstance(pattern, Negation):
        return None
    if not isinstance(fact, Atom) or pattern.relation != fact.relation:
        return None
    return _all_matched(pattern.args, fact.args, values)


def _all_matched(patterns: Sequence[Expr], found: Sequence[Expr], values: Values) -> Values | None:
    current: Values | None = values
    for pattern, expr in zip(patterns, found, strict=True):
        current = None if current is None else _one_matched(pattern, expr, current)
    return current


def _one_matched(pattern: Expr, found: Expr, values: Values) -> Values | None:
    if isinstance(pattern, Wild):
        return values
    if isinstance(pattern, Var):
        known = values.get(pattern.name)
        if known is None:
            return {**values, pattern.name: found}
        return values if known == found else None
    if isinstance(pattern, Rec) and isinstance(found, Rec):
        if len(pattern.args) != len(found.args):
            return None
        return _all_matched(pattern.args, found.args, values)
    if isinstance(pattern, Op) and isinstance(found, Op) and pattern.op == found.op:
        if len(pattern.args) == len(found.args):
            return _all_matched(pattern.args, found.args, values)
        return None
    return values if pattern == found else None


# ---- what stands for what -----------------------------------------------------------------------
def _same(goal: Atom, fact: Literal) -> bool:
    return isinstance(fact, Atom) and (goal.relation, goal.args) == (fact.relation, fact.args)


def _named(literal: Literal, numbers: Iterator[int]) -> Literal:
    """The literal as a fact: each `_` is some value of its own."""
    if isinstance(literal, Negation):
        return literal
    if isinstance(literal, Comparison):
        left, right = (_some(side, numbers) for side in (literal.left, literal.right))
        return Comparison(literal.op, left, right, literal.pos)
    return Atom(literal.relation, tuple(_some(a, numbers) for a in literal.args), literal.pos)


def _some(expr: Expr, numbers: Iterator[int]) -> Expr:
    if isinstance(expr, Wild):
        return Var(f"{next(numbers)}")
    if isinstance(expr, Rec):
        return Rec(tuple(_some(arg, numbers) for arg in expr.args))
    return expr


def _put_in_all(literal: Literal, values: Values, numbers: Iterator[int]) -> Literal:
    """The literal of a rule with what is known; a variable that is not known becomes some value."""
    for name in sorted(used(literal) - values.keys()):
        values[name] = Var(f"{next(numbers)}")
    if isinstance(literal, Negation):
        atom = literal.atom
        return Negation(Atom(atom.relation, _all_put(atom.args, values), atom.pos))
    if isinstance(literal, Comparison):
        left, right = _all_put((literal.left, literal.right), values)
        return Comparison(literal.op, left, right, literal.pos)
    return Atom(literal.relation, _all_put(literal.args, values), literal.pos)


def _all_put(args: Sequence[Expr], values: Values) -> tuple[Expr, ...]:
    return tuple(_put_in(arg, values) for arg in args)


def _strict(atom: Atom) -> Atom:
    args = tuple(Sym("_") if isinstance(arg, Wild) else arg for arg in atom.args)
    return Atom(f"!{atom.relation}", args, atom.pos)


def _put_in(expr: Expr, values: Values) -> Expr:
    """The pattern with what is known of it; what is not stays a name of its own."""
    if isinstance(expr, Var):
        return values.get(expr.name, Wild())
    if isinstance(expr, Rec):
        return Rec(_all_put(expr.args, values))
    if isinstance(expr, Op):
        return Op(expr.op, _all_put(expr.args, values))
    return expr
