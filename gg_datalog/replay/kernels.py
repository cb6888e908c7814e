"""What each node computes: torch's own operators in float64 on the CPU, stand-ins for others."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch

from gg_datalog.extract.graph import HIGHER_ORDER
from gg_datalog.extract.names import WAITS
from gg_datalog.extract.table import Row, Table
from gg_datalog.replay.calls import (
    PLACEMENT,
    Called,
    Key,
    NotExecuted,
    attributes,
    tensors,
)
from gg_datalog.replay.dtypes import NARROW, as_dtype, dtype_of, is_float, unwritten, wide
from gg_datalog.replay.hlo import HLO, PLACED
from gg_datalog.replay.standins import each, opaque, stand_in
from gg_datalog.replay.tensor import Tensor

EMPTY = ("aten.empty", "aten.empty_like", "aten.new_empty", "aten.empty_strided",
         "aten.new_empty_strided", "aten.empty_permuted")  # fmt: skip

OWN = ("aten", "prims")
VIEWS = ("aten.view", "aten._unsafe_view", "aten.reshape")
LAID_OUT = ("aten.view.", "aten._unsafe_view.", "aten._reshape_alias.")  # views wherever captured
CONVERSIONS = ("aten.to", "aten.type_as", "aten._to_copy", "prims.convert_element_type")
# What only tells one type of float from another: here all of them are one.
PRECISIONS = ("half_to_float",)
# What these take in float32 only, whatever the rest is in: flags, steps and factors of a scaler.
SINGLE = {
    "aten._amp_foreach_non_finite_check_and_unscale_": ("found_inf", "inv_scale"),
    "aten._amp_update_scale_": ("self", "found_inf"),
}
# Arithmetic on sizes.
OPERATORS = {
    form: name
    for name in ("add", "sub", "mul", "floordiv", "truediv", "mod", "neg")
    for form in (f"<built-in function {name}>", f"_operator.{name}")
}
Shapes: TypeAlias = Sequence[Sequence[int] | None] | None


def constant(node: Mapping[str, Any]) -> Tensor:
    """A number that the graph holds."""
    if not has_value(node):
        raise NotExecuted(f"nothing is known of constant `{node['name']}`")
    shape, dtype = node.get("shape") or [], dtype_of(node.get("dtype")) or torch.float64
    value = node["value"]
    if isinstance(value, list):
        return torch.tensor(value).to(dtype).reshape(shape)
    if type(value) is int and not is_float(dtype):
        return torch.full(shape, value, dtype=torch.int64).to(dtype)
    return as_dtype(torch.full(shape, value, dtype=torch.float64), dtype)


def is_own(name: str) -> bool:
    """Is the kernel executed as it is, and nothing that stands for it?"""
    own = name.partition(".")[0] in OWN or name in HLO or name in OPERATORS
    return own or name.partition(".")[2] in WAITS or "getitem" in name


def has_value(node: Mapping[str, Any]) -> bool:
    """Is it a constant, or an input, whose number, or list of numbers, is known?"""
    given = node["op"] in ("get_attr", "placeholder")
    return given and isinstance(node.get("value"), (int, float, list))


def compute(table: Table, call: Called, node: Any, shapes: Shapes = None) -> Any:
    """The value of a node that is neither a collective nor random; ``shapes`` are those of its
    results, where it has several."""
    try:
        return _computed(table, call, node, shapes)
    except NotImplementedError:  # torch has no kernel for the CPU, or for the type
        if any(x.dtype in NARROW for x in call.tensors()):
            return _widened(table, call, node, shapes)
        if call.name in table.rows:
            return by_rows(table.rows[call.name], call, node, table)
        return _unknown(call, node, shapes)


def _widened(table: Table, call: Called, node: Any, shapes: Shapes) -> Any:
    """The same in a wider type, where torch has no kernel for an unsigned one."""
    again = call.having({key: _all_wide(value) for key, value in call.given.items()})
    made = _computed(table, again, node, shapes)
    for key, before in call.written().items():
        for x, y in zip(tensors(before), tensors(again[key]), strict=True):
            x.copy_(as_dtype(y, x.dtype))
    return made


def _all_wide(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return wide(value)
    return [_all_wide(v) for v in value] if isinstance(value, (list, tuple)) else value


@dataclass(frozen=True)
class Work:
    """A node that is to be computed; ``shapes`` are those of its results, if it has several."""

    table: Table
    call: Called
    node: Any
    shapes: Shapes

    @property
    def name(self) -> str:
        """The operator without its overload."""
        return self.call.name

    @property
    def foreign(self) -> bool:
        """Is it no operator of torch's own?"""
        return self.name.partition(".")[0] not in OWN


