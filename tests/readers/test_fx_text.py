"""The captured pairs as texts: the same graphs, and the same verdict."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gg_datalog.readers import ReaderInput
from gg_datalog.readers.fx_text import read

from ..command import run as cli
from .fx_printing import STYLES, load, printed

HERE = Path(__file__).resolve().parent

ROOT = HERE.parents[1]
CORPUS = ROOT.parent / "shared" / "corpus"
EXAMPLES = ROOT / "examples" / "tp_block"
CAPTURED = (
    "gpt-tp2-l1",
    "gpt-tp2-l2",
    "qwen2-tp2-l1",
    "bug-grad-accumulation",
    "bug-wrong-config-allreduce",
)
CASES = [*CAPTURED, "case", "case-missing-all-reduce"]


def folder(name: str) -> Path:
    """A case; the test is skipped where the corpus is absent."""
    found = EXAMPLES / name if name.startswith("case") else CORPUS / name
    if not found.is_dir():
        pytest.skip(f"the corpus is not at {CORPUS}")
    return found


def graphs(name: str) -> list[Path]:
    return [folder(name) / "seq.json", *sorted(folder(name).glob("dist.r*.json"))]


def texts(name: str, style: str, into: Path) -> list[Path]:
    """The graphs of a case, printed."""
    found = []
    for path in graphs(name):
        text = into / f"{path.stem}.txt"
        text.write_text(printed(load(path), STYLES[style]), encoding="utf-8")
        found.append(text)
    return found


def held(row: dict[str, Any]) -> dict[str, Any]:
    """What a text can hold of a node. It has a dtype wherever it has a shape, no module paths, and
    no sources of placeholders; values of constants are an assumption."""
    drop = {"module", "value"} | ({"source"} if row["op"] in ("placeholder", "output") else set())
    drop |= {"dtype"} if row["op"] == "get_attr" else set()
    kept = {key: value for key, value in row.items() if key not in drop}
    again = json.dumps(kept).replace('"torch.strided"', '{"layout": "strided"}')
    found: dict[str, Any] = json.loads(again)
    return found


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("name", CASES)
def test_a_text_gives_the_same_graph(name: str, style: str, tmp_path: Path) -> None:
    case = read(ReaderInput(texts(name, style, tmp_path)))
    for path, graph in zip(graphs(name), [case.seq, *case.dist.values()], strict=True):
        assert list(map(held, graph["nodes"])) == list(map(held, load(path)["nodes"]))
        assert graph["format"] == "fx-graph" and graph["version"] == 2
        assert graph["origin"].endswith(f"{path.stem}.txt")


def verdict(facts: Path) -> tuple[int, Any]:
    status, out, error = cli("run", facts, "--format", "json")
    assert out, error
    report = json.loads(out)
    kept = ("code", "level", "seq", "dist", "message", "seq_source", "dist_source")
    findings = [[finding.get(key) for key in kept] for finding in report["findings"]]
    return status, (report["outputs"], findings)


@pytest.mark.parametrize("name", CASES)
def test_a_text_gives_the_same_verdict(name: str, tmp_path: Path) -> None:
    files = texts(name, "tlparse", tmp_path)
    known = [
        part
        for key in ("groups", "relations", "outputs")
        for part in (f"--{key}", folder(name) / f"{key}.json")
    ]
    made = cli("extract", "--from", "fx-text", *files, *known, "-o", tmp_path / "text")
    assert made[0] == 0, made[2]
    made = cli("extract", folder(name), "-o", tmp_path / "json")
    assert made[0] == 0, made[2]
    assert verdict(tmp_path / "text") == verdict(tmp_path / "json")


def test_groups_by_option(tmp_path: Path) -> None:
    name = "gpt-tp2-l1"
    files = texts(name, "plain", tmp_path)
    given = ["--relations", folder(name) / "relations.json"]
    given += ["--outputs", folder(name) / "outputs.json", "--group", "12=0,1"]
    status, _, error = cli("extract", "--from", "fx-text", *files, *given, "-o", tmp_path / "facts")
    assert status == 0, error
    assert verdict(tmp_path / "facts")[0] == 0


def test_what_is_taken_of_constants_is_told(tmp_path: Path) -> None:
    case = read(ReaderInput(texts("gpt-tp2-l1", "plain", tmp_path)))
    told = [row["text"] for row in case.about["assumptions"]]
    assert any("rank 0" in t and t.endswith("taken from the source line") for t in told)
    assert any("sequential" in t and "taken as 0" in t for t in told)
