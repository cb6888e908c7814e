"""The forms of printed graphs, line by line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gg_datalog.foundation.errors import InputError
from gg_datalog.readers import ReaderInput
from gg_datalog.readers.fx_text import read

HEAD = """class GraphModule(torch.nn.Module):
    def forward(self, x: "f32[8, 16]", w: "f32[16, 4]"):
"""


def nodes(text: str, tmp_path: Path) -> list[dict[str, Any]]:
    """The nodes of a text."""
    file = tmp_path / "graph.txt"
    file.write_text(text, encoding="utf-8")
    found: list[dict[str, Any]] = read(ReaderInput([file, file])).seq["nodes"]
    return found


def body(*lines: str) -> str:
    return HEAD + "".join(f"        {line}\n" for line in lines) + "        return (x,)\n"


def one(line: str, tmp_path: Path) -> dict[str, Any]:
    """The node of a line that comes after `x` and `w`."""
    return nodes(body(line), tmp_path)[2]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("x", {"node": "x"}),
        ("-1", -1),
        ("1e-05", 1e-05),
        ("inf", {"float": "inf"}),
        ("-inf", {"float": "-inf"}),
        ("nan", {"float": "nan"}),
        ("1e999", {"float": "inf"}),
        ("None", None),
        ("True", True),
        ("'sum'", "sum"),
        ("[x, None, -1]", [{"node": "x"}, None, -1]),
        ("(2, (3, w))", [2, [3, {"node": "w"}]]),
        ("torch.float32", {"dtype": "float32"}),
        ("torch.float8_e4m3fn", {"dtype": "float8_e4m3fn"}),
        ("torch.strided", {"layout": "strided"}),
        ("torch.channels_last", {"memory_format": "channels_last"}),
        ("device(type='cpu')", {"device": "cpu"}),
        ("device(type='cuda', index = 1)", {"device": "cuda:1"}),
        ("torch.device('cuda', 0)", {"device": "cuda:0"}),
        ("slice(0, None, 2)", {"slice": [0, None, 2]}),
        ("{'a': 1, 'b': x}", {"a": 1, "b": {"node": "x"}}),
        ("torch.ops._C.rms_norm.default", "_C.rms_norm.default"),
        ("9223372036854775807", 9223372036854775807),
    ],
)
def test_arguments(written: str, meant: Any, tmp_path: Path) -> None:
    row = one(
        f'a: "f32[]" = torch.ops.aten.op.default({written}, k = {written});  x = None', tmp_path
    )
    assert row["args"] == [meant] and row["kwargs"] == {"k": meant}


@pytest.mark.parametrize(
    ("written", "shape", "dtype"),
    [
        ('"f32[8, 16][16, 1]cpu"', [8, 16], "float32"),
        ('"bf16[s0, 4*s1, 2]"', ["s0", "4*s1", 2], "bfloat16"),
        ('"i64[][]cuda:0"', [], "int64"),
        ('"b8[Max(1, s0), ((s1 + 1)//2)]"', ["Max(1, s0)", "((s1 + 1)//2)"], "bool"),
        ('"f8e4m3fn[0]"', [0], "float8_e4m3fn"),
        ('"Parameter(f16[2])"', [2], "float16"),
        ('"Sym(u0)"', None, None),
        ("torch.Tensor", None, None),
    ],
)
def test_annotations(written: str, shape: Any, dtype: Any, tmp_path: Path) -> None:
    row = one(f"a: {written} = torch.ops.aten.op.default(x)", tmp_path)
    assert (row.get("shape"), row.get("dtype")) == (shape, dtype)


@pytest.mark.parametrize(
    ("written", "target", "args"),
    [
        ("torch.ops.aten.max.dim(x, -1, True)", "aten.max.dim", [{"node": "x"}, -1, True]),
        ("x[1]", "<built-in function getitem>", [{"node": "x"}, 1]),
        ("operator.getitem(x, 1)", "<built-in function getitem>", [{"node": "x"}, 1]),
        ("x // 2", "<built-in function floordiv>", [{"node": "x"}, 2]),
        ("-x", "<built-in function neg>", [{"node": "x"}]),
        ("x >= 2", "<built-in function ge>", [{"node": "x"}, 2]),
        ("torch.sym_max(x, 2)", "torch.sym_max", [{"node": "x"}, 2]),
        (
            "torch.ops._c10d_functional.all_reduce.default(x, 'sum', '12')",
            "_c10d_functional.all_reduce.default",
            [{"node": "x"}, "sum", "12"],
        ),
        (
            "torch.ops.higher_order.auto_functionalized_v2(torch.ops._C.f.default, x, n = 1)",
            "auto_functionalized_v2",
            ["_C.f.default", {"node": "x"}],
        ),
    ],
)
def test_operators(written: str, target: str, args: Any, tmp_path: Path) -> None:
    row = one(f"a = {written};  x = w = None", tmp_path)
    assert (row["target"], row["args"]) == (target, args)


def test_constants_have_dotted_names(tmp_path: Path) -> None:
    row = one('a: "f32[4]" = getattr(self.layers, "0").bias', tmp_path)
    assert (row["op"], row["target"], row["shape"]) == ("get_attr", "layers.0.bias", [4])


SOURCES = {
    "# File: /m/a.py:12 in forward, code: x = x + y": "/m/a.py:12 in forward: x = x + y",
    "#  File: /m/a.py:12 in <lambda>, code: f(x, code: y)": "/m/a.py:12 in <lambda>: f(x, code: y)",
    "# File: /m/a b.py:12, code: x": "/m/a b.py:12: x",
    "# Annotation: {'stage': 0} File: a.py:1 in f, code: y": "a.py:1 in f: y",
    "# ac_graph_id: 1 - PREFER_RECOMPUTE File: a.py:1 in f, code: y": "a.py:1 in f: y",
    "# seq_nr: 3 # File: C:\\m\\a.py:1 in f, code: \ty": "C:\\m\\a.py:1 in f:  y",
}


@pytest.mark.parametrize("comment", SOURCES)
def test_a_comment_holds_up_to_the_next(comment: str, tmp_path: Path) -> None:
    call = "torch.ops.aten.op.default(x)"
    rows = nodes(
        body(f'o: "f32[]" = {call}', "", comment, f"a = {call}", f"b = {call}", "")
        .replace("return", f"c = {call}\n\n        # No stacktrace found for following nodes\n"
                 f"        d = {call}\n        return"),
        tmp_path,
    )  # fmt: skip
    told = SOURCES[comment]
    assert [row.get("source") for row in rows[2:7]] == [None, told, told, told, None]


def test_arguments_that_are_renamed(tmp_path: Path) -> None:
    text = HEAD.replace('x: "f32[8, 16]"', 'input: "f32[8, 16]"').replace("f32[16", "f32[s0")
    text += (
        "        x = input\n        t = torch.ops.aten.t.default(x);  x = None\n        return t\n"
    )
    rows = nodes(text, tmp_path)
    assert [(row["name"], row["target"]) for row in rows[:2]] == [("x", "input"), ("w", "w")]
    assert rows[2]["args"] == [{"node": "x"}] and rows[0]["shape"] == [8, 16]


def test_trees_of_arguments_and_results(tmp_path: Path) -> None:
    text = """class joint_helper(torch.nn.Module):
    def forward(
        self,
        primals,
        tangents,
    ):
        primals_1: "f32[8][1]cpu"  # ParamAOTInput(target='w')
        tangents_1: "Sym(s0)"
        primals_1, tangents_1, = fx_pytree.tree_flatten_spec([primals, tangents], self._in_spec)
        return pytree.tree_unflatten([
            primals_1,  # PlainAOTOutput(idx=0)
            None,  # None
            {'a': (tangents_1, 3)},
        ], self._out_spec)
