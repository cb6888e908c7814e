"""Pairs of HLO texts through the command line: those of our JAX example, and near misses."""

from __future__ import annotations

from pathlib import Path

import pytest

from ..command import run as cli
from .reading import documents, judged, program

HERE = Path(__file__).resolve().parent

DATA = HERE / "data"


def texts(*names: str) -> list[Path]:
    """Texts that ship with the tests."""
    return [DATA / f"{name}.hlo" for name in names]


def verdict(folder: Path, seq: str, part: str) -> str:
    """The verdict on two texts."""
    for name, text in (("seq", seq), ("part", part)):
        (folder / f"{name}.hlo").write_text(text)
    return str(judged([folder / "seq.hlo", folder / "part.hlo"], folder)["verdict"])


# ---- the JAX example
def test_a_block_split_by_hand(tmp_path: Path) -> None:
    assert judged(texts("by_hand.seq", "by_hand.part"), tmp_path)["verdict"] == "refines"


def test_the_same_with_a_psum_forgotten(tmp_path: Path) -> None:
    report = judged(texts("by_hand.seq", "forgotten.part"), tmp_path)
    assert report["verdict"] == "does-not-refine"
    (finding,) = [f for f in report["findings"] if f["code"] == "GG108"]
    assert finding["seq_source"] == "examples/jax_block/model.py:50 in mlp"
    assert finding["dist_source"] == "examples/jax_block/model.py:50 in mlp"


def test_loss_and_gradients_on_a_mesh_of_eight(tmp_path: Path) -> None:
    report = judged(texts("loss.seq", "loss.part"), tmp_path)
    assert report["verdict"] == "refines"
    assert len(report["outputs"]) == 11
    kinds = {a["kind"] for a in report["assumptions"]}
    assert {"precision", "input relations", "devices"} <= kinds


def test_the_same_with_another_group(tmp_path: Path) -> None:
    """Sums over the other axis of the mesh."""
    text = texts("loss.part")[0].read_text()
    first = next(line for line in text.splitlines() if "all-reduce(%dot" in line)
    groups = first.split("replica_groups=")[1].split(", use_global")[0]
    wrong = first.replace(groups, "{{0,4},{1,5},{2,6},{3,7}}")
    found = verdict(tmp_path, texts("loss.seq")[0].read_text(), text.replace(first, wrong))
    assert found == "does-not-refine"


