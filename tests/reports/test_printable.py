"""What cannot be seen is made visible, wherever a person or a terminal reads it."""

from __future__ import annotations

from dataclasses import replace
from unicodedata import category

from hypothesis import given, settings

from gg_datalog.foundation.visible import visible
from gg_datalog.reporting.text import as_text
from gg_datalog.reporting.wording import details
from gg_datalog.result.printable import printable
from gg_datalog.result.report import Report

from .samples import BROKEN, CAUSE, reports


def test_escapes() -> None:
    assert visible("a\x1b[31m\x9b\u202eb\ud800") == "a\\x1b[31m\\x9b\\u202eb\\ud800"
    assert visible("a\r\n\tb\u2028c") == "a b c"
    assert visible("größe 尺寸 🙂 `a|b`") == "größe 尺寸 🙂 `a|b`"


def test_a_terminal_is_not_moved() -> None:
    odd = replace(CAUSE, message="`r0.x`\x1b[2J\nREFINES: every output")
    text = as_text(replace(BROKEN, findings=[odd]))
    assert "\x1b" not in text
    assert not any(line.startswith("REFINES") for line in text.splitlines())


def test_a_person_reads_what_the_message_does_not_say() -> None:
    """Ranks, the effect, and a single output are in the message already."""
    for spoiled, beside in ((("add_1",), {"outputs"}), (("add_1", "add_2"), set())):
        found = replace(CAUSE, outputs=spoiled)
        lines = [line.strip() for line in as_text(replace(BROKEN, findings=[found])).splitlines()]
        left_out = {label for label, text in details(found) if f"{label}: {text}" not in lines}
        assert left_out == {"on ranks", "effect"} | beside


@given(reports)
@settings(max_examples=60, deadline=None)
def test_only_texts_change_and_only_once(report: Report) -> None:
    once = printable(report)
    assert printable(once) == once
    assert [row.status for row in once.outputs] == [row.status for row in report.outputs]
    assert [one.ranks for one in once.findings] == [one.ranks for one in report.findings]
    for char in as_text(report).replace("\n", ""):
        assert category(char) not in ("Cc", "Cs")
