"""Operators along whole dimensions (``extract/lower_along.py``), and rows that the oracle asked for."""

from __future__ import annotations

from .build import Case, check, table
from .conftest import Outcomes


def along(
    name: str, call: str, cut: str, shape: str, swapped: str = "", **more: object
) -> tuple[Case, ...]:
    """An operator on rows of which each rank has some; ``shape`` is the result's, with {n} for the
    rows, ``cut`` the shape of a rank that has all rows and a part of the dimension instead."""
    text = f"x: f32[{{n}}, 4]\ny: f32{shape} = {call}\nreturn y"
    good = Case(name, text.format(n=6), text.format(n=3), **more)  # type: ignore[arg-type]
    wrong = [good.miss("cut along it", f"x: f32[3, 4]\ny: f32{shape.format(n=3)}", cut)]
    if swapped:
        wrong.append(good.miss("another argument", call, swapped))
    return (good, *wrong)


CUT = "x: f32[6, 2]\ny: f32[6, 2]"
GONE = "x: f32[6, 2]\ny: f32[6]"
CASES = (
    *along("flip", "flip(x, [1])", CUT, "[{n}, 4]"),
    *along("roll", "roll(x, [1], [1])", CUT, "[{n}, 4]", "roll(x, [2], [1])"),
    *along("cummax", "cummax(x, 1)[0]", CUT, "[{n}, 4]", "cummin(x, 1)[0]"),
    *along("cumprod", "cumprod(x, 1)", CUT, "[{n}, 4]", "cumsum(x, 1)"),
    *along("logcumsumexp", "logcumsumexp(x, 1)", CUT, "[{n}, 4]"),
    *along("kthvalue", "kthvalue(x, 2, 1)[0]", GONE, "[{n}]", "kthvalue(x, 1, 1)[0]"),
    *along("median", "median.dim(x, 1)[0]", GONE, "[{n}]", "nanmedian.dim(x, 1)[0]"),
    *along("mode", "mode(x, 1)[0]", GONE, "[{n}]"),
    *along("product", "prod.dim_int(x, 1)", GONE, "[{n}]"),
    *along("variance", "var.correction(x, [1], correction=1)", GONE, "[{n}]",
           "var.correction(x, [1], correction=0)"),
    *along("mean and deviation", "std_mean.correction(x, [1])[0]", GONE, "[{n}]",
           "std_mean.correction(x, [1])[1]"),
)  # fmt: skip

FLIP = "x: f32[4, {n}]\nw: f32[{n}, 6]\np = mm(x, w)\ny = flip(p, [0])\n"
FLIPPED = Case("flip of a part", FLIP.format(n=8) + "return y",
               FLIP.format(n=4) + "z = all_reduce(y, 'sum', 'g')\nreturn z")  # fmt: skip
FILL = "x: f32[{n}, 4]\ni: i64[2]\ny = index_fill.int_Scalar(x, 1, i, 3.0)\nreturn y"
FILLED = Case("positions filled", FILL.format(n=6), FILL.format(n=3))
BINS = "x: f32[{n}]\nb: f32[4]\ny = bucketize.Tensor(x, b)\nreturn y"
BINNED = Case("between boundaries", BINS.format(n=6), BINS.format(n=3))
LERP = "x: f32[{n}]\nz: f32[{n}]\nw: f32[{n}]\ny = lerp.Tensor(x, z, w)\nreturn y"
LERPED = Case("a weight for each", LERP.format(n=6), LERP.format(n=3))
MAXIMA = "x: f32[4, {n}]\nv: f32[4]\np = amax(x, [1])\ny = {f}\n"


def of_maxima(call: str, **more: object) -> Case:
    """An operator on the maximum of what a rank has, and a tensor that all have."""
    return Case(call, MAXIMA.format(n=8, f=call) + "return y",
                MAXIMA.format(n=4, f=call) + "z = all_reduce(y, 'max', 'g')\nreturn z", **more)  # type: ignore[arg-type] # fmt: skip


OTHERS = (
    FLIPPED,
    FLIPPED.miss("another dimension", "flip(p, [0])", "flip(p, [1])"),
    FILLED,
    FILLED.miss("another number", "3.0", "2.0"),
    FILLED.miss("another dimension", "x, 1", "x, 0"),
    BINNED,
    BINNED.miss("the other side of them", "x, b", "x, b, right=True"),
    BINNED.miss("some of them", "b: f32[4]", "b: f32[2]"),
    LERPED,
    LERPED.miss("ends swapped", "x, z, w", "z, x, w"),
    of_maxima("maximum(p, v)"),
    of_maxima("logaddexp(v, p)"),
    of_maxima("index_select(p, 0, argsort(v))"),
    of_maxima("fmax(p, v)", maps=()),
    of_maxima("hypot(p, v)", maps=()),
    of_maxima("sinh(p)"),
    of_maxima("cosh(p)", maps=()),
    Case(
        "a list of bytes times a fraction is no list of bytes",
        "x: u8[4]\nn = _foreach_mul.Scalar([x], 3.0)\ny: f32[4] = n[0]\nreturn y",
        "x: u8[2]\ny: u8[2] = mul.Tensor(x, 3)\nreturn y",
        maps=(),
    ),
    Case(
        "a list of integers plus an integer",
        "x: i64[4]\nn = _foreach_add.Scalar([x], 3)\ny: i64[4] = n[0]\nreturn y",
        "x: i64[2]\ny: i64[2] = add.Tensor(x, 3)\nreturn y",
    ),
)  # fmt: skip


@table(*CASES, *OTHERS)
def test_along(case: Case, outcomes: Outcomes) -> None:
    """What looks at all of a dimension has all of it; everything that it is told is the same."""
    check(case, outcomes(case))
