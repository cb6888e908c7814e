"""Integers are computed in their own type: modulo their width, over ranks, too."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("torch")

import torch

from gg_datalog.replay.atoms import fresh
from gg_datalog.replay.calls import NotExecuted
from gg_datalog.replay.derived import difference
from gg_datalog.replay.documents import Documents
from gg_datalog.replay.draw import draw
from gg_datalog.replay.dtypes import as_dtype, dtype_of, is_integer, times
from gg_datalog.replay.execute import run_ranks
from gg_datalog.replay.shrink import Shrunk

from ..cli.build import graph, placeholder, returns
from .single import TABLE, given, keeps, node, run, same

WIDTHS = ("uint8", "int8", "int16", "int32", "int64")


def numbers(dtype: str) -> Any:
    """Both ends of a type, and what lies between."""
    kind = getattr(torch, dtype)
    info = torch.iinfo(kind)
    return torch.tensor([info.min, info.max, 1, 0, 77, info.max - 1], dtype=kind)


@pytest.mark.parametrize("dtype", WIDTHS)
@pytest.mark.parametrize(
    ("target", "args"),
    [
        ("add.Tensor", ["%x", "%y"]),
        ("sub.Tensor", ["%x", "%y"]),
        ("mul.Tensor", ["%x", "%y"]),
        ("neg.default", ["%x"]),
        ("bitwise_not.default", ["%x"]),
        ("bitwise_xor.Tensor", ["%x", "%y"]),
        ("__lshift__.Scalar", ["%x", 1]),
        ("lt.Tensor", ["%x", "%y"]),
        ("sum.default", ["%x"]),
        ("cumsum.default", ["%x", 0]),
        ("abs.default", ["%x"]),
        ("floor_divide.default", ["%x", 3]),
        ("remainder.Scalar", ["%x", 3]),
        ("add_.Tensor", ["%x", 100]),
    ],
)
def test_what_torch_makes_of_integers(dtype: str, target: str, args: list[Any]) -> None:
    inputs = {"x": numbers(dtype), "y": numbers(dtype).flip(0)}
    kernel, overload = target.split(".")
    real = {n: t.clone() for n, t in inputs.items()}
    told = [real[a[1:]] if isinstance(a, str) else a for a in args]
    expected = getattr(getattr(torch.ops.aten, kernel), overload)(*told)
    nodes = [given(n, t) for n, t in inputs.items()]
    values = run([*nodes, node("z", f"aten.{target}", args, expected)], inputs)
    assert same(values["z"], expected)


def test_a_cast_out_of_a_type_is_of_the_number() -> None:
    """(a - b).float() of uint8 is not a.float() - b.float()."""
    a, b = torch.tensor([3], dtype=torch.uint8), torch.tensor([5], dtype=torch.uint8)
    nodes = [
        given("a", a),
        given("b", b),
        node("d", "aten.sub.Tensor", ["%a", "%b"], a),
        {**node("f", "aten._to_copy.default", ["%d"], a.double(), {"dtype": {"dtype": "torch.float32"}}),
         "dtype": "float32"},
    ]  # fmt: skip
    assert run(nodes, {"a": a, "b": b})["f"].tolist() == [254.0]


@pytest.mark.parametrize("dtype", ["uint16", "uint32"])
def test_unsigned_types_that_torch_hardly_computes_with(dtype: str) -> None:
    kind = getattr(torch, dtype)
    top = 2 ** (8 * kind.itemsize) - 1
    x, y = (torch.tensor(v, dtype=torch.int64).to(kind) for v in ([top, 5], [2, 7]))
    for target, expected in [
        ("add.Tensor", [1, 12]),
        ("sub.Tensor", [top - 2, top - 1]),
        ("mul.Tensor", [top - 1, 35]),
        ("maximum.default", [top, 7]),
        ("add_.Tensor", [1, 12]),
    ]:
        nodes = [given("x", x), given("y", y)]
        values = run([*nodes, node("z", f"aten.{target}", ["%x", "%y"], x)], {"x": x, "y": y})
        assert values["z"].dtype == kind and values["z"].tolist() == expected, target
        if target.endswith("_.Tensor"):
            assert values["x"].tolist() == expected


@pytest.mark.parametrize("dtype", ["uint8", "int32", "bool"])
def test_what_ranks_add_up_stays_in_its_type(dtype: str) -> None:
    kind = getattr(torch, dtype)
    parts = [torch.tensor(v).to(kind) for v in ([200, 1, 0], [100, 1, 0])]
    nodes = [
        {**placeholder("x", [3]), "dtype": dtype},
        node("y", "_c10d_functional.all_reduce.default", ["%x", "sum", "0"], parts[0]),
    ]
    for one in nodes:
        one.setdefault("args", [])
        one.setdefault("kwargs", {})
    groups = [{"ranks": [0, 1], "names": {"0": "0", "1": "0"}}]
    graphs = {r: graph(*nodes, returns()) for r in (0, 1)}
    done = run_ranks(graphs, groups, TABLE, {r: {"x": parts[r]} for r in (0, 1)}, keeps)
    expected = {"uint8": [44, 2, 0], "int32": [300, 2, 0], "bool": [True, True, False]}[dtype]
    for values in done.values():
        assert values["y"].dtype == kind and values["y"].tolist() == expected


def test_an_average_of_integers_is_none() -> None:
    x = torch.tensor([1, 2], dtype=torch.int32)
    nodes = [given("x", x), node("y", "_c10d_functional.all_reduce.default", ["%x", "avg", "0"], x)]
    groups = [{"ranks": [0], "names": {"0": "0"}}]
    document = graph(*[{"args": [], "kwargs": {}, **n} for n in nodes], returns())
    with pytest.raises(NotExecuted, match="avg"):
        run_ranks({0: document}, groups, TABLE, {0: {"x": x}}, keeps)


# ---- HLO
@pytest.mark.parametrize(
    ("name", "args", "dtype", "expected"),
    [
        ("population_count", [[-1, 5]], "int8", [8, 2]),
        ("count_leading_zeros", [[0, 1]], "int16", [16, 15]),
        ("shift_left", [[1, 3], [7, 9]], "uint8", [128, 0]),
        ("shift_right_logical", [[-1, -128], [1, 8]], "int8", [127, 0]),
        ("shift_right_arithmetic", [[-8, -1], [1, 40]], "int32", [-4, -1]),
        ("divide_integer", [[-7, 7], [2, 0]], "int32", [-3, -1]),
        ("remainder_integer", [[-7, 7], [2, 0]], "int32", [-1, 7]),
        ("power_integer", [[3, 2, 2, -1], [5, 8, -1, -3]], "uint8", [243, 0, 0, 255]),
    ],
)
def test_integers_of_hlo(name: str, args: list[Any], dtype: str, expected: list[int]) -> None:
    inputs = {f"x{i}": torch.tensor(a).to(getattr(torch, dtype)) for i, a in enumerate(args)}
    if name == "power_integer":  # exponents below 0 need a sign
        inputs["x0"], dtype = torch.tensor(args[0], dtype=torch.int16), "int16"
        inputs["x1"] = torch.tensor(args[1], dtype=torch.int16)
        expected = [243, 256, 0, -1]
    like = inputs["x0"]
    nodes = [given(n, t) for n, t in inputs.items()]
    last = node("y", f"hlo.{name}", [f"%{n}" for n in inputs], like, {"width": dtype})
    assert run([*nodes, last], inputs)["y"].tolist() == expected


def test_the_order_of_all_numbers() -> None:
    x = torch.tensor([-0.0, 0.0, 1.0, float("-inf")], dtype=torch.float64)
    y = torch.tensor([0.0, 0.0, 2.0, -1.0], dtype=torch.float64)
    like = torch.ones(4, dtype=torch.bool)
    nodes = [given("x", x), given("y", y), node("z", "hlo.compare_total_lt", ["%x", "%y"], like)]
    assert run(nodes, {"x": x, "y": y})["z"].tolist() == [True, False, True, True]


# ---- what is drawn, and how numbers are compared
def drawn(dtype: str, rows: int | None = None) -> Any:
    """A large input of a type."""
    one = graph({**placeholder("i", [4000]), "dtype": dtype}, returns("i"))
    case = Documents(one, {}, {"seq": [], "dist": []}, [], [])
    fitted = Shrunk(case, 0, 0, {} if rows is None else {"i": rows}, {}, {}, {})
    return draw(fitted, case, 0, 1.0)[0]["i"]


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16"])
def test_narrow_integers_are_drawn_from_their_whole_width(dtype: str) -> None:
    found, info = drawn(dtype), torch.iinfo(getattr(torch, dtype))
    assert found.dtype == getattr(torch, dtype)
    room = info.max - info.min
    assert found.min() < info.min + room // 50 and found.max() > info.max - room // 50


def test_integers_that_look_something_up_are_rows_of_it() -> None:
    found = drawn("int8", 5)
    assert sorted(set(found.tolist())) == [0, 1, 2, 3, 4]
    assert int(drawn("uint8", 1000).to(torch.int64).max()) == 255


def test_types_by_name() -> None:
    assert dtype_of("torch.bfloat16") == dtype_of("float8_e4m3fn") == torch.float64
    assert dtype_of("uint32") == torch.uint32 and dtype_of("torch.int8") == torch.int8
    assert dtype_of("long") == torch.int64 and dtype_of("bool") == torch.bool
    assert dtype_of("complex64") == torch.complex128 and dtype_of("") is None
    assert is_integer(torch.uint16) and not is_integer(torch.bool)


def test_conversions_cut_and_turn_around() -> None:
    x = torch.tensor([1.9, -1.9, 300.0, float("nan")], dtype=torch.float64)
    assert as_dtype(x, torch.uint8).tolist() == [1, 255, 44, 0]
    assert times(torch.tensor([100], dtype=torch.int8), 2.0).tolist() == [-56]
    assert times(torch.tensor([100], dtype=torch.int8), 0.5).tolist() == [50.0]


def test_large_integers_differ_by_one() -> None:
    """As floats they would be equal, or as good as."""
    a = torch.tensor([2**60, 0])
    found = difference(a, a + 1)
    assert found.fits is False and found.max_abs is not None and found.max_abs >= 1
    assert difference(a, a.clone()).fits is True
    assert difference(torch.tensor([True]), torch.tensor([False])).fits is False
    assert fresh(1) == []
