"""Values of base tensors, computed from the records that extraction lowers a side to.

A part of a reduction is evaluated by the definition of ``holds``: the operator named by the axis is
evaluated with its label restricted to a range, and what depends on it is computed from that.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache, cached_property
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from gg_datalog.extract.case import Case, CaseFiles, load_case
from gg_datalog.extract.collectives import World
from gg_datalog.extract.context import Context, Notes
from gg_datalog.extract.emit import lead_orders, live_bases
from gg_datalog.extract.facts import _emit, _table, lowered
from gg_datalog.extract.flatten import uses
from gg_datalog.extract.records import Concat, Label, Lookup, OneHot, Operator, Slice, Sum
from gg_datalog.extract.relations import input_rows
from gg_datalog.extract.scale import ONE, Scale
from gg_datalog.extract.schema import RELATIONS
from gg_datalog.extract.side import Side, _as_term
from gg_datalog.extract.table import Table, load_table
from gg_datalog.extract.view import Base, View

from .interpreter import Versions, version
from .kernels_np import (
    ELEMENTWISE,
    attend,
    convolved,
    layer_norm,
    layer_norm_backward,
    log_softmax_backward,
    rms_norm,
    rms_norm_backward,
    rotate,
    silu_and_mul,
    softmax,
    softmax_backward,
    ways,
)
from .promotion import INTEGERS, Array, Invalid, cast, numpy_type

Axis = tuple[str, int, Any]  # (operator, label or place, inner axis or None)
Limits = frozenset[tuple[Axis, int, int, int]]  # (axis, lo, n, extent)
EVERYTHING: Limits = frozenset()


class NotEvaluated(Exception):
    """A record that this evaluator does not know."""


# ---- extraction, its objects kept --------------------------------------------------------------------
@dataclass(repr=False)
class Extracted:
    """A case with both sides as objects, and its tables."""

    case: Case
    worlds: dict[str, World]
    rows: dict[str, list[tuple[Any, ...]]]  # of the facts

    @cached_property
    def tables(self) -> dict[str, Any]:
        """The facts as tables."""
        return {
            name: _table(relation, self.rows.get(name, [])) for name, relation in RELATIONS.items()
        }

    def side(self, name: str) -> Side:
        """One side."""
        contexts = self.worlds[name].contexts
        return contexts[min(contexts)].side


@cache
def builtin_table() -> Table:
    """The operator table, read once."""
    return load_table()


def extract(files: CaseFiles) -> Extracted:
    """What ``extract_case`` does, with the objects it throws away."""
    table, case = builtin_table(), load_case(files)
    rows = input_rows(case)
    notes = Notes(warnings=case.warnings)

    def prepare(world: World) -> None:
        for ctx in world.contexts.values():
            ctx.values = Recorded(ctx)

    worlds = lowered(case, rows, table, notes, lambda text: None, prepare)
    return Extracted(case, worlds, _emit(case, rows, worlds, table, notes).rows)


class Recorded(dict[str, Any]):
    """What nodes stand for, and all that they stood for earlier, with the place in the program."""

    def __init__(self, ctx: Context) -> None:
        super().__init__()
        self.ctx, self.all = ctx, list[tuple[str, View, int]]()

    def __setitem__(self, name: str, value: Any) -> None:
        if isinstance(value, View) and self.get(name) is not value:
            own = self.ctx.graph.nodes[name].position
            at = self.ctx.node.position if self.ctx.node is not None else own
            self.all.append((name, value, max(own, at if name in self else own)))
        super().__setitem__(name, value)


def case_of(folder: Path) -> CaseFiles:
    """The files of a case folder."""
    from gg_datalog.extract.case import case_files

    return case_files(folder)


def operand_orders(extracted: Extracted) -> dict[str, list[int]]:
    """Per signature the order in which facts list its operands."""
    ready = []
    for name in ("seq", "dist"):
        side = extracted.side(name)
        relation = RELATIONS["wanted" if name == "seq" else "returned"]
        place = [column for column, _ in relation.columns].index("of")
        named = {b.name: b for b in side.bases}
        roots = [named[row[place]] for row in extracted.rows.get(relation.name, ())]
        live = live_bases(roots)
        ready.append((side, live, uses(side, live, roots)))
    return lead_orders(ready)


# ---- views -----------------------------------------------------------------------------------------
def number(value: Scale) -> float:
    """A scale as a number."""
    result = float(value.ratio)
    for atom, power in value.atoms:
        result *= float(Fraction(atom)) ** power
    return result


def viewed(view: View, array: Array) -> Array:
    """A view (scale included) of a base with the value ``array``."""
    axes = [d.extent for dim in view.dims for d in dim]
    at: list[Any] = [np.zeros([1] * len(axes), int) for _ in array.shape]
    axis = 0
    for dim in view.dims:
        for digit in dim:
            steps = np.arange(digit.extent).reshape(
                [-1 if i == axis else 1 for i in range(len(axes))]
            )
            if digit.dim >= 0:
                at[digit.dim] = at[digit.dim] + steps * digit.stride
            axis += 1
    found = np.broadcast_to(array[tuple(at)] if at else array, axes).reshape(view.shape)
    return found if view.scale == ONE else times(found, number(view.scale))


def times(array: Array, by: float) -> Array:
    """A tensor times a number: of integers another integer, modulo the widest width."""
    if array.dtype.kind in "iu" and by == int(by):
        return array.astype(np.int64) * np.int64(by)
    return array * by


def widest(array: Array) -> Array:
    """Integers in the widest type: an operator may give a wider one than its operands'."""
    return array.astype(np.int64) if array.dtype.kind in "iu" else array


