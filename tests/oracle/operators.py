"""Which operators the oracle asks about, and what torch's schemas say of their forms.

An operator is *known* where the table has a row for it or a lowering is registered; every other
operator of ATen that torch's own tests call is *uninterpreted*: it is tried as well, since nothing
may be concluded of it but that equal operands give equal results.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import torch

from gg_datalog.extract import lower
from gg_datalog.extract.context import HANDLERS
from gg_datalog.extract.table import load_table

SPACES = ("aten.", "prims.")
# Their results are no function of their operands: memory that nobody wrote, or drawn numbers.
UNTOLD = ("empty", "new_empty", "rand", "dropout", "bernoulli", "set_", "resize", "as_strided", "_reshape_alias", "_nested",
          "_version", "record_stream", "_cudnn", "_thnn", "is_", "item", "_local_scalar", "equal",
          "_assert", "normal", "uniform", "exponential", "geometric", "cauchy", "multinomial",
          "poisson", "random", "rrelu", "sym_", "data_ptr", "stride", "size", "numel", "lift_fresh",
          "view.dtype", "_efficientzerotensor", "segment_reduce", "from_file", "log_normal",
          "binomial", "_resize", "special_zeta", "histogram", "bincount", "repeat_interleave",
          "requires_grad", "retain_grad", "set_data", "output_nr", "_sparse", "sparse", "to_dense",
          "crow_indices", "values", "coalesce", "fft", "linalg_svd", "linalg_eig", "geqrf", "svd")  # fmt: skip
FRAGILE = ("backward", "scaled_dot", "unpool", "_unsafe", "lu_", "ldl", "ormqr", "orgqr", "_embedding",
           "_cdist", "_pdist", "batch_norm", "group_norm", "linalg_", "masked_index", "pool", "nll_loss",
           "_loss_forward", "grid_sampler", "upsample", "conv", "triangular", "_to_sparse", "unfold",
           "histogram", "multi_margin", "multilabel", "segment", "solve", "hacked_twin")  # fmt: skip
_ = lower  # registers the lowerings


@cache
def known() -> frozenset[str]:
    """Names, without overload, of the operators that the table or a lowering describes."""
    table = load_table()
    described = (*HANDLERS, *table.elementwise, *table.identity, *table.rows, *table.aliases)
    return frozenset(name for name in described if name.startswith(SPACES))


def name_of(target: str) -> str:
    """Namespace and name, without the overload."""
    return target.rpartition(".")[0]


def base_of(target: str) -> str:
    """The same, of an in-place form the functional one's."""
    name = name_of(target)
    return name if name.endswith("__") else name.removesuffix("_")


def told(target: str) -> bool:
    """Are its results a function of its operands that this machine can compute?"""
    short = target.partition(".")[2]
    if not target.startswith(SPACES) or overload(target) is None:
        return False
    if not any("Tensor" in str(r.type) for r in overload(target)._schema.returns):
        return False
    if target in ("aten.lift_fresh_copy.default", "aten.lift_fresh.default"):
        return True
    return not short.startswith(UNTOLD)


def fragile(target: str) -> bool:
    """Does its kernel trust its arguments to fit together, and end the process where they do not?"""
    return any(word in target for word in FRAGILE)


@cache
def overload(target: str) -> Any:
    """torch's operator of that name; None where there is none."""
    space, name, which = target.split(".", 2)
    packet = getattr(getattr(torch.ops, space), name, None)
    return None if packet is None else getattr(packet, which, None)


@dataclass(frozen=True)
class Parameter:
    """A parameter of an operator, as its schema says."""

    name: str
    type: str
    keyword_only: bool
    default: Any
    has_default: bool
    written: bool
    out: bool


@cache
def parameters(target: str) -> tuple[Parameter, ...]:
    """All parameters, in order."""
    return tuple(
        Parameter(a.name, str(a.type), a.kwarg_only, a.default_value, a.has_default_value(),
                  bool(a.alias_info and a.alias_info.is_write), bool(a.is_out))
        for a in overload(target)._schema.arguments
    )  # fmt: skip


def is_functional(target: str) -> bool:
    """Does it write into none of its operands?"""
    return not any(p.written for p in parameters(target))


@cache
def aliasing(target: str) -> bool:
    """May a result share memory with an operand, without writing into it?"""
    return any(r.alias_info is not None for r in overload(target)._schema.returns)


@cache
def in_place(target: str) -> str | None:
    """The form that writes into its first operand: `add_` of `add`."""
    name, _, which = target.rpartition(".")
    found = f"{name}_.{which}"
    if name.endswith("_") or overload(found) is None:
        return None
    ours, theirs = ([(p.name, p.type) for p in parameters(t) if not p.out] for t in (target, found))
    return found if ours == theirs and parameters(found)[0].written else None


@cache
def with_out(target: str) -> tuple[str, tuple[str, ...]] | None:
    """The form that writes into tensors given as keywords, and these keywords."""
    name = name_of(target)
    packet = getattr(torch.ops, name.split(".")[0]).__getattr__(name.split(".")[1])
    ours = [(p.name, p.type) for p in parameters(target)]
    for which in packet.overloads():
        other = f"{name}.{which}"
        theirs = parameters(other)
        outs = tuple(p.name for p in theirs if p.out)
        if outs and [(p.name, p.type) for p in theirs if not p.out] == ours:
            return other, outs
    return None
