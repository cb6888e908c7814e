"""Reports whose texts can be printed: names come from graphs, and graphs may hold anything."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import TypeVar

from gg_datalog.foundation.visible import visible

T = TypeVar("T")


def printable(value: T) -> T:
    """A report, or a part of one, with every text made :func:`visible`."""
    made: object = value
    if isinstance(value, str):
        made = visible(value)
    elif isinstance(value, (list, tuple)):
        made = type(value)(printable(one) for one in value)
    elif isinstance(value, Mapping):
        made = {printable(key): printable(one) for key, one in value.items()}
    elif is_dataclass(value) and not isinstance(value, type):
        found = {field.name: printable(getattr(value, field.name)) for field in fields(value)}
        made = replace(value, **found)
    return made  # type: ignore[return-value]
