"""Masks that compare positions: causal attention in blocks, some of which are left out, and padding
of what is reduced (``lemmas/halves.dl``)."""

from __future__ import annotations

from .build import Case, check, row, table
from .conftest import Outcomes

ATTENTION = """
all: b[6, 6] = ones([6, 6])
q: f32[6, 3]
k: f32[6, 3]
v: f32[6, 2]
hide: b[6, 6] = triu(all, 1)
s: f32[6, 6] = masked_fill.Scalar(mm(q, t(k)), hide, -inf)
p: f32[6, 6] = _softmax(s, 1, False)
y = mm(p, v)
return y
"""
# Rank 0 has no block behind its own, and leaves the other one out.
RING = """
all: b[3, 3] = ones([3, 3])
q: f32[3, 3]
k: f32[3, 3]
v: f32[3, 2]
ks = all_gather_into_tensor(k, 2, "g")
vs = all_gather_into_tensor(v, 2, "g")
hide: b[3, 3] = triu(all, 1)
s0: f32[3, 3] = masked_fill.Scalar(mm(q, t(k)), hide, -inf)
s1: f32[3, 3] = mm(q, t(slice.Tensor(ks, 0, 0, 3)))
l0: f32[3, 1] = logsumexp(s0, [1], True)
l1: f32[3, 1] = logsumexp(s1, [1], True)
o0 = mm(exp(sub.Tensor(s0, l0)), v)
o1 = mm(exp(sub.Tensor(s1, l1)), slice.Tensor(vs, 0, 0, 3))
n: f32[3, 1] = logaddexp(l0, l1)
z = add.Tensor(mul.Tensor(exp(sub.Tensor(l0, n)), o0), mul.Tensor(exp(sub.Tensor(l1, n)), o1))
y = o0 if rank == 0 else z
return y
"""
# The block that counts nothing is computed, too: hidden entirely.
GATHERED = """
all: b[6, 6] = ones([6, 6])
q: f32[3, 3]
k: f32[3, 3]
v: f32[3, 2]
ks = all_gather_into_tensor(k, 2, "g")
vs = all_gather_into_tensor(v, 2, "g")
hide: b[3, 6] = slice.Tensor(triu(all, 1), 0, 3 * rank, 3 * rank + 3)
s: f32[3, 6] = masked_fill.Scalar(mm(q, t(ks)), hide, -inf)
p: f32[3, 6] = _softmax(s, 1, False)
y = mm(p, vs)
return y
"""
# Keys are split, queries are not: each rank has some columns of all rows.
SPLIT = """
all: b[6, 6] = ones([6, 6])
q: f32[6, 3]
k: f32[3, 3]
v: f32[3, 2]
hide: b[6, 3] = slice.Tensor(triu(all, 1), 1, 3 * rank, 3 * rank + 3)
s: f32[6, 3] = masked_fill.Scalar(mm(q, t(k)), hide, -inf)
m: f32[6, 1] = all_reduce(amax(s, [1], True), "max", "g")
e = exp(sub.Tensor(s, m))
a = all_reduce(mm(e, v), "sum", "g")
b = all_reduce(sum.dim_IntList(e, [1], True), "sum", "g")
y = div.Tensor(a, b)
return y
"""
CAUSAL = Case("causal blocks, one of them left out", ATTENTION, RING)
ROWS = Case("all columns of some rows", ATTENTION, GATHERED)
COLUMNS = Case("some columns of all rows", ATTENTION, SPLIT)
POSITIONS = (
    "six: i64[6] = arange(6)\nhide: b[6, 6] = lt.Tensor(unsqueeze(six, 1), six)\n",
    "three: i64[3] = arange(3)\nhide: b[3, 3] = lt.Tensor(unsqueeze(three, 1), three)\n",
)
TRIANGLES = ("hide: b[6, 6] = triu(all, 1)\n", "hide: b[3, 3] = triu(all, 1)\n")
WINDOW = ATTENTION.replace(
    "p: f32", "s: f32[6, 6] = masked_fill.Scalar(s, tril(all, -3), -inf)\np: f32"
)

