"""``gg-datalog replay``: verdicts, numbers, exit codes, and what it catches."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

import torch

from gg_datalog.extract import case_files
from gg_datalog.replay import command
from gg_datalog.replay import derived as relations
from gg_datalog.replay.command import Replayed, as_document, as_lines
from gg_datalog.replay.comparison import by_shape
from gg_datalog.result.terms import Coefficient

from ..cli.build import ALL_REDUCE, call, documents, graph, placeholder, returns, write_case
from ..command import run as cli

FIELDS = {"schema_version", "verdict", "outputs", "findings", "assumptions", "engine", "stats"}


def replay(case: Path, *options: object) -> tuple[int, Any]:
    """Exit code and JSON report."""
    status, out, error = cli("replay", case, "--format", "json", *options)
    assert status != 2, error
    return status, json.loads(out)


def found(folder: Path, files: Mapping[str, Any], operators: tuple[Path, ...] = ()) -> Replayed:
    """The replay of these documents."""
    case = case_files(write_case(folder / "case", files))
    return command.replay(case, operators, 0, False, lambda text: None)


def codes(report: Any) -> list[str]:
    """The codes of all findings."""
    return [f["code"] for f in report["findings"]]


X = placeholder("x", [4, 6])


def replicas(seq: list[Any], dist: list[Any] | None = None, **more: Any) -> dict[str, Any]:
    """A program of `x` that both ranks run as they are, or another one."""
    ranks = seq if dist is None else dist
    return {
        "seq": graph(X, *seq, returns("y")),
        "dist.r0": graph(X, *ranks, returns("y")),
        "dist.r1": graph(X, *ranks, returns("y")),
        "groups": {"seq": [], "dist": [{"ranks": [0, 1], "names": {"0": "0", "1": "0"}}]},
        "relations": [{"seq": "x", "rank": r, "dist": "x"} for r in (0, 1)],
        "outputs": [{"seq": "y", "dist": "y"}],
        **more,
    }


# ---- the report
def test_a_right_program(tmp_path: Path) -> None:
    status, report = replay(write_case(tmp_path / "good", documents()))
    assert (status, report["verdict"]) == (0, "refines")
    assert set(report) == FIELDS | {"replay"}
    (output,) = report["outputs"]
    assert set(output) == {
        *("seq", "status", "relation", "evidence", "max_abs", "max_rel", "first_divergence")
    }
    assert (output["seq"], output["status"], output["relation"]) == ("y", "mapped", "r0.y")
    assert 0 <= output["max_abs"] < 1e-12 and 0 <= output["max_rel"] < 1e-12
    assert output["first_divergence"] is None
    assert report["findings"] == []
    assert report["replay"]["relations_checked"] > 0
    assert report["replay"]["relations_wrong"] == report["replay"]["relations_skipped"] == 0


def test_a_wrong_program(tmp_path: Path) -> None:
    case = write_case(tmp_path / "bad", documents(reduced=False))
    status, report = replay(case)
    assert (status, report["verdict"]) == (1, "does-not-refine")
    (output,) = report["outputs"]
    assert output["status"] == "unmapped"
    assert output["max_abs"] > 0.1 and output["max_rel"] > 0.01
    first = output["first_divergence"]
    assert (first["seq"], first["dist"]) == ("y", ["r0.y", "r1.y"])  # the products add up
    assert first["seq_source"].startswith("model.py") and first["dist_source"].startswith(
        "model.py"
    )
    assert report["replay"]["relations_wrong"] == 0
    status, out, _ = cli("replay", case)
    assert status == 1
    assert out.startswith("DOES NOT REFINE")
    assert "y  unmapped      differs by" in out and "first at `y` (model.py" in out
    assert "GG108" in out and " relations checked, 0 wrong" in out


def test_text_of_a_right_program(tmp_path: Path) -> None:
    status, out, error = cli("replay", write_case(tmp_path / "good", documents()))
    assert (status, error) == (0, "")
    assert out.startswith("REFINES") and "y  mapped        agrees" in out


def test_an_inconclusive_program(tmp_path: Path) -> None:
    files = replicas([placeholder("q", [6]), call("y", "aten.mul.Tensor", ["%x", "%q"], [4, 6])])
    status, report = replay(write_case(tmp_path / "case", files))
    assert (status, report["verdict"]) == (3, "inconclusive")
    assert report["outputs"][0]["max_abs"] == "inf"
    assert report["outputs"][0]["first_divergence"]["seq"] == "q"
    json.dumps(report, allow_nan=False)


def test_the_seed_decides_what_is_drawn(tmp_path: Path) -> None:
    case = write_case(tmp_path / "bad", documents(reduced=False))
    (_, first), (_, again), (_, other) = (replay(case, "--seed", s) for s in (1, 1, 2))
    assert first["outputs"] == again["outputs"]
    assert first["outputs"][0]["max_abs"] != other["outputs"][0]["max_abs"]
    assert (first["replay"]["seed"], other["replay"]["seed"]) == (1, 2)


def test_facts_instead_of_a_case(tmp_path: Path) -> None:
    table = tmp_path / "my.toml"
    table.write_text('[alias]\n"mylib.add_up" = "_c10d_functional.all_reduce"\n')
    files = documents()
    for rank in (0, 1):
        text = json.dumps(files[f"dist.r{rank}"])
        files[f"dist.r{rank}"] = json.loads(text.replace(ALL_REDUCE, "mylib.add_up.default"))
    case, facts = write_case(tmp_path / "case", files), tmp_path / "facts"
    assert cli("extract", case, "-o", facts, "--operators", table)[0] == 0
    status, report = replay(facts)
    assert (status, report["verdict"]) == (0, "refines")
    assert replay(case, "--operators", table)[0] == 0
    assert replay(case)[0] == 3


def test_what_facts_remember_of_their_outputs(tmp_path: Path) -> None:
    files = documents(reduced=False)
    for name in ("seq", "dist.r0", "dist.r1"):
        files[name] = graph(*files[name]["nodes"][:3], returns("mm"))
    files["outputs"] = [{"seq": "mm", "dist": "mm"}]
    case, facts = write_case(tmp_path / "case", files), tmp_path / "facts"
    assert replay(case)[0] == 1
    assert cli("extract", case, "-o", facts, "--allow-partial", "mm")[0] == 0
    status, report = replay(facts)
    assert (status, report["outputs"][0]["relation"]) == (0, "sum(r0.mm, r1.mm)")
    assert report["outputs"][0]["max_rel"] < 1e-12


def test_guesses_are_told(tmp_path: Path) -> None:
    files = replicas([call("y", "aten.relu.default", ["%x"], [4, 6])])
    for name in ("groups", "relations", "outputs"):
        del files[name]
    _, report = replay(write_case(tmp_path / "case", files))
    assert {"guessed relation", "outputs", "groups"} <= {a["kind"] for a in report["assumptions"]}


def test_what_is_declared_of_outputs(tmp_path: Path) -> None:
    """Parts that are to be added up by whoever takes them; rows in turns."""
    parts = {**documents(reduced=False), "outputs": [{"seq": "mm", "dist": "mm"}]}
    for name in ("seq", "dist.r0", "dist.r1"):
        parts[name] = graph(*parts[name]["nodes"][:3], returns("mm"))
    case = write_case(tmp_path / "parts", parts)
    assert replay(case)[0] == 1
    assert replay(case, "--allow-partial", "mm")[0] == 0
    turned = [
        call("a", "aten.slice.Tensor", ["%x", 0, 2, 4], [2, 6]),
        call("b", "aten.slice.Tensor", ["%x", 0, 0, 2], [2, 6]),
        call("y", "aten.cat.default", [[{"node": "a"}, {"node": "b"}], 0], [4, 6]),
    ]
    same = call("y", "aten.clone.default", ["%x"], [4, 6])
    case = write_case(tmp_path / "turned", replicas([same], turned))
    assert replay(case)[0] == 1
    assert replay(case, "--allow-layout", "y")[0] == 0


# ---- sizes and memory
def large(tmp_path: Path) -> Path:
    """A case of 0.1 GB."""
    files = replicas([call("y", "aten.relu.default", ["%x"], [2048, 1024])])
    for name in ("seq", "dist.r0", "dist.r1"):
        files[name] = json.loads(json.dumps(files[name]).replace("[4, 6]", "[2048, 1024]"))
    return write_case(tmp_path / "large", files)


def test_large_sizes_are_reduced(tmp_path: Path) -> None:
    status, report = replay(large(tmp_path))
    assert status == 0
    assert set(report["replay"]["sizes"]) == {"2048", "1024"}
    assert report["replay"]["memory_bytes"] < 10_000
    assert "sizes: 1024 as 2, 2048 as 3" in cli("replay", tmp_path / "large")[1]


def test_small_cases_and_full_size_are_not_reduced(tmp_path: Path) -> None:
    _, report = replay(write_case(tmp_path / "good", documents()))
    assert report["replay"]["sizes"] == {}
    status, report = replay(large(tmp_path), "--full-size")
    assert (status, report["replay"]["sizes"]) == (0, {})
    assert report["replay"]["memory_bytes"] == 6 * 8 * 2048 * 1024


def test_what_does_not_fit_memory_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.sysconf
    pages = {"SC_PHYS_PAGES": 2**28 // real("SC_PAGE_SIZE")}  # 256 MB
    monkeypatch.setattr(os, "sysconf", lambda name: pages.get(name) or real(name))
    case = large(tmp_path)
    status, out, error = cli("replay", case, "--full-size")
    assert (status, out) == (2, "")
    assert "takes about 0.2 GB of memory, of which 0.1 GB may be used" in error
    assert "leave --full-size out" in error
    assert replay(case)[0] == 0


# ---- errors
def test_without_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gg_datalog.commands.replay.find_spec", lambda name: None)
    status, out, error = cli("replay", write_case(tmp_path / "good", documents()))
    assert (status, out) == (2, "")
    assert "torch, which is not installed" in error and "gg-datalog[torch]" in error


def broken(**files: Any) -> dict[str, Any]:
    """The good case with other documents."""
    return {**documents(), **files}


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "seq.json not found"),
        (broken(seq={"nodes": 1}), "not a graph"),
        (broken(relations=[{"seq": "nothing", "rank": 0, "dist": "x"}]), "`nothing` is no node"),
        (broken(outputs=[{"seq": "y", "dist": "nothing"}]), "`nothing` is no node"),
        (broken(groups={"seq": [], "dist": []}), "group `0` of rank 0 is not known"),
        (
            replicas([placeholder("q", ["s0"]), call("y", "aten.relu.default", ["%q"], ["s0"])]),
            "the size of placeholder `q` is not known",
        ),
        (
            replicas([call("y", "aten.mm.default", ["%x", "%x"], [4, 6])]),
            "arguments of `aten.mm.default` do not make sense",
        ),
        (
            replicas([call("y", "aten.as_strided.default", ["%x", [9, 9], [9, 9]], [9, 9])]),
            "the case cannot be executed: node `y`",
        ),
    ],
    ids=["empty", "graph", "relation", "output", "group", "symbolic", "arguments", "torch"],
)
def test_one_message(files: Mapping[str, Any], message: str, tmp_path: Path) -> None:
    status, out, error = cli("replay", write_case(tmp_path / "case", files))
    assert (status, out) == (2, "")
    assert message in error and "Traceback" not in error and "should not happen" not in error
    assert len(error.splitlines()) <= 2


def test_no_case_at_all(tmp_path: Path) -> None:
    assert "no such case folder" in cli("replay", tmp_path / "nothing")[2]
    facts = tmp_path / "facts"
    assert cli("extract", write_case(tmp_path / "case", documents()), "-o", facts)[0] == 0
    assert cli("run", facts)[0] == 0
    status, _, error = cli("replay", facts / "result")
    assert status == 2 and "not that of facts" in error
    (tmp_path / "case" / "seq.json").unlink()
    status, _, error = cli("replay", facts)
    assert status == 2 and "this file is gone" in error


# ---- programs that do not run to their end
def test_a_program_that_hangs(tmp_path: Path) -> None:
    files = documents()
    files["dist.r1"] = documents(reduced=False)["dist.r1"]
    case = write_case(tmp_path / "case", files)
    status, report = replay(case)
    assert (status, report["verdict"]) == (1, "does-not-refine")
    assert "hangs: rank 0 at `total`" in report["replay"]["note"]
    assert report["outputs"][0]["max_abs"] is None
    assert "GG110" in codes(report)
    out = cli("replay", case)[1]
    assert "y  unmapped      not executed" in out and "hangs" in out


def lookup(rows: int) -> list[Any]:
    """A lookup in the first rows of a table."""
    ids = {**placeholder("i", [5]), "dtype": "int64"}
    part = call("w", "aten.slice.Tensor", ["%x", 0, 0, rows], [rows, 6])
    return [ids, part, call("y", "aten.embedding.default", ["%w", "%i"], [5, 6])]


def test_a_rank_that_looks_beyond_its_table(tmp_path: Path) -> None:
    files = replicas(lookup(4), lookup(2))
    files["relations"] += [{"seq": "i", "rank": r, "dist": "i"} for r in (0, 1)]
    status, report = replay(write_case(tmp_path / "case", files))
    assert status == 1
    assert "the program breaks off" in report["replay"]["note"]


# ---- what is compared
def test_dropout_is_shared(tmp_path: Path) -> None:
    """Each rank keeps what the sequential program keeps of its rows; with another probability the
    numbers differ."""

    def dropped(p: float, rows: int) -> list[Any]:
        drop = call("d", "aten.native_dropout.default", ["%x", p, True], [rows, 6])
        del drop["shape"], drop["dtype"]
        item = call("y", "<built-in function getitem>", ["%d", 0], [rows, 6])
        return [placeholder("x", [rows, 6]), drop, item, returns("y")]

    files = replicas([])
    files["seq"] = graph(*dropped(0.5, 16))
    files["relations"] = [
        {"seq": "x", "rank": r, "dist": "x", "seq_box": [[8 * r, 8 * r + 8], [0, 6]]}
        for r in (0, 1)
    ]
    files |= {f"dist.r{r}": graph(*dropped(0.5, 8)) for r in (0, 1)}
    right = found(tmp_path / "right", files)
    assert (right.report.verdict, right.agrees(0)) == ("refines", True)
    files |= {f"dist.r{r}": graph(*dropped(0.25, 8)) for r in (0, 1)}
    wrong = found(tmp_path / "wrong", files)
    assert (wrong.report.verdict, wrong.agrees(0)) == ("does-not-refine", False)


def test_large_fills_show_at_another_magnitude(tmp_path: Path) -> None:
    """exp(-10000) and exp(-20000) are both 0."""

    def hidden(value: float) -> list[Any]:
        fill = call("f", "aten.full_like.default", ["%x", value], [4, 6])
        return [fill, call("y", "aten.exp.default", ["%f"], [4, 6])]

    shown = found(tmp_path, replicas(hidden(-10000.0), hidden(-20000.0)))
    assert (shown.report.verdict, shown.agrees(0), shown.draws) == ("does-not-refine", False, 4)


def test_what_no_draw_shows_is_said(tmp_path: Path) -> None:
    twice = [call("r", "aten.relu.default", ["%x"], [4, 6])]
    twice.append(call("y", "aten.relu.default", ["%r"], [4, 6]))
    files = replicas([call("y", "aten.relu.default", ["%x"], [4, 6])], twice)
    status, report = replay(write_case(tmp_path / "case", files))
    assert (status, codes(report)[-1]) == (3, "GG141")
    assert report["outputs"][0]["evidence"] == "none"
    assert report["outputs"][0]["max_abs"] == 0


def test_a_partial_output_that_is_not_derived(tmp_path: Path) -> None:
    """The ranks' tensors add up to it, if not by a rule."""
    halves = [
        call("r", "aten.relu.default", ["%x"], [4, 6]),
        call("s", "aten.relu.default", ["%r"], [4, 6]),
        call("y", "aten.div.Tensor", ["%s", 2.0], [4, 6]),
    ]
    files = replicas([call("y", "aten.relu.default", ["%x"], [4, 6])], halves)
    files["outputs"] = [{"seq": "y", "dist": "y", "partial": True}]
    partial = found(tmp_path / "partial", files)
    assert (partial.report.outputs[0].status, partial.agrees(0)) == ("inconclusive", True)
    del files["outputs"][0]["partial"]
    assert found(tmp_path / "whole", files).agrees(0) is False


