"""Sums (``rules/sum.dl``): additions, reductions over ranks, groups, nested and several reductions."""

from __future__ import annotations

from gg_datalog.extract.exponents import flattened
from gg_datalog.extract.view import Base, View

from .build import Case, Row, check, row, table
from .conftest import Outcomes

MATMUL = "x: f32[4, {n}]\nw: f32[{n}, 6]\ny = mm(x, w)\n"
REDUCED = Case(
    "all-reduce",
    MATMUL.format(n=8) + "return y",
    MATMUL.format(n=2) + 'z = all_reduce(y, "sum", "g")\nreturn z',
    ranks=4,
)
RESIDUAL = Case(
    "residual",
    "x: f32[4, 6]\nw: f32[6, 5]\nr: f32[4, 5]\ny = add(mm(x, w), r)\nreturn y",
    'x: f32[4, 3]\nw: f32[3, 5]\nr: f32[4, 5]\na = all_reduce(mm(x, w), "sum", "g")\ny = add(a, r)\nreturn y',
)
MEAN = Case(
    "average",
    "x: f32[8, 6]\ny = mean.dim(x, [0])\nreturn y",
    'x: f32[2, 6]\ny = all_reduce(mean.dim(x, [0]), "avg", "g")\nreturn y',
    ranks=4,
)


def held(
    name: str, dim: int, rank: int, ranges: tuple[tuple[int, int], ...], shape: tuple[int, ...]
) -> Row:
    """Rank ``rank`` has range ``ranges[rank]`` of dimension ``dim``."""
    box = [[0, e] for e in shape]
    box[dim] = list(ranges[rank])
    return row(rank, name, seq_box=box)


def ranged(*ranges: tuple[int, int], size: int = 8) -> dict[str, list[Row]]:
    """Ranges of the contracted dimension of ``MATMUL``, one per rank."""
    return {
        "x": [held("x", 1, r, ranges, (4, size)) for r in range(len(ranges))],
        "w": [held("w", 0, r, ranges, (size, 6)) for r in range(len(ranges))],
    }


