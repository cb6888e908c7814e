"""Writes the rules that ask: a relation on demand has rows only for what is asked of it.

``.decl gcd(a: number, b: number | divisor: number)`` says that whoever reads ``gcd`` gives ``a``
and ``b``. The calls in all bodies then say what ``gcd_want(a, b)`` holds, so that of::

    gcd(a, 0, a).
    gcd(a, b, g) :- divides(a, b, r), gcd(b, r, g).

plain Datalog is made::

    gcd(a, 0, a) :- gcd_want(a, 0).
    gcd(a, b, g) :- gcd_want(a, b), divides(a, b, r), gcd(b, r, g).
    gcd_want(b, r) :- gcd_want(a, b), divides(a, b, r).

What is given has to be known from what stands before in the rule. A call that does not give it is
refused: its answer would just not be there. Soufflé's own magic sets do not serve: they take
programs whose rules are safe without a caller, and ``gcd(a, 0, a).`` is not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from gg_datalog.foundation.errors import EngineError

from .bodies import asking, plain
from .covering import Asked, by_head, looking, shortened, without_copies, without_implied
from .program import Atom, Clause, Comparison, Declaration, Negation, Op, Pos, Program

SUFFIX = "_want"


def want(relation: str) -> str:
    """The relation that holds what is asked of another one."""
    return f"{relation}{SUFFIX}"


def with_demand(program: Program) -> Program:
    """The same relations in plain Datalog: what is asked for is a relation like any other.

    Raises:
        EngineError: a call does not give what it has to, a rule asks by hand, a relation on demand
            is an input or an output, or a name is taken.
    """
    relations = {d.name: d for d in program.declarations.values() if d.given}
    if not relations:
        return program
    _refuse_misuse(program, relations)
    answers = [answering(clause, relations) for clause in program.clauses]
    asked = Asked(relations, want)
    demands = _reduced([r for clause in answers for r in _demands(clause, relations)], asked)
    clauses = [shortened(replace(c, body=looking(c.body, asked)), asked) for c in answers]
    clauses += [plain(shortened(rule, asked)) for rule in demands]
    declared = _declared(program.declarations)
    for name in asked.copies:
        del declared[name]
    return replace(program, declarations=declared, clauses=tuple(clauses))


def _reduced(demands: list[Clause], asked: Asked) -> list[Clause]:
    """The rules that ask, as few as there may be."""
    count = -1
    while count != len(demands):
        count = len(demands)
        demands = without_copies(without_implied(demands, asked), asked)
    asked.by_head = by_head(demands)
    return demands


def _declared(declarations: dict[str, Declaration]) -> dict[str, Declaration]:
    """All of them, and of each one on demand what is asked of it."""
    found: dict[str, Declaration] = {}
    for name, declaration in declarations.items():
        if declaration.given:
            given = declaration.columns[: declaration.given]
            doc = f"What is asked of `{name}`."
            found[want(name)] = Declaration(want(name), given, doc, declaration.pos)
        found[name] = replace(declaration, given=0)
    return found


def answering(clause: Clause, relations: Mapping[str, Declaration]) -> Clause:
    """The rule as it is read: that of a relation on demand derives only what is asked.

    Raises:
        EngineError: what is given is computed in the head.
    """
    relation = relations.get(clause.head.relation)
    if relation is None or not relation.given:
        return clause
    given = clause.head.args[: relation.given]
    if any(isinstance(arg, Op) for arg in given):
        raise EngineError(
            f"{relation.name} is asked with what stands in the head, which is computed here",
            str(clause.pos),
            "give it a name: `..., b) :- ..., b = a + 1`",
        )
    asked = Atom(want(relation.name), given, clause.pos)
    return replace(clause, body=(asked, *clause.body))


def _demands(clause: Clause, relations: dict[str, Declaration]) -> list[Clause]:
    """A rule for each call in the body that asks what the call gives."""
    found = []
    for place, literal in enumerate(clause.body):
        call = literal.atom if isinstance(literal, Negation) else literal
        if isinstance(call, Comparison) or call.relation not in relations:
            continue
        given = call.args[: relations[call.relation].given]
        head = Atom(want(call.relation), given, call.pos)
        apart = relations if clause.head.relation in relations else {call.relation}
        found.append(asking(head, clause.body[:place], call.relation, relations, apart))
    return found


# ---- refusals -----------------------------------------------------------------------------------
def _refuse_misuse(program: Program, relations: dict[str, Declaration]) -> None:
    for name, relation in relations.items():
        taken = program.declarations.get(want(name))
        if taken is not None:
            raise _taken(name, taken.pos)
        if name in program.inputs or name in program.outputs:
            raise EngineError(
                f"{name} is derived on demand, so that it is neither an input nor an output",
                str(relation.pos),
                "let a relation without a bar read it",
            )
    wanted = {want(name): name for name in relations}
    for clause in program.clauses:
        if clause.head.relation in wanted:
            raise _taken(wanted[clause.head.relation], clause.pos)


def _taken(name: str, pos: Pos) -> EngineError:
    return EngineError(
        f"{want(name)} holds what is asked of {name}, which the calls say",
        str(pos),
        "leave it out: every rule that reads a relation asks for it",
    )
