"""Infinite constants, padding, and what sorting chooses: none of it passes an open sum."""

from __future__ import annotations

from typing import Any

from gg_datalog.extract.context import Context, Unsupported, Value, attributes, in_type, lowers
from gg_datalog.extract.dtypes import learn, single
from gg_datalog.extract.lower_lookup import TAKEN
from gg_datalog.extract.lower_mask import infinite, is_infinite
from gg_datalog.extract.lower_movement import bounds, filled, need, sliced, surrounded
from gg_datalog.extract.scale import ONE, scale
from gg_datalog.extract.tabulated import chosen
from gg_datalog.extract.view import View, identity


@lowers("aten.scalar_tensor", "aten.full", "aten.full_like", "aten.new_full")
def full(ctx: Context) -> Value:
    value = ctx.argument("fill_value", "s")
    for name in ("self", "size"):
        ctx.raw(name)
    if not is_infinite(value):
        return filled(ctx, ctx.number("fill_value", "s"))
    if ctx.node.dtype == "bool":
        return filled(ctx, scale(1))
    shape = ctx.node.shape
    if shape is None or any(isinstance(e, str) for e in shape):
        raise Unsupported("its shape is not known")
    return need(infinite(ctx, value).expanded([int(e) for e in shape]))


# ---- padding
@lowers("aten.constant_pad_nd", "aten.pad")
def constant_pad(ctx: Context) -> Value:
    x, pads = ctx.tensor("self"), ctx.sizes("pad")
    if ctx.argument("mode", default="constant") != "constant":
        raise Unsupported("a padding that is not constant")
    value = scale(0) if ctx.argument("value") is None else ctx.number("value")
    if value is None or len(pads) % 2 or len(pads) > 2 * len(x.dims):
        raise Unsupported("its padding is not known")
    in_type(ctx, value)
    for pair in range(len(pads) // 2):
        dim = len(x.dims) - 1 - pair
        x = _padded(ctx, x, dim, pads[2 * pair], pads[2 * pair + 1], value)
    return x


def _padded(ctx: Context, x: View, dim: int, before: int, after: int, value: Any) -> View:
    if before < 0 or after < 0:
        start, size = bounds(ctx, x.shape[dim], max(0, -before), x.shape[dim] + min(0, after))
        x = sliced(ctx, x, dim, start, size)
    return surrounded(ctx, x, dim, max(0, before), max(0, after), value)


# ---- sorting
@lowers("aten.topk", "aten.sort", "aten.argsort")
def ordered(ctx: Context) -> Value:
    """Values and places of the largest or of all positions of one dimension, which is whole."""
    name = ctx.node.target.split(".")[1]
    x = single(ctx, ctx.tensor("self"), ctx.dtype("self"))
    dim = ctx.dim(ctx.argument("dim", default=-1), len(x.dims))
    letters = [f"x{i}" if i != dim else TAKEN for i in range(len(x.dims))]
    extent = ctx.argument("k") if name == "topk" else x.shape[dim]
    if not isinstance(extent, int) or not 0 < extent <= x.shape[dim]:
        raise Unsupported("how many positions it chooses is not known")
    out = [n if n != TAKEN else "k" for n in letters]

    def naming(letter: str, places: tuple[int, ...]) -> tuple[str, str]:
        if letter in (TAKEN, "k"):
            return letter, "created" if letter == "k" else "whole"
        return "x", "parallel"

    results = 1 if name == "argsort" else 2
    # Dimensions count from the end: with more batch dimensions in front it is the same operator.
    signature = f"{name}({attributes(ctx, ['dim'])}) of {len(x.dims) - dim}"
    found = ctx.apply(signature, [(x, letters)], [out] * results, naming, created={"k": extent})
    learn(found[-1], (0, x.shape[dim] - 1))
    if name == "topk":
        chosen(ctx, found[-1], x.shape[dim])
    elif not ctx.argument("descending", default=False) and is_permutation(ctx, x, extent):
        ctx.side.alternative(found[-1], inverse_of(ctx, x))
    if len(x.dims) == 1 and extent == x.shape[0] and found[-1].scale == ONE:
        ctx.side.notes.permutations.add(found[-1].base)
    return found[0] if results == 1 else tuple(found)


def inverse(ctx: Context, ids: View, value: View) -> View:
    """``value[i]`` at position ``ids[i]`` for a permutation ``ids`` of all positions: whatever was
    there before is written over."""

    def naming(letter: str, places: tuple[int, ...]) -> tuple[str, str]:
        return letter, "whole"

    made = ctx.apply("permuted", [(ids, ["t"]), (value, ["t"])], [["t"]], naming, linear=(1,))[0]
    if ctx.side.notes.counted.get(value.base) == (0, 1, ids.shape[0]) and value.scale == ONE:
        ctx.side.alternative(made, inverse_of(ctx, ids))
        ctx.side.notes.permutations.add(made.base)
    return made


def inverse_of(ctx: Context, ids: View) -> View:
    """The permutation that undoes ``ids``: it sorts them, and it has i at position ``ids[i]``."""
    return ctx.apply("inverse", [(ids, ["t"])], [["t"]], lambda _, __: ("t", "whole"))[0]


def is_permutation(ctx: Context, ids: View, extent: int) -> bool:
    """Does ``ids`` hold every position below ``extent`` once, in the order sorting left them?"""
    plain = ids.scale == ONE and ids.dims == identity(ids.base).dims
    return plain and ids.base in ctx.side.notes.permutations and ids.shape == (extent,)


def scattered_chosen(ctx: Context, ids: View, source: View, dim: int, extent: int) -> View:
    """``source`` at the positions ``ids`` of one dimension, 0 elsewhere; of two values at one
    position the same one wins on both sides."""
    letters = [f"x{i}" if i != dim else "g" for i in range(len(ids.dims))]
    out = [n if n != "g" else TAKEN for n in letters]

    def naming(letter: str, places: tuple[int, ...]) -> tuple[str, str]:
        if letter == TAKEN:
            return letter, "created"
        return ("g", "whole") if letter == "g" else ("x", "parallel")

    operands = [(ids, letters), (source, letters)]
    name = f"scatter of {len(ids.dims) - dim}"
    return ctx.apply(name, operands, [out], naming, linear=(1,), created={TAKEN: extent})[0]
