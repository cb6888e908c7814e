"""The hash of facts: what was changed after extraction is refused, by its name."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from gg_datalog.extract.schema import RELATIONS
from gg_datalog.foundation.hashes import table_hash
from gg_datalog.result.store import open_facts, read_facts, write_facts

from ..command import Cli, Outcome

FAST = ("--engine", "clingo", "--no-repairs")


@pytest.fixture
def facts(judged: Callable[[bool], Path]) -> Path:
    """The facts of a case that refines, and their result."""
    return judged(True)


def _hash(folder: Path) -> str:
    found: str = json.loads((folder / "manifest.json").read_text())["hash"]
    return found


def _refused(found: Outcome, *words: str) -> None:
    assert (found.status, found.out) == (2, "")
    for word in words:
        assert word in found.err


def _changed(folder: Path, name: str, change: Callable[[pa.Table], pa.Table]) -> Path:
    path = folder / f"{name}.parquet"
    parquet.write_table(change(parquet.read_table(path)), path)
    return path


def _cell(column: str, value: object) -> Callable[[pa.Table], pa.Table]:
    def change(table: pa.Table) -> pa.Table:
        rows = table.to_pylist()
        rows[0][column] = value
        return pa.Table.from_pylist(rows, table.schema)

    return change


CHANGES: dict[str, tuple[str, Callable[[pa.Table], pa.Table]]] = {
    "a number": ("related_range", _cell("lo", 1)),
    "a name": ("output_name", _cell("seq", "z")),
    "an attribute": ("seq_operator", _cell("signed", "aten.gelu")),
    "what is taken on trust": ("graph_node", _cell("source", "other.py:1")),
    "the order of rows": ("related_input", lambda table: table.take(list(range(len(table)))[::-1])),
    "what is beside the rules": ("base_tensor", _cell("dtype", "int64")),
}


@pytest.mark.parametrize("name", CHANGES)
def test_facts_that_were_changed(cli: Cli, facts: Path, tmp_path: Path, name: str) -> None:
    proof = tmp_path / "proof.json"
    assert cli("certificate", facts / "result", "-o", proof).status == 0
    before = (facts / "result" / "report.json").read_bytes()
    path = _changed(facts, *CHANGES[name])
    for command in (["run", facts, *FAST], ["check", proof, facts]):
        _refused(cli(*command), str(path), "changed after extraction", "extract the facts again")
    assert (facts / "result" / "report.json").read_bytes() == before


@pytest.mark.exhaustive
def test_every_relation_counts(facts: Path) -> None:
    """No relation is left out: a row more in any of them is seen."""
    manifest = json.loads((facts / "manifest.json").read_text())
    assert set(manifest["hashes"]) == set(RELATIONS)
    tables, case = read_facts(facts)
    seen = {open_facts(facts).joint_hash}
    for name, table in tables.items():
        row = pa.Table.from_pylist(
            [{f.name: 7 if pa.types.is_integer(f.type) else "7" for f in table.schema}],
            table.schema,
        )
        other = facts.parent / "other"
        write_facts({**tables, name: pa.concat_tables([table, row])}, other, "parquet", case)
        seen.add(open_facts(other).joint_hash)
    assert len(seen) == len(tables) + 1


def test_rows_as_text_have_the_same_hash(cli: Cli, good: Path, facts: Path, tmp_path: Path) -> None:
    text = tmp_path / "text"
    assert cli("extract", good, "-o", text, "--facts-format", "tsv").status == 0
    assert _hash(text) == _hash(facts)
    assert cli("run", text, *FAST).status == 0
    path = text / "related_range.facts"
    path.write_text(path.read_text().replace("\t3\t", "\t2\t", 1))
    _refused(cli("run", text, *FAST), str(path), "changed after extraction")


def test_chunks_do_not_count(facts: Path) -> None:
    tables, _ = read_facts(facts)
    for table in tables.values():
        cut = [table.slice(at, 2) for at in range(0, max(len(table), 1), 2)]
        assert table_hash(pa.concat_tables(cut)) == table_hash(table)
        longer = pa.concat_tables([table, table])
        assert table_hash(longer.slice(len(table))) == table_hash(table)
        assert not len(table) or table_hash(longer) != table_hash(table)


def test_texts_do_not_run_into_each_other() -> None:
    def of(*texts: str) -> str:
        return table_hash(pa.table({"a": pa.array(texts, pa.string())}))

    assert len({of("ab", "c"), of("a", "bc"), of("abc"), of("abc", ""), of("", "abc")}) == 5


@pytest.mark.parametrize("field", ["hash", "hashes", "sources"])
def test_a_manifest_without_hashes(cli: Cli, facts: Path, field: str) -> None:
    manifest = json.loads((facts / "manifest.json").read_text())
    for value in (None, {}, "0" * 64, []):
        (facts / "manifest.json").write_text(json.dumps({**manifest, field: value}))
        _refused(cli("run", facts, *FAST), "extract the facts again")


def test_the_result_names_the_facts(cli: Cli, facts: Path, bad: Path, tmp_path: Path) -> None:
    assert _hash(facts / "result") == _hash(facts)
    other = tmp_path / "other"
    assert cli("extract", bad, "-o", other).status == 0
    assert _hash(other) != _hash(facts)


# ---- graphs, and what is read with them -----------------------------------------------------------
def test_the_hash_is_of_the_case_wherever_it_lies(
    cli: Cli, good: Path, facts: Path, tmp_path: Path
) -> None:
    copy = shutil.copytree(good, tmp_path / "deep" / "copy")
    assert cli("extract", copy, "-o", tmp_path / "again").status == 0
    assert _hash(tmp_path / "again") == _hash(facts)
    parts = [copy / f"{name}.json" for name in ("seq", "dist.r0", "dist.r1")]
    options = [
        o for n in ("groups", "relations", "outputs") for o in (f"--{n}", copy / f"{n}.json")
    ]
    dist = ["--dist", parts[1], "--dist", parts[2]]
    assert cli("extract", "--seq", parts[0], *dist, *options, "-o", tmp_path / "b").status == 0
    assert _hash(tmp_path / "b") == _hash(facts)


@pytest.mark.parametrize("name", ["seq", "dist.r1", "groups", "relations", "outputs"])
def test_the_hash_covers_every_file(
    cli: Cli, good: Path, facts: Path, tmp_path: Path, name: str
) -> None:
    (good / f"{name}.json").write_text((good / f"{name}.json").read_text() + "\n")
    assert cli("extract", good, "-o", tmp_path / "again").status == 0
    assert _hash(tmp_path / "again") != _hash(facts)


@pytest.mark.parametrize("name", ["seq", "dist.r1", "groups", "relations", "outputs"])
def test_files_that_were_changed_since(
    cli: Cli, good: Path, facts: Path, tmp_path: Path, name: str
) -> None:
    """A verdict on facts is about the facts; what needs the files refuses others."""
    path = good / f"{name}.json"
    path.write_text(path.read_text() + "\n")
    told = f"warning: {path} was changed after the facts were extracted"
    found = cli("run", facts, *FAST)
    assert found.status == 0 and told in found.err
    table = tmp_path / "mine.toml"
    table.write_text("")
    for command in (["run", facts, "--operators", table], ["replay", facts]):
        _refused(cli(*command), str(path), "was changed after the facts were extracted")
    path.unlink()
    assert cli("run", facts, *FAST).err == ""


def test_what_a_table_of_operators_adds_counts(cli: Cli, good: Path, tmp_path: Path) -> None:
    """A result that was extracted again is of what `extract` would give, and so is its proof."""
    table, facts, other = (tmp_path / name for name in ("mine.toml", "facts", "other"))
    table.write_text('[[operator]]\ntarget = "mine.op"\nrule = "a b -> a b"\n')
    assert cli("extract", good, "-o", facts).status == 0
    assert cli("run", facts, *FAST, "--operators", table).status == 0
    assert cli("extract", good, "-o", other, "--operators", table).status == 0
    assert _hash(facts / "result") == _hash(other) != _hash(facts)
    proof = tmp_path / "proof.json"
    assert cli("certificate", facts / "result", "-o", proof).status == 0
    assert cli("check", proof, other).status == 0
    found = cli("check", proof, facts)
    assert found.status == 1 and "about other facts" in found.err
