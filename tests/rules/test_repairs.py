"""Repairs that findings suggest: what was left out is found again, and nothing else is suggested."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gg_datalog import verify
from gg_datalog.result.report import Repair

from .build import Case, write

PLAIN = Case(
    "a row-parallel product",
    seq="""
        x: f32[4, 8]
        w: f32[8, 6]
        b: f32[6]
        y = relu(add.Tensor(mm(x, w), b))
        return y
    """,
    dist="""
        x: f32[4, 4]
        w: f32[4, 6]
        b: f32[6]
        part = mm(x, w)
        total = all_reduce(part, "sum", "g")
        y = relu(add.Tensor(total, b))
        return y
    """,
)
GRID = Case(
    "rows over two pairs of ranks, the contraction inside a pair",
    ranks=4,
    seq="""
        x: f32[4, 8]
        w: f32[8, 6]
        y = relu(mm(x, w))
        return y
    """,
    dist="""
        x: f32[2, 4]
        w: f32[4, 6]
        part = mm(x, w)
        total = all_reduce(part, "sum", "inner")
        y = relu(total)
        return y
    """,
    groups={"inner": [[0, 1], [2, 3]], "outer": [[0, 2], [1, 3]]},
    relate={
        "x": [
            {"seq": "x", "rank": r, "dist": "x",
             "seq_box": [[2 * (r // 2), 2 * (r // 2) + 2], [4 * (r % 2), 4 * (r % 2) + 4]]}
            for r in range(4)
        ],
        "w": [
            {"seq": "w", "rank": r, "dist": "w", "seq_box": [[4 * (r % 2), 4 * (r % 2) + 4], [0, 6]]}
            for r in range(4)
        ],
    },
)  # fmt: skip
ACCUMULATED = Case(
    "a loss over two micro-batches",
    ranks=1,
    seq="""
        x: f32[8]
        a: f32[8]
        b: f32[8]
        loss = mean(x)
        out = add.Tensor(a, expand(loss, [8]))
        return out
    """,
    dist="""
        x: f32[4]
        x2: f32[4]
        a: f32[8]
        b: f32[8]
        one = mean(x)
        two = mean(x2)
        out = add.Tensor(add.Tensor(a, expand(one, [8])), expand(two, [8]))
        return out
    """,
    relate={
        "x": [
            {"seq": "x", "rank": 0, "dist": "x", "seq_box": [[0, 4]]},
            {"seq": "x", "rank": 0, "dist": "x2", "seq_box": [[4, 8]]},
        ]
    },
)


def repairs(case: Case, folder: Path) -> list[Repair]:
    """What is suggested for a case that is not proved."""
    write(case, folder)
    result = verify(folder, engine="clingo")
    assert result.verdict != "refines"
    found = [f.repair for f in result.findings if f.repair is not None]
    assert all(r.tried and r.outputs for r in found)
    return found


def the_repair(case: Case, folder: Path) -> Repair:
    """The one suggestion for a case."""
    (found,) = repairs(case, folder)
    return found


def without(case: Case, old: str, new: str) -> Case:
    """The case with its ranks' program changed."""
    assert old in case.dist
    return replace(case, dist=case.dist.replace(old, new))


@pytest.mark.parametrize("case", [PLAIN, GRID], ids=["plain", "grid"])
def test_the_cases_are_right_to_begin_with(case: Case, tmp_path: Path) -> None:
    write(case, tmp_path)
    assert verify(tmp_path, engine="clingo").refines


def test_a_missing_all_reduce_is_put_where_the_parts_arise(tmp_path: Path) -> None:
    found = the_repair(without(PLAIN, 'all_reduce(part, "sum", "g")', "detach(part)"), tmp_path)
    assert (found.action, found.nodes) == ("all_reduce", ("r0.part", "r1.part"))
    assert (found.ranks, found.outputs) == ((0, 1), ("y",))
    text = "all-reduce (sum) over ranks 0-1 after `part`: with it `y` is rebuilt"
    assert found.text == text


