"""The forms in which an operator is written on either side.

The sequential side has the call as it was recorded; the ranks have it in another form: by keyword,
with defaults written out, in place, into an `out=`, its result or operand written to afterwards,
with another argument, through another type. Whether both sides are then the same is for the
numbers to say.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import torch

from .operators import Parameter, base_of, fragile, in_place, known, parameters, with_out
from .samples import recorded
from .tape import Ref, Refused, Tape

Outputs = list[tuple[str, str]]  # (sequential node, node of every rank)


@dataclass(frozen=True)
class Call:
    """An operator and its arguments on each rank."""

    target: str
    args: list[tuple[Any, ...]]
    kwargs: list[dict[str, Any]]

    def on(self, tape: Tape, stem: str = "y") -> Ref:
        """The call as the next node."""
        return tape.calls(stem, self.target, self.args, self.kwargs)

    def each(self, change: Callable[[tuple[Any, ...], dict[str, Any]], Any]) -> Call:
        """With other arguments on every rank."""
        pairs = [change(a, k) for a, k in zip(self.args, self.kwargs, strict=True)]
        return replace(self, args=[a for a, _ in pairs], kwargs=[k for _, k in pairs])


@dataclass
class Pair:
    """Both programs up to the operator, and the operator on either side."""

    seq: Tape
    dist: Tape
    ours: Call
    theirs: Call
    operands: list[Ref]
    rng: random.Random
    claimed: tuple[str, ...] = ()  # placements of results


Form = Callable[[Pair], Outputs]
FORMS: dict[str, tuple[Form, float]] = {}


def form(name: str, weight: float) -> Callable[[Form], Form]:
    """Registers a form; of how many it is one."""

    def register(made: Form) -> Form:
        FORMS[name] = made, weight
        return made

    return register


def results(pair: Pair, ours: Ref, theirs: Ref) -> Outputs:
    """The tensors that two nodes give, one by one."""
    both = pair.seq.items(ours), pair.dist.items(theirs)
    return [(a.name, b.name) for a, b in zip(*both, strict=False)]


# ---- spellings
@form("positional", 8)
def positional(pair: Pair) -> Outputs:
    return results(pair, pair.ours.on(pair.seq), pair.theirs.on(pair.dist))


@form("keyword", 1.5)
def keyword(pair: Pair) -> Outputs:
    names = [p.name for p in parameters(pair.theirs.target)]
    first = pair.rng.choice((0, 1, 1, len(names)))

    def named(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return args[:first], dict(zip(names[first:], args[first:], strict=False)) | kwargs

    if not pair.theirs.args[0][first:]:
        raise Refused("nothing to name")
    return results(pair, pair.ours.on(pair.seq), pair.theirs.each(named).on(pair.dist))


@form("defaults", 1)
def defaults(pair: Pair) -> Outputs:
    listed = parameters(pair.theirs.target)
    both = pair.theirs.each(lambda a, k: _spelled(listed, a, k))
    if both == pair.theirs:
        both = pair.theirs.each(lambda a, k: _dropped(listed, a, k))
    if both == pair.theirs:
        raise Refused("it has no defaults")
    return results(pair, pair.ours.on(pair.seq), both.on(pair.dist))


def _spelled(listed: tuple[Parameter, ...], args: Any, kwargs: Any) -> Any:
    more = {
        p.name: p.default for p in listed[len(args) :] if p.has_default and p.name not in kwargs
    }
    return args, more | kwargs


def _dropped(listed: tuple[Parameter, ...], args: Any, kwargs: Any) -> Any:
    args = list(args)
    while (
        args
        and listed[len(args) - 1].has_default
        and _same(args[-1], listed[len(args) - 1].default)
    ):
        args.pop()
    usual = {p.name: p.default for p in listed if p.has_default}
    return tuple(args), {
        k: v for k, v in kwargs.items() if k not in usual or not _same(v, usual[k])
    }


def _same(a: Any, b: Any) -> bool:
    return type(a) is type(b) and a == b


# ---- forms that write
@form("in place", 1.5)
def written_in_place(pair: Pair) -> Outputs:
    target = in_place(pair.theirs.target)
    if target is None:
        raise Refused("it has no such form")
    y, z = pair.ours.on(pair.seq), replace(pair.theirs, target=target).on(pair.dist)
    written = pair.theirs.args[0][0]
    same = [(y.name, written.name)] if isinstance(written, Ref) and isinstance(
        pair.seq.value(y), torch.Tensor) else []  # fmt: skip
    return results(pair, y, z) + same


@form("out", 1)
def written_out(pair: Pair) -> Outputs:
    found = with_out(pair.theirs.target)
    y = pair.ours.on(pair.seq)
    probe = pair.theirs.on(pair.dist, "probe")
    if found is None:
        raise Refused("it has no such form")
    target, names = found
    made = [pair.dist.value(probe, r) for r in range(pair.dist.ranks)]
    made = [m if isinstance(m, tuple) else (m,) for m in made]
    pair.dist.undo()
    if not all(isinstance(x, torch.Tensor) for m in made for x in m):
        raise Refused("its results are lists")
    outs = {}
    for i, name in enumerate(names):
        forms = [(list(m[i].shape), m[i].dtype) for m in made]
        outs[name] = pair.dist.calls(
            name, "aten.zeros.default", [(s,) for s, _ in forms], [{"dtype": d} for _, d in forms]
        )
    z = replace(pair.theirs, target=target, kwargs=[k | outs for k in pair.theirs.kwargs]).on(
        pair.dist
    )
    both = results(pair, y, z)
    return both + [(s, outs[n].name) for (s, _), n in zip(both, names, strict=False)]


VIEWS: tuple[tuple[str, tuple[Any, ...]], ...] = (
    ("", ()), ("aten.alias.default", ()), ("aten.slice.Tensor", (0, 0, 1)),
    ("aten.select.int", (0, 0)), ("aten.transpose.int", (0, -1)), ("aten.unsqueeze.default", (0,)),
    ("aten.view.default", ([-1],)), ("aten.expand.default", ([-1],)), ("aten.squeeze.default", ()),
)  # fmt: skip
WRITES = ("aten.add_.Scalar", "aten.mul_.Scalar", "aten.fill_.Scalar")


def _write(tape: Tape, into: Ref, how: tuple[Any, ...]) -> None:
    (view, args), write = how
    shown = tape.call("v", view, into, *args) if view else into
    tape.call("w", write, shown, 3)


@form("result written to", 1.5)
def result_written(pair: Pair) -> Outputs:
    """Is the result a view? The ranks may take a copy before or after, or not write at all."""
    how = pair.rng.choice(VIEWS), pair.rng.choice(WRITES)
    variant = pair.rng.choice(("same", "before", "after", "none"))
    y = pair.seq.items(pair.ours.on(pair.seq))[0]
    _write(pair.seq, y, how)
    theirs = _of_copies(pair.dist, pair.theirs) if variant == "before" else pair.theirs
    z = pair.dist.items(theirs.on(pair.dist))[0]
    if variant == "after":
        z = pair.dist.call("copy", "aten.clone.default", z)
    if variant != "none":
        _write(pair.dist, z, how)
    return [(y.name, z.name)] + [(x.name, x.name) for x in pair.operands]


@form("operand written to", 1.5)
def operand_written(pair: Pair) -> Outputs:
    """The same, an operand being written to after it was used."""
    how = pair.rng.choice(VIEWS), pair.rng.choice(WRITES)
    variant = pair.rng.choice(("same", "before", "after"))
    if not pair.operands:
        raise Refused("no operand")
    x = pair.rng.choice(pair.operands)
    ours = pair.seq.items(pair.ours.on(pair.seq))
    _write(pair.seq, x, how)
    called = _of_copies(pair.dist, pair.theirs) if variant == "before" else pair.theirs
    theirs = pair.dist.items(called.on(pair.dist))
    if variant == "after":
        theirs = [pair.dist.call("copy", "aten.clone.default", z) for z in theirs]
    _write(pair.dist, x, how)
    both = [(y.name, z.name) for y, z in zip(ours, theirs, strict=False)]
    return both + [(o.name, o.name) for o in pair.operands]


def _of_copies(tape: Tape, call: Call) -> Call:
    copies: dict[Ref, Ref] = {}

    def copied(tree: Any) -> Any:
        if isinstance(tree, Ref):
            if tree not in copies:
                copies[tree] = tape.call("copy", "aten.clone.default", tree)
            return copies[tree]
        return type(tree)(map(copied, tree)) if isinstance(tree, (list, tuple)) else tree

    return call.each(lambda a, k: (copied(a), {n: copied(v) for n, v in k.items()}))


# ---- other programs
@form("other argument", 3)
def other_argument(pair: Pair) -> Outputs:
    """One argument that is no tensor differs: what another sample has there, or the next number."""
    listed, args, kwargs = (
        parameters(pair.theirs.target),
        pair.theirs.args[0],
        pair.theirs.kwargs[0],
    )
    places = [p for i, p in enumerate(listed) if "Tensor" not in p.type and not p.out]
    if not places:
        raise Refused("it has no other arguments")
    p = pair.rng.choice(places)
    at = listed.index(p)
    value = _another(pair, p, args[at] if at < len(args) else kwargs.get(p.name, p.default))

    def changed(a: tuple[Any, ...], k: dict[str, Any]) -> Any:
        if at < len(a):
            return (*a[:at], value, *a[at + 1 :]), k
        return a, k | {p.name: value}

    return results(pair, pair.ours.on(pair.seq), pair.theirs.each(changed).on(pair.dist))


def _another(pair: Pair, p: Parameter, value: Any) -> Any:
    others: list[Any] = [p.default] if p.has_default else []
    for sample in recorded()[pair.theirs.target][:200]:
        at = [q.name for q in parameters(sample.target)].index(p.name)
        others.append(
            sample.args[at] if at < len(sample.args) else sample.kwargs.get(p.name, p.default)
        )
    if isinstance(value, bool):
        others.append(not value)
    elif isinstance(value, (int, float)):
        others += [value + 1, value - 1, -value, 0, value + 0.5, -1]
    elif "float" in p.type or "Scalar" in p.type:
        others += [0, 0.5, 1.5, 2]
    elif p.type == "Optional[int]":
        others += [0, 1, None]
    elif "bool" in p.type:
        others += [True, False]
    elif isinstance(value, list) and value:
        others += [value[::-1], value[:-1], [*value[:-1], value[-1] + 1]]
    if "dtype" in p.name:
        others = [None, *TYPES]
    others = [o for o in others if not _same(o, value) and "Slot" not in repr(o)]
    if not others:
        raise Refused("there is no other value")
    return pair.rng.choice(others)


@form("operands swapped", 1)
def swapped(pair: Pair) -> Outputs:
    args = pair.theirs.args[0]
    places = [i for i, a in enumerate(args) if isinstance(a, Ref)]
    if len(places) < 2:
        raise Refused("it has no two operands")
    i, j = sorted(pair.rng.sample(places, 2))

    def changed(a: tuple[Any, ...], k: dict[str, Any]) -> Any:
        return (*a[:i], a[j], *a[i + 1 : j], a[i], *a[j + 1 :]), k

    return results(pair, pair.ours.on(pair.seq), pair.theirs.each(changed).on(pair.dist))


@form("other operator", 1)
def other_operator(pair: Pair) -> Outputs:
    """Another operator that takes the same arguments."""
    if fragile(pair.ours.target):
        raise Refused("its kernel trusts its arguments")
    alike = [t for t in _alike()[_kind(pair.ours.target)] if t != pair.ours.target]
    if not alike:
        raise Refused("there is none like it")
    theirs = replace(pair.theirs, target=pair.rng.choice(alike))
    return results(pair, pair.ours.on(pair.seq), theirs.on(pair.dist))


@cache
def _alike() -> dict[tuple[str, ...], list[str]]:
    found = defaultdict(list)
    for target in (t for t in recorded() if not fragile(t) and base_of(t) in known()):
        found[_kind(target)].append(target)
    return found


@cache
def _kind(target: str) -> tuple[str, ...]:
    return tuple(p.type for p in parameters(target))


# ---- through other types
TYPES = (torch.float64, torch.float32, torch.int64, torch.int32, torch.uint8, torch.bool)


def _cast(tape: Tape, of: Ref, to: torch.dtype) -> Ref:
    return tape.call("cast", "aten._to_copy.default", of, dtype=to)


@form("cast", 3)
def cast(pair: Pair) -> Outputs:
    """Operands are cast before, or results after, on one side or on both."""
    to, kind = pair.rng.choice(TYPES), pair.rng.choice(("around", "commuted", "after", "before"))
    y = pair.ours.on(pair.seq)
    theirs = pair.theirs if kind == "after" else _of_casts(pair, to)
    z = theirs.on(pair.dist)
    ours, made = pair.seq.items(y), pair.dist.items(z)
    if kind in ("commuted", "after"):
        ours = [_cast(pair.seq, x, to) for x in ours]
    if kind == "after":
        made = [_cast(pair.dist, x, to) for x in made]
    if kind == "around":
        pairs = zip(ours, made, strict=False)
        made = [_cast(pair.dist, m, pair.seq.value(o).dtype) for o, m in pairs]
    return [(a.name, b.name) for a, b in zip(ours, made, strict=False)]


def _of_casts(pair: Pair, to: torch.dtype) -> Call:
    found: dict[Ref, Ref] = {}
    kinds = {x: pair.seq.value(x).dtype for x in pair.operands}
    main = kinds[pair.operands[0]] if pair.operands else None

    def changed(tree: Any) -> Any:
        if isinstance(tree, Ref) and kinds.get(tree) == main:
            if tree not in found:
                found[tree] = _cast(pair.dist, tree, to)
            return found[tree]
        return type(tree)(map(changed, tree)) if isinstance(tree, (list, tuple)) else tree

    return pair.theirs.each(lambda a, k: (changed(a), {n: changed(v) for n, v in k.items()}))


# ---- what comes after
@form("reduced over the ranks", 3)
def reduced(pair: Pair) -> Outputs:
    how = pair.rng.choice(("sum", "sum", "max"))
    ours = pair.seq.items(pair.ours.on(pair.seq))
    made = []
    for z in pair.dist.items(pair.theirs.on(pair.dist)):
        total = pair.dist.call("total", "_c10d_functional.all_reduce.default", z, how, "g")
        made.append(pair.dist.call("done", "_c10d_functional.wait_tensor.default", total))
    return [(a.name, b.name) for a, b in zip(ours, made, strict=False)]


REDUCED = {"P(sum)": "sum", "P(max)": "max", "P(min)": "min", "P(mean)": "avg"}


@form("as placed", 0)
def as_placed(pair: Pair) -> Outputs:
    """The results; of those that are claimed to be partial, what their reduction over ranks gives."""
    found = []
    for place, (ours, theirs) in enumerate(positional(pair)):
        how = REDUCED.get(pair.claimed[place]) if place < len(pair.claimed) else None
        made = Ref(theirs)
        if how is not None:
            total = pair.dist.call("total", "_c10d_functional.all_reduce.default", made, how, "g")
            made = pair.dist.call("done", "_c10d_functional.wait_tensor.default", total)
        found.append((ours, made.name))
    return found


THEN: tuple[tuple[str, tuple[Any, ...]], ...] = (
    ("aten.mul.Tensor", (0.0,)), ("aten.mul.Tensor", (2,)), ("aten.neg.default", ()),
    ("aten.gt.Scalar", (1,)), ("aten.abs.default", ()), ("aten.div.Tensor", (3,)),
    ("aten.sum.default", ()), ("aten.relu.default", ()), ("aten.add.Tensor", (1,)),
    ("aten.div.Tensor_mode", (2,)), ("aten.eq.Scalar", (0,)), ("aten.bitwise_not.default", ()),
)  # fmt: skip


@form("then another", 3)
def then(pair: Pair) -> Outputs:
    """An operator after it, or before it on the ranks; 0 times it may be left out."""
    target, args = pair.rng.choice(THEN)
    more = {"rounding_mode": "floor"} if target.endswith("_mode") else {}
    ours = pair.seq.items(pair.ours.on(pair.seq))[0]
    after = pair.seq.call("then", target, ours, *args, **more)
    if pair.rng.random() < 0.5:
        theirs = pair.dist.items(pair.theirs.on(pair.dist))[0]
        made = pair.dist.call("then", target, theirs, *args, **more)
    elif args == (0.0,):
        theirs = pair.dist.items(pair.theirs.on(pair.dist))[0]
        made = pair.dist.call("then", "aten.zeros_like.default", theirs)
    else:
        made = _of_results(pair, target, args, more)
    return [(after.name, made.name)]


def _of_results(pair: Pair, target: str, args: Any, more: Any) -> Ref:
    x = pair.rng.choice(pair.operands) if pair.operands else None
    if x is None:
        raise Refused("no operand")
    before = pair.dist.call("first", target, x, *args, **more)

    def changed(tree: Any) -> Any:
        if tree == x:
            return before
        return type(tree)(map(changed, tree)) if isinstance(tree, (list, tuple)) else tree

    call = pair.theirs.each(lambda a, k: (changed(a), {n: changed(v) for n, v in k.items()}))
    return pair.dist.items(call.on(pair.dist))[0]
