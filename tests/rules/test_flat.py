"""Flat buffers and zeros around pieces: several tensors one behind the other, shards that begin or end
within a row, what is reduced, gathered, updated in them and viewed again."""

from __future__ import annotations

from .build import Case, check, table
from .conftest import Outcomes

INPUTS = "x: f32[{n}, 3]\ny: f32[{n}, 2]\nz: f32[{n}, 5]\nw: f32[3, 2]\n"
SEQ = INPUTS.format(n=12) + "g = mm(t(x), y)\nh = sum.dim_IntList(z, [0])\n"
TWO, THREE = (INPUTS.format(n=n) + "g = mm(t(x), y)\nh = sum.dim_IntList(z, [0])\n" for n in (6, 4))

# ---- buckets of gradients
BUCKET = Case(
    "two gradients in a bucket",
    SEQ + "return tanh(g), tanh(h)",
    TWO
    + 'b = all_reduce(cat([h, view(g, [6])]), "sum", "g")\n'
    + "p = view(slice.Tensor(b, 0, 5, 11), [3, 2])\nq = slice.Tensor(b, 0, 0, 5)\n"
    + "return tanh(p), tanh(q)",
)
AVERAGED = Case(
    "a bucket that is averaged, padding behind",
    SEQ + "return div.Tensor(g, 2.0), div.Tensor(h, 2.0)",
    TWO
    + "o: f32[1] = zeros([1])\nb = all_reduce(cat([view(g, [6]), h, o]), 'avg', 'g')\n"
    + "return view(slice.Tensor(b, 0, 0, 6), [3, 2]), slice.Tensor(b, 0, 6, 11)",
)
WRITTEN = Case(
    "gradients written into a buffer",
    SEQ + "return g, h",
    TWO
    + "o: f32[12] = empty.memory_format([12])\n"
    + "a: f32[12] = slice_scatter(o, view(g, [6]), 0, 1, 7)\n"
    + "c: f32[12] = slice_scatter(a, h, 0, 7, 12)\nb = all_reduce(c, 'sum', 'g')\n"
    + "p = view(slice.Tensor(b, 0, 1, 7), [3, 2])\nreturn p, slice.Tensor(b, 0, 7, 12)",
)
SCALARS = Case(
    "two numbers, one reduction",
    SEQ + "a = sum(exp(x))\nb = sum(exp(z))\nreturn div.Tensor(a, b)",
    TWO
    + "a = sum(exp(x))\nb = sum(exp(z))\ns = all_reduce(stack([a, b]), 'sum', 'g')\n"
    + "return div.Tensor(select.int(s, 0, 0), select.int(s, 0, 1))",
)
STACKED = Case(
    "parts that are put together along a dimension, and something whole after",
    "x: f32[4, 6]\na: f32[6, 3]\nb: f32[6, 3]\nv: f32[4, 6]\n"
    "return mul.Tensor(cat([mm(x, a), mm(x, b)], 1), v)",
    "x: f32[4, 3]\na: f32[3, 3]\nb: f32[3, 3]\nv: f32[4, 6]\n"
    "return mul.Tensor(all_reduce(cat([mm(x, a), mm(x, b)], 1), 'sum', 'g'), v)",
)
COUNT = 70
COLUMNS = [f"mm(t(x), slice.Tensor(y, 1, {k}, {k + 1}))" for k in range(COUNT)]
MANY = Case(
    "a bucket of many gradients",
    f"x: f32[8, 3]\ny: f32[8, {COUNT}]\nreturn " + ", ".join(f"exp({column})" for column in COLUMNS),
    f"x: f32[4, 3]\ny: f32[4, {COUNT}]\n"
    + "b = all_reduce(cat([" + ", ".join(f"view({column}, [3])" for column in COLUMNS) + "]), 'sum', 'g')\n"
    + "return " + ", ".join(f"exp(view(slice.Tensor(b, 0, {3 * k}, {3 * k + 3}), [3, 1]))" for k in range(COUNT)),
)  # fmt: skip
BUCKETS = (
    MANY,
    MANY.miss("one of them further", "b, 0, 6, 9", "b, 0, 7, 10", maps={"out", *(f"out_{k}" for k in range(1, COUNT) if k != 2)}),
    BUCKET,
    BUCKET.miss("one further", "b, 0, 5, 11", "b, 0, 4, 10", maps=("out_1",)),
    BUCKET.miss("not reduced", 'all_reduce(cat([h, view(g, [6])]), "sum", "g")', "cat([h, view(g, [6])])"),
    BUCKET.miss("a maximum", '"sum"', '"max"'),
    BUCKET.miss("in other rows", "11), [3, 2])", "11), [2, 3])", maps=("out_1",)),
    BUCKET.miss("the transpose", "view(g, [6])", "view(t(g), [6])", maps=("out_1",)),
    BUCKET.miss("twice", "view(g, [6])", "view(add.Tensor(g, g), [6])", maps=("out_1",)),
    BUCKET.miss("in the other order", "[h, view(g, [6])]", "[view(g, [6]), h]"),
    BUCKET.miss("reduced in part", "cat([h, view(g, [6])])", "slice.Tensor(cat([h, view(g, [6])]), 0, 0, 9)",
                dist=TWO + "c = cat([h, view(g, [6])])\nb = cat([all_reduce(slice.Tensor(c, 0, 0, 9), 'sum', 'g'), slice.Tensor(c, 0, 9, 11)])\n"
                "p = view(slice.Tensor(b, 0, 5, 11), [3, 2])\nreturn tanh(p), tanh(slice.Tensor(b, 0, 0, 5))", maps=("out_1",)),
    AVERAGED,
    AVERAGED.miss("of a sum", "'avg'", "'sum'"),
    AVERAGED.miss("padding in front", "[view(g, [6]), h, o]", "[o, view(g, [6]), h]"),
    WRITTEN,
    WRITTEN.miss("what nobody has written", "b, 0, 1, 7", "b, 0, 0, 6", maps=("h",)),
    WRITTEN.miss("written over", "a, h, 0, 7, 12", "a, h, 0, 6, 11", maps=()),
    SCALARS,
    SCALARS.miss("exchanged", "select.int(s, 0, 0), select.int(s, 0, 1)", "select.int(s, 0, 1), select.int(s, 0, 0)"),
    STACKED,
    STACKED.miss("in the other order", "[mm(x, a), mm(x, b)]", "[mm(x, b), mm(x, a)]"),
    STACKED.miss("not reduced", "all_reduce(cat([mm(x, a), mm(x, b)], 1), 'sum', 'g')", "cat([mm(x, a), mm(x, b)], 1)"),
)  # fmt: skip


