"""Malformed input: one clear message, exit 2, nothing left half written."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from pyarrow import parquet

import gg_datalog
from gg_datalog.extract.graph import DTYPE
from gg_datalog.extract.schema import RELATIONS
from gg_datalog.extract.table import load_table, refuse_unknown_arguments
from gg_datalog.foundation.hashes import joint_hash, table_hash

from ..command import Cli, Outcome
from .build import documents

MakeCase = Callable[[Mapping[str, Any]], Path]
Change = Callable[[dict[str, Any]], None]


def refused(found: Outcome, *words: str) -> None:
    """One message that holds these words, nothing on stdout, exit 2."""
    assert (found.status, found.out) == (2, "")
    assert "Traceback" not in found.err
    for word in words:
        assert word in found.err


def _node(files: dict[str, Any], name: str, /, **fields: object) -> None:
    for row in files["dist.r0"]["nodes"]:
        if row["name"] == name:
            row.update(fields)


def _instead(*args: Any) -> Change:
    """Instead of the relu on rank 0: an operator of y's operand with these arguments."""
    target, *rest = args
    return lambda f: _node(f, "y", target=target, args=[{"node": "total"}, *rest])


def _both(**fields: object) -> Change:
    """Another collective on both ranks."""
    return lambda f: [f[r]["nodes"][3].update(fields) for r in ("dist.r0", "dist.r1")] and None


def _group(**fields: object) -> Change:
    return lambda f: f["groups"]["dist"][0].update(fields)


def _relation(**fields: object) -> Change:
    return lambda f: f["relations"][0].update(fields)


def _output(**fields: object) -> Change:
    return lambda f: f["outputs"][0].update(fields)


