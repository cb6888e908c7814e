"""What was once derived and is wrong, or looks easy to get wrong: each beside a right sibling."""

from __future__ import annotations

from .build import Case, check, row, table
from .conftest import Outcomes

TWO = "x: f32[4]\nz: f32[4]\n"
ONE = "x: f32[4]\n"
FOREIGN = Case(
    "uninterpreted",
    TWO + "y: f32[4] = my.f(x, x, z)\nreturn y",
    TWO + "y: f32[4] = my.f(x, x, z)\nreturn y",
)
KEYWORDS = Case(
    "keywords",
    TWO + "y: f32[4] = my.f(x=x, z=z)\nreturn y",
    TWO + "y: f32[4] = my.f(x=x, z=z)\nreturn y",
)
CLAMP = Case(
    "clamp between tensors",
    "x: f32[4]\nlo: f32[4]\nhi: f32[4]\ny = clamp.Tensor(x, min=lo, max=hi)\nreturn y",
    "x: f32[4]\nlo: f32[4]\nhi: f32[4]\ny = clamp.Tensor(x, min=lo, max=hi)\nreturn y",
)
RAND = Case(
    "rand_like",
    ONE + "a: f32[4] = rand_like(x)\ny = mul(a, x)\nreturn y",
    ONE + "y: f32[4] = mul(x, x)\nreturn y",
    maps=(),
)
EXTENT = "x: f32[4, 1]\ne: f32[4, 8] = expand(x, [4, 8])\n"
MINMAX = Case(
    "max of min",
    "x: f32[4, 6]\ny = amax(amin(x, [1]), [0])\nreturn y",
    'x: f32[4, 3]\nm = amin(x, [1])\ny = amax(all_reduce(m, "min", "g"), [0])\nreturn y',
)
CONSTANT = Case(
    "constant in the relations",
    "p: f32[()]\nx: f32[4]\ny = maximum(x, p)\nreturn y",
    "c: f32[()] = const()\nx: f32[4]\ny = maximum(x, c)\nreturn y",
    relate={"p": [row(r, "p", "c") for r in range(2)]},
)
PARTIAL = Case(
    "partial",
    "x: f32[4, 6]\nw: f32[6, 5]\ny = mm(x, w)\nreturn y",
    "x: f32[4, 3]\nw: f32[3, 5]\ny = mm(x, w)\nreturn y",
    partial=True,
)
CAST = Case(
    "cast",
    "x: f32[4]\ny: i64[4] = _to_copy(x, dtype='int64')\nreturn y",
    "x: f32[4]\ny: i64[4] = _to_copy(x, dtype='int64')\nreturn y",
)
ROWS = Case(
    "rows that lie between others on the rank",
    "x: f32[4, 2, 6]\ny = slice.Tensor(slice.Tensor(x, 1, 1, 2), 2, 0, 5)\nreturn y",
    "x: f32[2, 2, 6]\nv = slice.Tensor(view(x, [4, 6]), 1, 0, 5)\ny = slice.Tensor(view(v, [2, 2, 5]), 1, 1, 2)\nreturn y",
)
CASES = (
    ROWS,
    ROWS.miss("the others", "1, 1, 2)", "1, 0, 1)"),
    FOREIGN,
    FOREIGN.miss("another argument twice", "my.f(x, x, z)", "my.f(x, z, z)"),
    KEYWORDS,
    KEYWORDS.but(
        "the same keywords in another order",
        maps=None,
        dist=TWO + "y: f32[4] = my.f(z=z, x=x)\nreturn y",
    ),
    KEYWORDS.miss("keywords exchanged", "x=x, z=z", "x=z, z=x"),
    KEYWORDS.miss("keywords exchanged and reordered", "x=x, z=z", "z=x, x=z"),
    CLAMP,
    CLAMP.miss("exchanged", "min=lo, max=hi", "min=hi, max=lo"),
    CLAMP.miss("exchanged and reordered", "min=lo, max=hi", "max=lo, min=hi"),
    Case(
        "two draws are one",
        ONE + "a: f32[4] = rand_like(x)\nb: f32[4] = rand_like(x)\nreturn a, b",
        ONE + "a: f32[4] = rand_like(x)\nb: f32[4] = rand_like(x)\nreturn b, a",
        maps=(),
    ),
    Case(
        "difference of two draws",
        ONE + "a: f32[4] = rand_like(x)\nb: f32[4] = rand_like(x)\ny = mul(a, b)\nreturn y",
        ONE + "a: f32[4] = rand_like(x)\ny = mul(a, a)\nreturn y",
        maps=(),
    ),
    Case(
        "two permutations are one",
        "a: i64[4] = randperm(4)\nb: i64[4] = randperm(4)\ny = mul(a, b)\nreturn y",
        "a: i64[4] = randperm(4)\ny = mul(a, a)\nreturn y",
        maps=(),
    ),
    Case(
        "attention with dropout twice",
        ONE + "a: f32[4] = my.attention(x, dropout_p=0.1)\ny = mul(a, a)\nreturn y",
        ONE + "a: f32[4] = my.attention(x, dropout_p=0.2)\ny = mul(a, a)\nreturn y",
        maps=(),
    ),
    Case(
        "dropout of a repeated tensor",
        "x: f32[8]\nd = native_dropout(expand(x, [4, 8]), 0.5, True)\ny: f32[4, 8] = d[0]\nreturn y",
        "x: f32[8]\ny = expand(native_dropout(x, 0.5, True)[0], [4, 8])\nreturn y",
        maps=(),
    ),
    Case(
        "cumsum of a repeated tensor",
        EXTENT + "y = cumsum(e, 1)\nreturn y",
        "x: f32[4, 1]\ny = expand(cumsum(x, 1), [4, 8])\nreturn y",
        maps=(),
    ),
    Case(
        "softmax over a repeated dimension",
        EXTENT + "y = _softmax(e, 1, False)\nreturn y",
        "x: f32[4, 1]\ny = _softmax(expand(x, [4, 2]), 1, False)\nreturn y",
        maps=(),
    ),
    Case(
        "index of the maximum of a repeated dimension",
        EXTENT + "y: i64[4] = argmax(e, 1)\nreturn y",
        "x: f32[4, 1]\ny: i64[4] = argmax(expand(x, [4, 8]), 1)\nreturn y",
    ),
    MINMAX,
    MINMAX.but(
        "min after max",
        dist='x: f32[4, 3]\nm = amax(amin(x, [1]), [0])\ny = all_reduce(m, "min", "g")\nreturn y',
    ),
    Case(
        "elu with a negative alpha",
        "x: f32[4, 6]\ny = elu(amax(x, [1]), -1.0)\nreturn y",
        'x: f32[4, 3]\ny = all_reduce(elu(amax(x, [1]), -1.0), "max", "g")\nreturn y',
        maps=(),
    ),
    CONSTANT,
    CONSTANT.miss(
        "of value 2, and 1 is used",
        "const()\nx: f32[4]\ny = maximum(x, c)",
        "const(2.0)\nx: f32[4]\no: f32[()] = full([], 1.0)\ny = maximum(x, o)",
    ),
    PARTIAL,
    PARTIAL.but(
        "both ranks hold the same part",
        relate={
            "x": [row(r, "x", seq_box=[[0, 4], [0, 3]]) for r in range(2)],
            "w": [row(r, "w", seq_box=[[0, 3], [0, 5]]) for r in range(2)],
        },
    ),
    CAST,
    CAST.but(
        "bits instead of a cast",
        dist="x: f32[4]\ny: i32[4] = view.dtype(x, dtype='int32')\nreturn y",
    ),
    Case(
        "bits seen as another type",
        "x: f32[4]\ny: i32[4] = view.dtype(x, 'int32')\nreturn y",
        "x: f32[4]\ny = clone(x)\nreturn y",
        maps=(),
    ),
    Case(
        "copy into integers",
        "x: f32[4]\ne: i64[4] = empty([4])\ny: i64[4] = copy(e, x)\nreturn y",
        "x: f32[4]\ny = clone(x)\nreturn y",
        maps=(),
    ),
    Case(
        "sum of floats as an integer",
        "x: f32[4]\ny: i64[()] = sum.dim_IntList(x, [0], dtype='int64')\nreturn y",
        "x: f32[4]\ny = sum.dim_IntList(x, [0])\nreturn y",
        maps=(),
    ),
    Case(
        "conjugate",
        "x: c64[4]\ny: c64[4] = _conj(x)\nreturn y",
        "x: c64[4]\ny = clone(x)\nreturn y",
        maps=(),
    ),
    Case(
        "an in-place addition is seen by later readers",
        TWO + "y = relu(x)\nreturn y",
        TWO + "u = add_.Tensor(x, z)\ny = relu(x)\nreturn y",
        maps=(),
    ),
    Case(
        "an in-place all-reduce is seen by later readers",
        ONE + "y = relu(x)\nreturn y",
        ONE + 'u = all_reduce_(x, "sum", "g")\ny = relu(x)\nreturn y',
        maps=(),
    ),
    Case(
        "an in-place index_put is seen by later readers",
        "x: f32[4]\nm: b[4]\ny = relu(x)\nreturn y",
        "x: f32[4]\nm: b[4]\nv: f32[()] = full([], 0.0)\nu = index_put_(x, [m], v)\ny = relu(x)\nreturn y",
        maps=(),
    ),
    Case(
        "an attribute whose value is not known",
        "n: sym\nk: sym\nx: f32[4]\ny = clamp_min(x, n)\nreturn y",
        "n: sym\nk: sym\nx: f32[4]\ny = clamp_min(x, k)\nreturn y",
        maps=(),
    ),
    Case(
        "operand of another rank",
        "x: f32[4]\ny: f32[4] = my.f(x)\nreturn y",
        "x: f32[4]\nv: f32[1, 4] = view(x, [1, 4])\ny: f32[4] = my.f(v)\nreturn y",
        maps=(),
    ),
    Case(
        "a sequential node called like a distributed one",
        TWO + "a = relu(x)\ny = relu(z)\nreturn a, y",
        TWO + "y = relu(x)\nreturn y, y",
        maps=("r0.y",),
        names={"a": "r0.y"},
    ),
)


@table(*CASES)
def test_not_derived(case: Case, outcomes: Outcomes) -> None:
    """Nothing is mapped that is not so."""
    check(case, outcomes(case))
