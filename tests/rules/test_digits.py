"""Reductions over the same range of every block (``digit_of_label`` in ``terms/result.dl``): micro-batches
of the ranks' shares, each gathered over the ranks before something is contracted over it."""

from __future__ import annotations

from .build import Case, check, row, table
from .conftest import Outcomes


def gathered(name: str, lo: int, hi: int, ranks: int = 2) -> str:
    """Rows [lo, hi) of every rank's share."""
    return f'all_gather_into_tensor(slice({name}, 0, {lo}, {hi}), {ranks}, "g")'


GRADIENT = Case(
    "a weight's gradient over micro-batches of block shares",
    "x: f32[12, 4]\ng: f32[12, 5]\ny = relu(mm(t(x), g))\nreturn y",
    "x: f32[6, 4]\ng: f32[6, 5]\n"
    f"a = {gathered('x', 0, 3)}\nb = {gathered('g', 0, 3)}\nc = {gathered('x', 3, 6)}\nd = {gathered('g', 3, 6)}\n"
    "y = relu(add.Tensor(mm(t(a), b), mm(t(c), d)))\nreturn y",
)
UNEVEN = Case(
    "micro-batches of two rows and of one, over three ranks",
    "x: f32[9, 4]\ng: f32[9, 5]\ny = relu(mm(t(x), g))\nreturn y",
    "x: f32[3, 4]\ng: f32[3, 5]\n"
    f"a = {gathered('x', 0, 2, 3)}\nb = {gathered('g', 0, 2, 3)}\n"
    f"c = {gathered('x', 2, 3, 3)}\nd = {gathered('g', 2, 3, 3)}\n"
    "y = relu(add.Tensor(mm(t(a), b), mm(t(c), d)))\nreturn y",
    ranks=3,
)
# A rank contracts its own columns of what all ranks have, and the ranks add up.
SHARED = Case(
    "and the sums of both are cut and added up over the ranks",
    "x: f32[8, 4]\ny = relu(sum.dim_IntList(x, [0]))\nreturn y",
    "x: f32[4, 4]\n"
    f"a = {gathered('x', 0, 2)}\nb = {gathered('x', 2, 4)}\n"
    "p = sum.dim_IntList(a, [0]) if rank == 0 else sum.dim_IntList(b, [0])\n"
    'y = relu(all_reduce(p, "sum", "g"))\nreturn y',
)
LARGEST = Case(
    "the maximum over micro-batches",
    "x: f32[8, 4]\ny = relu(amax(x, [0], False))\nreturn y",
    "x: f32[4, 4]\n"
    f"a = amax({gathered('x', 0, 2)}, [0], False)\nb = amax({gathered('x', 2, 4)}, [0], False)\n"
    'y = relu(all_reduce(a if rank == 0 else b, "max", "g"))\nreturn y',
)
TURNED = {"x": [row(r, "x", seq_box=[[6 - 6 * r, 12 - 6 * r], [0, 4]]) for r in range(2)]}
AGAIN = {"x": [row(r, "x", seq_box=[[0, 6], [0, 4]]) for r in range(2)]}


@table(
    GRADIENT,
    GRADIENT.miss("the first one twice", "c = " + gathered("x", 3, 6), "c = " + gathered("x", 0, 3),
                  dist=GRADIENT.dist.replace("3, 6)", "0, 3)")),
    GRADIENT.miss("rows of the one with those of the other", "add.Tensor(mm(t(a), b), mm(t(c), d))", "add.Tensor(mm(t(a), d), mm(t(c), b))"),
    GRADIENT.miss("one is left out", "add.Tensor(mm(t(a), b), mm(t(c), d))", "mm(t(a), b)"),
    GRADIENT.miss("the mean", "relu(add.Tensor(mm(t(a), b), mm(t(c), d)))", "relu(mul.Tensor(add.Tensor(mm(t(a), b), mm(t(c), d)), 0.5))"),
    GRADIENT.miss("they meet in one row", "slice(x, 0, 3, 6)", "slice(x, 0, 2, 5)", dist=GRADIENT.dist.replace("3, 6)", "2, 5)")),
    GRADIENT.miss("not linear before they are added up", "relu(add.Tensor(mm(t(a), b), mm(t(c), d)))", "add.Tensor(relu(mm(t(a), b)), relu(mm(t(c), d)))"),
    GRADIENT.miss("a rank's own micro-batch", "b = " + gathered("g", 0, 3), "b = cat([slice(g, 0, 0, 3), slice(g, 0, 0, 3)], 0)"),
    GRADIENT.but("one operand in another order", relate=TURNED),
    GRADIENT.but("both have the same share of one", relate=AGAIN),
    UNEVEN,
    UNEVEN.miss("a row too many", "slice(x, 0, 2, 3)", "slice(x, 0, 1, 2)", dist=UNEVEN.dist.replace("0, 2, 3)", "0, 1, 2)")),
    UNEVEN.miss("one row twice", "slice(x, 0, 0, 2)", "slice(x, 0, 1, 3)", dist=UNEVEN.dist.replace("0, 0, 2)", "0, 1, 3)")),
    SHARED,
    SHARED.miss("both add up the first", "else sum.dim_IntList(b, [0])", "else sum.dim_IntList(a, [0])"),
    SHARED.miss("not added up", 'all_reduce(p, "sum", "g")', "p"),
    LARGEST,
    LARGEST.miss("of the first alone", "a if rank == 0 else b", "a"),
    LARGEST.miss("the sum of maxima", '"max"', '"sum"'),
)  # fmt: skip
def test_same_range_of_every_block(case: Case, outcomes: Outcomes) -> None:
    check(case, outcomes(case))
