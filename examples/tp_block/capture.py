"""Capture the tensor-parallel block as a case: the JSON graphs next to this file.

    python examples/tp_block/capture.py
    python examples/tp_block/capture.py --bug missing-all-reduce --out DIR

One process on a CPU plays every rank in turn: the `fake` process group moves no data, fake tensors
hold none. Dynamo captures the module and AOT autograd lowers it to flat functional ATen operators
with their collectives, each with its source line and module path; the parameters need no gradient,
so the graph is the forward pass alone. Nodes are written as captured; only the placeholders are
renamed after the parameter that they are.

The entry points of torch are semi-private. Tested with torch 2.13.0 (CPU), Python 3.11.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from model import BUGS, Block, Config, ParallelBlock, placement
from torch import fx, nn
from torch._dynamo.functional_export import dynamo_graph_capture_for_export
from torch._functorch._aot_autograd.descriptors import ParamAOTInput
from torch._functorch.aot_autograd import aot_export_joint_with_descriptors
from torch._subclasses import FakeTensorMode
from torch.distributed.distributed_c10d import _resolve_process_group, get_process_group_ranks
from torch.testing._internal.distributed.fake_pg import FakeStore

HERE = Path(__file__).resolve().parent
PROJECT = HERE.parents[1]
TORCH = str(Path(torch.__file__).parent)
RANKS = 2

Json = dict[str, Any]


def trace(module: nn.Module, config: Config) -> fx.Graph:
    """The forward graph of a module on fake tensors, placeholders named after parameters."""
    module.requires_grad_(False)
    x = torch.empty(config.batch, config.seq, config.hidden)
    captured = dynamo_graph_capture_for_export(module)(x)
    with contextlib.ExitStack() as stack:
        graph = aot_export_joint_with_descriptors(stack, captured, (x,)).graph_module.graph
    for node in graph.find_nodes(op="placeholder"):
        described = node.meta["desc"]
        is_parameter = isinstance(described, ParamAOTInput)
        node.name = described.target.replace(".", "_") if is_parameter else "x"
        node.target = node.name
    return graph


def source_line(stack_trace: str | None) -> str | None:
    """`file:line in function: code` of the innermost frame outside torch."""
    frames = re.findall(r'File "(.+)", line (\d+), in (\S+)\n\s*(.*)', stack_trace or "")
    outside = [frame for frame in frames if not frame[0].startswith(TORCH)]
    if not outside:
        return None
    file, line, function, code = outside[-1]
    return f"{Path(file).relative_to(PROJECT)}:{line} in {function}: {code.strip()}"


def literal(value: Any) -> Any:
    """An argument in the JSON form."""
    if isinstance(value, fx.Node):
        return {"node": value.name}
    if isinstance(value, (list, tuple)):
        return [literal(item) for item in value]
    for kind in ("dtype", "device", "memory_format", "layout"):
        if isinstance(value, getattr(torch, kind)):
            return {kind: str(value).removeprefix("torch.")}
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": str(value)}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise TypeError(f"argument {value!r} has no JSON form")


def export(node: fx.Node) -> Json:
    """One node in the JSON form; what is not known of it is left out."""
    target = node.target if isinstance(node.target, str) else str(node.target)
    row: Json = {
        "name": node.name,
        "op": node.op,
        "target": target,
        "args": literal(node.args),
        "kwargs": {name: literal(value) for name, value in node.kwargs.items()},
    }
    value = node.meta.get("val")
    if isinstance(value, torch.Tensor):
        row["shape"] = list(value.shape)
        row["dtype"] = str(value.dtype).removeprefix("torch.")
    source = source_line(node.meta.get("stack_trace"))
    if source:
        row["source"] = source
    modules = list((node.meta.get("nn_module_stack") or {}).values())
    if modules:
        row["module"] = modules[-1][0]
    return row


def group_ranks(graph: fx.Graph) -> dict[str, list[int]]:
    """The names of groups in a graph, in order of first use, with the ranks of each."""
    names: dict[str, list[int]] = {}
    for node in graph.nodes:
        if str(node.target).startswith("_c10d_functional.") and len(node.args) > 1:
            name = node.args[-1]
            names[name] = list(get_process_group_ranks(_resolve_process_group(name)))
    return names


def capture_rank(rank: int, config: Config, bug: str | None) -> tuple[list[Json], dict[str, Any]]:
    """The nodes of one rank's program and its groups."""
    dist.init_process_group("fake", rank=rank, world_size=RANKS, store=FakeStore())
    try:
        group = dist.group.WORLD
        assert group is not None
        with FakeTensorMode():
            graph = trace(ParallelBlock(config, group, bug), config)
        return [export(node) for node in graph.nodes], group_ranks(graph)
    finally:
        dist.destroy_process_group()
        torch._dynamo.reset()


