"""Pairs of HLO programs about integers: wrong ones, and right ones that look like them.

Each is a body for one device and one for two, of which each has half of the rows of every
parameter. What is right is decided by :mod:`hlo_numpy`. Many pairs are one module with many
results, so that the rules run once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from gg_datalog.readers.hlo_text import read_module

from .hlo_numpy import TYPES, Machine
from .reading import program

ROWS, COLUMNS = 4, 6
Tensor: TypeAlias = "np.ndarray[Any, Any]"


@dataclass(frozen=True)
class Pair:
    """Bodies with ``{r}`` for the number of rows of a device; ``types`` of `x`, `y`. ``right`` is
    None where it may be right, and need not be seen to be. ``family`` is the type it is about."""

    seq: str
    part: str
    right: bool | None
    types: tuple[str, ...]
    family: str


PAIRS: dict[str, Pair] = {}
FAMILY = ["pred"]


def pair(name: str, right: bool | None, types: str, seq: str, part: str = "") -> None:
    """A pair; ``;`` ends an instruction, the last one is what is returned."""
    assert name not in PAIRS, name
    PAIRS[name] = Pair(seq, part or seq, right, tuple(types.split()), FAMILY[0])


# ---- modules
def module(pairs: Sequence[Pair], devices: int) -> str:
    """A module that returns what each pair does."""
    lines, shapes, roots, count = [], [], [], 0
    rows = ROWS // devices
    shard = f", sharding={{devices=[{devices},1]<=[{devices}]}}" if devices > 1 else ""
    for place, one in enumerate(pairs):
        for name, dtype in zip("xyzw", one.types, strict=False):
            size = f"{dtype}[{rows},{COLUMNS}]"
            lines.append(f"p{place}.{name} = {size} parameter({count}){shard}")
            count += 1
        body = (one.seq if devices == 1 else one.part).replace("{r}", str(rows))
        steps = [renamed(step.strip(), f"p{place}.") for step in body.split(";")]
        lines += steps
        left, _, right = steps[-1].partition(" = ")
        roots.append(left)
        shapes.append(right.split(" ")[0])
    lines.append(f"ROOT all = ({', '.join(shapes)}) tuple({', '.join(roots)})")
    header = f", num_partitions={devices}" if devices > 1 else ""
    return with_regions(program("\n".join("  " + line for line in lines), header))


def renamed(step: str, prefix: str) -> str:
    """An instruction whose names have a prefix."""
    left, _, right = step.partition(" = ")
    head, _, rest = right.partition("(")
    inner, _, attributes = rest.partition(")")
    if not head.endswith(("constant", "iota")):
        inner = ", ".join(prefix + name.strip() for name in inner.split(",") if name.strip())
    return f"{prefix}{left} = {head}({inner}){attributes}"


def with_regions(text: str) -> str:
    """With the computations that pairs reduce by."""
    more = "".join(
        f"{opcode}_{dtype} {{\n  a = {dtype}[] parameter(0)\n  b = {dtype}[] parameter(1)\n"
        f"  ROOT c = {dtype}[] {opcode}(a, b)\n}}\n\n"
        for dtype in TYPES
        for opcode in (("and", "or") if dtype == "pred" else ("add", "maximum", "minimum"))
    )
    head, _, rest = text.partition("\n\n")
    return f"{head}\n\n{more}{rest}"


def written(pairs: Sequence[Pair], folder: Path) -> list[Path]:
    """The two modules in files."""
    files = [folder / "seq.hlo", folder / "part.hlo"]
    for file, devices in zip(files, (1, 2), strict=True):
        file.write_text(module(pairs, devices))
    return files


# ---- numbers
def inputs(pairs: Sequence[Pair], seed: int) -> list[Tensor]:
    """Values for all parameters."""
    draw = np.random.RandomState(seed)
    return [values(draw, dtype) for one in pairs for dtype in one.types]


def values(draw: np.random.RandomState, dtype: str) -> Tensor:
    """Over the whole range, its ends among them; floats with quarters, and large ones."""
    kind, size = np.dtype(TYPES[dtype]), (ROWS, COLUMNS)
    if kind.kind == "b":
        return draw.randint(0, 2, size).astype(bool)
    if kind.kind == "f":
        wide = draw.choice([1.0, 100.0, 1e5], size)
        return np.asarray(np.round(draw.randn(*size) * 8) / 4 * wide, kind)
    ends = np.iinfo(kind)
    near, far = draw.randint(0, 64, size), draw.randint(0, 2**62, size)
    edge = draw.choice([0, 1, 2, 3], size)
    extremes = [int(ends.min), int(ends.max), 1, int(ends.max) // 2]
    found = [
        (int(n), int(f) % (int(ends.max) - int(ends.min)) + int(ends.min), extremes[e])[which]
        for n, f, e, which in zip(
            near.ravel(), far.ravel(), edge.ravel(), draw.randint(0, 3, near.size), strict=True
        )
    ]
    return np.array(found, kind).reshape(size)


def rows_of(whole: Sequence[Tensor]) -> list[list[Tensor]]:
    """What each of two devices has."""
    return [[np.split(v, 2)[device] for v in whole] for device in range(2)]


def truths(pairs: Sequence[Pair], files: Sequence[Path], seeds: int = 12) -> list[bool]:
    """Whether the results of both devices are those of one: the same, or parts along a dimension."""
    one, two = (Machine(read_module(file), n) for file, n in zip(files, (1, 2), strict=True))
    held: list[set[Any]] = [{None, *range(3)} for _ in pairs]
    for seed in range(seeds):
        whole = inputs(pairs, seed)
        (seq,), dist = one.run([whole]), two.run(rows_of(whole))
        for place, total in enumerate(seq):
            held[place] &= set(placements(total, [d[place] for d in dist]))
    return [bool(found) for found in held]


def placements(whole: Tensor, parts: Sequence[Tensor]) -> Iterator[int | None]:
    """How parts make up the whole: None where each is the whole, else a dimension."""
    if all(same(p, whole) for p in parts):
        yield None
    for dim in range(whole.ndim):
        if parts[0].ndim == whole.ndim and same(np.concatenate(parts, dim), whole):
            yield dim


def same(a: Tensor, b: Tensor) -> bool:
    """Equal; of floats nearly."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    return np.allclose(a, b, 1e-3, 1e-3, True) if a.dtype.kind == "f" else np.array_equal(a, b)


