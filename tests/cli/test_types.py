"""Types that decide what an operator computes: of lists, and of constants."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ..command import Cli
from .build import Node, graph, placeholder, returns, write_case

ITEM = "<built-in function getitem>"


def node(name: str, target: str, args: list[Any], dtype: str, kwargs: Any = None) -> Node:
    """An operator as it is written, on four elements."""
    told = {"name": name, "op": "call_function", "target": target, "args": args}
    return {**told, "kwargs": kwargs or {}, "shape": [4], "dtype": dtype}


def cast(of_: str, name: str) -> Node:
    """In 64 bits."""
    given = {"dtype": {"dtype": "int64"}}
    return node(name, "aten._to_copy.default", [of(of_)], "int64", given)


def of(name: str) -> dict[str, str]:
    """A reference."""
    return {"node": name}


def verdict(cli: Cli, folder: Path, seq: list[Node], dist: list[Node], source: str) -> str:
    """What is said of a pair of which the rank has the input as it is."""
    files = {
        "seq": graph(*seq, returns(seq[-1]["name"])),
        "dist.r0": graph(*dist, returns(dist[-1]["name"])),
        "relations": [{"seq": source, "rank": 0, "dist": source}],
        "outputs": [{"seq": seq[-1]["name"], "dist": {"0": dist[-1]["name"]}}],
    }
    case = write_case(folder / "case", files)
    return str(cli("verify", case, "--format", "json").report["verdict"])


@pytest.mark.parametrize("first", ["power", "cast"])
def test_powers_of_lists_in_two_widths(cli: Cli, tmp_path: Path, first: str) -> None:
    """A power that wraps in 32 bits is another one than in 64."""

    def program(order: str) -> list[Node]:
        x = {**placeholder("x", [4]), "dtype": "int32"}
        raised = "int32" if order == "power" else "int64"
        power = [
            {"name": "p", "op": "call_function", "target": "aten._foreach_pow.ScalarList",
             "args": [[of("x" if order == "power" else "c")], [8]], "kwargs": {}},
            node("y", ITEM, [of("p"), 0], raised),
        ]  # fmt: skip
        return [x, *power, cast("y", "z")] if order == "power" else [x, cast("x", "c"), *power]

    found = verdict(cli, tmp_path, program("power"), program(first), "x")
    assert (found == "refines") == (first == "power")


@pytest.mark.parametrize("cut", [False, True])
def test_a_clamp_into_a_narrower_type(cli: Cli, tmp_path: Path, cut: bool) -> None:
    """In place the larger bound is cut to 8 bits: 200 clamped to at least 1000 is 232."""
    x = {**placeholder("x", [4]), "dtype": "uint8"}
    low = {**placeholder("low", [4]), "dtype": "int32"}

    def program(target: str, dtype: str) -> list[Node]:
        return [x, low, node("y", target, [of("x"), of("low")], dtype), cast("y", "z")]

    wide = program("aten.clamp.Tensor", "int32")
    other = program("aten.clamp_.Tensor", "uint8") if cut else wide
    files = {
        "seq": graph(*wide, returns("z")),
        "dist.r0": graph(*other, returns("z")),
        "relations": [{"seq": n, "rank": 0, "dist": n} for n in ("x", "low")],
        "outputs": [{"seq": "z", "dist": {"0": "z"}}],
    }
    found = cli("verify", write_case(tmp_path / "case", files), "--format", "json").report
    assert (found["verdict"] == "refines") is not cut


@pytest.mark.parametrize("alpha", [2, 0.6])
def test_a_factor_that_is_cut(cli: Cli, tmp_path: Path, alpha: float) -> None:
    """torch cuts alpha to the type of an integer product: 0.6 is 0, and 2 is 2."""
    a = {**placeholder("a", [2, 2]), "dtype": "int64"}

    def product(name: str, target: str, args: list[Any], kwargs: Any) -> Node:
        return node(name, target, args, "int64", kwargs) | {"shape": [2, 2]}

    seq = [
        a, product("m", "aten.mm.default", [of("a")] * 2, {}),
        product("y", "aten.mul.Tensor", [of("m"), int(5 * alpha)], {}),
    ]  # fmt: skip
    dist = [
        a, product("m", "aten.addmm.default", [of("a")] * 3, {"beta": 0, "alpha": alpha}),
        product("y", "aten.mul.Tensor", [of("m"), 5], {}),
    ]  # fmt: skip
    assert (verdict(cli, tmp_path, seq, dist, "a") == "refines") is (alpha == 2)
