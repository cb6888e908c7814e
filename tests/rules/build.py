"""Cases in a few lines, and what the rules say of them: many cases in one run of an engine."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest

from gg_datalog.engine import select_engine
from gg_datalog.extract import case_files, extract_case
from gg_datalog.extract.schema import RULE_RELATIONS
from gg_datalog.foundation.errors import InputError

from .program import Program

Row = dict[str, Any]
Tables = dict[str, pa.Table]
MAIN = Path(str(files("gg_datalog.datalog").joinpath("main.dl")))
IDS = ("tensor", "operator", "signature", "shape")
NUMBERS = 1000  # outputs and input rows of a case in a batch
COUNTED = 10_000  # more than the numbers that a case counts


@dataclass(frozen=True, eq=False)
class Case:
    """A pair of programs (see :mod:`.program`) and what the rules should make of it.

    Placeholders of the same name are related: equal shapes are replicas, a dimension that differs
    is sharded in rank order; ``relate`` gives rows of its own for a name. ``maps`` are the names of
    the sequential outputs to be mapped (all of them by default). ``xfail`` says what is wrong with
    the rules today. Every ``group`` name stands for disjoint groups of ranks, in member order.
    ``anywhere`` allows outputs in any order. ``state`` names the outputs that are new values of inputs, and ``lost`` those of them that do not
    come back as they were given. ``single``: what holds does so in float32, not in doubles.
    """

    name: str
    seq: str
    dist: str
    ranks: int = 2
    maps: tuple[str, ...] | None = None
    relate: Mapping[str, Sequence[Row]] = field(default_factory=dict)
    groups: Mapping[str, Sequence[Sequence[int]]] | None = None
    names: Mapping[str, str] = field(default_factory=dict)
    partial: bool = False
    operators: str = ""
    mismatch: bool = False
    error: str = ""
    xfail: str = ""
    state: Mapping[str, str] = field(default_factory=dict)
    lost: tuple[str, ...] = ()
    anywhere: bool = False
    single: bool = False

    def miss(self, name: str, old: str, new: str, side: str = "dist", **changes: Any) -> Case:
        """A sibling that differs in one place only, and of which nothing may be mapped."""
        text: str = getattr(self, side)
        assert old in text, f"{self.name}: `{old}` is not in its {side} program"
        changes = {"maps": (), "xfail": "", side: text.replace(old, new), **changes}
        return replace(self, name=f"{self.name}: {name}", **changes)

    def but(self, name: str, **changes: Any) -> Case:
        """A sibling with other fields, of which nothing may be mapped unless they say so."""
        return replace(self, name=f"{self.name}: {name}", **{"maps": (), "xfail": "", **changes})


@dataclass
class Outcome:
    """What an engine derived for a case."""

    outputs: list[str] = field(default_factory=list)
    mapped: set[str] = field(default_factory=set)
    lost: set[str] = field(default_factory=set)
    holds: list[Row] = field(default_factory=list)
    returned: list[Row] = field(default_factory=list)
    mismatches: list[Row] = field(default_factory=list)
    unsupported: list[str] = field(default_factory=list)
    error: str = ""

    def held(self, dist: str, seq: str) -> list[tuple[str, str, str]]:
        """(coefficient, parts, block) of what distributed tensor ``dist`` holds of ``seq``."""
        return [
            (h["times"], h["parts"], h["block"])
            for h in self.holds
            if (h["dist"], h["seq"]) == (dist, seq)
        ]


# ---- cases on disk --------------------------------------------------------------------------------
def row(
    rank: int, seq: str, dist: str | None = None, seq_box: Any = None, dist_box: Any = None
) -> Row:
    """A row of the input relations; boxes are [lo, hi] per dimension."""
    found: Row = {"seq": seq, "rank": rank, "dist": dist or seq}
    return found | {
        k: b for k, b in (("seq_box", seq_box), ("dist_box", dist_box)) if b is not None
    }


def write(case: Case, folder: Path) -> None:
    """The case in the JSON format."""
    seq = Program(case.seq)
    dist = [Program(case.dist, rank, case.ranks) for rank in range(case.ranks)]
    for name, program in (("seq", seq), *((f"dist.r{r}", d) for r, d in enumerate(dist))):
        _dump(folder / f"{name}.json", _renamed({"version": 1, "nodes": program.nodes}, case.names))
    groups = case.groups if case.groups is not None else {"g": [range(case.ranks)]}
    listed = [
        {"ranks": list(ranks), "names": {str(r): name for r in ranks}}
        for name, all_ranks in groups.items()
        for ranks in all_ranks
    ]
    _dump(folder / "groups.json", {"seq": [], "dist": listed})
    _dump(folder / "relations.json", _renamed(_relations(case, seq, dist), case.names))
    outputs = [
        {
            "seq": s,
            "dist": {str(r): d.returned[i] for r, d in enumerate(dist)},
            "partial": case.partial,
        }
        | _state(case, s)
        | ({"placement": "any"} if case.anywhere else {})
        for i, s in enumerate(seq.returned)
    ]
    _dump(folder / "outputs.json", _renamed(outputs, case.names))


def _state(case: Case, output: str) -> Row:
    name = case.state.get(output)
    ranks = {str(rank): name for rank in range(case.ranks)}
    return {} if name is None else {"state": {"seq": name, "dist": ranks}}


def _relations(case: Case, seq: Program, dist: Sequence[Program]) -> list[Row]:
    rows: list[Row] = [r for rows in case.relate.values() for r in rows]
    for name in (n for n in seq.sources() if n not in case.relate):
        at = 0
        for rank, program in enumerate(dist):
            whole, mine = seq.shape(name), program.shape(name)
            if whole is None or mine is None:
                continue
            box = [[0, e] for e in whole]
            cut = [i for i, (a, b) in enumerate(zip(whole, mine, strict=True)) if a != b]
            for dim in cut:
                box[dim] = [at, at + mine[dim]]
                at += mine[dim]
            rows.append(row(rank, name, seq_box=box))
    return rows


def _renamed(value: Any, names: Mapping[str, str]) -> Any:
    if not names:
        return value
    if isinstance(value, dict):
        return {k: _renamed(v, names) for k, v in value.items()}
    if isinstance(value, list):
        return [_renamed(v, names) for v in value]
    return names.get(value, value) if isinstance(value, str) else value


def _dump(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value), encoding="utf-8")


def extracted(case: Case) -> Tables:
    """The facts of a case."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        write(case, folder)
        operators = []
        if case.operators:
            operators = [folder / "operators.toml"]
            operators[0].write_text(case.operators, encoding="utf-8")
        return extract_case(case_files(folder), operators)