def test_a_part_that_is_returned(tmp_path: Path) -> None:
    case = without(PLAIN, 'all_reduce(part, "sum", "g")', "detach(part)")
    seq = case.seq.replace("relu(add.Tensor(mm(x, w), b))", "mm(x, w)")
    dist = case.dist.replace("relu(add.Tensor(total, b))", "detach(total)")
    found = the_repair(replace(case, seq=seq, dist=dist), tmp_path)
    assert (found.action, found.nodes) == ("all_reduce", ("r0.part", "r1.part"))


def test_a_part_of_a_maximum(tmp_path: Path) -> None:
    seq = "x: f32[8, 6]\ny = relu(amax(x, [0]))\nreturn y"
    dist = "x: f32[4, 6]\ntop = amax(x, [0])\ny = relu(top)\nreturn y"
    found = the_repair(Case("maximum", seq, dist), tmp_path)
    assert found.text.startswith("all-reduce (max) over ranks 0-1 after `top`")


def test_every_pair_of_ranks_reduces_on_its_own(tmp_path: Path) -> None:
    found = the_repair(without(GRID, 'all_reduce(part, "sum", "inner")', "detach(part)"), tmp_path)
    assert "over ranks 0-1 and ranks 2-3 after `part`" in found.text
    assert found.ranks == (0, 1, 2, 3)


def test_the_wrong_group(tmp_path: Path) -> None:
    found = the_repair(without(GRID, '"inner"', '"outer"'), tmp_path)
    assert found.action == "all_reduce"
    assert "over ranks 0-1 and ranks 2-3 instead of `total`" in found.text


def test_the_wrong_reduction(tmp_path: Path) -> None:
    found = the_repair(without(PLAIN, '"sum"', '"max"'), tmp_path)
    assert "all-reduce (sum) over ranks 0-1 instead of `total`" in found.text


def test_a_part_that_others_reduce_is_reduced_at_its_user(tmp_path: Path) -> None:
    seq = PLAIN.seq.replace(
        "return y", "z = tanh(mm(x, w))\nreturn y, z".replace("\n", "\n        ")
    )
    dist = PLAIN.dist.replace("return y", "z = tanh(part)\n        return y, z")
    found = the_repair(replace(PLAIN, seq=seq, dist=dist), tmp_path)
    assert found.outputs == ("z",)
    assert "after `part`, where `z` uses it" in found.text


def test_a_doubled_reduction_is_scaled(tmp_path: Path) -> None:
    again = 'all_reduce(all_reduce(part, "sum", "g"), "sum", "g")'
    case = without(PLAIN, 'all_reduce(part, "sum", "g")', again)
    found = the_repair(case, tmp_path)
    assert (found.action, found.factor, found.nodes) == ("scale", "1/2", ("r0.total", "r1.total"))
    assert "leave this sum over ranks out" in found.text


def test_micro_batches_that_are_not_scaled(tmp_path: Path) -> None:
    found = the_repair(ACCUMULATED, tmp_path)
    assert (found.action, found.factor, found.nodes) == ("scale", "1/2", ("r0.one", "r0.two"))
    assert found.text == "multiply `one`, `two` on rank 0 by 1/2: with it `out` is rebuilt"


def test_a_bias_that_every_rank_adds(tmp_path: Path) -> None:
    dist = """
        x: f32[4, 4]
        w: f32[4, 6]
        b: f32[6]
        part = add.Tensor(mm(x, w), b)
        total = all_reduce(part, "sum", "g")
        y = relu(total)
        return y
    """
    found = the_repair(replace(PLAIN, dist=dist), tmp_path)
    assert (found.action, found.factor, found.nodes) == ("scale", "1/2", ("r0.b", "r1.b"))
    assert "multiply `b` on ranks 0-1 by 1/2, where `part` uses it" in found.text


def test_a_mean_that_every_pair_of_ranks_takes_of_its_own_rows(tmp_path: Path) -> None:
    seq = "x: f32[8, 6]\ny = relu(mean.dim(x, [0]))\nreturn y"
    dist = "x: f32[4, 6]\nmine = mean.dim(x, [0])\ny = relu(mine)\nreturn y"
    found = the_repair(Case("means", seq, dist), tmp_path)
    assert found.text.startswith("all-reduce (avg) over ranks 0-1 after `mine`")


