"""Arithmetic: sums, scalar factors, products, reductions, normalisations."""

from __future__ import annotations

from collections.abc import Sequence

from gg_datalog.extract.context import Context, Unsupported, Value, attributes, lowers
from gg_datalog.extract.dtypes import (
    PLAIN_IDS,
    arithmetic,
    holds_all,
    interval,
    is_float,
    is_integer,
    learn,
    product,
    span,
    total,
    valued,
)
from gg_datalog.extract.exponent_rules import (
    logarithm,
    of_logarithm,
    of_sum,
)
from gg_datalog.extract.exponent_shares import (
    interpolated,
)
from gg_datalog.extract.exponents import (
    adds_noted,
    also_sum,
    collected,
    is_real,
    leaves,
    written_terms,
)
from gg_datalog.extract.finite import may_be_infinite
from gg_datalog.extract.halves import Half, over_base, positions
from gg_datalog.extract.lower_lookup import of_rows, without_maximum
from gg_datalog.extract.lower_movement import need, stretched, zeros_of
from gg_datalog.extract.lower_positions import shifted
from gg_datalog.extract.piecewise import summed
from gg_datalog.extract.records import Operator
from gg_datalog.extract.scale import ONE, Scale, scale
from gg_datalog.extract.signature import packet_of
from gg_datalog.extract.stacks import by_member, stacked
from gg_datalog.extract.view import View, broadcast


def added(ctx: Context, terms: Sequence[tuple[View, Scale]]) -> View:
    """The sum of scaled terms, broadcast against each other. Of integers it is one modulo their
    width, unless it surely fits."""
    for view, by in terms:
        if by.zero and not view.scale.zero:
            vanishes(ctx, view)
    shape = broadcast([v for v, _ in terms])
    if (numbers := shifted(ctx, terms)) is not None:
        return stretched(numbers, shape)
    dtype = ctx.node.dtype or ""
    views = [v.scaled(s) for v, s in terms if not s.zero and not v.scale.zero]
    if is_integer(dtype):
        if any(by.integer is None for _, by in terms):
            raise Unsupported(f"a factor that is cut to {dtype}")
        found = total(interval(v, dtype) for v in views)
        views = arithmetic(ctx, views, dtype, found)
    wide = [stretched(v, shape) for v in views]
    if not wide:
        return zeros_of(ctx, shape)
    if ctx.side.notes.shared and (other := interpolated(ctx, wide)) is not None:
        wide = other
    if (least := _bottomless(ctx, wide)) is not None:
        return least
    if not is_integer(dtype) and (stack := _of_members(ctx, wide)) is not None:
        return stack
    out = None if is_integer(dtype) else summed(ctx.side, wide, ctx.side.sum)
    out = out or need(ctx.side.sum(wide, integers=is_integer(dtype)))
    if not is_integer(dtype):
        return _in_other_words(ctx, of_sum(ctx, out, wide), wide)
    if not out.base.ring:
        learn(out, found)
    return out


def _bottomless(ctx: Context, terms: Sequence[View]) -> View | None:
    """-inf, where it is a term and the others are finite."""
    low = [t for t in terms if is_bottomless(t)]
    rest = [t for t in terms if not is_bottomless(t)]
    if len(low) != 1 or not all(is_real(ctx, t.base) for t in rest):
        return None
    return low[0]


def is_bottomless(x: View, what: str = "-inf") -> bool:
    """Is it -inf everywhere?"""
    made = x.base.made
    full = isinstance(made, Operator) and made.signature == f"constant({what})"
    return full and x.scale == ONE


@lowers("aten.maximum", "aten.minimum")
def maximum(ctx: Context) -> Value:
    both = [ctx.argument(name) for name in ("self", "other")]
    least = "-inf" if "maximum" in ctx.node.target else "inf"
    for x, other in (both, both[::-1]):
        if isinstance(x, View) and is_bottomless(x, least) and isinstance(other, View):
            return stretched(other, broadcast([x, other]))
    return plain(ctx)


def _of_members(ctx: Context, terms: Sequence[View]) -> View | None:
    """The sum of stacks, member by member."""

    def one(row: list[View]) -> list[View]:
        return [added(ctx, [(term, ONE) for term in row])]

    found = by_member(ctx.side, terms, one)
    return None if found is None else found[0]


def _in_other_words(ctx: Context, made: View, terms: Sequence[View]) -> View:
    """Notes that a score looked up less the logarithm of the sum of all exponentials is the same of
    scores without their maximum, and that what was taken away from scores cancels."""
    notes = ctx.side.notes
    if not adds_noted(notes, terms):
        return made
    each = [leaf for t in terms for leaf in written_terms(t)]
    if any(t.base in notes.summed for t in each):
        apart = [leaf for t in each for leaf in leaves(ctx, t)]
        plain = collected(ctx, apart)
        if plain and len(plain) < len(apart):
            also_sum(ctx, made, plain, known=False)
    if not notes.stable or not any(t.base in notes.stable for t in each):
        return made
    if not any(t.base in notes.looked for t in each):
        return made
    found = collected(ctx, [part for t in each for part in without_maximum(ctx, t)])
    highs = {low.high.base for low in notes.lows.values()}
    if found and not any(t.base in highs for t in found):
        also_sum(ctx, made, found, known=False)
    return made


