"""Tokens and their experts: maps of ids (``extract/tabulated.py``), matrices that ids choose
(``extract/dense.py``), groups that ranks exchange (``extract/twins.py``), permutations undone."""

from __future__ import annotations

from .build import Case, check, table
from .conftest import Outcomes

# ---- a map from the ids of all experts to a rank's own -------------------------------------------
CHOICE = "x: f32[6, 4]\nbest = topk(x, 2)\nv: f32[6, 2] = best[0]\ni: i64[6, 2] = best[1]\n"


def terms(experts: int, ids: str) -> str:
    """The sum over experts of what the tokens that chose them get."""
    rows = "".join(
        f"m{e}: b[6, 2] = eq.Scalar({ids}, {e})\n"
        f"t{e} = mul.Tensor(mul.Tensor(v, m{e}), select.int(w, 0, {e}))\n"
        for e in range(experts)
    )
    total = "t0"
    for e in range(1, experts):
        total = f"add.Tensor({total}, t{e})"
    return rows + f"s = {total}\n"


MAPPED = Case(
    "a map of experts",
    "w: f32[4, 2]\n" + CHOICE + terms(4, "i") + "return s",
    "w: f32[2, 2]\n" + CHOICE
    + "map: i64[4] = const([0, 1, -1, -1] if rank == 0 else [-1, -1, 0, 1])\n"
    + "l: i64[6, 2] = index.Tensor(map, [i])\n" + terms(2, "l")
    + 'y = all_reduce(s, "sum", "g")\nreturn y',
)  # fmt: skip
LOOKED_UP = "l: i64[6, 2] = index.Tensor(map, [i])\n"
WRAPPED = MAPPED.but(
    "ids by a remainder, the others masked",
    maps=None,
    dist=MAPPED.dist.replace(
        LOOKED_UP,
        "o: b[6, 2] = ne.Scalar(floor_divide(i, 2), rank)\n"
        "l: i64[6, 2] = masked_fill.Scalar(remainder.Scalar(i, 2), o, 7)\n",
    ),
)
MAPS = [
    MAPPED,
    MAPPED.miss("of the other rank", "if rank == 0", "if rank == 1"),
    MAPPED.miss("experts exchanged", "[-1, -1, 0, 1]", "[-1, -1, 1, 0]"),
    MAPPED.miss("one expert on both ranks", "[-1, -1, 0, 1]", "[0, -1, 0, 1]"),
    MAPPED.miss("an expert on no rank", "[-1, -1, 0, 1]", "[-1, -1, -1, 1]"),
    MAPPED.miss("not reduced", 'all_reduce(s, "sum", "g")', "clone(s)"),
    MAPPED.miss("global ids", LOOKED_UP, "l: i64[6, 2] = clone(i)\n"),
    WRAPPED,
    WRAPPED.miss("masked with an id", "o, 7)", "o, 1)"),
    WRAPPED.miss("another remainder", "remainder.Scalar(i, 2)", "remainder.Scalar(i, 3)"),
    WRAPPED.miss("the other half", "floor_divide(i, 2), rank", "floor_divide(i, 2), 1 - rank"),
]

# ---- matrices that ids choose, clamped to the rank's -------------------------------------------
PRODUCT = "y = squeeze.dim(bmm(m, unsqueeze(x, 2)), 2)\n"
HEAD = "s: f32[6, 4]\nx: f32[6, 3]\nv: f32[6]\ni: i64[6] = argmax(s, 1)\n"
CLAMPED = Case(
    "matrices of clamped ids, masked in the end",
    "w: f32[4, 5, 3]\n" + HEAD + "m: f32[6, 5, 3] = index.Tensor(w, [i])\n" + PRODUCT
    + "z = mul.Tensor(tanh(y), unsqueeze(v, 1))\nreturn z",
    "w: f32[2, 5, 3]\n" + HEAD + "l: i64[6] = sub.Tensor(i, 2 * rank)\n"
    "o: b[6] = bitwise_or.Tensor(lt.Scalar(l, 0), ge.Scalar(l, 2))\n"
    "c: i64[6] = clamp(l, 0, 1)\nm: f32[6, 5, 3] = index.Tensor(w, [c])\n" + PRODUCT
    + "u = masked_fill.Scalar(v, o, 0)\nt = mul.Tensor(tanh(y), unsqueeze(u, 1))\n"
    'z = all_reduce(t, "sum", "g")\nreturn z',
)  # fmt: skip
GRADIENT = Case(
    "their gradients",
    "w: f32[4, 5, 3]\n" + HEAD + "m: f32[6, 5, 3] = index.Tensor(w, [i])\n" + PRODUCT
    + "g = mul.Tensor(y, unsqueeze(v, 1))\nd = bmm(unsqueeze(g, 2), unsqueeze(x, 1))\n"
    "n: f32[4, 5, 3] = zeros([4, 5, 3])\nz: f32[4, 5, 3] = index_put(n, [i], d, True)\nreturn z",
    "w: f32[2, 5, 3]\n" + HEAD + "l: i64[6] = sub.Tensor(i, 2 * rank)\n"
    "o: b[6] = bitwise_or.Tensor(lt.Scalar(l, 0), ge.Scalar(l, 2))\n"
    "c: i64[6] = clamp(l, 0, 1)\nm: f32[6, 5, 3] = index.Tensor(w, [c])\n" + PRODUCT
    + "u = masked_fill.Scalar(v, o, 0)\ng = mul.Tensor(y, unsqueeze(u, 1))\n"
    "d = bmm(unsqueeze(g, 2), unsqueeze(x, 1))\n"
    "n: f32[2, 5, 3] = zeros([2, 5, 3])\nz: f32[2, 5, 3] = index_put(n, [c], d, True)\nreturn z",
)  # fmt: skip


