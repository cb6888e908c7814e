"""A captured training step (forward, backward, accumulation) whose reductions are wrong, as it is and
repaired."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ..numeric.pairs import CORPUS
from .trial import Bench, Trial

NAME = "bug-wrong-config-allreduce"
GROUP = "12"
# what each rank has a part of -> the outputs that lack the rest of it
REPAIRS = {
    "mm_5": tuple(f"add_{i}" for i in range(8, 28) if i not in (12, 23)),
    "getitem_61": ("add_17",),
    "getitem_62": ("add_18",),
    "getitem_64": ("add_19",),
    "getitem_65": ("add_20",),
}


@pytest.fixture(scope="module")
def captured() -> Path:
    """The pair; its tests are skipped where the corpus is absent."""
    if not (CORPUS / NAME).is_dir():
        pytest.skip(f"the corpus is not at {CORPUS}")
    return CORPUS / NAME


def renamed(value: Any, old: str, new: str) -> Any:
    """Arguments with every reference to node ``old`` made one to ``new``."""
    if isinstance(value, dict):
        one = {"node": new} if value == {"node": old} else value
        return {k: renamed(v, old, new) for k, v in one.items()}
    return [renamed(v, old, new) for v in value] if isinstance(value, list) else value


def reduced(nodes: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    """The graph with an all-reduce after node ``name``, which all later nodes use in its place."""
    at = [n["name"] for n in nodes].index(name) + 1
    like = {k: nodes[at - 1][k] for k in ("shape", "dtype")} | {"op": "call_function", "kwargs": {}}
    start = like | {
        "name": f"{name}_reduced",
        "target": "_c10d_functional.all_reduce.default",
        "args": [{"node": name}, "sum", GROUP],
    }
    wait = like | {
        "name": f"{name}_waited",
        "target": "_c10d_functional.wait_tensor.default",
        "args": [{"node": start["name"]}],
    }
    later = [
        n | {k: renamed(n[k], name, wait["name"]) for k in ("args", "kwargs") if k in n}
        for n in nodes[at:]
    ]
    return [*nodes[:at], start, wait, *later]


def repaired(captured: Path, folder: Path, names: Sequence[str]) -> Path:
    """A copy of the pair with an all-reduce after each of the nodes on both ranks."""
    for path in captured.glob("*.json"):
        found = json.loads(path.read_text("utf-8"))
        if path.name.startswith("dist."):
            for name in names:
                found["nodes"] = reduced(found["nodes"], name)
        (folder / path.name).write_text(json.dumps(found), encoding="utf-8")
    return folder


def unmapped(trial: Trial) -> set[str]:
    """The outputs that were not rebuilt."""
    return {row["seq"] for row in trial.report["outputs"] if row["status"] != "mapped"}


def test_as_captured(captured: Path, bench: Bench) -> None:
    """The first finding is the gradient that the output layer passes back."""
    found = bench.run(captured)
    assert found.status == 1, found.error
    first = found.report["findings"][0]
    assert first["code"] == "GG108"
    assert first["seq"] == "mm_5"
    assert "layers.py" in first["dist_source"]
    assert unmapped(found) == set(REPAIRS["mm_5"])
    assert len(REPAIRS["mm_5"]) == 18


def test_repaired(captured: Path, bench: Bench, tmp_path: Path) -> None:
    """With all its reductions the step refines."""
    found = bench.run(repaired(captured, tmp_path, list(REPAIRS)))
    assert found.status == 0, found.error
    assert len(found.report["outputs"]) == 44
    assert not unmapped(found)


@pytest.mark.parametrize("name", REPAIRS)
def test_one_reduction_left_out(name: str, captured: Path, bench: Bench, tmp_path: Path) -> None:
    """Exactly what depends on it is not rebuilt, and the first finding says that a sum is missing."""
    found = bench.run(repaired(captured, tmp_path, [n for n in REPAIRS if n != name]))
    assert found.status == 1, found.error
    assert found.report["findings"][0]["code"] == "GG108"
    assert unmapped(found) == set(REPAIRS[name])
