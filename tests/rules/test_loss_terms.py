"""Cross entropy of logits that stay cut by vocabulary, written as the logarithm of a sum less the
target's own, and its gradient as it comes of each of them; errors and norms of other kinds; rows
put at positions."""

from __future__ import annotations

from .build import Case, check, table
from .conftest import Outcomes
from .loss_parallel import SEQ, T, filled, misses
from .test_backward import pair

# ---- lse - logit of the target
TERMS = """
x: f32[6, 4]
y: i64[6]
m = all_reduce(amax(x, [1]), "max", "t")
e = exp(sub.Tensor(x, unsqueeze(m, 1)))
z = all_reduce(sum.dim_IntList(e, [1]), "sum", "t")
lse = add.Tensor(log(z), m)
far: b[6] = logical_or(lt.Scalar(y, {lo}), ge.Scalar(y, {hi}))
near: b[6] = logical_not(far)
there = masked_fill.Scalar(sub.Tensor(y, {lo}), far, 0)
got = squeeze.dim(gather(x, 1, unsqueeze(there, 1)), 1)
of = all_reduce(masked_fill.Scalar(got, far, 0.0), "sum", "t")
"""
EACH = "each = sub.Tensor(lse, of)\n"
LOSS = Case("lse less the target's",
            SEQ + "v = neg(squeeze.dim(gather(ls, 1, unsqueeze(y, 1)), 1))\nreturn v",
            filled(TERMS + EACH + "return each"), 3, groups=T)  # fmt: skip
OF_TERMS = """
the maximum is not put back | add.Tensor(log(z), m) | log(z)
put back twice | add.Tensor(log(z), m) | add.Tensor(log(z), m, alpha=2)
the maximum of a rank | m = all_reduce(amax(x, [1]), "max", "t") | m = amax(x, [1])
denominators of a rank | z = all_reduce(sum.dim_IntList(e, [1]), "sum", "t") | z = sum.dim_IntList(e, [1])
lookups of a rank | all_reduce(masked_fill.Scalar(got, far, 0.0), "sum", "t") | masked_fill.Scalar(got, far, 0.0)
not cleared | masked_fill.Scalar(got, far, 0.0) | clone(got)
filled with 1 | far, 0.0) | far, 1.0)
of the scores without their maximum | gather(x, 1 | gather(sub.Tensor(x, unsqueeze(m, 1)), 1
of the exponentials | gather(x, 1 | gather(e, 1
a bound too low | ge.Scalar(y, 4 * rank + 4) | ge.Scalar(y, 4 * rank + 3)
"""

# ---- the gradient of each: of a number, the same for all tokens, and of one per token
ONES = "g: f32[6]\none: f32[6] = ones([6])\n"
BACK = ONES + "empty: f32[6, 12] = zeros([6, 12])\n"
BACK += "b: f32[6, 12] = scatter_add(empty, 1, unsqueeze(y, 1), unsqueeze(neg(%s), 1))\n"
BACK += "dx = _log_softmax_backward_data(b, ls, 1, 'float32')\nreturn dx"
BY = """
away: f32[6] = where.self(near, neg({g}), none)
hot = scatter_add(zeros([6, 4]), 1, unsqueeze(there, 1), unsqueeze(away, 1))
soft = mul.Tensor(expand(unsqueeze(div.Tensor({g}, z), 1), [6, 4]), e)
dx = add.Tensor(hot, soft)
return dx
"""
HEAD = ONES + "none: f32[()] = const(0.0)\nzeros0: f32[6, 4] = zeros([6, 4])\n"
OF_GRADIENT = """
plus one-hot | neg({g}), none | {g}, none
one-hot everywhere | where.self(near, neg({g}), none) | neg({g})
elsewhere | where.self(near, neg({g}), none) | where.self(near, none, neg({g}))
the denominator of a rank | div.Tensor({g}, z) | div.Tensor({g}, sum.dim_IntList(e, [1]))
not divided | div.Tensor({g}, z) | clone({g})
of scores | z), 1), [6, 4]), e) | z), 1), [6, 4]), x)
the softmax twice | add.Tensor(hot, soft) | add.Tensor(hot, soft, alpha=2)
taken away | add.Tensor(hot, soft) | sub.Tensor(hot, soft)
the softmax alone | add.Tensor(hot, soft) | clone(soft)
added up | return dx | return all_reduce(dx, "sum", "t")
"""