def single(case: Case, name: str) -> Case:
    """The same with two experts, one on each rank."""
    seq, dist = case.seq.replace("s: f32[6, 4]", "s: f32[6, 2]"), case.dist
    for old, new in (
        ("s: f32[6, 4]", "s: f32[6, 2]"),
        ("2 * rank", "rank"),
        ("ge.Scalar(l, 2)", "ge.Scalar(l, 1)"),
        ("clamp(l, 0, 1)", "clamp(l, 0, 0)"),
        ("[2, 5, 3]", "[1, 5, 3]"),
    ):
        dist = dist.replace(old, new)
    return case.but(name, maps=None, seq=seq.replace("[4, 5, 3]", "[2, 5, 3]"), dist=dist)


ONE_EACH = single(CLAMPED, "one expert on each rank")
ONE_EACH_GRADIENT = single(GRADIENT, "one expert on each rank")
POLE = CLAMPED.but(
    "a pole, which another expert's row may meet",
    seq=CLAMPED.seq.replace("tanh(y)", "log(y)"),
    dist=CLAMPED.dist.replace("tanh(y)", "log(y)"),
)
MATRICES = [
    CLAMPED,
    CLAMPED.miss("masked one expert late", "ge.Scalar(l, 2)", "ge.Scalar(l, 3)"),
    CLAMPED.miss("masked one expert early", "ge.Scalar(l, 2)", "ge.Scalar(l, 1)"),
    CLAMPED.miss("masked from below alone", "ge.Scalar(l, 2)", "lt.Scalar(l, 0)"),
    CLAMPED.miss("masked with 1", "masked_fill.Scalar(v, o, 0)", "masked_fill.Scalar(v, o, 1)"),
    CLAMPED.miss("not masked", "masked_fill.Scalar(v, o, 0)", "clone(v)"),
    CLAMPED.miss("of the other rank", "2 * rank", "2 - 2 * rank"),
    CLAMPED.miss("clamped to the first", "clamp(l, 0, 1)", "clamp(l, 0, 0)"),
    CLAMPED.miss("a matrix further on", "clamp(l, 0, 1)", "clamp(add.Tensor(l, 1), 0, 1)"),
    CLAMPED.miss(
        "a mask of other rows", "masked_fill.Scalar(v, o", "masked_fill.Scalar(v, flip(o, [0])"
    ),
    CLAMPED.miss("not reduced", 'all_reduce(t, "sum", "g")', "clone(t)"),
    POLE,
    ONE_EACH,
    ONE_EACH.miss("of the other rank", "sub.Tensor(i, rank)", "sub.Tensor(i, 1 - rank)"),
    ONE_EACH.miss("not masked", "masked_fill.Scalar(v, o, 0)", "clone(v)"),
    ONE_EACH.miss("masked late", "ge.Scalar(l, 1)", "ge.Scalar(l, 2)"),
    ONE_EACH_GRADIENT,
    ONE_EACH_GRADIENT.miss("not masked", "masked_fill.Scalar(v, o, 0)", "clone(v)"),
    ONE_EACH_GRADIENT.miss("of the other rank", "(i, rank)", "(i, 1 - rank)"),
    GRADIENT,
    GRADIENT.miss("not masked", "masked_fill.Scalar(v, o, 0)", "clone(v)"),
    GRADIENT.miss("added at other experts", "index_put(n, [c]", "index_put(n, [sub.Tensor(1, c)]"),
    GRADIENT.miss("of the other rank", "2 * rank", "2 - 2 * rank"),
    GRADIENT.miss("not added up", "d, True)", "d)"),
]

