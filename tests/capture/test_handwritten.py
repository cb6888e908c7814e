"""Distributed programs written by hand: the right ones refine, and a finding names the wrong line."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="capture traces programs with torch")

from gg_datalog import capture, verify

from .programs import EXAMPLES, example

FOLDER = EXAMPLES / "handwritten"
PROGRAMS = sorted(path.stem for path in FOLDER.glob("*.py"))
MARK = "# planted"
# What closes the gap, where one collective or scalar does: its action and factor.
REPAIRS = {
    "autograd_pair": ("all_reduce", None),
    "data_parallel": ("scale", "1/2"),
    "tensor_parallel": ("all_reduce", None),
}


def planted_line(name: str) -> str:
    """`file:line` of the mistake, as sources are written."""
    text = (FOLDER / f"{name}.py").read_text().splitlines()
    (line,) = (number for number, row in enumerate(text, 1) if MARK in row)
    return f"{name}.py:{line} "


def test_every_example_has_one_mistake() -> None:
    assert len(PROGRAMS) == 5
    assert all(planted_line(name) for name in PROGRAMS)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_right_program_refines(name: str) -> None:
    result = verify(capture(**example("handwritten", name).arguments()))
    assert result.refines, str(result)
    assert all(row.status == "mapped" for row in result.outputs)


@pytest.mark.exhaustive("data_parallel", "pipeline")
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_mistake_is_found_where_it_is(name: str) -> None:
    result = verify(capture(**example("handwritten", name).arguments(bug=True)), confirm=60)
    assert result.verdict == "does-not-refine", str(result)
    first = result.findings[0]
    assert first.level == "error"
    assert planted_line(name) in (first.dist_source or ""), str(result)
    repair = first.repair and (first.repair.action, first.repair.factor)
    assert repair == REPAIRS.get(name), str(result)
    if first.repair:
        assert set(first.repair.outputs) == {o.seq for o in result.outputs if o.status != "mapped"}