# ---- the pairs
S = "[{r},6]"
INTS = ("u8", "u16", "u32", "u64", "s8", "s16", "s32", "s64")
GROUP = "channel_id=1, replica_groups={{0,1}}, use_global_device_ids=true"
SHIFTS = ("shift-left", "shift-right-logical", "shift-right-arithmetic")


def floats(t: str) -> str:
    """A float type that holds integers of a type, or nearly."""
    return "f64" if t.endswith(("32", "64")) else "f32"


def other_sign(t: str) -> str:
    """The type of the same width with another sign."""
    return ("s" if t[0] == "u" else "u") + t[1:]


def reduced(name: str, of: str, t: str, start: object = 0, kind: str = "add") -> str:
    """Rows of `of` combined."""
    return (
        f"{name}0 = {t}[] constant({start}); "
        f"{name} = {t}[6] reduce({of}, {name}0), dimensions={{0}}, to_apply={kind}_{t}"
    )


def over_devices(name: str, of: str, t: str, kind: str = "add", size: str = "[6]") -> str:
    """Combined over devices."""
    return f"{name} = {t}{size} all-reduce({of}), {GROUP}, to_apply={kind}_{t}"


def cast(name: str, of: str, t: str, size: str = S) -> str:
    return f"{name} = {t}{size} convert({of})"


def filled(name: str, value: object, t: str, size: str = S) -> str:
    return (
        f"{name}0 = {t}[] constant({value}); {name} = {t}{size} broadcast({name}0), dimensions={{}}"
    )


def steps(*parts: str) -> str:
    return "; ".join(parts)


def one_operand(t: str) -> None:
    """Operators of one operand, in the type and in a wider one."""
    wide = "s64" if t != "s64" else "s32"
    f = floats(t)
    for op in ("negate", "not", "popcnt", "count-leading-zeros", "abs", "sign"):
        if t[0] == "u" and op in ("abs", "sign"):
            continue
        inside = steps(f"d = {t}{S} {op}(x)", cast("r", "d", wide))
        outside = steps(cast("a", "x", wide), f"r = {wide}{S} {op}(a)")
        pair(f"{op} in {t} or {wide}", None, t, inside, outside)
        pair(f"{op} in {t}", True, t, f"r = {t}{S} {op}(x)")
    pair(
        f"negate in {t} or {f}",
        False,
        t,
        steps(f"d = {t}{S} negate(x)", cast("r", "d", f)),
        steps(cast("a", "x", f), f"r = {f}{S} negate(a)"),
    )


