"""Facts as clingo text, and clingo's answer as tables."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from .program import NUMBER, SYMBOL, Program
from .tables import result_table
from .translate import Symbols, record_name, relation_name

_TOKEN = re.compile(r"-?\d+|\w+|[(),]")
_PUNCTUATION = {"(": "[", ")": "]", ",": ", "}


def write_facts(path: Path, facts: Mapping[str, pa.Table], symbols: Symbols) -> None:
    """Write checked fact tables, strings as their numbers."""
    with path.open("wb") as file:
        for name, table in facts.items():
            predicate = relation_name(name)
            if not table.num_columns:
                file.write(f"{predicate}.\n".encode() if table.num_rows else b"")
            elif table.num_rows:
                file.write(_fact_lines(predicate, table, symbols))


def _fact_lines(predicate: str, table: pa.Table, symbols: Symbols) -> bytes:
    columns = table.combine_chunks().columns
    cells = [_numbers(column.chunk(0), symbols).cast(pa.string()) for column in columns]
    cells[0] = pc.binary_join_element_wise(f"{predicate}(", cells[0], "")
    joined = pc.binary_join_element_wise(*cells, ",")
    lines = pc.binary_join(pa.ListArray.from_arrays([0, len(joined)], joined), ").\n")
    text: str = lines[0].as_py()
    return f"{text}).\n".encode()


def _numbers(column: pa.Array, symbols: Symbols) -> pa.Array:
    if column.type == pa.int64():
        return column
    encoded = column.dictionary_encode()
    codes = pa.array([symbols.number(text) for text in encoded.dictionary.to_pylist()], pa.int64())
    return codes.take(encoded.indices)


def read_answer(answer: str, program: Program, symbols: Symbols) -> dict[str, pa.Table]:
    """The output relations from the atoms of the answer, one on each line."""
    atoms: dict[str, list[str]] = {relation_name(name): [] for name in program.outputs}
    for line in answer.splitlines():
        predicate, _, args = line.partition("(")
        if args:
            atoms[predicate].append(args[:-2])
        elif predicate:
            atoms[predicate.rstrip(".")].append("")
    decoder = _Decoder(program, symbols)
    return {name: decoder.table(name, atoms[relation_name(name)]) for name in program.outputs}


class _Decoder:
    def __init__(self, program: Program, symbols: Symbols) -> None:
        self._program = program
        self._texts = symbols.texts()
        self._strings = pa.array(self._texts, pa.string())

    def table(self, name: str, rows: list[str]) -> pa.Table:
        """The rows of a relation, each the text between the parentheses of its atom."""
        declaration = self._program.declarations[name]
        kinds = self._program.kinds(name)
        flat = all(kind in (NUMBER, SYMBOL) for kind in kinds)
        cells = _split_flat(rows, len(kinds)) if flat else _split_nested(rows, len(kinds))
        columns = [self._column(part, kind) for part, kind in zip(cells, kinds, strict=True)]
        return result_table(declaration, columns, len(rows))

    def _column(self, cells: pa.Array, kind: str) -> pa.Array:
        if kind == NUMBER:
            return cells.cast(pa.int64())
        if kind == SYMBOL:
            return self._strings.take(cells.cast(pa.int64()))
        encoded = cells.dictionary_encode()
        texts = [self._record(text, kind) for text in encoded.dictionary.to_pylist()]
        return pa.array(texts, pa.string()).take(encoded.indices)

    def _record(self, text: str, kind: str) -> str:
        """A term in Soufflé's print form; walks the tokens, as terms may nest deeply."""
        parts: list[str] = []
        pending = [kind]  # the kinds of the values to come, the next one last
        for token in _TOKEN.findall(text):
            if token in _PUNCTUATION:
                parts.append(_PUNCTUATION[token])
                continue
            kind = pending.pop()
            if token == record_name(kind):
                fields = self._program.types[kind].fields
                pending += [self._program.kind(column.type) for column in reversed(fields)]
            else:
                parts.append(self._texts[int(token)] if kind == SYMBOL else token)
        return "".join(parts)


def _split_flat(rows: list[str], width: int) -> list[pa.Array]:
    if not width:
        return []
    joined = pc.split_pattern(pa.array(rows, pa.string()), ",")
    flat = joined.flatten()
    return [flat.take(pa.array(range(at, len(flat), width), pa.int64())) for at in range(width)]


def _split_nested(rows: list[str], width: int) -> list[pa.Array]:
    cells: list[list[str]] = [[] for _ in range(width)]
    for row in rows:
        for column, cell in zip(cells, _top_level(row), strict=True):
            column.append(cell)
    return [pa.array(column, pa.string()) for column in cells]


def _top_level(row: str) -> list[str]:
    """Split at the commas outside parentheses."""
    result: list[str] = []
    depth = 0
    for piece in row.split(","):
        if depth:
            result[-1] += f",{piece}"
        else:
            result.append(piece)
        depth += piece.count("(") - piece.count(")")
    return result