def gradient(name: str, made: str, seq_by: str) -> list[Case]:
    """The gradient where ``made`` is that of each token's loss."""
    body = filled(TERMS + HEAD + BY.replace("zeros([6, 4])", "zeros0"))
    case = Case(
        name,
        SEQ + BACK % seq_by,
        body.replace("{g}", made),
        3,
        groups=T,
    )
    return [case, *misses(case, OF_GRADIENT.replace("{g}", made))]


SIXTH = "div.Tensor(one, 6)"
GRADIENTS = (
    *gradient("the gradient of each loss", "g", "g"),
    *gradient("the gradient of their mean", SIXTH, SIXTH),
    *gradient("the gradient of their sum", "clone(one)", "clone(one)"),
)

# ---- labels that are smoothed, and a loss of the logarithm of the sum beside it
SMOOTH = Case(
    "smoothed labels",
    SEQ + "n = neg(squeeze.dim(gather(ls, 1, unsqueeze(y, 1)), 1))\n"
    "s = div.Tensor(sum.dim_IntList(ls, [1]), 12)\n"
    "v = sub.Tensor(mul.Tensor(n, 0.75), mul.Tensor(s, 0.25))\nreturn v",
    filled(
        TERMS + 'total = all_reduce(sum.dim_IntList(x, [1]), "sum", "t")\n'
        "rest = sub.Tensor(lse, div.Tensor(total, 12))\n"
        "v = add.Tensor(mul.Tensor(sub.Tensor(lse, of), 0.75), mul.Tensor(rest, 0.25))\nreturn v"
    ),
    3,
    groups=T,
)
BESIDE = Case(
    "a gradient of two losses",
    SEQ + BACK.replace("return dx", "") % "g" + "h: f32[6]\n"
    "d = add.Tensor(dx, mul.Tensor(expand(unsqueeze(h, 1), [6, 12]), exp(ls)))\nreturn d",
    filled(
        TERMS
        + HEAD
        + "h: f32[6]\n"
        + BY.replace("zeros([6, 4])", "zeros0")
        .replace("div.Tensor({g}, z)", "div.Tensor(add.Tensor(g, h), z)")
        .replace("{g}", "g")
        .replace("dx", "d")
    ),
    3,
    groups=T,
)
MORE = (
    SMOOTH,
    *misses(SMOOTH, """
over the classes of a rank | div.Tensor(total, 12) | div.Tensor(total, 4)
scores of a rank | total = all_reduce(sum.dim_IntList(x, [1]), "sum", "t") | total = sum.dim_IntList(x, [1])
other shares | 0.75) | 0.5)
the scores alone | sub.Tensor(lse, div.Tensor(total, 12)) | neg(div.Tensor(total, 12))
without their maximum | sum.dim_IntList(x, [1]) | sum.dim_IntList(sub.Tensor(x, unsqueeze(m, 1)), [1])
"""),
    BESIDE,
    *misses(BESIDE, """
of the first one | add.Tensor(g, h) | clone(g)
of the second one | add.Tensor(g, h) | clone(h)
taken away | add.Tensor(g, h) | sub.Tensor(g, h)
of the product | add.Tensor(g, h) | mul.Tensor(g, h)
one-hot of both | near, neg(g) | near, neg(add.Tensor(g, h))
"""),
)  # fmt: skip

# ---- errors per element
ERRORS = (
    ("smooth_l1_loss(x, t, {r})", "smooth_l1_loss(x, t, {r}, 0.5)"),
    ("huber_loss(x, t, {r}, 0.7)", "huber_loss(x, t, {r}, 0.6)"),
    ("binary_cross_entropy(sigmoid(x), sigmoid(t), None, {r})", ""),
    ("binary_cross_entropy_with_logits(x, sigmoid(t), None, None, {r})", ""),
)
SLOPES = (
    ("smooth_l1_loss_backward(g, x, t, {r}, 1.0)", "1.0)", "0.5)"),
    ("huber_loss_backward(g, x, t, {r}, 0.7)", "0.7)", "0.6)"),
    ("binary_cross_entropy_backward(g, sigmoid(x), sigmoid(t), None, {r})", "g, s", "neg(g), s"),
)
GIVEN = "x: f32[{8|4}, 3]\nt: f32[{8|4}, 3]\n"


