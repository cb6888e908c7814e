"""What graphs of real models need (``extract/lower_attention.py``, ``lower_select.py``, pieces that
recur): each with near misses."""

from __future__ import annotations

from pathlib import Path

import pytest

from gg_datalog.commands.verify import verify

from .build import Case, check, row, table, write
from .conftest import Outcomes

# ---- members that lie along another dimension than the gathered one ------------------------------
GATHERED = Case(
    "gathered columns",
    "x: f32[4, 6]\ny = _softmax(x, 1, False)\nreturn y",
    'x: f32[4, 3]\ng: f32[8, 3] = all_gather_into_tensor(x, 2, "g")\n'
    "v = view(g, [2, 4, 3])\np = permute(v, [1, 0, 2])\nu: f32[4, 6] = view(p, [4, 6])\n"
    "y = _softmax(u, 1, False)\nreturn y",
)
STACKED = Case(
    "gathered along a new dimension",
    "x: f32[4, 6]\ny = _softmax(x, 0, False)\nreturn y",
    'x: f32[2, 6]\ng: f32[2, 2, 6] = all_gather_into_tensor(unsqueeze(x, 0), 2, "g")\n'
    "y = _softmax(view(g, [4, 6]), 0, False)\nreturn y",
)
SWAPPED = {"x": [row(r, "x", seq_box=[[2 - 2 * r, 4 - 2 * r], [0, 6]]) for r in (0, 1)]}
REPEATED = Case(
    "a tensor again and again",
    "x: f32[6, 4]\nw: f32[8, 3]\ny = mm(repeat(x, [1, 2]), w)\nreturn y",
    "x: f32[3, 4]\nw: f32[8, 3]\ny = mm(repeat(x, [1, 2]), w)\nreturn y",
)
SPREAD = [
    REPEATED,
    REPEATED.miss(
        "every element twice",
        "repeat(x, [1, 2])",
        "view(expand(unsqueeze(x, 2), [3, 4, 2]), [3, 8])",
    ),
    REPEATED.miss("rows again", "repeat(x, [1, 2])", "view(repeat(x, [2, 1]), [3, 8])"),
    GATHERED,
    GATHERED.miss("put together as rows", "permute(v, [1, 0, 2])", "permute(v, [0, 1, 2])"),
    GATHERED.miss("columns interleaved", "permute(v, [1, 0, 2])", "permute(v, [1, 2, 0])"),
    GATHERED.miss("one rank's columns twice", "_softmax(u,", "_softmax(cat([x, x], 1),"),
    STACKED,
    STACKED.but("ranks hold the other half", relate=SWAPPED),
    STACKED.miss("positions interleaved", "view(g, [4, 6])", "view(permute(g, [1, 0, 2]), [4, 6])"),
]

