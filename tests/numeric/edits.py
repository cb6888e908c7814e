"""Every small change of a graph: of a number, a flag, a list, a keyword, an operand, an operator."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .program import Json

Change = Callable[[Json, Json], None]  # of a graph, in one of its nodes
Make = Callable[[Any], Any]
Path = tuple[Any, ...]


@dataclass(frozen=True)
class Edit:
    """A change of the node called ``name``."""

    name: str
    text: str
    change: Change = field(compare=False)


NUMBERS: dict[str, Make] = {
    "plus 1": lambda v: v + 1, "less 1": lambda v: v - 1, "negated": lambda v: -v,
    "doubled": lambda v: 2 * v, "0": lambda v: type(v)(0), "1": lambda v: type(v)(1),
}  # fmt: skip
INTEGERS: dict[str, Make] = {**NUMBERS, "2": lambda v: 2}
FLOATS: dict[str, Make] = {**NUMBERS, "inverse": lambda v: 1 / v if v else 2.0}
LISTS: dict[str, Make] = {
    "reversed": lambda v: v[::-1], "without the first": lambda v: v[1:],
    "without the last": lambda v: v[:-1], "rotated": lambda v: v[1:] + v[:1],
    "the last twice": lambda v: [*v, v[-1]], "the first for all": lambda v: v[:1] * len(v),
}  # fmt: skip
REDUCTIONS = ("sum", "avg", "max", "min", "product")
ALIKE = (
    ("add", "sub", "mul", "div", "maximum", "minimum", "rsub"), ("sum", "mean", "amax", "amin"),
    ("exp", "neg", "relu", "tanh", "sigmoid", "abs", "sqrt", "log", "sign", "rsqrt", "silu"),
    ("_softmax", "_log_softmax"), ("lt", "le", "gt", "ge", "eq", "ne"), ("triu", "tril"),
    ("bitwise_and", "bitwise_or", "bitwise_xor"), ("logical_and", "logical_or", "logical_xor"),
    ("cumsum", "cumprod"), ("argmax", "argmin"), ("index_add", "index_copy"),
    ("scatter", "scatter_add"), ("smooth_l1_loss", "huber_loss", "mse_loss"),
    ("clone", "neg", "exp", "alias"), ("floor", "ceil", "round", "trunc"),
)  # fmt: skip


def edits(graph: Json, values: Mapping[str, Any]) -> list[Edit]:
    """All changes of a graph, of which this is known what its nodes hold."""
    forms = {n: (v.shape, v.dtype.kind) for n, v in values.items() if isinstance(v, np.ndarray)}
    found: list[Edit] = []
    for place, node in enumerate(graph["nodes"]):
        if node["op"] == "get_attr" and "value" in node:
            found += _of_value(node["name"], ("value",), node["value"])
        elif node["op"] == "call_function" and not node["target"].endswith("wait_tensor"):
            found += _of_node(node, forms, [n["name"] for n in graph["nodes"][:place]])
    return found


def _of_node(node: Json, forms: Mapping[str, Any], before: Sequence[str]) -> Iterator[Edit]:
    arguments = [row for part in ("args", "kwargs") for row in _leaves(node[part], (part,))]
    for path, value in arguments:
        told = value in REDUCTIONS if isinstance(value, str) else len(path) > 1
        if told and "dropout" not in node["target"]:  # torch takes no other rate
            yield from _of_value(node["name"], path, value)
    for key in node["kwargs"]:
        yield Edit(node["name"], f"without {key}", _without(key))
    if "getitem" not in node["target"]:
        refs = {path: v["node"] for path, v in arguments if isinstance(v, dict) and "node" in v}
        yield from _of_operands(node, refs, forms, before)
        yield from _siblings(node)


# ---- values
def _leaves(value: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    """All arguments and what they hold, lists before their items."""
    yield path, value
    items: Any = ()
    if isinstance(value, list):
        items = enumerate(value)
    elif isinstance(value, dict) and not {"node", "float"} & value.keys():
        items = value.items()
    for key, item in items:
        yield from _leaves(item, (*path, key))


def _of_value(name: str, path: Path, value: Any) -> Iterator[Edit]:
    for text, make in _others(value).items():
        yield Edit(name, f"{path[1:]} {text}", _made(path, make))


def _others(value: Any) -> dict[str, Make]:
    """Other values of the kind."""
    if isinstance(value, bool):
        return {"flipped": lambda v: not v}
    if isinstance(value, (int, float)):
        return INTEGERS if isinstance(value, int) else FLOATS
    if isinstance(value, list):
        return LISTS if len(value) > 1 else {}
    return {one: _always(one) for one in REDUCTIONS} if isinstance(value, str) else {}


def _always(value: Any) -> Make:
    return lambda old: value


def _at(node: Json, path: Path) -> Any:
    found: Any = node
    for step in path:
        found = found[step]
    return found


def _made(path: Path, make: Make) -> Change:
    def change(graph: Json, node: Json) -> None:
        holder = _at(node, path[:-1])
        holder[path[-1]] = make(holder[path[-1]])

    return change


def _without(key: str) -> Change:
    return lambda graph, node: node["kwargs"].pop(key)


# ---- operands and operators
def _of_operands(
    node: Json, refs: Mapping[Path, str], forms: Mapping[str, Any], before: Sequence[str]
) -> Iterator[Edit]:
    """Other operands of the same form, or none; the operator twice, or not at all."""
    name = node["name"]
    for path, old in refs.items():
        form = forms.get(old)
        others = [n for n in before if n != old and form is not None and forms.get(n) == form]
        for other in others:
            yield Edit(name, f"{path[1:]} is {other}", _made(path, _always({"node": other})))
        if len(refs) > 1:
            yield Edit(name, f"{path[1:]} is None", _made(path, _always(None)))
        if form is not None and forms.get(name) == form:
            yield Edit(name, f"is {old}", _instead(old))
            yield Edit(name, f"is done again, at {path[1:]}", _again(path))
    for one, a in refs.items():
        for two, b in refs.items():
            if one < two and a != b:
                yield Edit(name, f"{a} and {b} exchanged", _exchanged(one, two))


def _exchanged(one: Path, two: Path) -> Change:
    def change(graph: Json, node: Json) -> None:
        a, b = _at(node, one), _at(node, two)
        _at(node, one[:-1])[one[-1]] = b
        _at(node, two[:-1])[two[-1]] = a

    return change


def _instead(of: str) -> Change:
    made = {"target": "aten.clone.default", "args": [{"node": of}], "kwargs": {}}
    return lambda graph, node: node.update(made)


def _again(path: Path) -> Change:
    """The operator once more, of its own result."""

    def change(graph: Json, node: Json) -> None:
        first = node["name"] + "_first"
        graph["nodes"].insert(graph["nodes"].index(node), dict(node, name=first))
        node.update(args=_copied(node["args"]), kwargs=_copied(node["kwargs"]))
        _at(node, path[:-1])[path[-1]] = {"node": first}

    return change


def _copied(value: Any) -> Any:
    if isinstance(value, list):
        return [_copied(v) for v in value]
    return {k: _copied(v) for k, v in value.items()} if isinstance(value, dict) else value


def _siblings(node: Json) -> Iterator[Edit]:
    """Another operator in its place."""
    space, _, rest = node["target"].partition(".")
    kernel, *overload = rest.split(".")
    for family in (f for f in ALIKE if space == "aten" and kernel in f):
        for other in (o for o in family if o != kernel):
            target = ".".join([space, other, *overload])
            yield Edit(node["name"], f"becomes {other}", _named(target))


def _named(target: str) -> Change:
    return lambda graph, node: node.update(target=target)
