"""A second opinion: what PyTorch's own rules for DTensor say of an operator on one mesh dimension.

A rule says which placement the results have where the operands have theirs. What torch computes
decides whether it is so; of what is, the question is whether our rules derive it.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import torch
from torch.utils._pytree import tree_map

from .combos import Combo, Wanted, _with, build
from .deriving import Derived, derived
from .draws import drawn
from .operators import overload
from .placements import REPLICATED, Placement, shares
from .rounding import Rounding
from .samples import Sample, chosen
from .simple import holds

Tensor = torch.Tensor
WORLD = 2
SAMPLES = 5  # of each operator
MOST = 24  # claims about one sample
# Extents of torch's samples are small and often odd: rules ask for those that can be cut.
SIZES: tuple[dict[int, int], ...] = ({5: 6, 3: 4, 7: 8}, {5: 6, 3: 4}, {5: 4, 3: 6}, {5: 6}, {3: 4}, {})  # fmt: skip
# Rules of torch's that are not so: numbers do not show it, what is no number does.
NO_NUMBERS = ("aten.fmax", "aten.fmin", "aten.nan_to_num")  # drop NaN, which a maximum keeps
NAMES = {"sum": "sum", "max": "max", "min": "min", "avg": "mean"}


@dataclass(frozen=True)
class Claim:
    """Placements of the operands, and of results ("" where nothing is said)."""

    inputs: tuple[Placement, ...]
    outputs: tuple[str, ...]


@dataclass
class Opinion:
    """What came of the rules for one operator, counted in results."""

    claims: int = 0
    covered: int = 0  # results that are placed as claimed
    derived: int = 0
    open: dict[str, int] = field(default_factory=dict)  # covered, not derived: why
    wrong: dict[str, int] = field(default_factory=dict)  # not so, as torch computes it
    kinds: dict[str, list[int]] = field(default_factory=dict)  # by placement: covered, derived


@dataclass(frozen=True)
class Whole:
    """A sample in extents that can be cut, and its arguments."""

    sample: Sample
    sizes: dict[int, int]
    operands: tuple[Tensor, ...]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    results: tuple[Any, ...]


# ---- asking torch
@contextmanager
def fake_group() -> Iterator[None]:
    """The process group that DTensor's rules ask for; none of the ranks exists."""
    import torch.distributed as dist
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.init_process_group("fake", rank=0, world_size=WORLD, store=FakeStore())
    try:
        yield
    finally:
        dist.destroy_process_group()
        _mesh.cache_clear()


@cache
def _propagator() -> Any:
    """DTensor's table of rules."""
    from torch.distributed.tensor import DTensor

    return DTensor._op_dispatcher.sharding_propagator


@cache
def _mesh() -> Any:
    from torch.distributed.device_mesh import init_device_mesh

    return init_device_mesh("cpu", (WORLD,))


def has_rule(target: str) -> bool:
    """Is there a rule that was written for the operator?"""
    table = _propagator()
    op = overload(target)
    return op in table.op_single_dim_strategy_funcs or op in table.op_strategy_funcs


def wholes(target: str, seed: int) -> Iterator[Whole]:
    """Samples of an operator in the first extents that torch takes."""
    rng = random.Random(f"{seed} {target}")
    for sample in chosen(target, rng, SAMPLES):
        for sizes in SIZES:
            shapes = [tuple(sizes.get(e, e) for e in x.shape) for x in sample.operands]
            types = [x.dtype for x in sample.operands]
            made = tuple(drawn(sample, shapes, types, "recorded", torch.Generator().manual_seed(0)))
            args, kwargs = (_with(t, made, sizes) for t in (sample.args, dict(sample.kwargs)))  # type: ignore[arg-type]
            try:
                found = overload(target)(*args, **kwargs)
            except (RuntimeError, ValueError, IndexError, TypeError):
                continue
            results = tuple(found) if isinstance(found, (tuple, list)) else (found,)
            yield Whole(sample, sizes, made, args, kwargs, results)
            break


def claims(target: str, whole: Whole) -> list[Claim]:
    """What torch's rules say of this sample, at least one operand not being whole."""
    table, op = _propagator(), overload(target)
    if op in table.op_single_dim_strategy_funcs:
        rows = _single(table.op_single_dim_strategy_funcs[op], op, whole)
    else:
        rows = _strategies(table.op_strategy_funcs[op], op, whole)
    found = (_claim(outputs, inputs, whole) for outputs, inputs in rows)
    return list(dict.fromkeys(c for c in found if c is not None))


