"""Scalars that depend on data as factors (``extract/quotients.py``): numbers of tokens, losses of parts."""

from __future__ import annotations

from .build import Case, check, table
from .conftest import Outcomes

COUNTED = """
m: b[{n}] = ne.Scalar(ids, -100)
n: i64[()] = sum.default(m)
"""
WHOLE = (
    "x: f32[8]\nids: i64[8]\n"
    + COUNTED.format(n=8)
    + "t: f32[()] = sum.default(exp(x))\ny: f32[()] = div.Tensor(t, n)\nreturn y"
)
MEANS = Case(
    "means of ranks, weighted with their numbers of tokens",
    WHOLE,
    "x: f32[4]\nids: i64[4]\n" + COUNTED.format(n=4) + "t: f32[()] = sum.default(exp(x))\n"
    "mean: f32[()] = div.Tensor(t, n)\nw: f32[()] = mul.Tensor(mean, n)\n"
    'all: f32[()] = all_reduce(w, "sum", "g")\nmany: i64[()] = all_reduce(n, "sum", "g")\n'
    "y: f32[()] = div.Tensor(all, many)\nreturn y",
)
SHARES = Case(
    "means of ranks times their shares of all tokens",
    WHOLE,
    "x: f32[4]\nids: i64[4]\n" + COUNTED.format(n=4) + "t: f32[()] = sum.default(exp(x))\n"
    'mean: f32[()] = div.Tensor(t, n)\nmany: i64[()] = all_reduce(n, "sum", "g")\n'
    "share: f32[()] = div.Tensor(n, many)\nw: f32[()] = mul.Tensor(mean, share)\n"
    'y: f32[()] = all_reduce(w, "sum", "g")\nreturn y',
)
BATCHES = Case(
    "micro-batches that are divided by the number of all tokens, counted from 0",
    WHOLE,
    "x: f32[8]\nids: i64[8]\na: i64[4] = slice(ids, 0, 0, 4)\nb: i64[4] = slice(ids, 0, 4, 8)\n"
    "ma: b[4] = ne.Scalar(a, -100)\nmb: b[4] = ne.Scalar(b, -100)\n"
    "na: i64[()] = sum.default(ma)\nnb: i64[()] = sum.default(mb)\n"
    "none: i64[()] = add.Tensor(na, 0)\nn: i64[()] = add.Tensor(none, nb)\n"
    "ta: f32[()] = div.Tensor(sum.default(exp(slice(x, 0, 0, 4))), n)\n"
    "tb: f32[()] = div.Tensor(sum.default(exp(slice(x, 0, 4, 8))), n)\n"
    "y: f32[()] = add.Tensor(ta, tb)\nreturn y",
    ranks=1,
)
GRADIENT = Case(
    "a gradient that is multiplied with 1 / n, and divided by n",
    "g: f32[8, 4]\nn: f32[()]\ny: f32[8, 4] = relu(div.Tensor(g, n))\nreturn y",
    "g: f32[4, 4]\nn: f32[()]\none: f32[()] = const(1.0)\ni: f32[()] = div.Tensor(one, n)\n"
    "y: f32[4, 4] = relu(mul.Tensor(g, i))\nreturn y",
)
AT_LEAST_1 = MEANS.but(
    "divided by their number, and at least by 1",
    dist=MEANS.dist.replace(
        "y: f32[()] = div.Tensor(all, many)",
        "c: i64[()] = clamp(many, 1)\ny: f32[()] = div.Tensor(all, c)",
    ),
    maps=None,
)
PARTS = Case(
    "a loss and an auxiliary one, divided together before they are added up",
    "x: f32[8]\nz: f32[8]\nn: f32[()]\nr: f32[()]\n"
    "a: f32[()] = sum.default(exp(x))\nb: f32[()] = mul.Tensor(sum.default(sin(z)), r)\n"
    "s: f32[()] = add.Tensor(a, mul.Tensor(b, 0.5))\ny: f32[()] = div.Tensor(s, n)\nreturn y",
    "x: f32[4]\nz: f32[4]\nn: f32[()]\nr: f32[()]\n"
    "a: f32[()] = sum.default(exp(x))\nb: f32[()] = mul.Tensor(sum.default(sin(z)), r)\n"
    "s: f32[()] = add.Tensor(a, mul.Tensor(b, 0.5))\n"
    'y: f32[()] = all_reduce(div.Tensor(s, n), "sum", "g")\nreturn y',
)
SCALED = Case(
    "scaled, gathered, and scaled back",
    "x: f32[8, 4]\ns: f32[()]\nw: f32[4, 6]\ny: f32[8, 6] = mm(div.Tensor(mul.Tensor(x, s), s), w)\nreturn y",
    "x: f32[4, 4]\ns: f32[()]\nw: f32[4, 3]\nq: f32[4, 4] = mul.Tensor(x, s)\n"
    'g: f32[8, 4] = all_gather_into_tensor(q, 2, "g")\ny: f32[8, 3] = mm(div.Tensor(g, s), w)\nreturn y',
)
UNSCALED = SCALED.but(
    "on one side only",
    maps=None,
    seq="x: f32[8, 4]\ns: f32[()]\nw: f32[4, 6]\ny: f32[8, 6] = mm(x, w)\nreturn y",
    dist="x: f32[8, 4]\ns: f32[()]\nw: f32[4, 3]\nq: f32[8, 4] = mul.Tensor(x, s)\n"
    "y: f32[8, 3] = mm(div.Tensor(q, s), w)\nreturn y",
)
# A number of the program, and the same one as a float32 that the graph holds.
TENTH = 0.10000000149011612
NEXT = 0.10000000894069672
NUMBER = Case(
    "a number and its float32",
    "x: f32[8, 4]\ny: f32[8, 4] = relu(mul.Tensor(x, 0.1))\nreturn y",
    f"x: f32[4, 4]\nc: f32[()] = const({TENTH})\ny: f32[4, 4] = relu(mul.Tensor(x, c))\nreturn y",
    single=True,
)


