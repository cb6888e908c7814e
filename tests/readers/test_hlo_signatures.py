"""Every operator that the HLO reader writes has a signature, and its arguments fit it."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gg_datalog.extract.signature import Signature, bound, signature
from gg_datalog.foundation.errors import InputError

from .reading import documents, program

HERE = Path(__file__).resolve().parent

ROOT = HERE.parents[1]
SCHEMAS = (ROOT / "extract" / "schemas" / "kernels.txt").read_text().splitlines()
OURS = {line.partition("(")[0].partition("::")[2] for line in SCHEMAS if line.startswith("hlo::")}

BEFORE = """  x = f32[4,6] parameter(0)
  n = s8[4,6] parameter(1)
  m = pred[4,6] parameter(2)
  c = c64[4,6] parameter(3)
  i = s32[] parameter(4)
  k = u8[5,1] parameter(5)
  square = f32[4,4] parameter(6)
  state = u64[3] parameter(7)
  image = f32[1,5,5,2] parameter(8)
  kernel = f32[3,3,2,7] parameter(9)
  row = f32[6] parameter(10)
  rows = f32[5,6] parameter(11)
  zero = f32[] constant(0)
  inf = f32[] constant(inf)
  one = s8[] constant(1)
  data = f32[] parameter(12)
  words = f32[4,6,2] parameter(13)
