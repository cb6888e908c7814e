"""Tokens flattened from sequence and batch, cut along either: the layout of a training step."""

from __future__ import annotations

from .build import Case, check, row, table
from .conftest import Outcomes

WEIGHT = """
x: f32[{s}, {b}, 6]
g: f32[{s}, {b}, 3]
w = mm(t(view(g, [{n}, 3])), view(x, [{n}, 6]))
v = sum.dim_IntList(view(g, [{n}, 3]), [0])
"""
REDUCED = 'w1 = all_reduce(w, "sum", "g")\nv1 = all_reduce(v, "sum", "g")\nreturn w1, v1'


def weight(name: str, s: int, b: int, ranks: int = 2) -> Case:
    """The gradients of weight and bias, tokens cut to [s, b] per rank."""
    return Case(
        name,
        WEIGHT.format(s=4, b=4, n=16) + "return w, v",
        WEIGHT.format(s=s, b=b, n=s * b) + REDUCED,
        ranks=ranks,
    )


BATCH = weight("cut along the batch, which comes second", 4, 2)
LAST = weight("one of the batch per rank", 4, 1, ranks=4)
SEQUENCE = weight("cut along the sequence", 2, 4)
LAYERS = Case(
    "two layers and their gradients, the batch cut",
    """
    x: f32[4, 4, 6]
    w: f32[5, 6]
    u: f32[3, 5]
    g: f32[4, 4, 3]
    h = relu(view(mm(view(x, [16, 6]), t(w)), [4, 4, 5]))
    g2 = view(g, [16, 3])
    du = mm(t(g2), view(h, [16, 5]))
    dh = view(mm(g2, u), [4, 4, 5])
    dr = mul.Tensor(dh, h)
    dw = mm(t(view(dr, [16, 5])), view(x, [16, 6]))
    return du, dw
    """,
    """
    x: f32[4, 2, 6]
    w: f32[5, 6]
    u: f32[3, 5]
    g: f32[4, 2, 3]
    h = relu(view(mm(view(x, [8, 6]), t(w)), [4, 2, 5]))
    g2 = view(g, [8, 3])
    du = all_reduce(mm(t(g2), view(h, [8, 5])), "sum", "g")
    dh = view(mm(g2, u), [4, 2, 5])
    dr = mul.Tensor(dh, h)
    dw = all_reduce(mm(t(view(dr, [8, 5])), view(x, [8, 6])), "sum", "g")
    return du, dw
    """,
)
BOTH = Case(
    "sequence and batch cut, one after the other added up",
    WEIGHT.format(s=4, b=4, n=16) + "return w, v",
    WEIGHT.format(s=2, b=2, n=4)
    + 'w1 = all_reduce(all_reduce(w, "sum", "cp"), "sum", "dp")\n'
    + 'v1 = all_reduce(all_reduce(v, "sum", "dp"), "sum", "cp")\nreturn w1, v1',
    ranks=4,
    groups={"cp": [[0, 1], [2, 3]], "dp": [[0, 2], [1, 3]]},
    relate={
        n: [
            row(
                r,
                n,
                seq_box=[[2 * (r % 2), 2 * (r % 2) + 2], [2 * (r // 2), 2 * (r // 2) + 2], [0, h]],
            )
            for r in range(4)
        ]
        for n, h in (("x", 6), ("g", 3))
    },
)

AT_ONCE = Case(
    "sequence and batch cut, added up at once",
    WEIGHT.format(s=4, b=6, n=24) + "return w, v",
    WEIGHT.format(s=2, b=2, n=4) + REDUCED,
    ranks=6,
    relate={
        n: [
            row(
                r,
                n,
                seq_box=[[2 * (r % 2), 2 * (r % 2) + 2], [2 * (r // 2), 2 * (r // 2) + 2], [0, h]],
            )
            for r in range(6)
        ]
        for n, h in (("x", 6), ("g", 3))
    },
)


@table(
    AT_ONCE,
    AT_ONCE.miss(
        "one cell twice, another not at all",
        "x: f32[2, 2, 6]",
        "x: f32[2, 2, 6]",
        relate={
            n: [
                row(
                    r,
                    n,
                    seq_box=[
                        [2 * (q % 2), 2 * (q % 2) + 2],
                        [2 * (q // 2), 2 * (q // 2) + 2],
                        [0, h],
                    ],
                )
                for r in range(6)
                for q in [min(r, 4)]
            ]
            for n, h in (("x", 6), ("g", 3))
        },
    ),
    AT_ONCE.miss(
        "cells of x and of its gradient that do not meet",
        "x: f32[2, 2, 6]",
        "x: f32[2, 2, 6]",
        maps=("v",),
        relate={
            n: [
                row(
                    r,
                    n,
                    seq_box=[
                        [2 * (q % 2), 2 * (q % 2) + 2],
                        [2 * (q // 2), 2 * (q // 2) + 2],
                        [0, h],
                    ],
                )
                for r in range(6)
                for q in [r if n == "x" else 5 - r]
            ]
            for n, h in (("x", 6), ("g", 3))
        },
    ),
    BATCH,
    BATCH.miss("not added up", 'w1 = all_reduce(w, "sum", "g")', "w1 = clone(w)", maps=("v",)),
    BATCH.miss("an average", '(w, "sum", "g")', '(w, "avg", "g")', maps=("v",)),
    BATCH.miss(
        "tokens in another order",
        "view(x, [8, 6])",
        "view(transpose.int(x, 0, 1), [8, 6])",
        maps=("v",),
    ),
    LAST,
    LAST.miss(
        "one rank's batch twice",
        "x: f32[4, 1, 6]",
        "x: f32[4, 1, 6]",
        maps=("v",),
        relate={
            "x": [
                row(r, "x", seq_box=[[0, 4], [max(r, 1), max(r, 1) + 1], [0, 6]]) for r in range(4)
            ]
        },
    ),
    SEQUENCE,
    LAYERS,
    LAYERS.miss(
        "the first gradient not added up",
        'dw = all_reduce(mm(t(view(dr, [8, 5])), view(x, [8, 6])), "sum", "g")',
        "dw = mm(t(view(dr, [8, 5])), view(x, [8, 6]))",
        maps=("du",),
    ),
    LAYERS.miss(
        "another layer's input",
        'view(h, [8, 5])), "sum"',
        'view(mul.Tensor(h, h), [8, 5])), "sum"',
        maps=("dw",),
    ),
    BOTH,
    BOTH.miss(
        "added up twice over the sequence",
        'all_reduce(w, "sum", "cp"), "sum", "dp")',
        'all_reduce(w, "sum", "cp"), "sum", "cp")',
        maps=("v",),
    ),
    BOTH.miss(
        "only over the batch",
        'all_reduce(all_reduce(w, "sum", "cp"), "sum", "dp")',
        'all_reduce(w, "sum", "dp")',
        maps=("v",),
    ),
)
def test_tokens(case: Case, outcomes: Outcomes) -> None:
    check(case, outcomes(case))
