"""``query`` and ``doctor``, and what a result folder holds."""

from __future__ import annotations

import csv
import io
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from pyarrow import parquet

from gg_datalog.extract.schema import SCHEMA_VERSION
from gg_datalog.result.database import PEOPLE
from gg_datalog.result.records import record_tables

from ..command import Cli

NAMES = (
    "blocked_by",
    "by_source",
    "collectives",
    "coverage",
    "frontier",
    "operators",
    "partial_tensors",
    "shards",
    "unmapped_outputs",
)


@pytest.fixture
def result(judged: Callable[[bool], Path]) -> Path:
    """The result of a case without its all-reduce."""
    return judged(False) / "result"


def test_the_queries_tell_what_is_wrong(cli: Cli, result: Path) -> None:
    rows = {name: cli("query", result, name, "--format", "json").report for name in NAMES}
    assert [(r["seq"], r["dist"], r["state"]) for r in rows["unmapped_outputs"]] == [
        ("y", "r0.y", "nothing"),
        ("y", "r1.y", "nothing"),
    ]
    (broken,) = rows["frontier"]
    assert (broken["node"], broken["module"]) == ("y", "block")
    assert broken["source"].startswith("model.py")
    assert [(r["seq"], r["dist"], r["reason"], r["operand"]) for r in rows["blocked_by"]] == [
        ("y", "r0.y", "operand is a part of a reduction", "r0.mm"),
        ("y", "r1.y", "operand is a part of a reduction", "r1.mm"),
    ]
    assert [(r["dist"], r["lo"], r["hi"], r["used_by"]) for r in rows["partial_tensors"]] == [
        ("r0.mm", 0, 3, ["r0.y"]),
        ("r1.mm", 3, 6, ["r1.y"]),
    ]
    (line,) = rows["by_source"]
    assert (line["operators"], line["outputs"]) == (["y"], ["y"])
    assert rows["coverage"] == [{"module": "block", "operators": 2, "mapped": 0, "share": 0.0}]
    assert {r["target"]: (r["seq"], r["dist"]) for r in rows["operators"]} == {
        "aten.mm.default": (1, 2),
        "aten.relu.default": (1, 2),
    }


def test_every_query_is_listed_with_its_columns(cli: Cli) -> None:
    found = cli("query", "--list")
    assert found.status == 0
    for name in (*NAMES, "where"):
        assert f"{name}\n  " in found.out


Shard = tuple[str, int, str, int, int, int, int, str | None]


def shards(rows: list[dict[str, Any]]) -> list[Shard]:
    """Who holds which range of a dimension of what."""
    return [
        (r["seq"], r["rank"], r["node"], r["dim"], r["lo"], r["hi"], r["extent"], r["open"])
        for r in rows
    ]


def test_which_rank_holds_what(cli: Cli, result: Path) -> None:
    everything = shards(cli("query", result, "shards", "--format", "json").report)
    for rank in (0, 1):
        lo, hi = 3 * rank, 3 * rank + 3
        part = f"sum over {lo}:{hi} of 6"
        for row in (
            ("x", rank, "x", 0, 0, 4, 4, None),
            ("x", rank, "x", 1, lo, hi, 6, None),
            ("w", rank, "w", 0, lo, hi, 6, None),
            ("mm", rank, "mm", 0, 0, 4, 4, part),
            ("mm", rank, "mm", 1, 0, 5, 5, part),
        ):
            assert row in everything
    assert not any(seq == "y" for seq, *_ in everything)
    for name, ranks in (("mm", {0, 1}), ("r1.mm", {1})):
        found = shards(cli("query", result, "where", name, "--format", "json").report)
        assert found == [row for row in everything if row[0] == "mm" and row[1] in ranks]
    assert cli("query", result, "where", "y", "--format", "json").report == []


def test_relations_as_a_person_writes_them(cli: Cli, result: Path) -> None:
    sql = "SELECT rank, node, seq, text FROM relation WHERE seq IN ('x', 'mm') ORDER BY ALL"
    assert [
        tuple(r.values()) for r in cli("query", result, "--sql", sql, "--format", "json").report
    ] == [
        (0, "mm", "mm", "r0.mm = Partial(sum over 0:3 of 6 in mm) of mm"),
        (0, "x", "x", "r0.x = x[:, 0:3]"),
        (1, "mm", "mm", "r1.mm = Partial(sum over 3:6 of 6 in mm) of mm"),
        (1, "x", "x", "r1.x = x[:, 3:6]"),
    ]


