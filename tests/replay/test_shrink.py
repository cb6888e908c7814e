"""Smaller sizes: consistent over both graphs, small indeed, and judged as the captured ones are."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

import torch

from gg_datalog.extract import case_files
from gg_datalog.extract.table import load_table
from gg_datalog.replay import command
from gg_datalog.replay.documents import load
from gg_datalog.replay.draw import draw
from gg_datalog.replay.execute import run_ranks
from gg_datalog.replay.shrink import Shrunk, shrink

from ..cli.build import call, documents, graph, placeholder, returns, write_case
from ..numeric.pairs import SIZES, pair

TABLE = load_table()


def shrunk(folder: Path) -> Shrunk:
    """The case in small sizes."""
    return shrink(load(case_files(folder)), TABLE)


def alone(tmp_path: Path, *nodes: Any, groups: Any = (), returned: str = "y") -> dict[str, Any]:
    """A sequential graph and one rank that is the same: the nodes of the small graph by name, after
    it was executed, which checks every shape that it tells."""
    one = graph(*nodes, returns(returned))
    inputs = [n["name"] for n in nodes if n["op"] == "placeholder"]
    files = {
        "seq": one,
        "dist.r0": one,
        "groups": {"seq": list(groups), "dist": list(groups)},
        "relations": [{"seq": n, "rank": 0, "dist": n} for n in inputs],
        "outputs": [{"seq": returned, "dist": returned}],
    }
    fitted = shrunk(write_case(tmp_path / "case", files))
    executed(fitted)
    return {n["name"]: n for n in fitted.case.seq["nodes"]}


def executed(fitted: Shrunk) -> None:
    """Both sides, once."""
    case = fitted.case
    ours, theirs = draw(fitted, case, 0, 1.0)
    run_ranks({0: case.seq}, case.groups["seq"], TABLE, {0: ours}, ones)
    run_ranks(case.dist, case.groups["dist"], TABLE, theirs, ones)


def ones(_: int, __: str, ___: int, shape: Sequence[int], ____: float) -> Any:
    """A mask that keeps everything."""
    return torch.ones(list(shape), dtype=torch.bool)


def integers(name: str, shape: Sequence[int]) -> Any:
    """An input of ids."""
    return {**placeholder(name, shape), "dtype": "int64"}


# ---- arguments that are sizes or positions
def test_slice_bounds_follow(tmp_path: Path) -> None:
    found = alone(
        tmp_path,
        placeholder("x", [4096, 512]),
        call("a", "aten.slice.Tensor", ["%x", 0, 1024, 3072], [2048, 512]),
        call("b", "aten.slice.Tensor", ["%x", 0, -1024, 9223372036854775807], [1024, 512]),
        call("c", "aten.slice.Tensor", ["%x", 0, 0, 4096], [4096, 512]),
        call("d", "aten.narrow.default", ["%x", 0, 2048, 1024], [1024, 512]),
        {
            **call("e", "aten.slice.Tensor", ["%x", 0], [1024, 512]),
            "kwargs": {"start": 0, "end": 1024},
        },
        call("y", "aten.relu.default", ["%x"], [4096, 512]),
    )
    unit = found["b"]["shape"][0]
    assert found["x"]["shape"][0] == 4 * unit < 50
    assert found["a"]["args"][2:] == [unit, 3 * unit]
    assert found["b"]["args"][2:] == [3 * unit, 9223372036854775807]
    assert found["d"]["args"][2:] == [2 * unit, unit]
    assert found["e"]["kwargs"] == {"start": 0, "end": unit}


def test_a_slice_beside_a_good_place_stays_beside_it(tmp_path: Path) -> None:
    found = alone(
        tmp_path,
        placeholder("x", [4096, 512]),
        call("y", "aten.slice.Tensor", ["%x", 0, 1, 2049], [2048, 512]),
    )
    half = found["y"]["shape"][0]
    assert found["x"]["shape"][0] == 2 * half < 50
    assert found["y"]["args"][2:] == [1, half + 1]


def test_split_sizes_follow(tmp_path: Path) -> None:
    found = alone(
        tmp_path,
        placeholder("x", [1536, 512]),
        {**call("s", "aten.split_with_sizes.default", ["%x", [1024, 256, 256]], None)},
        call("a", "<built-in function getitem>", ["%s", 0], [1024, 512]),
        call("b", "<built-in function getitem>", ["%s", 2], [256, 512]),
        {**call("t", "aten.split.Tensor", ["%a", 512], None)},
        call("c", "<built-in function getitem>", ["%t", 1], [512, 512]),
        call("y", "aten.cat.default", [[{"node": "c"}, {"node": "b"}]], [768, 512]),
    )
    unit = found["b"]["shape"][0]
    assert found["s"]["args"][1] == [4 * unit, unit, unit]
    assert found["t"]["args"][1] == 2 * unit
    assert found["y"]["shape"][0] == 3 * unit < 50


def test_reshape_arguments_follow(tmp_path: Path) -> None:
    found = alone(
        tmp_path,
        placeholder("x", [8, 1024, 768]),
        call("a", "aten.view.default", ["%x", [8192, 768]], [8192, 768]),
        call("b", "aten.view.default", ["%a", [8, 1024, 12, 64]], [8, 1024, 12, 64]),
        call("c", "aten.permute.default", ["%b", [0, 2, 1, 3]], [8, 12, 1024, 64]),
        call("y", "aten.reshape.default", ["%c", [-1, 64]], [98304, 64]),
    )
    batch, heads, tokens, width = found["c"]["shape"]
    assert found["a"]["args"][1] == [batch * tokens, heads * width]
    assert found["b"]["args"][1] == [batch, tokens, heads, width]
    assert found["y"]["args"][1] == [-1, width]
    assert max(batch, heads, tokens, width) < 20


def test_other_sizes_in_arguments_follow(tmp_path: Path) -> None:
    found = alone(
        tmp_path,
        placeholder("x", [2048, 768]),
        placeholder("w", [768]),
        {**call("n", "aten.native_layer_norm.default", ["%x", [768], "%w", "%w", 1e-5], None)},
        call("h", "<built-in function getitem>", ["%n", 0], [2048, 768]),
        {**call("i", "aten.arange.default", [2048], [2048]), "dtype": "int64"},
        call("r", "aten.select.int", ["%h", 0, 2047], [768]),
        call("f", "aten.full.default", [[2048, 768], 1.0], [2048, 768]),
        call("z", "aten.new_zeros.default", ["%x", [2048]], [2048]),
        call("e", "aten.expand.default", ["%r", [2048, 768]], [2048, 768]),
        call("u", "aten.add.Tensor", ["%e", "%f"], [2048, 768]),
        call("v", "aten.index.Tensor", ["%u", [{"node": "i"}]], [2048, 768]),
        call("y", "aten.add.Tensor", ["%v", "%h"], [2048, 768]),
    )
    rows, width = found["x"]["shape"]
    assert found["n"]["args"][1] == [width]
    assert found["i"]["args"] == [rows]
    assert found["r"]["args"][1:] == [0, rows - 1]
    assert found["f"]["args"][0] == found["e"]["args"][1] == [rows, width]
    assert rows < 20 and width < 20


def test_bounds_of_masks_follow_the_vocabulary(tmp_path: Path) -> None:
    def test(name: str, kernel: str, of: str, bound: int) -> Any:
        return {**call(name, f"aten.{kernel}.Scalar", [of, bound], [64]), "dtype": "bool"}

    found = alone(
        tmp_path,
        integers("ids", [64]),
        placeholder("w", [24576, 512]),
        test("low", "lt", "%ids", 24576),
        test("high", "ge", "%ids", 49152),
        test("last", "le", "%ids", 49151),
        test("none", "eq", "%ids", -100),
        {**call("off", "aten.sub.Tensor", ["%ids", 24576], [64]), "dtype": "int64"},
        {**call("in", "aten.masked_fill.Scalar", ["%off", "%low", 0], [64]), "dtype": "int64"},
        {**call("at", "aten.masked_fill.Scalar", ["%in", "%high", 0], [64]), "dtype": "int64"},
        call("y", "aten.embedding.default", ["%w", "%at"], [64, 512]),
    )
    rows = found["w"]["shape"][0]
    assert rows < 50
    bounds = [found[n]["args"][1] for n in ("low", "high", "last", "off", "none")]
    assert bounds == [rows, 2 * rows, 2 * rows - 1, rows, -100]


def test_collectives_follow(tmp_path: Path) -> None:
    everyone = [{"ranks": [0], "names": {"0": "g"}}]
    c10d = "_c10d_functional."
    found = alone(
        tmp_path,
        placeholder("x", [2048, 768]),
        call("a", c10d + "all_gather_into_tensor.default", ["%x", 1, "g"], [2048, 768]),
        call("b", c10d + "reduce_scatter_tensor.default", ["%a", "sum", 1, "g"], [2048, 768]),
        call("y", c10d + "all_reduce.default", ["%b", "sum", "g"], [2048, 768]),
        groups=everyone,
    )
    assert found["y"]["shape"] == found["x"]["shape"] and max(found["x"]["shape"]) < 20


def keyed(name: str, target: str, shape: Any, **kwargs: Any) -> Any:
    """A call by keywords only; strings starting with ``%`` refer to nodes."""
    told = {k: {"node": v[1:]} if str(v).startswith("%") else v for k, v in kwargs.items()}
    return {**call(name, target, [], shape), "kwargs": told}


def test_keywords_follow_as_places_do(tmp_path: Path) -> None:
    found = alone(
        tmp_path,
        placeholder("x", [4096, 512]),
        placeholder("g", [64, 512]),
        integers("i", [64]),
        keyed("a", "aten.slice.Tensor", [2048, 512], self="%x", start=1024, end=3072),
        keyed("b", "aten.narrow.default", [1024, 512], self="%x", dim=0, start=2048, length=1024),
        keyed("c", "aten.select.int", [512], self="%x", dim=0, index=4095),
        keyed("d", "aten.split.Tensor", None, self="%x", split_size=1024),
        call("e", "<built-in function getitem>", ["%d", 3], [1024, 512]),
        keyed("f", "aten.expand.default", [4096, 512], self="%c", size=[4096, 512]),
        keyed("n", "aten.native_layer_norm.default", None, input="%x", normalized_shape=[512],
              weight=None, bias=None, eps=1e-5),
        call("h", "<built-in function getitem>", ["%n", 0], [4096, 512]),
        {**keyed("j", "aten.arange.start_step", [4096], start=0, end=4096), "dtype": "int64"},
        keyed("k", "aten.embedding_dense_backward.default", [6000, 512], grad_output="%g",
              indices="%i", num_weights=6000, padding_idx=-1, scale_grad_by_freq=False),
        keyed("y", "aten.add.Tensor", [4096, 512], self="%f", other="%h"),
    )  # fmt: skip
    unit, width = found["e"]["shape"]
    assert found["x"]["shape"] == [4 * unit, width] and max(4 * unit, width) < 50
    assert [found["a"]["kwargs"][k] for k in ("start", "end")] == [unit, 3 * unit]
    assert [found["b"]["kwargs"][k] for k in ("start", "length")] == [2 * unit, unit]
    assert found["c"]["kwargs"]["index"] == 4 * unit - 1
    assert found["d"]["kwargs"]["split_size"] == unit
    assert found["f"]["kwargs"]["size"] == [4 * unit, width]
    assert found["n"]["kwargs"]["normalized_shape"] == [width]
    assert found["j"]["kwargs"]["end"] == found["j"]["shape"][0] < 20
    assert found["k"]["kwargs"]["num_weights"] == found["k"]["shape"][0] < 20


def test_what_is_repeated_is_one_size_with_what_it_meets(tmp_path: Path) -> None:
    """Zeros, ones and what is expanded have no positions of their own."""
    found = alone(
        tmp_path,
        placeholder("x", [512, 768]),
        placeholder("w", [768]),
        {**call("m", "aten.lt.Scalar", ["%x", 0.0], [512, 768]), "dtype": "bool"},
        call("z", "aten.zeros.default", [[512, 768]], [512, 768]),
        call("o", "aten.ones_like.default", ["%x"], [512, 768]),
        call("f", "aten.full.default", [[512, 1], 2.0], [512, 1]),
        call("a", "aten.where.self", ["%m", "%z", "%x"], [512, 768]),
        call("b", "aten.mul.Tensor", ["%a", "%o"], [512, 768]),
        call("c", "aten.add.Tensor", ["%z", "%b"], [512, 768]),
        call("d", "aten.mul.Tensor", ["%c", "%f"], [512, 768]),
        call("e", "aten.expand.default", ["%w", [512, 768]], [512, 768]),
        call("g", "aten.add.Tensor", ["%e", "%f"], [512, 768]),
        call("n", "aten.neg.default", ["%g"], [512, 768]),
        call("y", "aten.add.Tensor", ["%d", "%n"], [512, 768]),
    )
    rows, width = found["y"]["shape"]
    assert (found["z"]["args"][0], found["f"]["args"][0]) == ([rows, width], [rows, 1])
    assert found["e"]["args"][1] == [rows, width] and rows < 20 and width < 20


def test_what_is_written_is_one_size_with_what_writes_it(tmp_path: Path) -> None:
    """Whatever becomes of a tensor afterwards, its dimensions stay those it was made with."""
    found = alone(
        tmp_path,
        placeholder("x", [512, 768]),
        call("e", "aten.empty.memory_format", [[768, 512]], [768, 512]),
        call("t", "aten.t.default", ["%e"], [512, 768]),
        call("c", "aten.copy_.default", ["%t", "%x"], [512, 768]),
        call("s", "aten.slice.Tensor", ["%e", 0, 0, 384], [384, 512]),
        call("a", "aten.add_.Tensor", ["%s", 1.0], [384, 512]),
        call("o", "aten.new_empty.default", ["%x", [768, 768]], [768, 768]),
        keyed("m", "aten.mm.out", [768, 768], self="%e", mat2="%x", out="%o"),
        call("q", "aten.relu.default", ["%e"], [768, 512]),
        call("y", "aten.mm.default", ["%o", "%q"], [768, 512]),
    )
    rows, width = found["x"]["shape"]
    assert found["e"]["args"][0] == [width, rows] and found["o"]["args"][1] == [width, width]
    assert found["s"]["args"][3] * 2 == width < 20 and rows < 20


def test_memory_keeps_its_order(tmp_path: Path) -> None:
    """Strides are those of the same order in small sizes."""
    found = alone(
        tmp_path,
        placeholder("x", [512, 768]),
        call("e", "aten.empty_strided.default", [[512, 768], [1, 512]], [512, 768]),
        call("c", "aten.copy_.default", ["%e", "%x"], [512, 768]),
        call("t", "aten.t.default", ["%e"], [768, 512]),
        call("y", "aten.view.default", ["%t", [393216]], [393216]),
    )
    rows, width = found["x"]["shape"]
    assert found["e"]["args"] == [[rows, width], [1, rows]]
    assert found["y"]["shape"] == [rows * width] and rows * width < 50


def test_how_many_are_chosen_stays(tmp_path: Path) -> None:
    """So does what they are chosen from; rows may be fewer."""
    found = alone(
        tmp_path,
        placeholder("x", [4096, 64]),
        call("t", "aten.topk.default", ["%x", 8], None),
        call("v", "<built-in function getitem>", ["%t", 0], [4096, 8]),
        call("y", "aten.relu.default", ["%v"], [4096, 8]),
    )
    assert found["y"]["shape"][1] == 8 and found["x"]["shape"][1] == 64
    assert found["x"]["shape"][0] < 20


def test_a_size_that_is_not_known_keeps_its_node(tmp_path: Path) -> None:
    found = alone(
        tmp_path,
        placeholder("x", [640, 480]),
        placeholder("z", [640, 480]),
        call("r", "aten.roll.default", ["%x", [3], [0]], [640, 480]),
        call("y", "aten.relu.default", ["%z"], [640, 480]),
    )
    assert found["x"]["shape"] == found["r"]["shape"] == [640, 480]
    assert max(found["y"]["shape"]) < 20


def test_parts_that_are_sent_follow(tmp_path: Path) -> None:
    everyone = [{"ranks": [0], "names": {"0": "g"}}]
    c10d = "_c10d_functional."
    found = alone(
        tmp_path,
        placeholder("x", [2048, 768]),
        keyed("a", c10d + "all_to_all_single.default", [2048, 768], input="%x",
              output_split_sizes=[2048], input_split_sizes=[2048], group_name="g"),
        keyed("b", c10d + "all_gather_into_tensor.default", [2048, 768], input="%a",
              group_size=1, group_name="g"),
        call("e", "aten.new_empty.default", ["%x", [2048, 768]], [2048, 768]),
        call("i", c10d + "isend.default", ["%b", 0, 0, "g"], [2048, 768]),
        call("r", c10d + "irecv.default", ["%e", 0, 0, "g"], [2048, 768]),
        call("y", "aten.add.Tensor", ["%r", "%e"], [2048, 768]),
        groups=everyone,
    )  # fmt: skip
    rows, width = found["x"]["shape"]
    assert found["a"]["kwargs"]["input_split_sizes"] == [rows] and rows < 20
    assert found["e"]["args"][1] == [rows, width]


# ---- what stays
def test_distinct_sizes_stay_distinct(tmp_path: Path) -> None:
    extents = [64, 96, 128, 512, 768, 1000, 3000, 5000]
    inputs = [placeholder(f"x{e}", [e, e]) for e in extents]
    found = alone(tmp_path, *inputs, call("y", "aten.relu.default", ["%x64"], [64, 64]))
    sizes = [found[f"x{e}"]["shape"] for e in extents]
    assert all(a == b for a, b in sizes)
    assert len({a for a, _ in sizes}) == len(extents)
    assert sizes == sorted(sizes)


def test_an_unknown_operator_keeps_its_sizes(tmp_path: Path) -> None:
    found = alone(
        tmp_path,
        placeholder("x", [640, 480]),
        placeholder("z", [640, 480]),
        call("u", "mylib.unknown.default", ["%x", 640], [480, 3]),
        call("v", "aten.relu.default", ["%z"], [640, 480]),
        call("y", "aten.mm.default", ["%x", "%u"], [640, 3]),
    )
    assert found["x"]["shape"] == [640, 480]
    assert found["u"]["shape"] == [480, 3] and found["u"]["args"][1] == 640
    assert max(found["v"]["shape"]) < 20


@pytest.mark.parametrize(
    "node",
    [
        call("y", "aten.topk.default", ["%x", 3], [640, 3]),
        call("y", "aten.slice.Tensor", ["%x", 0, 0, 640, 2], [320, 480]),
        call("y", "aten.select.int", ["%x", 0, 7], [480]),
        call("y", "aten.as_strided.default", ["%x", [640, 480], [480, 1]], [640, 480]),
    ],
    ids=["not known", "a step", "a position", "memory"],
)
def test_what_is_not_understood_stays(node: Any, tmp_path: Path) -> None:
    files = {"seq": graph(placeholder("x", [640, 480]), node, returns("y"))}
    files["dist.r0"] = files["seq"]
    small = {n["name"]: n for n in shrunk(write_case(tmp_path, files)).case.seq["nodes"]}
    assert small["x"]["shape"][0] == 640
    assert {"shape": node["shape"], "args": node["args"]}.items() <= small["y"].items() or (
        node["target"] == "aten.select.int"
    )


def test_a_number_of_ranks_stays(tmp_path: Path) -> None:
    fitted = shrunk(write_case(tmp_path / "case", wide()))
    rows = [r for r in fitted.case.relations if r["seq"] == "x"]
    inner = next(n["shape"] for n in fitted.case.seq["nodes"] if n["name"] == "x")[1]
    half = inner // 2
    assert [r["seq_box"][1] for r in rows] == [[0, half], [half, inner]]
    assert [r["dist_box"][1] for r in rows] == [[0, half]] * 2
    assert inner < 20


# ---- whole cases
def wide(reduced: bool = True) -> dict[str, Any]:
    """relu(x @ w) of large matrices, over two ranks."""
    new = {4: 2048, 6: 8192, 3: 4096, 5: 3000}
    files = documents(reduced)
    for name in ("seq", "dist.r0", "dist.r1"):
        for node in files[name]["nodes"]:
            if "shape" in node:
                node["shape"] = [new[e] for e in node["shape"]]
    for row in files["relations"]:
        row["seq_box"] = [[lo and 4096, new[hi]] for lo, hi in row["seq_box"]]
    return files


def statuses(folder: Path, tmp_path: Path) -> list[str]:
    """What is derived of the outputs."""
    case = shrink(load(case_files(folder)), TABLE, smaller=False)
    judged = command.judged_case(
        case_files(folder), case, [], tmp_path / "facts", lambda text: None
    )
    return [row.status for row in judged.report.outputs]


def test_the_same_is_derived_of_small_sizes(tmp_path: Path) -> None:
    folder = write_case(tmp_path / "case", wide(reduced=False))
    fitted = shrunk(folder)
    fitted.case.write(tmp_path / "small")
    assert fitted.now < 20_000 < fitted.captured
    assert statuses(tmp_path / "small", tmp_path) == statuses(folder, tmp_path) == ["unmapped"]


@pytest.mark.parametrize("name", ["gpt-1x2", "qwen2-1x4-replicated"])
def test_generated_pairs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The note would say that something else is derived."""
    monkeypatch.setattr(command, "SMALL", 0)
    assert name in SIZES
    pair(name).write(tmp_path)
    found = command.replay(case_files(tmp_path), [], 0, False, lambda text: None)
    assert found.sizes and not found.note
    assert all(found.agrees(place) for place in range(len(found.report.outputs)))


