"""relations.toml: what a declaration means, checked by cutting an array; and what is no declaration."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("numpy", reason="arrays are cut with numpy")
pytest.importorskip("torch", reason="the package of capture imports torch")

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from gg_datalog import verify
from gg_datalog.extract import case_files
from gg_datalog.extract.case import load_case
from gg_datalog.extract.relations import input_rows
from gg_datalog.foundation.errors import InputError
from gg_datalog.tracing.override import load_override

Json = dict[str, Any]


def held(
    row: Mapping[str, Any],
    shape: Sequence[int],
    local: Sequence[int],
    rank: int,
    world_size: int,
    mesh: Mapping[str, int] | None = None,
) -> Any:
    """What the pieces of a declaration put into the rank's tensor: positions of the sequential one."""
    override = load_override({"mesh": dict(mesh or {}), "relation": [{"name": "w", **row}]})
    declared = override.declared("w")
    assert declared is not None
    whole = np.arange(prod(shape)).reshape(shape)
    made = np.full(local, -1)
    for seq_box, dist_box in declared.pieces(shape, local, rank, world_size):
        part = whole[tuple(slice(*b) for b in seq_box)]
        part = part.transpose(declared.permute) if declared.permute else part
        into = tuple(slice(*b) for b in dist_box)
        assert (made[into] == -1).all(), "two pieces say something of one element"
        made[into] = part
    assert (made >= 0).all(), "of some element nothing is said"
    return made


