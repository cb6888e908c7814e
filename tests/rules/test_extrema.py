"""Extrema of what is put together, and the logarithm of sums of exponentials that ranks gather."""

from __future__ import annotations

from .build import Case, check, table
from .conftest import Outcomes

NORM = Case(
    "the largest gradient of all parameters",
    """
    a: f32[8, 4]
    b: f32[4]
    m: f32[()] = max.default(abs(a))
    n: f32[()] = max.default(abs(b))
    s: f32[2] = stack([m, n])
    y: f32[()] = max.default(s)
    return y
    """,
    """
    a: f32[4, 4]
    b: f32[4]
    m: f32[()] = max.default(abs(a))
    n: f32[()] = max.default(abs(b))
    s: f32[2] = stack([m, n])
    mine: f32[()] = max.default(s)
    y: f32[()] = all_reduce(mine, "max", "g")
    return y
    """,
)
LEAST = NORM.but(
    "the smallest one",
    seq=NORM.seq.replace("max.default", "min.default"),
    dist=NORM.dist.replace("max.default", "min.default").replace('"max"', '"min"'),
    maps=None,
)
NEGATED = NORM.but(  # is the smallest of the ranks
    "the largest one, negated before the ranks are",
    dist=NORM.dist.replace("all_reduce(mine,", "all_reduce(neg(mine),"),
)
SEQ = """
x: f32[3, 8]
y: f32[3] = logsumexp(x, [1])
return y
"""
DIST = """
x: f32[3, 4]
mine: f32[3] = logsumexp(x, [1])
all: f32[6] = all_gather_into_tensor(mine, 2, "g")
a: f32[3] = slice(all, 0, 0, 3)
b: f32[3] = slice(all, 0, 3, 6)
s: f32[2, 3] = stack([a, b])
y: f32[3] = logsumexp(s, [0])
return y
"""
MERGED = Case("logarithms of sums of exponentials that are gathered", SEQ, DIST)


@table(
    NORM,
    NORM.miss("not of all ranks", 'all_reduce(mine, "max", "g")', "clone(mine)"),
    NORM.miss("added up over the ranks", '"max"', '"sum"'),
    NORM.miss("the smallest of the ranks", '"max"', '"min"'),
    NORM.miss("of one parameter alone", "max.default(s)", "max.default(m)"),
    NORM.miss("the sum of both", "max.default(s)", "sum.default(s)"),
    NORM.miss("twice as large", "max.default(abs(b))", "max.default(add.Tensor(abs(b), abs(b)))"),
    NORM.miss("without the absolute value", "max.default(abs(a))", "max.default(a)"),
    NORM.miss("one of both is the smallest", "max.default(abs(b))", "min.default(abs(b))"),
    NORM.miss("half of it", "all_reduce(mine", "all_reduce(div.Tensor(mine, 2)"),
    LEAST,
    LEAST.miss("the largest of the ranks", '"min"', '"max"'),
    NEGATED,
    NEGATED.miss("and added up", '"max"', '"sum"'),
    MERGED,
    MERGED.miss("one of them twice", "[a, b]", "[a, a]"),
    MERGED.miss("the largest of them", "logsumexp(s, [0])", "amax(s, [0])"),
    MERGED.miss("added up", "logsumexp(s, [0])", "sum.dim_IntList(s, [0])"),
    MERGED.miss("one of them scaled", "stack([a, b])", "stack([a, mul.Tensor(b, 2)])"),
    MERGED.miss("sums of exponentials, not their logarithms", "logsumexp(x, [1])", "sum.dim_IntList(exp(x), [1])"),
    MERGED.miss("shifted by 1", "slice(all, 0, 3, 6)", "add.Tensor(slice(all, 0, 3, 6), 1)"),
)  # fmt: skip
def test_extrema(case: Case, outcomes: Outcomes) -> None:
    check(case, outcomes(case))
