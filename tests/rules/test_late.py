"""Tensors that are divided by a number that depends on data, late on the ranks (``extract/late.py``)."""

from __future__ import annotations

from .build import Case, check, table
from .conftest import Outcomes

SEQ = """
x: f32[8, 4]
a: f32[8, 4]
k: f32[8]
n: f32[()] = sum.default(k)
one: f32[()] = const(1.0)
i: f32[()] = div.Tensor(one, n)
g: f32[8] = mul.Tensor(expand(i, [8]), k)
h: f32[8, 4] = mul.Tensor(unsqueeze(g, 1), a)
s: f32[8, 4] = sigmoid_backward(h, x)
w: f32[4, 4] = mm(t(s), x)
return w
"""
DIST = """
x: f32[4, 4]
a: f32[4, 4]
k: f32[4]
mine: f32[()] = sum.default(k)
n: f32[()] = all_reduce(mine, "sum", "g")
h: f32[4, 4] = mul.Tensor(unsqueeze(k, 1), a)
s: f32[4, 4] = sigmoid_backward(h, x)
w: f32[4, 4] = all_reduce(mm(t(s), x), "sum", "g")
y: f32[4, 4] = div.Tensor(w, n)
return y
"""
GRADIENT = Case("a gradient, divided when it is complete", SEQ, DIST)
INVERSE = GRADIENT.but(
    "multiplied with 1 / n",
    dist=DIST.replace("div.Tensor(w, n)", "mul.Tensor(w, i)").replace(
        "y:", "i: f32[()] = reciprocal(n)\ny:"
    ),
    maps=None,
)
BEFORE = GRADIENT.but(
    "each part divided before it is added up",
    dist=DIST.replace("mm(t(s), x)", "v")
    .replace("w: f32", "u: f32[4, 4] = mm(t(s), x)\nv: f32[4, 4] = div.Tensor(u, n)\nw: f32")
    .replace("div.Tensor(w, n)", "clone(w)"),
    maps=None,
)
RESIDUAL = Case(
    "a sum of what was divided, a slice and a sum of that",
    SEQ.replace(
        "w: f32[4, 4] = mm(t(s), x)",
        "r: f32[8, 4] = add.Tensor(s, h)\nw: f32[2] = sum.dim_IntList(slice(r, 1, 0, 2), [0])",
    ),
    DIST.replace("mm(t(s), x)", "u")
    .replace(
        "w: f32[4, 4]",
        "r: f32[4, 4] = add.Tensor(s, h)\nu: f32[2] = sum.dim_IntList(slice(r, 1, 0, 2), [0])\nw: f32[2]",
    )
    .replace("y: f32[4, 4]", "y: f32[2]"),
)
CUT_OFF = RESIDUAL.but(
    "added up as integers",
    seq=RESIDUAL.seq.replace("w: f32[2]", "v: i64[2]").replace(
        ", [0])\n", ", [0], dtype='int64')\nw: f32[2] = _to_copy(v, dtype='float32')\n"
    ),
    dist=RESIDUAL.dist.replace("u: f32[2]", "v: i64[2]").replace(
        ", [0])\n", ", [0], dtype='int64')\nu: f32[2] = _to_copy(v, dtype='float32')\n"
    ),
)
LOSS = """
x: f32[{n}, 4]
z: f32[{n}, 5]
t: i64[{n}]
l = nll_loss_forward(z, t, None, {kind}, -100)
one: f32[()] = const(1.0)
h: f32[{n}, 5] = nll_loss_backward(one, z, t, None, {kind}, -100, l[1])
"""
MEAN = Case(
    "the gradient of a mean over targets, divided by their number in the end",
    LOSS.format(n=8, kind=1) + "w: f32[5, 4] = mm(t(h), x)\nreturn w",
    LOSS.format(n=4, kind=2) + "k: b[4] = ne.Scalar(t, -100)\nmine: i64[()] = sum.default(k)\n"
    'n: i64[()] = all_reduce(mine, "sum", "g")\nw: f32[5, 4] = all_reduce(mm(t(h), x), "sum", "g")\n'
    "y: f32[5, 4] = div.Tensor(w, n)\nreturn y",
)


