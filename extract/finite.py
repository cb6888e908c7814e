"""Which tensors may hold an infinity, or no number at all: 0 times those is not 0.

Inputs are taken to be finite where that is asked (a listed assumption), and what is computed from
finite numbers by sums, products and functions without poles is finite over the reals.
"""

from __future__ import annotations

import re

from gg_datalog.extract.records import Concat, Operator, Slice, Sum
from gg_datalog.extract.view import Base

# Operators that give finite numbers for finite ones, over the reals and far from overflow. Of any
# other operator that is not known: poles, roots of negative numbers, exponentials.
FINITE = frozenset(
    ["abs", "arange", "as", "cast", "cat", "ceil", "clamp", "clamp_max", "clamp_min", "contract",
     "cos", "cumsum", "dropout", "elu", "erf", "floor", "gelu", "gelu_backward", "hardtanh",
     "leaky_relu", "masked", "masked_fill", "max", "maximum", "min", "minimum", "modulo", "mul",
     "permuted", "put", "relu", "round", "scatter", "select", "sigmoid", "sigmoid_backward",
     "sign", "silu", "silu_backward", "sin", "softmax", "softplus", "sum", "take", "tanh",
     "tanh_backward", "threshold_backward", "trunc"]
)  # fmt: skip
# Operators that give finite numbers even for infinite ones and for none (NaN). The limits of tanh,
# sigmoid, erf and sign are finite, too, but of what is no number they are none.
TAMED = frozenset(
    ["argmax", "argmin", "argsort", "bernoulli", "eq", "ge", "gt", "isinf", "isnan", "le",
     "logical_and", "logical_not", "logical_or", "lt", "ne", "nan_to_num", "one_hot"]
)  # fmt: skip
INFINITE = re.compile(r"\b-?(inf|nan)\b")


def may_be_infinite(base: Base, known: dict[Base, bool] | None = None) -> bool:
    """May the tensor hold something that is no finite number, its inputs being finite?"""
    known = {} if known is None else known
    todo = [base]
    while todo:
        one = todo[-1]
        if one in known:
            todo.pop()
            continue
        verdict, needs = _itself(one)
        missing = [b for b in needs if b not in known]
        if verdict is None and missing:
            todo += missing
            continue
        known[one] = any(known[b] for b in needs) if verdict is None else verdict
        todo.pop()
    return known[base]


def _itself(base: Base) -> tuple[bool | None, list[Base]]:
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
