"""Input relations (``rules/input.dl``): rows given, rows guessed, rows that cannot be."""

from __future__ import annotations

from .build import Case, check, row, table
from .conftest import Outcomes

SHARD = Case("shards", "x: f32[8, 6]\ny = relu(x)\nreturn y", "x: f32[4, 6]\ny = relu(x)\nreturn y")


def rows(*at: tuple[int, int], rank: int = 0) -> list[dict[str, object]]:
    """Rows ``at`` of dimension 0, one rank after the other."""
    return [row(r, "x", seq_box=[list(a), [0, 6]]) for r, a in enumerate(at)]


GIVEN = (
    SHARD,
    SHARD.but("exchanged", maps=None, relate={"x": rows((4, 8), (0, 4))}),
    SHARD.but("one twice", relate={"x": rows((0, 4), (0, 4))}),
    SHARD.but("overlapping, with a gap", relate={"x": rows((0, 4), (3, 7))}),
    SHARD.but("one of them unknown", relate={"x": rows((0, 4))}),
    SHARD.but(
        "in two boxes",
        maps=None,
        relate={
            "x": [
                row(
                    r,
                    "x",
                    seq_box=[[4 * r + 2 * i, 4 * r + 2 * i + 2], [0, 6]],
                    dist_box=[[2 * i, 2 * i + 2], [0, 6]],
                )
                for r in range(2)
                for i in range(2)
            ]
        },
    ),
    SHARD.but(
        "in two boxes that leave a hole",
        relate={
            "x": [
                row(
                    r,
                    "x",
                    seq_box=[[4 * r + 2 * i, 4 * r + 2 * i + 2], [0, 6]],
                    dist_box=[[2 * i, 2 * i + 2], [0, 6]],
                )
                for r in range(2)
                for i in range(1 + r)
            ]
        },
    ),
    SHARD.but(
        "boxes that overlap and agree",
        maps=None,
        relate={
            "x": [
                row(
                    r,
                    "x",
                    seq_box=[[4 * r + i, 4 * r + i + 3], [0, 6]],
                    dist_box=[[i, i + 3], [0, 6]],
                )
                for r in range(2)
                for i in range(2)
            ]
        },
    ),
    SHARD.but(
        "boxes that overlap and disagree",
        error="is said to hold both",
        relate={
            "x": [
                row(r, "x", seq_box=[[4 * r, 4 * r + 3], [0, 6]], dist_box=[[i, i + 3], [0, 6]])
                for r in range(2)
                for i in range(2)
            ]
        },
    ),
    SHARD.but(
        "the same row twice",
        maps=None,
        relate={"x": [*rows((0, 4), (4, 8)), *rows((0, 4), (4, 8))]},
    ),
    SHARD.but(
        "two tensors in one",
        error="is said to hold both",
        seq="x: f32[8, 6]\nz: f32[8, 6]\ny = relu(x)\nreturn y",
        relate={"x": rows((0, 4), (4, 8)), "z": [row(0, "z", "x", seq_box=[[0, 4], [0, 6]])]},
    ),
    SHARD.but(
        "boxes of different sizes", error="differ in size", relate={"x": rows((0, 3), (4, 8))}
    ),
    SHARD.but("a box outside", error="is outside", relate={"x": rows((0, 4), (6, 10))}),
    SHARD.but("an unknown name", error="is no node", relate={"x": [row(0, "q", "x")]}),
    SHARD.but("an unknown rank", maps=None, relate={"x": [*rows((0, 4), (4, 8)), row(7, "x")]}),
    SHARD.but("integers and floats", error="int64", dist=SHARD.dist.replace("f32", "i64")),
    SHARD.but(
        "one row each",
        maps=None,
        ranks=2,
        seq=SHARD.seq.replace("8, 6", "2, 6"),
        dist=SHARD.dist.replace("4, 6", "1, 6"),
    ),
    SHARD.but(
        "one row each, one of them twice",
        ranks=2,
        seq=SHARD.seq.replace("8, 6", "2, 6"),
        dist=SHARD.dist.replace("4, 6", "1, 6"),
        relate={"x": rows((0, 1), (0, 1))},
    ),
    Case(
        "a node without operands",
        "c: f32[4] = my.table(4)\ny = relu(c)\nreturn y",
        "c: f32[4] = my.table(5)\ny = relu(c)\nreturn y",
        relate={"c": [row(r, "c") for r in range(2)]},
    ),
    Case(
        "a node without operands of which nothing is said",
        "c: f32[4] = my.table(4)\ny = relu(c)\nreturn y",
        "c: f32[4] = my.table(5)\ny = relu(c)\nreturn y",
        maps=(),
    ),
    Case(
        "a replica related on one rank only",
        "x: f32[4]\ny = relu(x)\nreturn y",
        "x: f32[4]\ny = relu(x)\nreturn y",
        relate={"x": [row(0, "x")]},
        maps=(),
    ),
    Case(
        "tied weights",
        "a: f32[4]\nb: f32[4]\ny = mul.Tensor(a, b)\nreturn y",
        "a: f32[4]\nb: f32[4]\ny = mul.Tensor(b, a)\nreturn y",
    ),
    Case(
        "a weight taken for another",
        "a: f32[4]\nb: f32[4]\ny = div.Tensor(a, b)\nreturn y",
        "a: f32[4]\nb: f32[4]\ny = div.Tensor(a, b)\nreturn y",
        relate={
            "a": [row(r, "a", "b") for r in range(2)],
            "b": [row(r, "b", "a") for r in range(2)],
        },
        maps=(),
    ),
)


@table(*GIVEN)
def test_rows(case: Case, outcomes: Outcomes) -> None:
    """What the rows say holds, and nothing else."""
    check(case, outcomes(case))
