"""Positions that an operator makes on its way to something else."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="what is executed needs torch")

from gg_datalog.extract.records import Label, Operator  # noqa: E402
from gg_datalog.replay.evaluate import evaluate  # noqa: E402


@pytest.mark.parametrize(
    ("signature", "numbers"),
    [("arange(0, 1)", [0, 1, 2, 3]), ("arange(-1, 1)", [-1, 0, 1, 2]), ("arange(5, -2)", [5, 3, 1, -1])],
)  # fmt: skip
def test_a_start_and_a_step(signature: str, numbers: list[int]) -> None:
    """Not a start and an end, as the kernel of that name would read them."""
    labels = (Label(4, "n", "created"),)
    counting = Operator("y", signature, [], labels, [], [], "aten.tril.default", "y", 0)
    assert evaluate(counting, [], 0, {}).tolist() == numbers
