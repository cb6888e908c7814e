"""Draws whose seeds a program gives: replicas draw the same numbers, parts others."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from gg_datalog import verify

from .build import Case, write

SEQ = "x: f32[8, 4]\ny = native_dropout(x, 0.5, True)[0]\nreturn y"
SAME, OWN = '"7:a"', "f\"7:{'abcd'[rank]}\""


def said(dist: str, folder: Path, seq: str = SEQ, world: int = 2) -> tuple[str, Sequence[str]]:
    folder.mkdir(exist_ok=True)
    write(Case("seeds", seq, dist, world), folder)
    result = verify(folder, engine="clingo")
    return result.verdict, [f.code for f in result.findings if f.level == "error"]


def dropout(shape: str, drawn: str) -> str:
    return f"x: f32{shape}\ny = native_dropout(x, 0.5, True, drawn={drawn})[0]\nreturn y"


CASES = {
    "replicas": (dropout("[8, 4]", SAME), []),
    "replicas with seeds of their own": (dropout("[8, 4]", OWN), ["GG158"]),
    "shards": (dropout("[4, 4]", OWN), []),
    "shards with one seed": (dropout("[4, 4]", SAME), ["GG157"]),
    "columns with one seed": (dropout("[8, 2]", SAME), ["GG157"]),
    "one is seeded": (dropout("[4, 4]", 'f"{[7, chr(45)][rank]}:a"'), []),
    "nobody gave a seed": (dropout("[4, 4]", '"-:a"'), []),
}


@pytest.mark.parametrize("name", CASES)
def test_seeds(name: str, tmp_path: Path) -> None:
    dist, wanted = CASES[name]
    verdict = "does-not-refine" if wanted else "refines"
    assert said(dist, tmp_path) == (verdict, wanted)


FOUR = """
x: f32[4, 4]
y = native_dropout(x, 0.5, True, drawn=f"7:{{'{}'[rank]}}")[0]
return y"""


@pytest.mark.parametrize(
    ("streams", "wanted"),
    [("abab", []), ("aabb", ["GG157", "GG158"]), ("abcd", ["GG158"]), ("aaaa", ["GG157"])],
)
def test_tensor_and_data_parallel(streams: str, wanted: list[str], tmp_path: Path) -> None:
    """Rows over neighbours, replicas two ranks apart."""
    rows = [
        {"seq": "x", "rank": r, "dist": "x", "seq_box": [[r % 2 * 4, r % 2 * 4 + 4], [0, 4]]}
        for r in range(4)
    ]
    case = Case("four", SEQ, FOUR.format(streams), 4, relate={"x": rows})
    write(case, tmp_path)
    result = verify(tmp_path, engine="clingo")
    assert [f.code for f in result.findings if f.level == "error"] == wanted
    assert result.refines is not bool(wanted)


AGAIN = """
x: f32[8, 4]
y = native_dropout(x, 0.5, True, drawn="-:a")[0]
z = native_dropout(x, 0.5, True, drawn="{}")[0]
w = native_dropout(relu(x), 0.5, True, drawn="-:c")[0]
return add(y, w), z"""
ONCE = """
x: f32[8, 4]
y = native_dropout(x, 0.5, True)[0]
w = native_dropout(relu(x), 0.5, True)[0]
return add(y, w), y"""


def test_a_draw_that_is_made_again_is_the_same(tmp_path: Path) -> None:
    assert said(AGAIN.format("-:a"), tmp_path / "a", ONCE) == ("refines", [])
    assert said(AGAIN.format("-:b"), tmp_path / "b", ONCE)[0] != "refines"
