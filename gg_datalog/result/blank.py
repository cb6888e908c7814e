"""An empty result: a database with every table and view of a result, and no rows.

To declare them takes longer than all else that is done about a small result. So it is done once,
kept beside the rules, and copied for every result.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gg_datalog.datalog import program_path
from gg_datalog.foundation.made_once import read_made, write_made
from gg_datalog.result.comments import relation_comments
from gg_datalog.result.records import COMMENTS, ONE_KEY, PASSED, WHOLE, passed_type

if TYPE_CHECKING:
    import pyarrow as pa

BLOCK = 32 * 2**10  # bytes: a hundred relations of a few rows each take 2 MB, not 12
BEFORE_BREAKS = ("needs",)
AFTER_BREAKS = ("chains", "reasons", "verdict", "shards")
VIEWS = (*BEFORE_BREAKS, *AFTER_BREAKS)
"""The files of views: what chains are made of, and what speaks of where they break."""
PATH = "SET search_path = 'main,internal'"
"""Names are those of views for people and of relations, then those that serve the program."""
ENTRIES = 4  # how many of them are kept: of a few versions, 2 MB each
START = f"""
    CREATE SCHEMA stored; CREATE SCHEMA internal; {PATH};
    CREATE MACRO is_open(parts) AS parts <> '{WHOLE}';
    CREATE MACRO is_one(times) AS times = '{ONE_KEY}';
    CREATE TABLE stored.output_decision (wants BIGINT, status VARCHAR, evidence VARCHAR);"""
STORED = re.compile(r"^CREATE TABLE stored\.(\w+) AS\n(.*?);$", re.DOTALL | re.MULTILINE)

_memory: dict[str, bytes] = {}


def blank(relations: Mapping[str, pa.Schema]) -> bytes:
    """The file of a database with these relations and the views over them.

    Args:
        relations: the columns of all facts, derived relations and records.
    """
    import duckdb

    script = _script(dict(sorted(relations.items())))
    known = f"{duckdb.__version__} {BLOCK} {script}"
    name = f"result-{sha256(known.encode()).hexdigest()[:32]}.duckdb"
    found = _memory.get(name) or read_made(name, program_path(), bytes)
    if found is None:
        found = _made(script)
        write_made(name, program_path(), found, ENTRIES)
    _memory[name] = found
    return found


def connect_options() -> dict[str, Any]:
    """How databases of results are opened. As many threads as OpenMP would have, where that is
    said: where many cases are judged side by side more of them only cost time."""
    said = os.environ.get("OMP_NUM_THREADS", "")
    return {"threads": int(said)} if said.isdecimal() and int(said) else {}


def stored_queries(names: Sequence[str] = VIEWS) -> dict[str, str]:
    """The queries of these files whose answers are tables of a result, in the order in which they
    need each other."""
    return {name: query for text in _views(names) for name, query in STORED.findall(text)}


def _made(script: str) -> bytes:
    import duckdb

    with tempfile.TemporaryDirectory(prefix="gg-datalog-") as folder:
        path = Path(folder, "blank.duckdb")
        options = {"default_block_size": BLOCK, **connect_options()}
        with duckdb.connect(str(path), config=options) as connection:
            connection.execute(f"BEGIN; {script}; COMMIT")
        return path.read_bytes()


# ---- the script ----------------------------------------------------------------------------------
def _script(relations: Mapping[str, pa.Schema]) -> str:
    declared = (_table(name, schema) for name, schema in relations.items())
    views = (
        STORED.sub(r"CREATE TABLE stored.\1 AS\n\2 WITH NO DATA;", text) for text in _views(VIEWS)
    )
    return "\n".join([START, *declared, *_relation_views(relations), *views])


def _views(names: Sequence[str]) -> tuple[str, ...]:
    folder = files("gg_datalog.result").joinpath("views")
    return tuple(folder.joinpath(f"{name}.sql").read_text("utf-8") for name in names)


def _table(name: str, schema: pa.Schema) -> str:
    import pyarrow as pa

    kinds = {pa.int64(): "BIGINT", pa.float64(): "DOUBLE", passed_type(): PASSED}
    columns = [f'"{field.name}" {kinds.get(field.type, "VARCHAR")}' for field in schema]
    return f'CREATE TABLE stored."{name}" ({", ".join(columns)});'


def _relation_views(names: Mapping[str, Any]) -> Iterator[str]:
    comments = {**relation_comments(), **COMMENTS}
    for name in names:
        yield f'CREATE VIEW "{name}" AS SELECT * FROM stored."{name}";'
        if comment := comments.get(name):
            quoted = comment.replace("'", "''")
            yield f"COMMENT ON VIEW \"{name}\" IS '{quoted}';"
