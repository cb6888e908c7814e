"""What each node computes: torch in float64 on the CPU, other kernels by a stand-in."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeAlias

import torch

from gg_datalog.extract.table import Row, Table
from gg_datalog.replay.standins import each, opaque, stand_in
from gg_datalog.replay.tensor import Tensor

PLACEMENT = ("device", "layout", "pin_memory", "non_blocking", "memory_format", "generator")
IDENTITY = ("wait_tensor", "log_tensor", "inplace_log_tensor", "convert", "copy_from")
EMPTY = ("aten.empty", "aten.empty_like", "aten.new_empty", "aten.empty_strided",
         "aten.new_empty_strided", "aten.empty_permuted")  # fmt: skip

OWN = ("aten", "prims")
VIEWS = ("aten.view", "aten._unsafe_view", "aten.reshape")
COUNTS = ("hlo.iota", "prims.iota")
# Arithmetic on sizes.
OPERATORS = {
    form: name
    for name in ("add", "sub", "mul", "floordiv", "truediv", "mod", "neg")
    for form in (f"<built-in function {name}>", f"_operator.{name}")
}
Shapes: TypeAlias = Sequence[Sequence[int] | None] | None


class NotExecuted(Exception):
    """A node that cannot be executed: what is missing."""


def dtype_of(name: str | None) -> torch.dtype | None:
    """The type to compute in: float64 for every float, int64 for every integer."""
    if name is None or name == "":
        return None
    name = name.removeprefix("torch.")
    if name == "bool":
        return torch.bool
    if name.startswith("complex"):
        return torch.complex128
    return torch.int64 if name.startswith(("int", "uint", "long", "short")) else torch.float64


def literal(argument: Mapping[str, Any]) -> Any:
    """A literal of a graph: types, infinite floats; what says where a tensor lies means nothing."""
    if "dtype" in argument:
        return dtype_of(argument["dtype"])
    if "float" in argument:
        return float(argument["float"])
    return slice(*argument["slice"]) if "slice" in argument else None


HLO: dict[str, Callable[..., Any]] = {}


def hlo(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Registers an operator of HLO."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        HLO[f"hlo.{name}"] = function
        return function

    return register


@hlo("dot")
def _dot(a: Tensor, b: Tensor, ka: Any, kb: Any, na: Any = None, nb: Any = None) -> Tensor:
    ka, kb, na, nb = (list(x or []) for x in (ka, kb, na, nb))
    left, right = list(range(a.dim())), [a.dim() + j for j in range(b.dim())]
    for i, j in zip([*ka, *na], [*kb, *nb], strict=True):
        right[j] = left[i]
    out = [left[i] for i in na]
    out += [n for i, n in enumerate(left) if i not in (*ka, *na)]
    out += [n for j, n in enumerate(right) if j not in (*kb, *nb)]
    return torch.einsum(a, left, b, right, out)


@hlo("broadcast")
def _broadcast(x: Any, dims: Sequence[int], shape: Sequence[int]) -> Tensor:
    x = torch.as_tensor(x, dtype=torch.float64) if not isinstance(x, torch.Tensor) else x
    places = [d % len(shape) for d in dims][: x.dim()]
    order = sorted(range(x.dim()), key=lambda i: places[i])
    wide = [1] * len(shape)
    for extent, dim in zip(x.shape, places, strict=True):
        wide[dim] = extent
    return x.permute(order).reshape(wide).expand(list(shape))


@hlo("gather")
def _gather(x: Tensor, ids: Tensor, offsets: Any, collapsed: Any, *rest: Any) -> Tensor:
    _, vector, _ = rest
    if len(collapsed) != 1:
        raise NotExecuted("a gather of several dimensions")
    ids = ids.squeeze(vector) if vector < ids.dim() else ids
    moved = x.movedim(collapsed[0], 0)[ids.long()]
    batch = [i for i in range(moved.dim()) if i not in offsets]
    order = [*batch, *offsets]
    return moved.permute([order.index(i) for i in range(moved.dim())])


@hlo("select")
def _select(mask: Tensor, a: Any, b: Any) -> Tensor:
    return torch.where(mask.bool(), a, b)


@hlo("reduce_max")
def _reduce_max(x: Tensor, dim: Any, keepdim: bool = False) -> Tensor:
    return x.amax(dim, keepdim)


@hlo("reduce_add")
def _reduce_add(x: Tensor, dim: Any, keepdim: bool = False) -> Tensor:
    return x.sum(dim, keepdim)


@hlo("reduce_min")
def _reduce_min(x: Tensor, dim: Any, keepdim: bool = False) -> Tensor:
    return x.amin(dim, keepdim)


@hlo("concatenate")
def _concatenate(parts: Sequence[Tensor], dim: int = 0) -> Tensor:
    return torch.cat(list(parts), dim)


@hlo("logistic")
def _logistic(x: Tensor) -> Tensor:
    return x.sigmoid()


def name_of(target: str) -> str:
    """The target without its overload."""
    return target.rpartition(".")[0] if target.count(".") > 1 else target


def constant(node: Mapping[str, Any]) -> Tensor:
    """A number that the graph holds."""
    if not has_value(node):
        raise NotExecuted(f"nothing is known of constant `{node['name']}`")
    shape, dtype = node.get("shape") or [], dtype_of(node.get("dtype")) or torch.float64
    return torch.full(shape, node["value"], dtype=torch.float64).to(dtype)


def has_value(node: Mapping[str, Any]) -> bool:
    """Is it a constant whose number is known?"""
    return node["op"] == "get_attr" and isinstance(node.get("value"), (int, float))


def compute(
    table: Table,
    target: str,
    args: list[Any],
    kwargs: dict[str, Any],
    node: Any,
    shapes: Shapes = None,
) -> Any:
    """The value of a node that is neither a collective nor random; ``shapes`` are those of its
    results, where it has several."""
    if not args and "self" in kwargs:
        args, kwargs = [kwargs["self"]], {k: v for k, v in kwargs.items() if k != "self"}
    name = name_of(args[0] if target.startswith("auto_functionalized") else target)
    name = table.aliases.get(name, name)
    try:
        return _computed(table, target, name, args, kwargs, node, shapes)
    except NotImplementedError:  # torch has no kernel for the CPU
        if name in table.rows:
            return by_rows(table.rows[name], args, kwargs, node, table.placement)
        return _unknown(name, args, kwargs, node, shapes)


def _computed(
    table: Table,
    target: str,
    name: str,
    args: list[Any],
    kwargs: dict[str, Any],
    node: Any,
    shapes: Shapes,
) -> Any:
    if target.startswith("auto_functionalized"):
        return _functionalised(table, name, args, kwargs, node, shapes)
    if name in EMPTY:
        return torch.full(node["shape"], float("nan"), dtype=torch.float64)
    if name in table.rows and not name.startswith("aten."):
        try:
            return by_rows(table.rows[name], args, kwargs, node, table.placement)
        except (AttributeError, LookupError, RuntimeError, TypeError, ValueError):
            return _unknown(name, args, kwargs, node, shapes)  # operands that are not as it says
    if name in HLO:
        return HLO[name](*args, **kwargs)
    if name in COUNTS:
        return _counted(args, kwargs, node)
    if name in table.elementwise and name.partition(".")[0] not in OWN:
        return elementwise(table, name, args, kwargs)
    if name == "aten.to":
        return args[0]
    if name in OPERATORS:
        return getattr(operator, OPERATORS[name])(*args)
    if name in table.identity and not name.startswith(("aten.", "prims.")):
        which = table.identity[name]
        return args[which] if isinstance(which, int) else kwargs[which]
    if name == "prims.convert_element_type":
        return args[0]
    if name in VIEWS and target.startswith("aten.flatten"):
        return getattr(torch.ops.aten.flatten, target.rpartition(".")[2])(*args, **kwargs)
    if name in VIEWS:
        asked = args[1] if len(args) > 1 else kwargs.get("size", kwargs.get("shape"))
        return args[0].reshape(asked)
    kernels = _torch(target if name == name_of(target) else name)
    if not kernels:
        return _unknown(name, args, kwargs, node, shapes)
    kept = {k: v for k, v in kwargs.items() if k not in PLACEMENT}
    if name in table.rows:  # some kernels read memory as it lies there
        args = [a.contiguous() if isinstance(a, torch.Tensor) else a for a in args]
    for kernel in kernels[:-1]:  # the overload that the graph names, if the arguments are its own
        with suppress(RuntimeError, TypeError):
            return kernel(*args, **kept)
    return kernels[-1](*args, **kept)


def _torch(target: str) -> list[Callable[..., Any]]:
    """torch's own operator of that name: its overload, and all of them together."""
    space, kernel, *overload = [*target.split("."), ""]
    packet = getattr(getattr(torch.ops, space), kernel, None) if space in OWN else None
    if packet is None:
        return []
    overload = overload[:-1]
    found = getattr(packet, overload[0], None) if overload else None
    return [packet] if found is None else [found, packet]