# ---- shards of a flat buffer
def _updated(ranks: int, pad: int) -> str:
    """Gradients are reduced and scattered, each rank updates its shard of what is flattened."""
    size, inputs = (11 + pad) // ranks, TWO if ranks == 2 else THREE
    zeros = f"o: f32[{pad}] = zeros([{pad}])\n"
    return (
        f"{inputs}u: f32[5]\n{zeros}r = reduce_scatter_tensor(cat([view(g, [6]), h, o]), 'sum', {ranks}, 'g')\n"
        f"f = cat([view(w, [6]), u, o])\ns = slice.Tensor(f, 0, {size} * rank, {size} * rank + {size})\n"
        "n = sub.Tensor(s, div.Tensor(r, add.Scalar(sqrt(mul.Tensor(r, r)), 1.0)))\n"
        f"a = all_gather_into_tensor(n, {ranks}, 'g')\n"
        "return view(slice.Tensor(a, 0, 0, 6), [3, 2]), slice.Tensor(a, 0, 6, 11)"
    )


def _step(p: str, g: str) -> str:
    return f"sub.Tensor({p}, div.Tensor({g}, add.Scalar(sqrt(mul.Tensor({g}, {g})), 1.0)))"


STEP = f"{SEQ}u: f32[5]\nreturn {_step('w', 'g')}, {_step('u', 'h')}"
SHARDS = Case("a shard is updated", STEP, _updated(2, 1))
THIRDS = Case("a third is updated", STEP, _updated(3, 1), ranks=3)
RESHARDED = Case(
    "a shard ends within a row",
    SEQ + "return g",
    TWO
    + "s = reduce_scatter_tensor(view(g, [6]), 'sum', 2, 'g')\n"
    + "return view(all_gather_into_tensor(s, 2, 'g'), [3, 2])",
)
CUT = Case(
    "a weight is cut within a row and gathered",
    "x: f32[4, 3]\nw: f32[3, 2]\nreturn mm(x, w)",
    "x: f32[4, 3]\nw: f32[3, 2]\ns = slice.Tensor(view(w, [6]), 0, 3 * rank, 3 * rank + 3)\n"
    "return mm(x, view(all_gather_into_tensor(s, 2, 'g'), [3, 2]))",
)
CUBE = Case(
    "a weight of three dimensions",
    "x: f32[2, 4, 3]\nw: f32[2, 3, 5]\nreturn bmm(x, w)",
    "x: f32[2, 4, 3]\nw: f32[2, 3, 5]\ns = slice.Tensor(view(w, [30]), 0, 10 * rank, 10 * rank + 10)\n"
    "return bmm(x, view(all_gather_into_tensor(s, 3, 'g'), [2, 3, 5]))",
    ranks=3,
)
ROWS = Case(
    "a row for each rank",
    CUT.seq,
    "x: f32[4, 3]\nw: f32[3, 2]\ns = select.int(view(w, [2, 3]), 0, rank)\n"
    "return mm(x, view(all_gather_into_tensor(s, 2, 'g'), [3, 2]))",
)
TOGETHER = Case(
    "shards of several tensors are gathered at once, and each is taken out",
    "x: f32[4, 3]\nw: f32[6, 3]\nu: f32[6]\nreturn addmm(u, x, t(w))",
    "x: f32[4, 3]\nw: f32[3, 3]\nu: f32[3]\n"
    "g = view(all_gather_into_tensor(cat([view(w, [9]), u]), 2, 'g'), [2, 12])\n"
    "v = view(reshape(slice.Tensor(g, 1, 0, 9), [18]), [6, 3])\n"
    "return addmm(reshape(slice.Tensor(g, 1, 9, 12), [6]), x, t(v))",
)
OF_OTHERS = {"groups": {"g": [[1, 0]]}}
SHARDED = (
    SHARDS,
    SHARDS.miss("the shard of another", "6 * rank, 6 * rank + 6", "6 - 6 * rank, 12 - 6 * rank"),
    SHARDS.but("members exchanged", **OF_OTHERS),  # type: ignore[arg-type]
    SHARDS.miss("its own gradient", "reduce_scatter_tensor(cat([view(g, [6]), h, o]), 'sum', 2, 'g')", "slice.Tensor(cat([view(g, [6]), h, o]), 0, 6 * rank, 6 * rank + 6)"),
    SHARDS.miss("of an average", "'sum'", "'avg'"),
    SHARDS.miss("other gradients", "cat([view(g, [6]), h, o])", "cat([h, view(g, [6]), o])"),
    SHARDS.miss("other weights", "cat([view(w, [6]), u, o])", "cat([u, view(w, [6]), o])"),
    THIRDS,
    THIRDS.miss("one further", "a, 0, 0, 6", "a, 0, 1, 7", maps=("out_1",)),
    RESHARDED,
    RESHARDED.miss("in other rows", "[3, 2])", "[2, 3])", maps=()),
    RESHARDED.miss("its own", "reduce_scatter_tensor(view(g, [6]), 'sum', 2, 'g')", "slice.Tensor(view(g, [6]), 0, 3 * rank, 3 * rank + 3)"),
    CUT,
    CUT.but("in the other order", **OF_OTHERS),  # type: ignore[arg-type]
    CUT.miss("overlapping", "3 * rank, 3 * rank + 3", "2 * rank, 2 * rank + 3"),
    CUT.miss("of the transpose", "view(w, [6])", "view(t(w), [6])"),
    CUBE,
    CUBE.miss("one further", "10 * rank, 10 * rank + 10", "9 * rank, 9 * rank + 10"),
    TOGETHER,
    TOGETHER.but("members exchanged", **OF_OTHERS),  # type: ignore[arg-type]
    TOGETHER.miss("one further", "slice.Tensor(g, 1, 0, 9)", "slice.Tensor(g, 1, 1, 10)"),
    TOGETHER.miss("in the other order", "cat([view(w, [9]), u])", "cat([u, view(w, [9])])"),
    TOGETHER.miss("of two ranks as of one", "view(all_gather_into_tensor(cat([view(w, [9]), u]), 2, 'g'), [2, 12])", "view(cat([view(w, [9]), u, view(w, [9]), u]), [2, 12])"),
    ROWS,
    ROWS.miss("of the other", "0, rank", "0, 1 - rank"),
)  # fmt: skip

