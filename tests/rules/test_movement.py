"""Movement (``rules/movement.dl``, ``terms``): slices, concatenations, permutations, views, ranges."""

from __future__ import annotations

from .build import Case, Row, check, row, table
from .conftest import Outcomes


def shards(name: str, dim: int, shape: tuple[int, ...], *ranges: tuple[int, int]) -> list[Row]:
    """Rank r has ``ranges[r]`` of dimension ``dim``."""
    return [
        row(r, name, seq_box=[list(at) if i == dim else [0, e] for i, e in enumerate(shape)])
        for r, at in enumerate(ranges)
    ]


X = "x: f32[8, 6]\n"
GATHER = Case(
    "all-gather",
    "x: f32[8, 6]\nw: f32[6, 8]\ny = mm(w, x)\nreturn y",
    'x: f32[2, 6]\nw: f32[6, 8]\ng = all_gather_into_tensor(x, 4, "g")\ny = mm(w, g)\nreturn y',
    ranks=4,
)
ONE_ROW = Case(
    "all-gather of one row each",
    "x: f32[4, 6]\nw: f32[6, 4]\ny = mm(w, x)\nreturn y",
    'x: f32[1, 6]\nw: f32[6, 4]\ng = all_gather_into_tensor(x, 4, "g")\ny = mm(w, g)\nreturn y',
    ranks=4,
)
LAST = Case(
    "all-gather along the last dimension",
    "x: f32[4, 6]\nw: f32[6, 5]\ny = mm(x, w)\nreturn y",
    'x: f32[4, 3]\nw: f32[6, 5]\ny = mm(vllm.all_gather(x, 1, 2, "g"), w)\nreturn y',
)
SCATTER = Case(
    "reduce-scatter",
    "x: f32[8, 6]\nw: f32[6, 5]\ny = relu(mm(x, w))\nreturn y",
    'x: f32[8, 3]\nw: f32[3, 5]\ny = relu(reduce_scatter_tensor(mm(x, w), "sum", 2, "g"))\nreturn y',
)
SENT = Case(
    "broadcast",
    "x: f32[8]\nz: f32[8]\ny = mul.Tensor(x, z)\nreturn y",
    'x: f32[8]\nz: f32[8]\np = x if rank == 0 else neg(x)\ny = mul.Tensor(broadcast(p, 0, "g"), z)\nreturn y',
)
NOTHING = Case(
    "nothing in front",
    "x: f32[8, 6]\np = slice(x, 0, 0, 0)\nreturn relu(cat([p, x], 0))",
    "x: f32[4, 6]\np = slice(x, 0, 2, 2)\nreturn relu(cat([p, x], 0))",
)
EMPTIES = (
    NOTHING,
    NOTHING.miss("half of it", "slice(x, 0, 2, 2)", "slice(x, 0, 2, 4)"),
    NOTHING.miss("and half of it only", "cat([p, x], 0)", "cat([p, slice(x, 0, 0, 2)], 0)"),
    NOTHING.but(
        "of which something is computed",
        dist="x: f32[4, 6]\ny: f32[0, 3, 2] = view(slice(x, 0, 2, 2), [0, 3, 2])\n"
        "p: f32[0, 3, 2] = neg(y)\nq: f32[0, 6] = view(p, [0, 6])\nreturn relu(cat([q, x], 0))",
        maps=None,
    ),
    NOTHING.but(
        "split off",
        dist="x: f32[4, 6]\np = split_with_sizes(x, [4, 0], 0)\nreturn relu(cat([p[1], p[0]], 0))",
        maps=None,
    ),
    NOTHING.but(
        "a sum over nothing is 0",
        seq="x: f32[8, 6]\nreturn add(relu(x), sum.dim_IntList(slice(x, 0, 0, 0), [0]))",
        dist="x: f32[4, 6]\nreturn relu(x)",
        maps=None,
    ),
    NOTHING.but(
        "a sum over something is not",
        seq="x: f32[8, 6]\nreturn add(relu(x), sum.dim_IntList(slice(x, 0, 0, 1), [0]))",
        dist="x: f32[4, 6]\nreturn relu(x)",
    ),
    NOTHING.but(
        "of which the gradient is 0",
        seq="x: f32[8, 6]\nreturn add(relu(x), slice_backward(slice(x, 0, 0, 0), [8, 6], 0, 0, 0, 1))",
        dist="x: f32[4, 6]\nreturn relu(x)",
        maps=None,
    ),
    NOTHING.but(
        "of something it is not",
        seq="x: f32[8, 6]\nreturn add(relu(x), slice_backward(slice(x, 0, 0, 1), [8, 6], 0, 0, 1, 1))",
        dist="x: f32[4, 6]\nreturn relu(x)",
    ),
    NOTHING.but(
        "a product over nothing is 1",
        seq="x: f32[8, 6]\nreturn mul.Tensor(relu(x), prod.dim_int(slice(x, 0, 0, 0), 0))",
        dist="x: f32[4, 6]\nreturn mul.Tensor(relu(x), 0)",
    ),
    NOTHING.but(
        "nor is a mean of nothing 0",
        seq="x: f32[8, 6]\nreturn add(relu(x), mean.dim(slice(x, 0, 0, 0), [0]))",
        dist="x: f32[4, 6]\nreturn relu(x)",
    ),
)
COLLECTIVES = (
    GATHER,
    GATHER.but(
        "out of order", relate={"x": shards("x", 0, (8, 6), (2, 4), (0, 2), (4, 6), (6, 8))}
    ),
    GATHER.but(
        "out of order twice",
        maps=None,
        relate={"x": shards("x", 0, (8, 6), (2, 4), (0, 2), (4, 6), (6, 8))},
        groups={"g": [[1, 0, 2, 3]]},
    ),
    GATHER.but("group in another order", groups={"g": [[1, 0, 2, 3]]}),
    GATHER.but(
        "one shard twice", relate={"x": shards("x", 0, (8, 6), (0, 2), (2, 4), (4, 6), (4, 6))}
    ),
    GATHER.miss("sizes that are not the group's", "x, 4,", "x, 2,", mismatch=True),
    GATHER.miss("of a function", "all_gather_into_tensor(x", "all_gather_into_tensor(relu(x)"),
    ONE_ROW,
    ONE_ROW.but(
        "out of order", relate={"x": shards("x", 0, (4, 6), (1, 2), (0, 1), (2, 3), (3, 4))}
    ),
    LAST,
    LAST.miss(
        "counted from the end",
        "x, 1, 2",
        "x, -1, 2",
        maps=None,
    ),
    LAST.miss(
        "along the first",
        "x, 1, 2",
        "x, 0, 2",
        dist='x: f32[4, 3]\nw: f32[6, 5]\ng = vllm.all_gather(x, 0, 2, "g")\ny = mm(view(g, [4, 6]), w)\nreturn y',
    ),
    SCATTER,
    SCATTER.but("members exchanged", groups={"g": [[1, 0]]}),
    SCATTER.but("members exchanged, allowed", maps=None, groups={"g": [[1, 0]]}, anywhere=True),
    SCATTER.miss("then the wrong neighbour", "return y", 'z = broadcast(y, 0, "g")\nreturn z'),
    SCATTER.miss(
        "gathered again", "return y", 'z = all_gather_into_tensor(y, 2, "g")\nreturn z', maps=None
    ),
    SCATTER.miss("average", '"sum"', '"avg"'),
    SENT,
    SENT.miss("from the other member", "p, 0,", "p, 1,"),
    SENT.miss(
        "from the other member of a group in another order",
        "p, 0,",
        "p, 1,",
        maps=None,
        groups={"g": [[1, 0]]},
    ),
    *(
        SENT.miss(
            f"from member {i}, all right",
            "neg(x)\ny = mul.Tensor(broadcast(p, 0",
            f"x\ny = mul.Tensor(broadcast(p, {i}",
            maps=None,
        )
        for i in (0, 1)
    ),
)
CUT = Case(
    "a slice of the sequential side",
    X + "y = relu(slice(x, 0, 2, 6))\nreturn y",
    "x: f32[4, 6]\ny = relu(x)\nreturn y",
    relate={"x": shards("x", 0, (8, 6), (2, 6), (2, 6))},
)
TAKEN = Case(
    "a slice of the distributed side",
    X + "y = relu(x)\nreturn y",
    X + "y = relu(slice(x, 0, 4 * rank, 4 * rank + 4))\nreturn y",
)
EVERY = Case(
    "every second element",
    "x: f32[4, 6]\ny = cat([neg(slice(x, 1, 0, 6, 2)), slice(x, 1, 1, 6, 2)], 1)\nreturn y",
    "x: f32[2, 6]\ny = cat([neg(slice(x, 1, 0, 6, 2)), slice(x, 1, 1, 6, 2)], 1)\nreturn y",
)
STEPPED = (
    EVERY,
    EVERY.miss("the others", "slice(x, 1, 1, 6, 2)", "slice(x, 1, 0, 6, 2)"),
    Case(
        "every second element of the columns of a rank",
        "x: f32[3, 8]\ny = relu(slice(x, 1, 0, 8, 2))\nreturn y",
        "x: f32[3, 4]\ny = relu(slice(x, 1, 0, 4, 2))\nreturn y",
    ),
    Case(
        "every second element of odd columns",
        "x: f32[3, 8]\ny = relu(slice(x, 1, 0, 8, 2))\nreturn y",
        "x: f32[3, 4]\ny = relu(slice(x, 1, 1, 4, 2))\nreturn y",
        maps=(),
    ),
    Case(
        "a last element beyond whole steps",
        "x: f32[4, 7]\ny = relu(slice(x, 1, 0, 7, 3))\nreturn y",
        "x: f32[2, 7]\ny = relu(slice(x, 1, 0, 7, 3))\nreturn y",
    ),
    Case(
        "every third element from the second on, as a slice of rows",
        "x: f32[9, 2]\ny = relu(slice(x, 0, 1, 9, 3))\nreturn y",
        "x: f32[9, 2]\nv = view(x, [3, 3, 2])\ny = relu(view(slice(v, 1, 1, 2), [3, 2]))\nreturn y",
    ),
)
JOINED = Case(
    "a concatenation of the sequential side",
    "a: f32[4, 6]\nb: f32[4, 6]\ny = relu(cat([a, b], 0))\nreturn y",
    "c: f32[4, 6]\ny = relu(c)\nreturn y",
    relate={"a": [row(0, "a", "c")], "b": [row(1, "b", "c")]},
)
LOCAL = Case(
    "a concatenation of the distributed side",
    "x: f32[8, 6]\nw: f32[6, 8]\ny = mm(w, x)\nreturn y",
    "a: f32[4, 6]\nb: f32[4, 6]\nw: f32[6, 8]\ny = mm(w, cat([a, b], 0))\nreturn y",
    relate={
        "x": [
            row(r, "x", n, seq_box=[[4 * i, 4 * i + 4], [0, 6]])
            for r in range(2)
            for i, n in enumerate("ab")
        ]
    },
)
TURNED = Case(
    "a permutation of one side",
    "x: f32[4, 6, 2]\ny = exp(permute(x, [2, 0, 1]))\nreturn y",
    "x: f32[2, 6, 2]\ny = permute(exp(x), [2, 0, 1])\nreturn y",
)
FLAT = Case(
    "heads after they are flattened",
    "x: f32[2, 6, 4]\nw: f32[24, 5]\ny = mm(view(x, [2, 24]), w)\nreturn y",
    "x: f32[2, 3, 4]\nw: f32[24, 5]\ns = view(slice(view(w, [6, 4, 5]), 0, 3 * rank, 3 * rank + 3), [12, 5])\n"
    'y = all_reduce(mm(view(x, [2, 12]), s), "sum", "g")\nreturn y',
)
STRIPES = Case(
    "a contraction over periodic ranges",
    "x: f32[2, 6, 4]\nw: f32[48, 5]\ny = mm(view(x, [1, 48]), w)\nreturn y",
    "x: f32[2, 3, 4]\nw: f32[48, 5]\ns = view(slice(view(w, [2, 6, 4, 5]), 1, 3 * rank, 3 * rank + 3), [24, 5])\n"
    'y = all_reduce(mm(view(x, [1, 24]), s), "sum", "g")\nreturn y',
)
PERIODIC = Case(
    "periodic ranges",
    "x: f32[2, 6, 4]\ny = view(exp(view(x, [12, 4])), [48])\nreturn y",
    "x: f32[2, 3, 4]\ny = view(exp(view(x, [6, 4])), [24])\nreturn y",
)
SIDES = (
    CUT,
    CUT.miss("another range", "2, 6)", "1, 5)", side="seq"),
    CUT.miss("another dimension", "slice(x, 0, 2, 6)", "slice(t(x), 0, 0, 4)", side="seq"),
    CUT.but(
        "of shards that it cuts",
        maps=None,
        relate={"x": shards("x", 0, (8, 6), (0, 4), (4, 8))},
        dist="x: f32[4, 6]\ny = relu(slice(x, 0, 2 - 2 * rank, 4 - 2 * rank))\nreturn y",
    ),
    CUT.miss(
        "open bounds",
        "slice(x, 0, 2, 6)",
        "slice(slice(x, 0, 2, 9223372036854775807), 0, 0, -2)",
        side="seq",
        maps=None,
    ),
    TAKEN,
    TAKEN.miss(
        "shifted by one",
        "4 * rank + 4",
        "4 * rank + 4 - rank * 0",
        dist=TAKEN.dist.replace(
            "4 * rank, 4 * rank + 4", "4 * rank - (rank == 1), 4 * rank + 4 - (rank == 1)"
        ),
    ),
    TAKEN.miss("the same on every rank", "4 * rank, 4 * rank + 4", "0, 4"),
    TAKEN.miss(
        "of a slice",
        "slice(x, 0, 4 * rank, 4 * rank + 4)",
        "slice(slice(x, 0, 2 * rank, 2 * rank + 6), 0, 2 * rank, 2 * rank + 4)",
        maps=None,
    ),
    JOINED,
    JOINED.but(
        "members exchanged",
        seq="a: f32[4, 6]\nb: f32[4, 6]\nw: f32[6, 8]\ny = mm(w, cat([a, b], 0))\nreturn y",
        dist='c: f32[4, 6]\nw: f32[6, 8]\ny = mm(w, all_gather_into_tensor(c, 2, "g"))\nreturn y',
        groups={"g": [[1, 0]]},
    ),
    JOINED.but(
        "members in order",
        maps=None,
        seq="a: f32[4, 6]\nb: f32[4, 6]\nw: f32[6, 8]\ny = mm(w, cat([a, b], 0))\nreturn y",
        dist='c: f32[4, 6]\nw: f32[6, 8]\ny = mm(w, all_gather_into_tensor(c, 2, "g"))\nreturn y',
    ),
    JOINED.miss(
        "along another dimension", "cat([a, b], 0)", "cat([a, b], 1)", side="seq", maps=None
    ),
    LOCAL,
    LOCAL.miss("exchanged", "[a, b]", "[b, a]"),
    LOCAL.miss("one twice", "[a, b]", "[a, a]"),
    LOCAL.miss("along another dimension", "cat([a, b], 0)", "view(cat([a, b], 1), [8, 6])"),
    TURNED,
    Case(
        "a view where a permutation is meant",
        "x: f32[4, 6]\nw: f32[4, 5]\ny = mm(t(x), w)\nreturn y",
        "x: f32[4, 6]\nw: f32[4, 5]\ny = mm(view(x, [6, 4]), w)\nreturn y",
        maps=(),
    ),
    FLAT,
    FLAT.miss(
        "the wrong heads of the weight", "3 * rank, 3 * rank + 3", "3 - 3 * rank, 6 - 3 * rank"
    ),
    FLAT.miss(
        "half of the flat weight",
        "view(slice(view(w, [6, 4, 5]), 0, 3 * rank, 3 * rank + 3), [12, 5])",
        "slice(w, 0, 12 - 12 * rank, 24 - 12 * rank)",
    ),
    STRIPES,
    STRIPES.miss(
        "half of the flat weight",
        "view(slice(view(w, [2, 6, 4, 5]), 1, 3 * rank, 3 * rank + 3), [24, 5])",
        "slice(w, 0, 24 * rank, 24 * rank + 24)",
    ),
    PERIODIC,
    PERIODIC.but(
        "one rank has the heads of the other",
        relate={"x": shards("x", 1, (2, 6, 4), (0, 3), (0, 3))},
    ),
)