BLOCKS = (
    CAUSAL,
    CAUSAL.miss("its own key is hidden", "all, 1)", "all, 0)"),
    CAUSAL.miss("a key too many", "all, 1)", "all, 2)"),
    CAUSAL.miss("no mask", "masked_fill.Scalar(mm(q, t(k)), hide, -inf)", "mm(q, t(k))"),
    CAUSAL.miss(
        "the block before is masked, too",
        "t(slice.Tensor(ks, 0, 0, 3)))",
        "t(slice.Tensor(ks, 0, 0, 3)))\ns1: f32[3, 3] = masked_fill.Scalar(s1, hide, -inf)",
    ),
    CAUSAL.miss("the block counts that should not", "o0 if rank == 0 else z", "z"),
    CAUSAL.miss("a block is left out that counts", "o0 if rank == 0 else z", "o0"),
    CAUSAL.miss("the keys of the next rank", "ks, 0, 0, 3", "ks, 0, 3, 6"),
    CAUSAL.miss("the ranks exchanged", "rank == 0", "rank == 1"),
    CAUSAL.miss("hidden the other way round", "triu(all, 1)", "tril(all, -1)"),
    CAUSAL.miss("a sequential mask without its diagonal", "all, 1)", "all, 0)", side="seq"),
    CAUSAL.miss("a sequential mask of later positions", "all, 1)", "all, 2)", side="seq"),
    CAUSAL.miss("a sequential program without mask", "masked_fill.Scalar(mm(q, t(k)), hide, -inf)", "mm(q, t(k))", side="seq"),
    CAUSAL.but("masked with 0", seq=ATTENTION.replace("-inf", "0"), dist=RING.replace("-inf", "0")),
    CAUSAL.but("what is hidden is less", dist=RING.replace("-inf", "-1e4")),
    CAUSAL.but(
        "by positions",
        seq=ATTENTION.replace(TRIANGLES[0], POSITIONS[0]),
        dist=RING.replace(TRIANGLES[1], POSITIONS[1]),
        maps=None,
    ),
    CAUSAL.but("by positions on the ranks alone", dist=RING.replace(TRIANGLES[1], POSITIONS[1]), maps=None),
    CAUSAL.but(
        "with where",
        dist=RING.replace("masked_fill.Scalar(mm(q, t(k)), hide, -inf)", "where.ScalarOther(bitwise_not(hide), mm(q, t(k)), -inf)"),
        maps=None,
    ),
    CAUSAL.but(
        "with where, the other way round",
        dist=RING.replace("masked_fill.Scalar(mm(q, t(k)), hide, -inf)", "where.ScalarOther(hide, mm(q, t(k)), -inf)"),
    ),
    ROWS,
    ROWS.miss("rows of the other rank", "0, 3 * rank, 3 * rank + 3", "0, 3 - 3 * rank, 6 - 3 * rank"),
    ROWS.miss("the same rows on all ranks", "0, 3 * rank, 3 * rank + 3", "0, 0, 3"),
    ROWS.miss("one row further", "triu(all, 1), 0, 3 * rank", "triu(all, 2), 0, 3 * rank"),
    COLUMNS,
    COLUMNS.miss("columns of the other rank", "1, 3 * rank, 3 * rank + 3", "1, 3 - 3 * rank, 6 - 3 * rank"),
    COLUMNS.miss("maxima are not reduced", '"max", "g")', '"sum", "g")'),
    COLUMNS.miss("numerators are not reduced", 'all_reduce(mm(e, v), "sum", "g")', "mm(e, v)"),
    COLUMNS.miss(
        "rows for columns",
        "slice.Tensor(triu(all, 1), 1, 3 * rank, 3 * rank + 3)",
        "t(slice.Tensor(triu(all, 1), 0, 3 * rank, 3 * rank + 3))",
    ),
    CAUSAL.but("a window in the sequential program", seq=WINDOW),
)  # fmt: skip

