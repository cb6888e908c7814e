"""Products over what is put together (``extract/memberwise.py``): each member may be an open sum of its
own, and one reduction closes them all. The last table is of sums within sums (``extract/flatten.py``)."""

from __future__ import annotations

from .build import Case, check, row, table
from .conftest import Outcomes

# x and z are cut along what is contracted first: each rank has parts of both members.
PROJECTED = Case(
    "two open sums side by side, projected, then added up",
    "x: f32[4, 8]\nz: f32[4, 12]\nu: f32[8, 6]\nv: f32[12, 10]\nw: f32[16, 5]\n"
    "y = relu(mm(cat([mm(x, u), mm(z, v)], 1), w))\nreturn y",
    "x: f32[4, 4]\nz: f32[4, 6]\nu: f32[4, 6]\nv: f32[6, 10]\nw: f32[16, 5]\n"
    'y = relu(all_reduce(mm(cat([mm(x, u), mm(z, v)], 1), w), "sum", "g"))\nreturn y',
)
THREE = Case(
    "three members over three ranks, two of them alike",
    "x: f32[4, 9]\nu: f32[9, 6]\nv: f32[9, 2]\nz: f32[4, 3]\nt: f32[3, 2]\nw: f32[10, 5]\n"
    "y = relu(mm(cat([mm(x, u), mm(x, v), mm(z, t)], 1), w))\nreturn y",
    "x: f32[4, 3]\nu: f32[3, 6]\nv: f32[3, 2]\nz: f32[4, 1]\nt: f32[1, 2]\nw: f32[10, 5]\n"
    "c = cat([mm(x, u), mm(x, v), mm(z, t)], 1)\n"
    'y = relu(all_reduce(mm(c, w), "sum", "g"))\nreturn y',
    ranks=3,
)
# The second member is whole on every rank; a rank adds its share of it.
WHOLE = Case(
    "an open sum beside a share of something whole",
    "x: f32[4, 8]\nu: f32[8, 6]\nb: f32[4, 10]\nw: f32[16, 5]\ny = relu(mm(cat([mm(x, u), b], 1), w))\nreturn y",
    "x: f32[4, 4]\nu: f32[4, 6]\nb: f32[4, 10]\nw: f32[16, 5]\n"
    'y = relu(all_reduce(mm(cat([mm(x, u), div.Tensor(b, 2)], 1), w), "sum", "g"))\nreturn y',
)
HEADS = Case(
    "open sums of heads, put together as heads and projected",
    "x: f32[4, 8]\nz: f32[4, 4]\nu: f32[8, 6]\nv: f32[4, 9]\nw: f32[15, 5]\n"
    "h = view(mm(x, u), [4, 2, 3])\nk = view(mm(z, v), [4, 3, 3])\n"
    "y = relu(mm(view(cat([h, k], 1), [4, 15]), w))\nreturn y",
    "x: f32[4, 4]\nz: f32[4, 2]\nu: f32[4, 6]\nv: f32[2, 9]\nw: f32[15, 5]\n"
    "h = view(mm(x, u), [4, 2, 3])\nk = view(mm(z, v), [4, 3, 3])\n"
    'y = relu(all_reduce(mm(view(cat([h, k], 1), [4, 15]), w), "sum", "g"))\nreturn y',
)
INNER = Case(
    "parts of every head put together behind each other and projected",
    "x: f32[4, 8]\nz: f32[4, 4]\nu: f32[8, 6]\nv: f32[4, 4]\nw: f32[10, 5]\n"
    "h = view(mm(x, u), [4, 2, 3])\nk = view(mm(z, v), [4, 2, 2])\n"
    "y = relu(mm(view(cat([h, k], 2), [4, 10]), w))\nreturn y",
    "x: f32[4, 4]\nz: f32[4, 2]\nu: f32[4, 6]\nv: f32[2, 4]\nw: f32[10, 5]\n"
    "h = view(mm(x, u), [4, 2, 3])\nk = view(mm(z, v), [4, 2, 2])\n"
    'y = relu(all_reduce(mm(view(cat([h, k], 2), [4, 10]), w), "sum", "g"))\nreturn y',
)
# The sequential program has a projection of its own for each.
FUSED = Case(
    "fused on the ranks alone",
    "x: f32[4, 8]\nz: f32[4, 12]\nu: f32[8, 6]\nv: f32[12, 10]\nw: f32[6, 5]\nt: f32[10, 5]\n"
    "y = relu(add.Tensor(mm(mm(x, u), w), mm(mm(z, v), t)))\nreturn y",
    "x: f32[4, 4]\nz: f32[4, 6]\nu: f32[4, 6]\nv: f32[6, 10]\nw: f32[6, 5]\nt: f32[10, 5]\n"
    'c = mm(cat([mm(x, u), mm(z, v)], 1), cat([w, t], 0))\ny = relu(all_reduce(c, "sum", "g"))\nreturn y',
)
ROWS = Case(
    "members of which one meets rows of 0",
    "x: f32[4, 8]\nz: f32[4, 8]\nw: f32[3, 5]\no: f32[13, 5] = zeros([13, 5])\n"
    "y = relu(mm(cat([x, z], 1), cat([o, w], 0)))\nreturn y",
    "x: f32[2, 8]\nz: f32[2, 8]\nw: f32[3, 5]\no: f32[13, 5] = zeros([13, 5])\n"
    "y = relu(mm(cat([x, z], 1), cat([o, w], 0)))\nreturn y",
)
SHARES = Case(
    "the rows of the sum, a share each",
    PROJECTED.seq,
    PROJECTED.dist.replace("all_reduce(", "reduce_scatter_tensor(").replace(
        '"sum", "g"', '"sum", 2, "g"'
    ),
)


