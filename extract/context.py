"""What the lowering of one rank's graph shares between operators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gg_datalog.extract.dtypes import cast, is_float, span, valued
from gg_datalog.extract.graph import Graph, Literal, Node, Ref, extents, is_symbolic
from gg_datalog.extract.labels import Naming
from gg_datalog.extract.piecewise import by_piece
from gg_datalog.extract.scale import Scale, finite, scale
from gg_datalog.extract.side import Side, floated
from gg_datalog.extract.signature import REQUIRED
from gg_datalog.extract.table import Table
from gg_datalog.extract.view import View, broadcast
from gg_datalog.foundation.errors import InputError

if TYPE_CHECKING:
    from gg_datalog.extract.collectives import Transfer
    from gg_datalog.extract.flight import Flight

Value = Any  # View, a tuple of values, a number, a literal, or None


@dataclass
class Notes:
    """What the user has to be told beside the facts."""

    assumptions: dict[tuple[str, str], None] = field(default_factory=dict)
    unsupported: list[tuple[str, int, str, str, str]] = field(default_factory=list)
    opaque: list[tuple[str, int, str, str]] = field(default_factory=list)
    uninitialised: list[tuple[str, int, str]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    randoms: dict[str, set[int]] = field(default_factory=dict)

    def assume(self, kind: str, text: str) -> None:
        """Something taken on trust; said once."""
        self.assumptions.setdefault((kind, text))


@dataclass
class Context:
    """One rank's graph while it is lowered."""

    graph: Graph
    side: Side
    table: Table
    notes: Notes
    related: frozenset[str]  # names that the input relations speak of
    ids: dict[str, tuple[int, int]] = field(default_factory=dict)  # inputs: between what they lie
    values: dict[str, Value] = field(default_factory=dict)
    sources: dict[str, View] = field(default_factory=dict)  # inputs, as they were at the start
    memory: dict[str, set[str]] = field(default_factory=dict)  # nodes that may share memory
    consumed: set[str | int] = field(default_factory=set)  # arguments that were looked at
    # shapes of the items taken from a node's results, by node and place; filled when asked for
    items: dict[str, dict[int, tuple[int, ...] | None]] = field(default_factory=dict)
    randoms: int = 0
    # by what is drawn, and how: the number of the random operator
    drawn: dict[tuple[str, str], int] = field(default_factory=dict)
    started: dict[str, Transfer] = field(default_factory=dict)  # some node waits for them
    flights: dict[str, Flight] = field(default_factory=dict)  # collectives not waited for yet
    collectives: set[str] = field(default_factory=set)  # nodes of collectives that are waited for
    waits: set[str] | None = None  # nodes that are waited for, once asked for
    early: list[tuple[int, str, str, str]] = field(default_factory=list)  # reads, writes in flight
    node: Node = None  # type: ignore[assignment]

    @property
    def rank(self) -> int:
        """The rank of the graph."""
        return self.graph.rank

    def where(self) -> str:
        """The node at hand, for messages."""
        return f"{self.graph.path}: node `{self.node.name}`"

    def source_of(self, name: str) -> Value:
        """What a node stood for before anything was written into it."""
        return self.sources.get(name, self.values.get(name))

    # ---- arguments, by name ------------------------------------------------------------------
    def value(self, argument: Any) -> Value:
        """An argument with references replaced by what they stand for."""
        if isinstance(argument, Ref):
            return self.values.get(argument.name)
        if isinstance(argument, tuple):
            return tuple(self.value(a) for a in argument)
        return argument

    def raw(self, *names: str | int, default: Any = None) -> Any:
        """The argument of the first of these names that the operator has (of kernels without a
        signature: the position), as it was captured; ``default`` where it has none."""
        for name in names:
            if name in self.node.bound:
                self.consumed.add(name)
                return self.node.bound[name]
        return default

    def argument(self, *names: str | int, default: Any = None) -> Any:
        """The same, references replaced by what they stand for."""
        return self.value(self.raw(*names, default=default))

    def tensor(self, *names: str | int) -> View:
        """The same, where a tensor is expected; a number becomes a constant."""
        found = self.as_tensor(self.argument(*names))
        if found is None:
            raise Unsupported(f"argument `{names[0]}` is not one tensor")
        return found

    def operand(self, *names: str | int) -> View:
        """A tensor argument in the type of the result, as arithmetic takes it."""
        return cast(self, self.tensor(*names), self.dtype(*names), self.node.dtype or "")

    def as_tensor(self, value: Value) -> View | None:
        """A view for a tensor or a number."""
        if isinstance(value, View):
            return value
        if isinstance(value, (int, float)):
            if not finite(value):
                raise Unsupported(f"a constant {value}")
            return self.side.constant(self.scale(value))
        return None

    def number(self, *names: str | int, default: Any = None) -> Scale | None:
        """A scalar argument as a coefficient: a number, or a tensor whose value is known."""
        return self.as_number(self.argument(*names, default=default))

    def scale(self, value: float | int) -> Scale:
        """A number of the program as a coefficient."""
        return scale(value, self.side.single)

    def as_number(self, value: Value) -> Scale | None:
        """The coefficient that a number, or a tensor whose value is known, stands for."""
        if isinstance(value, (int, float)):
            return self.scale(value) if finite(value) else None
        if isinstance(value, View) and not any(d.dim >= 0 for dim in value.dims for d in dim):
            if self.side.is_zero(value):
                return Scale(scale(0).ratio)
            if self.side.is_one(value):
                return value.scale
        return None

    def sizes(self, *names: str | int) -> tuple[int, ...]:
        """A list of sizes."""
        value = self.argument(*names)
        if isinstance(value, int):
            value = (value,)
        if not isinstance(value, tuple) or not all(isinstance(v, int) for v in value):
            raise Unsupported(f"sizes {value!r} are not known")
        return value

    def dims(self, rank: int, *names: str | int) -> tuple[int, ...]:
        """Dimension numbers, negative ones counted from the end; empty or None is all of them."""
        value = self.argument(*names)
        value = (value,) if isinstance(value, int) else value
        if not value:
            return tuple(range(rank))
        found = tuple(self.dim(v, rank) for v in value)
        return found if rank else ()

    def dim(self, value: Any, rank: int) -> int:
        """One dimension number."""
        if not isinstance(value, int) or not -max(rank, 1) <= value < max(rank, 1):
            raise InputError(
                f"dimension {value!r} is out of range for {rank} dimensions", self.where()
            )
        return value % rank if rank else 0

    def dtype_of(self, argument: Any) -> str:
        """The dtype of the node that an argument refers to."""
        if isinstance(argument, Ref):
            return self.graph.nodes[argument.name].dtype or ""
        return {bool: "bool", int: "int64", float: "float32"}.get(type(argument), "")

    def read(self) -> dict[str | int, Any]:
        """The arguments that are read: without memory that is only given for the results."""
        given = self.node.signature
        out = () if given is None else {p.name for p in given.parameters if p.out}
        return {name: value for name, value in self.node.bound.items() if name not in out}

    def named(self, which: int | str) -> int | str:
        """The name of an argument that a table gives by its position."""
        given = self.node.signature
        if given is None or isinstance(which, str):
            return which
        names = [p.name for p in given.parameters]
        return names[which] if which < len(names) else which

    def default(self, name: str | int) -> Any:
        """What an argument is where it is not given; of kernels without a signature, keywords are
        None and positions have to be given."""
        if self.node.signature is None:
            return REQUIRED if isinstance(name, int) else None
        return self.node.signature.default(str(name))

    def dtype(self, *names: str | int) -> str:
        """The dtype of a tensor argument."""
        return self.dtype_of(self.raw(*names))

    # ---- operators
    def elementwise(
        self,
        signature: str,
        views: Sequence[View],
        whole: Sequence[int] = (),
        linear: Sequence[int] = (),
        passes: Sequence[tuple[int, str]] = (),
        results: int = 1,
        numbered: bool = True,
        formal: bool = False,
    ) -> list[View]:
        """An operator that works element by element, but for dimensions ``whole``."""
        views = views if formal else [valued(self, v) for v in views]
        if not whole and numbered and is_float(self.node.dtype or "float"):

            def apply(row: list[View]) -> list[View]:
                if linear and all(self.side.is_zero(view) for view in row):  # padding
                    zeros = self.side.constant(scale(0)).expanded(broadcast(row))
                    if zeros is not None:
                        return [zeros] * results
                return self.elementwise(signature, row, (), linear, passes, results)

            if (pieces := by_piece(self.side, views, apply)) is not None:
                return pieces
        views, dims = self.aligned(views, bool(whole))
        letters = [str(i) for i in range(len(views[0].dims))]
        named = {str(i) for i in whole}

        def naming(letter: str, places: tuple[int, ...]) -> tuple[str, str]:
            return (f"w{letter}", "whole") if letter in named else ("e", "parallel")

        return self.apply(
            signature,
            [(v, letters) for v in views],
            [letters] * results,
            naming,
            linear,
            passes,
            numbered=numbered,
            dims=dims,
            formal=formal,
        )

    def aligned(self, views: Sequence[View], natural: bool = False) -> tuple[list[View], Any]:
        """Views broadcast against each other. Where all of them lie over their bases in the same
        way, the bases themselves, and the dims that lead back: views float outwards."""
        rank = len(broadcast(views))
        views = [View(v.base, ((),) * (rank - len(v.dims)) + v.dims, v.scale) for v in views]
        return (list(views), None) if natural else floated(views)

    def apply(
        self,
        signature: str,
        operands: Any,
        results: Any,
        naming: Naming,
        linear: Sequence[int] = (),
        passes: Sequence[tuple[int, str]] = (),
        created: dict[str, int] | None = None,
        numbered: bool = True,
        dims: Any = None,
        formal: bool = False,
    ) -> list[View]:
        """An operator of the side; :class:`Unsupported` where its digits do not fit. Formal
        integers come in as such where it is ``formal``, else as the numbers that they are."""
        if not formal:
            operands = [(valued(self, view), letters) for view, letters in operands]
        outs = self.side.operator(
            signature, operands, results, naming, created, numbered, linear, passes, formal
        )
        if outs is None:
            raise Unsupported("its dimensions do not split into whole digits")
        return [View(o.base, dims) for o in outs] if dims is not None else outs

    def random(self, name: str) -> str:
        """A signature for the next random operator of this rank: paired by order. What draws the
        same numbers once more (to compute an activation again) is the same operator."""
        again = (self.node.draw, name)
        if not self.node.draw or again not in self.drawn:
            self.drawn[again] = self.randoms
            self.randoms += 1
        number = self.drawn[again]
        self.side.draws.add(f"{name}#{number}")
        self.notes.randoms.setdefault(name, set()).add(number)
        return f"{name}#{number}"


