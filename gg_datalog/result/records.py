"""Records of the rules as rows: each block, part and coefficient once, under its key.

Relations have the key of a record in columns `block`, `parts` and `times`; it is the text that the
engine wrote, and nothing reads it again. A block says where elements lie: per dimension of the
sequential base tensor ("place") runs, which are added up, each of positions ``stride * lo`` to
``stride * (hi - 1)``, and where these lie in the tensor of the ranks. A part says of which axes
only a range is reduced, the outermost first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

from gg_datalog.result.terms import (
    Block,
    Coefficient,
    Part,
    Parts,
    Run,
    read_block,
    read_coefficient,
    read_parts,
)

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

Row = tuple[Any, ...]
NOWHERE = Run(1, 0, 1, -1, 1, 0)
"""The one position of a dimension that has no run."""
WHOLE = "nil"
"""The key of what is no part of a reduction."""
ONE_KEY = "[1, 1, , ]"
"""The key of coefficient 1."""


class Relation(NamedTuple):
    """A row of `holds`: dist[positions] = times * Part(seq)[positions]."""

    dist: str
    seq: str
    times: Coefficient
    parts: Parts
    block: Block


class Returned(NamedTuple):
    """A row of `returned_holds`: what rank ``rank`` returns for output ``wants`` holds of it."""

    wants: int
    rank: int
    times: Coefficient
    parts: Parts
    block: Block


def relation(row: Mapping[str, Any]) -> Relation:
    """A row of `holds` as an engine gives it."""
    return Relation(row["dist"], row["seq"], *_terms(row))


def returned(row: Mapping[str, Any]) -> Returned:
    """A row of `returned_holds` as an engine gives it."""
    return Returned(row["wants"], row["rank"], *_terms(row))


def _terms(row: Mapping[str, Any]) -> tuple[Coefficient, Parts, Block]:
    return read_coefficient(row["times"]), read_parts(row["parts"]), read_block(row["block"])


# ---- written -------------------------------------------------------------------------------------
def _runs(block: str) -> Iterator[Row]:
    for place, runs in enumerate(read_block(block)):
        for level, (stride, lo, n, *dist) in enumerate(runs or (NOWHERE,)):
            yield block, place, level, stride, lo, lo + n, *dist


def _axes(parts: str) -> Iterator[Row]:
    for level, (along, kind, lo, n, extent) in enumerate(read_parts(parts)):
        *passed, (by, label) = along
        through = [{"operator": operator, "place": place} for operator, place in passed]
        yield parts, level, by, label, through, kind, lo, lo + n, extent


def _coefficients(times: str) -> Iterator[Row]:
    found = read_coefficient(times)
    yield times, *found, float(found.value)


# Name, the column of the derived relations whose records it has, its own columns, its rows. Columns
# of one relation that are called otherwise come from `BESIDE`.
Reader = Callable[[str], Iterator[Row]]
TABLES: tuple[tuple[str, str, str, Reader], ...] = (
    ("block_run", "block", "block place level stride lo hi dim dist_stride dist_lo", _runs),
    ("part_axis", "parts", "parts level operator label passed kind lo hi extent", _axes),
    ("coefficient_value", "times", "times num den over under value", _coefficients),
)
BESIDE = {"times": {"coefficient_out_of_range": ("a", "b")}}
WORDS = {"block", "parts", "times", "operator", "kind", "over", "under"}
COMMENTS = {
    "block_run": "A run of block `block`: of dimension `place` of the sequential base tensor the "
    "positions `stride * lo` to `stride * (hi - 1)`, `stride` apart (runs of one dimension are "
    "added up); on the ranks they lie on dimension `dim` (-1: they recur), `dist_stride` apart "
    "from `dist_stride * dist_lo` on.",
    "part_axis": "Part `parts` is reduced by `kind` over [lo, hi) of `extent` positions of "
    "label `label` of `operator`; level 0 is the outermost reduction. passed: the operators that "
    "passed it on, the last one first, and the place of the operand.",
    "coefficient_value": "Coefficient `times` as numbers: num / den * over / under, and its value.",
}


def record_tables(relations: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
    """The rows of all records in these relations."""
    import pyarrow as pa

    found = {}
    for name, column, columns, read in TABLES:
        texts = sorted(set(_texts(relations, column)))
        rows = [row for text in texts for row in read(text)]
        names = columns.split()
        schema = pa.schema([(one, _kind(one)) for one in names])
        found[name] = pa.Table.from_pylist(
            [dict(zip(names, row, strict=True)) for row in rows], schema
        )
    return found


PASSED = "STRUCT(operator VARCHAR, place BIGINT)[]"


def passed_type() -> pa.DataType:
    """The type of column `passed`, as Arrow has it."""
    import pyarrow as pa

    return pa.list_(pa.struct([("operator", pa.string()), ("place", pa.int64())]))


def _kind(column: str) -> pa.DataType:
    import pyarrow as pa

    if column == "passed":
        return passed_type()
    return pa.string() if column in WORDS else pa.float64() if column == "value" else pa.int64()


def _texts(relations: Mapping[str, pa.Table], column: str) -> Iterator[str]:
    for name, table in relations.items():
        for one in (column, *BESIDE.get(column, {}).get(name, ())):
            if one in table.column_names:
                yield from table.column(one).unique().to_pylist()


# ---- read ----------------------------------------------------------------------------------------
class Records:
    """The records of a result by their keys; each kind is read when it is first asked for."""

    def __init__(self, database: duckdb.DuckDBPyConnection) -> None:
        self._database = database

    def block(self, key: str) -> Block:
        """The runs of every dimension."""
        return self._blocks.get(key, ())

    def parts(self, key: str) -> Parts:
        """The open reductions, the outermost first."""
        return self._parts.get(key, ())

    def coefficient(self, key: str) -> Coefficient:
        """The coefficient."""
        return self._coefficients[key]

    def relations(self) -> list[Relation]:
        """All rows of `holds`, in the order of their keys."""
        sql = "SELECT dist, seq, times, parts, block FROM holds ORDER BY ALL"
        return [self._relation(*row) for row in self._rows(sql)]

    def texts(self) -> dict[Relation, str]:
        """The rows of `holds` about tensors that a node makes, as a person writes them."""
        sql = "SELECT dist, seq, times, parts, block, text FROM internal.relation_text"
        return {self._relation(*row): text for *row, text in self._rows(sql)}

    def _relation(self, dist: str, seq: str, times: str, parts: str, block: str) -> Relation:
        return Relation(dist, seq, self.coefficient(times), self.parts(parts), self.block(block))

    @cached_property
    def _blocks(self) -> dict[str, Block]:
        rows = self._rows(
            "SELECT block, place, stride, lo, hi - lo, dim, dist_stride, dist_lo FROM block_run "
            "ORDER BY block, place, level"
        )
        return {
            key: tuple(
                tuple(Run(*run) for _, _, *run in runs)
                for _, runs in groupby(dims, key=lambda row: row[1])
            )
            for key, dims in groupby(rows, key=lambda row: row[0])
        }

    @cached_property
    def _parts(self) -> dict[str, Parts]:
        rows = self._rows(
            "SELECT parts, passed, operator, label, kind, lo, hi - lo, extent FROM part_axis "
            "ORDER BY parts, level"
        )
        return {
            key: tuple(
                Part((*((x["operator"], x["place"]) for x in passed), (by, label)), *rest)
                for _, passed, by, label, *rest in axes
            )
            for key, axes in groupby(rows, key=lambda row: row[0])
        }

    @cached_property
    def _coefficients(self) -> dict[str, Coefficient]:
        rows = self._rows("SELECT times, num, den, over, under FROM coefficient_value")
        return {key: Coefficient(*numbers) for key, *numbers in rows}

    def _rows(self, sql: str) -> list[Row]:
        return list(self._database.execute(sql).fetchall())
