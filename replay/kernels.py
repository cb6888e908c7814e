"""What each node computes: torch in float64 on the CPU, other kernels by a stand-in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import torch

from gg_datalog.extract.table import Row, Table
from gg_datalog.replay.standins import opaque, stand_in
from gg_datalog.replay.tensor import Tensor

PLACEMENT = ("device", "layout", "pin_memory", "non_blocking", "memory_format", "generator")
IDENTITY = ("wait_tensor", "log_tensor", "inplace_log_tensor", "convert", "copy_from")
EMPTY = ("aten.empty", "aten.empty_like", "aten.new_empty", "aten.empty_strided",
         "aten.new_empty_strided", "aten.empty_permuted")  # fmt: skip

OWN = ("aten", "prims")
VIEWS = ("aten.view", "aten._unsafe_view", "aten.reshape")


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
    wide = [1] * len(shape)
    for extent, dim in zip(x.shape, dims, strict=False):
        wide[dim] = extent
    return x.reshape(wide).expand(list(shape))


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


@hlo("logistic")
def _logistic(x: Tensor) -> Tensor:
    return x.sigmoid()


def name_of(target: str) -> str:
    """The target without its overload."""
    return target.rpartition(".")[0] if target.count(".") > 1 else target


def compute(table: Table, target: str, args: list[Any], kwargs: dict[str, Any], node: Any) -> Any:
    """The value of a node that is neither a collective nor random."""
    if target.startswith("auto_functionalized"):
        return _functionalised(table, args[0], kwargs)
    name = name_of(target)
    name = table.aliases.get(name, name)
    if name in EMPTY:
        return torch.full(node["shape"], float("nan"), dtype=torch.float64)
    if name in table.rows and not name.startswith("aten."):
        return by_rows(table.rows[name], args, kwargs, node)
    if name in HLO:
        return HLO[name](*args, **kwargs)
    if name in table.identity and not name.startswith(("aten.", "prims.")):
        which = table.identity[name]
        return args[which] if isinstance(which, int) else kwargs[which]
    if name == "prims.convert_element_type":
        return args[0]
    if name in VIEWS:
        return args[0].reshape(args[1] if len(args) > 1 else kwargs["size"])
    kernels = _torch(target if name == name_of(target) else name)
    if not kernels:
        return _unknown(target, args, kwargs, node)
    kept = {k: v for k, v in kwargs.items() if k not in PLACEMENT}
    for kernel in kernels[:-1]:  # the overload that the graph names, if the arguments are its own
        with suppress(RuntimeError, TypeError):
            return kernel(*args, **kept)
    return kernels[-1](*args, **kept)


def _torch(target: str) -> list[Callable[..., Any]]:
    """torch's own operator of that name: its overload, and all of them together."""
    space, kernel, *overload = target.split(".")
    packet = getattr(getattr(torch.ops, space), kernel, None) if space in OWN else None
    if packet is None:
        return []
    found = getattr(packet, overload[0], None) if overload else None
    return [packet] if found is None else [found, packet]


def _unknown(target: str, args: list[Any], kwargs: dict[str, Any], node: Any) -> Tensor:
    shape = node.get("shape")
    if shape is None:
        raise NotExecuted(f"`{target}` is not known, and its results' shapes are not given")
    return opaque(target, tensors([args, kwargs]), attributes(args, kwargs), shape)


def tensors(value: Any) -> list[Tensor]:
    """The tensors of an argument tree."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        return [t for _, v in sorted(value.items()) for t in tensors(v)]
    return [t for v in value for t in tensors(v)] if isinstance(value, (list, tuple)) else []


def attributes(args: Sequence[Any], kwargs: Mapping[str, Any], skip: Sequence[Any] = ()) -> str:
    """Everything that is no tensor, as text."""
    told = [_told(a) for i, a in enumerate(args) if i not in skip]
    kept = sorted((k, v) for k, v in kwargs.items() if k not in (*skip, *PLACEMENT))
    return ", ".join([*told, *(f"{k}={_told(v)}" for k, v in kept)])


def _told(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return "%"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_told, value)) + "]"
    return repr(value)


def by_rows(rows: Sequence[Row], args: list[Any], kwargs: dict[str, Any], node: Any) -> Any:
    """The results of a kernel with a sharding rule, by its stand-in."""
    found: dict[int, Tensor] = {}
    for row in rows:
        operands = [args[w] if isinstance(w, int) else kwargs[w] for w in row.operands]
        sizes = {n: kwargs[v] if isinstance(v, str) else v for n, v in row.sizes.items()}
        told = attributes(args, kwargs, [*row.ignore, *row.operands])
        made = stand_in(row, operands, told, sizes)
        found |= zip(row.results, made, strict=True)
    if node is not None and node.get("shape") is not None and set(found) == {0}:
        return found[0]
    return tuple(found.get(i) for i in range(max(found) + 1))


def _functionalised(table: Table, kernel: str, kwargs: dict[str, Any]) -> Any:
    name = name_of(kernel)
    if name in table.rows:
        return by_rows(table.rows[name], [kernel], kwargs, None)
    if name in table.identity:
        bases = kwargs.get("_all_bases") or [
            v for v in kwargs.values() if isinstance(v, torch.Tensor)
        ]
        return (None, *bases)
    raise NotExecuted(f"`{kernel}` writes into its operands and is not in the operator table")