class Unsupported(Exception):
    """The operator at hand cannot be described; it stays uninterpreted."""


# What arguments of the wrong kind or number come out as.
SENSELESS = (AttributeError, LookupError, TypeError, ValueError, ArithmeticError)


def senseless(ctx: Context, error: Exception) -> InputError:
    """The error for arguments that the operator at hand cannot have."""
    what = str(error) if type(error) is ValueError else f"{type(error).__name__}: {error}"
    return InputError(
        f"arguments of `{ctx.node.target}` do not make sense ({what})",
        ctx.where(),
        "check the node's args, kwargs and shape",
    )


def used(ctx: Context) -> None:
    """:class:`Unsupported` where an argument has no part in the description, unless it says what
    its absence says or cannot change a value."""
    node = ctx.node
    written = () if node.signature is None else node.signature.written(node.bound)
    for name, value in node.bound.items():
        silent = name in ctx.consumed or name in ctx.table.placement or name in written
        if not silent and value is not None and not same(value, ctx.default(name)):
            raise Unsupported(f"argument `{name}` is not described")


Handler = Callable[[Context], Value]
HANDLERS: dict[str, Handler] = {}


def lowers(*names: str) -> Callable[[Handler], Handler]:
    """Registers how operators with these names (without overload) are lowered."""

    def register(handler: Handler) -> Handler:
        for name in names:
            HANDLERS[name] = handler
        return handler

    return register


