"""Pairs for rules that random programs and the tables of ``tests/rules`` seldom come by, in the
language of these tables. What they derive is compared with numbers like everything else."""

from __future__ import annotations

from typing import Any

Row = dict[str, Any]

# ---- coefficients: two products, and the same three numbers in another order --------------------------
SCALED = (
    "x: f32[4, {{n}}]\nz: f32[4, {{n}}]\nu: f32[4, {{n}}]\ny = mul.Tensor(mul.Tensor(x, {}), z)\n"
)
SCALED += "return mul.Tensor(mul.Tensor(mul.Tensor(y, {}), u), {})"
LARGE = 65536.0
ONE, OTHER, THIRD = 0.1234567, 0.3141593, 0.7182818  # next to no small fraction
ORDERS = {
    "a numerator that does not fit": ((1.0, 1.0, LARGE**2), (LARGE, LARGE, 1.0)),
    "a denominator that does not fit": ((LARGE, LARGE, 1.0), (1.0, 1.0, LARGE**2)),
    "two scalars above the line": ((1.0, 1.0, ONE * OTHER), (ONE, OTHER, 1.0)),
    "two scalars below the line": ((ONE, OTHER, 1.0), (1.0, 1.0, ONE * OTHER)),
    "a scalar cancels above": ((ONE, THIRD, OTHER), (OTHER, ONE, THIRD)),
    "a scalar cancels below": ((OTHER, ONE, THIRD), (ONE, THIRD, OTHER)),
    "another scalar below than above": ((1.0, ONE, OTHER), (OTHER, 1.0, ONE)),
}

# ---- layouts ------------------------------------------------------------------------------------------
X = "x: f32[24, 3]\nw: f32[3, 5]\nz: f32[3, 3]\n"
TURNED = "t = reshape(transpose(view(x, [4, 6, 3]), 0, 1), [24, 3])\n"
STRIPES = "s = slice(view(x, [4, 6, 3]), 1, 3 * rank, 3 * rank + 3)\n"
STRIPES += "y = mm(cat([z, reshape(s, [12, 3])], 0), w)\n"
QUARTER = (
    "slice(slice(view(x, [4, 6, 3]), 0, 2 * (rank // 2), 2 * (rank // 2) + 2), 1, 3 * (rank % 2)"
)
QUARTER = f"s = reshape({QUARTER}, 3 * (rank % 2) + 3), [6, 3])\n"
COLUMNS = ", ".join(f"select(v, 1, {i})" for i in range(6))
MOST = ", ".join(f"select(v, 1, {i})" for i in range(5))
HEADS = "x: f32[{n}, 4]\nw: f32[4, 5]\nz: f32[4]\n"
DIGITS = "return select(select(matmul(view(x, [4, 2, 3, 3]), w), 1, 1), 1, 2)"
HEAD = "y = matmul(view(stack([select(x, 0, 0), z], 0), [2, 1, 4]), w)\nreturn slice(y, 0, 0, 1)"
ROWS = "x: f32[{n}, 6]\nz: f32[2]\n{get}return cat([{rows}, z], 0)"
CLAMPED = "w: f32[6, 4]\ni: i64[5]\nreturn embedding(w, clamp(i, 0, 5))"
LAYOUTS = {
    "ids that are clamped as they are": (CLAMPED, CLAMPED, 2),
    "rows in another order": (
        X + "return mm(slice(x, 0, 0, 12), w)",
        X + TURNED + "y = mm(cat([z, z, t], 0), w)\nreturn slice(y, 0, 4, 28)",
        2,
    ),
    "stripes": (X + "return mm(x, w)", X + STRIPES + "return slice(y, 0, 3, 15)", 2),
    "quarters, that go on along the stripes and then across": (
        X + "return mm(x, w)",
        X + QUARTER + 'y = mm(s, w)\nreturn all_gather_into_tensor(y, 4, "g")',
        4,
    ),
    "one stripe": (
        X + "return mm(x, w)",
        X + STRIPES + "return slice(slice(y, 0, 3, 15), 0, 0, 3)",
        2,
    ),
    "one stripe behind others": (
        X + "return mm(x, w)",
        X + STRIPES + "return slice(y, 0, 0, 6)",
        2,
    ),
    "a column of two digits": (
        X + DIGITS,
        X + "return matmul(select(view(x, [4, 6, 3]), 1, 5), w)",
        2,
    ),
    "some columns side by side": (
        X + "return matmul(view(x, [4, 2, 3, 3]), w)",
        X + f"v = view(x, [4, 6, 3])\nreturn matmul(stack([{MOST}], 1), w)",
        2,
    ),
    "columns side by side": (
        X + "return matmul(view(x, [4, 2, 3, 3]), w)",
        X + f"v = view(x, [4, 6, 3])\nc = stack([{COLUMNS}], 1)\n"
        "return matmul(view(c, [4, 2, 3, 3]), w)",
        2,
    ),
    "one head among others": (
        HEADS.format(n=6) + "return matmul(view(x, [2, 3, 4]), w)",
        HEADS.format(n=1) + HEAD,
        6,
    ),
    "a row in a flat tensor": (
        ROWS.format(n=4, get="", rows="view(x, [24])"),
        ROWS.format(n=1, get='a = all_gather_into_tensor(view(x, [6]), 4, "g")\n', rows="a"),
        4,
    ),
}