# ---- a chunk along one dimension and a concatenation along another -------------------------------
REGROUPED = Case(
    "open sums added, chunked and scattered",
    "x: f32[4, 6]\nw: f32[6, 8]\nv: f32[6, 8]\ny = add.Tensor(mm(x, w), mm(x, v))\nreturn y",
    "x: f32[4, 3]\nw: f32[3, 8]\nv: f32[3, 8]\ns = add.Tensor(mm(x, w), mm(x, v))\n"
    "t = split.Tensor(s, 4, 1)\nc = cat([t[0], t[1]], 0)\n"
    'y: f32[4, 4] = reduce_scatter_tensor(c, "sum", 2, "g")\nreturn y',
)
IN_DIGITS = Case(
    "rows of several digits, chunked and added up",
    "x: f32[2, 2, 6]\nw: f32[6, 8]\nv: f32[6, 8]\nz = view(x, [4, 6])\n"
    "s = add.Tensor(mm(z, w), mm(z, v))\ny = cat([slice(s, 0, 0, 2), slice(s, 0, 2, 4)], 1)\nreturn y",
    "x: f32[2, 2, 3]\nw: f32[3, 8]\nv: f32[3, 8]\nz = view(x, [4, 3])\n"
    "s = add.Tensor(mm(z, w), mm(z, v))\nt = split.Tensor(s, 2, 0)\nc = cat([t[0], t[1]], 1)\n"
    'y = all_reduce(c, "sum", "g")\nreturn y',
)
CHUNKS = [
    IN_DIGITS,
    IN_DIGITS.miss("chunks in another order", "cat([t[0], t[1]], 1)", "cat([t[1], t[0]], 1)"),
    IN_DIGITS.miss("one chunk twice", "cat([t[0], t[1]], 1)", "cat([t[1], t[1]], 1)"),
    REGROUPED,
    REGROUPED.miss("the first chunk twice", "cat([t[0], t[1]], 0)", "cat([t[0], t[0]], 0)"),
    REGROUPED.miss("one term is not added", "add.Tensor(mm(x, w), mm(x, v))", "mm(x, w)"),
    REGROUPED.miss("a maximum", '"sum", 2', '"max", 2'),
    Case(
        "chunks of two tensors",
        "x: f32[4, 8]\nz: f32[4, 8]\ny = cat([slice(x, 1, 0, 4), slice(x, 1, 4, 8)], 0)\nreturn y",
        "x: f32[4, 8]\nz: f32[4, 8]\ny = cat([slice(x, 1, 0, 4), slice(z, 1, 4, 8)], 0)\nreturn y",
        maps=(),
    ),
    Case(
        "chunks in another order",
        "x: f32[4, 8]\ny = cat([slice(x, 1, 0, 4), slice(x, 1, 4, 8)], 0)\nreturn y",
        "x: f32[4, 8]\ny = cat([slice(x, 1, 4, 8), slice(x, 1, 0, 4)], 0)\nreturn y",
        maps=(),
    ),
    Case(
        "chunks put together and viewed",
        "x: f32[4, 8]\ny = relu(cat([slice(x, 1, 0, 4), slice(x, 1, 4, 8)], 0))\nreturn y",
        "x: f32[4, 8]\ny = relu(view(permute(view(x, [4, 2, 4]), [1, 0, 2]), [8, 4]))\nreturn y",
    ),
    Case(
        "chunks put together and viewed otherwise",
        "x: f32[4, 8]\nw: f32[8, 4]\n"
        "y = mul.Tensor(cat([slice(x, 1, 0, 4), slice(x, 1, 4, 8)], 0), w)\nreturn y",
        "x: f32[4, 8]\nw: f32[8, 4]\ny = mul.Tensor(view(x, [8, 4]), w)\nreturn y",
        maps=(),
    ),
]

# ---- fused halves, of which every rank has a range of each ---------------------------------------
FUSED_ROWS = {
    "w": [
        row(r, "w", seq_box=[[8 * h + 4 * r, 8 * h + 4 * r + 4], [0, 6]], dist_box=[[4 * h, 4 * h + 4], [0, 6]])
        for r in range(2)
        for h in range(2)
    ],
    "g": [
        row(r, "g", seq_box=[[0, 3], [4 * r, 4 * r + 4]]) for r in range(2)
    ],
    "u": [
        row(r, "u", seq_box=[[0, 3], [4 * r, 4 * r + 4]]) for r in range(2)
    ],
}  # fmt: skip
FUSED = Case(
    "a product over fused halves",
    "w: f32[16, 6]\ng: f32[3, 8]\nu: f32[3, 8]\ny = mm(cat([g, u], 1), w)\nreturn y",
    "w: f32[8, 6]\ng: f32[3, 4]\nu: f32[3, 4]\n"
    'y = all_reduce(mm(cat([g, u], 1), w), "sum", "g")\nreturn y',
    relate=FUSED_ROWS,
)
PLAIN_ROWS = FUSED_ROWS | {
    "w": [row(r, "w", seq_box=[[8 * r, 8 * r + 8], [0, 6]]) for r in range(2)]
}
VIEWED = Case(
    "fused halves told apart by a view",
    "w: f32[16, 6]\nx: f32[3, 6]\nh = view(mm(x, t(w)), [3, 2, 8])\n"
    "y = mul.Tensor(silu(select.int(h, 1, 0)), select.int(h, 1, 1))\nreturn y",
    "w: f32[8, 6]\nx: f32[3, 6]\nh = view(mm(x, t(w)), [3, 2, 4])\n"
    "y = mul.Tensor(silu(select.int(h, 1, 0)), select.int(h, 1, 1))\nreturn y",
    relate={"w": FUSED_ROWS["w"]},
)
HALVES_OF = [
    FUSED,
    FUSED.miss("not reduced", 'all_reduce(mm(cat([g, u], 1), w), "sum", "g")', "mm(cat([g, u], 1), w)"),
    FUSED.miss("halves swapped", "cat([g, u], 1)", "cat([u, g], 1)"),
    FUSED.but("cut as one matrix", relate=PLAIN_ROWS),
    VIEWED,
    VIEWED.miss("halves swapped", "silu(select.int(h, 1, 0)), select.int(h, 1, 1)", "silu(select.int(h, 1, 1)), select.int(h, 1, 0)"),
    VIEWED.but("cut as one matrix", relate={"w": PLAIN_ROWS["w"]}),
]  # fmt: skip

