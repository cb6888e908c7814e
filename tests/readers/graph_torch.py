"""Executes what the HLO reader makes of a text by torch itself, in the element types of the nodes,
all ranks in step. Operators of HLO's own come from :mod:`hlo_numpy`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from gg_datalog.extract.documents import CaseDocuments
from gg_datalog.extract.signature import bound

from . import hlo_numpy as xla

Json = dict[str, Any]
REDUCTIONS = {"sum": torch.add, "max": torch.maximum, "min": torch.minimum}


class Untold(AssertionError):
    """A node that is not what its text says."""


def run(case: CaseDocuments, given: Sequence[Sequence[Any]]) -> list[list[Any]]:
    """What every rank returns, in numpy; for one rank the sequential program."""
    graphs = [case.seq] if len(given) == 1 else [case.dist[r] for r in sorted(case.dist)]
    names = {} if case.groups is None else members(case.groups)
    values: list[Json] = [{} for _ in graphs]
    for rows in zip(*(graph["nodes"] for graph in graphs), strict=True):
        if rows[0]["op"] == "output":
            return [
                [held[ref["node"]].numpy() for ref in row["args"][0]]
                for held, row in zip(values, rows, strict=True)
            ]
        made = step(rows, values, given, names)
        for row, held, value in zip(rows, values, made, strict=True):
            held[row["name"]] = checked(row, value)
    raise Untold("the graph returns nothing")


def members(groups: Json) -> dict[str, list[int]]:
    """Ranks by the name of a group."""
    return {name: g["ranks"] for g in groups["dist"] for name in g["names"].values()}


def checked(row: Json, value: Any) -> Any:
    """The value, if it is what the node says."""
    if row.get("shape") is not None:
        found = str(value.dtype).removeprefix("torch."), list(value.shape)
        if found != (row["dtype"], row["shape"]):
            raise Untold(
                f"{row['name']} ({row['target']}): {found}, told {row['dtype'], row['shape']}"
            )
    return value


def step(rows: Sequence[Json], values: list[Json], given: Any, names: Any) -> list[Any]:
    """One node on every rank."""
    row = rows[0]
    if row["target"].startswith("_c10d_functional.") and "wait" not in row["target"]:
        args = [
            [resolved(a, held) for a in r["args"]] for r, held in zip(rows, values, strict=True)
        ]
        return collective(row["target"].split(".")[1], args, names)
    return [one(r, held, mine) for r, held, mine in zip(rows, values, given, strict=True)]


def one(row: Json, held: Json, mine: Sequence[Any]) -> Any:
    """One node on one rank."""
    if row["op"] == "placeholder":
        place = [r for r in held if r.startswith("#")]
        held[f"#{len(place)}"] = None
        return torch.from_numpy(np.ascontiguousarray(mine[len(place)]))
    if row["op"] == "get_attr":
        return torch.tensor(row["value"], dtype=dtype_of(row)).reshape(row["shape"])
    args = [resolved(a, held) for a in row["args"]]
    kwargs = {k: resolved(v, held) for k, v in row["kwargs"].items()}
    if row["target"].startswith("<built-in"):
        return args[0][args[1]]
    found = bound(row["target"], args, kwargs)
    if found is None or not found[0].fits(found[1]):
        raise Untold(f"{row['name']}: {row['target']} does not bind")
    if row["target"].startswith("hlo."):
        return hlo(row, found[1])
    space, name, overload = row["target"].split(".")
    return getattr(getattr(getattr(torch.ops, space), name), overload)(*args, **kwargs)


def dtype_of(row: Json) -> Any:
    """The element type of a node."""
    return getattr(torch, row["dtype"])


def resolved(argument: Any, held: Json) -> Any:
    """An argument with what it refers to."""
    if isinstance(argument, list):
        return tuple(resolved(a, held) for a in argument)
    if isinstance(argument, dict):
        ((kind, value),) = argument.items()
        if kind == "node":
            return held[value]
        return getattr(torch, value) if kind == "dtype" else float(value)
    return argument


SHORT = {np.dtype(kind).name: name for name, kind in xla.TYPES.items()} | {"bool": "pred"}
BITS = {
    "divide_integer": xla.quotient,
    "remainder_integer": xla.remainder,
    "shift_left": xla.BINARY["shift-left"],
    "shift_right_logical": xla.BINARY["shift-right-logical"],
    "shift_right_arithmetic": xla.BINARY["shift-right-arithmetic"],
    "population_count": xla.popcount,
    "count_leading_zeros": xla.leading_zeros,
}


def hlo(row: Json, given: Json) -> Any:
    """An operator of HLO's own, arguments by name."""
    name, shape = row["target"].removeprefix("hlo."), row["shape"]
    x = given.get("self")
    if name in BITS:
        if not all(str(v.dtype) == f"torch.{given['width']}" for v in (x, given.get("other", x))):
            raise Untold(f"{row['name']} does not compute in {given['width']}")
        operands = [v.numpy() for v in (x, given.get("other")) if v is not None]
        return torch.from_numpy(np.asarray(BITS[name](*operands)))
    if name == "convert":
        to = SHORT[str(given["dtype"]).removeprefix("torch.")]
        return torch.from_numpy(np.asarray(xla.convert(x.numpy(), to)))
    if name == "bitcast_convert":
        return x.view(getattr(torch, given["after"]))
    if name == "select":
        return torch.where(given["condition"], x, given["other"])
    if name == "broadcast":
        return broadcast(x, given["dims"], shape, dtype_of(row))
    if name in ("reduce_max", "reduce_min"):
        return (torch.amax if name.endswith("max") else torch.amin)(x, given["dim"])
    if name == "constant":
        return torch.tensor(given["values"], dtype=dtype_of(row)).reshape(shape)
    if name == "dot":
        return dot(x, given)
    raise Untold(f"{row['target']} is not executed here")


def broadcast(x: Any, dims: Sequence[int], shape: Sequence[int], dtype: Any) -> Any:
    """Dimension i becomes ``dims[i]``."""
    x = x if isinstance(x, torch.Tensor) else torch.tensor(x, dtype=dtype)
    wide = [1] * len(shape)
    for extent, dim in zip(x.shape, dims, strict=True):
        wide[dim] = extent
    order = sorted(range(x.dim()), key=lambda i: dims[i])
    return x.permute(order).reshape(wide).expand(list(shape))


def dot(x: Any, given: Json) -> Any:
    """Modulo the width of integers."""
    keys = ("l_contract", "r_contract", "l_batch", "r_batch")
    ka, kb, na, nb = (list(given[key]) for key in keys)
    a, b = x.numpy(), given["other"].numpy()
    left, right = list(range(a.ndim)), [a.ndim + j for j in range(b.ndim)]
    for i, j in zip([*ka, *na], [*kb, *nb], strict=True):
        right[j] = left[i]
    out = [left[i] for i in na] + [n for i, n in enumerate(left) if i not in (*ka, *na)]
    out += [n for j, n in enumerate(right) if j not in (*kb, *nb)]
    return torch.from_numpy(np.einsum(a, left, b, right, out))


def collective(kind: str, args: list[list[Any]], names: Any) -> list[Any]:
    """What members exchange."""
    ranks = names[args[0][-1]]
    tensors = [args[rank][0] for rank in ranks]
    if kind == "all_gather_into_tensor":
        return [torch.cat(tensors)] * len(args)
    total = tensors[0]
    for other in tensors[1:]:
        total = REDUCTIONS[args[0][1]](total, other)
    if kind == "reduce_scatter_tensor":
        return list(torch.chunk(total, len(ranks)))
    assert kind == "all_reduce", kind
    return [total] * len(args)
