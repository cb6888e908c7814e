"""Values of constants: a printed graph names them (``self._tensor_constant0``) and no more.

Proofs about masked lookups need the constant that ``x[mask] = 0`` leaves in the graph. Its value is
taken, in this order, from an ``__init__`` in the text, from the source line of the assignment, and,
where that line is hidden in an autograd function, as zero. The last two are assumptions. A constant
holds the number in its own type: 0.5 put into integers is 0.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any

from gg_datalog.extract.graph import Ref, references
from gg_datalog.readers.fx_values import Json

Number = int | float | bool

COPIES = ("aten.lift_fresh_copy.default", "aten.lift_fresh.default", "aten.detach.default")
PUTS = ("aten.index_put.default", "aten.index_put_.default", "aten.masked_fill.Tensor")
CODE = re.compile(r".+?:\d+(?: in .+?)?: (.*)")
# A call that hides what is assigned: `return F.apply(x, mask)`; it may go on in the next line.
HIDDEN = re.compile(r"(return|\w+\s*=)\s*[\w.]+\.apply\(")
INTEGER = re.compile(r"(u?)int(\d+)")


def declared(constructor: ast.FunctionDef | None) -> dict[str, Number]:
    """Numbers that ``__init__`` keeps: ``self.register_buffer('c', torch.tensor(0.0))``."""
    found: dict[str, Number] = {}
    for tree in constructor.body if constructor else ():
        call = tree.value if isinstance(tree, (ast.Expr, ast.Assign)) else None
        if not isinstance(call, ast.Call):
            continue
        name, value = None, _scalar(call)
        if isinstance(tree, ast.Assign) and isinstance(tree.targets[0], ast.Attribute):
            name = tree.targets[0].attr
        elif ast.unparse(call.func) == "self.register_buffer" and len(call.args) > 1:
            name, value = getattr(call.args[0], "value", None), _scalar(call.args[1])
        if isinstance(name, str) and value is not None:
            found[name] = value
    return found


def _scalar(tree: ast.expr) -> Number | None:
    """The number in ``torch.tensor(0.0, dtype=torch.float32)``."""
    if isinstance(tree, ast.Call) and ast.unparse(tree.func) == "torch.tensor" and tree.args:
        return _number(ast.unparse(tree.args[0]))
    return None


def _number(text: str) -> Number | None:
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None
    return value if isinstance(value, (bool, int)) or _finite(value) else None


def _finite(value: Any) -> bool:
    return isinstance(value, float) and abs(value) < float("inf")


def with_values(nodes: list[Json], known: dict[str, Number]) -> Iterator[tuple[str, str]]:
    """Sets ``value`` of scalar constants; yields the names of those that rest on an assumption,
    each with where the value comes from."""
    rows = {row["name"]: row for row in nodes}
    users: dict[str, list[Json]] = {}
    for row in nodes:
        for name in dict.fromkeys(_operands(row)):
            users.setdefault(name, []).append(row)
    for row in nodes:
        if row["op"] != "get_attr":
            continue
        _formed(row, users.get(row["name"], []))
        value, how = known.get(row["target"]), ""
        if value is None and row.get("shape") == [] and _put_at_mask(row["name"], users, rows):
            value, how = _assigned(row.get("source", ""))
        value = _held(value, row.get("dtype") or "")
        if value is not None:
            row["value"] = value
            if how:
                yield row["name"], how


def _held(value: Number | None, dtype: str) -> Number | None:
    """The number as a tensor of the type holds it; None for one that it cannot hold."""
    found = INTEGER.fullmatch(dtype)
    if value is None or (found is None and dtype != "bool"):
        return value
    if found is None:
        return bool(value)
    whole, size = int(value), 1 << int(found[2])
    if found[1]:
        return whole % size if -size < whole < size else None
    return whole if -size <= 2 * whole < size else None


def _operands(row: Json) -> Iterator[str]:
    yield from references((_refs(row["args"]), _refs(row["kwargs"])))


def _refs(value: Any) -> Any:
    if isinstance(value, list):
        return [_refs(part) for part in value]
    if isinstance(value, dict):
        if value.keys() == {"node"}:
            return Ref(value["node"])
        return {key: _refs(part) for key, part in value.items()}
    return value


def _formed(row: Json, users: list[Json]) -> None:
    """Older releases do not annotate constants; the copy that is made of them has the same form."""
    for user in users:
        if "shape" not in row and user["target"] in COPIES and "shape" in user:
            row |= {"shape": user["shape"], "dtype": user["dtype"]}


def _put_at_mask(name: str, users: dict[str, list[Json]], rows: dict[str, Json]) -> bool:
    """Is everything that is made of the constant put where a mask says, and nothing else?"""
    found = users.get(name, [])
    return bool(found) and all(
        _put_at_mask(user["name"], users, rows)
        if user["target"] in COPIES
        else _puts(user, name, rows)
        for user in found
    )


def _puts(user: Json, name: str, rows: dict[str, Json]) -> bool:
    args = user["args"]
    if user["target"] not in PUTS or len(args) != 3 or args[2] != {"node": name}:
        return False
    places = args[1] if isinstance(args[1], list) else [args[1]]
    masks = [rows[place["node"]] for place in places if isinstance(place, dict)]
    return bool(masks) and all(mask.get("dtype") == "bool" for mask in masks)


def _assigned(source: str) -> tuple[Number | None, str]:
    """The value that a source line assigns; zero where an autograd function hides it."""
    found = CODE.fullmatch(source)
    code = found[1].strip() if found else ""
    if HIDDEN.match(code):
        return 0, "taken as 0: an autograd function hides what is assigned"
    try:
        body = ast.parse(code).body
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None, ""
    put = body[0] if len(body) == 1 else None
    if not isinstance(put, ast.Assign) or not isinstance(put.targets[0], ast.Subscript):
        return None, ""
    return _number(ast.unparse(put.value)), "taken from the source line"
