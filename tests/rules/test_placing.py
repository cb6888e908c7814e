"""In place: what is equal only after a transpose, a roll or another order of rows is not returned."""

from __future__ import annotations

from .build import Case, check, row, table
from .conftest import Outcomes

SQUARE = Case(
    "a square matrix",
    "x: f32[4, 4]\nreturn relu(x)",
    "x: f32[4, 4]\nreturn relu(x)",
)
SHARDS = Case(
    "shards in the order of the ranks",
    "x: f32[8, 6]\nreturn relu(x)",
    "x: f32[2, 6]\nreturn relu(x)",
    ranks=4,
)
EMPTY = Case(
    "nothing is left for a rank",
    "x: f32[3, 6]\nreturn relu(x)",
    "x: f32[3, 6]\ny: f32[3 - 3 * rank, 6] = slice(relu(x), 0, 3 * rank, 3)\nreturn y",
)
GATHERED = Case(
    "gathered rows",
    "x: f32[4, 6]\nreturn relu(x)",
    "x: f32[2, 6]\nreturn all_gather_into_tensor(relu(x), 2, 'g')",
)
COLUMNS = Case(
    "gathered columns",
    "x: f32[4, 4]\nreturn relu(x)",
    """
    x: f32[4, 2]
    y: f32[8, 2] = all_gather_into_tensor(relu(x), 2, 'g')
    parts = split(y, 4, 0)
    return cat([parts[0], parts[1]], 1)
    """,
)
ROWS = Case(
    "rows of each of two sequences",
    "x: f32[2, 4, 6]\nreturn view(relu(x), [8, 6])",
    "x: f32[2, 2, 6]\nreturn view(relu(x), [4, 6])",
)
HEADS = Case(
    "heads under one dimension",
    "x: f32[5, 4, 3]\nreturn view(relu(x), [5, 12])",
    "x: f32[5, 2, 3]\nreturn view(relu(x), [5, 6])",
)
OUTER = Case(
    "the inner of two dimensions that become one",
    "x: f32[4, 6]\nreturn view(relu(x), [24])",
    "x: f32[4, 3]\nreturn view(relu(x), [12])",
)
COPIES = Case(
    "every row three times, all rows at once",
    "x: f32[4, 6]\nreturn repeat(relu(x), [3, 1])",
    "x: f32[4, 6]\nreturn repeat(relu(x), [3, 1])",
)
REPEATED = Case(
    "copies of what is cut",
    "x: f32[4, 6]\nreturn repeat(relu(x), [3, 1])",
    "x: f32[4, 3]\nreturn repeat(relu(x), [3, 1])",
)
SWAPPED = [
    row(0, "x", seq_box=[[4, 8], [0, 6]]),
    row(1, "x", seq_box=[[0, 4], [0, 6]]),
]
ZIGZAG = {
    "x": [
        row(r, "x", seq_box=[[2 * c, 2 * c + 2], [0, 6]], dist_box=[[2 * i, 2 * i + 2], [0, 6]])
        for r in range(2)
        for i, c in enumerate((r, 3 - r))
    ]
}
DECLARED = Case(
    "zig-zag, as the input is declared",
    "x: f32[8, 6]\nreturn relu(x)",
    "x: f32[4, 6]\nreturn relu(x)",
    relate=ZIGZAG,
)
TP2 = {"tp": [[0, 1], [2, 3]], "dp": [[0, 2], [1, 3]]}
MESH = Case(
    "along the outer axis of a mesh",
    "x: f32[8, 6]\nreturn relu(x)",
    "x: f32[4, 6]\nreturn relu(x)",
    ranks=4,
    groups=TP2,
    relate={
        "x": [row(r, "x", seq_box=[[4 * (r // 2), 4 * (r // 2) + 4], [0, 6]]) for r in range(4)]
    },
)
BOTH = Case(
    "cut along both axes of a mesh",
    "x: f32[8, 6]\nreturn relu(x)",
    "x: f32[4, 3]\nreturn relu(x)",
    ranks=4,
    relate={
        "x": [
            row(r, "x", seq_box=[[4 * (r // 2), 4 * (r // 2) + 4], [3 * (r % 2), 3 * (r % 2) + 3]])
            for r in range(4)
        ]
    },
)
PERMUTED = {
    "w": [
        {
            "seq": "w",
            "rank": r,
            "dist": "w",
            "seq_box": [[0, 6], [2 * r, 2 * r + 2]],
            "permute": [1, 0],
        }
        for r in range(2)
    ]
}
KEPT = Case(
    "a weight that the ranks keep transposed",
    "w: f32[6, 4]\nreturn neg(w)",
    "w: f32[2, 6]\nreturn neg(w)",
    relate=PERMUTED,
)
STEP = Case(
    "a step on a shard",
    "w: f32[8, 4]\ng: f32[8, 4]\ny = sub(w, g)\nreturn y",
    "w: f32[4, 4]\ng: f32[4, 4]\ny = sub(w, g)\nreturn y",
    state={"y": "w"},
)
FUSED = STEP.but(
    "of a fused weight",
    relate={
        name: [
            row(
                r,
                name,
                seq_box=[[4 * h + 2 * r, 4 * h + 2 * r + 2], [0, 4]],
                dist_box=[[2 * h, 2 * h + 2], [0, 4]],
            )
            for r in range(2)
            for h in range(2)
        ]
        for name in ("w", "g")
    },
    maps=None,
)
FLAT = Case(
    "a step on a weight that is kept transposed",
    "w: f32[6, 4]\ng: f32[6, 4]\ny = sub(w, g)\nreturn y",
    "w: f32[2, 6]\ng: f32[2, 6]\ny = sub(w, g)\nreturn y",
    relate={"w": PERMUTED["w"], "g": [r | {"seq": "g", "dist": "g"} for r in PERMUTED["w"]]},
    state={"y": "w"},
)


@table(
    STEP,
    STEP.miss(
        "gathered",
        "y = sub(w, g)",
        'y = all_gather_into_tensor(sub(w, g), 2, "g")',
        maps=None,
        lost=("y",),
    ),
    STEP.miss(
        "of the other rank",
        "y = sub(w, g)",
        'z = all_gather_into_tensor(sub(w, g), 2, "g")\ny = slice(z, 0, 4 - 4 * rank, 8 - 4 * rank)',
        lost=("y",),
    ),
    STEP.miss(
        "its own once more",
        "y = sub(w, g)",
        'z = all_gather_into_tensor(sub(w, g), 2, "g")\ny = slice(z, 0, 4 * rank, 4 * rank + 4)',
        maps=None,
    ),
    FUSED,
    FUSED.but(
        "unfused",
        dist="""
        w: f32[4, 4]
        g: f32[4, 4]
        z = all_gather_into_tensor(sub(w, g), 2, "g")
        y = cat([slice(z, 0, 2 * rank, 2 * rank + 2), slice(z, 0, 2 * rank + 4, 2 * rank + 6)], 0)
        return y
        """,
        maps=None,
        lost=("y",),
    ),
    FLAT,
    FLAT.miss("turned", "y = sub(w, g)", "y = t(sub(w, g))", maps=None, state={}),
)
def test_state(case: Case, outcomes: Outcomes) -> None:
    check(case, outcomes(case))


@table(
    SQUARE,
    SQUARE.miss("transposed", "return relu(x)", "return t(relu(x))"),
    SQUARE.miss("both are, in the end", "return relu(x)", "return t(relu(t(x)))", maps=None),
    SQUARE.miss(
        "halves exchanged",
        "return relu(x)",
        "p = split(relu(x), 2, 0)\nreturn cat([p[1], p[0]], 0)",
    ),
    SQUARE.miss(
        "halves as they were",
        "return relu(x)",
        "p = split(relu(x), 2, 0)\nreturn cat([p[0], p[1]], 0)",
        maps=None,
    ),
    SQUARE.miss(
        "one half twice", "return relu(x)", "p = split(relu(x), 2, 0)\nreturn cat([p[0], p[0]], 0)"
    ),
    SQUARE.miss("none of its rows", "return relu(x)", "return slice(relu(x), 0, 0, 0)"),
    SHARDS,
    SHARDS.but(
        "the wrong way round",
        dist="x: f32[2, 6]\ny = all_gather_into_tensor(relu(x), 4, 'g')\n"
        "return slice(y, 0, 6 - 2 * rank, 8 - 2 * rank)",
    ),
    SHARDS.but(
        "sliced again",
        dist="x: f32[2, 6]\ny = all_gather_into_tensor(relu(x), 4, 'g')\n"
        "return slice(y, 0, 2 * rank, 2 * rank + 2)",
        maps=None,
    ),
    SHARDS.but(
        "every other row",
        dist="x: f32[2, 6]\ny = all_gather_into_tensor(relu(x), 4, 'g')\n"
        "return slice(y, 0, rank, 8, 4)",
    ),
    SHARDS.but(
        "shards transposed",
        seq="x: f32[8, 8]\nreturn relu(x)",
        dist="x: f32[2, 8]\nreturn t(relu(x))",
    ),
    EMPTY,
    EMPTY.but(
        "a row too few",
        dist="x: f32[3, 6]\ny: f32[2 - 2 * rank, 6] = slice(relu(x), 0, 2 * rank, 2)\nreturn y",
    ),
    EMPTY.but(
        "no elements at all",
        seq="x: f32[3, 6]\nreturn slice(relu(x), 0, 0, 0)",
        dist="x: f32[3, 6]\nreturn slice(relu(x), 0, 0, 0)",
    ),
    GATHERED,
    GATHERED.miss(
        "then rolled",
        "return all_gather_into_tensor(relu(x), 2, 'g')",
        "p = split(all_gather_into_tensor(relu(x), 2, 'g'), 2, 0)\nreturn cat([p[1], p[0]], 0)",
    ),
    COLUMNS,
    ROWS,
    ROWS.but(
        "of a dimension that was none of two",
        seq="x: f32[8, 6]\nreturn relu(x)",
        dist="x: f32[4, 6]\nreturn relu(x)",
        relate={
            "x": [
                row(
                    r,
                    "x",
                    seq_box=[[4 * b + 2 * r, 4 * b + 2 * r + 2], [0, 6]],
                    dist_box=[[2 * b, 2 * b + 2], [0, 6]],
                )
                for r in range(2)
                for b in range(2)
            ]
        },
        maps=None,
    ),
    ROWS.but(
        "of a dimension that was none of two, not declared",
        seq="x: f32[8, 6]\nreturn relu(x)",
        dist="""
        x: f32[4, 6]
        y = view(all_gather_into_tensor(relu(x), 2, 'g'), [2, 4, 6])
        z = slice(y, 1, 2 * rank, 2 * rank + 2)
        return view(z, [4, 6])
        """,
    ),
    ROWS.but(
        "one row in four, as declared",
        seq="x: f32[8, 6]\nreturn relu(x)",
        dist="x: f32[2, 6]\nreturn relu(x)",
        ranks=4,
        relate={
            "x": [
                row(
                    r,
                    "x",
                    seq_box=[[4 * b + r, 4 * b + r + 1], [0, 6]],
                    dist_box=[[b, b + 1], [0, 6]],
                )
                for r in range(4)
                for b in range(2)
            ]
        },
        maps=None,
    ),
    BLOCKS := ROWS.but(
        "in pieces of both dimensions, as declared",
        seq="x: f32[8, 8]\nreturn relu(x)",
        dist="x: f32[4, 4]\nreturn relu(x)",
        ranks=4,
        relate={
            "x": [
                row(
                    2 * i + j,
                    "x",
                    seq_box=[
                        [4 * a + 2 * i, 4 * a + 2 * i + 2],
                        [4 * b + 2 * j, 4 * b + 2 * j + 2],
                    ],
                    dist_box=[[2 * a, 2 * a + 2], [2 * b, 2 * b + 2]],
                )
                for i in range(2)
                for j in range(2)
                for a in range(2)
                for b in range(2)
            ]
        },
        maps=None,
    ),
    BLOCKS.miss(
        "the halves of the rows exchanged",
        "return relu(x)",
        "p = split(relu(x), 2, 0)\nreturn cat([p[1], p[0]], 0)",
    ),
    BLOCKS.miss("transposed", "return relu(x)", "return t(relu(x))"),
    ROWS.but(
        "one row in four, not declared",
        seq="x: f32[8, 6]\nreturn relu(x)",
        dist="""
        x: f32[2, 6]
        y = view(all_gather_into_tensor(relu(x), 4, 'g'), [2, 4, 6])
        return select(y, 1, rank)
        """,
        ranks=4,
    ),
    Case(
        "a shape that does not divide as the sequential one",
        "x: f32[12]\nreturn view(relu(x), [3, 4])",
        "x: f32[6]\nreturn view(relu(x), [2, 3])",
        maps=(),
    ),
    HEADS,
    HEADS.miss(
        "the other order of both",
        "view(relu(x), [5, 6])",
        "view(permute(relu(x), [0, 2, 1]), [5, 6])",
    ),
    OUTER,
    OUTER.miss("transposed before", "view(relu(x), [12])", "view(t(relu(x)), [12])"),
    COPIES,
    COPIES.miss(
        "a row at a time",
        "repeat(relu(x), [3, 1])",
        "reshape(expand(unsqueeze(relu(x), 1), [4, 3, 6]), [12, 6])",
    ),
    COPIES.miss("twice only", "[3, 1]", "[2, 1]"),
    COPIES.miss("once", "repeat(relu(x), [3, 1])", "relu(x)"),
    COPIES.miss("once, on three ranks", "repeat(relu(x), [3, 1])", "relu(x)", ranks=3, maps=None),
    COPIES.miss("of the columns, too", "[3, 1]", "[3, 2]"),
    COPIES.miss(
        "the rows turned",
        "return repeat(relu(x), [3, 1])",
        "p = split(relu(x), 2, 0)\nreturn repeat(cat([p[1], p[0]], 0), [3, 1])",
    ),
    COPIES.but(
        "of a square, transposed",
        seq="x: f32[4, 4]\nreturn repeat(relu(x), [3, 1])",
        dist="x: f32[4, 4]\nreturn repeat(t(relu(x)), [3, 1])",
    ),
    REPEATED,
    REPEATED.miss(
        "one that another rank has",
        "return repeat(relu(x), [3, 1])",
        "y: f32[8, 3] = all_gather_into_tensor(relu(x), 2, 'g')\n"
        "return repeat(slice(y, 0, 4 - 4 * rank, 8 - 4 * rank), [3, 1])",
    ),
    REPEATED.but(
        "of rows that are cut: every rank has every other pair",
        dist="x: f32[2, 6]\nreturn repeat(relu(x), [3, 1])",
    ),
    DECLARED,
    DECLARED.but(
        "not declared",
        relate={},
        dist="x: f32[4, 6]\ny = all_gather_into_tensor(relu(x), 2, 'g')\np = split(y, 2, 0)\n"
        "return cat([p[rank], p[3 - rank]], 0)",
    ),
    DECLARED.but("in the order of the other rank", relate={"x": SWAPPED}, maps=None),
    DECLARED.miss(
        "halves exchanged",
        "return relu(x)",
        "p = split(relu(x), 2, 0)\nreturn cat([p[1], p[0]], 0)",
    ),
    MESH,
    BOTH,
    BOTH.but(
        "along the other axes",
        dist="x: f32[4, 3]\nreturn relu(x)",
        relate={
            "x": [
                row(
                    r,
                    "x",
                    seq_box=[[4 * (r % 2), 4 * (r % 2) + 4], [3 * (r // 2), 3 * (r // 2) + 3]],
                )
                for r in range(4)
            ]
        },
        maps=None,
    ),
    KEPT,
    KEPT.miss("transposed once more", "return neg(w)", "return t(neg(w))", maps=None),
    KEPT.but("that they keep as it is", relate={}, dist="w: f32[6, 2]\nreturn t(neg(w))"),
)
def test_placing(case: Case, outcomes: Outcomes) -> None:
    check(case, outcomes(case))
