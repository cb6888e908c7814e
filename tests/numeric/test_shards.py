"""The view ``shard`` against numbers: what a rank holds of a tensor is what it says."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gg_datalog.commands.query import ask
from gg_datalog.extract.case import case_files
from gg_datalog.extract.facts import build_sides
from gg_datalog.inference.run import Options, run_facts
from gg_datalog.result.store import write_facts

from .interpreter import Execution, execute
from .pairs import pair

SQL = "SELECT seq, rank, node, dim, lo, hi, stride, times, open FROM shard"


@pytest.mark.parametrize("name", ["gpt-1x2", "qwen2-1x4-replicated"])
def test_shards_hold_what_they_say(name: str, tmp_path: Path) -> None:
    program = pair(name)
    program.write(tmp_path / "case")
    built = build_sides(case_files(tmp_path / "case"), [], lambda text: None)
    write_facts(built.tables, tmp_path / "facts", "parquet", {})
    options = Options(engine="clingo", repairs=False, confirm=0)
    run_facts(tmp_path / "facts", tmp_path / "result", options, lambda text: None)
    execution = execute(program, np.random.default_rng(3))
    held: dict[Any, list[Any]] = defaultdict(list)
    for seq, rank, node, dim, lo, hi, stride, times, part in ask(tmp_path / "result", SQL).rows:
        held[seq, rank, node, times, part].append((dim, lo, hi, stride))
    compared = [_same(execution, key, runs) for key, runs in held.items()]
    assert compared.count(True) >= 20
    assert False not in compared


def _same(execution: Execution, key: Any, runs: list[Any]) -> bool | None:
    """Are the numbers these? None where it is a part, or no box, or lies in another order."""
    seq, rank, node, times, part = key
    values = execution.seq[seq], execution.dist[rank][node]
    if part is not None or any(isinstance(value, (list, tuple)) for value in values):
        return None
    whole, mine = (np.squeeze(np.asarray(value)) for value in values)
    if [dim for dim, *_ in runs] != list(range(whole.ndim)) or any(s != 1 for *_, s in runs):
        return None
    cut = whole[tuple(slice(lo, hi) for _, lo, hi, _ in runs)]
    if cut.shape != mine.shape:
        return None
    return bool(np.allclose(mine, times * cut))