def test_where_there_is_no_number_nothing_agrees(tmp_path: Path) -> None:
    def logarithm(by: float) -> list[Any]:
        return [
            call("a", "aten.mul.Tensor", ["%x", "%x"], [4, 6]),
            call("b", "aten.mul.Tensor", ["%a", by], [4, 6]),
            call("y", "aten.log.default", ["%b"], [4, 6]),
        ]

    nothing = found(tmp_path / "other", replicas(logarithm(-1.0), logarithm(-3.0)))
    assert nothing.agrees(0) is None
    assert "y  unmapped      no numbers to compare" in as_lines(nothing)
    assert json.loads(as_document(nothing))["outputs"][0]["max_abs"] is None
    same = found(tmp_path / "same", replicas(logarithm(-1.0)))
    assert (same.report.verdict, same.agrees(0)) == ("refines", None)
    assert len(same.skipped) > 0


def test_roots_of_what_is_below_0_are_tried_above_it(tmp_path: Path) -> None:
    """The smallest of 24 numbers around 0 has no root."""
    root = [
        call("s", "aten.amin.default", ["%x", [0, 1]], []),
        call("y", "aten.sqrt.default", ["%s"], []),
    ]
    result = found(tmp_path, replicas(root))
    assert (result.agrees(0), result.draws, result.skipped) == (True, 3, [])