def both(case: Case, old: str, new: str) -> dict[str, str]:
    """Both programs with something else in place of this."""
    return {"seq": case.seq.replace(old, new), "dist": case.dist.replace(old, new)}


NUMBERS = (
    NUMBER,
    NUMBER.but("a long one", seq=NUMBER.seq.replace("0.1)", "0.5773502691896258)"), dist=NUMBER.dist.replace(str(TENTH), "0.5773502588272095"), maps=None, xfail="refused: a float32 does not say which number with more digits it stands for"),
    NUMBER.but("1 / 3", seq=NUMBER.seq.replace("mul.Tensor(x, 0.1)", "div.Tensor(x, 3)"), dist=NUMBER.dist.replace(str(TENTH), "0.3333333432674408"), maps=None),
    NUMBER.but("written on both sides", dist=NUMBER.dist.replace("(x, c)", f"(x, {TENTH})"), maps=None),
    NUMBER.but("halves", **both(NUMBER, "f32", "bf16"), maps=None),
    NUMBER.but("the next float32", dist=NUMBER.dist.replace(str(TENTH), str(NEXT))),
    NUMBER.but("that of a half", dist=NUMBER.dist.replace(str(TENTH), "0.10009765625")),
    NUMBER.but("with another sign", dist=NUMBER.dist.replace("const(", "const(-")),
    NUMBER.but("of doubles another number", **both(NUMBER, "f32", "f64")),
    NUMBER.but("where doubles are multiplied", seq=NUMBER.seq.replace("f32", "f64"), dist=NUMBER.dist.replace("f32[4", "f64[4")),
    NUMBER.but("two doubles", **both(NUMBER, "f32", "f64") | {"dist": NUMBER.dist.replace("f32", "f64").replace("(x, c)", f"(x, {TENTH})")}),
)  # fmt: skip


