"""An audit on a Ray cluster: several nodes, one of which is killed in the middle, and the driver."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from click.testing import CliRunner

from gg_datalog.audit.processes import descendants, marked
from gg_datalog.cli import cli as commands

from ..command import Cli

ROOT = Path(__file__).resolve().parents[2]
CASES = ROOT / "examples" / "tp_block"
PATIENCE = 900.0  # seconds; the machine may be busy


def test_a_clear_message_where_ray_is_missing(tmp_path: Path, cli: Cli) -> None:
    with patch("gg_datalog.audit.ray_pool.find_spec", lambda name: None):
        done = cli("audit", CASES, "-o", tmp_path / "out", "--ray", "auto")
    assert done.status == 2 and "pip install 'gg-datalog[ray]'" in done.err
    assert not (tmp_path / "out").exists()


def test_a_clear_message_where_no_cluster_is(tmp_path: Path, cli: Cli) -> None:
    pytest.importorskip("ray", reason="Ray is not installed: pip install 'gg-datalog[ray]'")
    done = cli("audit", CASES, "-o", tmp_path / "out", "--ray", "127.0.0.1:1")
    assert done.status == 2 and "127.0.0.1:1" in done.err and "ray start" in done.err


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A head without cores and two nodes of one core, each a process group of its own."""
    pytest.importorskip("ray", reason="Ray is not installed: pip install 'gg-datalog[ray]'")
    from ray.cluster_utils import Cluster

    small = {"object_store_memory": 80 * 2**20, "include_dashboard": False}
    with patch.dict(os.environ, {"RAY_USAGE_STATS_ENABLED": "0", "PYTHONPATH": str(ROOT)}):
        made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, **small})
        made.nodes = [made.add_node(num_cpus=1, **small) for _ in range(2)]
        yield made
        made.shutdown()


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "gg_datalog", "audit", *map(str, arguments)]


def events(folder: Path) -> list[dict[str, Any]]:
    path = folder / "events.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    return [json.loads(line) for line in lines]


def until(true: Callable[[], Any]) -> Any:
    """Waits for something, and gives it."""
    end = time.monotonic() + PATIENCE
    while not (found := true()):
        assert time.monotonic() < end, "it never came"
        time.sleep(0.1)
    return found


def kinds(folder: Path, kind: str) -> list[dict[str, Any]]:
    return [event for event in events(folder) if event["event"] == kind]


def plan(home: Path) -> Path:
    """Cases, facts with the graphs behind them, and a case that is refused."""
    for number in range(2):
        shutil.copytree(CASES / "case", home / "cases" / f"good-{number}")
        graph = home / "cases" / f"good-{number}" / "seq.json"
        graph.write_text(graph.read_text().replace("model.py", f"model_{number}.py"))
    shutil.copytree(CASES / "case-missing-all-reduce", home / "cases" / "bad")
    (home / "cases" / "none").mkdir()
    for name in ("seq.json", "dist.r0.json"):
        (home / "cases" / "none" / name).write_text("{")
    done = CliRunner().invoke(
        commands, ["extract", str(CASES / "case-missing-all-reduce"), "-o", str(home / "facts")]
    )
    assert done.exit_code == 0, done.output
    path = home / "plan.toml"
    path.write_text(
        'run = { repairs = false }\n[[entry]]\ncases = "cases/*"\n[[entry]]\nfacts = "facts"\n'
    )
    return path


def statuses(folder: Path) -> dict[str, tuple[str, str]]:
    """How each item ended, and by which findings."""
    sql = "SELECT item, status, coalesce((SELECT string_agg(fingerprint, ',' ORDER BY place) FROM findings f WHERE f.item = i.item), '') AS told FROM items i"
    told = CliRunner().invoke(
        commands, ["audit", "query", str(folder), "--sql", sql, "--format", "json"]
    )
    return {row["item"]: (row["status"], row["told"]) for row in json.loads(told.stdout)}


def test_nodes_and_the_driver_are_killed_and_nothing_is_lost(cluster: Any, tmp_path: Path) -> None:
    path, out, alone = plan(tmp_path / "home"), tmp_path / "out", tmp_path / "alone"
    again = command(path, "-o", out, "--ray", cluster.address)
    victim = cluster.nodes[0]
    raylet = victim.all_processes["raylet"][0].process.pid
    mark = f"ray {out} 1/1"

    driver = subprocess.Popen(again, env={**os.environ, "PYTHONPATH": str(ROOT)})
    until(lambda: kinds(out, "ended"))
    driver.send_signal(signal.SIGKILL)
    driver.wait()
    before = len(kinds(out, "ended"))
    until(lambda: not set(marked("GG_DATALOG_AUDIT", mark)))  # its items end with it

    driver = subprocess.Popen(again, env={**os.environ, "PYTHONPATH": str(ROOT)})
    until(lambda: {one.pid for one in descendants(raylet)} & set(marked("GG_DATALOG_AUDIT", mark)))
    cluster.remove_node(victim, allow_graceful=False)
    assert driver.wait(PATIENCE) == 1
    assert kinds(out, "lost") and len(kinds(out, "ended")) > before

    found = statuses(out)
    assert subprocess.run(command(path, "-o", alone, "--jobs", 1), check=False).returncode == 1
    assert found == statuses(alone) and len(found) == 5
    assert {status for status, _ in found.values()} == {"refines", "does-not-refine", "malformed"}
    until(lambda: not list(marked("GG_DATALOG_AUDIT", mark)))
