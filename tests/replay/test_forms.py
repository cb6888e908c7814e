"""Positional, keyword and defaulted forms of a call are one: each is run, and gives what torch gives."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("torch")

import torch

from gg_datalog.extract import signature as schemas
from gg_datalog.replay.calls import NotExecuted

from .single import given as placed
from .single import literal, node, run, same

INF = float("inf")


def floats(*shape: int, seed: int = 0) -> Any:
    """Some numbers."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def whole(*shape: int, high: int = 3) -> Any:
    """Some positions."""
    generator = torch.Generator().manual_seed(1)
    return torch.randint(0, high, shape, generator=generator)


A, B, W, V = floats(3, 4), floats(3, 4, seed=1), floats(4, 5, seed=2), floats(4, seed=3)
IMAGE, MASK = floats(2, 3, 5, 5), floats(3, 4) > 0
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("aten.add.Tensor", {"self": A, "other": B, "alpha": 3}),
    ("aten.add.Tensor", {"self": A, "other": 2.5}),
    ("aten.sub.Tensor", {"self": A, "other": B}),
    ("aten.rsub.Scalar", {"self": A, "other": 2, "alpha": 3}),
    ("aten.mul.Tensor", {"self": A, "other": B}),
    ("aten.div.Tensor_mode", {"self": A, "other": B, "rounding_mode": "floor"}),
    ("aten.pow.Tensor_Scalar", {"self": A.abs(), "exponent": 0.5}),
    ("aten.pow.Scalar", {"self": 2, "exponent": A}),
    ("aten.addmm.default", {"self": floats(5), "mat1": A, "mat2": W, "beta": 2, "alpha": 0.5}),
    ("aten.addmm.default", {"self": floats(5), "mat1": A, "mat2": W}),
    ("aten.baddbmm.default", {"self": floats(2, 3, 5), "batch1": floats(2, 3, 4),
                              "batch2": floats(2, 4, 5), "alpha": 2}),
    ("aten.linear.default", {"input": A, "weight": W.T, "bias": floats(5)}),
    ("aten.mm.default", {"self": A, "mat2": W}),
    ("aten.softmax.int", {"self": A, "dim": 1}),
    ("aten._softmax.default", {"self": A, "dim": -1, "half_to_float": False}),
    ("aten._log_softmax.default", {"self": A, "dim": 0, "half_to_float": False}),
    ("aten.sum.dim_IntList", {"self": A, "dim": [0], "keepdim": True}),
    ("aten.sum.dim_IntList", {"self": A, "dim": None}),
    ("aten.mean.dim", {"self": A, "dim": [1]}),
    ("aten.var.correction", {"self": A, "dim": [1], "correction": 0}),
    ("aten.max.dim", {"self": A, "dim": 1, "keepdim": True}),
    ("aten.argmax.default", {"self": A}),
    ("aten.topk.default", {"self": A, "k": 2, "largest": False}),
    ("aten.sort.stable", {"self": A, "stable": True, "dim": 0, "descending": True}),
    ("aten.cumsum.default", {"self": A, "dim": 1}),
    ("aten.slice.Tensor", {"self": A, "dim": 1, "start": 1, "end": 9223372036854775807, "step": 2}),
    ("aten.slice.Tensor", {"self": A}),
    ("aten.narrow.default", {"self": A, "dim": 1, "start": 1, "length": 2}),
    ("aten.select.int", {"self": A, "dim": 0, "index": -1}),
    ("aten.split.Tensor", {"self": A, "split_size": 2, "dim": 1}),
    ("aten.split_with_sizes.default", {"self": A, "split_sizes": [1, 3], "dim": 1}),
    ("aten.chunk.default", {"self": A, "chunks": 2}),
    ("aten.cat.default", {"tensors": [A, B], "dim": 1}),
    ("aten.stack.default", {"tensors": [A, B]}),
    ("aten.transpose.int", {"self": A, "dim0": 0, "dim1": 1}),
    ("aten.permute.default", {"self": IMAGE, "dims": [0, 2, 3, 1]}),
    ("aten.expand.default", {"self": V, "size": [3, -1]}),
    ("aten.repeat.default", {"self": A, "repeats": [2, 1]}),
    ("aten.view.default", {"self": A, "size": [2, -1]}),
    ("aten.flatten.using_ints", {"self": IMAGE, "start_dim": 1, "end_dim": -2}),
    ("aten.unsqueeze.default", {"self": A, "dim": 1}),
    ("aten.index_select.default", {"self": A, "dim": 0, "index": whole(4)}),
    ("aten.gather.default", {"self": A, "dim": 0, "index": whole(2, 4)}),
    ("aten.scatter_add.default", {"self": A, "dim": 0, "index": whole(2, 4), "src": B}),
    ("aten.index.Tensor", {"self": A, "indices": [None, whole(5)]}),
    ("aten.index_put.default", {"self": A, "indices": [whole(5)], "values": V, "accumulate": True}),
    ("aten.embedding.default", {"weight": W, "indices": whole(2, 3)}),
    ("aten.embedding_dense_backward.default", {"grad_output": floats(2, 3, 5),
        "indices": whole(2, 3), "num_weights": 6, "padding_idx": -1, "scale_grad_by_freq": False}),
    ("aten.where.self", {"condition": MASK, "self": A, "other": B}),
    ("aten.masked_fill.Scalar", {"self": A, "mask": MASK, "value": -INF}),
    ("aten.clamp.default", {"self": A, "min": None, "max": 0.5}),
    ("aten.native_layer_norm.default", {"input": A, "normalized_shape": [4], "weight": V,
                                        "bias": None, "eps": 1e-3}),
    ("aten.layer_norm.default", {"input": A, "normalized_shape": [3, 4]}),
    ("aten.native_group_norm.default", {"input": IMAGE, "weight": None, "bias": None, "N": 2,
                                        "C": 3, "HxW": 25, "group": 3, "eps": 1e-5}),
    ("aten.gelu.default", {"self": A, "approximate": "tanh"}),
    ("aten.gelu.default", {"self": A}),
    ("aten.hardtanh.default", {"self": A, "min_val": -0.5}),
    ("aten.leaky_relu.default", {"self": A}),
    ("aten.nll_loss_forward.default", {"self": A, "target": whole(3), "weight": None,
                                       "reduction": 1, "ignore_index": 1}),
    ("aten.cross_entropy_loss.default", {"self": A, "target": whole(3), "label_smoothing": 0.1}),
    ("aten.mse_loss.default", {"self": A, "target": B, "reduction": 2}),
    ("aten.scaled_dot_product_attention.default", {"query": floats(1, 2, 3, 4),
        "key": floats(1, 2, 3, 4, seed=1), "value": floats(1, 2, 3, 4, seed=2),
        "is_causal": True, "scale": 0.3}),
    ("aten.convolution.default", {"input": IMAGE, "weight": floats(4, 3, 3, 3), "bias": None,
        "stride": [1, 1], "padding": [1, 1], "dilation": [1, 1], "transposed": False,
        "output_padding": [0, 0], "groups": 1}),
    ("aten.full.default", {"size": [2, 3], "fill_value": 1.5}),
    ("aten.full_like.default", {"self": A, "fill_value": -2}),
    ("aten.new_zeros.default", {"self": A, "size": [2]}),
    ("aten.arange.start_step", {"start": 1, "end": 9, "step": 3}),
    ("aten.arange.default", {"end": 4}),
    ("aten.triu.default", {"self": A, "diagonal": 1}),
    ("aten.roll.default", {"self": A, "shifts": [1], "dims": [0]}),
    ("aten.constant_pad_nd.default", {"self": A, "pad": [1, 2], "value": 7.0}),
    ("aten.isclose.default", {"self": A, "other": A + 1e-9}),
    ("aten._to_copy.default", {"self": A, "dtype": torch.int32}),
    ("aten.to.dtype", {"self": A, "dtype": torch.bool}),
    ("prims.convert_element_type.default", {"a": whole(3), "dtype": torch.float64}),
]  # fmt: skip


