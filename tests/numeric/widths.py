"""Steps on integers of every width and on masks, with values over the whole width; casts between them
and from and to floats; and what right programs do with them (counts of tokens, ids, positions)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .fuzz import ADDS, EXTREMA, Fuzzer, New, Operand, Rule, Tensor, letters
from .movement import divided, expanded, merged, sliced, split, transposed
from .promotion import INTEGERS, Invalid
from .writing import Ref, Site

SHAPES = ((4, 6), (2, 4), (8, 4), (4, 2, 6), (6,), (8,), (12, 4))
MODULAR = ("sum",)  # what partial sums of integers may pass: they stay right modulo the width


def integer(f: Fuzzer, dtypes: Sequence[str] = INTEGERS) -> Tensor:
    """An integer tensor (of one of these types): one that is there, or an input of the whole width."""
    there = [t for t in f.integers if t.dtype in dtypes and t.shape]
    if there and f.chance(0.7):
        return f.rng.choice(there[-4:])
    dtype = f.rng.choice(list(dtypes))
    shape = f.rng.choice(SHAPES)
    stem = "wide" if dtype != "bool" and f.chance(0.8) else "x"
    x = f.input(shape, f.layout_for(shape), dtype, stem)
    f.integers.append(x)
    return x


def another(f: Fuzzer, x: Tensor, dtype: str | None = None) -> Operand:
    """Another tensor of this shape (and type)."""
    dtype = dtype or x.dtype
    there = [t for t in f.integers if t.shape == x.shape and t.dtype == dtype]
    return (
        f.rng.choice(there[-4:])
        if there and f.chance(0.5)
        else New(dtype, "wide" if dtype != "bool" else "x")
    )


def on(f: Fuzzer, operands: Sequence[Operand], emit: Callable[[Site], Ref], **rule: Any) -> None:
    """An operator element by element."""
    dims = next(letters(x) for x in operands if isinstance(x, Tensor))
    f.apply(operands, Rule([dims] * len(operands), [dims], **rule), lambda at: [emit(at)])


def small(f: Fuzzer, dtype: str) -> int:
    """A number that every width holds."""
    return f.rng.choice([2, 3, 5, 7] if dtype == "uint8" else [2, 3, 5, 7, -1, -3])


# ---- element by element --------------------------------------------------------------------------------
def ring(f: Fuzzer, _: Tensor) -> None:
    """Sums, differences and products, which wrap around; also of open sums."""
    x = integer(f)
    kind = f.rng.choice(["add", "add", "sub", "mul", "neg", "times", "plus", "square", "rsub"])
    alpha = {"alpha": small(f, x.dtype)} if f.chance(0.2) and kind in ("add", "sub") else {}
    by = small(f, x.dtype)
    off = f.wrong(0.6, "another number")
    if kind in ("add", "sub", "mul"):
        opens = {"together": MODULAR} if kind != "mul" else {"open": {0: MODULAR}}
        on(
            f,
            [x, another(f, x)],
            lambda at: at.call(f"{kind}.Tensor", at[0], at[1], **alpha),
            **opens,
        )
        return

    def emit(at: Site) -> Ref:
        n = by + (off and not at.seq)
        if kind == "neg":
            return at.call("neg", at[0])
        if kind == "square":
            return at.call("mul.Tensor", at[0], at[0])
        if kind == "rsub":
            return at.call("rsub.Scalar", at[0], n)
        form = "Tensor" if n % 2 else "Scalar"
        return at.call(f"{'mul' if kind == 'times' else 'add'}.{form}", at[0], n)

    on(f, [x], emit, open={0: MODULAR} if kind in ("neg", "times") else {})


def other(f: Fuzzer, _: Tensor) -> None:
    """What is a function of the value, and not of sums of it."""
    x = integer(f)
    n = abs(small(f, x.dtype))
    forms: list[tuple[str, list[Any], dict[str, Any]]] = [
        ("abs", [], {}), ("floor_divide.Scalar", [n], {}), ("floor_divide", [n], {}),
        ("remainder.Scalar", [n], {}), ("fmod.Scalar", [n], {}), ("pow.Tensor_Scalar", [n], {}),
        ("div.Tensor_mode", [n], {"rounding_mode": "floor"}), ("sign", [], {}),
        ("div.Tensor_mode", [n], {"rounding_mode": "trunc"}), ("bitwise_not", [], {}),
        ("bitwise_left_shift.Tensor_Scalar", [n], {}), ("__rshift__.Scalar", [n], {}),
        ("bitwise_right_shift.Tensor_Scalar", [n], {}), ("__lshift__.Scalar", [n], {}),
        ("bitwise_and.Scalar", [n * 5], {}), ("bitwise_xor.Scalar", [n * 5], {}), ("relu", [], {}),
        ("clamp", [-n if x.dtype != "uint8" else n, 100], {}), ("clamp_min", [n], {}),
    ]  # fmt: skip
    name, args, kwargs = f.rng.choice(forms)
    if name == "floor_divide.Scalar":
        name = "floor_divide"
    opens = MODULAR if f.wrong(0.8, "before the reduction") else ()
    on(f, [x], lambda at: at.call(name, at[0], *args, **kwargs), open={0: opens})


def two(f: Fuzzer, _: Tensor) -> None:
    """Two tensors bit by bit, or the larger one."""
    x = integer(f)
    name = f.rng.choice(
        ["maximum", "minimum", "bitwise_and.Tensor", "bitwise_or.Tensor", "bitwise_xor.Tensor"]
    )
    opens = {"together": EXTREMA} if name == "maximum" and f.wrong(0.5) else {}
    on(f, [x, another(f, x)], lambda at: at.call(name, at[0], at[1]), **opens)


def promoted(f: Fuzzer, _: Tensor) -> None:
    """Two types together: the wider one."""
    x = integer(f, (*INTEGERS, "bool"))
    dtype = f.rng.choice([d for d in (*INTEGERS, "bool") if d != x.dtype])
    name = f.rng.choice(["add.Tensor", "mul.Tensor", "maximum"])
    on(f, [x, another(f, x, dtype)], lambda at: at.call(name, at[0], at[1]))


def compared(f: Fuzzer, _: Tensor) -> None:
    """A comparison: a mask; also of a difference, which wraps around."""
    x = integer(f)
    name, n = f.rng.choice(["eq", "ne", "lt", "le", "gt", "ge"]), abs(small(f, x.dtype))
    opens = MODULAR if f.wrong(0.8, "before the reduction") else ()
    forms = [f.rng.choice(["plain", "difference"])] * 2
    if f.wrong(0.6, "a comparison of a difference"):
        forms[0] = "difference" if forms[1] == "plain" else "plain"
    if f.chance(0.5):
        on(f, [x], lambda at: at.call(f"{name}.Scalar", at[0], n), open={0: opens})
        return

    def emit(at: Site) -> Ref:
        if forms[at.seq] == "plain":
            return at.call(f"{name}.Tensor", at[0], at[1])
        return at.call(f"{name}.Scalar", at.call("sub.Tensor", at[0], at[1]), 0)

    on(f, [x, another(f, x)], emit)


def logical(f: Fuzzer, _: Tensor) -> None:
    """Masks joined and inverted."""
    x = integer(f, ("bool",))
    name = f.rng.choice(
        ["logical_and", "logical_or", "logical_xor", "bitwise_and.Tensor", "bitwise_or.Tensor",
         "bitwise_xor.Tensor", "bitwise_not", "logical_not", "add.Tensor", "mul.Tensor"]
    )  # fmt: skip
    if name.endswith("_not"):
        on(f, [x], lambda at: at.call(name, at[0]))
        return
    on(f, [x, another(f, x)], lambda at: at.call(name, at[0], at[1]))


def chosen(f: Fuzzer, _: Tensor) -> None:
    """Integers where a mask is true, others elsewhere."""
    x = integer(f)
    fill, n = f.chance(0.4), abs(small(f, x.dtype))

    def emit(at: Site) -> Ref:
        if fill:
            return at.call("masked_fill.Scalar", at[0], at[1], n)
        return at.call("where.self", at[1], at[0], at[2])

    on(f, [x, another(f, x, "bool"), *([] if fill else [another(f, x)])], emit)


# ---- casts ---------------------------------------------------------------------------------------------
CASTS = ("_to_copy", "_to_copy", "to.dtype", "prims.convert_element_type.default")


def to_dtype(at: Site, x: Ref, dtype: str, form: str) -> Ref:
    """A cast in one of its forms."""
    if form == "_to_copy":
        return at.call(form, x, dtype={"dtype": dtype})
    return at.call(form, x, {"dtype": dtype})


def cast(f: Fuzzer, _: Tensor) -> None:
    """To another width, to a mask; a float of what is small enough."""
    x = integer(f, (*INTEGERS, "bool"))
    targets = [d for d in (*INTEGERS, "bool", "float32") if d != x.dtype]
    if x.dtype in ("int32", "int64"):
        targets.remove("float32")
    dtype, form = f.rng.choice(targets), f.rng.choice(CASTS)
    opens = MODULAR if f.wrong(0.8, "cast before the reduction") else ()
    theirs = dtype
    if f.wrong(0.6, "another type") and dtype in INTEGERS:
        theirs = f.rng.choice([d for d in INTEGERS if d != dtype])

    def emit(at: Site) -> Ref:
        if theirs != dtype and not at.seq:
            return to_dtype(at, to_dtype(at, at[0], theirs, form), dtype, form)
        return to_dtype(at, at[0], dtype, form)

    on(f, [x], emit, open={0: opens})


def wide_float(f: Fuzzer, _: Tensor) -> None:
    """A difference or product as a float: after it wrapped around, or (a mistake) before."""
    x = integer(f, ("uint8", "int8", "int16"))
    name = f.rng.choice(["sub.Tensor", "add.Tensor", "mul.Tensor"])
    early = [f.chance(0.3)] * 2
    if f.wrong(0.8, "cast before the difference"):
        early[0] = not early[1]
    form = f.rng.choice(CASTS)
    to = f.rng.choice(["float32", "float32", "int64", "int32"])

    def emit(at: Site) -> Ref:
        if early[at.seq]:
            return at.call(name, *(to_dtype(at, r, to, form) for r in (at[0], at[1])))
        return to_dtype(at, at.call(name, at[0], at[1]), to, form)

    on(f, [x, another(f, x)], emit)


def from_float(f: Fuzzer, x: Tensor) -> None:
    """A float cut to an integer, or a mask of it."""
    dtype = f.rng.choice(["int8", "int32", "int64", "uint8", "bool", "int16"])
    low = 0.0 if dtype == "uint8" else -100.0
    form = f.rng.choice(CASTS)
    by = f.rng.choice([3.0, 10.0])

    def emit(at: Site) -> Ref:
        wide = at.call("mul.Tensor", at[0], by)
        if dtype == "bool":
            return at.call("gt.Scalar", wide, 0.0)
        return to_dtype(at, at.call("clamp", wide, low, 100.0), dtype, form)

    on(f, [x], emit)


# ---- reductions ----------------------------------------------------------------------------------------
def summed(f: Fuzzer, _: Tensor) -> None:
    """A sum, in int64 or in a type that is asked for; on ranks maybe by mistake in another one."""
    x = integer(f, (*INTEGERS, "bool"))
    dims = letters(x)
    gone, keep = f.rng.randrange(len(dims)), f.chance(0.2)
    dtype = f.rng.choice([None, None, None, *INTEGERS])
    theirs = (
        f.rng.choice(["uint8", "int8", "int32"]) if f.wrong(0.6, "a sum in another type") else dtype
    )
    out = dims[:gone] + ("u" if keep else "") + dims[gone + 1 :]

    def emit(at: Site) -> Sequence[Ref]:
        asked = dtype if at.seq else theirs
        more = {"dtype": {"dtype": asked}} if asked else {}
        made = at.call("sum.dim_IntList", at[0], [gone], keep, **more)
        if asked == dtype:
            return [made]
        return [at.call("_to_copy", made, dtype={"dtype": dtype or "int64"})]

    opens = MODULAR if x.dtype == (dtype or "int64") else ()
    f.apply([x], Rule([dims], [out], open={0: opens}), emit)


def extreme(f: Fuzzer, _: Tensor) -> None:
    """The largest or smallest along a dimension; whether any or all are true."""
    x = integer(f, (*INTEGERS, "bool"))
    dims = letters(x)
    gone = f.rng.randrange(len(dims))
    name = f.rng.choice(
        ["amax", "amin", "any.dim", "all.dim"] if x.dtype == "bool" else ["amax", "amin"]
    )
    kind = "max" if name in ("amax", "any.dim") else "min"
    arg: Any = gone if name in ("any.dim", "all.dim") else [gone]
    rule = Rule([dims], [dims[:gone] + dims[gone + 1 :]], open={0: (kind,)}, kind=kind)
    f.apply([x], rule, lambda at: [at.call(name, at[0], arg)])


def running(f: Fuzzer, _: Tensor) -> None:
    """Positions of tokens by a running sum of a mask, and products along a dimension."""
    x = integer(f, (*INTEGERS, "bool"))
    dims = letters(x)
    last = len(dims) - 1
    name = f.rng.choice(["cumsum", "cumsum", "prod.dim_int"])
    opens = MODULAR if name == "cumsum" and x.dtype == "int64" else ()
    rule = Rule([dims], [dims if name == "cumsum" else dims[:-1]], dims[-1], {0: opens})
    f.apply([x], rule, lambda at: [at.call(name, at[0], last)])


# ---- what right programs do ----------------------------------------------------------------------------
def tokens(f: Fuzzer, x: Tensor) -> None:
    """A loss divided by the number of tokens that count, which is added up over the ranks."""
    dims = letters(x)[:2]
    if len(x.shape) != 2:
        raise Invalid("another number of dimensions")
    early = [f.chance(0.3), f.chance(0.5)]
    ignored, narrow = f.rng.choice([1, 2]), f.wrong(0.6, "counted in uint8")

    def count(at: Site) -> Sequence[Ref]:
        mask = at.call("ne.Scalar", at[0], ignored)
        if early[at.seq]:
            return [at.call("sum.dim_IntList", to_dtype(at, mask, "float32", "_to_copy"), [0, 1])]
        more = {"dtype": {"dtype": "uint8"}} if narrow and not at.seq else {}
        return [
            to_dtype(at, at.call("sum.dim_IntList", mask, [0, 1], **more), "float32", "_to_copy")
        ]

    ids = f.input(
        x.shape, x.layout if all(p[0] != "P" for p in x.layout) else f.layout_for(x.shape), "int64"
    )
    (counted,) = f.apply([ids], Rule([dims], [""]), count)
    f.apply(
        [x, counted],
        Rule([dims, ""], [dims], "", {0: ADDS}),
        lambda at: [at.call("div.Tensor", at[0], at[1])],
    )


def counted_in_integers(f: Fuzzer, x: Tensor) -> None:
    """The same, the count reduced as an integer and cast afterwards."""
    if len(x.shape) != 2:
        raise Invalid("another number of dimensions")
    dims, ignored = letters(x), f.rng.choice([1, 2])
    ids = f.input(x.shape, f.layout_for(x.shape), "int64")
    over = [0, 1] if f.chance(0.6) else None

    def count(at: Site) -> Sequence[Ref]:
        mask = at.call("ne.Scalar", at[0], ignored)
        if over is None:
            return [at.call("sum.default", mask)]
        return [at.call("sum.dim_IntList", mask, over)]

    (counted,) = f.apply([ids], Rule([dims], [""]), count)
    bound = f.chance(0.4)
    total = f.settled(counted)

    def divide(at: Site) -> Sequence[Ref]:
        whole = at.call("clamp_min", at[1], 1) if bound else at[1]
        return [at.call("div.Tensor", at[0], to_dtype(at, whole, "float32", "_to_copy"))]

    f.apply([x, total], Rule([dims, ""], [dims], "", {0: ADDS}), divide)


def positions(f: Fuzzer, _: Tensor) -> None:
    """Rows of a table at positions, of which every rank has a range."""
    rows = f.rng.choice([4, 6, 8])
    forms = [f.rng.choice(["arange", "start", "shifted"]) for _ in range(2)]
    off = f.wrong(0.8, "positions from 0")

    def emit(at: Site) -> Sequence[Ref]:
        lo = 0 if off and not at.seq else at.lo("t")
        size, form = at.size("t"), forms[at.seq]
        if form == "start":
            ids = at.call("arange.start", lo, lo + size, dtype={"dtype": "int64"})
        else:
            ids = at.call("arange", size, dtype={"dtype": "int64"})
            ids = at.call("add.Tensor", ids, lo) if form == "shifted" or lo else ids
        return [at.call("embedding", at[0], ids)]

    rule = Rule(["vw"], ["tw"], "v", extents={"v": rows, "w": 4, "t": rows})
    f.apply([New()], rule, emit)


def shifted(f: Fuzzer, _: Tensor) -> None:
    """Targets are ids one place to the left; with what is left out at the end."""
    x = f.input((4, 6), f.layout_for((4, 6)), "int64")
    f.integers.append(x)
    dims = letters(x)
    off = f.wrong(0.6, "ids shifted the other way")

    def emit(at: Site) -> Sequence[Ref]:
        shape = at.shape(at[0])
        end = at.call("full", [shape[0], 1], -100, dtype={"dtype": "int64"})
        if off and not at.seq:
            return [at.call("cat", [end, at.call("slice.Tensor", at[0], 1, 0, shape[1] - 1)], 1)]
        return [at.call("cat", [at.call("slice.Tensor", at[0], 1, 1, shape[1]), end], 1)]

    f.apply([x], Rule([dims], [dims], dims[1]), emit)


def moved(f: Fuzzer, _: Tensor) -> None:
    """A movement of integers."""
    kind = f.rng.choice([transposed, merged, divided, sliced, split, expanded])
    kind(f, integer(f, (*INTEGERS, "bool")))


def in_place(f: Fuzzer, _: Tensor) -> None:
    """An integer operator in place, on a copy or on the tensor itself."""
    x = integer(f)
    fresh = [f.chance(0.6), f.chance(0.6)]
    name = f.rng.choice(
        ["add_.Tensor", "mul_.Tensor", "sub_.Tensor", "bitwise_and_.Tensor", "neg_", "copy_"]
    )
    forms = [f.chance(0.7), f.chance(0.7)]
    dtype = f.rng.choice(INTEGERS) if name == "copy_" else x.dtype

    def emit(at: Site) -> Ref:
        base = at.call("clone", at[0]) if fresh[at.seq] else at[0]
        plain = name.replace("_.", ".") if "." in name else name[:-1]
        given = [] if name == "neg_" else [at[1]]
        if not forms[at.seq]:
            return at.call(plain, base, *given)
        at.call(name, base, *given)
        return base

    on(f, [x, another(f, x, dtype)], emit)


WIDTH_STEPS: list[Callable[[Fuzzer, Tensor], None]] = [
    ring, ring, ring, other, other, two, promoted, compared, compared, logical, chosen, cast, cast,
    wide_float, from_float, summed, summed, summed, extreme, running, tokens, counted_in_integers,
    positions, shifted, moved, in_place,
]  # fmt: skip
