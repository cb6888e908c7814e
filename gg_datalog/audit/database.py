"""``audit.duckdb``: the Parquet files of an audit as documented views."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from time import sleep
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from gg_datalog.audit.folder import AuditFolder
from gg_datalog.audit.key import digest, rules_hash
from gg_datalog.audit.schema import COLUMNS, arrow, kept, planned
from gg_datalog.commands.query import Answer
from gg_datalog.extract.schema import RELATIONS
from gg_datalog.foundation.errors import InputError

if TYPE_CHECKING:
    import duckdb

TRIES = 5
"""Small files may be made into a large one while they are read."""
BLOCK = 16 * 2**10
READS = ("SELECT",)


def ensure(folder: AuditFolder) -> None:
    """Makes the database, where it is not there or is that of a folder which lies elsewhere; and
    empty files, so that every view can be read from the beginning."""
    _seed(folder)
    stamp, mark = _stamp(folder), folder.path / ".views"
    if folder.database.exists() and mark.exists() and mark.read_text("utf-8") == stamp:
        return
    import duckdb

    fresh = folder.path / f".{uuid4().hex}.duckdb"
    try:
        with duckdb.connect(str(fresh), config={"default_block_size": BLOCK}) as connection:
            connection.execute(_script(folder))
        os.replace(fresh, folder.database)
        mark.write_text(stamp, "utf-8")
    finally:
        fresh.unlink(missing_ok=True)


def _stamp(folder: AuditFolder) -> str:
    """What the views depend on: where the files lie, which columns and relations there are."""
    return digest([str(folder.path.absolute()), _views(), COLUMNS, RELATIONS, rules_hash()])


def _views() -> str:
    return files("gg_datalog.audit").joinpath("views.sql").read_text("utf-8")


def _seed(folder: AuditFolder) -> None:
    from pyarrow import parquet

    empty = ((folder.rows, arrow().empty_table()), (folder.kept, kept().empty_table()))
    for place, table in empty:
        seed = place / "appended=2000-01-01" / "seed.rows.parquet"
        if not seed.exists():
            seed.parent.mkdir(parents=True, exist_ok=True)
            _whole(seed, lambda path, table=table: parquet.write_table(table, path))
    if not any(folder.plans.glob("*.parquet")):
        _whole(folder.plans / "0.parquet", lambda path: parquet.write_table(planned([]), path))


def _whole(path: Path, write: Any) -> None:
    fresh = path.with_name(f".{uuid4().hex}")
    write(fresh)
    os.replace(fresh, path)


def _script(folder: AuditFolder) -> str:
    text = _views()
    places = {
        "ROWS": folder.rows / "*" / "*.parquet",
        "KEPT": folder.kept / "*" / "*.parquet",
        "PLANS": folder.plans / "*.parquet",
    }
    for word, place in places.items():
        text = text.replace(f"'{word}'", _quoted(str(place.absolute())))
    return "\n".join([text, *_columns(), *_relations()])


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _columns() -> Iterator[str]:
    """What the columns of a row, and of what stands in it, mean."""
    for name, (_, said) in COLUMNS.items():
        yield f'COMMENT ON COLUMN history."{name}" IS {_quoted(said)};'
    for view, name in (("outputs", "outputs"), ("findings", "findings"), ("stages", "stages"),
                       ("assumptions", "assumptions"), ("operators", "operators"),
                       ("limits", "limits")):  # fmt: skip
        fields: Any = COLUMNS[name][0]
        for field, (_, said) in fields.items():
            yield f'COMMENT ON COLUMN "{view}"."{field}" IS {_quoted(said)};'


def _relations() -> Iterator[str]:
    """Facts and derived relations by name, over all items that are kept."""
    from gg_datalog.datalog import program_path
    from gg_datalog.engine import parse_program
    from gg_datalog.engine.program import NUMBER
    from gg_datalog.result.comments import relation_comments

    comments = relation_comments()
    yield "CREATE SCHEMA facts; CREATE SCHEMA derived;"
    for name, relation in RELATIONS.items():
        columns = [(column, kind == "number") for column, kind in relation.columns]
        yield _relation("facts", name, columns, comments.get(name))
    program = parse_program(program_path())
    for name in program.outputs:
        declared = zip(program.declarations[name].columns, program.kinds(name), strict=True)
        columns = [(column.name, kind == NUMBER) for column, kind in declared]
        yield _relation("derived", name, columns, comments.get(name))


def _relation(
    side: str, name: str, columns: Sequence[tuple[str, bool]], comment: str | None
) -> str:
    places = {True: 0, False: 0}
    parts = ["key"]
    for column, number in columns:
        places[number] += 1
        parts.append(f'{"numbers" if number else "texts"}[{places[number]}] AS "{column}"')
    where = f"side = '{side}' AND relation = '{name}'"
    view = f'CREATE VIEW {side}."{name}" AS SELECT {", ".join(parts)} FROM kept WHERE {where};'
    if comment:
        view += f' COMMENT ON VIEW {side}."{name}" IS {_quoted(comment)};'
    return view


# ---- questions -----------------------------------------------------------------------------------
@contextmanager
def connected(folder: AuditFolder, memory: str = "512MB") -> Iterator[duckdb.DuckDBPyConnection]:
    """The database, to read from; statements reach nothing but the audit's own files."""
    import duckdb

    ensure(folder)
    options: dict[str, Any] = {"memory_limit": memory, "threads": 2}
    try:
        connection = duckdb.connect(str(folder.database), read_only=True, config=options)
    except duckdb.Error as error:
        text = str(error).splitlines()[0]
        hint = "remove it: it is made anew of the rows"
        raise InputError(
            f"the database cannot be read: {text}", str(folder.database), hint
        ) from None
    with connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute(f"SET allowed_directories = [{_quoted(str(folder.path.absolute()))}]")
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
        yield connection


def asked(folder: AuditFolder, sql: str, parameters: Any = None) -> Answer:
    """The answer to a statement of our own; tried again where files were replaced meanwhile."""
    import duckdb

    for last in range(TRIES, 0, -1):
        try:
            with connected(folder) as connection:
                found = connection.execute(sql, parameters)
                columns = [str(column[0]) for column in found.description or []]
                return Answer(columns, found.fetchall())
        except duckdb.IOException:
            if last == 1:
                raise
            sleep(0.2)
    raise AssertionError


def asked_by_user(folder: AuditFolder, sql: str) -> Answer:
    """The answer to a statement of the user, which may only read.

    Raises:
        InputError: it does something else, or DuckDB refuses it.
    """
    import duckdb

    try:
        statements = duckdb.extract_statements(sql)
        if not statements:
            raise InputError("the statement is empty", None, "see `gg-datalog audit query --list`")
        for statement in statements:
            if statement.type.name not in READS:
                raise InputError(
                    f"this statement is no question: {statement.type.name}",
                    None,
                    "only what reads is run: SELECT, WITH, DESCRIBE, SHOW, EXPLAIN",
                )
        return asked(folder, sql)
    except duckdb.Error as error:
        raise InputError(
            f"DuckDB says: {error}", None, "the views are listed by SHOW TABLES"
        ) from None