@table(
    *NUMBERS,
    MEANS,
    MEANS.miss("not weighted", "mul.Tensor(mean, n)", "mul.Tensor(mean, 1)"),
    MEANS.miss("weighted twice", "mul.Tensor(mean, n)", "mul.Tensor(mul.Tensor(mean, n), n)"),
    MEANS.miss("divided by the own number", "div.Tensor(all, many)", "div.Tensor(all, n)"),
    MEANS.but("weighted with the number of all", dist=MEANS.dist.replace("mul.Tensor(mean, n)", 'mul.Tensor(mean, all_reduce(n, "sum", "g"))')),
    MEANS.miss("with the number of other labels", "mul.Tensor(mean, n)", "mul.Tensor(mean, sum.default(ne.Scalar(ids, 0)))"),
    SHARES,
    SHARES.miss("the other way round", "div.Tensor(n, many)", "div.Tensor(many, n)"),
    SHARES.miss("the mean of the shares", '"sum", "g")\nreturn', '"avg", "g")\nreturn'),
    BATCHES,
    BATCHES.miss("one micro-batch counts", "n: i64[()] = add.Tensor(none, nb)", "n: i64[()] = add.Tensor(none, na)"),
    BATCHES.miss("counted from 1", "add.Tensor(na, 0)", "add.Tensor(na, 1)"),
    BATCHES.miss("one divided by its own", "exp(slice(x, 0, 4, 8))), n)", "exp(slice(x, 0, 4, 8))), nb)"),
    GRADIENT,
    GRADIENT.miss("2 / n", "const(1.0)", "const(2.0)"),
    GRADIENT.miss("multiplied with n", "i: f32[()] = div.Tensor(one, n)", "i: f32[()] = mul.Tensor(one, n)"),
    GRADIENT.miss("divided twice", "mul.Tensor(g, i)", "mul.Tensor(g, mul.Tensor(i, i))"),
    SCALED,
    SCALED.miss("not scaled back", "div.Tensor(g, s)", "g"),
    SCALED.miss("by another scale", "div.Tensor(g, s)", "div.Tensor(g, mul.Tensor(s, s))"),
    SCALED.miss("by a scale of the rank", "mul.Tensor(x, s)", "mul.Tensor(x, amax(x))"),
    UNSCALED,
    UNSCALED.miss("multiplied twice", "div.Tensor(q, s)", "mul.Tensor(q, s)"),
    UNSCALED.miss("scaled back in part", "div.Tensor(q, s)", "div.Tensor(add.Tensor(q, s), s)"),
    AT_LEAST_1,
    AT_LEAST_1.miss("at least by 2", "clamp(many, 1)", "clamp(many, 2)"),
    AT_LEAST_1.miss("at most by 1", "clamp(many, 1)", "clamp(many, max=1)"),
    AT_LEAST_1.miss("between 1 and 4", "clamp(many, 1)", "clamp(many, 1, 4)"),
    AT_LEAST_1.miss("by the number of the rank", "clamp(many, 1)", "clamp(n, 1)"),
    AT_LEAST_1.miss("of what may be negative", "clamp(many, 1)", "clamp(neg(many), 1)"),
    AT_LEAST_1.but("the sequential program by any number, the ranks by 1 more",
                   dist=AT_LEAST_1.dist.replace("clamp(many, 1)", "clamp(add.Tensor(many, 1), 1)")),
    AT_LEAST_1.but("a product in place of the quotient", dist=AT_LEAST_1.dist.replace("div.Tensor(all, c)", "mul.Tensor(all, c)"),
                   seq=WHOLE.replace("div.Tensor(t, n)", "mul.Tensor(t, n)")),
    AT_LEAST_1.but("at least by 1 in both", seq=WHOLE.replace("y: f32[()] = div.Tensor(t, n)", "c: i64[()] = clamp(n, 1)\ny: f32[()] = div.Tensor(t, c)"), maps=None),
    AT_LEAST_1.but("at least by 1 in the sequential program alone", dist=MEANS.dist,
                   seq=WHOLE.replace("y: f32[()] = div.Tensor(t, n)", "c: i64[()] = clamp(n, 1)\ny: f32[()] = div.Tensor(t, c)")),
    PARTS,
    PARTS.miss("the auxiliary one in other proportion", "mul.Tensor(b, 0.5)", "mul.Tensor(b, 0.25)"),
    PARTS.miss("added after the division", "div.Tensor(s, n)", "add.Tensor(div.Tensor(a, n), mul.Tensor(b, 0.5))"),
    PARTS.miss("a number of the rank", "div.Tensor(s, n)", "div.Tensor(s, a)"),
    PARTS.miss("not added up", 'all_reduce(div.Tensor(s, n), "sum", "g")', "div.Tensor(s, n)"),
    PARTS.miss("the first one twice", "sum.default(sin(z))", "sum.default(exp(x))"),
    PARTS.miss("one of them averaged", 'all_reduce(div.Tensor(s, n), "sum", "g")',
               'add.Tensor(all_reduce(div.Tensor(a, n), "avg", "g"), all_reduce(div.Tensor(mul.Tensor(b, 0.5), n), "sum", "g"))'),
)  # fmt: skip
def test_scalars(case: Case, outcomes: Outcomes) -> None:
    check(case, outcomes(case))
