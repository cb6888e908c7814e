"""Both engines derive the same relations."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from ..numeric.mutations import mutate
from ..numeric.pairs import CORPUS, EXAMPLES, corpus
from .cases import GENERATED, generated
from .trial import Bench

CAPTURED = (
    "gpt-tp2-l1",
    "gpt-tp2-l2",
    "llama-tp2-l1",
    "qwen2-tp2-l1",
    "bug-grad-accumulation",
    "bug-wrong-config-allreduce",
)
BROKEN = {
    "gpt-tp2-l1": ("remove_all_reduce", "shift_slice"),
    "llama-tp2-l1": ("wrong_tensor",),
    "qwen2-tp2-l1": ("change_scalar",),
}
MUTATED = [f"{name}, {kind}" for name, kinds in BROKEN.items() for kind in kinds]


def place(name: str, folder: Path) -> Path:
    """The folder of a case of any family; skipped where the corpus is absent."""
    if name in GENERATED:
        return generated(name, folder)
    if name in EXAMPLES:
        return EXAMPLES[name]
    captured, _, kind = name.partition(", ")
    if not (CORPUS / captured).is_dir():
        pytest.skip(f"the corpus is not at {CORPUS}")
    if not kind:
        return CORPUS / captured
    program = corpus(captured)
    assert program is not None
    mutate(program, random.Random(name), kind).program.write(folder / name)
    return folder / name


def relations(result: Path) -> dict[str, list[str]]:
    """The rows of every derived relation, records spelled out."""
    return {
        path.stem: sorted(str(list(row.values())) for row in pq.read_table(path).to_pylist())
        for path in result.glob("*.parquet")
    }


@pytest.mark.parametrize("name", [*CAPTURED, *GENERATED, *EXAMPLES, *MUTATED])
def test_engines_agree(name: str, bench: Bench) -> None:
    if shutil.which("souffle") is None:
        pytest.skip("souffle is not on the PATH")
    case = place(name, bench.folder)
    one, other = (bench.run(case, engine) for engine in ("clingo", "souffle"))
    assert one.status == other.status
    mine, theirs = relations(one.folder / "result"), relations(other.folder / "result")
    assert mine.keys() == theirs.keys() and mine["holds"]
    assert [n for n in mine if mine[n] != theirs[n]] == []
    assert one.report["findings"] == other.report["findings"]
