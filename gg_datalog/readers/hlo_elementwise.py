"""Instructions that work element by element."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gg_datalog.readers.hlo_graph import Result, Value
from gg_datalog.readers.hlo_opaque import opaque
from gg_datalog.readers.hlo_program import Program, lowers
from gg_datalog.readers.hlo_shapes import Array

UNARY = {
    "abs": "aten.abs.default",
    "ceil": "aten.ceil.default",
    "cosine": "aten.cos.default",
    "erf": "aten.erf.default",
    "exponential": "aten.exp.default",
    "exponential-minus-one": "aten.expm1.default",
    "floor": "aten.floor.default",
    "is-finite": "hlo.is_finite",
    "log": "aten.log.default",
    "log-plus-one": "aten.log1p.default",
    "logistic": "hlo.logistic",
    "round-nearest-afz": "hlo.round_away",
    "round-nearest-even": "aten.round.default",
    "rsqrt": "aten.rsqrt.default",
    "sign": "aten.sign.default",
    "sine": "aten.sin.default",
    "sqrt": "aten.sqrt.default",
    "tan": "hlo.tan",
    "cbrt": "hlo.cbrt",
    "tanh": "aten.tanh.default",
    "popcnt": "hlo.population_count",
    "count-leading-zeros": "hlo.count_leading_zeros",
}
INTEGERS = ("abs", "sign", "popcnt", "count-leading-zeros")  # of integers, too
# What these give depends on how many bits there are.
BITS = ("popcnt", "count-leading-zeros", "shift-left", "shift-right-arithmetic",
        "shift-right-logical")  # fmt: skip
BINARY = {
    "and": "aten.bitwise_and.Tensor",
    "or": "aten.bitwise_or.Tensor",
    "xor": "aten.bitwise_xor.Tensor",
    "atan2": "hlo.atan2",
    "shift-left": "hlo.shift_left",
    "shift-right-arithmetic": "hlo.shift_right_arithmetic",
    "shift-right-logical": "hlo.shift_right_logical",
}
COMPARE = {"EQ": "eq", "NE": "ne", "LT": "lt", "LE": "le", "GT": "gt", "GE": "ge"}
MIRROR = {"LT": "GT", "LE": "GE", "GT": "LT", "GE": "LE"}


def alike(p: Program, values: list[Value], count: int, typed: bool = True) -> None:
    """Operands have the shape of the result, and where they are ``typed`` its element type."""
    shape = p.array()
    if len(values) != count:
        p.need(False, f"it has {len(values)} operands, not {count}")
    for x in values:
        if x.shape.dims != shape.dims or (typed and not x.shape.kin(shape)):
            p.need(False, f"operand `{x.node}` is {x.shape}")


def width(x: Value) -> dict[str, str]:
    """The width and the sign of integers, where what is computed depends on them."""
    return {"width": x.shape.torch}


@lowers(*UNARY)
def unary(p: Program) -> Result:
    """A function of one tensor."""
    x = p.operand(0)
    if x.shape.complex:
        return p.make("hlo.complex_function", [x.ref], kwargs={"function": p.at.opcode})
    alike(p, p.operands(), 1, typed=p.at.opcode != "is-finite")
    whole = x.shape.integers and x.shape.dtype != "pred"
    p.need(x.shape.floats or (whole and p.at.opcode in INTEGERS), f"of {x.shape}")
    kwargs = width(x) if p.at.opcode in BITS else {}
    return p.make(UNARY[p.at.opcode], [x.ref], kwargs=kwargs)


@lowers(*BINARY)
def binary(p: Program) -> Result:
    """A function of two tensors. Truth values that are known drop out."""
    a, b = p.operands() if len(p.at.operands) == 2 else (p.operand(0), p.operand(1))
    alike(p, p.operands(), 2)
    if a.shape.dtype == "pred" and p.at.opcode in ("and", "or"):
        for x, y in ((a, b), (b, a)):
            if y.single is not None:
                kept = bool(y.single) == (p.at.opcode == "and")
                return p.alias(x) if kept else p.filled(p.at.opcode == "or", p.array())
    kwargs = width(a) if p.at.opcode in BITS else {}
    return p.make(BINARY[p.at.opcode], [a.ref, b.ref], kwargs=kwargs)


@lowers("add", "multiply")
def commutative(p: Program) -> Result:
    """Sums and products; a number comes second."""
    a, b = p.operand(0), p.operand(1)
    alike(p, [a, b], 2)
    if p.array().dtype == "pred":  # of truth values: or, and
        return p.make(BINARY["or" if p.at.opcode == "add" else "and"], [a.ref, b.ref])
    target = "aten.add.Tensor" if p.at.opcode == "add" else "aten.mul.Tensor"
    if a.number is not None and b.number is None:
        a, b = b, a
    return _shifted(p, p.make(target, [a.ref, _second(a, b)]), a, b)


@lowers("subtract")
def subtract(p: Program) -> Result:
    """A difference."""
    a, b = p.operand(0), p.operand(1)
    alike(p, [a, b], 2)
    return _shifted(p, p.make("aten.sub.Tensor", [a.ref, _second(a, b)]), a, b)


def _shifted(p: Program, made: Value, a: Value, b: Value) -> Value:
    """An index less the offset of the device is `shifted`."""
    return replace(made, shifted=a.shifted or (b.local and b.number is not None))


def _second(a: Value, b: Value) -> Any:
    """The second operand: as a number where it is one, unless the first is one too."""
    return b.ref if b.number is None or a.number is not None else b.number


@lowers("divide")
def divide(p: Program) -> Result:
    """A quotient; of integers it is cut."""
    a, b = p.operand(0), p.operand(1)
    alike(p, [a, b], 2)
    if a.shape.integers:
        return p.make("hlo.divide_integer", [a.ref, b.ref], kwargs=width(a))
    return p.make("aten.div.Tensor", [a.ref, _second(a, b)])


@lowers("remainder")
def remainder(p: Program) -> Result:
    """What a division leaves, with the sign of the dividend."""
    a, b = p.operand(0), p.operand(1)
    alike(p, [a, b], 2)
    if a.shape.integers:
        return p.make("hlo.remainder_integer", [a.ref, b.ref], kwargs=width(a))
    return p.make("aten.fmod.Tensor", [a.ref, b.ref])


@lowers("power")
def power(p: Program) -> Result:
    """A power."""
    a, b = p.operand(0), p.operand(1)
    alike(p, [a, b], 2)
    if a.shape.integers:
        return p.make("hlo.power_integer", [a.ref, b.ref], kwargs=width(a))
    if not a.shape.floats:
        return opaque(p)
    if b.number is not None and a.number is None:
        return p.make("aten.pow.Tensor_Scalar", [a.ref, b.number])
    return p.make("aten.pow.Tensor_Tensor", [a.ref, b.ref])


@lowers("maximum", "minimum")
def extremum(p: Program) -> Result:
    """The larger or smaller one; an infinite bound drops out."""
    a, b = p.operand(0), p.operand(1)
    alike(p, [a, b], 2)
    larger = p.at.opcode == "maximum"
    if p.array().dtype == "pred":
        return p.make(BINARY["or" if larger else "and"], [a.ref, b.ref])
    if a.single is not None and b.single is None:
        a, b = b, a
    if b.single == float("-inf" if larger else "inf"):
        return p.alias(a)
    if b.number is not None:
        name = "aten.clamp_min.default" if larger else "aten.clamp_max.default"
        return p.make(name, [a.ref, b.number])
    return p.make(f"aten.{p.at.opcode}.default", [a.ref, b.ref])


@lowers("clamp")
def clamp(p: Program) -> Result:
    """At least the first operand, at most the third; nothing where it surely lies there."""
    from gg_datalog.readers.hlo_index import clamped, lies

    low, x, high = p.operand(0), p.operand(1), p.operand(2)
    alike(p, [x], 1)
    p.need(low.shape.kin(x.shape) and high.shape.kin(x.shape), "types differ")
    if low.number is not None and high.number is not None:
        if x.shape.integers and x.shape.dtype != "pred":
            ends = int(low.number), int(high.number)
            return p.alias(x) if lies(p, x, *ends) else clamped(p, x, *ends)
        return p.make("aten.clamp.default", [x.ref, low.number, high.number])
    if low.single is not None or high.single is not None or p.array().dtype == "pred":
        return opaque(p)
    wide = [_wide(p, end, name) for end, name in ((low, "low"), (high, "high"))]
    above = p.make("aten.maximum.default", [x.ref, wide[0].ref], suffix="above")
    return p.make("aten.minimum.default", [above.ref, wide[1].ref])


def _wide(p: Program, x: Value, suffix: str) -> Value:
    shape = p.array()
    if x.shape.dims == shape.dims:
        return x
    p.need(not x.shape.dims, f"bound `{x.node}` is {x.shape}")
    return p.make("hlo.broadcast", [x.ref, [], list(shape.dims)], suffix=suffix)


@lowers("negate")
def negate(p: Program) -> Result:
    """The opposite number, modulo the width of integers."""
    x = p.operand(0)
    alike(p, [x], 1)
    return p.make("aten.neg.default", [x.ref])


@lowers("not")
def invert(p: Program) -> Result:
    """Not true, or the other bits."""
    x = p.operand(0)
    alike(p, [x], 1)
    name = "aten.logical_not.default" if x.shape.dtype == "pred" else "aten.bitwise_not.default"
    return p.make(name, [x.ref])


@lowers("compare")
def compare(p: Program) -> Result:
    """A comparison; a number comes second."""
    a, b = p.operand(0), p.operand(1)
    alike(p, [a, b], 2, typed=False)
    p.need(p.array().dtype == "pred" and a.shape.kin(b.shape), "types differ")
    direction = p.at.attributes.get("direction", "")
    p.need(direction in COMPARE, f"direction {direction!r}")
    _compared_as(p, a.shape)
    if p.at.attributes.get("type") == "TOTALORDER" and a.shape.floats:
        return p.make(f"hlo.compare_total_{COMPARE[direction]}", [a.ref, b.ref])
    if a.number is not None and b.number is None:
        a, b, direction = b, a, MIRROR.get(direction, direction)
    if b.number is not None and a.number is None:
        return p.make(f"aten.{COMPARE[direction]}.Scalar", [a.ref, b.number])
    return p.make(f"aten.{COMPARE[direction]}.Tensor", [a.ref, b.ref])


def _compared_as(p: Program, shape: Array) -> None:
    """The order that the text names is the one of the type."""
    order = p.at.attributes.get("type")
    if order is None or not (shape.integers or shape.floats):
        return
    known = ("FLOAT", "TOTALORDER") if shape.floats else ("SIGNED" if shape.signed else "UNSIGNED",)
    p.need(order in known, f"type {order} of {shape}")


@lowers("select")
def select(p: Program) -> Result:
    """One or the other; where the choice is known, that one."""
    from gg_datalog.readers.hlo_index import masked_gather

    mask, a, b = p.operand(0), p.operand(1), p.operand(2)
    alike(p, [a, b], 2)
    p.need(mask.shape.dtype == "pred", f"it chooses by {mask.shape}")
    if mask.single is not None:
        return p.alias(a if mask.single else b)
    if not mask.shape.dims and p.array().dims:
        mask = _wide(p, mask, "mask")
    alike(p, [mask], 1, typed=False)
    return masked_gather(p, mask, a, b) or p.make("hlo.select", [mask.ref, a.ref, b.ref])


@lowers("convert")
def convert(p: Program) -> Result:
    """Another element type: integers wrap, floats are cut, everything but 0 is true."""
    alike(p, p.operands(), 1, typed=False)
    x, shape = p.operand(0), p.array()
    if x.shape == shape:
        return p.alias(x)
    return p.make("hlo.convert", [x.ref], kwargs={"dtype": {"dtype": shape.torch}})


@lowers("bitcast-convert")
def bitcast_convert(p: Program) -> Result:
    """The bits as another type."""
    x, shape = p.operand(0), p.array()
    types = {"before": x.shape.torch, "after": shape.torch}
    if x.shape.dims != shape.dims:  # several narrow elements make up a wide one
        return p.make("hlo.bitcast_convert_in_parts", [x.ref], kwargs=types)
    return p.make("hlo.bitcast_convert", [x.ref], kwargs=types)


@lowers("reduce-precision")
def reduce_precision(p: Program) -> Result:
    """Rounded to fewer bits."""
    alike(p, p.operands(), 1)
    bits = [p.ints(key) for key in ("exponent_bits", "mantissa_bits")]
    p.need(all(len(found) == 1 for found in bits), "it says no number of bits")
    return p.make("hlo.reduce_precision", [p.operand(0).ref, *(found[0] for found in bits)])
