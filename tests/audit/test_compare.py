"""Two audits side by side, the parts of one, and what would be if tables or rules were others."""

from __future__ import annotations

import json
import shutil
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from gg_datalog.audit.database import ensure
from gg_datalog.audit.differences import compared
from gg_datalog.audit.differences_text import as_text
from gg_datalog.audit.folder import AuditFolder, Shard, held, made
from gg_datalog.audit.lake import Lake
from gg_datalog.audit.merging import merge
from gg_datalog.audit.planned import write_plan
from gg_datalog.datalog import program_path
from gg_datalog.foundation.errors import InputError

from .small import asked, audit, statuses, write_case

NOON = datetime(2026, 1, 1, 12)
LIMITS = {"wall": 600.0, "cpu": 600.0, "memory": 2**30, "output": 2**20, "processes": 64}


def row(item: str, status: str, **given: Any) -> dict[str, Any]:
    """A row of the lake, as a worker's answer makes it."""
    usual = {"key": f"key of {item}", "content": item, "rules": "r", "run": "1", "attempt": 1}
    times = {"started": NOON, "finished": NOON, "seconds": 1.0, "cpu": 1.0}
    return {"item": item, "status": status, "kind": "case", **usual, **times, **given}


def finding(fingerprint: str, level: str = "error") -> dict[str, Any]:
    return {
        "code": "GG108",
        "level": level,
        "message": f"m{fingerprint}",
        "fingerprint": fingerprint,
    }


def folder_of(path: Path, *rows: dict[str, Any], planned: str = "") -> AuditFolder:
    """An audit of these rows; ``planned`` are items, a letter each, where there are more."""
    folder = made(path)
    items = list(planned) or sorted({row["item"] for row in rows})
    plan = [{"position": place, "item": item, "kind": "case", "source": item, "expected": ["refines"],
             "settings": json.dumps({"run": {}, "reading": {}, "limits": LIMITS})}
            for place, item in enumerate(items)]  # fmt: skip
    write_plan(folder, plan)
    ensure(folder)
    Lake(folder.rows, "s1of1").append(rows)
    return folder


# ---- diff ----------------------------------------------------------------------------------------
def test_findings_are_the_same_by_fingerprint(tmp_path: Path) -> None:
    was, now = "does-not-refine", "does-not-refine"
    before = folder_of(tmp_path / "a", row("i", was, findings=[finding("1"), finding("2")]))
    after = folder_of(tmp_path / "b", row("i", now, findings=[finding("2"), finding("3")]))
    told = compared(before, after)
    assert [f.fingerprint for f in told.new] == ["3"]
    assert [f.fingerprint for f in told.fixed] == ["1"]
    assert told.worse() == {"new findings": 1} and not told.changed


def test_one_more_of_the_same_finding_is_new(tmp_path: Path) -> None:
    before = folder_of(tmp_path / "a", row("i", "does-not-refine", findings=[finding("1")]))
    after = folder_of(tmp_path / "b", row("i", "does-not-refine", findings=[finding("1")] * 3))
    assert [f.count for f in compared(before, after).new] == [2]


def test_a_note_is_nothing_worse(tmp_path: Path) -> None:
    before = folder_of(tmp_path / "a", row("i", "refines"))
    after = folder_of(tmp_path / "b", row("i", "refines", findings=[finding("1", "note")]))
    told = compared(before, after)
    assert len(told.new) == 1 and not told.worse()


@pytest.mark.parametrize(
    ("was", "now", "worse"),
    [
        ("refines", "does-not-refine", True),
        ("refines", "inconclusive", True),
        ("refines", "timeout", True),
        ("does-not-refine", "inconclusive", False),
        ("does-not-refine", "refines", False),
        ("does-not-refine", "crash", True),
        ("inconclusive", "does-not-refine", True),
        ("lost", "does-not-refine", False),
    ],
)
def test_which_ends_are_worse(was: str, now: str, worse: bool, tmp_path: Path) -> None:
    before = folder_of(tmp_path / "a", row("i", was))
    after = folder_of(tmp_path / "b", row("i", now, key="other", content="other"))
    (changed,) = compared(before, after).changed
    assert (changed.worse, changed.what) == (worse, "content")


def test_an_item_that_did_not_end_fixes_nothing(tmp_path: Path) -> None:
    before = folder_of(tmp_path / "a", row("i", "does-not-refine", findings=[finding("1")]))
    assert not compared(before, folder_of(tmp_path / "b", row("i", "timeout"))).fixed


