"""Programs executed in step: each collective against its result worked out by hand, each kernel that
is not simply torch's, and what cannot be executed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

pytest.importorskip("torch")

import torch

from gg_datalog.extract.table import load_table
from gg_datalog.replay.calls import NotExecuted
from gg_datalog.replay.collectives import Mismatch
from gg_datalog.replay.execute import run_ranks
from gg_datalog.replay.program import OutOfRange

from ..cli.build import call, graph, placeholder, returns

C10D = "_c10d_functional."
TABLE = load_table()
A = torch.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=torch.float64)
B = torch.tensor([[10.0, -20.0], [30.0, 40.0]], dtype=torch.float64)
EVERYONE = [{"ranks": [0, 1], "names": {"0": "g", "1": "g"}}]


def no_masks(*_: Any) -> Any:
    """Nothing here is random."""
    raise AssertionError


def run(
    graphs: Sequence[Sequence[Any]],
    given: Sequence[Mapping[str, Any]],
    groups: Sequence[Any] = EVERYONE,
) -> list[dict[str, Any]]:
    """The values of all ranks."""
    documents = {r: graph(*nodes, returns()) for r, nodes in enumerate(graphs)}
    inputs = dict(enumerate(given))
    return list(run_ranks(documents, groups, TABLE, inputs, no_masks).values())


def both(target: str, args: Sequence[Any], shape: Sequence[int], **keys: Any) -> list[Any]:
    """What two ranks that hold ``A`` and ``B`` get of a collective."""
    nodes = [placeholder("x", [2, 2]), {**call("y", target, ["%x", *args], shape), **keys}]
    return [values["y"] for values in run([nodes, nodes], [{"x": A.clone()}, {"x": B.clone()}])]


def same(found: Any, expected: Any) -> None:
    """Exactly equal."""
    expected = torch.as_tensor(expected, dtype=found.dtype)
    assert found.shape == expected.shape and bool((found == expected).all()), f"{found}"


# ---- collectives
@pytest.mark.parametrize(
    ("reduction", "expected"),
    [
        ("sum", [[11, -18], [33, 44]]),
        ("avg", [[5.5, -9], [16.5, 22]]),
        ("max", [[10, 2], [30, 40]]),
        ("min", [[1, -20], [3, 4]]),
    ],
)
def test_all_reduce(reduction: str, expected: Any) -> None:
    for found in both(C10D + "all_reduce.default", [reduction, "g"], [2, 2]):
        same(found, expected)


def test_a_reduction_by_keyword() -> None:
    keys = {"kwargs": {"reduce_op": "max", "group_name": "g"}}
    for found in both(C10D + "all_reduce.default", [], [2, 2], **keys):
        same(found, [[10, 2], [30, 40]])


def test_reduce_scatter_gives_every_rank_its_rows() -> None:
    first, second = both(C10D + "reduce_scatter_tensor.default", ["sum", 2, "g"], [1, 2])
    same(first, [[11, -18]])
    same(second, [[33, 44]])


def test_all_gather_puts_rows_one_after_the_other() -> None:
    for found in both(C10D + "all_gather_into_tensor.default", [2, "g"], [4, 2]):
        same(found, [[1, 2], [3, 4], [10, -20], [30, 40]])


def test_all_gather_along_a_dimension() -> None:
    for found in both("vllm.all_gather.default", [1, 2, "g"], [2, 4]):
        same(found, [[1, 2, 10, -20], [3, 4, 30, 40]])


def test_members_are_in_the_order_of_the_group() -> None:
    nodes = [
        placeholder("x", [2, 2]),
        call("y", C10D + "all_gather_into_tensor.default", ["%x", 2, "g"], [4, 2]),
        call("z", C10D + "reduce_scatter_tensor.default", ["%x", "sum", 2, "g"], [1, 2]),
    ]
    groups = [{"ranks": [1, 0], "names": {"0": "g", "1": "g"}}]
    first, second = run([nodes, nodes], [{"x": A}, {"x": B}], groups)
    same(first["y"], torch.cat([B, A]))
    same(first["z"], [[33, 44]])
    same(second["z"], [[11, -18]])


@pytest.mark.parametrize(("root", "expected"), [(0, A), (1, B)])
def test_broadcast(root: int, expected: Any) -> None:
    for found in both(C10D + "broadcast.default", [root, "g"], [2, 2]):
        same(found, expected)


def test_all_to_all_in_equal_parts() -> None:
    first, second = both(C10D + "all_to_all_single.default", [None, None, "g"], [2, 2])
    same(first, [[1, 2], [10, -20]])
    same(second, [[3, 4], [30, 40]])


def exchange(out: Sequence[Any], given: Sequence[Any]) -> list[Any]:
    """Two ranks with 3 and 2 rows exchange some of them."""
    ours, theirs = torch.arange(6.0).reshape(3, 2), torch.arange(10.0, 14.0).reshape(2, 2)
    graphs = []
    for rank, rows in enumerate((3, 2)):
        to = [s[rank] if s else None for s in (out, given)]
        sizes = [sum(row[rank] for row in given), 2]
        target = C10D + "all_to_all_single.default"
        graphs.append([placeholder("x", [rows, 2]), call("y", target, ["%x", *to, "g"], sizes)])
    return [v["y"] for v in run(graphs, [{"x": ours}, {"x": theirs}])]


def test_all_to_all_in_parts_of_their_own() -> None:
    first, second = exchange([[1, 0], [2, 2]], [[1, 2], [0, 2]])
    same(first, [[0, 1]])
    same(second, [[2, 3], [4, 5], [10, 11], [12, 13]])


def test_all_to_all_that_expects_something_else() -> None:
    with pytest.raises(Mismatch, match="expects"):
        exchange([[0, 1], [2, 2]], [[1, 2], [0, 2]])


def test_ranks_do_not_share_memory() -> None:
    """What one rank adds in place to a result, the other one does not see."""
    nodes = [
        placeholder("x", [2, 2]),
        call("y", C10D + "all_reduce.default", ["%x", "sum", "g"], [2, 2]),
        call("z", "aten.add_.Tensor", ["%y", 1.0], [2, 2]),
        call("b", C10D + "broadcast.default", ["%x", 0, "g"], [2, 2]),
        call("c", "aten.add_.Tensor", ["%b", 1.0], [2, 2]),
    ]
    first, second = run([nodes, nodes], [{"x": A.clone()}, {"x": B.clone()}])
    same(first["y"], A + B + 1)
    same(second["y"], A + B + 1)
    same(first["x"], A)
    same(second["b"], A + 1)


def test_a_collective_in_place_writes_into_its_operand() -> None:
    nodes = [
        placeholder("x", [2, 2]),
        call("c", "aten.clone.default", ["%x"], [2, 2]),
        call("y", C10D + "all_reduce_.default", ["%c", "sum", "g"], [2, 2]),
        call("z", "aten.mul.Tensor", ["%c", 2.0], [2, 2]),
    ]
    for values in run([nodes, nodes], [{"x": A}, {"x": B}]):
        same(values["z"], 2 * (A + B))


def test_two_communicators_of_the_same_ranks() -> None:
    groups = [*EVERYONE, {"ranks": [0, 1], "names": {"0": "h", "1": "i"}}]
    graphs = [
        [
            placeholder("x", [2, 2]),
            call("y", C10D + "all_reduce.default", ["%x", "sum", "g"], [2, 2]),
            call("z", C10D + "all_reduce.default", ["%x", "max", name], [2, 2]),
        ]
        for name in ("h", "i")
    ]
    for values in run(graphs, [{"x": A}, {"x": B}], groups):
        same(values["y"], A + B)
        same(values["z"], torch.maximum(A, B))


# ---- programs that hang or mix data
def meet(first: Any, second: Any, groups: Sequence[Any] = EVERYONE) -> None:
    """Two ranks at different collectives."""
    nodes = [[placeholder("x", [2, 2]), *([node] if node else [])] for node in (first, second)]
    run(nodes, [{"x": A}, {"x": B}], groups)


SUM = call("y", C10D + "all_reduce.default", ["%x", "sum", "g"], [2, 2])


def test_a_rank_that_never_joins() -> None:
    with pytest.raises(Mismatch, match="hangs: rank 0 at `y`"):
        meet(SUM, None)


def test_a_member_without_a_graph() -> None:
    with pytest.raises(Mismatch, match="hangs"):
        run([[placeholder("x", [2, 2]), SUM]], [{"x": A}])


def test_ranks_that_wait_for_each_other() -> None:
    groups = [*EVERYONE, {"ranks": [0, 1], "names": {"0": "h", "1": "h"}}]
    other = call("y", C10D + "all_reduce.default", ["%x", "sum", "h"], [2, 2])
    with pytest.raises(Mismatch, match="rank 0 at `y`, rank 1 at `y`"):
        meet(SUM, other, groups)


@pytest.mark.parametrize(
    "other",
    [
        call("y", C10D + "all_reduce.default", ["%x", "max", "g"], [2, 2]),
        call("y", C10D + "all_gather_into_tensor.default", ["%x", 2, "g"], [4, 2]),
        call("y", C10D + "broadcast.default", ["%x", 0, "g"], [2, 2]),
    ],
    ids=["reduction", "gather", "broadcast"],
)
def test_different_collectives_meet(other: Any) -> None:
    with pytest.raises(Mismatch, match="differ"):
        meet(SUM, other)


def test_tensors_of_different_shapes_or_types_meet() -> None:
    flat = [
        placeholder("x", [2, 2]),
        call("v", "aten.view.default", ["%x", [4]], [4]),
        call("y", C10D + "all_reduce.default", ["%v", "sum", "g"], [4]),
    ]
    with pytest.raises(Mismatch, match="differ"):
        run([[placeholder("x", [2, 2]), SUM], flat], [{"x": A}, {"x": B}])
    half = [{**placeholder("x", [2, 2]), "dtype": "float16"}, SUM]
    with pytest.raises(Mismatch, match="float16"):
        run([[placeholder("x", [2, 2]), SUM], half], [{"x": A}, {"x": B}])


def test_a_number_of_members_that_is_wrong() -> None:
    gather = call("y", C10D + "all_gather_into_tensor.default", ["%x", 3, "g"], [6, 2])
    with pytest.raises(Mismatch, match="says 3 members of 2"):
        meet(gather, gather)
    root = call("y", C10D + "broadcast.default", ["%x", 2, "g"], [2, 2])
    with pytest.raises(Mismatch, match="root"):
        meet(root, root)


# ---- kernels
def compute(target: str, args: Sequence[Any], shape: Any, x: Any = A, **keys: Any) -> Any:
    """The value of one operator of ``x``."""
    node = {**call("y", target, args, shape), **keys}
    nodes = [{**placeholder("x", list(x.shape)), "dtype": "float32"}, node]
    return run([nodes], [{"x": x}], [])[0]["y"]


def test_what_hlo_calls_its_operators() -> None:
    wide = compute("hlo.broadcast", ["%x", [2, 0], [2, 3, 2]], [2, 3, 2])
    same(wide, A.T.reshape(2, 1, 2).expand(2, 3, 2))
    same(compute("hlo.broadcast", [0.5, [], [3]], [3]), [0.5] * 3)
    dot = compute("hlo.dot", ["%x", "%x", [0], [1], [], []], [2, 2])
    same(dot, A.T @ A.T)
    same(
        compute("hlo.concatenate", [[{"node": "x"}, {"node": "x"}], 1], [2, 4]),
        torch.cat([A, A], 1),
    )
    same(compute("hlo.reduce_max", ["%x", [1]], [2]), [2, 4])
    same(compute("hlo.reduce_min", ["%x", [0]], [2]), [1, 2])
    same(compute("hlo.reduce_add", ["%x", [0, 1]], []), 10)
    same(compute("hlo.transpose", ["%x", [1, 0]], [2, 2]), A.T)
    same(compute("hlo.iota", [3], [3], dtype="int32"), [0, 1, 2])


def test_a_gather_of_hlo() -> None:
    ids = {
        "name": "i",
        "op": "get_attr",
        "target": "i",
        "shape": [3, 1],
        "dtype": "int32",
        "value": 1,
    }
    taken = call("y", "hlo.gather", ["%x", "%i", [1], [0], [0], 1, [1, 2]], [3, 2])
    (found,) = run([[placeholder("x", [2, 2]), ids, taken]], [{"x": A}], [])
    same(found["y"], A[[1, 1, 1]])


def test_constants_keep_their_shape_and_type() -> None:
    value = {
        "name": "c",
        "op": "get_attr",
        "target": "c",
        "shape": [2],
        "dtype": "float16",
        "value": 0.1,
    }
    added = call("y", "aten.add.Tensor", ["%x", "%c"], [2, 2])
    (found,) = run([[placeholder("x", [2, 2]), value, added]], [{"x": A}], [])
    same(found["y"], A + 0.1)  # float64, not what float16 makes of it


def test_views_by_whatever_name() -> None:
    for target, args in [
        ("aten.flatten.using_ints", ["%x", 0, 1]),
        ("aten.view.default", ["%x", [-1]]),
    ]:
        same(compute(target, args, [4]), A.reshape(4))
    same(compute("aten.relu.default", [], [2, 2], kwargs={"self": {"node": "x"}}), A)


def test_a_cast_cuts_numbers_off() -> None:
    x = torch.tensor([1.9, -1.9], dtype=torch.float64)
    args = ["%x", {"dtype": "torch.int32"}]
    same(compute("prims.convert_element_type.default", args, [2], x, dtype="int32"), [1, -1])


def test_an_unknown_kernel_with_several_results() -> None:
    pair = {
        "name": "p",
        "op": "call_function",
        "target": "mylib.two.default",
        "args": [{"node": "x"}],
    }
    items = [call(f"i{k}", "<built-in function getitem>", ["%p", k], [2, k + 1]) for k in (0, 1)]
    (found,) = run([[placeholder("x", [2, 2]), pair, *items]], [{"x": A}], [])
    assert (found["i0"].shape, found["i1"].shape) == ((2, 1), (2, 2))
    assert not torch.allclose(found["i0"], found["i1"][:, :1])


def test_a_kernel_that_the_cpu_has_not() -> None:
    target = "aten._scaled_dot_product_flash_attention.default"
    x = torch.randn(2, 2, 4, 8, dtype=torch.float64)
    node = {"name": "f", "op": "call_function", "target": target, "args": [{"node": "x"}] * 3}
    item = call("y", "<built-in function getitem>", ["%f", 0], [2, 2, 4, 8])
    (found,) = run([[placeholder("x", [2, 2, 4, 8]), node, item]], [{"x": x}], [])
    assert found["y"].shape == x.shape


def test_random_operators_draw_the_same_under_the_same_seed() -> None:
    nodes = [call("r", "aten.rand.default", [[3]], [3]), call("s", "aten.rand.default", [[3]], [3])]
    state = torch.get_rng_state()
    first, second = run([nodes, nodes], [{}, {}])
    same(first["r"], second["r"])
    assert not torch.equal(first["r"], first["s"])
    assert torch.equal(state, torch.get_rng_state())


# ---- what cannot be executed
@pytest.mark.parametrize(
    ("node", "message"),
    [
        (call("y", "aten.mm.default", ["%x", "%x", "%x"], [2, 2]), "`y`"),
        (call("y", "aten.relu.default", ["%x"], [4]), r"has shape \[2, 2\], its graph says \[4\]"),
        (call("y", "aten.relu.default", [], [2, 2]), "`y`"),
        (call("y", "<built-in function getitem>", ["%x", 7], [2]), "`y`"),
        (call("y", "aten.native_dropout.default", ["%x"], [2, 2]), "dropout"),
        (call("y", C10D + "all_reduce.default", ["%x", "sum", "nobody"], [2, 2]), "group `nobody`"),
        (call("y", C10D + "permute_tensor.default", ["%x", "g"], [2, 2]), "permute_tensor"),
        ({"name": "y", "op": "get_attr", "target": "y"}, "nothing is known of constant `y`"),
        (
            {"name": "y", "op": "call_function", "target": "mylib.two.default", "args": []},
            "results' shapes",
        ),
    ],
    ids=lambda v: v if isinstance(v, str) else v["target"],
)
def test_it_says_what_cannot_be_executed(node: Any, message: str) -> None:
    with pytest.raises(NotExecuted, match=message):
        run([[placeholder("x", [2, 2]), node]] * 2, [{"x": A}, {"x": B}])


def test_an_input_of_unknown_size_is_no_matter_until_it_is_used() -> None:
    unknown = placeholder("q", ["s0"])
    used = call("y", "aten.relu.default", ["%q"], ["s0"])
    assert "x" in run([[unknown, placeholder("x", [2, 2])]], [{"x": A}], [])[0]
    with pytest.raises(NotExecuted, match="`q` is not known"):
        run([[unknown, used]], [{}], [])


def test_a_lookup_beyond_its_table_is_told_apart() -> None:
    ids = {"name": "i", "op": "get_attr", "target": "i", "shape": [3], "dtype": "int64", "value": 2}
    taken = call("y", "aten.embedding.default", ["%x", "%i"], [3, 2])
    with pytest.raises(OutOfRange, match="out of range"):
        run([[placeholder("x", [2, 2]), ids, taken]], [{"x": A}], [])
    with pytest.raises(NotExecuted) as failed:
        run(
            [[placeholder("x", [2, 2]), call("y", "aten.embedding.default", [], [3, 2])]],
            [{"x": A}],
            [],
        )
    assert not isinstance(failed.value, OutOfRange)
