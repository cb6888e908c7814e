"""Prints graphs of the JSON format as HLO text in the manner of Transformers-NeuronX."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

Json = dict[str, Any]
SHORT = {"float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64", "bool": "pred",
         "int32": "s32", "int64": "s64", "uint32": "u32"}  # fmt: skip
UNARY = {"aten.sin": "sine", "aten.cos": "cosine", "aten.exp": "exponential",
         "aten.neg": "negate", "aten.rsqrt": "rsqrt", "hlo.logistic": "logistic"}  # fmt: skip
BINARY = {"aten.mul": "multiply", "aten.add": "add", "aten.sub": "subtract", "aten.div": "divide",
          "aten.bitwise_and": "and"}  # fmt: skip
COMPARE = {"aten.le": "LE", "aten.ge": "GE", "aten.lt": "LT", "aten.gt": "GT"}


class Printer:
    """One graph as text. ``members`` are the ranks of a group by its name."""

    def __init__(self, graph: Json, members: Mapping[str, Sequence[int]]) -> None:
        self.nodes: list[Json] = graph["nodes"]
        self.by_name = {node["name"]: node for node in self.nodes}
        self.members = members
        self.lines: list[str] = []
        self.numbers = 10_000
        self.regions: dict[str, str] = {}

    def text(self) -> str:
        """The module."""
        body = [line for node in self.nodes for line in self._node(node)]
        head = "HloModule SyncTensorsGraph.4711, entry_computation_layout={()->()}"
        parts = [head, "", *self.regions.values(), "ENTRY %SyncTensorsGraph.4711 {", *body, "}"]
        return "\n".join(parts) + "\n"

    # ---- pieces
    def shape(self, node: Json, plain: bool = False) -> str:
        dims = node["shape"]
        layout = "{" + ",".join(map(str, reversed(range(len(dims))))) + "}"
        return f"{SHORT[node['dtype']]}[{','.join(map(str, dims))}]{'' if plain else layout}"

    def metadata(self, node: Json) -> str:
        found = re.match(r"(.*?):(\d+)", str(node.get("source") or ""))
        path, line = (found[1], found[2]) if found else ("", "")
        kind = node["name"].rpartition(".")[0]
        where = f' source_file="{path}" source_line={line}' if path else ""
        return f', metadata={{op_type="{kind}" op_name="{node["name"]}"{where}}}'

    def constant(self, value: object, dtype: str, out: list[str]) -> str:
        """A scalar constant of its own, as the captures inlined them."""
        self.numbers += 1
        name = f"constant.{self.numbers}"
        out.append(f"  {name} = {dtype}[] constant({str(value).lower()})")
        return name

    def region(self, opcode: str, dtype: str) -> str:
        """The computation of a reduction."""
        name = f"{opcode}.{dtype.upper()}.77"
        self.regions[name] = "\n".join(
            [
                f"%{name} (lhs.1: {dtype}[], rhs.2: {dtype}[]) -> {dtype}[] {{",
                f"  %lhs.1 = {dtype}[] parameter(0)",
                f"  %rhs.2 = {dtype}[] parameter(1)",
                f"  ROOT %{opcode}.3 = {dtype}[] {opcode}({dtype}[] %lhs.1, {dtype}[] %rhs.2)",
                "}",
                "",
            ]
        )
        return name

    def _node(self, node: Json) -> Iterator[str]:
        if node["op"] == "output":
            refs = [ref["node"] for ref in node["args"][0]]
            shapes = ", ".join(self.shape(self.by_name[r]) for r in refs)
            yield f"  ROOT %tuple.9999 = ({shapes}) tuple({', '.join(refs)})"
            return
        out: list[str] = []
        made = self._instruction(node, out)
        yield from out
        yield f"  {node['name']} = {self.shape(node)} {made}{self.metadata(node)}"

    def _instruction(self, node: Json, out: list[str]) -> str:
        if node["op"] == "placeholder":
            number = [n["name"] for n in self.nodes if n["op"] == "placeholder"].index(node["name"])
            return f"parameter({number})"
        target = node["target"]
        name = target.rpartition(".")[0] if target.count(".") > 1 else target
        args = [a["node"] if isinstance(a, dict) and "node" in a else a for a in node["args"]]
        form = FORMS.get(name)
        if form is not None:
            return form(self, node, args, out)
        table = UNARY if name in UNARY else BINARY
        if name in COMPARE:
            return f"compare({args[0]}, {args[1]}), direction={COMPARE[name]}"
        return f"{table[name]}({', '.join(args)})"


Form = Callable[[Printer, Json, list[Any], list[str]], str]


def _set(values: Sequence[int]) -> str:
    return "{" + ",".join(map(str, values)) + "}"


def _clone(p: Printer, node: Json, args: list[Any], out: list[str]) -> str:
    if node["name"].startswith("custom-call"):
        return f'custom-call({args[0]}), custom_call_target="AwsNeuronTransferWithStaticRing"'
    return f"convert({args[0]})"


def _broadcast(p: Printer, node: Json, args: list[Any], out: list[str]) -> str:
    x = args[0]
    if not isinstance(x, str):
        x = p.constant(x, SHORT[node["dtype"]], out)
    return f"broadcast({x}), dimensions={_set(args[1])}"


def _dot(p: Printer, node: Json, args: list[Any], out: list[str]) -> str:
    keys = ["lhs_contracting_dims", "rhs_contracting_dims", "lhs_batch_dims", "rhs_batch_dims"]
    lists = [f"{k}={_set(v)}" for k, v in zip(keys, args[2:6], strict=True) if v]
    return ", ".join([f"dot({args[0]}, {args[1]})", *lists])


def _slice(p: Printer, node: Json, args: list[Any], out: list[str]) -> str:
    rows = [f"[0:{n}]" for n in p.by_name[args[0]]["shape"]]
    rows[args[1]] = f"[{args[2]}:{args[3]}]"
    return f"slice({args[0]}), slice={{{', '.join(rows)}}}"


def _gather(p: Printer, node: Json, args: list[Any], out: list[str]) -> str:
    keys = ["offset_dims", "collapsed_slice_dims", "start_index_map"]
    lists = [f"{k}={_set(v)}" for k, v in zip(keys, args[2:5], strict=True)]
    rest = f"index_vector_dim={args[5]}, slice_sizes={_set(args[6])}"
    return f"gather({args[0]}, {args[1]}), {', '.join(lists)}, {rest}"


def _reduce(p: Printer, node: Json, args: list[Any], out: list[str], kind: str) -> str:
    dtype = SHORT[node["dtype"]]
    start = p.constant("-inf" if kind == "maximum" else 0, dtype, out)
    dims = args[1] if isinstance(args[1], list) else [args[1]]
    return f"reduce({args[0]}, {start}), dimensions={_set(dims)}, to_apply=%{p.region(kind, dtype)}"


def _norm(p: Printer, node: Json, args: list[Any], out: list[str]) -> str:
    epsilon = p.constant("1e-05", "f32", out)
    return (
        f"custom-call({args[0]}, {args[1]}, {epsilon}), "
        'custom_call_target="AwsNeuronRmsNorm", backend_config="0"'
    )


def _all_reduce(p: Printer, node: Json, args: list[Any], out: list[str]) -> str:
    ranks = p.members[args[2]]
    region = p.region("add", SHORT[node["dtype"]])
    return f"all-reduce({args[0]}), replica_groups={{{_set(ranks)}}}, to_apply=%{region}"


FORMS: dict[str, Form] = {
    "aten.clone": _clone,
    "aten.view": lambda p, node, args, out: f"reshape({args[0]})",
    "aten.permute": lambda p, node, args, out: f"transpose({args[0]}), dimensions={_set(args[1])}",
    "aten.empty": lambda p, node, args, out: "constant({...})",
    "aten.arange": lambda p, node, args, out: "iota(), iota_dimension=0",
    "aten.cat": lambda p, node, args, out: (
        f"concatenate({', '.join(r['node'] for r in args[0])}), dimensions={_set(args[1:2])}"
    ),
    "aten.slice": _slice,
    "aten.sum": lambda p, node, args, out: _reduce(p, node, args, out, "add"),
    "hlo.broadcast": _broadcast,
    "hlo.dot": _dot,
    "hlo.gather": _gather,
    "hlo.reduce_max": lambda p, node, args, out: _reduce(p, node, args, out, "maximum"),
    "hlo.select": lambda p, node, args, out: f"select({', '.join(args)})",
    "hlo.AwsNeuronRmsNorm": _norm,
    "_c10d_functional.all_reduce": _all_reduce,
}


def printed(graph: Json, groups: Json, side: str) -> str:
    """A graph as text, with the groups of its side."""
    rank = str(graph.get("rank", 0))
    members = {
        entry["names"][rank]: entry["ranks"]
        for entry in groups.get(side, [])
        if rank in entry["names"]
    }
    return Printer(graph, members).text()
