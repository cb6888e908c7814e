"""Softmax over a cut dimension: merged from blocks, as ring attention does, or from statistics that
are reduced; log-probabilities over a cut vocabulary; what is no logarithm of all exponentials."""

from __future__ import annotations

from .build import Case, check, extracted, table
from .conftest import Outcomes

ATTENTION = """
q: f32[4, 3]
k: f32[6, 3]
v: f32[6, 2]
p: f32[4, 6] = _softmax(mm(q, t(k)), 1, False)
y = mm(p, v)
return y
"""
BLOCKS = """
q: f32[4, 3]
k: f32[3, 3]
v: f32[3, 2]
ks = all_gather_into_tensor(k, 2, "g")
vs = all_gather_into_tensor(v, 2, "g")
v0 = slice.Tensor(vs, 0, 3 * rank, 3 * rank + 3)
v1 = slice.Tensor(vs, 0, 3 - 3 * rank, 6 - 3 * rank)
s0: f32[4, 3] = mm(q, t(slice.Tensor(ks, 0, 3 * rank, 3 * rank + 3)))
s1: f32[4, 3] = mm(q, t(slice.Tensor(ks, 0, 3 - 3 * rank, 6 - 3 * rank)))
"""
MERGED = (
    BLOCKS
    + """
l0: f32[4, 1] = logsumexp(s0, [1], True)
l1: f32[4, 1] = logsumexp(s1, [1], True)
o0 = mm(exp(sub.Tensor(s0, l0)), v0)
o1 = mm(exp(sub.Tensor(s1, l1)), v1)
n: f32[4, 1] = logaddexp(l0, l1)
y = add.Tensor(mul.Tensor(exp(sub.Tensor(l0, n)), o0), mul.Tensor(exp(sub.Tensor(l1, n)), o1))
return y
"""
)
RING = Case("blocks merged by the logarithms of their sums", ATTENTION, MERGED)
SHARES = Case(
    "blocks merged by the share that each has",
    ATTENTION,
    MERGED[: MERGED.index("n: f32")]
    + "y = sub.Tensor(o0, mul.Tensor(sigmoid(sub.Tensor(l1, l0)), sub.Tensor(o0, o1)))\nreturn y",
)
RUNNING = Case(
    "numerators and denominators with a running maximum",
    ATTENTION,
    BLOCKS
    + """
m0: f32[4, 1] = amax(s0, [1], True)
p0 = exp(sub.Tensor(s0, m0))
m1 = maximum(m0, amax(s1, [1], True))
p1 = exp(sub.Tensor(s1, m1))
c = exp(sub.Tensor(m0, m1))
a = add.Tensor(mul.Tensor(mm(p0, v0), c), mm(p1, v1))
b = add.Tensor(mul.Tensor(sum.dim_IntList(p0, [1], True), c), sum.dim_IntList(p1, [1], True))
y = div.Tensor(a, b)
return y
""",
)
STATISTICS = Case(
    "statistics that are reduced over ranks",
    ATTENTION,
    """
q: f32[4, 3]
k: f32[3, 3]
v: f32[3, 2]
s: f32[4, 3] = mm(q, t(k))
m = all_reduce(amax(s, [1], True), "max", "g")
p = exp(sub.Tensor(s, m))
a = all_reduce(mm(p, v), "sum", "g")
b = all_reduce(sum.dim_IntList(p, [1], True), "sum", "g")
y = div.Tensor(a, b)
return y
""",
)
HIDDEN = Case(
    "blocks in which a row may be hidden entirely are not merged: they have no maximum",
    ATTENTION.replace("k: f32[6, 3]", "k: f32[6, 3]\nhide: b[4, 6]").replace(
        "mm(q, t(k))", "masked_fill.Scalar(mm(q, t(k)), hide, -inf)"
    ),
    RING.dist.replace("k: f32[3, 3]", "k: f32[3, 3]\nhide: b[4, 6]")
    .replace("s0: f32[4, 3] = mm(", "s0: f32[4, 3] = masked_fill.Scalar(mm(")
    .replace(
        "3 * rank, 3 * rank + 3)))",
        "3 * rank, 3 * rank + 3))), slice.Tensor(hide, 1, 3 * rank, 3 * rank + 3), -inf)",
    )
    .replace("s1: f32[4, 3] = mm(", "s1: f32[4, 3] = masked_fill.Scalar(mm(")
    .replace(
        "3 - 3 * rank, 6 - 3 * rank)))",
        "3 - 3 * rank, 6 - 3 * rank))), slice.Tensor(hide, 1, 3 - 3 * rank, 6 - 3 * rank), -inf)",
    ),
    maps=(),
)


