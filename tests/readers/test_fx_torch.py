"""Graphs of torch itself: what the reader makes of the text is what the graph holds."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")


from gg_datalog.foundation.errors import InputError  # noqa: E402
from gg_datalog.readers import ReaderInput  # noqa: E402
from gg_datalog.readers.fx_text import read  # noqa: E402

from .fx_attacks import fake_group  # noqa: E402

Json = dict[str, Any]
LITERALS = ("dtype", "device", "memory_format", "layout")


def argument(value: Any) -> Any:
    """An argument in the JSON form, from the graph itself."""
    if isinstance(value, torch.fx.Node):
        return {"node": value.name}
    if isinstance(value, (list, tuple)):
        return [argument(part) for part in value]
    if isinstance(value, torch._ops.OpOverload):
        return str(value)
    for kind in LITERALS:
        if isinstance(value, getattr(torch, kind)):
            return {kind: str(value).removeprefix("torch.")}
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": str(value)}
    return value


def row(node: Any) -> Json:
    """A node in the JSON form, from the graph itself."""
    found: Json = {"name": node.name, "op": node.op, "target": str(node.target)}
    found |= {
        "args": argument(node.args),
        "kwargs": {k: argument(v) for k, v in node.kwargs.items()},
    }
    value = node.meta.get("val")
    if isinstance(value, torch.Tensor) and node.op != "output":
        found["shape"] = [e if isinstance(e, int) else str(e) for e in value.shape]
        found["dtype"] = str(value.dtype).removeprefix("torch.")
    return found


def held(rows: list[Json]) -> list[Json]:
    return [{k: v for k, v in row.items() if k not in ("source", "value")} for row in rows]


def read_text(text: str, tmp_path: Path) -> list[Json]:
    file = tmp_path / "graph.txt"
    file.write_text(text, encoding="utf-8")
    found: list[Json] = read(ReaderInput([file, file])).seq["nodes"]
    return found


def check(module: Any, tmp_path: Path) -> None:
    """Every way to print a graph gives the graph."""
    expected = [row(node) for node in module.graph.nodes]
    ways: list[Json] = [
        {},
        {"include_stride": True, "include_device": True},
        {"expanded_def": True},
    ]
    for way in [*ways, {"colored": True, "include_device": True}]:
        text = module.print_readable(print_output=False, **way)
        assert held(read_text(text, tmp_path)) == expected


class Model(torch.nn.Module):
    """Constants, several results, infinities, copies, and something at a mask."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = torch.nn.Linear(16, 8)

    def forward(self, x: Any, mask: Any) -> Any:
        y = self.fc(x).clone()
        y[mask] = 0.0
        best, where = torch.max(y, -1, True)
        z = torch.where(y > 0, y, torch.tensor(-math.inf)).to(torch.float64)
        return y - best, where, torch.softmax(z, -1).sum(), torch.arange(4, device="cpu")


def inputs() -> tuple[Any, Any]:
    return torch.randn(4, 16), torch.zeros(4, 8, dtype=torch.bool)


def test_make_fx(tmp_path: Path) -> None:
    from torch.fx.experimental.proxy_tensor import make_fx

    model = Model()
    check(make_fx(lambda *given: model(*given))(*inputs()), tmp_path)


