"""Statistics of blocks of keys that all ranks have gathered (``extract/stacks.py``); products with 0."""

from __future__ import annotations

from .build import Case, check, table
from .conftest import Outcomes
from .test_softmax import ATTENTION

HEAD = """
q: f32[4, 3]
k: f32[3, 3]
v: f32[3, 2]
s: f32[4, 3] = mm(q, t(k))
l: f32[4, 1] = logsumexp(s, [1], True)
o = mm(exp(sub.Tensor(s, l)), v)
ls: f32[2, 4, 1] = view(all_gather_into_tensor(l, 2, "g"), [2, 4, 1])
os: f32[2, 4, 2] = view(all_gather_into_tensor(o, 2, "g"), [2, 4, 2])
"""
GATHERED = Case(
    "outputs weighted by gathered statistics",
    ATTENTION,
    HEAD
    + """
n: f32[1, 4, 1] = logsumexp(ls, [0], True)
y = sum.dim_IntList(mul.Tensor(exp(sub.Tensor(ls, n)), os), [0])
return y
""",
)
SHARES = Case(
    "shares of each as a softmax over the ranks",
    ATTENTION,
    HEAD
    + """
w: f32[2, 4, 1] = _softmax(ls, 0, False)
y = sum.dim_IntList(mul.Tensor(w, os), [0])
return y
""",
)
CORRECTED = Case(
    "an output corrected by gathered statistics, then reduced",
    ATTENTION,
    HEAD
    + """
m: f32[4, 1] = amax(ls, [0])
z: f32[4, 1] = add.Tensor(log(sum.dim_IntList(exp(sub.Tensor(ls, unsqueeze(m, 0))), [0])), m)
y = all_reduce(mul.Tensor(o, exp(sub.Tensor(l, z))), "sum", "g")
return y
""",
)
DIVIDED = Case(
    "weights divided by their sum",
    ATTENTION,
    HEAD
    + """
m: f32[1, 4, 1] = amax(ls, [0], True)
e: f32[2, 4, 1] = exp(sub.Tensor(ls, m))
w: f32[2, 4, 1] = div.Tensor(e, sum.dim_IntList(e, [0], True))
y = sum.dim_IntList(mul.Tensor(w, os), [0])
return y
""",
)


@table(
    GATHERED,
    GATHERED.miss("a mean", "mul.Tensor(exp(sub.Tensor(ls, n)), os)", "div.Tensor(os, 2)"),
    GATHERED.miss("the greatest of both", "logsumexp(ls, [0], True)", "amax(ls, [0], True)"),
    GATHERED.miss("weights of the other", 'view(all_gather_into_tensor(o, 2, "g"), [2, 4, 2])',
                  'flip(view(all_gather_into_tensor(o, 2, "g"), [2, 4, 2]), [0])'),
    GATHERED.miss("rows taken for ranks", 'view(all_gather_into_tensor(o, 2, "g"), [2, 4, 2])',
                  'transpose.int(view(all_gather_into_tensor(o, 2, "g"), [4, 2, 2]), 0, 1)'),
    GATHERED.miss("statistics of one rank", 'all_gather_into_tensor(l, 2, "g")', "cat([l, l], 0)"),
    GATHERED.miss("only one is added", "os), [0])\n", "os), [0])\ny = select.int(mul.Tensor(exp(sub.Tensor(ls, n)), os), 0, 0)\n"),
    SHARES,
    SHARES.miss("over the rows", "_softmax(ls, 0", "_softmax(ls, 1"),
    SHARES.miss("of exponentials", "_softmax(ls, 0", "_softmax(exp(ls), 0"),
    CORRECTED,
    CORRECTED.miss("not reduced", 'all_reduce(mul.Tensor(o, exp(sub.Tensor(l, z))), "sum", "g")',
                   "mul.Tensor(o, exp(sub.Tensor(l, z)))"),
    CORRECTED.miss("the maximum forgotten", "[0])), m)", "[0])), 0.0)"),
    CORRECTED.miss("the wrong way round", "exp(sub.Tensor(l, z))", "exp(sub.Tensor(z, l))"),
    DIVIDED,
    DIVIDED.miss("divided by the greatest", "sum.dim_IntList(e, [0], True)", "amax(e, [0], True)"),
    DIVIDED.miss("divided by the sum of rows", "sum.dim_IntList(e, [0], True)", "sum.dim_IntList(e, [1], True)"),
)  # fmt: skip
def test_gathered_statistics(case: Case, outcomes: Outcomes) -> None:
    """What the ranks hold is weighted by the sums of their exponentials."""
    check(case, outcomes(case))


BEFORE = Case(
    "what is before the first rank is 0",
    "q: f32[4, 3]\nx: f32[4, 2]\nw: f32[3, 2]\ny = relu(x)\nreturn y",
    "q: f32[2, 3]\nx: f32[2, 2]\nw: f32[3, 2]\nn: f32[3, 2] = full([3, 2], 0.0)\n"
    "y = relu(add.Tensor(x, mm(q, n)))\nreturn y",
)


@table(
    BEFORE,
    BEFORE.miss("not 0", "full([3, 2], 0.0)", "full([3, 2], 1.0)"),
    BEFORE.miss("0 times what may be infinite", "mm(q, n)", "mm(log(q), n)"),
    BEFORE.miss("0 with something in it", "full([3, 2], 0.0)", "cat([full([2, 2], 0.0), slice.Tensor(w, 0, 0, 1)], 0)"),
)  # fmt: skip
def test_products_with_0(case: Case, outcomes: Outcomes) -> None:
    """A product with 0 is 0 where the other operand is finite."""
    check(case, outcomes(case))
