"""HLO text as versions of XLA print it, and texts that are no HLO or do not add up."""

from __future__ import annotations

from pathlib import Path

import pytest

from gg_datalog.foundation.errors import InputError
from gg_datalog.readers.hlo_scan import split, unquoted, without_comments
from gg_datalog.readers.hlo_shapes import Array, BadShape, read_shape

from ..command import run as cli
from .reading import documents, program

SEQ = program("  x = f32[4] parameter(0)\n  ROOT y = f32[4] negate(x)")


def nodes(folder: Path, body: str, header: str = "") -> list[dict[str, object]]:
    """The nodes that a sequential program becomes."""
    return list(documents(folder, program(body, header), SEQ).seq["nodes"])


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("f32[]", Array("f32", ())),
        ("bf16[8,16]{1,0}", Array("bf16", (8, 16))),
        ("f32[8,16]{1,0:T(8,128)(2,1)S(1)}", Array("f32", (8, 16))),
        ("f8e4m3fn[2]{0}", Array("f8e4m3fn", (2,))),
        (
            "(f32[2]{0}, (s32[], pred[3]{0}))",
            (Array("f32", (2,)), (Array("s32", ()), Array("pred", (3,)))),
        ),
        ("()", ()),
    ],
)
def test_shapes(text: str, shape: object) -> None:
    assert read_shape(text + " add(x)") == (shape, len(text))


@pytest.mark.parametrize("text", ["f32[<=4]", "f32[?]", "f31[2]", "f32[-1]", "f32", "f32[a]"])
def test_shapes_that_are_refused(text: str) -> None:
    with pytest.raises(BadShape):
        read_shape(text)


def test_commas_strings_and_comments() -> None:
    assert split('a, b={1,2}, c="x, \\"y" , /d') == ["a", "b={1,2}", 'c="x, \\"y"', "/d"]
    assert without_comments('a /*index=5*/b "/*kept*/"') == 'a b "/*kept*/"'
    assert unquoted("\"p[\\'a\\'] \\x41\\101\"") == "p['a'] AA"


FORMS = {
    "percent signs and shapes of operands": "ROOT %y.1 = f32[4]{0} add(f32[4]{0} %x, f32[4]{0} %x)",
    "bare names": "ROOT y.1 = f32[4] add(x, x)",
    "attributes of no meaning": "ROOT y.1 = f32[4] add(x, x), control-predecessors={x}, "
    'backend_config={"a":{"b":[1,2]}}, frontend_attributes={k="v,}"}',
}


@pytest.mark.parametrize("form", FORMS)
def test_one_instruction_in_several_forms(form: str, tmp_path: Path) -> None:
    found = nodes(tmp_path, f"  x = f32[4] parameter(0)\n  {FORMS[form]}")
    assert [n["name"] for n in found] == ["x", "y.1", "output"]
    assert found[1]["target"] == "aten.add.Tensor"


def test_a_literal_over_several_lines(tmp_path: Path) -> None:
    found = nodes(
        tmp_path, "  ROOT c = f32[2,2] constant({\n    { 1, 2.5 },\n    { -inf, nan }\n  })"
    )
    assert found[0]["args"] == ["f32", [2, 2], [1.0, 2.5, {"float": "-inf"}, {"float": "nan"}]]


def test_an_elided_literal_has_no_value(tmp_path: Path) -> None:
    case = documents(tmp_path, program("  ROOT c = f32[99] constant({...})"), SEQ)
    assert case.seq["nodes"][0]["op"] == "get_attr" and "value" not in case.seq["nodes"][0]
    assert any("leaves the constant's elements out" in w for w in case.about["warnings"])


def test_numbers_are_those_of_their_type(tmp_path: Path) -> None:
    body = "  a = f32[] constant(1e-05)\n  b = bf16[] constant(0.1)\n  c = u8[] constant(255)\n"
    found = nodes(tmp_path, body + "  ROOT t = (f32[], bf16[], u8[]) tuple(a, b, c)")
    assert [n.get("value") for n in found[:3]] == [9.999999747378752e-06, 0.10009765625, 255]