def grid(name: str, shape: tuple[int, int]) -> list[Row]:
    """A 2 x 2 mesh over both dimensions."""
    a, b = shape[0] // 2, shape[1] // 2
    return [
        row(r, name, seq_box=[[a * (r // 2), a * (r // 2) + a], [b * (r % 2), b * (r % 2) + b]])
        for r in range(4)
    ]


MESH = Case(
    "two restricted axes",
    "x: f32[8, 6]\nz: f32[8, 6]\ny = mul.Tensor(x, relu(z))\nreturn y",
    "x: f32[4, 3]\nz: f32[4, 3]\ny = mul.Tensor(x, relu(z))\nreturn y",
    ranks=4,
    relate={n: grid(n, (8, 6)) for n in "xz"},
)
UNEVEN = Case(
    "uneven ranges",
    "x: f32[9, 6]\nw: f32[6, 5]\ny = mm(relu(x), w)\nreturn y",
    "x: f32[5 - rank, 6]\nw: f32[6, 5]\ny = mm(relu(x), w)\nreturn y",
)
FUSED = "w: f32[{n}, 3]\nx: f32[2, 3]\nt3 = split_with_sizes(mm(x, t(w)), [{q}, {k}, {k}], 1)\n"
FUSED += (
    "y = mul.Tensor(_softmax(view(t3[0], [2, {q} // 4, 4]), 2, False), 1)\nreturn y, t3[1], t3[2]"
)


def fused(
    q: tuple[int, int], k: tuple[int, int], dq: int, dk: int, v: tuple[int, int] | None = None
) -> list[Row]:
    """Rank r has ``dq`` rows of the queries from ``q[r]`` on, and ``dk`` of keys and of values."""
    v = v or k
    rows = []
    for r in range(2):
        starts = [(q[r], 0, dq), (16 + k[r], dq, dk), (16 + 8 + v[r], dq + dk, dk)]
        rows += [
            row(r, "w", seq_box=[[s, s + n], [0, 3]], dist_box=[[d, d + n], [0, 3]])
            for s, d, n in starts
        ]
    return rows


PIECES = Case(
    "pieces of a fused projection",
    FUSED.format(n=32, q=16, k=8),
    FUSED.format(n=16, q=8, k=4),
    relate={"w": fused((0, 8), (0, 4), 8, 4)},
)
RANGES = (
    MESH,
    MESH.but(
        "one of them exchanged",
        relate={
            "x": MESH.relate["x"],
            "z": [{**MESH.relate["z"][r], "rank": (0, 2, 1, 3)[r]} for r in range(4)],
        },
    ),
    MESH.but(
        "a corner missing",
        relate={n: [*grid(n, (8, 6))[:3], {**grid(n, (8, 6))[0], "rank": 3}] for n in "xz"},
    ),
    UNEVEN,
    UNEVEN.but("with a gap", relate={"x": shards("x", 0, (9, 6), (0, 5), (4, 8))}),
    PIECES,
    PIECES.but(
        "keys and values exchanged",
        maps=("y",),
        relate={"w": fused((0, 8), (8, 12), 8, 4, v=(-8, -4))},
    ),
    PIECES.but("one cut through all of it", maps=(), relate={}),
    PIECES.but(
        "keys and values replicated",
        maps=None,
        dist=FUSED.format(n=24, q=8, k=8),
        relate={"w": fused((0, 8), (0, 0), 8, 8)},
    ),
    PIECES.but(
        "unequal pieces split as equal ones",
        maps=("y",),
        dist=FUSED.format(n=16, q=8, k=4).replace("[8, 4, 4]", "[8, 5, 3]"),
    ),
    PIECES.but(
        "all queries on both ranks",
        maps=("out", "out_1"),
        relate={"w": fused((0, 0), (0, 4), 8, 4)},
    ),
)


@table(*STEPPED)
def test_steps(case: Case, outcomes: Outcomes) -> None:
    """A slice with a step is one position of an inner dimension."""
    check(case, outcomes(case))


@table(*EMPTIES)
def test_nothing(case: Case, outcomes: Outcomes) -> None:
    """Tensors of no elements."""
    check(case, outcomes(case))


@table(*COLLECTIVES)
def test_collectives(case: Case, outcomes: Outcomes) -> None:
    """All-gather, reduce-scatter and broadcast."""
    check(case, outcomes(case))


@table(*SIDES)
def test_one_side_moves(case: Case, outcomes: Outcomes) -> None:
    """Slices, concatenations, permutations and views that only one side has."""
    check(case, outcomes(case))


@table(*RANGES)
def test_ranges(case: Case, outcomes: Outcomes) -> None:
    """Several axes, uneven ranges, pieces."""
    check(case, outcomes(case))
