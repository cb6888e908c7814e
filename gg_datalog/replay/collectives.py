"""Collectives: what a rank asks for, and what all members get."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce as fold
from typing import Any

import torch

from gg_datalog.extract.names import is_collective
from gg_datalog.extract.table import Table
from gg_datalog.replay.calls import Called, NotExecuted, named
from gg_datalog.replay.documents import Json
from gg_datalog.replay.dtypes import as_dtype, is_integer, wide
from gg_datalog.replay.tensor import Tensor

OPERANDS = ("input", "inputs", "tensor", "tensors", "self", "shard")
# Names of reductions, as functional operators, torch.distributed and kernels write them.
SPELLINGS = {"prod": "product", "mul": "product", "mean": "avg", "average": "avg",
             "and": "band", "or": "bor", "xor": "bxor"}  # fmt: skip


class Mismatch(Exception):
    """Collectives that do not line up: the program hangs or mixes data."""


@dataclass(repr=False)
class Call:
    """A rank that waits at a collective: ``given`` are the arguments by name."""

    kind: str
    group: str
    reduction: str
    value: Any
    given: Mapping[str, Any]
    node: str
    dtype: str = ""
    ranks: tuple[int, ...] = ()  # of a group that is told by its members
    started: bool = False  # a transfer that its rank waits for later
    of: str = ""  # what waits for a transfer: its node

    @property
    def form(self) -> tuple[Any, ...]:
        """What all members have to agree on."""
        split = self.kind.startswith("all_to_all")
        roles = () if split else (self.members, self.root, self.dim)
        return (self.kind, self.reduction, roles, "" if self.kind == "scatter" else self.dtype)

    def _first(self, *names: str) -> Any:
        return next((self.given[n] for n in names if n in self.given), None)

    @property
    def members(self) -> Any:
        """How many members it says there are."""
        return self._first("group_size", "world_size")

    @property
    def root(self) -> Any:
        """The place of the root in the group."""
        return self._first("src", "dst")

    @property
    def dim(self) -> Any:
        """The dimension along which tensors are put together."""
        return self._first("gather_dim", "dim")


def collective(table: Table, node: Json) -> str | None:
    """Which collective a node is."""
    if node["op"] != "call_function":
        return None
    name = named(table, node)
    if not is_collective(name):
        return None
    return name.partition(".")[2].removesuffix("_").removesuffix("_out")


def asked(node: Json, kind: str, call: Called, types: Mapping[str, str]) -> Call:
    """What a node asks of its group."""
    given = {str(k): v for k, v in call.given.items()}
    value = next((given[n] for n in OPERANDS if n in given), None)
    group = given.get("group_name", given.get("tag"))
    if call.signature is None or value is None or not isinstance(group, str):
        raise NotExecuted(
            f"collective `{node['name']}` ({call.target}) is not known, names no group, or has no "
            "operand"
        )
    ranks = tuple(given["ranks"]) if "group_name" not in given else ()
    group = f"{group}:{ranks}" if ranks else group
    dtype = ",".join(types.get(name, "") for name in _references(node))
    return Call(kind, group, reduction_of(given), value, given, node["name"], dtype, ranks)


def _references(node: Json) -> list[str]:
    """The nodes that a collective's operand refers to."""
    keywords = node.get("kwargs") or {}
    first = node["args"][0] if node["args"] else None
    first = (
        first if first is not None else next((keywords[n] for n in OPERANDS if n in keywords), None)
    )
    listed = first if isinstance(first, list) else [first]
    return [g["node"] for g in listed if isinstance(g, dict) and "node" in g]


def reduction_of(given: Mapping[str, Any]) -> str:
    """The reduction by the name that functional operators have for it; a factor behind a colon."""
    value = next((given[n] for n in ("reduce_op", "reduceOp", "red_op") if n in given), "sum")
    words = re.findall(r"[a-z_]+|-?[\d.]+(?:e-?\d+)?", str(value).lower())
    words = [
        w for w in words if w not in (".", "reduceop", "redoptype", "dist", "distributed", "torch")
    ]
    if not words:
        raise NotExecuted(f"reduction {value!r} is not known")
    name = SPELLINGS.get(words[0], words[0])
    return f"{name}:{words[1]}" if name == "premul_sum" and len(words) > 1 else name


# ---- results
def perform(calls: Sequence[Call]) -> list[Any]:
    """The results of one collective, per member."""
    first = calls[0]
    forms = {c.form for c in calls}
    if len(forms) > 1:
        raise Mismatch(f"`{first.node}` and its counterparts differ: {sorted(map(str, forms))}")
    if first.kind.endswith("_coalesced"):
        if len({len(c.value) for c in calls}) > 1:
            raise Mismatch(f"`{first.node}` and its counterparts have lists of different lengths")
        columns = [_column(calls, i) for i in range(len(first.value))]
        return [list(row) for row in zip(*map(perform, columns), strict=True)]
    if first.kind == "scatter":
        return _scattered(calls)
    values = [c.value for c in calls]
    if not all(isinstance(v, torch.Tensor) for v in values):
        raise NotExecuted(f"collective `{first.node}` takes what is no tensor")
    split = first.kind.startswith("all_to_all")
    shapes = {tuple(v.shape[1:] if split else v.shape) for v in values}
    if len(shapes) > 1:
        raise Mismatch(f"`{first.node}` and its counterparts differ: {sorted(map(str, shapes))}")
    if first.kind not in RESULTS:
        raise NotExecuted(f"collective `{first.kind}` cannot be executed")
    if first.members not in (None, len(calls)):
        raise Mismatch(f"`{first.node}` says {first.members} members of {len(calls)}")
    return RESULTS[first.kind](calls, values)


