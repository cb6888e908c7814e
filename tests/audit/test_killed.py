"""Whatever is killed, whenever: in the end every item is there once, with the verdict it has
undisturbed."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gg_datalog.audit.processes import descendants

from .small import asked, statuses, write_case

APART = 3  # items between two kills at least: one item is not hit again and again
PLAN = """
[run]
confirm = 0
repairs = false

[[entry]]
cases = "cases"
"""


@pytest.fixture
def plan(tmp_path: Path, count: int) -> Path:
    """A plan of this many different cases: of each ten one refines, one does not, and eight are
    refused, which is fast."""
    for number in range(count):
        case = write_case(tmp_path / "cases" / f"c{number:04}", 2 + number, broken=number % 10 == 1)
        if number % 10 > 1:
            (case / "dist.r1.json").write_text(f'{{"number": {number}')
    (tmp_path / "plan.toml").write_text(PLAN)
    return tmp_path / "plan.toml"


def started(plan: Path, out: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "gg_datalog", "audit", plan, "-o", out, "--jobs", "2"]
    return subprocess.Popen(list(map(str, command)), stdout=subprocess.DEVNULL,
                            stderr=subprocess.DEVNULL, start_new_session=True)  # fmt: skip


def ended(out: Path) -> int:
    """How many items were run to their end, in all runs."""
    path = out / "events.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    return sum('"event": "ended"' in line and '"like"' not in line for line in lines)


def workers(coordinator: int) -> list[int]:
    """The workers of a coordinator, not their items."""
    return [process.pid for process in descendants(coordinator) if process.parent == coordinator]


def kill(running: subprocess.Popen[bytes], chance: random.Random) -> str:
    """Kills the coordinator, or one of its workers."""
    found = workers(running.pid)
    victim = chance.choice([running.pid, *found])
    os.kill(victim, signal.SIGKILL)
    return "coordinator" if victim == running.pid else "worker"


@pytest.mark.parametrize(
    ("count", "kills"),
    [
        pytest.param(24, 4, id="small"),
        pytest.param(500, 20, id="full", marks=pytest.mark.exhaustive),
    ],
)
def test_whatever_is_killed(count: int, kills: int, plan: Path, tmp_path: Path) -> None:
    seed = int.from_bytes(os.urandom(4))
    chance = random.Random(seed)
    moments = [APART * place for place in sorted(chance.sample(range(count // APART), kills))]
    out, killed = tmp_path / "out", []
    running = started(plan, out)
    for moment in moments:
        while ended(out) < moment and running.poll() is None:
            time.sleep(0.05)
        time.sleep(chance.uniform(0, 0.5))
        if running.poll() is None:
            killed.append(kill(running, chance))
        if killed[-1:] == ["coordinator"]:
            running.wait()
            running = started(plan, out)
    assert running.wait() == 1, seed  # some do not refine
    print("killed", killed, "seed", seed)
    undisturbed = tmp_path / "undisturbed"
    assert started(plan, undisturbed).wait() == 1
    assert statuses(out) == statuses(undisturbed) and len(statuses(out)) == count, seed
    assert set(statuses(out).values()) == {"refines", "does-not-refine", "malformed"}
    assert results(out) == results(undisturbed), seed
    assert facts(out) == facts(undisturbed), seed
    assert not list((out / "work").glob("*/*"))


def results(out: Path) -> list[tuple[str, str, int]]:
    """Item, key and how many results there are of it: one."""
    sql = """SELECT item, key, count(*) AS n FROM history WHERE "like" IS NULL
             GROUP BY item, key ORDER BY item"""
    found = [(row["item"], row["key"], row["n"]) for row in asked(out, sql)]
    assert {n for _, _, n in found} == {1}
    return found


def facts(out: Path) -> str:
    """The facts and derived relations that are kept, each once."""
    sql = "SELECT key, side, relation, count(*) AS n FROM kept GROUP BY ALL ORDER BY ALL"
    return json.dumps(asked(out, sql))
