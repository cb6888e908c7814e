"""``extract`` and ``run``: verdicts, exit codes, the report."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from ..command import Cli, Outcome
from .build import call, documents, graph, placeholder, returns, write_case

MakeCase = Callable[[Mapping[str, Any]], Path]
FIELDS = {"schema_version", "verdict", "outputs", "findings", "assumptions", "engine", "stats"}
FINDING = {
    *("code", "level", "title", "message", "fingerprint", "outputs", "repair"),
    *("seq", "seq_source", "module", "dist", "dist_source", "dist_module", "ranks"),
    *("trigger", "effect", "expected", "found", "certain"),
}


def run(cli: Cli, case: Path, *options: object) -> Outcome:
    """Extracts and runs a case, in JSON."""
    facts = case.with_name(case.name + "-facts")
    extracted = cli("extract", case, "-o", facts)
    assert (extracted.status, extracted.out) == (0, "")
    return cli("run", facts, "--format", "json", "--engine", "clingo", *options)


def test_a_right_program_refines(cli: Cli, good: Path) -> None:
    found = run(cli, good)
    assert found.status == 0
    assert set(found.report) == FIELDS
    assert found.report["verdict"] == "refines"
    assert found.report["outputs"] == [
        {"seq": "y", "status": "mapped", "relation": "r0.y", "evidence": "proof"}
    ]
    assert found.report["findings"] == []
    assert found.report["engine"]["name"] == "clingo"
    assert found.report["stats"].keys() == {"facts", "relations", "rounds", "seconds"}


def test_a_missing_all_reduce_does_not_refine(cli: Cli, bad: Path) -> None:
    found = run(cli, bad)
    assert found.status == 1
    assert found.report["verdict"] == "does-not-refine"
    assert found.report["outputs"] == [
        {"seq": "y", "status": "unmapped", "relation": None, "evidence": "relations"}
    ]
    (finding,) = found.report["findings"]
    assert set(finding) == FINDING
    assert finding["code"] == "GG108"
    assert finding["seq"] == "mm"
    assert finding["dist"] == ["r0.mm", "r1.mm"]
    assert "goes into `y` as if it were all of it: the reduction" in finding["message"]
    assert (
        finding["found"]
        == "f32[4, 5] Partial(sum over dim 1 of x: 0:3, 3:6 of 6) of mm on ranks 0-1"
    )
    assert finding["expected"] == "f32[4, 5] Replicate of mm on ranks 0-1"
    assert (finding["module"], finding["dist_module"], finding["ranks"]) == (
        "block",
        "block",
        [0, 1],
    )
    assert finding["outputs"] == ["y"]
    assert finding["seq_source"].startswith("model.py")


def test_a_factor_is_named(cli: Cli, make_case: MakeCase) -> None:
    files = documents(factor=3.0)
    for name in ("dist.r0", "dist.r1"):
        files[name] = graph(*[n for n in files[name]["nodes"] if n["name"] not in ("y", "output")])
        files[name]["nodes"].append(returns("scaled"))
    files["outputs"] = [{"seq": "mm", "dist": "scaled"}]
    files["seq"] = graph(*files["seq"]["nodes"][:3], returns("mm"))
    found = run(cli, make_case(files))
    assert found.status == 1
    (finding,) = found.report["findings"]
    assert finding["code"] == "GG103"
    assert finding["message"] == "`scaled` on ranks 0-1, returned for `mm`, is 3 times `mm`"
    assert (finding["found"], finding["expected"]) == ("3 x mm", "mm")


def test_a_factor_that_may_be_rounding_is_no_error(cli: Cli, make_case: MakeCase) -> None:
    files = documents(factor=3000.0)
    for name in ("dist.r0", "dist.r1"):
        nodes = [n for n in files[name]["nodes"] if n["name"] not in ("y", "output")]
        back = call("back", "aten.mul.Tensor", ["%scaled", 1 / 3000], [4, 5])
        files[name] = graph(*nodes, back, returns("back"))
    files["outputs"] = [{"seq": "mm", "dist": "back"}]
    files["seq"] = graph(*files["seq"]["nodes"][:3], returns("mm"))
    found = run(cli, make_case(files))
    assert found.status == 3
    (finding,) = found.report["findings"]
    assert (finding["code"], finding["level"], finding["certain"]) == ("GG103", "warning", False)


def test_a_partial_output_has_to_be_declared(cli: Cli, make_case: MakeCase) -> None:
    files = documents(reduced=False)
    files["seq"] = graph(*files["seq"]["nodes"][:3], returns("mm"))
    for name in ("dist.r0", "dist.r1"):
        files[name] = graph(*files[name]["nodes"][:3], returns("mm"))
    files["outputs"] = [{"seq": "mm", "dist": "mm"}]
    case = make_case(files)
    found = run(cli, case)
    assert (found.status, found.report["findings"][0]["code"]) == (1, "GG104")
    declared = run(cli, case, "--allow-partial", "mm")
    assert declared.status == 0
    assert declared.report["outputs"][0]["relation"] == "sum(r0.mm, r1.mm)"
    unknown = run(cli, case, "--allow-partial", "nothing")
    assert unknown.status == 2
    assert "`nothing`" in unknown.err


def test_an_output_that_no_rank_returns(cli: Cli, make_case: MakeCase) -> None:
    files = documents()
    files["outputs"].append({"seq": "mm", "dist": {}, "name": "scores"})
    found = run(cli, make_case(files))
    assert found.status == 1
    assert [o["status"] for o in found.report["outputs"]] == ["mapped", "unmapped"]
    said = [f["message"] for f in found.report["findings"] if f["code"] == "GG130"]
    assert said == ["no rank returns anything for output `mm` (`scores`)"]


def test_an_unsupported_operator_is_inconclusive(cli: Cli, make_case: MakeCase) -> None:
    files = documents()
    for name in ("seq", "dist.r0", "dist.r1"):
        nodes = files[name]["nodes"]
        before = nodes[-3]["name"]
        nodes[-2] = call("y", "mine.kernel.default", [f"%{before}"], [4, 5])
        if name == "dist.r1":
            nodes[-2]["args"].append(7)
    found = run(cli, make_case(files))
    assert found.status == 3
    assert found.report["verdict"] == "inconclusive"
    assert found.report["outputs"][0]["status"] == "inconclusive"
    assert {f["code"] for f in found.report["findings"]} == {"GG120", "GG131"}


def test_shares_out_of_order(cli: Cli, make_case: MakeCase) -> None:
    rank = graph(
        placeholder("x", [2, 6]), call("y", "aten.relu.default", ["%x"], [2, 6]), returns("y")
    )
    whole = graph(
        placeholder("x", [4, 6]), call("y", "aten.relu.default", ["%x"], [4, 6]), returns("y")
    )
    for order, codes in (((0, 1), []), ((1, 0), ["GG133"])):
        boxes = [[[2 * place, 2 * place + 2], [0, 6]] for place in order]
        rows = [{"seq": "x", "rank": r, "dist": "x", "seq_box": boxes[r]} for r in range(2)]
        files = {"seq": whole, "dist.r0": rank, "dist.r1": rank, "relations": rows}
        found = run(cli, make_case(files))
        assert found.status == 0
        assert [f["code"] for f in found.report["findings"]] == codes


def test_a_bug_beside_an_unsupported_operator(cli: Cli, make_case: MakeCase) -> None:
    files = documents(reduced=False)
    for name in ("seq", "dist.r0", "dist.r1"):
        *nodes, _ = files[name]["nodes"]
        kernel = call("k", "mine.kernel.default", ["%w"], [3, 5] if "dist" in name else [6, 5])
        files[name]["nodes"] = [*nodes, kernel, returns("y", "k")]
    files["outputs"] = [{"seq": "y", "dist": "y"}, {"seq": "k", "dist": "k"}]
    found = run(cli, make_case(files))
    assert found.status == 1
    assert [o["status"] for o in found.report["outputs"]] == ["unmapped", "inconclusive"]


def test_an_input_without_relation_is_inconclusive(cli: Cli, make_case: MakeCase) -> None:
    files = documents()
    files["relations"] = [row for row in files["relations"] if row["seq"] != "w"]
    found = run(cli, make_case(files))
    assert found.status == 3
    assert "GG121" in {f["code"] for f in found.report["findings"]}


def test_collectives_that_do_not_line_up(cli: Cli, make_case: MakeCase) -> None:
    files = documents()
    files["dist.r1"] = documents(reduced=False)["dist.r1"]
    found = run(cli, make_case(files))
    assert found.status == 1
    assert "GG110" in {f["code"] for f in found.report["findings"]}


def test_shards_become_a_concatenation(cli: Cli, make_case: MakeCase) -> None:
    files = documents()
    for rank in (0, 1):
        files[f"dist.r{rank}"] = graph(
            placeholder("x", [2, 6]),
            placeholder("w", [6, 5]),
            call("mm", "aten.mm.default", ["%x", "%w"], [2, 5]),
            call("y", "aten.relu.default", ["%mm"], [2, 5]),
            returns("y"),
        )
    rows = [[0, 2], [2, 4]]
    files["relations"] = [
        row
        for rank in (0, 1)
        for row in (
            {"seq": "x", "rank": rank, "dist": "x", "seq_box": [rows[rank], [0, 6]]},
            {"seq": "w", "rank": rank, "dist": "w"},
        )
    ]
    found = run(cli, make_case(files))
    assert found.status == 0
    assert found.report["outputs"][0]["relation"] == "concat(dim=0, [r0.y, r1.y])"


def test_guessed_relations_are_assumptions(cli: Cli, good: Path) -> None:
    (good / "relations.json").unlink()
    found = run(cli, good)
    kinds = [row["kind"] for row in found.report["assumptions"]]
    assert kinds.count("guessed relation") == 4


def test_the_human_report(cli: Cli, good: Path, bad: Path, tmp_path: Path) -> None:
    cli("extract", bad, "-o", tmp_path / "facts")
    found = cli("run", tmp_path / "facts", "--engine", "clingo")
    assert found.status == 1
    assert found.out.startswith("DOES NOT REFINE")
    assert "GG108 error:" in found.out
    assert "sequential: model.py" in found.out


def test_single_files_and_chosen_outputs(cli: Cli, good: Path, tmp_path: Path) -> None:
    files = [f"--dist={good / name}.json" for name in ("dist.r0", "dist.r1")]
    options = [f"--{n}={good / n}.json" for n in ("seq", "groups", "relations")]
    found = cli("extract", *options, *files, "--output", "y=y", "-o", tmp_path / "facts")
    assert found.status == 0
    assert cli("run", tmp_path / "facts", "--engine", "clingo").status == 0


def test_tsv_gives_the_same_report(cli: Cli, good: Path, tmp_path: Path) -> None:
    reports = []
    for form in ("parquet", "tsv"):
        facts = tmp_path / form
        assert cli("extract", good, "-o", facts, "--facts-format", form).status == 0
        found = cli("run", facts, "--engine", "clingo", "--format", "json")
        reports.append({k: v for k, v in found.report.items() if k != "stats"})
    assert reports[0] == reports[1]
    assert (tmp_path / "tsv" / "wanted.facts").read_text() == "0\ty\t1\n"


def test_more_operators_at_run(cli: Cli, make_case: MakeCase, tmp_path: Path) -> None:
    files = documents()
    for name in ("seq", "dist.r0", "dist.r1"):
        nodes = files[name]["nodes"]
        nodes[-2] = call("y", "mine.kernel.default", [f"%{nodes[-3]['name']}"], [4, 5])
    case = make_case(files)
    table = tmp_path / "mine.toml"
    table.write_text('[[operator]]\ntarget = "mine.kernel"\nrule = "a b -> a b"\n')
    cli("extract", case, "-o", tmp_path / "facts")
    plain = cli("run", tmp_path / "facts", "--engine", "clingo", "--format", "json")
    assert [f["code"] for f in plain.report["findings"]] == ["GG131"]
    options = ("--engine", "clingo", "--format", "json", "--operators", table)
    told = cli("run", tmp_path / "facts", *options)
    assert (told.status, told.report["findings"]) == (0, [])
    (case / "seq.json").unlink()
    gone = cli("run", tmp_path / "facts", *options)
    assert gone.status == 2
    assert "from it, and this file is gone" in gone.err


@pytest.mark.parametrize("broken", [False, True])
def test_the_report_file_is_what_stdout_says(cli: Cli, tmp_path: Path, broken: bool) -> None:
    case = write_case(tmp_path / "case", documents(reduced=not broken))
    found = run(cli, case, "-o", tmp_path / "result")
    assert json.loads((tmp_path / "result" / "report.json").read_text()) == found.report
