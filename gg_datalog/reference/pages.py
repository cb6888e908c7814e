"""The pages of the codes as text for a terminal, and all of them as ``docs/findings.md``.

python -m gg_datalog.reference.pages > docs/findings.md
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from textwrap import fill, indent

from gg_datalog.diagnosis.findings import PAGES, Example, Mistake

WIDTH = 100
INTRODUCTION = """\
# Findings

Written by `make docs` from `gg_datalog/diagnosis/mistakes/`; do not edit.
`gg-datalog rule GG108` prints one page.

The codes are stable: a code keeps its meaning, a new meaning gets a new code. An *error* is
something wrong, or not shown to be right; a *warning* stands in the way of a proof or of those who
use the outputs; a *note* is worth knowing beside the verdict.

Codes that begin with GG10, GG11 or GG15 say how an output or an operator fails to be rebuilt, those
with GG12 what stands in the way of a proof, those with GG13 what to know beside the verdict, those
with GG14 that numbers and rules disagree.

One mistake is one finding, with the outputs that it spoils: ten gradients that miss one reduction
are one, which counts and names them. Nothing is known of what is computed
from something wrong, so a second mistake behind the first is found when the first is repaired.

The examples are run by the tests. They name the operators of ATen without their prefix;
`x: f32[4, 8]` is an input. Where a rank's input is smaller than the sequential one it is a shard,
in the order of the ranks; where it is not, a replica. `"g"` is the group of all ranks, `rank` the
number of the rank.
"""


def listed() -> str:
    """Every code with its title, one a line."""
    return "\n".join(f"{p.code}  {p.level:<7}  {p.title}" for p in PAGES.values())


def as_text(page: Mistake) -> str:
    """One page for a terminal."""
    parts = [f"{page.code} {page.level}: {page.title}", fill(page.note, WIDTH)]
    parts.append(f"what to do\n{indent(fill(page.remedy, WIDTH - 2), '  ')}")
    if page.example is not None:
        parts += [f"{title}\n{indent(text, '  ')}" for title, text in _shown(page.example)]
    return "\n\n".join(parts)


def _shown(example: Example) -> Iterator[tuple[str, str]]:
    """The example's programs and what it says, each with a title."""
    yield "sequential", example.sequential
    yield f"each of {example.world} ranks", example.wrong
    given = _given(example)
    if given:
        yield "where", "\n".join(given)
    yield "says", fill(example.says, WIDTH - 2, break_long_words=False, break_on_hyphens=False)
    if example.right and example.right != example.wrong:
        yield "right would be", example.right


def _given(example: Example) -> list[str]:
    """Groups and input relations that shapes do not tell."""
    lines = [
        f"group {name!r}: {', '.join(str(list(ranks)) for ranks in groups)}"
        for name, groups in (example.groups or {}).items()
    ]
    for name, rows in (example.relate or {}).items():
        held = [f"rank {row['rank']} has {_box(row['seq_box'])}" for row in rows]
        lines.append(f"{name}: {', '.join(held) or 'no input relation speaks of it'}")
    return lines


def _box(box: list[list[int]]) -> str:
    return f"[{', '.join(f'{lo}:{hi}' for lo, hi in box)}]"


def reference() -> str:
    """The reference of all codes, as Markdown."""
    rows = [f"| [{p.code}](#{p.code.lower()}) | {p.level} | {p.title} |" for p in PAGES.values()]
    table = "\n".join(["| code | level | what it says |", "| --- | --- | --- |", *rows])
    return "\n".join([INTRODUCTION, table, "", *(as_markdown(p) for p in PAGES.values())])


def as_markdown(page: Mistake) -> str:
    """One page as a section in Markdown."""
    parts = [
        f"## {page.code}",
        f"**{page.title[0].upper()}{page.title[1:]}** ({page.level}).",
        page.note,
    ]
    parts.append(f"*What to do.* {page.remedy}")
    if page.example is not None:
        for title, text in _shown(page.example):
            mark = "python" if title not in ("says", "where") else "text"
            parts.append(f"{title[0].upper()}{title[1:]}:\n\n```{mark}\n{text}\n```")
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    sys.stdout.write(reference())