def expected(
    shape: Sequence[int],
    cuts: Sequence[tuple[int, int, int]],
    parts: Sequence[int] = (),
    groups: int = 1,
    grouped: str = "distributed",
    transposed: bool = False,
) -> Any:
    """The same by cutting an array: ``cuts`` are (dimension, number of shards, which), in order."""
    whole = np.arange(prod(shape)).reshape(shape)
    fused = cuts[0][0] if cuts else 0
    if parts and grouped == "sequential":
        by_group = [
            np.split(one, np.cumsum([p // groups for p in parts])[:-1], axis=fused)
            for one in np.split(whole, groups, axis=fused)
        ]
        blocks = [np.concatenate(column, axis=fused) for column in zip(*by_group, strict=True)]
    elif parts:
        blocks = np.split(whole, np.cumsum(parts)[:-1], axis=fused)
    else:
        blocks = [whole]
    for dim, number, place in cuts:
        blocks = [np.split(block, number, axis=dim)[place] for block in blocks]
    if parts and groups > 1 and grouped == "distributed":
        halves = [np.split(block, groups, axis=fused) for block in blocks]
        blocks = [one for column in zip(*halves, strict=True) for one in column]
    made = np.concatenate(blocks, axis=fused) if len(shape) else blocks[0]
    return made.T if transposed else made


def agree(
    row: Mapping[str, Any],
    shape: Sequence[int],
    cuts: Mapping[int, Sequence[tuple[int, int, int]]],
    mesh: Mapping[str, int] | None = None,
    **told: Any,
) -> None:
    """On every rank, the declaration is what cutting gives."""
    for rank, mine in cuts.items():
        made = expected(shape, mine, **told)
        found = held(row, shape, made.shape, rank, len(cuts), mesh)
        assert np.array_equal(found, made), (row, rank)


# ---- placements
def test_a_replica() -> None:
    for text in ("replicate", "Replicate", "replicate()", "replicate(tensor)", "REPLICATE"):
        agree({"placement": text}, (3, 4), {0: [], 1: []})
    agree({"placement": "replicate"}, (), {0: [], 1: []})


@pytest.mark.parametrize("dim", [0, 1, -1, -2])
def test_a_shard_over_all_ranks(dim: int) -> None:
    at = dim % 2
    agree({"placement": f"shard({dim})"}, (6, 9), {r: [(at, 3, r)] for r in range(3)})


def test_an_axis_of_a_mesh_whose_first_one_is_the_outermost() -> None:
    mesh = {"data": 2, "tensor": 3}
    outer = {r: [(0, 2, r // 3)] for r in range(6)}
    inner = {r: [(0, 3, r % 3)] for r in range(6)}
    agree({"placement": "shard(0, data)"}, (6, 2), outer, mesh)
    agree({"placement": "shard( 0 ,tensor )"}, (6, 2), inner, mesh)
    agree({"placement": ["replicate(data)", "Shard(0, tensor)"]}, (6, 2), inner, mesh)


def test_two_axes_on_one_dimension_cut_in_the_order_that_is_written() -> None:
    mesh = {"a": 2, "b": 3}
    first = {r: [(0, 2, r // 3), (0, 3, r % 3)] for r in range(6)}
    other = {r: [(0, 3, r % 3), (0, 2, r // 3)] for r in range(6)}
    agree({"placement": ["shard(0, a)", "shard(0, b)"]}, (12,), first, mesh)
    agree({"placement": ["shard(0, b)", "shard(0, a)"]}, (12,), other, mesh)


def test_fused_parts_are_cut_each() -> None:
    cuts = {r: [(0, 2, r)] for r in range(2)}
    row = {"placement": "shard(0)", "parts": [8, 4, 4]}
    agree(row, (16, 3), cuts, parts=[8, 4, 4])
    agree(row | {"groups": 2}, (16, 3), cuts, parts=[8, 4, 4], groups=2)
    agree(
        row | {"groups": 2, "grouped": "sequential"}, (16, 3), cuts,
        parts=[8, 4, 4], groups=2, grouped="sequential",
    )  # fmt: skip


def test_what_is_fused_and_not_cut() -> None:
    agree(
        {"placement": "replicate", "parts": [4, 2], "groups": 2}, (6, 2), {0: [], 1: []},
        parts=[4, 2], groups=2,
    )  # fmt: skip


def test_a_transpose() -> None:
    row = {"placement": "shard(0)", "transposed": True}
    agree(row, (6, 4), {r: [(0, 2, r)] for r in range(2)}, transposed=True)
    agree({"placement": "replicate", "transposed": True}, (6, 4), {0: [], 1: []}, transposed=True)


def test_a_transpose_of_fused_parts() -> None:
    agree(
        {"placement": "shard(-1)", "transposed": True, "parts": [4, 8]}, (3, 12),
        {r: [(1, 2, r)] for r in range(2)}, parts=[4, 8], transposed=True,
    )  # fmt: skip


PIECES = [
    {"rank": 0, "sequential": [[0, 2], [0, 3]], "distributed": [[1, 3], [0, 3]]},
    {"rank": [0, 1], "sequential": [[5, 6], [0, 3]], "distributed": [[0, 1], [0, 3]]},
    {"rank": 1, "sequential": [[2, 4], [0, 3]], "distributed": [[1, 3], [0, 3]]},
    {"sequential": [[4, 5], [0, 3]], "distributed": [[3, 4], [0, 3]]},
]


def test_pieces() -> None:
    whole = np.arange(18).reshape(6, 3)
    for rank, rows in enumerate(([5, 0, 1, 4], [5, 2, 3, 4])):
        found = held({"pieces": PIECES}, (6, 3), (4, 3), rank, 2)
        assert np.array_equal(found, whole[rows])


def test_transposed_pieces() -> None:
    row = {"sequential": [[2, 4], [0, 3]], "distributed": [[0, 3], [0, 2]]}
    found = held({"pieces": [row], "transposed": True}, (6, 3), (3, 2), 0, 1)
    assert np.array_equal(found, np.arange(18).reshape(6, 3)[2:4].T)


@st.composite
def declarations(draw: st.DrawFn) -> tuple[Any, ...]:
    """A declaration for a mesh of any form, and the same as cuts per rank."""
    sizes = draw(st.lists(st.integers(1, 3), min_size=1, max_size=3))
    names = [f"axis{i}" for i in range(len(sizes))]
    dims = draw(st.integers(1, 3))
    where = {name: draw(st.none() | st.integers(0, dims - 1)) for name in names}
    order = [n for n in draw(st.permutations(names)) if where[n] is not None]
    factor = [prod(sizes[names.index(n)] for n in order if where[n] == d) for d in range(dims)]
    fused = where[order[0]] if order else 0
    groups = draw(st.integers(1, 3))
    grouped = draw(st.sampled_from(["distributed", "sequential"]))
    parts = [
        factor[fused] * groups * n
        for n in draw(st.lists(st.integers(1, 3), max_size=3).filter(lambda x: len(x) != 1))
    ]
    shape = [factor[d] * draw(st.integers(1, 2)) for d in range(dims)]
    if parts:
        shape[fused] = sum(parts)
    transposed = dims == 2 and draw(st.booleans())
    row: Json = {"placement": [f"shard({where[n]}, {n})" for n in order] or "replicate"}
    told: Json = {"transposed": transposed}
    if parts:
        told |= {"parts": parts, "groups": groups, "grouped": grouped}
    cuts = {
        rank: [
            (where[n], sizes[names.index(n)], coordinate[names.index(n)]) for n in order
        ]
        for rank, coordinate in enumerate(product(*map(range, sizes)))
    }  # fmt: skip
    return row | told, shape, cuts, dict(zip(names, sizes, strict=True)), told


@settings(max_examples=150, deadline=None)
@given(declarations())
def test_any_declaration(made: tuple[Any, ...]) -> None:
    row, shape, cuts, mesh, told = made
    agree(row, shape, cuts, mesh, **told)


# ---- names
def test_the_last_declaration_that_fits_counts() -> None:
    rows = [
        {"name": "layers.*.weight", "placement": "shard(0)"},
        {"name": "layers.1.*", "placement": "shard(1)"},
    ]
    override = load_override({"relation": rows})
    found = [override.declared(f"layers.{i}.weight") for i in (0, 1)]
    assert [one and list(one.shards) for one in found] == [[(0, None)], [(1, None)]]
    assert override.declared("norm.weight") is None
    override.check_used()


def test_the_name_of_the_sequential_input() -> None:
    rows = [{"name": "a"}, {"name": "b", "sequential": "c"}]
    override = load_override({"relation": [row | {"placement": "replicate"} for row in rows]})
    names = [(one := override.declared(n)) and one.sequential(n) for n in "ab"]
    assert names == ["a", "c"]


def test_a_declaration_that_fits_nothing() -> None:
    rows = [{"name": "w*", "placement": "replicate"}, {"name": "v", "placement": "replicate"}]
    override = load_override({"relation": rows})
    override.declared("weight")
    with pytest.raises(InputError, match="no input is called `v`") as found:
        override.check_used()
    assert found.value.where == "relations: relation 1 (`v`)" and found.value.hint
    rows[1]["optional"] = True  # type: ignore[assignment]
    override = load_override({"relation": rows})
    override.declared("weight")
    override.check_used()
    override = load_override({"gradients_in_part": ["a.*", "b"]})
    assert [override.in_part(name) for name in ("a.weight", "c")] == [True, False]
    with pytest.raises(InputError, match="no input is called `b`"):
        override.check_used()


def test_a_file(tmp_path: Path) -> None:
    path = tmp_path / "relations.toml"
    path.write_text('[mesh]\na = 2\n[[relation]]\nname = "w"\nplacement = "shard(0, a)"\n')
    for given_as in (path, str(path)):
        declared = load_override(given_as).declared("w")
        assert declared is not None and declared.where == f"{path}: relation 0 (`w`)"
        assert declared.pieces([4], [2], 1, 2) == [([[2, 4]], [[0, 2]])]


def test_nothing_is_declared() -> None:
    override = load_override(None)
    assert override.declared("w") is None
    override.check_used()


# ---- what is no declaration
REPLICA = {"name": "w", "placement": "replicate"}
BOX = {"sequential": [[0, 1]], "distributed": [[0, 1]]}
MALFORMED: dict[str, tuple[Any, str]] = {
    "an unknown table": ({"relations": []}, "unknown key `relations`"),
    "no mesh": ({"mesh": 3}, r"\[mesh\] gives a size per axis"),
    "an axis without ranks": ({"mesh": {"a": 0}}, r"\[mesh\] gives a size per axis"),
    "an axis of a text": ({"mesh": {"a": "2"}}, r"\[mesh\] gives a size per axis"),
    "one table": ({"relation": REPLICA}, "relations are tables"),
    "texts": ({"relation": ["w"]}, "relations are tables"),
    "an unknown key": ({"relation": [REPLICA | {"shard": 0}]}, "unknown key `shard`"),
    "no name": ({"relation": [{"placement": "replicate"}]}, "needs the `name`"),
    "a number as name": ({"relation": [REPLICA | {"name": 3}]}, "needs the `name`"),
    "nothing said": ({"relation": [{"name": "w"}]}, "either `placement` or `pieces`"),
    "both": ({"relation": [REPLICA | {"pieces": [BOX]}]}, "either `placement` or `pieces`"),
    "a dimension that is no number": (
        {"relation": [REPLICA | {"placement": "shard(a)"}]}, "placement 'shard\\(a\\)' is not known",
    ),
    "a placement of another kind": (
        {"relation": [REPLICA | {"placement": ["partial"]}]}, "placement 'partial' is not known",
    ),
    "a number as placement": ({"relation": [REPLICA | {"placement": 0}]}, "`placement` is"),
    "no placements": ({"relation": [REPLICA | {"placement": []}]}, "`placement` is"),
    "numbers as placements": ({"relation": [REPLICA | {"placement": [0]}]}, "0 is not known"),
    "one axis twice": (
        {"mesh": {"a": 2}, "relation": [REPLICA | {"placement": ["shard(0, a)", "shard(1, a)"]}]},
        "over the same ranks twice",
    ),
    "all ranks and an axis": (
        {"mesh": {"a": 2}, "relation": [REPLICA | {"placement": ["shard(0)", "shard(1, a)"]}]},
        "over the same ranks twice",
    ),
    "parts that are texts": ({"relation": [REPLICA | {"parts": ["a"]}]}, "`parts` is not made of"),
    "a part of nothing": ({"relation": [REPLICA | {"parts": [4, 0]}]}, "`parts` is not made of"),
    "no groups": ({"relation": [REPLICA | {"parts": [4], "groups": 0}]}, "`groups` is not made of"),
    "groups of nothing": ({"relation": [REPLICA | {"groups": 2}]}, "`groups` says nothing without"),
    "grouped how": (
        {"relation": [REPLICA | {"parts": [4], "grouped": "both"}]}, "`grouped` is distributed or",
    ),
    "a number as counterpart": ({"relation": [REPLICA | {"sequential": 1}]}, "`sequential` is the"),
    "transposed maybe": ({"relation": [REPLICA | {"transposed": 1}]}, "`transposed` is neither"),
    "overrules maybe": ({"relation": [REPLICA | {"overrules": "yes"}]}, "`overrules` is neither"),
    "gradients of one": ({"gradients_in_part": "a.*"}, "gradients_in_part is a list of names"),
    "optional maybe": ({"relation": [REPLICA | {"optional": "no"}]}, "`optional` is neither"),
    "one piece": ({"relation": [{"name": "w", "pieces": BOX}]}, "`pieces` is a list of tables"),
    "no pieces": ({"relation": [{"name": "w", "pieces": []}]}, "`pieces` is empty"),
    "pieces and parts": (
        {"relation": [{"name": "w", "pieces": [BOX], "parts": [4]}]}, "`parts` says nothing without",
    ),
    "a piece of one side": (
        {"relation": [{"name": "w", "pieces": [{"sequential": [[0, 1]]}]}]}, "the piece .* is not",
    ),
    "a flat box": (
        {"relation": [{"name": "w", "pieces": [BOX | {"sequential": [0, 1]}]}]}, "the piece .* is",
    ),
    "a box of fractions": (
        {"relation": [{"name": "w", "pieces": [BOX | {"sequential": [[0, 1.5]]}]}]}, "the piece .*",
    ),
    "a rank that is a text": (
        {"relation": [{"name": "w", "pieces": [BOX | {"rank": "0"}]}]}, "the piece .* is not",
    ),
    "an unknown key of a piece": (
        {"relation": [{"name": "w", "pieces": [BOX | {"ranks": [0]}]}]}, "the piece .* is not",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed(name: str) -> None:
    document, text = MALFORMED[name]
    with pytest.raises(InputError, match=text) as found:
        load_override(document)
    assert found.value.where and found.value.where.startswith("relations") and found.value.hint


MESH = {"a": 2, "b": 2}
UNFIT: dict[str, tuple[Json, tuple[int, ...], tuple[int, ...], Json, str]] = {
    "no such axis": ({"placement": "shard(0, c)"}, (4, 4), (2, 4), MESH, "axis `c` is not in"),
    "no mesh at all": ({"placement": "shard(0, c)"}, (4, 4), (2, 4), {}, "axis `c` is not in"),
    "a mesh of more ranks": (
        {"placement": "shard(0, a)"}, (4, 4), (2, 4), {"a": 2, "b": 3}, "has 6 ranks, there are 4",
    ),
    "no such dimension": ({"placement": "shard(2)"}, (4, 4), (1, 4), {}, "dimension 2 is not one"),
    "a dimension before": ({"placement": "shard(-3)"}, (4, 4), (1, 4), {}, "dimension -3 is not"),
    "a scalar that is cut": ({"placement": "shard(0)"}, (), (), {}, "dimension 0 is not one"),
    "a size that is not divided": (
        {"placement": "shard(0)"}, (6, 4), (1, 4), {}, "6 positions cannot be cut into 4",
    ),
    "another local size": (
        {"placement": "shard(0)"}, (8, 4), (4, 4), {}, r"a part of \[2, 4\] on rank 0, .* \[4, 4\]",
    ),
    "parts that do not add up": (
        {"placement": "shard(0)", "parts": [4, 8]}, (16, 4), (4, 4), {}, "add up to 12, .* has 16",
    ),
    "groups that do not fit": (
        {"placement": "shard(0)", "parts": [8, 8], "groups": 3}, (16, 4), (4, 4), {}, "not 3 groups",
    ),
    "sequential groups that do not fit": (
        {"placement": "shard(0)", "parts": [8, 8], "groups": 3, "grouped": "sequential"},
        (16, 4), (4, 4), {}, "not 3 groups",
    ),
    "no matrix": (
        {"placement": "replicate", "transposed": True}, (4,), (4,), {}, "only matrices can be",
    ),
    "a box outside": (
        {"pieces": [{"sequential": [[2, 5], [0, 4]], "distributed": [[0, 3], [0, 4]]}]},
        (4, 4), (4, 4), {}, r"the box .* is no part of a tensor \[4, 4\]",
    ),
    "a box of fewer dimensions": (
        {"pieces": [{"sequential": [[0, 2]], "distributed": [[0, 2]]}]},
        (4, 4), (4, 4), {}, "is no part of a tensor",
    ),
    "an empty box": (
        {"pieces": [{"sequential": [[2, 2], [0, 4]], "distributed": [[0, 0], [0, 4]]}]},
        (4, 4), (4, 4), {}, "is no part of a tensor",
    ),
    "boxes of two sizes": (
        {"pieces": [{"sequential": [[0, 2], [0, 4]], "distributed": [[0, 1], [0, 4]]}]},
        (4, 4), (4, 4), {}, "differ in size",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", UNFIT)
def test_a_declaration_that_does_not_fit_the_tensor(name: str) -> None:
    row, shape, local, mesh, text = UNFIT[name]
    with pytest.raises(InputError, match=text) as found:
        held(row, shape, local, 0, 4, mesh)
    assert found.value.where == "relations: relation 0 (`w`)" and found.value.hint


def test_no_toml(tmp_path: Path) -> None:
    path = tmp_path / "relations.toml"
    path.write_text("[[relation]\n")
    with pytest.raises(InputError, match=r"not TOML: .*line 1") as found:
        load_override(path)
    assert found.value.where == str(path) and found.value.hint
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="not TOML"):
        load_override(path)
    for other in (tmp_path, tmp_path / "missing.toml"):
        with pytest.raises(InputError, match=r"cannot be read|no regular file") as found:
            load_override(other)
        assert found.value.where == str(other) and found.value.hint
    with pytest.raises(InputError, match="relations are list"):
        load_override([])  # type: ignore[arg-type]


# ---- rows of relations.json whose dimensions come in another order
def node(name: str, target: str, args: Sequence[Any], shape: Sequence[int]) -> Json:
    """An operator."""
    told = [{"node": a} if isinstance(a, str) else a for a in args]
    return {"name": name, "op": "call_function", "target": f"aten.{target}", "args": told,
            "shape": shape, "dtype": "float32"}  # fmt: skip


def given_as(name: str, shape: Sequence[int]) -> Json:
    """An input."""
    return {"name": name, "op": "placeholder", "target": name, "shape": shape, "dtype": "float32"}


def returned(name: str) -> Json:
    """The end."""
    return {"name": "output", "op": "output", "args": [[{"node": name}]]}


def write(folder: Path, seq: Sequence[Json], dist: Sequence[Json], rows: Sequence[Json]) -> Path:
    """A case of two ranks with one graph."""
    documents = {"seq": {"nodes": seq}, "relations": rows, "outputs": [{"seq": "y", "dist": "y"}]}
    documents |= {f"dist.r{rank}": {"nodes": dist} for rank in range(2)}
    for name, document in documents.items():
        (folder / f"{name}.json").write_text(json.dumps(document))
    return folder


def linear(folder: Path, shapes: tuple[Any, Any] = ([6, 4], [4, 3]), **row: Any) -> Path:
    """x @ w, of which rank r has columns of w, transposed; the result is cut, too."""
    (n, m), (back, width) = shapes
    seq = [given_as("x", [2, m]), given_as("w", [n, m]), node("t", "t.default", ["w"], [m, n]),
           node("y", "mm.default", ["x", "t"], [2, n]), returned("y")]  # fmt: skip
    dist = [given_as("x", [2, m]), given_as("w", [back, width]),
            node("y", "mm.default", ["x", "w"], [2, width]), returned("y")]  # fmt: skip
    rows: list[Json] = [{"seq": "x", "rank": rank, "dist": "x"} for rank in range(2)]
    for rank in range(2):
        box = [[rank * width, (rank + 1) * width], [0, m]]
        rows.append({"seq": "w", "rank": rank, "dist": "w", "seq_box": box} | row)
    return write(folder, seq, dist, rows)


def test_a_transposed_weight_refines(tmp_path: Path) -> None:
    result = verify(linear(tmp_path, permute=[1, 0]))
    assert result.refines, str(result)
    (output,) = result.outputs
    assert output.relation == "concat(dim=1, [r0.y, r1.y])"


def test_without_the_order_the_sizes_differ(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="differ in size"):
        verify(linear(tmp_path))


def test_a_square_weight_that_is_not_transposed(tmp_path: Path) -> None:
    square = ([6, 3], [3, 3])
    assert verify(linear(tmp_path, square, permute=[1, 0])).refines
    for row in ({}, {"permute": [0, 1]}):
        wrong = linear(tmp_path, square, **row)
        assert verify(wrong, confirm=60).verdict == "does-not-refine"


def test_a_transposed_vector(tmp_path: Path) -> None:
    """Dimensions of one position, which base tensors do not have."""
    shapes = ([2, 4], [4, 1])
    assert verify(linear(tmp_path, shapes, permute=[1, 0])).refines
    assert verify(linear(tmp_path, ([2, 1], [1, 1]), permute=[1, 0])).refines


def test_three_dimensions_in_another_order(tmp_path: Path) -> None:
    seq = [given_as("x", [4, 3, 5]), node("y", "permute.default", ["x", [2, 0, 1]], [5, 4, 3]),
           returned("y")]  # fmt: skip
    dist = [given_as("x", [5, 2, 3]), node("y", "clone.default", ["x"], [5, 2, 3]), returned("y")]
    rows = [
        {"seq": "x", "rank": r, "dist": "x", "seq_box": [[2 * r, 2 * r + 2], [0, 3], [0, 5]],
         "permute": [2, 0, 1]}
        for r in range(2)
    ]  # fmt: skip
    assert verify(write(tmp_path, seq, dist, rows)).refines
    for row in rows:
        row["permute"] = [1, 2, 0]
    with pytest.raises(InputError, match="differ in size"):
        verify(write(tmp_path, seq, dist, rows))


@pytest.mark.parametrize("order", [[0], [0, 0], [1, 2], [0, 1, 2], "10", [0, True], 1, [-1, 0]])
def test_no_order(order: Any, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is no order of 2 dimensions") as found:
        verify(linear(tmp_path, permute=order))
    assert found.value.where and found.value.where.endswith("relations.json: row 2")
    assert found.value.hint


def contradict(folder: Path, *rows: Json) -> bool:
    """Do rows on a square tensor contradict each other?"""
    nodes = [given_as("x", [4, 4]), node("y", "neg.default", ["x"], [4, 4]), returned("y")]
    write(folder, nodes, nodes, [{"seq": "x", "rank": 0, "dist": "x", **row} for row in rows])
    try:
        input_rows(load_case(case_files(folder)))
    except InputError as error:
        assert "is said to hold both" in error.what
        return True
    return False


def test_rows_that_overlap(tmp_path: Path) -> None:
    turned = {"permute": [1, 0]}
    row, column = [[0, 1], [0, 4]], [[0, 4], [0, 1]]
    assert not contradict(tmp_path, {}, {})
    assert contradict(tmp_path, {}, turned)
    assert not contradict(tmp_path, turned, {"seq_box": row, "dist_box": column} | turned)
    assert contradict(tmp_path, turned, {"seq_box": row, "dist_box": row})
    corner = {"seq_box": [[1, 2], [1, 2]], "dist_box": [[1, 2], [1, 2]]}
    assert not contradict(tmp_path, turned, corner)
    beside = {"seq_box": [[1, 2], [2, 3]], "dist_box": [[1, 2], [2, 3]]}
    assert contradict(tmp_path, turned, beside)
    assert not contradict(tmp_path, turned, {**beside, "dist_box": [[2, 3], [1, 2]]})
    diagonal = {"seq_box": [[0, 2], [0, 2]], "dist_box": [[0, 2], [0, 2]]}
    far = {"seq_box": [[2, 4], [2, 4]], "dist_box": [[2, 4], [2, 4]]} | turned
    assert not contradict(tmp_path, diagonal, far)


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_rows_contradict_each_other_as_their_elements_do(data: st.DataObject) -> None:
    """Against the same question asked element by element."""
    from gg_datalog.extract.relations import Row, _agree, _meet

    rows = []
    for _ in range(2):
        order = tuple(data.draw(st.permutations(range(3))))
        size = [data.draw(st.integers(1, 2)) for _ in range(3)]
        ours = [data.draw(st.integers(0, 2)) for _ in range(3)]
        theirs = [data.draw(st.integers(0, 2)) for _ in range(3)]
        seq_box = tuple((lo, lo + n) for lo, n in zip(ours, size, strict=True))
        dist_box = tuple((lo, lo + size[of]) for lo, of in zip(theirs, order, strict=True))
        rows.append(Row("x", 0, "x", seq_box, dist_box, order))

    def elements(row: Row) -> dict[tuple[int, ...], tuple[int, ...]]:
        found = {}
        for at in product(*(range(*b) for b in row.dist_box)):
            seq = [0] * 3
            for i, of in enumerate(row.permute):
                seq[of] = row.seq_box[of][0] + at[i] - row.dist_box[i][0]
            found[at] = tuple(seq)
        return found

    first, second = map(elements, rows)
    shared = first.keys() & second.keys()
    assert _meet(rows[0].dist_box, rows[1].dist_box) == bool(shared)
    if shared:
        assert _agree(*rows) == all(first[at] == second[at] for at in shared)