# A sum over rows that are padded on the last rank: what is filled in adds nothing.
LONG = "x: f32[5, 4]\ny: f32[4] = {}(x, [0])\nreturn y"
PADDED = """
x: f32[3, 4]
rows: i64[3] = arange.start(3 * rank, 3 * rank + 3)
pad: b[3] = ge.Scalar(rows, 5)
kept = masked_fill.Scalar(x, unsqueeze(pad, 1), {1})
y: f32[4] = all_reduce({0}(kept, [0]), "{2}", "g")
return y
"""
SHARDS = {
    "x": [
        row(0, "x", seq_box=[[0, 3], [0, 4]]),
        row(1, "x", seq_box=[[3, 5], [0, 4]], dist_box=[[0, 2], [0, 4]]),
    ]
}
FRONT = {
    "x": [
        row(0, "x", seq_box=[[0, 2], [0, 4]], dist_box=[[1, 3], [0, 4]]),
        row(1, "x", seq_box=[[2, 5], [0, 4]]),
    ]
}


def padded(name: str, kind: str, fill: str, joins: str) -> Case:
    """A reduction over rows of which rank 1 has two, and one that is padding."""
    return Case(name, LONG.format(kind), PADDED.format(kind, fill, joins), relate=SHARDS)


ADDED = padded("a sum over padded rows", "sum.dim_IntList", "0", "sum")
HIGHEST = padded("a maximum over padded rows", "amax", "-inf", "max")
LOWER = PADDED.replace(
    "arange.start(3 * rank, 3 * rank + 3)\npad: b[3] = ge.Scalar(rows, 5)",
    "arange(3)\npad: b[3] = lt.Scalar(rows, 1 - rank)",
)
ONE = {
    "x": [
        row(0, "x", seq_box=[[0, 3], [0, 4]]),
        row(1, "x", seq_box=[[3, 4], [0, 4]], dist_box=[[0, 1], [0, 4]]),
    ]
}
TOTALS = (
    ADDED.but(
        "one row that counts",
        seq=ADDED.seq.replace("f32[5, 4]", "f32[4, 4]"),
        dist=ADDED.dist.replace(", 5)", ", 4)"),
        relate=ONE,
        maps=None,
    ),
    ADDED,
    ADDED.but("padding in front", dist=LOWER.format("sum.dim_IntList", "0", "sum"), relate=FRONT, maps=None),
    ADDED.but("padding in front, masked behind", relate=FRONT),
    ADDED.miss("a row too few", ", 5)", ", 4)"),
    ADDED.miss("padding counts", ", 5)", ", 6)"),
    ADDED.miss("filled with 1", "pad, 1), 0)", "pad, 1), 1)"),
    ADDED.miss("hidden on the other rank", "3 * rank, 3 * rank + 3", "3 - 3 * rank, 6 - 3 * rank"),
    ADDED.miss("a maximum", '"sum", "g"', '"max", "g"'),
    HIGHEST,
    HIGHEST.miss("filled with 0", "-inf", "0"),
    HIGHEST.miss("filled with inf", "-inf", "inf"),
    HIGHEST.miss("padding counts", ", 5)", ", 6)"),
    HIGHEST.but("the least", seq=LONG.format("amin"), dist=PADDED.format("amin", "-inf", "min")),
)  # fmt: skip

DIAGONAL = """
all: b[{n}, {n}] = ones([{n}, {n}])
x: f32[{n}, {n}]
above = masked_fill.Scalar(x, triu(all, 1), 0)
kept = masked_fill.Scalar(above, tril(all, -1), 0)
y: f32[()] = sum.default(kept)
return y
"""
CORNER = [[0, 4], [0, 4]]
BOTH = (
    # Rows behind the block are 0 in its columns, and columns behind it in its rows; what is behind
    # both of them is not.
    Case(
        "of two dimensions that are added up each is left out for the other's sake",
        DIAGONAL.format(n=4),
        DIAGONAL.format(n=8),
        ranks=1,
        relate={"x": [row(0, "x", seq_box=CORNER, dist_box=CORNER)]},
        maps=(),
    ),
    Case("a diagonal as it is", DIAGONAL.format(n=4), DIAGONAL.format(n=4)),
)

