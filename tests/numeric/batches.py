"""The facts of many cases in one run of the engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from gg_datalog.extract.schema import RULE_RELATIONS

IDS = {"by", "signed", "shaped", "of", "gives", "dist", "seq", "table", "ids", "mask", "a", "b"}
STEP = 10_000


def merged(cases: Mapping[int, Mapping[str, Any]]) -> dict[str, pa.Table]:
    """The facts of independent cases as one set, ids prefixed by the number of the case."""
    out = {}
    for relation in RULE_RELATIONS:
        tables = [_prefixed(relation.name, n, t[relation.name]) for n, t in cases.items()]
        out[relation.name] = pa.concat_tables(tables)
    one = out["scale_of"]
    keep = [i for i, name in enumerate(one["id"].to_pylist()) if name != "1"]
    first = [one["id"].to_pylist().index("1")]
    out["scale_of"] = one.take([*first, *keep])
    return out


def _prefixed(relation: str, number: int, table: pa.Table) -> pa.Table:
    for place, name in enumerate(table.column_names):
        column = table.column(name).to_pylist()
        if name in IDS:
            column = [f"{number}/{v}" for v in column]
        elif name in ("times", "id") and table.schema.field(name).type == pa.string():
            column = [v if v == "1" else f"{number}/{v}" for v in column]
        elif name in ("row", "wants"):
            column = [number * STEP + v for v in column]
        else:
            continue
        field_ = table.schema.field(place)
        table = table.set_column(place, field_, pa.array(column, field_.type))
    return table


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
