"""Convolutions and norms over groups of channels, which a rank may have some of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from gg_datalog.extract.context import Context, Unsupported, Value, lowers
from gg_datalog.extract.dtypes import is_float
from gg_datalog.extract.graph import is_symbolic
from gg_datalog.extract.labels import Letters
from gg_datalog.extract.lower_contract import contract, refine
from gg_datalog.extract.lower_math import added
from gg_datalog.extract.lower_movement import beside, need
from gg_datalog.extract.lower_product import multiplied
from gg_datalog.extract.lower_reduce import reduced
from gg_datalog.extract.scale import ONE, scale
from gg_datalog.extract.shifts import Axis, axes_of, backwards, by_tap, of_kernel
from gg_datalog.extract.view import View

# What a dimension is: of the batch, a group of channels, a channel of the input or of the output in
# its group; a position of a dimension in space that is told tap by tap (:mod:`.shifts`). Other
# dimensions in space may not be cut.
FACTORS = {"n": "n", "g": "g", "c": "c", "o": "o", "p0": "p", "p1": "p", "p2": "p"}


# ---- convolutions
@lowers("aten.convolution", "aten._convolution")
def convolution(ctx: Context) -> Value:
    x, w = ctx.tensor("input"), ctx.tensor("weight")
    transposed = bool(ctx.argument("transposed"))
    way = _way(ctx, len(w.dims) - 2, transposed)
    for name in ("benchmark", "deterministic", "cudnn_enabled", "allow_tf32"):
        ctx.raw(name)  # how it is computed
    return _convolved(ctx, x, w, way, transposed)


@lowers("aten.conv1d", "aten.conv2d", "aten.conv3d")
def plain_convolution(ctx: Context) -> Value:
    x, w = ctx.tensor("input"), ctx.tensor("weight")
    return _convolved(ctx, x, w, _way(ctx, len(w.dims) - 2, False), False)


def _ways(ctx: Context, rank: int) -> list[list[int]]:
    """Steps, padding, distances and what is added to sizes, per dimension in space."""
    if rank < 1:
        raise Unsupported("a weight without dimensions in space")
    lists = []
    for name, default in (("stride", 1), ("padding", 0), ("dilation", 1), ("output_padding", 0)):
        if name not in ctx.node.bound and name == "output_padding":
            lists.append([default] * rank)
            continue
        given = ctx.sizes(name) or (default,)
        lists.append(list(given) * rank if len(given) == 1 else list(given))
    return lists


def _way(ctx: Context, rank: int, transposed: bool) -> str:
    """How positions in space belong together, as text: whatever is not of channels."""
    return f"{_ways(ctx, rank)}{' transposed' if transposed else ''}"


def _convolved(ctx: Context, x: View, w: View, way: str, transposed: bool) -> View:
    """The sum over the channels of each group, and the bias."""
    groups = _groups(ctx)
    x, w = _grouped(x, 1, groups), _grouped(w, 0, groups)
    size = _ints(ctx.node.shape)[2:]
    inside, outside = ("o", "c") if not transposed else ("c", "o")
    made = _summed(
        ctx,
        "convolution",
        way,
        [(x, ["n", "g", "c"], "x"), (w, ["g", inside, outside], "k")],
        (["n", "g", "o"], "y", size),
    )
    axes = [] if transposed else axes_of(ctx, w.shape[3:], _ways(ctx, len(size)), size)
    if axes:
        out = [x.shape[0], groups, w.shape[1], *size]
        one = _Taps(ctx, "convolution", axes, len(size), ("ngc", "goc", "ngo"), size)
        told = by_tap(ctx, x, w, axes, out, one.product)
        ctx.side.alternative(told, made)
        made = told
    made = need(made.reshaped(_ints(ctx.node.shape)))
    if ctx.argument("bias") is None:
        return made
    bias = ctx.tensor("bias")
    return added(ctx, [(made, ONE), (beside(bias, len(size)), ONE)])


@dataclass
class _Taps:
    """What one tap gives: a product over channels, and in the other dimensions in space a
    convolution. ``letters``: of both operands and of what comes out, which has ``size`` there."""

    ctx: Context
    name: str
    axes: Sequence[Axis]
    rank: int
    letters: tuple[Sequence[str], Sequence[str], Sequence[str]]
    size: Sequence[int]

    @property
    def rest(self) -> list[int]:
        """The other dimensions in space."""
        return [i for i in range(self.rank) if i not in self.places]

    @property
    def places(self) -> list[int]:
        """The dimensions in space that are told tap by tap."""
        return [axis.place for axis in self.axes]

    def product(self, x: View, w: View) -> View:
        """Of positions, and the position of the kernel that they meet."""
        at = [f"p{i}" for i in range(len(self.axes))]
        one, two, out = (list(letters) for letters in self.letters)
        made = self._made(self._sorted(x), [*one, *at], self._bare(w), two, [*out, *at])
        return self._back(made)

    def gradient(self, g: View, x: View) -> View:
        """Of the position of the kernel, added up over the positions that meet."""
        at = [f"p{i}" for i in range(len(self.axes))]
        one, two, out = (list(letters) for letters in self.letters)
        made = self._made(self._sorted(g), [*one, *at], self._sorted(x), [*two, *at], out)
        for place in sorted(self.places):
            made = made.unsqueezed(3 + place)
        return made

    def _made(self, a: View, la: Letters, b: View, lb: Letters, out: Letters) -> View:
        if not self.rest:
            return contract(self.ctx, a, la, b, lb, out)
        ways = [[one[i] for i in self.rest] for one in _ways(self.ctx, self.rank)]
        kinds = {"convolution": "xky", "convolution_backward of input": "ykx"}.get(self.name, "yxk")
        size = [self.size[i] for i in self.rest]
        operands = [(a, la, kinds[0]), (b, lb, kinds[1])]
        return _summed(self.ctx, self.name, f"{ways}", operands, (out, kinds[2], size))

    def _sorted(self, x: View) -> View:
        """Positions that are told tap by tap before the other ones."""
        return x.permuted([0, 1, 2, *(3 + i for i in (*self.places, *self.rest))])

    def _bare(self, w: View) -> View:
        """A position of the kernel without these dimensions."""
        for place in sorted(self.places, reverse=True):
            w = w.without(3 + place)
        return w

    def _back(self, made: View) -> View:
        order = [*self.places, *self.rest]
        return made.permuted([0, 1, 2, *(3 + order.index(i) for i in range(self.rank))])


def _groups(ctx: Context) -> int:
    groups = ctx.argument("groups")
    if not isinstance(groups, int) or groups < 1 or not is_float(_type(ctx)):
        raise Unsupported("its groups are not known")
    return groups


def _type(ctx: Context) -> str:
    return ctx.node.dtype or ctx.dtype("input")


def _ints(shape: Sequence[int | str] | None) -> list[int]:
    return [int(e) for e in shape or ()]


def _grouped(x: View, dim: int, groups: int) -> View:
    """A dimension of channels as groups and channels in a group."""
    shape = list(x.shape)
    if len(shape) <= dim or shape[dim] % groups:
        raise Unsupported("its channels are no whole groups")
    shape[dim : dim + 1] = [groups, shape[dim] // groups]
    found = x.reshaped(shape)
    if found is None:
        raise Unsupported("its channels do not split into groups")
    return found


def _summed(
    ctx: Context,
    name: str,
    way: str,
    operands: Sequence[tuple[View, Letters, str]],
    result: tuple[Letters, str, Sequence[int]],
) -> View:
    """An operator that is linear in both operands, and adds up over each dimension of channels (or
    of the batch) that the result does not have. Sizes in space are a part of its name."""
    out, made, space = result
    lettered, sizes = [], []
    for x, letters, kind in operands:
        if ctx.side.is_zero(x):
            raise Unsupported("a convolution with 0")
        around = x.shape[len(letters) :]
        if len(around) != len(space):
            raise Unsupported("an operand without a batch")
        sizes.append(list(around))
        names = [*letters, *(f"{kind}{i}" for i in range(len(around)))]
        lettered.append((View(x.base, x.dims), names))
    given = {n for _, names in lettered for n in names}
    gone = [n for n in FACTORS if n in given and n not in out]
    for letter in gone:
        dims = [
            dim
            for x, names in lettered
            for n, dim in zip(names, x.dims, strict=True)
            if n == letter
        ]
        if all(any(d.dim < 0 for d in dim) for dim in dims):
            raise Unsupported("it adds up over a repeated dimension")
    created = {f"{made}{i}": extent for i, extent in enumerate(space)}

    def naming(letter: str, places: tuple[int, ...]) -> tuple[str, str]:
        if letter in created:
            return letter, "created"
        if letter not in FACTORS:
            return letter, "whole"
        return FACTORS[letter], "sum" if letter in gone else "parallel"

    signature = f"{name}({way}) {[*sizes, list(space)]}"
    names = [*out, *created]
    found = ctx.apply(
        signature, refine(lettered, gone), [names], naming, linear=(0, 1), created=created
    )[0]
    for x, _, _ in operands:
        found = found.scaled(x.scale)
    return found


@lowers("aten.convolution_backward")
def convolution_backward(ctx: Context) -> Value:
    g, x, w = ctx.tensor("grad_output"), ctx.tensor("input"), ctx.tensor("weight")
    wanted = ctx.argument("output_mask")
    if not isinstance(wanted, tuple) or len(wanted) != 3:
        raise Unsupported("which gradients are wanted is not known")
    transposed = bool(ctx.argument("transposed"))
    space = len(w.dims) - 2
    way, groups = _way(ctx, space, transposed), _groups(ctx)
    ctx.raw("bias_sizes")
    inside, outside = ("o", "c") if not transposed else ("c", "o")
    of_g = (_grouped(g, 1, groups), ["n", "g", "o"], "y")
    of_x = (_grouped(x, 1, groups), ["n", "g", "c"], "x")
    of_w = (_grouped(w, 0, groups), ["g", inside, outside], "k")
    axes = [] if transposed else axes_of(ctx, w.shape[2:], _ways(ctx, space), g.shape[2:])
    found: list[View | None] = [None, None, None]
    if wanted[0]:
        made = _summed(
            ctx,
            "convolution_backward of input",
            way,
            [of_g, of_w],
            (["n", "g", "c"], "x", x.shape[2:]),
        )
        if axes:
            back = backwards(axes, x.shape[2:])
            name = "convolution_backward of input"
            one = _Taps(ctx, name, axes, space, ("ngo", "goc", "ngc"), x.shape[2:])
            shape = [x.shape[0], groups, x.shape[1] // groups, *x.shape[2:]]
            told = by_tap(ctx, of_g[0], of_w[0], back, shape, one.product)
            ctx.side.alternative(told, made)
            made = told
        found[0] = need(made.reshaped(x.shape))
    if wanted[1]:
        made = _summed(
            ctx,
            "convolution_backward of weight",
            way,
            [of_g, of_x],
            (["g", inside, outside], "k", w.shape[2:]),
        )
        if axes:
            name = "convolution_backward of weight"
            one = _Taps(ctx, name, axes, space, ("ngo", "ngc", "goc"), w.shape[2:])
            told = of_kernel(ctx, of_g[0], of_x[0], axes, of_w[0].shape, one.gradient)
            ctx.side.alternative(told, made)
            made = told
        found[1] = need(made.reshaped(w.shape))
    if wanted[2]:
        found[2] = reduced(ctx, g, [i for i in range(len(g.dims)) if i != 1], "sum", False)
    return tuple(found)


# ---- norms over the channels of a group
@lowers("aten.native_group_norm")
def native_group_norm(ctx: Context) -> Value:
    x, groups, eps = ctx.tensor("input"), _number(ctx, "group"), ctx.argument("eps")
    _expect_sizes(ctx, x)
    split = _normed(x, groups)
    letters = [str(i) for i in range(len(split.dims))]

    def naming(letter: str, places: tuple[int, ...]) -> tuple[str, str]:
        return (letter, "parallel") if letter in "01" else (letter, "whole")

    signature = f"native_group_norm({eps!r}) {list(split.shape[2:])}"
    made = ctx.apply(signature, [(split, letters)], [letters, ["0", "1"], ["0", "1"]], naming)
    out = need(made[0].reshaped(x.shape))
    space = len(x.dims) - 2
    if ctx.argument("weight") is not None:
        out = multiplied(ctx, out, beside(ctx.tensor("weight"), space))
    if ctx.argument("bias") is not None:
        out = added(ctx, [(out, ONE), (beside(ctx.tensor("bias"), space), ONE)])
    return out, made[1], made[2]


def _expect_sizes(ctx: Context, x: View) -> None:
    """The sizes that are given are those of the input: others would group what lies in memory."""
    asked = [ctx.argument(name) for name in ("N", "C", "HxW")]
    sizes = [*x.shape[:2], prod(x.shape[2:])]
    if not any(map(is_symbolic, sizes)) and asked != sizes:
        raise Unsupported("its sizes are not those of its input")


def _number(ctx: Context, name: str) -> int:
    found = ctx.argument(name)
    if not isinstance(found, int) or found < 1:
        raise Unsupported(f"`{name}` is not known")
    return found


def _normed(x: View, groups: int) -> View:
    """[batch, group, channel in it, ...]"""
    if len(x.dims) < 2:
        raise Unsupported("its input has no channels")
    return _grouped(x, 1, groups)


@lowers("aten.native_group_norm_backward")
def native_group_norm_backward(ctx: Context) -> Value:
    g, x, groups = ctx.tensor("grad_out"), ctx.tensor("input"), _number(ctx, "group")
    wanted = ctx.argument("output_mask")
    if not isinstance(wanted, tuple) or len(wanted) != 3:
        raise Unsupported("which gradients are wanted is not known")
    _expect_sizes(ctx, x)
    mean, rstd = (_statistic(ctx, name, x, groups) for name in ("mean", "rstd"))
    space = len(x.dims) - 2
    weight = ctx.argument("weight")
    found: list[View | None] = [None, None, None]
    split = _normed(x, groups)
    letters = [str(i) for i in range(len(split.dims))]
    if wanted[0]:
        by = g if weight is None else multiplied(ctx, g, beside(ctx.tensor("weight"), space))

        def naming(letter: str, places: tuple[int, ...]) -> tuple[str, str]:
            return (letter, "parallel") if letter in "01" else (letter, "whole")

        operands = [
            (_normed(by, groups), letters),
            (split, letters),
            (mean, ["0", "1"]),
            (rstd, ["0", "1"]),
        ]
        signature = f"native_group_norm_backward {list(split.shape[2:])}"
        made = ctx.apply(signature, operands, [letters], naming, linear=(0,))[0]
        found[0] = need(made.reshaped(x.shape))
    over = [i for i in range(len(x.dims)) if i != 1]
    if wanted[1]:
        middle, root = (beside(v, len(split.dims) - 2) for v in (mean, rstd))
        apart = added(ctx, [(split, ONE), (middle, scale(-1))])
        even = need(multiplied(ctx, apart, root).reshaped(x.shape))
        found[1] = reduced(ctx, multiplied(ctx, g, even), over, "sum", False)
    if wanted[2]:
        found[2] = reduced(ctx, g, over, "sum", False)
    return tuple(found)


def _statistic(ctx: Context, name: str, x: View, groups: int) -> View:
    """[batch, group]"""
    found = ctx.tensor(name).reshaped([x.shape[0], groups])
    if found is None:
        raise Unsupported(f"`{name}` is no number per group")
    return found
