"""Operators (``rules/operator.dl``): operands, attributes, whole and reduced dimensions, parts."""

from __future__ import annotations

from .build import Case, check, row, table
from .conftest import Outcomes

PART = "x: f32[4, {n}]\nw: f32[{n}, 6]\np = mm(x, w)\n"
MAXI = "x: f32[4, {n}]\nv: f32[4]\np = amax(x, [1])\n"


def through(
    name: str,
    seq: str,
    dist: str | None = None,
    start: str = PART,
    kind: str = "sum",
    **changes: object,
) -> Case:
    """An operator on a part before its reduction."""
    return Case(
        name,
        start.format(n=8) + f"y = {seq}\nreturn y",
        start.format(n=4) + f'y = all_reduce({dist or seq}, "{kind}", "g")\nreturn y',
        **changes,  # type: ignore[arg-type]
    )


SUM_PARTS = (
    through("clone", "clone(p)"),
    through("scale", "mul.Tensor(p, 0.3)"),
    through("negative scale", "neg(p)"),
    SCALED := through(
        "a loss scale of 2**20, and its inverse",
        "mul.Tensor(p, 1)",
        "mul.Tensor(mul.Tensor(p, 1048576), 9.5367431640625e-07)",
    ),
    SCALED.miss("half of it", "9.5367431640625e-07", "4.76837158203125e-07"),
    through("transpose", "t(p)"),
    through("a linear function of a view", "view(sum.dim_IntList(view(p, [4, 2, 3]), [1]), [12])"),
    through("slice", "slice(p, 1, 2, 5)"),
    through(
        "masked fill with 0",
        "masked_fill.Scalar(p, gt.Scalar(w, 0), 0)",
        maps=(),
        start="x: f32[6, {n}]\nw: f32[6, 6]\nv: f32[{n}, 6]\np = mm(x, v)\n",
    ).but("mask", maps=None, xfail=""),
    through(
        "masked fill with 1",
        "masked_fill.Scalar(p, gt.Scalar(w, 0), 1)",
        maps=(),
        start="x: f32[6, {n}]\nw: f32[6, 6]\nv: f32[{n}, 6]\np = mm(x, v)\n",
    ),
    through(
        "product with a full tensor",
        "mul.Tensor(p, w)",
        start="x: f32[6, {n}]\nw: f32[6, 6]\nv: f32[{n}, 6]\np = mm(x, v)\n",
    ),
    through(
        "division by a full tensor",
        "div.Tensor(p, w)",
        start="x: f32[6, {n}]\nw: f32[6, 6]\nv: f32[{n}, 6]\np = mm(x, v)\n",
    ),
    through(
        "division of a full tensor",
        "div.Tensor(w, p)",
        maps=(),
        start="x: f32[6, {n}]\nw: f32[6, 6]\nv: f32[{n}, 6]\np = mm(x, v)\n",
    ),
    through(
        "matmul with a full tensor",
        "mm(p, w)",
        start="x: f32[6, {n}]\nw: f32[6, 6]\nv: f32[{n}, 6]\np = mm(x, v)\n",
    ),
    through("product of two parts", "mul.Tensor(p, p)", maps=()),
    through("sum of two parts of one reduction", "add.Tensor(p, p)"),
    through(
        "plus a full tensor",
        "add.Tensor(p, w)",
        maps=(),
        start="x: f32[6, {n}]\nw: f32[6, 6]\nv: f32[{n}, 6]\np = mm(x, v)\n",
    ),
    through("mean", "mean.dim(p, [0])"),
    through("cumsum", "cumsum(p, 0)"),
    through("maximum", "amax(p, [0])", maps=()),
    *(through(f, f"{f}(p)", maps=()) for f in ("relu", "exp", "gelu", "abs", "tanh", "sigmoid")),
    through("softmax", "_softmax(p, 1, False)", maps=()),
    through("an uninterpreted operator", "my.f(p)", maps=()),
    through("power", "pow.Tensor_Scalar(p, 2)", maps=()),
    through("dropout", "native_dropout(p, 0.1, True)[0]", maps=()),
    through("a cast to integers", "_to_copy(p, dtype='int64')", maps=()),
)
MAX_PARTS = (
    *(
        through(f, f"{f}(p)", start=MAXI, kind="max")
        for f in ("exp", "relu", "tanh", "sigmoid", "clone")
    ),
    *(
        through(f, f"{f}(p)", start=MAXI, kind="max", maps=())
        for f in ("neg", "abs", "cos", "gelu", "reciprocal")
    ),
    *(through(f"{f}, added up", f"{f}(p)", start=MAXI, maps=()) for f in ("exp", "clone")),
    through("view", "view(p, [2, 2])", start=MAXI, kind="max"),
    through("clamp", "clamp(p, 0.0, 1.0)", start=MAXI, kind="max"),
    through(
        "positive scale",
        "mul.Tensor(p, 2)",
        start=MAXI,
        kind="max",
        xfail="refused: a maximum of scaled tensors is not a maximum scaled",
    ),
    through("negative scale", "mul.Tensor(p, -2)", start=MAXI, kind="max", maps=()),
    through("zero scale", "mul.Tensor(p, 0)", start=MAXI, kind="max"),
    through(
        "plus a full tensor",
        "add.Tensor(p, v)",
        start=MAXI,
        kind="max",
        xfail="refused: a maximum does not pass an addition of a full tensor",
    ),
    through("plus a full tensor, added up", "add.Tensor(p, v)", start=MAXI, maps=()),
    through("times a tensor", "mul.Tensor(p, v)", start=MAXI, kind="max", maps=()),
    through("a sum of maxima", "sum.dim_IntList(p, [0])", start=MAXI, kind="max", maps=()),
    through("a maximum of maxima", "amax(p, [0])", start=MAXI, kind="max"),
    through("a minimum of minima", "amin(p, [0])", start=MAXI.replace("amax", "amin"), kind="min"),
    through("exp of a minimum", "exp(p)", start=MAXI.replace("amax", "amin"), kind="min"),
    through(
        "a minimum of maxima",
        "amin(p, [0])",
        start=MAXI,
        kind="max",
        maps=(),
    ),
    through("a maximum, reduced by min", "exp(p)", start=MAXI, kind="min", maps=()),
)
SOFTMAX = Case(
    "softmax",
    "x: f32[6, 8]\ny = _softmax(x, 1, False)\nreturn y",
    "x: f32[3, 8]\ny = _softmax(x, 1, False)\nreturn y",
)
WHOLE = (
    SOFTMAX,
    SOFTMAX.miss("of a shard", "[3, 8]", "[6, 4]"),
    SOFTMAX.miss("along another dimension", "x, 1", "x, 0"),
    SOFTMAX.but(
        "gathered first",
        maps=None,
        dist='x: f32[6, 4]\ng: f32[8, 6] = all_gather_into_tensor(t(x), 2, "g")\n'
        "y = _softmax(t(g), 1, False)\nreturn y",
    ),
    Case(
        "layer norm of a shard",
        "x: f32[4, 6]\nw: f32[6]\nb: f32[6]\ny = native_layer_norm(x, [6], w, b, 1e-5)[0]\nreturn y",
        "x: f32[4, 3]\nw: f32[3]\nb: f32[3]\ny = native_layer_norm(x, [3], w, b, 1e-5)[0]\nreturn y",
        maps=(),
    ),
    Case(
        "cumsum of rows",
        "x: f32[6, 8]\ny = cumsum(x, 1)\nreturn y",
        "x: f32[3, 8]\ny = cumsum(x, 1)\nreturn y",
    ),
    Case(
        "cumsum of a shard",
        "x: f32[6, 8]\ny = cumsum(x, 1)\nreturn y",
        "x: f32[6, 4]\ny = cumsum(x, 1)\nreturn y",
        maps=(),
    ),
    Case(
        "argmax of rows",
        "x: f32[6, 8]\ny = argmax(x, 1)\nreturn y",
        "x: f32[3, 8]\ny = argmax(x, 1)\nreturn y",
    ),
    Case(
        "argmax of a shard",
        "x: f32[6, 8]\ny = argmax(x, 1)\nreturn y",
        "x: f32[6, 4]\ny = argmax(x, 1)\nreturn y",
        maps=(),
    ),
    Case(
        "max and its index",
        "x: f32[6, 8]\nt = max.dim(x, 1)\nreturn t[0], t[1]",
        'x: f32[6, 4]\nt = max.dim(x, 1)\nm = all_reduce(t[0], "max", "g")\nreturn m, t[1]',
        maps=("out",),
    ),
    Case(
        "silu_and_mul",
        'x: f32[5, 16]\ny: f32[5, 8] = kernel("_C.silu_and_mul", out=x, input=x)[1]\nreturn y',
        'x: f32[5, 8]\ny: f32[5, 4] = kernel("_C.silu_and_mul", out=x, input=x)[1]\nreturn y',
        maps=(),
    ),
)
ATTRIBUTES = (
    ("leaky_relu", "leaky_relu(x, 0.1)", "0.1", "0.2"),
    ("clamp", "clamp(x, 0.0, 6.0)", "6.0", "5.0"),
    ("clamp bounds by name", "clamp(x, min=1.0)", "min", "max"),
    ("power", "pow.Tensor_Scalar(x, 2)", "2", "3"),
    ("gelu", "gelu(x, approximate='tanh')", "tanh", "none"),
    ("softplus", "softplus(x, 1.0, 20.0)", "20.0", "10.0"),
    ("added number", "add.Tensor(x, 1e-5)", "1e-5", "1e-6"),
    ("comparison", "gt.Scalar(x, 3)", "3", "4"),
    ("comparison kind", "gt.Scalar(x, 3)", "gt", "ge"),
    ("reduced dimension", "sum.dim_IntList(x, [1])", "[1]", "[2]"),
    ("masked value", "masked_fill.Scalar(x, gt.Scalar(x, 0), -1.0)", "-1.0", "-2.0"),
    ("rounding", "round.decimals(x, decimals=1)", "=1", "=2"),
    ("cast", "_to_copy(x, dtype='int64')", "int64", "int32"),
    ("of an uninterpreted operator", "my.f(x, 3)", "3", "4"),
    ("name of an uninterpreted operator", "my.f(x, 3)", "f(", "g("),
)


