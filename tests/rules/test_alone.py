"""One position per rank: what is left of a contraction, a concatenation with a repeated member."""

from __future__ import annotations

from .build import Case, check, row, table
from .conftest import Outcomes

EXPERT = Case(
    "one expert a rank: a contraction over the experts is a product",
    "h: f32[5, 2, 8]\ns: f32[5, 2]\ny = view(bmm(permute(h, [0, 2, 1]), view(s, [5, 2, 1])), [5, 8])\nreturn y",
    "h: f32[5, 1, 8]\ns: f32[5, 2]\nw = slice(s, 1, rank, rank + 1)\n"
    'y = all_reduce(mul.Tensor(view(h, [5, 8]), w), "sum", "g")\nreturn y',
)
OUTER = Case(
    "one row a rank: an outer product",
    "x: f32[6, 2]\nw: f32[2, 4]\ny = mm(x, w)\nreturn y",
    'x: f32[6, 1]\nw: f32[1, 4]\ny = all_reduce(mul.Tensor(x, w), "sum", "g")\nreturn y',
)
HEADS = Case(
    "one head a rank: every head has the position's part behind its own",
    "k: f32[5, 4, 4]\np: f32[5, 2]\ny = cat([k, expand(view(p, [5, 1, 2]), [5, 4, 2])], -1)\nreturn y",
    "k: f32[5, 1, 4]\np: f32[5, 2]\ny = cat([k, expand(view(p, [5, 1, 2]), [5, 1, 2])], -1)\nreturn y",
    ranks=4,
)
SCALED = Case(
    "one head a rank, of which both parts are scaled",
    "k: f32[5, 2, 4]\np: f32[5, 2]\ny = exp(cat([mul.Tensor(k, 2), mul.Tensor(expand(view(p, [5, 1, 2]), [5, 2, 2]), 4)], -1))\nreturn y",
    "k: f32[5, 1, 4]\np: f32[5, 2]\ny = exp(cat([mul.Tensor(k, 2), mul.Tensor(view(p, [5, 1, 2]), 4)], -1))\nreturn y",
)
LARGEST = Case(
    "one column a rank: the largest of all",
    "x: f32[4, 2]\ny = relu(amax(x, [1], False))\nreturn y",
    'x: f32[4, 1]\ny = relu(all_reduce(amax(x, [1], False), "max", "g"))\nreturn y',
)
CELLS = Case(
    "two rows and one column a rank: the largest of all",
    "x: f32[4, 2, 5]\ny = relu(amax(amax(x, [0], False), [0], False))\nreturn y",
    'x: f32[2, 1, 5]\na = view(amax(x, [0], False), [5])\nb = all_reduce(a, "max", "g")\n'
    'y = relu(all_reduce(b, "max", "h"))\nreturn y',
    ranks=4,
    groups={"g": [[0, 1], [2, 3]], "h": [[0, 2], [1, 3]]},
    relate={
        "x": [
            row(r, "x", seq_box=[[r // 2 * 2, r // 2 * 2 + 2], [r % 2, r % 2 + 1], [0, 5]])
            for r in range(4)
        ]
    },
)
SLOTS = Case(
    "one head after the other is written into zeros",
    "x: f32[5, 8]\ny = view(exp(x), [5, 2, 4])\nreturn y",
    'x: f32[5, 4]\ng = all_gather_into_tensor(exp(x), 2, "g")\n'
    "a = view(slice(g, 0, 0, 5), [5, 1, 4])\nb = view(slice(g, 0, 5, 10), [5, 1, 4])\n"
    "z: f32[5, 2, 4] = zeros([5, 2, 4])\n"
    "u: f32[5, 2, 4] = slice_scatter(z, a, 1, 0, 1)\nv: f32[5, 2, 4] = slice_scatter(u, b, 1, 1, 2)\n"
    "return v",
)

THREE = Case(
    "three heads, one after the other written into zeros",
    "x: f32[5, 12]\ny = view(exp(x), [5, 3, 4])\nreturn y",
    'x: f32[5, 4]\ng = all_gather_into_tensor(exp(x), 3, "g")\n'
    "a = view(slice(g, 0, 0, 5), [5, 1, 4])\nb = view(slice(g, 0, 5, 10), [5, 1, 4])\n"
    "c = view(slice(g, 0, 10, 15), [5, 1, 4])\nz: f32[5, 3, 4] = zeros([5, 3, 4])\n"
    "u: f32[5, 3, 4] = slice_scatter(z, a, 1, 0, 1)\nv: f32[5, 3, 4] = slice_scatter(u, b, 1, 1, 2)\n"
    "w: f32[5, 3, 4] = slice_scatter(v, c, 1, 2, 3)\nreturn w",
    ranks=3,
)


@table(
    EXPERT,
    EXPERT.miss("the other expert's weight", "rank, rank + 1", "1 - rank, 2 - rank"),
    EXPERT.miss("the same weight on both", "rank, rank + 1", "0, 1"),
    EXPERT.miss("no sum over the ranks", 'all_reduce(mul.Tensor(view(h, [5, 8]), w), "sum", "g")', "mul.Tensor(view(h, [5, 8]), w)"),
    EXPERT.miss("the mean over the ranks", '"sum"', '"avg"'),
    EXPERT.miss("its own square", "mul.Tensor(view(h, [5, 8]), w)", "mul.Tensor(view(h, [5, 8]), view(h, [5, 8]))"),
    EXPERT.miss("a sum", "mul.Tensor(view(h, [5, 8]), w)", "add.Tensor(view(h, [5, 8]), w)"),
    EXPERT.but("another expert twice", relate={"h": [row(r, "h", seq_box=[[0, 5], [0, 1], [0, 8]]) for r in range(2)]}),
    OUTER,
    OUTER.miss("one factor only", "mul.Tensor(x, w)", "mul.Tensor(x, mul.Tensor(w, w))"),
    OUTER.but("rows exchanged", relate={"w": [row(r, "w", seq_box=[[1 - r, 2 - r], [0, 4]]) for r in range(2)]}),
    HEADS,
    HEADS.miss("in another order", "cat([k, expand(view(p, [5, 1, 2]), [5, 1, 2])], -1)", "cat([expand(view(p, [5, 1, 2]), [5, 1, 2]), k], -1)"),
    HEADS.miss("of another size", "expand(view(p, [5, 1, 2]), [5, 1, 2])], -1", "slice(k, 2, 0, 2)], -1"),
    HEADS.miss("a function of it", "expand(view(p, [5, 1, 2]), [5, 1, 2])", "neg(view(p, [5, 1, 2]))"),
    HEADS.miss("along another dimension", "cat([k, expand(view(p, [5, 1, 2]), [5, 1, 2])], -1)",
               "view(permute(cat([permute(k, [0, 2, 1]), permute(view(p, [5, 1, 2]), [0, 2, 1])], 1), [1, 0, 2]), [5, 1, 6])"),
    HEADS.but("the head of another rank", relate={"k": [row(r, "k", seq_box=[[0, 5], [3 - r, 4 - r], [0, 4]]) for r in range(4)]}),
    SLOTS,
    SLOTS.miss("both into the second", "slice_scatter(z, a, 1, 0, 1)", "slice_scatter(z, a, 1, 1, 2)"),
    SLOTS.miss("exchanged", "slice_scatter(z, a", "slice_scatter(z, b", dist=SLOTS.dist.replace(
        "(z, a", "(z, c").replace("(u, b", "(u, a").replace("(z, c", "(z, b")),
    SLOTS.miss("one of them only", "return v", "return u"),
    LARGEST,
    LARGEST.miss("the sum", '"max"', '"sum"'),
    LARGEST.miss("of the negative", "amax(x, [1], False)", "neg(amax(neg(x), [1], False))", dist=LARGEST.dist.replace("amax(x", "amax(neg(x)")),
    CELLS,
    CELLS.miss("not over the rows", 'all_reduce(b, "max", "h")', "b"),
    THREE,
    THREE.miss("the first two exchanged", "(z, a", "(z, b", dist=THREE.dist.replace(
        "(z, a", "(z, e").replace("(u, b", "(u, a").replace("(z, e", "(z, b")),
    THREE.miss("one of them twice", "(v, c", "(v, b"),
    THREE.miss("the last one is not written", "return w", "return v"),
    THREE.but("members in another order", groups={"g": [[0, 2, 1]]}),
    SCALED,
    SCALED.miss("one part scaled in another way", "mul.Tensor(view(p, [5, 1, 2]), 4)", "mul.Tensor(view(p, [5, 1, 2]), 2)"),
)  # fmt: skip
def test_alone(case: Case, outcomes: Outcomes) -> None:
    check(case, outcomes(case))
