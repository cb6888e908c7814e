"""Graphs of torch.fx as JSON documents of the case format."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from itertools import chain, count
from typing import Any

import torch
from torch import fx

from gg_datalog.tracing.draws import drawn
from gg_datalog.tracing.private import FakeTensor, ordinal_of_group, ranks_of_group
from gg_datalog.tracing.program import WRAPPED
from gg_datalog.tracing.record import Group
from gg_datalog.tracing.refusal import Refused
from gg_datalog.tracing.source import source_line

Json = dict[str, Any]
VERSION = 2
FUNCTIONAL = "_c10d_functional."
OURS = "gg_datalog."
# What dynamo writes in front of the path of a module.
IN_FRONT = re.compile(rf"^(L\['\w+'\]|self)(\.|$)({WRAPPED}(\.|$))?")
# How many elements a constant may have for its values to be written out.
FEW = 64


def graph_document(module: fx.GraphModule, rank: int, inputs: Mapping[str, Json]) -> Json:
    """The graph of one rank. ``inputs`` says, by node, what is known of a placeholder."""
    nodes = []
    for node in module.graph.nodes:
        row = _row(node, module)
        row |= inputs.get(node.name, {})
        nodes.append(row)
    return {"format": "fx-graph", "version": VERSION, "rank": rank, "nodes": nodes}


def rename_placeholders(graph: fx.Graph, names: Sequence[str]) -> list[str]:
    """Gives placeholders, in order, names made of these; returns what they became."""
    taken = {node.name for node in graph.nodes if node.op != "placeholder"}
    found = []
    for node, wanted in zip(graph.find_nodes(op="placeholder"), names, strict=True):
        node.name = node.target = _unused(re.sub(r"\W", "_", wanted) or "input", taken)
        taken.add(node.name)
        found.append(str(node.name))
    return found


def _unused(name: str, taken: Collection[str]) -> str:
    numbered = (f"{name}_{number}" for number in count(1))
    return next(one for one in chain([name], numbered) if one not in taken)


def reduce_results(graph: fx.Graph, traced: Any) -> None:
    """Adds the reductions that results are waiting for (``traced.open``)."""
    output = graph.output_node()
    values = list(output.args[0])
    for place, name in enumerate(traced.returned):
        for reduction, group in traced.open.get(name, ()):
            values[place] = _reduced(graph, output, values[place], reduction, group)
    output.args = (tuple(values),)


def _reduced(graph: fx.Graph, output: fx.Node, value: Any, reduction: str, group: str) -> fx.Node:
    functional = torch.ops._c10d_functional
    with graph.inserting_before(output):
        node = graph.call_function(functional.all_reduce.default, (value, reduction, group))
        done = graph.call_function(functional.wait_tensor.default, (node,))
    for one in (node, done):
        one.meta = {k: v for k, v in value.meta.items() if k in ("val", "stack_trace", "custom")}
    return done


def groups_of(graph: fx.Graph) -> dict[str, Group]:
    """The process groups that a graph names, in order of first use: their ranks, and their place
    among the groups of these ranks."""
    found: dict[str, Group] = {}
    for node in graph.nodes:
        name = _group_name(node)
        if name is not None and name not in found:
            found[name] = ranks_of_group(name), ordinal_of_group(name)
    return found


def groups_document(groups_by_rank: Mapping[int, Mapping[str, Group]]) -> list[Json]:
    """Communicators: the n-th group with the same ranks that was made is the same one on every
    member, since all processes make groups in the same order. Names belong to a process."""
    entries: dict[tuple[tuple[int, ...], int], Json] = {}
    for rank, groups in groups_by_rank.items():
        for name, (members, ordinal) in groups.items():
            key = (tuple(members), ordinal)
            entry = entries.setdefault(key, {"ranks": list(members), "names": {}})
            entry["names"][str(rank)] = name
    return list(entries.values())


def is_collective(node: fx.Node) -> bool:
    """Does the node speak with other ranks?"""
    target = str(node.target)
    talks = target.startswith((FUNCTIONAL, OURS, "_dtensor."))
    marks = ("wait_tensor", "in_flight", "in_memory_order", "misused")
    return talks and not any(mark in target for mark in marks)


def _group_name(node: fx.Node) -> str | None:
    if not is_collective(node):
        return None
    words = [a for a in (*node.args, *node.kwargs.values()) if isinstance(a, str)]
    if not words:
        raise Refused(f"the collective {node.target} names no process group", "see docs/capture.md")
    return words[-1]


def _row(node: fx.Node, module: fx.GraphModule) -> Json:
    row: Json = {
        "name": node.name,
        "op": node.op,
        "target": target_name(node),
        "args": literal(_arguments(node), node),
        "kwargs": {name: literal(value, node) for name, value in node.kwargs.items()},
    }
    value = node.meta.get("val")
    if node.op == "get_attr":
        value = _attribute(module, str(node.target))
        row |= _constant(value)
    if isinstance(value, torch.Tensor):
        row["shape"] = [_size(e) for e in value.shape]
        row["dtype"] = str(value.dtype).removeprefix("torch.")
    if draw := drawn(node, value):
        row["draw"] = draw
    source = source_line(node.meta.get("stack_trace"))
    if source:
        row["source"] = source
    if path := _module_path(node):
        row["module"] = path
    return row


def target_name(node: fx.Node) -> str:
    """The operator's name in the case format."""
    text = node.target if isinstance(node.target, str) else str(node.target)
    if text.startswith(OURS):
        return FUNCTIONAL + text.removeprefix(OURS)
    return text