def attributes(ctx: Context, skip: Sequence[int | str] = ()) -> str:
    """Every argument that means something, as text for the signature: the whole argument tree,
    tensors as ``%``, without placement. Those that have to be given come without their names, the
    others where they are not what they are by default."""
    ctx.consumed.update(ctx.node.bound)
    parts = []
    for name, value in ctx.read().items():
        default = ctx.default(name)
        if name in skip or name in ctx.table.placement or same(value, default):
            continue
        text = _text(ctx, value)
        parts.append(text if default is REQUIRED else f"{name}={text}")
    return ", ".join(parts)


def same(value: Any, default: Any) -> bool:
    """Is it the default? (A word of a schema may be a literal of a graph.)"""
    return type(value) is not Ref and (value is default or value == default)


def _text(ctx: Context, argument: Any) -> str:
    if isinstance(argument, Ref):
        value = ctx.values.get(argument.name)
        if value is None:
            raise Unsupported(f"the value of `{argument.name}` is not known")
        return _shape_of(value) if isinstance(value, (View, tuple)) else repr(value)
    if isinstance(argument, tuple):
        return "[" + ", ".join(_text(ctx, a) for a in argument) + "]"
    if isinstance(argument, Literal):
        return argument.value
    return repr(argument)


def _shape_of(value: Value) -> str:
    """How tensors are nested: two lists of tensors are not one list."""
    if isinstance(value, tuple):
        return "[" + ", ".join(map(_shape_of, value)) + "]"
    return "%"


