"""Pairs in the manner of Transformers-NeuronX as HLO text give the verdict of the JSON cases."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import llama
import pytest

from .neuron_text import printed
from .reading import judged

CORPUS = Path(__file__).resolve().parents[3] / "shared" / "corpus"
SIZES: dict[str, Any] = {"hidden": 64, "heads": 16, "kv_heads": 8, "ffn": 32, "vocab": 48, "seq": 5}


def texts(case: Path, folder: Path) -> list[Path]:
    """The graphs of a case as HLO texts."""
    groups = json.loads((case / "groups.json").read_text())
    found = []
    for path in [case / "seq.json", *sorted(case.glob("dist.r*.json"))]:
        side = "seq" if path.name == "seq.json" else "dist"
        found.append(folder / f"{path.stem}.hlo")
        found[-1].write_text(printed(json.loads(path.read_text()), groups, side))
    return found


def given(case: Path, *more: str) -> list[str]:
    """The case's own relations and outputs, and more files of it."""
    named = [(name, f"--{name}") for name in ("relations", "outputs", *more)]
    return [
        word
        for name, flag in named
        if (case / f"{name}.json").is_file()
        for word in (flag, str(case / f"{name}.json"))
    ]


@pytest.mark.skipif(not CORPUS.is_dir(), reason="the training corpus is not here")
@pytest.mark.parametrize("name", ["llama-tp2-l1"])
@pytest.mark.parametrize("with_groups", [True, False])
def test_a_training_pair_as_text(name: str, with_groups: bool, tmp_path: Path) -> None:
    case = CORPUS / name
    options = given(case, *(["groups"] if with_groups else []))
    expected = json.loads((case / "expect.json").read_text())
    report = judged(texts(case, tmp_path), tmp_path, *options)
    assert report["verdict"] == expected["verdict"]
    found = {row["seq"]: row["relation"] for row in report["outputs"]}
    for row in expected["check"]:
        assert found[row["seq"]].startswith(f"concat(dim={row['form'].split()[-1]}")


@pytest.mark.parametrize(("layers", "ranks"), [(1, 2), (2, 4)])
def test_a_generated_pair_as_text(layers: int, ranks: int, tmp_path: Path) -> None:
    case = tmp_path / "case"
    llama.case(llama.Sizes(layers=layers, ranks=ranks, batch=2, **SIZES)).write(case)
    report = judged(texts(case, tmp_path), tmp_path, *given(case))
    assert report["verdict"] == "refines"


def test_the_missing_all_reduce_of_a_generated_pair_is_found(tmp_path: Path) -> None:
    case = tmp_path / "case"
    llama.case(llama.Sizes(layers=1, ranks=2, batch=2, **SIZES)).write(case)
    files = texts(case, tmp_path)
    for path in files[1:]:
        lines = path.read_text().splitlines()
        at = next(i for i, line in enumerate(lines) if " all-reduce(" in line)
        name, rest = lines[at].split(" = ")
        operand = rest.split("all-reduce(")[1].split(")")[0]
        shape = rest.split()[0]
        lines[at] = f"{name} = {shape} copy({operand})"
        path.write_text("\n".join(lines))
    report = judged(files, tmp_path, *given(case))
    assert report["verdict"] == "does-not-refine"
    assert "GG108" in {finding["code"] for finding in report["findings"]}
