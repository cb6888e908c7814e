"""A whole training step, captured here from PyTorch: forward, backward, gradient norm, Adam.

Rules and numbers have to say the same of every output: the right programs refine, and of each mistake
exactly the outputs are unmapped that really differ.
"""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="capturing and executing graphs needs torch")

EXAMPLE = Path(__file__).parents[2] / "examples" / "training_step" / "capture.py"
RIGHT = {
    "tensor": {"tensor": 2},
    "tensor, one head per rank": {"tensor": 4},
    "sequence": {"tensor": 2, "sequence_parallel": True},
    "data": {"data": 2},
    "tensor, sequence and data": {"tensor": 2, "data": 2, "sequence_parallel": True},
}
SEQUENCE = {"tensor": 2, "sequence_parallel": True}
NEW = "new "
# mistake: the layout it is tried in, the gradients that it spoils ("": all of them and the loss)
WRONG: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "norm-gradient-not-reduced": (SEQUENCE, ("norm2.weight",)),
    "data-gradient-not-reduced": ({"tensor": 2, "data": 2}, ("fc1.weight",)),
    "bias-added-by-every-rank": ({"tensor": 2}, ("",)),
    "replica-counted-by-every-rank": (SEQUENCE, ()),
    "targets-not-shifted": ({"tensor": 2}, ("",)),
    "input-gradient-not-reduced": (
        {"tensor": 2},
        ("words", "places", "norm", "qkv", "proj", "fc1", "fc2"),
    ),
}


@pytest.fixture(scope="module")
def example() -> Any:
    """The module that captures the step."""
    spec = spec_from_file_location("training_capture", EXAMPLE)
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def judged(example: Any, folder: Path, **degrees: Any) -> tuple[Any, dict[str, str]]:
    """The replay of a captured step, and the names of what it returns."""
    from gg_datalog.extract import case_files
    from gg_datalog.replay.command import replay

    what = example.capture(folder, example.Degrees(**degrees))
    found = replay(case_files(folder), [], 0, False, lambda text: None)
    assert found.wrong == []
    return found, {seq: name for name, seq in what.items()}


@pytest.mark.exhaustive("tensor", "sequence", "data")
@pytest.mark.parametrize("layout", RIGHT.values(), ids=RIGHT)
def test_a_right_step_refines(layout: dict[str, Any], example: Any, tmp_path: Path) -> None:
    found, names = judged(example, tmp_path, **layout)
    assert found.report.verdict == "refines"
    assert len(found.report.outputs) == 2 + 2 * len(example.model.PARAMETERS) == len(names)
    assert all(found.agrees(place) for place in range(len(names)))


@pytest.mark.exhaustive(
    "data-gradient-not-reduced", "targets-not-shifted", "input-gradient-not-reduced"
)
@pytest.mark.parametrize("bug", WRONG)
def test_a_mistake_is_found(bug: str, example: Any, tmp_path: Path) -> None:
    layout, spoilt = WRONG[bug]
    found, names = judged(example, tmp_path, **layout, bugs=(bug,))
    assert found.report.verdict == "does-not-refine"
    outputs = [names[row.seq] for row in found.report.outputs]
    unmapped = {
        name
        for name, row in zip(outputs, found.report.outputs, strict=True)
        if row.status != "mapped"
    }
    if not found.note:  # a program that breaks off has nothing to compare
        differing = {n for place, n in enumerate(outputs) if found.agrees(place) is False}
        assert differing == unmapped
    gradients = {n for n in example.model.PARAMETERS if n.startswith(spoilt)} if spoilt else set()
    after = {"norm", *(n for n in outputs if n.startswith(NEW))}
    everything = {"loss"} if spoilt == ("",) else set()
    assert unmapped >= after | everything
    if bug != "input-gradient-not-reduced":  # what lies after it there is for the numbers to say
        assert unmapped == gradients | after | everything


def test_every_mistake_is_tried(example: Any) -> None:
    assert set(WRONG) == set(example.model.BUGS)
