"""Bits of elements read as another type.

It is a function of each element. Reading the bits back as the type that they are of gives the
elements again, also after the bits were moved: fp8 values are sent as bytes.
"""

from __future__ import annotations

from gg_datalog.extract.context import Context, Unsupported, Value, lowers
from gg_datalog.extract.dtypes import WIDTHS, valued
from gg_datalog.extract.lower_movement import need
from gg_datalog.extract.records import Concat, Operator, Slice
from gg_datalog.extract.scale import ONE
from gg_datalog.extract.side import Side, _as_term
from gg_datalog.extract.view import Base, Digit, View, compose

BYTES = {
    **{name: bits // 8 for name, bits in WIDTHS.items()},
    **{"bool": 1, "float16": 2, "bfloat16": 2, "float32": 4, "float64": 8},
    **{"complex32": 4, "complex64": 8, "complex128": 16},
}


def _size(dtype: str) -> int:
    size = 1 if dtype.startswith("float8_") else BYTES.get(dtype)
    if size is None:
        raise Unsupported(f"how many bytes {dtype} has is not known")
    return size


@lowers("aten.view.dtype", "aten.view_copy.dtype", "prims.view_of_dtype.default")
def bits(ctx: Context) -> Value:
    name = "self" if "self" in ctx.node.bound else "a"
    x, before, after = valued(ctx, ctx.tensor(name)), ctx.dtype(name), ctx.node.dtype or ""
    ctx.raw("dtype")  # the dtype of the result says it
    if before == after:
        return x
    there, back = f"bits({before} to {after})", f"bits({after} to {before})"
    sizes = _size(before), _size(after)
    if sizes[0] == sizes[1]:
        return _read_back(ctx.side, x, back) or ctx.elementwise(there, [x])[0]
    if not x.dims:
        raise Unsupported("elements of another size in a tensor without dimensions")
    return _regrouped(ctx, x, there, back, sizes)


def _regrouped(ctx: Context, x: View, there: str, back: str, sizes: tuple[int, int]) -> View:
    """Elements of another size: several in place of one, or one in place of several."""
    letters, last = [str(i) for i in range(len(x.dims))], x.shape[-1]

    def naming(letter: str, places: tuple[int, ...]) -> tuple[str, str]:
        return ("bytes", "whole") if letter == "c" else ("e", "parallel")

    if sizes[0] > sizes[1]:
        many, out = sizes[0] // sizes[1], [*letters, "c"]
        made = ctx.apply(there, [(x, letters)], [out], naming, created={"c": many})[0]
        return need(made.reshaped([*x.shape[:-1], last * many]))
    many = sizes[1] // sizes[0]
    if last % many:
        raise ValueError(f"{last} elements are no multiple of {many}")
    apart = need(x.reshaped([*x.shape[:-1], last // many, many]))
    made_of = apart.base.made
    if isinstance(made_of, Operator) and made_of.signature.startswith(f"{back} over"):
        inner = _operand(made_of, apart.base)
        own = len(apart.base.shape) - 1
        if inner is not None and apart.scale == ONE and apart.dims[-1] == (Digit(own, many, 1),):
            found = compose(_without_last(apart), inner.dims, inner.base, inner.scale)
            if found is not None:
                return found
    return ctx.apply(there, [(apart, [*letters, "c"])], [letters], naming)[0]


def _without_last(view: View) -> View:
    return View(view.base, view.dims[:-1], view.scale)


def _operand(made: Operator, gives: Base) -> View | None:
    """What an operator of one operand is of, in the dimensions of its result that it has."""
    term = _as_term(made.operands[0], made.maps[0], made.labels)
    dims = tuple(term.dims[label] for label in made.gives[0][1])
    if made.gives[0][0] is not gives:
        return None
    return View(term.base, dims, term.scale)


def _read_back(side: Side, x: View, signature: str) -> View | None:
    """What bits are of that were moved, and are read as what they were; None where they are of
    something else."""
    inner = _elements(side, x.base, signature) if x.scale == ONE else None
    return None if inner is None else compose(x, inner.dims, inner.base, inner.scale)


def _elements(side: Side, base: Base, signature: str) -> View | None:
    """The same in the dimensions of the base."""
    made = base.made
    if isinstance(made, Operator):
        return _operand(made, base) if made.signature == signature else None
    if isinstance(made, Slice):
        whole = _read_back(side, made.of, signature)
        part = None if whole is None else side.slice(whole, made.dim, made.start, made.size)
        return None if part is None else part.reshaped(base.shape)
    if isinstance(made, Concat):
        members = [_read_back(side, member, signature) for member, _ in made.members]
        found = [member for member in members if member is not None]
        whole = side.concat(found, made.dim, made.local) if len(found) == len(members) else None
        return None if whole is None else whole.reshaped(base.shape)
    return None
