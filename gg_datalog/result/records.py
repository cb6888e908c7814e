"""Records of the rules as rows: each block, part and coefficient once, its text the key.

A block says where elements lie: per dimension of the sequential base tensor ("place") runs, which
are added up, each of positions ``stride * lo`` to ``stride * (hi - 1)``, and where these lie in the
tensor of the ranks. A part says of which axes only a range is reduced, the outermost first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from gg_datalog.result.terms import chain, coefficient_value, parse_record, runs_of

if TYPE_CHECKING:
    import pyarrow as pa

Row = tuple[Any, ...]


def _runs(block: str) -> Iterator[Row]:
    for place, level, (stride, lo, n, *dist) in runs_of(block):
        yield block, place, level, stride, lo, lo + n, *dist


def _axes(parts: str) -> Iterator[Row]:
    for level, (axis, kind, lo, n, extent) in enumerate(chain(parse_record(parts))):
        by, label, _ = axis
        yield parts, level, by, label, kind, lo, lo + n, extent


def _coefficients(times: str) -> Iterator[Row]:
    num, den, over, under = parse_record(times)
    value = float(coefficient_value(times))
    yield times, num, den, *("" if text is None else str(text) for text in (over, under)), value


# Name, the column of the derived relations whose records it has, its own columns, its rows.
Reader = Callable[[str], Iterator[Row]]
TABLES: tuple[tuple[str, str, str, Reader], ...] = (
    ("block_run", "block", "block place level stride lo hi dim dist_stride dist_lo", _runs),
    ("part_axis", "parts", "parts level operator label kind lo hi extent", _axes),
    ("coefficient_value", "times", "times num den over under value", _coefficients),
)
WORDS = {"block", "parts", "times", "operator", "kind", "over", "under"}
COMMENTS = {
    "block_run": "A run of block `block`: of dimension `place` of the sequential base tensor the "
    "positions `stride * lo` to `stride * (hi - 1)`, `stride` apart (runs of one dimension are "
    "added up); on the ranks they lie on dimension `dim` (-1: they recur), `dist_stride` apart "
    "from `dist_stride * dist_lo` on.",
    "part_axis": "Part `parts` is reduced by `kind` over [lo, hi) of `extent` positions of "
    "label `label` of `operator`; level 0 is the outermost reduction.",
    "coefficient_value": "Coefficient `times` as numbers: num / den * over / under, and its value.",
}


def record_tables(relations: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
    """The rows of all records in these relations."""
    import pyarrow as pa

    found = {}
    for name, column, columns, read in TABLES:
        texts = sorted(set(_texts(relations.values(), column)))
        rows = [row for text in texts for row in read(text)]
        names = columns.split()
        schema = pa.schema([(one, _kind(one)) for one in names])
        found[name] = pa.Table.from_pylist(
            [dict(zip(names, row, strict=True)) for row in rows], schema
        )
    return found


def _kind(column: str) -> pa.DataType:
    import pyarrow as pa

    return pa.string() if column in WORDS else pa.float64() if column == "value" else pa.int64()


def _texts(tables: Iterable[pa.Table], column: str) -> Iterator[str]:
    for table in tables:
        if column in table.column_names:
            yield from table.column(column).unique().to_pylist()