def counted(array: Array) -> Array:
    """A term of a sum: a truth value that was cast to an integer is 0 or 1."""
    return array.astype(np.int64) if array.dtype.kind == "b" else widest(array)


def wrapped(array: Array, dtype: str) -> Array:
    """In the type of the node that holds it: integers modulo their width."""
    if dtype not in INTEGERS or array.dtype == numpy_type(dtype) or not np.isfinite(array).all():
        return array
    return array.astype(np.int64).astype(numpy_type(dtype))


def _plain(view: View) -> bool:
    """Does a view show its base as it is?"""
    flat = [d for dim in view.dims for d in dim]
    return [d.dim for d in flat] == list(range(len(view.base.shape))) and view.scale == ONE


def over_labels(view: View, digit_map: Any, labels: Sequence[Label], array: Array) -> Array:
    """An operand with one axis per label, of one position where it does not carry the label."""
    term = _as_term(View(view.base, (), view.scale), digit_map, tuple(labels))
    kept = tuple(() if all(d.dim < 0 for d in dim) else dim for dim in term.dims)
    return viewed(View(view.base, kept, view.scale), array)


# ---- a side ------------------------------------------------------------------------------------------
@dataclass(repr=False)
class Evaluator:
    """Values of the base tensors of one side, given the values of its nodes per rank."""

    side: Side
    contexts: Mapping[int, Context]
    nodes: Mapping[int, Versions]
    noise: Mapping[int, Versions]
    orders: Mapping[str, list[int]]
    _known: dict[tuple[Base, Limits], Array] = field(default_factory=dict)
    _lookups: dict[str, Lookup] = field(default_factory=dict)
    _others: dict[str, Operator] = field(default_factory=dict)
    _of_node: dict[Base, Array] = field(default_factory=dict)
    _types: dict[Base, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._lookups = {found.name: found for found in self.side.lookups}
        for op in self.side.alternatives:
            self._others |= {op.name: op, f"{op.name}?swapped": op}
        shown = [*self.shown(self.nodes), *self.shown(self.noise)]
        for _, view, value, dtype in shown:
            self._note(view, value)
            if view.scale == ONE:
                self._types.setdefault(view.base, dtype)

    def shown(
        self, nodes: Mapping[int, Versions] | None = None
    ) -> Iterator[tuple[str, View, Array, str]]:
        """Every node with what it stands for, what it holds at that time, and its type."""
        nodes = self.nodes if nodes is None else nodes
        for rank, ctx in self.contexts.items():
            for name, view, place in ctx.values.all:  # type: ignore[attr-defined]
                value = version(nodes[rank], name, place)
                if isinstance(value, np.ndarray):
                    where = f"{self.side.name} rank {rank} `{name}`"
                    yield where, view, value, ctx.graph.nodes[name].dtype or ""

    def _note(self, view: View, value: Array) -> None:
        """A base that a node shows as it is, for bases that no record describes."""
        if _plain(view) and view.base not in self._of_node:
            self._of_node[view.base] = value.reshape(view.base.shape)

    def value(self, base: Base, limits: Limits = EVERYTHING) -> Array:
        """The value of a base with some reductions restricted."""
        key = (base, limits)
        if key not in self._known:
            with np.errstate(all="ignore"):
                self._known[key] = wrapped(self._compute(base, limits), self.type_of(base))
        return self._known[key]

    def type_of(self, base: Base) -> str:
        """The type of the first node that shows a base, but for a factor, or was made with it."""
        if base not in self._types:
            nodes = self.contexts[base.rank].graph.nodes if base.rank in self.contexts else {}
            self._types[base] = (nodes[base.node].dtype or "") if base.node in nodes else ""
        return self._types[base]

    def view(self, view: View, limits: Limits = EVERYTHING) -> Array:
        """The value of a view."""
        return viewed(view, self.value(view.base, limits))

    def forms(self) -> Iterator[tuple[str, Base, Callable[[], Array]]]:
        """Bases of which a record gives another form, with the value by that record."""
        for found in self.side.lookups:
            yield found.name, found.gives, lambda x=found: self._lookup(x, EVERYTHING)
        for hot in self.side.onehots.values():
            yield hot.name, hot.gives, lambda x=hot: self._onehot(x)
        for op in self.side.alternatives:
            base = op.gives[0][0]
            yield op.name, base, lambda x=op, b=base: self._operator(x, b, EVERYTHING)

    # ---- records -------------------------------------------------------------------------------
    def _compute(self, base: Base, limits: Limits) -> Array:
        for name in {axis[0] for axis, *_ in limits}:
            if name in self._lookups and self._lookups[name].gives is base:
                return self._lookup(self._lookups[name], limits)
            if name in self._others and self._others[name].gives[0][0] is base:
                return self._operator(self._others[name], base, limits)
        made = base.made
        if isinstance(made, Operator):
            return self._operator(made, base, limits)
        if isinstance(made, Sum):
            terms = [counted(self.view(t, limits)) for t in made.terms]
            total = terms[0]
            for term in terms[1:]:
                total = _JOIN[made.kind](total, term)
            return total.reshape(base.shape)
        if isinstance(made, Slice):
            places = [slice(None)] * len(made.of.dims)
            places[made.dim] = slice(made.start, made.start + made.size)
            return self.view(made.of, limits)[tuple(places)].reshape(base.shape)
        if isinstance(made, Concat):
            return np.concatenate([self._member(v, limits) for v, _ in made.members], made.dim)
        return self._from_node(base)

    def _member(self, view: View, limits: Limits) -> Array:
        """A member of a concatenation; NaN where the reduction is of another member."""
        try:
            return self.view(view, limits)
        except NotEvaluated:
            if not limits:
                raise
            return np.full(view.shape, np.nan)

    def _from_node(self, base: Base) -> Array:
        if base not in self._of_node:
            raise NotEvaluated(f"{base.name} ({base.kind})")
        return self._of_node[base]

    def _split(
        self, names: Sequence[str], limits: Limits, order: Mapping[str, Sequence[int]]
    ) -> tuple[dict[int, tuple[int, int, int]], dict[int, set[Any]]] | None:
        """Restricted labels, and restrictions to pass on per operand; None: not of this operator."""
        labels: dict[int, tuple[int, int, int]] = {}
        inner: dict[int, set[Any]] = {}
        for (by, place, rest), lo, n, extent in limits:
            if by not in names:
                return None
            if rest is None:
                assert place not in labels
                labels[place] = (lo, n, extent)
            else:
                inner.setdefault(order[by][place], set()).add((rest, lo, n, extent))
        return labels, inner

    def _operator(self, op: Operator, base: Base, limits: Limits) -> Array:
        order = list(self.orders.get(op.signature, range(len(op.operands))))
        split = self._split(
            (op.name, f"{op.name}?swapped"),
            limits,
            {op.name: order, f"{op.name}?swapped": order[::-1]},
        )
        if split is None:
            raise NotEvaluated(f"a part of {base.name} by another operator")
        labels, inner = split
        operands = []
        for place, (view, digit_map) in enumerate(zip(op.operands, op.maps, strict=True)):
            array = self.value(view.base, frozenset(inner.get(place, ())))
            spread = over_labels(view, digit_map, op.labels, widest(array))
            operands.append(_restricted(spread, labels))
        try:
            results = evaluate(op, operands)
        except (NotEvaluated, Invalid, ValueError, TypeError) as error:
            if limits:
                raise NotEvaluated(f"{op.signature}: {error}") from error
            return self._from_node(base)
        except (IndexError, AssertionError) as error:
            raise NotEvaluated(f"{op.signature} with other operands: {error}") from error
        (place,) = (i for i, (b, _) in enumerate(op.gives) if b is base)
        return results[place].reshape(base.shape)

    def _lookup(self, found: Lookup, limits: Limits) -> Array:
        """A lookup as a product with one-hot ids, its label restricted."""
        split = self._split((found.name,), limits, {found.name: [0, 1]})
        if split is None:
            raise NotEvaluated(f"a part of {found.gives.name} by several operators")
        labels, inner = split
        table, ids = (
            over_labels(v, m, found.labels, self.value(v.base, frozenset(inner.get(i, ()))))
            for i, (v, m) in enumerate(zip(found.operands, found.maps, strict=True))
        )
        extent = found.labels[found.label].extent
        kept = labels.get(found.label, (0, extent, extent))
        shape = [1] * len(found.labels)
        shape[found.label] = -1
        rows = np.asarray(rows_of(extent, *kept)).reshape(shape)
        hot = (ids == rows).astype(float)
        product = hot * _restricted(table, {found.label: kept})
        total = product.sum(found.label, keepdims=True)
        if found.mask is not None:
            total = np.where(self._mask(found, 1), 0, total)
        return _placed(total, found.labels, found.result)

    def _mask(self, found: Lookup | OneHot, place: int) -> Array:
        """The mask over the labels: it lies over its base as the ids lie over theirs."""
        assert found.mask is not None
        over = View(found.mask, ())
        return over_labels(over, found.maps[place], found.labels, self.value(found.mask)) != 0

    def _onehot(self, hot: OneHot) -> Array:
        """1 where the label is the id, else (and under the mask) 0."""
        ids = over_labels(hot.ids, hot.maps[0], hot.labels, self.value(hot.ids.base))
        shape = [1] * len(hot.labels)
        shape[hot.label] = hot.labels[hot.label].extent
        found = (ids == np.arange(shape[hot.label]).reshape(shape)).astype(float)
        if hot.mask is not None:
            found = np.where(self._mask(hot, 0), 0, found)
        return _placed(found, hot.labels, hot.result)


_JOIN = {"sum": np.add, "max": np.maximum, "min": np.minimum}


def rows_of(label: int, lo: int, n: int, extent: int) -> list[int]:
    """[lo, lo + n) of every ``extent`` positions of a label."""
    return [i for i in range(label) if lo <= i % extent < lo + n]


def _restricted(array: Array, labels: Mapping[int, tuple[int, int, int]]) -> Array:
    """Only some positions of some labels, where the operand carries them."""
    for label, part in labels.items():
        if array.shape[label] > 1:
            array = np.take(array, rows_of(array.shape[label], *part), label)
    return array


def _placed(array: Array, labels: Sequence[Label], result: Sequence[int]) -> Array:
    """An array over all labels, as a result with some of them in order."""
    shape = [labels[i].extent if i in result else array.shape[i] for i in range(len(labels))]
    wide = np.broadcast_to(array, shape)
    order = [*result, *(i for i in range(len(labels)) if i not in result)]
    return wide.transpose(order).reshape([labels[i].extent for i in result])


# ---- operators by signature ---------------------------------------------------------------------------
SPECIAL = (
    "take", "arange", "dropout", "softmax", "cumsum", "constant 0", "constant 1",
    "cat", "one_hot", "masked one_hot", "put", "softmax_backward_data",
    "log_softmax_backward_data",
)  # fmt: skip


def evaluate(op: Operator, operands: list[Array]) -> list[Array]:
    """The results of an operator, its operands given over its labels."""
    name = re.split(r"[(\[#]", op.signature)[0].split(" over ")[0]
    if name in KERNELS:
        return KERNELS[name](op, operands)
    if name == "contract":
        return [_contract(op, operands)]
    if name in _JOIN and op.labels and any(x.kind == name for x in op.labels):
        gone = tuple(i for i, x in enumerate(op.labels) if x.kind == name)
        reduce = {"sum": np.sum, "max": np.max, "min": np.min}[name]
        return [_placed(reduce(operands[0], axis=gone, keepdims=True), op.labels, op.gives[0][1])]
    if name in SPECIAL:
        return [
            _placed(a, op.labels, g)
            for a, (_, g) in zip(_special(name, op, operands), op.gives, strict=False)
        ]
    function = _elementwise(name, op.signature, operands)
    return [_placed(np.asarray(function), op.labels, op.gives[0][1])]


def _elementwise(name: str, signature: str, operands: list[Array]) -> Array:
    if name == "masked_fill":
        value = Fraction(signature[len("masked_fill(") : -1].replace("*", ""))
        filled = int(value) if value.denominator == 1 else float(value)
        return np.where(operands[1].astype(bool), filled, operands[0])
    if name == "select":
        return np.where(operands[0].astype(bool), operands[1], operands[2])
    if name == "cast" and "bool" in signature:
        return operands[0] != 0
    if name == "cast" and " to " not in signature:
        return cast(operands[0], signature[len("cast(") : -1])
    if name.startswith(("as ", "modulo ")):
        return _integers(name, operands[0])
    if name not in ELEMENTWISE:
        raise NotEvaluated(signature)
    if ") of " in signature:
        signature, _, types = signature.rpartition(" of ")
        pairs = zip(operands, types.split(", "), strict=True)
        operands = [x if t == "float" else x.astype(t) for x, t in pairs]
    args, kwargs = _arguments(signature, operands)
    return ELEMENTWISE[name](*args, **kwargs)


def _integers(name: str, x: Array) -> Array:
    """Formal integers as they are, or cut to the width of their type."""
    kind, dtype = name.split(" ")
    return x.astype(np.int64).astype(dtype).astype(np.int64) if kind == "modulo" else x


def _arguments(signature: str, operands: list[Array]) -> tuple[list[Any], dict[str, Any]]:
    """Operands where the signature has ``%``, its attributes elsewhere."""
    if "(" not in signature:
        return list(operands), {}
    rest = iter(operands)
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for part in signature[signature.index("(") + 1 : -1].split(", "):
        key, equals, text = part.partition("=")
        text = text if equals else key
        value: Any = next(rest) if text == "%" else _literal(text)
        if equals:
            kwargs[key] = value
        else:
            args.append(value)
    return args, kwargs


def _literal(text: str) -> Any:
    if text.startswith("'") or text == "None":
        return text.strip("'") if text != "None" else None
    return int(text) if re.fullmatch(r"-?\d+", text) else float(text)


def _contract(op: Operator, operands: list[Array]) -> Array:
    """einsum over the labels that each operand carries."""
    args: list[Any] = []
    out = list(op.gives[0][1])
    for array in operands:
        carried = [i for i, e in enumerate(array.shape) if e > 1]
        args += [array.reshape([array.shape[i] for i in carried]), carried]
    present = {i for carried in args[1::2] for i in carried}
    made = np.einsum(*args, [i for i in out if i in present])
    return made.reshape([op.labels[i].extent if i in present else 1 for i in out])


def _special(name: str, op: Operator, operands: list[Array]) -> list[Array]:
    full = [x.extent for x in op.labels]
    # one that every operand repeats along counts as created
    whole = [i for i, x in enumerate(op.labels) if x.kind in ("whole", "created")]
    if name == "take":
        return [_take(op, operands, whole)]
    if name == "arange":
        start, step = map(float, op.signature[len("arange(") : -1].split(", "))
        numbers = (np.arange(prod(full)) * step + start).reshape(full)
        return [numbers.astype(int) if start % 1 == step % 1 == 0 else numbers]
    if name.startswith("constant"):
        return [np.asarray(int(name[-1]))]
    if name == "dropout":
        by = 0.7 + 0.01 * int(op.signature.rpartition("#")[2])
        return [operands[0] * by, np.ones(full, bool)]
    if name == "cat":
        return [_cat(op, operands)]
    if name.endswith("one_hot"):
        hot = operands[0] == _numbers(op, whole)
        return [np.where(operands[1], 0, hot) if name.startswith("masked") else hot.astype(float)]
    if name == "put":
        x, ids, value = operands
        return [np.where(ids == _numbers(op, whole), value, x)]
    flat = [_flat(x, full, whole) for x in operands]
    done = _ALONG[name](*flat)
    kept = [i for i in range(len(full)) if i not in whole]
    back = done.reshape([full[i] for i in [*kept, *whole]])
    return [back.transpose(np.argsort([*kept, *whole]))]


_ALONG: dict[str, Callable[..., Array]] = {
    "cumsum": lambda x: np.cumsum(x, -1),
    "softmax": lambda x: softmax(x, -1),
    "softmax_backward_data": lambda g, y: softmax_backward(g, y, -1),
    "log_softmax_backward_data": lambda g, y: log_softmax_backward(g, y, -1),
}


def _numbers(op: Operator, labels: Sequence[int]) -> Array:
    """0, 1, 2, ... over some labels, the first one outermost."""
    shape = [x.extent if i in labels else 1 for i, x in enumerate(op.labels)]
    return np.arange(prod(shape)).reshape(shape)


def _flat(array: Array, full: Sequence[int], whole: Sequence[int]) -> Array:
    """All labels, those that are whole as one last axis."""
    kept = [i for i in range(len(full)) if i not in whole]
    moved = np.broadcast_to(array, full).transpose([*kept, *whole])
    return moved.reshape([*(full[i] for i in kept), prod(full[i] for i in whole)])


def _take(op: Operator, operands: list[Array], whole: list[int]) -> Array:
    table, ids = operands
    order = [i for i in range(len(op.labels)) if i not in whole]
    shape = [op.labels[i].extent for i in order]
    rows = prod(op.labels[i].extent for i in whole)
    flat = table.transpose([*order, *whole])
    flat = np.broadcast_to(flat, [*shape, *(op.labels[i].extent for i in whole)])
    flat = flat.reshape([*shape, rows])
    at = np.broadcast_to(
        ids.transpose([*order, *whole]).reshape([ids.shape[i] for i in order]), shape
    )
    found = np.take_along_axis(flat, at[..., None].astype(int), -1)[..., 0]
    spread = found.reshape([*shape, *([1] * len(whole))])
    return spread.transpose(np.argsort([*order, *whole]))


def _cat(op: Operator, operands: list[Array]) -> Array:
    """Operands one after the other along the created label."""
    (made,) = (i for i, x in enumerate(op.labels) if x.factor == "c")
    sizes = list(map(int, op.signature[len("cat(") :].split(")")[0].split(",")))
    pieces = []
    for place, (array, size) in enumerate(zip(operands, sizes, strict=True)):
        mine = [i for i, x in enumerate(op.labels) if x.factor == f"c{place}"]
        order = [i for i in range(len(op.labels)) if i not in mine and i != made]
        shape = [op.labels[i].extent if op.labels[i].kind == "parallel" else 1 for i in order]
        flat = array.transpose([*order, made, *mine])
        flat = np.broadcast_to(flat, [*shape, 1, *(op.labels[i].extent for i in mine)])
        flat = flat.reshape([*shape, size])
        pieces.append(_back(flat, order, made, len(op.labels)))
    return np.concatenate(pieces, made)


def _back(flat: Array, order: list[int], last: int, total: int) -> Array:
    """Axes ``order`` and then ``last`` at their places among ``total``."""
    rest = [i for i in range(total) if i not in order and i != last]
    wide = flat.reshape([*flat.shape, *([1] * len(rest))])
    return wide.transpose(np.argsort([*order, last, *rest]))


# ---- kernels with a rule -----------------------------------------------------------------------------
def lettered(op: Operator, array: Array, letters: Sequence[str]) -> Array:
    """An operand with one axis per letter (``...``: all others, one axis)."""
    groups = [[i for i, x in enumerate(op.labels) if x.factor == n] for n in letters]
    used = {i for group in groups for i in group}
    assert all(array.shape[i] == 1 for i in range(array.ndim) if i not in used)
    order = [i for g in groups for i in g] + [i for i in range(array.ndim) if i not in used]
    shape = [prod(array.shape[i] for i in g) for g in groups]
    return array.transpose(order).reshape(shape)


def spread(op: Operator, array: Array, letters: Sequence[str], result: Sequence[int]) -> Array:
    """From one axis per letter to the labels of a result."""
    labels = [i for n in letters for i, x in enumerate(op.labels) if x.factor == n]
    split = array.reshape([op.labels[i].extent for i in labels])
    rest = [i for i in labels if i not in result]
    wide = split.transpose([labels.index(i) for i in [*result, *rest]])
    return wide.reshape([op.labels[i].extent for i in result])


def _last_number(op: Operator) -> float:
    return float(re.findall(r"[-+.\deE]+(?=\))", op.signature)[-1])


def _layer_norm_kernel(op: Operator, operands: list[Array]) -> list[Array]:
    x = lettered(op, operands[0], ["...", "h"])
    w, b = (lettered(op, a, ["h"]) for a in operands[1:])
    out = layer_norm(x, w, b, _last_number(op))
    letters = [["...", "h"], ["..."], ["..."]]
    return [spread(op, a, n, g) for a, n, (_, g) in zip(out, letters, op.gives, strict=True)]


def _rms_norm_kernel(op: Operator, operands: list[Array]) -> list[Array]:
    x, w = lettered(op, operands[0], ["...", "h"]), lettered(op, operands[1], ["h"])
    return [spread(op, rms_norm(x, w, _last_number(op)), ["...", "h"], op.gives[0][1])]


def _fused_rms_norm_kernel(op: Operator, operands: list[Array]) -> list[Array]:
    x, w = lettered(op, operands[0], ["...", "h"]), lettered(op, operands[1], ["h"])
    eps = _last_number(op)
    out = rms_norm(x, w, eps), 1 / np.sqrt((x * x).mean(-1, keepdims=True) + eps)
    letters = [["...", "h"], ["..."]]
    return [spread(op, a, n, g) for a, n, (_, g) in zip(out, letters, op.gives, strict=True)]


def _add_rms_norm_kernel(op: Operator, operands: list[Array]) -> list[Array]:
    x, y = (lettered(op, a, ["...", "h"]) for a in operands[:2])
    normed = rms_norm(x + y, lettered(op, operands[2], ["h"]), _last_number(op))
    return [
        spread(op, a, ["...", "h"], g) for a, (_, g) in zip((normed, x + y), op.gives, strict=True)
    ]


def _silu_kernel(op: Operator, operands: list[Array]) -> list[Array]:
    x = lettered(op, operands[0], ["...", "two", "c"])
    return [spread(op, silu_and_mul(x), ["...", "c"], op.gives[0][1])]


def _rotary_kernel(op: Operator, operands: list[Array]) -> list[Array]:
    at = lettered(op, operands[0], ["t"]).astype(int)
    x = lettered(op, operands[1], ["t", "h", "d"])
    turned = rotate(x, lettered(op, operands[2], ["m", "r"])[at])
    return [spread(op, turned, ["t", "h", "d"], op.gives[0][1])]


def _attention_kernel(op: Operator, operands: list[Array]) -> list[Array]:
    q = lettered(op, operands[0], ["t", "k", "g", "d"])
    k = lettered(op, operands[1], ["t", "k", "d"])
    v = lettered(op, operands[2], ["t", "k", "e"])
    return [spread(op, attend(q, k, v), ["t", "k", "g", "e"], op.gives[0][1])]


def _norm_backward_kernel(op: Operator, operands: list[Array]) -> list[Array]:
    """Of layer norm and RMS norm: one of the gradients, added up over the labels that are summed
    (of a part: over some of their positions)."""
    result = int(op.signature.split("[", 1)[1].split("]")[0])
    summed = [i for i, x in enumerate(op.labels) if x.kind == "sum"]
    normed = [i for i, x in enumerate(op.labels) if x.factor == "h"]
    shape = [max(sizes) for sizes in zip(*(a.shape for a in operands), strict=True)]
    flat = [np.broadcast_to(a, shape) for a in operands]
    kept = [i for i in range(len(shape)) if i not in normed]
    flat = [a.transpose([*kept, *normed]).reshape([*(shape[i] for i in kept), -1]) for a in flat]
    weight = flat[4] if len(flat) > 4 else np.ones(1)
    if "rms" in op.signature:
        weight = flat[3] if len(flat) > 3 else weight
        made = rms_norm_backward(*flat[:3], weight)[result]
    elif len(flat) > 1:
        made = layer_norm_backward(*flat[:4], weight)[result]
    else:
        made = flat[0]
    back = made.reshape([shape[i] for i in [*kept, *normed]])
    back = back.transpose(np.argsort([*kept, *normed]))
    total = back.sum(tuple(summed), keepdims=True)
    return [_placed(total, op.labels, op.gives[0][1])]


def _convolution_kernel(op: Operator, operands: list[Array]) -> list[Array]:
    """A convolution or one of its gradients, added up over the channels (of a part: some of them)."""
    _, _, kind = op.signature.partition("(")[0].partition(" of ")
    way, sizes = (
        ast.literal_eval(text)
        for text in re.findall(r"\[\[.*?\]\]", op.signature.partition("(")[2])
    )
    transposed = " transposed)" in op.signature
    roles = {"": "xky", "input": "ykx", "weight": "yxk"}[kind]
    named = {"x": "ngc", "k": "goc", "y": "ngo"}
    letters = [[*named[r], *(f"{r}{i}" for i in range(len(way[0])))] for r in roles]
    a, b = (lettered(op, x, n) for x, n in zip(operands, letters[:2], strict=True))
    by_role = dict(zip(roles, sizes, strict=True))
    meet = ways([by_role[r] for r in "xky"], way, transposed)
    made = convolved({"x": "x", "k": "k", "y": "y"}[roles[2]], a, b, meet)
    return [spread(op, made, letters[2], op.gives[0][1])]


def _group_norm_kernel(op: Operator, operands: list[Array]) -> list[Array]:
    """Over what is whole; the number in the signature is epsilon."""
    full = [x.extent for x in op.labels]
    whole = [i for i, x in enumerate(op.labels) if x.kind in ("whole", "created")]
    x = _flat(operands[0], full, whole)
    eps = float(op.signature.partition("(")[2].partition(")")[0])
    out, mu, inverse = layer_norm(x, np.ones(1), np.zeros(1), eps)
    return [
        _unflat(op, a, whole, g) for a, (_, g) in zip((out, mu, inverse), op.gives, strict=True)
    ]


def _group_norm_backward_kernel(op: Operator, operands: list[Array]) -> list[Array]:
    full = [x.extent for x in op.labels]
    whole = [i for i, x in enumerate(op.labels) if x.kind in ("whole", "created")]
    g, x, mu, inverse = (_flat(a, full, whole) for a in operands)
    made = layer_norm_backward(g, x, mu, inverse, np.ones(1))[0]
    return [_unflat(op, made, whole, op.gives[0][1])]


def _unflat(op: Operator, array: Array, whole: Sequence[int], result: Sequence[int]) -> Array:
    """Back from the labels that are kept and one axis for those that are whole."""
    kept = [i for i in range(len(op.labels)) if i not in whole]
    gone = [] if array.shape[-1] == 1 else list(whole)
    split = array.reshape([op.labels[i].extent for i in [*kept, *gone]])
    return split.transpose([[*kept, *gone].index(i) for i in result])


KERNELS = {
    "convolution": _convolution_kernel,
    "convolution_backward of input": _convolution_kernel,
    "convolution_backward of weight": _convolution_kernel,
    "native_group_norm": _group_norm_kernel,
    "native_group_norm_backward": _group_norm_backward_kernel,
    "aten.native_layer_norm": _layer_norm_kernel,
    "aten.native_layer_norm_backward": _norm_backward_kernel,
    "aten._fused_rms_norm": _fused_rms_norm_kernel,
    "aten._fused_rms_norm_backward": _norm_backward_kernel,
    "apex.fused_layer_norm_affine_fwd": _layer_norm_kernel,
    "hlo.AwsNeuronRmsNorm": _rms_norm_kernel,
    "_C.rms_norm": _rms_norm_kernel,
    "_C.fused_add_rms_norm": _add_rms_norm_kernel,
    "_C.silu_and_mul": _silu_kernel,
    "_C.rotary_embedding": _rotary_kernel,
    "vllm.unified_attention_with_output": _attention_kernel,
}
