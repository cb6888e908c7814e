"""Gradients of weights that were padded to a multiple of the ranks (``padding.dl``): the rows behind the
end of the sequential gradient have to be 0."""

from __future__ import annotations

from typing import Any

from gg_datalog.foundation.errors import GGError
from gg_datalog.proofs.certifying import _shares
from gg_datalog.proofs.checker import Checker
from gg_datalog.proofs.derivations import Derivations
from gg_datalog.result.records import relation

from .build import Case, Row, check, row, table
from .conftest import Outcomes
from .test_proofs import rows as facts_of


def rows(
    name: str = "w", ends: int = 10, size: int = 6, width: int = 4, ranks: int = 2
) -> list[Row]:
    """A weight of so many rows, `size` on each rank; those behind the end are padding."""
    found = []
    for rank in range(ranks):
        lo, hi = rank * size, min(ends, rank * size + size)
        box = {"seq_box": [[lo, hi], [0, width]], "dist_box": [[0, hi - lo], [0, width]]}
        found.append(row(rank, name) | box)
    return found


ROWS = rows()
LAST = ROWS[1]


def first_dimensions(found: list[Row]) -> list[Row]:
    """The rows of a tensor without columns."""
    return [x | {k: x[k][:1] for k in ("seq_box", "dist_box")} for x in found]


def turned(found: list[Row]) -> list[Row]:
    """The rows of the weight with its dimensions exchanged."""
    return [x | {k: x[k][::-1] for k in ("seq_box", "dist_box")} for x in found]


def padded(name: str, seq: str, dist: str, **changes: Any) -> Case:
    """A weight of 10 rows, 6 on each of two ranks."""
    return Case(name, seq, dist, **{"relate": {"w": ROWS}} | changes)


def swapped(case: Case, name: str, *pairs: tuple[str, str], **changes: Any) -> Case:
    """A right sibling with other text on both sides."""
    seq, dist = case.seq, case.dist
    for old, new in pairs:
        seq, dist = seq.replace(old, new), dist.replace(old, new)
    return case.but(name, seq=seq, dist=dist, **{"maps": None} | changes)


