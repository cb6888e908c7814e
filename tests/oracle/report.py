"""What the oracle found, as text and as a page."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

import torch

from .opinion import Opinion
from .running import Counts

ROW = "{:<52} {:>6} {:>9} {:>5} {:>7} {:>6} {:>6} {:>7} {:>7} {:>7}"
HEAD = (
    "operator",
    "tried",
    "relations",
    "wrong",
    "skipped",
    "true",
    "missed",
    "not app",
    "covered",
    "derived",
)
Numbers = tuple[int, ...]


def wrong(counts: Mapping[str, Counts]) -> list[str]:
    """Everything that is wrong."""
    return [text for found in counts.values() for text in found.wrong]


def numbers(counts: Counts | None, second: Opinion | None) -> Numbers:
    """The columns of an operator."""
    c, o = counts or Counts(), second or Opinion()
    return (c.tried, c.relations, len(c.wrong), c.skipped, c.right, c.missed, c.not_applicable, o.covered, o.derived)  # fmt: skip


def rows(counts: Mapping[str, Counts], second: Mapping[str, Opinion]) -> list[tuple[str, Numbers]]:
    """A row for every operator, and one for all of them."""
    names = sorted({*counts, *second})
    found = [(name, numbers(counts.get(name), second.get(name))) for name in names]
    total = tuple(map(sum, zip(*(n for _, n in found), strict=True)))
    return [*found, ("all", total)]


def table(counts: Mapping[str, Counts], second: Mapping[str, Opinion]) -> str:
    """The report: the table, what is often missed, what is wrong."""
    lines = [ROW.format(*HEAD), *(ROW.format(n, *found) for n, found in rows(counts, second))]
    lines += ["", "true but not derived, most often first"]
    missed = ((k, f"{name} {what}") for name, c in counts.items() for what, k in c.missing.items())
    lines += [f"{k:>6} {text}" for k, text in sorted(missed, reverse=True)[:40]]
    if second:
        lines += ["", "what torch's rules cover and ours do not", *_open(second)]
        lines += ["", "rules of torch's that are not so, as torch computes it", *_disputed(second)]
    ended = [f"{name}: {c.ended}" for name, c in counts.items() if c.ended]
    lines += ["", "turns that ended the process", *ended] if ended else []
    return "\n".join([*lines, "", *(f"WRONG {text}" for text in wrong(counts))])


def _open(second: Mapping[str, Opinion]) -> list[str]:
    found = [(k, name, why) for name, o in second.items() for why, k in o.open.items()]
    return [f"{k:>6} {name}: {why}" for k, name, why in sorted(found, key=lambda x: (-x[0], x[1:]))]


def _disputed(second: Mapping[str, Opinion]) -> list[str]:
    return [f"{k:>6} {name}: {what}" for name, o in second.items() for what, k in o.wrong.items()]


PAGE = """# What is known of each operator

This page is generated: `make oracle N=... WRITE=docs/coverage.md`. These are {tried} combinations, {relations} relations,
{wrong} of them wrong (torch {torch}, {date}, seed {seed}{spent}).

The oracle (`tests/oracle`) takes arguments from torch's own operator tests, places each operand (replicated, sharded
evenly, unevenly or in two pieces, partial), writes both programs in one of several forms, derives, executes with
torch, and compares every derived relation with the numbers.

- *tried*: combinations that torch executes; *not applicable*: those that it refuses.
- *relations*: derived ones, compared with the numbers; *wrong* has to be 0; *skipped*: relations and
  lowerings that are not compared, because a value that they speak of is not shown by any result of torch's.
- *true*: outputs of which the numbers show a simple placement; *missed*: of these not derived.
- *covered*: results of which a rule of `torch.distributed.tensor` tells the placement, and the numbers agree; *derived*:
  of these derived by us: {share:.1f} % of all.

| operator | tried | relations | wrong | skipped | true | missed | not applicable | covered | derived |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
{rows}

## Covered by torch's rules and not derived

| operator | covered | derived | why not |
| --- | --- | --- | --- |
{open}

## Rules of torch's that are not so

Torch itself computes something else in the extents and types that were tried, or a value that is no number shows it
(`fmax`, `fmin` and `nan_to_num` drop NaN, which a maximum over ranks keeps; a sum of truth values is what a backend makes
of it).

| operator | rule | samples |
| --- | --- | --- |
{disputed}
"""


def page(
    counts: Mapping[str, Counts], second: Mapping[str, Opinion], seed: int, seconds: float | None
) -> str:
    """The same in Markdown."""
    listed = rows(counts, second)
    total = listed[-1][1]
    lines = [f"| `{name}` | " + " | ".join(map(str, found)) + " |" for name, found in listed]
    lacking = [(name, o) for name, o in sorted(second.items()) if o.covered > o.derived]
    return PAGE.format(
        torch=torch.__version__,
        date=datetime.now(UTC).date(),
        seed=seed,
        spent="" if seconds is None else f", {seconds:.0f} s of CPU",
        tried=total[0],
        relations=total[1],
        wrong=total[2],
        share=100 * total[-1] / max(1, total[-2]),
        rows="\n".join(lines),
        open="\n".join(
            f"| `{name}` | {o.covered} | {o.derived} | {_reasons(o)} |" for name, o in lacking
        ),
        disputed="\n".join(
            f"| `{name}` | {_cell(what)} | {k} |"
            for name, o in sorted(second.items())
            for what, k in o.wrong.items()
        ),
    )


def _reasons(found: Opinion) -> str:
    """The most frequent reasons."""
    often = sorted(found.open.items(), key=lambda x: -x[1])[:3]
    return "; ".join(_cell(why) for why, _ in often)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
