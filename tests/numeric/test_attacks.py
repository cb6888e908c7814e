"""Programs of the tables with one thing changed: nothing wrong is derived of them."""

from __future__ import annotations

import random
import secrets

import pytest

from .attacks import attacked
from .tables import programs

SEEDS = {"fixed": 20261127, "fresh": secrets.randbelow(2**31)}
# executed in another way than they are meant: torch says otherwise; the relations name a constant
LEFT = ("defect: ", "test_unsound: constant in the relations")
SAMPLE = 40
EACH = 4


@pytest.mark.exhaustive("fresh")
@pytest.mark.parametrize("which", SEEDS)
def test_nothing_wrong_is_derived(which: str) -> None:
    """Neither a verdict nor a relation: `python -m tests.numeric.attacks` has many more."""
    seed = SEEDS[which]
    known = {n: p for n, p in programs().items() if not n.startswith(LEFT)}
    names = random.Random(seed).sample(sorted(known), SAMPLE)
    found = attacked({name: known[name] for name in names}, seed, EACH)
    print(f"seed {seed}: {dict(found.counts)}")
    assert found.counts["programs"] > SAMPLE and found.counts["relations"] > 10 * SAMPLE
    assert found.counts["wrong, refused"] and found.counts["right, refines"]
    assert not found.wrong, f"seed {seed}\n" + "\n".join(found.wrong[:8])
