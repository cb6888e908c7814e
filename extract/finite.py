"""Which tensors may hold an infinity, or no number at all: 0 times those is not 0.

Inputs are taken to be finite where that is asked (a listed assumption), and what is computed from
finite numbers by sums, products and functions without poles is finite over the reals.
"""

from __future__ import annotations

import re
from collections.abc import Container
from typing import NamedTuple

from gg_datalog.extract.records import Concat, Operator, Slice, Sum
from gg_datalog.extract.view import Base, View

# Operators that give finite numbers for finite ones, over the reals and far from overflow. Of any
# other operator that is not known: poles, roots of negative numbers, exponentials.
FINITE = frozenset(
    ["abs", "arange", "as", "cast", "cat", "ceil", "clamp", "clamp_max", "clamp_min", "contract",
     "cos", "cumsum", "dropout", "elu", "erf", "floor", "gelu", "gelu_backward", "hardtanh",
     "leaky_relu", "masked", "masked_fill", "max", "maximum", "min", "minimum", "modulo", "mul",
     "permuted", "put", "relu", "round", "scatter", "select", "sigmoid", "sigmoid_backward",
     "sign", "silu", "silu_backward", "sin", "softmax", "softplus", "sort", "sum", "take", "tanh",
     "tanh_backward", "threshold_backward", "topk", "trunc"]
)  # fmt: skip
# Operators that give finite numbers even for infinite ones and for none (NaN). The limits of tanh,
# sigmoid, erf and sign are finite, too, but of what is no number they are none.
TAMED = frozenset(
    ["argmax", "argmin", "argsort", "bernoulli", "eq", "ge", "gt", "isinf", "isnan", "le",
     "logical_and", "logical_not", "logical_or", "lt", "ne", "nan_to_num", "one_hot"]
)  # fmt: skip
# Norms, and their gradients.
NORM = re.compile(r"(aten|apex)\.\w*(layer|rms|group)_norm")
# Finite for -inf, as masks are made of.
TAMING = re.compile(r"softmax|attention|^exp\b|^sigmoid|^tanh|^(eq|ne|lt|le|gt|ge|argmax|topk)\b")
POLE_AT_0 = frozenset(["div", "log", "reciprocal", "rsqrt", "sqrt"])
INFINITE = re.compile(r"\b-?(inf|nan)\b")


class Known(NamedTuple):
    """What is known of tensors whose inputs are finite: which are more than 0, which are finite,
    and which may be infinite. What is asked is put into the last two."""

    positive: set[Base]
    finite: set[Base]
    infinite: set[Base]


def may_be_infinite(base: Base, sofar: Known | None = None) -> bool:
    """May the tensor hold something that is no finite number, its inputs being finite? Where it is
    known which tensors are positive, their logarithms and quotients by them are finite over the
    reals, and so are exponentials, however large."""
    known: dict[Base, bool] = {}
    positive = None if sofar is None else sofar.positive
    todo = [base]
    while todo:
        one = todo[-1]
        if sofar is not None and (one in sofar.finite or one in sofar.infinite):
            known[one] = one not in sofar.finite
        if one in known:
            todo.pop()
            continue
        verdict, needs = _itself(one, positive)
        missing = [b for b in needs if b not in known]
        if verdict is None and missing:
            todo += missing
            continue
        known[one] = any(known[b] for b in needs) if verdict is None else verdict
        todo.pop()
    if sofar is not None:
        for one, infinite in known.items():
            (sofar.infinite if infinite else sofar.finite).add(one)
    return known[base]


def holds_infinity(base: Base) -> bool:
    """Was an infinite constant put into the tensor, or into what it is computed from? Operators of
    which nothing is known are taken to give finite numbers for finite ones."""
    seen, todo = set[Base](), [base]
    while todo:
        one = todo.pop()
        if one in seen:
            continue
        seen.add(one)
        made = one.made
        signature = made.signature if isinstance(made, Operator) else ""
        if INFINITE.search(signature):
            return True
        if not TAMING.search(signature):
            todo += one.needs
    return False


def gives_finite(signature: str) -> bool:
    """Does an operator give finite numbers for finite ones, whatever they are?"""
    name = re.split(r"[(\[# ]", signature)[0]
    return name in FINITE | TAMED | {"exp"} and INFINITE.search(signature) is None


def _itself(base: Base, positive: Container[Base] | None) -> tuple[bool | None, list[Base]]:
    """What the operator that gives the tensor says, or the tensors that decide."""
    made = base.made
    if isinstance(made, Operator):
        name = re.split(r"[(\[# ]", made.signature)[0]
        if name == "constant":
            return INFINITE.search(made.signature) is not None, []
        if base.dtype == "bool" or base.dtype.startswith(("int", "uint")):
            return False, []
        if name in TAMED:
            return INFINITE.search(made.signature) is not None, []
        if positive is not None and _has_no_pole(name, made, positive):
            return None, [v.base for v in made.operands]
        if name not in FINITE or INFINITE.search(made.signature):
            return True, []
        return None, [v.base for v in made.operands]
    if isinstance(made, Sum):
        return None, [v.base for v in made.terms]
    if isinstance(made, Slice):
        return None, [made.of.base]
    if isinstance(made, Concat):
        return None, [v.base for v, _ in made.members]
    return base.kind not in ("input", "constant"), []


def _has_no_pole(name: str, made: Operator, positive: Container[Base]) -> bool:
    """Is it finite over the reals: an exponential, a norm (its epsilon keeps it from 0), the
    logarithm or a root of something positive, a quotient by it?"""
    if name == "exp" or NORM.match(name):
        return True
    return name in POLE_AT_0 and _above_0(made.operands[-1], positive)


def _above_0(x: View, positive: Container[Base]) -> bool:
    """Is it more than 0: a sum of what is never less, not all of which may be 0?"""
    if x.scale.atoms or x.scale.ratio <= 0:
        return False
    made = x.base.made
    if x.base in positive or (isinstance(made, Operator) and made.signature == "constant 1"):
        return True
    if not isinstance(made, Sum) or made.kind != "sum":
        return False
    above = [_above_0(t, positive) for t in made.terms]
    return any(above) and all(a or _is_square(t) for a, t in zip(above, made.terms, strict=True))


def _is_square(x: View) -> bool:
    """Is it never less than 0: a square, or a sum of those over some dimension?"""
    made = x.base.made
    if x.scale.ratio < 0 or not isinstance(made, Operator):
        return False
    if made.signature == "sum":
        return _is_square(made.operands[0])
    if made.signature not in ("mul", "contract") or len(made.operands) != 2:
        return made.signature.startswith("pow(%, 2") or made.signature == "square(%)"
    (a, b), (one, other) = made.operands, made.maps
    return (a.base, a.scale, one) == (b.base, b.scale, other)