def _as_its_rows_say(work: Work) -> Any:
    try:
        return by_rows(work.table.rows[work.name], work.call, work.node, work.table)
    except MISFITS:
        return _unknown(work.call, work.node, work.shapes)  # operands that are not as it says


def _never_written(work: Work) -> Any:
    where = f"{work.node['name']} of rank {work.node.get('rank', 0)}"
    return unwritten(own(work.call), where)


# How a node is computed: the first that fits. Torch's own kernels come last, for all the rest.
WAYS: tuple[tuple[Callable[[Work], bool], Callable[[Work], Any]], ...] = (
    (
        lambda w: w.node["target"] in HIGHER_ORDER,
        lambda w: _functionalised(w.table, w.call, w.node, w.shapes),
    ),
    (lambda w: w.name in EMPTY, _never_written),
    (lambda w: w.name in w.table.rows and w.foreign, _as_its_rows_say),
    (
        lambda w: w.name in HLO and w.name not in PLACED,
        lambda w: HLO[w.name](**{str(k): v for k, v in w.call.given.items()}),
    ),
    (
        lambda w: w.name in PLACED or (w.name in w.table.elementwise and w.foreign),
        lambda w: elementwise(w.table, w.call),
    ),
    (
        lambda w: w.name.partition(".")[2] in WAITS and bool(w.call.given),
        lambda w: next(iter(w.call.given.values())),
    ),
    (
        lambda w: w.name in OPERATORS,
        lambda w: getattr(operator, OPERATORS[w.name])(*w.call.args),
    ),
    (
        lambda w: w.name in w.table.identity and w.foreign,
        lambda w: w.call[w.table.identity[w.name]],
    ),
    (lambda w: w.foreign, lambda w: _unknown(w.call, w.node, w.shapes)),
    (
        lambda w: w.call.target.endswith("view.dtype"),
        lambda w: _bits(w.call, w.node, w.shapes),
    ),
)


def _computed(table: Table, call: Called, node: Any, shapes: Shapes) -> Any:
    work = Work(table, call, node, shapes)
    way = next((way for fits, way in WAYS if fits(work)), None)
    return own(call, call.name in table.rows) if way is None else way(work)


MISFITS = (AttributeError, LookupError, RuntimeError, TypeError, ValueError)


# ---- torch's own
def own(call: Called, packed: bool = False) -> Any:
    """What torch's own operator makes of it, written operands included. Some kernels that others
    are made of read memory as it lies there: with ``packed`` operands are copied into order."""
    if call.name in VIEWS and not call.target.startswith(("aten.flatten", "aten.view_copy")):
        return _viewed(call)
    kernel = _overload(call.signature.target) if call.exact and call.signature else None
    if kernel is None:  # another name for one of torch's, or no overload
        packet = _packet(call.name)
        if packet is None:
            raise NotImplementedError(call.name)
        kept = {k: v for k, v in (call.kwargs or {}).items() if k not in PLACEMENT}
        return packet(*call.args, **kept)
    given = arguments(call, packed)
    given |= {k: _single(given[k]) for k in SINGLE.get(call.name, ()) if k in given}
    try:
        made = kernel(**given)
    except RuntimeError as error:
        if "Expected a value of type 'Tensor" not in str(error):
            raise
        made = kernel(**_as_tensors(call, given))
    for key in SINGLE.get(call.name, ()):
        if key in call.written():
            call[key].copy_(given[key])
            made = call[key] if made is given[key] else made
    return made


def arguments(call: Called, packed: bool = False) -> dict[str, Any]:
    """What is handed to torch: no defaults (torch knows them), nothing lies elsewhere."""
    assert call.signature is not None
    made = {}
    written = call.written()
    for p in call.signature.parameters:
        value = call.given[p.name]
        if p.type.startswith("Device"):
            value = torch.device("cpu")
        elif p.name in PRECISIONS:
            value = False
        elif value is p.default or p.name in PLACEMENT:
            continue
        if packed and isinstance(value, torch.Tensor) and p.name not in written:
            value = value.contiguous()
        made[p.name] = value
    return made


def _single(value: Any) -> Any:
    return value.to(torch.float32) if isinstance(value, torch.Tensor) else value


