"""Derived relations, and what nodes were lowered to, against the numbers that torch computed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import torch

from gg_datalog.extract.records import Operator
from gg_datalog.extract.view import Base, View
from gg_datalog.replay.derived import limits, positions
from gg_datalog.replay.documents import nodes_of
from gg_datalog.replay.evaluate import EVERYTHING, JOIN, Evaluator, NotEvaluated, based, viewed
from gg_datalog.result.terms import read_block, read_coefficient, read_parts

from .combos import Combo, Draw
from .deriving import Derived
from .rounding import Rounding, plain

from ..numeric.lowered import operand_orders  # isort: skip

Tensor = torch.Tensor
FAILURES = (ArithmeticError, AttributeError, LookupError, RuntimeError, StopIteration, TypeError,
            ValueError)  # fmt: skip


@dataclass
class Found:
    """What came out of a combination."""

    relations: int = 0
    wrong: list[str] = field(default_factory=list)
    skipped: int = 0


@dataclass(repr=False)
class Checker:
    """One draw of a combination, and what is derived of it."""

    combo: Combo
    derived: Derived
    draw: Draw

    def __post_init__(self) -> None:
        extracted = self.derived.extracted
        assert extracted is not None
        orders, docs = operand_orders(extracted), self.combo.documents
        graphs = {"seq": {0: docs.seq}, "dist": docs.dist}
        self.sides: dict[str, Evaluator] = {}
        self.kinds: dict[
            int, str
        ] = {}  # element types as they were, by the id of what stands for it
        self.types: dict[str, dict[Base, str]] = {}
        for name, world in extracted.worlds.items():
            nodes = {
                r: {k: self._plain(v) for k, v in env.items()}
                for r, env in enumerate(self.draw.values[name])
            }
            side = Evaluator(
                extracted.side(name), world.contexts, {r: nodes_of(g) for r, g in graphs[name].items()}, nodes, orders
            )  # fmt: skip
            for rank, ctx in world.contexts.items():
                for node, view in ctx.sources.items():
                    side._note(view, plain(self.draw.given[name][rank][node]))
            self.sides[name] = side
            self.types[name] = _types(side)
        self.bases = {n: {b.name: b for b in s.side.bases} for n, s in self.sides.items()}
        self.rounding = Rounding.of(self.combo, self.draw)

    def _plain(self, value: Any) -> Any:
        if isinstance(value, (tuple, list)):
            return tuple(map(self._plain, value))
        made = plain(value)
        self.kinds[id(made)] = str(getattr(value, "dtype", "")).removeprefix("torch.")
        return made

    # ---- what is compared
    def found(self) -> Found:
        """Nodes against what they were lowered to, and every relation."""
        before = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)
        try:
            return self._found()
        finally:
            torch.set_default_dtype(before)

    def _found(self) -> Found:
        found = Found()
        for name, side in self.sides.items():
            for node, view, value in side.others():
                self._one(
                    found,
                    f"lowering of {name} {node}",
                    lambda s=side, v=view, x=value: self._node(s, v, x),
                )
        for row in self.derived.holds:
            found.relations += 1
            self._one(found, f"{row['dist']} of {row['seq']}", lambda r=row: self._relation(r))
        for row in self.derived.returned:
            found.relations += 1
            self._one(
                found,
                f"output {row['wants']} on rank {row['rank']}",
                lambda r=row: self._returned(r),
            )
        for wants in sorted(self.derived.mapped):
            self._one(found, f"verdict of output {wants}", lambda w=wants: self._verdict(w))
        return found

    @staticmethod
    def _one(found: Found, what: str, check: Any) -> None:
        try:
            problem = check()
        except (NotEvaluated, *FAILURES):
            found.skipped += 1
            return
        if problem:
            found.wrong.append(f"{what}: {problem}")

    def _node(self, side: Evaluator, view: View, value: Tensor) -> str | None:
        base = self._value(side, view.base)
        whole = view.scale.integer if not base.is_floating_point() else None
        seen = (
            viewed(View(view.base, view.dims), base) * whole
            if whole is not None
            else viewed(view, base)
        )
        kind = self.kinds.get(id(value), "")
        if seen.is_floating_point() and bool((seen.isnan() & value.isfinite()).any()):
            raise NotEvaluated("0 times what is infinite, where torch does not multiply")
        return self.rounding.differs(value, seen, (kind, kind))

    def _relation(self, row: Mapping[str, Any]) -> str | None:
        ours, theirs = self.bases["seq"][row["seq"]], self.bases["dist"][row["dist"]]
        seq, dist = (
            self._value(self.sides["seq"], ours, _open(row)),
            self._value(self.sides["dist"], theirs),
        )
        return self._pieces(row, seq, dist, self._of(ours, theirs))

    @staticmethod
    def _value(side: Evaluator, base: Base, open_: Any = EVERYTHING) -> Tensor:
        """The value of a base; none of what an operator without operands made and no node shows."""
        made = base.made
        if isinstance(made, Operator) and base not in side._of_node:
            told = made.signature.startswith("constant") or made.operands
            if not told or made.signature.startswith("cast"):
                raise NotEvaluated(made.signature)
        return side.value(base, open_)

    def _of(self, ours: Base, theirs: Base) -> tuple[str, str]:
        return self.types["seq"].get(ours, ""), self.types["dist"].get(theirs, "")

    def _pieces(
        self,
        row: Mapping[str, Any],
        seq: Tensor,
        dist: Tensor,
        types: tuple[str, str],
        shown: tuple[Tensor, Tensor] | None = None,
    ) -> str | None:
        """``shown`` says which elements of either side are known."""
        at, there = positions(read_block(row["block"]), tuple(seq.shape), tuple(dist.shape))
        whole, piece = (x[i] if i else x for x, i in ((seq, at), (dist, there)))
        if shown is not None:
            both = shown[0][at] & shown[1][there] if at else shown[0] & shown[1]
            whole, piece = (x.expand(both.shape)[both] for x in (whole, piece))
        num, den = _ratio(row["times"])
        if den is None or seq.is_floating_point() or dist.is_floating_point():
            return self.rounding.differs(
                piece, whole * float(read_coefficient(row["times"]).value), types
            )
        return self.rounding.differs(piece * den, whole * num, types)

    def _shown(self, side: str, rank: int, node: str) -> tuple[Tensor, View]:
        """What a node shows of its base, with the node's own numbers."""
        view = self.sides[side].contexts[rank].values.get(node)
        value = self.sides[side].nodes[rank].get(node)
        if (
            not isinstance(view, View)
            or not isinstance(value, Tensor)
            or value.shape != torch.Size(view.shape)
        ):
            raise NotEvaluated(node)
        return based(view, value)[0], view

    def _ends(self, row: Mapping[str, Any]) -> tuple[str, str]:
        ours, theirs = self.combo.outputs[row["wants"]]
        return ours, theirs

    def _returned(self, row: Mapping[str, Any]) -> str | None:
        """A relation of what a rank returns: numbers of the nodes, whatever they were lowered to."""
        ours, theirs = self._ends(row)
        dist, view = self._shown("dist", row["rank"], theirs)
        seq, wanted = self._shown("seq", 0, ours)
        if row["parts"] != "nil":
            part = self._value(self.sides["seq"], wanted.base, _open(row))
            whole = wanted.scale.integer if not part.is_floating_point() else None
            seq = part * (whole if whole is not None else _number(wanted))
        return self._pieces(
            row, seq, dist, self._of(wanted.base, view.base), (_seen(wanted), _seen(view))
        )

    def _verdict(self, wants: int) -> str | None:
        """A mapped output is rebuilt: its elements, and those that ranks return, are accounted for."""
        rows = [
            r
            for r in self.derived.returned
            if r["wants"] == wants and read_coefficient(r["times"]).value == 1
        ]
        ours, theirs = self.combo.outputs[wants]
        seq, wanted = self._shown("seq", 0, ours)
        covered = ~_seen(wanted)
        parts: dict[Any, tuple[Any, list[Tensor]]] = {}
        for rank in range(self.combo.wanted.ranks):
            dist, view = self._shown("dist", rank, theirs)
            mine = ~_seen(view)
            for row in (r for r in rows if r["rank"] == rank):
                at, there = positions(read_block(row["block"]), tuple(seq.shape), tuple(dist.shape))
                covered[at], mine[there] = True, True
                if row["parts"] != "nil":
                    along, kind, *_ = read_parts(row["parts"])[0]
                    key = along, kind, row["block"]
                    parts.setdefault(key, (at, []))[1].append(dist[there])
            if not bool(mine.all()):
                return f"not all of rank {rank} is accounted for"
        if not bool(covered.all()):
            return "not all of it is covered"
        return (
            self._added(ours, parts)
            if self.combo.wanted.open
            else "parts are taken for all"
            if parts
            else None
        )

    def _added(self, ours: str, parts: Mapping[Any, tuple[Any, list[Tensor]]]) -> str | None:
        """What the ranks hold parts of, added up."""
        seq, wanted = self._shown("seq", 0, ours)
        kind = self.types["seq"].get(wanted.base, "")
        for key, (at, pieces) in parts.items():
            total = pieces[0]
            for one in pieces[1:]:
                total = JOIN[key[1]](total, one)
            if (problem := self.rounding.differs(total, seq[at], (kind, kind))) is not None:
                return f"its parts: {problem}"
        return None


def _types(side: Evaluator) -> dict[Base, str]:
    """The element type of bases: of a node that shows one."""
    found: dict[Base, str] = {}
    for rank, ctx in side.contexts.items():
        for name, value in (*ctx.sources.items(), *ctx.values.items()):
            for view in value if isinstance(value, tuple) else (value,):
                kind = side.graphs[rank][name].get("dtype")
                if isinstance(view, View) and kind:
                    found.setdefault(view.base, kind)
    for base in side.side.bases:  # of those that no node shows as they are
        kind = side.graphs.get(base.rank, {}).get(base.node, {}).get("dtype")
        if kind:
            found.setdefault(base, kind)
    return found


def _open(row: Mapping[str, Any]) -> Any:
    return limits(read_parts(row["parts"]))


def _ratio(text: str) -> tuple[int, int | None]:
    """A coefficient as a quotient of integers, where it is one."""
    num, den, over, under = read_coefficient(text)
    return (num, den) if not over and not under else (num, None)


def _number(view: View) -> float:
    value = float(view.scale.ratio)
    for atom, power in view.scale.atoms:
        value *= float(Fraction(atom)) ** power
    return value


def _seen(view: View) -> Tensor:
    return based(View(view.base, view.dims), torch.zeros(view.shape))[1]