# Without a softmax: what a mask is multiplied with is 0 where it is not true, and so is a sigmoid of -inf.
LINEAR = """
all: b[6, 6] = ones([6, 6])
q: f32[6, 3]
k: f32[6, 3]
v: f32[6, 2]
see: b[6, 6] = tril(all, 0)
s: f32[6, 6] = mm(q, t(k))
p: f32[6, 6] = {}
y = mm(p, v)
return y
"""
LINEAR_RING = """
all: b[3, 3] = ones([3, 3])
q: f32[3, 3]
k: f32[3, 3]
v: f32[3, 2]
ks = all_gather_into_tensor(k, 2, "g")
vs = all_gather_into_tensor(v, 2, "g")
see: b[3, 3] = tril(all, 0)
s: f32[3, 3] = mm(q, t(k))
p0: f32[3, 3] = {0}
s: f32[3, 3] = mm(q, t(slice.Tensor(ks, 0, 0, 3)))
p1: f32[3, 3] = {1}
o0 = mm(p0, v)
o1 = mm(p1, slice.Tensor(vs, 0, 0, 3))
y = o0 if rank == 0 else add.Tensor(o0, o1)
return y
"""
GATE = "sigmoid(masked_fill.Scalar(s, logical_not(see), -inf))"
PRODUCT = Case(
    "scores times a mask",
    LINEAR.format("mul.Tensor(s, see)"),
    LINEAR_RING.format("mul.Tensor(s, see)", "s"),
)
SIGMOID = Case(
    "a sigmoid of masked scores", LINEAR.format(GATE), LINEAR_RING.format(GATE, "sigmoid(s)")
)
# Weights that are normalised by their sum.
SHARES = Case(
    "a sigmoid of masked scores, and their sum",
    LINEAR.format(GATE).replace("y = mm(p, v)", "y = div.Tensor(mm(p, v), sum.dim_IntList(p, [1], True))"),
    LINEAR_RING.format(GATE, "sigmoid(s)").replace(
        "y = o0 if rank == 0 else add.Tensor(o0, o1)",
        "n0 = sum.dim_IntList(p0, [1], True)\nn1 = add.Tensor(n0, sum.dim_IntList(p1, [1], True))\n"
        "y = div.Tensor(o0, n0) if rank == 0 else div.Tensor(add.Tensor(o0, o1), n1)",
    ),
)  # fmt: skip
ANY = "x: f32[{n}, 4]\nm: b[{n}, 4]\ny: f32[{n}, 4] = {of}\nreturn y"
FORMS = (
    "mul.Tensor(x, m)",
    "mul.Tensor(m, x)",
    "where.ScalarOther(m, x, 0)",
    "masked_fill.Scalar(x, logical_not(m), 0)",
    "mul.Tensor(mul.Tensor(mul.Tensor(x, 0.5), m), 2)",
)


def masked(seq: str, dist: str) -> Case:
    """What a mask of any kind leaves of a tensor, in two forms."""
    return Case(f"{seq} is {dist}", ANY.format(n=6, of=seq), ANY.format(n=3, of=dist))


