"""Texts of the attacks: what torch says of them, and that every spelling is one thing."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")


from gg_datalog.extract.signature import bound
from gg_datalog.readers import ReaderInput
from gg_datalog.readers.fx_text import read

from ..command import run as cli
from .fx_attacks import PAIRS, Pair, by_name, texts, truths


@pytest.mark.parametrize("family", PAIRS)
def test_pairs_are_what_they_are_called(family: str) -> None:
    pairs = PAIRS[family]
    found = dict(zip(pairs, truths(tuple(pairs.values())), strict=True))
    told = {name: one.right for name, one in pairs.items() if one.right is not None}
    assert {name: found[name] for name in told} == told


def arguments(file: Path) -> list[Any]:
    """Every node's form, and its arguments by name."""
    found = []
    for node in read(ReaderInput([file, file])).seq["nodes"]:
        form = (node["name"], node["target"], node.get("shape"), node.get("dtype"))
        if not node["target"].startswith(("aten.", "prims.", "_c10d_functional.")):
            found.append((form, node["args"]))
            continue
        made = bound(node["target"], frozen(node["args"]), frozen(node["kwargs"]))
        assert made is not None, form
        found.append((form, made[1]))
    return found


def frozen(value: Any) -> Any:
    """As a graph that is read holds it."""
    if isinstance(value, list):
        return tuple(map(frozen, value))
    if isinstance(value, dict) and value.keys() == {"float"}:
        return float(value["float"])
    return {k: frozen(v) for k, v in value.items()} if isinstance(value, dict) else value


@pytest.mark.parametrize("family", PAIRS)
def test_arguments_by_position_and_by_name_are_the_same(family: str, tmp_path: Path) -> None:
    files = texts(PAIRS[family].values(), tmp_path)
    for file in files[:2]:
        other = tmp_path / "spelled.txt"
        other.write_text(by_name(file.read_text()))
        assert re.search(r"\((self|input)=", other.read_text())
        assert arguments(other) == arguments(file)


def mapped(pairs: Mapping[str, Pair], folder: Path, spelled: bool) -> list[str]:
    """The pairs of which the rules see that they are right."""
    files = texts(pairs.values(), folder)
    for file in files[1:] if spelled else ():
        file.write_text(by_name(file.read_text()))
    status, _, error = cli("extract", "--from", "fx-text", *files, "-o", folder / "facts")
    assert status == 0, error
    _, out, error = cli("run", folder / "facts", "--format", "json", "--no-repairs")
    outputs = json.loads(out)["outputs"]
    return [name for name, o in zip(pairs, outputs, strict=True) if o["status"] == "mapped"]


# A result that no node waits for counts as there at once, as those of HLO are.
OPEN = {"waits": "a collective that nothing waits for is not in flight"}
JUDGED = [
    pytest.param(f, marks=pytest.mark.xfail(strict=True, reason=OPEN[f])) if f in OPEN else f
    for f in PAIRS
]


@pytest.mark.exhaustive("*-as printed")
@pytest.mark.parametrize("spelled", [False, True], ids=["as printed", "ranks by name"])
@pytest.mark.parametrize("family", JUDGED)
def test_no_wrong_pair_is_mapped_and_every_right_one_is(
    family: str, spelled: bool, tmp_path: Path
) -> None:
    pairs = PAIRS[family]
    found = mapped(pairs, tmp_path, spelled)
    true = dict(zip(pairs, truths(tuple(pairs.values())), strict=True))
    assert [name for name in found if not true[name]] == []
    assert [name for name, one in pairs.items() if one.right and name not in found] == []
