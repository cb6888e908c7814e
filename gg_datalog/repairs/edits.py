"""A graph with a collective or a scalar put in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gg_datalog.errors import InputError
from gg_datalog.repairs.candidate import Candidate, Group, Site

Json = dict[str, Any]
WAIT = "_c10d_functional.wait_tensor.default"


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
    name = names.get(group, "")
    if candidate.replaces:
        args = [rows[at]["args"][0], candidate.reduction, name]
        rows[at] = {**rows[at], "args": args, "kwargs": {}}
        return {**graph, "nodes": rows}
    used = {row["name"] for row in rows}
    new = fresh(f"{site.node}_repair", used)
    steps = _steps(candidate, len(group), name)
    if site.users or rows[at]["op"] != "call_function":
        after = [_rewired(row, site, new) for row in rows[at + 1 :]]
        added = _added(rows[at], new, used, candidate, steps)
        return {**graph, "nodes": [*rows[: at + 1], *added, *after]}
    # What is put in takes over the name, and with it all users and the output's place.
    before = {**rows[at], "name": new}
    added = _added(before, site.node, used, candidate, steps)
    return {**graph, "nodes": [*rows[:at], before, *added, *rows[at + 1 :]]}


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


def _steps(candidate: Candidate, size: int, group: str) -> list[tuple[str, list[Any]]]:
    """Operators that are applied one after the other, each with its further arguments."""
    if candidate.factor is not None:
        num, den = candidate.factor.numerator, candidate.factor.denominator
        steps = [("aten.mul.Tensor", num), ("aten.div.Tensor", den)]
        return [(target, [number]) for target, number in steps if number != 1]
    arguments: dict[str, tuple[str, list[Any]]] = {
        "all_reduce": ("all_reduce", [candidate.reduction]),
        "broadcast": ("broadcast", [candidate.root]),
        "all_gather": ("all_gather_into_tensor", [candidate.dim, size]),
    }
    kind, further = arguments[candidate.action]
    return [(f"_c10d_functional.{kind}.default", [*further, group]), (WAIT, [])]


def _added(
    row: Json, last: str, used: set[str], candidate: Candidate, steps: list[tuple[str, list[Any]]]
) -> list[Json]:
    """The new nodes after ``row``; the last one is called ``last``."""
    about: Json = {key: row[key] for key in ("shape", "dtype", "source", "module") if key in row}
    if candidate.action == "all_gather":
        size = len(candidate.groups[0])
        about["shape"] = [
            extent * size if dim == candidate.dim else extent
            for dim, extent in enumerate(row["shape"])
        ]
    made: list[Json] = []
    before = row["name"]
    for number, (target, further) in enumerate(steps, 1):
        new = last if number == len(steps) else fresh(f"{last}_step", used)
        call = {"name": new, "op": "call_function", "target": target, "kwargs": {}}
        made.append({**about, **call, "args": [{"node": before}, *further]})
        before = new
    return made