MM, W = {"node": "mm"}, {"node": "w"}
GATHER = "_c10d_functional.all_gather_into_tensor.default"
CHANGES: dict[str, tuple[Change, str]] = {
    "no nodes": (lambda f: f.update({"seq": {}}), "not a graph"),
    "unknown operand": (lambda f: _node(f, "y", args=[{"node": "gone"}]), "`gone`"),
    "cycle": (lambda f: _node(f, "mm", args=[{"node": "y"}, {"node": "w"}]), "cyclic"),
    "twice the name": (lambda f: _node(f, "w", name="x"), "two nodes are called `x`"),
    "bad op": (lambda f: _node(f, "mm", op="call_module"), "call_module"),
    "bad shape": (lambda f: _node(f, "mm", shape=[-1, 5]), "-1"),
    "shapes do not add up": (lambda f: _node(f, "mm", shape=[4, 6]), "`mm`"),
    "too large": (lambda f: _node(f, "mm", shape=[3000000000, 5]), "3000000000"),
    "unknown group": (lambda f: f.update({"groups": {"seq": [], "dist": []}}), "group"),
    "unknown input": (lambda f: f["relations"][0].update(seq="gone"), "`gone`"),
    "box outside": (lambda f: f["relations"][0].update(seq_box=[[0, 4], [5, 8]]), "outside"),
    "contradiction": (
        lambda f: f["relations"].append({**f["relations"][0], "seq_box": [[0, 4], [3, 6]]}),
        "hold both",
    ),
    "graph is a list": (lambda f: f.update(seq=[]), "not a graph"),
    "graph of another format": (lambda f: f["seq"].update(format="onnx"), "'onnx'"),
    "graph of another version": (lambda f: f["seq"].update(version="1"), "version '1'"),
    "nodes are an object": (lambda f: f.update(seq={"nodes": {}}), "not a graph"),
    "empty graph": (lambda f: f.update(seq={"nodes": []}), "no `output`"),
    "node is null": (lambda f: f["seq"]["nodes"].insert(0, None), "node 0"),
    "node without name": (lambda f: f["seq"]["nodes"][2].pop("name"), "node 2"),
    "name of a number": (lambda f: _node(f, "mm", name=3), "node 2"),
    "name with a tab": (lambda f: _node(f, "y", name="a\tb"), "control character"),
    "name with half a letter": (lambda f: _node(f, "w", name="\ud800"), "`w`"),
    "half a letter in a source": (lambda f: _node(f, "y", source="\ud800"), "no text"),
    "keyword with a line break": (lambda f: _node(f, "y", kwargs={"a\n": 1}), "control character"),
    "no target": (lambda f: _node(f, "mm", target=""), "`target`"),
    "args are an object": (lambda f: _node(f, "mm", args={}), "`args`"),
    "reference to a number": (lambda f: _node(f, "mm", args=[{"node": 3}, W]), "names no node"),
    "no slice": (lambda f: _node(f, "mm", args=[{"slice": 3}, W]), "no slice"),
    "slice of four": (lambda f: _node(f, "mm", args=[{"slice": [1, 2, 3, 4]}, W]), "no slice"),
    "no float": (lambda f: _node(f, "mm", args=[{"float": "x"}, W]), "no float"),
    "float shape": (lambda f: _node(f, "mm", shape=[4.0, 5]), "4.0"),
    "shape is text": (lambda f: _node(f, "mm", shape="4x5"), "'4x5'"),
    "unknown dtype": (lambda f: _node(f, "x", dtype="quux"), "'quux'"),
    "float of no width": (lambda f: _node(f, "x", dtype="float99"), "'float99'"),
    "integer of no width": (lambda f: _node(f, "x", dtype="int24"), "'int24'"),
    "dtype with a prefix": (lambda f: _node(f, "x", dtype="torch.float32"), "'torch.float32'"),
    "cast to no dtype": (
        lambda f: _node(
            f, "y", target="aten._to_copy.default", kwargs={"dtype": {"dtype": "torch.float99"}}
        ),
        "'float99'",
    ),
    "source is a list": (lambda f: _node(f, "mm", source=["a"]), "`source`"),
    "three operands": (lambda f: _node(f, "mm", args=[{"node": "x"}, W, 1]), "takes 2 arguments"),
    "matmul": (lambda f: _node(f, "mm", args=[W, {"node": "x"}]), "do not multiply"),
    "add": (_instead("aten.add.Tensor", W), "do not broadcast"),
    "div": (_instead("aten.div.Tensor", {"node": "x"}), "do not broadcast"),
    "expand": (_instead("aten.expand.default", [3, 5]), "does not expand"),
    "view": (_instead("aten.view.default", [3, 7]), "viewed as"),
    "view says another shape": (_instead("aten.view.default", [5, 4]), "viewed as"),
    "permute": (_instead("aten.permute.default", [0, 0]), "no permutation"),
    "dimension": (_instead("aten.transpose.int", 0, 9), "dimension 9"),
    "select": (_instead("aten.select.int", 0, 99), "index 99"),
    "split": (_instead("aten.split_with_sizes.default", [1, 9]), "do not add up"),
    "sum": (_instead("aten.sum.dim_IntList", [1]), "shape is given as"),
    "cat": (
        lambda f: _node(
            f, "y", target="aten.cat.default", args=[[MM, {"node": "x"}]], shape=[8, 5]
        ),
        "differ beyond dimension",
    ),
    "arange": (
        lambda f: _node(f, "y", target="aten.arange.default", args=[-3], shape=[5]),
        "are not 5 numbers",
    ),
    "full": (
        lambda f: _node(f, "y", target="aten.full.default", args=[[4, -5], 0]),
        "are not [4, 5]",
    ),
    "all-reduce without operand": (
        lambda f: _node(f, "total", args=[], kwargs={"group_name": "0"}),
        "argument `input` is missing",
    ),
    "all-reduce without group": (
        lambda f: _node(f, "total", args=[MM, "sum", 0]),
        "names no group",
    ),
    "gather of no dimension": (_both(target=GATHER, args=[MM, 7, 2, "0"]), "takes 3 arguments"),
    "broadcast from nobody": (
        _both(target="_c10d_functional.broadcast.default", args=[MM, "0"]),
        "argument `group_name` is missing",
    ),
    "groups are a list": (lambda f: f.update(groups=[]), "an object"),
    "group without ranks": (lambda f: f["groups"]["dist"][0].pop("ranks"), "`ranks`"),
    "rank twice in a group": (_group(ranks=[0, 0]), "distinct"),
    "rank of a list": (_group(ranks=[[0], 1]), "distinct"),
    "rank of a boolean": (_group(ranks=[False, True]), "distinct"),
    "group of a stranger": (_group(ranks=[0]), "no member"),
    "group named by no rank": (_group(names={"²": "0"}), "no member"),
    "group name of a list": (_group(names={"0": ["0"], "1": "0"}), "no string"),
    "two groups of one name": (
        lambda f: f["groups"]["dist"].append(f["groups"]["dist"][0]),
        "two groups",
    ),
    "relations are an object": (lambda f: f.update(relations={}), "a list of objects"),
    "relation of no rank": (_relation(rank="0"), "`rank`"),
    "relation of a boolean": (_relation(rank=True), "`rank`"),
    "relation of a result": (_relation(seq="mm"), "computed from other"),
    "relation with a typing mistake": (_relation(seqbox=[[0, 4], [0, 3]]), "`seqbox`"),
    "relation of two dtypes": (lambda f: _node(f, "x", dtype="int64"), "int64"),
    "box of one dimension": (_relation(seq_box=[[0, 4]]), "one [lo, hi]"),
    "box of floats": (_relation(seq_box=[[0, 4.0], [0, 3]]), "one [lo, hi]"),
    "empty box": (_relation(seq_box=[[4, 4], [0, 3]]), "empty"),
    "boxes of two sizes": (_relation(seq_box=[[0, 4], [0, 2]]), "differ in size"),
    "outputs are an object": (lambda f: f.update(outputs={}), "a list of objects"),
    "output of nothing": (_output(dist=None), "`dist`"),
    "output of a nameless rank": (_output(dist={"": "y"}), "`dist`"),
    "output of a number": (_output(dist={"0": 3}), "`dist`"),
    "output of a missing rank": (_output(dist={"9": "y"}), "rank 9"),
    "half partial": (_output(partial="yes"), "neither true nor false"),
    "no outputs": (lambda f: f.update({"outputs": []}), "no output"),
    "unknown output": (lambda f: f["outputs"][0].update(seq="gone"), "`gone`"),
    "not returned": (lambda f: f["outputs"][0].update(dist="mm"), "does not return"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_malformed_case(cli: Cli, make_case: MakeCase, tmp_path: Path, name: str) -> None:
    change, word = CHANGES[name]
    files = documents()
    change(files)
    case = make_case(files)
    refused(cli("extract", case, "-o", tmp_path / "facts"), "error:", word)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["case"]


def test_element_types_that_torch_has() -> None:
    torch = pytest.importorskip("torch")
    names = {str(v) for v in vars(torch).values() if isinstance(v, torch.dtype)}
    assert len(names) > 30
    assert not [n for n in names if not DTYPE.fullmatch(n.removeprefix("torch."))]


TEXTS = {
    "nothing": ("", "not JSON"),
    "half a file": ('{"nodes": [', "not JSON"),
    "two documents": ("{}\n{}", "seq.json:2:1"),
    "a mark of byte order": ("\ufeff{}", "BOM"),
    "too deep": ("[" * 100_000, "nested too deeply"),
    "too many digits": ('{"nodes": ' + "9" * 5000 + "}", "4300 digits"),
    "not a number": ('{"nodes": [{"name": "x", "op": "placeholder", "shape": [NaN]}]}', "nan"),
    "deep arguments": (
        '{"nodes": [{"name": "x", "op": "output", "args": ' + "[" * 99 + "]" * 99 + "}]}",
        "nest deeper",
    ),
}


@pytest.mark.parametrize("name", TEXTS)
def test_text_that_is_no_graph(cli: Cli, good: Path, tmp_path: Path, name: str) -> None:
    text, word = TEXTS[name]
    (good / "seq.json").write_text(text)
    refused(cli("extract", good, "-o", tmp_path / "facts"), "seq.json", word)
    assert not (tmp_path / "facts").exists()


def test_bytes_that_are_no_text(cli: Cli, good: Path, tmp_path: Path) -> None:
    (good / "seq.json").write_bytes(b"\xff\x00")
    refused(cli("extract", good, "-o", tmp_path / "facts"), "seq.json", "utf-8")


def _row(text: str) -> str:
    return f'[[operator]]\ntarget = "aten.relu"\nrule = "a b -> a b"\n{text}'


TABLES = {
    "no toml": ("[[operator", "not TOML"),
    "unknown key": ("[operators]", "`operators`"),
    "no rule": ('[[operator]]\ntarget = "a.b"', "`rule`"),
    "no rule at all": (_row("").replace("a b ->", ""), "cannot be read"),
    "another number of operands": (_row("operands = [0, 1]"), "2 operands"),
    "dimension from nowhere": (_row("").replace("-> a b", "-> a z"), "`z`"),
    "dimension that no result has": (_row("").replace("-> a b", "-> a"), "no result of rule"),
    "dimension that one result lacks": (
        _row("").replace("-> a b", "-> a b, a"),
        "not every result of rule",
    ),
    "overload": (_row("").replace("relu", "relu.default"), "say `aten.relu`"),
    "overload of an alias": ('[alias]\n"my.relu.default" = "aten.relu"', "say `my.relu`"),
    "alias of an overload": ('[alias]\n"my.relu" = "aten.relu.default"', "say `aten.relu`"),
    "overload that is elementwise": ('[elementwise]\n"my.silu.out" = []', "say `my.silu`"),
    "overload that is an identity": ('[identity]\n"my.log.default" = 0', "say `my.log`"),
    "alias of itself": ('[alias]\n"my.relu" = "my.relu"', "my.relu = my.relu"),
    "circle of aliases": (
        '[alias]\n"a.a" = "a.b"\n"a.b" = "a.c"\n"a.c" = "a.a"',
        "a.a = a.b = a.c = a.a",
    ),
    "circle with what is built in": (
        '[alias]\n"aten.view" = "aten.reshape"',
        "aten.view = aten.reshape = aten.view",
    ),
    "described twice": (
        '[alias]\n"my.relu" = "aten.relu"\n[elementwise]\n"my.relu" = []',
        "`my.relu` is described twice",
    ),
    "result described twice": (_row("") + _row(""), "result 0 of `aten.relu` is described twice"),
    "no name": ('[elementwise]\n"" = []', "the name is empty"),
    "nested too deeply": (f"x = {'[' * 3000}", "nested too deeply"),
    "a null byte": ('placement = ["a\\u0000"]', "a null byte"),
    "a byte-order mark": ("\ufeffplacement = []", "not TOML"),
    "operand twice": (_row("operands = [0, 0]").replace("a b ->", "a b, a b ->"), "0 is listed"),
    "result of no operator": (_row("results = [99999999]"), "has a result 99999999"),
    "operand that torch has not": (_row('operands = ["x"]'), "has no argument 'x'"),
    "operand beyond the last": (_row("operands = [7]"), "has no argument 7"),
    "ignored argument that torch has not": (_row('ignore = ["eps"]'), "has no argument 'eps'"),
    "size of not a number": (_row("sizes = { c = nan }"), "nan"),
    "size below 0": (_row("sizes = { c = -1 }"), "-1"),
    "unknown row key": (_row("lineer = [0]"), "`lineer`"),
    "unknown dimension": (_row('whole = ["q"]'), "'q'"),
    "operand before the first": (_row("operands = [-1]"), "-1"),
    "linear in no operand": (_row("linear = [1]"), "linear"),
    "size 0": (_row("sizes = { a = 0 }"), "size `a`"),
    "result of no place": (_row('results = ["x"]'), "'x'"),
    "assumption of a number": (_row("assume = 3"), "assume"),
    "unknown flag": ('[elementwise]\n"aten.relu" = ["linaer"]', "'linaer'"),
    "alias of a number": ('[alias]\n"aten.relu" = 3', "alias `aten.relu`"),
    "identity of a list": ('[identity]\n"aten.relu" = []', "identity `aten.relu`"),
    "identity of no argument": ('[identity]\n"aten.relu" = 9', "argument 9"),
    "placement": ("placement = [3]", "placement"),
}


@pytest.mark.parametrize("name", TABLES)
def test_a_malformed_operator_table(cli: Cli, good: Path, tmp_path: Path, name: str) -> None:
    text, word = TABLES[name]
    table = tmp_path / "mine.toml"
    table.write_text(text)
    refused(cli("extract", good, "-o", tmp_path / "facts", "--operators", table), word)
    assert not (tmp_path / "facts").exists()


def test_what_is_built_in_names_arguments_that_torch_has() -> None:
    for rows in load_table().rows.values():
        for row in rows:
            refuse_unknown_arguments(row, "operators.toml")


def test_an_alias_of_an_alias(cli: Cli, make_case: MakeCase, tmp_path: Path) -> None:
    """Where a name leads to one that is another name itself, also one that is built in."""
    files = documents()
    for side in ("seq", "dist.r0", "dist.r1"):
        for row in files[side]["nodes"]:
            if row["name"] == "y":
                row.update(target="mine.flat.default", args=[*row["args"], [4, 5]])
    table = tmp_path / "mine.toml"
    table.write_text('[alias]\n"mine.flat" = "mine.shaped"\n"mine.shaped" = "aten.reshape"')
    facts = tmp_path / "facts"
    extract = ["extract", make_case(files), "-o", facts, "--operators", table]
    assert cli(*extract).status == 0
    assert _read(facts, "unsupported_operator").num_rows == 0
    table.write_text(table.read_text().replace("mine.shaped", "mine.other", 1))
    assert cli(*extract).status == 0
    assert _read(facts, "unsupported_operator").num_rows == 3


def test_a_row_replaces_all_that_was_known(tmp_path: Path) -> None:
    table = tmp_path / "mine.toml"
    table.write_text('[elementwise]\n"aten.absolute" = []\n"aten.detach" = []')
    found = load_table([table])
    assert "aten.absolute" not in found.aliases and "aten.detach" not in found.identity
    assert {"aten.absolute", "aten.detach"} <= found.elementwise.keys()


@pytest.mark.parametrize("option", ["--seq", "--groups", "--relations", "--operators"])
def test_option_files_that_are_not_there(cli: Cli, good: Path, tmp_path: Path, option: str) -> None:
    files = [good] if option != "--seq" else ["--dist", good / "dist.r0.json"]
    arguments = ["extract", *files, "-o", tmp_path / "facts", option]
    refused(cli(*arguments, tmp_path / "none"), "none")
    refused(cli(*arguments, good), str(good), "is a directory")


@pytest.mark.parametrize("chosen", ["gone", "", "y=gone", "y=mm"])
def test_chosen_outputs(cli: Cli, good: Path, tmp_path: Path, chosen: str) -> None:
    refused(cli("extract", good, "-o", tmp_path / "facts", "--output", chosen), "error:")
    refused(cli("extract", good, "-o", tmp_path / "facts", "--allow-partial", "gone"), "`gone`")


@pytest.mark.parametrize("name", ["a b", 'a"b', "a'b", "a\\", "名前", "a;--", "a#1", " ", "one"])
def test_odd_names_and_paths(cli: Cli, make_case: MakeCase, tmp_path: Path, name: str) -> None:
    text = json.dumps(documents())
    for old in ("y", "mm"):
        text = text.replace(f'"{old}"', json.dumps(name + old))
    facts = tmp_path / f"{name.strip(' ' + chr(92))} fäcts"
    assert cli("extract", make_case(json.loads(text)), "-o", facts).status == 0
    assert cli("run", facts, "--engine", "clingo").status == 0
    found = cli("query", facts / "result", "--sql", "SELECT seq FROM output_name")
    assert name + "y" in found.out


def test_a_path_that_duckdb_does_not_take(cli: Cli, facts: Path, tmp_path: Path) -> None:
    refused(cli("run", facts, "--engine", "clingo", "-o", tmp_path / "a\\b" / "c"), "backslash")
    assert not (tmp_path / "a\\b" / "c").exists()


def test_names_too_long(cli: Cli, good: Path, tmp_path: Path) -> None:
    long = "a" * 300
    refused(cli("extract", tmp_path / long, "-o", tmp_path / "facts"), "too long")
    refused(cli("extract", good, "-o", tmp_path / long), "too long")


def test_files_that_are_no_json(cli: Cli, good: Path, tmp_path: Path) -> None:
    (good / "seq.json").write_text("{")
    refused(cli("extract", good, "-o", tmp_path / "facts"), "not JSON", "seq.json:1:")
    (good / "seq.json").unlink()
    refused(cli("extract", good, "-o", tmp_path / "facts"), "seq.json not found")
    refused(cli("extract", tmp_path / "none", "-o", tmp_path / "facts"), "no such case folder")


@pytest.mark.parametrize(
    "arguments",
    [
        ["extract"],
        ["extract", "-o", "facts"],
        ["extract", "case", "--seq", "seq.json", "-o", "facts"],
        ["run"],
        ["run", "facts", "--engine", "prolog"],
        ["run", "facts", "--timeout", "0"],
        ["run", "facts", "--timeout", "-1"],
        ["run", "facts", "--timeout", "nan"],
        ["run", "facts", "--timeout", "inf"],
        ["run", "facts", "--timeout", "soon"],
        ["extract", "case", "-o", "facts", "--facts-format", "csv"],
        ["query", "result", "frontier", "--format", "xml"],
        ["query"],
        ["query", "result"],
        ["query", "result", "frontier", "--sql", "SELECT 1"],
        ["unknown"],
        [],
    ],
)
def test_wrong_usage(cli: Cli, arguments: list[str]) -> None:
    assert cli(*arguments).status == 2


def test_a_folder_of_somebody_else_is_left_alone(cli: Cli, good: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "thesis.txt").write_text("irreplaceable")
    refused(cli("extract", good, "-o", mine), "not empty", "another folder")
    assert [p.name for p in mine.iterdir()] == ["thesis.txt"]
    facts = tmp_path / "facts"
    assert cli("extract", good, "-o", facts).status == 0
    refused(cli("run", facts, "-o", facts, "--engine", "clingo"), "holds no result")
    refused(cli("run", facts, "-o", mine / "thesis.txt", "--engine", "clingo"), "there is a file")
    assert cli("extract", good, "-o", facts).status == 0


@pytest.fixture
def facts(cli: Cli, good: Path, tmp_path: Path) -> Path:
    """A facts folder."""
    folder = tmp_path / "facts"
    assert cli("extract", good, "-o", folder).status == 0
    return folder


def _manifest(folder: Path, **fields: object) -> None:
    path = folder / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))