FINITE = (
    "finite values",
    "what is multiplied by 0 holds no infinity and no NaN, so that the product is 0",
)


def vanishes(ctx: Context, x: View) -> None:
    """0 times a tensor is 0 only where the tensor is finite: :class:`Unsupported` where something
    that may be infinite was put into it; an assumption where it comes from inputs."""
    if x.base.kind == "uninitialised":
        raise Unsupported("0 times memory that nobody has written")
    if may_be_infinite(x.base):
        raise Unsupported("0 times what may be infinite is not 0")
    if not is_bounded(x):
        ctx.notes.assume(*FINITE)


def is_bounded(x: View) -> bool:
    """Is it made of numbers that are surely finite: truth values, integers, constants?"""
    return x.base.kind == "constant" or x.base.range is not None or span(x.base.dtype) is not None


def factor(ctx: Context, *names: str) -> Scale:
    """A scalar keyword such as alpha; 1 where the operator has none. Some kernels cut it to the
    type of their integers."""
    found = ctx.number(*names, default=1)
    if found is None:
        raise Unsupported(f"`{names[0]}` is not known")
    if found.integer is None and is_integer(ctx.node.dtype or ""):
        raise Unsupported(f"`{names[0]}` is cut to {ctx.node.dtype}")
    return found


@lowers("aten.add")
def add(ctx: Context) -> Value:
    if ctx.node.dtype == "bool":
        raise Unsupported("a sum of booleans")
    alpha = factor(ctx, "alpha")
    return added(ctx, [(ctx.operand("self"), ONE), (ctx.operand("other"), alpha)])


@lowers("aten.sub", "aten.subtract")
def sub(ctx: Context) -> Value:
    alpha = factor(ctx, "alpha") * scale(-1)
    return added(ctx, [(ctx.operand("self"), ONE), (ctx.operand("other"), alpha)])


@lowers("aten.rsub")
def rsub(ctx: Context) -> Value:
    alpha = factor(ctx, "alpha") * scale(-1)
    return added(ctx, [(ctx.operand("other"), ONE), (ctx.operand("self"), alpha)])


@lowers("aten.neg")
def neg(ctx: Context) -> Value:
    return added(ctx, [(ctx.operand("self"), scale(-1))])


def times(ctx: Context, x: View, by: Scale, shape: Sequence[int]) -> View:
    """A tensor times a scalar, broadcast to ``shape``."""
    if by.zero or ctx.side.is_zero(x):
        if by.zero and not ctx.side.is_zero(x):
            vanishes(ctx, x)
        return zeros_of(ctx, shape)
    dtype = ctx.node.dtype or ""
    if is_integer(dtype):
        if by.integer is None:
            raise Unsupported(f"a product that is cut to {dtype}")
        found = product(interval(x, dtype), (by.integer, by.integer))
        x = arithmetic(ctx, [x], dtype, found)[0]
    return stretched(x, shape).scaled(by)


@lowers("aten.clamp", "aten.clip")
def clamp(ctx: Context) -> Value:
    x, bounds = ctx.tensor("self"), [ctx.argument("min"), ctx.argument("max")]
    out = plain(ctx)
    integers = is_integer(ctx.node.dtype or "") and is_integer(ctx.dtype("self"))
    known = all(type(bound) is int and abs(bound) < 2**30 for bound in bounds)
    if not isinstance(out, View) or not integers or not known or bounds[0] > bounds[1]:
        return out
    learn(out, (bounds[0], bounds[1]))
    of = valued(ctx, x)
    plainly = out.dims == of.dims and out.base.shape == of.base.shape and of.scale == ONE
    if plainly and ctx.dtype("self") in PLAIN_IDS:
        ctx.side.integers.clamps.append((out.base, of.base, *bounds))
    return out


@lowers("aten.log")
def log(ctx: Context) -> Value:
    if stacked(ctx.side, ctx.tensor("self")) is not None:
        return logarithm(ctx, ctx.operand("self"))
    out = plain(ctx)
    floats = is_float(ctx.dtype("self") or "float")
    return of_logarithm(ctx, out, ctx.operand("self")) if isinstance(out, View) and floats else out


def integer_pair(ctx: Context, out: View, op: str, a: View, b: View) -> None:
    """Notes `op` for the vocabulary lemma where it works on whole bases as they are."""
    if (
        a.dims == b.dims
        and a.base.shape == b.base.shape == out.base.shape
        and a.scale == b.scale == ONE
    ):
        ctx.side.integers.pairs.append((out.base, op, a.base, b.base))