# ---- zeros around pieces
PLACED = Case(
    "each rank writes its columns into zeros",
    "x: f32[4, 3]\nw: f32[3, 6]\nreturn relu(mm(x, w))",
    "x: f32[4, 3]\nw: f32[3, 2]\no: f32[4, 6] = zeros([4, 6])\n"
    "p: f32[4, 6] = slice_scatter(o, mm(x, w), 1, 2 * rank, 2 * rank + 2)\n"
    "return relu(all_reduce(p, 'sum', 'g'))",
    ranks=3,
)
GRADIENT = Case(
    "gradients of slices are added up",
    "x: f32[4, 6]\nv: f32[4, 6]\ng = mul.Tensor(exp(x), v)\nreturn mul.Tensor(g, x)",
    "x: f32[4, 6]\nv: f32[4, 2]\nl = slice.Tensor(x, 1, 2 * rank, 2 * rank + 2)\n"
    "g = mul.Tensor(exp(l), v)\n"
    "p: f32[4, 6] = slice_backward(g, [4, 6], 1, 2 * rank, 2 * rank + 2, 1)\n"
    "return mul.Tensor(all_reduce(p, 'sum', 'g'), x)",
    ranks=3,
)
NESTED = Case(
    "zeros in two dimensions",
    "x: f32[4, 6]\nreturn exp(x)",
    "x: f32[4, 6]\nl = slice.Tensor(slice.Tensor(x, 1, 3 * rank, 3 * rank + 3), 0, 1, 4)\n"
    "f = slice.Tensor(slice.Tensor(x, 1, 3 * rank, 3 * rank + 3), 0, 0, 1)\n"
    "a: f32[4, 3] = slice_backward(l, [4, 3], 0, 1, 4, 1)\n"
    "b: f32[4, 3] = slice_backward(f, [4, 3], 0, 0, 1, 1)\n"
    "p: f32[4, 6] = slice_backward(add.Tensor(a, b), [4, 6], 1, 3 * rank, 3 * rank + 3, 1)\n"
    "return exp(all_reduce(p, 'sum', 'g'))",
)
ZEROS = (
    PLACED,
    PLACED.miss("where others write", "2 * rank, 2 * rank + 2", "0, 2"),
    PLACED.miss("in the other order", "2 * rank, 2 * rank + 2", "4 - 2 * rank, 6 - 2 * rank"),
    PLACED.miss("into ones", "zeros([4, 6])", "ones([4, 6])"),
    PLACED.miss("into what nobody has written", "zeros([4, 6])", "empty.memory_format([4, 6])"),
    PLACED.miss("not added up", "all_reduce(p, 'sum', 'g')", "p"),
    PLACED.miss("a maximum", "'sum'", "'max'"),
    PLACED.miss("an average", "'sum'", "'avg'"),
    GRADIENT,
    GRADIENT.miss("of others", "slice_backward(g, [4, 6], 1, 2 * rank, 2 * rank + 2, 1)", "slice_backward(g, [4, 6], 1, 0, 2, 1)"),
    GRADIENT.miss("with itself", "all_reduce(p, 'sum', 'g')", "all_reduce(add.Tensor(p, p), 'sum', 'g')"),
    NESTED,
    NESTED.miss("a row twice", "[4, 3], 0, 0, 1, 1)", "[4, 3], 0, 1, 2, 1)"),
)  # fmt: skip

