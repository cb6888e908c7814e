"""Convolutions over positions that are cut: borders of the neighbours beside a rank's own positions
(``extract/shifts.py``)."""

from __future__ import annotations

from .build import Case, check, table
from .conftest import Outcomes

SAME = "[1], [1], [1], False, [0], 1"
BARE = "[1], [0], [1], False, [0], 1"
WHOLE = f"x: f32[2, 3, 8]\nw: f32[4, 3, 3]\nb: f32[4]\ny: f32[2, 4, 8] = convolution(x, w, b, {SAME})\nreturn y"
HALO = """
x: f32[2, 3, 4]
w: f32[4, 3, 3]
b: f32[4]
xs = all_gather_into_tensor(x, 2, "g")
z: f32[2, 3, 1] = full([2, 3, 1], 0.0)
l: f32[2, 3, 1] = slice.Tensor(slice.Tensor(xs, 0, 0, 2), 2, 3, 4)
r: f32[2, 3, 1] = slice.Tensor(slice.Tensor(xs, 0, 2, 4), 2, 0, 1)
h: f32[2, 3, 6] = cat([z if rank == 0 else l, x, r if rank == 0 else z], 2)
"""
BORDERS = Case(
    "borders of the neighbours, zeros at the ends",
    WHOLE,
    f"{HALO}y: f32[2, 4, 4] = convolution(h, w, b, {BARE})\nreturn y",
)
TWICE = Case(
    "a convolution after another one",
    WHOLE.replace(
        "return y", f"v: f32[2, 4, 8] = convolution(relu(y), u, None, {SAME})\nreturn v"
    ).replace("b: f32[4]", "b: f32[4]\nu: f32[4, 4, 3]"),
    BORDERS.dist.replace("b: f32[4]", "b: f32[4]\nu: f32[4, 4, 3]").replace(
        "return y",
        f"""a = relu(y)
ys = all_gather_into_tensor(a, 2, "g")
zz: f32[2, 4, 1] = full([2, 4, 1], 0.0)
ll: f32[2, 4, 1] = slice.Tensor(slice.Tensor(ys, 0, 0, 2), 2, 3, 4)
rr: f32[2, 4, 1] = slice.Tensor(slice.Tensor(ys, 0, 2, 4), 2, 0, 1)
hh: f32[2, 4, 6] = cat([zz if rank == 0 else ll, a, rr if rank == 0 else zz], 2)
v: f32[2, 4, 4] = convolution(hh, u, None, {BARE})
return v""",
    ),
)
PLANE = Case(
    "rows of a picture",
    "x: f32[2, 3, 8, 5]\nw: f32[4, 3, 3, 3]\ny: f32[2, 4, 8, 5] = convolution(x, w, None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1)\nreturn y",
    HALO.replace("x: f32[2, 3, 4]", "x: f32[2, 3, 4, 5]")
    .replace("w: f32[4, 3, 3]\nb: f32[4]", "w: f32[4, 3, 3, 3]")
    .replace("[2, 3, 1]", "[2, 3, 1, 5]")
    .replace("[2, 3, 6]", "[2, 3, 6, 5]")
    + "y: f32[2, 4, 4, 5] = convolution(h, w, None, [1, 1], [0, 1], [1, 1], False, [0, 0], 1)\nreturn y",
)
CAUSAL = Case(
    "each channel by itself, with what is before",
    "x: f32[2, 3, 8]\nw: f32[3, 1, 3]\nv: f32[2, 3, 10] = convolution(x, w, None, [1], [2], [1], False, [0], 3)\n"
    "y: f32[2, 3, 8] = slice.Tensor(v, 2, 0, 8)\nreturn y",
    """
x: f32[2, 3, 4]
w: f32[3, 1, 3]
xs = all_gather_into_tensor(x, 2, "g")
z: f32[2, 3, 2] = full([2, 3, 2], 0.0)
l: f32[2, 3, 2] = slice.Tensor(slice.Tensor(xs, 0, 0, 2), 2, 2, 4)
h: f32[2, 3, 6] = cat([z if rank == 0 else l, x], 2)
y: f32[2, 3, 4] = convolution(h, w, None, [1], [0], [1], False, [0], 3)
return y
""",
)
APART = Case(
    "taps that are two positions apart",
    WHOLE.replace(SAME, "[1], [2], [2], False, [0], 1"),
    BORDERS.dist.replace("[2, 3, 1]", "[2, 3, 2]")
    .replace("[2, 3, 6]", "[2, 3, 8]")
    .replace("2, 3, 4)", "2, 2, 4)", 1)
    .replace("2, 0, 1)", "2, 0, 2)")
    .replace(BARE, "[1], [0], [2], False, [0], 1"),
)
BACK = Case(
    "the gradients",
    f"g: f32[2, 4, 8]\nx: f32[2, 3, 8]\nw: f32[4, 3, 3]\no = convolution_backward(g, x, w, [4], {SAME}, [True, True, True])\n"
    "dx: f32[2, 3, 8] = o[0]\ndw: f32[4, 3, 3] = o[1]\ndb: f32[4] = o[2]\nreturn dw, db",
    "g: f32[2, 4, 4]\n"
    + HALO.replace("b: f32[4]\n", "").lstrip("\n")
    + f"o = convolution_backward(g, h, w, [4], {BARE}, [True, True, True])\n"
    'dw: f32[4, 3, 3] = o[1]\ndb: f32[4] = o[2]\nu = all_reduce(dw, "sum", "g")\nv = all_reduce(db, "sum", "g")\nreturn u, v',
)
BACK_INPUT = Case(
    "the gradient of the input, borders sent back",
    f"g: f32[2, 4, 8]\nx: f32[2, 3, 8]\nw: f32[4, 3, 3]\no = convolution_backward(g, x, w, [4], {SAME}, [True, False, False])\n"
    "dx: f32[2, 3, 8] = o[0]\nreturn dx",
    "g: f32[2, 4, 4]\n"
    + HALO.replace("b: f32[4]\n", "").lstrip("\n")
    + f"""o = convolution_backward(g, h, w, [4], {BARE}, [True, False, False])
d: f32[2, 3, 6] = o[0]
ds = all_gather_into_tensor(d, 2, "g")
m: f32[2, 3, 4] = slice.Tensor(d, 2, 1, 5)
i: f32[2, 3, 1] = slice.Tensor(slice.Tensor(ds, 0, 2, 4), 2, 0, 1)
k: f32[2, 3, 1] = slice.Tensor(slice.Tensor(ds, 0, 0, 2), 2, 5, 6)
p: f32[2, 3, 1] = slice.Tensor(m, 2, 0, 1)
q: f32[2, 3, 1] = slice.Tensor(m, 2, 3, 4)
c: f32[2, 3, 2] = slice.Tensor(m, 2, 1, 3)
dx: f32[2, 3, 4] = cat([p if rank == 0 else add.Tensor(p, k), c, add.Tensor(q, i) if rank == 0 else q], 2)
return dx
""",
)