# ---- attention -------------------------------------------------------------------------------------
KERNEL = "_scaled_dot_product_flash_attention_for_cpu"
SDPA = Case(
    "attention by heads",
    f"q: f32[2, 4, 3, 8]\nk: f32[2, 4, 3, 8]\nv: f32[2, 4, 3, 8]\nr = {KERNEL}(q, k, v, 0.0, True)\n"
    "y: f32[2, 4, 3, 8] = r[0]\nreturn y",
    f"q: f32[2, 2, 3, 8]\nk: f32[2, 2, 3, 8]\nv: f32[2, 2, 3, 8]\nr = {KERNEL}(q, k, v, 0.0, True)\n"
    "y: f32[2, 2, 3, 8] = r[0]\nreturn y",
)
GROUPED = Case(
    "attention with grouped heads",
    f"q: f32[2, 8, 3, 8]\nk: f32[2, 4, 3, 8]\nv: f32[2, 4, 3, 8]\nr = {KERNEL}(q, k, v, 0.0, True)\n"
    "y: f32[2, 8, 3, 8] = r[0]\nreturn y",
    f"q: f32[2, 4, 3, 8]\nk: f32[2, 2, 3, 8]\nv: f32[2, 2, 3, 8]\nr = {KERNEL}(q, k, v, 0.0, True)\n"
    "y: f32[2, 4, 3, 8] = r[0]\nreturn y",
)
MASKED_TEXT = (
    "q: f32[{b}, 4, 3, 8]\nk: f32[{b}, 4, 3, 8]\nv: f32[{b}, 4, 3, 8]\nm: f32[{mb}, {mh}, 3, 3]\n"
    f"r = {KERNEL}(q, k, v, attn_mask=m)\n"
    "y: f32[{b}, 4, 3, 8] = r[0]\nreturn y"
)
BY_BATCH = Case(
    "a mask for all of the batch",
    MASKED_TEXT.format(b=4, mb=1, mh=1),
    MASKED_TEXT.format(b=2, mb=1, mh=1),
)
OWN_MASK = Case(
    "a mask per item",
    MASKED_TEXT.format(b=4, mb=4, mh=1),
    MASKED_TEXT.format(b=2, mb=2, mh=1),
)
FIRST_MASKS = {"m": [row(r, "m", seq_box=[[0, 2], [0, 1], [0, 3], [0, 3]]) for r in range(2)]}
BACKWARD = (
    "g: f32[2, {h}, 3, 8]\nq: f32[2, {h}, 3, 8]\nk: f32[2, {h}, 3, 8]\nv: f32[2, {h}, 3, 8]\n"
    "o: f32[2, {h}, 3, 8]\nl: f32[2, {h}, 3]\n"
    f"r = {KERNEL}_backward(g, q, k, v, o, l, 0.0, True)\n"
    "y: f32[2, {h}, 3, 8] = r[{place}]\nreturn y"
)
BACK_GROUPED = (
    "g: f32[2, {h}, 3, 8]\nq: f32[2, {h}, 3, 8]\nk: f32[2, {k}, 3, 8]\nv: f32[2, {k}, 3, 8]\n"
    "o: f32[2, {h}, 3, 8]\nl: f32[2, {h}, 3]\n"
    f"r = {KERNEL}_backward(g, q, k, v, o, l, 0.0, True)\n"
    "y: f32[2, {k}, 3, 8] = r[1]\nreturn y"
)
BIASED_TEXT = (
    "q: f32[4, 4, 3, 8]\nk: f32[4, 4, 3, 8]\nv: f32[4, 4, 3, 8]\nm: f32[3, 3]\n"
    "r = _scaled_dot_product_efficient_attention(q, k, v, attn_bias=m, compute_log_sumexp=True)\n"
    "y: f32[4, 4, 3, 8] = r[0]\nreturn y"
)
BIASED = Case("a mask by keyword", BIASED_TEXT, BIASED_TEXT.replace("[4, 4, 3, 8]", "[4, 2, 3, 8]"))
ATTENTION = [
    SDPA,
    SDPA.miss("not causal", "0.0, True)", "0.0, False)"),
    SDPA.miss("another scale", "0.0, True)", "0.0, True, scale=0.5)"),
    SDPA.miss("queries of other heads", f"{KERNEL}(q, k, v", f"{KERNEL}(k, q, v"),
    SDPA.but(
        "the default scale written out",
        maps=None,
        dist=SDPA.dist.replace("0.0, True)", "0.0, True, scale=0.35355339059327373)"),
    ),
    SDPA.miss("dropout", "0.0, True)", "0.1, True)"),
    GROUPED,
    GROUPED.but(
        "key heads in another order",
        relate={
            name: [row(r, name, seq_box=[[0, 2], [2 - 2 * r, 4 - 2 * r], [0, 3], [0, 8]]) for r in range(2)]
            for name in ("k", "v")
        },
    ),
    Case(
        "query positions cut under a causal mask",
        SDPA.seq,
        SDPA.dist.replace("q: f32[2, 2, 3, 8]", "q: f32[2, 4, 3, 8]")
        .replace("k: f32[2, 2, 3, 8]", "k: f32[2, 4, 3, 8]")
        .replace("v: f32[2, 2, 3, 8]", "v: f32[2, 4, 3, 8]")
        .replace("(q, k", "(slice(q, 2, 0, 2), k")
        .replace("y: f32[2, 2, 3, 8]", "y: f32[2, 4, 2, 8]"),
        maps=(),
    ),
    BY_BATCH,
    OWN_MASK,
    Case(
        "truths as a mask that is added",
        MASKED_TEXT.format(b=4, mb=4, mh=1).replace("m: f32", "m: b"),
        MASKED_TEXT.format(b=4, mb=4, mh=1)
        .replace("m: f32", "m: b")
        .replace("attn_mask=m", "attn_mask=_to_copy(m, dtype='float32')"),
        maps=(),
    ),
    BIASED,
    BIASED.miss("another bias", "attn_bias=m,", "attn_bias=mul.Scalar(m, 2.0),"),
    BIASED.miss("two masks", "attn_bias=m,", "attn_bias=m, attn_mask=m,", error="no argument `attn_mask`"),
    SDPA.miss("no scale at all", "0.0, True)", "0.0, True, scale=0.0)"),
    OWN_MASK.but("the masks of other items", relate=FIRST_MASKS),
    *(
        Case(f"attention backward, gradient {place}", BACKWARD.format(h=4, place=place), BACKWARD.format(h=2, place=place))
        for place in range(3)
    ),
    Case(
        "attention backward with grouped heads",
        BACK_GROUPED.format(h=8, k=4),
        BACK_GROUPED.format(h=4, k=2),
    ),
    Case("attention backward, another gradient", BACKWARD.format(h=4, place=1), BACKWARD.format(h=2, place=2), maps=()),
]  # fmt: skip