# ---- sums that contain others
AGAIN = Case(
    "an average of averages",
    "x: f32[8, 3]\nreturn div.Tensor(sum.dim_IntList(x, [0]), 2.0)",
    "x: f32[4, 3]\na = sum.dim_IntList(slice.Tensor(x, 0, 0, 2), [0])\n"
    "b = sum.dim_IntList(slice.Tensor(x, 0, 2, 4), [0])\n"
    "m = div.Tensor(all_reduce(a, 'sum', 'g'), 2.0)\n"
    "return div.Tensor(all_reduce(add.Tensor(m, b), 'sum', 'g'), 2.0)",
)
AVERAGES = (
    AGAIN,
    AGAIN.miss("a sum of averages", "return div.Tensor(all_reduce(add.Tensor(m, b), 'sum', 'g'), 2.0)", "return all_reduce(add.Tensor(m, b), 'sum', 'g')"),
    AGAIN.miss("a sum before", "div.Tensor(all_reduce(a, 'sum', 'g'), 2.0)", "all_reduce(a, 'sum', 'g')"),
    AGAIN.miss("the other half only here", "all_reduce(add.Tensor(m, b), 'sum', 'g')", "add.Tensor(all_reduce(m, 'sum', 'g'), b)"),
)  # fmt: skip
EVERY = (*BUCKETS, *SHARDED, *ZEROS, *AVERAGES)


