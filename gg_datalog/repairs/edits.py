"""A graph with a collective or a scalar put in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gg_datalog.foundation.errors import InputError
from gg_datalog.repairs.candidate import Candidate, Group, Site

Json = dict[str, Any]
SLICE = "aten.slice.Tensor"


@dataclass(frozen=True)
class Step:
    """An operator to apply: what comes after the tensor among its arguments, and the shape of its
    result, where that is known."""

    target: str
    further: list[Any]
    shape: list[Any] | None


def edited(graph: Json, site: Site, candidate: Candidate, names: Mapping[Group, str]) -> Json:
    """A copy of the graph with the candidate at one place; ``names`` are those of its groups.

    Raises:
        InputError: there is no such node.
    """
    rows: list[Json] = list(graph["nodes"])
    at = next((i for i, row in enumerate(rows) if row["name"] == site.node), None)
    if at is None:
        raise InputError(f"there is no node `{site.node}`", None, "extract the case again")
    group = candidate.group_of(site.rank) if candidate.groups else ()
    row, used = rows[at], {row["name"] for row in rows}
    if candidate.replaces and row["target"] != SLICE:
        return {**graph, "nodes": _put(rows, at, [_regrouped(row, candidate, group, names[group])])}
    steps = _steps(candidate, row, len(group), names.get(group, ""))
    if candidate.replaces:
        made = _applied(row, row["args"][0]["node"], site.node, steps, used)
        return {**graph, "nodes": _put(rows, at, made)}
    new = fresh(f"{site.node}_repair", used)
    if site.users or row["op"] != "call_function":
        made = _applied(row, site.node, new, steps, used)
        after = [_rewired(other, site, new) for other in rows[at + 1 :]]
        return {**graph, "nodes": [*rows[: at + 1], *made, *after]}
    # What is put in takes over the name, and with it all users and the output's place.
    before = {**row, "name": new}
    return {
        **graph,
        "nodes": _put(rows, at, [before, *_applied(row, new, site.node, steps, used)]),
    }


def _put(rows: list[Json], at: int, new: list[Json]) -> list[Json]:
    return [*rows[:at], *new, *rows[at + 1 :]]


def fresh(name: str, used: set[str]) -> str:
    """A name that is not used, which it is from now on."""
    while name in used:
        name += "_"
    used.add(name)
    return name


def _rewired(row: Json, site: Site, new: str) -> Json:
    if site.users and row["name"] not in site.users:
        return row
    kept = {"args": row.get("args", []), "kwargs": row.get("kwargs", {})}
    return {**row, **_renamed(kept, site.node, new)}


def _renamed(value: Any, old: str, new: str) -> Any:
    if isinstance(value, dict):
        if value == {"node": old}:
            return {"node": new}
        return {key: _renamed(part, old, new) for key, part in value.items()}
    return [_renamed(part, old, new) for part in value] if isinstance(value, list) else value


def _regrouped(row: Json, candidate: Candidate, group: Group, name: str) -> Json:
    """The collective over another group, and where the candidate says so with another reduction."""
    args = [row["args"][0]]
    words = [arg for arg in row["args"] if isinstance(arg, str)]
    for arg in row["args"][1:]:
        if arg == words[-1]:
            args.append(name)
        elif isinstance(arg, str):
            args.append(candidate.reduction or arg)
        else:
            sized = isinstance(arg, int) and "reduce_scatter" in row["target"]
            args.append(len(group) if sized else arg)
    return {**row, "args": args}


def _steps(candidate: Candidate, row: Json, size: int, group: str) -> list[Step]:
    """Operators that are applied one after the other."""
    shape, dim = row.get("shape"), candidate.dim
    if candidate.factor is not None:
        num, den = candidate.factor.numerator, candidate.factor.denominator
        steps = [("aten.mul.Tensor", num), ("aten.div.Tensor", den)]
        return [Step(target, [number], shape) for target, number in steps if number != 1]
    if candidate.action == "all_reduce":
        return [_functional("all_reduce", [candidate.reduction, group], shape), _wait(shape)]
    if candidate.action == "broadcast":
        return [_functional("broadcast", [candidate.root, group], shape), _wait(shape)]
    whole = shape and [e * size if i == dim else e for i, e in enumerate(shape)]
    if candidate.action == "all_gather":
        before, after, name = shape, whole, "all_gather_into_tensor"
        given = [size, group]
    else:
        before, after, name = whole, shape, "reduce_scatter_tensor"
        given = [candidate.reduction, size, group]
    moved = _turned(after, dim)
    turn = Step("aten.transpose.int", [0, dim], _turned(before, dim))
    back = Step("aten.transpose.int", [0, dim], after)
    done = [_functional(name, given, moved), _wait(moved)]
    return [turn, *done, back] if dim else done


def _turned(shape: list[Any] | None, dim: int) -> list[Any] | None:
    """The shape with ``dim`` and the first dimension exchanged."""
    if not shape:
        return shape
    other = list(shape)
    other[0], other[dim] = other[dim], other[0]
    return other


def _functional(name: str, further: list[Any], shape: list[Any] | None) -> Step:
    return Step(f"_c10d_functional.{name}.default", further, shape)


def _wait(shape: list[Any] | None) -> Step:
    return Step("_c10d_functional.wait_tensor.default", [], shape)


def _applied(row: Json, before: str, last: str, steps: list[Step], used: set[str]) -> list[Json]:
    """Nodes that apply the steps to node ``before``, in the place of ``row``; the last one is
    called ``last``."""
    about: Json = {key: row[key] for key in ("dtype", "source", "module") if key in row}
    made: list[Json] = []
    for number, step in enumerate(steps, 1):
        new = last if number == len(steps) else fresh(f"{last}_step", used)
        call = {"name": new, "op": "call_function", "target": step.target, "kwargs": {}}
        shape = {} if step.shape is None else {"shape": step.shape}
        made.append({**about, **call, **shape, "args": [{"node": before}, *step.further]})
        before = new
    return made
