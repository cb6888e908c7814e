"""What is not proved is executed, in a process that takes nothing with it."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gg_datalog.inference import confirmation as confirming
from gg_datalog.inference.confirmation import Question
from gg_datalog.result.report import Finding, Numbers, OutputRow, Report, as_json, from_json

from ..command import Cli
from .build import call, documents, graph, placeholder, returns, write_case

BUDGET = 300  # seconds: a machine that is busy must not decide
needs_torch = pytest.mark.skipif(
    confirming.find_spec("torch") is None, reason="confirming executes with torch"
)


def twice(*kernels: str) -> dict[str, Any]:
    """relu(x) on one side; on the ranks what these kernels make of x."""
    nodes, last = [placeholder("x", [4, 6])], "x"
    for number, kernel in enumerate(kernels):
        last = "y" if number == len(kernels) - 1 else f"h{number}"
        before = nodes[-1]["name"]
        nodes.append(call(last, kernel, [f"%{before}"], [4, 6]))
    sequential = [placeholder("x", [4, 6]), call("y", "aten.relu.default", ["%x"], [4, 6])]
    return {
        **documents(),
        "seq": graph(*sequential, returns("y")),
        **{f"dist.r{rank}": graph(*nodes, returns("y")) for rank in (0, 1)},
        "relations": [{"seq": "x", "rank": rank, "dist": "x"} for rank in (0, 1)],
    }


def verified(cli: Cli, case: Path, *options: object) -> Any:
    """The exit code and the report of a verdict."""
    found = cli("verify", case, "--format", "json", "--no-repairs", *options)
    return found.status, found.report


# ---- end to end
@needs_torch
def test_numbers_differ(cli: Cli, bad: Path) -> None:
    status, report = verified(cli, bad, "--confirm", BUDGET)
    (output,) = report["outputs"]
    numbers = output["numbers"]
    assert (status, report["verdict"], output["evidence"]) == (1, "does-not-refine", "numbers")
    assert numbers["agrees"] is False and numbers["max_abs"] > 0.01 and numbers["seed"] == 0
    assert (numbers["seq"], numbers["dist"]) == ("y", ["r0.y", "r1.y"])
    assert 1 <= len(numbers["elements"]) <= 16
    assert all(one["sequential"] != one["ranks"] for one in numbers["elements"])
    assert numbers["command"] == f"gg-datalog replay {bad} --seed 0"
    assert verified(cli, bad, "--confirm", BUDGET)[1]["outputs"] == report["outputs"]


@needs_torch
def test_the_command_for_more_draws_has_what_the_run_was_given(
    cli: Cli, bad: Path, tmp_path: Path
) -> None:
    table = tmp_path / "own table.toml"
    table.write_text('[elementwise]\n"my.double" = []\n')
    given = ("--allow-partial", "y", "--allow-layout", "y", "--operators", table)
    outputs = "--allow-partial y --allow-layout y"
    _, report = verified(cli, bad, "--confirm", BUDGET, *given)
    command = f"gg-datalog replay {bad} --operators '{table}' {outputs} --seed 0"
    assert report["outputs"][0]["numbers"]["command"] == command
    cli("extract", bad, "-o", tmp_path / "facts")
    found = cli("run", tmp_path / "facts", "--format", "json", "--confirm", BUDGET, *given)
    command = f"gg-datalog replay {tmp_path / 'facts'} {outputs} --operators '{table}' --seed 0"
    assert found.report["outputs"][0]["numbers"]["command"] == command
    assert cli(*shlex.split(command)[1:]).status == 1


@needs_torch
def test_numbers_agree(cli: Cli, make_case: Callable[[Any], Path]) -> None:
    case = make_case(twice("aten.relu.default", "aten.relu.default"))
    status, report = verified(cli, case, "--confirm", BUDGET)
    (output,) = report["outputs"]
    assert (status, report["verdict"]) == (3, "inconclusive")
    assert (output["status"], output["evidence"]) == ("inconclusive", "none")
    assert output["numbers"]["agrees"] is True and output["numbers"]["draws"] == 5
    assert [f["code"] for f in report["findings"]] == ["GG125"]
    assert (
        "`y`: no rule shows it; numbers agree on 5 draws; the proof stops at `y`"
        in (report["findings"][0]["message"])
    )
    assert not any(f["level"] == "error" for f in report["findings"])


def test_what_refines_needs_no_torch(good: Path) -> None:
    program = (
        "import sys; from gg_datalog import verify; "
        f"assert verify({str(good)!r}, confirm=20).refines; assert 'torch' not in sys.modules"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    subprocess.run([sys.executable, "-c", program], check=True, env=env)


# ---- without numbers
def test_without_torch_what_was_derived_decides(
    cli: Cli, bad: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(confirming, "find_spec", lambda name: None)
    status, report = verified(cli, bad, "--confirm", BUDGET)
    (output,) = report["outputs"]
    assert (status, output["evidence"]) == (1, "relations")
    assert output["numbers"]["note"] == "not executed: torch is not installed"
    case = write_case(tmp_path / "other", twice("aten.gelu.default"))
    status, report = verified(cli, case, "--confirm", BUDGET)
    assert (status, report["outputs"][0]["evidence"]) == (3, "none")
    assert [(f["code"], f["level"], f["certain"]) for f in report["findings"]] == [
        ("GG101", "warning", False)
    ]


def test_off(cli: Cli, bad: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object) -> Any:
        raise AssertionError("executed")

    monkeypatch.setattr(confirming, "_executed", never)
    assert "numbers" not in verified(cli, bad, "--confirm", 0)[1]["outputs"][0]
    monkeypatch.setenv(confirming.VARIABLE, "soon")
    assert cli("verify", bad).status == 2
    assert cli("verify", bad, "--confirm", -1).status == 2


def test_a_configuration_says_how_long(
    cli: Cli, bad: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[float] = []

    def answer(_: Question, allowed: float) -> dict[int, Numbers]:
        asked.append(allowed)
        return {}

    monkeypatch.setattr(confirming, "confirmed", answer)
    (tmp_path / "gg.toml").write_text("confirm = 7")
    cli("verify", bad, "--no-repairs", "--config", tmp_path / "gg.toml")
    assert asked == [7.0]
    (tmp_path / "gg.toml").write_text("confirm = true")
    assert "no number of seconds" in cli("verify", bad, "--config", tmp_path / "gg.toml").err


@pytest.mark.parametrize(
    "program, said",
    [
        ("import time; time.sleep(60)", "it takes more than 1 s (--confirm SECONDS)"),
        ("import os; os.abort()", "the process was ended by signal 6"),
        ("raise SystemExit('out of order')", "the process broke off: out of order"),
        ("pass", "it ended without an answer"),
    ],
)
def test_whatever_happens_there_the_run_goes_on(
    program: str, said: str, cli: Cli, bad: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    monkeypatch.setattr(confirming, "COMMAND", (sys.executable, "-c", program))
    status, report = verified(cli, bad, "--confirm", 1 if "sleep" in program else 60)
    (output,) = report["outputs"]
    assert (status, output["evidence"]) == (1, "relations")
    assert output["numbers"]["note"] == f"not executed: {said}"


@needs_torch
def test_graphs_that_changed_or_are_gone(cli: Cli, bad: Path, tmp_path: Path) -> None:
    facts = tmp_path / "facts"
    assert cli("extract", bad, "-o", facts).status == 0
    text = (bad / "seq.json").read_text()
    (bad / "seq.json").write_text(text + "\n")
    found = cli("run", facts, "--format", "json", "--no-repairs", "--confirm", BUDGET)
    assert "changed after the facts were extracted" in found.report["outputs"][0]["numbers"]["note"]
    (bad / "seq.json").unlink()
    found = cli("run", facts, "--format", "json", "--no-repairs", "--confirm", BUDGET)
    assert "this file is gone" in found.report["outputs"][0]["numbers"]["note"]
    assert (found.status, found.report["outputs"][0]["evidence"]) == (1, "relations")


# ---- from numbers to a verdict
ROWS = [OutputRow(seq, "unmapped", None) for seq in ("a", "b")]


def report_of(*findings: Finding) -> Report:
    """Two outputs that no rule shows."""
    return Report("does-not-refine", ROWS, list(findings), [], {}, {"seconds": {}})


def named(code: str, *outputs: str, certain: bool = True) -> Finding:
    """A finding about outputs."""
    return Finding(code, "error", f"{code} of {outputs}", outputs=outputs, certain=certain)


def test_each_output_has_its_own_evidence() -> None:
    from gg_datalog.diagnosis.evidence import decided

    both = named("GG109", "a", "b")
    found = decided(report_of(both), {0: Numbers(True, draws=5), 1: Numbers(False, draws=1)})
    assert [(o.status, o.evidence) for o in found.outputs] == [
        ("inconclusive", "none"),
        ("unmapped", "numbers"),
    ]
    assert found.verdict == "does-not-refine"
    assert [(f.code, f.outputs) for f in found.findings] == [("GG125", ("a",)), ("GG109", ("b",))]
    assert from_json(as_json(found)) == found


def test_only_what_is_certain_decides_without_numbers() -> None:
    from gg_datalog.diagnosis.evidence import decided

    sure, unsure = named("GG108", "a"), named("GG101", "b", certain=False)
    found = decided(report_of(sure, unsure), {})
    assert [o.evidence for o in found.outputs] == ["relations", "none"]
    assert [f.level for f in found.findings] == ["error", "warning"]
    assert decided(report_of(unsure, named("GG101", "a", certain=False)), {}).verdict == (
        "inconclusive"
    )


def test_collectives_that_do_not_line_up_need_no_numbers() -> None:
    from gg_datalog.diagnosis.evidence import decided, in_question

    report = report_of(named("GG110"))
    assert in_question(report) == []
    assert [o.evidence for o in decided(report, {}).outputs] == ["relations", "relations"]
    assert decided(report, {}).verdict == "does-not-refine"


def test_a_guess_that_numbers_refute_is_a_finding() -> None:
    from gg_datalog.diagnosis.evidence import decided

    refuted = Numbers(None, guesses=("k.weight",), note="as guessed they differ")
    found = decided(report_of(named("GG108", "a", "b")), {0: refuted, 1: refuted})
    assert found.verdict == "inconclusive"
    assert (found.findings[0].code, found.findings[0].outputs) == ("GG126", ("a", "b"))
    assert "`k.weight`" in found.findings[0].message


def test_lines_that_were_written_before_the_end_count() -> None:
    asked = Question({}, Path(), report_of(), [0, 1], [], "CASE")
    apart = {"agrees": False, "draws": 0, "max_abs": 1.0, "max_rel": 0.5, "first": None}
    fine = {"agrees": True, "draws": 1, "max_abs": 0.0, "max_rel": 0.0, "first": None}
    line = {"draws": 1, "breaks_off": "", "outputs": {"0": {**apart, "elements": []},
                                                      "1": {**fine, "elements": []}}}  # fmt: skip
    numbers = confirming._numbers(asked, [json.loads(json.dumps(line))], "killed")
    assert numbers[0].agrees is False
    assert (numbers[1].agrees, numbers[1].note) == (None, "not executed to the end: killed")