def error(call: str, other: str) -> list[Case]:
    """A loss of rows that ranks have some of: each, their sum and their mean."""
    name = call.partition("(")[0]
    each = pair(f"{name}: each", GIVEN + f"y: f32[{{8|4}}, 3] = {call.format(r=0)}\nreturn y")
    total = pair(f"{name}: sum", GIVEN + f"y: f32[()] = {call.format(r=2)}\nreturn {{y|SUM(y)}}")
    mean = pair(f"{name}: mean", GIVEN + f"y: f32[()] = {call.format(r=1)}\n"
                "return {y|div.Tensor(SUM(y), 2)}")  # fmt: skip
    found = [each, total, mean]
    found.append(total.miss("not reduced", 'all_reduce(y, "sum", "g")', "y"))
    found.append(mean.miss("not divided", 'div.Tensor(all_reduce(y, "sum", "g"), 2)',
                           'all_reduce(y, "sum", "g")'))  # fmt: skip
    plain = call.format(r=0)
    found.append(each.miss("of other numbers", plain, plain.replace("(x", "(neg(x)")))
    if other:
        found.append(each.miss("another width", call.format(r=0), other.format(r=0)))
    return found


def slope(call: str, old: str, new: str) -> list[Case]:
    """Its gradient."""
    name = call.partition("(")[0]
    text = "g: f32[{8|4}, 3]\n" + GIVEN + f"y = {call.format(r=2)}\nreturn y"
    mean = "g: f32[()]\n" + GIVEN + f"y = {call.format(r=1)}\nreturn {{y|div.Tensor(y, 2)}}"
    one, other = pair(f"{name}: sum", text), pair(f"{name}: mean", mean)
    return [
        one,
        one.miss("of another", old, new),
        one.miss("another gradient", "backward(g", "backward(t"),
        other,
        other.miss("not divided", "div.Tensor(y, 2)", "y"),
    ]


# ---- norms of other orders
FIRST = "a: f32[{6|3}, 4]\nb: f32[5]\n"
NORMS = (
    pair(
        "the norm of order 1 of a list",
        FIRST + "n = {linalg_vector_norm(stack([linalg_vector_norm(a, 1), linalg_vector_norm(b, 1)]), 1)"
        "|add.Tensor(all_reduce(linalg_vector_norm(a, 1), 'sum', 'g'), sum(abs(b)))}\nreturn n",
    ),
    pair(
        "squares of magnitudes",
        FIRST + "n = {linalg_vector_norm(a)"
        "|pow.Tensor_Scalar(all_reduce(sum(pow.Tensor_Scalar(abs(a), 2.0)), 'sum', 'g'), 0.5)}\nreturn n",
    ),
)  # fmt: skip
SHARDS = "a: f32[5, 6]\nb: f32[4]\n"
FLAT = Case(
    "the norm of shards of a flat buffer",
    SHARDS
    + "n = linalg_vector_norm(stack([linalg_vector_norm(a), linalg_vector_norm(b)]))\nreturn n",
    SHARDS + "z: f32[2] = zeros([2])\nf: f32[36] = cat([view(a, [30]), b, z])\n"
    "s = slice(f, 0, 9 * rank, 9 * rank + 9)\n"
    "q = all_reduce(sum(pow.Tensor_Scalar(s, 2)), 'sum', 'g')\nreturn sqrt(q)",
    4,
)
OTHER_NORMS = (
    FLAT,
    FLAT.miss("shards that overlap", "9 * rank + 9", "9 * rank + 10 - rank // 3"),
    FLAT.miss("shards with a gap", "9 * rank + 9", "9 * rank + 8"),
    FLAT.miss("the norms of shards", "all_reduce(sum(pow.Tensor_Scalar(s, 2)), 'sum', 'g')",
              "pow.Tensor_Scalar(all_reduce(sqrt(sum(pow.Tensor_Scalar(s, 2))), 'sum', 'g'), 2)"),
    FLAT.miss("one tensor twice", "b, z])", "slice(view(a, [30]), 0, 0, 4), z])"),
    FLAT.miss("ones behind", "zeros([2])", "ones([2])"),
    NORMS[0],
    NORMS[0].miss("not reduced", "all_reduce(linalg_vector_norm(a, 1), 'sum', 'g')", "linalg_vector_norm(a, 1)"),
    NORMS[0].miss("the largest", "a, 1), 'sum'", "a, 1), 'max'"),
    NORMS[0].miss("without magnitudes", "sum(abs(b))", "sum(b)"),
    NORMS[1],
    NORMS[1].miss("without squares", "abs(a), 2.0)", "abs(a), 1.0)"),
    NORMS[1].miss("without the root", "'g'), 0.5)", "'g'), 1.0)"),
    NORMS[1].miss("not reduced", "all_reduce(sum(pow.Tensor_Scalar(abs(a), 2.0)), 'sum', 'g')",
                  "sum(pow.Tensor_Scalar(abs(a), 2.0))"),
)  # fmt: skip