# ---- many cases in one run ------------------------------------------------------------------------
@cache
def columns() -> dict[str, list[str]]:
    """The column types of every relation of the rules."""
    found = {}
    for path in MAIN.parent.rglob("*.dl"):
        text = re.sub(r"//.*", "", path.read_text("utf-8"))
        for name, inside in re.findall(r"\.decl\s+(\w+)\(([^)]*)\)", text):
            found[name] = [part.split(":")[1].strip() for part in inside.split(",")]
    return found


def outcome(case: Case, engine: str = "clingo") -> Outcome:
    """What the rules derive for one case."""
    return batch([case], engine)[0]


def batch(cases: Sequence[Case], engine: str = "clingo") -> list[Outcome]:
    """What the rules derive for each of the cases, with one run of the engine.

    The ids of a case (tensors, operators, signatures, shapes) get a prefix of their own, and its
    outputs and input rows their own numbers, so that no rule can join facts of two cases. Scales
    are interned by value, which makes them the same row wherever they occur.
    """
    found = [Outcome() for _ in cases]
    merged: dict[str, list[Row]] = {r.name: [] for r in RULE_RELATIONS}
    names: dict[int, str] = {}
    for number, (case, out) in enumerate(zip(cases, found, strict=True)):
        try:
            tables = extracted(case)
        except InputError as error:
            out.error = str(error)
            continue
        except Exception as error:
            out.error = f"crash: {type(error).__name__}: {error}"
            continue
        for r in tables["output_name"].to_pylist():
            names[number * NUMBERS + r["wants"]] = r["seq"]
            out.outputs.append(r["seq"])
        out.mismatches = tables["collective_mismatch"].to_pylist()
        out.unsupported = sorted({r["target"] for r in tables["unsupported_operator"].to_pylist()})
        for relation in (r for r in RULE_RELATIONS if tables[r.name].num_rows):
            rows = tables[relation.name].to_pylist()
            merged[relation.name] += [_apart(relation.name, r, number) for r in rows]
    facts = {r.name: _table(r.name, merged[r.name], tables_schema(r.name)) for r in RULE_RELATIONS}
    derived = select_engine(engine).run(MAIN, facts).relations
    for name in ("holds", "returned_holds", "output_mapped", "output_misplaced", "state_lost"):
        for r in derived[name].to_pylist():
            _put(found, names, name, r)
    return found


