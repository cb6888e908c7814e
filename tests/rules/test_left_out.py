"""What names a reduction that is left out, family by family: the operator where it is missing, first."""

from __future__ import annotations

from pathlib import Path

import pytest

from gg_datalog import verify

from .build import Case, write

SUM = 'all_reduce({}, "sum", "g")'
IDS = """mask: b[5] = bitwise_or.Tensor(lt.Scalar(ids, 4 * rank), ge.Scalar(ids, 4 * rank + 4))
local: i64[5] = masked_fill.Scalar(sub.Tensor(ids, 4 * rank), mask, 0)
"""
# (family, sequential program, what the ranks do with `{}` around what is to be reduced, its node)
FAMILIES = {
    "rows of a matrix product": (
        "x: f32[4, 8]\nw: f32[8, 6]\np = mm(x, w)\nreturn relu(p)",
        "x: f32[4, 4]\nw: f32[4, 6]\np = mm(x, w)\nq = {p}\nreturn relu(q)",
        "p", "GG108",
    ),
    "rows of an embedding": (
        "w: f32[8, 4]\nids: i64[5]\np = embedding(w, ids)\nreturn relu(p)",
        "w: f32[4, 4]\nids: i64[5]\n" + IDS
        + "p = masked_fill.Scalar(embedding(w, local), unsqueeze(mask, -1), 0)\nq = {p}\nreturn relu(q)",
        "p", "GG108",
    ),
    "squares of a norm": (
        "x: f32[4, 8]\np: f32[4, 1] = sum.dim_IntList(mul.Tensor(x, x), [1], True)\n"
        "return mul.Tensor(x, rsqrt(add.Tensor(p, 1.0)))",
        "x: f32[4, 4]\np: f32[4, 1] = sum.dim_IntList(mul.Tensor(x, x), [1], True)\nq: f32[4, 1] = {p}\n"
        "return mul.Tensor(x, rsqrt(add.Tensor(q, 1.0)))",
        "p", "GG108",
    ),
    "exponentials of a softmax": (
        "x: f32[4, 8]\nm: f32[4, 1] = amax(x, [1], True)\ne = exp(sub.Tensor(x, m))\n"
        "p: f32[4, 1] = sum.dim_IntList(e, [1], True)\nreturn div.Tensor(e, p)",
        'x: f32[4, 4]\nm: f32[4, 1] = all_reduce(amax(x, [1], True), "max", "g")\n'
        "e = exp(sub.Tensor(x, m))\np: f32[4, 1] = sum.dim_IntList(e, [1], True)\nq: f32[4, 1] = {p}\n"
        "return div.Tensor(e, q)",
        "p", "GG108",
    ),
    "a loss": (
        "x: f32[8]\np: f32[()] = sum.default(exp(x))\nreturn p",
        "x: f32[4]\np: f32[()] = sum.default(exp(x))\nq: f32[()] = {p}\nreturn q",
        "p", "GG104",
    ),
    "a gradient of weights": (
        "x: f32[8, 4]\nd: f32[8, 6]\nw: f32[4, 6]\np = mm(t(x), d)\nreturn sub.Tensor(w, mul.Tensor(p, p))",
        "x: f32[4, 4]\nd: f32[4, 6]\nw: f32[4, 6]\np = mm(t(x), d)\nq = {p}\n"
        "return sub.Tensor(w, mul.Tensor(q, q))",
        "p", "GG108",
    ),
    "a gradient of a bias": (
        "d: f32[8, 6]\np: f32[6] = sum.dim_IntList(d, [0])\nreturn sign(p)",
        "d: f32[4, 6]\np: f32[6] = sum.dim_IntList(d, [0])\nq: f32[6] = {p}\nreturn sign(q)",
        "p", "GG108",
    ),
    "an auxiliary loss of a router": (
        "r: f32[8, 3]\nl: f32[()]\np: f32[3] = mean.dim(r, [0])\n"
        "return add.Tensor(l, sum.default(mul.Tensor(p, p)))",
        "r: f32[4, 3]\nl: f32[()]\np: f32[3] = mean.dim(r, [0])\nq: f32[3] = div.Tensor({p}, {n})\n"
        "return add.Tensor(l, sum.default(mul.Tensor(q, q)))",
        "p", "GG108",
    ),
}  # fmt: skip


@pytest.mark.parametrize("family", FAMILIES)
def test_a_reduction_that_is_left_out(family: str, tmp_path: Path) -> None:
    seq, dist, node, code = FAMILIES[family]
    right, wrong = (
        dist.replace("{p}", p).replace("{n}", n) for p, n in ((SUM.format("p"), "2"), ("p", "1"))
    )
    for name, text in (("right", right), ("wrong", wrong)):
        folder = tmp_path / name
        folder.mkdir()
        write(Case(family, seq, text), folder)
        result = verify(folder, engine="clingo", repairs=False, confirm=0)
        if name == "right":
            assert result.refines, str(result)
    assert not result.refines
    first = result.findings[0]
    assert (first.code, first.seq) == (code, node), str(result)
    assert {name.partition(".")[2] for name in first.dist} == {node}, str(result)
    causes = [f for f in result.findings if f.code == code]
    assert len({f.message for f in causes}) == len(causes), str(result)


RESIDUAL = """x: f32[4, 8]
w: f32[8, 8]
v: f32[8, 8]
a = mm(x, w)
h = add.Tensor(x, a)
p = mm(h, v)
return relu(add.Tensor(h, p))"""
SECOND_LAYER = """x: f32[4, 8]
w: f32[4, 8]
v: f32[4, 8]
b = mm(slice.Tensor(x, 1, 4 * rank, 4 * rank + 4), w)
a = {a}
h = add.Tensor(x, a)
p = mm(slice.Tensor(h, 1, 4 * rank, 4 * rank + 4), v)
q = {p}
return relu(add.Tensor(h, q))"""


@pytest.mark.parametrize(
    ("a", "p", "verdict"),
    [
        (SUM.format("b"), SUM.format("p"), "refines"),
        (SUM.format("b"), "p", "does-not-refine"),
        # what is made of both may be reduced by the second layer's reduction
        ("b", SUM.format("p"), "inconclusive"),
    ],
)
def test_behind_a_residual_that_was_reduced(a: str, p: str, verdict: str, tmp_path: Path) -> None:
    """The residual of a second layer is a sum over ranks, too, and all of it is there: the part
    that is added to it is as surely missing its reduction as in the first layer."""
    dist = SECOND_LAYER.replace("{a}", a).replace("{p}", p)
    write(Case("residual", RESIDUAL, dist), tmp_path)
    result = verify(tmp_path, engine="clingo", repairs=False, confirm=0)
    assert result.verdict == verdict, str(result)
    if verdict != "refines":
        (first, *_) = result.findings
        certain = verdict == "does-not-refine"
        assert (first.code, first.seq, first.certain) == ("GG108", "p" if certain else "a", certain)