"""
# What is written of each instruction; None for operators of torch alone.
WRITTEN: dict[str, str | None] = {
    **{f"f32[4,6] {op}(x)": None for op in ("abs", "ceil", "negate", "sine", "tanh", "sign")},
    **{f"s8[4,6] {op}(n)": None for op in ("abs", "negate", "not", "sign")},
    "s8[4,6] popcnt(n)": "population_count",
    "s8[4,6] count-leading-zeros(n)": "count_leading_zeros",
    **{f"c64[4,6] {op}(c)": "complex_function" for op in ("exponential", "tanh", "sign")},
    "f32[4,6] abs(c)": "complex_function",
    "f32[4,6] real(c)": "real",
    "f32[4,6] imag(c)": "imag",
    "c64[4,6] complex(x, x)": "complex",
    "c64[4,6] power(c, c)": "power",
    "c64[4,6] divide(c, c)": None,
    "f32[4,6] logistic(x)": "logistic",
    "f32[4,6] tan(x)": "tan",
    "f32[4,6] cbrt(x)": "cbrt",
    "f32[4,6] round-nearest-afz(x)": "round_away",
    "pred[4,6] is-finite(x)": "is_finite",
    "f32[4,6] atan2(x, x)": "atan2",
    **{f"s8[4,6] {op}(n, n)": None for op in ("add", "subtract", "multiply", "and", "maximum")},
    "s8[4,6] divide(n, n)": "divide_integer",
    "s8[4,6] remainder(n, n)": "remainder_integer",
    "s8[4,6] power(n, n)": "power_integer",
    **{
        f"s8[4,6] shift-{op}(n, n)": f"shift_{op.replace('-', '_')}"
        for op in ("left", "right-logical", "right-arithmetic")
    },
    **{
        f"pred[4,6] compare(x, x), direction={op}, type=TOTALORDER": f"compare_total_{op.lower()}"
        for op in ("EQ", "NE", "LT", "LE", "GT", "GE")
    },
    "pred[4,6] compare(n, n), direction=LT, type=SIGNED": None,
    "f32[4,6] clamp(data, x, data)": "broadcast",
    "f32[4,6] clamp(zero, x, data)": "clamp",
    "f32[4,6] clamp(zero, x, inf)": "clamp",
    "s8[4,6] clamp(one, n, one)": None,
    "f32[4,6] select(m, x, x)": "select",
    "s8[4,6] convert(x)": "convert",
    "u8[4,6] bitcast-convert(n)": "bitcast_convert",
    "u16[4,6,2] bitcast-convert(x)": "bitcast_convert_in_parts",
    "f32[4,6] reduce-precision(x), exponent_bits=5, mantissa_bits=10": "reduce_precision",
    "f32[4,6] stochastic-convert(x, bits)": "stochastic_convert",
    "f32[6] reduce(x, zero), dimensions={0}, to_apply=sum": None,
    "f32[6] reduce(x, zero), dimensions={0}, to_apply=largest": "reduce_max",
    "f32[6] reduce(x, zero), dimensions={0}, to_apply=smallest": "reduce_min",
    "f32[] reduce(x, zero), dimensions={0,1}, to_apply=product": "reduce_multiply",
    "f32[6] reduce(x, zero), dimensions={0}, to_apply=odd": "reduce",
    "f32[4,6] reduce-window(x, zero), window={size=1x2 pad=0_0x1_0}, to_apply=sum": "reduce_window",
    "f32[4,6] map(x), dimensions={0,1}, to_apply=odd": "map",
    "f32[4,6] sort(x), dimensions={1}, to_apply=less": "sort",
    "(f32[4,6], s8[4,6]) sort(x, n), dimensions={1}, to_apply=less": "sort",
    "f32[6,6] dot(x, x), lhs_contracting_dims={0}, rhs_contracting_dims={0}": "dot",
    "s32[6,6] dot(n, n), lhs_contracting_dims={0}, rhs_contracting_dims={0}": "dot_general",
    "f32[1,3,3,7] convolution(image, kernel), window={size=3x3}, dim_labels=b01f_01io->b01f": "convolution",
    "c64[4,6] fft(c), fft_type=FFT, fft_length={6}": "fft",
    "f32[4,4] cholesky(square), lower=true": "cholesky",
    "f32[4,6] triangular-solve(square, x), left_side=true": "triangular_solve",
    "(f32[4,2], s32[4,2]) topk(x), k=2, largest=true": "topk",
    "(u64[3], u32[4]) rng-bit-generator(state), algorithm=rng_philox": "rng_bit_generator",
    "f32[4] rng(zero, inf), distribution=rng_uniform": "rng_uniform",
    "f32[4] rng(zero, inf), distribution=rng_normal": "rng_normal",
    "u64[1] rng-get-and-update-state(), delta=1": "rng_random",
    "f32[1,5,5,2] select-and-scatter(image, image, zero), window={size=1x1x1x1}, select=less, scatter=sum": "select_and_scatter",
    "(f32[4,6], f32[6], f32[6]) batch-norm-training(x, row, row), epsilon=1, feature_index=1": "batch_norm_training",
    "f32[4,6] batch-norm-inference(x, row, row, row, row), epsilon=1, feature_index=1": "batch_norm_inference",
    "(f32[4,6], f32[6], f32[6]) batch-norm-grad(x, row, row, row, x), epsilon=1, feature_index=1": "batch_norm_grad",
    "f32[5,6] gather(x, k), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,6}": "gather",
    "f32[5,2,6] gather(x, k), offset_dims={1,2}, collapsed_slice_dims={}, start_index_map={0}, index_vector_dim=1, slice_sizes={2,6}": "gather_general",
    "f32[4,6] scatter(x, k, rows), update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=sum": None,
    "f32[4,6] scatter(x, k, rows), update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=largest": "scatter",
    "f32[4,6] dynamic-update-slice(x, rest, i, i)": "dynamic_update_slice",
    "f32[2,6] dynamic-slice(x, i, i), dynamic_slice_sizes={2,6}": "broadcast",
    "f32[4,3,6] broadcast(x), dimensions={0,2}": "broadcast",
    "s8[300] iota(), iota_dimension=0": "iota_general",
    "s8[3,4] iota(), iota_dimension=1": "broadcast",
    "s8[3] constant({1, 2, 4})": "constant",
    "c64[1] constant({(1, 2)})": "constant",
    "f32[4,6] custom-call(x, row), custom_call_target=\"AwsNeuronRmsNorm\", backend_config=\"1\"": "AwsNeuronRmsNorm",
}  # fmt: skip
REGIONS = """odd {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  c = f32[] multiply(a, b)
  ROOT d = f32[] add(a, c)
}

less {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = pred[] compare(a, b), direction=LT
}

