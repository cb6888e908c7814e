"""What an audit keeps and what it does again: lost items, limits, files of rows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet

from gg_datalog.audit.coordinator import Coordinator, Settings
from gg_datalog.audit.database import asked, ensure
from gg_datalog.audit.display import Lines
from gg_datalog.audit.folder import AuditFolder, made
from gg_datalog.audit.items import Item
from gg_datalog.audit.jobs import Tally
from gg_datalog.audit.lake import Lake
from gg_datalog.audit.limits import Limits
from gg_datalog.audit.planned import store
from gg_datalog.audit.pool import Answer
from gg_datalog.foundation.errors import InputError

from .small import audit, statuses, write_case

GOOD = {"status": "refines", "reason": ""}


class Told:
    """A pool whose answers are said beforehand, by the name of the case."""

    def __init__(self, answers: dict[str, list[Any]]) -> None:
        self.answers_to, self.given = answers, []
        self.tried: list[str] = []

    def free(self) -> int:
        return 1 - len(self.given)

    def give(self, task: dict[str, Any]) -> None:
        self.given.append(task)

    def answers(self, seconds: float) -> Iterator[Answer]:
        for task in self.given:
            name = Path(task["place"]).name
            self.tried.append(name)
            said = self.answers_to[name].pop(0)
            yield Answer(task, lost=said) if isinstance(said, str) else Answer(task, said)
        self.given = []

    def close(self) -> None:
        pass


def run(folder: AuditFolder, items: list[Item], pool: Told) -> Tally:
    ensure(folder)
    store(folder, items)
    return Coordinator(folder, items, Settings(), lambda run: pool, Lines(len(items))).run()


def item(tmp_path: Path, name: str, rows: int = 3, limits: Limits | None = None) -> Item:
    case = write_case(tmp_path / name, rows)
    return Item(name, name, name, {}, "case", str(case), limits=limits or Limits())


# ---- lost ----------------------------------------------------------------------------------------
def test_what_is_lost_is_tried_again_and_nothing_else_is(tmp_path: Path) -> None:
    names = ("lost", "lost-often", "crash", "timeout", "memory", "malformed", "inconclusive")
    items = [item(tmp_path, name, rows) for rows, name in enumerate(names, 2)]
    answers: dict[str, list[Any]] = {name: [{"status": name, "reason": ""}] for name in names[2:]}
    pool = Told({**answers, "lost": ["gone", "gone", GOOD], "lost-often": ["gone"] * 3})
    folder = made(tmp_path / "out")
    run(folder, items, pool)
    assert {name: pool.tried.count(name) for name in names} == {
        **dict.fromkeys(names, 1), "lost": 3, "lost-often": 3
    }  # fmt: skip
    found = dict(asked(folder, "SELECT item, status FROM items").rows)
    assert found == {**{name: name for name in names}, "lost": "refines", "lost-often": "lost"}
    rows = dict(asked(folder, "SELECT item, attempt FROM history").rows)
    assert (rows["lost"], rows["lost-often"], rows["crash"]) == (3, 3, 1)


def test_a_second_run_tries_only_what_was_lost_again(tmp_path: Path) -> None:
    names = ("lost", "crash", "timeout", "malformed", "refines")
    items = [item(tmp_path, name, rows) for rows, name in enumerate(names, 2)]
    first: dict[str, list[Any]] = {name: [{"status": name, "reason": ""}] for name in names[1:]}
    folder = made(tmp_path / "out")
    run(folder, items, Told({**first, "lost": ["gone"] * 3}))
    second = Told({"lost": [GOOD]})
    tally = run(folder, items, second)
    assert second.tried == ["lost"] and tally.cached == 4


# ---- limits --------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("ended", "change", "again"),
    [
        ("timeout", {}, False),
        ("timeout", {"wall": 20.0}, True),
        ("timeout", {"wall": 5.0}, False),
        ("timeout", {"memory": 2**31}, True),
        ("memory", {"memory": 2**31}, True),
        ("memory", {"memory": 2**29}, False),
        ("refines", {"wall": 20.0, "memory": 2**31}, False),
        ("malformed", {"wall": 20.0}, False),
    ],
)
def test_larger_limits_are_another_try(
    ended: str, change: dict[str, Any], again: bool, tmp_path: Path
) -> None:
    limits = Limits(wall=10.0, cpu=10.0, memory=2**30)
    one = item(tmp_path, "one", limits=limits)
    folder = made(tmp_path / "out")
    run(folder, [one], Told({"one": [{"status": ended, "reason": ""}]}))
    other = replace(one, limits=replace(limits, **change))
    pool = Told({"one": [GOOD]})
    run(folder, [other], pool)
    assert pool.tried == ["one"] * again


def test_equal_pairs_with_larger_limits_are_tried_too(tmp_path: Path) -> None:
    """The same graphs twice in a plan: what broke a small limit says nothing of a large one."""
    small = item(tmp_path, "small", limits=Limits(wall=1.0))
    large = item(tmp_path, "large", limits=Limits(wall=9.0))
    folder = made(tmp_path / "out")
    pool = Told({"small": [{"status": "timeout", "reason": ""}], "large": [GOOD]})
    run(folder, [small, large], pool)
    assert dict(asked(folder, "SELECT item, status FROM items").rows) == {
        "small": "timeout", "large": "refines"
    }  # fmt: skip


# ---- files ---------------------------------------------------------------------------------------
def test_many_appends_become_one_file(tmp_path: Path) -> None:
    folder = made(tmp_path / "out")
    ensure(folder)
    lake = Lake(folder.rows, "w", many=10)
    for number in range(25):
        lake.append([{"item": f"i{number}", "key": f"k{number}", "status": "refines"}])
    files = sorted(path.name.split(".", 1)[1] for path in folder.rows.glob("*/w-*"))
    assert files == ["row.parquet"] * 5 + ["rows.parquet"] * 2
    found = asked(folder, "SELECT item FROM history").rows
    assert sorted(found) == sorted((f"i{number}",) for number in range(25))


@pytest.mark.parametrize("left", range(4))
def test_a_compaction_that_was_killed_leaves_each_row_once(left: int, tmp_path: Path) -> None:
    """The large file is there, and ``left`` of the small ones are not removed yet."""
    folder = made(tmp_path / "out")
    ensure(folder)
    lake = Lake(folder.rows, "w")
    for number in range(4):
        lake.append([{"item": f"i{number}", "key": f"k{number}", "status": "refines"}])
    small = {path: path.read_bytes() for path in sorted(folder.rows.glob("*/w-*"))}
    lake.compact()
    for path in list(small)[:left]:
        path.write_bytes(small[path])
    Lake(folder.rows, "w").recover()
    assert len(asked(folder, "SELECT item FROM history").rows) == 4


def test_a_file_that_was_not_finished_is_removed(tmp_path: Path) -> None:
    folder = made(tmp_path / "out")
    lake = Lake(folder.rows, "w")
    lake.append([{"item": "i", "key": "k", "status": "refines"}])
    (path,) = folder.rows.glob("*/w-*")
    path.with_suffix(".new").write_bytes(path.read_bytes()[:100])
    Lake(folder.rows, "w").recover()
    assert list(folder.rows.glob("*/w-*")) == [path]
    assert parquet.read_table(path, partitioning=None).num_rows == 1


# ---- what a case expects of itself ---------------------------------------------------------------
@pytest.mark.parametrize(
    ("said", "code"),
    [
        (None, 1),
        ({"verdict": "does-not-refine", "why": "no all-reduce"}, 0),
        ({"verdict": ["refines", "does-not-refine"]}, 0),
        ({"why": "no verdict"}, 1),
        ({"verdict": "refines"}, 1),
    ],
)
def test_a_case_says_what_it_expects(said: Any, code: int, tmp_path: Path) -> None:
    case = write_case(tmp_path / "cases" / "c", broken=True)
    if said is not None:
        (case / "expect.json").write_text(json.dumps(said))
    assert audit(tmp_path / "cases", "-o", tmp_path / "out").exit_code == code
    assert statuses(tmp_path / "out") == {"c": "does-not-refine"}


@pytest.mark.parametrize(
    ("line", "expected"),
    [("", "does-not-refine"), ('expect = "refines"', "refines"),
     ('matrix = { n = [1] }\nexpected = [{ n = 1, status = "inconclusive" }]', "inconclusive")],
)  # fmt: skip
def test_a_plan_says_it_over_the_case(line: str, expected: str, tmp_path: Path) -> None:
    case = write_case(tmp_path / "c", broken=True)
    (case / "expect.json").write_text('{"verdict": "does-not-refine"}')
    (tmp_path / "plan.toml").write_text(f'[[entry]]\ncases = "c"\n{line}\n')
    listed = audit(tmp_path / "plan.toml", "--list").output
    assert listed.endswith(f"expected {expected}\n")


@pytest.mark.parametrize(
    ("text", "says"),
    [("{", "cannot be read"), ('{"verdict": "fine"}', "'fine' is no status"),
     ('{"verdict": []}', "no status is named")],
)  # fmt: skip
def test_an_expectation_that_is_none(text: str, says: str, tmp_path: Path) -> None:
    case = write_case(tmp_path / "cases" / "c")
    (case / "expect.json").write_text(text)
    refused = audit(tmp_path / "cases", "-o", tmp_path / "out")
    assert isinstance(refused.exception, InputError)
    assert says in str(refused.exception) and "expect.json" in str(refused.exception)
    assert not (tmp_path / "out").exists()
