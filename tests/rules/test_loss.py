"""Gradients of slices, and losses over classes with their gradients."""

from __future__ import annotations

from .build import Case, check, row, table
from .conftest import Outcomes

HALVES = Case(
    "gradients of two halves are one after the other",
    "a: f32[6, 4]\nb: f32[6, 4]\nw: f32[8, 3]\ng = cat([a, b], 1)\ny = mm(relu(g), w)\nreturn y",
    "a: f32[3, 4]\nb: f32[3, 4]\nw: f32[8, 3]\n"
    "p: f32[3, 8] = slice_backward(b, [3, 8], 1, 4, 8, 1)\n"
    "q: f32[3, 8] = slice_backward(a, [3, 8], 1, 0, 4, 1)\n"
    "y = mm(relu(add.Tensor(p, q)), w)\nreturn y",
)
ALONE = Case(
    "the gradient of one slice",
    "a: f32[6, 4]\ny: f32[6, 8] = slice_backward(a, [6, 8], 1, 2, 6, 1)\nreturn y",
    "a: f32[3, 4]\ny: f32[3, 8] = slice_backward(a, [3, 8], 1, 2, 6, 1)\nreturn y",
)
SELECTED = Case(
    "gradients of rows, selected one by one",
    "a: f32[6]\nb: f32[6]\ny = relu(stack([a, b], 1))\nreturn y",
    "a: f32[3]\nb: f32[3]\np: f32[3, 2] = select_backward(a, [3, 2], 1, 0)\n"
    "q: f32[3, 2] = select_backward(b, [3, 2], 1, 1)\ny = relu(add.Tensor(p, q))\nreturn y",
)
NLL = """
x: f32[{n}, 5]
t: i64[{n}]
p = log_softmax(x, 1)
l = nll_loss_forward(p, t, None, {kind}, -100)
"""
MEAN = Case(
    "a mean over tokens that are not ignored",
    NLL.format(n=8, kind=1) + "y = clone(l[0])\nreturn y",
    NLL.format(n=4, kind=2)
    + 's = all_reduce(l[0], "sum", "g")\nc = all_reduce(l[1], "sum", "g")\n'
    + "y = div.Tensor(s, c)\nreturn y",
)
EACH = Case(
    "a loss per token",
    NLL.format(n=8, kind=0) + "y = clone(l[0])\nreturn y",
    NLL.format(n=4, kind=0) + "y = clone(l[0])\nreturn y",
)
BACK = """
x: f32[{n}, 5]
t: i64[{n}]
g: f32[()]
w: f32[()]
dx: f32[{n}, 5] = nll_loss_backward(g, x, t, None, {kind}, -100, w)
y = clone(dx)
return y
"""
GRADIENT = Case("the gradient of a loss", BACK.format(n=8, kind=1), BACK.format(n=4, kind=1))
SUMMED = Case("the gradient of a summed loss", BACK.format(n=8, kind=2), BACK.format(n=4, kind=2))
ADDED = Case(
    "rows added at an index",
    "x: f32[6, 4]\ni: i64[8]\ns: f32[8, 4]\ny = index_add(x, 0, i, s)\nreturn y",
    "x: f32[6, 4]\ni: i64[4]\ns: f32[4, 4]\nz: f32[6, 4] = zeros([6, 4])\n"
    'd = all_reduce(index_add(z, 0, i, s), "sum", "g")\ny = add.Tensor(x, d)\nreturn y',
)
PUT = Case(
    "a column put over another",
    "x: f32[6, 4]\nv: f32[6]\ny = relu(select_scatter(x, v, 1, 2))\nreturn y",
    "x: f32[3, 4]\nv: f32[3]\ny = relu(select_scatter(x, v, 1, 2))\nreturn y",
)
SQUARES = Case(
    "the gradient of a squared error",
    "g: f32[()]\nx: f32[8, 4]\nt: f32[8, 4]\ny = mse_loss_backward(g, x, t, 1)\nreturn y",
    "g: f32[()]\nx: f32[4, 4]\nt: f32[4, 4]\n"
    "y = div.Tensor(mse_loss_backward(g, x, t, 1), 2)\nreturn y",
)

