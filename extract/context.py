"""What the lowering of one rank's graph shares between operators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from gg_datalog.errors import InputError
from gg_datalog.extract.graph import Graph, Literal, Node, Ref
from gg_datalog.extract.labels import Naming
from gg_datalog.extract.scale import ONE, Scale, finite, scale
from gg_datalog.extract.side import Side, floated
from gg_datalog.extract.table import Table
from gg_datalog.extract.view import View, broadcast

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
    values: dict[str, Value] = field(default_factory=dict)
    sources: dict[str, View] = field(default_factory=dict)  # inputs, as they were at the start
    memory: dict[str, set[str]] = field(default_factory=dict)  # nodes that may share memory
    consumed: set[str] = field(default_factory=set)  # keywords that the lowering has looked at
    # shapes of the items taken from a node's results, by node and place; filled when asked for
    items: dict[str, dict[int, tuple[int, ...] | None]] = field(default_factory=dict)
    randoms: int = 0
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

    # ---- arguments ---------------------------------------------------------------------------
    def value(self, argument: Any) -> Value:
        """An argument with references replaced by what they stand for."""
        if isinstance(argument, Ref):
            return self.values.get(argument.name)
        if isinstance(argument, tuple):
            return tuple(self.value(a) for a in argument)
        return argument

    def argument(self, place: int, name: str, default: Any = None) -> Any:
        """Argument ``place`` or keyword ``name``, resolved."""
        if place < len(self.node.args):
            return self.value(self.node.args[place])
        self.consumed.add(name)
        return self.value(self.node.kwargs.get(name, default))

    def tensor(self, place: int, name: str = "") -> View:
        """The same, where a tensor is expected; a number becomes a constant. Without a name the
        first one is `self`, and others cannot be keywords."""
        found = self.as_tensor(self.argument(place, name or ("" if place else "self")))
        if found is None:
            raise Unsupported(f"argument {place} is not one tensor")
        return found

    def as_tensor(self, value: Value) -> View | None:
        """A view for a tensor or a number."""
        if isinstance(value, View):
            return value
        if isinstance(value, (int, float)):
            if not finite(value):
                raise Unsupported(f"a constant {value}")
            return self.side.constant(scale(value))
        return None

    def number(self, place: int, name: str, default: Any = None) -> Scale | None:
        """A scalar argument as a coefficient: a number, or a tensor whose value is known."""
        value = self.argument(place, name, default)
        if isinstance(value, (int, float)):
            return scale(value) if finite(value) else None
        if isinstance(value, View) and not any(d.dim >= 0 for dim in value.dims for d in dim):
            if self.side.is_zero(value):
                return Scale(scale(0).ratio)
            if self.side.is_one(value):
                return value.scale
        return None

    def sizes(self, place: int, name: str) -> tuple[int, ...]:
        """A list of sizes."""
        value = self.argument(place, name)
        if isinstance(value, int):
            value = (value,)
        if not isinstance(value, tuple) or not all(isinstance(v, int) for v in value):
            raise Unsupported(f"sizes {value!r} are not known")
        return value

    def dims(self, place: int, name: str, rank: int, default: Any = ()) -> tuple[int, ...]:
        """Dimension numbers, negative ones counted from the end; empty or None is all of them."""
        value = self.argument(place, name, default)
        value = (value,) if isinstance(value, int) else value
        if not value:
            return tuple(range(rank))
        return tuple(self.dim(v, rank) for v in value)

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
    ) -> list[View]:
        """An operator that works element by element, but for dimensions ``whole``."""
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
    ) -> list[View]:
        """An operator of the side; :class:`Unsupported` where its digits do not fit."""
        outs = self.side.operator(
            signature, operands, results, naming, created, numbered, linear, passes
        )
        if outs is None:
            raise Unsupported("its dimensions do not split into whole digits")
        return [View(o.base, dims) for o in outs] if dims is not None else outs

    def random(self, name: str) -> str:
        """A signature for the next random operator of this rank: paired by order."""
        self.randoms += 1
        self.side.draws.add(f"{name}#{self.randoms - 1}")
        paired = self.notes.randoms.setdefault(name, set())
        paired.add(self.randoms - 1)
        return f"{name}#{self.randoms - 1}"


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


Handler = Callable[[Context], Value]
HANDLERS: dict[str, Handler] = {}


def lowers(*names: str) -> Callable[[Handler], Handler]:
    """Registers how operators with these names (without overload) are lowered."""

    def register(handler: Handler) -> Handler:
        for name in names:
            HANDLERS[name] = handler
        return handler

    return register


DEFAULTS = (("approximate", "none"),)  # keywords that say what their absence says


def attributes(ctx: Context, skip: Sequence[int | str] = ()) -> str:
    """Every attribute that means something, as text for the signature: the whole argument tree,
    tensors as ``%``, without placement."""
    ctx.consumed.update(ctx.node.kwargs)
    parts = [_text(ctx, a) for i, a in enumerate(ctx.node.args) if i not in skip]
    parts += [
        f"{k}={_text(ctx, a)}"
        for k, a in sorted(ctx.node.kwargs.items())
        if k not in skip and k not in ctx.table.placement and (k, a) not in DEFAULTS
    ]
    return ", ".join(parts)


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


def one() -> Scale:
    """The coefficient 1."""
    return ONE
