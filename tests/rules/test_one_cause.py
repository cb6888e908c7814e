"""One cause, one finding: how many findings a mistake gives, where they point, and what is told apart."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from gg_datalog import verify
from gg_datalog.result.report import Finding

from .build import Case, row, write

SUM = 'all_reduce({}, "sum", "g")'
INPUTS = "x: f32[{n}, 4]\nd: f32[{n}, 6]\ne: f32[{n}, 2]\n"
GRADIENTS = "a = mm(t(x), d)\nb = mm(t(x), e)\nreturn a, b"


def found(
    case: Case, folder: Path, kind: str | None = None, repairs: bool = False
) -> list[Finding]:
    """What is found, the cause first, where all outputs are of this kind."""
    write(case, folder)
    path = folder / "outputs.json"
    outputs = json.loads(path.read_text())
    for output in outputs if kind else ():
        output |= {"kind": kind, "name": f"grad_{output['seq']}"}
    path.write_text(json.dumps(outputs))
    result = verify(folder, engine="clingo", repairs=repairs, confirm=0)
    return [one for one in result.findings if one.level != "note"]


def gradients(dist: str, ranks: int = 2) -> Case:
    """Gradients of two parameters, of which each rank has its share."""
    return Case("gradients", INPUTS.format(n=8) + GRADIENTS, dist, ranks=ranks)


def test_gradients_that_nothing_reduces(tmp_path: Path) -> None:
    """Both come back as parts: one finding names both, and one repair does for both."""
    (one,) = found(gradients(INPUTS.format(n=4) + GRADIENTS), tmp_path, "gradient", repairs=True)
    assert one.code == "GG119" and one.outputs == ("a", "b")
    assert "2 gradients (`grad_a`, `grad_b`)" in one.message
    assert one.dist == ("r0.a", "r1.a", "r0.b", "r1.b")
    assert one.repair is not None and set(one.repair.outputs) == {"a", "b"}


def test_a_gradient_alone_is_told_as_before(tmp_path: Path) -> None:
    """Where only one is not reduced it is named alone."""
    dist = INPUTS.format(n=4) + GRADIENTS.replace(
        "b = mm(t(x), e)", "b = " + SUM.format("mm(t(x), e)")
    )
    (one,) = found(gradients(dist), tmp_path, "gradient")
    assert one.code == "GG119" and one.outputs == ("a",)


def test_other_groups_are_other_causes(tmp_path: Path) -> None:
    """One gradient waits for a reduction over pairs, the other one for all ranks."""
    relate = {
        name: [row(rank, name, seq_box=[[2 * rank, 2 * rank + 2], [0, w]]) for rank in range(4)]
        for name, w in (("x", 4), ("d", 6))
    } | {
        name: [
            row(rank, name, seq_box=[[4 * (rank % 2), 4 * (rank % 2) + 4], [0, w]])
            for rank in range(4)
        ]
        for name, w in (("y", 4), ("e", 2))
    }
    inputs = "x: f32[{n}, 4]\nd: f32[{n}, 6]\ny: f32[{m}, 4]\ne: f32[{m}, 2]\n"
    body = "a = mm(t(x), d)\nb = mm(t(y), e)\nreturn a, b"
    case = Case(
        "two groups",
        inputs.format(n=8, m=8) + body,
        inputs.format(n=2, m=4) + body,
        ranks=4,
        relate=relate,
    )
    assert [one.outputs for one in found(case, tmp_path, "gradient")] == [("a",), ("b",)]


def test_a_factor_is_found_where_it_comes_in(tmp_path: Path) -> None:
    """Not at what is returned, which only puts it elsewhere."""
    body = "y = relu(mm(x, w))\n{}return t({g}), unsqueeze({g}, 0)"
    inputs = "x: f32[4, 4]\nw: f32[4, 4]\n"
    wrong = body.format("g = mul(y, 0.5)\n", g="g")
    (one,) = found(Case("a factor", inputs + body.format("", g="y"), inputs + wrong), tmp_path)
    assert one.code == "GG103" and len(one.outputs) == 2
    assert names([one]) == {"g"} and one.message.startswith("a factor comes in at `g`")


ROWS = "x: f32[12, 4]\nq = slice(x, 0, 0, 8)\nk = slice(x, 0, {})\n"


def sliced(rank_slice: str) -> Case:
    """Queries and keys cut out of one tensor."""
    body = "a = relu(q)\nb = tanh(slice(k, 1, 0, 2))\nc = sin(slice(k, 1, 2, 4))\nreturn a, b, c"
    return Case("slices", ROWS.format("8, 12") + body, ROWS.format(rank_slice) + body)


@pytest.mark.parametrize("wrong", ["0, 4", "4, 8"])
def test_the_slice_where_operands_go_astray(wrong: str, tmp_path: Path) -> None:
    """Keys cut out of the queries' rows: the slice, once, and not what uses it."""
    told = [one for one in found(sliced(wrong), tmp_path) if one.dist]
    assert names(told[:1]) == {"k"}, told
    assert all(names([one]) == {"k"} for one in told), told


