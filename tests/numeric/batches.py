"""The facts of many cases in one run of the engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from gg_datalog.extract.facts import _table
from gg_datalog.extract.schema import RULE_RELATIONS

Rows = Sequence[tuple[Any, ...]]

IDS = {"by", "signed", "shaped", "of", "gives", "dist", "seq", "table", "ids", "mask", "a", "b"}
STEP = 10_000
LABELS = ("label_fades", "operand_half", "hidden_by")  # whose `row` is a label


def merged(cases: Mapping[int, Mapping[str, Rows]]) -> dict[str, pa.Table]:
    """The facts of independent cases as one set, ids prefixed by the number of the case."""
    out = {}
    for relation in RULE_RELATIONS:
        kinds = [_kind(name, kind) for name, kind in relation.columns]
        if relation.name.endswith("_counting"):  # no numbers of one case are those of another
            kinds = [
                "number" if name == "first" else _kind(name, k) for name, k in relation.columns
            ]
        if relation.name in LABELS:
            kinds = ["" if name == "row" else _kind(name, k) for name, k in relation.columns]
        rows = [
            tuple(_prefixed(kind, number, value) for kind, value in zip(kinds, row, strict=True))
            for number, facts in cases.items()
            for row in facts.get(relation.name, ())
        ]
        if relation.name == "scale_of":
            rows = list(dict.fromkeys(rows))  # each case has a row of the number 1
        out[relation.name] = _table(relation, rows)
    return out


def _kind(name: str, kind: str) -> str:
    """How a column says what case it is of: "id", "number", "scale", or "" where it does not."""
    if name in IDS:
        return "id"
    if name in ("times", "id") and kind == "symbol":
        return "scale"
    return "number" if name in ("row", "wants") else ""


def _prefixed(kind: str, number: int, value: Any) -> Any:
    if kind == "id" or (kind == "scale" and value != "1"):
        return f"{number}/{value}"
    return number * STEP + value if kind == "number" else value


def separated(rows: Sequence[Mapping[str, Any]]) -> dict[int, list[dict[str, Any]]]:
    """Rows of a merged run by case, with the ids and numbers they had."""
    found: dict[int, list[dict[str, Any]]] = {}
    for row in rows:
        number = row["wants"] // STEP if "wants" in row else int(row["dist"].split("/")[0])
        prefix = f"{number}/"
        plain = {k: row[k].removeprefix(prefix) for k in ("dist", "seq") if k in row}
        if "wants" in row:
            plain["wants"] = row["wants"] % STEP
        plain["parts"] = row["parts"].replace(f"[{prefix}", "[")
        found.setdefault(number, []).append({**row, **plain})
    return found