def test_the_first_operator_that_fails(tmp_path: Path) -> None:
    def chain(kernel: str) -> list[Any]:
        return [
            call("a", "aten.relu.default", ["%x"], [4, 6]),
            call("b", f"aten.{kernel}.default", ["%a"], [4, 6]),
            call("c", "aten.exp.default", ["%b"], [4, 6]),
            call("y", "aten.neg.default", ["%c"], [4, 6]),
        ]

    result = found(tmp_path, replicas(chain("sin"), chain("cos")))
    assert result.divergence[0]["seq"] == "b"
    assert result.divergence[0]["dist"] == ["r0.b", "r1.b"]


def test_an_output_listed_twice(tmp_path: Path) -> None:
    nodes = [
        call("y", "aten.relu.default", ["%x"], [4, 6]),
        call("z", "aten.exp.default", ["%x"], [4, 6]),
    ]
    files = replicas(nodes)
    for name in ("seq", "dist.r0", "dist.r1"):
        files[name]["nodes"][-1] = returns("y", "z")
    files["outputs"] = [{"seq": "y", "dist": "y"}, {"seq": "y", "dist": "z"}]
    result = found(tmp_path, files)
    assert [row.status for row in result.report.outputs] == ["mapped", "unmapped"]
    assert [result.agrees(place) for place in (0, 1)] == [True, False]


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32"])
def test_integers_as_floats_are_numbers(tmp_path: Path, dtype: str) -> None:
    """Multiples of them are not taken modulo their width, sums in their own type are."""
    to_float = {"dtype": {"dtype": "torch.float32"}}
    nodes = [
        {**placeholder("i", [4, 6]), "dtype": dtype},
        {**call("s", "aten.add.Tensor", ["%i", "%i"], [4, 6]), "dtype": dtype},
        {**call("n", "aten.neg.default", ["%s"], [4, 6]), "dtype": dtype},
        {**call("a", "aten._to_copy.default", ["%i"], [4, 6]), "kwargs": to_float},
        {**call("b", "aten._to_copy.default", ["%n"], [4, 6]), "kwargs": to_float},
        call("c", "aten.mul.Tensor", ["%a", 1000.0], [4, 6]),
        call("d", "aten.mul.Tensor", ["%b", -3.0], [4, 6]),
        call("y", "aten.add.Tensor", ["%c", "%d"], [4, 6]),
    ]
    files = replicas(nodes)
    files["relations"] += [{"seq": "i", "rank": r, "dist": "i"} for r in (0, 1)]
    result = found(tmp_path, files)
    assert (result.report.verdict, result.agrees(0)) == ("refines", True)
    assert (result.wrong, result.skipped) == ([], [])