def test_slices_of_a_part_are_scattered(tmp_path: Path) -> None:
    dist = """
        x: f32[4, 4]
        w: f32[4, 6]
        part: f32[4, 6] = mm(x, w)
        mine: f32[4, 3] = slice.Tensor(part, 1, 3 * rank, 3 * rank + 3)
        y = relu(mine)
        return y
    """
    found = the_repair(replace(PLAIN, seq=GRID.seq, dist=dist), tmp_path)
    assert (found.action, found.nodes) == ("reduce_scatter", ("r0.mine", "r1.mine"))
    assert "reduce-scatter (sum) over ranks 0-1 instead of `mine`" in found.text


ATTENTION = Case(
    "attention of a rank's own rows",
    seq="""
        q: f32[2, 4, 8, 16]
        k: f32[2, 4, 8, 16]
        v: f32[2, 4, 8, 16]
        o: f32[2, 4, 8, 16] = scaled_dot_product_attention(q, k, v)
        return o
    """,
    dist="""
        q: f32[2, 4, 4, 16]
        k: f32[2, 4, 4, 16]
        v: f32[2, 4, 4, 16]
        o: f32[2, 4, 4, 16] = scaled_dot_product_attention(q, k, v)
        return o
    """,
)


def test_keys_and_values_are_gathered(tmp_path: Path) -> None:
    found = the_repair(ATTENTION, tmp_path)
    assert (found.action, found.nodes) == ("all_gather", ("r0.k", "r0.v", "r1.k", "r1.v"))
    assert found.text.startswith("all-gather along dimension 2 over ranks 0-1 after `k`, `v`")


def test_pieces_that_one_rank_returns(tmp_path: Path) -> None:
    write(replace(ATTENTION, seq="x: f32[4, 6]\ny: f32[4, 6] = relu(x)\nreturn y",
                  dist="x: f32[4, 3]\ny: f32[4, 3] = relu(x)\nreturn y"), tmp_path)  # fmt: skip
    (tmp_path / "outputs.json").write_text('[{"seq": "y", "dist": {"0": "y"}}]')
    result = verify(tmp_path, engine="clingo")
    found = [f.repair for f in result.findings if f.repair is not None]
    assert [(r.action, r.nodes) for r in found] == [("all_gather", ("r0.y", "r1.y"))]


def test_what_only_the_root_has_is_broadcast(tmp_path: Path) -> None:
    case = without(PLAIN, 'all_reduce(part, "sum", "g")', 'reduce(part, "sum", 1, "g")')
    found = the_repair(case, tmp_path)
    assert found.text.startswith("broadcast from rank 1 over ranks 0-1 after `total`")


def test_a_factor_before_an_operator(tmp_path: Path) -> None:
    case = without(PLAIN, "relu(add.Tensor(total, b))", "relu(mul.Tensor(add.Tensor(total, b), 3))")
    found = the_repair(case, tmp_path)
    assert (found.action, found.factor) == ("scale", "1/3")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("relu(add.Tensor(total, b))", "relu(add.Tensor(total, w2))"),
        ("relu(add.Tensor(total, b))", "tanh(add.Tensor(total, b))"),
        ("mm(x, w)", "mm(x, tanh(w))"),
    ],
)
def test_nothing_is_suggested_where_no_collective_helps(old: str, new: str, tmp_path: Path) -> None:
    dist = PLAIN.dist.replace("b: f32[6]\n", "b: f32[6]\n        w2: f32[6]\n")
    seq = PLAIN.seq.replace("b: f32[6]\n", "b: f32[6]\n        w2: f32[6]\n")
    assert repairs(without(replace(PLAIN, seq=seq, dist=dist), old, new), tmp_path) == []


def test_parts_that_do_not_make_up_the_whole_are_not_reduced(tmp_path: Path) -> None:
    missing = {
        name: [
            {"seq": name, "rank": rank, "dist": name, "seq_box": box}
            for rank, box in enumerate(boxes)
        ]
        for name, boxes in {
            "x": [[[0, 4], [0, 4]], [[0, 4], [0, 4]]],
            "w": [[[0, 4], [0, 6]], [[0, 4], [0, 6]]],
        }.items()
    }
    assert repairs(replace(PLAIN, relate=missing), tmp_path) == []