# ---- groups, one after the other, and all of them exchanged ---------------------------------------
GROUP = "s{g} = _softmax(select.int(x, 0, {g}), 0, False)\nd{g} = view(s{g}, [4, 2, 3])\n"
EXPERTS = "o{g} = gelu(bmm(d{g}, w))\n"
EXCHANGED = Case(
    "groups exchanged for experts",
    "x: f32[2, 8, 3]\nw: f32[4, 3, 5]\n"
    + "".join((GROUP + EXPERTS).format(g=g) for g in (0, 1)) + "y = cat([o0, o1], 0)\nreturn y",
    "x: f32[1, 8, 3]\nw: f32[2, 3, 5]\n" + GROUP.format(g=0)
    + 'e: f32[4, 2, 3] = all_to_all_single(d0, [2, 2], [2, 2], "g")\n'
    "t: f32[2, 2, 2, 3] = transpose.int(view(e, [2, 2, 2, 3]), 0, 1)\n"
    "o = gelu(bmm(view(t, [2, 4, 3]), w))\n"
    "b: f32[2, 2, 2, 5] = transpose.int(view(o, [2, 2, 2, 5]), 0, 1)\n"
    'y: f32[4, 2, 5] = all_to_all_single(view(b, [4, 2, 5]), [2, 2], [2, 2], "g")\nreturn y',
)  # fmt: skip
BIASED = EXCHANGED.but(
    "with a bias",
    maps=None,
    seq=("c: f32[4, 1, 5]\n" + EXCHANGED.seq)
    .replace("gelu(bmm(d0, w))", "gelu(add.Tensor(bmm(d0, w), c))")
    .replace("gelu(bmm(d1, w))", "gelu(add.Tensor(bmm(d1, w), c))"),
    dist=("c: f32[2, 1, 5]\n" + EXCHANGED.dist).replace(
        "gelu(bmm(view(t, [2, 4, 3]), w))", "gelu(add.Tensor(bmm(view(t, [2, 4, 3]), w), c))"
    ),
)
GROUPS = [
    EXCHANGED,
    EXCHANGED.miss(
        "groups not put outside again", "view(o, [2, 2, 2, 5]), 0, 1", "view(o, [2, 2, 2, 5]), 0, 0"
    ),
    EXCHANGED.miss(
        "experts and groups mixed", "view(e, [2, 2, 2, 3]), 0, 1", "view(e, [2, 2, 2, 3]), 0, 0"
    ),
    EXCHANGED.miss(
        "slots and groups mixed", "view(e, [2, 2, 2, 3]), 0, 1", "view(e, [2, 2, 2, 3]), 0, 2"
    ),
    EXCHANGED.miss(
        "not sent back",
        'all_to_all_single(view(b, [4, 2, 5]), [2, 2], [2, 2], "g")',
        "view(b, [4, 2, 5])",
    ),
    EXCHANGED.miss(
        "one group with other matrices", "bmm(d1, w)", "bmm(d1, flip(w, [0]))", side="seq"
    ),
    EXCHANGED.miss("one group done otherwise", "o1 = gelu(", "o1 = relu(", side="seq"),
    BIASED,
    BIASED.miss("the bias twice", ", w), c))", ", w), mul.Tensor(c, 2)))"),
]

# ---- a permutation undone -----------------------------------------------------------------------
SORTED = (
    "ids: i64[6]\nx: f32[6, 4]\np: i64[6] = argsort(ids)\nr: f32[6, 4] = index_select(x, 0, p)\n"
)
UNDONE = Case(
    "a permutation undone in two ways",
    SORTED + "q: i64[6] = argsort(p)\ny: f32[6, 4] = index_select(relu(r), 0, q)\nreturn y",
    SORTED + "e: i64[6] = empty([6])\na: i64[6] = arange(6)\nq: i64[6] = scatter.src(e, 0, p, a)\n"
    "y: f32[6, 4] = index_select(relu(r), 0, q)\nreturn y",
)
PERMUTATIONS = [
    UNDONE,
    UNDONE.miss("not undone", "relu(r), 0, q)", "relu(r), 0, p)"),
    UNDONE.miss("one further on", "arange(6)", "add.Tensor(arange(6), 1)"),
    UNDONE.miss("downwards", "arange(6)", "flip(arange(6), [0])"),
    UNDONE.miss("positions of ids", "scatter.src(e, 0, p, a)", "scatter.src(e, 0, ids, a)"),
    UNDONE.miss("the other way", "argsort(p)", "argsort(p, 0, True)", side="seq"),
]


@table(*MAPS)
def test_maps(case: Case, outcomes: Outcomes) -> None:
    check(case, outcomes(case))


@table(*MATRICES)
def test_matrices(case: Case, outcomes: Outcomes) -> None:
    check(case, outcomes(case))


@table(*GROUPS)
def test_groups(case: Case, outcomes: Outcomes) -> None:
    check(case, outcomes(case))


@table(*PERMUTATIONS)
def test_permutations(case: Case, outcomes: Outcomes) -> None:
    check(case, outcomes(case))