WORDS = (
    "x: f32[2, 3, 6]\nw: f32[5, 6]\ny: f32[2, 3, 5] = view(mm(view(x, [6, 6]), t(w)), [2, 3, 5])\n"
)
CUT_WORDS = """\
x: f32[2, 3, 6]
w: f32[3 - rank, 6]
y: f32[2, 3, 3 - rank] = view(mm(view(x, [6, 6]), t(w)), [2, 3, 3 - rank])
o: f32[2, 3, 1] = zeros([2, 3, 1])
p: f32[2, 3, 3] = y if rank == 0 else cat([y, o], 2)
g: f32[4, 3, 3] = all_gather_into_tensor(p, 2, "g")
parts = split(g, 2, 0)
whole: f32[2, 3, 6] = cat([parts[0], parts[1]], 2)
words: f32[2, 3, 5] = slice(whole, 2, 0, 5)
"""
UNEVEN = Case(
    "columns of several sizes, gathered with padding",
    WORDS + "return _log_softmax(y, 2, False)",
    CUT_WORDS + "return _log_softmax(words, 2, False)",
)
UNEVENLY = (
    UNEVEN,
    UNEVEN.miss("from the second column on", "slice(whole, 2, 0, 5)", "slice(whole, 2, 1, 6)"),
    UNEVEN.miss("the padding in front", "cat([y, o], 2)", "cat([o, y], 2)"),
    UNEVEN.miss("the parts exchanged", "[parts[0], parts[1]]", "[parts[1], parts[0]]"),
    UNEVEN.miss(
        "with the padding", "_log_softmax(words, 2, False)", "_log_softmax(whole, 2, False)"
    ),
    UNEVEN.but("in place", seq=WORDS + "return y", dist=CUT_WORDS + "return words", maps=None),
    UNEVEN.but(
        "rows",
        seq=WORDS + "return relu(slice(y, 1, 1, 3))",
        dist=CUT_WORDS + "return relu(slice(words, 1, 1, 3))",
        maps=None,
    ),
    UNEVEN.but(
        "other rows",
        seq=WORDS + "return relu(slice(y, 1, 1, 3))",
        dist=CUT_WORDS + "return relu(slice(words, 1, 0, 2))",
    ),
)


@table(*BUCKETS)
def test_buckets(case: Case, outcomes: Outcomes) -> None:
    """A reduction of a bucket is the reductions of what lies in it."""
    check(case, outcomes(case))


@table(*SHARDED)
def test_shards_of_a_flat_buffer(case: Case, outcomes: Outcomes) -> None:
    """Wherever a shard begins and ends, all of them in order are the whole."""
    check(case, outcomes(case))


@table(*UNEVENLY)
def test_columns_of_several_sizes(case: Case, outcomes: Outcomes) -> None:
    """What is gathered with padding and cut is what was gathered, whatever it is viewed as."""
    check(case, outcomes(case))


@table(*ZEROS)
def test_zeros_around_pieces(case: Case, outcomes: Outcomes) -> None:
    """A sum of what does not overlap is all of it, each in its place."""
    check(case, outcomes(case))


@table(*AVERAGES)
def test_averages_of_averages(case: Case, outcomes: Outcomes) -> None:
    """What each rank adds its own to counts once for all of them."""
    check(case, outcomes(case))
