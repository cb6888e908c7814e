"""The codes of findings, and what each means. A code never changes its meaning; a new meaning gets
a new code. The text lies in ``findings.toml``: it is reference, help and title at once."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from enum import Enum
from importlib.resources import files
from typing import Any

from gg_datalog.foundation.errors import InputError


@dataclass(frozen=True)
class Example:
    """A small pair of programs: ``wrong`` on the ranks gives the finding that ``says`` so, with
    ``right`` it is gone; ``relate`` are rows of the input relations, where shapes do not tell;
    ``names`` is what the program calls its outputs, ``state`` the inputs that they are the new
    values of, ``lacks`` those whose gradients they are, and whose gradient rank 1 lacks."""

    sequential: str
    wrong: str
    says: str
    right: str = ""
    world: int = 2
    groups: Mapping[str, Any] | None = None
    relate: Mapping[str, Any] | None = None
    names: Sequence[str] = ()
    state: Sequence[str] = ()
    lacks: Sequence[str] = ()


@dataclass(frozen=True)
class Page:
    """A kind of finding: its stable code, what it is, how bad (``error``, ``warning``, ``note``),
    why it matters, what to do about it, and an example where one is small."""

    code: str
    title: str
    level: str
    note: str
    remedy: str
    example: Example | None = None


def _read() -> dict[str, Page]:
    text = files("gg_datalog.result").joinpath("findings.toml").read_text(encoding="utf-8")
    return {code: _page(code, row) for code, row in tomllib.loads(text).items()}


def _page(code: str, row: Mapping[str, Any]) -> Page:
    example = row.get("example")
    note, remedy = (" ".join(row[name].split()) for name in ("note", "remedy"))
    shown = None if example is None else Example(**{k: _trimmed(v) for k, v in example.items()})
    return Page(code, row["title"], row["level"], note, remedy, shown)


def _trimmed(value: Any) -> Any:
    return value.strip("\n") if isinstance(value, str) else value


PAGES = _read()


class Kind(Enum):
    """All kinds of findings."""

    CHAIN_BREAKS = PAGES["GG101"]
    RANK_BREAKS = PAGES["GG102"]
    OTHER_COEFFICIENT = PAGES["GG103"]
    OPEN_REDUCTION = PAGES["GG104"]
    NOT_COVERED = PAGES["GG105"]
    NOT_RELATED = PAGES["GG106"]
    SUM_RATIO = PAGES["GG107"]
    PART_USED = PAGES["GG108"]
    NOT_LINEAR = PAGES["GG109"]
    COLLECTIVE = PAGES["GG110"]
    WRONG_ORDER = PAGES["GG111"]
    WRONG_RANGE = PAGES["GG112"]
    WRONG_GROUP = PAGES["GG113"]
    REDUCED_TWICE = PAGES["GG114"]
    USED_FACTOR = PAGES["GG115"]
    OTHER_ATTRIBUTE = PAGES["GG116"]
    OTHER_OPERAND = PAGES["GG117"]
    NEEDS_WHOLE = PAGES["GG118"]
    GRADIENT = PAGES["GG119"]
    UNSUPPORTED = PAGES["GG120"]
    OPAQUE = PAGES["GG121"]
    LIMIT = PAGES["GG122"]
    SHARED_DRAW = PAGES["GG123"]
    INPUT_GAP = PAGES["GG124"]
    AGREES = PAGES["GG125"]
    GUESS = PAGES["GG126"]
    EXTRACTION = PAGES["GG130"]
    UNINTERPRETED = PAGES["GG131"]
    NOTHING_KNOWN = PAGES["GG132"]
    OUT_OF_ORDER = PAGES["GG133"]
    PRECISION = PAGES["GG134"]
    CONTRADICTED = PAGES["GG140"]
    NOT_SHOWN = PAGES["GG141"]
    STALE = PAGES["GG150"]
    UNWRITTEN = PAGES["GG151"]
    OTHER_MASK = PAGES["GG152"]
    LEFT_OUT = PAGES["GG153"]
    MISPLACED = PAGES["GG154"]
    STATE_MOVED = PAGES["GG155"]
    GRADIENT_LACKED = PAGES["GG156"]
    DRAW_REPEATED = PAGES["GG157"]
    DRAW_UNEQUAL = PAGES["GG158"]


# Findings that are worth knowing beside a verdict. Any other code, new ones too, gives a reason
# why an output is not rebuilt: it cannot be turned off.
BESIDE = tuple(kind.value.code for kind in Kind if kind.value.code.startswith("GG13"))


def page(code: str) -> Page:
    """What a code means; upper and lower case are the same.

    Raises:
        InputError: there is no such code.
    """
    found = PAGES.get(code.upper())
    if found is None:
        close = get_close_matches(code.upper(), PAGES, 3, 0.5) or list(PAGES)
        hint = f"closest: {', '.join(close)}; `gg-datalog rule --list` shows all"
        raise InputError(f"there is no code `{code}`", None, hint)
    return found