# ---- classes that are masked: their exponentials are 0
HEAD = padded(
    "masked classes",
    "x: f32[5, 4]\nw: f32[10, 4]\nz = exp(mm(x, t(w)))\ndw = mm(t(z), x)\nreturn dw",
    """
    x: f32[5, 4]
    w: f32[6, 4]
    at: i64[6] = arange.start(6 * rank, 6 * rank + 6)
    pad: b[6] = ge.Scalar(at, 10)
    z = exp(masked_fill.Scalar(mm(x, t(w)), pad, -inf))
    dw = mm(t(z), x)
    return dw
    """,
)
INPUT = HEAD.but(
    "and the gradient of the input",
    seq=HEAD.seq.replace("return dw", "return dw, mm(z, w)"),
    dist=HEAD.dist.replace("return dw", "return dw, all_reduce(mm(z, w), 'sum', 'g')"),
    maps=None,
)
MASKED = "exp(masked_fill.Scalar(mm(x, t(w)), pad, -inf))"
BOXES = "the relations say"
SPOKEN = row(1, "w", seq_box=[[4, 10], [0, 4]])
FRONT = LAST | {"dist_box": [[2, 6], [0, 4]]}
EARLY = LAST | {"seq_box": [[5, 9], [0, 4]]}
LESS = LAST | {"seq_box": [[6, 9], [0, 4]], "dist_box": [[0, 3], [0, 4]]}
INNER = row(0, "w", seq_box=[[0, 5], [0, 4]], dist_box=[[0, 5], [0, 4]])
ZERO = HEAD.but(
    "and cleared once more",
    maps=None,
    dist=HEAD.dist.replace("dw = mm(t(z), x)", "dw = mm(t(masked_fill.Scalar(z, pad, 0)), x)"),
)
CLASSES = (
    HEAD,
    HEAD.miss("they are not masked", MASKED, "exp(mm(x, t(w)))"),
    HEAD.miss("masked one class later", "ge.Scalar(at, 10)", "ge.Scalar(at, 11)"),
    HEAD.miss("masked one class earlier", "ge.Scalar(at, 10)", "ge.Scalar(at, 9)"),
    HEAD.miss("the other classes are masked", "ge.Scalar(at, 10)", "lt.Scalar(at, 10)"),
    HEAD.miss("positions of the rank", "arange.start(6 * rank, 6 * rank + 6)", "arange(6)"),
    HEAD.miss(
        "positions of the rank before",
        "arange.start(6 * rank, 6 * rank + 6",
        "arange.start(6 - 6 * rank, 12 - 6 * rank",
    ),
    HEAD.miss("filled with a number", "pad, -inf", "pad, -100.0"),
    HEAD.miss("filled with 0", "pad, -inf", "pad, 0"),
    HEAD.miss(
        "1 is added behind the exponential", "dw = mm", "z = add.Tensor(z, 1.0)\n    dw = mm"
    ),
    HEAD.miss("half of it", "return dw", "return mul.Tensor(dw, 0.5)"),
    HEAD.miss("rolled by a row", "return dw", "return roll(dw, [1], [0])"),
    HEAD.miss("the rows backwards", "return dw", "return flip(dw, [0])"),
    HEAD.miss("its logarithm", "return dw", "return log(dw)"),
    HEAD.miss("summed over the ranks", "return dw", "return all_reduce(dw, 'sum', 'g')"),
    HEAD.but(f"{BOXES} that the rows are others", relate={"w": [ROWS[0], SPOKEN]}),
    HEAD.but(f"{BOXES} that padding is in front", relate={"w": [ROWS[0], FRONT]}),
    HEAD.but(f"{BOXES} that it ends before the end", relate={"w": [ROWS[0], EARLY]}),
    HEAD.but(f"{BOXES} nothing of the last row", relate={"w": [ROWS[0], LESS]}),
    HEAD.but(f"{BOXES} nothing of an inner row", relate={"w": [INNER, LAST]}),
    HEAD.but("a weight of one row more", seq=HEAD.seq.replace("w: f32[10", "w: f32[11")),
    INPUT,
    INPUT.miss("they are not masked", MASKED, "exp(mm(x, t(w)))"),
    INPUT.miss(
        "without the all-reduce", "all_reduce(mm(z, w), 'sum', 'g')", "mm(z, w)", maps=("dw",)
    ),
    ZERO,
    HEAD.but("cleared, not masked", dist=ZERO.dist.replace(MASKED, "exp(mm(x, t(w)))"), maps=None),
    swapped(HEAD, "times a number", ("return dw", "return mul.Tensor(dw, 0.125)")),
    swapped(HEAD, "times what may be infinite", ("(t(z), x)", "(t(z), log(x))"), maps=()),
    swapped(
        HEAD, "times what may be no number", ("(t(z), x)", "(t(z), div.Tensor(x, x))"), maps=()
    ),
    swapped(
        HEAD,
        "times a scalar that may be infinite",
        ("x: f32[5, 4]", "g: f32[()]; x: f32[5, 4]"),
        ("return dw", "return mul.Tensor(dw, reciprocal(g))"),
        maps=(),
    ),
    swapped(
        HEAD,
        "times a scalar",
        ("x: f32[5, 4]", "g: f32[()]; x: f32[5, 4]"),
        ("return dw", "return mul.Tensor(dw, g)"),
    ),
)


