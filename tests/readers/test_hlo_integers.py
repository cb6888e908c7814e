"""Integers of HLO: their width and sign reach the graph, and no cast passes what wraps."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")


from gg_datalog.readers import ReaderInput
from gg_datalog.readers.hlo import read
from gg_datalog.readers.hlo_text import read_module

from . import graph_torch
from .hlo_attacks import INTS, PAIRS, inputs, rows_of, same, truths, written
from .hlo_numpy import TYPES, Machine
from .reading import judged, program

FAMILIES = (*INTS, "pred")
WIDE = ("u16", "u32", "u64")  # torch has no kernels for most of what these do


@pytest.mark.parametrize("family", FAMILIES)
def test_pairs_are_what_they_are_called(family: str, tmp_path: Path) -> None:
    pairs = {name: one for name, one in PAIRS.items() if one.family == family}
    found = truths(list(pairs.values()), written(list(pairs.values()), tmp_path))
    told = {name: one.right for name, one in pairs.items()}
    assert {
        name: true for (name, true) in zip(pairs, found, strict=True) if told[name] is not None
    } == {name: right for name, right in told.items() if right is not None}


@pytest.mark.exhaustive("u32", "s16")
@pytest.mark.parametrize("family", ["u8", "s16", "u32", "s64", "pred"])
def test_no_wrong_pair_is_mapped_and_every_right_one_is(family: str, tmp_path: Path) -> None:
    pairs = {name: one for name, one in PAIRS.items() if one.family == family}
    files = written(list(pairs.values()), tmp_path)
    found = truths(list(pairs.values()), files)
    outputs = judged(files, tmp_path)["outputs"]
    mapped = [name for name, o in zip(pairs, outputs, strict=True) if o["status"] == "mapped"]
    true = {name for name, right in zip(pairs, found, strict=True) if right}
    assert [name for name in mapped if name not in true] == []
    assert [name for name, one in pairs.items() if one.right and name not in mapped] == []


@pytest.mark.parametrize("family", [f for f in FAMILIES if f not in WIDE])
def test_the_graph_computes_what_the_text_does(family: str, tmp_path: Path) -> None:
    """Executed by torch in the types of the nodes, each of which torch gives, too."""
    pairs = [
        one
        for one in PAIRS.values()
        if one.family == family and not any(t in f"{one}" for t in WIDE)
    ]
    files = written(pairs, tmp_path)
    case = read(ReaderInput(files))
    for seed in range(3):
        whole = inputs(pairs, seed)
        for file, given in zip(files, ([whole], rows_of(whole)), strict=True):
            expected = Machine(read_module(file), len(given)).run(given)
            found = graph_torch.run(case, given)
            for ours, theirs in zip(found, expected, strict=True):
                assert all(same(a, b) for a, b in zip(ours, theirs, strict=True))


OPERATORS = ("add", "subtract", "multiply", "divide", "remainder", "maximum", "minimum", "and",
             "or", "xor", "shift-left", "shift-right-logical", "shift-right-arithmetic")  # fmt: skip


@pytest.mark.parametrize("dtype", INTS)
def test_numbers_that_the_text_determines(dtype: str, tmp_path: Path) -> None:
    """What is computed of scalars while a text is read."""
    ends = np.iinfo(TYPES[dtype])
    some = [ends.min, ends.max, ends.max // 2, 0, 1, 2, 7, 9]
    lines, names = [f"c{i} = {dtype}[] constant({value})" for i, value in enumerate(some)], []
    for op in OPERATORS:
        for i in range(len(some)):
            for j in range(len(some)):
                names.append(f"{op}.{i}.{j}")
                lines.append(f"{names[-1]} = {dtype}[] {op}(c{i}, c{j})")
    for to in (*INTS, "pred"):
        for i in range(len(some)):
            names.append(f"{to}.{i}")
            lines.append(f"{names[-1]} = {to}[] convert(c{i})")
    shapes = ", ".join(line.split(" = ")[1].split(" ")[0] for line in lines[len(some) :])
    lines.append(f"ROOT all = ({shapes}) tuple({', '.join(names)})")
    file = tmp_path / "text.hlo"
    file.write_text(program("\n".join("  " + line for line in lines)))
    (expected,) = Machine(read_module(file), 1).run([[]])
    rows = {row["name"]: row for row in read(ReaderInput([file, file])).seq["nodes"]}
    known = {name: rows[name] for name in names if "value" in rows[name]}
    zeros = {f".{j}" for j, value in enumerate(some) if value == 0}
    by_zero = {n for n in names if n.startswith(("divide", "rem")) and n[-2:] in zeros}
    assert set(names) - set(known) == by_zero
    for name, value in zip(names, expected, strict=True):
        if name in known:
            assert (name, known[name]["value"]) == (name, value.item())
