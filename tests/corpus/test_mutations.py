"""Broken pairs: never exit 0 unless still right, and the report leads to the broken place.

Each run also breaks fresh places of the pairs that can be executed, and looks for a wrong verdict
only: no run fails by bad luck, for a place that is hard to point at or a change that is right for a
reason that value numbering does not see.
"""

from __future__ import annotations

import random
import secrets
from collections.abc import Iterator

import pytest

from ..numeric.judge import truth
from ..numeric.mutations import Broken, mutate
from ..numeric.pairs import CORPUS, corpus, pair
from ..numeric.program import Program
from .places import Graphs, touched
from .trial import Bench, Trial
from .values import same_value

CAPTURED = ("gpt-tp2-l1", "gpt-tp2-l2", "llama-tp2-l1", "qwen2-tp2-l1")
GENERATED = ("gpt-1x4", "llama-1x4-one-kv-head", "qwen2-1x4-replicated")
KINDS = (
    "remove_all_reduce",
    "wrong_tensor",
    "shift_slice",
    "change_scalar",
    "permute_shards",
    "drop_rank",
    "group_of_one",
)
EACH = 3
SEEDS = {"fixed": 20240229, "fresh": secrets.randbelow(2**31)}


def broken(program: Program, rng: random.Random) -> Iterator[Broken]:
    """Some of the kinds, once each; wrong tensors always, for they are the most various."""
    for kind in ["wrong_tensor", *rng.sample(KINDS, EACH)]:
        try:
            yield mutate(program, rng, kind)
        except LookupError:
            continue


def is_right(name: str, before: Program, after: Program, seed: int) -> bool:
    """Generated pairs are executed; captured ones are right if they compute the same values."""
    return truth(after, seed)[0] if name in GENERATED else same_value(before, after)


def reordered(found: Trial) -> bool:
    """Are all outputs rebuilt, with a warning that their shares come in another order?"""
    codes = {finding["code"] for finding in found.report["findings"]}
    return found.status == 0 and "GG133" in codes


def named(found: Trial) -> set[str]:
    """The distributed operators that queries and findings about collectives name."""
    return {
        *(row["dist"] for row in found.query("blocked_by")),
        *(name for row in found.query("frontier") for name in row["dist"]),
        *(n for f in found.report["findings"] if f["code"] == "GG110" for n in f["dist"]),
    }


PLACES = [*((name, "fixed") for name in CAPTURED), *((n, w) for n in GENERATED for w in SEEDS)]


@pytest.mark.exhaustive("*-tp2-*", "qwen2-*", "gpt-1x4-*", "llama-tp2-*", "*-fresh")
@pytest.mark.parametrize(("name", "which"), PLACES)
def test_a_broken_pair(name: str, which: str, bench: Bench) -> None:
    program = pair(name) if name in GENERATED else corpus(name)
    if program is None:
        pytest.skip(f"the corpus is not at {CORPUS}")
    seed = SEEDS[which]
    print(f"seed {seed}")
    for change in broken(program, random.Random(f"{name} {seed}")):
        text = f"seed {seed}, {name}, {change.kind}: {change.text}"
        found = bench.program(change.program)
        right = is_right(name, program, change.program, seed)
        if right or (change.kind == "permute_shards" and reordered(found)):
            continue
        assert found.status != 0, text
        if which == "fresh":
            continue
        places = touched(program, change.program)
        # nothing is executed here: what is found need not be a proof of the mistake
        assert found.status in {1, 3}, f"{text}: exit {found.status} {found.error}"
        close = Graphs.of(change.program, found).named(places)
        assert close & named(found), f"{text}: {sorted(close)} are not among {named(found)}"