def groups(names_by_rank: list[dict[str, list[int]]]) -> Json:
    """The communicators: the n-th group with the same ranks is the same one on every member."""
    entries: dict[tuple[tuple[int, ...], int], Json] = {}
    for rank, names in enumerate(names_by_rank):
        seen: list[tuple[int, ...]] = []
        for name, members in names.items():
            key = (tuple(members), seen.count(tuple(members)))
            seen.append(tuple(members))
            entry = entries.setdefault(key, {"ranks": members, "names": {}})
            entry["names"][str(rank)] = name
    return {"seq": [], "dist": list(entries.values())}


def relations(module: nn.Module) -> list[Json]:
    """Where each rank's inputs come from, one row per rank and piece."""
    inputs: list[tuple[str, list[int]]] = [("x", [])]
    inputs += [(name, list(tensor.shape)) for name, tensor in module.named_parameters()]
    rows = []
    for name, shape in inputs:
        node = name.replace(".", "_")
        for rank in range(RANKS):
            pairs = placement(name, shape, rank, RANKS)
            if pairs is None:
                rows.append({"seq": node, "rank": rank, "dist": node})
                continue
            for seq_box, dist_box in pairs:
                row = {"seq": node, "seq_box": seq_box}
                rows.append(row | {"rank": rank, "dist": node, "dist_box": dist_box})
    return rows


def result(nodes: list[Json]) -> str:
    """The name of the one tensor that a graph returns."""
    (returned,) = nodes[-1]["args"][0]
    return str(returned["node"])


def one_per_line(rows: Iterable[Any]) -> str:
    """A JSON array with one element per line."""
    return "[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]"


def write_graph(path: Path, rank: int, nodes: list[Json]) -> None:
    """Write one graph, one node per line."""
    head = f'{{"format": "fx-graph", "version": 1, "rank": {rank}, "nodes": '
    path.write_text(head + one_per_line(nodes) + "}\n")


def capture(out: Path, bug: str | None) -> None:
    """Capture both programs and write the case to a folder."""
    config = Config()
    with FakeTensorMode():
        block = Block(config)
        seq = [export(node) for node in trace(block, config).nodes]
    torch._dynamo.reset()
    ranks = [capture_rank(rank, config, bug) for rank in range(RANKS)]
    (output,) = {result(nodes) for nodes, _ in ranks}

    out.mkdir(parents=True, exist_ok=True)
    write_graph(out / "seq.json", 0, seq)
    for rank, (nodes, _) in enumerate(ranks):
        write_graph(out / f"dist.r{rank}.json", rank, nodes)
    found = groups([names for _, names in ranks])
    (out / "groups.json").write_text(json.dumps(found, indent=1) + "\n")
    (out / "relations.json").write_text(one_per_line(relations(block)) + "\n")
    (out / "outputs.json").write_text(one_per_line([{"seq": result(seq), "dist": output}]) + "\n")


def main() -> None:
    """Parse the arguments and capture."""
    parser = argparse.ArgumentParser(description="capture the tensor-parallel block as JSON")
    parser.add_argument("--bug", choices=BUGS, help="capture a program with this mistake")
    parser.add_argument("--out", type=Path, help="folder to write (default: case/ next to this)")
    args = parser.parse_args()
    default = HERE / (f"case-{args.bug}" if args.bug else "case")
    capture(args.out or default, args.bug)


if __name__ == "__main__":
    main()
