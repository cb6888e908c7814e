"""Norms by their means and variances, which ranks add up in parts (``extract/lower_norms.py``)."""

from __future__ import annotations

from .build import Case, check, table
from .conftest import Outcomes

TRAINED = """
x: f32[8, 4, 3]
w: f32[4]
b: f32[4]
o = native_batch_norm(x, w, b, None, None, True, 0.1, 0.5)
y: f32[8, 4, 3] = o[0]
return y
"""
SYNCED = Case(
    "batch norm with one reduction of sums and squares",
    TRAINED,
    """
x: f32[4, 4, 3]
w: f32[4]
b: f32[4]
s = all_reduce(cat([sum.dim_IntList(x, [0, 2]), sum.dim_IntList(mul.Tensor(x, x), [0, 2])], 0), "sum", "g")
m: f32[4] = div.Tensor(slice.Tensor(s, 0, 0, 4), 24)
v: f32[4] = sub.Tensor(div.Tensor(slice.Tensor(s, 0, 4, 8), 24), mul.Tensor(m, m))
r = rsqrt(add.Tensor(v, 0.5))
n = mul.Tensor(sub.Tensor(x, unsqueeze(m, 1)), unsqueeze(r, 1))
y = add.Tensor(mul.Tensor(n, unsqueeze(w, 1)), unsqueeze(b, 1))
return y
""",
)
TWICE = Case(
    "batch norm with a reduction of means, then of squares",
    TRAINED,
    """
x: f32[4, 4, 3]
w: f32[4]
b: f32[4]
m: f32[4] = div.Tensor(all_reduce(mean.dim(x, [0, 2]), "sum", "g"), 2)
a = sub.Tensor(x, unsqueeze(m, 1))
v: f32[4] = div.Tensor(all_reduce(mean.dim(mul.Tensor(a, a), [0, 2]), "sum", "g"), 2)
n = div.Tensor(a, unsqueeze(sqrt(add.Tensor(v, 0.5)), 1))
y = add.Tensor(mul.Tensor(n, unsqueeze(w, 1)), unsqueeze(b, 1))
return y
""",
)
LAYER = Case(
    "layer norm over features of which a rank has some",
    "x: f32[3, 8]\nw: f32[8]\nb: f32[8]\no = native_layer_norm(x, [8], w, b, 0.5)\ny: f32[3, 8] = o[0]\nreturn y\n",
    """
x: f32[3, 4]
w: f32[4]
b: f32[4]
m: f32[3, 1] = div.Tensor(all_reduce(sum.dim_IntList(x, [1], True), "sum", "g"), 8)
a = sub.Tensor(x, m)
v: f32[3, 1] = div.Tensor(all_reduce(sum.dim_IntList(mul.Tensor(a, a), [1], True), "sum", "g"), 8)
y = add.Tensor(mul.Tensor(mul.Tensor(a, rsqrt(add.Tensor(v, 0.5))), w), b)
return y
""",
)
SPREAD = Case(
    "a variance, and that of the ranks' squares",
    "x: f32[8, 3]\ny: f32[3] = var.correction(x, [0], correction=1)\nreturn y\n",
    """
x: f32[4, 3]
m: f32[3] = div.Tensor(all_reduce(sum.dim_IntList(x, [0]), "sum", "g"), 8)
a = sub.Tensor(x, m)
y = div.Tensor(all_reduce(sum.dim_IntList(mul.Tensor(a, a), [0]), "sum", "g"), 7)
return y
""",
)
BACK = Case(
    "the gradients of batch norm",
    """
x: f32[8, 4, 3]
g: f32[8, 4, 3]
w: f32[4]
o = native_batch_norm(x, w, None, None, None, True, 0.1, 0.5)
m: f32[4] = o[1]
r: f32[4] = o[2]
b = native_batch_norm_backward(g, x, w, None, None, m, r, True, 0.5, [True, True, True])
dx: f32[8, 4, 3] = b[0]
dw: f32[4] = b[1]
db: f32[4] = b[2]
return dx, dw, db
""",
    """
x: f32[4, 4, 3]
g: f32[4, 4, 3]
w: f32[4]
m: f32[4] = div.Tensor(all_reduce(sum.dim_IntList(x, [0, 2]), "sum", "g"), 24)
a = sub.Tensor(x, unsqueeze(m, 1))
v: f32[4] = div.Tensor(all_reduce(sum.dim_IntList(mul.Tensor(a, a), [0, 2]), "sum", "g"), 24)
r: f32[4] = rsqrt(add.Tensor(v, 0.5))
db: f32[4] = all_reduce(sum.dim_IntList(g, [0, 2]), "sum", "g")
t: f32[4] = all_reduce(sum.dim_IntList(mul.Tensor(g, a), [0, 2]), "sum", "g")
dw = mul.Tensor(t, r)
k: f32[4] = mul.Tensor(mul.Tensor(r, r), div.Tensor(t, 24))
c = sub.Tensor(sub.Tensor(g, unsqueeze(div.Tensor(db, 24), 1)), mul.Tensor(a, unsqueeze(k, 1)))
dx = mul.Tensor(mul.Tensor(c, unsqueeze(r, 1)), unsqueeze(w, 1))
return dx, dw, db
""",
)
FIXED = Case(
    "batch norm with statistics that are kept",
    "x: f32[8, 4]\nm: f32[4]\nv: f32[4]\no = native_batch_norm(x, None, None, m, v, False, 0.1, 0.5)\ny: f32[8, 4] = o[0]\nreturn y",
    "x: f32[8, 2]\nm: f32[2]\nv: f32[2]\no = native_batch_norm(x, None, None, m, v, False, 0.1, 0.5)\ny: f32[8, 2] = o[0]\nreturn y",
)


