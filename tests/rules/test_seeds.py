"""Draws whose seeds a program gives: replicas draw the same numbers, parts others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from gg_datalog import verify

from .build import Case, write

SEQ = "x: f32[8, 4]\ny = native_dropout(x, 0.5, True)[0]\nreturn y"
SAME, OWN = '"7:a"', "f\"7:{'abcd'[rank]}\""
FOUR = [
    {"seq": "x", "rank": r, "dist": "x", "seq_box": [[r % 2 * 4, r % 2 * 4 + 4], [0, 4]]}
    for r in range(4)
]  # rows over neighbours, replicas two ranks apart


def dropout(name: str, shape: str, drawn: str, world: int = 2) -> Case:
    dist = f"x: f32{shape}\ny = native_dropout(x, 0.5, True, drawn={drawn})[0]\nreturn y"
    return Case(name, SEQ, dist, world, relate={"x": FOUR} if world == 4 else {})


def of_four(streams: str) -> Case:
    return dropout(f"four ranks: {streams}", "[4, 4]", f"f\"7:{{'{streams}'[rank]}}\"", 4)


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
NEIGHBOURS = """
x: f32[5, 4]
d = native_dropout(x, 0.5, True, drawn={})[0]
return mul(slice(d, 0, 1, 5), slice(d, 0, 0, 4))"""
HALO = [
    {"seq": "x", "rank": r, "dist": "x", "seq_box": [[r * 3, r * 3 + 5], [0, 4]]} for r in range(2)
]
CHAIN = "x: f32[8, 4]\nd = native_dropout(x, 0.5, True)[0]\nreturn mul(slice(d, 0, 1, 8), slice(d, 0, 0, 7))"
ROWS = [
    {"seq": "x", "rank": 0, "dist": "x", "seq_box": [[0, 5], [0, 4]]},
    {"seq": "x", "rank": 1, "dist": "x", "seq_box": [[5, 8], [0, 4]]},
]
UNEVEN = """
x: f32[5 - 2 * rank, 4]
y = native_dropout(x, 0.5, True, drawn=f"7:{'aa'[rank]}:{'fg'[rank]}")[0]
return y"""


def turns(width: int) -> dict[str, list[dict[str, object]]]:
    """Two ranks hold so many rows of x[8, 4] in turns."""
    return {
        "x": [
            {"seq": "x", "rank": r, "dist": "x", "seq_box": [[a, a + width], [0, 4]],
             "dist_box": [[b, b + width], [0, 4]]}
            for r in range(2)
            for b in range(0, 4, width)
            for a in [2 * b + r * width]
        ]
    }  # fmt: skip


def in_turns(name: str, width: int, drawn: str) -> Case:
    return replace(dropout(name, "[4, 4]", drawn), relate=turns(width))


CASES: list[tuple[Case, list[str]]] = [
    (dropout("replicas", "[8, 4]", SAME), []),
    (dropout("replicas with seeds of their own", "[8, 4]", OWN), ["GG158"]),
    (dropout("shards", "[4, 4]", OWN), []),
    (dropout("shards with one seed", "[4, 4]", SAME), ["GG157"]),
    (dropout("columns with one seed", "[8, 2]", SAME), ["GG157"]),
    (dropout("one is seeded", "[4, 4]", 'f"{[7, chr(45)][rank]}:a"'), []),
    (dropout("one replica is seeded", "[8, 4]", 'f"{[7, chr(45)][rank]}:a"'), ["GG158"]),
    (dropout("another form", "[8, 4]", "f\"7:a:{'ft'[rank]}\""), ["GG158"]),
    (Case("parts that overlap", CHAIN, NEIGHBOURS.format(OWN), relate={"x": HALO}), ["GG158"]),
    (in_turns("every other row with one seed", 1, SAME), ["GG157"]),
    (in_turns("every other pair of rows", 2, OWN), []),
    (in_turns("every other pair of rows with one seed", 2, SAME), ["GG157"]),
    (Case("uneven parts with one seed", SEQ, UNEVEN, relate={"x": ROWS}), ["GG157"]),
    (dropout("nobody gave a seed", "[4, 4]", '"-:a"'), []),
    (of_four("abab"), []),
    (of_four("aabb"), ["GG157", "GG158"]),
    (of_four("abcd"), ["GG158"]),
    (of_four("aaaa"), ["GG157"]),
    (Case("drawn once more", ONCE, AGAIN.format("-:a")), []),
]


@pytest.mark.parametrize(("case", "wanted"), [pytest.param(*one, id=one[0].name) for one in CASES])
def test_seeds(case: Case, wanted: Sequence[str], tmp_path: Path) -> None:
    write(case, tmp_path)
    result = verify(tmp_path, engine="clingo")
    assert [f.code for f in result.findings if f.level == "error"] == wanted
    assert result.verdict == ("does-not-refine" if wanted else "refines")


def test_another_draw_is_another_mask(tmp_path: Path) -> None:
    write(Case("drawn twice", ONCE, AGAIN.format("-:b")), tmp_path)
    assert not verify(tmp_path, engine="clingo").refines