@table(
    RING,
    RING.miss("one block for the other", "sub.Tensor(l1, n)), o1", "sub.Tensor(l0, n)), o1"),
    RING.miss("a block twice", "sub.Tensor(l1, n)), o1", "sub.Tensor(l0, n)), o0"),
    RING.miss("not rescaled", "mul.Tensor(exp(sub.Tensor(l0, n)), o0)", "o0"),
    RING.miss("one block alone", "logaddexp(l0, l1)", "logaddexp(l0, l0)"),
    RING.miss("the greater of both", "logaddexp(l0, l1)", "maximum(l0, l1)"),
    RING.miss("the sum of both", "logaddexp(l0, l1)", "add.Tensor(l0, l1)"),
    RING.miss("another block's own", "sub.Tensor(s1, l1)", "sub.Tensor(s1, l0)"),
    RING.miss("values of the other block", "l1)), v1)", "l1)), v0)"),
    RING.miss("the same keys twice", "ks, 0, 3 - 3 * rank, 6 - 3 * rank", "ks, 0, 3 * rank, 3 * rank + 3"),
    RING.miss("added up over the ranks", "n)), o1))", "n)), o1))\ny = all_reduce(y, 'sum', 'g')"),
    SHARES,
    SHARES.miss("of the other", "sub.Tensor(l1, l0)", "sub.Tensor(l0, l1)"),
    SHARES.miss("from the other", "sub.Tensor(o0, mul", "sub.Tensor(o1, mul"),
    SHARES.miss("away from it", "sub.Tensor(o0, o1)", "sub.Tensor(o1, o0)"),
    SHARES.miss("added", "y = sub.Tensor(o0", "y = add.Tensor(o0"),
    SHARES.miss("twice", "sub.Tensor(l1, l0)", "mul.Tensor(sub.Tensor(l1, l0), 2)"),
    RUNNING,
    RUNNING.miss("denominators not rescaled", "mul.Tensor(sum.dim_IntList(p0, [1], True), c)",
                 "sum.dim_IntList(p0, [1], True)"),
    RUNNING.miss("numerators not rescaled", "mul.Tensor(mm(p0, v0), c)", "mm(p0, v0)"),
    RUNNING.miss("rescaled the wrong way", "sub.Tensor(m0, m1)", "sub.Tensor(m1, m0)"),
    RUNNING.miss("a maximum per block", "p1 = exp(sub.Tensor(s1, m1))",
                 "p1 = exp(sub.Tensor(s1, amax(s1, [1], True)))"),
    RUNNING.miss("one denominator", "div.Tensor(a, b)", "div.Tensor(a, sum.dim_IntList(p1, [1], True))"),
    RUNNING.but("any shift will do", maps=None, dist=RUNNING.dist.replace("maximum(m0, ", "minimum(m0, ")),
    STATISTICS,
    STATISTICS.miss("a maximum per rank", 'all_reduce(amax(s, [1], True), "max", "g")', "amax(s, [1], True)"),
    STATISTICS.miss("a denominator per rank", 'b = all_reduce(sum.dim_IntList(p, [1], True), "sum", "g")',
                    "b = sum.dim_IntList(p, [1], True)"),
    STATISTICS.miss("a mean of denominators", 'p, [1], True), "sum"', 'p, [1], True), "avg"'),
    STATISTICS.miss("a maximum of keys", "amax(s, [1], True)", "amax(s, [0], True)"),
    STATISTICS.but("no shift at all", maps=None, dist=STATISTICS.dist.replace("sub.Tensor(s, m)", "s")),
    HIDDEN,
)  # fmt: skip
def test_blocks_of_keys(case: Case, outcomes: Outcomes) -> None:
    """Every rank has all queries; each block of keys and values is used once."""
    check(case, outcomes(case))