FILLED = masked(FORMS[2], FORMS[0])
MULTIPLIED = masked(FORMS[0], FORMS[2])
SMALL = masked("exp(masked_fill.Scalar(x, m, -inf))", "mul.Tensor(exp(x), logical_not(m))")
FACTORS = (
    *(masked(a, b) for a in FORMS[:3] for b in FORMS),
    FILLED.miss("the other half", "mul.Tensor(x, m)", "mul.Tensor(x, logical_not(m))"),
    FILLED.miss("filled with 1", "x, 0)", "x, 1)", side="seq"),
    FILLED.miss("twice the mask", "mul.Tensor(x, m)", "mul.Tensor(x, mul.Tensor(m, 2))"),
    FILLED.but("numbers for a mask", seq=FILLED.seq.replace("(m, x", "(gt.Scalar(m, 0), x").replace("b[", "f32["), dist=FILLED.dist.replace("b[", "f32[")),
    FILLED.miss("with itself", "mul.Tensor(x, m)", "mul.Tensor(x, x)"),
    FILLED.but(  # 0 * inf is no number
        "what may be infinite",
        seq=FILLED.seq.replace("x, 0)", "log(x), 0)"),
        dist=FILLED.dist.replace("(x, m)", "(log(x), m)"),
    ),
    FILLED.but(
        "a quotient",
        seq=FILLED.seq.replace("x, 0)", "reciprocal(x), 0)"),
        dist=FILLED.dist.replace("(x, m)", "(reciprocal(x), m)"),
    ),
    FILLED.but(
        "what is -inf there",
        seq=FILLED.seq.replace("x, 0)", "masked_fill.Scalar(x, m, -inf), 0)"),
        dist=FILLED.dist.replace("(x, m)", "(masked_fill.Scalar(x, m, -inf), m)"),
    ),
    FILLED.but(
        "an exponential",
        seq=FILLED.seq.replace("x, 0)", "tanh(x), 0)"),
        dist=FILLED.dist.replace("(x, m)", "(tanh(x), m)"),
        maps=None,
    ),
    MULTIPLIED.but(
        "what may be infinite, the other way round",
        seq=FILLED.dist.replace("[3", "[6").replace("(x, m)", "(log(x), m)"),
        dist=FILLED.seq.replace("[6", "[3").replace("x, 0)", "log(x), 0)"),
    ),
    SMALL,
    SMALL.but("a sigmoid", seq=SMALL.seq.replace("exp", "sigmoid"), dist=SMALL.dist.replace("exp", "sigmoid"), maps=None),
    SMALL.but("a tanh", seq=SMALL.seq.replace("exp", "tanh"), dist=SMALL.dist.replace("exp", "tanh")),
    SMALL.miss("the other half", "logical_not(m)", "m"),
    SMALL.miss("very little is not nothing", "-inf", "-1e30", side="seq"),
    SMALL.miss("hidden with inf", "-inf", "inf", side="seq"),
    SMALL.miss("of what is turned around", "exp(masked_fill.Scalar(x, m, -inf))", "exp(neg(masked_fill.Scalar(neg(x), m, -inf)))", side="seq"),
    SMALL.but("twice as much", seq=SMALL.seq.replace("exp(masked_fill.Scalar(x, m, -inf))", "exp(mul.Tensor(masked_fill.Scalar(x, m, -inf), 2))"),
              dist=SMALL.dist.replace("exp(x)", "exp(mul.Tensor(x, 2))"), maps=None),
)  # fmt: skip
SEEN = (
    PRODUCT,
    PRODUCT.miss("its own key is not seen", "tril(all, 0)", "tril(all, -1)"),
    PRODUCT.miss("a key too many", "tril(all, 0)", "tril(all, 1)"),
    PRODUCT.miss("seen the other way round", "tril(all, 0)", "triu(all, 0)"),
    PRODUCT.miss("no mask", "p0: f32[3, 3] = mul.Tensor(s, see)", "p0: f32[3, 3] = clone(s)"),
    PRODUCT.miss("the other block is masked, too", "p1: f32[3, 3] = s", "p1: f32[3, 3] = mul.Tensor(s, see)"),
    PRODUCT.miss("the block counts that should not", "o0 if rank == 0 else add", "add"),
    PRODUCT.miss("the ranks exchanged", "rank == 0", "rank == 1"),
    PRODUCT.miss("numbers for a mask", "see: b[3, 3] = tril(all, 0)", "see: f32[3, 3] = mul.Tensor(tril(all, 0), 2.0)"),
    PRODUCT.miss("a sequential program without mask", "mul.Tensor(s, see)", "s", side="seq"),
    PRODUCT.but("values that may be infinite", seq=PRODUCT.seq.replace("mm(p, v)", "mm(p, log(v))"),
                dist=PRODUCT.dist.replace("mm(p0, v)", "mm(p0, log(v))").replace("mm(p1, slice.Tensor(vs, 0, 0, 3))", "mm(p1, log(slice.Tensor(vs, 0, 0, 3)))")),
    PRODUCT.but("scores that may be infinite", seq=PRODUCT.seq.replace("(s, see)", "(log(s), see)"),
                dist=PRODUCT.dist.replace("(s, see)", "(log(s), see)").replace("p1: f32[3, 3] = s", "p1: f32[3, 3] = log(s)")),
    PRODUCT.but("the mask first", dist=LINEAR_RING.format("mul.Tensor(see, s)", "s"), maps=None),
    PRODUCT.but("filled with 0 on the ranks", dist=LINEAR_RING.format("masked_fill.Scalar(s, logical_not(see), 0)", "s"), maps=None),
    PRODUCT.but("filled with 0 in the sequential program", seq=LINEAR.format("where.ScalarOther(see, s, 0)"), maps=None),
    SIGMOID,
    SIGMOID.miss("its own key is not seen", "tril(all, 0)", "tril(all, -1)"),
    SIGMOID.miss("a block is left out that counts", "o0 if rank == 0 else add.Tensor(o0, o1)", "o0"),
    SIGMOID.miss("the block counts that should not", "o0 if rank == 0 else add", "add"),
    SIGMOID.but("very little is not nothing", seq=SIGMOID.seq.replace("-inf", "-1e30"), dist=SIGMOID.dist.replace("-inf", "-1e30")),
    SIGMOID.but("a sigmoid of inf is 1", seq=SIGMOID.seq.replace("-inf", "inf"), dist=SIGMOID.dist.replace("-inf", "inf")),
    SIGMOID.but("a tanh of -inf is -1", seq=SIGMOID.seq.replace("sigmoid", "tanh"), dist=SIGMOID.dist.replace("sigmoid", "tanh")),
    SIGMOID.but("of what is turned around", seq=SIGMOID.seq.replace("sigmoid(masked", "sigmoid(neg(masked").replace("-inf)", "-inf))"),
                dist=SIGMOID.dist.replace("sigmoid(masked", "sigmoid(neg(masked").replace("-inf)", "-inf))").replace("sigmoid(s)", "sigmoid(neg(s))")),
    SIGMOID.but("a mask after the sigmoid", dist=LINEAR_RING.format("mul.Tensor(sigmoid(s), see)", "sigmoid(s)"), maps=None),
    SIGMOID.but("a mask after the sigmoid in both", seq=LINEAR.format("mul.Tensor(sigmoid(s), see)"),
                dist=LINEAR_RING.format("mul.Tensor(sigmoid(s), see)", "sigmoid(s)"), maps=None),
    SHARES,
    SHARES.miss("divided by the own sum", "n1 = add.Tensor(n0, ", "n1 = add.Tensor(0, "),
)  # fmt: skip

