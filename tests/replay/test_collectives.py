"""Collectives in all forms: by place, by keyword, in place, with an output, of lists, of autograd."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

pytest.importorskip("torch")

import torch

from gg_datalog.replay.calls import NotExecuted
from gg_datalog.replay.collectives import Mismatch, reduction_of
from gg_datalog.replay.execute import run_ranks

from ..cli.build import graph, returns
from .single import TABLE, given, keeps, node, same

GROUPS = [{"ranks": [0, 1], "names": {"0": "0", "1": "0"}}]
C10D, AUTOGRAD = "_c10d_functional.", "_c10d_functional_autograd."
A = torch.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=torch.float64)
B = torch.tensor([[10.0, -20.0], [30.0, 40.0]], dtype=torch.float64)
TOGETHER = {
    "sum": A + B, "avg": (A + B) / 2, "max": torch.maximum(A, B), "min": torch.minimum(A, B),
    "product": A * B,
}  # fmt: skip


def ranks(
    nodes: Sequence[Any] | Mapping[int, Sequence[Any]], inputs: Any = None
) -> list[dict[str, Any]]:
    """The values of two ranks that hold A and B."""
    given_ = inputs or {0: {"x": A}, 1: {"x": B}}
    each = nodes if isinstance(nodes, Mapping) else dict.fromkeys((0, 1), nodes)
    graphs = {}
    for r in (0, 1):
        listed = [*(given(n, t) for n, t in given_[r].items()), *each[r]]
        graphs[r] = graph(*({"args": [], "kwargs": {}, **n} for n in listed), returns())
    return list(run_ranks(graphs, GROUPS, TABLE, given_, keeps).values())


FORMS = [
    lambda op: (["%x", op, "0"], {}),
    lambda op: (["%x", op], {"group_name": "0"}),
    lambda op: (["%x"], {"reduce_op": op, "group_name": "0"}),
    lambda op: ([], {"input": "%x", "reduce_op": op, "group_name": "0"}),
]


@pytest.mark.parametrize("op", TOGETHER)
@pytest.mark.parametrize("form", range(len(FORMS)))
def test_every_reduction_in_every_form(op: str, form: int) -> None:
    args, kwargs = FORMS[form](op)
    for values in ranks([node("y", C10D + "all_reduce.default", args, A, kwargs)]):
        assert same(values["y"], TOGETHER[op])


@pytest.mark.parametrize("op", TOGETHER)
@pytest.mark.parametrize(
    "form",
    [
        (["%x"], {"reduce_op": "", "group_size": 2, "group_name": "0"}),
        (["%x", "", 2, "0"], {}),
        (["%x", ""], {"group_name": "0", "group_size": 2}),
    ],
)
@pytest.mark.parametrize("space", [C10D, AUTOGRAD])
def test_reduce_scatter(op: str, form: Any, space: str) -> None:
    args = [op if a == "" else a for a in form[0]]
    kwargs = {k: op if v == "" else v for k, v in form[1].items()}
    made = ranks([node("y", space + "reduce_scatter_tensor.default", args, A[:1], kwargs)])
    for values, row in zip(made, TOGETHER[op].split(1), strict=True):
        assert same(values["y"], row)


@pytest.mark.parametrize("space", [C10D, AUTOGRAD])
@pytest.mark.parametrize(
    "form", [(["%x", 2, "0"], {}), (["%x"], {"group_size": 2, "group_name": "0"})]
)
def test_all_gather(space: str, form: Any) -> None:
    whole = torch.cat([A, B])
    for values in ranks(
        [node("y", space + "all_gather_into_tensor.default", form[0], whole, form[1])]
    ):
        assert same(values["y"], whole)


def test_the_same_in_two_forms_is_one_collective() -> None:
    first = node("y", C10D + "all_reduce.default", ["%x", "sum", "0"], A)
    other = node("z", AUTOGRAD + "all_reduce.default", [], A, FORMS[3]("sum")[1])
    in_place = node("z", C10D + "all_reduce_.default", ["%x", "sum", "0"], A)
    assert same(ranks({0: [first], 1: [in_place]})[0]["y"], A + B)
    with pytest.raises(Mismatch, match="differ"):
        ranks({0: [first], 1: [node("z", C10D + "all_reduce.default", ["%x", "max", "0"], A)]})
    with pytest.raises(NotExecuted, match="all_reduce"):
        ranks({0: [first], 1: [other]})  # torch has no such operator


def test_all_to_all_of_autograd() -> None:
    sizes = {0: ([1, 1], [1, 1]), 1: ([1, 1], [1, 1])}
    for form in ("place", "keyword"):
        nodes = {}
        for r, (out, into) in sizes.items():
            args: list[Any] = ["%x", out, into, "0"]
            kwargs: dict[str, Any] = {}
            if form == "keyword":
                kwargs = {"input_split_sizes": into, "output_split_sizes": out, "group_name": "0"}
                args = ["%x"]
            nodes[r] = [node("y", AUTOGRAD + "all_to_all_single.default", args, A, kwargs)]
        first, second = ranks(nodes)
        assert same(first["y"], torch.cat([A[:1], B[:1]]))
        assert same(second["y"], torch.cat([A[1:], B[1:]]))


def test_in_place_every_view_of_the_memory_sees_it() -> None:
    nodes = [
        node("v", "aten.t.default", ["%x"], A.T),
        node(
            "y", C10D + "all_reduce_.default", ["%v"], A.T, {"reduce_op": "max", "group_name": "0"}
        ),
        node("w", C10D + "wait_tensor.default", ["%y"], A.T),
        node("z", "aten.mul_.Tensor", ["%w", 2.0], A.T),
    ]
    for values in ranks(nodes):
        assert same(values["x"], 2 * TOGETHER["max"])
    nodes = [node("y", C10D + "broadcast_.default", ["%x"], A, {"src": 1, "group_name": "0"})]
    for values in ranks(nodes):
        assert same(values["x"], B)


def test_an_output_that_is_given() -> None:
    nodes = [
        node("o", "aten.new_zeros.default", ["%x", [4, 2]], torch.cat([A, B])),
        node("v", "aten.slice.Tensor", ["%o", 0, 0, 2], A),
        node("y", C10D + "all_gather_into_tensor_out.default", ["%x", 2, "0"], torch.cat([A, B]),
             {"out": "%o"}),
    ]  # fmt: skip
    for values in ranks(nodes):
        assert same(values["o"], torch.cat([A, B])) and same(values["v"], A)
    nodes = [
        node("o", "aten.new_zeros.default", ["%x", [1, 2]], A[:1]),
        node("y", C10D + "reduce_scatter_tensor_out.default", ["%x", "avg", 2, "0"], A[:1],
             {"out": "%o"}),
    ]  # fmt: skip
    for values, row in zip(ranks(nodes), TOGETHER["avg"].split(1), strict=True):
        assert same(values["o"], row)


def test_lists_of_tensors() -> None:
    pair = [{"node": "x"}, {"node": "c"}]
    copy = node("c", "aten.mul.Tensor", ["%x", 2.0], A)
    whole = node("y", C10D + "all_reduce_coalesced.default", [pair, "max", "0"])
    written = node("y", C10D + "all_reduce_coalesced_.default", [pair], None,
                   {"reduce_op": "product", "group_name": "0"})  # fmt: skip
    for values in ranks([copy, whole]):
        assert same(values["y"], [TOGETHER["max"], 2 * TOGETHER["max"]])
        assert not same(values["x"], TOGETHER["max"])
    for values in ranks([copy, written]):
        assert same(values["x"], A * B) and same(values["c"], 4 * A * B)
    gathered = node("y", C10D + "all_gather_into_tensor_coalesced.default", [pair, 2, "0"])
    for values in ranks([copy, gathered]):
        assert same(values["y"], [torch.cat([A, B]), 2 * torch.cat([A, B])])
    shares = node("y", C10D + "reduce_scatter_tensor_coalesced.default", [pair, "min", 2, "0"])
    for values, row in zip(ranks([copy, shares]), TOGETHER["min"].split(1), strict=True):
        assert same(values["y"], [row, 2 * row])


def test_a_collective_that_lists_its_ranks() -> None:
    for args, kwargs in [
        (["%x", "max", "", [0, 1], 2], {}),
        (["%x"], {"reduceOp": "max", "tag": "", "ranks": [0, 1], "group_size": 2}),
    ]:
        for values in ranks([node("y", "c10d_functional.all_reduce.default", args, A, kwargs)]):
            assert same(values["y"], TOGETHER["max"])


def test_the_wrapper_of_autograd_is_its_operand() -> None:
    nodes = [
        node("y", C10D + "all_reduce.default", ["%x", "sum", "0"], A),
        node("z", C10D + "_wrap_tensor_autograd.default", ["%y"], A),
    ]
    for values in ranks(nodes):
        assert same(values["z"], A + B)


# ---- transfers
def test_what_is_received_lies_in_the_memory_that_is_given() -> None:
    send = [
        node("s", C10D + "isend.default", ["%x"], A, {"dst": 1, "tag": 0, "group_name": "0"}),
        node("z", "aten.zero_.default", ["%x"], A),  # what is on its way stays what it was
    ]
    receive = [
        node("v", "aten.t.default", ["%x"], A.T),
        node("r", C10D + "irecv.default", ["%v", 0, 0, "0"], A.T),
        node("w", "aten.add_.Tensor", ["%r", 1.0], A.T),
    ]
    _, values = ranks({0: send, 1: receive})
    assert same(values["x"], A.T + 1)


@pytest.mark.parametrize("keyword", [False, True])
def test_transfers_in_one_batch(keyword: bool) -> None:
    nodes = {}
    for r in (0, 1):
        parts = {"op_list": ["isend", "irecv"], "peer_list": [1 - r, 1 - r], "tag_list": [0, 0]}
        parts |= {"tensors": [{"node": "x"}, {"node": "b"}], "group_name": "0"}
        args, kwargs = ([], parts) if keyword else (list(parts.values()), {})
        nodes[r] = [
            node("b", "aten.empty_like.default", ["%x"], A),
            node("p", C10D + "batch_p2p_ops.default", args, None, kwargs),
        ]
    first, second = ranks(nodes)
    assert same(first["b"], B) and same(second["b"], A)
    assert same(first["p"][1], B)


# ---- spellings
@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("sum", "sum"), ("SUM", "sum"), ("avg", "avg"), ("ReduceOp.AVG", "avg"),
        ("RedOpType.MAX", "max"), ("<RedOpType.PRODUCT: 2>", "product"), ("prod", "product"),
        ("torch.distributed.ReduceOp.MIN", "min"), ("band", "band"), ("BXOR", "bxor"),
        ("premul_sum(0.5)", "premul_sum:0.5"), ("premul_sum: 2", "premul_sum:2"),
    ],
)  # fmt: skip
def test_names_of_reductions(text: str, name: str) -> None:
    assert reduction_of({"reduce_op": text}) == name


def test_a_factor_before_the_sum() -> None:
    for values in ranks([node("y", C10D + "all_reduce.default", ["%x", "premul_sum:0.5", "0"], A)]):
        assert same(values["y"], (A + B) / 2)
    for unknown in ("premul_sum", "unused", "band"):
        with pytest.raises(NotExecuted, match=unknown):
            ranks([node("y", C10D + "all_reduce.default", ["%x", unknown, "0"], A)])


def test_bits_of_integers() -> None:
    a, b = torch.tensor([12, 10]), torch.tensor([10, 3])
    for op, expected in (("band", a & b), ("bor", a | b), ("bxor", a ^ b)):
        nodes = [node("y", C10D + "all_reduce.default", ["%x", op, "0"], a)]
        for values in ranks(nodes, {0: {"x": a}, 1: {"x": b}}):
            assert same(values["y"], expected)
