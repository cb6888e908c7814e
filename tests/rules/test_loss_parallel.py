"""Cross entropy of logits that stay cut by vocabulary, as torch's ``loss_parallel`` computes it,
against the kernels of ``F.cross_entropy``: forward and backward."""

from __future__ import annotations

from .build import Case, Row, check, extracted, row, table
from .conftest import Outcomes
from .loss_parallel import BACK, COLUMN, LOOKUP, NLL, SEQ, SOFTMAX, T, filled, misses, of

RETURN = "return div.Tensor(sum(each), count)"
LOSS = Case(
    "mean", SEQ + NLL + "v = clone(l[0])\nreturn v", filled(SOFTMAX + LOOKUP + RETURN), 3, groups=T
)
DX = Case("gradient", SEQ + BACK + "return dx", filled(SOFTMAX + COLUMN + "return dx"), 3, groups=T)
SOFT = Case(
    "log softmax",
    "x: f32[6, 12]\nreturn _log_softmax(x, 1, False)",
    filled(SOFTMAX + "return ls").replace("y: i64[6]\n", "y: i64[6] = zeros([6])\n"),
    3,
    groups=T,
)

OF_SOFTMAX = """
no maximum over ranks | all_reduce(amax(x, [1], True), "max", "t") | amax(x, [1], True)
= a sum of maxima | True), "max" | True), "sum"
= the least maximum | True), "max" | True), "min"
= a minimum | amax( | amin(
denominators of one rank | z = all_reduce(sum.dim_IntList(exp(s), [1], True), "sum", "t") | z = clone(sum.dim_IntList(exp(s), [1], True))
a mean of denominators | True), "sum" | True), "avg"
not shifted | dim_IntList(exp(s) | dim_IntList(exp(x)
shifted twice | ls = sub.Tensor(s | ls = sub.Tensor(sub.Tensor(s, m)
not normalised | sub.Tensor(s, log(z)) | clone(s)
without the logarithm | log(z) | clone(z)
normalised twice | log(z)) | log(z), alpha=2)
"""
OF_IDS = """
ids of another ignored class | where.self(valid, y, zero) | where.self(ne.Scalar(y, -1), y, zero)
ids that are ignored alone | where.self(valid, y, zero) | where.self(valid, zero, y)
lower bound one too high | lt.Scalar({y}, 4 * rank) | lt.Scalar({y}, 4 * rank + 1)
lower bound one too low | lt.Scalar({y}, 4 * rank) | lt.Scalar({y}, 4 * rank - 1)
upper bound one too low | ge.Scalar({y}, 4 * rank + 4) | ge.Scalar({y}, 4 * rank + 3)
upper bound one too high | ge.Scalar({y}, 4 * rank + 4) | ge.Scalar({y}, 4 * rank + 5)
gt for ge | ge.Scalar({y} | gt.Scalar({y}
le for lt | lt.Scalar({y} | le.Scalar({y}
comparisons exchanged | (lt.Scalar({y}, 4 * rank), ge | (ge.Scalar({y}, 4 * rank), lt
and for or | bitwise_or | bitwise_and
ids not shifted | sub.Tensor(clone({y}), 4 * rank) | clone({y})
ids of the next rank | clone({y}), 4 * rank) | clone({y}), 4 * rank + 4)
not clamped | index_put(sub.Tensor(clone({y}), 4 * rank), [mask], zero) | sub.Tensor(clone({y}), 4 * rank)
clamped to a row outside | [mask], zero) | [mask], add.Tensor(zero, 4))
= clamped to another row inside | [mask], zero) | [mask], add.Tensor(zero, 2))
"""
OF_LOOKUP = """
rows outside are not cleared | all_reduce(found, | all_reduce(gather(ls, 1, there),
filled with 1 | [mask], none) | [mask], add.Tensor(none, 1))
cleared inside | there), [mask] | there), [logical_not(mask)]
lookups of one rank | all_reduce(found, "sum", "t") | clone(found)
the greatest of the lookups | all_reduce(found, "sum" | all_reduce(found, "max"
a lookup of the logits | gather(ls | gather(x
not taken away | neg(squeeze.dim(of, 1)) | squeeze.dim(of, 1)
ignored tokens are in it | self(valid, neg(squeeze.dim(of, 1)), none) | self(valid, neg(squeeze.dim(of, 1)), neg(squeeze.dim(of, 1)))
other tokens are ignored | self(valid, neg | self(eq.Scalar(y, -100), neg
another class is ignored | self(valid, neg | self(ne.Scalar(y, -1), neg
a mean over all tokens | sum(each), count) | sum(each), 6)
a count of another class | c: i64[()] = sum(valid) | c: i64[()] = sum(ne.Scalar(y, -1))
a count of what is ignored | c: i64[()] = sum(valid) | c: i64[()] = sum(logical_not(valid))
a sum | div.Tensor(sum(each), count) | sum(each)
added up over ranks | div.Tensor(sum(each), count) | all_reduce(div.Tensor(sum(each), count), "sum", "t")
= averaged over ranks | div.Tensor(sum(each), count) | all_reduce(div.Tensor(sum(each), count), "avg", "t")
"""
OF_COLUMN = """
+1 for -1 | sub.Tensor(far, 1.0) | rsub.Scalar(far, 1.0)
everywhere | sub.Tensor(far, 1.0) | -1.0
twice | sub.Tensor(far, 1.0) | sub.Tensor(far, 2.0)
in place of others | sub.Tensor(far, 1.0) | neg(far)
of other bounds | _to_copy(mask | _to_copy(lt.Scalar(y1, 4 * rank)
into other rows | [rows, there] | [neg(rows), there]
at ids that may be ignored | [rows, there] | [rows, y]
over other values | index_put(empty | index_put(ls
added to other values | put(empty, [rows, there], sub.Tensor(far, 1.0)) | put(ls, [rows, there], sub.Tensor(far, 1.0), True)
= added to 0 | there], sub.Tensor(far, 1.0)) | there], sub.Tensor(far, 1.0), True)
not masked | where.self(kept, by, none) | where.self(kept, by, by)
the other tokens | where.self(kept, by, none) | where.self(kept, none, by)
another class is ignored | unsqueeze(y, 1), -100 | unsqueeze(y, 1), -1
filled with 1 | where.self(kept, by, none) | where.self(kept, by, add.Tensor(none, 1))
softmax taken away | add.Tensor(hot, exp(ls)) | sub.Tensor(hot, exp(ls))
the target twice | add.Tensor(hot, exp(ls)) | add.Tensor(exp(ls), hot, alpha=2)
= the other way round | add.Tensor(hot, exp(ls)) | add.Tensor(exp(ls), hot)
of shifted logits | add.Tensor(hot, exp(ls)) | add.Tensor(hot, exp(s))
of its logarithm | add.Tensor(hot, exp(ls)) | add.Tensor(hot, ls)
softmax alone | add.Tensor(hot, exp(ls)) | exp(ls)
added up over ranks | return dx | return all_reduce(dx, "sum", "t")
not divided | div.Tensor(g, count) | clone(g)
divided by all tokens | div.Tensor(g, count) | div.Tensor(g, 6)
"""

