"""What a case says of itself: ``expect.json`` beside its graphs."""

from __future__ import annotations

import json
from pathlib import Path

from gg_datalog.audit.items import STATUSES
from gg_datalog.foundation.errors import InputError
from gg_datalog.foundation.regular import refuse_special

EXPECTATION = "expect.json"
USUAL = ("refines",)


def expectation_of(case: Path) -> tuple[str, ...] | None:
    """The statuses that a case expects, by ``verdict`` in its ``expect.json``; None where it says
    nothing. What else stands there is for its author.

    Raises:
        InputError: the file cannot be read, or names no status.
    """
    path = case / EXPECTATION
    if not path.is_file():
        return None
    refuse_special(path)
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"it cannot be read: {error}", str(path), "mend or remove it") from None
    if not isinstance(document, dict) or "verdict" not in document:
        return None
    given = document["verdict"]
    try:
        return statuses(given)
    except ValueError as error:
        raise InputError(f"`verdict`: {error}", str(path), "mend or remove it") from None


def statuses(value: object) -> tuple[str, ...]:
    """What is expected: a status, or a list of them; ValueError where it is neither."""
    found = value if isinstance(value, list) else [value]
    for one in found:
        if one not in STATUSES:
            raise ValueError(f"{one!r} is no status (statuses: {', '.join(STATUSES)})")
    if not found:
        raise ValueError(f"no status is named (statuses: {', '.join(STATUSES)})")
    return tuple(found)
