"""What is drawn to confirm a refusal, and what its numbers rest on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="replay needs torch")

import torch

from gg_datalog.extract.table import load_table
from gg_datalog.replay.comparison import by_shape, most_likely
from gg_datalog.replay.documents import Documents, layouts
from gg_datalog.replay.draw import with_small_fills
from gg_datalog.replay.kernels import constant, has_value
from gg_datalog.replay.showing import elements
from gg_datalog.replay.shrink import shrink
from gg_datalog.replay.unknown import guessed_names, other_guesses, unknown

from ..cli.build import call, graph, placeholder, returns

OUTPUT = {"seq": "y", "dist": {"0": "y", "1": "y"}}


def documents(seq: list[Any], dist: list[Any], relations: list[Any], ranks: int = 2) -> Documents:
    """A case of which every rank runs the same."""
    graphs = {r: json.loads(json.dumps(graph(*dist, returns("y")))) for r in range(ranks)}
    return Documents(graph(*seq, returns("y")), graphs, {}, relations, [OUTPUT])


def replica(name: str, rank: int, box: list[Any]) -> dict[str, Any]:
    """An input relation."""
    return {"seq": name, "rank": rank, "dist": name, "seq_box": box, "dist_box": box}


# ---- values that nobody knows
def looked_up(kind: str = "input", value: Any = None) -> Documents:
    """x[map], where `map` is of that kind, or a constant."""
    table = {**placeholder("map", [3]), "dtype": "int64", "kind": kind, kind: "expert_map"}
    if value is not None:
        table = {**table, "op": "get_attr", "value": value}
    nodes = [placeholder("x", [4, 2]), table]
    nodes.append(call("y", "aten.index_select.default", ["%x", 0, "%map"], [3, 2]))
    rows = [replica("x", r, [[0, 4], [0, 2]]) for r in (0, 1)]
    return documents(nodes, nodes, [*rows, *(replica("map", r, [[0, 3]]) for r in (0, 1))])


def test_a_buffer_of_integers_that_is_guessed_is_not_known() -> None:
    case = looked_up("buffer")
    assert unknown(case, OUTPUT, {"expert_map"}) == ["r0.map", "r1.map"]
    assert unknown(case, OUTPUT, set()) == []  # declared
    assert unknown(looked_up(), OUTPUT, {"expert_map"}) == []  # an input: any value will do
    assert unknown(looked_up("buffer", [2, 0, 1]), OUTPUT, set()) == []


def test_what_no_relation_speaks_of_is_not_known() -> None:
    case = looked_up()
    case.relations = [row for row in case.relations if (row["seq"], row["rank"]) != ("map", 1)]
    assert unknown(case, OUTPUT, set()) == ["r1.map"]
    half = looked_up()
    half.relations[-1]["dist_box"] = [[0, 2]]
    assert unknown(half, OUTPUT, set()) == ["r1.map"]


def test_what_an_output_does_not_need_does_not_matter() -> None:
    nodes = [placeholder("x", [4]), placeholder("z", [4])]
    nodes.append(call("y", "aten.relu.default", ["%x"], [4]))
    case = documents(nodes, nodes, [replica("x", r, [[0, 4]]) for r in (0, 1)])
    assert unknown(case, OUTPUT, set()) == []


def test_a_list_of_integers_is_used_as_it_is() -> None:
    node = {"name": "c", "op": "get_attr", "shape": [2, 2], "dtype": "int32"}
    node["value"] = [[3, 1], [0, 2]]
    assert has_value(node)
    made = constant(node)
    assert made.dtype == torch.int32 and made.tolist() == [[3, 1], [0, 2]]
    assert not has_value({**node, "value": None})


# ---- guesses
def shared(held: list[int]) -> Documents:
    """Two shards of `w` on four ranks."""
    boxes = [[[0, 2]], [[2, 4]]]
    rows = [replica("w", r, boxes[i]) | {"dist_box": [[0, 2]]} for r, i in enumerate(held)]
    nodes = [{**placeholder("w", [4]), "kind": "parameter", "parameter": "k.weight"}]
    return documents(nodes, [placeholder("w", [2])], rows, ranks=4)


@pytest.mark.parametrize(
    "held, other", [([0, 0, 1, 1], [0, 1, 0, 1]), ([0, 1, 0, 1], [0, 0, 1, 1])]
)
def test_ranks_may_share_shards_in_another_order(held: list[int], other: list[int]) -> None:
    found = other_guesses(shared(held), {"k.weight"})
    assert found is not None and found[1] == ["k.weight"]
    assert [row["seq_box"][0][0] // 2 for row in found[0].relations] == other


def test_what_is_declared_has_no_other_guess() -> None:
    assert other_guesses(shared([0, 0, 1, 1]), set()) is None
    assert other_guesses(shared([1, 0, 0, 1]), {"k.weight"}) is None


def test_a_capture_says_what_it_guessed(tmp_path: Path) -> None:
    about = tmp_path / "capture.json"
    rows = [("guessed relation", "taken as replicas: `a.b`, `x`"), ("capture", "`y` is new")]
    about.write_text(json.dumps({"assumptions": [{"kind": k, "text": t} for k, t in rows]}))
    assert guessed_names(about) == {"a.b", "x"}
    assert guessed_names(None) == set()


# ---- targets and fills
def losses(more: list[Any]) -> Documents:
    """A loss that leaves out targets of -100; the ranks do so, too, or say nothing of it."""
    scores = [placeholder("s", [4, 3]), {**placeholder("t", [4]), "dtype": "int64"}]
    loss = call("y", "aten.nll_loss_forward.default", ["%s", "%t", None, 1, -100], [])
    rows = [replica(n, r, b) for r in (0, 1) for n, b in (("s", [[0, 4], [0, 3]]), ("t", [[0, 4]]))]
    return documents([*scores, loss], [*scores, *more], rows)


def test_targets_that_do_not_count_are_drawn_where_the_ranks_look_at_them() -> None:
    picked = call("y", "aten.gather.default", ["%s", 1, "%t"], [4])
    tested = {**call("n", "aten.ne.Scalar", ["%t", -100], [4]), "dtype": "bool"}
    table = load_table([])
    assert shrink(losses([picked]), table, smaller=False).skipped == {}
    assert shrink(losses([tested, picked]), table, smaller=False).skipped == {"t": -100}


def test_targets_are_classes_though_a_program_splits_them_first() -> None:
    nodes = [placeholder("s", [4, 3]), {**placeholder("t", [8]), "dtype": "int64"}]
    nodes.append(call("parts", "aten.split.Tensor", ["%t", 4], []) | {"shape": None, "dtype": None})
    one = call("one", "<built-in function getitem>", ["%parts", 0], [4])
    nodes.append({**one, "dtype": "int64"})
    nodes.append(call("y", "aten.nll_loss_forward.default", ["%s", "%one", None, 1, -100], []))
    rows = [replica(n, r, b) for r in (0, 1) for n, b in (("s", [[0, 4], [0, 3]]), ("t", [[0, 8]]))]
    assert shrink(documents(nodes, nodes, rows), load_table([]), smaller=False).rows == {"t": 3}


def test_fills_are_made_small_where_both_sides_have_them() -> None:
    def hidden(value: float) -> list[Any]:
        return [placeholder("x", [4]), call("y", "aten.full_like.default", ["%x", value], [4])]

    def small(ours: float, theirs: float) -> tuple[float, float] | None:
        case = with_small_fills(documents(hidden(ours), hidden(theirs), []))
        if case is None:
            return None
        seq, dist = case.seq["nodes"][1], case.dist[1]["nodes"][1]
        return seq["args"][1], dist["args"][1]

    same = small(-1e4, -1e4)
    assert same is not None and same[0] == same[1] > -10
    other = small(-1e4, -2e4)
    assert other is not None and other[0] != other[1]
    least = small(-3.4028234663852886e38, -3.3895313892515355e38)
    assert least is not None and least[0] == least[1]
    assert small(-1e4, float("-inf")) is None
    assert small(-1e4, 0.0) is None


# ---- elements
def test_elements_that_differ_are_told_by_their_place_in_the_whole() -> None:
    whole = torch.arange(8, dtype=torch.float64).reshape(4, 2)
    right, wrong = whole[:2].clone(), whole[2:].clone()
    wrong[1, 0] += 0.5
    meant = most_likely(whole, [right, wrong])
    assert meant is not None
    (one,) = elements(meant, [0, 3])
    assert (one.rank, one.at, one.sequential, one.ranks) == (3, (3, 0), 6.0, 6.5)


def test_at_most_sixteen_elements() -> None:
    whole = torch.zeros(40, dtype=torch.float64)
    meant = most_likely(whole, [whole + 1, whole + float("nan")])
    assert meant is not None
    found = elements(meant, [0, 1])
    assert len(found) == 16 and {e.rank for e in found} == {0}
    (text,) = {e.ranks for e in elements(meant[1:], [0, 1])}
    assert text == "nan"


def test_shares_may_lie_as_some_input_does() -> None:
    """Zig-zag: rank 0 has positions 0 and 3, rank 1 has 1 and 2."""
    nodes = [placeholder("x", [4, 2]), call("y", "aten.relu.default", ["%x"], [4, 2])]
    rows = [
        {**replica("x", r, [[i, i + 1], [0, 2]]), "dist_box": [[k, k + 1], [0, 2]]}
        for r, places in enumerate(([0, 3], [1, 2]))
        for k, i in enumerate(places)
    ]
    layout = layouts(documents(nodes, nodes, rows), [0, 1])
    assert layout == [(4, ((0, 3), (1, 2)))]
    whole = torch.arange(8, dtype=torch.float64).reshape(4, 2)
    pieces = [whole[[0, 3]], whole[[1, 2]]]
    assert by_shape(whole, pieces).fits is False
    assert by_shape(whole, pieces, layouts=layout).fits is True
    pieces[0][1, 1] += 1
    meant = most_likely(whole, pieces, layouts=layout)
    assert meant is not None and [e.at for e in elements(meant, [0, 1])] == [(3, 1)]