def attribute(name: str, call: str, old: str, new: str) -> tuple[Case, Case]:
    """Replicas of an operator, and one whose attribute differs."""
    dtype = "int64" if "cast" in name else ""
    head = "x: f32[4, 5, 5]\n"
    shown = f"y: f32[4, 5, 5] = {call}" if "my." in call else f"y = {call}"
    if dtype:
        shown = f"y: i64[4, 5, 5] = {call}"
    case = Case(f"attribute: {name}", f"{head}{shown}\nreturn y", f"{head}{shown}\nreturn y")
    wrong = shown.replace(call, call.replace(old, new)).replace("i64", "i32" if dtype else "i64")
    return case, case.miss("differs", shown, wrong)


FOREIGN = Case(
    "uninterpreted: replicas",
    "x: f32[8, 3]\ny: f32[8, 3] = my.f(x)\nreturn y",
    "x: f32[8, 3]\ny: f32[8, 3] = my.f(x)\nreturn y",
)
PLACES = Case(
    "uninterpreted: results",
    "x: f32[8]\nt = my.f(x)\na: f32[8] = t[0]\nb: f32[8] = t[1]\ny = sub.Tensor(a, b)\nreturn y",
    "x: f32[8]\nt = my.f(x)\na: f32[8] = t[0]\nb: f32[8] = t[1]\ny = sub.Tensor(a, b)\nreturn y",
)
DRAWS = Case(
    "two random operators",
    "x: f32[8]\nz: f32[8]\na = native_dropout(x, 0.1, True)[0]\nb = native_dropout(z, 0.1, True)[0]\nreturn a, b",
    "x: f32[4]\nz: f32[4]\na = native_dropout(x, 0.1, True)[0]\nb = native_dropout(z, 0.1, True)[0]\nreturn a, b",
)
CASTS = (
    Case(
        "cast between floats",
        "x: f32[8]\ny: f16[8] = _to_copy(x, dtype='float16')\nreturn y",
        "x: f32[4]\ny = clone(x)\nreturn y",
    ),
    Case(
        "cast to integers",
        "x: f32[8]\ny: i64[8] = _to_copy(x, dtype='int64')\nreturn y",
        "x: f32[4]\ny: i64[4] = _to_copy(x, dtype='int64')\nreturn y",
    ),
    Case(
        "cast to integers on one side",
        "x: f32[8]\ny: i64[8] = _to_copy(x, dtype='int64')\nreturn y",
        "x: f32[4]\ny = clone(x)\nreturn y",
        maps=(),
    ),
    Case(
        "cast to integers and back",
        "x: f32[8]\ni: i64[8] = _to_copy(x, dtype='int64')\ny: f32[8] = _to_copy(i, dtype='float32')\nreturn y",
        "x: f32[4]\ny = clone(x)\nreturn y",
        maps=(),
    ),
    Case(
        "cast to booleans on one side",
        "x: f32[8]\ny: b[8] = _to_copy(x, dtype='bool')\nreturn y",
        "x: f32[4]\ny = clone(x)\nreturn y",
        maps=(),
    ),
    Case(
        "clone to integers on one side",
        "x: f32[8]\ny: i64[8] = clone(x)\nreturn y",
        "x: f32[4]\ny = clone(x)\nreturn y",
        maps=(),
    ),
)
LINEAR = """
[[operator]]
target = "my.norm"
rule = "... h, h -> ... h"
whole = ["h"]
assume = "my.norm normalises the last dimension"

[[operator]]
target = "my.project"
rule = "... h -> ... h"
linear = [0]
"""
USER = Case(
    "an operator of a user's file",
    "x: f32[8, 6]\nw: f32[6]\ny: f32[8, 6] = my.norm(x, w)\nreturn y",
    "x: f32[4, 6]\nw: f32[6]\ny: f32[4, 6] = my.norm(x, w)\nreturn y",
    operators=LINEAR,
)
PROJECT = Case(
    "a linear operator of a user's file",
    "x: f32[4, 8]\nv: f32[8, 6]\ny: f32[4, 6] = my.project(mm(x, v), 3)\nreturn y",
    'x: f32[4, 4]\nv: f32[4, 6]\nz: f32[4, 6] = my.project(mm(x, v), 3)\ny = all_reduce(z, "sum", "g")\nreturn y',
    operators=LINEAR,
)
SWAPPED = "x: f32[{n}]\nz: f32[{n}]\ny = maximum({ab})\nreturn y"
OTHERS = (
    FOREIGN,
    FOREIGN.miss("shards", "[8, 3]", "[4, 3]"),
    FOREIGN.miss("other operand", "my.f(x)", "my.f(neg(x))"),
    FOREIGN.miss(
        "transposed operand",
        "x: f32[8, 3]\ny: f32[8, 3] = my.f(x)",
        "x: f32[3, 8]\ny: f32[8, 3] = my.f(t(x))",
        seq="x: f32[8, 3]\ny: f32[8, 3] = my.f(x)\nreturn y",
        relate={"x": []},
    ),
    PLACES,
    PLACES.miss("exchanged", "sub.Tensor(a, b)", "sub.Tensor(b, a)"),
    PLACES.miss("one twice", "sub.Tensor(a, b)", "sub.Tensor(a, neg(a))"),
    DRAWS,
    DRAWS.miss(
        "in another order",
        "a = native_dropout(x, 0.1, True)[0]\nb = native_dropout(z, 0.1, True)[0]",
        "b = native_dropout(z, 0.1, True)[0]\na = native_dropout(x, 0.1, True)[0]",
    ),
    DRAWS.miss(
        "one draw for both",
        "native_dropout(z, 0.1, True)[0]",
        "native_dropout(x, 0.1, True)[0]",
        maps=("a",),
    ),
    *CASTS,
    USER,
    USER.but("unknown without it", operators=""),
    USER.miss("another attribute", "my.norm(x, w)", "my.norm(x, w, 1)"),
    USER.miss(
        "its whole dimension cut",
        "x: f32[4, 6]\nw: f32[6]\ny: f32[4, 6]",
        "x: f32[8, 3]\nw: f32[3]\ny: f32[8, 3]",
    ),
    PROJECT,
    PROJECT.but("not declared linear", operators=LINEAR.replace("linear = [0]", "")),
    PROJECT.but(
        "in one row with an unknown key", operators=LINEAR + "sharding = 1\n", error="unknown key"
    ),
    Case(
        "maximum, swapped",
        SWAPPED.format(n=8, ab="x, z"),
        SWAPPED.format(n=4, ab="z, x"),
    ),
    Case(
        "subtraction, swapped",
        SWAPPED.format(n=8, ab="x, z").replace("maximum", "sub.Tensor"),
        SWAPPED.format(n=4, ab="z, x").replace("maximum", "sub.Tensor"),
        maps=(),
    ),
    Case(
        "masked with -inf",
        "x: f32[8]\nm: b[8]\ny = masked_fill.Scalar(x, m, -inf)\nreturn y",
        "x: f32[4]\nm: b[4]\ny = masked_fill.Scalar(x, m, -inf)\nreturn y",
    ),
    Case(
        "masked with -inf and inf",
        "x: f32[8]\nm: b[8]\ny = masked_fill.Scalar(x, m, -inf)\nreturn y",
        "x: f32[4]\nm: b[4]\ny = masked_fill.Scalar(x, m, inf)\nreturn y",
        maps=(),
    ),
    Case(
        "infinity as a number",
        "x: f32[8]\ny = maximum(x, full_like(x, -inf))\nreturn y",
        "x: f32[4]\ny = maximum(x, full_like(x, -inf))\nreturn y",
    ),
    Case(
        "where with -inf",
        "x: f32[8]\nm: b[8]\ny = where.ScalarOther(m, x, -inf)\nreturn y",
        "x: f32[4]\nm: b[4]\ny = where.ScalarOther(m, x, -inf)\nreturn y",
    ),
    Case(
        "broadcast on one side only",
        "x: f32[8, 4]\nz: f32[4]\ny = mul.Tensor(x, z)\nreturn y",
        "x: f32[4, 4]\nz: f32[4]\ny = mul.Tensor(x, view(z, [4, 1]))\nreturn y",
        maps=(),
    ),
    Case(
        "broadcast on both sides",
        "x: f32[8, 4]\nz: f32[4]\ny = mul.Tensor(x, z)\nreturn y",
        "x: f32[4, 4]\nz: f32[4]\ny = mul.Tensor(x, z)\nreturn y",
    ),
    Case(
        "shards of the operands do not meet",
        "x: f32[8]\nz: f32[8]\ny = mul.Tensor(x, z)\nreturn y",
        "x: f32[4]\nz: f32[4]\ny = mul.Tensor(x, z)\nreturn y",
        relate={"z": [row(r, "z", seq_box=[[4 - 4 * r, 8 - 4 * r]]) for r in range(2)]},
        maps=(),
    ),
    Case(
        "matmul: contracted shards do not meet",
        "x: f32[4, 8]\nw: f32[8, 6]\ny = mm(x, w)\nreturn y",
        'x: f32[4, 4]\nw: f32[4, 6]\ny = all_reduce(mm(x, w), "sum", "g")\nreturn y',
        relate={"w": [row(r, "w", seq_box=[[4 - 4 * r, 8 - 4 * r], [0, 6]]) for r in range(2)]},
        maps=(),
    ),
    Case(
        "matmul, swapped and transposed",
        "x: f32[4, 8]\nw: f32[8, 6]\ny = mm(x, w)\nreturn y",
        "x: f32[2, 8]\nw: f32[8, 6]\ny = t(mm(t(w), t(x)))\nreturn y",
    ),
    Case(
        "uninitialised memory",
        "x: f32[4]\ne: f32[4] = empty([4])\ny = add.Tensor(x, e)\nreturn y, e",
        "x: f32[4]\ne: f32[4] = empty([4])\ny = add.Tensor(x, e)\nreturn y, e",
        maps=(),
    ),
    Case(
        "uninitialised memory times 0",
        "x: f32[4]\ne: f32[4] = empty([4])\ny = add.Tensor(x, mul.Tensor(e, 0))\nreturn y",
        "x: f32[4]\ny = clone(x)\nreturn y",
        maps=(),
    ),
    Case(
        "arange",
        "x: f32[6]\na: i64[6] = arange(6)\ny = mul.Tensor(x, a)\nreturn y",
        "x: f32[6]\na: i64[6] = arange(6)\ny = mul.Tensor(x, a)\nreturn y",
    ),
    Case(
        "arange without the offset of the rank",
        "x: f32[6]\na: i64[6] = arange(6)\ny = mul.Tensor(x, a)\nreturn y",
        "x: f32[3]\na: i64[3] = arange(3)\ny = mul.Tensor(x, a)\nreturn y",
        maps=(),
    ),
    Case(
        "arange with another start",
        "x: f32[6]\na: i64[6] = arange.start(0, 6)\ny = mul.Tensor(x, a)\nreturn y",
        "x: f32[6]\na: i64[6] = arange.start(1, 7)\ny = mul.Tensor(x, a)\nreturn y",
        maps=(),
    ),
    Case(
        "arange with the offset of the rank",
        "x: f32[6]\na: i64[6] = arange.start(0, 6)\ny = mul.Tensor(x, a)\nreturn y",
        "x: f32[3]\na: i64[3] = arange.start(3 * rank, 3 * rank + 3)\ny = mul.Tensor(x, a)\nreturn y",
    ),
    Case(
        "arange plus the offset of the rank",
        "x: f32[6]\na: i64[6] = arange(6)\ny = mul.Tensor(x, a)\nreturn y",
        "x: f32[3]\nb: i64[3] = arange(3)\na: i64[3] = add.Tensor(b, 3 * rank)\n"
        "y = mul.Tensor(x, a)\nreturn y",
    ),
    Case(
        "arange of floats plus the offset of the rank",
        "x: f32[6]\na: f32[6] = arange(6)\ny = mul.Tensor(x, sin(a))\nreturn y",
        "x: f32[3]\nb: f32[3] = arange(3)\na: f32[3] = add.Tensor(b, 3 * rank)\n"
        "y = mul.Tensor(x, sin(a))\nreturn y",
    ),
    Case(
        "arange plus the offset of another rank",
        "x: f32[6]\na: i64[6] = arange(6)\ny = mul.Tensor(x, a)\nreturn y",
        "x: f32[3]\nb: i64[3] = arange(3)\na: i64[3] = add.Tensor(b, 3 - 3 * rank)\n"
        "y = mul.Tensor(x, a)\nreturn y",
        maps=(),
    ),
    Case(
        "arange that overlaps by one",
        "x: f32[6]\na: i64[6] = arange(6)\ny = mul.Tensor(x, a)\nreturn y",
        "x: f32[3]\nb: i64[3] = arange(3)\na: i64[3] = add.Tensor(b, 2 * rank)\n"
        "y = mul.Tensor(x, a)\nreturn y",
        maps=(),
    ),
    Case(
        "even numbers of the rank",
        "x: f32[6]\na: i64[6] = arange.start_step(0, 12, 2)\ny = mul.Tensor(x, a)\nreturn y",
        "x: f32[3]\nb: i64[3] = arange(3)\nc: i64[3] = mul.Tensor(b, 2)\n"
        "a: i64[3] = add.Tensor(c, 6 * rank)\ny = mul.Tensor(x, a)\nreturn y",
    ),
    Case(
        "odd numbers for even ones",
        "x: f32[6]\na: i64[6] = arange.start_step(0, 12, 2)\ny = mul.Tensor(x, a)\nreturn y",
        "x: f32[3]\na: i64[3] = arange.start_step(6 * rank + 1, 6 * rank + 7, 2)\n"
        "y = mul.Tensor(x, a)\nreturn y",
        maps=(),
    ),
    Case(
        "one number on each rank",
        "x: f32[2]\na: i64[2] = arange(2)\ny = mul.Tensor(x, a)\nreturn y",
        "x: f32[1]\na: i64[1] = arange.start(rank, rank + 1)\ny = mul.Tensor(x, a)\nreturn y",
    ),
    Case(
        "more numbers than the sequential side has",
        "x: f32[4]\na: i64[4] = arange.start(2, 6)\ny = mul.Tensor(x, a)\nreturn y",
        "x: f32[4]\na: i64[9] = arange(9)\ny = mul.Tensor(x, slice(a, 0, 2, 6))\nreturn y",
    ),
    Case(
        "more numbers, others of them",
        "x: f32[4]\na: i64[4] = arange.start(2, 6)\ny = mul.Tensor(x, a)\nreturn y",
        "x: f32[4]\na: i64[9] = arange(9)\ny = mul.Tensor(x, slice(a, 0, 3, 7))\nreturn y",
        maps=(),
    ),
    Case(
        "rows at positions of the rank",
        "x: f32[6, 4]\nw: f32[6, 4]\ni: i64[6] = arange(6)\ny = mul.Tensor(x, embedding(w, i))\nreturn y",
        "x: f32[3, 4]\nw: f32[6, 4]\nb: i64[3] = arange(3)\ni: i64[3] = add.Tensor(b, 3 * rank)\n"
        "y = mul.Tensor(x, embedding(w, i))\nreturn y",
    ),
    Case(
        "rows at positions of every rank",
        "x: f32[6, 4]\nw: f32[6, 4]\ni: i64[6] = arange(6)\ny = mul.Tensor(x, embedding(w, i))\nreturn y",
        "x: f32[3, 4]\nw: f32[6, 4]\ni: i64[3] = arange(3)\n"
        "y = mul.Tensor(x, embedding(w, i))\nreturn y",
        maps=(),
    ),
)


@table(*SUM_PARTS)
def test_parts_of_sums(case: Case, outcomes: Outcomes) -> None:
    """An open sum passes what is linear in it, and nothing else."""
    check(case, outcomes(case))


@table(*MAX_PARTS)
def test_parts_of_maxima(case: Case, outcomes: Outcomes) -> None:
    """An open maximum passes what is monotone, and nothing else."""
    check(case, outcomes(case))


@table(*WHOLE)
def test_whole_dimensions(case: Case, outcomes: Outcomes) -> None:
    """What an operator needs whole is not cut."""
    check(case, outcomes(case))


@table(*(c for a in ATTRIBUTES for c in attribute(*a)))
def test_attributes(case: Case, outcomes: Outcomes) -> None:
    """Attributes have to be the same."""
    check(case, outcomes(case))


@table(*OTHERS)
def test_operators(case: Case, outcomes: Outcomes) -> None:
    """Operands, uninterpreted and random operators, casts, memory, a user's own operators."""
    check(case, outcomes(case))