# ---- other dimensions than the first of two
TURNED = swapped(
    HEAD,
    "of a weight the other way round",
    ("w: f32[10, 4]", "w: f32[4, 10]"),
    ("w: f32[6, 4]", "w: f32[4, 6]"),
    ("t(w)", "w"),
    ("mm(t(z), x)", "mm(t(x), z)"),
    relate={"w": turned(ROWS)},
)
BIAS = padded(
    "of a bias",
    "x: f32[5, 10]\nb: f32[10]\nz = exp(add.Tensor(x, b))\ndb = sum.dim_IntList(z, [0])\nreturn db",
    HEAD.dist.replace("x: f32[5, 4]", "x: f32[5, 6]")
    .replace("w: f32[6, 4]", "b: f32[6]")
    .replace("mm(x, t(w))", "add.Tensor(x, b)")
    .replace("dw = mm(t(z), x)", "db = sum.dim_IntList(z, [0])")
    .replace("return dw", "return db"),
    relate={"b": first_dimensions(rows("b")), "x": turned(rows("x", width=5))},
)
ONE_ROW = padded(
    "a single row is left",
    HEAD.seq.replace("w: f32[10", "w: f32[7"),
    HEAD.dist.replace("ge.Scalar(at, 10)", "ge.Scalar(at, 7)"),
    relate={"w": rows(ends=7)},
)
FLAT = swapped(TURNED, "returned as the weight lies", ("return dw", "return t(dw)"), maps=())
BACK = swapped(HEAD, "computed the other way round", ("mm(t(z), x)", "t(mm(t(x), z))"))
DIMENSIONS = (
    TURNED,
    TURNED.miss(
        "they are not masked", "exp(masked_fill.Scalar(mm(x, w), pad, -inf))", "exp(mm(x, w))"
    ),
    FLAT,
    BACK,
    BACK.miss("they are not masked", MASKED, "exp(mm(x, t(w)))"),
    BIAS,
    BIAS.miss(
        "they are not masked", "masked_fill.Scalar(add.Tensor(x, b), pad, -inf)", "add.Tensor(x, b)"
    ),
    ONE_ROW,
    ONE_ROW.miss("masked one class later", "ge.Scalar(at, 7)", "ge.Scalar(at, 8)"),
)


# ---- state: what was given behind the end is not known
GIVEN = {"w": ROWS, "m": rows("m")}
MOMENT = swapped(
    HEAD,
    "the gradient of a step beside a moment",
    ("x: f32[5, 4]\n", "x: f32[5, 4]; m: f32[10, 4]\n"),
    relate=GIVEN,
).but(
    "which is given",
    dist=HEAD.dist.replace("w: f32[6, 4]", "w: f32[6, 4]; m: f32[6, 4]"),
    maps=None,
)
STEPS = (
    MOMENT,
    MOMENT.but("it comes back as the new moment", state={"dw": "m"}),
    swapped(
        MOMENT,
        "the moment is not 0 behind the end",
        ("return dw", "return add.Tensor(mul.Tensor(m, 0.5), dw)"),
        maps=(),
    ),
    swapped(MOMENT, "times the moment", ("return dw", "return mul.Tensor(m, dw)")),
)


