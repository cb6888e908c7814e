"""Reports to present: written by hand, and any that the model allows."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from gg_datalog.result.report import Assumption, Finding, OutputRow, Repair, Report

LINE = "models/block.py:87 in forward: y = f(x, self.weight) | `tick`"
CAUSE = Finding(
    "GG108",
    "error",
    "`r0.mm`, `r1.mm` hold only parts of `mm` | and are used as if they were all of it",
    seq="mm",
    seq_source="models/block.py:69 in forward: x = x + self.proj(context)",
    dist=("r0.mm", "r1.mm"),
    dist_source=LINE,
    title="a part of a reduction is used without the reduction",
    module="layers.0.proj",
    dist_module="layers.0.row",
    ranks=(0, 1, 2, 3, 7),
    trigger="there is no all-reduce behind `r0.mm`",
    effect="each rank adds its own part",
    expected="mm = sum(r0.mm, r1.mm)",
    found="part of mm over k[0:32]",
    outputs=("add_1",),
    repair=Repair(
        "put an all-reduce after `r0.mm`", "all_reduce", ("r0.mm",), (0, 1), None, True, ("add_1",)
    ),
    fingerprint="0123abcd",
)
MISMATCH = Finding(
    "GG110",
    "error",
    "all_reduce `r1.total` does not line up between ranks: no rank calls it with r1",
    dist=("r1.total",),
    title="a collective does not line up between ranks",
)
UNSUPPORTED = Finding(
    "GG120",
    "warning",
    "`y` (mine.kernel.default) stands in the way",
    seq="y",
    seq_source="m.py:0",
)
NOTE = Finding("GG131", "note", "mine.kernel.default is not interpreted", dist=("r0.y",))


def report(verdict: str, *statuses: str, findings: tuple[Finding, ...] = ()) -> Report:
    """A report with an output ``add_1``, ``add_2`` ... of each status."""
    outputs = [
        OutputRow(f"add_{i}", status, f"r0.add_{i}" if status == "mapped" else None)
        for i, status in enumerate(statuses, 1)
    ]
    stats = {"facts": 12, "relations": 3, "rounds": None, "seconds": {"read": 0.25, "run": 1.5}}
    trusted = [Assumption("cast", "r0.to: float32 to bfloat16 is the identity")]
    engine = {"name": "clingo", "version": "5.8.3"}
    return Report(verdict, outputs, list(findings), trusted, engine, stats)


REFINES = report("refines", "mapped", "mapped", findings=(NOTE,))
BROKEN = report("does-not-refine", "unmapped", "mapped", findings=(CAUSE, NOTE))
BEYOND = report("inconclusive", "inconclusive", findings=(UNSUPPORTED,))
LINED_UP = report("does-not-refine", "mapped", findings=(MISMATCH,))

# Names come from graphs: markup of every format, controls, halves of surrogate pairs.
MARKUP = [
    "|",
    "`",
    "``",
    "<b>",
    "]]>",
    "&",
    "%0A",
    "::error::",
    "##[",
    "\n::stop",
    "@a",
    "\\",
    "\x1b[31m",
]
text = st.lists(st.one_of(st.sampled_from(MARKUP), st.characters()), max_size=8).map("".join)
source = st.none() | text | st.builds("{}:{} in {}: {}".format, text, st.integers(0), text, text)
names = st.lists(text, max_size=3).map(tuple)
ranks = st.lists(st.integers(0, 99), max_size=4).map(tuple)
repairs = st.builds(Repair, text, text, names, ranks, st.none() | text, st.booleans(), names)
findings = st.builds(
    Finding,
    code=st.sampled_from(["GG101", "GG108", "GG110", "GG120", "GG999"]),
    level=st.sampled_from(["error", "warning", "note"]),
    message=text,
    seq=st.none() | text,
    seq_source=source,
    dist=names,
    dist_source=source,
    title=text,
    module=st.none() | text,
    dist_module=st.none() | text,
    ranks=ranks,
    trigger=st.none() | text,
    effect=st.none() | text,
    expected=st.none() | text,
    found=st.none() | text,
    outputs=names,
    repair=st.none() | repairs,
    fingerprint=text,
    accepted=st.booleans(),
)
outputs = st.builds(
    OutputRow,
    text,
    st.sampled_from(["mapped", "unmapped", "inconclusive"]),
    st.none() | text,
    text,
    st.booleans(),
)
stats: dict[str, Any] = {"facts": 1, "relations": 2, "rounds": None, "seconds": {"run": 0.5}}
reports = st.builds(
    Report,
    verdict=st.sampled_from(["refines", "does-not-refine", "inconclusive"]),
    outputs=st.lists(outputs, max_size=3),
    findings=st.lists(findings, max_size=3),
    assumptions=st.lists(st.builds(Assumption, text, text), max_size=2),
    engine=st.fixed_dictionaries({"name": text, "version": text}),
    stats=st.just(stats),
    accepted=st.booleans(),
)
