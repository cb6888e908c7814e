"""Reductions over dimensions."""

from __future__ import annotations

import re
from collections.abc import Mapping

from gg_datalog.readers.hlo_graph import Json, Result, Value
from gg_datalog.readers.hlo_known import number
from gg_datalog.readers.hlo_literals import Number, limits
from gg_datalog.readers.hlo_opaque import opaque
from gg_datalog.readers.hlo_program import Program, lowers
from gg_datalog.readers.hlo_scan import inside, numbers
from gg_datalog.readers.hlo_shapes import Array
from gg_datalog.readers.hlo_text import Computation, Instruction

FOLDS = {
    "add": "aten.sum.dim_IntList",
    "maximum": "hlo.reduce_max",
    "minimum": "hlo.reduce_min",
    "or": "hlo.reduce_max",
    "and": "hlo.reduce_min",
    "multiply": "hlo.reduce_multiply",
}
# With the number that a reduction begins with.
NUMBERED = {
    "add": "aten.add.Tensor",
    "maximum": "aten.clamp_min.default",
    "minimum": "aten.clamp_max.default",
    "multiply": "aten.mul.Tensor",
}
BOTH = {
    "add": "aten.add.Tensor",
    "maximum": "aten.maximum.default",
    "minimum": "aten.minimum.default",
    "or": "aten.bitwise_or.Tensor",
    "and": "aten.bitwise_and.Tensor",
    "multiply": "aten.mul.Tensor",
}


def root_of(computation: Computation) -> str | None:
    """The operator that a computation of two numbers is: `add` of both; None for more."""
    given = [i.name for i in computation.parameters]
    by_name = {i.name: i for i in computation.instructions}
    scalar = all(isinstance(i.shape, Array) and not i.shape.dims for i in computation.instructions)
    if len(given) != 2 or not scalar:
        return None
    root = _uncast(computation.root, by_name)
    operands = [_uncast(by_name[n], by_name).name for n in root.operands if n in by_name]
    if root.opcode not in FOLDS or sorted(operands) != sorted(given):
        return None
    pred = isinstance(root.shape, Array) and root.shape.dtype == "pred"
    if not pred:
        return None if root.opcode in ("and", "or") else root.opcode
    return {"add": "or", "maximum": "or", "multiply": "and", "minimum": "and"}.get(
        root.opcode, root.opcode
    )


def _uncast(at: Instruction, by_name: Mapping[str, Instruction]) -> Instruction:
    """What a cast between types of real numbers is given: sums may be formed in a wider type."""
    while at.opcode in ("convert", "copy") and at.operands and at.operands[0] in by_name:
        of = by_name[at.operands[0]]
        shapes = at.shape, of.shape
        if not all(isinstance(s, Array) and s.floats for s in shapes):
            break
        at = of
    return at


def combines(p: Program, computation: Computation, *operands: Value) -> None:
    """The computation is one of numbers of the operands' type."""
    for at in computation.parameters:
        for x in operands:
            good = isinstance(at.shape, Array) and at.shape.kin(x.shape)
            p.need(good, f"`{computation.name}` combines {at.shape}, it is given {x.shape}")


def kept_type(shape: Array) -> Json:
    """Torch adds integers up in 64 bits unless it is told otherwise."""
    return {"dtype": {"dtype": shape.torch}} if shape.integers else {}


def changes_nothing(kind: str, value: Number | None, shape: Array) -> bool:
    """Is the number the one that a reduction may begin with?"""
    if value is None:
        return False
    if kind in ("maximum", "minimum") and not shape.floats:
        return value == limits(shape.dtype)[kind == "minimum"]
    starts = {"add": 0, "multiply": 1, "or": False, "and": True}
    starts |= {"maximum": float("-inf"), "minimum": float("inf")}  # type: ignore[dict-item]
    return bool(value == starts[kind])


@lowers("reduce")
def reduce(p: Program) -> Result:
    """Dimensions added up, or their largest taken; of several tensors at once it is opaque."""
    kind = root_of(p.called())
    if kind is None or len(p.at.operands) != 2 or not isinstance(p.at.shape, Array):
        return opaque(p)
    x, start, shape = p.operand(0), p.operand(1), p.array()
    combines(p, p.called(), x, start)
    dims = p.ints("dimensions")
    kept = tuple(n for i, n in enumerate(x.shape.dims) if i not in dims)
    p.need(kept == shape.dims and not start.shape.dims, f"it is given {x.shape}")
    p.need(x.shape.kin(shape), f"it is given {x.shape}")
    if changes_nothing(kind, number(start.known), shape):
        return _folded(p, x, dims, kind, "")
    body = _folded(p, x, dims, kind, "body")
    if start.number is not None and kind in NUMBERED:
        return p.make(NUMBERED[kind], [body.ref, start.number])
    first = p.make("hlo.broadcast", [start.ref, [], list(shape.dims)], shape, "first")
    return p.make(BOTH[kind], [body.ref, first.ref])


