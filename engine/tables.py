"""Checks fact tables against the declarations and puts result tables in their form."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from gg_datalog.foundation.errors import EngineError

from .program import NUMBER, SYMBOL, Declaration, Program

_BREAKS = "[\\t\\n\\r\\x00]"
_BROKEN = "has a tab, a line break or a NUL"


def check_facts(
    program: Program, facts: Mapping[str, pa.Table], word_bits: int
) -> dict[str, pa.Table]:
    """The fact tables as int64 and string columns; what does not fit is an error."""
    for name in facts:
        if name not in program.inputs:
            raise EngineError(f"facts are given for {name}, which is no .input relation")
    missing = [name for name in program.inputs if name not in facts]
    if missing:
        raise EngineError(
            f"no facts are given for the .input relation {', '.join(missing)}",
            str(program.declarations[missing[0]].pos),
            "give an empty table where a relation has no rows",
        )
    tables = {name: _checked(program, name, facts[name]) for name in program.inputs}
    _check_values(program, tables, word_bits)
    return tables


def _checked(program: Program, name: str, table: pa.Table) -> pa.Table:
    declaration = program.declarations[name]
    names = [column.name for column in declaration.columns]
    if table.column_names != names:
        raise EngineError(
            f"the facts of {name} have the columns ({', '.join(table.column_names)}),"
            f" not ({', '.join(names)})",
            str(declaration.pos),
        )
    columns = []
    for column in declaration.columns:
        where = f"{name}.{column.name}"
        kind = program.kind(column.type)
        columns.append(_typed(table.column(column.name), kind, where, declaration))
    return pa.table(columns, names=names) if columns else table


def _typed(
    values: pa.ChunkedArray, kind: str, where: str, declaration: Declaration
) -> pa.ChunkedArray:
    found = values.type
    if pa.types.is_dictionary(found):
        found = found.value_type
    fits = {
        NUMBER: pa.types.is_integer(found),
        SYMBOL: pa.types.is_string(found) or pa.types.is_large_string(found),
    }
    if not fits.get(kind, False):
        what = kind if kind in fits else f"{kind} (records cannot be facts)"
        raise EngineError(f"column {where} is {found}, not {what}", str(declaration.pos))
    if values.null_count:
        row = pc.index(values.is_null(), True).as_py()
        raise EngineError(f"column {where} has a null in row {row}", str(declaration.pos))
    try:
        return values.cast(pa.int64() if kind == NUMBER else pa.string())
    except pa.ArrowInvalid as error:
        raise EngineError(f"column {where}: {error}", str(declaration.pos)) from error


def _check_values(program: Program, tables: Mapping[str, pa.Table], word_bits: int) -> None:
    """All columns of a kind at once, as most of them are short; one by one to say where."""
    columns: dict[str, dict[str, pa.ChunkedArray]] = {NUMBER: {}, SYMBOL: {}}
    for name, table in tables.items():
        for column in program.declarations[name].columns:
            values = table.column(column.name)
            columns[program.kind(column.type)][f"{name}.{column.name}"] = values
    for kind, found in columns.items():
        chunks = [chunk for values in found.values() for chunk in values.chunks]
        if (
            not chunks
            or pc.index(_bad(pa.chunked_array(chunks), kind, word_bits), True).as_py() < 0
        ):
            continue
        problem = f"does not fit {word_bits} bits" if kind == NUMBER else _BROKEN
        for where, values in found.items():
            row = pc.index(_bad(values, kind, word_bits), True).as_py()
            if row >= 0:
                raise EngineError(f"{values[row].as_py()!r} {problem}", f"{where}, row {row}")


def _bad(values: pa.ChunkedArray, kind: str, word_bits: int) -> pa.ChunkedArray:
    if kind != NUMBER:
        return pc.match_substring_regex(values, _BREAKS)
    largest = 2 ** (word_bits - 1) - 1
    return pc.or_(pc.less(values, -largest - 1), pc.greater(values, largest))


def empty_rows(count: int) -> pa.Table:
    """A table of rows without columns, for a relation of arity 0."""
    return pa.table({"": pa.nulls(count)}).select([])


def result_table(declaration: Declaration, columns: list[pa.Array], rows: int) -> pa.Table:
    """The columns as a table named as declared, rows sorted."""
    if not declaration.columns:
        return empty_rows(min(rows, 1))
    names = [column.name for column in declaration.columns]
    table = pa.table(columns, names=names)
    return table.sort_by([(name, "ascending") for name in names])