def test_source_lines_of_both_forms(tmp_path: Path) -> None:
    tables = """

FileNames
1 "/usr/lib/site-packages/jax/_src/api.py"
2 "model.py"

FunctionNames
1 "call"
2 "mlp"

FileLocations
1 {file_name_id=1 function_name_id=1 line=3 end_line=3 column=0 end_column=1}
2 {file_name_id=2 function_name_id=2 line=50 end_line=50 column=0 end_column=1}

StackFrames
1 {file_location_id=2 parent_frame_id=1}
2 {file_location_id=1 parent_frame_id=2}
"""
    body = """  x = f32[4] parameter(0), metadata={op_type="x" op_name="p['x']" source_file="a b.py" source_line=79}
  ROOT y = f32[4] negate(x), metadata={op_name="jit(f)/jvp()/neg" stack_frame_id=2}"""
    found = nodes(tmp_path, body, tables)
    assert [n.get("source") for n in found[:2]] == ["a b.py:79", "model.py:50 in mlp"]
    assert found[1]["module"] == "jit(f)/jvp()"


REFUSED = {
    "nothing": ("", "it is empty"),
    "zeros": ("HloModule m\0", "no text"),
    "FX": ("graph():\n    %x : [num_users=1] = placeholder[target=x]\n", "fx-text"),
    "StableHLO": ('module @jit_f { func.func @main() { stablehlo.add } }', "StableHLO"),
    "JSON": ('{"nodes": []}', "it is JSON"),
    "prose": ("hello\n", "no line begins with `HloModule`"),
    "no name": ("HloModule \n", "no name"),
    "header only": ("HloModule m\n", "holds no computation"),
    "cut in a computation": (SEQ[:-10], "m"),
    "cut in a bracket": (SEQ[: SEQ.rindex("(")] + "(x", "never closed"),
    "unknown type": (SEQ.replace("f32[4] negate", "f31[4] negate"), "element type"),
    "unknown operand": (SEQ.replace("negate(x)", "negate(z)"), "`z` is not defined"),
    "wrong shape": (SEQ.replace("f32[4] negate", "f32[5] negate"), "does not add up"),
    "dynamic size": (SEQ.replace("f32[4] parameter", "f32[<=4] parameter"), "depends on data"),
    "no number": (SEQ.replace("parameter(0)", "parameter(x)"), "no number"),
    "infeed": (SEQ.replace("negate(x)", "infeed(x)"), "outside of the program"),
    "unknown collective": (SEQ.replace("negate(x)", "all-to-some(x)"), "not described"),
    "a bitcast by layout": (SEQ.replace("f32[4] negate", "s32[4] bitcast"), "layouts are assigned"),
    "partly partitioned": (
        SEQ.replace("negate(x)", 'custom-call(x), custom_call_target="SPMDFullToShardShape"'),
        "before the SPMD partitioner",
    ),
    "two names": (SEQ.replace("ROOT y", "x = f32[4] negate(x)\n  ROOT y"), "two instructions"),
    "two modules": (SEQ + SEQ, "second module"),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_refused(what: str, tmp_path: Path) -> None:
    text, told = REFUSED[what]
    good, bad = tmp_path / "good.hlo", tmp_path / "bad.hlo"
    good.write_text(SEQ)
    bad.write_text(text)
    status, _, error = cli("extract", "--from", "hlo", good, bad, "-o", tmp_path / "facts")
    assert status == 2 and "bad.hlo" in error and "Traceback" not in error
    assert told in error


def test_bytes_and_folders_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.hlo").write_bytes(b"\x08\x96\xff\xfe\x01")
    status, _, error = cli(
        "extract", "--from", "hlo", *[tmp_path / "a.hlo"] * 2, "-o", tmp_path / "f"
    )
    assert status == 2 and "protocol buffer" in error


def test_groups_are_not_asked_for(tmp_path: Path) -> None:
    files = [tmp_path / "a.hlo"] * 2
    files[0].write_text(SEQ)
    status, _, error = cli(
        "extract", "--from", "hlo", *files, "--group", "g=0,1", "-o", tmp_path / "f"
    )
    assert status == 2 and "tells its groups itself" in error


def test_a_text_with_a_byte_order_mark_and_other_line_ends(tmp_path: Path) -> None:
    text = "\ufeff" + SEQ.replace("\n", "\r\n")
    assert documents(tmp_path, text, SEQ).seq["nodes"][1]["target"] == "aten.neg.default"


@pytest.mark.parametrize("cut", range(20, len(SEQ) - 3, 37))
def test_a_text_that_is_cut_anywhere_gives_one_message(cut: int, tmp_path: Path) -> None:
    with pytest.raises(InputError):
        documents(tmp_path, SEQ[:cut], SEQ)