"""


def nodes(text: str, folder: Path) -> list[dict[str, Any]]:
    """What an instruction becomes."""
    more = "  bits = u32[4,6] parameter(14)\n  rest = f32[2,6] parameter(15)\n"
    module = program(f"{BEFORE}{more}  ROOT out = {text}")
    module = module.replace("\n\n", "\n\n" + REGIONS, 1)
    found = documents(folder, module, module).seq["nodes"]
    return [node for node in found if node["op"] == "call_function" and node["name"] != "inf"]


def frozen(argument: Any) -> Any:
    return tuple(map(frozen, argument)) if isinstance(argument, list) else argument


def bindings(found: list[dict[str, Any]]) -> Iterator[tuple[Signature, dict[str, Any]]]:
    """The signature of each operator, and its arguments by name."""
    for node in found:
        if node["target"].startswith("<built-in"):
            continue
        kwargs = {key: frozen(value) for key, value in node["kwargs"].items()}
        made = bound(node["target"], frozen(node["args"]), kwargs)
        assert made is not None, node["target"]
        yield made


@pytest.mark.parametrize("text", WRITTEN)
def test_arguments_fit(text: str, tmp_path: Path) -> None:
    found = nodes(text, tmp_path)
    for known, given in bindings(found):
        assert known.fits(given), (known.target, given)
    ours = {n["target"].removeprefix("hlo.") for n in found if n["target"].startswith("hlo.")}
    expected = WRITTEN[text]
    assert expected in ours if expected else not ours


def test_all_signatures_are_of_something_that_is_written() -> None:
    other = {"concatenate", "copy", "iota", "reduce_add", "reshape", "rng_random", "transpose"}
    assert {name for name in WRITTEN.values() if name} | other == OURS


def test_rows_of_the_table_have_signatures() -> None:
    table = tomllib.loads((ROOT / "extract" / "operators.toml").read_text())
    names = [*table["alias"], *table["identity"], *table["elementwise"]]
    names += [row["target"] for row in table["operator"]]
    assert all(signature(name) for name in names if name.startswith("hlo."))


INTEGERS = {
    "s8[4,6] shift-left(n, n)": "int8",
    "u32[4,6] shift-left(bits, bits)": "uint32",
    "u32[4,6] divide(bits, bits)": "uint32",
    "u32[4,6] popcnt(bits)": "uint32",
}


@pytest.mark.parametrize("text", INTEGERS)
def test_the_width_is_said(text: str, tmp_path: Path) -> None:
    (node,) = nodes(text, tmp_path)
    assert node["kwargs"] == {"width": INTEGERS[text]} and node["dtype"] == INTEGERS[text]


def test_types_of_every_width(tmp_path: Path) -> None:
    names = {
        f"{s}{n}": f"{t}{n}" for s, t in (("s", "int"), ("u", "uint")) for n in (4, 8, 16, 32, 64)
    }
    for short, name in (names | {"pred": "bool"}).items():
        found = documents(
            tmp_path,
            *[program(f"  x = {short}[2] parameter(0)\n  ROOT y = {short}[2] copy(x)")] * 2,
        )
        assert [n.get("dtype") for n in found.seq["nodes"]] == [name, name, None]


# ---- what is none of these
@pytest.mark.parametrize("name", sorted(OURS - {"AwsNeuronRmsNorm"}))
def test_a_kernel_that_is_called_like_an_operator_is_another(name: str, tmp_path: Path) -> None:
    (node,) = nodes(f'f32[4,6] custom-call(x), custom_call_target="{name}"', tmp_path)
    assert node["target"] == f"hlo.custom_call_{name}"


REFUSED = {
    "a made-up instruction": ("f32[6] reduce-max(x)", "no operator of HLO is called that"),
    "operands of two types": ("s8[4,6] add(n, n2)", "operand `n2` is u8"),
    "another type of result": ("s32[4,6] add(n, n)", "operand `n` is s8"),
    "a comparison of two types": ("pred[4,6] compare(n, n2), direction=EQ", "types differ"),
    "a comparison with another sign": (
        "pred[4,6] compare(n, n), direction=LT, type=UNSIGNED",
        "type UNSIGNED of s8",
    ),
    "a choice by numbers": ("f32[4,6] select(n, x, x)", "it chooses by s8"),
    "a sine of integers": ("s8[4,6] sine(n)", "of s8"),
    "a copy that is a cast": ("s32[4,6] copy(n)", "it is given s8"),
    "a reduction by another type": (
        "s8[6] reduce(n, one), dimensions={0}, to_apply=total",
        "`total` combines s32",
    ),
    "an all-reduce by another type": (
        "s8[4,6] all-reduce(n), replica_groups={{0}}, to_apply=total",
        "`total` combines s32",
    ),
    "a number out of range": ("u8[] constant(256)", "256 is out of range for u8"),
    "a negative number without a sign": ("u8[] constant(-1)", "-1 is out of range for u8"),
    "tensors of two types in one": ("s8[8,6] concatenate(n, n2), dimensions={0}", "types differ"),
    "a filler of another type": ("s8[5,6] pad(n, i), padding=1_0x0_0", "it pads with s32"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_types_that_do_not_add_up_are_refused(what: str, tmp_path: Path) -> None:
    text, told = REFUSED[what]
    body = f"{BEFORE}  n2 = u8[4,6] parameter(14)\n  ROOT out = {text}"
    with pytest.raises(InputError) as caught:
        documents(tmp_path, program(body), program(body))
    assert "`out`" in str(caught.value) and told in str(caught.value)