def result_shapes(ctx: Context, node: Node) -> list[tuple[int, ...] | None]:
    """Shapes of the results: of the node, or as the items taken from it tell."""
    if node.shape is not None:
        return [] if any(isinstance(e, str) for e in node.shape) else [_ints(node.shape)]
    if not ctx.items:
        ctx.items.update(_items(ctx))
    found = ctx.items.get(node.name, {})
    return [found.get(i) for i in range(max(found) + 1)] if found else []


def _items(ctx: Context) -> dict[str, dict[int, tuple[int, ...] | None]]:
    """The shapes of the items that a graph takes from nodes, by node and place."""
    found: dict[str, dict[int, tuple[int, ...] | None]] = {"": {}}  # looked for, even if none
    for user in ctx.graph.nodes.values():
        if len(user.args) != 2 or "getitem" not in user.target:
            continue
        of, place = user.args
        shape = extents(user.shape)
        if isinstance(of, Ref) and isinstance(place, int) and shape is not None:
            symbolic = any(isinstance(e, str) for e in shape)
            found.setdefault(of.name, {})[place] = None if symbolic else _ints(shape)
    return found


def _ints(shape: tuple[Any, ...]) -> tuple[int, ...]:
    return tuple(int(e) for e in shape)


def in_type(ctx: Context, value: Scale) -> None:
    """:class:`Unsupported` for a number that is cut to the type of the result."""
    dtype = ctx.node.dtype or "float"
    if is_float(dtype) or dtype.startswith("complex"):
        return
    number = value.integer
    room = span(dtype)
    if number is None or (room is not None and not room[0] <= number <= room[1]):
        raise Unsupported(f"a number that is cut to {dtype}")


def count(elements: int) -> Scale:
    """A number of elements as a coefficient."""
    if is_symbolic(elements):
        raise Unsupported("a number of elements that depends on data")
    return scale(elements)
