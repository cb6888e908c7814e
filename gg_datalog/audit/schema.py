"""The columns of the lake: one row for each time that an item was run, with all that came out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

VERSION = 1
Json = Mapping[str, Any]

# Column or field: (kind, what it says). Kinds: text, number, real, flag, time, texts, numbers, or a
# table of fields, which stands for a list of them.
PAIR = {"name": ("text", "the axis"), "value": ("text", "its value")}
OUTPUT = {
    "seq": ("text", "sequential output"),
    "name": ("text", "what the program calls it, where a capture knows"),
    "status": ("text", "mapped, unmapped or inconclusive"),
    "relation": ("text", "how the ranks' tensors make it up, where they do"),
    "evidence": ("text", "what the status rests on: proof, numbers, relations or none"),
}
FINDING = {
    "code": ("text", "its code, such as GG108"),
    "level": ("text", "error, warning or note"),
    "message": ("text", "what is wrong"),
    "title": ("text", "the title of the code"),
    "fingerprint": ("text", "does not depend on how nodes are numbered"),
    "seq": ("text", "the sequential node"),
    "seq_source": ("text", "the line that made it"),
    "dist": ("texts", "nodes of the ranks"),
    "dist_source": ("text", "the line that made them"),
    "module": ("text", "the module"),
    "trigger": ("text", "what about the graphs makes it happen"),
    "expected": ("text", "the relation that was expected"),
    "found": ("text", "the relation that was found"),
    "outputs": ("texts", "the sequential outputs that it spoils"),
    "repair": ("text", "what would close the gap"),
    "tried": ("flag", "whether that repair was tried out and works"),
    "certain": ("flag", "whether what is found cannot be what was expected"),
}
ASSUMPTION = {"kind": ("text", "what sort"), "text": ("text", "what the verdict takes on trust")}
OPERATOR = {
    "target": ("text", "the operator"),
    "seq": ("number", "how often in the sequential program"),
    "dist": ("number", "how often in those of the ranks, all together"),
    "supported": ("flag", "whether a rule describes it"),
    "reason": ("text", "why not, where it does not"),
}
STAGE = {"stage": ("text", "what was done"), "seconds": ("real", "how long it took")}
LIMIT = {
    "name": ("text", "wall, cpu (seconds), memory, output (bytes) or processes"),
    "allowed": ("real", "how much the item might use"),
    "used": ("real", "how much it used, as far as that was seen"),
}
COLUMNS: dict[str, tuple[Any, str]] = {
    "item": ("text", "name of the item: entry and configuration"),
    "entry": ("text", "entry of the plan"),
    "program": ("text", "row of the matrix"),
    "configuration": ("text", "column of the matrix"),
    "axes": (PAIR, "the configuration, axis by axis"),
    "kind": ("text", "case, facts, text or program"),
    "source": ("text", "folder, or module:function"),
    "key": ("text", "hash of all that the verdict depends on"),
    "content": ("text", "hash of the graphs, facts or texts"),
    "capture_key": ("text", "of a program: what its capture depends on, beside the user's code"),
    "like": ("text", "where nothing was run: the item whose verdict this is"),
    "status": ("text", "how it ended"),
    "reason": ("text", "why it ended, where that is no verdict"),
    "engine": ("text", "engine and its version"),
    "tool": ("text", "version of gg-datalog"),
    "rules": ("text", "hash of the rules"),
    "torch": ("text", "version of torch, where one is installed"),
    "run": ("text", "the audit's run that did it"),
    "host": ("text", "on which machine"),
    "attempt": ("number", "1, or more where it was lost before"),
    "started": ("time", "when (UTC)"),
    "finished": ("time", "when it was done (UTC)"),
    "seconds": ("real", "wall-clock seconds"),
    "cpu": ("real", "CPU seconds of all its processes"),
    "memory": ("number", "bytes that its processes had at a time, as far as seen"),
    "facts": ("number", "rows that were extracted"),
    "derived": ("number", "rows that were derived"),
    "outputs": (OUTPUT, "the outputs"),
    "findings": (FINDING, "what was found, the cause first"),
    "assumptions": (ASSUMPTION, "what the verdict takes on trust"),
    "operators": (OPERATOR, "the operators of both sides"),
    "stages": (STAGE, "where the time went"),
    "limits": (LIMIT, "what it might use, and used"),
    "printed": ("text", "the beginning of what it printed"),
    "report": ("text", "the report, as `run --format json` prints it"),
    "page": ("flag", "whether reports/KEY.html is its own report"),
}


@cache
def arrow() -> pa.Schema:
    """The schema of the files below ``rows/``."""
    import pyarrow as pa

    fields = [pa.field(name, _kind(kind)) for name, (kind, _) in COLUMNS.items()]
    return pa.schema(fields, metadata={"gg_datalog.audit": str(VERSION)})


def _kind(kind: Any) -> pa.DataType:
    import pyarrow as pa

    if isinstance(kind, dict):
        return pa.list_(pa.struct([(name, _kind(inner)) for name, (inner, _) in kind.items()]))
    return {
        "text": pa.string(),
        "number": pa.int64(),
        "real": pa.float64(),
        "flag": pa.bool_(),
        "time": pa.timestamp("us"),  # DuckDB hands a zone to Python only with a package of zones
        "texts": pa.list_(pa.string()),
    }[kind]


def table(rows: Sequence[Json]) -> pa.Table:
    """Rows as a table; what a row does not have is null."""
    import pyarrow as pa

    schema = arrow()
    columns = [pa.array([clean(row.get(f.name)) for row in rows], f.type) for f in schema]
    return pa.table(columns, schema=schema)


def clean(value: Any) -> Any:
    """A value whose texts UTF-8 can hold: names come from the user's graphs."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, (list, tuple)):
        return [clean(one) for one in value]
    if isinstance(value, dict):
        return {name: clean(one) for name, one in value.items()}
    return value


# The plan as it was: what there is to be known of.
PLANNED = ("position", "item", "entry", "program", "configuration", "axes", "kind", "source",
           "expected", "settings")  # fmt: skip


def planned(rows: Sequence[Json]) -> pa.Table:
    """The items of a plan, whose texts are clean, as a table."""
    import pyarrow as pa

    kinds = {"position": "number", "expected": "texts", "settings": "text"}
    fields = [pa.field(n, _kind(kinds.get(n) or COLUMNS[n][0])) for n in PLANNED]
    return pa.Table.from_pylist(list(rows), pa.schema(fields))


# Facts and derived relations of items that are kept, one row for each fact.
def kept() -> pa.Schema:
    """The schema of the files below ``kept/``: numbers and texts of a row, each in their order."""
    import pyarrow as pa

    return pa.schema(
        [
            ("key", pa.string()),
            ("side", pa.string()),
            ("relation", pa.string()),
            ("place", pa.int64()),
            ("numbers", pa.list_(pa.int64())),
            ("texts", pa.list_(pa.string())),
        ]
    )