# ---- other reductions, ignored classes, and shards
PARTS = (
    (LOSS, SOFTMAX + LOOKUP + RETURN),
    (DX, SOFTMAX + COLUMN + "return dx"),
)
SAME = ("", "")
DIVIDED = "g: f32[()]\nby = div.Tensor(g, count)"
SCALED = ("g: f32[()]", "g0: f32[()]\ng = mul.Tensor(g0, 0.1)")
WAYS = (
    of(LOSS, "sum", ("None, 1", "None, 2"), (RETURN, "return sum(each)"), True),
    of(LOSS, "per token", ("None, 1", "None, 0"), (RETURN, "return each"), True),
    of(LOSS, "another ignored class", ("-100", "3"), ("-100", "3"), True),
    of(LOSS, "ignored on one side", ("-100", "3"), SAME, False),
    of(LOSS, "with weights", ("None, 1", "x, 1"), SAME, False),
    of(DX, "of a sum", ("None, 1", "None, 2"), (DIVIDED, "g: f32[()]\nby = clone(g)"), True),
    of(DX, "of a sum against a mean", ("None, 1", "None, 2"), SAME, False),
    of(DX, "another ignored class", ("-100", "3"), ("-100", "3"), True),
    of(DX, "ignored on one side", ("-100", "3"), SAME, False),
    of(DX, "with other scores", ("b, ls, 1", "b, x, 1"), ("exp(ls)", "exp(x)"), True),
    of(DX, "with other scores on one side", ("b, ls, 1", "b, x, 1"), SAME, False),
    of(DX, "along tokens", ("b, ls, 1", "b, ls, 0"), SAME, False),
    of(DX, "of a softmax", ("_log_softmax_b", "_softmax_b"), SAME, False),
    of(DX, "of another gradient", ("data(b", "data(relu(b)"), SAME, False),
    of(DX, "of a scaled loss", SCALED, SCALED, True),
    of(DX, "of a scaled loss on one side", SCALED, SAME, False),
    of(
        DX,
        "scaled",
        ("data(b", "data(mul.Tensor(b, 3)"),
        ("div.Tensor(g, count)", "mul.Tensor(div.Tensor(g, count), 3)"),
        True,
    ),
)
EACH = Case(
    "gradient per token",
    DX.seq.replace("None, 1", "None, 0").replace("g: f32[()]", "g: f32[6]"),
    DX.dist.replace(DIVIDED, "g: f32[6]\nby = unsqueeze(g, 1)"),
    3,
    groups=T,
)
CUT = {"n": "(5, 4, 3)[rank]", "lo": "(0, 5, 9)[rank]", "hi": "(5, 9, 12)[rank]"}