def test_it_says_why_there_is_no_verdict(tmp_path: Path) -> None:
    before = folder_of(tmp_path / "a", row("i", "refines"))
    lost = [row(item, "crash", reason="signal 11\nmore of it") for item in "ij"]
    told = compared(before, folder_of(tmp_path / "b", *lost))
    assert [one.reason for one in (*told.changed, *told.added)] == ["signal 11\nmore of it"] * 2
    words = as_text(told).splitlines()
    assert "  i: was refines, now crash; of the same: signal 11" in words
    assert "  j: crash: signal 11" in words


def test_one_key_with_two_ends_flaps(tmp_path: Path) -> None:
    before = folder_of(tmp_path / "a", row("i", "refines"), row("j", "timeout"))
    after = folder_of(tmp_path / "b", row("i", "inconclusive"), row("j", "refines"))
    told = compared(before, after)
    assert told.flapping == [("i", ["inconclusive", "refines"])]  # a timeout is a matter of luck
    assert told.changed[0].what == "none"


def test_what_counts_as_slower(tmp_path: Path) -> None:
    before = folder_of(tmp_path / "a", row("i", "refines", cpu=2.0), row("j", "refines", cpu=0.1))
    after = folder_of(tmp_path / "b", row("i", "refines", cpu=5.0), row("j", "refines", cpu=0.9))
    told = compared(before, after)
    assert [row.item for row in told.slower] == ["i"] and not told.worse()
    assert compared(before, after, slower=1.5).worse() == {"slower items": 1}
    assert not compared(before, after, slower=3).slower


def test_items_of_one_plan_only_and_items_to_be_run(tmp_path: Path) -> None:
    before = folder_of(tmp_path / "a", row("i", "refines"), row("j", "refines"))
    after = folder_of(tmp_path / "b", row("k", "crash"), planned="ik")
    told = compared(before, after)
    assert (told.removed, told.unrun) == ([("j", "refines")], [("i", "refines")])
    assert told.worse() == {
        "added items that are not as expected": 1, "items that are still to be run": 1
    }  # fmt: skip


# ---- real runs -----------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four cases, one of them with an operator that no table has; audited."""
    home = tmp_path_factory.mktemp("compare")
    for rows in (3, 4, 5):
        write_case(home / "cases" / f"c{rows}", rows)
    write_case(home / "cases" / "odd", 4, target="my_mm")
    assert audit(home / "cases", "-o", home / "before").exit_code == 3
    return home


def test_diff_shows_the_program_that_changed(home: Path, tmp_path: Path) -> None:
    shutil.copytree(home / "cases", tmp_path / "cases")
    write_case(tmp_path / "cases" / "c4", 4, broken=True)
    shutil.copytree(home / "before", tmp_path / "after")
    audit(tmp_path / "cases", "-o", tmp_path / "after")
    found = audit("diff", home / "before", tmp_path / "after", "--format", "json")
    told = json.loads(found.output)
    assert found.exit_code == 1
    change = {"item": "c4", "before": "refines", "after": "does-not-refine", "what": "content"}
    assert told["changed"] == [{**change, "worse": True, "reason": ""}]
    assert {finding["item"] for finding in told["new"]} == {"c4"}
    changes = json.loads(audit("query", tmp_path / "after", "changes", "--format", "json").output)
    assert [(row["item"], row["what"], row["flapping"]) for row in changes] == [
        ("c4", "content", False)
    ]
    words = audit("diff", home / "before", tmp_path / "after").output
    assert words.startswith("WORSE") and "c4: was refines, now does-not-refine" in words
    same = audit("diff", home / "before", home / "before")
    assert same.exit_code == 0 and same.output == "NOTHING WORSE; 4 items in both\n"


def test_parts_of_an_array_job_are_merged(home: Path, tmp_path: Path) -> None:
    parts = [tmp_path / "1", tmp_path / "2"]
    for number, part in enumerate(parts, 1):
        audit(home / "cases", "-o", part, "--shard", f"{number}/2", "--keep", "facts")
    for _ in range(2):  # the second time there is nothing to add
        assert audit("merge", tmp_path / "all", *parts).exit_code == 0
        assert statuses(tmp_path / "all") == statuses(home / "before")
        assert asked(tmp_path / "all", "SELECT count(*) AS n FROM history") == [{"n": 4}]
    sql = "SELECT count(*) AS n FROM facts.output_name"
    assert asked(tmp_path / "all", sql) == [{"n": 4}]
    assert audit("merge", tmp_path / "all", home / "before").exit_code == 0  # ended the same way
    shutil.rmtree(parts[0])
    assert audit(home / "cases", "-o", tmp_path / "all", "--keep", "facts").exit_code == 3
    assert asked(tmp_path / "all", 'SELECT count(*) AS n FROM history WHERE "like" IS NULL') == [
        {"n": 8}  # those of the parts and those of `before`, and none of now
    ]


