"""Two audits side by side, in words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from gg_datalog.audit.differences import Changed, Differences, Found
from gg_datalog.foundation.visible import visible

MANY = 20


def as_text(told: Differences) -> str:
    """What is worse in the first line, then everything, group by group."""
    groups = (
        ("new findings", list(_findings(told.new))),
        ("fixed findings", list(_findings(told.fixed))),
        ("changed", [_changed(row) for row in told.changed]),
        ("flapping", [f"{item}: {' or '.join(ways)}, of the same" for item, ways in told.flapping]),
        ("slower", [f"{r.item}: was {r.before:.1f}, now {r.after:.1f} CPU s" for r in told.slower]),
        ("added", [f"{row.item}: {row.after}{_reason(row)}" for row in told.added]),
        ("removed", [f"{item}: was {status}" for item, status in told.removed]),
        ("still to be run", [f"{item}: was {status}" for item, status in told.unrun]),
    )  # fmt: skip
    lines = [_headline(told)]
    for name, rows in groups:
        if rows:
            lines += ["", name, *_some(rows)]
    return "\n".join(lines)


def _headline(told: Differences) -> str:
    worse = ", ".join(f"{name}: {count}" for name, count in told.worse().items())
    text = f"WORSE: {worse}" if worse else "NOTHING WORSE"
    return f"{text}; {told.both} item{'' if told.both == 1 else 's'} in both"


def _changed(row: Changed) -> str:
    why = "of the same" if row.what == "none" else f"the {row.what} changed"
    return f"{row.item}: was {row.before}, now {row.after}; {why}{_reason(row)}"


def _reason(row: Changed) -> str:
    """Why it ended so, where that is no verdict, in one line."""
    first, *_ = row.reason.splitlines() or [""]
    return f": {first}" if first else ""


def _findings(rows: Iterable[Found]) -> Iterator[str]:
    """One line for each cause, by how many items have it."""
    causes: dict[tuple[str, str], list[Found]] = {}
    for row in rows:
        causes.setdefault((row.code, row.fingerprint), []).append(row)
    for found in sorted(causes.values(), key=lambda of: (-len(of), of[0].code, of[0].item)):
        first = found[0]
        items = first.item if len(found) == 1 else f"{len(found)} items, such as {first.item}"
        yield f"{first.code} in {items}: {first.message}"


def _some(rows: Sequence[str]) -> Iterator[str]:
    yield from (visible(f"  {row}") for row in rows[:MANY])
    if len(rows) > MANY:
        yield f"  and {len(rows) - MANY} more: --format json has all"