HALVES = {"g": [[0, 1], [2, 3]], "h": [[0, 2], [1, 3]]}
REDUCTIONS = (
    REDUCED,
    REDUCED.miss("maximum instead", '"sum"', '"max"'),
    REDUCED.miss("average instead", '"sum"', '"avg"'),
    REDUCED.miss("of another tensor", "all_reduce(y", "all_reduce(neg(y)"),
    REDUCED.miss("twice", "return z", 'u = all_reduce(z, "sum", "g")\nreturn u'),
    REDUCED.but(
        "ranges in another order", maps=None, relate=ranged((2, 4), (6, 8), (0, 2), (4, 6))
    ),
    REDUCED.but("ranges that overlap", relate=ranged((0, 2), (2, 4), (3, 5), (6, 8))),
    REDUCED.but("ranges with a gap", relate=ranged((0, 2), (2, 4), (4, 6), (4, 6))),
    REDUCED.but(
        "operands of different ranges",
        relate={
            **ranged((0, 2), (2, 4), (4, 6), (6, 8)),
            "x": ranged((0, 2), (2, 4), (6, 8), (4, 6))["x"],
        },
    ),
    REDUCED.but("members in another order", maps=None, groups={"g": [[3, 1, 0, 2]]}),
    REDUCED.but("a group of one", groups={"g": [[0, 1, 2], [3]]}),
    REDUCED.but("two halves", groups=HALVES),
    REDUCED.miss(
        "two halves, then the halves",
        "return z",
        'u = all_reduce(z, "sum", "h")\nreturn u',
        groups=HALVES,
        maps=None,
    ),
    REDUCED.miss(
        "two halves twice", "return z", 'u = all_reduce(z, "sum", "g")\nreturn u', groups=HALVES
    ),
    REDUCED.but(
        "every member has everything",
        relate=ranged(*[(0, 8)] * 4),
        dist=REDUCED.dist.replace("2]", "8]")
        .replace("[2,", "[8,")
        .replace("f32[4, 8]", "f32[4, 8]"),
    ),
    MEAN,
    MEAN.miss("added up", '"avg"', '"sum"'),
    MEAN.miss("of sums", "mean.dim", "sum.dim_IntList"),
    MEAN.but(
        "of uneven shards", ranks=3, dist=MEAN.dist.replace("f32[2, 6]", "f32[3 - (rank == 2), 6]")
    ),
    MEAN.miss(
        "sums divided",
        'all_reduce(mean.dim(x, [0]), "avg", "g")',
        'div.Tensor(all_reduce(sum.dim_IntList(x, [0]), "sum", "g"), 8)',
        maps=None,
    ),
    MEAN.miss(
        "divided by the size of the shard",
        'all_reduce(mean.dim(x, [0]), "avg", "g")',
        'div.Tensor(all_reduce(sum.dim_IntList(x, [0]), "sum", "g"), 2)',
    ),
    RESIDUAL,
    RESIDUAL.miss("forgotten", "y = add(a, r)\nreturn y", "return a"),
    RESIDUAL.miss("twice", "y = add(a, r)", "y = add(add(a, r), r)"),
    Case(
        "maximum of full tensors",
        "x: f32[4]\ny = relu(x)\nreturn y",
        'x: f32[4]\ny = all_reduce(relu(x), "max", "g")\nreturn y',
    ),
    Case(
        "sum of full tensors",
        "x: f32[4]\ny = relu(x)\nreturn y",
        'x: f32[4]\ny = all_reduce(relu(x), "sum", "g")\nreturn y',
        maps=(),
    ),
    Case(
        "average of full tensors",
        "x: f32[4]\ny = relu(x)\nreturn y",
        'x: f32[4]\ny = all_reduce(relu(x), "avg", "g")\nreturn y',
    ),
    Case(
        "product of the members",
        "x: f32[4]\ny = relu(x)\nreturn y",
        'x: f32[4]\ny = all_reduce(relu(x), "product", "g")\nreturn y',
        maps=(),
    ),
)
DOUBLE = Case(
    "two communicators of the same ranks",
    MATMUL.format(n=4) + "z = relu(y)\nu = mm(x, neg(w))\nreturn z, u",
    MATMUL.format(n=2)
    + 'a = all_reduce(y, "sum", "g")\nb = all_reduce(mm(x, neg(w)), "sum", "h")\nreturn relu(a), b',
    groups={"g": [[0, 1]], "h": [[0, 1]]},
)
LINED = Case(
    "collectives that line up",
    "x: f32[8]\nz: f32[8]\nreturn relu(x), relu(z)",
    'x: f32[4]\nz: f32[4]\na = all_gather_into_tensor(x, 2, "g")\nb = all_gather_into_tensor(z, 2, "g")\nreturn relu(a), relu(b)',
)
MATCHING = (
    DOUBLE,
    DOUBLE.but(
        "exchanged on one rank",
        mismatch=True,
        dist=DOUBLE.dist.replace('"g")', '"g" if rank == 0 else "h")').replace(
            '"h")\nreturn', '"h" if rank == 0 else "g")\nreturn'
        ),
    ),
    LINED,
    LINED.miss(
        "of another tensor on one rank",
        "all_gather_into_tensor(x,",
        "all_gather_into_tensor(x if rank == 0 else z,",
        maps=("out_1",),
    ),
    LINED.but(
        "in another order on one rank",
        mismatch=False,
        maps=(),
        dist="x: f32[4]\nz: f32[4]\np = x if rank == 0 else z\nq = z if rank == 0 else x\n"
        'a = all_gather_into_tensor(p, 2, "g")\nb = all_gather_into_tensor(q, 2, "g")\nreturn relu(a), relu(b)',
    ),
    REDUCED.miss(
        "another kind on one rank",
        'all_reduce(y, "sum", "g")',
        'all_reduce(y, "sum" if rank else "max", "g")',
        mismatch=True,
    ),
    REDUCED.miss(
        "another shape on one rank", "all_reduce(y", "all_reduce(y if rank else t(y)", mismatch=True
    ),
    REDUCED.miss(
        "another dtype on one rank",
        "y = mm(x, w)",
        "y = mm(x, w) if rank else _to_copy(mm(x, w), dtype='float16')",
        mismatch=True,
    ),
    REDUCED.miss(
        "one rank has one more",
        "return z",
        'u = all_reduce(z, "sum", "g") if rank == 0 else clone(z)\nreturn z',
        mismatch=True,
        maps=None,
    ),
    REDUCED.miss(
        "one rank never comes",
        'all_reduce(y, "sum", "g")',
        'all_reduce(y, "sum", "g") if rank else clone(y)',
        mismatch=True,
    ),
    REDUCED.miss("unknown group", '"g")', '"q")', error="is not known"),
)
# 2 x 2 mesh: rank 2 i + j has range i of the first and j of the second dimension
MESH = {
    "x": [
        row(r, "x", seq_box=[[3 * (r // 2), 3 * (r // 2) + 3], [4 * (r % 2), 4 * (r % 2) + 4]])
        for r in range(4)
    ]
}
GRID = Case(
    "2-d mesh, sum over both",
    "x: f32[6, 8]\ny = sum.dim_IntList(x, [0, 1])\nreturn y",
    'x: f32[3, 4]\ns = sum.dim_IntList(x, [0, 1])\na = all_reduce(s, "sum", "h")\ny = all_reduce(a, "sum", "g")\nreturn y',
    ranks=4,
    groups=HALVES,
    relate=MESH,
)
NESTED = Case(
    "2-d mesh, one reduction inside the other",
    "x: f32[6, 8]\nw: f32[8, 2]\ny = sum.dim_IntList(mm(x, w), [0])\nreturn y",
    'x: f32[3, 4]\nw: f32[4, 2]\ns = sum.dim_IntList(mm(x, w), [0])\na = all_reduce(s, "sum", "h")\ny = all_reduce(a, "sum", "g")\nreturn y',
    ranks=4,
    groups=HALVES,
    relate={
        **MESH,
        "w": [row(r, "w", seq_box=[[4 * (r % 2), 4 * (r % 2) + 4], [0, 2]]) for r in range(4)],
    },
)
MESHES = (
    GRID,
    GRID.miss(
        "the other way round",
        'all_reduce(s, "sum", "h")\ny = all_reduce(a, "sum", "g")',
        'all_reduce(s, "sum", "g")\ny = all_reduce(a, "sum", "h")',
        maps=None,
    ),
    GRID.miss("one of them twice", 'all_reduce(a, "sum", "g")', 'all_reduce(a, "sum", "h")'),
    GRID.miss("one of them left out", "return y", "return a"),
    GRID.but(
        "all at once",
        maps=None,
        groups={"h": [[0, 1, 2, 3]], "g": [[0], [1], [2], [3]]},
    ),
    GRID.but("diagonal groups", groups={"h": [[0, 3], [1, 2]], "g": HALVES["g"]}),
    NESTED,
    NESTED.miss(
        "the other way round",
        'all_reduce(s, "sum", "h")\ny = all_reduce(a, "sum", "g")',
        'all_reduce(s, "sum", "g")\ny = all_reduce(a, "sum", "h")',
        maps=None,
    ),
    NESTED.miss("outer one left out", "return y", "return a"),
    NESTED.but(
        "inner one before the outer operator",
        maps=None,
        dist='x: f32[3, 4]\nw: f32[4, 2]\nm = all_reduce(mm(x, w), "sum", "g")\ny = all_reduce(sum.dim_IntList(m, [0]), "sum", "h")\nreturn y',
    ),
    NESTED.but(
        "a function that is not linear between them",
        seq=NESTED.seq.replace("mm(x, w)", "relu(mm(x, w))"),
        dist=NESTED.dist.replace("mm(x, w)", "relu(mm(x, w))"),
    ),
    NESTED.but(
        "a function that is not linear, reduced first",
        maps=None,
        seq=NESTED.seq.replace("mm(x, w)", "relu(mm(x, w))"),
        dist='x: f32[3, 4]\nw: f32[4, 2]\nm = relu(all_reduce(mm(x, w), "sum", "g"))\ny = all_reduce(sum.dim_IntList(m, [0]), "sum", "h")\nreturn y',
    ),
)
ACCUMULATED = Case(
    "accumulation over micro-batches",
    "x: f32[8, 6]\ny = sum.dim_IntList(relu(x), [0])\nreturn y",
    "x: f32[8, 6]\na = sum.dim_IntList(relu(slice(x, 0, 0, 4)), [0])\nb = sum.dim_IntList(relu(slice(x, 0, 4, 8)), [0])\n"
    "z: f32[6] = zeros([6])\ny = add.Tensor(add.Tensor(z, a), b)\nreturn y",
    ranks=1,
)
PARTS = "x: f32[4, {n}]\nw: f32[{n}, 6]\nv: f32[{n}, 6]\n"
TWO = Case(
    "parts of two reductions",
    PARTS.format(n=8) + "y = add.Tensor(mm(x, w), mm(x, v))\nreturn y",
    PARTS.format(n=4) + 'y = all_reduce(add.Tensor(mm(x, w), mm(x, v)), "sum", "g")\nreturn y',
)
TERMS = (
    ACCUMULATED,
    ACCUMULATED.miss("one batch twice", "0, 4, 8", "0, 0, 4"),
    ACCUMULATED.miss("onto memory", "zeros", "empty"),
    ACCUMULATED.miss("onto ones", "zeros", "ones"),
    ACCUMULATED.miss("batches with a gap", "slice(x, 0, 4, 8)", "slice(x, 0, 5, 8)"),
    ACCUMULATED.miss("means", "sum.dim_IntList", "mean.dim"),
    ACCUMULATED.but(
        "means of halves",
        maps=None,
        seq=ACCUMULATED.seq.replace("sum.dim_IntList", "mean.dim"),
        dist=ACCUMULATED.dist.replace("sum.dim_IntList", "mean.dim").replace(
            "add.Tensor(z, a), b)", "mul.Tensor(a, 0.5), mul.Tensor(b, 0.5))"
        ),
    ),
    TWO,
    TWO.miss("one of them from the other half", "mm(x, v)", "mm(x, w)"),
    TWO.miss(
        "a reduction of its own each",
        'all_reduce(add.Tensor(mm(x, w), mm(x, v)), "sum", "g")',
        'add.Tensor(all_reduce(mm(x, w), "sum", "g"), all_reduce(mm(x, v), "sum", "g"))',
        maps=None,
    ),
    TWO.miss(
        "only one reduced",
        'all_reduce(add.Tensor(mm(x, w), mm(x, v)), "sum", "g")',
        'add.Tensor(all_reduce(mm(x, w), "sum", "g"), mm(x, v))',
    ),
    TWO.but(
        "[0, 4) of one with [4, 8) of the other",
        dist=PARTS.format(n=4)
        + 'y = all_reduce(mm(x, w) if rank == 0 else mm(x, v), "sum", "g")\nreturn y',
    ),
    TWO.but(
        "[0, 4) of one with [4, 8) of the other, against one of them",
        seq=PARTS.format(n=8) + "y = mm(x, w)\nreturn y",
        dist=PARTS.format(n=4)
        + 'y = all_reduce(mm(x, w) if rank == 0 else mm(x, v), "sum", "g")\nreturn y',
    ),
    Case(
        "terms that cancel",
        "x: f32[8]\nz: f32[8]\ny = sub.Tensor(add.Tensor(x, z), z)\nreturn y",
        "x: f32[4]\nz: f32[4]\ny = clone(x)\nreturn y",
        xfail="refused: terms that cancel are left as they are",
    ),
    Case(
        "a sum used twice",
        "x: f32[8]\nz: f32[8]\ns = add.Tensor(x, z)\nreturn relu(s), add.Tensor(s, x)",
        "x: f32[4]\nz: f32[4]\ns = add.Tensor(x, z)\nreturn relu(s), add.Tensor(x, s)",
    ),
    Case(
        "x + x is 2 x",
        "x: f32[8]\ny = add.Tensor(x, x)\nreturn y",
        "x: f32[4]\ny = mul.Tensor(x, 2)\nreturn y",
    ),
    Case(
        "alpha",
        "x: f32[8]\nz: f32[8]\ny = add.Tensor(x, z, alpha=2)\nreturn y",
        "x: f32[4]\nz: f32[4]\ny = add.Tensor(x, mul.Tensor(z, 2))\nreturn y",
    ),
    Case(
        "alpha of the other term",
        "x: f32[8]\nz: f32[8]\ny = add.Tensor(x, z, alpha=2)\nreturn y",
        "x: f32[4]\nz: f32[4]\ny = add.Tensor(z, x, alpha=2)\nreturn y",
        maps=(),
    ),
)


@table(*REDUCTIONS)
def test_reductions(case: Case, outcomes: Outcomes) -> None:
    """What the members of a reduction have to hold."""
    check(case, outcomes(case))


@table(*MATCHING)
def test_collectives_are_matched_by_order(case: Case, outcomes: Outcomes) -> None:
    """Communicators are told apart, and collectives that do not line up are found."""
    check(case, outcomes(case))


@table(*MESHES)
def test_nested_parts(case: Case, outcomes: Outcomes) -> None:
    """Two reductions open at once."""
    check(case, outcomes(case))


@table(*TERMS)
def test_terms(case: Case, outcomes: Outcomes) -> None:
    """Additions on one rank."""
    check(case, outcomes(case))


def test_sums_in_sums_need_no_stack() -> None:
    """Deeper than Python's stack: the terms come in the order in which they were added."""
    deep = [View(Base(str(i), (), "operator"), ()) for i in range(5000)]
    terms = [View(Base(f"term {i}", (), "operator"), ()) for i in range(5000)]
    inner = {s.base: [before, t] for s, before, t in zip(deep[1:], deep, terms[1:], strict=False)}
    assert flattened([deep[-1]], lambda x: inner.get(x.base)) == [deep[0], *terms[1:]]