def placed(order: list[int], n: int = 4) -> dict[str, list[Row]]:
    """Rank r has shard ``order[r]`` of the logits."""
    boxes = [[[0, 6], [n * k, n * k + n]] for k in order]
    return {"x": [row(r, "x", seq_box=box) for r, box in enumerate(boxes)]}


def shards(case: Case, text: str) -> list[Case]:
    """Classes over any number of ranks, evenly or not; shards that do not fit their bounds."""
    six = {"ranks": 6, "groups": {"t": [range(6)]}}
    twice = filled(text.replace("{lo}", "4 * (rank % 3)").replace("{hi}", "4 * (rank % 3) + 4"))
    pairs = {"t": [[0, 1, 2], [3, 4, 5]]}
    again = {**six, "dist": twice, "relate": placed([0, 1, 2, 0, 1, 2])}
    return [
        case.but("six ranks", maps=None, dist=filled(text, n="2", lo="2 * rank"), **six),
        case.but("one rank", maps=None, ranks=1, dist=filled(text, n="12"), groups={"t": [[0]]}),
        case.but("uneven", maps=None, dist=filled(text, **CUT)),
        case.but("uneven shards, even bounds", dist=filled(text, n=CUT["n"], hi="4 * rank + 4")),
        case.but("even shards, uneven bounds", dist=filled(text, **CUT | {"n": "4"})),
        case.but("in reverse order", relate=placed([2, 1, 0])),
        case.but("two exchanged", relate=placed([1, 0, 2])),
        case.but("of more classes", seq=case.seq.replace("12", "13")),
        case.but("twice, each for itself", maps=None, **again | {"groups": pairs}),
        case.but("twice, all together", **again),
    ]