GRADIENT = Case(
    "the gradient of attention with the sum of its rows from the output",
    """
q: f32[4, 3]
k: f32[6, 3]
v: f32[6, 2]
g: f32[4, 2]
p: f32[4, 6] = _softmax(mm(q, t(k)), 1, False)
s: f32[4, 6] = _softmax_backward_data(mm(g, t(v)), p, 1, 'float32')
dq = mm(s, k)
dk = mm(t(s), q)
dv = mm(t(p), g)
return dq, dk, dv
""",
    """
q: f32[4, 3]
k: f32[3, 3]
v: f32[3, 2]
g: f32[4, 2]
s: f32[4, 3] = mm(q, t(k))
l: f32[4, 1] = log(all_reduce(sum.dim_IntList(exp(s), [1], True), "sum", "g"))
p: f32[4, 3] = exp(sub.Tensor(s, l))
o = all_reduce(mm(p, v), "sum", "g")
d: f32[4, 1] = sum.dim_IntList(mul.Tensor(g, o), [1], True)
ds: f32[4, 3] = mul.Tensor(p, sub.Tensor(mm(g, t(v)), d))
dq = all_reduce(mm(ds, k), "sum", "g")
dk = mm(t(ds), q)
dv = mm(t(p), g)
return dq, dk, dv
""",
)
COLUMNS = GRADIENT.but(
    "from the columns",
    maps=None,
    dist=GRADIENT.dist.replace(
        "sum.dim_IntList(mul.Tensor(g, o), [1], True)",
        'all_reduce(sum.dim_IntList(mul.Tensor(p, mm(g, t(v))), [1], True), "sum", "g")',
    ),
)
V_ALONE = ("dv",)  # the gradient of the values has nothing to do with the sums of rows


@table(
    GRADIENT,
    GRADIENT.miss("sums of one rank", 'o = all_reduce(mm(p, v), "sum", "g")', "o = mm(p, v)", maps=V_ALONE),
    GRADIENT.miss("without the sums", "sub.Tensor(mm(g, t(v)), d)", "mm(g, t(v))", maps=V_ALONE),
    GRADIENT.miss("sums of the output alone", "mul.Tensor(g, o)", "o", maps=V_ALONE),
    GRADIENT.miss("a logarithm per rank", 'all_reduce(sum.dim_IntList(exp(s), [1], True), "sum", "g")',
                  "sum.dim_IntList(exp(s), [1], True)"),
    GRADIENT.miss("the gradient of the queries in parts", 'dq = all_reduce(mm(ds, k), "sum", "g")',
                  "dq = mm(ds, k)", maps=("dk", "dv")),
    COLUMNS,
    COLUMNS.miss("of one rank", ', "sum", "g")\nds', ', "max", "g")\nds', maps=V_ALONE),
)  # fmt: skip
def test_gradients_of_blocks(case: Case, outcomes: Outcomes) -> None:
    """``sum_j (g v_j) p_j = g (sum_j p_j v_j)``."""
    check(case, outcomes(case))


