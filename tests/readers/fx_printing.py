"""Prints a JSON graph as torch's ``print_readable`` would have (torch/fx/graph.py, 2.4 to 2.13)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gg_datalog.readers.fx_values import DTYPES

Json = dict[str, Any]
SHORT = {name: short for short, name in DTYPES.items()}
RED, DIM, GREEN, BLUE, END = "\x1b[31m", "\x1b[2m", "\x1b[32m", "\x1b[34m", "\x1b[0m"


@dataclass(frozen=True)
class Style:
    """The options of ``print_readable``, and where the text comes from."""

    stride: bool = False
    device: bool = False
    coloured: bool = False
    expanded: bool = False
    pytree: bool = False
    tabbed: bool = False
    annotation: bool = False
    name: str = "GraphModule"


STYLES = {
    "plain": Style(),
    "lambda": Style(stride=True, device=True, name="<lambda>"),
    "coloured": Style(stride=True, device=True, coloured=True),
    "tlparse": Style(stride=True, device=True, expanded=True, tabbed=True, name="joint_helper"),
    "joint": Style(stride=True, device=True, expanded=True, pytree=True, name="inner_f"),
    "joint-plain": Style(pytree=True, annotation=True, name="inner_f"),
}


def load(path: Path) -> Json:
    """A JSON graph."""
    graph: Json = json.loads(path.read_text(encoding="utf-8"))
    return graph


def printed(graph: Json, style: Style) -> str:
    """The text of a graph."""
    nodes = graph["nodes"]
    body, source = [], None
    last = last_uses(nodes)
    for row in nodes:
        if row["op"] not in ("placeholder", "output") and told(row, style) != source:
            source = told(row, style)
            body += ["", painted(source, DIM, style)]
        body += statement(row, last.get(row["name"], []), style)
    lines = [f"class {style.name}(torch.nn.Module):"]
    lines += ["    " + line for line in [*signature(nodes, style), *_indented(body)]]
    lead = "\t" if style.tabbed else ""
    return "".join(f"{lead}{line}".rstrip(" ") + "\n" for line in lines)


def _indented(lines: list[str]) -> list[str]:
    return ["    " + line for line in lines]


def painted(text: str, colour: str, style: Style) -> str:
    return f"{colour}{text}{END}" if style.coloured else text


def told(row: Json, style: Style) -> str:
    """The comment about where a node comes from."""
    lead = (
        "# Annotation: {'stage': 0} ac_graph_id: 1 - PREFER_RECOMPUTE "
        if style.annotation
        else "# "
    )
    if not row.get("source"):
        return lead + "No stacktrace found for following nodes"
    place, colon, code = row["source"].partition(": ")
    return f"{lead}File: {place}, code: {code}" if colon else f"{lead}File: {place}, code: "


def note(row: Json, style: Style) -> str:
    """The annotation of a node."""
    if row.get("shape") is None or not row.get("dtype"):
        return ""
    strides, size = [], 1
    for extent in reversed(row["shape"]):
        strides.insert(0, size)
        size *= extent if isinstance(extent, int) else 1
    parts = [(SHORT[row["dtype"]], RED), (str(row["shape"]).replace("'", ""), BLUE)]
    parts += [(str(strides), DIM + BLUE)] * style.stride + [("cuda:0", DIM + GREEN)] * style.device
    return ': "' + "".join(painted(text, colour, style) for text, colour in parts) + '"'


def signature(nodes: list[Json], style: Style) -> list[str]:
    """``def forward(...)``, and the lines that flatten its arguments."""
    inputs = [row for row in nodes if row["op"] == "placeholder"]
    words = [row["target"] + note(row, style) for row in inputs]
    given = ["primals", "tangents"] if style.pytree else words
    if style.expanded:
        lines = ["def forward(", *_indented([f"{word}," for word in ["self", *given]]), "):"]
        lines = [f"{line}  # PlainAOTInput(idx=0)" if ":" in line[4:] else line for line in lines]
    else:
        lines = [f"def forward({', '.join(['self', *given])}):"]
    if style.pytree:
        joint = [f"{word}  # ParamAOTInput(target='x.y')" for word in words]
        lines += _indented(joint) if style.expanded else ["    " + "; ".join(words) + "; ", ""]
        names = ", ".join(row["target"] for row in inputs)
        lines.append(
            f"    {names}, = fx_pytree.tree_flatten_spec([primals, tangents], self._in_spec)"
        )
    return lines


def statement(row: Json, freed: list[str], style: Style) -> list[str]:
    """The lines of a node."""
    left = f"{row['name']}{note(row, style)} = "
    if row["op"] == "placeholder":
        return []
    if row["op"] == "output":
        return returned(row["args"][0], style)
    if row["op"] == "get_attr":
        return [left + "self." + row["target"] + deleted(freed, style)]
    if row["target"] == "<built-in function getitem>":
        of, place = (argument(value, style) for value in row["args"])
        return [f"{left}{of}[{place}]" + deleted(freed, style)]
    higher = row["target"].startswith("auto_functionalized")
    space = "torch.ops.higher_order." if higher else "torch.ops."
    words = [argument(value, style) for value in row["args"]]
    if higher:
        words[0] = "torch.ops." + row["args"][0]
    words += [f"{key} = {argument(value, style)}" for key, value in row["kwargs"].items()]
    return [f"{left}{space}{row['target']}({', '.join(words)})" + deleted(freed, style)]


def returned(value: Any, style: Style) -> list[str]:
    """``return``, in its forms."""
    ends = ("pytree.tree_unflatten(", ", self._out_spec)") if style.pytree else ("", "")
    if not style.expanded:
        return [f"return {ends[0]}{argument(value, style)}{ends[1]}"]
    items = [f"    {argument(part, style)},  # PlainAOTOutput(idx=0)" for part in value]
    return [f"return {ends[0]}[", *items, f"]{ends[1]}"]


def deleted(freed: list[str], style: Style) -> str:
    return ";  " + painted(" = ".join([*freed, "None"]), DIM, style) if freed else ""


def argument(value: Any, style: Style) -> str:
    """An argument as torch writes it."""
    if isinstance(value, list):
        return "[" + ", ".join(argument(part, style) for part in value) + "]"
    if not isinstance(value, dict):
        # one of the graphs here was written with layouts as strings
        return value if value == "torch.strided" else painted(repr(value), BLUE, style)
    if value.keys() == {"node"}:
        return str(value["node"])
    ((kind, literal),) = value.items()
    if kind == "device":
        name, _, index = literal.partition(":")
        return f"device(type='{name}', index={index})" if index else f"device(type='{name}')"
    return str(literal) if kind == "float" else f"torch.{literal}"


def last_uses(nodes: list[Json]) -> dict[str, list[str]]:
    """Which tensors are freed after a node."""
    seen: set[str] = set()
    found: dict[str, list[str]] = {}
    for row in reversed(nodes):
        for name in operands([row["args"], row["kwargs"]]):
            if name not in seen:
                seen.add(name)
                found.setdefault(row["name"], []).append(name)
        if row["name"] not in seen:
            found.setdefault(row["name"], []).append(row["name"])
    return found


def operands(value: Any) -> list[str]:
    if isinstance(value, list):
        return [name for part in value for name in operands(part)]
    if isinstance(value, dict):
        if value.keys() == {"node"}:
            return [value["node"]]
        return [name for part in value.values() for name in operands(part)]
    return []
