"""Which code a mistake gets: the first finding of a program with one mistake, and near misses.

The examples of the pages (``tests/docs/test_findings.py``) are the plain cases; these are others.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gg_datalog import verify
from gg_datalog.foundation.errors import InputError

from .build import Case, row, write

X, XW = "x: f32[4, 8]\n", "x: f32[4, 8]\nw: f32[8, 6]\n"
SHARDED = "x: f32[4, 4]\nw: f32[4, 6]\n"
FOUR = "x: f32[4, 2]\nw: f32[2, 6]\n"
SUM = 'all_reduce({}, "sum", "g")'
HALVES = {
    name: [
        row(rank, name, seq_box=[[4 * (rank % 2), 4 * (rank % 2) + 4] if d == dim else [0, e] for d, e in enumerate(shape)])
        for rank in range(4)
    ]
    for name, dim, shape in (("x", 1, (4, 8)), ("w", 0, (8, 6)))
}  # fmt: skip
TURNED = {"x": [row(0, "x", seq_box=[[2, 4], [0, 8]]), row(1, "x", seq_box=[[0, 2], [0, 8]])]}
CASES = {
    "GG103": [
        Case("a factor at the output", X + "return relu(x)", X + "return mul(relu(x), 2.0)"),
    ],
    "GG107": [
        Case(
            "a residual on every rank",
            XW + "r: f32[4, 6]\ny = add(mm(x, w), r)\nreturn relu(y)",
            SHARDED + "r: f32[4, 6]\ny = add(mm(x, w), r)\nreturn relu(" + SUM.format("y") + ")",
        ),
    ],
    "GG108": [
        Case(
            "a part in a residual",
            XW + "r: f32[4, 6]\ny = mm(x, w)\nreturn add(y, r)",
            SHARDED + "r: f32[4, 6]\ny = mm(x, w)\nreturn add(y, r)",
        ),
        Case(
            "reduced, but another tensor is used",
            XW + "y = mm(x, w)\nreturn relu(y)",
            SHARDED + "y = mm(x, w)\nz = " + SUM.format("y") + "\nreturn relu(y)",
        ),
    ],
    "GG109": [
        Case(
            "softmax before the reduction",
            XW + "return _softmax(mm(x, w), 1, False)",
            SHARDED + "return " + SUM.format("_softmax(mm(x, w), 1, False)"),
        ),
    ],
    "GG111": [
        Case(
            "inputs cut in another order",
            X + "return tanh(relu(x))",
            'x: f32[2, 8]\nreturn tanh(all_gather_into_tensor(relu(x), 2, "g"))',
            relate=TURNED,
        ),
        Case(
            "columns stacked as rows",
            "x: f32[4, 4]\nw: f32[4, 6]\nreturn mm(relu(x), w)",
            'x: f32[4, 2]\nw: f32[4, 6]\ng = all_gather_into_tensor(relu(x), 2, "g")\n'
            "y: f32[4, 4] = reshape(g, [4, 4])\nreturn mm(y, w)",
        ),
    ],
    "GG112": [
        Case(
            "another offset on all ranks",
            "x: f32[8, 6]\nreturn relu(slice(x, 0, 2, 6))",
            "x: f32[8, 6]\nreturn relu(slice(x, 0, 1, 5))",
        ),
        Case(
            "ranges of a contraction that overlap",
            XW + "return relu(mm(x, w))",
            XW
            + "a = slice(x, 1, 3 * rank, 3 * rank + 4)\nb = slice(w, 0, 3 * rank, 3 * rank + 4)\n"
            + "return relu(" + SUM.format("mm(a, b)") + ")",
        ),
        Case(
            "operands of different ranges",
            XW + "return relu(mm(x, w))",
            "x: f32[4, 4]\nw: f32[8, 6]\nb = slice(w, 0, 3 * rank, 3 * rank + 4)\n"
            "return relu(" + SUM.format("mm(x, b)") + ")",
        ),
    ],
    "GG113": [
        Case(
            "over all ranks, though pairs have all parts",
            XW + "return relu(mm(x, w))",
            SHARDED + "return relu(" + SUM.format("mm(x, w)") + ")",
            ranks=4,
            relate=HALVES,
        ),
    ],
    "GG114": [
        Case(
            "replicas added up",
            X + "return relu(tanh(x))",
            X + "return relu(" + SUM.format("tanh(x)") + ")",
        ),
        Case(
            "reduced twice, at the output",
            XW + "return mm(x, w)",
            SHARDED + "return " + SUM.format(SUM.format("mm(x, w)")),
        ),
    ],
    "GG115": [
        Case(
            "a factor on the ranks only",
            X + "return tanh(relu(x))",
            X + "return tanh(mul(relu(x), 2.0))",
        ),
    ],
    "GG116": [
        Case(
            "softmax over another dimension",
            X + "return relu(_softmax(x, 1, False))",
            X + "return relu(_softmax(x, 0, False))",
        ),
    ],
    "GG118": [
        Case(
            "a norm over a shard",
            "x: f32[4, 8]\nw: f32[8]\nb: f32[8]\nreturn relu(native_layer_norm(x, [8], w, b, 1e-5)[0])",
            "x: f32[4, 4]\nw: f32[4]\nb: f32[4]\nreturn relu(native_layer_norm(x, [4], w, b, 1e-5)[0])",
        ),
    ],
    "GG150": [Case("the input comes back", X + "return relu(x)", X + "return x")],
    "GG151": [
        Case(
            "a buffer comes back as it is",
            X + "return relu(x)",
            X + "e: f32[4, 8] = empty([4, 8])\nreturn e",
        ),
    ],
}  # fmt: skip
TABLE = [
    pytest.param(code, case, id=f"{code} {case.name}") for code, cs in CASES.items() for case in cs
]


@pytest.mark.parametrize(("code", "wrong"), TABLE)
def test_the_first_finding(code: str, wrong: Case, tmp_path: Path) -> None:
    write(wrong, tmp_path)
    result = verify(tmp_path, engine="clingo", repairs=False)
    if result.verdict == "inconclusive":  # what is found is no proof of a mistake: numbers are
        result = verify(tmp_path, engine="clingo", repairs=False, confirm=60)
    assert result.verdict == "does-not-refine", str(result)
    first = result.findings[0]
    assert first.code == code, str(result)
    assert first.outputs and first.fingerprint and first.dist
    assert sum(f.level == "error" for f in result.findings) == 1, str(result)


def test_one_cause_is_one_finding(tmp_path: Path) -> None:
    """However many outputs it spoils, and whatever breaks behind it."""
    users = "\n".join(
        f"o{i} = {name}(y)" for i, name in enumerate(("relu", "tanh", "sigmoid", "gelu"))
    )
    after = "\nz = relu(o3)\nreturn o0, o1, o2, z, y"
    seq, dist = (inputs + "y = mm(x, w)\n" + users + after for inputs in (XW, SHARDED))
    write(Case("many outputs", seq, dist), tmp_path)
    result = verify(tmp_path, engine="clingo", repairs=False)
    used, returned = result.findings
    assert (used.code, returned.code) == ("GG108", "GG104")
    assert used.outputs == ("o0", "o1", "o2", "z")
    assert returned.outputs == ("y",)


PRECISE = XW + "y = mm(x, w)\n{cast}return relu({of})"
CAST = 'h = _to_copy(y, dtype="float16")\n'


@pytest.mark.parametrize("cast", [False, True])
def test_a_cast_on_both_sides_is_no_other_precision(cast: bool, tmp_path: Path) -> None:
    """A near miss of GG134."""
    seq = PRECISE.format(cast=CAST if cast else "", of="h" if cast else "y")
    dist = SHARDED + "y = mm(x, w)\n" + CAST + "z = " + SUM.format("h") + "\nreturn relu(z)"
    write(Case("casts", seq, dist), tmp_path)
    result = verify(tmp_path, engine="clingo")
    assert result.refines
    assert [f.code for f in result.findings] == ([] if cast else ["GG134"])


def _prints(case: Case, folder: Path, **source: str) -> list[str]:
    """The fingerprints of a case, its nodes at these lines: ``name="file:1 in f: text"``."""
    folder.mkdir()
    write(case, folder)
    for path in (*folder.glob("dist.r*.json"), folder / "seq.json"):
        graph = json.loads(path.read_text())
        for node in graph["nodes"]:
            node["source"] = source.get(node["name"], "")
        path.write_text(json.dumps(graph))
    findings = verify(folder, engine="clingo", repairs=False).findings
    return [found.fingerprint for found in findings if found.level == "error"]


def test_a_fingerprint_outlives_other_changes(tmp_path: Path) -> None:
    wrong = CASES["GG108"][0]
    old = _prints(wrong, tmp_path / "a", y="repo/m.py:7 in forward: y = x @ w")
    names = {"y": "mm_31", "out": "add_4"}
    renamed = Case("renamed", wrong.seq, wrong.dist, names=names)
    new = _prints(renamed, tmp_path / "b", mm_31="/home/me/repo/m.py:99 in forward: y = x @ w")
    other = _prints(wrong, tmp_path / "c", y="repo/m.py:7 in forward: y = x @ v")
    four = Case(
        "four ranks",
        wrong.seq,
        wrong.dist.replace("4]", "2]", 1).replace("w: f32[4", "w: f32[2"),
        ranks=4,
    )
    assert old == new == _prints(four, tmp_path / "d", y="repo/m.py:8 in forward: y = x @ w")
    assert old != other


def test_the_same_mistake_twice_is_one(tmp_path: Path) -> None:
    """Two layers of one line have one cause, and the fingerprint of one of them."""
    inputs = "x: f32[4, {n}]\nw: f32[{n}, 6]\nx2: f32[4, {n}]\nw2: f32[{n}, 6]\n"
    program = inputs + "a = mm(x, w)\nb = mm(x2, w2)\nreturn relu(a), relu(b)"
    lines = dict.fromkeys("ab", "m.py:3 in forward: y = x @ w")
    both = _prints(Case("both", program.format(n=8), program.format(n=4)), tmp_path / "a", **lines)
    fixed = program.format(n=4).replace("b = mm(x2, w2)", "b = " + SUM.format("mm(x2, w2)"))
    one = _prints(Case("one", program.format(n=8), fixed), tmp_path / "b", **lines)
    assert len(both) == 1 and one == both


def told(seq: str, dist: str, folder: Path) -> tuple[str, list[tuple[str, str | None, bool]]]:
    """The verdict without numbers, and code, sequential node and certainty of what is found."""
    folder.mkdir(exist_ok=True)
    write(Case("told", seq, dist), folder)
    result = verify(folder, engine="clingo", repairs=False, confirm=0)
    return result.verdict, [(f.code, f.seq, f.certain) for f in result.findings]


MASKED = """
x: f32[4, {n}]
all: b[4, 8] = ones([4, 8])
hide: b[4, {n}] = slice.Tensor(triu(all, 1), 1, {at}, {at} + {n})
y: f32[4] = sum.dim_IntList(masked_fill.Scalar(x, hide, 0), [1])
return relu({of})
"""
BEHIND = """
x: f32[4, {n}]
w: f32[{n}, 5]
c: f32[4, 4]
all: b[4, 4] = ones([4, 4])
m = masked_fill.Scalar(c, triu(all, 1), 0)
s: f32[4] = sum.dim_IntList(m, [1])
y = mm(x, w)
return relu(y), relu(s)
"""


def test_a_part_behind_a_mask_is_no_proof(tmp_path: Path) -> None:
    """What a mask hides may be all that is missing; a mask elsewhere makes no part uncertain."""
    seq, dist = MASKED.format(n=8, at=0, of="y"), MASKED.format(n=4, at="4 * rank", of="y")
    assert told(seq, dist, tmp_path / "a") == ("inconclusive", [("GG108", "y", False)])
    open_sum = dist.replace("masked_fill.Scalar(x, hide, 0)", "x")
    plain = seq.replace("masked_fill.Scalar(x, hide, 0)", "x")
    assert told(plain, open_sum, tmp_path / "b") == ("does-not-refine", [("GG108", "y", True)])
    seq, dist = BEHIND.format(n=8), BEHIND.format(n=4)
    assert told(seq, dist, tmp_path / "c") == ("does-not-refine", [("GG108", "y", True)])


BY_HAND = """
x: f32[4, {n}]
m: f32[4, 1] = {high}
e = exp(sub.Tensor(x, m))
z: f32[4, 1] = sum.dim_IntList(e, [1], True)
{more}
return y
"""
HIGH = "amax(x, [1], True)"


def test_another_shift_of_exponentials_is_no_certain_mistake(tmp_path: Path) -> None:
    """By what all exponentials of a row are shifted they may be divided later on; what else comes
    of a maximum is wrong where it is a part."""
    more = "y = sigmoid(div.Tensor(e, z))"
    seq, dist = (BY_HAND.format(n=n, high=HIGH, more=more) for n in (8, 4))
    assert told(seq, dist, tmp_path / "a") == ("inconclusive", [("GG108", "m", False)])
    seq, dist = (BY_HAND.format(n=n, high=HIGH, more="y = sin(m)") for n in (8, 4))
    assert told(seq, dist, tmp_path / "b") == ("does-not-refine", [("GG108", "m", True)])
    tanh = [
        BY_HAND.format(n=n, high=HIGH, more="y = sum.default(e)").replace("exp(", "tanh(")
        for n in (8, 4)
    ]
    assert told(*tanh, tmp_path / "d") == ("does-not-refine", [("GG108", "m", True)])


GRADIENT = (
    "x: f32[8, 4]\nd: f32[8, 6]\ny = mm(t(x), d)\nreturn y",
    "x: f32[4, 4]\nd: f32[4, 6]\ny = mm(t(x), d)\nreturn y",
)


@pytest.mark.parametrize(
    ("said", "code"),
    [({"kind": "gradient"}, "GG119"), ({"name": "grad_w"}, "GG104"), ({}, "GG104")],
    ids=str,
)
def test_a_gradient_is_what_the_case_calls_one(
    said: dict[str, str], code: str, tmp_path: Path
) -> None:
    """And not what has the name of one."""
    write(Case("a gradient in parts", *GRADIENT), tmp_path)
    path = tmp_path / "outputs.json"
    (output,) = json.loads(path.read_text())
    path.write_text(json.dumps([output | said]))
    result = verify(tmp_path, engine="clingo", repairs=False)
    assert [f.code for f in result.findings if f.level == "error"] == [code], str(result)


def test_another_kind_of_output_is_refused(tmp_path: Path) -> None:
    write(Case("a gradient in parts", *GRADIENT), tmp_path)
    path = tmp_path / "outputs.json"
    (output,) = json.loads(path.read_text())
    path.write_text(json.dumps([output | {"kind": "loss"}]))
    with pytest.raises(InputError, match="unknown `kind` of output `y`"):
        verify(tmp_path, engine="clingo")
