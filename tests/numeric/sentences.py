"""What findings say, sentence by sentence, against what tensors hold when both programs are executed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from gg_datalog.result.report import Finding

from .interpreter import Execution

CLOSE = 1e-9
REDUCTIONS = (np.add, np.maximum, np.minimum, np.multiply)


@dataclass(frozen=True)
class Said:
    """A finding, and the groups of the sentence that it is."""

    finding: Finding
    groups: Sequence[str]
    execution: Execution

    def dist(self, name: str) -> list[Any]:
        """What node ``r0.name`` holds; all of them, where it gives several tensors."""
        rank, _, node = name.partition(".")
        return _tensors(self.execution.dist[int(rank[1:])].get(node))

    def seq(self, node: str) -> list[Any]:
        """What a sequential node holds."""
        return _tensors(self.execution.seq.get(node))

    def holders(self) -> Iterator[Any]:
        """What the nodes hold that the finding names on the ranks."""
        for name in self.finding.dist:
            yield from self.dist(name)


def _tensors(value: Any) -> list[Any]:
    if isinstance(value, (list, tuple)):
        return [one for part in value for one in _tensors(part)]
    return [value] if isinstance(value, np.ndarray) else []


def same(a: Any, b: Any) -> bool:
    """Are these the same numbers?"""
    return a.shape == b.shape and np.allclose(
        a.astype(float), b.astype(float), rtol=CLOSE, atol=CLOSE, equal_nan=True
    )


# ---- sentences with something to look up -----------------------------------------------------------
def is_part(said: Said) -> bool:
    """Is no holder all of it, and do some of them make it up?"""
    held = list(said.holders())
    for whole in said.seq(said.groups[0]):
        alike = [x for x in held if x.shape == whole.shape]
        if any(same(x, whole) for x in alike):
            return False
        if alike and len(alike) == len(held):
            made = (reduce(function, alike) for function in REDUCTIONS)
            return any(same(one, whole) for one in made)
    return True  # parts of other shapes: of pieces of it


def is_put_together(said: Said) -> bool:
    """Is what the node gives these ranges of the sequential tensor?"""
    dim, name, spans = int(said.groups[0]), said.groups[1], _spans(said.groups[2])
    for whole in said.seq(name):
        if dim < whole.ndim and spans[-1][1] <= whole.shape[dim]:
            cut = [np.take(whole, range(*span), axis=dim) for span in spans]
            if not any(same(x, np.concatenate(cut, dim)) for x in said.holders()):
                return False
    return True


def is_cut(said: Said) -> bool:
    """Is some result of the node this range of a tensor of the ranks?"""
    lo, hi, dim, name = (
        int(said.groups[0]),
        int(said.groups[1]),
        int(said.groups[2]),
        said.groups[3],
    )
    ranks = {one.partition(".")[0] for one in said.finding.dist}
    for rank in ranks:
        for whole in said.dist(f"{rank}.{name}"):
            cut = np.take(whole, range(lo, hi), axis=dim)
            mine = [x for one in said.finding.dist if one.startswith(rank) for x in said.dist(one)]
            alike = [x for x in mine if x.size == cut.size]  # else a node that cuts and joins
            if alike and not any(same(x.reshape(-1), cut.reshape(-1)) for x in alike):
                return False
    return True


def is_another(said: Said) -> bool:
    """Is the tensor that is taken, which is a sequential one, not the one that is expected?"""
    taken, right = said.seq(said.groups[0]), said.seq(said.groups[1])
    return bool(taken and right) and not same(taken[0], right[0])


def _spans(text: str) -> list[tuple[int, int]]:
    return [(int(lo), int(hi)) for lo, hi in re.findall(r"(\d+):(\d+) \(", text)]


# ---- all of them -----------------------------------------------------------------------------------
NAME = r"`([^`]+)`"
Check = Callable[[Said], bool]
# What is said where nothing is certain: either that no rule shows something, or what can be looked up.
SENTENCES: tuple[tuple[str, Check | None], ...] = (
    (rf"no equivalent of {NAME} \(.*\) is found on the ranks, though its operands are there: .*", None),
    (rf"no rule shows that .* gives what {NAME} gives: .*", None),
    (rf"no rule relates .*, returned for {NAME}, to it", None),
    (rf".*: only some of what is returned for {NAME} is shown to belong to it", None),
    (rf".*: each rank has only its part of {NAME} \(.*no rule shows that this is .*", is_part),
    (rf".* puts ranges of dim (\d+) of {NAME} together that are not all of it once: (.*?\)): .*",
     is_put_together),
    (rf".* cuts (?:.*, )?(\d+):(\d+) of dim (\d+) of {NAME}, and no rule shows what takes the rest: .*", is_cut),
    (r".* comes closest to .* that a rule finds.*\(once each is right\)", None),
    (rf".* takes `[^`]+` \(which is {NAME}\) where the sequential `[^`]+` takes {NAME}", is_another),
    (r".* takes .* where the sequential `[^`]+` takes .*", None),  # nodes, as the graphs have them
    (rf".* puts the shards of {NAME} together (in the wrong order|along another dimension).*", None),
    (rf"{NAME} \(.*\) is left out on the ranks: .*", None),
    (r".* has .*, the sequential .* has .*", None),  # attributes, as the graphs have them
    (r".* add up ranges of .*, as far as rules show", None),
    (r".* goes into what is to give .*: no rule shows what comes of it", None),
    (r".* stands in the way: .*", None),
    (r".* looks up ids in a shard, and no rule shows that what is masked are the ids outside of it.*", None),
)  # fmt: skip


def false(finding: Finding, execution: Execution) -> str | None:
    """Why a sentence about a right program is not true; None where it is."""
    if finding.certain:
        return "it is certain that something is wrong"
    for pattern, check in SENTENCES:
        match = re.fullmatch(pattern, finding.message)
        if match is not None:
            right = check is None or check(Said(finding, match.groups(), execution))
            return None if right else "the numbers are others"
    return "it is no sentence that is known to be harmless"