def test_what_more_operators_would_change(home: Path, tmp_path: Path) -> None:
    table = tmp_path / "more.toml"
    table.write_text('[alias]\n"aten.my_mm" = "aten.mm"\n')
    found = audit("again", home / "before", "--operators", table, "-o", tmp_path / "if",
                  "--format", "json")  # fmt: skip
    told = json.loads(found.stdout)
    assert found.exit_code == 0
    assert [(row["item"], row["after"]) for row in told["changed"]] == [("odd", "refines")]
    assert statuses(home / "before")["odd"] == "inconclusive"


def test_what_other_rules_would_change(home: Path, tmp_path: Path) -> None:
    rules = tmp_path / "rules"
    shutil.copytree(program_path().parent, rules, ignore=shutil.ignore_patterns("__pycache__"))
    head = "output_mapped(k) :- "
    text = (rules / "outputs.dl").read_text()
    assert text.count(head) == 1
    (rules / "outputs.dl").write_text(text.replace(head, f"{head}k < 0, "))
    found = audit("again", home / "before", "--rules", rules, "--only", "c*", "--format", "json")
    assert found.stdout, str(found.exception)
    assert {row["item"] for row in json.loads(found.stdout)["changed"]} == {"c3", "c4", "c5"}


def test_what_cannot_be_run_again_is_named(home: Path, tmp_path: Path) -> None:
    shutil.copytree(home / "cases", tmp_path / "cases")
    audit(tmp_path / "cases", "-o", tmp_path / "out", "--only", "c3", "--only", "c4")
    write_case(tmp_path / "cases" / "c3", 7)
    table = tmp_path / "none.toml"
    table.write_text("")
    found = audit("again", tmp_path / "out", "--operators", table)
    assert "not run again: c3: its graphs are no longer those that were audited" in found.stderr
    assert "not run again: c5 and 1 more: it was not run yet" in found.stderr
    assert found.stdout == "NOTHING WORSE; 1 item in both\n" and found.exit_code == 0


# ---- what is refused -----------------------------------------------------------------------------
def test_parts_that_do_not_fit(tmp_path: Path) -> None:
    one = folder_of(tmp_path / "1", row("i", "refines"), planned="ij")
    other = folder_of(tmp_path / "2", row("i", "inconclusive"), planned="ij")
    third = folder_of(tmp_path / "3", row("i", "refines", key="other"), planned="ij")
    plan = folder_of(tmp_path / "4", row("i", "refines"), planned="ik")
    for part, says in (
        (other, "`i` ended as refines in .* and as inconclusive here, of the same content"),
        (third, "of other content, rules or options"),
        (plan, "its plan is not that of"),
        (one, "named twice"),
    ):
        with pytest.raises(InputError, match=says):
            merge(tmp_path / "all", [one.path, part.path], lambda text: None)
        assert not (tmp_path / "all").exists()


def test_an_audit_that_runs_is_not_merged(tmp_path: Path) -> None:
    part = folder_of(tmp_path / "1", row("i", "refines"))
    with held(part, Shard(1, 2)), pytest.raises(InputError, match="running in it"):
        merge(tmp_path / "all", [part.path], lambda text: None)


def test_what_was_lost_in_one_part_is_known_in_another(tmp_path: Path) -> None:
    later = NOON + timedelta(hours=1)
    one = folder_of(tmp_path / "1", row("i", "lost", finished=later))
    other = folder_of(tmp_path / "2", row("i", "refines"))
    merge(tmp_path / "all", [one.path, other.path], lambda text: None)
    assert statuses(tmp_path / "all") == {"i": "refines"}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (None, "there is no main.dl"),
        ((".include", ".nothing"), "main.dl"),
        (("outputs.dl", "../x.dl"), "x.dl"),
    ],
)
def test_rules_that_cannot_stand_in_for_ours(
    change: tuple[str, str] | None, says: str, tmp_path: Path
) -> None:
    folder_of(tmp_path / "a", row("i", "refines"))
    rules = tmp_path / "rules"
    rules.mkdir()
    if change is not None:
        shutil.rmtree(rules)
        shutil.copytree(program_path().parent, rules)
        (rules / "main.dl").write_text(program_path().read_text().replace(*change))
    refused = audit("again", tmp_path / "a", "--rules", rules, "-o", tmp_path / "b")
    assert says in str(refused.exception), refused.output
    assert not (tmp_path / "b").exists()
