"""GG125: no rule shows it, though numbers agree."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256

from gg_datalog.diagnosis.mistakes.mistake import Mistake
from gg_datalog.result.placement import names_text
from gg_datalog.result.report import Finding, OutputRow

MANY = 6
LENGTH = 16  # of a fingerprint

MISTAKE = Mistake(
    code="GG125",
    title="no rule shows it, though numbers agree",
    level="warning",
    note="""
Both programs were executed in small sizes, on several draws of inputs, and gave the same
numbers for these outputs. So nothing is known to be wrong, but nothing is proved either: other
inputs or other sizes may tell them apart. The proof stops at the operator that is named: what
the ranks compute there is related to the sequential program by no rule.""",
    remedy="""
Compare the two source lines. Write both sides in the same way where that is possible, describe
an operator in the [operator table](operators.md) where one is missing, or accept the finding
in a baseline. `gg-datalog replay CASE --seed N` executes it on other draws.""",
)


def agreeing(at: Finding | None, rows: Sequence[OutputRow]) -> Finding:
    """No rule shows these outputs, though numbers agree; ``at`` is what the proof stops at."""
    names = tuple(row.seq for row in rows)
    counts = sorted({row.numbers.draws for row in rows if row.numbers is not None})
    told = ", ".join(f"`{name}`" for name in names[:MANY])
    more = f" and {len(names) - MANY} more" if len(names) > MANY else ""
    draws = " or ".join(map(str, counts))
    text = f"{told}{more}: no rule shows it; numbers agree on {draws} draws"
    given = at or MISTAKE.finding("", seq=names[0])
    where = f"`{given.seq}`" if given.seq is not None else names_text(given.dist)
    return MISTAKE.finding(
        f"{text}; the proof stops at {where}" if where else text,
        seq=given.seq,
        seq_source=given.seq_source,
        dist=given.dist,
        dist_source=given.dist_source,
        module=given.module,
        dist_module=given.dist_module,
        ranks=given.ranks,
        outputs=names,
        fingerprint=numbered(given.fingerprint or "\n".join(names)),
    )


def numbered(text: str) -> str:
    """The fingerprint of what numbers say of something."""
    return sha256(f"{MISTAKE.code}\n{text}".encode()).hexdigest()[:LENGTH]