def _column(calls: Sequence[Call], place: int) -> list[Call]:
    """One tensor of a coalesced collective."""
    return [replace(c, kind=c.kind.removesuffix("_coalesced"), value=c.value[place]) for c in calls]


def _root(call: Call, size: int) -> int:
    if type(call.root) is not int or not 0 <= call.root < size:
        raise Mismatch(f"the root of `{call.node}` is no member of its group")
    return call.root


def _scattered(calls: Sequence[Call]) -> list[Tensor]:
    first, size = calls[0], len(calls)
    given = list(calls[_root(first, size)].value)
    if len(given) != size:
        raise Mismatch(f"the root of `{first.node}` gives {len(given)} tensors to {size} ranks")
    return given


def _all_reduce(calls: Sequence[Call], values: list[Tensor]) -> list[Tensor]:
    return [reduce(calls[0].reduction, values)] * len(calls)


def _all_gather(calls: Sequence[Call], values: list[Tensor]) -> list[Tensor]:
    return [torch.cat(values, calls[0].dim or 0)] * len(calls)


def _reduce_scatter(calls: Sequence[Call], values: list[Tensor]) -> list[Tensor]:
    size = len(calls)
    if len(values[0]) % size:
        raise Mismatch(f"`{calls[0].node}`: {len(values[0])} rows do not divide by {size}")
    return list(reduce(calls[0].reduction, values).chunk(size))


def _broadcast(calls: Sequence[Call], values: list[Tensor]) -> list[Tensor]:
    return [values[_root(calls[0], len(calls))]] * len(calls)


def _reduce(calls: Sequence[Call], values: list[Tensor]) -> list[Tensor]:
    root, whole = _root(calls[0], len(calls)), reduce(calls[0].reduction, values)
    nothing = float("nan") if whole.is_floating_point() else 0
    empty = torch.full_like(whole, nothing)
    return [whole if i == root else empty for i in range(len(calls))]


def _gather(calls: Sequence[Call], values: list[Tensor]) -> list[Any]:
    root = _root(calls[0], len(calls))
    return [values if i == root else [] for i in range(len(calls))]


def exchange(calls: Sequence[Call], _: list[Tensor]) -> list[Tensor]:
    """all_to_all: member i gives its part j to member j."""
    size = len(calls)
    parts, wanted = [], []
    for call in calls:
        given, expected = call.given["input_split_sizes"], call.given["output_split_sizes"]
        sizes = list(given or [len(call.value) // size] * size)
        if sum(sizes) != len(call.value) or len(sizes) != size:
            raise Mismatch(f"`{call.node}`: {sizes} do not make up {len(call.value)} rows")
        parts.append(call.value.split(sizes))
        wanted.append(expected)
    for member, output in enumerate(wanted):
        sizes = [len(row[member]) for row in parts]
        if output and list(output) != sizes:
            raise Mismatch(f"`{calls[member].node}` expects {list(output)} rows, is sent {sizes}")
    return [torch.cat([row[member] for row in parts]) for member in range(size)]


Result = Callable[[Sequence[Call], list[Tensor]], list[Any]]
RESULTS: dict[str, Result] = {
    "all_reduce": _all_reduce,
    "all_gather_into_tensor": _all_gather,
    "reduce_scatter_tensor": _reduce_scatter,
    "broadcast": _broadcast,
    "reduce": _reduce,
    "gather": _gather,
    "all_to_all_single": exchange,
}


# ---- reductions
Join = Callable[[Tensor, Tensor], Tensor]
JOINS: dict[str, Join] = {"sum": torch.add, "product": torch.mul, "max": torch.maximum,
         "min": torch.minimum}  # fmt: skip
BITS: dict[str, Join] = {"band": torch.bitwise_and, "bor": torch.bitwise_or,
        "bxor": torch.bitwise_xor}  # fmt: skip


def reduce(reduction: str, values: Sequence[Tensor]) -> Tensor:
    """Members' tensors together, in their own type: integers modulo their width; of truth values a
    sum says whether one is true."""
    name, _, factor = reduction.partition(":")
    dtype = values[0].dtype
    given = [wide(v) for v in values]
    if name == "avg" and not is_whole(dtype):
        return fold(torch.add, given) / len(given)
    if name == "premul_sum" and not is_whole(dtype) and factor:
        return fold(torch.add, [v * float(factor) for v in given])
    join = BITS.get(name) if is_whole(dtype) else None
    join = join or JOINS.get(name)
    if join is None:
        raise NotExecuted(f"reduction `{reduction}` of {dtype} cannot be executed")
    return as_dtype(fold(join, given), dtype).clone()


def is_whole(dtype: torch.dtype) -> bool:
    """Is it a type of whole numbers or truth values?"""
    return is_integer(dtype) or dtype == torch.bool
