"""Texts that are no printed graphs: one message each, never a traceback."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from gg_datalog.foundation.errors import InputError
from gg_datalog.readers import ReaderInput
from gg_datalog.readers.fx_text import read

HEAD = 'class G(torch.nn.Module):\n    def forward(self, x: "f32[8, 16]"):\n'
GOOD = (
    HEAD + '        t: "f32[16, 8]" = torch.ops.aten.t.default(x);  x = None\n        return (t,)\n'
)


def refused(data: bytes | str, tmp_path: Path) -> InputError:
    """What is said of a text."""
    file = tmp_path / "graph.txt"
    file.write_bytes(data.encode() if isinstance(data, str) else data)
    with pytest.raises(InputError) as found:
        read(ReaderInput([file, file]))
    error = found.value
    assert error.hint and str(error.where).startswith(str(file))
    return error


def statement(line: str) -> str:
    return HEAD + f"        {line}\n        return (x,)\n"


FILES = {
    "empty": (b"", "empty"),
    "blank": (b"\n \n", "empty"),
    "binary": (b"\x7fELF\x00\x01", "zero bytes"),
    "latin": ("é".encode("latin-1"), "UTF-8"),
    "comments": (b"# nothing\n\n# here\n", "only comments|nothing but comments"),
    "hlo": (b"HloModule jit_f\n\nENTRY main {\n}\n", "HLO"),
    "json": (b'{"format": "fx-graph", "nodes": []}', "JSON"),
    "prose": (b"hello world\n", "no FX graph"),
    "class alone": (b"class G(torch.nn.Module):\n", "not a printed graph"),
    "class of something": (b"class G(torch.nn.Module):\n    x = 1\n", "no FX graph"),
    "cut in a line": (GOOD[:-24].encode(), "`x = N` is no operator"),
    "cut in its return": (GOOD.replace("(t,)\n", "t").encode(), "middle of its last line"),
    "cut between lines": (HEAD.encode() + b"        y = x[0]\n", "returns nothing"),
    "code": (
        GOOD.replace(': "f32[16, 8]"', "").replace(': "f32[8, 16]"', "").encode(),
        "bare code",
    ),
    "two graphs": ((GOOD + "\n" + GOOD).encode(), "2 graphs, at lines 1, 6"),
}


@pytest.mark.parametrize("name", FILES)
def test_files(name: str, tmp_path: Path) -> None:
    data, what = FILES[name]
    error = refused(data, tmp_path)
    assert re.search(what, error.what)


STATEMENTS = {
    "y = torch.nn.functional.relu(x)": "before AOTAutograd",
    "y = x.view(2, 3)": "calls a method",
    "y = self.layer(x)": "calls a submodule",
    'y = getattr(self, "0")(x)': "calls a submodule",
    "y = x.shape": "reads an attribute",
    'y: "f32[8]" = x + 1': "no operator of ATen",
    "x += 1": "in place",
    "x[0] = 1": "no operator of ATen",
    "y, z = torch.ops.aten.split.Tensor(x, 4)": "not understood",
    "y = torch.ops.aten.t.default(z)": "`z` is used before anything is assigned",
    "x = torch.ops.aten.t.default(x)": "two nodes are called `x`",
    'y: "f99[8]" = torch.ops.aten.t.default(x)': "dtype `f99`",
    'y: "f32[8" = torch.ops.aten.t.default(x)': "annotation",
    'y: "f32[8,,1]" = torch.ops.aten.t.default(x)': "sizes",
    'y: "DTensor(f32[8], S(0))" = torch.ops.aten.t.default(x)': "annotation",
    "y = torch.ops.aten.t.default(1j)": "no meaning",
    "y = torch.ops.aten.t.default(...)": "no meaning",
    "y = torch.ops.aten.t.default(*x)": "not understood",
    "y = torch.ops.aten.t.default(**x)": "not understood",
    "y = torch.ops.aten.t.default(open('/etc/passwd'))": "not understood",
    "y = torch.ops.aten.t.default(torch.per_tensor_affine)": "not understood",
    "y = torch.ops.aten.t.default({1: 2})": "keys",
    "y = torch.ops.aten.t.default(f'{x}')": "not understood",
    "y = [t for t in x]": "not understood",
    "import os": "not understood",
    "print(x)": "not understood",
    "y = torch.ops.higher_order.cond(x, x, x, (x,))": "higher-order operator `cond`",
    "y = torch.ops.higher_order.triton_kernel_wrapper_functional(kernel_idx = 0)": "higher-order",
    "return x": "follows the return",
}


@pytest.mark.parametrize("line", STATEMENTS)
def test_statements(line: str, tmp_path: Path) -> None:
    error = refused(statement(line), tmp_path)
    assert STATEMENTS[line] in str(error)
    assert str(error.where).endswith(":3") or line.startswith("return")


def test_a_graph_inside(tmp_path: Path) -> None:
    nested = statement("a = self.inner_0").replace(
        "return (x,)", "y = torch.ops.aten.f.default(a)\n        return y"
    )
    nested += '\n    class inner_0(torch.nn.Module):\n        def forward(self, z: "f32[]"):\n'
    nested += "            return z\n"
    error = refused(nested, tmp_path)
    assert "subgraph `a`" in error.what and str(error.where).endswith(":4")


DEEP = {
    "brackets": "[" * 5000 + "]" * 5000,
    "calls": "slice(" * 150 + ")" * 150,
    "minus": "-" * 100000 + "1",
    "sums": "1" + " + 1" * 100000,
    "attributes": "x" + ".a" * 100000,
    "lists": "[" * 90 + "1" + "]" * 90,
    "number": "9" * 10000,
}


@pytest.mark.parametrize("name", DEEP)
def test_depth(name: str, tmp_path: Path) -> None:
    text = statement(f"y = torch.ops.aten.t.default({DEEP[name]})")
    file = tmp_path / "graph.txt"
    file.write_text(text)
    if name == "lists":  # torch nests less; the check of the graph says so
        read(ReaderInput([file, file]))
        return
    assert refused(text, tmp_path)


def test_a_text_may_be_cut_anywhere(tmp_path: Path) -> None:
    """Every beginning of a text is refused, but for the blank at its end."""
    file = tmp_path / "graph.txt"
    for length in range(len(GOOD) - 1):
        file.write_text(GOOD[:length])
        try:
            found = read(ReaderInput([file, file])).seq["nodes"]
        except InputError:
            continue
        assert [row["op"] for row in found] == ["placeholder", "call_function", "output"]
        assert found[-1]["args"] == [[{"node": "t"}]]


def test_garbled_texts(tmp_path: Path) -> None:
    """Letters changed at random: a graph or a message, nothing else."""
    draw = random.Random(7)
    file = tmp_path / "graph.txt"
    letters = "()[]{}:;,.=\"'#\\ \n\t\r\x0c-0xf*@"
    for _ in range(2000):
        text = list(GOOD)
        for _ in range(draw.randrange(1, 5)):
            text[draw.randrange(len(text))] = draw.choice(letters)
        file.write_text("".join(text), newline="")
        try:
            read(ReaderInput([file, file]))
        except InputError:
            continue
