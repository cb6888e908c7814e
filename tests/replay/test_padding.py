"""Weights that were padded, executed: padding is 0, and so is what a gradient has there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="replay needs torch")

from gg_datalog.extract import case_files
from gg_datalog.replay.command import replay
from gg_datalog.replay.documents import padding

from ..rules.build import Case, write
from ..rules.test_padding import HEAD, INPUT, MASKED, SLICED, TABLE

BEHIND = HEAD.miss(
    "1 behind the end", "return dw", "return masked_fill.Scalar(dw, unsqueeze(pad, 1), 1.0)"
)
UNMASKED = INPUT.miss("they are not masked", MASKED, "exp(mm(x, t(w)))")


def executed(case: Case, folder: Path, kind: str = "") -> Any:
    """The replay of a case, of which all outputs are of that kind."""
    write(case, folder)
    outputs = json.loads((folder / "outputs.json").read_text())
    for row in outputs if kind else ():
        row["kind"] = kind
    (folder / "outputs.json").write_text(json.dumps(outputs))
    return replay(case_files(folder), [], 0, False, lambda text: None)


@pytest.mark.parametrize("case", [HEAD, INPUT, TABLE, SLICED], ids=lambda case: case.name)
def test_right_ones_agree(case: Case, tmp_path: Path) -> None:
    found = executed(case, tmp_path)
    assert all(found.agrees(place) for place in range(len(found.report.outputs)))
    assert not found.wrong and found.checked


def test_classes_that_are_not_masked_differ(tmp_path: Path) -> None:
    assert executed(UNMASKED, tmp_path, "gradient").agrees(0) is False


def test_a_gradient_behind_the_end_differs(tmp_path: Path) -> None:
    assert executed(BEHIND, tmp_path, "gradient").agrees(0) is False


def test_of_what_is_no_gradient_nobody_knows_what_lies_behind(tmp_path: Path) -> None:
    assert executed(BEHIND, tmp_path).agrees(0) is None


def test_padding_is_what_lies_behind_the_end() -> None:
    held = {"seq": "w", "seq_box": [[3, 5], [0, 4]], "dist_box": [[0, 2], [0, 4]]}
    assert padding([3, 4], [5, 4], [held]) == (0, 2)
    assert padding([3, 4], [6, 4], [held]) is None  # the sequential one goes on
    assert padding([2, 4], [5, 4], [held]) is None  # there is none
    assert padding([3, 4], [5, 4], [held | {"dist_box": [[1, 3], [0, 4]]}]) is None  # in front
    assert padding([3, 4], [5, 4], [held | {"dist_box": [[0, 2], [1, 4]]}]) is None  # a hole
