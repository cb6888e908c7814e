"""Demand that is there anyway is not written twice.

A rule that asks is left out where the others ask for the same already, and a rule of a relation on
demand does not look at what is asked where its body says so: a row of such a relation is only there
if it was asked. Both change no relation, and spare a join and a round.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count

from .matching import Values, all_matched, all_put, matched, named, put_in_all, same
from .program import (
    Atom,
    Clause,
    Comparison,
    Declaration,
    Literal,
    Negation,
    Var,
    Wild,
)

DEPTH = 3  # how many rules that ask may follow from each other
LIMIT = 40  # how many facts are looked at


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
        values = all_matched(rule.head.args, atom.args, {})
        source = rule.body[0]
        assert isinstance(source, Atom) and values is not None
        atom = Atom(source.relation, all_put(source.args, values), atom.pos)
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
    facts = [named(literal, numbers) for literal in body]
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
        return [named(request, numbers)]
    asking = rules.get(fact.relation, [])
    values = all_matched(asking[0].head.args, fact.args, {}) if len(asking) == 1 else None
    if values is None:
        return []
    return [put_in_all(named(part, numbers), values, numbers) for part in asking[0].body]


def _proved(
    goal: Atom, facts: list[Literal], rules: Mapping[str, list[Clause]], depth: int
) -> bool:
    if any(same(goal, fact) for fact in facts):
        return True
    if not depth:
        return False
    for rule in rules.get(goal.relation, ()):
        values = all_matched(rule.head.args, goal.args, {})
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
        found = matched(first, fact, values)
        if found is not None and _holds(rest, found, facts, rules, depth):
            return True
    if not isinstance(first, Atom) or first.relation not in rules:
        return False
    goal = Atom(first.relation, all_put(first.args, values), first.pos)
    return _proved(goal, facts, rules, depth) and _holds(rest, values, facts, rules, depth)
