"""The captured pairs: numbers and derived relations agree, output by output."""

from __future__ import annotations

import json
from typing import Any

import pytest

pytest.importorskip("torch")

from gg_datalog.replay.command import as_document

from ..numeric.pairs import CORPUS

GOOD = ("gpt-tp2-l1", "gpt-tp2-l2", "llama-tp2-l1", "qwen2-tp2-l1")
BAD = ("bug-grad-accumulation", "bug-wrong-config-allreduce")


@pytest.mark.parametrize("name", [*GOOD, *BAD])
def test_numbers_and_verdict_agree(name: str, captured: Any) -> None:
    found = captured(name)
    outputs = found.report.outputs
    assert found.numbers.keys() == set(range(len(outputs)))
    for place, row in enumerate(outputs):
        assert found.agrees(place) is (row.status == "mapped"), f"{row.seq}: {found.numbers[place]}"
    assert (found.wrong, found.skipped, found.note) == ([], [], "")
    assert found.checked > 10
    assert found.report.verdict == ("refines" if name in GOOD else "does-not-refine")
    assert not {f.code for f in found.report.findings} & {"GG140", "GG141"}


@pytest.mark.parametrize("name", BAD)
def test_every_output_that_differs_says_where_it_first_does(name: str, captured: Any) -> None:
    found = captured(name)
    rows = json.loads(as_document(found))["outputs"]
    wrong = [row for row in rows if row["status"] != "mapped"]
    assert wrong
    for row in wrong:
        assert row["max_abs"] > 1e-3 and row["max_rel"] > 1e-3
        first = row["first_divergence"]
        assert first["seq"] and first["seq_source"] and first["dist_source"]
        assert all(name.startswith("r") for name in first["dist"])
    assert all(row["first_divergence"] is None for row in rows if row not in wrong)


def test_what_a_partial_gradient_makes_wrong(captured: Any) -> None:
    """Exactly the outputs that are not derived differ, those that are known to be wrong among
    them."""
    found = captured("bug-wrong-config-allreduce")
    rows = list(enumerate(found.report.outputs))
    differ = {row.seq for place, row in rows if found.agrees(place) is False}
    assert differ == {row.seq for _, row in rows if row.status == "unmapped"}
    assert {"add_17", "add_18", "add_19", "add_20"} <= differ
    assert "div_2" not in differ
    expected = json.loads((CORPUS / "bug-wrong-config-allreduce" / "expect.json").read_text())
    first = {divergence["seq"] for divergence in found.divergence.values()}
    assert first & set(expected["first_unmapped"]) == {"mm_7", "mm_8"}


def test_what_the_corpus_expects(captured: Any) -> None:
    for name in (*GOOD, *BAD):
        found = captured(name)
        expected = json.loads((CORPUS / name / "expect.json").read_text())
        assert (found.report.verdict == "refines") is (expected["verdict"] == "refines"), name
