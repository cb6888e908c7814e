"""Input relations: what frameworks say, what the user declares, what is guessed, and conflicts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

pytest.importorskip("torch", reason="capture traces programs with torch")

from gg_datalog.foundation.errors import InputError
from gg_datalog.tracing.override import Override, load_override
from gg_datalog.tracing.pairing import SHOWN, Related, relate
from gg_datalog.tracing.record import InputRecord, RankRecord


def one(
    name: str,
    local: Sequence[int | str],
    shape: Sequence[int] | None = None,
    pieces: Any = None,
    kind: str = "parameter",
    because: str = "DTensor placements",
) -> InputRecord:
    """An input; its node is called as it is, with another letter in front."""
    return InputRecord(
        node=f"n_{name.replace('.', '_')}",
        name=name,
        kind=kind,
        dtype="float32",
        local=tuple(local),
        shape=tuple(local if shape is None else shape),
        pieces=pieces,
        because=because if pieces is not None else "",
    )


def record(rank: int, *inputs: InputRecord) -> RankRecord:
    """A capture of which only the inputs matter."""
    return RankRecord(rank, {}, {}, inputs, [])


def related(
    ours: Sequence[InputRecord],
    theirs: Sequence[Sequence[InputRecord]],
    declared: Sequence[dict[str, Any]] = (),
    world_size: int | None = None,
    mesh: Any = None,
) -> Related:
    """The relations of a pair, per rank a list of inputs."""
    override = load_override({"mesh": mesh or {}, "relation": list(declared)})
    ranks = [record(rank, *inputs) for rank, inputs in enumerate(theirs)]
    return relate(record(-1, *ours), ranks, override, world_size or len(ranks))


def boxes(found: Related) -> list[tuple[int, Any]]:
    """(rank, sequential box) of every row."""
    return [(row["rank"], row.get("seq_box")) for row in found.rows]


def pieces(at: int, size: int = 2) -> Any:
    """A shard of two dimensions, cut along the first."""
    return [([[at, at + size], [0, 3]], [[0, size], [0, 3]])]


# ---- placements
def test_what_a_framework_says_becomes_rows() -> None:
    found = related(
        [one("w", [4, 3])], [[one("w", [2, 3], [4, 3], pieces(2 * r))] for r in range(2)]
    )
    assert found.rows == [
        {"seq": "n_w", "rank": r, "dist": "n_w", "seq_box": [[2 * r, 2 * r + 2], [0, 3]],
         "dist_box": [[0, 2], [0, 3]]}
        for r in range(2)
    ]  # fmt: skip
    assert found.assumptions() == [] and found.warnings == []


def test_an_empty_shard_has_no_row() -> None:
    found = related([one("w", [2, 3])], [[one("w", [2, 3], [2, 3], pieces(0))],
                                         [one("w", [0, 3], [2, 3], [])]])  # fmt: skip
    assert boxes(found) == [(0, [[0, 2], [0, 3]])]


def test_another_global_shape() -> None:
    with pytest.raises(InputError) as found:
        related([one("w", [5, 3])], [[one("w", [2, 3], [4, 3], pieces(0))]])
    text = str(found.value)
    assert "`w` is [5, 3] in the sequential program" in text
    assert "globally [4, 3] according to DTensor placements of rank 0" in text
    assert "relations.toml" in (found.value.hint or "")


# ---- declarations
def test_a_declaration_says_what_no_framework_does() -> None:
    rows = [{"name": "w", "placement": "shard(0)"}]
    found = related([one("w", [4, 3])], [[one("w", [2, 3])]] * 2, rows)
    assert boxes(found) == [(0, [[0, 2], [0, 3]]), (1, [[2, 4], [0, 3]])]
    assert found.assumptions() == []


def test_a_declaration_under_another_name_and_transposed() -> None:
    rows = [{"name": "head", "sequential": "table", "placement": "shard(0)", "transposed": True}]
    found = related([one("table", [4, 3])], [[one("head", [3, 2])]] * 2, rows)
    assert found.rows[1] == {
        "seq": "n_table", "rank": 1, "dist": "n_head", "seq_box": [[2, 4], [0, 3]],
        "dist_box": [[0, 3], [0, 2]], "permute": [1, 0],
    }  # fmt: skip
    assert found.warnings == []


def test_a_declaration_that_agrees_with_the_framework() -> None:
    theirs = [[one("w", [2, 3], [4, 3], pieces(2 * r))] for r in range(2)]
    for row in (
        {"placement": "shard(0)"},
        {"pieces": [  # the same in other pieces
            {"rank": r, "sequential": [[2 * r + i, 2 * r + i + 1], [0, 3]],
             "distributed": [[i, i + 1], [0, 3]]} for r in range(2) for i in range(2)
        ]},
    ):  # fmt: skip
        assert len(related([one("w", [4, 3])], theirs, [{"name": "w", **row}]).rows) in (2, 4)


def test_a_transpose_that_agrees_with_the_framework() -> None:
    """A framework speaks of its own tensor; that it is the transpose is no contradiction."""
    theirs = [[one("w", [2, 3], [4, 3], pieces(2 * r))] for r in range(2)]
    row = {"name": "w", "placement": "shard(1)", "transposed": True}
    found = related([one("w", [3, 4])], theirs, [row])
    assert boxes(found) == [(0, [[0, 3], [0, 2]]), (1, [[0, 3], [2, 4]])]
    square = [[one("w", [2, 4], [4, 4], [([[2 * r, 2 * r + 2], [0, 4]], [[0, 2], [0, 4]])])]
              for r in range(2)]  # fmt: skip
    assert len(related([one("w", [4, 4])], square, [row]).rows) == 2


CONTRADICTION = [{"name": "w", "placement": "shard(0)"}]
OTHER_ORDER = [[one("w", [2, 3], [4, 3], pieces(2 - 2 * r))] for r in range(2)]


def test_a_declaration_that_contradicts_the_framework() -> None:
    with pytest.raises(InputError) as found:
        related([one("w", [4, 3])], OTHER_ORDER, CONTRADICTION)
    text = str(found.value)
    assert "`w` of rank 0" in text
    assert "relations: relation 0 (`w`) says [0:2, 0:3]" in text
    assert "DTensor placements say [2:4, 0:3]" in text
    assert "overrules = true" in (found.value.hint or "")


def test_a_declaration_that_overrules_the_framework() -> None:
    found = related([one("w", [4, 3])], OTHER_ORDER, [CONTRADICTION[0] | {"overrules": True}])
    assert boxes(found) == [(0, [[0, 2], [0, 3]]), (1, [[2, 4], [0, 3]])]


def test_half_of_what_the_framework_says() -> None:
    half = [{"sequential": [[0, 1], [0, 3]], "distributed": [[0, 1], [0, 3]]}]
    theirs = [[one("w", [2, 3], [2, 3], pieces(0))]]
    with pytest.raises(InputError, match="DTensor placements say"):
        related([one("w", [2, 3])], theirs, [{"name": "w", "pieces": half}])


def test_a_declaration_of_a_counterpart_that_is_not_there() -> None:
    row = {"name": "w", "sequential": "v", "placement": "replicate"}
    with pytest.raises(InputError) as found:
        related([one("w", [2])], [[one("w", [2])]], [row])
    assert "relation 0 (`w`) pairs `w` of rank 0 with `v`" in str(found.value)
    optional = related([one("w", [2])], [[one("w", [2])]], [row | {"optional": True}])
    assert optional.rows == [] and len(optional.warnings) == 2


def test_a_declaration_of_nothing() -> None:
    with pytest.raises(InputError, match="no input is called `v`"):
        related([one("w", [2])], [[one("w", [2])]], [{"name": "v", "placement": "replicate"}])


def test_a_mesh() -> None:
    rows = [{"name": "x", "placement": "shard(0, data)"}, {"name": "w", "placement": "shard(0, t)"}]
    ours = [one("x", [4], kind="input"), one("w", [4])]
    theirs = [[one("x", [2], kind="input"), one("w", [2])]] * 4
    found = related(ours, theirs, rows, mesh={"data": 2, "t": 2})
    held = {name: [r["seq_box"][0][0] for r in found.rows if r["dist"] == name]
            for name in ("n_x", "n_w")}  # fmt: skip
    assert held == {"n_x": [0, 0, 2, 2], "n_w": [0, 2, 0, 2]}


# ---- guesses
def test_equal_shapes_are_replicas() -> None:
    found = related([one("w", [4, 3]), one("s", [])], [[one("w", [4, 3]), one("s", [])]] * 2)
    assert boxes(found) == [(0, None), (0, None), (1, None), (1, None)]
    assert found.assumptions() == [
        ("guessed relation", "taken, by name or place and by shape, as replicas of the sequential input: "
         "`w`, `s`")
    ]  # fmt: skip


@pytest.mark.parametrize("dim", [0, 1])
def test_one_smaller_dimension_is_a_shard(dim: int) -> None:
    local = [4, 6]
    local[dim] //= 2
    found = related([one("w", [4, 6])], [[one("w", local)]] * 2)
    assert [box[dim] for _, box in boxes(found)] == [[0, local[dim]], [local[dim], 2 * local[dim]]]
    ((_, text),) = found.assumptions()
    assert text.endswith(f"as one of 2 shards of dimension {dim}, in the order of the ranks: `w`")


def test_fewer_shards_than_ranks() -> None:
    """Weights over neighbouring ranks, inputs over blocks of them: the custom of tensor and data
    parallelism."""
    ours = [one("w", [4]), one("b", [4], kind="buffer"), one("x", [4], kind="input")]
    theirs = [[one("w", [2]), one("b", [2], kind="buffer"), one("x", [2], kind="input")]] * 4
    found = related(ours, theirs)
    held = {name: [r["seq_box"][0][0] for r in found.rows if r["dist"] == name]
            for name in ("n_w", "n_b", "n_x")}  # fmt: skip
    assert held == {"n_w": [0, 2, 0, 2], "n_b": [0, 2, 0, 2], "n_x": [0, 0, 2, 2]}
    texts = [text for _, text in found.assumptions()]
    assert len(texts) == 2
    assert "over neighbouring ranks: `w`, `b`" in texts[0]
    assert "blocks of neighbouring ranks holding the same: `x`" in texts[1]


@pytest.mark.parametrize(
    ("groups", "places"),
    [
        ([[0, 1, 2, 3]], [0, 0, 1, 1]),  # key/value heads that are fewer than the ranks
        ([[0, 1], [2, 3]], [0, 1, 0, 1]),
        ([[0, 2], [1, 3]], [0, 0, 1, 1]),
        ([[1, 0], [3, 2]], [1, 0, 1, 0]),
        ([[0, 1], [2, 3], [0, 2], [1, 3]], [0, 1, 0, 1]),  # a mesh: the custom
        ([[0, 1, 2, 3], [0, 2], [1, 3]], [0, 0, 1, 1]),
        ([[0], [1], [2], [3], [0, 1, 2, 3]], [0, 1, 0, 1]),
    ],
)
def test_groups_say_which_ranks_hold_the_same(groups: list[list[int]], places: list[int]) -> None:
    """The order of the only group of as many ranks, or neighbours where there is no such group."""
    records = [
        RankRecord(
            r, {}, {str(i): (g, 0) for i, g in enumerate(groups) if r in g}, [one("w", [2])], []
        )
        for r in range(4)
    ]
    found = relate(record(-1, one("w", [4])), records, load_override({}), 4)
    assert [box[0][0] // 2 for _, box in boxes(found)] == places


def test_some_ranks_of_many() -> None:
    """Only ranks 0 and 1 of 4 were captured: the shards are still those of four ranks."""
    found = related([one("w", [8])], [[one("w", [2])]] * 2, world_size=4)
    assert boxes(found) == [(0, [[0, 2]]), (1, [[2, 4]])]


@pytest.mark.parametrize(
    ("kind", "widths", "starts"),
    [
        ("parameter", [4, 4, 3], [0, 4, 8]),
        ("parameter", [6, 3, 2, 1], [0, 6, 9, 11]),  # that of rank 1 is a fourth of twelve
        ("parameter", [4, 3, 4, 3], [0, 4, 0, 4]),
        ("input", [4, 4, 3, 3], [0, 0, 4, 4]),
        ("parameter", [5, 2, 0], [0, 5, 7]),
    ],
)
def test_uneven_shards(kind: str, widths: list[int], starts: list[int]) -> None:
    total = max(a + n for a, n in zip(starts, widths, strict=True))
    theirs = [[one("w", [2, n], kind=kind)] for n in widths]
    found = related([one("w", [2, total], kind=kind)], theirs)
    wanted = [[[0, 2], [a, a + n]] for a, n in zip(starts, widths, strict=True)]
    assert [box for _, box in boxes(found)] == wanted
    ((_, text),) = found.assumptions()
    assert "uneven shards of dimension 1" in text


@pytest.mark.parametrize(
    ("ours", "theirs", "captured"),
    [
        ([13], [[4], [4], [3]], 3),
        ([11], [[4], [4], [4]], 3),
        ([6, 6], [[4, 6], [6, 2]], 2),
        ([9, 2], [[4, 2], [5]], 2),
        ([9], [[4], [5]], 3),  # a third rank was not captured
        ([10], [[4], [2], [3], [3]], 4),
    ],
)
def test_sizes_that_do_not_add_up(ours: list[int], theirs: list[list[int]], captured: int) -> None:
    found = related([one("w", ours)], [[one("w", n)] for n in theirs], world_size=captured)
    assert found.rows == [] and found.assumptions() == []


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [([6], [4]), ([4, 4], [2, 2]), ([4], [4, 1]), ([6, 2], [2, 2]), ([4], [8]), ([4], [0])],
)
def test_what_is_neither_is_left_open(ours: list[int], theirs: list[int]) -> None:
    found = related([one("w", ours)], [[one("w", theirs)]] * 2)
    assert found.rows == [] and found.assumptions() == []
    assert found.warnings[0] == (
        f"`w` of rank 0 is {theirs}, sequentially {ours}: left open, say in relations.toml "
        "what it holds"
    )


def test_assumptions_are_grouped() -> None:
    names = [f"w{i}" for i in range(SHOWN + 3)]
    found = related([one(n, [2]) for n in names], [[one(n, [2]) for n in names]] * 2)
    ((kind, text),) = found.assumptions()
    assert kind == "guessed relation" and text.endswith(f"`w{SHOWN - 1}` and 3 more")


# ---- what has no counterpart
def test_inputs_without_a_counterpart() -> None:
    ours = [one("w", [2]), one("lost", [2])]
    theirs = [one("w", [2]), one("own", [2]), one("x", [2], kind="input"),
              one("cache", [2], kind="buffer"), one("a", [2], kind="attribute")]  # fmt: skip
    found = related(ours, [theirs])
    assert [row["dist"] for row in found.rows] == ["n_w"]
    assert found.warnings == [
        "parameter `own` of rank 0 has no counterpart of that name in the sequential program: "
        "nothing is known of it (relations.toml can say)",
        "input `x` of rank 0 has no counterpart of that name in the sequential program: "
        "nothing is known of it (relations.toml can say)",
        "no rank has an input that holds `lost`",
    ]


def test_an_argument_that_is_called_as_a_parameter_is() -> None:
    ours = [one("w", [2]), replace(one("w", [2], kind="input"), node="w_1")]
    found = related(ours, [ours])
    assert [(row["seq"], row["dist"]) for row in found.rows] == [("n_w", "n_w"), ("w_1", "w_1")]


def test_a_buffer_that_is_a_parameter_sequentially() -> None:
    found = related([one("w", [2])], [[one("w", [2], kind="buffer")]])
    assert len(found.rows) == 1 and found.warnings == []


def test_a_size_that_depends_on_data() -> None:
    found = related([one("w", ["u0"])], [[one("w", ["u0"])]])
    assert found.rows == []
    assert found.warnings == ["`w` of rank 0 has a size that depends on data"]


def test_nothing_is_declared() -> None:
    found = relate(record(-1, one("w", [2])), [record(0, one("w", [2]))], Override(), 1)
    assert len(found.rows) == 1