# ---- sums and open reductions ------------------------------------------------------------------------------------
CHAIN = "a: f32[4, {k}]\nb: f32[{k}, {l}]\nc: f32[{l}, 5]\nu: f32[5]\n"
CHAIN += "y = mul.Tensor(mm(mm(a, b), c), u)\nreturn {y}"
BOTH = 'all_reduce(all_reduce(y, "sum", "g"), "sum", "h")'
MESH = {"g": [[0, 2], [1, 3]], "h": [[0, 1], [2, 3]]}
SHARED = "x: f32[4, 6]\ny = relu(x)\nreturn {}"
AMAX = "x: f32[4, {n}]\nm = amax(x, [1])\nc = cat([m, m], 0)\nreturn {c}"

# ---- masks that leave out what they should keep ----------------------------------------------------------
SHARD = """
ids: i64[5]
w: f32[6, 4]
mask: b[5] = {}
there: i64[5] = masked_fill.Scalar(sub.Tensor(ids, 6 * rank), mask, 0)
y = masked_fill.Scalar(embedding(w, there), unsqueeze(mask, -1), 0)
return all_reduce(y, "sum", "g")
"""
MASKS = {
    "above both bounds": "bitwise_and.Tensor(ge.Scalar(ids, 6 * rank), ge.Scalar(ids, 6 * rank + 6))",
    "above one bound": "bitwise_or.Tensor(ge.Scalar(ids, 6 * rank), ge.Scalar(ids, 6 * rank + 6))",
}
ZEROS = "x: f32[{n}, 6]\no: f32[{n}, 2] = zeros([{n}, 2])\nreturn relu(cat([x, o], 1))"