@table(
    PROJECTED,
    PROJECTED.miss("not added up", 'all_reduce(mm(cat([mm(x, u), mm(z, v)], 1), w), "sum", "g")',
                   "mm(cat([mm(x, u), mm(z, v)], 1), w)"),
    PROJECTED.miss("the mean", '"sum"', '"avg"'),
    PROJECTED.miss("added up after what is not linear", 'relu(all_reduce(mm(cat([mm(x, u), mm(z, v)], 1), w), "sum", "g"))',
                   'all_reduce(relu(mm(cat([mm(x, u), mm(z, v)], 1), w)), "sum", "g")'),
    PROJECTED.miss("not linear before the projection", "cat([mm(x, u), mm(z, v)], 1)", "relu(cat([mm(x, u), mm(z, v)], 1))"),
    PROJECTED.miss("members exchanged", "cat([mm(x, u), mm(z, v)], 1)", "cat([mm(z, v), mm(x, u)], 1)"),
    PROJECTED.miss("one of them twice as much", "mm(z, v)]", "mul.Tensor(mm(z, v), 2)]"),
    PROJECTED.miss("one of them added up before as well", "mm(z, v)]", 'all_reduce(mm(z, v), "sum", "g")]'),
    PROJECTED.but("both have the same part of one", relate={
        "z": [row(r, "z", seq_box=[[0, 4], [0, 6]]) for r in range(2)],
        "v": [row(r, "v", seq_box=[[0, 6], [0, 10]]) for r in range(2)]}),
    PROJECTED.but("the parts of one do not meet", relate={
        "v": [row(r, "v", seq_box=[[6 - 6 * r, 12 - 6 * r], [0, 10]]) for r in range(2)]}),
    PROJECTED.but("the parts of one exchanged", maps=None, relate={
        "z": [row(r, "z", seq_box=[[0, 4], [6 - 6 * r, 12 - 6 * r]]) for r in range(2)],
        "v": [row(r, "v", seq_box=[[6 - 6 * r, 12 - 6 * r], [0, 10]]) for r in range(2)]}),
    THREE,
    THREE.miss("the last one by the rows of another", "cat([mm(x, u), mm(x, v), mm(z, t)], 1)", "cat([mm(x, u), mm(z, t), mm(x, v)], 1)"),
    THREE.miss("a member twice", "mm(z, t)]", "mm(x, v)]"),
    WHOLE,
    WHOLE.miss("all of it on every rank", "div.Tensor(b, 2)", "b"),
    WHOLE.miss("a third of it", "div.Tensor(b, 2)", "div.Tensor(b, 3)"),
    HEADS,
    HEADS.miss("heads exchanged", "cat([h, k], 1)", "cat([k, h], 1)"),
    HEADS.miss("behind each other in every head", "view(cat([h, k], 1), [4, 15])",
               "view(permute(cat([h, k], 1), [0, 2, 1]), [4, 15])"),
    INNER,
    INNER.miss("heads behind each other", "view(cat([h, k], 2), [4, 10])", "cat([mm(x, u), mm(z, v)], 1)"),
    FUSED,
    FUSED.miss("weights exchanged", "cat([w, t], 0)", "cat([slice(t, 0, 0, 6), w, slice(t, 0, 6, 10)], 0)"),
    FUSED.miss("one weight doubled", "cat([w, t], 0)", "cat([w, mul.Tensor(t, 2)], 0)"),
    ROWS,
    ROWS.miss("members exchanged", "cat([x, z], 1)", "cat([z, x], 1)"),
    SHARES,
    SHARES.but("shares exchanged", groups={"g": [[1, 0]]}),
)  # fmt: skip
def test_products(case: Case, outcomes: Outcomes) -> None:
    check(case, outcomes(case))


# ---- sums within sums ------------------------------------------------------------------------------
RESIDUAL = Case(
    "three open sums added up on the ranks, to which the residual comes",
    "x: f32[4, 8]\nr: f32[4, 5]\nu: f32[8, 5]\nv: f32[8, 5]\nw: f32[8, 5]\n"
    "y = add.Tensor(r, add.Tensor(add.Tensor(mm(x, u), mm(x, v)), mm(x, w)))\nz = relu(y)\nreturn z",
    "x: f32[4, 4]\nr: f32[4, 5]\nu: f32[4, 5]\nv: f32[4, 5]\nw: f32[4, 5]\n"
    's = all_reduce(add.Tensor(add.Tensor(mm(x, u), mm(x, v)), mm(x, w)), "sum", "g")\nz = relu(add.Tensor(r, s))\nreturn z',
)


@table(
    RESIDUAL,
    RESIDUAL.miss("the residual is added up as well", 's = all_reduce(add.Tensor(', 's = all_reduce(add.Tensor(r, add.Tensor(',
                  dist=RESIDUAL.dist.replace('mm(x, w)), "sum"', 'mm(x, w))), "sum"').replace("all_reduce(add", "all_reduce(add.Tensor(r, add").replace("add.Tensor(r, s)", "s")),
    RESIDUAL.miss("a term is left out", "mm(x, w)), \"sum\"", "mm(x, v)), \"sum\""),
    RESIDUAL.miss("the residual comes twice", "add.Tensor(r, s)", "add.Tensor(r, add.Tensor(r, s))"),
)  # fmt: skip
def test_sums_within(case: Case, outcomes: Outcomes) -> None:
    check(case, outcomes(case))
