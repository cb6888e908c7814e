"""Running through a program instruction by instruction: what is known is computed, calls are
inlined, everything else is translated by the handler of its opcode."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from gg_datalog.foundation.errors import InputError
from gg_datalog.readers.hlo_devices import BadGroups
from gg_datalog.readers.hlo_fold import fold
from gg_datalog.readers.hlo_graph import Recipe, Result, Value, Writer, literal
from gg_datalog.readers.hlo_known import Affine, Known, Table, number
from gg_datalog.readers.hlo_literals import BadLiteral, Number, read_literal
from gg_datalog.readers.hlo_scan import Unbalanced
from gg_datalog.readers.hlo_shapes import Array, Shape
from gg_datalog.readers.hlo_text import Computation

MALFORMED = (BadGroups, BadLiteral, Unbalanced, ValueError, LookupError, ArithmeticError)
# What is made of an index by these is still that index.
MOVES = frozenset(["reshape", "bitcast", "broadcast", "convert", "transpose", "copy", "slice"])
SHORT = 64  # elements of a literal that are written out; more are told by their digest
Lookup: TypeAlias = "tuple[Value, Value, list[object], Array]"  # table, ids, attributes, shape
Handler: TypeAlias = "Callable[[Program], Result]"
HANDLERS: dict[str, Handler] = {}


def lowers(*opcodes: str) -> Callable[[Handler], Handler]:
    """Registers the handler of opcodes."""

    def register(handler: Handler) -> Handler:
        HANDLERS.update(dict.fromkeys(opcodes, handler))
        return handler

    return register


@dataclass
class Program(Writer):
    """One device's program while it is translated."""

    fallback: Handler = lambda program: None
    lookups: dict[str, Lookup] = field(default_factory=dict)  # by node: how it was looked up
    spread: dict[str, tuple[Value, list[int]]] = field(default_factory=dict)  # repeated masks

    # ---- operands and attributes of the instruction at hand
    def result(self, place: int) -> Result:
        """An operand: a tensor, a tuple, or None for what holds no data."""
        self.need(place < len(self.at.operands), f"it has no operand {place}")
        name = self.at.operands[place]
        if name not in self.env:
            raise self.error(
                f"its operand `{name}` is not defined before it", "dump the whole computation"
            )
        return self.env[name]

    def operand(self, place: int) -> Value:
        """An operand that is one tensor."""
        found = self.result(place)
        if not isinstance(found, Value):
            raise self.error(f"operand {place} is not one tensor", "dump it again")
        return found

    def operands(self) -> list[Value]:
        """All operands, each one tensor."""
        return [self.operand(i) for i in range(len(self.at.operands))]

    def called(self, key: str = "to_apply") -> Computation:
        """The computation that an attribute names."""
        name = self.at.attributes.get(key, "").lstrip("%")
        if name not in self.module.computations:
            raise self.error(f"`{key}` names no computation ({name!r})", "dump the whole module")
        return self.module.computations[name]

    # ---- running
    def run(self, computation: Computation, arguments: Sequence[Result] | None) -> Result:
        """What a computation gives; without arguments it is the entry."""
        outer, at = self.env, self.at
        self.env = {}
        for instruction in computation.instructions:
            self.at = instruction
            self.env[instruction.name] = self._value(arguments)
        given = self.env[computation.root.name]
        self.env, self.at = outer, at
        return given

    def inline(
        self, computation: Computation, arguments: Sequence[Result], tag: str = ""
    ) -> Result:
        """A computation in place of its call."""
        if self.path.count("/") > 200:
            raise self.error("calls nest too deeply")
        path, self.path = self.path, f"{self.path}{self.at.name}{tag}/"
        try:
            return self.run(computation, arguments)
        finally:
            self.path = path

    def _value(self, arguments: Sequence[Result] | None) -> Result:
        try:
            if self.at.opcode == "parameter" and arguments is not None:
                return self._argument(arguments)
            return self._lowered()
        except InputError:
            raise
        except MALFORMED as error:
            text = f"{type(error).__name__}: " if isinstance(error, LookupError) else ""
            raise self.error(f"{text}{error}", "dump it again") from None
        except RecursionError:
            raise self.error("it nests too deeply", "dump it again") from None

    def _argument(self, arguments: Sequence[Result]) -> Result:
        place = int(self.at.inner)
        self.need(place < len(arguments), f"the call gives {len(arguments)} operands")
        given = arguments[place]
        self.need(shape_of(given) in (None, self.at.shape), f"it is given {shape_of(given)}")
        return given

    def _lowered(self) -> Result:
        opcode, shape = self.at.opcode, self.at.shape
        known = fold(self)
        values = [v for name in self.at.operands if isinstance(v := self.env.get(name), Value)]
        local = opcode in ("partition-id", "replica-id") or any(v.local for v in values)
        if known is not None and isinstance(shape, Array) and opcode != "constant":
            scalar = not shape.dims and shape.integers
            made = self.constant(known, shape, local) if local or scalar else None
            if made is not None:
                return replace(made, local=local)
        result = HANDLERS.get(opcode, self.fallback)(self)
        if not isinstance(result, Value):
            return result
        halves = opcode.endswith(("-start", "-update"))  # what they give is told by the other half
        if result.shape != shape and not halves:
            self.need(False, f"it is said to give {shape}, it gives {result.shape}")
        shifted = opcode in MOVES and any(v.shifted for v in values)
        return replace(
            result,
            known=result.known if known is None else known,
            local=result.local or (known is not None and local),
            shifted=result.shifted or shifted,
        )

    # ---- constants
    def constant(self, known: Known, shape: Array, local: bool = False) -> Value | None:
        """A node without operands that holds known elements; None where there is none."""
        value = number(known)
        if value is not None and not shape.dims and abs(value) < float("inf"):
            name = self.emit("constant", [], shape, op="get_attr", value=value)
            return Value(name, shape, known)
        if value is not None:
            return self.filled(value, shape)
        if isinstance(known, Affine):
            return self._range(known, shape, local)
        return Value(self._table(known, shape), shape, known)

    def _range(self, known: Affine, shape: Array, local: bool) -> Value | None:
        """Numbers in steps along one dimension. What a device counts in larger steps stays the
        product that it is: the sequential program's is one, too."""
        dims = [i for i, step in enumerate(known.steps) if step]
        if len(dims) != 1 or (local and known.steps[dims[0]] != 1):
            return None
        step, count = known.steps[dims[0]], shape.dims[dims[0]]
        row = Array(shape.dtype, (count,))
        if shape == row:
            return self.counting(known, row, local=local)
        line = self.counting(Affine(known.base, (step,)), row, "range", local)
        made = self.make("hlo.broadcast", [line.ref, dims, list(shape.dims)])
        return replace(made, known=known)

    def counting(self, known: Affine, shape: Array, suffix: str = "", local: bool = False) -> Value:
        """``arange``; the same numbers are written once."""
        key = (known, shape, local)
        if key in self.recipes:
            first = Value(self.recipes[key].node, shape, known)
            made = self.make("aten.clone.default", [first.ref], shape, suffix)
            return replace(made, known=known)
        start, step = int(known.base), known.steps[0]
        end = start + step * shape.dims[0]
        args = [start, end] if step == 1 else [start, end, step]
        target = "aten.arange.start" if step == 1 else "aten.arange.start_step"
        name = self.emit(target, args, shape, suffix, {"dtype": {"dtype": shape.torch}})
        self.recipes[key] = Recipe(name, shape, known, local, self.at.name)
        return Value(name, shape, known)

    def _table(self, known: Table, shape: Array) -> str:
        return self.literal(shape, known.values)

    def literal(self, shape: Array, values: Sequence[Number]) -> str:
        """A node for an array constant, told from any other."""
        if len(values) <= SHORT:
            listed = [literal(v) for v in values]
            return self.emit("hlo.constant", [shape.dtype, list(shape.dims), listed], shape)
        from hashlib import sha256

        return self.worded(shape, sha256(repr(list(values)).encode()).hexdigest())

    def worded(self, shape: Array, text: str) -> str:
        """The same, told by a text."""
        args = [shape.dtype, list(shape.dims)]
        return self.emit("hlo.constant", args, shape, kwargs={"text": text})


def shape_of(result: Result) -> Shape | None:
    """The shape of a result; None where a part of it holds no data."""
    if isinstance(result, Value):
        return result.shape
    if result is None:
        return None
    shapes = [shape_of(item) for item in result]
    return None if None in shapes else tuple(s for s in shapes if s is not None)


@lowers("constant")
def constant(p: Program) -> Result:
    """A literal; one that the text leaves out has no known value."""
    shape = p.array()
    if shape.dtype in ("c64", "c128") or shape.dtype.startswith("f8"):
        return Value(p.worded(shape, " ".join(p.at.inner.split())), shape)
    values = read_literal(p.at.inner, shape)
    if values is None:
        p.warnings.setdefault(f"`{p.at.name}`: the text leaves the constant's elements out")
        return Value(p.emit(p.at.name, [], shape, op="get_attr"), shape)
    known = fold(p)
    made = None if known is None else p.constant(known, shape)
    return made or Value(p.literal(shape, values), shape)