def _unknown(name: str, args: list[Any], kwargs: dict[str, Any], node: Any, shapes: Shapes) -> Any:
    """A function of all operands and attributes."""
    given, told = tensors([args, kwargs]), attributes(args, kwargs)
    if (shape := node.get("shape")) is not None:
        made = opaque(name, given, told, shape)
        return made > 0 if dtype_of(node.get("dtype")) == torch.bool else made
    if not shapes:
        raise NotExecuted(f"`{name}` is not known, and its results' shapes are not given")
    return tuple(
        None if s is None else opaque(f"{name}[{i}]", given, told, s) for i, s in enumerate(shapes)
    )


def _counted(args: Sequence[Any], kwargs: Mapping[str, Any], node: Any) -> Tensor:
    """0, 1, 2, ... as HLO counts."""
    numbers = [a for a in args if isinstance(a, (int, float))]
    start = numbers[0] if len(numbers) > 1 else kwargs.get("start", 0)
    step = numbers[2] if len(numbers) > 2 else kwargs.get("step", 1)
    return torch.arange(node["shape"][0]) * step + start


def elementwise(table: Table, name: str, args: list[Any], kwargs: dict[str, Any]) -> Tensor:
    """A stand-in for a kernel that the table says works element by element."""
    told, given = attributes(args, kwargs, (), table.placement), tensors([args, kwargs])
    flags = set(table.elementwise[name])
    if not args or not isinstance(args[0], torch.Tensor):
        flags -= {"linear"}
    if {name.rpartition(".")[2], f"{name.rpartition('.')[2]}({told})"} & table.commutative:
        flags |= {"commutative"}
    return each(f"{name}({told})", given, flags)