@table(
    BORDERS,
    BORDERS.miss("zeros for a neighbour", "cat([z if rank == 0 else l", "cat([z if rank == 0 else z"),
    BORDERS.miss("borders swapped", "l, x, r if", "r, x, l if"),
    BORDERS.miss("the position before", "2, 3, 4)", "2, 2, 3)"),
    BORDERS.miss("the wrong end", "2, 0, 1)", "2, 3, 4)"),
    BORDERS.miss("its own border", "slice.Tensor(xs, 0, 0, 2), 2, 3, 4", "slice.Tensor(xs, 0, 2, 4), 2, 3, 4"),
    BORDERS.miss("no zeros at the ends", "full([2, 3, 1], 0.0)", "full([2, 3, 1], 1.0)"),
    BORDERS.miss("a border twice", "cat([z if rank == 0 else l, x", "cat([l if rank == 0 else l, x"),
    BORDERS.miss("the kernel turned", "(h, w, b", "(h, flip(w, [2]), b"),
    BORDERS.miss("zeros times what may be infinite", "(h, w, b", "(h, reciprocal(w), b",
                 seq=WHOLE.replace("(x, w, b", "(x, reciprocal(w), b")),
    BORDERS.miss("no bias", "(h, w, b", "(h, w, None"),
    TWICE,
    TWICE.miss("old borders", "all_gather_into_tensor(a, 2", "all_gather_into_tensor(y, 2"),
    TWICE.miss("zeros between the ranks", "zz if rank == 0 else ll", "zz if rank == 0 else zz"),
    PLANE,
    PLANE.miss("columns are not padded", "4, 4, 5] = convolution(h, w, None, [1, 1], [0, 1]",
               "4, 4, 3] = convolution(h, w, None, [1, 1], [0, 0]"),
    PLANE.miss("borders swapped", "l, x, r if", "r, x, l if"),
    CAUSAL,
    CAUSAL.miss("what is at the beginning", "2, 2, 4)", "2, 0, 2)"),
    CAUSAL.miss("zeros for all", "z if rank == 0 else l", "z"),
    CAUSAL.miss("a slice of the end", "(v, 2, 0, 8)", "(v, 2, 2, 10)", side="seq"),
    APART,
    APART.miss("taps side by side", "[1], [0], [2]", "[1], [1], [1]"),
    BACK,
    BACK.miss("zeros for a neighbour", "cat([z if rank == 0 else l", "cat([z if rank == 0 else z", maps=("db",)),
    BACK.miss("not reduced", "return u", "return dw", maps=("db",)),
    BACK_INPUT,
    BACK_INPUT.miss("borders are not added", "p if rank == 0 else add.Tensor(p, k)", "p if rank == 0 else p"),
    BACK_INPUT.miss("the other border", "2, 5, 6)", "2, 0, 1)"),
)  # fmt: skip
def test_positions_that_are_cut(case: Case, outcomes: Outcomes) -> None:
    """Tap by tap, a convolution is a sum of products of shifted positions."""
    check(case, outcomes(case))