def tables_schema(name: str) -> pa.Schema:
    """The Arrow schema of an input relation."""
    return next(r for r in RULE_RELATIONS if r.name == name).arrow()


def _table(name: str, rows: list[Row], schema: pa.Schema) -> pa.Table:
    kept = {tuple(r.values()): r for r in rows}.values() if name == "scale_of" else rows
    return pa.Table.from_pylist(list(kept), schema=schema)


def _apart(relation: str, values: Row, number: int) -> Row:
    """The row with the ids of case ``number``."""
    types = columns()[relation]
    out: Row = {}
    for (key, value), kind in zip(values.items(), types, strict=True):
        if kind in IDS:
            out[key] = f"c{number}!{value}"
        elif key in ("wants", "mesh") or (key == "row" and relation.startswith("related_")):
            out[key] = number * NUMBERS + value
        elif relation.endswith("_counting") and key == "first":
            out[key] = number * COUNTED + value  # no numbers of one case are those of another
        else:
            out[key] = value
    return out


def _put(found: list[Outcome], names: Mapping[int, str], relation: str, values: Row) -> None:
    if relation == "holds":
        number = int(values["dist"].partition("!")[0][1:])
        plain = {k: re.sub(r"\bc\d+!", "", v) for k, v in values.items()}
        found[number].holds.append(plain)
        return
    number, name = values["wants"] // NUMBERS, names[values["wants"]]
    if relation == "output_mapped":
        found[number].mapped.add(name)
    elif relation == "output_misplaced":
        found[number].mapped.discard(name)
    elif relation == "state_lost":
        found[number].lost.add(name)
    else:
        found[number].returned.append(values | {"wants": name})


# ---- tables of cases ------------------------------------------------------------------------------
def table(*cases: Case) -> pytest.MarkDecorator:
    """Parametrises a test by cases; those that the rules get wrong today are expected to fail."""
    names = [c.name for c in cases]
    assert len(set(names)) == len(names), "two cases have one name"
    params = [
        pytest.param(
            c, id=c.name, marks=[pytest.mark.xfail(strict=True, reason=c.xfail)] if c.xfail else []
        )
        for c in cases
    ]
    return pytest.mark.parametrize("case", params)


def check(case: Case, out: Outcome) -> None:
    """The case came out as it says."""
    assert out.error if case.error else not out.error, out.error
    assert case.error in out.error
    if case.error:
        return
    wanted = set(out.outputs) if case.maps is None else set(case.maps)
    extra, less = out.mapped - wanted, wanted - out.mapped
    assert not extra, f"UNSOUND: {extra} mapped: {out.returned}"
    assert not less, (
        f"REFUSED: {less} not mapped: {out.returned} {out.unsupported} {out.mismatches}"
    )
    assert bool(out.mismatches) == case.mismatch, out.mismatches
    assert out.lost == set(case.lost), f"not as it was given: {out.lost}"
