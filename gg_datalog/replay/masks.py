"""Random operators: the ranks see for the same elements what the sequential program drew."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from math import prod

import torch

from gg_datalog.extract.context import Context
from gg_datalog.extract.graph import is_symbolic
from gg_datalog.extract.records import Operator
from gg_datalog.extract.scale import ONE
from gg_datalog.extract.view import Base, View
from gg_datalog.replay.derived import positions
from gg_datalog.replay.evaluate import viewed
from gg_datalog.replay.tensor import Tensor
from gg_datalog.result.records import Relation
from gg_datalog.result.terms import Block


@dataclass(repr=False)
class Draws:
    """Masks of random operators. The sequential ones are drawn; those of a rank are cut from
    them as the derived relations between their results say, else by shape, else drawn anew."""

    seq: Context
    dist: Mapping[int, Context]
    holds: Iterable[Relation]
    generator: torch.Generator
    drawn: dict[int, Tensor] = field(default_factory=dict)
    _bases: dict[int, tuple[Base, Tensor]] = field(default_factory=dict)
    _related: dict[tuple[str, str], list[Block]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for held in self.holds:
            self._related.setdefault((held.dist, held.seq), []).append(held.block)

    def sequential(self, _: int, node: str, number: int, shape: Sequence[int], p: float) -> Tensor:
        """A mask of the sequential program."""
        mask = torch.rand(list(shape), generator=self.generator) >= p
        self.drawn[number] = mask
        view = _result(self.seq, node)
        if view is not None:
            self._bases[_ordinal(view, number)] = view.base, _to_base(view, mask)
        return mask

    def of_rank(self, rank: int, node: str, number: int, shape: Sequence[int], p: float) -> Tensor:
        """A mask of one rank."""
        view = _result(self.dist[rank], node)
        known = view is not None and not any(map(is_symbolic, view.base.shape))
        if view is not None and known and _ordinal(view, number) in self._bases:
            base, ours = self._bases[_ordinal(view, number)]
            theirs = torch.rand(view.base.shape, generator=self.generator) >= p
            found = self._related.get((view.base.name, base.name), [])
            for block in found:
                with suppress(IndexError):
                    at, there = positions(block, base.shape, view.base.shape)
                    theirs[there] = ours[at]
            if found:
                return viewed(View(view.base, view.dims), theirs)
        return self._by_shape(rank, number, shape, p)

    def _by_shape(self, rank: int, number: int, shape: Sequence[int], p: float) -> Tensor:
        whole = self.drawn.get(number)
        if whole is not None and whole.shape == torch.Size(shape):
            return whole
        if whole is not None and whole.dim() == len(shape):
            cut = [i for i, (a, b) in enumerate(zip(whole.shape, shape, strict=True)) if a != b]
            count = prod(whole.shape[i] // max(shape[i], 1) for i in cut)
            if len(cut) == 1 and count == len(self.dist):
                at = sorted(self.dist).index(rank)
                return whole.narrow(cut[0], at * shape[cut[0]], shape[cut[0]])
        return torch.rand(list(shape), generator=self.generator) >= p


def _result(ctx: Context, node: str) -> View | None:
    value = ctx.values.get(node)
    first = value[0] if isinstance(value, tuple) and value else value
    return first if isinstance(first, View) else None


def _ordinal(view: View, number: int) -> int:
    """The number under which extraction pairs the operator: it skips what it cannot describe."""
    made = view.base.made
    text = made.signature.rpartition("#")[2] if isinstance(made, Operator) else ""
    return int(text) if text.isdecimal() else number


def _to_base(view: View, value: Tensor) -> Tensor:
    total = prod(view.base.shape)
    at = viewed(View(view.base, view.dims, ONE), torch.arange(total).reshape(view.base.shape))
    flat = torch.zeros(total, dtype=value.dtype)
    flat[at.reshape(-1)] = value.reshape(-1)
    return flat.reshape(view.base.shape)