def _rewrite(folder: Path, name: str, table: pa.Table) -> None:
    parquet.write_table(table, folder / f"{name}.parquet")


def _read(folder: Path, name: str) -> pa.Table:
    return parquet.read_table(folder / f"{name}.parquet")


def _cell(folder: Path, name: str, column: str, value: object) -> None:
    table = _read(folder, name)
    rows = table.to_pylist()
    rows[0][column] = value
    _rewrite(folder, name, pa.Table.from_pylist(rows, table.schema))


def _as_extracted(folder: Path) -> None:
    """The hashes of what the folder holds now: as if an extraction had written it."""
    hashes = {name: table_hash(_read(folder, name)) for name in RELATIONS}
    sources = json.loads((folder / "manifest.json").read_text())["sources"]
    _manifest(folder, hashes=hashes, hash=joint_hash(hashes, sources))


def _wrong(folder: Path, name: str, column: str, value: object) -> None:
    """Facts that were extracted like that."""
    _cell(folder, name, column, value)
    _as_extracted(folder)


DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "no manifest": (lambda f: (f / "manifest.json").unlink(), "no manifest.json"),
    "no json": (lambda f: (f / "manifest.json").write_text("{"), "cannot be read"),
    "a result": (lambda f: _manifest(f, kind="result"), "not that of a facts folder"),
    "other version": (lambda f: _manifest(f, schema_version=99), "schema version 99"),
    "other format": (lambda f: _manifest(f, format="pickle"), "pickle"),
    "no relation": (lambda f: (f / "wanted.parquet").unlink(), "wanted is missing"),
    "no parquet": (lambda f: (f / "wanted.parquet").write_text("x"), "not a Parquet file"),
    "other relation": (lambda f: _rewrite(f, "wanted", _read(f, "returned")), "'returned'"),
    "other columns": (
        lambda f: _rewrite(f, "wanted", _read(f, "wanted").select(["wants", "of"])),
        "the columns are",
    ),
    "other rows": (lambda f: _rewrite(f, "wanted", _read(f, "wanted").slice(1)), "has 0 rows"),
    "no bytes": (lambda f: (f / "wanted.parquet").write_bytes(b""), "not a Parquet file"),
    "half a file": (
        lambda f: (f / "wanted.parquet").write_bytes((f / "wanted.parquet").read_bytes()[:200]),
        "not a Parquet file",
    ),
    "a folder": (
        lambda f: ((f / "wanted.parquet").unlink(), (f / "wanted.parquet").mkdir()),
        "wanted is missing",
    ),
    "no word": (lambda f: _wrong(f, "related_range", "lo", 2**40), "does not fit 32 bits"),
    "a line break": (lambda f: _wrong(f, "wanted", "of", "a\nb"), "a line break"),
    "no view": (lambda f: _wrong(f, "output_view", "digits", "junk"), "no view"),
    "no counts": (lambda f: _manifest(f, relations=None), "the manifest says None"),
    "manifest of a list": (lambda f: (f / "manifest.json").write_text("[]"), "not that of"),
    "no metadata": (
        lambda f: _rewrite(f, "wanted", _read(f, "wanted").replace_schema_metadata()),
        "holds relation ''",
    ),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damaged_facts(cli: Cli, facts: Path, name: str) -> None:
    damage, word = DAMAGE[name]
    damage(facts)
    refused(cli("run", facts, "--engine", "clingo"), word)
    assert not (facts / "result").exists()