"""
    rows = nodes(text, tmp_path)
    assert [row["name"] for row in rows] == ["primals_1", "tangents_1", "output"]
    assert rows[0]["shape"] == [8] and "shape" not in rows[1]
    assert rows[2]["args"] == [[{"node": "primals_1"}, None, [[{"node": "tangents_1"}, 3]]]]


def test_text_around_the_graph(tmp_path: Path) -> None:
    """`print(exported_program)`, and a file in UTF-16, as a shell of Windows redirects."""
    inner = "".join(
        "    " + line for line in body('t: "f32[]" = torch.ops.aten.t.default(x)').splitlines(True)
    )
    text = f"ExportedProgram:\n{inner}\nGraph signature:\n    # inputs\n    x: USER_INPUT\n"
    expected = nodes(text, tmp_path)
    assert [row["name"] for row in expected] == ["x", "w", "t", "output"]
    file = tmp_path / "wide.txt"
    file.write_text(text, encoding="utf-16")
    assert read(ReaderInput([file, file])).seq["nodes"] == expected


LINE = "V1121 20:22:03.365000 6086 torch/_functorch/graph_compile.py:1797] "


def logged(kind: str, number: int = 0) -> str:
    head = f'{LINE}{{"{kind}": {{}}, "frame_id": {number}, "frame_compile_id": 0, "attempt": 0}}\n'
    return head + "".join(
        "\t" + line for line in body("t = torch.ops.aten.t.default(x)").splitlines(True)
    )


def test_a_log_of_one_compilation(tmp_path: Path) -> None:
    """The joint graph is taken: it holds what the others do."""
    other = LINE + '{"artifact": {"name": "x"}, "has_payload": "0"}\n\tclass X:\n'
    log = other + logged("aot_joint_graph") + other + logged("aot_forward_graph") + other
    assert [row["name"] for row in nodes(log, tmp_path)] == ["x", "w", "t", "output"]
    prefixed = "".join(f"{LINE}[0/0] [__aot_graphs] {line}" for line in body().splitlines(True))
    assert [row["name"] for row in nodes(prefixed, tmp_path)] == ["x", "w", "output"]


@pytest.mark.parametrize(
    "log",
    [
        logged("aot_joint_graph") + logged("aot_joint_graph", 1),
        logged("aot_forward_graph") + logged("aot_backward_graph"),
        logged("aot_joint_graph") + logged("aot_inference_graph", 1),
    ],
)
def test_a_log_of_several_graphs(log: str, tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=r"several graphs: aot_\w+ \(line 1\), aot_\w+ \(line \d+\)"
    ):
        nodes(log, tmp_path)


# ---- constants
PUT = """        c = self._tensor_constant0
        lift: "f32[]" = torch.ops.aten.lift_fresh_copy.default(c);  c = None
        m: "b8[8, 16]" = torch.ops.aten.ge.Scalar(x, 0)
        put: "f32[8, 16]" = torch.ops.aten.index_put.default(x, [m], lift)
        return put