def _arguments(node: fx.Node) -> Sequence[Any]:
    """The arguments as docs/format.md has them: our own operators carry one more for torch."""
    text = str(node.target)
    if text.startswith(OURS + "gather"):
        return list(node.args[:3])
    if text.startswith(OURS + "scatter"):
        return [node.args[0], *node.args[2:]]
    return list(node.args)


def _size(extent: Any) -> int | str:
    return extent if isinstance(extent, int) else str(extent)


def _attribute(module: fx.GraphModule, way: str) -> Any:
    value: Any = module
    for step in way.split("."):
        value = getattr(value, step)
    return value


def _constant(value: Any) -> Json:
    """The value of a constant of few elements, where it has one."""
    real = value.constant if isinstance(value, FakeTensor) else value
    if not isinstance(real, torch.Tensor) or isinstance(real, FakeTensor):
        return {}
    if real.is_meta or real.numel() > FEW:
        return {}
    if real.numel() == 1:
        return {"value": literal(real.reshape(()).item(), None)}
    if real.is_floating_point() or real.is_complex():
        return {}
    return {"value": real.tolist()}


def _module_path(node: fx.Node) -> str | None:
    custom = node.meta.get("custom") or {}
    if isinstance(custom, dict) and custom.get("module"):
        return str(custom["module"])
    stacks = (node.meta.get(key) for key in ("nn_module_stack", "fwd_nn_module_stack"))
    stack = list(next(filter(None, stacks), {}).values())
    if not stack:
        return None
    path = str(stack[-1][0])
    return IN_FRONT.sub("", path) or None


def literal(value: Any, node: fx.Node | None) -> Any:
    """An argument in the JSON form."""
    if isinstance(value, fx.Node):
        return {"node": value.name}
    if isinstance(value, (list, tuple)):
        return [literal(item, node) for item in value]
    if isinstance(value, Mapping):
        return {str(k): literal(item, node) for k, item in value.items()}
    if isinstance(value, slice):
        return {"slice": [literal(p, node) for p in (value.start, value.stop, value.step)]}
    for kind in ("dtype", "device", "memory_format", "layout"):
        if isinstance(value, getattr(torch, kind)):
            return {kind: str(value).removeprefix("torch.")}
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": str(value)}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        return str(value)
    raise Refused(
        f"an argument of {node and node.target} has no JSON form: {type(value).__name__}",
        "see docs/capture.md",
    )
