"""The interpreter against torch: the same programs on the same inputs, and every node holds the same,
also after what others have written; and the file of signatures against torch's schemas."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from .features import FEATURES
from .fuzz import generate
from .interpreter import Execution, execute, version
from .kernels_np import NotExecuted
from .promotion import Invalid
from .relations import agrees
from .signatures import FILE, signatures

torch = pytest.importorskip("torch")

PROGRAMS = 12  # of each feature
FIRST = 77_000


def compared(ours: Execution, theirs: Execution) -> tuple[int, list[str]]:
    """How many values were compared, and the nodes that hold something else."""
    count, wrong = 0, []
    for side, ranks in ours.before.items():
        for rank, versions in ranks.items():
            for name, found in versions.items():
                other = theirs.before[side][rank]
                places = {place for place, _ in (*found, *other[name])}
                pairs = [(version(versions, name, at), version(other, name, at)) for at in places]
                count += len(pairs)
                if not all(_equal(*pair) for pair in pairs):
                    wrong.append(f"{side} rank {rank} `{name}`")
    return count, wrong


def _equal(a: Any, b: Any) -> bool:
    if a is None or b is None:
        return a is b
    return a.shape == b.shape and a.dtype == b.dtype and agrees(a, b, str(a.dtype))


@pytest.mark.parametrize("feature", FEATURES)
def test_memory_is_what_torch_makes_it(feature: str) -> None:
    """Every version of every node of programs with a feature."""
    from .torch_machine import Torch

    before, total, wrong = torch.get_default_dtype(), 0, []
    torch.set_default_dtype(torch.float64)
    try:
        for seed in range(FIRST, FIRST + PROGRAMS):
            program = generate(seed, [feature]).program
            try:
                ours = execute(program, np.random.default_rng(seed))
                theirs = execute(program, np.random.default_rng(seed), Torch())
            except (Invalid, NotExecuted):
                continue
            count, found = compared(ours, theirs)
            total += count
            wrong += [f"seed {seed}: {text}" for text in found[:3]]
    finally:
        torch.set_default_dtype(before)
    assert not wrong, "\n".join(wrong)
    assert total > 20 * PROGRAMS


def schema(target: str) -> str:
    """A line of the file, by torch."""
    space, name, overload = target.split(".")
    op = getattr(getattr(getattr(torch.ops, space), name), overload)
    parts, named = [], False
    for argument in op._schema.arguments:
        if argument.kwarg_only and not named:
            parts, named = [*parts, "*"], True
        text = argument.name
        if argument.has_default_value():
            default = argument.default_value
            text += f"={list(default) if isinstance(default, tuple) else default!r}"
        parts.append(text)
    return f"{target}({', '.join(parts)})"


def test_signatures_are_those_of_torch() -> None:
    """Names, order and defaults of arguments."""

    lines = FILE.read_text("utf-8").splitlines()
    assert lines == [schema(target) for target in sorted(signatures())]
