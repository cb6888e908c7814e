"""The graph that one device's program becomes, while it is written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from gg_datalog.foundation.errors import InputError
from gg_datalog.readers.hlo_devices import Devices
from gg_datalog.readers.hlo_known import Affine, Known, number
from gg_datalog.readers.hlo_literals import Number
from gg_datalog.readers.hlo_scan import numbers
from gg_datalog.readers.hlo_shapes import Array, Shape
from gg_datalog.readers.hlo_sources import Sources
from gg_datalog.readers.hlo_text import Instruction, Module

Json: TypeAlias = "dict[str, Any]"
MOST_NODES = 1_000_000


@dataclass(frozen=True)
class Value:
    """A tensor of the program: its node, and its elements where the text determines them.

    ``local`` is True for what depends on which device it is; ``shifted`` for an index from which a
    device has subtracted its own offset."""

    node: str
    shape: Array
    known: Known | None = None
    local: bool = False
    shifted: bool = False

    @property
    def ref(self) -> Json:
        """A reference to it."""
        return {"node": self.node}

    @property
    def number(self) -> Number | None:
        """The one finite number that all elements are, where it is known."""
        value = number(self.known)
        return value if value is not None and abs(value) < float("inf") else None

    @property
    def single(self) -> Number | None:
        """The same, infinite and undefined numbers included."""
        return number(self.known)


Result: TypeAlias = "Value | tuple[Result, ...] | None"


@dataclass
class Recipe:
    """A range of numbers: its node, whether it depends on the device, and what it was made for."""

    node: str
    shape: Array
    known: Affine
    local: bool
    made_for: str


@dataclass
class Writer:
    """Nodes of one device's graph."""

    module: Module
    devices: Devices
    rank: int
    nodes: list[Json] = field(default_factory=list)
    names: set[str] = field(default_factory=set)
    groups: dict[tuple[int, ...], str] = field(default_factory=dict)
    parameters: dict[int, list[Value]] = field(default_factory=dict)
    recipes: dict[Any, Recipe] = field(default_factory=dict)
    warnings: dict[str, None] = field(default_factory=dict)
    ranges: dict[str, tuple[int, int]] = field(default_factory=dict)  # of integers that are clamped
    env: dict[str, Result] = field(default_factory=dict)
    path: str = ""  # of the calls around, in front of names
    at: Instruction = None  # type: ignore[assignment]
    sources: Sources = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        self.sources = Sources(self.module)
        self._from: tuple[int, tuple[str, str]] = (0, ("", ""))

    # ---- the instruction at hand
    def ints(self, key: str) -> list[int]:
        """An attribute such as ``dimensions={0,1}``; empty where it is absent."""
        return numbers(self.at.attributes.get(key, ""))

    def error(self, what: str, hint: str | None = None) -> InputError:
        """An error about the instruction at hand."""
        name = f"`{self.at.name}` ({self.at.opcode})"
        return InputError(f"{name}: {what}", self.module.where(self.at.line), hint)

    def need(self, good: bool, what: str) -> None:
        """An error where the text contradicts itself."""
        if not good:
            raise self.error(what, "the text does not add up: dump it again")

    def array(self, shape: Shape | None = None) -> Array:
        """The shape of the instruction at hand, where it has to be one tensor."""
        shape = self.at.shape if shape is None else shape
        if not isinstance(shape, Array):
            raise self.error("one tensor is expected, not a tuple", "dump it again")
        return shape

    # ---- nodes
    def free(self, suffix: str = "") -> str:
        """A name for a node of the instruction at hand: HLO's own names hold no `/` and `:`."""
        base = f"{self.path}{self.at.name}{':' + suffix if suffix else ''}"
        name, count = base, 1
        while name in self.names:
            count += 1
            name = f"{base}:{count}"
        return name

    def emit(
        self,
        target: str,
        args: Sequence[Any],
        shape: Array | None,
        suffix: str = "",
        kwargs: Json | None = None,
        op: str = "call_function",
        value: Number | None = None,
    ) -> str:
        """Writes a node; its name."""
        name = self.free(suffix)
        self.names.add(name)
        if len(self.nodes) >= MOST_NODES:
            raise self.error("the program is too long once its calls and loops are unrolled")
        row: Json = {"name": name, "op": op, "target": target, "args": list(args)}
        row["kwargs"] = kwargs or {}
        if shape is not None:
            row |= {"shape": list(shape.dims), "dtype": shape.torch}
        if value is not None:
            row["value"] = value
        source, scope = self._source()
        if source:
            row["source"] = source
        if scope:
            row["module"] = scope
        self.nodes.append(row)
        return name

    def _source(self) -> tuple[str, str]:
        if self._from[0] != self.at.line:
            self._from = (self.at.line, self.sources.of(self.at))
        return self._from[1]

    def make(
        self,
        target: str,
        args: Sequence[Any],
        shape: Array | None = None,
        suffix: str = "",
        kwargs: Json | None = None,
    ) -> Value:
        """A node for one tensor, of the instruction's shape unless another is given."""
        shape = self.array() if shape is None else shape
        return Value(self.emit(target, args, shape, suffix, kwargs), shape)

    def item(self, of: str, place: int, shape: Array, suffix: str) -> Value:
        """One tensor out of a list."""
        args = [{"node": of}, place]
        return self.make("<built-in function getitem>", args, shape, suffix)

    def alias(self, x: Value, shape: Array | None = None) -> Value:
        """The same tensor under the name of the instruction at hand."""
        shape = self.array() if shape is None else shape
        self.need(x.shape == shape, f"it is given {x.shape}")
        made = self.make("aten.clone.default", [x.ref], shape)
        self.like(made, x)
        return Value(made.node, made.shape, x.known, x.local, x.shifted)

    def view(self, x: Value, dims: Sequence[int], suffix: str = "") -> Value:
        """The same elements in another shape."""
        shape = Array(x.shape.dtype, tuple(dims))
        made = self.make("aten.view.default", [x.ref, list(dims)], shape, suffix)
        self.like(made, x)
        return made

    def like(self, result: Value, x: Value) -> None:
        """Elements of one are elements of the other."""
        if x.node in self.ranges:
            self.ranges[result.node] = self.ranges[x.node]

    def permuted(self, x: Value, order: Sequence[int], suffix: str = "") -> Value:
        """The dimensions in another order."""
        shape = Array(x.shape.dtype, tuple(x.shape.dims[i] for i in order))
        return self.make("aten.permute.default", [x.ref, list(order)], shape, suffix)

    def cut(self, x: Value, dim: int, low: int, high: int, suffix: str = "") -> Value:
        """Positions of one dimension."""
        dims = [*x.shape.dims[:dim], high - low, *x.shape.dims[dim + 1 :]]
        shape = Array(x.shape.dtype, tuple(dims))
        return self.make("aten.slice.Tensor", [x.ref, dim, low, high, 1], shape, suffix)

    def joined(self, parts: Sequence[Value], dim: int, suffix: str = "") -> Value:
        """Tensors one after the other."""
        self.need(all(part.shape.kin(parts[0].shape) for part in parts), "types differ")
        dims = list(parts[0].shape.dims)
        dims[dim] = sum(p.shape.dims[dim] for p in parts)
        shape = Array(parts[0].shape.dtype, tuple(dims))
        return self.make("aten.cat.default", [[p.ref for p in parts], dim], shape, suffix)

    def filled(self, value: Number, shape: Array, suffix: str = "") -> Value:
        """A number everywhere."""
        kwargs = {"dtype": {"dtype": shape.torch}}
        args = [list(shape.dims), literal(value)]
        name = self.emit("aten.full.default", args, shape, suffix, kwargs)
        return Value(name, shape, Affine(value, (0,) * len(shape.dims)))


def literal(value: Number) -> Any:
    """A number as an argument: what JSON has no word for as an object."""
    if isinstance(value, float) and (value != value or abs(value) == float("inf")):
        return {"float": str(value)}
    return value