# ---- wrong rules
Change = Callable[[Any], None]


def with_changed(monkeypatch: pytest.MonkeyPatch, change: Change) -> None:
    """Whatever is derived is changed before it is compared."""
    real = command.judged_case

    def judged(*args: Any) -> Any:
        made = real(*args)
        change(made)
        return made

    monkeypatch.setattr(command, "judged_case", judged)


def test_a_derived_relation_with_a_wrong_coefficient(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def change(made: Any) -> None:
        place = next(i for i, r in enumerate(made.holds) if r.seq == "mm" and r.parts)
        made.holds[place] = made.holds[place]._replace(times=Coefficient(2, 1, "", ""))

    with_changed(monkeypatch, change)
    status, report = replay(write_case(tmp_path / "case", documents()))
    assert (status, report["verdict"], codes(report)) == (1, "does-not-refine", ["GG140"])
    assert report["replay"]["relations_wrong"] == 1
    assert "r0.mm of mm" in report["findings"][0]["message"]


def test_a_derived_relation_at_a_wrong_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def change(made: Any) -> None:
        place = next(i for i, r in enumerate(made.holds) if r.dist == "r1.x")
        rows, (columns,) = made.holds[place].block
        assert (columns.lo, columns.n) == (3, 3)
        made.holds[place] = made.holds[place]._replace(block=(rows, (columns._replace(lo=0),)))

    with_changed(monkeypatch, change)
    result = found(tmp_path, documents())
    assert len(result.wrong) == 1 and result.report.verdict == "does-not-refine"
    assert "r1.x of x" in result.wrong[0]


def test_a_part_of_a_reduction_that_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def change(made: Any) -> None:
        place = next(i for i, r in enumerate(made.holds) if r.dist == "r0.mm")
        (part,) = made.holds[place].parts
        made.holds[place] = made.holds[place]._replace(parts=(part._replace(lo=1),))

    with_changed(monkeypatch, change)
    assert len(found(tmp_path, documents()).wrong) == 1


def test_an_output_that_is_not_rebuilt_after_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dataclasses import replace

    def change(made: Any) -> None:
        rows = [replace(row, status="mapped") for row in made.report.outputs]
        made.report = replace(made.report, outputs=rows, verdict="refines", findings=[])

    with_changed(monkeypatch, change)
    status, report = replay(write_case(tmp_path / "case", documents(reduced=False)))
    assert (status, codes(report)) == (1, ["GG140"])
    assert "the numbers differ" in report["findings"][0]["message"]
    assert report["outputs"][0]["first_divergence"]["seq"] == "y"


def test_a_kernel_that_is_not_what_it_is_lowered_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Extraction takes two nodes for one value, and execution shows that they are not."""
    nodes = [
        call("a", "aten.relu.default", ["%x"], [4, 6]),
        call("b", "mylib.copy.default", ["%a"], [4, 6]),
        call("y", "aten.exp.default", ["%b"], [4, 6]),
    ]
    table = tmp_path / "my.toml"
    table.write_text('[identity]\n"mylib.copy" = 0\n')
    assert found(tmp_path / "right", replicas(nodes), (table,)).wrong == []
    from gg_datalog.replay import program

    real = program.compute

    def compute(table: Any, call: Any, *rest: Any) -> Any:
        made = real(table, call, *rest)
        return made + 1 if call.target.startswith("mylib") else made

    monkeypatch.setattr(program, "compute", compute)
    result = found(tmp_path / "wrong", replicas(nodes), (table,))
    assert result.report.verdict == "does-not-refine"
    assert [text.split(" computes")[0] for text in result.wrong[-2:]] == ["dist r0.b", "dist r1.b"]


# ---- differences
NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("a", "b", "fits"),
    [
        ([1.0, 2.0], [1.0, 2.0], True),
        ([1.0, 2.0], [1.0, 2.0 + 1e-12], True),
        ([1.0, 2.0], [1.0, 2.0 + 1e-6], False),
        ([1.0, 200.0], [1.0, 200.0 + 7e-7], False),  # another epsilon under a large variance
        ([0.0, 0.0], [1e-16, 0.0], True),
        ([1e-6, 0.0], [1e-6 + 1e-11, 0.0], False),
        ([1e-9, 0.0], [2e-9, 0.0], False),
        ([1e-12, 0.0], [2e-12, 0.0], None),
        ([NAN, 1.0], [NAN, 1.0], True),
        ([NAN, 1.0], [1.0, 1.0], False),
        ([NAN, NAN], [NAN, NAN], None),
        ([INF, 1.0], [INF, 1.0], True),
        ([INF, 1.0], [-INF, 1.0], False),
        ([1e200, 1.0], [2e200, 1.0], None),
        ([], [], True),
        ([1.0], [1.0, 1.0], False),
    ],
    ids=str,
)
def test_what_is_rounding(a: list[float], b: list[float], fits: bool | None) -> None:
    left, right = (torch.tensor(v, dtype=torch.float64) for v in (a, b))
    assert relations.difference(left, right).fits is fits
    assert relations.difference(right, left).fits is fits


def test_complex_numbers_differ_in_either_part() -> None:
    a = torch.complex(torch.ones(2), torch.ones(2))
    assert relations.difference(a, a).fits is True
    assert relations.difference(a, a.conj()).fits is False


def test_a_wrong_piece_is_not_hidden_by_a_small_one() -> None:
    """What is off by rounding from 0 has a relative difference of 1."""
    wrong, nothing = relations.Numbers(0.3, 0.5, False), relations.Numbers(1e-17, 1.0, True)
    for both in (wrong.beside(nothing), nothing.beside(wrong), wrong.again(nothing)):
        assert both == relations.Numbers(0.3, 1.0, False)
    assert nothing.beside(relations.OPEN).fits is None
    assert nothing.again(relations.OPEN).fits is True


# ---- shares that nothing was derived of
WHOLE = torch.arange(48, dtype=torch.float64).reshape(4, 12)
ROWS, COLUMNS = list(WHOLE.split(2)), list(WHOLE.split([5, 7], 1))
GRID = [part for rows in ROWS for part in rows.split(4, 1)]


@pytest.mark.parametrize(
    ("pieces", "fits"),
    [
        ([WHOLE, WHOLE], True),
        ([WHOLE, WHOLE + 1], False),
        (ROWS, True),
        (ROWS[::-1], False),
        (COLUMNS, True),
        ([ROWS[0], ROWS[0], ROWS[1], ROWS[1]], True),
        (ROWS * 2, True),
        (ROWS + ROWS[::-1], False),
        ([COLUMNS[0], COLUMNS[0], COLUMNS[1], COLUMNS[1]], True),
        (COLUMNS * 2, True),
        (GRID, True),
        ([GRID[i] for i in (0, 3, 1, 4, 2, 5)], True),
        ([GRID[i] for i in (0, 1, 2, 4, 3, 5)], False),
        (GRID * 2, True),
        ([p for part in GRID for p in (part, part)], True),
        ([WHOLE.T, WHOLE.T], None),
        (ROWS[:1], False),
        ([ROWS[0], ROWS[0]], False),
        ([], False),
    ],
)
def test_arrangements_of_shares(pieces: list[Any], fits: bool | None) -> None:
    assert by_shape(WHOLE, pieces).fits is fits


def test_shares_that_add_up() -> None:
    assert by_shape(WHOLE, [WHOLE / 4, WHOLE * 3 / 4], partial=True).fits is True
    assert by_shape(WHOLE, [WHOLE / 4, WHOLE * 3 / 4]).fits is False