def _as_tensors(call: Called, given: Mapping[str, Any]) -> dict[str, Any]:
    """With numbers as tensors, where torch wants tensors."""
    assert call.signature is not None
    kinds = {p.name: p.type for p in call.signature.parameters}
    return {
        k: torch.tensor(v) if isinstance(v, (int, float)) and kinds[k].startswith("Tensor") else v
        for k, v in given.items()
    }


def _packet(name: str) -> Callable[..., Any] | None:
    space, _, kernel = name.partition(".")
    return getattr(getattr(torch.ops, space), kernel, None) if space in OWN else None


def _overload(target: str) -> Callable[..., Any] | None:
    """torch's operator with exactly this overload."""
    name, _, overload = target.rpartition(".")
    packet = _packet(name)
    found: Callable[..., Any] | None = getattr(packet, overload, None)
    return found


def _viewed(call: Called) -> Tensor:
    """The same memory in another shape, where it lies so that this is possible; else a copy."""
    x, asked = call[0], call.get("size", "shape")
    if call.target.startswith(LAID_OUT):
        with suppress(RuntimeError):
            return torch.ops.aten.view.default(x, asked)
    return x.reshape(asked)


def _bits(call: Called, node: Any, shapes: Shapes) -> Any:
    """The bits as another type: those of integers are what they are, others are not known."""
    x, wanted = call[0], call["dtype"]
    if isinstance(x, torch.Tensor) and not (is_float(x.dtype) or is_float(wanted)):
        return torch.ops.aten.view.dtype(x, wanted)
    return _unknown(call, node, shapes)


# ---- stand-ins
def _unknown(call: Called, node: Any, shapes: Shapes) -> Any:
    """A function of all operands and attributes, which is what comes into written operands, too."""
    given, text = [x.clone() for x in call.tensors()], attributes(call)
    for key, value in call.written().items():
        for i, x in enumerate(tensors(value)):
            x.copy_(as_dtype(opaque(f"{call.name}.{key}{i}", given, text, x.shape), x.dtype))
    if (shape := node.get("shape")) is not None:
        made = opaque(call.name, given, text, shape)
        return made > 0 if dtype_of(node.get("dtype")) == torch.bool else made
    if not shapes:
        if call.written():
            return None
        raise NotExecuted(f"`{call.name}` is not known, and its results' shapes are not given")
    return tuple(
        None if s is None else opaque(f"{call.name}[{i}]", given, text, s)
        for i, s in enumerate(shapes)
    )


def elementwise(table: Table, call: Called) -> Tensor:
    """A kernel that the table says works element by element: HLO's own, or a stand-in."""
    given = call.tensors()
    if call.name in PLACED:
        made: Tensor = HLO[call.name](*given)
        return made
    text = attributes(call, (), tuple(table.placement))
    flags = set(table.elementwise[call.name])
    first = next(iter(call.given.values()), None)
    if not isinstance(first, torch.Tensor):
        flags -= {"linear"}
    short = call.name.rpartition(".")[2]
    if {short, f"{short}({text})"} & table.commutative:
        flags |= {"commutative"}
    return each(f"{call.name}({text})", given, flags)


def by_rows(rows: Sequence[Row], call: Called, node: Any, table: Table) -> Any:
    """The results of a kernel with a sharding rule, by its stand-in."""
    found: dict[int, Tensor] = {}
    for row in rows:
        operands = [call[which] for which in row.operands]
        sizes = {n: call[v] if isinstance(v, str) else v for n, v in row.sizes.items()}
        skip: list[Key] = [*row.ignore, *row.operands]
        text = attributes(call, skip, tuple(table.placement))
        spread = {letter: list(call[which]) for letter, which in row.spread.items()}
        made = stand_in(row, operands, text, sizes, spread)
        found |= zip(row.results, made, strict=True)
    if node is not None and node.get("shape") is not None and set(found) == {0}:
        return found[0]
    return tuple(found.get(i) for i in range(max(found) + 1))


def _functionalised(table: Table, call: Called, node: Any, shapes: Shapes) -> Any:
    if call.name in table.rows:
        try:
            return by_rows(table.rows[call.name], call, None, table)
        except MISFITS:
            return _unknown(call, node, shapes)
    if call.name in table.identity:
        bases = call.given.get("_all_bases") or [
            v for v in call.given.values() if isinstance(v, torch.Tensor)
        ]
        return (None, *bases)
    return _unknown(call, node, shapes)