def two_operands(t: str) -> None:
    """Operators of two operands, in the type, without or with a sign, and in a wider one."""
    f, other, wide = floats(t), other_sign(t), "s64" if t not in ("s64", "u64") else "s32"
    both = f"{t} {t}"
    for op in ("divide", "remainder", "maximum", "minimum", *SHIFTS, "and", "or", "xor"):
        pair(f"{op} in {t}", True, both, f"r = {t}{S} {op}(x, y)")
        for to in (other, wide):
            moved = steps(cast("a", "x", to), cast("b", "y", to), f"d = {to}{S} {op}(a, b)")
            pair(
                f"{op} in {t} or {to}",
                None,
                both,
                f"r = {t}{S} {op}(x, y)",
                steps(moved, cast("r", "d", t)),
            )
            pair(
                f"{op} in {t} or {to}, and kept",
                None,
                both,
                steps(f"d = {t}{S} {op}(x, y)", cast("r", "d", to)),
                moved.replace("d =", "r ="),
            )
    for op in ("add", "subtract", "multiply"):
        inside = steps(f"d = {t}{S} {op}(x, y)", cast("r", "d", f))
        pair(
            f"{op} in {t} or {f}",
            False,
            both,
            inside,
            steps(cast("a", "x", f), cast("b", "y", f), f"r = {f}{S} {op}(a, b)"),
        )
        pair(
            f"{op} in {t} or {wide}",
            None,
            both,
            steps(f"d = {t}{S} {op}(x, y)", cast("r", "d", wide)),
            steps(cast("a", "x", wide), cast("b", "y", wide), f"r = {wide}{S} {op}(a, b)"),
        )
        pair(f"{op} in {t}", True, both, inside)
    for to in (other, f):
        pair(
            f"compare in {t} or {to}",
            None,
            both,
            f"r = pred{S} compare(x, y), direction=LT",
            steps(
                cast("a", "x", to), cast("b", "y", to), f"r = pred{S} compare(a, b), direction=LT"
            ),
        )
    pair(
        f"compare in {t} by a difference",
        False,
        both,
        f"r = pred{S} compare(x, y), direction=LT",
        steps(
            filled("b", 0, t),
            f"d = {t}{S} subtract(x, y)",
            f"r = pred{S} compare(d, b), direction=LT",
        ),
    )
    pair(f"compare in {t}", True, both, f"r = pred{S} compare(x, y), direction=LT")


def sums(t: str) -> None:
    """Sums over devices."""
    f, wide = floats(t), "s64" if t != "s64" else "u8"
    whole, part = reduced("d", "x", t), steps(reduced("d", "x", t), over_devices("e", "d", t))
    pair(
        f"sum in {t}",
        True,
        t,
        steps(whole, cast("r", "d", f, "[6]")),
        steps(part, cast("r", "e", f, "[6]")),
    )
    pair(
        f"sum in {t}, over devices in {f}",
        False,
        t,
        steps(whole, cast("r", "d", f, "[6]")),
        steps(whole, cast("e", "d", f, "[6]"), over_devices("r", "e", f)),
    )
    pair(f"sum in {t}, over devices forgotten", False, t, whole)
    for to in (f, wide):
        pair(
            f"sum of {t} in {to}",
            None,
            t,
            steps(cast("a", "x", to), reduced("r", "a", to)),
            steps(part, cast("r", "e", to, "[6]")),
        )
    pair(
        f"sum of negated {t}",
        True,
        t,
        steps(f"n = {t}{S} negate(x)", reduced("r", "n", t)),
        steps(part, f"r = {t}[6] negate(e)"),
    )
    for op, good in (("divide", False), ("shift-right-logical", False), ("multiply", True)):
        value = {"multiply": 3, "divide": 2}.get(op, 1)
        pair(
            f"{op} of {t} before the sum",
            good,
            t,
            steps(whole, filled("k", value, t, "[6]"), f"r = {t}[6] {op}(d, k)"),
            steps(
                filled("k", value, t),
                f"h = {t}{S} {op}(x, k)",
                reduced("d", "h", t),
                over_devices("r", "d", t),
            ),
        )
    pair(
        f"sum of {t} that begins with a number on each device",
        False,
        t,
        reduced("r", "x", t, 7),
        steps(reduced("d", "x", t, 7), over_devices("r", "d", t)),
    )
    dot = "dot(x, y), lhs_contracting_dims={0}, rhs_contracting_dims={0}"
    made = f"d = {t}[6,6] {dot}"
    pair(
        f"dot in {t}", True, f"{t} {t}", made, steps(made, over_devices("r", "d", t, size="[6,6]"))
    )
    pair(
        f"dot in {t}, over devices in {f}",
        False,
        f"{t} {t}",
        steps(made, cast("r", "d", f, "[6,6]")),
        steps(made, cast("e", "d", f, "[6,6]"), over_devices("r", "e", f, size="[6,6]")),
    )