# ---- log-probabilities over a cut vocabulary
GATHERED = """
x: f32[5, 8]
y: i64[5]
l = squeeze.dim(gather(_log_softmax(x, 1, False), 1, unsqueeze(y, 1)), 1)
return l
"""
SELECTED = """
x: f32[5, 8]
y: i64[5]
l = sub.Tensor(squeeze.dim(gather(x, 1, unsqueeze(y, 1)), 1), logsumexp(x, [1]))
return l
"""
LOSS = """
x: f32[5, 8]
y: i64[5]
ls: f32[5, 8] = _log_softmax(x, 1, False)
n = nll_loss_forward(ls, y, None, 0, -100)
l = neg(n[0])
return l
"""
PARALLEL = """
x: f32[5, 4]
y: i64[5]
m = all_reduce(amax(x, [1], True), "max", "g")
s = sub.Tensor(x, m)
zero: i64[()] = const(0)
none: f32[()] = const(0.0)
mask: b[5] = bitwise_or.Tensor(lt.Scalar(y, 4 * rank), ge.Scalar(y, 4 * rank + 4))
there: i64[5] = index_put(sub.Tensor(clone(y), 4 * rank), [mask], zero)
found = index_put(squeeze.dim(gather(s, 1, unsqueeze(there, 1)), 1), [mask], none)
of = all_reduce(found, "sum", "g")
z = all_reduce(sum.dim_IntList(exp(s), [1]), "sum", "g")
l = sub.Tensor(of, log(z))
return l
"""
FORMS = [
    Case(f"log-probabilities {name}", seq, PARALLEL)
    for name, seq in (("gathered", GATHERED), ("of scores", SELECTED), ("as a loss", LOSS))
]
GREATEST = 'all_reduce(amax(x, [1], True), "max", "g")'
WRONG = {
    "a maximum per rank": (GREATEST, "amax(x, [1], True)"),
    "a sum of one rank": ('all_reduce(sum.dim_IntList(exp(s), [1]), "sum", "g")', "sum.dim_IntList(exp(s), [1])"),
    "lookups of one rank": ('all_reduce(found, "sum", "g")', "clone(found)"),
    "lookups without the maximum": ("gather(s, 1", "gather(x, 1"),
    "sums without the maximum": ("exp(s)", "exp(x)"),
    "a bound too high": ("4 * rank + 4)", "4 * rank + 5)"),
    "ids of the next rank": ("clone(y), 4 * rank)", "clone(y), 4 * rank + 4)"),
    "not cleared": (", [mask], none)", ", [logical_not(mask)], none)"),
    "added": ("sub.Tensor(of, log(z))", "add.Tensor(of, log(z))"),
    "without the logarithm": ("log(z)", "z"),
}  # fmt: skip
PLACES = "p: i64[5] = arange(5)\nk: b[5] = ge.Scalar(p, -100)\n"


@table(
    *FORMS,
    *(form.miss(name, old, new) for form in FORMS for name, (old, new) in WRONG.items()),
    FORMS[2].but("a class that is ignored", seq=LOSS.replace("-100", "3")),
    FORMS[2].but("the ranks know what is ignored", dist=PARALLEL + "k = ne.Scalar(y, -100)\n"),
    FORMS[2].but("positions are compared with it", dist=PARALLEL + PLACES, maps=None),
    FORMS[2].but(
        "positions that targets are compared with",
        dist=PARALLEL + PLACES.replace("ge.Scalar(p, -100)", "eq.Tensor(y, add.Tensor(p, -100))"),
    ),
    FORMS[2].but(
        "positions that are added to targets",
        dist=PARALLEL + PLACES + "o: i64[5] = add.Tensor(y, mul.Tensor(p, -100))\n",
    ),
)
def test_log_probabilities(case: Case, outcomes: Outcomes) -> None:
    """Each rank has some of the classes; a target is looked up where its class is."""
    check(case, outcomes(case))