"""
MADE = "    def __init__(self):\n        super().__init__()\n        self.register_buffer('_tensor_constant0', torch.tensor(2.5))\n"


def constant(code: str, tmp_path: Path, text: str = HEAD + PUT) -> dict[str, Any]:
    comment = f"        # File: a.py:1 in f, code: {code}\n" if code else ""
    return nodes(text.replace("        c = self", f"{comment}        c = self"), tmp_path)[2]


@pytest.mark.parametrize(
    ("code", "value"),
    [
        ("out[mask, :] = 0.0", 0.0),
        ("self.out[mask] = -1  # why", -1),
        ("return F.apply(x, mask)", 0),
        ("y = F.apply(x,", 0),
        ("", None),
        ("out[mask] = 1  # not out[mask] = 0", 1),
        ("out[mask] = other[mask] = 3", 3),
        ("if mask.any(): out[mask] = 5", None),
        ("out[mask] = 5; F.apply(x)", None),
        ("(out, self.k)[0][mask] = 5", 5),
        ("out.index_put_((mask,), torch.tensor(5.0))", None),
        ("out[mask] = F.apply(x)", None),
        ("out[mask] = (", None),
        ("out[mask] = float('-inf')", None),
        ("out[mask] = self.fill", None),
    ],
)
def test_the_value_of_a_constant_put_at_a_mask(code: str, value: Any, tmp_path: Path) -> None:
    row = constant(code, tmp_path)
    assert row.get("value") == value and row["shape"] == [] and row["dtype"] == "float32"


@pytest.mark.parametrize(
    ("code", "dtype", "value"),
    [
        ("0.5", "i64", 0),
        ("-2.7", "i64", -2),
        ("-1", "u8", 255),
        ("300", "i8", None),
        ("0.5", "b8", True),
        ("0.5", "f16", 0.5),
    ],
)
def test_a_constant_holds_what_its_type_does(
    code: str, dtype: str, value: Any, tmp_path: Path
) -> None:
    """As torch keeps it: `torch.zeros(4, dtype=torch.uint8)[mask] = -1` puts 255."""
    put = PUT.replace('lift: "f32[]"', f'lift: "{dtype}[]"')
    found = constant(f"out[mask] = {code}", tmp_path, HEAD + put).get("value")
    assert (found, type(found)) == (value, type(value))
    made = MADE.replace("torch.tensor(2.5)", f"torch.tensor({code})")
    text = (HEAD + put).replace("    def forward", made + "    def forward")
    assert constant("", tmp_path, text).get("value") == value


def test_the_text_may_give_the_value(tmp_path: Path) -> None:
    text = (HEAD + PUT).replace("    def forward", MADE + "    def forward")
    assert constant("out[mask] = 1", tmp_path, text)["value"] == 2.5


@pytest.mark.parametrize(
    "other",
    [
        PUT.replace("return put", "return put, lift"),
        PUT.replace('m: "b8', 'm: "i64'),
        PUT.replace("index_put.default(x, [m], lift)", "add.Tensor(x, lift)"),
    ],
)
def test_other_constants_stay_unknown(other: str, tmp_path: Path) -> None:
    assert "value" not in constant("", tmp_path, HEAD + other)