# ---- what sorting chooses ----------------------------------------------------------------------------
TOPK = Case(
    "the largest of every row",
    "x: f32[6, 5]\nr = topk(x, 2)\ny: f32[6, 2] = r[0]\nz: i64[6, 2] = r[1]\nreturn y, z",
    "x: f32[3, 5]\nr = topk(x, 2)\ny: f32[3, 2] = r[0]\nz: i64[3, 2] = r[1]\nreturn y, z",
)
SORTED = Case(
    "back in the order before sorting",
    "x: f32[6]\nv: f32[6]\nr = sort(x)\np: i64[6] = r[1]\n"
    "e: f32[6] = empty_like(v)\ny: f32[6] = index_put(e, [p], v)\nreturn y",
    "x: f32[6]\nv: f32[6]\nr = sort(x)\np: i64[6] = r[1]\n"
    "e: f32[6] = empty_like(v)\ny: f32[6] = index_put(e, [p], v)\nreturn y",
)
SCATTER = Case(
    "values back where they were chosen",
    "x: f32[6, 5]\ns: f32[6, 2]\nr = topk(x, 2)\nz: i64[6, 2] = r[1]\n"
    "e: f32[6, 5] = zeros([6, 5])\ny: f32[6, 5] = scatter.src(e, 1, z, s)\nreturn y",
    "x: f32[3, 5]\ns: f32[3, 2]\nr = topk(x, 2)\nz: i64[3, 2] = r[1]\n"
    "e: f32[3, 5] = zeros([3, 5])\ny: f32[3, 5] = scatter.src(e, 1, z, s)\nreturn y",
)
CHOSEN = [
    TOPK,
    TOPK.miss("the smallest", "topk(x, 2)", "topk(x, 2, -1, False)"),
    Case(
        "the largest of a part of every row",
        "x: f32[6, 8]\nr = topk(x, 2)\ny: f32[6, 2] = r[0]\nreturn y",
        "x: f32[6, 4]\nr = topk(x, 2)\ny: f32[6, 2] = r[0]\nreturn y",
        maps=(),
    ),
    SORTED,
    SORTED.miss("values of the other tensor", "[p], v)", "[p], x)"),
    Case(
        "put at ids that leave gaps",
        "x: f32[6]\nv: f32[6]\np: i64[6]\ne: f32[6] = empty_like(v)\ny: f32[6] = index_put(e, [p], v)\nreturn y",
        "x: f32[6]\nv: f32[6]\np: i64[6]\ne: f32[6] = empty_like(v)\ny: f32[6] = index_put(e, [p], v)\nreturn y",
        maps=(),
    ),
    SCATTER,
    SCATTER.miss("into ones", "zeros([3, 5])", "ones([3, 5])"),
]