def test_replay_agrees(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    judged(texts("by_hand.seq", "by_hand.part"), tmp_path)
    status, out, error = cli("replay", tmp_path / "facts")
    assert status == 0 and " 0 wrong" in out, error


# ---- what tells two programs apart
ROWS = "sharding={devices=[2,1]<=[2]}"
SHARDED = """  x = f32[4,6] parameter(0)
  w = f32[6,6] parameter(1)
  ROOT y = f32[4,6] {op}"""
PARTED = """  x = f32[2,6] parameter(0), sharding={{devices=[2,1]<=[2]}}
  w = f32[6,6] parameter(1), sharding={{replicated}}
  ROOT y = f32[2,6] {op}"""


def pair(folder: Path, op: str, other: str) -> str:
    """The verdict on one instruction on rows, and one on the rows of each device."""
    seq = program(SHARDED.format(op=op))
    part = program(PARTED.format(op=other), ", num_partitions=2")
    return verdict(folder, seq, part)


NORM = 'custom-call(x, w), custom_call_target="Kernel", backend_config="eps={eps}"'
DIFFERENT = {
    "contracted dimension": (
        "dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        "dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={1}",
    ),
    "operator": ("sine(x)", "cosine(x)"),
    "bits": (
        "reduce-precision(x), exponent_bits=5, mantissa_bits=10",
        "reduce-precision(x), exponent_bits=8, mantissa_bits=7",
    ),
}


@pytest.mark.parametrize("what", DIFFERENT)
def test_instructions_that_differ(what: str, tmp_path: Path) -> None:
    one, other = DIFFERENT[what]
    assert pair(tmp_path, one, one) == "refines"
    assert pair(tmp_path, one, other) != "refines"


OPAQUE = {
    "a kernel's attributes": (
        'custom-call(x), custom_call_target="Kernel", backend_config="eps=1"',
        'custom-call(x), custom_call_target="Kernel", backend_config="eps=2"',
    ),
    "a kernel's name": (
        'custom-call(x), custom_call_target="a.b"',
        'custom-call(x), custom_call_target="a_b"',
    ),
    "a scatter's computation": (
        "scatter(x, i, u), update_window_dims={}, inserted_window_dims={0,1}, "
        "scatter_dims_to_operand_dims={0,1}, index_vector_dim=1, to_apply=sum",
        "scatter(x, i, u), update_window_dims={}, inserted_window_dims={0,1}, "
        "scatter_dims_to_operand_dims={0,1}, index_vector_dim=1, to_apply=largest",
    ),
    "a literal": ("add(x, k)", "add(x, l)"),
    "an index of what is chosen": (
        "sort(x), dimensions={1}, is_stable=true, to_apply=less",
        "sort(x), dimensions={0}, is_stable=true, to_apply=less",
    ),
    "the beginning of a reduction": (
        "reduce(three, start), dimensions={0}, to_apply=sum",
        "reduce(three, other), dimensions={0}, to_apply=sum",
    ),
    "an elided literal": ("add(x, e)", "add(x, e)"),
    "random numbers": (
        "rng(start, other), distribution=rng_uniform",
        "rng(start, other), distribution=rng_uniform",
    ),
    "a kernel with side effects": (
        'custom-call(x), custom_call_target="Call", custom_call_has_side_effect=true',
        'custom-call(x), custom_call_target="Call", custom_call_has_side_effect=true',
    ),
    "floats in their total order": (
        "convert(same)", "convert(total)"
    ),
}  # fmt: skip
WHOLE = """  x = f32[2,3] parameter(0), sharding={{replicated}}
  i = s32[4,2] parameter(1), sharding={{replicated}}
  u = f32[4] parameter(2), sharding={{replicated}}
  three = f32[5,2,3] parameter(3), sharding={{replicated}}
  k = f32[2,3] constant({{{{1,2,3}},{{4,5,6}}}})
  l = f32[2,3] constant({{{{1,2,3}},{{4,5,7}}}})
  e = f32[2,3] constant({{...}})
  start = f32[] constant(1)
  other = f32[] constant(2)
  same = pred[2,3] compare(x, k), direction=LT
  total = pred[2,3] compare(x, k), direction=LT, type=TOTALORDER
  ROOT y = f32[2,3] {op}"""
LESS = """less {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = pred[] compare(a, b), direction=LT
}

"""


def whole(folder: Path, op: str, other: str) -> str:
    """The verdict on one instruction on whole tensors."""
    seq, part = program(WHOLE.format(op=op)), program(WHOLE.format(op=other), ", num_partitions=2")
    return verdict(folder, *(t.replace("\n\n", "\n\n" + LESS, 1) for t in (seq, part)))


@pytest.mark.parametrize("what", OPAQUE)
def test_what_is_opaque_is_told_apart(what: str, tmp_path: Path) -> None:
    one, other = OPAQUE[what]
    if one != other:
        assert whole(tmp_path, one, one) == "refines"
    assert whole(tmp_path, one, other) != "refines"


@pytest.mark.parametrize(
    ("config", "good"), [("0", True), ("1", False), ("", True), ("what", True)]
)
def test_the_dimension_of_a_norm(config: str, good: bool, tmp_path: Path) -> None:
    call = f'custom-call(x, g, e), custom_call_target="AwsNeuronRmsNorm", backend_config="{config}"'
    body = """  x = f32[{n},4] parameter(0){rows}
  g = f32[{n}] parameter(1){whole}
  e = f32[] constant(1e-05)
  ROOT y = f32[{n},4] {call}"""
    text = program(body.format(n=8, call=call, rows="", whole=""))
    if not good:  # the weight does not fit that dimension
        status, _, error = written(tmp_path, text)
        assert status == 2 and "is no dimension of its weight" in error
        return
    status, _, error = written(tmp_path, text)
    assert status == 0, error


def written(folder: Path, text: str) -> tuple[int, str, str]:
    """What ``extract`` says of a text against itself."""
    (folder / "a.hlo").write_text(text)
    return cli("extract", "--from", "hlo", *[folder / "a.hlo"] * 2, "-o", folder / "facts")


def test_a_norm_over_another_dimension_may_be_cut_along_the_first(tmp_path: Path) -> None:
    body = """  x = f32[{n},8] parameter(0){rows}
  g = f32[8] parameter(1){whole}
  e = f32[] constant(1e-05)
  ROOT y = f32[{n},8] custom-call(x, g, e), custom_call_target="AwsNeuronRmsNorm", backend_config="{d}" """
    for last, expected in (("1", "refines"), ("-1", "refines")):
        seq = program(body.format(n=4, rows="", whole="", d="1"))
        part = program(
            body.format(n=2, rows=f", {ROWS}", whole=", sharding={replicated}", d=last),
            ", num_partitions=2",
        )
        assert verdict(tmp_path, seq, part) == expected


# ---- positions and offsets
COUNT = """  x = f32[8] parameter(0)
  n = f32[8] iota(), iota_dimension=0
  ROOT y = f32[8] multiply(x, n)"""
COUNTED = """  x = f32[4] parameter(0), sharding={{devices=[2]<=[2]}}
  n = f32[4] iota(), iota_dimension=0
  id = u32[] partition-id()
  four = u32[] constant({four})
  off = u32[] multiply(id, four)
  f = f32[] convert(off)
  b = f32[4] broadcast(f), dimensions={{}}
  m = f32[4] add(n, b)
  ROOT y = f32[4] multiply(x, m)"""


@pytest.mark.parametrize(("offset", "good"), [(4, True), (0, False), (3, False)])
def test_positions_counted_from_the_offset_of_the_device(
    offset: int, good: bool, tmp_path: Path
) -> None:
    part = program(COUNTED.format(four=offset), ", num_partitions=2")
    assert (verdict(tmp_path, program(COUNT), part) == "refines") == good


LOOKUP = """  t = f32[8,3] parameter(0)
  ids = s32[5] parameter(1)
  ROOT y = f32[5,3] gather(t, ids), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,3}"""
LOOKED = """  t = f32[4,3] parameter(0), sharding={{devices=[2,1]<=[2]}}
  ids = s32[5] parameter(1), sharding={{replicated}}
  zero = s32[] constant(0)
  seven = s32[] constant(7)
  c = s32[5] clamp(zero, ids, seven)
  id = u32[] partition-id()
  four = u32[] constant(4)
  off = u32[] multiply(id, four)
  o = s32[] convert(off)
  ob = s32[5] broadcast(o), dimensions={{}}
  last = s32[] constant({last})
  ol = s32[] add(o, last)
  lb = s32[5] broadcast(ol), dimensions={{}}
  lt = pred[5] compare(c, ob), direction=LT
  gt = pred[5] compare(c, lb), direction=GT
  out = pred[5] or(lt, gt)
  mask = pred[5,3] broadcast(out), dimensions={{0}}
  near = s32[5] subtract(c, ob)
  g = f32[5,3] gather(t, near), offset_dims={{1}}, collapsed_slice_dims={{0}}, start_index_map={{0}}, index_vector_dim=1, slice_sizes={{1,3}}
  z = f32[] constant(0)
  zb = f32[5,3] broadcast(z), dimensions={{}}
  s = f32[5,3] select(mask, zb, g)
  ROOT y = f32[5,3] all-reduce(s), channel_id=1, replica_groups={{{{0,1}}}}, use_global_device_ids=true, to_apply=sum"""


@pytest.mark.parametrize(("last", "good"), [(3, True), (4, False), (2, False)])
def test_a_lookup_in_a_shard_of_a_table(last: int, good: bool, tmp_path: Path) -> None:
    part = program(LOOKED.format(last=last), ", num_partitions=2")
    assert (verdict(tmp_path, program(LOOKUP), part) == "refines") == good


# ---- input relations
def test_rows_of_the_relations(tmp_path: Path) -> None:
    seq = program("  x = f32[10] parameter(0)\n  ROOT y = f32[10] negate(x)")
    part = program(
        "  x = f32[4] parameter(0), sharding={devices=[3]<=[3]}\n  ROOT y = f32[4] negate(x)",
        ", num_partitions=3",
    )
    case = documents(tmp_path, seq, part)
    assert case.relations == [
        {"seq": "x", "rank": 0, "dist": "x", "seq_box": [[0, 4]]},
        {"seq": "x", "rank": 1, "dist": "x", "seq_box": [[4, 8]]},
        {"seq": "x", "rank": 2, "dist": "x", "seq_box": [[8, 10]], "dist_box": [[0, 2]]},
    ]


def test_nothing_is_invented_without_annotations(tmp_path: Path) -> None:
    text = program("  x = f32[10] parameter(0)\n  ROOT y = f32[10] negate(x)")
    assert documents(tmp_path, text, text, text).relations is None
    body = "  x = f32[4] parameter(0), sharding={replicated}\n  z = f32[4] parameter(1)\n"
    seq, part = body.replace(", sharding={replicated}", ""), body
    case = documents(
        tmp_path,
        program(f"{seq}  ROOT y = f32[4] add(x, z)"),
        program(f"{part}  ROOT y = f32[4] add(x, z)", ", num_partitions=2"),
    )
    assert {row["seq"] for row in case.relations or []} == {"x"}
    assert any("parameter 1 says nothing" in text for text in case.about["warnings"])


def test_parameters_are_paired_by_name_where_one_was_left_out(tmp_path: Path) -> None:
    named = ', metadata={{op_name="{}"}}'
    seq = "  a = f32[4] parameter(0){}\n  b = f32[4] parameter(1){}\n  ROOT y = f32[4] negate(b)"
    part = "  p = f32[2] parameter(0), sharding={{devices=[2]<=[2]}}{}\n  ROOT y = f32[2] negate(p)"
    case = documents(
        tmp_path,
        program(seq.format(named.format("a"), named.format("b"))),
        program(part.format(named.format("b")), ", num_partitions=2"),
    )
    assert {(row["seq"], row["dist"]) for row in case.relations or []} == {("b", "p")}


def test_parameters_in_another_order_are_paired_by_name(tmp_path: Path) -> None:
    body = """  a = f32[4] parameter(0){rows}, metadata={{op_name="{first}"}}
  b = f32[4] parameter(1){rows}, metadata={{op_name="{second}"}}
  ROOT y = f32[4] subtract({first}, {second})"""
    seq = body.format(rows="", first="a", second="b")
    part = body.format(rows=", sharding={replicated}", first="b", second="a")
    case = documents(tmp_path, program(seq), program(part, ", num_partitions=2"))
    assert {(r["seq"], r["dist"]) for r in case.relations or []} == {("a", "b"), ("b", "a")}


def test_one_text_without_a_header_has_as_many_devices_as_its_groups(tmp_path: Path) -> None:
    seq = program("  x = f32[4] parameter(0)\n  ROOT y = f32[4] negate(x)")
    body = "  x = f32[4] parameter(0)\n  ROOT y = f32[4] all-reduce(x), replica_groups={{0,1,2}}, to_apply=sum"
    assert sorted(documents(tmp_path, seq, program(body)).dist) == [0, 1, 2]
