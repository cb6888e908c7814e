"""Experts that several ids of a token choose, with weights that are 0 for those of other ranks."""

from __future__ import annotations

from .build import Case, check, table
from .conftest import Outcomes

CHOICE = """
x: f32[6, 3]
s: f32[6, 4]
w: f32[{n}, 3, 5]
top = topk(s, 2)
p: f32[6, 2] = top[0]
i: i64[6, 2] = top[1]
"""
PRODUCT = """
m: f32[6, 2, 3, 5] = index(w, [c])
h: f32[6, 3, 2, 5] = permute(m, [0, 2, 1, 3])
f: f32[6, 3, 10] = view(h, [6, 3, 10])
b: f32[6, 1, 10] = bmm(view(x, [6, 1, 3]), f)
e: f32[6, 2, 5] = view(b, [6, 2, 5])
"""
ADDED = "y: f32[6, 5] = sum.dim_IntList(mul.Tensor(e, unsqueeze(q, 2)), [1])\n"
SEQ = CHOICE.format(n=4) + "c: i64[6, 2] = clone(i)\nq: f32[6, 2] = clone(p)\n" + PRODUCT + ADDED
MASKED = """
l: i64[6, 2] = sub.Tensor(i, {low})
a: b[6, 2] = ge.Scalar(l, 0)
u: b[6, 2] = lt.Scalar(l, {n})
k: b[6, 2] = bitwise_and.Tensor(a, u)
c: i64[6, 2] = clamp(l, 0, {top})
z: f32[6, 2] = zeros_like(p)
q: f32[6, 2] = where.self(k, p, z)
"""
REDUCED = 'r: f32[6, 5] = all_reduce(y, "sum", "g")\nreturn r'
RANKS = (
    CHOICE.format(n=2)
    + MASKED.format(low="0 if rank == 0 else 2", n=2, top=1)
    + PRODUCT
    + ADDED
    + REDUCED
)
WEIGHTS = Case("weights of other ranks' experts are 0", SEQ + "return y", RANKS)
SAME = WEIGHTS.but(
    "the sequential program is the same code, with all experts",
    seq=CHOICE.format(n=4) + MASKED.format(low=0, n=4, top=3) + PRODUCT + ADDED + "return y",
    maps=None,
)


@table(
    WEIGHTS,
    WEIGHTS.miss("not masked", "where.self(k, p, z)", "clone(p)"),
    WEIGHTS.miss("only from below", "bitwise_and.Tensor(a, u)", "clone(a)"),
    WEIGHTS.miss("only from above", "bitwise_and.Tensor(a, u)", "clone(u)"),
    WEIGHTS.miss("either of both", "bitwise_and.Tensor(a, u)", "bitwise_or.Tensor(a, u)"),
    WEIGHTS.miss("the others masked", "where.self(k, p, z)", "where.self(k, z, p)"),
    WEIGHTS.miss("off by one", "0 if rank == 0 else 2", "1 if rank == 0 else 3"),
    WEIGHTS.miss("one expert too many", "lt.Scalar(l, 2)", "lt.Scalar(l, 3)"),
    WEIGHTS.miss("ids that are not shifted", "clamp(l, 0, 1)", "clamp(i, 0, 1)"),
    WEIGHTS.miss("the first expert alone", "clamp(l, 0, 1)", "clamp(l, 0, 0)"),
    WEIGHTS.miss("not reduced", 'all_reduce(y, "sum", "g")', "clone(y)"),
    WEIGHTS.miss("averaged", '"sum"', '"avg"'),
    WEIGHTS.miss("the choices exchanged", "unsqueeze(q, 2)", "unsqueeze(flip(q, [1]), 2)"),
    WEIGHTS.miss("experts and features mixed", "permute(m, [0, 2, 1, 3])", "view(m, [6, 3, 2, 5])"),
    SAME,
    SAME.miss("an expert is left out by all", "lt.Scalar(l, 2)", "lt.Scalar(l, 1)"),
    SAME.but("the sequential program leaves one out", seq=SAME.seq.replace("lt.Scalar(l, 4)", "lt.Scalar(l, 3)"), maps=()),
    SAME.but("the sequential program masks all", seq=SAME.seq.replace("where.self(k, p, z)", "where.self(k, z, p)"), maps=()),
)  # fmt: skip
def test_chosen(case: Case, outcomes: Outcomes) -> None:
    check(case, outcomes(case))