WIDENED = Case(
    "a squared error of one number and all targets",
    "g: f32[()]\nx: f32[()]\nt: f32[6]\ny = mse_loss_backward(g, expand(x, [6]), t, 1)\nreturn y",
    "g: f32[()]\nx: f32[()]\nt: f32[6]\ny = mse_loss_backward(g, expand(x, [6]), t, 1)\nreturn y",
)
MORE_ROWS = Case(
    "a gradient of the first rows of a table",
    "g: f32[4, 3]\ni: i64[4]\ny = embedding_dense_backward(g, i, 8, -1, False)\nreturn y",
    "g: f32[4, 3]\ni: i64[4]\n"
    "y = embedding_dense_backward(g, i, 6 if rank == 0 else 8, -1, False)\n"
    "z = slice(y, 0, 0, 6) if rank == 0 else slice(y, 0, 6, 8)\nreturn z",
)
# The target of a row is its place, as in a contrastive loss.
PLACED = """
x: f32[{n}, 8]
t: i64[{n}] = arange.start({at}, {at} + {n})
p = log_softmax(x, 1)
"""
CONTRASTIVE = Case(
    "positions are the targets",
    PLACED.format(n=8, at=0)
    + "l = nll_loss_forward(p, t, None, 1, -100)\ny = clone(l[0])\nreturn y",
    PLACED.format(n=4, at="4 * rank")
    + "l = nll_loss_forward(p, t, None, 2, -100)\n"
    + 'y = div.Tensor(all_reduce(l[0], "sum", "g"), 8)\nreturn y',
)


@table(
    CONTRASTIVE,
    CONTRASTIVE.miss("places of the other rank", "4 * rank", "4 - 4 * rank"),
    CONTRASTIVE.miss("places of the first rank", "4 * rank", "0"),
    CONTRASTIVE.miss("one of the places is ignored", "2, -100", "2, 3"),
    CONTRASTIVE.miss("divided by the own number", "8)\nreturn", "4)\nreturn"),
    MORE_ROWS,
    MORE_ROWS.but(  # no id gets there, so that the first ones are those of the table
        "more rows than there are",
        dist=MORE_ROWS.dist.replace("6 if rank == 0 else 8, -1", "9, -1"),
        maps=None,
    ),
    MORE_ROWS.but(
        "a row that is not there comes back",
        dist=MORE_ROWS.dist.replace("6 if rank == 0 else 8, -1", "9, -1").replace("6, 8", "6, 9"),
    ),
    MORE_ROWS.but(
        "it comes back in place of the last one",
        dist=MORE_ROWS.dist.replace("6 if rank == 0 else 8, -1", "9, -1").replace("6, 8", "7, 9"),
    ),
    HALVES,
    HALVES.miss(
        "exchanged",
        "slice_backward(b, [3, 8], 1, 4, 8, 1)",
        "slice_backward(a, [3, 8], 1, 4, 8, 1)",
    ),
    HALVES.miss("overlapping", "1, 4, 8, 1)", "1, 3, 7, 1)"),
    HALVES.miss("one taken away", "add.Tensor(p, q)", "sub.Tensor(p, q)"),
    ALONE,
    ALONE.miss("another place", "1, 2, 6, 1)", "1, 3, 7, 1)"),
    SELECTED,
    SELECTED.miss(
        "at the same place", "select_backward(b, [3, 2], 1, 1)", "select_backward(b, [3, 2], 1, 0)"
    ),
    MEAN,
    MEAN.miss("a mean of means", 'l[1], "sum"', 'l[1], "avg"'),
    MEAN.miss("means per rank", "y = div.Tensor(s, c)", "y = div.Tensor(div.Tensor(s, l[1]), 2)"),
    MEAN.miss("another ignored class", "-100", "-1"),
    MEAN.miss("not added up", 's = all_reduce(l[0], "sum", "g")', "s = clone(l[0])"),
    MEAN.miss("over all tokens", "y = div.Tensor(s, c)", "y = div.Tensor(s, 8)"),
    EACH,
    EACH.miss(
        "of other targets",
        "t: i64[4]",
        "t: i64[4]",
        relate={"t": [row(r, "t", seq_box=[[4 - 4 * r, 8 - 4 * r]]) for r in (0, 1)]},
    ),
    GRADIENT,
    GRADIENT.miss("another reduction", "None, 1", "None, 2"),
    GRADIENT.miss("another ignored class", "-100", "-1"),
    SUMMED,
    SUMMED.miss("taken away twice", "clone(dx)", "add.Tensor(dx, dx)"),
    ADDED,
    ADDED.miss("added to every rank's", "index_add(z, 0, i, s)", "index_add(x, 0, i, s)"),
    ADDED.miss(
        "not added up", 'all_reduce(index_add(z, 0, i, s), "sum", "g")', "index_add(z, 0, i, s)"
    ),
    PUT,
    PUT.miss("over another column", "v, 1, 2)", "v, 1, 1)"),
    WIDENED,
    WIDENED.miss("a mean over the one number", "g, expand(x, [6])", "g, x"),
    SQUARES,
    SQUARES.miss("a reduction that torch has not", "t, 1)", "t, 4)"),
    SQUARES.miss(
        "a mean of its own",
        "div.Tensor(mse_loss_backward(g, x, t, 1), 2)",
        "mse_loss_backward(g, x, t, 1)",
    ),
    SQUARES.miss(
        "the other way round", "mse_loss_backward(g, x, t, 1)", "mse_loss_backward(g, t, x, 1)"
    ),
)
def test_losses(case: Case, outcomes: Outcomes) -> None:
    check(case, outcomes(case))