def _folded(p: Program, x: Value, dims: list[int], kind: str, suffix: str) -> Value:
    shape = p.array()
    if all(x.shape.dims[i] == 1 for i in dims):
        return p.view(x, shape.dims, suffix)
    if kind == "add":
        return p.make(FOLDS[kind], [x.ref, dims, False], shape, suffix, kept_type(shape))
    if x.shape.dtype == "pred" or len(dims) != 1:
        name = {"or": "amax", "maximum": "amax", "and": "amin", "minimum": "amin"}.get(kind)
        if name is not None:
            return p.make(f"aten.{name}.default", [x.ref, dims, False], shape, suffix)
    return p.make(FOLDS[kind], [x.ref, dims[0] if len(dims) == 1 else dims], shape, suffix)


WINDOW = re.compile(r"(\w+)=(\S+)")


@lowers("reduce-window")
def reduce_window(p: Program) -> Result:
    """Sums of everything before, where the window is as long as the dimension; else opaque."""
    window = dict(WINDOW.findall(inside(p.at.attributes.get("window", ""))))
    if len(p.at.operands) != 2 or set(window) - {"size", "pad"}:
        return opaque(p)
    x, start = p.operand(0), p.operand(1)
    sizes = numbers(window.get("size", "").replace("x", ","))
    pads = [tuple(numbers(r.replace("_", ","))) for r in window.get("pad", "").split("x")]
    dims = [i for i, n in enumerate(sizes) if n > 1]
    plain = root_of(p.called()) == "add" and number(start.known) == 0 and x.shape == p.array()
    combines(p, p.called(), x, start)
    if not plain or len(dims) != 1 or len(sizes) != len(x.shape.dims) or len(pads) != len(sizes):
        return opaque(p)
    dim, extent = dims[0], x.shape.dims[dims[0]]
    wanted = [(extent - 1, 0) if i == dim else (0, 0) for i in range(len(sizes))]
    if sizes[dim] != extent or pads != wanted:
        return opaque(p)
    return p.make("aten.cumsum.default", [x.ref, dim], kwargs=kept_type(x.shape))


@lowers("dot")
def dot(p: Program) -> Result:
    """A product, added up over the contracted dimensions. Its precision means nothing here."""
    a, b = p.operand(0), p.operand(1)
    if len(p.at.operands) != 2 or "sparsity" in p.at.attributes or a.shape.dtype == "pred":
        return opaque(p, "hlo.dot_general")
    lists = [
        p.ints(key)
        for key in (
            "lhs_contracting_dims",
            "rhs_contracting_dims",
            "lhs_batch_dims",
            "rhs_batch_dims",
        )
    ]
    for places, x in zip(lists, (a, b, a, b), strict=True):
        p.need(all(i < len(x.shape.dims) for i in places), f"{places} do not fit {x.shape}")
    for i, j in zip(lists[0] + lists[2], lists[1] + lists[3], strict=True):
        p.need(a.shape.dims[i] == b.shape.dims[j], f"{a.shape} and {b.shape} do not multiply")
    dims = [a.shape.dims[i] for i in lists[2]]
    for x, used in ((a, lists[0] + lists[2]), (b, lists[1] + lists[3])):
        dims += [n for i, n in enumerate(x.shape.dims) if i not in used]
    p.need(dims == list(p.array().dims), f"the product is {dims}")
    if not (a.shape.kin(b.shape) and a.shape.kin(p.array())):
        return opaque(p, "hlo.dot_general")
    if not lists[0]:
        return _outer(p, a, b, lists[2], lists[3])
    return p.make("hlo.dot", [a.ref, b.ref, *lists])


def _outer(p: Program, a: Value, b: Value, ours: list[int], theirs: list[int]) -> Value:
    """A product that adds nothing up: element by element, once both are repeated."""
    shape = p.array()
    free = len(a.shape.dims) - len(ours)
    left = {dim: i for i, dim in enumerate(ours)}
    right = {dim: i for i, dim in enumerate(theirs)}
    at = [len(ours), len(ours) + free]
    for places, x, start in ((left, a, at[0]), (right, b, at[1])):
        rest = [i for i in range(len(x.shape.dims)) if i not in places]
        places.update({dim: start + i for i, dim in enumerate(rest)})
    wide = [
        p.make(
            "hlo.broadcast",
            [x.ref, [places[i] for i in range(len(x.shape.dims))], list(shape.dims)],
            Array(x.shape.dtype, shape.dims),
            side,
        )
        for x, places, side in ((a, left, "left"), (b, right, "right"))
    ]
    return p.make("aten.mul.Tensor", [wide[0].ref, wide[1].ref])
