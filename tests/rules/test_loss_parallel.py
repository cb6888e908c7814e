"""Cross entropy of logits that stay cut by vocabulary, as torch's ``loss_parallel`` computes it,
against the kernels of ``F.cross_entropy``: forward, backward, tokens cut as well."""

from __future__ import annotations

from .build import Case, Row, check, extracted, row, table
from .conftest import Outcomes

# Of `{t}` tokens this rank has the classes [{lo}, {hi}), which are `{n}`.
SOFTMAX = """
x: f32[{t}, {n}]
y: i64[{t}]
m = all_reduce(amax(x, [1], True), "max", "t")
s = sub.Tensor(x, m)
z = all_reduce(sum.dim_IntList(exp(s), [1], True), "sum", "t")
ls = sub.Tensor(s, log(z))
valid = ne.Scalar(y, -100)
zero: i64[()] = const(0)
none: f32[()] = const(0.0)
y1: i64[{t}] = where.self(valid, y, zero)
c: i64[()] = sum(valid)
count = _to_copy(c, dtype='float32')
"""
LOOKUP = """
u = unsqueeze(y1, 1)
mask: b[{t}, 1] = bitwise_or.Tensor(lt.Scalar(u, {lo}), ge.Scalar(u, {hi}))
there: i64[{t}, 1] = index_put(sub.Tensor(clone(u), {lo}), [mask], zero)
found = index_put(gather(ls, 1, there), [mask], none)
of = all_reduce(found, "sum", "t")
each: f32[{t}] = where.self(valid, neg(squeeze.dim(of, 1)), none)
"""
COLUMN = """
g: f32[()]
by = div.Tensor(g, count)
mask: b[{t}] = bitwise_or.Tensor(lt.Scalar(y1, {lo}), ge.Scalar(y1, {hi}))
there: i64[{t}] = index_put(sub.Tensor(clone(y1), {lo}), [mask], zero)
far: f32[{t}] = _to_copy(mask, dtype='float32')
rows: i64[{t}] = arange({t})
empty: f32[{t}, {n}] = zeros([{t}, {n}])
hot = index_put(empty, [rows, there], sub.Tensor(far, 1.0))
kept = ne.Scalar(unsqueeze(y, 1), -100)
q: f32[{t}, 1] = where.self(kept, by, none)
dx = mul.Tensor(add.Tensor(hot, exp(ls)), q)
"""
SEQ = "x: f32[6, 12]\ny: i64[6]\nls = _log_softmax(x, 1, False)\n"
NLL = "l = nll_loss_forward(ls, y, None, 1, -100)\n"
BACK = NLL + "g: f32[()]\nb: f32[6, 12] = nll_loss_backward(g, ls, y, None, 1, -100, l[1])\n"
BACK += "dx = _log_softmax_backward_data(b, ls, 1, 'float32')\n"
T = {"t": [[0, 1, 2]]}


def filled(text: str, t: int = 6, n: str = "4", lo: str = "4 * rank", hi: str = "") -> str:
    """The program for these sizes and bounds."""
    sizes = {"t": str(t), "n": n, "lo": lo, "hi": hi or f"{lo} + {n}"}
    for key, value in sizes.items():
        text = text.replace("{" + key + "}", value)
    return text


def of(case: Case, name: str, seq: tuple[str, str], dist: tuple[str, str], right: bool) -> Case:
    """A sibling with other text on both sides, where the first text is."""
    assert seq[0] in case.seq and dist[0] in case.dist, name
    texts = {"seq": case.seq.replace(*seq), "dist": case.dist.replace(*dist)}
    return case.but(name, maps=None if right else (), **texts)


