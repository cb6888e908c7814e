"""Angles, signs and neighbours of numbers: element by element, of both operands in their order."""

from __future__ import annotations

import pytest

from .build import Case, check, extracted, table
from .conftest import Outcomes

TWO = "x: f32[8, 6]\nz: f32[8, 6]\ny = {}(x, z)\nreturn y"
ONE = "x: f32[8, 6]\ny: {}[8, 6] = {}(x)\nreturn y"
OPEN = "a: f32[8, 9]\nv: f32[9, 6]\nz: f32[8, 6]\np = mm(a, v)\ny = {}(p, z)\nreturn y"


def binary(name: str, other: str) -> list[Case]:
    """Shards, operands exchanged, another operator, one of them whole, a part of a sum."""
    seq = TWO.format(name)
    case = Case(f"{name}: rows", seq, seq.replace("[8", "[4"))
    opened = OPEN.format(name)
    parted = opened.replace("9]", "3]").replace("[9", "[3")
    reduced = parted.replace("p = mm(a, v)", "p = all_reduce(mm(a, v), 'sum', 'g')")
    return [
        case,
        case.miss("exchanged", "(x, z)", "(z, x)"),
        case.miss("of itself", "(x, z)", "(x, x)"),
        case.miss("another operator", name, other),
        case.miss("the operand is negated", "(x, z)", "(x, neg(z))"),
        case.but("columns", maps=None, dist=seq.replace("6]", "3]")),
        Case(f"{name}: a sum that is reduced", opened, reduced, ranks=3),
        Case(f"{name}: a part of a sum", opened, parted, ranks=3, maps=(), partial=True),
        Case(
            f"{name}: parts of the second operand",
            opened.replace("(p, z)", "(z, p)"),
            parted.replace("(p, z)", "(z, p)"),
            ranks=3,
            maps=(),
            partial=True,
        ),
    ]


def unary(name: str, dtype: str, other: str) -> list[Case]:
    """Shards, another operator, twice the operand, which over the reals gives the same."""
    seq = ONE.format(dtype, name)
    case = Case(f"{name}: rows", seq, seq.replace("[8", "[4"))
    return [
        case,
        case.miss("another operator", f"{name}(x)", f"{other}(x)"),
        case.miss("negated", "(x)", "(neg(x))"),
        case.but("columns", maps=None, dist=seq.replace("6]", "3]")),
    ]


NEXT = Case(
    "nextafter of another element type",
    TWO.format("nextafter"),
    "x: f32[4, 6]\nz: f32[4, 6]\nu: f64[4, 6] = _to_copy(x, dtype='float64')\n"
    "w: f64[4, 6] = _to_copy(z, dtype='float64')\nn: f64[4, 6] = nextafter(u, w)\n"
    "y: f32[4, 6] = _to_copy(n, dtype='float32')\nreturn y",
    maps=(),
)
ANGLE = Case(
    "atan2 of another element type",
    NEXT.seq.replace("nextafter", "atan2"),
    NEXT.dist.replace("nextafter", "atan2"),
)
SCALAR = Case(
    "copysign of a number",
    "x: f32[8, 6]\ny = copysign.Scalar(x, 2.0)\nreturn y",
    "x: f32[4, 6]\ny = copysign.Scalar(x, 2.0)\nreturn y",
)
CASES = (
    *binary("atan2", "hypot"),
    *binary("copysign.Tensor", "atan2"),
    *binary("nextafter", "copysign.Tensor"),
    *unary("signbit", "b", "isnan"),
    *unary("angle", "f32", "neg"),
    NEXT,
    ANGLE,
    SCALAR,
    SCALAR.miss("of the other sign", "2.0", "-2.0"),
    SCALAR.miss("of a zero of the other sign", "2.0", "-0.0"),
    Case(
        "copysign of zeros of two signs",
        "x: f32[8, 6]\ny = copysign.Scalar(x, 0.0)\nreturn y",
        "x: f32[4, 6]\ny = copysign.Scalar(x, -0.0)\nreturn y",
        maps=(),
    ),
    Case(
        "arctan2 is atan2",
        "x: f32[8, 6]\nz: f32[8, 6]\ny = arctan2(x, z)\nreturn y",
        "x: f32[4, 6]\nz: f32[4, 6]\ny = atan2(x, z)\nreturn y",
    ),
)


@table(*CASES)
def test_signs(case: Case, outcomes: Outcomes) -> None:
    """As the case says."""
    check(case, outcomes(case))


@pytest.mark.parametrize(
    ("call", "told"),
    [("atan2(x, z)", True), ("copysign.Tensor(x, z)", True), ("nextafter(x, z)", False)],
)
def test_the_sign_of_a_zero_is_an_assumption(call: str, told: bool) -> None:
    """0 and -0 are one number over the reals, and these tell them apart."""
    text = TWO.replace("{}(x, z)", call)
    tables = extracted(Case(call, text, text.replace("[8", "[4")))
    rows = [r["text"] for r in tables["assumption"].to_pylist() if r["kind"] == "signed zeros"]
    assert bool(rows) == told and len(rows) <= 1