def forms(target: str, given: dict[str, Any]) -> dict[str, tuple[list[Any], dict[str, Any]]]:
    """As few keywords as possible, keywords only, and all arguments with their defaults."""
    found = schemas.signature(target)
    assert found is not None
    places = [p.name for p in found.parameters if not p.keyword]
    count = next((i for i, n in enumerate(places) if n not in given), len(places))
    rest = {k: v for k, v in given.items() if k not in places[:count]}
    return {
        "positional": ([given[n] for n in places[:count]], rest),
        "keyword": ([], given),
        "all": ([], {**found.bind([], given)}),
    }


@pytest.mark.parametrize("form", ["positional", "keyword", "all"])
@pytest.mark.parametrize(
    ("target", "given"), CALLS, ids=[f"{i}-{t}" for i, (t, _) in enumerate(CALLS)]
)
def test_every_form_is_what_torch_makes_of_it(
    target: str, given: dict[str, Any], form: str
) -> None:
    name, _, overload = target.rpartition(".")
    space, _, kernel = name.partition(".")
    operator = getattr(getattr(getattr(torch.ops, space), kernel), overload)
    args, kwargs = forms(target, given)[form]
    listed, rest = forms(target, given)["positional"]
    expected = operator(*listed, **rest)
    if isinstance(expected, torch.Tensor) and expected.dtype == torch.float32:
        expected = expected.double()  # factories: every float is float64 here
    inputs: dict[str, Any] = {}
    told = [literal(a, inputs) for a in args]
    named = {k: literal(v, inputs) for k, v in kwargs.items()}
    nodes = [node("y", target, told, expected, named)]
    values = run([*(placed(n, t) for n, t in inputs.items()), *nodes], inputs)
    assert same(values["y"], expected), f"{values['y']} is not {expected}"


def test_an_overload_that_is_not_told_is_found() -> None:
    x = floats(3, 4)
    nodes = [
        placed("x", x),
        node("a", "aten.sum", ["%x", [1]]),
        node("b", "aten.add", ["%x", "%x"], None, {"alpha": 2}),
        node("c", "aten.relu", [], None, {"self": "%x"}),
    ]
    values = run(nodes, {"x": x})
    for name, expected in (("a", x.sum(1)), ("b", 3 * x), ("c", x.relu())):
        assert same(values[name], expected), name


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        ((["%x", "%x", "%x"]), {}, "takes 2 arguments by position, 3 are given"),
        ((["%x"]), {}, "argument `mat2` is missing"),
        ((["%x", "%x"]), {"alpha": 2}, "no argument `alpha`"),
        ((["%x", "%x"]), {"self": 2}, "`self` is given twice"),
    ],
)
def test_what_does_not_bind_is_an_error_with_its_name(args: Any, kwargs: Any, message: str) -> None:
    x = floats(3, 3)
    with pytest.raises(NotExecuted, match=message) as failed:
        run([placed("x", x), node("y", "aten.mm.default", args, x, kwargs)], {"x": x})
    assert "`y` (aten.mm.default)" in str(failed.value)