def compared(ctx: Context, name: str, a: View, b: View) -> Half | None:
    """Where a comparison of positions is true, in the dimensions of the result."""
    starts = {base: c.start for base, c in ctx.side.notes.counted.items() if c.step == 1}
    found, rank = [], max(len(a.dims), len(b.dims))
    for view in (a, b) if name in ("gt", "ge") else (b, a):
        number = ctx.as_number(view)
        whole = None if number is None else number.integer
        at = (-1, whole) if whole is not None else None
        if at is None and view.scale == ONE:
            at = positions(view, starts)
        if at is None or at[1] is None:
            return None
        dim, start = at
        found.append((dim + rank - len(view.dims) if dim >= 0 else dim, start))
    (col, up), (row, down) = found
    if row == col:
        return None
    return Half(row, col, down - up + int(name in ("gt", "lt")))


COMPARISONS = {"lt": ("lt", 0), "le": ("lt", 1), "ge": ("ge", 0), "gt": ("ge", 1)}


@lowers("aten.lt", "aten.le", "aten.ge", "aten.gt")
def compare(ctx: Context) -> Value:
    name = ctx.node.target.split(".")[1]
    dtype = ctx.dtype("self")
    x, bound = valued(ctx, ctx.tensor("self")), ctx.argument("other")
    other = ctx.tensor("other")
    half = compared(ctx, name, x, other)
    if half is not None and (known := half.everywhere(broadcast([x, other]))) is not None:
        return need(ctx.side.constant(scale(int(known))).expanded(broadcast([x, other])))
    out = ctx.elementwise(name, [x, other])[0]
    if half is not None and (found := over_base(half, out)) is not None:
        ctx.side.notes.halves.setdefault(out.base, found)
    plain = out.base.shape == x.base.shape and x.scale == ONE
    whole = type(bound) is int and abs(bound) < 2**30
    if plain and whole and dtype in ("", *PLAIN_IDS):
        kind, more = COMPARISONS[name]
        ctx.side.integers.tests.append((out.base, x.base, kind, bound + more))
    return out


# Functions of the numbers alone, whatever their type.
OF_NUMBERS = frozenset(
    ["clamp", "clamp_max", "clamp_min", "clip", "eq", "ge", "gt", "isinf", "isnan", "le", "lt",
     "logical_and", "logical_not", "logical_or", "logical_xor", "maximum", "minimum", "ne", "relu",
     "sign"]
)  # fmt: skip


def kinds(ctx: Context) -> str:
    """The types of the operands, as a part of the signature, where integers are among them: another
    width is another function."""
    given = ctx.node.signature
    tensors = {p.name for p in given.parameters if p.tensor} if given is not None else None
    found = [
        ctx.dtype_of(value)
        for name, value in ctx.read().items()
        if tensors is None or name in tensors
    ]
    types = ["float" if is_float(dtype) else dtype for dtype in found if dtype]
    integers = [dtype for dtype in types if is_integer(dtype)]
    return f" of {', '.join(types)}" if integers else ""


def _cut(ctx: Context) -> str:
    """Where a result is written into a narrower integer type than that of an operand (in place, or
    into an output that is given), its numbers are cut: the types, as a part of the signature."""
    given = [ctx.dtype_of(value) for value in ctx.read().values()]
    narrower = any(is_integer(d) and not holds_all(ctx.node.dtype or "", d) for d in given)
    return f"{kinds(ctx)} to {ctx.node.dtype}" if narrower else ""


def plain(ctx: Context) -> Value:
    """An elementwise operator of the table, with all its attributes in the signature."""
    views = [v for v in map(ctx.value, ctx.read().values()) if isinstance(v, View)]
    name = packet_of(ctx.node.target)
    short = name.split(".")[-1]
    flags = ctx.table.elementwise.get(name, ())
    signature = f"{short}({attributes(ctx)})"
    if not is_float(ctx.node.dtype or "float") and short not in OF_NUMBERS:
        signature += kinds(ctx)
    elif is_integer(ctx.node.dtype or ""):
        signature += _cut(ctx)
    if not views:
        raise Unsupported("no operand is a tensor")
    if "typed" in flags:
        signature += f" of {ctx.node.dtype}"
    if "signed" in flags:
        ctx.notes.assume("signed zeros", f"{name} is given zeros of the same sign on both sides")
    first = ctx.value(next(iter(ctx.node.bound.values()), None))
    passes = "monotone" in flags
    if not is_float(ctx.node.dtype or "float"):
        passes = passes and all(v.scale == ONE and not v.base.ring for v in views)

    def apply(operands: list[View]) -> View:
        return ctx.elementwise(
            signature,
            operands,
            linear=(0,) if "linear" in flags and isinstance(first, View) else (),
            passes=[(i, k) for i in range(len(views)) for k in ("max", "min")] if passes else (),
        )[0]

    out = apply(views)
    if len(views) == 1 and is_float(ctx.node.dtype or ""):
        of_rows(ctx, out, views[0], lambda table: apply([table]))
    return out