def test_symbolic_sizes(tmp_path: Path) -> None:
    from torch.fx.experimental.proxy_tensor import make_fx

    def f(x: Any, y: Any) -> Any:
        z = torch.cat([x, y * 2])
        return z.view(-1, x.shape[1] // 2), torch.ones(x.shape[0] + 1) * y.shape[0]

    given = torch.randn(6, 4), torch.randn(3, 4)
    module = make_fx(f, tracing_mode="symbolic")(*given)
    check(module, tmp_path)


def test_export(tmp_path: Path) -> None:
    size = torch.export.Dim.AUTO
    sizes = ({0: size}, {0: size})
    for dynamic in (None, sizes):
        program = torch.export.export(Model(), inputs(), dynamic_shapes=dynamic)
        check(program.graph_module, tmp_path)
        assert read_text(str(program), tmp_path)[-1]["op"] == "output"
        lowered = program.run_decompositions({})
        check(lowered.graph_module, tmp_path)


def joint(model: Any, *given: Any) -> Any:
    """The graph of a model and its gradients."""
    from torch._dynamo.functional_export import dynamo_graph_capture_for_export
    from torch._functorch.aot_autograd import aot_export_joint_with_descriptors

    with contextlib.ExitStack() as stack:
        captured = dynamo_graph_capture_for_export(model)(*given)
        return aot_export_joint_with_descriptors(stack, captured, given).graph_module


def test_joint_graph(tmp_path: Path) -> None:
    module = joint(Model(), *inputs())
    check(module, tmp_path)
    text = module.print_readable(print_output=False)
    rows = {row["name"]: row for row in read_text(text, tmp_path)}
    line = rows["index_put"]["source"]
    assert line.startswith(f"{__file__}:") and line.endswith("in forward: y[mask] = 0.0")
    assert rows["_tensor_constant0"]["value"] == 0.0


def test_collectives(tmp_path: Path) -> None:
    import torch.distributed._functional_collectives as funcol
    from torch.fx.experimental.proxy_tensor import make_fx

    def f(x: Any) -> Any:
        y = funcol.all_reduce(x, "sum", torch.distributed.group.WORLD)
        z = funcol.all_gather_tensor(y, 0, torch.distributed.group.WORLD)
        return funcol.reduce_scatter_tensor(z, "sum", 0, torch.distributed.group.WORLD) + 1

    with fake_group():
        check(make_fx(f)(torch.randn(4, 4)), tmp_path)
    torch._dynamo.reset()


def compiled(f: Callable[..., Any], *given: Any) -> list[Any]:
    """The forward and the backward graph that AOTAutograd makes."""
    from functorch.compile import aot_function, make_boxed_func

    found: list[Any] = []

    def keep(module: Any, _: Any) -> Any:
        found.append(module)
        return make_boxed_func(module.forward)

    aot_function(f, keep, keep)(*given)[0].sum().backward()
    return found


def test_forward_and_backward(tmp_path: Path) -> None:
    def f(x: Any, w: Any) -> Any:
        y = torch.tanh(x @ w)
        return torch.nn.functional.dropout(y) @ w, y.detach()

    x, w = (torch.randn(4, 4, requires_grad=True) for _ in range(2))
    forward, backward = compiled(f, x, w)
    for name, module in (("fwd", forward), ("bwd", backward)):
        (tmp_path / f"{name}.txt").write_text(module.print_readable(print_output=False))
        check(module, tmp_path)
    both = Path(f"{tmp_path}/fwd.txt+{tmp_path}/bwd.txt")
    rows = read(ReaderInput([both, both])).seq["nodes"]
    placeholders = [row["name"] for row in rows if row["op"] == "placeholder"]
    assert placeholders[:2] == ["primals_1", "primals_2"]
    assert all(name.startswith("tangents_") for name in placeholders[2:])
    assert len(rows[-1]["args"][0]) == 4  # two results, two gradients
    names = {row["name"] for row in rows}
    assert len(names) == len(rows)
    # what the backward graph computes again has a name of its own
    calls = [row for row in rows if row["op"] == "call_function"]
    again = [row["name"] for row in calls if row["name"].endswith("_again")]
    expected = [
        row(n) for m in (forward, backward) for n in m.graph.nodes if n.op == "call_function"
    ]
    assert again and len(calls) == len(expected)
    for found, meant in zip(held(calls), expected, strict=True):
        assert found["name"].removesuffix("_again") == meant["name"]
        assert (found["target"], found.get("shape")) == (meant["target"], meant.get("shape"))


def test_graphs_before_autograd(tmp_path: Path) -> None:
    graphs: list[Any] = []

    def backend(module: Any, _: Any) -> Any:
        graphs.append(module)
        return module

    torch._dynamo.reset()
    torch.compile(Model(), backend=backend)(*inputs())
    traced = torch.fx.symbolic_trace(torch.nn.Sequential(torch.nn.Linear(3, 3)))
    for module in (graphs[0], traced):
        with pytest.raises(InputError, match="before AOTAutograd"):
            read_text(module.print_readable(print_output=False), tmp_path)


def test_bare_code_and_subgraphs(tmp_path: Path) -> None:
    program = torch.export.export(Model(), inputs())
    with pytest.raises(InputError, match=r"print_readable"):
        read_text(program.graph_module.code, tmp_path)

    class Branch(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x,))

    program = torch.export.export(Branch(), (torch.randn(3),))
    with pytest.raises(InputError, match="higher-order operator `cond`"):
        read_text(program.graph_module.print_readable(print_output=False), tmp_path)