def tensors(value: Any) -> list[Tensor]:
    """The tensors of an argument tree."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        return [t for _, v in sorted(value.items()) for t in tensors(v)]
    return [t for v in value for t in tensors(v)] if isinstance(value, (list, tuple)) else []


def attributes(
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    skip: Sequence[Any] = (),
    placement: Iterable[str] = (),
) -> str:
    """Everything that is no tensor, and does not say where one lies, as text."""
    told = [_told(a) for i, a in enumerate(args) if i not in skip]
    kept = sorted((k, v) for k, v in kwargs.items() if k not in (*skip, *PLACEMENT, *placement))
    return ", ".join([*told, *(f"{k}={_told(v)}" for k, v in kept)])


def _told(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return "%"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_told, value)) + "]"
    return repr(value)


def by_rows(
    rows: Sequence[Row],
    args: list[Any],
    kwargs: dict[str, Any],
    node: Any,
    placement: Iterable[str],
) -> Any:
    """The results of a kernel with a sharding rule, by its stand-in."""
    found: dict[int, Tensor] = {}
    for row in rows:
        operands = [args[w] if isinstance(w, int) else kwargs[w] for w in row.operands]
        sizes = {n: kwargs[v] if isinstance(v, str) else v for n, v in row.sizes.items()}
        told = attributes(args, kwargs, [*row.ignore, *row.operands], placement)
        made = stand_in(row, operands, told, sizes)
        found |= zip(row.results, made, strict=True)
    if node is not None and node.get("shape") is not None and set(found) == {0}:
        return found[0]
    return tuple(found.get(i) for i in range(max(found) + 1))


def _functionalised(
    table: Table, name: str, args: list[Any], kwargs: dict[str, Any], node: Any, shapes: Shapes
) -> Any:
    if name in table.rows:
        try:
            return by_rows(table.rows[name], [], kwargs, None, table.placement)
        except (AttributeError, LookupError, RuntimeError, TypeError, ValueError):
            return _unknown(name, args, kwargs, node, shapes)
    if name in table.identity:
        bases = kwargs.get("_all_bases") or [
            v for v in kwargs.values() if isinstance(v, torch.Tensor)
        ]
        return (None, *bases)
    return _unknown(name, args, kwargs, node, shapes)
