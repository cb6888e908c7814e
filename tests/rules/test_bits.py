"""Bits of elements as another type: moved, and read back (``lower_bits``)."""

from __future__ import annotations

from .build import Case, check, table
from .conftest import Outcomes

SENT = Case(
    "sent as integers of the same size, and read back",
    "x: f32[4, 6]\nw: f32[6, 6]\ny = mm(x, w)\nreturn y",
    """
x: f32[2, 6]
w: f32[6, 6]
b: i32[2, 6] = view.dtype(x, 'int32')
g: i32[4, 6] = all_gather_into_tensor(b, 2, "g")
back: f32[4, 6] = view.dtype(g, 'float32')
y = mm(back, w)
return y
""",
)
BYTES = Case(
    "as bytes, and read back",
    "x: f32[4, 6]\ny = relu(x)\nreturn y",
    "x: f32[2, 6]\nb: u8[2, 24] = view.dtype(x, 'uint8')\nback: f32[2, 6] = view.dtype(b, 'float32')\n"
    "y = relu(back)\nreturn y",
)
KEPT = Case(
    "both sides look at the bits",
    "x: f32[4, 6]\ny: i32[4, 6] = view.dtype(x, 'int32')\nreturn y",
    "x: f32[2, 6]\ny: i32[2, 6] = view.dtype(x, 'int32')\nreturn y",
)
ALL = (
    SENT,
    SENT.but("a slice of them", dist=SENT.dist.replace("back: ", "c: i32[4, 6] = cat([slice.Tensor(g, 0, 0, 1), slice.Tensor(g, 0, 1, 4)])\nback: ").replace("view.dtype(g,", "view.dtype(c,"), maps=None),
    SENT.but("in another order", dist=SENT.dist.replace("back: ", "c: i32[4, 6] = cat([slice.Tensor(g, 0, 2, 4), slice.Tensor(g, 0, 0, 2)])\nback: ").replace("view.dtype(g,", "view.dtype(c,")),
    SENT.miss("read as numbers", "view.dtype(g, 'float32')", "_to_copy(g, dtype='float32')"),
    SENT.miss("numbers sent as bits", "view.dtype(x, 'int32')", "_to_copy(x, dtype='int32')"),
    SENT.but("changed on the way", dist=SENT.dist.replace("back: ", "d: i32[4, 6] = mul.Scalar(g, 2)\nback: ").replace("view.dtype(g,", "view.dtype(d,")),
    SENT.miss("twice its bits", "view.dtype(x, 'int32')", "view.dtype(mul.Scalar(x, 2), 'int32')"),
    SENT.but("added up as integers", dist=SENT.dist.replace("x: f32[2, 6]", "x: f32[4, 6]").replace("[2, 6]", "[4, 6]").replace('all_gather_into_tensor(b, 2, "g")', 'all_reduce(b, "sum", "g")')),
    BYTES,
    BYTES.miss("of another type", "back: f32[2, 6] = view.dtype(b, 'float32')", "c: i32[2, 6] = view.dtype(b, 'int32')\nback: f32[2, 6] = _to_copy(c, dtype='float32')"),
    BYTES.but("of the wrong bytes", dist=BYTES.dist.replace("view.dtype(b, 'float32')", "view.dtype(flip(b, [1]), 'float32')"), maps=()),
    KEPT,
    KEPT.miss("of other bits", "y: i32[2, 6] = view.dtype(x, 'int32')", "y: f32[2, 6] = view.dtype(x, 'float32')"),
    KEPT.miss("of twice the number", "view.dtype(x,", "view.dtype(mul.Scalar(x, 2),"),
)  # fmt: skip


@table(*ALL)
def test_bits(case: Case, outcomes: Outcomes) -> None:
    check(case, outcomes(case))