# ---- replicas of the shards
SHARDS = [x | {"rank": x["rank"] + 2 * i} for i in range(2) for x in ROWS]
TOKENS = [row(r, "x", seq_box=[[5 * (r // 2), 5 * (r // 2) + 5], [0, 4]]) for r in range(4)]
GRID = padded(
    "added up over replicas",
    HEAD.seq.replace("x: f32[5, 4]", "x: f32[10, 4]"),
    HEAD.dist.replace("6 * rank", "6 * (rank % 2)").replace(
        "return dw", "return all_reduce(dw, 'sum', 'dp')"
    ),
    ranks=4,
    relate={"w": SHARDS, "x": TOKENS},
    groups={"dp": [[0, 2], [1, 3]], "tp": [[0, 1], [2, 3]]},
)
OTHER = [
    *SHARDS[:2],
    *(
        row(r, "w", seq_box=x["seq_box"], dist_box=x["dist_box"])
        for r, x in ((2, LAST), (3, ROWS[0]))
    ),
]
REPLICAS = (
    GRID,
    GRID.miss("not added up", "return all_reduce(dw, 'sum', 'dp')", "return dw"),
    GRID.miss("added up over the shards", "'sum', 'dp'", "'sum', 'tp'"),
    GRID.miss(
        "one replica is not masked", "ge.Scalar(at, 10)", "ge.Scalar(at, 10 + 2 * (rank == 3))"
    ),
    GRID.miss("one masks a class more", "ge.Scalar(at, 10)", "ge.Scalar(at, 10 - (rank == 3))"),
    GRID.miss("the shards of one are exchanged", "6 * (rank % 2)", "6 * (rank in (1, 2))"),
    GRID.but("the relations say that they are exchanged", relate={"w": OTHER, "x": TOKENS}),
    GRID.miss(
        "averaged", "return all_reduce(dw, 'sum', 'dp')", "return all_reduce(dw, 'avg', 'dp')"
    ),
)


# ---- rows that no id chooses
IDS = "ids: i64[5]\nw: f32[10, 4]\ndy: f32[5, 4]\ny = embedding(w, ids)\n"
TABLE = padded(
    "rows that no id chooses",
    IDS + "dw = embedding_dense_backward(dy, ids, 10, -1, False)\nreturn y, dw",
    """
    ids: i64[5]
    w: f32[6, 4]
    dy: f32[5, 4]
    mask: b[5] = bitwise_or.Tensor(lt.Scalar(ids, 6 * rank), ge.Scalar(ids, 6 * rank + 6))
    local: i64[5] = masked_fill.Scalar(sub.Tensor(ids, 6 * rank), mask, 0)
    kept = masked_fill.Scalar(embedding(w, local), unsqueeze(mask, -1), 0)
    y = all_reduce(kept, "sum", "g")
    mine = masked_fill.Scalar(dy, unsqueeze(mask, -1), 0)
    dw = embedding_dense_backward(mine, local, 6, -1, False)
    return y, dw
    """,
)
CHOSEN = (
    TABLE,
    TABLE.miss("the gradient is not masked", "(mine, local", "(dy, local", maps=("y",)),
    TABLE.miss(
        "(right, but not shown) ids go to a row of the padding",
        "mask, 0)\n    kept",
        "mask, 4)\n    kept",
        maps=("y",),
    ),
    TABLE.but(
        "ids go to the last row",
        dist=TABLE.dist.replace("mask, 0)\n    kept", "mask, 3)\n    kept"),
        maps=None,
    ),
    TABLE.miss(
        "the gradient is added behind it",
        "return y, dw",
        "return y, add.Tensor(dw, 1.0)",
        maps=("y",),
    ),
    TABLE.miss("one more table row", "w: f32[10", "w: f32[11", side="seq"),
    TABLE.but(f"{BOXES} that it ends before the end", relate={"w": [ROWS[0], EARLY]}),
    TABLE.but(f"{BOXES} that padding is in front", relate={"w": [ROWS[0], FRONT]}),
    TABLE.but(f"{BOXES} nothing of the last row", relate={"w": [ROWS[0], LESS]}),
)


# ---- rows of which nothing is used
SLICED = padded(
    "rows of which nothing is used",
    "x: f32[5, 4]\nw: f32[10, 4]\nl = mm(x, t(w))\ndl = sigmoid(l)\ndw = mm(t(dl), x)\nreturn dw",
    """
    x: f32[5, 4]
    w: f32[6, 4]
    l: f32[5, 6 - 2 * rank] = slice(mm(x, t(w)), 1, 0, 6 - 2 * rank)
    dl: f32[5, 6] = slice_backward(sigmoid(l), [5, 6], 1, 0, 6 - 2 * rank, 1)
    dw = mm(t(dl), x)
    return dw
    """,
)
UNUSED = (
    SLICED,
    SLICED.miss(
        "those before them", "[5, 6], 1, 0, 6 - 2 * rank, 1)", "[5, 6], 1, 2 * rank, 6, 1)"
    ),
)


@table(*CLASSES, *DIMENSIONS, *STEPS, *REPLICAS, *CHOSEN, *UNUSED)
def test_padding(case: Case, outcomes: Outcomes) -> None:
    check(case, outcomes(case))


@table(*CLASSES, *DIMENSIONS, *STEPS, *REPLICAS, *CHOSEN, *UNUSED)
def test_the_checker_accounts_for_the_same(case: Case, outcomes: Outcomes) -> None:
    """It accepts what is mapped, and nothing else, of what was derived."""
    out, facts = outcomes(case), Checker(facts_of(case))
    known = Derivations(facts, [relation(row) for row in out.holds])
    for wants, name in enumerate(out.outputs):
        try:
            proved = bool(_shares(known, wants))
        except GGError:
            proved = False
        assert proved == (name in out.mapped), name
