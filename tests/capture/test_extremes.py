"""Python's ``max`` and ``min`` of numbers that a program computes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from gg_datalog import capture  # noqa: E402
from gg_datalog.foundation.errors import InputError  # noqa: E402
from gg_datalog.tracing.extremes import extremes_as_operators  # noqa: E402

Way = Callable[[Any], Any]
NUMBERS: dict[str, Way] = {
    "a tensor first": lambda t: max(t, 1),
    "a number first": lambda t: max(1, t),
    "the least": lambda t: min(t, 1),
    "the least, a number first": lambda t: min(1, t),
    "two of them": lambda t: max(t, t * t),
    "three": lambda t: min(2, t, t * t - 3),
    "numbers before it": lambda t: max(0, 1, t),
}
FLOATS: dict[str, Way] = {
    "halves": lambda t: max(t, 0.5),
    "halves first": lambda t: max(0.5, t),
    "the least of floats": lambda t: min(t, t * t),
}
PLAIN: dict[str, Way] = {
    "no tensor": lambda t: max(3, 2),
    "a list": lambda t: max([3, 4]),
    "by a key": lambda t: max(3, -4, key=abs),
    "nothing there": lambda t: min([], default=7),
}


@pytest.mark.parametrize("name", [*NUMBERS, *FLOATS, *PLAIN])
def test_what_comes_out_is_what_python_gives(name: str) -> None:
    way = {**NUMBERS, **FLOATS, **PLAIN}[name]
    values: list[Any] = [torch.tensor(n) for n in (-2, 0, 1, 2, 5)]
    if name in FLOATS:
        values = [torch.tensor(n) for n in (-2.0, 0.5, 1.0, float("nan"), float("inf"))]
    for value in values:
        expected = way(value)
        with extremes_as_operators():
            found = way(value)
        both = [torch.as_tensor(x, dtype=value.dtype) for x in (found, expected)]
        assert torch.equal(*both) or all(x.isnan() for x in both), (name, value)
        assert name in PLAIN or isinstance(found, torch.Tensor)


def test_gradients_are_those_of_what_is_taken() -> None:
    for way in (*FLOATS.values(), NUMBERS["a tensor first"], NUMBERS["a number first"]):
        for number in (-2.0, 0.5, 1.0, 3.0):
            ours, theirs = (torch.tensor(number, requires_grad=True) for _ in range(2))
            with extremes_as_operators():
                (way(ours) * ours).backward()
            (way(theirs) * theirs).backward()
            assert torch.equal(ours.grad, theirs.grad), number


class Weighted(nn.Module):  # type: ignore[misc]
    """Divides by a number of tokens."""

    def __init__(self, way: Way) -> None:
        super().__init__()
        self.way = way

    def forward(self, x: Any, ids: Any) -> Any:
        return x / self.way((ids > 0).sum())


def captured(way: Way, mode: str) -> list[str]:
    """The operators of the sequential program."""

    def inputs(rank: int, world: int) -> tuple[Any, ...]:
        return torch.zeros(4), torch.zeros(4, dtype=torch.long)

    pair = capture(lambda r, w: Weighted(way), inputs, world_size=1, mode=mode, jobs=0)
    return [str(node.get("target")) for node in pair.documents.seq["nodes"]]


@pytest.mark.parametrize("mode", ["eager", "dynamo"])
def test_it_is_captured(mode: str) -> None:
    assert any("clamp" in target for target in captured(lambda n: max(n, 1), mode))


@pytest.mark.parametrize("way", [lambda n: max(n, 1.5), lambda n: max(n.reshape(1), 1)])
def test_what_has_another_type_or_shape_stays_with_python(way: Way) -> None:
    with pytest.raises(InputError, match="capture failed"):
        captured(way, "eager")