Row = tuple[Sequence[Any], Sequence[Any]]


def _single(function: Any, op: Any, whole: Whole) -> Iterator[Row]:
    from torch.distributed.tensor._dtensor_spec import TensorMeta

    def meta(x: Any) -> Any:
        return TensorMeta(x.shape, x.stride(), x.dtype) if isinstance(x, Tensor) else x

    count = len([x for x in whole.results if isinstance(x, Tensor)])
    for row in function(op, tree_map(meta, whole.args), tree_map(meta, whole.kwargs)):
        if len(row) == count + len(whole.operands):
            yield row[:count], row[count:]


def _strategies(function: Any, op: Any, whole: Whole) -> Iterator[Row]:
    from torch.distributed.tensor._op_schema import OpSchema, TupleStrategy

    def asked(x: Any) -> Any:
        if isinstance(x, Tensor):
            return _every(x)
        listed = isinstance(x, (list, tuple)) and any(isinstance(v, Tensor) for v in x)
        return TupleStrategy(tuple(map(_every, x))) if listed else x

    kwargs = {k: asked(v) for k, v in whole.kwargs.items()}
    found = function(OpSchema(op, tuple(map(asked, whole.args)), kwargs))
    count = len(whole.results)
    for spec in getattr(found, "strategies", ()):
        outs = spec.output_specs
        outputs = list(outs) if isinstance(outs, (tuple, list)) else [outs] * count
        inputs = spec.input_specs
        if inputs is None:
            inputs = [outputs[0]] * len(whole.operands)
        if len(inputs) == len(whole.operands):
            yield [_first(x) for x in outputs], [_first(x) for x in inputs]


def _first(spec: Any) -> Any:
    return None if spec is None else spec.placements[0]


def _every(x: Tensor) -> Any:
    """All placements of a tensor."""
    from torch.distributed.tensor._dtensor_spec import DTensorSpec, TensorMeta
    from torch.distributed.tensor._op_schema import OpSpec, OpStrategy
    from torch.distributed.tensor.placement_types import Partial, Replicate, Shard

    placements = [Replicate(), *map(Shard, range(x.dim())), *map(Partial, NAMES)]
    meta = TensorMeta(x.shape, x.stride(), x.dtype)
    specs = [DTensorSpec(_mesh(), (p,), meta) for p in placements]
    return OpStrategy([OpSpec(output_specs=s, input_specs=()) for s in specs])


def _claim(outputs: Sequence[Any], inputs: Sequence[Any], whole: Whole) -> Claim | None:
    """None where a placement is none of ours, or an extent cannot be cut."""
    made = [_ours(p, x) for p, x in zip(inputs, whole.operands, strict=True)]
    if any(p is None for p in made) or all(p == REPLICATED for p in made):
        return None
    said = tuple(_said(p) for p in outputs)
    return Claim(tuple(p for p in made if p is not None), said) if any(said) else None


def _ours(placement: Any, x: Tensor) -> Placement | None:
    text = _said(placement)
    if placement is None or text == "R":
        return REPLICATED
    if text.startswith("P("):
        how = text[2:-1]
        fits = x.dtype != torch.bool and (how != "mean" or x.is_floating_point())
        return Placement("P", -1, how, 2) if fits else None
    if not text.startswith("S("):
        return None
    dim = int(text[2:-1]) % max(1, x.dim())
    cut = x.dim() and shares(x.shape[dim], "even", WORLD)
    return Placement("S", dim, "even") if cut else None


def _said(placement: Any) -> str:
    """`R`, `S(dim)`, `P(how)`; "" for what is none of these."""
    from torch.distributed.tensor._ops.single_dim_strategy import _ShardingPlaceholder
    from torch.distributed.tensor.placement_types import Partial, Replicate, Shard

    if type(placement) is Replicate:
        return "R"
    if type(placement) in (Shard, _ShardingPlaceholder):
        return f"S({placement.dim})"
    if type(placement) is Partial and placement.reduce_op in NAMES:
        return f"P({NAMES[placement.reduce_op]})"
    return ""


