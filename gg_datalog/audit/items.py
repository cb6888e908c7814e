"""Items: the pairs of an audit, each with its configuration, options and expectation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from gg_datalog.audit.limits import Limits

KINDS = ("case", "facts", "text", "program")
VERDICTS = ("refines", "does-not-refine", "inconclusive")
STATUSES = (*VERDICTS, "crashes-on-rank", "malformed", "timeout", "memory", "crash", "lost")
PENDING = "pending"
NOTHING: Mapping[str, Any] = MappingProxyType({})
"""What most of many items say of most things: one of it is enough."""


def _nothing() -> Mapping[str, Any]:
    return NOTHING


@dataclass(frozen=True, slots=True)
class Item:
    """One pair.

    ``source`` is the folder of a case, of facts or of texts, or ``module:function``, whose keyword
    arguments are ``arguments`` (those that are ``optional`` only where it takes them); ``home`` is
    the folder from which that is imported. ``run`` and ``capture`` hold options by their names in
    Python; ``reading`` how texts are read; ``watched`` are globs of further files that a capture
    depends on. ``program`` and ``configuration`` are the row and the column of the matrix.
    """

    name: str
    entry: str
    program: str
    configuration: Mapping[str, Any]
    kind: str
    source: str
    home: str = ""
    arguments: Mapping[str, Any] = field(default_factory=_nothing)
    capture: Mapping[str, Any] = field(default_factory=_nothing)
    reading: Mapping[str, Any] = field(default_factory=_nothing)
    run: Mapping[str, Any] = field(default_factory=_nothing)
    watched: tuple[str, ...] = ()
    limits: Limits = field(default_factory=Limits)
    expect: tuple[str, ...] = ("refines",)
    optional: tuple[str, ...] = ()

    @property
    def column(self) -> str:
        """The configuration in words."""
        return configured(self.configuration)


def configured(values: Mapping[str, Any]) -> str:
    """Values of a matrix in words: ``tensor=2, sequence_parallel=false``."""
    return ", ".join(f"{name}={worded(value)}" for name, value in values.items())


def worded(value: Any) -> str:
    """A value as TOML would write it, strings without quotes."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)
