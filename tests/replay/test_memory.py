"""Views and what is written through them: every alias sees it, as in torch; copies do not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("torch")

import torch

from gg_datalog.replay.calls import NotExecuted

from .single import given, literal, node, run, same

aten = torch.ops.aten
X = torch.arange(24, dtype=torch.float64).reshape(4, 6)
VIEWS: list[tuple[str, list[Any], int | None]] = [  # which item, where there are several
    ("aten.view.default", [[6, 4]], None),
    ("aten.reshape.default", [[2, 12]], None),
    ("aten.t.default", [], None),
    ("aten.mT.default", [], None),
    ("aten.mH.default", [], None),
    ("aten.adjoint.default", [], None),
    ("aten.matrix_H.default", [], None),
    ("aten.numpy_T.default", [], None),
    ("aten.transpose.int", [0, 1], None),
    ("aten.movedim.int", [0, 1], None),
    ("aten.hsplit.int", [2], 1),
    ("aten.vsplit.int", [2], 0),
    ("aten.tensor_split.sections", [3, 1], 2),
    ("aten.split.Tensor", [2], 1),
    ("aten.chunk.default", [2, 1], 1),
    ("aten.unbind.int", [1], 3),
    ("aten.slice.Tensor", [1, 1, 6, 2], None),
    ("aten.narrow.default", [0, 1, 2], None),
    ("aten.select.int", [0, -1], None),
    ("aten.diagonal.default", [1], None),
    ("aten.as_strided.default", [[2, 2], [6, 1], 3], None),
    ("aten.unfold.default", [1, 2, 2], None),
    ("aten.squeeze.default", [], None),
    ("aten.unsqueeze.default", [0], None),
    ("aten.atleast_3d.default", [], None),
    ("aten.ravel.default", [], None),
    ("aten.flatten.using_ints", [], None),
    ("aten.unflatten.int", [1, [2, 3]], None),
    ("aten.positive.default", [], None),
    ("aten.resolve_conj.default", [], None),
    ("aten.detach.default", [], None),
    ("aten.alias.default", [], None),
    ("aten.contiguous.default", [], None),
    ("aten.real.default", [], None),
    ("aten.to.dtype", [torch.float64], None),
    ("aten.type_as.default", [X], None),
    ("aten.expand.default", [[4, 6]], None),
    ("aten.view_as.default", [torch.zeros(6, 4)], None),
    ("prims.view_of.default", [], None),
    # copies
    ("aten.clone.default", [], None),
    ("aten._to_copy.default", [], None),
    ("aten.to.dtype", [torch.float64, False, True], None),
    ("aten.repeat.default", [[1, 1]], None),
    ("aten.view_copy.default", [[24]], None),
    ("aten.t_copy.default", [], None),
    ("aten.flip.default", [[0]], None),
    ("aten.index_select.default", [0, torch.tensor([0, 2])], None),
    ("prims.convert_element_type.default", [torch.float64], None),
]


@pytest.mark.parametrize(
    ("target", "args", "item"), VIEWS, ids=[f"{i}-{t}" for i, (t, *_) in enumerate(VIEWS)]
)
def test_a_write_is_seen_where_torch_shows_it(
    target: str, args: list[Any], item: int | None
) -> None:
    space, kernel, overload = target.split(".")
    mine = X.clone()
    made = getattr(getattr(getattr(torch.ops, space), kernel), overload)(mine, *args)
    part = made if item is None else made[item]
    last = part.mul_(-1)
    inputs: dict[str, Any] = {"x": X.clone()}
    told = [literal(a, inputs) for a in args]
    nodes = [node("v", target, ["%x", *told], part if item is None else None)]
    of = "%v"
    if item is not None:
        nodes.append(node("p", "<built-in function getitem>", ["%v", item], part))
        of = "%p"
    nodes.append(node("w", "aten.mul_.Scalar", [of, -1], last))
    values = run([*(given(n, t) for n, t in inputs.items()), *nodes], inputs)
    assert same(values["x"], mine)
    assert same(values["w"], last)
    assert same(inputs["x"], X)  # what was drawn stays what it was


def test_a_cast_between_floats_is_a_copy() -> None:
    """Both are float64 here, but in the program one of them is narrower."""
    for target, keys in [
        ("aten.to.dtype", {"dtype": {"dtype": "torch.bfloat16"}}),
        ("aten.type_as.default", {"other": "%like"}),
    ]:
        nodes = [
            given("x", X, "float32"),
            given("like", X, "bfloat16"),
            {**node("v", target, ["%x"], X, keys), "dtype": "bfloat16"},
            node("w", "aten.fill_.Scalar", ["%v", 0.0], X),
        ]
        values = run(nodes, {"x": X.clone(), "like": X.clone()})
        assert same(values["x"], X), target
        assert same(values["v"], torch.zeros_like(X)), target


@pytest.mark.parametrize("of", [["%x", 0, 0, 2], ["%x", 0, 2]], ids=["a part", "open at its end"])
def test_an_output_that_is_given_is_written(of: list[Any]) -> None:
    nodes = [
        given("x", X),
        node("v", "aten.slice.Tensor", of, X[2:]),
        node("y", "aten.add.out", ["%v", "%v"], X[2:], {"out": "%v"}),
    ]
    values = run(nodes, {"x": X})
    expected = X.clone()
    part = expected[0:2] if len(of) == 4 else expected[2:]
    part.mul_(2)
    assert same(values["x"], expected)


def test_outputs_under_other_names() -> None:
    nodes = [
        given("x", X),
        node("v", "aten.new_zeros.default", ["%x", [4, 2]], X[:, :2]),
        {**node("i", "aten.new_zeros.default", ["%x", [4, 2]], X[:, :2]), "dtype": "int64"},
        node("t", "aten.topk.values", ["%x", 2], None, {"values": "%v", "indices": "%i"}),
    ]
    nodes[2]["kwargs"] = {"dtype": {"dtype": "torch.int64"}}
    values = run(nodes, {"x": X})
    found = X.topk(2)
    assert same(values["v"], found.values) and same(values["i"], found.indices)


Build = Callable[[dict[str, Any]], Any]


def batch_norm(target: str, training: bool) -> tuple[list[Any], dict[str, Any]]:
    """A norm in training or not, and its inputs."""
    generator = torch.Generator().manual_seed(0)
    inputs = {
        "x": torch.randn(3, 2, 4, generator=generator, dtype=torch.float64),
        "w": torch.ones(2, dtype=torch.float64),
        "mean": torch.zeros(2, dtype=torch.float64),
        "var": torch.ones(2, dtype=torch.float64),
    }
    args: list[Any] = ["%x", "%w", "%w", "%mean", "%var", training, 0.1, 1e-5]
    args += [False] if target == "aten.batch_norm.default" else []
    nodes = [*(given(n, t) for n, t in inputs.items()), node("y", target, args)]
    return nodes, inputs


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize(
    "target",
    ["aten.batch_norm.default", "aten.native_batch_norm.default",
     "aten._native_batch_norm_legit.default", "aten.cudnn_batch_norm.default"],
)  # fmt: skip
def test_running_statistics_move_on_in_training(target: str, training: bool) -> None:
    nodes, inputs = batch_norm(target, training)
    if target.startswith("aten.cudnn"):  # torch has no kernel for the CPU: something else, then
        nodes[-1]["args"] = [*nodes[-1]["args"][:5], training, 0.1, 1e-5]
        nodes.append(node("i", "<built-in function getitem>", ["%y", 0], inputs["x"]))
        values = run(nodes, inputs)
        assert same(values["mean"], inputs["mean"]) is not training
        return
    values = run(nodes, inputs)
    mean, var = inputs["mean"].clone(), inputs["var"].clone()
    args = [inputs["x"], inputs["w"], inputs["w"], mean, var, training, 0.1, 1e-5]
    torch.native_batch_norm(*args)
    assert same(values["mean"], mean) and same(values["var"], var)
    assert same(mean, inputs["mean"]) is not training


def test_a_fused_optimizer_writes_its_state() -> None:
    names = ("p", "g", "m", "v")
    inputs = {n: torch.rand(3, dtype=torch.float64) for n in names}
    inputs["s"] = torch.tensor(4.0, dtype=torch.float64)
    lists = [[{"node": n}] for n in names]
    keys = {"lr": 0.1, "beta1": 0.9, "beta2": 0.99, "weight_decay": 0.1, "eps": 1e-8}
    keys |= {"amsgrad": False, "maximize": False}
    step = [[{"node": "s"}]]
    nodes = [node("o", "aten._fused_adamw_.default", [*lists, [], *step], None, keys)]
    values = run([*(given(n, t) for n, t in inputs.items()), *nodes], inputs)
    mine = {n: t.clone() for n, t in inputs.items()}
    tensors = [[mine[n]] for n in names]
    aten._fused_adamw_.default(*tensors, [], [mine["s"]], **keys)
    for name in names:
        assert same(values[name], mine[name]), name
    assert not same(mine["p"], inputs["p"]) and not same(mine["m"], inputs["m"])


def test_a_gradient_scaler_writes_what_it_finds() -> None:
    """Its flag and its factor are float32 in torch, whatever the gradients are."""
    inputs = {
        "g": torch.tensor([1.0, float("inf")], dtype=torch.float64),
        "f": torch.zeros(1, dtype=torch.float64),
        "s": torch.tensor([0.5], dtype=torch.float64),
    }
    target = "aten._amp_foreach_non_finite_check_and_unscale_.default"
    nodes = [node("o", target, [[{"node": "g"}], "%f", "%s"])]
    values = run([*(given(n, t) for n, t in inputs.items()), *nodes], inputs)
    assert values["g"][0] == 0.5 and values["f"] == 1


def test_a_kernel_of_which_nothing_is_known_may_have_written_anything() -> None:
    nodes = [given("x", X), node("k", "mylib.update.default", ["%x"])]
    nodes.append(node("y", "aten.add.Tensor", ["%x", 1], X))
    assert bool(run(nodes, {"x": X})["y"].isnan().all())


def test_a_view_that_had_to_be_copied_is_not_written() -> None:
    """The program's tensor lay in memory as the view needs it; the one drawn here does not."""
    nodes = [
        given("x", X),
        node("t", "aten.t.default", ["%x"], X.T),
        node("v", "aten.view.default", ["%t", [24]], X.reshape(24)),
        node("y", "aten.add.Tensor", ["%v", 1], X.reshape(24)),
    ]
    assert same(run(nodes, {"x": X})["y"], X.T.reshape(24) + 1)
    for of in ("%v", "%x", "%t"):
        like = X.reshape(24) if of == "%v" else X.T if of == "%t" else X
        with pytest.raises(NotExecuted, match="lies otherwise"):
            run([*nodes, node("w", "aten.zero_.default", [of], like)], {"x": X})


def test_memory_that_nobody_has_written_keeps_its_strides() -> None:
    """What is empty like a transposed tensor lies as that does."""
    nodes = [
        given("x", X),
        node("t", "aten.t.default", ["%x"], X.T),
        node("e", "aten.empty_like.default", ["%t"], X.T),
        node("i", "aten.empty.memory_format", [[4]], torch.zeros(4, dtype=torch.int32),
             {"dtype": {"dtype": "torch.int32"}}),
    ]  # fmt: skip
    values = run(nodes, {"x": X})
    assert bool(values["e"].isnan().all()) and values["e"].stride() == (1, 6)
    assert values["i"].dtype == torch.int32


def test_a_mask_is_drawn_into_memory() -> None:
    nodes = [
        given("x", X),
        node("v", "aten.slice.Tensor", ["%x", 0, 0, 2], X[:2]),
        node("m", "aten.bernoulli_.float", ["%v", 0.5], X[:2]),
    ]
    values = run(nodes, {"x": X})
    assert same(values["x"], torch.cat([torch.ones_like(X[:2]), X[2:]]))
