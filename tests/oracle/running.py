"""Many combinations of many operators: built, derived in batches, compared, counted."""

from __future__ import annotations

import os
import pickle
import random
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import torch

from .checking import Checker
from .combos import Combo, build, choose
from .deriving import Derived, derived
from .forms import FORMS
from .operators import base_of, known
from .rounding import Rounding
from .samples import chosen, recorded
from .simple import is_derived, shown

BATCH = 1000
TURN = 10  # combinations of one operator at a time
TRIES = 3  # for one that torch executes


@dataclass
class Counts:
    """What came out for one operator."""

    tried: int = 0
    refused: int = 0  # by extraction, though torch executes both
    relations: int = 0
    right: int = 0  # outputs of which the numbers show a simple placement
    missed: int = 0  # of these not derived
    not_applicable: int = 0
    skipped: int = 0
    wrong: list[str] = field(default_factory=list)
    ended: int = 0  # turns that ended the process
    missing: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)

    def add(self, other: Counts) -> None:
        """Counts some more."""
        for name in self.__dataclass_fields__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


Say = Callable[[str], None]
Turn = tuple[str, int]  # an operator, and which of its turns
T = TypeVar("T")


def targets(pattern: str = "*", uninterpreted: bool = True) -> list[str]:
    """The operators to ask about."""
    from fnmatch import fnmatch

    short = [(t, t.partition(".")[2]) for t in recorded()]
    return [
        t for t, name in short
        if (fnmatch(name, pattern) or fnmatch(name.rpartition(".")[0], pattern))
        and (uninterpreted or base_of(t) in known())
    ]  # fmt: skip


def combos_of(turn: Turn, seed: int, counts: Counts) -> Iterator[Combo]:
    """Some combinations of one operator, the same for a turn and a seed."""
    target, number = turn
    rng = random.Random(f"{seed} {target} {number}")
    samples = chosen(target, rng)
    names, weights = list(FORMS), [w for _, w in FORMS.values()]
    made = 0
    for _ in range(TRIES * TURN if samples else 0):
        if made == TURN:
            return
        wanted = choose(rng.choice(samples), rng.choices(names, weights)[0], rng)
        combo = build(wanted)
        if combo is None:
            counts.not_applicable += 1
            continue
        made += 1
        combo.mark = f"--op {target} --seed {seed} --turn {number}"
        yield combo


def judge(combos: Sequence[tuple[str, Combo]], counts: dict[str, Counts]) -> None:
    """Derives and compares one batch."""
    for (target, combo), found in zip(
        combos, derived([c.documents for _, c in combos]), strict=True
    ):
        _count(counts.setdefault(target, Counts()), combo, found)


def _count(counts: Counts, combo: Combo, found: Derived) -> None:
    counts.tried += 1
    if found.extracted is None:
        counts.refused += 1
        kind = "crash: " if found.crashed else ""
        counts.reasons[f"{kind}{found.reason.splitlines()[0][:160]}"] += 1
        if found.crashed:
            counts.wrong.append(f"{combo}: crash: {found.reason}")
        return
    checker = Checker(combo, found, combo.draws[0])
    one = checker.found()
    counts.relations += one.relations
    counts.skipped += one.skipped
    problems = one.wrong
    if problems:
        counts.wrong.append(f"{combo}: {'; '.join(problems[:4])}")
    roundings = [Rounding.of(combo, draw) for draw in combo.draws]
    for wants in range(len(combo.outputs)):
        placement = shown(combo, roundings, wants)
        if not placement:
            continue
        counts.right += 1
        if not is_derived(placement, combo, found, wants):
            counts.missed += 1
            inputs = ", ".join(map(str, combo.wanted.placements))
            dtype = combo.draws[0].values["seq"][0][combo.outputs[wants][0]].dtype
            kind = "float" if dtype.is_floating_point else str(dtype).removeprefix("torch.")
            counts.missing[f"[{combo.wanted.form}] {inputs} -> {placement} {kind}"] += 1


def turns(names: Sequence[str], total: int) -> list[Turn]:
    """As many combinations in all, of every operator as many, by turns: what is wrong shows early."""
    each = -(-total // max(1, TURN * len(names)))
    return [(name, number) for number in range(each) for name in names]


def run(asked: Sequence[Turn], seed: int, say: Say = lambda text: None) -> dict[str, Counts]:
    """All of these turns. Some kernels trust their arguments and end the process where these are
    not sound, so every batch has a process of its own; one that ends is tried again turn by turn."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    _turns([("aten.add.Tensor", 0)], seed)  # what it reads is read for all processes
    counts = {name: Counts() for name, _ in asked}
    began = time.monotonic()
    size = BATCH // TURN
    for at in range(0, len(asked), size):
        for name, found in _batch(asked[at : at + size], seed).items():
            counts[name].add(found)
            for text in found.wrong:
                say(f"WRONG {text}")
        done, wrong = (
            sum(c.tried for c in counts.values()), sum(len(c.wrong) for c in counts.values())
        )  # fmt: skip
        say(f"{done} combinations, {wrong} wrong, {time.monotonic() - began:.0f} s")
    return counts


def _batch(asked: Sequence[Turn], seed: int) -> dict[str, Counts]:
    found = apart(lambda: _turns(asked, seed))
    if found is not None:
        return found
    if len(asked) == 1:
        return {asked[0][0]: Counts(ended=1)}
    total: dict[str, Counts] = {}
    half = len(asked) // 2
    for part in (asked[:half], asked[half:]):
        for name, counts in _batch(part, seed).items():
            total.setdefault(name, Counts()).add(counts)
    return total


def _turns(asked: Sequence[Turn], seed: int) -> dict[str, Counts]:
    counts = {name: Counts() for name, _ in asked}
    judge([(turn[0], c) for turn in asked for c in combos_of(turn, seed, counts[turn[0]])], counts)
    return counts


def apart(work: Callable[[], T]) -> T | None:
    """The result of some work in a process of its own; None where that ended without one."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.close(reading)
            with os.fdopen(writing, "wb") as file:
                pickle.dump(work(), file)
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    os.close(writing)
    with os.fdopen(reading, "rb") as file:
        data = file.read()
    _, status = os.waitpid(child, 0)
    if os.WIFEXITED(status) and os.WEXITSTATUS(status):
        raise RuntimeError("a batch failed: see above")
    return pickle.loads(data) if status == 0 else None
