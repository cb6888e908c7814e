"""What was captured of one rank, without tensors: plain data that crosses processes."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]
SEQUENTIAL = -1  # the rank of the sequential program
Group = tuple[list[int], int]  # ranks, and the place among the groups of these ranks


def unused(name: str, names: Container[str]) -> str:
    """The name, with underscores behind it until it is none of these."""
    return name if name not in names else unused(f"{name}_", names)


def named(rank: int) -> str:
    """How messages call the program of that rank."""
    return "the sequential program" if rank == SEQUENTIAL else f"rank {rank}"


@dataclass(frozen=True)
class InputRecord:
    """A placeholder: its node, what it is, and which part of the global tensor it holds.

    ``local`` and ``shape`` are the local and the global shape; ``pieces`` are pairs of boxes
    (global, local), or None where nothing in the program says which; ``because`` is what says it.
    ``passed`` is where an argument was passed by place: the place, and the way inside of it.
    ``flattened`` is true where the program has it in one dimension (see
    :mod:`gg_datalog.tracing.flattened`); both shapes are those before.
    ``value`` is what a buffer or an attribute holds, where literals and shapes say it (see
    :func:`gg_datalog.tracing.values.unpacked`); ``saved`` is true where a checkpoint has it, too.
    """

    node: str
    name: str
    kind: str
    dtype: str
    local: tuple[int | str, ...]
    shape: tuple[int | str, ...]
    pieces: Sequence[Any] | None
    because: str
    passed: str = ""
    value: bytes | None = None
    saved: bool = False
    flattened: bool = False

    @property
    def gradient(self) -> str:
        """What the result is called that is its gradient."""
        return f"grad_{result_of(self.kind, self.name)}"

    @property
    def update(self) -> str:
        """What the result is called that is its new value, where the program writes into it."""
        return f"updated_{result_of(self.kind, self.name)}"

    @property
    def results(self) -> tuple[str, str]:
        """Both of these names."""
        return self.gradient, self.update


def result_of(kind: str, name: str) -> str:
    """How results are called after an input: arguments apart from parameters of equal name."""
    return f"input_{name}" if kind == "input" else name


@dataclass(frozen=True)
class RankRecord:
    """The capture of one rank (or of the sequential program)."""

    rank: int
    graph: Json
    groups: dict[str, Group]
    inputs: Sequence[InputRecord]
    outputs: Sequence[tuple[str, str]]
    notes: Sequence[str] = ()
    seconds: float = 0.0
    memory: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    route: str = ""

    @property
    def who(self) -> str:
        """How messages name it."""
        return named(self.rank)
