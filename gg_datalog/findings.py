"""The codes of findings. A code never changes its meaning; a new meaning gets a new code."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


@dataclass(frozen=True)
class Code:
    """A kind of finding: its stable code, what it is, and how bad."""

    code: str
    title: str
    level: str


class Kind(Enum):
    """All kinds of findings."""

    CHAIN_BREAKS = Code("GG101", "a sequential operator has no equivalent on the ranks", "error")
    RANK_BREAKS = Code("GG102", "an operator of one rank has no sequential equivalent", "error")
    OTHER_COEFFICIENT = Code("GG103", "an output comes back multiplied by a number", "error")
    OPEN_REDUCTION = Code("GG104", "an output comes back as a part of a reduction", "error")
    NOT_COVERED = Code("GG105", "what the ranks return is only a piece of an output", "error")
    NOT_RELATED = Code("GG106", "a rank returns something else for an output", "error")
    SUM_RATIO = Code("GG107", "terms of a sum are counted differently on the two sides", "error")
    PART_USED = Code("GG108", "a part of a reduction is used without the reduction", "error")
    COLLECTIVE = Code("GG110", "a collective does not line up between ranks", "error")
    UNSUPPORTED = Code("GG120", "an operator that no rule describes stands in the way", "warning")
    OPAQUE = Code("GG121", "an input of which nothing is known stands in the way", "warning")
    LIMIT = Code("GG122", "a coefficient outgrew the engine's numbers", "warning")
    SHARED_DRAW = Code("GG123", "random draws do not belong together one to one", "warning")
    EXTRACTION = Code("GG130", "extraction warned", "warning")
    UNINTERPRETED = Code("GG131", "an operator that no rule describes", "note")
    NOTHING_KNOWN = Code("GG132", "an input of which nothing is known", "note")
    OUT_OF_ORDER = Code("GG133", "shares of an output are not in the order of the ranks", "warning")
    CONTRADICTED = Code("GG140", "numbers contradict what was derived: a rule is wrong", "error")
    NOT_SHOWN = Code("GG141", "no draw shows a difference where nothing was derived", "note")