# ---- padding ---------------------------------------------------------------------------------------------
PADDED = Case(
    "labels shifted by padding",
    "x: i64[4, 6]\ny: i64[4, 6] = slice(constant_pad_nd(x, [0, 1], -100), 1, 1, 7)\nreturn y",
    "x: i64[2, 6]\ny: i64[2, 6] = slice(constant_pad_nd(x, [0, 1], -100), 1, 1, 7)\nreturn y",
)
PADDING = [
    PADDED,
    PADDED.miss("another label", "-100", "0"),
    PADDED.miss("shifted the other way", "[0, 1], -100), 1, 1, 7)", "[1, 0], -100), 1, 0, 6)"),
    PADDED.miss("not shifted", "1, 1, 7)", "1, 0, 6)"),
]

# ---- complex numbers -----------------------------------------------------------------------------------
TURNED = Case(
    "rotary embedding in complex numbers",
    "x: f32[6, 4, 2]\nc: c64[6, 4]\n"
    "a: c64[6, 4] = view_as_complex(x)\nb: c64[6, 4] = mul.Tensor(a, c)\ny: f32[6, 4, 2] = view_as_real(b)\nreturn y",
    "x: f32[3, 4, 2]\nc: c64[3, 4]\n"
    "a: c64[3, 4] = view_as_complex(x)\nb: c64[3, 4] = mul.Tensor(a, c)\ny: f32[3, 4, 2] = view_as_real(b)\nreturn y",
)
COMPLEX = [
    TURNED,
    TURNED.miss("conjugated", "mul.Tensor(a, c)", "mul.Tensor(a, _conj(c))"),
]

# ---- fused by groups: heads of one group and its key and value lie together -----------------------------
QKV = (
    "x: f32[3, 5]\nw: f32[{n}, 5]\nh = view(mm(x, t(w)), [3, {n} // 12, 4, 3])\n"
    "s = split_with_sizes(h, [2, 1, 1], 2)\n"
    "y = mul.Tensor(mul.Tensor(s[0], s[1]), relu(s[2]))\nreturn y"
)
FUSED_QKV = Case("fused by groups", QKV.format(n=48), QKV.format(n=24))
OTHER_GROUPS = {"w": [row(r, "w", seq_box=[[12 * r, 12 * r + 24], [0, 5]]) for r in range(2)]}
PAIRED_QKV = (
    "x: f32[3, 5]\nw: f32[{n}, 5]\nh = view(mm(x, t(w)), [3, {n} // 24, 4, 2, 3])\n"
    "s = split_with_sizes(h, [2, 1, 1], 2)\n"
    "y = mul.Tensor(mul.Tensor(s[0], s[1]), relu(s[2]))\nreturn y"
)
IN_GROUPS = [
    Case("fused by groups, in pairs", PAIRED_QKV.format(n=96), PAIRED_QKV.format(n=48)),
    Case(
        "fused by groups, in pairs on one side",
        PAIRED_QKV.format(n=96),
        PAIRED_QKV.format(n=48)
        .replace("4, 2, 3]", "4, 6]")
        .replace("y = ", "z = ")
        .replace("return y", "y = view(z, [3, 2, 2, 2, 3])\nreturn y"),
    ),
    FUSED_QKV,
    FUSED_QKV.miss("key and value swapped", "s[0], s[1]), relu(s[2])", "s[0], s[2]), relu(s[1])"),
    FUSED_QKV.miss("other sizes", "[2, 1, 1]", "[1, 1, 2]"),
    FUSED_QKV.but("groups of the other rank", relate=OTHER_GROUPS),
]