GOOD = ("gpt-tp2-l1", "gpt-tp2-l2", "llama-tp2-l1", "qwen2-tp2-l1")


@pytest.mark.parametrize("name", [*GOOD, "bug-wrong-config-allreduce"])
def test_captured_cases(name: str, captured: Any) -> None:
    found = captured(name)
    assert found.sizes and not found.note
    assert found.memory < 5e6
    assert len(set(found.sizes.values())) == len(found.sizes)
    assert max(found.sizes.values()) < 20


def test_what_is_judged_otherwise_is_executed_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A number that stands for a size without saying so: 1 / 4096 is no mean of 3 rows."""
    mean = [
        placeholder("x", [4096, 16]),
        call("s", "aten.sum.dim_IntList", ["%x", [0]], [16]),
        call("y", "aten.div.Tensor", ["%s", 4096.0], [16]),
        returns("y"),
    ]
    seq = [mean[0], call("y", "aten.mean.dim", ["%x", [0]], [16]), returns("y")]
    relations = [{"seq": "x", "rank": 0, "dist": "x"}]
    files = {"seq": graph(*seq), "dist.r0": graph(*mean), "relations": relations}
    files["outputs"] = [{"seq": "y", "dist": "y"}]
    folder = write_case(tmp_path / "case", files)
    monkeypatch.setattr(command, "SMALL", 0)
    found = command.replay(case_files(folder), [], 0, False, lambda text: None)
    assert (found.report.verdict, found.agrees(0), dict(found.sizes)) == ("refines", True, {})
    monkeypatch.setattr(command, "has_room", lambda fitted: fitted.now < 100_000)
    found = command.replay(case_files(folder), [], 0, False, lambda text: None)
    assert (found.report.verdict, found.agrees(0)) == ("refines", None)
    assert "another verdict is derived of `y`" in found.note


def test_elements_are_counted(tmp_path: Path) -> None:
    fitted = shrunk(write_case(tmp_path / "case", wide()))
    total = sum(
        prod(n["shape"]) for _, _, one in fitted.case.graphs() for n in one["nodes"] if "shape" in n
    )
    assert fitted.now == 8 * total
