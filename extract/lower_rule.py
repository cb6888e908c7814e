"""Operators with a sharding rule in the table, such as ``... h, h -> ... h``."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import replace
from math import prod
from typing import Any

from gg_datalog.extract.context import Context, Unsupported, Value, attributes, count
from gg_datalog.extract.dtypes import valued
from gg_datalog.extract.lower_contract import refine
from gg_datalog.extract.scale import ONE, Scale
from gg_datalog.extract.sharding import read_rule
from gg_datalog.extract.table import Row
from gg_datalog.extract.view import View

Lettered = tuple[View, list[str]]
MAYBE = "?"  # in front of a dimension that an operand may have one position of, to be repeated


def by_rule(ctx: Context, rows: Sequence[Row]) -> Value:
    """The results of all rows of an operator, in their places."""
    found: dict[int, View] = {}
    for row in rows:
        for place, view in zip(row.results, _one(ctx, row), strict=True):
            found[place] = view
    if ctx.node.shape is not None and set(found) == {0}:
        return found[0]
    return tuple(found.get(i) for i in range(max(found) + 1))


def _absent(ctx: Context, which: int | str) -> bool:
    """Is an operand left out (a norm without weight)?"""
    name = ctx.named(which)
    return name in ctx.node.bound and ctx.node.bound[name] is None


def _operand(ctx: Context, which: int | str) -> View:
    view = ctx.as_tensor(ctx.argument(ctx.named(which)))
    if view is None:
        raise Unsupported(f"operand {which} is not a tensor")
    return valued(ctx, view)


def _spread(ctx: Context, row: Row) -> tuple[Row, dict[str, int], list[Any], list[Any]]:
    """The row with a letter per size where one stands for as many dimensions as an argument has,
    and those sizes."""
    left, right = read_rule(row.rule)
    letters: dict[str, list[str]] = {}
    sizes: dict[str, int] = {}
    for letter, argument in row.spread.items():
        given = ctx.sizes(ctx.named(argument))
        several = [f"{letter}.{i}" for i in range(len(given))]
        names = [letter] * len(given) if letter == "u" or len(given) == 1 else several
        letters[letter] = names
        sizes |= {} if letter == "u" else dict(zip(names, given, strict=True))
    if not letters:
        return row, sizes, left, right

    def wide(dims: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
        return [
            (n,) if len(dim) == 1 else dim for dim in dims for n in letters.get(dim[0], dim[:1])
        ]

    def spread(names: Sequence[str]) -> tuple[str, ...]:
        return tuple(m for n in names for m in letters.get(n, [n]))

    row = replace(row, whole=spread(row.whole), sums=spread(row.sums))
    return row, sizes, [wide(d) for d in left], [wide(d) for d in right]


def _one(ctx: Context, row: Row) -> list[View]:
    row, spread, left, right = _spread(ctx, row)
    present = [i for i, w in enumerate(row.operands) if not _absent(ctx, w)]
    operands = [(_operand(ctx, row.operands[i]), left[i]) for i in present]
    rest = _rest(operands)
    known = {name: _size(ctx, row, value) for name, value in row.sizes.items()} | {"u": 1}
    known |= spread
    expanded = [(view, _expand(dims, rest)) for view, dims in operands]
    for view, dims in expanded:
        _learn(view, dims, known)
    lettered = [_flat(view, dims, known) for view, dims in expanded]
    letters = {n for _, names in lettered for n in names}
    lettered, times = _once(row, lettered)
    for letter in letters:
        if _is_summed(row, letter) and _repeats(lettered, letter):
            raise Unsupported("it adds up over a repeated dimension")
    results = [_expand(dims, rest) for dims in right]
    outs = [[n for dim in dims for n in dim] for dims in results]
    created = {n: known[n] for names in outs for n in names if n not in letters}

    def naming(letter: str, places: tuple[int, ...]) -> tuple[str, str]:
        if letter in created:
            return letter, "created"
        if letter in row.whole:
            return letter, "whole"
        if _is_summed(row, letter):
            return letter, "sum"
        return ("..." if letter.startswith("...") else letter), "parallel"

    attrs = attributes(ctx, [ctx.named(which) for which in (*row.ignore, *row.operands)])
    signature = f"{row.target}[{','.join(map(str, row.results))}]({attrs})"
    if any(ctx.node.bound.get(name) is None for name in row.own if name in ctx.node.bound):
        signature += f" of {ctx.node.dtype or ctx.dtype_of(ctx.raw(ctx.named(row.operands[0])))}"
    if len(present) < len(row.operands):
        signature += f" with operands {present}"
    linear = [present.index(i) for i in row.linear if i in present]
    split = refine(lettered, [n for n in letters if _is_summed(row, n)])
    made = ctx.apply(signature, split, outs, naming, linear=linear, created=created)
    if row.assume:
        ctx.notes.assume("opaque kernel", row.assume)
    sizes = known | {n: e for v, ns in lettered for n, e in zip(ns, v.shape, strict=True) if e > 1}
    return [_grouped(v.scaled(times), dims, sizes) for v, dims in zip(made, results, strict=True)]


def _once(row: Row, lettered: Sequence[Lettered]) -> tuple[list[Lettered], Scale]:
    """What is added up over a dimension whose positions are all alike is one of them, so many times
    (the gradient of a mean over tokens, where a bias is added to each)."""
    extents: dict[str, int] = {}
    alike: dict[str, bool] = {}
    for view, names in lettered:
        for name, dim, extent in zip(names, view.dims, view.shape, strict=True):
            if _is_summed(row, name):
                extents[name] = max(extent, extents.get(name, 1))
                alike[name] = alike.get(name, True) and all(d.dim < 0 for d in dim)
    gone = {name for name, extent in extents.items() if extent > 1 and alike[name]}
    times = ONE
    for name in sorted(gone):
        times = times * count(extents[name])
    return [(_at_once(view, names, gone), names) for view, names in lettered], times


def _at_once(view: View, names: Sequence[str], gone: Set[str]) -> View:
    pairs = zip(names, view.dims, strict=True)
    return replace(view, dims=tuple(() if name in gone else dim for name, dim in pairs))


def _is_summed(row: Row, letter: str) -> bool:
    return letter in row.sums or ("..." in row.sums and letter.startswith("..."))


def _repeats(lettered: Sequence[tuple[View, list[str]]], letter: str) -> bool:
    """Does no operand tell the positions of a dimension apart? A sum would count them."""
    dims = [
        dim
        for view, names in lettered
        for n, dim in zip(names, view.dims, strict=True)
        if n == letter
    ]
    return not any(all(d.dim >= 0 for d in dim) for dim in dims)


def _grouped(view: View, dims: list[tuple[str, ...]], sizes: dict[str, int]) -> View:
    shape = [prod(sizes.get(n, 1) for n in dim) for dim in dims]
    again = view.reshaped(shape)
    if again is None:
        raise Unsupported("its result does not split that way")
    return again


def _size(ctx: Context, row: Row, value: int | str) -> int:
    found = value if isinstance(value, int) else ctx.argument(value)
    if not isinstance(found, int):
        raise Unsupported(f"attribute `{value}` is not an integer")
    return found


def _rest(operands: Sequence[tuple[View, Any]]) -> int:
    """How many dimensions ``...`` stands for."""
    counts = {
        len(view.dims) - sum(d != ("...",) for d in dims)
        for view, dims in operands
        if ("...",) in dims
    }
    if len(counts) > 1 or any(c < 0 for c in counts):
        raise Unsupported("its operands differ in rank")
    return counts.pop() if counts else 0


def _expand(dims: list[tuple[str, ...]], rest: int) -> list[tuple[str, ...]]:
    names = tuple(f"...{i}" for i in range(rest))
    out: list[tuple[str, ...]] = []
    for dim in dims:
        if dim == ("...",):
            out += [(n,) for n in names]
        elif dim[0] == "?":
            out.append((MAYBE + dim[1],))
        elif dim[0] == "(":
            out.append(tuple(m for n in dim[1:] for m in (names if n == "..." else (n,))))
        else:
            out.append(dim)
    return out


def _learn(view: View, dims: list[tuple[str, ...]], known: dict[str, int]) -> None:
    if len(dims) != len(view.dims):
        raise Unsupported(f"an operand has {len(view.dims)} dimensions, its rule {len(dims)}")
    for names, extent in zip(dims, view.shape, strict=True):
        name = names[0].removeprefix(MAYBE)
        if len(names) == 1 and (name not in known or extent > 1) and name == names[0]:
            known[name] = extent


def _flat(view: View, dims: list[tuple[str, ...]], known: dict[str, int]) -> tuple[View, list[str]]:
    """The operand with every composite dimension split."""
    shape: list[int] = []
    for given, extent in zip(dims, view.shape, strict=True):
        names = [n.removeprefix(MAYBE) for n in given]
        if names != list(given) and extent == 1:
            shape.append(1)
            continue
        open_ = [n for n in names if n not in known]
        inner = prod(known[n] for n in names if n in known)
        if len(open_) > 1 or (open_ and extent % inner) or (not open_ and inner != extent):
            raise Unsupported(f"{extent} positions do not split into {' x '.join(names)}")
        if open_:
            known[open_[0]] = extent // inner
        shape += [known[n] for n in names]
    flat = view.reshaped(shape)
    if flat is None:
        raise Unsupported("an operand does not split that way")
    return flat, [n.removeprefix(MAYBE) for names in dims for n in names]
