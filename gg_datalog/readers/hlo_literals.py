"""Literals of HLO text: ``3``, ``true``, ``-inf``, ``{ {1, 2}, {3, 4} }``, ``{...}``."""

from __future__ import annotations

import re
import struct
from fractions import Fraction
from typing import TypeAlias

from gg_datalog.readers.hlo_scan import closing
from gg_datalog.readers.hlo_shapes import ARRAY, Array

Number: TypeAlias = "int | float | bool"
TOKEN = re.compile(r"[{},]|\([^)]*\)|[^\s{},()]+")
WORDS = {"true": True, "false": False, "inf": float("inf"), "-inf": float("-inf")}
NOT_A_NUMBER = re.compile(r"-?nan(\(0x[0-9a-fA-F]+\))?")


class BadLiteral(ValueError):
    """A text that is no literal of its shape."""


def read_literal(text: str, shape: Array) -> list[Number] | None:
    """The elements in row-major order; None where the text leaves them out: ``{...}``."""
    found = ARRAY.match(text)
    if found:  # older texts repeat the shape
        end = found.end()
        text = text[closing(text, end) + 1 if text[end : end + 1] == "{" else end :]
    if "..." in text:
        return None
    words = [w for w in TOKEN.findall(re.sub(r"nan\(0x[0-9a-fA-F]+\)", "nan", text)) if w != ","]
    values = [_value(w, shape) for w in words if w not in "{}"]
    if len(values) != shape.size:
        raise BadLiteral(f"{len(values)} elements are no {shape}")
    return values


def _value(word: str, shape: Array) -> Number:
    try:
        if shape.dtype == "pred":
            return bool(WORDS[word]) if word in WORDS else bool(int(word))
        if shape.integers:
            if wrapped(value := int(word), shape.dtype) != value:
                raise BadLiteral(f"{word} is out of range for {shape.dtype}")
            return value
        if word.startswith("(") or not shape.floats:
            raise BadLiteral(f"{word!r} is a complex number")
        return float("nan") if NOT_A_NUMBER.fullmatch(word) else rounded(float(word), shape.dtype)
    except BadLiteral:
        raise
    except (KeyError, ValueError, OverflowError):
        raise BadLiteral(f"{word!r} is no {shape.dtype}") from None


def rounded(value: float, dtype: str) -> float:
    """The number as the element type holds it: its text is only as long as it has to be."""
    if value != value or value in (float("inf"), float("-inf")):
        return value
    form = {"f16": "e", "f32": "f", "bf16": "f"}.get(dtype)
    try:
        held = struct.unpack(form, struct.pack(form, value))[0] if form else value
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")
    return _brain(held) if dtype == "bf16" else float(held)


def _brain(value: float) -> float:
    """The nearest number of eight bits of mantissa, even ones first."""
    bits = struct.unpack("I", struct.pack("f", value))[0]
    bits = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000
    return float(struct.unpack("f", struct.pack("I", bits & 0xFFFFFFFF))[0])


def wrapped(value: int, dtype: str) -> int | bool:
    """An integer as the element type holds it."""
    if dtype == "pred":
        return bool(value)
    bits = int(dtype[1:])
    value &= (1 << bits) - 1
    if dtype[0] == "s" and value >> (bits - 1):
        value -= 1 << bits
    return value


def limits(dtype: str) -> tuple[int, int]:
    """The smallest and the largest number of an integer type."""
    if dtype == "pred":
        return 0, 1
    bits = int(dtype[1:])
    return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if dtype[0] == "s" else (0, (1 << bits) - 1)


def exact(value: Number, dtype: str) -> bool:
    """Does the element type hold the integer as it is?"""
    digits = {"f16": 11, "bf16": 8, "f32": 24, "f64": 53}.get(dtype)
    return digits is not None and abs(Fraction(value)) <= 2**digits
