"""Audits of plans: programs captured over a matrix, parts, and what is killed in the middle."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from pyarrow import parquet

from gg_datalog.audit import planned
from gg_datalog.audit.folder import made
from gg_datalog.audit.items import Item
from gg_datalog.audit.limits import Limits
from gg_datalog.audit.plan import read_plan
from gg_datalog.cli import cli
from gg_datalog.foundation.errors import InputError

from .small import write_case

CASES = Path(__file__).resolve().parents[2] / "examples" / "tp_block"
PROGRAM = """
import torch, torch.distributed as dist
from torch import nn


class MLP(nn.Module):
    def __init__(self, ranks, broken, crash):
        super().__init__()
        self.ranks, self.broken, self.crash = ranks, broken, crash
        self.up = nn.Linear(16, 32 // ranks, bias=False)
        self.down = nn.Linear(32 // ranks, 16, bias=False)

    def forward(self, x):
        if self.crash and self.ranks > 1 and dist.get_rank() == 1:
            raise RuntimeError("no weights for this rank")
        y = self.down(torch.relu(self.up(x)))
        if self.ranks > 1 and not self.broken:
            dist.all_reduce(y)
        return x + y


def pair(tensor, broken=False, crash=False):
    build = lambda rank, ranks: MLP(ranks, broken, crash)
    return dict(build=build, make_inputs=lambda rank, ranks: (torch.empty(8, 16),),
                world_size=tensor, mode="eager")
"""
PLAN = """
[run]
confirm = 0
repairs = false

[[entry]]
program = "audited_mlp:pair"
matrix = { tensor = [2, 4], broken = [false, true] }
exclude = [{ tensor = 4, broken = true }]
expected = [{ broken = true, status = "does-not-refine" }]

[[entry]]
name = "crashing"
program = "audited_mlp:pair"
matrix = { tensor = [2], crash = [true] }
expect = "crashes-on-rank"
"""


def audit(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["audit", *map(str, arguments)])


def statuses(folder: Path) -> dict[str, str]:
    sql = "SELECT item, status FROM items"
    rows = json.loads(audit("query", folder, "--sql", sql, "--format", "json").output)
    return {row["item"]: row["status"] for row in rows}


def test_programs_over_a_matrix(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    (tmp_path / "audited_mlp.py").write_text(PROGRAM)
    plan = tmp_path / "plan.toml"
    plan.write_text(PLAN)
    listed = audit(plan, "-o", tmp_path / "out", "--list")
    assert listed.exit_code == 0 and not (tmp_path / "out").exists()
    assert len(listed.output.splitlines()) == 4
    ran = audit(plan, "-o", tmp_path / "out", "--jobs", 2)
    assert ran.exit_code == 0, ran.output
    assert statuses(tmp_path / "out") == {
        "audited_mlp:pair[tensor=2, broken=false]": "refines",
        "audited_mlp:pair[tensor=2, broken=true]": "does-not-refine",
        "audited_mlp:pair[tensor=4, broken=false]": "refines",
        "crashing[tensor=2, crash=true]": "crashes-on-rank",
    }
    asked = audit("query", tmp_path / "out", "by_configuration", "--format", "json").output
    rows = {(row["program"], row["axis"]): row for row in json.loads(asked)}
    assert rows["audited_mlp:pair", "broken"]["decides"]
    assert not rows["audited_mlp:pair", "tensor"]["decides"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("entry = 1", "list of tables"),
        ("nonsense = 1", "unknown key `nonsense`"),
        ('[[entry]]\nprogram = "m:f"\nexpect = "fine"', "'fine' is no status"),
        ('[[entry]]\nprogram = "m"', "is not MODULE:FUNCTION"),
        ('[[entry]]\ncases = "nothing/*"', "fits no folder"),
        ('[[entry]]\nprogram = "m:f"\nexclude = [{ tensor = 1 }]', "no axis of the matrix"),
        ("[[entry", "not TOML"),
    ],
)
def test_a_mistake_in_a_plan_is_one_message(text: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text(text)
    refused = audit(tmp_path / "plan.toml", "-o", tmp_path / "out")
    assert isinstance(refused.exception, InputError) and says in str(refused.exception)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("entry", "names"),
    [
        ('cases = "pairs/*"', ["pairs/a", "pairs/b"]),
        ('name = "n"\ncases = "pairs"', ["n/pairs/a", "n/pairs/b"]),
        ('name = "n"\ncases = "pairs/a"', ["n"]),
        ('name = "n"\ncases = "{here}/pairs"', ["n/a", "n/b"]),
        ('name = "n"\ncases = "{here}/pa*"', ["n/pairs/a", "n/pairs/b"]),
        ('cases = "{here}/pairs/a"', ["{here}/pairs/a"]),
    ],
)
def test_names_of_folders(entry: str, names: list[str], tmp_path: Path) -> None:
    for name in "ab":
        write_case(tmp_path / "pairs" / name)
    (tmp_path / "plan.toml").write_text(f"[[entry]]\n{entry.format(here=tmp_path)}")
    given = [name.format(here=tmp_path) for name in names]
    assert [item.name for item in read_plan(tmp_path / "plan.toml", Limits()).items] == given


def test_a_plan_is_written_in_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planned, "BATCH", 2)
    folder = made(tmp_path / "out")
    items = [Item(name, name, name, {}, "case", name) for name in "abcde"]
    for _ in range(2):  # the same plan is not written twice
        planned.store(folder, items)
        assert len(list(folder.plans.iterdir())) == 1
    planned.store(folder, items[:3])
    first, second = sorted(folder.plans.glob("*.parquet"))
    assert parquet.read_table(first)["item"].to_pylist() == [*"abcde"]
    assert parquet.read_table(second)["position"].to_pylist() == [0, 1, 2]


@pytest.fixture
def many(tmp_path: Path) -> Path:
    """A plan of eight different items: one case, verified with other limits of time."""
    entries = [
        f'[[entry]]\nname = "n{n}"\ncases = "{CASES / "case"}"\nrun = {{ timeout = {100 + n} }}\n'
        for n in range(8)
    ]
    (tmp_path / "plan.toml").write_text("\n".join(entries))
    return tmp_path / "plan.toml"


def started(plan: Path, folder: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "gg_datalog", "audit", plan, "-o", folder, "--jobs", "2"]
    return subprocess.Popen(list(map(str, command)), stdout=subprocess.DEVNULL,
                            stderr=subprocess.DEVNULL, start_new_session=True)  # fmt: skip


def until(done: object, seconds: float = 60) -> None:
    limit = time.monotonic() + seconds
    while not done():  # type: ignore[operator]
        assert time.monotonic() < limit
        time.sleep(0.05)


def ended(folder: Path) -> int:
    path = folder / "events.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    return sum('"event": "ended"' in line for line in lines)


def test_what_is_killed_goes_on(many: Path, tmp_path: Path) -> None:
    """The coordinator is killed twice: every item is there once in the end, and none runs again."""
    out = tmp_path / "out"
    for least in (2, 4):
        running = started(many, out)
        until(lambda least=least: ended(out) >= least)
        running.kill()
        running.wait()
    ran = audit(many, "-o", out, "--jobs", 2)
    assert ran.exit_code == 0, ran.output
    assert set(statuses(out).values()) == {"refines"} and len(statuses(out)) == 8
    sql = 'SELECT count(*) AS n FROM history WHERE "like" IS NULL GROUP BY item'
    rows = json.loads(audit("query", out, "--sql", sql, "--format", "json").output)
    assert [row["n"] for row in rows] == [1] * 8


def test_two_audits_of_one_folder(many: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    running = started(many, out)
    until(lambda: ended(out) >= 1)
    running.send_signal(signal.SIGSTOP)  # or it is over before the other one begins
    refused = audit(many, "-o", out)
    running.kill()
    running.wait()
    assert isinstance(refused.exception, InputError)
    assert "another gg-datalog audit" in str(refused.exception)


def test_parts_make_up_the_whole(many: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    for part in ("1/2", "2/2"):
        assert audit(many, "-o", out, "--shard", part).exit_code == 0
    assert set(statuses(out).values()) == {"refines"} and len(statuses(out)) == 8
