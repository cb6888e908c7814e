"""Capture the training step as a case, forward and backward in one graph.

    python examples/training_step/capture.py case/ --tensor 2 --data 2 --sequence-parallel
    python examples/training_step/capture.py case/ --tensor 2 --bug targets-not-shifted

`make_fx` traces the step on fake tensors, a rank at a time, in a `fake` process group. Tested with
torch 2.13.0 (CPU), Python 3.11.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.testing._internal.distributed.fake_pg import FakeStore

HERE = Path(__file__).resolve().parent
Json = dict[str, Any]


def _module(path: Path, name: str) -> Any:
    """A module of the examples, which are no package."""

    sys.path.insert(0, str(path.parent))
    spec = spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(path.parent))
    return module


model = _module(HERE / "model.py", "training_model")
sys_model = _module(HERE.parent / "tp_block" / "model.py", "model")
block = _module(HERE.parent / "tp_block" / "capture.py", "tp_block_capture")


@dataclass(frozen=True)
class Degrees:
    """How many ranks share what."""

    tensor: int = 1
    data: int = 1
    sequence_parallel: bool = False
    bugs: tuple[str, ...] = ()

    @property
    def ranks(self) -> int:
        """How many ranks there are."""
        return self.tensor * self.data


def shape_of(name: str, tensor: int) -> list[int]:
    """The shape of a parameter on one rank."""
    shape = list(model.PARAMETERS[name])
    if name in model.SHARDED:
        shape[model.SHARDED[name]] //= tensor
    return shape


def layout(rank: int, degrees: Degrees) -> Any:
    """The groups of one rank: tensor-parallel ranks are neighbours."""
    place, replica = rank % degrees.tensor, rank // degrees.tensor
    tensor_groups = [
        dist.new_group([d * degrees.tensor + t for t in range(degrees.tensor)])
        for d in range(degrees.data)
    ]
    data_groups = [
        dist.new_group([d * degrees.tensor + t for d in range(degrees.data)])
        for t in range(degrees.tensor)
    ]
    return model.Layout(
        place,
        degrees.tensor,
        degrees.data,
        degrees.sequence_parallel,
        tensor_groups[replica] if degrees.tensor > 1 else None,
        data_groups[place] if degrees.data > 1 else None,
        degrees.bugs,
    )


def trace(at: Any) -> torch.fx.GraphModule:
    """The graph of one step; placeholders and results are in a fixed order."""
    names = list(model.PARAMETERS)
    count = len(names)

    def run(*args: torch.Tensor) -> list[torch.Tensor]:
        p, m, v = (dict(zip(names, args[i * count :], strict=False)) for i in range(3))
        loss, norm, gradients, updated = model.step(p, m, v, args[3 * count :], at)
        return [loss, norm, *gradients.values(), *updated.values()]

    with FakeTensorMode(allow_non_fake_inputs=True):
        shapes = [shape_of(name, at.tensor) for name in names]
        args = [torch.empty(s, requires_grad=True) for s in shapes]
        args += [torch.empty(s) for s in (*shapes, *shapes)]
        batch = model.BATCH // at.data
        args += [torch.zeros(batch, model.SEQ, dtype=torch.long) for _ in range(3)]
        args.append(torch.zeros(1, 1, model.SEQ, model.SEQ, dtype=torch.bool))
        module = make_fx(run, tracing_mode="fake", record_stack_traces=True)(*args)
    module.graph.eliminate_dead_code()
    for node, name in zip(module.graph.find_nodes(op="placeholder"), inputs(), strict=True):
        node.name = node.target = name
    return module


def inputs() -> list[str]:
    """Names of the placeholders, in order."""
    names = [name.replace(".", "_") for name in model.PARAMETERS]
    kinds = [names, [f"moment_{n}" for n in names], [f"square_{n}" for n in names]]
    return [*kinds[0], *kinds[1], *kinds[2], "tokens", "labels", "places_of", "hidden"]


def export(module: torch.fx.GraphModule) -> list[Json]:
    """The nodes in the JSON form; constants keep their value."""
    rows = []
    for node in module.graph.nodes:
        row = block.export(node)
        if node.op == "get_attr":
            value = getattr(module, str(node.target))
            row |= {"shape": list(value.shape), "dtype": str(value.dtype).removeprefix("torch.")}
        rows.append(row)
    return rows


def relations(degrees: Degrees) -> list[Json]:
    """Where each rank's inputs come from."""
    rows: list[Json] = []
    for rank in range(degrees.ranks):
        place, replica = rank % degrees.tensor, rank // degrees.tensor
        for name, shape in model.PARAMETERS.items():
            box = [[0, e] for e in shape]
            if name in model.SHARDED:
                dim = model.SHARDED[name]
                width = shape[dim] // degrees.tensor
                box[dim] = [place * width, (place + 1) * width]
            for prefix in ("", "moment_", "square_"):
                node = prefix + name.replace(".", "_")
                rows.append({"seq": node, "rank": rank, "dist": node, "seq_box": box})
        batch = model.BATCH // degrees.data
        box = [[replica * batch, (replica + 1) * batch], [0, model.SEQ]]
        for node in ("tokens", "labels", "places_of"):
            rows.append({"seq": node, "rank": rank, "dist": node, "seq_box": box})
        rows.append({"seq": "hidden", "rank": rank, "dist": "hidden"})
    return rows


def returned(nodes: list[Json]) -> list[str]:
    """The names of the results."""
    return [str(result["node"]) for result in nodes[-1]["args"][0]]


def capture(out: Path, degrees: Degrees) -> dict[str, str]:
    """Writes the case; the sequential name of every output by what it is."""
    seq = export(trace(model.Layout()))
    found: list[tuple[list[Json], dict[str, list[int]]]] = []
    for rank in range(degrees.ranks):
        store = FakeStore()
        dist.init_process_group("fake", rank=rank, world_size=degrees.ranks, store=store)
        try:
            module = trace(layout(rank, degrees))
            found.append((export(module), block.group_ranks(module.graph)))
        finally:
            dist.destroy_process_group()
    out.mkdir(parents=True, exist_ok=True)
    block.write_graph(out / "seq.json", 0, seq)
    for rank, (nodes, _) in enumerate(found):
        block.write_graph(out / f"dist.r{rank}.json", rank, nodes)
    names = returned(seq)
    per_rank = [returned(nodes) for nodes, _ in found]
    outputs = [
        {"seq": name, "dist": {str(r): mine[i] for r, mine in enumerate(per_rank)}}
        for i, name in enumerate(names)
    ]
    documents = {
        "groups": block.groups([groups for _, groups in found]),
        "relations": relations(degrees),
        "outputs": outputs,
    }
    for name, document in documents.items():
        (out / f"{name}.json").write_text(json.dumps(document, indent=1) + "\n")
    what = ["loss", "norm", *model.PARAMETERS, *(f"new {n}" for n in model.PARAMETERS)]
    return dict(zip(what, names, strict=True))


def main() -> None:
    """Parse the arguments and capture."""
    parser = argparse.ArgumentParser(description="capture a training step as JSON")
    parser.add_argument("out", type=Path, help="folder to write")
    parser.add_argument("--tensor", type=int, default=2, help="tensor-parallel ranks")
    parser.add_argument("--data", type=int, default=1, help="data-parallel ranks")
    parser.add_argument("--sequence-parallel", action="store_true")
    parser.add_argument("--bug", choices=model.BUGS, action="append", default=[])
    args = parser.parse_args()
    bugs = tuple(args.bug)
    capture(args.out, Degrees(args.tensor, args.data, args.sequence_parallel, bugs))


if __name__ == "__main__":
    main()
