"""Values of base tensors, and of parts of reductions, from the records that a side was lowered to.

A part of a reduction is evaluated by its definition: the operator that the axis names is evaluated
with its label restricted to a range, and what depends on it is computed from that.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import prod
from typing import Any

import torch

from gg_datalog.extract.context import Context
from gg_datalog.extract.graph import is_symbolic
from gg_datalog.extract.records import Concat, Label, Lookup, Operator, Slice, Sum
from gg_datalog.extract.scale import ONE, Scale
from gg_datalog.extract.side import Side, _as_term
from gg_datalog.extract.signature import at_commas
from gg_datalog.extract.table import Row
from gg_datalog.extract.view import Base, View
from gg_datalog.replay.calls import Called, Key, call_of, named
from gg_datalog.replay.documents import Json
from gg_datalog.replay.dtypes import as_dtype, dtype_of, is_integer, times, wide
from gg_datalog.replay.hlo import PLACED
from gg_datalog.replay.kernels import OWN, by_rows, compute, elementwise, own
from gg_datalog.replay.program import resolve
from gg_datalog.replay.tensor import Tensor

Axis = tuple[str, int, Any]  # (operator, label or place, inner axis or None)
Limits = frozenset[tuple[Axis, int, int, int]]  # (axis, lo, n, extent)
EVERYTHING: Limits = frozenset()
Rows = tuple[int, ...]  # positions of a label
REDUCE = {"sum": torch.sum, "max": torch.amax, "min": torch.amin}
JOIN = {"sum": torch.add, "max": torch.maximum, "min": torch.minimum}


class NotEvaluated(Exception):
    """A record that cannot be evaluated, or not in part."""


def number(value: Scale) -> float:
    """A scale as a number."""
    result = float(value.ratio)
    for atom, power in value.atoms:
        result *= float(Fraction(atom)) ** power
    return result


def viewed(view: View, array: Tensor) -> Tensor:
    """A view (scale included) of a base with the value ``array``."""
    if any(map(is_symbolic, view.shape)):
        raise NotEvaluated(f"a view of {view.base.name} has a size that depends on data")
    axes = [d.extent for dim in view.dims for d in dim]
    at = [torch.zeros([1] * len(axes), dtype=torch.int64) for _ in array.shape]
    axis = 0
    for dim in view.dims:
        for digit in dim:
            if digit.dim >= 0:
                steps = torch.arange(digit.extent) * digit.stride
                at[digit.dim] = at[digit.dim] + _along(steps, axis, len(axes))
            axis += 1
    found = array[tuple(at)] if at else array
    found = found.expand(axes).reshape(view.shape)
    return found if view.scale == ONE else times(found, number(view.scale))


def based(view: View, value: Tensor) -> tuple[Tensor, Tensor]:
    """The base of a view with this value (scale included), and which of its elements the view
    shows."""
    total = prod(view.base.shape)
    places = torch.arange(total).reshape(view.base.shape)
    at = viewed(View(view.base, view.dims), places).reshape(-1)
    base, shown = torch.zeros(total, dtype=value.dtype), torch.zeros(total, dtype=torch.bool)
    base[at], shown[at] = value.reshape(-1), True
    return base.reshape(view.base.shape), shown.reshape(view.base.shape)


def rows_of(label: int | str, lo: int, n: int, extent: int) -> Rows:
    """[lo, lo + n) of every ``extent`` positions of a label."""
    if isinstance(label, str):
        raise NotEvaluated("a size that depends on data")
    return tuple(i for i in range(label) if lo <= i % extent < lo + n)


def _along(steps: Tensor, axis: int, rank: int) -> Tensor:
    return steps.reshape([-1 if i == axis else 1 for i in range(rank)])


def over_labels(view: View, digit_map: Any, labels: Sequence[Label], array: Tensor) -> Tensor:
    """An operand with one axis per label, of one position where it does not carry the label."""
    term = _as_term(View(view.base, (), view.scale), digit_map, tuple(labels))
    kept = tuple(() if all(d.dim < 0 for d in dim) else dim for dim in term.dims)
    return viewed(View(view.base, kept, view.scale), array)


@dataclass(repr=False)
class Evaluator:
    """Values of the base tensors of one side, given the values of its nodes per rank."""

    side: Side
    contexts: Mapping[int, Context]
    graphs: Mapping[int, Mapping[str, Json]]
    nodes: Mapping[int, Mapping[str, Any]]
    orders: Mapping[str, list[int]]
    given: Mapping[int, Mapping[str, Tensor]] = field(default_factory=dict)
    _known: dict[tuple[Base, Limits], Tensor] = field(default_factory=dict)
    _lookups: dict[str, Lookup] = field(default_factory=dict)
    _others: dict[str, Operator] = field(default_factory=dict)
    _of_node: dict[Base, Tensor] = field(default_factory=dict)
    _shown_by: set[tuple[Base, int]] = field(default_factory=set)  # base, id of the node's value

    def __post_init__(self) -> None:
        self._lookups = {found.name: found for found in self.side.lookups}
        for op in self.side.alternatives:
            self._others |= {op.name: op, f"{op.name}?swapped": op}
        for _, view, array in self._nodes():
            self._note(view, array)

    def _note(self, view: View, value: Tensor) -> None:
        """A base that a node shows all of."""
        if view.base in self._of_node or view.scale != ONE or value.shape != torch.Size(view.shape):
            return
        if prod(view.base.shape) != value.numel():
            return
        if [d.dim for dim in view.dims for d in dim] == list(range(len(view.base.shape))):
            base = value.reshape(view.base.shape)
        else:
            base, shown = based(view, value)
            if not bool(shown.all()):
                return
        self._of_node[view.base] = base
        self._shown_by.add((view.base, id(value)))

    def others(self) -> Iterator[tuple[str, View, Tensor]]:
        """Nodes whose base is the value of another node, or of a record."""
        for name, view, array in self._nodes():
            if (view.base, id(array)) not in self._shown_by:
                yield name, view, array

    def _nodes(self) -> Iterator[tuple[str, View, Tensor]]:
        """Every node with what it was lowered to and what it computed."""
        for rank, ctx in self.contexts.items():
            for name, value in ctx.values.items():
                computed = self.nodes[rank].get(name)
                pairs = [(value, computed)]
                if isinstance(value, tuple) and isinstance(computed, (tuple, list)):
                    pairs = list(zip(value, computed, strict=False))
                for view, array in pairs:
                    if isinstance(view, View) and isinstance(array, torch.Tensor):
                        yield f"r{rank}.{name}" if self.side.name == "dist" else name, view, array
            for name, array in self.given.get(rank, {}).items():  # as it was before it was written
                view = ctx.sources.get(name)
                if view is not None and ctx.values.get(name) is not view:
                    yield f"r{rank}.{name}" if self.side.name == "dist" else name, view, array

    def value(self, base: Base, limits: Limits = EVERYTHING) -> Tensor:
        """The value of a base with some reductions restricted."""
        if any(map(is_symbolic, base.shape)):
            raise NotEvaluated(f"{base.name} has a size that depends on data")
        key = (base, limits)
        if key not in self._known:
            self._known[key] = self._in_type(base, self._compute(base, limits))
        return self._known[key]

    def _in_type(self, base: Base, value: Tensor) -> Tensor:
        """Formal integers are what they are modulo the width of their type; others are numbers,
        whatever the width of what holds them: as floats they are the same."""
        if base.ring:
            return as_dtype(value, dtype_of(base.ring) or value.dtype)
        return wide(value).to(torch.int64) if is_integer(value.dtype) else value

    def view(self, view: View, limits: Limits = EVERYTHING) -> Tensor:
        """The value of a view."""
        return viewed(view, self.value(view.base, limits))

    # ---- records -------------------------------------------------------------------------------
    def _compute(self, base: Base, limits: Limits) -> Tensor:
        if not limits and base in self._of_node:
            return self._of_node[base]
        names = {axis[0] for axis, *_ in limits}
        for name in names & set(self._lookups):
            if self._lookups[name].gives is base:
                return self._lookup(self._lookups[name], limits)
        for name in names & set(self._others):
            if self._others[name].gives[0][0] is base:
                return self._operator(self._others[name], base, limits)
        made = base.made
        if isinstance(made, Operator):
            return self._operator(made, base, limits)
        if isinstance(made, Sum):
            total = self.view(made.terms[0], limits)
            for term in made.terms[1:]:
                total = JOIN[made.kind](total, self.view(term, limits))
            return total.reshape(base.shape)
        if isinstance(made, Slice):
            part = self.view(made.of, limits).narrow(made.dim, made.start, made.size)
            return part.reshape(base.shape)
        if isinstance(made, Concat):
            return torch.cat([self._member(v, limits) for v, _ in made.members], made.dim)
        raise NotEvaluated(f"{base.name} ({base.kind})")

    def _member(self, view: View, limits: Limits) -> Tensor:
        """A member of a concatenation; NaN where the reduction is of another member."""
        try:
            return self.view(view, limits)
        except NotEvaluated:
            if not limits:
                raise
            return torch.full(view.shape, float("nan"), dtype=torch.float64)

    def _operator(self, op: Operator, base: Base, limits: Limits) -> Tensor:
        order = list(self.orders.get(op.signature, range(len(op.operands))))
        places = {op.name: order, f"{op.name}?swapped": order[::-1]}
        labels: dict[int, Rows] = {}
        inner: dict[int, set[Any]] = {}
        for (by, place, rest), *part in limits:
            if by not in places:
                raise NotEvaluated(f"a part of {base.name} by another operator")
            if rest is None:
                labels[place] = rows_of(op.labels[place].extent, *part)
            else:
                inner.setdefault(places[by][place], set()).add((rest, *part))
        values = [
            self.value(view.base, frozenset(inner.get(i, ()))) for i, view in enumerate(op.operands)
        ]
        (place,) = (i for i, (b, _) in enumerate(op.gives) if b is base)
        return self._result(op, place, values, labels).reshape(base.shape)

    def _result(
        self, op: Operator, place: int, values: list[Tensor], labels: Mapping[int, Rows]
    ) -> Tensor:
        if any(is_symbolic(label.extent) for label in op.labels):
            raise NotEvaluated(f"{op.name} has a size that depends on data")
        node = self.graphs.get(op.rank, {}).get(op.node)
        rows = self.contexts[op.rank].table.rows if op.rank in self.contexts else {}
        target = re.split(r"[(\[#]", op.signature)[0]
        if target in rows and node is not None:
            return self._kernel(op, place, values, labels, node)
        spread = [
            over_labels(v, m, op.labels, a)
            for v, m, a in zip(op.operands, op.maps, values, strict=True)
        ]
        cut = [_restricted(a, labels) for a in spread]
        if node is not None and op.rank in self.contexts:
            again = self._pointwise(op, node, cut)
            if again is not None:
                return _placed(again, op.labels, op.gives[place][1])
        return _placed(evaluate(op, cut, place, labels), op.labels, op.gives[place][1])

    def _pointwise(self, op: Operator, node: Json, operands: list[Tensor]) -> Tensor | None:
        """A kernel that works element by element, run as its node runs it; None of others."""
        table = self.contexts[op.rank].table
        name = named(table, node)
        if name not in PLACED and name not in table.elementwise:
            return None
        short = name.rpartition(".")[2]
        call = self._with(op.rank, node, operands)
        if call is None or not op.signature.startswith(f"{short}(") or call.written():
            return None
        if name in PLACED or name.partition(".")[0] not in OWN:
            return elementwise(table, call)
        made = own(call)
        wanted = dtype_of(node.get("dtype"))
        return made if wanted is None else as_dtype(made, wanted)

    def _with(self, rank: int, node: Json, operands: Sequence[Tensor]) -> Called | None:
        """The call of a node, with these tensors for its own, in the types that the graph says;
        None where it has more or fewer."""
        rest = iter(operands)
        graph = self.graphs[rank]

        def filled(value: Any) -> Any:
            if isinstance(value, _Place):
                wanted = dtype_of(graph[value.name].get("dtype"))
                x = next(rest)
                return x if wanted is None else as_dtype(x, wanted)
            return [filled(v) for v in value] if isinstance(value, (list, tuple)) else value

        call = call_of(self.contexts[rank].table, node, lambda a: resolve(a, _Places()))
        try:
            given: dict[Key, Any] = {k: filled(v) for k, v in call.given.items()}
        except StopIteration:
            return None
        return call.having(given) if next(rest, None) is None else None

    def _kernel(
        self,
        op: Operator,
        place: int,
        values: list[Tensor],
        labels: Mapping[int, Rows],
        node: Json,
    ) -> Tensor:
        """A kernel with a sharding rule, run as its node runs it; of a part, the operand in
        which it is linear is 0 outside the range."""
        ctx = self.contexts[op.rank]
        name = re.split(r"[(\[#]", op.signature)[0]
        results = [int(i) for i in op.signature.split("[", 1)[1].split("]")[0].split(",")]
        rows = ctx.table.rows[name]
        row = next(r for r in rows if list(r.results) == results)
        operands = [viewed(v, a) for v, a in zip(op.operands, values, strict=True)]
        if labels:
            if not row.linear:
                raise NotEvaluated(f"a part of {name}")
            first = row.linear[0]
            spread = over_labels(op.operands[first], op.maps[first], op.labels, values[first])
            mask = torch.ones_like(spread)
            for label, rows_here in labels.items():
                if spread.shape[label] > 1:
                    kept = torch.zeros(spread.shape[label], dtype=mask.dtype)
                    kept[list(rows_here)] = 1
                    mask = mask * _along(kept, label, spread.ndim)
            term = _as_term(op.operands[first], op.maps[first], op.labels)
            whole = torch.zeros(prod(op.operands[first].base.shape), dtype=torch.float64)
            at = viewed(
                View(term.base, tuple(() if all(d.dim < 0 for d in x) else x for x in term.dims)),
                torch.arange(len(whole)).reshape(term.base.shape),
            )
            whole[at.reshape(-1)] = mask.reshape(-1)
            operands[first] = viewed(
                op.operands[first], values[first] * whole.reshape(term.base.shape)
            )
        made = self._again(op.rank, row, operands, node)
        out = made[row.results[place]] if isinstance(made, (tuple, list)) else made
        view = self._view_of(op, place)
        if view is None:
            return out
        total = prod(view.base.shape)
        at = viewed(View(view.base, view.dims), torch.arange(total).reshape(view.base.shape))
        flat = torch.empty(total, dtype=out.dtype)
        flat[at.reshape(-1)] = out.reshape(-1)
        return flat

    def _view_of(self, op: Operator, place: int) -> View | None:
        base = op.gives[place][0]
        value = self.contexts[op.rank].values.get(op.node)
        for one in value if isinstance(value, tuple) else (value,):
            if isinstance(one, View) and one.base is base:
                return one
        return None

    def _again(self, rank: int, row: Row, operands: Sequence[Tensor], node: Json) -> Any:
        """The kernel of a node on other operands of the same shapes."""
        table = self.contexts[rank].table
        call = call_of(table, node, lambda a: resolve(a, self.nodes[rank]))
        given = {
            call.key(which): x.reshape(call[which].shape)
            for which, x in zip(row.operands, operands, strict=True)
        }
        if not row.target.startswith("aten."):
            return by_rows([row], call.having(given), None, table)
        written = {k: v.clone() for k, v in call.written().items() if isinstance(v, torch.Tensor)}
        return compute(table, call.having(written | given), node)

    def _lookup(self, found: Lookup, limits: Limits) -> Tensor:
        """A lookup as a product with one-hot ids, its label restricted."""
        labels: dict[int, Rows] = {}
        inner: dict[int, set[Any]] = {}
        for (by, place, rest), *part in limits:
            if by != found.name:
                raise NotEvaluated(f"a part of {found.gives.name} by several operators")
            if rest is None:
                labels[place] = rows_of(found.labels[place].extent, *part)
            else:
                inner.setdefault(place, set()).add((rest, *part))
        table, ids = (
            over_labels(v, m, found.labels, self.value(v.base, frozenset(inner.get(i, ()))))
            for i, (v, m) in enumerate(zip(found.operands, found.maps, strict=True))
        )
        kept = labels.get(found.label, tuple(range(found.labels[found.label].extent)))
        rows = _along(torch.tensor(kept), found.label, len(found.labels))
        rest = _restricted(table, {found.label: kept})
        return _placed(contracted(ids == rows, rest, [found.label]), found.labels, found.result)


@dataclass(frozen=True)
class _Place:
    """Where the value of a node goes."""

    name: str


class _Places(dict[str, Any]):
    """Every node stands for a place."""

    def __missing__(self, name: str) -> Any:
        return _Place(name)


def _restricted(array: Tensor, labels: Mapping[int, Rows]) -> Tensor:
    """Only some positions of some labels, where the operand carries them."""
    for label, rows in labels.items():
        if array.shape[label] > 1:
            array = array.index_select(label, torch.tensor(rows))
    return array


def _placed(array: Tensor, labels: Sequence[Label], result: Sequence[int]) -> Tensor:
    """An array over all labels, as a result with some of them in order."""
    shape = [labels[i].extent if i in result else array.shape[i] for i in range(len(labels))]
    wide = array.expand(shape)
    order = [*result, *(i for i in range(len(labels)) if i not in result)]
    return wide.permute(order).reshape([labels[i].extent for i in result])


# ---- operators by signature
def contracted(a: Tensor, b: Tensor, gone: Sequence[int]) -> Tensor:
    """The product of two arrays over the same labels, added up over some, which stay as one
    position; without making the product of all of them."""
    shape = [max(pair) for pair in zip(a.shape, b.shape, strict=True)]
    la, lb = ([i for i, e in enumerate(x.shape) if e > 1] for x in (a, b))
    out = [i for i, e in enumerate(shape) if e > 1 and i not in gone]
    floats = a.is_floating_point() or b.is_floating_point()
    dtype = torch.float64 if floats else torch.int64  # products of integers: modulo 2**64
    x, y = (v.to(dtype).reshape([e for e in v.shape if e > 1]) for v in (a, b))
    made = torch.einsum(x, la, y, lb, out)
    return made.reshape([1 if i in gone else e for i, e in enumerate(shape)])


def evaluate(
    op: Operator, operands: list[Tensor], place: int, limits: Mapping[int, Rows]
) -> Tensor:
    """A result of an operator over its labels, its operands given over them, cut to ``limits``."""
    name = re.split(r"[(\[#]", op.signature)[0].split(" over ")[0]
    full = [len(limits[i]) if i in limits else x.extent for i, x in enumerate(op.labels)]
    gone = [i for i, x in enumerate(op.labels) if x.kind in REDUCE]
    if name == "contract":
        return contracted(operands[0], operands[1], gone)
    if name in REDUCE and gone:
        return REDUCE[name](operands[0], gone, keepdim=True)
    if limits:
        raise NotEvaluated(f"a part of {op.signature}")
    if name in ("one_hot", "masked one_hot"):
        created = [i for i, x in enumerate(op.labels) if x.kind == "created"]
        rows = torch.zeros(())  # of one row
        if created:
            rows = _along(torch.arange(full[created[0]]), created[0], len(full))
        hot = (operands[0] == rows).to(torch.int64)
        return hot * ~operands[1].bool() if len(operands) > 1 else hot
    if name == "take":
        whole = [i for i, x in enumerate(op.labels) if x.kind == "whole"]
        if len(whole) != 1:
            raise NotEvaluated(f"a part of {op.signature}")
        rows = _along(torch.arange(full[whole[0]]), whole[0], len(full))
        return contracted(operands[1] == rows, operands[0], whole)
    if counting := COUNTING.fullmatch(op.signature):
        (along,) = (i for i, x in enumerate(op.labels) if x.kind == "created")
        start, step = map(int, counting.groups())
        return _along(start + step * torch.arange(full[along]), along, len(full))
    if name.startswith("constant"):
        number = float(name[-1])  # whole ones as integers, which keep those beyond 2**53
        return torch.tensor(int(number) if number.is_integer() else number)
    if name == "masked_fill":
        value = float(Fraction(op.signature[len("masked_fill(") : -1].replace("*", "")))
        filled = torch.tensor(value, dtype=operands[0].dtype)
        return torch.where(operands[1].bool(), filled, operands[0])
    if name == "select":
        return torch.where(operands[0].bool(), operands[1], operands[2])
    if name.startswith(("as ", "modulo ", "cast")):
        return _cast(op.signature, operands[0])
    if op.target.split(".")[0] not in KNOWN or any(x.kind == "whole" for x in op.labels):
        raise NotEvaluated(f"a part of {op.signature}")
    return _elementwise(name, op.signature, operands)


def _cast(signature: str, value: Tensor) -> Tensor:
    """In the type that is named last."""
    name = signature.removeprefix("cast").removeprefix("as ").removeprefix("modulo ")
    wanted = dtype_of(name.split("(%)")[0].strip("()").rpartition(" to ")[2])
    return value if wanted is None else as_dtype(value, wanted)


COUNTING = re.compile(r"arange\((-?\d+), (-?\d+)\)")
KNOWN = ("aten", "prims", "hlo", "")  # others have a stand-in only


def _elementwise(name: str, signature: str, operands: list[Tensor]) -> Tensor:
    parts = name.removeprefix("aten.").split(".")
    kernel = getattr(torch.ops.aten, parts[0], None)
    if kernel is None or parts[0] in ("softmax", "cumsum", "take", "cat", "put"):
        raise NotEvaluated(signature)
    types = signature.rpartition(") of ")[2].split(", ") if ") of " in signature else []
    if len(types) == len(operands):
        pairs = zip(operands, types, strict=True)
        operands = [x if t == "float" else x.to(getattr(torch, t)) for x, t in pairs]
    args: list[Any] = list(operands)
    kwargs: dict[str, Any] = {}
    if "(" in signature:
        rest = iter(operands)
        args = []
        for text in at_commas(signature[signature.index("(") + 1 : signature.rindex(")")]):
            key, equals, value = text.partition("=")
            one = next(rest) if (value if equals else key) == "%" else _literal(value or key)
            if equals:
                kwargs[key] = one
            else:
                args.append(one)
    try:
        return kernel(*args, **kwargs)
    except (RuntimeError, TypeError) as error:
        raise NotEvaluated(f"{signature}: {error}") from error


def _literal(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return float(text) if text in ("inf", "-inf", "nan") else text
