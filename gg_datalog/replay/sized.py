"""One node of a graph whose sizes may change: its arguments by name, and its dimensions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gg_datalog.extract.graph import HIGHER_ORDER
from gg_datalog.extract.signature import Signature, Unbound
from gg_datalog.replay.atoms import Dim, extent, size, unify
from gg_datalog.replay.calls import binding, kernel_of
from gg_datalog.replay.documents import Json
from gg_datalog.replay.lookups import references

if TYPE_CHECKING:
    from gg_datalog.replay.constraints import GraphSizes

Dims = list[Dim]


@dataclass(repr=False)
class Sized:
    """One node, its arguments by name."""

    at: GraphSizes
    node: Json
    given: Mapping[Any, Any]
    signature: Signature | None

    @staticmethod
    def of(at: GraphSizes, node: Json) -> Sized | None:
        """None where the arguments are not those of the operator."""
        args, kwargs = node.get("args", []), node.get("kwargs") or {}
        if node["target"] in HIGHER_ORDER:
            return Sized(at, node, kwargs, None)
        try:
            found = binding(at.table, kernel_of(node), args, kwargs)
        except Unbound:
            found = None
        if found is None:
            return Sized(at, node, {**dict(enumerate(args)), **kwargs}, None)
        return Sized(at, node, found[1], found[0])

    def place(self, name: Any) -> tuple[Any, Any]:
        """(holder, key) of an argument that the graph gives."""
        if name in (self.node.get("kwargs") or {}):
            return self.node["kwargs"], name
        if isinstance(name, int) or self.signature is None:
            return self.node["args"], name
        places = [p.name for p in self.signature.parameters if not p.keyword]
        return self.node["args"], places.index(name)

    def is_given(self, name: Any) -> bool:
        """Does the graph give the argument?"""
        holder, key = self.place(name)
        return key in holder if isinstance(holder, dict) else key < len(holder)

    def key(self, which: Any) -> Any:
        """The name of an argument that a table tells by its position."""
        if isinstance(which, int) and self.signature is not None:
            return self.signature.parameters[which].name
        return which

    def operand(self, name: str) -> Dims:
        """The dimensions of a tensor argument."""
        found = self.at.dims[self.given[name]["node"]]
        if not isinstance(found, list):
            raise ValueError("not one tensor")
        return found

    @property
    def result(self) -> Dims:
        """The dimensions of the result."""
        found = self.at.dims[self.node["name"]]
        if not isinstance(found, list):
            raise ValueError("not one tensor")
        return found

    # ---- what lowering does not tell
    def line_up(self) -> None:
        """What a result shares with an operand of its shape where the lowering dropped one of them:
        repetitions, memory that is written, a constant that changes nothing."""
        assert self.at.lowered is not None
        made = self.at.dims[self.node["name"]]
        open_, names = self.at.lowered.open, references(list(self.given.values()))
        operands = {n: d for n in names if isinstance(d := self.at.dims.get(n), list)}
        written = self._written()
        for place, one in enumerate(made if isinstance(made, tuple) else (made,)):
            if not isinstance(one, list):
                continue
            wide = _broadcast(list(operands.values())) == _shape(one)
            theirs = open_(self.node["name"], place if isinstance(made, tuple) else None)
            for name, of in operands.items():
                same = _shape(of) == _shape(one)
                if same:
                    self.at.say(self.node, one)
                if same and name in written:
                    _line_up(of, one, [True] * len(of), theirs)
                elif same or wide:
                    _line_up(of, one, open_(name), theirs)

    def _written(self) -> set[str]:
        if self.signature is None:
            return set()
        found = [self.given[n] for n in self.signature.written(dict(self.given))]
        if "op_list" in self.given:  # what is received comes into the tensors that are given
            found.append(self.given["tensors"])
        return set(references(found))

    # ---- arguments that are sizes or positions
    def sizes(self, name: Any, dims: Sequence[Dim]) -> None:
        """The argument lists the sizes that ``dims`` give; -1 stays."""
        holder, key = self.place(name)
        listed = holder[key]
        if not isinstance(listed, list) or len(listed) != len(dims):
            raise ValueError("other sizes")

        def write() -> None:
            holder[key] = [
                size(d) if e != -1 and isinstance(e, int) else e
                for e, d in zip(listed, dims, strict=True)
            ]

        self.at.rewrites.append(write)
        self.at.say(self.node, dims)

    def number(self, name: Any, dim: Dim, less: int = 0) -> None:
        """The argument is a size, or one less."""
        self.at.number_at(*self.place(name), lambda: size(dim) - less)
        self.at.say(self.node, [dim])

    def along(self) -> int:
        """The dimension that the argument `dim` names."""
        return int(self.given.get("dim", 0)) % max(len(self.operand("self")), 1)


def _shape(dims: Dims) -> list[int]:
    return [extent(d) for d in dims]


def _broadcast(operands: Sequence[Dims]) -> list[int]:
    """The shape of operands together; of those that do not fit none."""
    rank = max(map(len, operands), default=0)
    columns = zip(*([1] * (rank - len(of)) + _shape(of) for of in operands), strict=True)
    sizes = [set(column) - {1} for column in columns]
    return [] if any(len(s) > 1 for s in sizes) else [max(s, default=1) for s in sizes]


def _line_up(of: Dims, made: Dims, ours: Sequence[bool], theirs: Sequence[bool]) -> None:
    """Where one of both is open."""
    for a, b, *either in zip(of[::-1], made[::-1], ours[::-1], theirs[::-1], strict=False):
        if extent(a) == extent(b) and any(either):
            unify(a, b)