# ---- ids are compared as they are, ignored ones among them
RAW = of(LOSS, "ids as they are", ("x", "x"), ("unsqueeze(y1, 1)", "unsqueeze(y, 1)"), True)
RAW_DX = DX.but(
    "ids as they are",
    dist=DX.dist.replace("Scalar(y1", "Scalar(y").replace("clone(y1)", "clone(y)"),
    maps=None,
)
HIDDEN_LATE = """
x: f32[6, 4]
y: i64[6]
m = all_reduce(amax(x, [1]), "max", "t")
s = sub.Tensor(x, unsqueeze(m, 1))
z = all_reduce(sum.dim_IntList(exp(s), [1]), "sum", "t")
valid = ne.Scalar(y, -100)
none: f32[()] = const(0.0)
mask: b[6] = bitwise_or.Tensor(lt.Scalar(y, 4 * rank), ge.Scalar(y, 4 * rank + 4))
there = masked_fill.Scalar(sub.Tensor(y, 4 * rank), mask, 0)
got = squeeze.dim(gather(s, 1, unsqueeze(there, 1)), 1)
of = all_reduce(masked_fill.Scalar(got, mask, 0.0), "sum", "t")
each: f32[6] = where.self(valid, sub.Tensor(log(z), of), none)
c: i64[()] = sum(valid)
v = div.Tensor(sum(each), _to_copy(c, dtype='float32'))
return v
"""
LATE = Case("hidden in the end", LOSS.seq, HIDDEN_LATE, 3, groups=T)
BOUNDS = "bitwise_or.Tensor(lt.Scalar(y, 4 * rank), ge.Scalar(y, 4 * rank + 4))"
HIDING = "where.self(valid, sub.Tensor(log(z), of), none)"
OF_LATE = f"""
= filled where ignored | {HIDING} | masked_fill.Scalar(sub.Tensor(log(z), of), eq.Scalar(y, -100), 0.0)
= between the bounds | {BOUNDS} | bitwise_not(bitwise_and.Tensor(ge.Scalar(y, 4 * rank), lt.Scalar(y, 4 * rank + 4)))
= the upper bound included | ge.Scalar(y, 4 * rank + 4) | gt.Scalar(y, 4 * rank + 3)
= clamped | masked_fill.Scalar(sub.Tensor(y, 4 * rank), mask, 0) | clamp(sub.Tensor(y, 4 * rank), 0, 3)
not hidden | {HIDING} | sub.Tensor(log(z), of)
another number is hidden | {HIDING} | where.self(ne.Scalar(y, -1), sub.Tensor(log(z), of), none)
the logarithm alone is hidden | {HIDING} | sub.Tensor(masked_fill.Scalar(log(z), eq.Scalar(y, -100), 0.0), of)
only where it is a class of the rank | {HIDING} | where.self(bitwise_not(mask), sub.Tensor(log(z), of), none)
clamped, not cleared | masked_fill.Scalar(got, mask, 0.0) | clone(got)
no lower bound | {BOUNDS} | ge.Scalar(y, 4 * rank + 4)
no upper bound | {BOUNDS} | lt.Scalar(y, 4 * rank)
a lower bound below the ignored number | lt.Scalar(y, 4 * rank) | lt.Scalar(y, 4 * rank - 200)
all tokens are counted | c: i64[()] = sum(valid) | c: i64[()] = sum(ge.Scalar(y, -100))
"""


def as_they_are(case: Case, listed: str, ids: str) -> list[Case]:
    """Those that are wrong here, too: nothing is done to the ids before, and of an ignored one no
    rank has a row."""
    right = ("where.self(valid, y, zero)", "ignored tokens are in it")
    kept = [row for row in listed.splitlines() if not any(text in row for text in right)]
    return misses(case, "\n".join(kept), ids)


@table(
    RAW,
    *as_they_are(RAW, OF_IDS + OF_LOOKUP, "u"),
    RAW.miss(
        "ignored tokens have no row anyway",
        "where.self(valid, neg(squeeze.dim(of, 1)), none)",
        "neg(squeeze.dim(of, 1))",
        maps=None,
    ),
    RAW_DX,
    *misses(RAW_DX, OF_SOFTMAX),
    *as_they_are(RAW_DX, OF_IDS + OF_COLUMN, "y"),
    LATE,
    *misses(LATE, OF_LATE),
)
def test_ids_as_they_are(case: Case, outcomes: Outcomes) -> None:
    """Ignored ids lie in no shard, and are hidden in the end."""
    check(case, outcomes(case))


@table(
    SOFT,
    *misses(SOFT, OF_SOFTMAX),
    LOSS,
    *misses(LOSS, OF_SOFTMAX),
    *misses(LOSS, OF_IDS + OF_LOOKUP, "u"),
    DX,
    *misses(DX, OF_SOFTMAX),
    *misses(DX, OF_IDS + OF_COLUMN, "y1"),
    *WAYS,
    EACH,
    EACH.miss("of the mean", "unsqueeze(g, 1)", "div.Tensor(unsqueeze(g, 1), count)"),
    *(sibling for case, text in PARTS for sibling in shards(case, text)),
)
def test_shards_of_classes(case: Case, outcomes: Outcomes) -> None:
    """The loss and the gradient of the logits, if everything fits."""
    check(case, outcomes(case))


def test_targets_are_taken_to_be_classes() -> None:
    """That the one-hot targets add up to 1 rests on it."""
    for case in (LOSS, DX):
        said = extracted(case)["assumption"].to_pylist()
        assert any("ids lie inside" in a["text"] for a in said), case.name