# ---- asking ours
@fake_group()
def ask(targets: Sequence[str], seed: int, say: Any = lambda text: None) -> dict[str, Opinion]:
    """All claims about these operators, tried and compared."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    found: dict[str, Opinion] = {}
    batch: list[tuple[str, Claim, Combo]] = []
    for target in targets:
        opinion = found[target] = Opinion()
        batch += [(target, *pair) for pair in _tried(target, seed, opinion)]
        if len(batch) >= 1000:
            _compare(batch, found)
            say(f"{sum(o.covered for o in found.values())} results that torch's rules tell of, "
                f"{sum(o.derived for o in found.values())} derived")  # fmt: skip
            batch.clear()
    if batch:
        _compare(batch, found)
    return {t: o for t, o in found.items() if o.claims}


def _tried(target: str, seed: int, opinion: Opinion) -> Iterator[tuple[Claim, Combo]]:
    """Claims that are so, as combinations."""
    for whole in wholes(target, seed):
        try:
            said = claims(target, whole)
        except Exception as problem:  # a rule that does not take the sample
            opinion.wrong[f"its rule fails: {type(problem).__name__}"] = 1
            continue
        rng = random.Random(f"{seed} {target}")
        for claim in said if len(said) <= MOST else rng.sample(said, MOST):
            opinion.claims += 1
            combos = list(_combos(claim, whole, rng.getrandbits(32)))
            right = next((c for c in combos if _is_so(claim, c)), None)
            if right is not None:
                yield claim, right
            elif combos:
                opinion.wrong[_text(claim)] = opinion.wrong.get(_text(claim), 0) + 1


def _combos(claim: Claim, whole: Whole, seed: int) -> Iterator[Combo]:
    """The claim with the extents that each rank has in its arguments, and with those of all."""
    shapes = tuple(tuple(x.shape) for x in whole.operands)
    types = tuple(x.dtype for x in whole.operands)
    wanted = Wanted(whole.sample, shapes, types, whole.sizes, WORLD, claim.inputs, "as placed", seed,
                    claimed=claim.outputs)  # fmt: skip
    for local in (True, False):
        combo = build(replace(wanted, local=local))
        if combo is not None:
            yield combo


def _is_so(claim: Claim, combo: Combo) -> bool:
    """Is it, in numbers? A sum of truth values is what a backend makes of it."""
    partial = {t for t in (*map(str, claim.inputs), *claim.outputs) if t[:1] == "P"}
    if partial & {"P(max)", "P(min)"} and combo.wanted.sample.target.startswith(NO_NUMBERS):
        return False
    for text, (ours, _) in zip(claim.outputs, combo.outputs, strict=False):
        if text[:1] == "P" and combo.draws[0].values["seq"][0][ours].dtype == torch.bool:
            return False
    roundings = [Rounding.of(combo, draw) for draw in combo.draws]
    every = list(zip(range(len(combo.outputs)), claim.outputs, strict=False))
    return all(holds(_reduced(text), combo, roundings, wants) for wants, text in every if text)


def _text(claim: Claim) -> str:
    return f"{', '.join(map(str, claim.inputs))} -> {', '.join(claim.outputs)}"


def _compare(batch: Sequence[tuple[str, Claim, Combo]], found: dict[str, Opinion]) -> None:
    for (target, claim, combo), made in zip(
        batch, derived([c.documents for _, _, c in batch]), strict=True
    ):
        opinion = found[target]
        for wants, text in zip(range(len(combo.outputs)), claim.outputs, strict=False):
            if not text:
                continue
            opinion.covered += 1
            agreed = wants in made.mapped
            opinion.derived += agreed
            for kind in {text[0], *(p.kind + p.how * (p.kind == "P") for p in claim.inputs)}:
                row = opinion.kinds.setdefault(kind, [0, 0])
                row[0] += 1
                row[1] += agreed
            if not agreed:
                why = f"{_why(made)}{', '.join(map(str, claim.inputs))} -> {text}"
                opinion.open[why] = opinion.open.get(why, 0) + 1


def _reduced(text: str) -> str:
    """Where the reduction over the ranks of a result with this placement is."""
    return "R" if text[:1] == "P" else text


def _why(made: Derived) -> str:
    """Why nothing is derived: extraction refused it, or describes the operator by nothing."""
    if made.extracted is None:
        return f"refused ({made.reason.splitlines()[0][:100]}): "
    rows = made.extracted.rows.get("unsupported_operator", ())
    reasons = sorted({row[-1] for row in rows})
    return f"{reasons[0]}: " if reasons else ""