def test_that_no_target_is_ignored_is_said() -> None:
    """A loss leaves out the targets that it ignores: ranks that look all of them up do not."""
    texts = [row["text"] for row in extracted(FORMS[2])["assumption"].to_pylist()]
    assert any(text.startswith("no target of the loss is -100") for text in texts)
    texts = [row["text"] for row in extracted(FORMS[0])["assumption"].to_pylist()]
    assert not any("no target" in text for text in texts)


SMOOTHED = Case(
    "a smoothed loss",
    """
x: f32[5, 8]
y: i64[5]
ls: f32[5, 8] = _log_softmax(x, 1, False)
n = squeeze.dim(gather(ls, 1, unsqueeze(y, 1)), 1)
l = add.Tensor(mul.Tensor(n, 0.9), mul.Tensor(mean.dim(ls, [1]), 0.1))
return l
""",
    PARALLEL.replace("return l", "")
    + """
p = div.Tensor(exp(s), unsqueeze(z, 1))
a = div.Tensor(all_reduce(sum.dim_IntList(log(p), [1]), "sum", "g"), 8)
k = add.Tensor(mul.Tensor(l, 0.9), mul.Tensor(a, 0.1))
return k
""",
)
PADDED_ROW = Case(
    "the gradient of a table with a row that does not count",
    """
g: f32[5, 3]
i: i64[5]
y: f32[8, 3] = embedding_dense_backward(g, i, 8, 5, False)
return y
""",
    """
g: f32[5, 3]
i: i64[5]
zero: i64[()] = const(0)
mask: b[5] = bitwise_or.Tensor(lt.Scalar(i, 4 * rank), ge.Scalar(i, 4 * rank + 4))
there: i64[5] = index_put(sub.Tensor(clone(i), 4 * rank), [mask], zero)
h = masked_fill.Scalar(g, unsqueeze(mask, 1), 0.0)
y: f32[4, 3] = embedding_dense_backward(h, there, 4, 1 if rank == 1 else -1, False)
return y
""",
)
LOGSUMEXP = Case(
    "a logarithm of sums over whole rows",
    "x: f32[6, 8]\ny = logsumexp(x, [1])\nreturn y",
    "x: f32[3, 8]\ny = logsumexp(x, [1])\nreturn y",
)


@table(
    SMOOTHED,
    SMOOTHED.miss("a mean over the shard", "8)\nk", "4)\nk"),
    SMOOTHED.miss("the shard's own mean", 'all_reduce(sum.dim_IntList(log(p), [1]), "sum", "g")',
                  "sum.dim_IntList(log(p), [1])"),
    SMOOTHED.miss("other weights", "mul.Tensor(a, 0.1)", "mul.Tensor(a, 0.11)"),
    SMOOTHED.miss("nearly the weights", "mul.Tensor(a, 0.1)", "mul.Tensor(a, 0.1000001)"),
    SMOOTHED.but("there and back", maps=None, seq=SMOOTHED.seq.replace("return", "l = div.Tensor(mul.Tensor(l, 0.3), 0.3)\nreturn")),
    PADDED_ROW,
    PADDED_ROW.miss("on every rank", "1 if rank == 1 else -1", "1"),
    PADDED_ROW.miss("on the wrong rank", "1 if rank == 1 else -1", "1 if rank == 0 else -1"),
    PADDED_ROW.miss("another row", "1 if rank == 1 else -1", "2 if rank == 1 else -1"),
    PADDED_ROW.miss("no row", "1 if rank == 1 else -1", "-1"),
    LOGSUMEXP,
    LOGSUMEXP.but("over a cut dimension", dist=LOGSUMEXP.dist.replace("[3, 8]", "[6, 4]")),
    LOGSUMEXP.but("over the other dimension", dist=LOGSUMEXP.dist.replace("[1]", "[0]").replace("[3, 8]", "[6, 4]")),
)  # fmt: skip
def test_losses_and_tables(case: Case, outcomes: Outcomes) -> None:
    """Label smoothing, a padding row, sums of exponentials as they are."""
    check(case, outcomes(case))