def misses(case: Case, listed: str, ids: str = "") -> list[Case]:
    """Siblings, one a line: `what | old | new`, and outputs that are still right; with `=` in
    front all of them are."""
    found = []
    for line in filter(None, listed.replace("{y}", ids).splitlines()):
        what, old, new, *right = (part.strip() for part in line.split("|"))
        maps = None if what.startswith("=") else tuple(" ".join(right).split())
        found.append(case.miss(what.removeprefix("= "), old, new, maps=maps))
    return found


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
a sum of maxima | True), "max" | True), "sum"
the least maximum | True), "max" | True), "min"
a minimum | amax( | amin(
denominators of one rank | z = all_reduce( | z = clone(
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


# ---- a head and its gradients; tokens of sequence and batch are cut as well: rank 2 * d + t
HEAD = """
h: f32[{shape}, 5]
w: f32[{n}, 5]
labels: i64[{shape}]
h2 = view(h, [{t}, 5])
x = view(view(mm(h2, t(w)), [{shape}, {n}]), [{t}, {n}])
y = view(labels, [{t}])
"""
ALONE = "{head}{text}v = clone(l[0])\ndw = mm(t(dx), h2)\ndh = view(mm(dx, w), [{shape}, 5])\n"
ALONE += "return v, dw, dh"
GRID = """{head}{text}
v = div.Tensor(all_reduce(sum(each), "sum", "d"), count)
dw = all_reduce(mm(t(dx), h2), "sum", "d")
dh = view(all_reduce(mm(dx, w), "sum", "t"), [{shape}, 5])
return v, dw, dh
"""
BOTH = SOFTMAX + LOOKUP + COLUMN.replace("mask", "far_mask").replace("there", "column")
BOTH = BOTH.replace("_to_copy(c,", '_to_copy(all_reduce(c, "sum", "d"),')


def tokens(name: str, mine: str, dim: int, swap: bool = False) -> Case:
    """Of sequence and batch, [4, 2], every pair of ranks has ``mine``, cut along ``dim``; labels
    are batch first where ``swap`` is set."""
    body = {"{head}": HEAD, "{text}": "\n".join(BOTH.splitlines()[3:]) + "\n"}
    whole = {"{head}": HEAD, "{text}": (SEQ + BACK).split("\n", 2)[2].replace("6, 12", "8, 12")}
    texts = []
    for text, parts, shape in ((ALONE, whole, "4, 2"), (GRID, body, mine)):
        for key, value in parts.items():
            text = text.replace(key, value)
        if swap:
            text = text.replace("labels: i64[{shape}]", f"labels: i64[{shape[::-1]}]")
            text = text.replace("view(labels,", "view(transpose(labels, 0, 1),")
        texts.append(text.replace("{shape}", shape))
    n = 2 if dim == 0 else 1
    boxes = [
        [[n * (r // 2), n * (r // 2) + n] if i == dim else [0, e] for i, e in enumerate((4, 2))]
        for r in range(4)
    ]
    relate = {
        "h": [row(r, "h", seq_box=[*boxes[r], [0, 5]]) for r in range(4)],
        "labels": [
            row(r, "labels", seq_box=boxes[r][::-1] if swap else boxes[r]) for r in range(4)
        ],
        "w": [row(r, "w", seq_box=[[6 * (r % 2), 6 * (r % 2) + 6], [0, 5]]) for r in range(4)],
    }
    groups = {"t": [[0, 1], [2, 3]], "d": [[0, 2], [1, 3]]}
    seq, dist = filled(texts[0], 8, "12"), filled(texts[1], 4, "6", "6 * (rank % 2)")
    return Case(name, seq, dist, 4, relate=relate, groups=groups)


BATCH = tokens("batch cut", "4, 1", 1)
SEQUENCE = tokens("sequence cut", "2, 2", 0)
OF_GRID = """
count not reduced | _to_copy(all_reduce(c, "sum", "d") | _to_copy(c
count averaged | all_reduce(c, "sum", "d") | all_reduce(c, "avg", "d")
count reduced over classes | all_reduce(c, "sum", "d") | all_reduce(c, "sum", "t")
loss not reduced | all_reduce(sum(each), "sum", "d") | sum(each) | dw dh
maximum over tokens | "max", "t" | "max", "d"
denominators over tokens | dim_IntList(exp(s), [1], True), "sum", "t" | dim_IntList(exp(s), [1], True), "sum", "d"
lookups over tokens | all_reduce(found, "sum", "t") | all_reduce(found, "sum", "d") | dw dh
"""


@table(
    BATCH,
    SEQUENCE,
    tokens("batch cut, labels batch first", "4, 1", 1, swap=True),
    tokens("sequence cut, labels batch first", "2, 2", 0, swap=True),
    *misses(BATCH, OF_GRID),
)
def test_tokens_are_cut_as_well(case: Case, outcomes: Outcomes) -> None:
    """The loss and the gradients of weight and input."""
    check(case, outcomes(case))


def test_targets_are_taken_to_be_classes() -> None:
    """That the one-hot targets add up to 1 rests on it."""
    for case in (LOSS, DX):
        said = extracted(case)["assumption"].to_pylist()
        assert any("ids lie inside" in a["text"] for a in said), case.name