def names(findings: Sequence[Finding]) -> set[str]:
    """The distributed nodes that they name, without ranks."""
    return {name.partition(".")[2] for one in findings for name in one.dist}


UNUSED = "x: f32[4, 4]\nw: f32[4, 6]\ny = mm(x, w)\nz = " + SUM.format("y") + "\nreturn relu({})"


def test_a_reduction_that_nobody_uses(tmp_path: Path) -> None:
    """It is the mistake where its operand goes on instead."""
    seq = "x: f32[4, 8]\nw: f32[8, 6]\nreturn relu(mm(x, w))"
    (one,) = found(Case("in vain", seq, UNUSED.format("y")), tmp_path)
    assert one.code == "GG108" and names([one]) == {"z"}
    assert "nobody uses what it gives" in one.message


def test_a_reduction_that_is_used(tmp_path: Path) -> None:
    seq = "x: f32[4, 8]\nw: f32[8, 6]\nreturn relu(mm(x, w))"
    assert found(Case("used", seq, UNUSED.format("z")), tmp_path) == []


def test_micro_batches_add_up_to_one_part(tmp_path: Path) -> None:
    """What a rank has added up is its part; the parts of that are not told beside it."""
    seq = "x: f32[8, 4]\nd: f32[8, 6]\nw: f32[4, 6]\nreturn sub(w, mm(t(x), d))"
    dist = (
        "x: f32[4, 4]\nd: f32[4, 6]\nw: f32[4, 6]\n"
        "g = mm(t(slice(x, 0, 0, 2)), slice(d, 0, 0, 2))\n"
        "h = mm(t(slice(x, 0, 2, 4)), slice(d, 0, 2, 4))\n"
        "s = add(g, h)\nreturn sub(w, s)"
    )
    (one,) = found(Case("micro-batches", seq, dist), tmp_path)
    assert one.code == "GG108" and names([one]) == {"s"}, one


def test_operators_of_one_line(tmp_path: Path) -> None:
    """The same mistake in two layers of one line is one; of other lines there are two."""
    body = "a = tanh(mul(x, {}))\nb = tanh(mul(y, {}))\nreturn relu(a), relu(b)"
    inputs = "x: f32[4, 4]\ny: f32[4, 4]\n"
    case = Case("layers", inputs + body.format(2.0, 2.0), inputs + body.format(3.0, 3.0))
    for line, count in (("m.py:3 in f: tanh(x * c)", 1), ("", 2)):
        write(case, tmp_path)
        for path in (*tmp_path.glob("dist.r*.json"), tmp_path / "seq.json"):
            graph = json.loads(path.read_text())
            for node in graph["nodes"]:
                node["source"] = line
            path.write_text(json.dumps(graph))
        result = verify(tmp_path, engine="clingo", repairs=False, confirm=0)
        assert len(result.findings) == count, result
