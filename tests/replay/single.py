"""One operator or a few of them, run as a graph of one rank."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from gg_datalog.extract.table import load_table
from gg_datalog.replay.execute import run_ranks

from ..cli.build import call, graph, placeholder, returns

TABLE = load_table()
LITERALS = (torch.dtype, torch.device, torch.layout, torch.memory_format)


def keeps(_: int, __: str, ___: int, shape: Sequence[int], ____: float) -> Any:
    """A mask that keeps everything."""
    return torch.ones(list(shape), dtype=torch.bool)


def literal(value: Any, inputs: dict[str, Any]) -> Any:
    """An argument as a graph has it; tensors become inputs."""
    if isinstance(value, torch.Tensor):
        name = next((n for n, t in inputs.items() if t is value), f"x{len(inputs)}")
        inputs[name] = value
        return {"node": name}
    if isinstance(value, (list, tuple)):
        return [literal(v, inputs) for v in value]
    if isinstance(value, LITERALS):
        kinds = ("dtype", "device", "layout", "memory_format")
        return {kinds[[isinstance(value, k) for k in LITERALS].index(True)]: str(value)}
    if isinstance(value, float) and (value != value or abs(value) == float("inf")):
        return {"float": str(value)}
    return value


def given(name: str, value: Any, dtype: str | None = None) -> Any:
    """An input node for a tensor; ``dtype`` is what the graph says, where it is another float."""
    told = dtype or str(value.dtype).removeprefix("torch.")
    return {**placeholder(name, list(value.shape)), "dtype": told}


def node(
    name: str,
    target: str,
    args: Sequence[Any] = (),
    like: Any = None,
    keywords: Mapping[str, Any] | None = None,
) -> Any:
    """A node without a shape, or with the shape and type of a tensor."""
    told = call("", "", list((keywords or {}).values()), [])["args"]
    made = {**call(name, target, args, []), "kwargs": dict(zip(keywords or {}, told, strict=True))}
    del made["shape"], made["dtype"]
    if isinstance(like, torch.Tensor):
        made |= {"shape": list(like.shape), "dtype": str(like.dtype).removeprefix("torch.")}
    return made


def run(nodes: Sequence[Any], inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a graph of one rank."""
    document = graph(*nodes, returns())
    for one in document["nodes"]:
        one.setdefault("args", [])
        one.setdefault("kwargs", {})
    return run_ranks({0: document}, [], TABLE, {0: inputs}, keeps)[0]


def same(found: Any, expected: Any) -> bool:
    """The same numbers of the same type (lists of them, too); nothing counts as equal to nothing."""
    if isinstance(expected, (list, tuple)):
        fits = isinstance(found, (list, tuple)) and len(found) == len(expected)
        return fits and all(map(same, found, expected))
    if not isinstance(expected, torch.Tensor):
        return bool(found == expected)
    fits = isinstance(found, torch.Tensor) and found.dtype == expected.dtype
    if not fits or found.shape != expected.shape:
        return False
    return torch.allclose(found, expected, rtol=1e-12, atol=1e-14, equal_nan=True)