ROWS = {
    "too short": "0\n",
    "no number": "x\ty\tz\n",
    "too long": "0\ta\tb\tc\n",
    "no word": "99999999999999999999\ty\t1\n",
    "empty": "\n",
}


@pytest.mark.parametrize("name", ROWS)
def test_damaged_rows(cli: Cli, good: Path, tmp_path: Path, name: str) -> None:
    facts = tmp_path / "facts"
    assert cli("extract", good, "-o", facts, "--facts-format", "tsv").status == 0
    (facts / "wanted.facts").write_text(ROWS[name])
    refused(cli("run", facts, "--engine", "clingo"), "wanted.facts", "cannot be read")
    assert not (facts / "result").exists()


VERSIONS: list[object] = [99, 1, 0, "2", None, True, [2]]


@pytest.mark.parametrize("version", VERSIONS, ids=str)
def test_folders_of_another_schema_version(
    cli: Cli, judged: Callable[[bool], Path], tmp_path: Path, version: object
) -> None:
    facts = judged(True)
    result = facts / "result"
    assert cli("certificate", result, "-o", tmp_path / "proof.json").status == 0
    _manifest(result, schema_version=version)
    told = f"result: the result has schema version {version!r}, this release reads 2"
    for command in (
        ["report", result],
        ["report", result, "--report", f"html={tmp_path / 'page.html'}"],
        ["query", result, "frontier"],
        ["query", result, "--sql", "SELECT 1"],
        ["explain", result, "y"],
        ["certificate", result, "-o", tmp_path / "other.json"],
    ):
        refused(cli(*command), told, "again")
    _manifest(facts, schema_version=version)
    told = f"facts: the facts have schema version {version!r}, this release reads 2"
    for command in (
        ["run", facts, "--engine", "clingo", "-o", tmp_path / "other"],
        ["replay", facts],
        ["check", tmp_path / "proof.json", facts],
    ):
        refused(cli(*command), told, "extract the facts again")
    made = {path.name for path in tmp_path.iterdir()}
    assert not made & {"page.html", "other", "other.json"}