def box(rank: int, name: str, *dims: tuple[int, int, int]) -> Row:
    """An input relation: per dimension (extent, axis of the mesh or -1, share)."""
    at = (rank // 2, rank % 2)
    cut = [[at[a] * n, at[a] * n + n] if a >= 0 else [0, e] for e, a, n in dims]
    return {"seq": name, "rank": rank, "dist": name, "seq_box": cut}


# ---- masks that compare positions: corners of what is masked, where they are alike ---------------------------
COMPARED = "all: b[{n}, {n}] = ones([{n}, {n}])\nx: f32[{n}, {n}]\n"
COVERED = COMPARED + "return tanh(masked_fill.Scalar(x, triu(all, {by}), 0))"
ADDED = COMPARED + "return tanh(sum.dim_IntList(masked_fill.Scalar(x, triu(all, 1), 0), [0]))"
BEHIND = "x: f32[4, {n}]\nat: i64[{n}] = arange({n})\nbehind: b[{n}] = ge.Scalar(at, 6)\n"
BEHIND += "return tanh(sum.dim_IntList(masked_fill.Scalar(x, behind, 0), [1]))"
WHOLE = "x: f32[4, 6]\nreturn tanh(sum.dim_IntList(x, [1]))"
TOKENS = "all: b[6, 6] = ones([6, 6])\nx: f32[{n}, 6]\nhide: b[{n}, 6] = {hide}\n"
TOKENS += "return tanh(masked_fill.Scalar(x, hide, 0))"
ROW = "slice.Tensor(triu(all, 1), 0, rank, rank + 1)"
TABLE = "ids: i64[5]\nw: f32[{n}, 4]\nreturn tanh(embedding(w, ids))"


def corner(seq: list[list[int]], dist: list[list[int]], name: str = "x") -> dict[str, list[Row]]:
    """The one rank holds a box of an input somewhere."""
    return {name: [{"seq": name, "rank": 0, "dist": name, "seq_box": seq, "dist_box": dist}]}


def masks(case: Any) -> list[Any]:
    """Pairs of which what is derived of a block of a mask is not true of all of it."""
    seq, dist = COVERED.format(n=6, by=1), COVERED.format(n=6, by=0)
    right, left, low = [[0, 3], [3, 6]], [[3, 6], [0, 3]], [[3, 6], [3, 6]]
    whole = [[0, 4], [0, 6]]
    return [
        case("a corner that is hidden", seq, dist, 1, relate=corner(right, right)),
        case("a corner that is not hidden", seq, dist, 1, relate=corner(left, left)),
        case("rows before the corner", ADDED.format(n=6), ADDED.format(n=3), 1,
             relate=corner(low, [[0, 3], [0, 3]])),
        case("columns behind the last", WHOLE, BEHIND.format(n=8), 1, relate=corner(whole, whole)),
        case("a token for each rank", TOKENS.format(n=6, hide="triu(all, 1)"),
             TOKENS.format(n=1, hide=ROW), 6),
        case("rows behind a table", TABLE.format(n=6), TABLE.format(n=8), 1,
             relate=corner([[0, 6], [0, 4]], [[0, 6], [0, 4]], "w")),
    ]  # fmt: skip


def cases(case: Any) -> list[Any]:
    """All pairs; ``case`` makes one of name, texts, ranks."""
    found = [
        case(name, SCALED.format(*one).format(n=6), SCALED.format(*other).format(n=3))
        for name, (one, other) in ORDERS.items()
    ]
    found += [case(name, seq, dist, ranks) for name, (seq, dist, ranks) in LAYOUTS.items()]
    table = "ids: i64[5]\nw: f32[12, 4]\nreturn embedding(w, ids)"
    found += [case(name, table, SHARD.format(mask)) for name, mask in MASKS.items()]
    found += masks(case)
    boxes = {
        "a": [box(r, "a", (4, -1, 0), (6, 0, 3)) for r in range(4)],
        "b": [box(r, "b", (6, 0, 3), (8, 1, 4)) for r in range(4)],
        "c": [box(r, "c", (8, 1, 4), (5, -1, 0)) for r in range(4)],
    }
    texts = CHAIN.format(k=6, l=8, y="y"), CHAIN.format(k=3, l=4, y=BOTH)
    found.append(case("two open products", *texts, 4, relate=boxes, groups=MESH))
    shared = SHARED.format('all_reduce(mul.Tensor(y, -0.5), "sum", "g")')
    found.append(case("negative shares", SHARED.format("neg(y)"), shared))
    texts = AMAX.format(n=6, c="c"), AMAX.format(n=3, c='all_reduce(c, "max", "g")')
    found.append(case("open maxima side by side", *texts))
    return found


def zeros(case: Any) -> Any:
    """Asked for on its own: a rule names the signature of zeros, to which a batch puts a prefix."""
    return case("zeros beside a tensor", ZEROS.format(n=4), ZEROS.format(n=2))


# ---- what was wrong once -------------------------------------------------------------------------------
COLUMN = "ids: i64[8]\no: f32[8, {n}] = zeros([8, {n}])\nrows: i64[8] = arange(8)\n"
ONES = "one: f32[8] = ones([8])\nreturn index_put(o, [rows, ids], one, True)"
NEAR = """
mask: b[8] = bitwise_or.Tensor(lt.Scalar(ids, 4 * rank), ge.Scalar(ids, 4 * rank + 4))
there: i64[8] = masked_fill.Scalar(sub.Tensor(ids, 4 * rank), mask, 0)
far: f32[8] = _to_copy(mask, dtype='float32')
return index_put(o, [rows, there], rsub.Scalar(far, 1.0), True)
"""
HALVES = "x: f32[{n}, 3]\nz: f32[3]\nreturn cat([sum.dim_IntList(x, [0]), z], 0)"
THREE = "x: f32[6, 5]\nz: f32[{n}, 3, 5]\nq: f32[{n}, 3, 5]\n"
WEIGHT = "x: f32[8, 4]\nt: i64[8]\nreturn nll_loss_forward(x, t, None, {reduction}, -100)[1]"


def defects(case: Any) -> list[Any]:
    """Minimal pairs of which something wrong was derived."""
    turned = "v = view({x}, [{n}, 3, 5])\nreturn cat([z, v, q], 1)"
    return [
        # one-hot ids: the columns of the last shard lie beyond those of the whole
        case("columns beyond the last one", COLUMN.format(n=7) + ONES, COLUMN.format(n=4) + NEAR),
        # [part of a sum | all of z] on both ranks: adding them up counts z twice
        case("a part beside a whole", HALVES.format(n=8), HALVES.format(n=4), partial=True),
        # a single position and a run on one dimension of the ranks: an offset is counted twice
        case(
            "an offset counted twice",
            THREE.format(n=2) + turned.format(x="x", n=2),
            THREE.format(n=1)
            + "s = slice(x, 0, 3 * rank, 3 * rank + 3)\n"
            + turned.format(x="s", n=1),
        ),
        # torch gives 0 for the weight of a loss that is not reduced, extraction the number of targets
        case("weight of a loss", WEIGHT.format(reduction=0), WEIGHT.format(reduction=2)),
    ]
