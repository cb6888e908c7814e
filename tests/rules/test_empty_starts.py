"""Running maxima that begin with -inf, and numerators that begin with 0."""

from __future__ import annotations

from .build import Case, check, table
from .conftest import Outcomes
from .test_softmax import ATTENTION, BLOCKS

ONLINE = Case(
    "a running maximum that begins with -inf",
    ATTENTION,
    BLOCKS
    + """
m: f32[4, 1] = full([4, 1], -inf)
a: f32[4, 2] = full([4, 2], 0.0)
b: f32[4, 1] = full([4, 1], 0.0)
m0: f32[4, 1] = maximum(m, amax(s0, [1], True))
p0 = exp(sub.Tensor(s0, m0))
c0 = exp(sub.Tensor(m, m0))
a0 = add.Tensor(mul.Tensor(a, c0), mm(p0, v0))
b0 = add.Tensor(mul.Tensor(b, c0), sum.dim_IntList(p0, [1], True))
m1 = maximum(m0, amax(s1, [1], True))
p1 = exp(sub.Tensor(s1, m1))
c1 = exp(sub.Tensor(m0, m1))
a1 = add.Tensor(mul.Tensor(a0, c1), mm(p1, v1))
b1 = add.Tensor(mul.Tensor(b0, c1), sum.dim_IntList(p1, [1], True))
y = div.Tensor(a1, b1)
return y
""",
)


@table(
    ONLINE,
    ONLINE.miss("begins with 1", "full([4, 2], 0.0)", "full([4, 2], 1.0)", maps=None),
    ONLINE.miss("a denominator that begins with 1 and a maximum with 0", "b: f32[4, 1] = full([4, 1], 0.0)",
                "b: f32[4, 1] = full([4, 1], 1.0)", dist=ONLINE.dist.replace("-inf", "0.0").replace(
                    "b: f32[4, 1] = full([4, 1], 0.0)", "b: f32[4, 1] = full([4, 1], 1.0)")),
    ONLINE.miss("a numerator that begins with 1 and a maximum with 0", "-inf", "0.0",
                dist=ONLINE.dist.replace("-inf", "0.0").replace("full([4, 2], 0.0)", "full([4, 2], 1.0)")),
    ONLINE.miss("a minimum", "maximum(m, amax", "minimum(m, amax"),
    ONLINE.miss("begins with inf", "-inf", "inf"),
    ONLINE.miss("not rescaled", "mul.Tensor(a0, c1)", "a0"),
)  # fmt: skip
def test_empty_starts(case: Case, outcomes: Outcomes) -> None:
    """Exponentials of -inf are 0, and -inf is no maximum."""
    check(case, outcomes(case))