def test_what_computes_what(cli: Cli, result: Path) -> None:
    sql = "SELECT node, operand FROM edge WHERE side = 'dist' AND rank = 1 ORDER BY ALL"
    found = cli("query", result, "--sql", sql, "--format", "json").report
    assert [tuple(row.values()) for row in found] == [("mm", "w"), ("mm", "x"), ("y", "mm")]


def test_the_views_for_people_need_no_search_path(cli: Cli, result: Path) -> None:
    listed = cli("query", "--tables").out
    with duckdb.connect(str(result / "result.duckdb"), read_only=True) as database:
        for name in PEOPLE:
            columns = database.sql(f'SELECT * FROM "{name}"').columns
            assert f"{name}({', '.join(columns)})\n  " in listed
    sql = "SELECT count(*) FROM operator_pair"
    assert cli("query", result, "--sql", sql).status == 0  # those of the program are found, too


def test_coefficients_are_numbers() -> None:
    times = pa.table({"times": ["[1, 2, 0.1, ]", "[1, 1, , ]", "[3, 1, , 0.5*0.5]"]})
    found = record_tables({"holds": times})["coefficient_value"].to_pylist()
    assert {row["times"]: row["value"] for row in found} == {
        "[1, 1, , ]": 1.0,
        "[1, 2, 0.1, ]": 0.05,
        "[3, 1, , 0.5*0.5]": 12.0,
    }


def test_positions_apart_from_each_other() -> None:
    block = pa.table({"block": ["[[2, 1, 3, 0, 1, 0, nil], [[1, 0, 4, 1, 1, 2, nil], nil]]"]})
    found = record_tables({"holds": block})["block_run"].to_pylist()
    assert [tuple(row.values())[1:] for row in found] == [
        (0, 0, 2, 1, 4, 0, 1, 0),
        (1, 0, 1, 0, 4, 1, 1, 2),
    ]


def test_who_takes_part_in_a_collective(cli: Cli, good: Path, tmp_path: Path) -> None:
    cli("extract", good, "-o", tmp_path / "facts")
    cli("run", tmp_path / "facts", "--engine", "clingo")
    (row,) = cli("query", tmp_path / "facts/result", "collectives", "--format", "json").report
    assert (row["kind"], row["reduction"], row["ranks"]) == ("all_reduce", "sum", "0,1")
    assert row["nodes"] == ["r0.total", "r1.total"]
    sql = "SELECT rank, node, members, takes, shape FROM collective ORDER BY rank"
    found = cli("query", tmp_path / "facts/result", "--sql", sql, "--format", "json").report
    assert [tuple(row.values()) for row in found] == [
        (rank, "total", ["r0.total", "r1.total"], ["mm"], "4x5") for rank in (0, 1)
    ]


def test_what_all_members_get_is_listed_for_each(cli: Cli, judged: Callable[[bool], Path]) -> None:
    result = judged(True) / "result"
    sql = "SELECT rank, node, text FROM relation WHERE node = 'total' ORDER BY ALL"
    found = cli("query", result, "--sql", sql, "--format", "json").report
    assert [(r["rank"], r["text"].partition(" = ")[0]) for r in found] == [
        (0, "r0.total"),
        (1, "r1.total"),
    ]
    assert len({r["text"].partition(" = ")[2] for r in found}) == 1
    for node in ("r0.total", "r1.total"):
        assert cli("query", result, "where", node, "--format", "json").report


def test_a_tensor_where_one_is_asked_for(cli: Cli, result: Path) -> None:
    for arguments, told in (
        (("where",), "`where` asks about one tensor"),
        (("shards", "mm"), "`shards` asks about no single tensor"),
        (("where", "nothing"), "no node is called `nothing`"),
    ):
        found = cli("query", result, *arguments)
        assert (found.status, found.out) == (2, "")
        assert told in found.err