def test_an_operator_file_that_is_gone(cli: Cli, good: Path, tmp_path: Path) -> None:
    table, other = tmp_path / "mine.toml", tmp_path / "other.toml"
    table.write_text("placement = []")
    other.write_text("")
    facts = tmp_path / "facts"
    assert cli("extract", good, "-o", facts, "--operators", table).status == 0
    table.unlink()
    for command in (["run", facts, "--operators", other], ["replay", facts]):
        refused(cli(*command), f"{table}: the facts were extracted from it, and this file is gone")
    for command in (["extract", good, "-o", facts], ["verify", good], ["replay", good]):
        hint = "give the path of an existing file"
        refused(cli(*command, "--operators", table), f"{table}: operator file cannot be", hint)
    table.mkdir()
    refused(cli("replay", facts), f"{table}: this is a folder, no regular file")
    table.rmdir()
    table.write_text("placement = [ ]")
    refused(cli("replay", facts), "was changed after the facts were extracted")
    assert not (facts / "result").exists()


DEEP = f"x = {'[' * 3000}"
TOML = {"deep": (DEEP, "nested too deeply"), "null": ('"a\\u0000" = 1', "a null byte")}


@pytest.mark.parametrize("name", TOML)
def test_other_files_in_toml(
    cli: Cli, facts: Path, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, word = TOML[name]
    file = tmp_path / "mine.toml"
    file.write_text(text)
    (tmp_path / "somebodys.py").write_text(
        "def made(): return (lambda *a: None), (lambda *a: ())\n"
    )
    monkeypatch.chdir(tmp_path)
    refused(cli("run", facts, "--config", file), str(file), word, "--no-config")
    refused(cli("audit", "run", file, "-o", tmp_path / "audit"), str(file), word, "docs/audit.md")
    capture = ["capture", "somebodys:made", "-o", tmp_path / "case", "--world-size", "2"]
    pytest.importorskip("torch")
    refused(cli(*capture, "--relations", file), str(file), word)
    assert {p.name for p in tmp_path.iterdir()} & {"audit", "case"} == set()


def test_a_rank_that_is_not_there(cli: Cli, judged: Callable[[bool], Path]) -> None:
    result = judged(True) / "result"
    for rank in ("2", "99999999999999999999"):
        found = cli("explain", result, "y", "--rank", rank)
        refused(found, f"there is no rank {rank}", "ranks: 0 to 1")


def test_graphs_that_are_gone(cli: Cli, good: Path, facts: Path, tmp_path: Path) -> None:
    table = tmp_path / "mine.toml"
    table.write_text("")
    run = ("run", facts, "--engine", "clingo", "--operators", table)
    assert cli(*run).status == 0
    (good / "dist.r1.json").unlink()
    refused(cli(*run), "dist.r1.json", "is gone")
    _manifest(facts, case=None)
    refused(cli(*run), "does not say which graphs")
    refused(cli("run", facts, "--allow-partial", "gone"), "`gone`", "outputs: y")


def test_facts_without_outputs(cli: Cli, facts: Path) -> None:
    for name in ("wanted", "returned", "output_name"):
        table = _read(facts, name)
        _rewrite(facts, name, table.slice(0, 0))
    counts = json.loads((facts / "manifest.json").read_text())["relations"]
    _manifest(facts, relations={**counts, "wanted": 0, "returned": 0, "output_name": 0})
    _as_extracted(facts)
    refused(cli("run", facts, "--engine", "clingo"), "no outputs")


def test_a_time_limit(cli: Cli, facts: Path) -> None:
    refused(cli("run", facts, "--engine", "clingo", "--timeout", "0.001"), "error:")
    assert not (facts / "result").exists()


def test_souffle_where_there_is_none(
    cli: Cli, facts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    refused(cli("run", facts, "--engine", "souffle"), "no souffle", "--engine clingo")


@pytest.mark.parametrize("debug", ["", "1"])
def test_what_should_not_happen(
    cli: Cli, facts: Path, monkeypatch: pytest.MonkeyPatch, debug: str
) -> None:
    def fail(*arguments: object, **named: object) -> None:
        raise KeyError("surprise")

    monkeypatch.setenv("GG_DATALOG_DEBUG", debug)
    monkeypatch.setattr("gg_datalog.inference.run.create", fail)
    found = cli("run", facts, "--engine", "clingo")
    assert found.status == 2
    assert "please report" in found.err
    assert ("Traceback" in found.err) == bool(debug)
    assert not (facts / "result").exists()
    assert not [p for p in facts.parent.iterdir() if p.name.startswith(".")]


@pytest.mark.parametrize("error", [MemoryError(), duckdb.OutOfMemoryException("of 1 MiB")])
def test_memory_that_ends(
    cli: Cli, facts: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def create(*_: object) -> None:
        raise error

    monkeypatch.setattr("gg_datalog.inference.run.create", create)
    found = cli("run", facts)
    refused(found, "no memory is left", "a machine with more of it")
    assert "should not happen" not in found.err
    assert not (facts / "result").exists()


def test_as_a_module() -> None:
    root = str(Path(gg_datalog.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": root}
    for arguments, status in (["--version"], 0), (["nonsense"], 2):
        command = [sys.executable, "-m", "gg_datalog", *arguments]
        found = subprocess.run(command, capture_output=True, env=environment, check=False)
        assert found.returncode == status


def test_help_imports_nothing_heavy() -> None:
    root = str(Path(gg_datalog.__file__).parents[1])
    code = (
        f"import sys; sys.path.insert(0, {root!r}); import gg_datalog.cli;"
        "print([m for m in ('pyarrow', 'duckdb', 'clingo', 'lark', 'rich') if m in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert found.stdout.strip() == b"[]"
