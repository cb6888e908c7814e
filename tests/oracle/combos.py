"""One combination: a sample of an operator, a placement of each operand, and a form.

Both programs are written and executed; arguments that are sizes are tried as they are and with the
extent that a rank has. What torch refuses is not applicable. What is left has the values of every
node on several draws, and the documents of a case.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from gg_datalog.replay.documents import Documents

from .draws import STYLES, SWAPS, drawn
from .forms import FORMS, Call, Outputs, Pair
from .operators import fragile
from .placements import Placement, cut_of, rows_of, sampled
from .samples import Sample, Slot
from .tape import Env, Json, Ref, Refused, Tape

Tensor = torch.Tensor
EXTENTS = (
    {},
    {},
    {5: 6},
    {5: 6, 3: 4, 10: 12},
    {5: 6, 2: 4},
    {5: 4, 3: 6},
)  # other sizes of a sample


@dataclass(frozen=True)
class Wanted:
    """What to build: everything that was chosen at random, or by a rule of DTensor."""

    sample: Sample
    shapes: tuple[tuple[int, ...], ...]
    types: tuple[torch.dtype, ...]
    sizes: Mapping[int, int]  # extents that were changed, in arguments as well
    ranks: int
    placements: tuple[Placement, ...]
    form: str
    seed: int
    open: bool = False  # are outputs declared to be sums over the ranks?
    local: bool | None = None  # have ranks their own extents in arguments? None: at random
    claimed: tuple[str, ...] = ()  # placements of results, of the form "as placed"


@dataclass(repr=False)
class Draw:
    """One execution: what the programs were given, and every node of each rank."""

    given: dict[str, list[Mapping[str, Tensor]]]
    values: dict[str, list[Env]]


@dataclass(repr=False)
class Combo:
    """A combination that torch executes."""

    wanted: Wanted
    documents: Documents
    outputs: Outputs
    draws: list[Draw] = field(default_factory=list)
    call: str = ""
    mark: str = ""  # how to have it again

    def __str__(self) -> str:
        w = self.wanted
        shapes = ", ".join(
            f"{str(t).removeprefix('torch.')}{list(s)} {p}"
            for s, t, p in zip(w.shapes, w.types, w.placements, strict=True)
        )
        return (
            f"{w.sample.target} [{w.form}] on {w.ranks} ranks: {shapes}; {self.call} ({self.mark})"
        )


# ---- choosing
def choose(sample: Sample, form: str, rng: random.Random) -> Wanted:
    """Extents, types and placements at random."""
    sizes = rng.choice(EXTENTS)
    shapes = tuple(tuple(sizes.get(e, e) for e in x.shape) for x in sample.operands)
    swap = {t: rng.choice(other) for t, other in SWAPS.items()}
    types = tuple(
        swap[x.dtype] if free and x.dtype in swap else x.dtype
        for x, free in zip(sample.operands, sample.free, strict=True)
    )
    ranks = rng.choice((2, 2, 3))
    floats = [t.is_floating_point for t in types]
    placements = sampled(shapes, floats, ranks, rng) if shapes else ()
    if form == "other argument" and rng.random() < 0.5:
        placements = tuple(Placement("R") for _ in shapes)
    open_ = rng.random() < 0.25
    return Wanted(sample, shapes, types, sizes, ranks, placements, form, rng.getrandbits(32), open_)


# ---- building
def build(wanted: Wanted) -> Combo | None:
    """Both programs, executed on two draws; None where torch refuses them."""
    rng = random.Random(wanted.seed)
    generator = torch.Generator().manual_seed(wanted.seed)
    styles = rng.sample(STYLES, len(STYLES))
    for number, style in enumerate(styles):
        try:
            given = _given(wanted, style, generator)
            pair = _pair(wanted, given, rng)
            outputs = FORMS[wanted.form][0](pair)
        except (Refused, ValueError, IndexError, TypeError):
            continue
        if not outputs:
            return None
        combo = Combo(wanted, _documents(wanted, pair, outputs), outputs, call=_said(pair))
        combo.draws.append(Draw(given, {"seq": pair.seq.values, "dist": pair.dist.values}))
        _again(combo, pair, styles[number + 1 :], generator)
        return combo
    return None


def _again(combo: Combo, pair: Pair, styles: Sequence[str], generator: torch.Generator) -> None:
    """One more draw, in the first of these styles that torch executes."""
    for style in styles:
        try:
            given = _given(combo.wanted, style, generator)
            values = {"seq": pair.seq.again(given["seq"]), "dist": pair.dist.again(given["dist"])}
        except (Refused, ValueError, TypeError):
            continue
        if _fits(pair, values):
            combo.draws.append(Draw(given, values))
            return


def _fits(pair: Pair, values: dict[str, list[Env]]) -> bool:
    """Have all nodes the form they had when the graph was written? Sizes may depend on data."""
    for tape, envs in ((pair.seq, values["seq"]), (pair.dist, values["dist"])):
        for forms, env in zip(tape.forms, envs, strict=True):
            for name, x in env.items():
                shape = forms[name].get("shape")
                if shape is not None and isinstance(x, Tensor) and shape != list(x.shape):
                    return False
    return True


def _said(pair: Pair) -> str:
    step = next((s for s in pair.dist.steps if s.name in ("y", "probe")), pair.dist.steps[-1])
    ours = next((s for s in pair.seq.steps if s.name == "y"), pair.seq.steps[-1])
    text = f"{ours.args[0]} {ours.kwargs[0] or ''}"
    theirs = f"{step.target} {step.args[0]} {step.kwargs[0] or ''}"
    return f"seq {text} | r0 {theirs}".replace("Ref(name=", "(")


def _names(wanted: Wanted) -> list[str]:
    return [f"x{i}{'_parts' if p.kind == 'P' else ''}" for i, p in enumerate(wanted.placements)]


def _whole(wanted: Wanted) -> list[tuple[int, ...]]:
    """The shapes of the sequential placeholders."""
    return [
        (p.rows * wanted.ranks, *shape) if p.kind == "P" else shape
        for shape, p in zip(wanted.shapes, wanted.placements, strict=True)
    ]


def _given(
    wanted: Wanted, style: str, generator: torch.Generator
) -> dict[str, list[Mapping[str, Tensor]]]:
    """Inputs of the sequential program, and what each rank has of them."""
    shapes = _whole(wanted)
    drawn_ = drawn(wanted.sample, shapes, wanted.types, style, generator)
    names = _names(wanted)
    dist: list[Mapping[str, Tensor]] = []
    for rank in range(wanted.ranks):
        mine = {}
        for name, x, p in zip(names, drawn_, wanted.placements, strict=True):
            if p.kind != "R":
                dim, pieces = cut_of(x.shape, p, rank, wanted.ranks)
                x = torch.cat([x.narrow(dim, lo, hi - lo) for lo, hi in pieces], dim)
            mine[name] = x
        dist.append(mine)
    return {"seq": [dict(zip(names, drawn_, strict=True))], "dist": dist}


def _pair(wanted: Wanted, given: Any, rng: random.Random) -> Pair:
    """Both programs up to the operator."""
    tapes = Tape(given["seq"]), Tape(given["dist"])
    refs: list[Ref] = []
    for i, (name, p) in enumerate(zip(_names(wanted), wanted.placements, strict=True)):
        if p.kind == "P":
            refs = [*refs, [_reduced(t, f"x{i}", name, p, wanted.types[i]) for t in tapes][0]]  # noqa: RUF015
        else:
            refs.append(Ref(name))
    if fragile(wanted.sample.target) and not _alike(wanted, tapes[1], refs):
        raise Refused("its operands do not go together")
    ours = _call(wanted.sample, refs, wanted.sizes, 1)
    theirs = _local(wanted, refs, tapes[1], rng)
    return Pair(*tapes, ours, theirs, refs, rng, wanted.claimed)


def _alike(wanted: Wanted, tape: Tape, refs: Sequence[Ref]) -> bool:
    """Are extents that are equal in the sample equal on each rank, and its arguments its own?"""
    if wanted.form in ("other argument", "operands swapped", "cast") or wanted.sizes:
        return False
    asked = [s for s, free in zip(wanted.shapes, wanted.sample.free, strict=True) if not free]
    cut = {s[p.dim] for s, p in zip(wanted.shapes, wanted.placements, strict=True) if p.kind == "S"}
    if any(extent not in shape for extent in cut for shape in asked):
        return False  # positions would lie outside of what is cut
    for rank in range(tape.ranks):
        local: dict[int, set[int]] = {}
        for shape, ref in zip(wanted.shapes, refs, strict=True):
            for a, b in zip(shape, tape.value(ref, rank).shape, strict=True):
                local.setdefault(a, set()).add(b)
        if any(len(found) > 1 for found in local.values()):
            return False
    return True


def _reduced(tape: Tape, stem: str, name: str, p: Placement, dtype: torch.dtype) -> Ref:
    if p.how in ("max", "min"):
        return tape.call(stem, f"aten.a{p.how}.default", Ref(name), [0])
    if p.how == "mean":
        return tape.call(stem, "aten.mean.dim", Ref(name), [0])
    wide = dtype.is_floating_point or dtype == torch.int64
    more = {} if wide else {"dtype": dtype}
    return tape.call(stem, "aten.sum.dim_IntList", Ref(name), [0], **more)


def _call(sample: Sample, refs: Sequence[Ref], sizes: Mapping[int, int], ranks: int) -> Call:
    args, kwargs = _with(sample.args, refs, sizes), _with(dict(sample.kwargs), refs, sizes)
    return Call(sample.target, [args] * ranks, [kwargs] * ranks)


def _with(tree: Any, refs: Sequence[Ref], sizes: Mapping[int, int]) -> Any:
    """Arguments with references, and other extents where an integer is one, or a product."""
    if isinstance(tree, Slot):
        return refs[tree.index]
    if isinstance(tree, (list, tuple)):
        return type(tree)(_with(part, refs, sizes) for part in tree)
    if isinstance(tree, dict):
        return {key: _with(part, refs, sizes) for key, part in tree.items()}
    return _resized(tree, sizes) if type(tree) is int else tree


def _resized(number: int, sizes: Mapping[int, int]) -> int:
    if number in sizes:
        return sizes[number]
    for old, new in sizes.items():
        if number >= 2 * old and number % old == 0:
            return _resized(number // old, sizes) * new
    return number


def _local(wanted: Wanted, refs: list[Ref], tape: Tape, rng: random.Random) -> Call:
    """The call that each rank makes: extents that were cut may be replaced in the arguments."""
    call = _call(wanted.sample, refs, wanted.sizes, wanted.ranks)
    if rng.random() < 0.35 if wanted.local is None else not wanted.local:
        return call
    args, kwargs = [], []
    for rank in range(wanted.ranks):
        mine: dict[int, int] = {}
        for shape, p in zip(wanted.shapes, wanted.placements, strict=True):
            if p.kind == "S":
                mine[shape[p.dim]] = sum(
                    hi - lo for lo, hi in cut_of(shape, p, rank, wanted.ranks)[1]
                )
        args.append(_with(call.args[rank], refs, mine))
        kwargs.append(_with(call.kwargs[rank], refs, mine))
    return replace(call, args=args, kwargs=kwargs)


# ---- as a case
def _documents(wanted: Wanted, pair: Pair, outputs: Outputs) -> Documents:
    seq = pair.seq.graphs([s for s, _ in outputs])[0]
    dist = dict(enumerate(pair.dist.graphs([d for _, d in outputs])))
    ranks = list(range(wanted.ranks))
    groups: Json = {"seq": [], "dist": [{"ranks": ranks, "names": {str(r): "g" for r in ranks}}]}
    shapes = zip(_names(wanted), _whole(wanted), wanted.placements, strict=True)
    rows = [row for name, shape, p in shapes for row in rows_of(name, shape, p, wanted.ranks)]
    listed = [
        {"seq": s, "dist": {str(r): d for r in ranks}, "partial": wanted.open} for s, d in outputs
    ]
    return Documents(seq, dist, groups, rows, listed)