def test_a_query_of_a_right_program_is_empty(cli: Cli, good: Path, tmp_path: Path) -> None:
    cli("extract", good, "-o", tmp_path / "facts")
    cli("run", tmp_path / "facts", "--engine", "clingo")
    for name in ("blocked_by", "by_source", "frontier", "unmapped_outputs"):
        assert cli("query", tmp_path / "facts" / "result", name, "--format", "json").report == []


def test_any_statement(cli: Cli, result: Path) -> None:
    found = cli("query", result, "--sql", "SELECT wants, seq FROM output_name", "--format", "csv")
    assert list(csv.reader(io.StringIO(found.out))) == [["wants", "seq"], ["0", "y"]]
    table = cli("query", result, "--sql", "SELECT 1 AS one WHERE false")
    assert table.out == "one\n---\n(no rows)\n"


@pytest.mark.parametrize(
    "sql",
    [
        "selct",
        "SELECT * FROM nowhere",
        "DROP VIEW holds",
        "CREATE TABLE t (a int)",
        "DELETE FROM stored.holds",
        "SELECT 1; DROP VIEW holds",
        "COPY (SELECT 1) TO '{}/copy.csv'",
        "EXPORT DATABASE '{}/copy'",
        "ATTACH '{}/copy.db'",
        "SELECT * FROM read_csv('{}/manifest.json')",
    ],
)
def test_a_wrong_statement(cli: Cli, result: Path, sql: str) -> None:
    before = sorted(result.rglob("*"))
    found = cli("query", result, "--sql", sql.format(result))
    assert (found.status, found.out) == (2, "")
    assert "DuckDB says" in found.err
    assert sorted(result.rglob("*")) == before


@pytest.mark.parametrize("sql", ["", " ", ";"])
def test_an_empty_statement(cli: Cli, result: Path, sql: str) -> None:
    found = cli("query", result, "--sql", sql)
    assert (found.status, found.out) == (2, "")
    assert "the statement is empty" in found.err


def test_wrong_names(cli: Cli, result: Path, tmp_path: Path) -> None:
    assert "known: blocked_by" in cli("query", result, "nothing").err
    assert cli("query", tmp_path, "frontier").status == 2
    (result / "result.duckdb").write_text("no database")
    assert cli("query", result, "frontier").status == 2


def test_a_result_of_an_earlier_release(cli: Cli, result: Path) -> None:
    with duckdb.connect(str(result / "result.duckdb")) as database:
        database.execute("DROP SCHEMA internal CASCADE")
    found = cli("explain", result, "y")
    assert (found.status, found.out) == (2, "")
    assert "the database is one of another release" in found.err
    sql = "SELECT seq FROM output_name"
    assert cli("query", result, "--sql", sql, "--format", "json").report == [{"seq": "y"}]


def test_a_folder_that_verify_kept(cli: Cli, good: Path, tmp_path: Path) -> None:
    out = tmp_path / "kept"
    assert cli("verify", good, "-o", out).status == 0
    found = cli("query", out, "shards")
    assert found.status == 2
    assert f"give {out / 'result'}" in found.err


def test_a_result_may_be_moved(cli: Cli, result: Path, tmp_path: Path) -> None:
    moved = tmp_path / "elsewhere"
    shutil.move(result, moved)
    assert cli("query", moved, "frontier", "--format", "json").report


def test_every_relation_is_a_documented_view(result: Path) -> None:
    with duckdb.connect(str(result / "result.duckdb"), read_only=True) as database:
        views = database.sql(
            "SELECT view_name, comment FROM duckdb_views() WHERE NOT internal"
        ).fetchall()
    assert [name for name, comment in views if not comment] == []
    known = {name for name, _ in views}
    for path in result.glob("*.parquet"):
        assert path.stem in known
        metadata = parquet.read_schema(path).metadata
        assert metadata[b"relation"].decode() == path.stem
        assert metadata[b"schema_version"] == str(SCHEMA_VERSION).encode()


def test_doctor(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    found = cli("doctor")
    assert found.status == 0
    assert "engine souffle: not usable" in found.out
    assert "engine clingo: usable" in found.out
    assert "32 bits" in found.out
    assert "engine auto: clingo" in found.out