def other(title: str, seq: str, dist: str) -> Case:
    """The same, with something else than a derivative in the middle of both."""
    texts = SEQ.replace("sigmoid_backward(h, x)", seq), DIST.replace("sigmoid_backward(h, x)", dist)
    return GRADIENT.but(title, seq=texts[0], dist=texts[1])


@table(
    GRADIENT,
    GRADIENT.miss("by the number of the rank", "div.Tensor(w, n)", "div.Tensor(w, mine)"),
    GRADIENT.miss("not divided", "div.Tensor(w, n)", "clone(w)"),
    GRADIENT.miss("divided twice", "div.Tensor(w, n)", "div.Tensor(div.Tensor(w, n), n)"),
    GRADIENT.miss("multiplied", "div.Tensor(w, n)", "mul.Tensor(w, n)"),
    GRADIENT.miss("divided early as well", "mul.Tensor(unsqueeze(k, 1), a)", "div.Tensor(mul.Tensor(unsqueeze(k, 1), a), n)"),
    GRADIENT.miss("the mean of the ranks", 'mm(t(s), x), "sum", "g")', 'mm(t(s), x), "avg", "g")'),
    GRADIENT.miss("the number averaged", 'all_reduce(mine, "sum", "g")', 'all_reduce(mine, "avg", "g")'),
    GRADIENT.miss("another number", "div.Tensor(w, n)", "div.Tensor(w, add.Tensor(n, 1))"),
    GRADIENT.miss("divided by what is no sum of these", "sum.default(k)", "sum.default(a)"),
    INVERSE,
    INVERSE.miss("1 / n twice", "mul.Tensor(w, i)", "mul.Tensor(w, square(i))"),
    INVERSE.miss("1 / n of the rank", "reciprocal(n)", "reciprocal(mine)"),
    BEFORE,
    BEFORE.miss("by the number of each rank", "div.Tensor(u, n)", "div.Tensor(u, mine)"),
    RESIDUAL,
    RESIDUAL.miss("one term is divided as well", "add.Tensor(s, h)", "add.Tensor(s, div.Tensor(h, n))"),
    RESIDUAL.miss("one term is not of them", "add.Tensor(s, h)", "add.Tensor(s, a)"),
    RESIDUAL.miss("one counts twice", "add.Tensor(s, h)", "add.Tensor(s, h, alpha=2)"),
    CUT_OFF,
    MEAN,
    MEAN.miss("by the number of the rank", "div.Tensor(w, n)", "div.Tensor(w, mine)"),
    MEAN.miss("not divided", "div.Tensor(w, n)", "clone(w)"),
    MEAN.miss("by all positions", "div.Tensor(w, n)", "div.Tensor(w, 8)"),
    MEAN.miss("another class counts", "ne.Scalar(t, -100)", "ne.Scalar(t, -1)"),
    MEAN.miss("another class is ignored", "t, None, 2, -100, l[1])", "t, None, 2, -1, l[1])"),
    MEAN.miss("a mean before", "t, None, 2, -100, l[1])", "t, None, 1, -100, l[1])"),
    other("a function that is not linear", "tanh(h)", "tanh(h)"),
    other("what is divided is no gradient", "sigmoid_backward(x, h)", "sigmoid_backward(x, h)"),
    other("both factors are divided", "mul.Tensor(h, h)", "mul.Tensor(h, h)"),
    other("only one term is divided", "add.Tensor(h, x)", "add.Tensor(h, x)"),
    other("a number is added", "add.Tensor(h, 1)", "add.Tensor(h, 1)"),
    other("it is rounded", 'div.Tensor_mode(h, x, rounding_mode="floor")', 'div.Tensor_mode(h, x, rounding_mode="floor")'),
    other("it is cut off", 'div.Tensor_mode(h, x, rounding_mode="trunc")', 'div.Tensor_mode(h, x, rounding_mode="trunc")'),
    other("it divides", "div.Tensor(x, h)", "div.Tensor(x, h)"),
)  # fmt: skip
def test_late(case: Case, outcomes: Outcomes) -> None:
    check(case, outcomes(case))
