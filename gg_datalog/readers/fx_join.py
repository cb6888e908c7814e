"""A forward and a backward graph of AOTAutograd as one program.

The forward graph returns the user's outputs and then what it saves; the backward graph takes the
saved values under the same names, and then the gradients of the outputs, called ``tangents_1``, ...
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from gg_datalog.foundation.errors import InputError
from gg_datalog.readers.fx_nodes import Program
from gg_datalog.readers.fx_values import Json

TANGENT = re.compile(r"tangents_\d+")
PAIR = (
    "give the forward and the backward graph of one compilation, in this order (FWD.txt+BWD.txt), "
    "or the joint graph"
)


def joined(forward: Program, backward: Program) -> Program:
    """One program that returns the user's outputs, then the gradients."""
    saved = [row for row in _inputs(backward) if not TANGENT.fullmatch(row["name"])]
    returned = _returned(forward)
    outputs = returned[: len(returned) - len(saved)]
    _check(forward, backward, saved, returned)
    names = _renamed(forward, backward, saved)
    path = f"{forward.path}+{backward.path}"
    tangents = [row for row in _inputs(backward) if TANGENT.fullmatch(row["name"])]
    body = [row for row in backward.nodes if row["op"] not in ("placeholder", "output")]
    inputs, rest = list(_inputs(forward)), forward.nodes[:-1]
    nodes = [*inputs, *tangents, *(row for row in rest if row["op"] != "placeholder")]
    nodes += [_with_names(row, names) for row in body]
    gradients = [_with_names(value, names) for value in _returned(backward)]
    output = {**forward.nodes[-1], "args": [[*outputs, *gradients]]}
    lines = {names.get(name, name): line for name, line in backward.lines.items()}
    constants = backward.constants | forward.constants
    return Program(path, [*nodes, output], lines | forward.lines, constants)


def _inputs(program: Program) -> Iterator[Json]:
    return (row for row in program.nodes if row["op"] == "placeholder")


def _returned(program: Program) -> list[Any]:
    value = program.returns
    return value if isinstance(value, list) else [value]


def _check(forward: Program, backward: Program, saved: list[Json], returned: list[Any]) -> None:
    """What the backward graph takes is what the forward graph returns last, tensors in order."""
    names = [value["node"] if _is_node(value) else None for value in returned]
    for row in saved:
        if row["name"] not in names:
            raise InputError(
                f"the backward graph takes `{row['name']}`, which the forward does not return",
                backward.where(row["name"]),
                PAIR,
            )
    tail = names[len(names) - len(saved) :]
    made = {row["name"]: row for row in forward.nodes}
    tensors = [row["name"] for row in saved if "shape" in row]
    kept = [name for name in tail if name is not None and "shape" in made[name]]
    if sorted(map(str, tail)) != sorted(row["name"] for row in saved) or kept != tensors:
        raise InputError(
            "the forward graph does not end with what the backward graph takes: it returns "
            f"{tail} last",
            forward.path,
            PAIR,
        )
    for row in saved:
        _check_form(made[row["name"]], row, backward)


def _check_form(made: Json, taken: Json, backward: Program) -> None:
    forms = [(row.get("shape"), row.get("dtype")) for row in (made, taken)]
    if forms[0] != forms[1] and None not in forms[0]:
        raise InputError(
            f"the backward graph takes `{taken['name']}` as {_form(taken)}, "
            f"the forward graph returns {_form(made)}",
            backward.where(taken["name"]),
            PAIR,
        )


def _form(row: Json) -> str:
    return f"{row.get('dtype')}{row.get('shape')}"


def _renamed(forward: Program, backward: Program, saved: list[Json]) -> dict[str, str]:
    """New names for what the backward graph computes again under the same name."""
    taken = {row["name"] for row in (*forward.nodes, *backward.nodes)}
    before, kept = {row["name"] for row in forward.nodes}, {row["name"] for row in saved}
    names: dict[str, str] = {}
    for row in backward.nodes:
        if row["op"] == "output" or row["name"] not in before - kept:
            continue
        number, name = 0, f"{row['name']}_again"
        while name in taken:
            number, name = number + 1, f"{row['name']}_again_{number}"
        names[row["name"]] = name
        taken.add(name)
    return names


def _with_names(value: Any, names: dict[str, str]) -> Any:
    """A node or an argument with the new names."""
    if isinstance(value, list):
        return [_with_names(part, names) for part in value]
    if not isinstance(value, dict):
        return value
    if _is_node(value):
        return {"node": names.get(value["node"], value["node"])}
    again = {key: _with_names(part, names) for key, part in value.items()}
    if "op" in value:
        again["name"] = names.get(value["name"], value["name"])
    return again


def _is_node(value: Any) -> bool:
    return isinstance(value, dict) and value.keys() == {"node"}