# ---- sums over a dimension of which a rank holds one position -------------------------------------------
ALONE = Case(
    "a sum of which every rank has one term",
    "x: f32[2, 4, 3]\nw: f32[4, 5]\ny = mm(t(sum.dim_IntList(x, [0])), w)\nreturn y",
    'x: f32[1, 4, 3]\nw: f32[4, 5]\ny = mm(t(all_reduce(view(x, [4, 3]), "sum", "g")), w)\nreturn y',
)
STACK = Case(
    "losses stacked and added up",
    "x: f32[8]\ny = sum(mul.Tensor(x, x))\nreturn y",
    "x: f32[8]\na = slice(x, 0, 0, 4)\nb = slice(x, 0, 4, 8)\n"
    "y = sum(stack([sum(mul.Tensor(a, a)), sum(mul.Tensor(b, b))]))\nreturn y",
)
GRID_ROWS = {
    "a": [row(r, "a", seq_box=[[r // 2, r // 2 + 1], [0, 4], [3 * (r % 2), 3 * (r % 2) + 3]]) for r in range(4)],
    "w": [row(r, "w", seq_box=[[r // 2, r // 2 + 1], [3 * (r % 2), 3 * (r % 2) + 3], [0, 3]]) for r in range(4)],
}  # fmt: skip
GRID = Case(
    "a part of a product, and one term of a sum",
    "a: f32[2, 4, 6]\nw: f32[2, 6, 3]\ny = sum.dim_IntList(bmm(a, w), [0])\nreturn y",
    "a: f32[1, 4, 3]\nw: f32[1, 3, 3]\np = view(bmm(a, w), [4, 3])\n"
    'y = all_reduce(all_reduce(p, "sum", "h"), "sum", "v")\nreturn y',
    ranks=4,
    groups={"h": [[0, 1], [2, 3]], "v": [[0, 2], [1, 3]]},
    relate=GRID_ROWS,
)
SUMS = [
    GRID,
    GRID.miss(
        "added up over one axis",
        'all_reduce(all_reduce(p, "sum", "h"), "sum", "v")',
        'all_reduce(p, "sum", "h")',
    ),
    GRID.miss("added up over one axis twice", '"sum", "v")', '"sum", "h")'),
    GRID.but(
        "added up the other way round",
        maps=None,
        dist=GRID.dist.replace('"h"', '"u"').replace('"v"', '"h"').replace('"u"', '"v"'),
    ),
    ALONE,
    ALONE.miss("not added up", 'all_reduce(view(x, [4, 3]), "sum", "g")', "view(x, [4, 3])"),
    ALONE.miss("a maximum", '"sum", "g"', '"max", "g"'),
    ALONE.miss("averaged", '"sum", "g"', '"avg", "g"'),
    STACK,
    STACK.miss("one of them twice", "sum(mul.Tensor(b, b))", "sum(mul.Tensor(a, a))"),
    STACK.miss("averaged", "y = sum(stack(", "y = mean(stack("),
]

# ---- lookups in a shard: ids clamped to its rows, results multiplied by the mask ------------------------
CLAMPED = Case(
    "a lookup with clamped ids",
    "i: i64[6]\nw: f32[8, 3]\ny = embedding(w, i)\nreturn y",
    "i: i64[6]\nw: f32[4, 3]\n"
    "m: b[6] = bitwise_and.Tensor(ge(i, 4 * rank), lt(i, 4 * rank + 4))\n"
    "k: i64[6] = clamp(sub.Tensor(i, 4 * rank), 0, 3)\n"
    "u = _to_copy(unsqueeze(m, 1), dtype='float32')\n"
    'y = all_reduce(mul.Tensor(embedding(w, k), u), "sum", "g")\nreturn y',
)
CLAMPED_BACK = Case(
    "the gradient of a lookup with clamped ids",
    "i: i64[6]\ng: f32[6, 3]\ny = embedding_dense_backward(g, i, 8, -1, False)\nreturn y",
    "i: i64[6]\ng: f32[6, 3]\n"
    "m: b[6] = bitwise_and.Tensor(ge(i, 4 * rank), lt(i, 4 * rank + 4))\n"
    "k: i64[6] = clamp(sub.Tensor(i, 4 * rank), 0, 3)\n"
    "u = _to_copy(unsqueeze(m, 1), dtype='float32')\n"
    "y = embedding_dense_backward(mul.Tensor(g, u), k, 4, -1, False)\nreturn y",
)
CLAMPS = [
    CLAMPED,
    CLAMPED.miss("clamped to one row less", "0, 3)", "0, 2)"),
    CLAMPED.miss("clamped from the second row", ", 0, 3)", ", 1, 3)"),
    CLAMPED.miss("not masked", "mul.Tensor(embedding(w, k), u)", "embedding(w, k)"),
    CLAMPED.miss("the mask one row further", "lt(i, 4 * rank + 4)", "lt(i, 4 * rank + 5)"),
    CLAMPED.miss("the offset of another rank", "sub.Tensor(i, 4 * rank)", "sub.Tensor(i, 4 * rank - 4)"),
    CLAMPED_BACK,
    CLAMPED_BACK.miss("the gradient not masked", "mul.Tensor(g, u)", "g"),
    CLAMPED_BACK.miss("the mask one row further", "lt(i, 4 * rank + 4)", "lt(i, 4 * rank + 5)"),
]  # fmt: skip

# ---- experts ---------------------------------------------------------------------------------------------
EXPERTS = Case(
    "products of experts' rows, columns cut",
    "x: f32[6, 4]\nw: f32[2, 4, 8]\ng: f32[6, 8]\no: i32[2]\n"
    "y: f32[6, 8] = _grouped_mm(x, w, o)\nz: f32[2, 4, 8] = _grouped_mm(t(x), g, o)\nreturn y, z",
    "x: f32[6, 4]\nw: f32[2, 4, 4]\ng: f32[6, 4]\no: i32[2]\n"
    "y: f32[6, 4] = _grouped_mm(x, w, o)\nz: f32[2, 4, 4] = _grouped_mm(t(x), g, o)\nreturn y, z",
)
SUMMED = Case(
    "products of experts' rows, added up",
    "x: f32[6, 8]\nw: f32[2, 8, 4]\no: i32[2]\ny: f32[6, 4] = _grouped_mm(x, w, o)\nreturn y",
    "x: f32[6, 4]\nw: f32[2, 4, 4]\no: i32[2]\np: f32[6, 4] = _grouped_mm(x, w, o)\n"
    'y = all_reduce(p, "sum", "g")\nreturn y',
)
GROUPS = [
    EXPERTS,
    SUMMED,
    SUMMED.miss("not added up", 'all_reduce(p, "sum", "g")', "p"),
    Case(
        "rows cut between experts",
        "x: f32[6, 4]\nw: f32[2, 4, 8]\no: i32[2]\ny: f32[6, 8] = _grouped_mm(x, w, o)\nreturn y",
        "x: f32[3, 4]\nw: f32[2, 4, 8]\no: i32[2]\ny: f32[3, 8] = _grouped_mm(x, w, o)\nreturn y",
        maps=(),
    ),
]

# ---- masks drawn in the form of a tensor ------------------------------------------------------------------
DRAWN = Case(
    "dropout as a CPU does it",
    "x: f32[8, 4]\ne: f32[8, 4] = empty_like(x)\nm: f32[8, 4] = bernoulli.p(e, 0.9)\n"
    "y = mul.Tensor(x, div.Scalar(m, 0.9))\nreturn y",
    "x: f32[4, 4]\ne: f32[4, 4] = empty_like(x)\nm: f32[4, 4] = bernoulli.p(e, 0.9)\n"
    "y = mul.Tensor(x, div.Scalar(m, 0.9))\nreturn y",
)
TWICE = (
    "m: f32[{n}, 4] = bernoulli.p(e, 0.9)\no: f32[{n}, 4] = bernoulli.p(e, 0.9)\n"
    "y = mul.Tensor(mul.Tensor(x, m), relu(o))\nreturn y"
)
HEAD = "x: f32[{n}, 4]\ne: f32[{n}, 4] = empty_like(x)\n"
TWO = Case("two draws", (HEAD + TWICE).format(n=8), (HEAD + TWICE).format(n=4))
PASSES = Case(
    "two passes over one batch, each with its own draw",
    "x: f32[4, 6]\ny: f32[8, 6] = dropout(cat([x, x], 0), 0.5, True)\nreturn y",
    "x: f32[4, 6]\nd: f32[4, 6] = dropout(x, 0.5, True)\ny: f32[8, 6] = cat([d, d], 0)\nreturn y",
    ranks=1,
    groups={},
    maps=("y",),
)
DRAWS = [
    DRAWN,
    DRAWN.miss("another probability", "bernoulli.p(e, 0.9)", "bernoulli.p(e, 0.8)"),
    DRAWN.miss("not divided", "div.Scalar(m, 0.9)", "m"),
    TWO,
    TWO.miss("in the other order", "mul.Tensor(x, m), relu(o)", "mul.Tensor(x, o), relu(m)"),
    TWO.miss("one draw twice", "relu(o)", "relu(m)"),
]


@table(*SPREAD, *CHUNKS, *HALVES_OF, *IN_GROUPS, *SUMS)
def test_movement(case: Case, outcomes: Outcomes) -> None:
    check(case, outcomes(case))


ALONE_RANK = {"ranks": 1, "groups": {}}
SELF = "x: f32[4, 4]\ny: f32[4, 4] = dropout(add.Tensor(x, t(x)), 0.5, True)\nreturn y"
STACKED_ROWS = "x: f32[4, 6]\na = select.int(x, 0, 0)\n"
TURNED_ROWS = {
    "x": [
        row(0, "x", seq_box=[[4, 8], [0, 6]], dist_box=[[0, 4], [0, 6]]),
        row(0, "x", seq_box=[[0, 4], [0, 6]], dist_box=[[4, 8], [0, 6]]),
    ]
}
ROWS_DRAWN = "x: f32[8, 6]\ny: f32[8, 6] = dropout(x, 0.5, True)\nreturn y"
ONE_ROW = "x: f32[4, 6]\nd: f32[4, 6] = dropout(x, 0.5, True)\n"
TWO_ROWS = "x: f32[4, 6]\nd: f32[8, 6] = dropout(cat([x, x], 0), 0.5, True)\n"
OF_DRAWS = [
    (
        Case("one draw used twice, drawn twice", ONE_ROW + "y = cat([d, d], 0)\nreturn y", TWO_ROWS + "return d", **ALONE_RANK),
        "inconclusive",
    ),
    (
        Case(
            "one draw added to itself, drawn twice",
            ONE_ROW + "return add.Tensor(d, d)",
            TWO_ROWS + "return add.Tensor(slice(d, 0, 0, 4), slice(d, 0, 4, 8))",
            **ALONE_RANK,
        ),
        "inconclusive",
    ),
    (PASSES, "inconclusive"),
    (
        Case(
            "one row twice",
            STACKED_ROWS + "y: f32[2, 6] = dropout(stack([a, a]), 0.5, True)\nreturn y",
            STACKED_ROWS + "d: f32[6] = dropout(a, 0.5, True)\ny: f32[2, 6] = stack([d, d])\nreturn y",
            **ALONE_RANK,
        ),
        "inconclusive",
    ),
    (Case("the same forwards and across", SELF, SELF, **ALONE_RANK), "inconclusive"),
    (Case("pieces in another order", ROWS_DRAWN, ROWS_DRAWN, relate=TURNED_ROWS, **ALONE_RANK), "refines"),
    (DRAWN, "refines"),
]  # fmt: skip


@pytest.mark.parametrize(("case", "verdict"), OF_DRAWS, ids=[case.name for case, _ in OF_DRAWS])
def test_a_draw_stands_for_one_element(case: Case, verdict: str, tmp_path: Path) -> None:
    """Related it is, but no verdict rests on it."""
    write(case, tmp_path)
    result = verify(tmp_path)
    assert result.verdict == verdict, str(result)
    assert ("GG123" in {f.code for f in result.findings}) == (verdict == "inconclusive")


@table(*ATTENTION, *CHOSEN, *PADDING, *COMPLEX, *CLAMPS, *GROUPS, *DRAWS)
def test_kernels(case: Case, outcomes: Outcomes) -> None:
    check(case, outcomes(case))