# ---- rows put at positions
CACHE = "k: f32[{6|2}, 7, 4]\nv: f32[{6|2}, 2, 4]\nat: i64[2]\n"
PUT = pair("rows of a cache", CACHE + "c: f32[{6|2}, 7, 4] = index_copy(k, 1, at, v)\nreturn c", 3)
PUTS = (
    PUT,
    PUT.miss("other rows", "at, v)", "at, neg(v))"),
    PUT.miss("into nothing", "copy(k,", "copy(neg(k),"),
    PUT.miss("at other positions", "1, at", "1, neg(at)"),
    pair("rows put", PUT.seq.replace("index_copy(k, 1, at, v)", "index_put(k, [None, at], v)")
         .replace("[6,", "[{6|2},"), 3),
    pair("a cache that is cut", "k: f32[6, {8|4}, 4]\nv: f32[6, 2, 4]\nat: i64[2]\n"
         "c: f32[6, {8|4}, 4] = index_copy(k, 1, at, v)\nreturn c", maps=()),
    pair("rows that are open", "a: f32[6, {8|4}]\nw: f32[{8|4}, 4]\nk: f32[7, 4]\nat: i64[6]\n"
         "c: f32[7, 4] = index_copy(k, 0, at, mm(a, w))\nreturn {c|SUM(c)}", maps=()),
)  # fmt: skip

# ---- rows that a mask of numbers clears, and what goes back to the table
ROWS = "g: f32[6, 3]\ni: i64[6]\nz: f32[6, 3]\n"
TABLE = Case(
    "a gradient times a mask",
    ROWS + "y = embedding_dense_backward(div.Tensor(g, exp(z)), i, 8, -1, False)\nreturn y",
    ROWS + "far: b[6] = logical_or(lt.Scalar(i, 4 * rank), ge.Scalar(i, 4 * rank + 4))\n"
    "near: b[6] = logical_not(far)\nat = masked_fill.Scalar(sub.Tensor(i, 4 * rank), far, 0)\n"
    "kept: f32[6] = _to_copy(near, dtype='float32')\n"
    "h = mul.Tensor(div.Tensor(g, exp(z)), unsqueeze(kept, 1))\n"
    "y = embedding_dense_backward(h, at, 4, -1, False)\nreturn y",
)
TABLES = (
    TABLE,
    TABLE.miss("not masked", "(h, at", "(div.Tensor(g, exp(z)), at"),
    TABLE.miss("the others", "_to_copy(near", "_to_copy(far"),
    TABLE.miss("divided by what may be 0", "exp(z)", "z"),
)


@table(
    LOSS,
    *misses(LOSS, OF_TERMS),
    LOSS.miss("the other way round", "sub.Tensor(lse, of)", "sub.Tensor(of, lse)"),
    LOSS.miss("the lookup is halved", "sub.Tensor(lse, of)", "sub.Tensor(lse, of, alpha=0.5)"),
    *GRADIENTS,
    *MORE,
)
def test_loss_terms(case: Case, outcomes: Outcomes) -> None:
    """A loss of two terms, and its gradient of two."""
    check(case, outcomes(case))


@table(
    *(case for call, other in ERRORS for case in error(call, other)),
    *(case for row in SLOPES for case in slope(*row)),
    *OTHER_NORMS,
    *PUTS,
    *TABLES,
)
def test_errors_and_norms(case: Case, outcomes: Outcomes) -> None:
    """Losses of errors, norms of order 1, rows put at positions."""
    check(case, outcomes(case))
