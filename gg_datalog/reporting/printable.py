"""Reports whose texts can be printed: names come from graphs, and graphs may hold anything."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import TypeVar

T = TypeVar("T")

SPACES = re.compile(r"[\t\n\r\x0b\x0c\x85\u2028\u2029]+")
# Controls move a terminal's cursor, and XML has no way to write them; marks of direction show a
# text in another order than it has; halves of a surrogate pair are no text.
UNSEEN = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff\ufffe\uffff\ud800-\udfff]"
)


def visible(text: str) -> str:
    """A text in one line, what cannot be seen of it written as an escape such as ``\\x1b``."""
    return UNSEEN.sub(_escape, SPACES.sub(" ", text))


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


def _escape(found: re.Match[str]) -> str:
    number = ord(found[0])
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}"
