"""Outputs (``outputs.dl``): every rank, every element, coefficient 1, nothing left open."""

from __future__ import annotations

from .build import Case, check, row, table
from .conftest import Outcomes

SHARD = Case("shards", "x: f32[8, 6]\ny = relu(x)\nreturn y", "x: f32[4, 6]\ny = relu(x)\nreturn y")
REPLICA = Case(
    "replicas", "x: f32[8, 6]\ny = relu(x)\nreturn y", "x: f32[8, 6]\ny = relu(x)\nreturn y"
)
PART = Case(
    "part",
    "x: f32[4, 8]\nw: f32[8, 6]\ny = mm(x, w)\nreturn y",
    "x: f32[4, 4]\nw: f32[4, 6]\ny = mm(x, w)\nreturn y",
    maps=(),
)
BOTH = "x: f32[8, 6]\nz: f32[8, 6]\n"
HALF_OPEN = Case(
    "a part beside a whole",
    "x: f32[8, 3]\nz: f32[3]\ny = cat([sum.dim_IntList(x, [0]), z], 0)\nreturn y",
    "x: f32[4, 3]\nz: f32[3]\ny = cat([sum.dim_IntList(x, [0]), z], 0)\nreturn y",
    maps=(),
    partial=True,
)
DOUBLED = Case(
    "one part that is two equal ones, allowed",
    "x: f32[4, 6]\nreturn sum.dim_IntList(exp(cat([x, x], 1)), [1])",
    "x: f32[4, 6]\ny = sum.dim_IntList(exp(x), [1])\nreturn y",
    ranks=1,
    maps=(),
    partial=True,
)
INNER = "mm(mm(slice(x, 1, lo, lo + 3), slice(w, 0, lo, lo + 3)), v)"
OUTER = "mm(mm(x, slice(w, 1, lo, lo + 3)), slice(v, 0, lo, lo + 3))"
PRODUCTS = "x: f32[4, 6]\nw: f32[6, 6]\nv: f32[6, 5]\n"
TWICE_SPLIT = Case(
    "two ranks split one product, two the other, allowed",
    PRODUCTS + "return mm(mm(x, w), v)",
    PRODUCTS + f"return {INNER} if rank < 2 else {OUTER}".replace("lo", "3 * (rank % 2)"),
    ranks=4,
    maps=(),
    partial=True,
)
HIGHEST = Case(
    "a maximum is not added up, allowed",
    "x: f32[4, 6]\ny = amax(x, [1])\nreturn y",
    "x: f32[4, 3]\ny = amax(x, [1])\nreturn y",
    maps=(),
    partial=True,
)
LARGEST = 'z = all_reduce(y, "max", "g")\nreturn z'
TURNED = Case(
    "twice the negative",
    "x: f32[8, 6]\ny = mul.Tensor(relu(x), -2)\nreturn y",
    'x: f32[8, 6]\ny = all_reduce(neg(relu(x)), "sum", "g")\nreturn y',
)
OUTPUTS = (
    HALF_OPEN,
    TURNED,
    TURNED.miss("not turned", "neg(relu(x))", "relu(x)"),
    SHARD,
    REPLICA,
    REPLICA.miss("one rank wrong", "y = relu(x)", "y = relu(x) if rank == 0 else exp(x)"),
    REPLICA.miss("coefficient 2", "y = relu(x)", "y = mul.Tensor(relu(x), 2)"),
    REPLICA.miss("coefficient -1", "y = relu(x)", "y = neg(relu(x))"),
    REPLICA.miss(
        "coefficient 2 on one rank",
        "y = relu(x)",
        "y = relu(x) if rank == 0 else mul.Tensor(relu(x), 2)",
    ),
    REPLICA.miss("zeros", "y = relu(x)", "y = mul.Tensor(relu(x), 0)"),
    REPLICA.miss(
        "another tensor, though the right one is there",
        "return y",
        "z = relu(y)\nw = exp(y)\nreturn w",
    ),
    REPLICA.miss("the input", "return y", "return x"),
    REPLICA.miss(
        "a half on each rank",
        "return y",
        "z = slice(y, 0, 4 * rank, 4 * rank + 4)\nreturn z",
        maps=None,
    ),
    REPLICA.miss("the same half on each rank", "return y", "z = slice(y, 0, 0, 4)\nreturn z"),
    REPLICA.miss(
        "halves that leave a row",
        "return y",
        "z = slice(y, 0, 5 * rank, 5 * rank + 4 - rank)\nreturn z",
    ),
    REPLICA.miss("all and more", "return y", "z = cat([y, exp(x)], 0)\nreturn z"),
    REPLICA.miss("all of it twice", "return y", "z = cat([y, y], 0)\nreturn z"),
    REPLICA.miss(
        "memory beside it", "return y", "e: f32[2, 6] = empty([2, 6])\nz = cat([y, e], 0)\nreturn z"
    ),
    REPLICA.miss(
        "a quarter each, of both dimensions",
        "return y",
        "z = slice(slice(y, 0, 4 * (rank // 2), 4 * (rank // 2) + 4), 1, 3 * (rank % 2), 3 * (rank % 2) + 3)\nreturn z",
        ranks=4,
        maps=None,
    ),
    REPLICA.miss(
        "three quarters, one twice",
        "return y",
        "q = min(rank, 2)\nreturn y",
        ranks=4,
        dist="x: f32[8, 6]\ny = relu(x)\nz = slice(slice(y, 0, 4 * (min(rank, 2) // 2), 4 * (min(rank, 2) // 2) + 4), 1, 3 * (min(rank, 2) % 2), 3 * (min(rank, 2) % 2) + 3)\nreturn z",
    ),
    REPLICA.miss(
        "two diagonal quarters",
        "return y",
        "z = slice(slice(y, 0, 4 * rank, 4 * rank + 4), 1, 3 * rank, 3 * rank + 3)\nreturn z",
    ),
    REPLICA.miss(
        "rows of one, columns of the other",
        "return y",
        "z = slice(y, 0, 0, 4) if rank == 0 else slice(y, 1, 0, 3)\nreturn z",
    ),
    REPLICA.miss("transposed", "return y", "z = t(y)\nreturn z"),
    PART,
    PART.but("allowed", maps=None, partial=True),
    PART.but(
        "of another operand, allowed",
        dist=PART.dist.replace("mm(x, w)", "mm(x, neg(w))"),
        partial=True,
    ),
    PART.but(
        "twice, allowed",
        dist=PART.dist.replace("y = mm(x, w)", "y = mul.Tensor(mm(x, w), 2)"),
        partial=True,
    ),
    PART.but(
        "on one rank only, allowed",
        dist=PART.dist.replace("y = mm(x, w)", "y = mm(x, w) if rank == 0 else exp(mm(x, w))"),
        partial=True,
    ),
    PART.but(
        "complete, allowed",
        maps=None,
        dist=PART.dist.replace("y = mm(x, w)", 'y = all_reduce(mm(x, w), "sum", "g")'),
        partial=True,
    ),
    PART.but(
        "the same half on both, allowed",
        partial=True,
        relate={
            "x": [row(r, "x", seq_box=[[0, 4], [0, 4]]) for r in range(2)],
            "w": [row(r, "w", seq_box=[[0, 4], [0, 6]]) for r in range(2)],
        },
        maps=(),
    ),
    DOUBLED,
    TWICE_SPLIT,
    TWICE_SPLIT.but("both ranks split one", maps=None, ranks=2),
    HIGHEST,
    HIGHEST.but("reduced", maps=None, dist=HIGHEST.dist.replace("return y", LARGEST)),
    Case(
        "two outputs, exchanged",
        BOTH + "return relu(x), relu(z)",
        BOTH + "a = relu(x)\nb = relu(z)\nreturn b, a",
        maps=(),
    ),
    Case(
        "one tensor for two outputs",
        BOTH + "return relu(x), relu(z)",
        BOTH + "a = relu(x)\nreturn a, a",
        maps=("out",),
    ),
    Case(
        "a scalar",
        "x: f32[8]\ny = sum(x)\nreturn y",
        'x: f32[4]\ny = all_reduce(sum(x), "sum", "g")\nreturn y',
    ),
    Case(
        "a scalar on one rank",
        "x: f32[8]\ny = sum(x)\nreturn y",
        'x: f32[4]\ns = sum(x)\na = all_reduce(s, "sum", "g")\ny = a if rank == 0 else s\nreturn y',
        maps=(),
    ),
    Case("an input returned", "x: f32[8]\nreturn x", "x: f32[4]\nreturn x"),
    Case(
        "another input returned",
        "x: f32[8]\nz: f32[8]\nreturn x",
        "x: f32[4]\nz: f32[4]\nreturn z",
        maps=(),
    ),
    Case(
        "memory returned",
        "x: f32[8]\ne: f32[8] = empty([8])\nreturn x, e",
        "x: f32[8]\ne: f32[8] = empty([8])\nreturn x, e",
        maps=("x",),
    ),
    Case(
        "a constant returned",
        "x: f32[8]\nc: f32[8] = full([8], 2.0)\nreturn x, c",
        "x: f32[8]\nc: f32[8] = full([8], 2.0)\nreturn x, c",
    ),
    Case(
        "another constant returned",
        "x: f32[8]\nc: f32[8] = full([8], 2.0)\nreturn x, c",
        "x: f32[8]\nc: f32[8] = full([8], 3.0)\nreturn x, c",
        maps=("x",),
    ),
    Case(
        "zeros returned",
        "x: f32[8]\nc: f32[8] = zeros([8])\nreturn x, c",
        "x: f32[8]\nc: f32[8] = zeros([8])\nreturn x, c",
    ),
)


@table(*OUTPUTS)
def test_outputs(case: Case, outcomes: Outcomes) -> None:
    """An output is mapped when all ranks together return it, whole and as it is."""
    check(case, outcomes(case))