def extrema(t: str) -> None:
    """Maxima and minima over devices."""
    other = other_sign(t)
    for kind, opposite in (("maximum", "minimum"), ("minimum", "maximum")):
        ends = {"maximum": int(np.iinfo(TYPES[t]).min), "minimum": int(np.iinfo(TYPES[t]).max)}
        whole = reduced("d", "x", t, ends[kind], kind)
        pair(
            f"{kind} over devices in {t}",
            True,
            t,
            whole,
            steps(whole, over_devices("r", "d", t, kind)),
        )
        pair(
            f"{kind} over devices in {t} or {other}",
            False,
            t,
            whole,
            steps(
                whole,
                cast("o", "d", other, "[6]"),
                over_devices("e", "o", other, kind),
                cast("r", "e", t, "[6]"),
            ),
        )
        pair(
            f"{kind} in {t} of opposite numbers",
            False,
            t,
            steps(f"n = {t}{S} negate(x)", reduced("r", "n", t, ends[kind], kind)),
            steps(
                reduced("d", "x", t, ends[opposite], opposite),
                over_devices("e", "d", t, opposite),
                f"r = {t}[6] negate(e)",
            ),
        )


def casts(t: str) -> None:
    """Casts there and back, and from floats."""
    same = f"r = {t}{S} copy(x)"
    for to in ("f32", "s8", "u8", "s32", "s64", "pred"):
        if to != t:
            pair(
                f"{t} through {to} and back",
                None,
                t,
                same,
                steps(cast("a", "x", to), cast("r", "a", t)),
            )
    pair(
        f"float cut to {t}",
        False,
        "f32",
        f"r = f32{S} copy(x)",
        steps(cast("a", "x", t), cast("r", "a", "f32")),
    )
    pair(
        f"float cut to {t} after a sum or before",
        False,
        "f32 f32",
        steps(f"a = f32{S} add(x, y)", cast("r", "a", t)),
        steps(cast("a", "x", t), cast("b", "y", t), f"r = {t}{S} add(a, b)"),
    )
    pair(
        f"float cut to {t} or to another type",
        False,
        "f32",
        cast("r", "x", t),
        steps(cast("a", "x", other_sign(t)), cast("r", "a", t)),
    )
    pair(f"a sum cut to {t}", True, "f32 f32", steps(f"a = f32{S} add(x, y)", cast("r", "a", t)))
    pair(
        f"bits of {t} as another type",
        None,
        t,
        cast("r", "x", other_sign(t)),
        f"r = {other_sign(t)}{S} bitcast-convert(x)",
    )
    lowest = int(np.iinfo(TYPES[t]).min) or int(np.iinfo(TYPES[t]).max)
    pair(
        f"a number of {t} in another type",
        None,
        t,
        steps(filled("k", lowest, t), f"a = {t}{S} add(x, k)", cast("r", "a", "s64")),
        steps(
            filled("k", lowest if t != "u64" else -1, "s64"),
            cast("b", "x", "s64"),
            f"r = s64{S} add(b, k)",
        ),
    )


for of in INTS:
    FAMILY[0] = of
    for write in (one_operand, two_operands, sums, extrema, casts):
        write(of)
FAMILY[0] = "pred"

# ---- truth values
counted = steps(cast("c", "x", "s32"), reduced("d", "c", "s32"))
pair("a count", True, "pred", counted, steps(counted, over_devices("r", "d", "s32")))
pair(
    "a count, and an all-reduce of truth values",
    False,
    "pred",
    counted,
    steps(
        reduced("d", "x", "pred", "false", "or"),
        over_devices("e", "d", "pred", "or"),
        cast("r", "e", "s32", "[6]"),
    ),
)
for one, two, begin in (("or", "and", "false"), ("and", "or", "true")):
    here = reduced("d", "x", "pred", begin, one)
    pair(
        f"{one} over devices", True, "pred", here, steps(here, over_devices("r", "d", "pred", one))
    )
    pair(
        f"{one} over devices by the other",
        False,
        "pred",
        here,
        steps(here, over_devices("r", "d", "pred", two)),
    )
    pair(
        f"{one} over devices, not before it",
        False,
        "pred",
        steps(here, "r = pred[6] not(d)"),
        steps(here, "e = pred[6] not(d)", over_devices("r", "e", "pred", one)),
    )
    pair(
        f"{one} over devices, not before it and by the other",
        None,
        "pred",
        steps(here, "r = pred[6] not(d)"),
        steps(here, "e = pred[6] not(d)", over_devices("r", "e", "pred", two)),
    )
pair(
    "truth values through a number",
    None,
    "pred",
    f"r = pred{S} copy(x)",
    steps(cast("a", "x", "s32"), cast("r", "a", "pred")),
)
pair(
    "truth values as numbers",
    None,
    "pred",
    cast("r", "x", "f32"),
    steps(cast("a", "x", "s32"), cast("r", "a", "f32")),
)
for op in ("add", "multiply"):
    pair(
        f"{op} of truth values",
        None,
        "pred pred",
        steps(cast("a", "x", "s32"), cast("b", "y", "s32"), f"r = s32{S} {op}(a, b)"),
        steps(f"a = pred{S} {op}(x, y)", cast("r", "a", "s32")),
    )
