"""Types that decide what an operator computes: of lists, and of constants."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from .build import Cli, Node, graph, placeholder, returns, write_case

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
