"""Calls in other forms: arguments by keyword, defaults spelt out or left out. Also on one side only."""

from __future__ import annotations

import random
from typing import Any

from .program import Json, Program
from .signatures import REQUIRED, Signature, signatures

SPELT = 0.25  # how often a default is spelt out
# What an argument may be instead, where the shape stays: mistakes.
OTHERWISE: dict[str, list[Any]] = {
    "alpha": [2, -1], "beta": [2, 0], "value": [2], "reduce_op": ["max", "avg", "product", "min", "sum"],
    "approximate": ["tanh", "none"], "accumulate": [True, False], "eps": [0.5], "weight": [0.75],
    "rounding_mode": ["floor", "trunc"], "exponent": [3], "half_to_float": [], "tag": [5],
    "dim": [0, 1, [0], [1]], "dim0": [0, 1], "start": [0, 1], "index": [0, 1], "offset": [],
    "other": [2, 3], "min": [0.25], "lambd": [], "src": [0, 1],
}  # fmt: skip


def bound(node: Json) -> tuple[Signature, dict[str, Any]] | None:
    """The arguments of a call by name, where the operator is in the file."""
    known = signatures().get(node["target"]) if node["op"] == "call_function" else None
    given = known.bind(node["args"], node.get("kwargs") or {}) if known else None
    return None if known is None or given is None else (known, given)


def respelt(node: Json, rng: random.Random) -> bool:
    """The call in another form, if there is one."""
    found = bound(node)
    if found is None:
        return False
    known, given = found
    before = node["args"], node["kwargs"]
    for name, default in zip(known.names, known.defaults, strict=True):
        if default is REQUIRED:
            continue
        if name in given and _same(given[name], default) and rng.random() < 0.5:
            del given[name]
        elif name not in given and rng.random() < SPELT:
            given[name] = default
    places = 0
    while places < known.keyword and known.names[places] in given:
        places += 1
    kept = rng.choice([places, *range(1, places + 1), rng.randint(0, places)])
    node["args"] = [given[name] for name in known.names[:kept]]
    named = [n for n in given if n not in known.names[:kept]]
    rng.shuffle(named)
    node["kwargs"] = {n: given[n] for n in named}
    return (node["args"], node["kwargs"]) != before


def _same(value: Any, default: Any) -> bool:
    return type(value) is type(default) and bool(value == default)


def spell(program: Program, rng: random.Random) -> set[str]:
    """Other forms of calls, on one side or on both; the names of what changed."""
    sides = rng.choice([("seq",), ("dist",), ("seq", "dist")])
    rate, changed = rng.choice([0.3, 0.7, 1.0]), set()
    graphs = [program.seq] * ("seq" in sides) + [*program.dist.values()] * ("dist" in sides)
    alike = rng.random() < 0.5  # every rank in the same form
    seed = rng.random()
    for graph in graphs:
        for node in graph["nodes"]:
            own = random.Random(f"{seed} {node['name']}") if alike else rng
            if own.random() < rate and respelt(node, own):
                changed.add(node["name"])
    return changed


def misspell(program: Program, rng: random.Random) -> str | None:
    """An argument has another value on the ranks."""
    first = next(iter(program.dist.values()))
    rows = [(n, name) for n in first["nodes"] if (b := bound(n)) for name in b[0].names]
    rows = [(n, name) for n, name in rows if _others(n, name)]
    if not rows:
        return None
    node, name = rng.choice(rows)
    value = rng.choice(_others(node, name))
    for graph in program.dist.values():
        for one in graph["nodes"]:
            if one["name"] == node["name"] and one["target"] == node["target"]:
                _give(one, name, value)
    return f"`{node['name']}`: {name}={value}"


def _others(node: Json, name: str) -> list[Any]:
    """What an argument may be instead."""
    found = bound(node)
    assert found is not None
    known, given = found
    old = given.get(name, known.default(name))
    listed, number = isinstance(old, list), isinstance(old, (int, float))
    fits = [v for v in OTHERWISE.get(name, []) if isinstance(v, list) == listed and v != old]
    if name in ("other", "min", "value", "weight") and not number:
        return []
    return fits if old is not REQUIRED and not isinstance(old, dict) else []


def _give(node: Json, name: str, value: Any) -> None:
    found = bound(node)
    assert found is not None
    known, given = found
    place = known.names.index(name)
    if name in node["kwargs"] or place >= len(node["args"]):
        node["kwargs"] = {**given, name: value}
        node["kwargs"] = {
            k: v for k, v in node["kwargs"].items() if known.names.index(k) >= len(node["args"])
        }
    else:
        node["args"][place] = value