@table(
    SYNCED,
    SYNCED.miss("sums of one rank", 'x), [0, 2])], 0), "sum", "g")', 'x), [0, 2])], 0), "max", "g")'),
    SYNCED.miss("divided by a rank's numbers", "slice.Tensor(s, 0, 0, 4), 24", "slice.Tensor(s, 0, 0, 4), 12"),
    SYNCED.miss("squares divided by a rank's numbers", "slice.Tensor(s, 0, 4, 8), 24", "slice.Tensor(s, 0, 4, 8), 12"),
    SYNCED.miss("the mean is not taken away", ", mul.Tensor(m, m))", ", 0.0)"),
    SYNCED.miss("another epsilon", "add.Tensor(v, 0.5)", "add.Tensor(v, 0.25)"),
    SYNCED.miss("sums for squares", "slice.Tensor(s, 0, 4, 8)", "slice.Tensor(s, 0, 0, 4)"),
    SYNCED.miss("the root itself", "rsqrt(", "sqrt("),
    SYNCED.miss("no bias", "unsqueeze(w, 1)), unsqueeze(b, 1))", "unsqueeze(w, 1)), 0.0)"),
    TWICE,
    TWICE.miss("a mean per rank", 'all_reduce(mean.dim(x, [0, 2]), "sum", "g"), 2', "mean.dim(x, [0, 2]), 1"),
    TWICE.miss("squares of one rank", 'all_reduce(mean.dim(mul.Tensor(a, a), [0, 2]), "sum", "g"), 2',
               "mean.dim(mul.Tensor(a, a), [0, 2]), 1"),
    TWICE.miss("squares of the numbers", "mean.dim(mul.Tensor(a, a)", "mean.dim(mul.Tensor(x, x)"),
    TWICE.miss("not the root", "sqrt(add.Tensor(v, 0.5))", "add.Tensor(v, 0.5)"),
    TWICE.miss("over positions as well", "mean.dim(x, [0, 2])", "mean.dim(x, [0])",
               error="do not add up"),
    LAYER,
    LAYER.miss("statistics of one rank", 'm: f32[3, 1] = div.Tensor(all_reduce(sum.dim_IntList(x, [1], True), "sum", "g"), 8)',
               "m: f32[3, 1] = div.Tensor(sum.dim_IntList(x, [1], True), 4)"),
    LAYER.miss("another epsilon", "add.Tensor(v, 0.5)", "add.Tensor(v, 0.25)"),
    LAYER.miss("an unbiased variance", '"sum", "g"), 8)\ny', '"sum", "g"), 7)\ny'),
    SPREAD,
    SPREAD.miss("another divisor", "), 7)", "), 8)"),
    SPREAD.miss("no correction", "correction=1", "correction=0", side="seq"),
    BACK,
    BACK.miss("a sum per rank", 'all_reduce(sum.dim_IntList(g, [0, 2]), "sum", "g")', "sum.dim_IntList(g, [0, 2])", maps=("dw",)),
    BACK.miss("products per rank", 'all_reduce(sum.dim_IntList(mul.Tensor(g, a), [0, 2]), "sum", "g")',
              "sum.dim_IntList(mul.Tensor(g, a), [0, 2])", maps=("db",)),
    BACK.miss("divided by a rank's numbers", "div.Tensor(t, 24)", "div.Tensor(t, 12)", maps=("dw", "db")),
    BACK.miss("one root too few", "mul.Tensor(mul.Tensor(r, r), div", "mul.Tensor(r, div", maps=("dw", "db")),
    FIXED,
    FIXED.miss("another epsilon", "0.1, 0.5", "0.1, 0.25"),
)  # fmt: skip
def test_norms(case: Case, outcomes: Outcomes) -> None:
    """Means and variances are sums, of which each rank has a part."""
    check(case, outcomes(case))