# Ones on the diagonal: each rank has its own block of them, beside which there is nothing.
ONES = """
x: f32[6, 6]
return mul.Tensor(x, eye(6))
"""
OWN = """
x: f32[3, 6]
own = mul.Tensor(slice.Tensor(x, 1, 3 * rank, 3 * rank + 3), eye(3))
nil: f32[3, 3] = zeros([3, 3])
a: f32[3, 3] = own if rank == 0 else nil
b: f32[3, 3] = nil if rank == 0 else own
return cat([a, b], 1)
"""
STRIPES = """
x: f32[3, 6]
return mul.Tensor(x, slice.Tensor(eye(6), 0, 3 * rank, 3 * rank + 3))
"""
TARGETS = """
x: f32[6, 6]
y = sub.Tensor(mul.Tensor(eye(6), 2), 1)
return mul.Tensor(x, y)
"""
OWN_TARGETS = """
x: f32[3, 6]
y = sub.Tensor(mul.Tensor(slice.Tensor(eye(6), 0, 3 * rank, 3 * rank + 3), 2), 1)
return mul.Tensor(x, y)
"""
IDENTITY = Case("rows of ones on the diagonal", ONES, STRIPES)
EYES = (
    IDENTITY,
    IDENTITY.miss("rows of another rank", "0, 3 * rank, 3 * rank + 3", "0, 3 - 3 * rank, 6 - 3 * rank"),
    IDENTITY.miss("of the rank's own rows", "slice.Tensor(eye(6), 0, 3 * rank, 3 * rank + 3)", "eye.m(3, 6)"),
    IDENTITY.but("more columns", seq=ONES.replace("eye(6)", "eye.m(6, 6)"), maps=None),
    IDENTITY.but("all above it, too", dist=STRIPES.replace("eye(6)", "triu(ones([6, 6]), 0)")),
    Case("numbers made of them", TARGETS, OWN_TARGETS),
    Case("of one row", "x: f32[4, 1]\nreturn mul.Tensor(x, eye(1))", "x: f32[2, 1]\nreturn mul.Tensor(x, eye(1))"),
    Case("blocks in the wrong place", ONES, OWN.replace("rank == 0", "rank == 1"), maps=()),
)  # fmt: skip


@table(*BLOCKS, *TOTALS, *BOTH, *SEEN, *FACTORS, *EYES)
def test_halves(case: Case, outcomes: Outcomes) -> None:
    check(case, outcomes(case))
