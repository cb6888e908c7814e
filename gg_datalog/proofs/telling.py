"""The trees of explanations: from a relation to what it follows from, and the other way round from
a tensor that cannot be rebuilt to what it would have needed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from gg_datalog.diagnosis.sites.breaks import SENTENCE
from gg_datalog.proofs.certifying import derivations
from gg_datalog.proofs.checker import ONE, Statement
from gg_datalog.proofs.derivations import Derivation, Derivations, elements
from gg_datalog.proofs.explanation import Node
from gg_datalog.proofs.stating import nodes
from gg_datalog.result.records import Records

if TYPE_CHECKING:
    import duckdb

MOST = 8
"""How many relations of one tensor are explained."""
_THERE = """
    SELECT 1 FROM seq_available WHERE "of" = ? UNION SELECT 1 FROM tensor_mapped WHERE tensor = ?"""


class Teller:
    """Trees over one result; each relation is explained where it is met first."""

    def __init__(self, database: duckdb.DuckDBPyConnection, depth: int) -> None:
        self.database = database
        self.depth = depth
        self.known: Derivations = derivations(database)
        self.made, self._texts = nodes(database), Records(database).texts()
        self._told: set[int] = set()
        self._gone: set[tuple[str, str]] = set()

    def afresh(self, depth: int) -> Teller:
        """The same result, of which nothing has been told yet."""
        other = copy(self)
        other.depth, other._told = depth, set()
        return other

    def tensor(self, side: str, base: str, rank: int | None) -> tuple[bool, list[Node]]:
        """Is a base tensor mapped, and why (or why not)?"""
        found = self._statements(side, base, rank)
        complete = [x for x in found if x.times == ONE and not x.parts]
        if side == "dist":
            mapped = bool(complete)
        else:
            mapped = self._any("SELECT 1 FROM tensor_mapped WHERE tensor = ?", base)
        shown = (complete or found) if mapped else []
        if shown or (side == "dist" and found):
            trees = [self.holds(x, self.depth, ()) for x in (shown or found)[:MOST]]
            return mapped, trees
        if mapped:
            text = f"`{self.made[side, base].name}` is a constant, the same on both sides"
            return True, [Node(text, at=[self.made[side, base]])]
        return False, [self.missing(side, base, self.depth, ())]

    def _statements(self, side: str, base: str, rank: int | None) -> list[Statement]:
        found = self.known.about(base)
        found = [x for x in found if (x.seq if side == "seq" else x.dist) == base]
        if rank is not None:
            found = [x for x in found if self.made["dist", x.dist].rank == rank]
        order = {key: place for place, key in enumerate(self.made)}
        alike = {
            id(x): self.made["dist", x.dist].target == self.made["seq", x.seq].target for x in found
        }
        found.sort(
            key=lambda x: (
                x.times != ONE or bool(x.parts),
                -elements(x),
                not alike[id(x)],
                order["dist", x.dist],
            )
        )
        if side == "dist":
            return found
        first: dict[int, Statement] = {}
        for x in found:  # of each rank what holds most of it
            first.setdefault(self.made["dist", x.dist].rank, x)
        return list(first.values())

    def holds(self, x: Statement, depth: int, path: Sequence[Statement]) -> Node:
        """Why a statement holds."""
        at = [self.made["dist", x.dist], self.made["seq", x.seq]]
        node = Node(self._texts[self.known.row(x)], at=at)
        if id(x) in self._told:
            node.state = "above"
            return node
        step = self._step(x, path)
        if step is None:
            return node
        node.rule = step.rule
        premises = list({id(y): y for used in step.uses for y in used}.values())
        if depth <= 0:
            node.more = len(premises)
            return node
        self._told.add(id(x))
        node.premises = [self.holds(y, depth - 1, (*path, x)) for y in premises]
        return node

    def _step(self, x: Statement, path: Sequence[Statement]) -> Derivation | None:
        """A rule application behind a statement, none that goes round in a circle."""
        above = {id(y) for y in path}
        for step in self.known.of(x):
            if not any(id(y) in above for used in step.uses for y in used):
                return step
        return None

    # ---- the other way round: what it would have needed ------------------------------------------
    def missing(self, side: str, base: str, depth: int, path: Sequence[str]) -> Node:
        """Why a tensor cannot be rebuilt (or, of a rank, is related to nothing)."""
        made = self.made[side, base]
        what = "cannot be rebuilt" if side == "seq" else "is related to no sequential tensor"
        inner = any(self.made[side, above].name == made.name for above in path)
        name = (
            f"`{made.name}` ({made.target or 'input'}){', a step inside of it,' if inner else ''}"
        )
        node = Node(f"{name} {what}", "missing", at=[made])
        if (side, base) in self._gone:
            node.state = "above"
            return node
        needs = [need for need in self._needs(side, base) if need not in path]
        if depth <= 0:
            node.more = len(needs)
            return node
        self._gone.add((side, base))
        operands = [self._need(side, need, depth - 1, (*path, base)) for need in needs]
        operands.sort(key=lambda operand: operand.state != "missing")
        node.premises = [*self._near(side, base), *operands]
        return node

    def _need(self, side: str, base: str, depth: int, path: Sequence[str]) -> Node:
        """An operand of what is missing: there (in one line), or missing itself."""
        found = self._statements(side, base, None)
        complete = [x for x in found if x.times == ONE and not x.parts]
        if side == "seq" and not self._any(_THERE, base, base):
            return self.missing(side, base, depth, path)
        if side == "dist" and not found:
            return self.missing(side, base, depth, path)
        made = self.made[side, base]
        if not found:
            return Node(f"`{made.name}` is there: a constant", at=[made])
        if complete:
            return self.holds(complete[0], min(depth, 1), ())
        return self._closest(found[0], min(depth, 1))

    def _needs(self, side: str, base: str) -> list[str]:
        sql = "SELECT DISTINCT needs FROM tensor_needs WHERE side = ? AND tensor = ?"
        asked: list[Any] = [side, base]
        if side == "seq":
            sql, asked = 'SELECT DISTINCT needs FROM seq_needs WHERE "of" = ?', [base]
        rows = self.database.execute(f"{sql} ORDER BY needs", asked).fetchall()
        return [need for (need,) in rows if (side, need) in self.made]

    def _near(self, side: str, base: str) -> Iterator[Node]:
        """What comes closest: what is held of it all the same, and operators that would fit."""
        for x in self._statements(side, base, None)[:MOST]:
            yield self._closest(x, 1)
        column = "seq" if side == "seq" else "dist"
        rows = self.database.execute(
            f"SELECT DISTINCT reason, dist, operand FROM blocked WHERE {column} = ? ORDER BY ALL",
            [base],
        ).fetchall()
        for reason, dist, operand in rows[:MOST]:
            if ("dist", dist) in self.made:
                here = self.made["dist", dist]
                names = self.made.get(("dist", operand))
                text = SENTENCE[reason].format(
                    dist=f"`{here.name}`", operand=f"`{names.name}`" if names else "an operand"
                )
                yield Node(f"closest: {text}", "closest", at=[here])

    def _closest(self, x: Statement, depth: int) -> Node:
        near = self.holds(x, depth, ())
        return replace(near, state="closest", text=f"closest: {near.text}")

    def _any(self, sql: str, *asked: str) -> bool:
        return self.database.execute(f"{sql} LIMIT 1", list(asked)).fetchall() != []
