"""Optimizer steps on sharded parameters, and the global norm of gradients."""

from __future__ import annotations

from .build import Case, check, table
from .conftest import Outcomes

ADAM = """
p: f32[{n}, 4]
g: f32[{n}, 4]
m: f32[{n}, 4]
v: f32[{n}, 4]
step: f32[()]
t1 = add.Tensor(step, 1)
m1 = lerp.Scalar(m, g, 0.1)
v1 = addcmul(mul.Tensor(v, 0.999), g, g, value=0.001)
c1 = rsub.Scalar(pow.Scalar(0.9, t1), 1)
c2 = sqrt(rsub.Scalar(pow.Scalar(0.999, t1), 1))
den = add.Tensor(div.Tensor(sqrt(v1), c2), 1e-8)
size = div.Tensor(m1, c1)
p1 = addcdiv(mul.Tensor(p, 0.99), size, den, value=-0.001)
return p1, m1, v1
"""
FOREACH = """
p: f32[{n}, 4]
g: f32[{n}, 4]
v: f32[{n}, 4]
w: f32[{k}]
gw: f32[{k}]
vw: f32[{k}]
d = _foreach_mul.Scalar([v, vw], 0.9)
v1 = _foreach_add.List([d[0], d[1]], [g, gw])
p1 = _foreach_add.List([p, w], [v1[0], v1[1]], alpha=-0.1)
a = clone(p1[0])
b = clone(p1[1])
return a, b
"""
DATA_PARALLEL = Case(
    "SGD after the gradient's average",
    "x: f32[8, 4]\nw: f32[4, 4]\nh = mm(t(x), x)\ng = div.Tensor(h, 2)\n"
    "y = add.Tensor(w, g, alpha=-0.1)\nreturn y",
    """
    x: f32[4, 4]
    w: f32[4, 4]
    g = all_reduce(mm(t(x), x), "avg", "g")
    y = add.Tensor(w, g, alpha=-0.1)
    return y
    """,
)
NORM = Case(
    "the global norm: shards added up, a replica counted once",
    """
    a: f32[8, 4]
    b: f32[4]
    n = linalg_vector_norm(stack([linalg_vector_norm(a), linalg_vector_norm(b)]))
    k = clamp(reciprocal(add.Tensor(n, 1e-6)), None, 1.0)
    y = mul.Tensor(a, k)
    return n, y
    """,
    """
    a: f32[4, 4]
    b: f32[4]
    mine = pow.Tensor_Scalar(linalg_vector_norm(a), 2)
    kept = pow.Tensor_Scalar(linalg_vector_norm(b), 2)
    s = add.Tensor(mine, kept) if rank == 0 else clone(mine)
    n = pow.Tensor_Scalar(all_reduce(s, "sum", "g"), 0.5)
    k = clamp(reciprocal(add.Tensor(n, 1e-6)), None, 1.0)
    y = mul.Tensor(a, k)
    return n, y
    """,
)
FOREACH_NORM = Case(
    "the global norm of lists",
    """
    a: f32[8, 4]
    b: f32[6]
    n = _foreach_norm.Scalar([a, b], 2)
    y = linalg_vector_norm(stack([n[0], n[1]]), 2)
    return y
    """,
    """
    a: f32[4, 4]
    b: f32[3]
    n = _foreach_norm.Scalar([a, b], 2)
    s = square(linalg_vector_norm(stack([n[0], n[1]]), 2))
    y = sqrt(all_reduce(s, "sum", "g"))
    return y
    """,
)
RMS = Case(
    "a norm over rows of a shard",
    "x: f32[8, 4]\ny = linalg_vector_norm(x, 2, [1])\nreturn y",
    "x: f32[4, 4]\ny = linalg_vector_norm(x, 2, [1])\nreturn y",
)
SHARDED = Case("Adam on a shard", ADAM.format(n=8), ADAM.format(n=4))
LISTS = Case("SGD with momentum on lists", FOREACH.format(n=8, k=6), FOREACH.format(n=4, k=3))


@table(
    SHARDED,
    SHARDED.miss("another beta", "lerp.Scalar(m, g, 0.1)", "lerp.Scalar(m, g, 0.2)", maps=("v1",)),
    SHARDED.miss("another decay", "mul.Tensor(p, 0.99)", "mul.Tensor(p, 0.98)", maps=("m1", "v1")),
    SHARDED.miss(
        "the step counted twice", "add.Tensor(step, 1)", "add.Tensor(step, 2)", maps=("m1", "v1")
    ),
    SHARDED.miss("another epsilon", "1e-8", "1e-6", maps=("m1", "v1")),
    SHARDED.miss(
        "a gradient twice as large",
        "addcmul(mul.Tensor(v, 0.999), g, g,",
        "addcmul(mul.Tensor(v, 0.999), g, add.Tensor(g, g),",
        maps=("m1",),
    ),
    LISTS,
    LISTS.miss(
        "lists in another order", "[v1[0], v1[1]]", "[v1[0], mul.Tensor(v1[1], 2)]", maps=("a",)
    ),
    LISTS.miss("another rate", "alpha=-0.1", "alpha=-0.2"),
    DATA_PARALLEL,
    DATA_PARALLEL.miss("added up, not averaged", '"avg"', '"sum"'),
    DATA_PARALLEL.miss(
        "not reduced", 'all_reduce(mm(t(x), x), "avg", "g")', "div.Tensor(mm(t(x), x), 2)"
    ),
    NORM,
    NORM.miss(
        "the replica counted on every rank",
        "if rank == 0 else clone(mine)",
        "if rank < 2 else clone(mine)",
    ),
    NORM.miss("not reduced", 'all_reduce(s, "sum", "g")', "clone(s)"),
    NORM.miss(
        "roots added up",
        "mine = pow.Tensor_Scalar(linalg_vector_norm(a), 2)",
        "mine = linalg_vector_norm(a)",
    ),
    NORM.miss(
        "the root forgotten",
        'pow.Tensor_Scalar(all_reduce(s, "sum", "g"), 0.5)',
        'all_reduce(s, "sum", "g")',
    ),
    NORM.miss(
        "the largest instead of the sum", 'all_reduce(s, "sum", "g")', 'all_reduce(s, "max", "g")'
    ),
    FOREACH_NORM,
    FOREACH_NORM.miss(
        "norms added up",
        "s = square(linalg_vector_norm(stack([n[0], n[1]]), 2))",
        "s = linalg_vector_norm(stack([n[0], n[1]]), 2)",
    ),
    FOREACH_NORM.miss("one is forgotten", "stack([n[0], n[1]])", "stack([n[0], n[0]])"),
    RMS,
    RMS.miss(
        "over the other dimension", "linalg_vector_norm(x, 2, [1])", "linalg_vector_norm(x, 2, [0])"
    ),
    RMS.miss("of another order", "linalg_vector_norm(x, 2, [1])", "linalg_vector_norm(x, 1, [1])"),
)
def test_optimizers(case: Case, outcomes: Outcomes) -> None:
    check(case, outcomes(case))
