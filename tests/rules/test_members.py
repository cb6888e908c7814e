"""Members that come together at equal steps (``rules/members.dl``, ``terms/steps.dl``): all-to-alls of
groups and experts, ranks in a grid, shares of micro-batches."""

from __future__ import annotations

from .build import Case, Row, check, row, table
from .conftest import Outcomes
from .test_movement import grid, shards

EXCHANGED = Case(
    "experts: one group of tokens a rank, an all-to-all, then experts",
    "x: f32[2, 4, 3, 5]\nw: f32[4, 5, 5]\ny = bmm(view(transpose.int(x, 0, 1), [4, 6, 5]), w)\nreturn y",
    "x: f32[1, 4, 3, 5]\nw: f32[2, 5, 5]\n"
    'a = view(all_to_all_single(view(x, [4, 3, 5]), [], [], "g"), [2, 2, 3, 5])\n'
    "y = bmm(view(transpose.int(a, 0, 1), [2, 6, 5]), w)\nreturn y",
)
TOKENS = Case(
    "experts: every second token is for the second expert",
    "x: f32[16, 5]\nw: f32[2, 5, 5]\n"
    "y = relu(bmm(transpose.int(view(x, [8, 2, 5]), 0, 1), w))\nz = view(transpose.int(y, 0, 1), [16, 5])\nreturn z",
    "x: f32[8, 5]\nw: f32[1, 5, 5]\n"
    'a = all_to_all_single(transpose.int(view(x, [4, 2, 5]), 0, 1), [], [], "g")\n'
    "y = relu(bmm(view(transpose.int(view(a, [2, 1, 4, 5]), 0, 1), [1, 8, 5]), w))\n"
    "b = view(transpose.int(view(y, [1, 2, 4, 5]), 0, 1), [2, 4, 5])\n"
    'z = view(transpose.int(all_to_all_single(b, [], [], "g"), 0, 1), [8, 5])\nreturn z',
)


def shares(*starts: int, n: int = 2) -> dict[str, list[Row]]:
    """Rank r has ``n`` rows of ``x`` from ``starts[r]`` on."""
    return {"x": shards("x", 0, (16, 6), *((lo, lo + n) for lo in starts))}


SPACED = Case(
    "shares at equal steps, of rows that begin in the middle",
    "x: f32[16, 6]\nw: f32[3, 8]\ny = mm(w, slice(view(slice(x, 0, 4, 16), [3, 4, 6]), 1, 2, 4))\nreturn y"
    .replace("mm(w, slice(", "mm(w, view(slice(").replace("1, 2, 4))", "1, 2, 4), [6, 6]))")
    .replace("w: f32[3, 8]", "w: f32[5, 6]"),
    'x: f32[2, 6]\nw: f32[5, 6]\ny = mm(w, all_gather_into_tensor(x, 3, "g"))\nreturn y',
    ranks=3,
    relate=shares(6, 10, 14),
)  # fmt: skip
GRID = Case(
    "ranks in a grid, gathered all at once",
    "x: f32[8, 6]\nw: f32[6, 8]\ny = mm(w, x)\nreturn y",
    'x: f32[4, 3]\nw: f32[6, 8]\na = view(all_gather_into_tensor(x, 4, "g"), [2, 2, 4, 3])\n'
    "y = mm(w, view(permute(a, [0, 2, 1, 3]), [8, 6]))\nreturn y",
    ranks=4,
    relate={"x": grid("x", (8, 6))},
)
BATCHES = Case(
    "micro-batches of shares",
    "x: f32[12, 6]\nw: f32[6, 8]\ny = relu(mm(x, w))\nreturn y",
    "x: f32[6, 6]\nw: f32[6, 4]\n"
    'a = relu(mm(all_gather_into_tensor(slice(x, 0, 0, 3), 2, "g"), w))\n'
    'b = relu(mm(all_gather_into_tensor(slice(x, 0, 3, 6), 2, "g"), w))\n'
    'o = permute(view(all_gather_into_tensor(a, 2, "g"), [2, 6, 4]), [1, 0, 2])\n'
    'p = permute(view(all_gather_into_tensor(b, 2, "g"), [2, 6, 4]), [1, 0, 2])\n'
    "c = slice(view(o, [6, 8]), 0, 3 * rank, 3 * rank + 3)\n"
    "d = slice(view(p, [6, 8]), 0, 3 * rank, 3 * rank + 3)\n"
    "y = cat([c, d], 0)\nreturn y",
)


@table(
    EXCHANGED,
    EXCHANGED.miss(
        "groups taken for experts",
        "view(transpose.int(a, 0, 1), [2, 6, 5])",
        "view(a, [2, 6, 5])",
    ),
    EXCHANGED.but("members exchanged", groups={"g": [[1, 0]]}),
    EXCHANGED.miss("experts of the other rank", "w)\nreturn", 'broadcast(w, 0, "g"))\nreturn'),
    EXCHANGED.miss("not exchanged", 'all_to_all_single(view(x, [4, 3, 5]), [], [], "g")', "x"),
    EXCHANGED.but(
        "both ranks have the first group",
        relate={
            "x": [row(r, "x", seq_box=[[0, 1], [0, 4], [0, 3], [0, 5]]) for r in range(2)],
        },
    ),
    TOKENS,
    TOKENS.miss("not sent back", 'all_to_all_single(b, [], [], "g")', "b"),
    TOKENS.miss(
        "the first half for the first expert",
        "transpose.int(view(x, [4, 2, 5]), 0, 1)",
        "view(x, [2, 4, 5])",
    ),
    TOKENS.miss(
        "put back in another order",
        'view(transpose.int(all_to_all_single(b, [], [], "g"), 0, 1), [8, 5])',
        'view(all_to_all_single(b, [], [], "g"), [8, 5])',
    ),
    SPACED,
    SPACED.but("one step is another", relate=shares(6, 10, 13)),
    SPACED.but("one step is larger", relate=shares(4, 8, 14)),
    SPACED.but("in another order", relate=shares(10, 6, 14)),
    SPACED.but("backwards", relate=shares(14, 10, 6)),
    SPACED.but("of one row less", relate=shares(5, 9, 13)),
    SPACED.but("one share three times", relate=shares(6, 6, 6)),
    GRID,
    GRID.miss("the grid turned", "[0, 2, 1, 3]", "[1, 2, 0, 3]"),
    GRID.but("two ranks exchanged", groups={"g": [[0, 2, 1, 3]]}),
    GRID.but("a corner exchanged", groups={"g": [[0, 1, 3, 2]]}),
    GRID.but(
        "a corner twice",
        relate={"x": [*grid("x", (8, 6))[:3], {**grid("x", (8, 6))[2], "rank": 3}]},
    ),
    BATCHES,
    BATCHES.miss("one micro-batch twice", "slice(x, 0, 3, 6)", "slice(x, 0, 0, 3)"),
    BATCHES.miss("micro-batches exchanged", "[c, d]", "[d, c]"),
    BATCHES.miss(
        "the other rank's rows",
        "c = slice(view(o, [6, 8]), 0, 3 * rank, 3 * rank + 3)",
        "c = slice(view(o, [6, 8]), 0, 3 - 3 * rank, 6 - 3 * rank)",
    ),
    BATCHES.miss(
        "features of one rank before those of the other",
        'permute(view(all_gather_into_tensor(b, 2, "g"), [2, 6, 4]), [1, 0, 2])',
        'view(all_gather_into_tensor(b, 2, "g"), [6, 2, 4])',
    ),
)
def test_members(case: Case, outcomes: Outcomes) -> None:
    check(case, outcomes(case))
