"""What torch's operators really do: programs that were once taken for right because something else
was believed of an operator, each with its right sibling."""

from __future__ import annotations

from .build import Case, check, table
from .conftest import Outcomes


def _pair(name: str, seq: str, right: str, wrong: str, **more: object) -> tuple[Case, Case]:
    """A right program of two ranks and a wrong one that differs from it in one thing."""
    good = Case(name, seq, right, **more)  # type: ignore[arg-type]
    return good, good.but(f"{name}, wrong", dist=wrong)


# ---- arguments, however they are passed
REDUCED = "x: f32[4, 6]\ny: f32[6] = {}\nreturn y"
PART = "x: f32[2, 6]\np: f32[6] = {}\ny: f32[6] = all_reduce({})\nreturn y"
ARGUMENTS = (
    *_pair(
        "an average by position",
        REDUCED.format("mean.dim(x, [0])"),
        PART.format("mean.dim(x, [0])", "p, 'avg', group_name='g'"),
        PART.format("sum.dim_IntList(x, [0])", "p, 'avg', group_name='g'"),
    ),
    *_pair(
        "a maximum by position",
        REDUCED.format("amax(x, [0])"),
        PART.format("amax(x, [0])", "p, 'max', group_name='g'"),
        PART.format("amax(x, [0])", "p, 'sum', group_name='g'"),
    ),
    *_pair(
        "a sum by keyword only",
        REDUCED.format("sum.dim_IntList(x, [0])"),
        PART.format("sum.dim_IntList(x, [0])", "input=p, reduce_op='sum', group_name='g'"),
        PART.format("sum.dim_IntList(x, [0])", "input=p, reduce_op='avg', group_name='g'"),
    ),
    Case(
        "a product is no sum",
        REDUCED.format("sum.dim_IntList(x, [0])"),
        PART.format("sum.dim_IntList(x, [0])", "p, 'product', group_name='g'"),
        maps=(),
    ),
    *_pair(
        "shares of an average by position",
        "x: f32[4, 6]\ny: f32[6] = mean.dim(x, [0])\nreturn y",
        "x: f32[2, 6]\np: f32[6] = mean.dim(x, [0])\n"
        "y: f32[3] = reduce_scatter_tensor(p, 'avg', 2, group_name='g')\nreturn y",
        "x: f32[2, 6]\np: f32[6] = sum.dim_IntList(x, [0])\n"
        "y: f32[3] = reduce_scatter_tensor(p, 'avg', 2, group_name='g')\nreturn y",
    ),
    *_pair(
        "alpha by keyword",
        "x: f32[4]\nz: f32[4]\nreturn add.Tensor(x, z, alpha=2.0)",
        "x: f32[2]\nz: f32[2]\nreturn add.Tensor(alpha=2.0, other=z, self=x)",
        "x: f32[2]\nz: f32[2]\nreturn add.Tensor(other=z, self=x)",
    ),
    *_pair(
        "keepdim by position",
        "x: f32[4, 6]\nreturn mul.Tensor(x, amax(x, [1], True))",
        "x: f32[2, 6]\nreturn mul.Tensor(x, amax(x, dim=[1], keepdim=True))",
        "x: f32[2, 6]\nreturn mul.Tensor(x, amax(x, dim=[0], keepdim=True))",
    ),
    *_pair(
        "rounding of a quotient",
        "x: f32[4]\nz: f32[4]\nreturn div.Tensor_mode(x, z, rounding_mode='floor')",
        "x: f32[2]\nz: f32[2]\nreturn div.Tensor_mode(self=x, other=z, rounding_mode='floor')",
        "x: f32[2]\nz: f32[2]\nreturn div.Tensor_mode(self=x, other=z, rounding_mode='trunc')",
    ),
)


# ---- views and writes
def _written(view: str, write: str, **more: object) -> Case:
    """What is written through a view is seen in the tensor."""
    seq = "x: f32[4, 6]\nreturn exp(x)"
    text = f"x: f32[4, 6]\nv = {view}\nu = {write}\nreturn exp(x)"
    return Case(f"{view}, then {write}", seq, text, **{"maps": (), **more})  # type: ignore[arg-type]


VIEWS = (
    "hsplit.int(x, 2)[0]", "vsplit.int(x, 2)[1]", "mT(x)", "matrix_H(x)", "adjoint(x)",
    "type_as(x, x)", "positive(x)", "resolve_conj(x)", "resolve_neg(x)", "atleast_2d(x)", "data(x)",
    "to.dtype(x, 'float32')", "prims.view_of(x)", "chunk(x, 2)[0]", "diagonal(x)", "unfold(x, 0, 2, 2)",
    "swapaxes(x, 0, 1)", "movedim.int(x, 0, 1)", "view_as(x, x)", "contiguous(x)", "narrow(x, 0, 0, 2)",
    "broadcast_to(x, [4, 6])", "tensor_split.sections(x, 2)[0]", "dropout(x, 0.5, False)",
)  # fmt: skip
WRITES = (
    *(_written(view, "add_.Tensor(v, 1.0)") for view in VIEWS),
    _written("t(x)", "relu.out(x, out=v)"),
    _written("t(x)", "zero_(v)"),
    _written("view(x, [24])", "copy_(v, v)"),
    *(
        _written(copy, "add_.Tensor(v, 1.0)", maps=None)
        for copy in ("clone(x)", "_to_copy(x)", "mul.Tensor(x, 1.0)", "t_copy(x)", "cat([x, x], 0)")
    ),
)


# ---- kernels that write without saying so by their name
STATISTICS = "x: f32[4, 3]\nm: f32[3]\nv: f32[3]\n{}\nreturn add.Tensor(m, v)"
NORM = "o = native_batch_norm(x, None, None, m, v, {}, 0.1, 1e-5)[0]"
HIDDEN = (
    Case("statistics at rest", STATISTICS.format(""), STATISTICS.format(NORM.format(False))),
    Case(
        "running statistics", STATISTICS.format(""), STATISTICS.format(NORM.format(True)), maps=()
    ),
    Case(
        "statistics of instances",
        STATISTICS.format(""),
        STATISTICS.format("o = instance_norm(x, None, None, m, v, True, 0.1, 1e-5, False)"),
        maps=(),
    ),
    Case(
        "the noise of rrelu",
        "x: f32[4, 3]\nn: f32[4, 3]\nreturn exp(n)",
        "x: f32[4, 3]\nn: f32[4, 3]\no = rrelu_with_noise(x, n, 0.1, 0.3, True)\nreturn exp(n)",
        maps=(),
    ),
    Case(
        "moments of a fused optimizer",
        "x: f32[4]\nm: f32[4]\nv: f32[4]\nn: f32[]\nreturn exp(m)".replace("f32[]", "f32[()]"),
        "x: f32[4]\nm: f32[4]\nv: f32[4]\nn: f32[()]\n"
        "u = _fused_adam_([x], [x], [m], [v], [], [n], lr=0.1, beta1=0.9, beta2=0.9, weight_decay=0.0,"
        " eps=1e-8, amsgrad=False, maximize=False)\nreturn exp(m)",
        maps=(),
    ),
    Case(
        "unscaled gradients",
        "x: f32[4]\ne: f32[()]\nn: f32[()]\nreturn exp(x)",
        "x: f32[4]\ne: f32[()]\nn: f32[()]\n"
        "u = _amp_foreach_non_finite_check_and_unscale_([x], e, n)\nreturn exp(x)",
        maps=(),
    ),
    *(
        Case(
            f"out of {kind}",
            "x: f32[4]\nv: f32[4]\nn: i64[4]\nreturn exp(v)",
            f"x: f32[4]\nv: f32[4]\nn: i64[4]\nu = {call}\nreturn exp(v)",
            maps=(),
        )
        for kind, call in (
            ("topk", "topk.values(x, 4, values=v, indices=n)"),
            ("sort", "sort.values(x, values=v, indices=n)"),
            ("max", "max.dim_max(x, 0, max=v, max_values=n)"),
        )
    ),
)

# ---- integers modulo their width
U8 = "x: u8[{0}]\nz: u8[{0}]\n"
COUNTED = (
    "m: b[8]\nx: f32[8]\nc: i64[()] = sum(m)\nt = sum(mul.Tensor(x, m))\n"
    "f: f32[()] = _to_copy(c, dtype='float32')\nreturn div.Tensor(t, f)"
)
COUNTS = (
    "m: b[4]\nx: f32[4]\nc: i64[()] = sum(m)\nt = sum(mul.Tensor(x, m))\n"
    'k: i64[()] = all_reduce(c, "sum", "g")\ns = all_reduce(t, "sum", "g")\n'
    "f: f32[()] = _to_copy(k, dtype='float32')\nreturn div.Tensor(s, f)"
)
INTEGERS = (
    *_pair(
        "a difference of bytes as a number",
        U8.format(4) + "d: u8[4] = sub.Tensor(x, z)\nreturn _to_copy(d, dtype='float32')",
        U8.format(2) + "d: u8[2] = sub.Tensor(x, z)\nreturn _to_copy(d, dtype='float32')",
        U8.format(2)
        + "a: f32[2] = _to_copy(x, dtype='float32')\nb: f32[2] = _to_copy(z, dtype='float32')\n"
        "return sub.Tensor(a, b)",
    ),
    *_pair(
        "a sum of bytes over ranks",
        "x: u8[4, 6]\ny: u8[6] = sum.dim_IntList(x, [0], dtype='uint8')\nreturn y",
        "x: u8[2, 6]\np: u8[6] = sum.dim_IntList(x, [0], dtype='uint8')\ny: u8[6] = all_reduce(p, 'sum', 'g')\n"
        "return y",
        "x: u8[2, 6]\np: u8[6] = sum.dim_IntList(x, [0], dtype='uint8')\nw: i64[6] = _to_copy(p, dtype='int64')\n"
        "v: i64[6] = all_reduce(w, 'sum', 'g')\ny: i64[6] = add.Tensor(v, 0)\nreturn y",
    ),
    *_pair(
        "a sum of bytes that is read as a number",
        "x: u8[4, 6]\ny: u8[6] = sum.dim_IntList(x, [0], dtype='uint8')\nreturn _to_copy(y, dtype='float32')",
        "x: u8[2, 6]\np: u8[6] = sum.dim_IntList(x, [0], dtype='uint8')\ny: u8[6] = all_reduce(p, 'sum', 'g')\n"
        "return _to_copy(y, dtype='float32')",
        "x: u8[2, 6]\np: u8[6] = sum.dim_IntList(x, [0], dtype='uint8')\nq: f32[6] = _to_copy(p, dtype='float32')\n"
        "return all_reduce(q, 'sum', 'g')",
    ),
    *_pair(
        "counts over ranks",
        COUNTED,
        COUNTS,
        COUNTS.replace("k: i64[()] = all_reduce(c", "k: b[()] = all_reduce(c").replace(
            "c: i64[()] = sum(m)", "c: b[()] = any(m)"
        ),
    ),
    Case(
        "truth values added up by a collective",
        "x: b[2, 4]\ny: i64[4] = sum.dim_IntList(x, [0])\nreturn y",
        "x: b[1, 4]\ny: b[4] = view(x, [4])\nreturn all_reduce(y, 'sum', 'g')",
        maps=(),
    ),
    Case(
        "bits of bytes and of words",
        "x: i64[4]\ny: i64[4] = bitwise_not(x)\nreturn _to_copy(y, dtype='float32')",
        "x: i64[2]\nb: u8[2] = _to_copy(x, dtype='uint8')\ny: u8[2] = bitwise_not(b)\n"
        "return _to_copy(y, dtype='float32')",
        maps=(),
    ),
    *(
        Case(
            f"{name} of a negated byte",
            f"x: u8[4]\ny: u8[4] = {call.format('x')}\nreturn _to_copy(y, dtype='float32')",
            f"x: u8[2]\nn: u8[2] = neg(x)\nf: f32[2] = _to_copy(n, dtype='float32')\nm = neg(f)\n"
            f"y: f32[2] = {call.format('m')}\nreturn y",
            maps=(),
        )
        for name, call in (
            ("abs", "abs({})"),
            ("a power", "pow.Tensor_Scalar({}, 2)"),
            ("a double", "mul.Tensor({}, 2)"),
        )
    ),
    *_pair(
        "a comparison of a difference",
        U8.format(4) + "d: u8[4] = sub.Tensor(x, z)\nreturn lt.Scalar(d, 5)",
        U8.format(2) + "d: u8[2] = sub.Tensor(x, z)\nreturn lt.Scalar(d, 5)",
        "x: u8[2]\nz: u8[2]\na: i64[2] = _to_copy(x, dtype='int64')\nb: i64[2] = _to_copy(z, dtype='int64')\n"
        "d: i64[2] = sub.Tensor(a, b)\nreturn lt.Scalar(d, 5)",
    ),
    *_pair(
        "a sum of two widths",
        "x: i32[4]\nz: i32[4]\ny: i32[4] = add.Tensor(x, z)\nreturn _to_copy(y, dtype='int64')",
        "x: i32[2]\nz: i32[2]\ny: i32[2] = add.Tensor(z, x)\nreturn _to_copy(y, dtype='int64')",
        "x: i32[2]\nz: i32[2]\na: i64[2] = _to_copy(x, dtype='int64')\nb: i64[2] = _to_copy(z, dtype='int64')\n"
        "y: i64[2] = add.Tensor(a, b)\nreturn y",
    ),
    *_pair(
        "a narrower sum",
        "x: i64[4]\nz: i64[4]\ny: i64[4] = add.Tensor(x, z)\nreturn _to_copy(y, dtype='int32')",
        "x: i64[2]\nz: i64[2]\na: i32[2] = _to_copy(x, dtype='int32')\nb: i32[2] = _to_copy(z, dtype='int32')\n"
        "y: i32[2] = add.Tensor(a, b)\nreturn y",
        "x: i64[2]\nz: i64[2]\na: i32[2] = _to_copy(x, dtype='int32')\nb: i32[2] = _to_copy(z, dtype='int32')\n"
        "y: i32[2] = sub.Tensor(a, b)\nreturn y",
        xfail="a sum is not taken apart to cut its terms",
    ),
)

# ---- norms
NORMS = (
    *_pair(
        "a norm over two dimensions without weights",
        "x: f32[2, 4, 8]\nreturn native_layer_norm(x, [4, 8], None, None, 1e-5)[0]",
        "x: f32[1, 4, 8]\nreturn native_layer_norm(x, [4, 8], None, None, 1e-5)[0]",
        "x: f32[1, 4, 8]\nreturn native_layer_norm(x, [8], None, None, 1e-5)[0]",
    ),
    Case(
        "a norm over a sequence that is cut",
        "x: f32[2, 4, 8]\nreturn native_layer_norm(x, [4, 8], None, None, 1e-5)[0]",
        "x: f32[2, 2, 8]\nreturn native_layer_norm(x, [2, 8], None, None, 1e-5)[0]",
        maps=(),
    ),
    *_pair(
        "the epsilon of a type",
        "x: f32[4, 8]\nw: f32[8]\nreturn _fused_rms_norm(x, [8], w, None)[0]",
        "x: f32[2, 8]\nw: f32[8]\nreturn _fused_rms_norm(x, [8], w, None)[0]",
        "x: f32[2, 8]\nw: f32[8]\na: bf16[2, 8] = _to_copy(x, dtype='bfloat16')\n"
        "b: bf16[8] = _to_copy(w, dtype='bfloat16')\no = _fused_rms_norm(a, [8], b, None)[0]\n"
        "return _to_copy(o, dtype='float32')",
    ),
)

# ---- 0 times what is not finite
NOTHING = "x: f32[4]\ny: f32[4] = {}\nreturn y"
ZERO = (
    *(
        Case(
            f"0 times {name}",
            NOTHING.format("mul.Tensor(x, 0.0)"),
            "x: f32[2]\n" + text + "\nreturn y",
            maps=(),
        )
        for name, text in (
            ("-inf", "i: f32[2] = full([2], -inf)\ny: f32[2] = mul.Tensor(i, 0.0)"),
            (
                "the logarithm of 0",
                "n: f32[2] = mul.Tensor(x, 0.0)\ny: f32[2] = mul.Tensor(log(n), 0.0)",
            ),
            (
                "inf as alpha",
                "i: f32[2] = full([2], inf)\nz: f32[2] = mul.Tensor(x, 0.0)\ny: f32[2] = add.Tensor(z, i, alpha=0)",
            ),
        )
    ),
    Case(
        "0 times an input",
        NOTHING.format("mul.Tensor(x, 0.0)"),
        "x: f32[2]\nreturn mul.Tensor(x, 0.0)",
    ),
    Case(
        "0 times a mask",
        "m: b[4]\nx: f32[4]\nf: f32[4] = _to_copy(m, dtype='float32')\nreturn add.Tensor(x, mul.Tensor(f, 0.0))",
        "m: b[2]\nx: f32[2]\nreturn clone(x)",
    ),
)


# ---- lists of tensors that are not described one by one
LISTS = (
    *_pair(
        "a list of interpolations",
        "x: f32[4]\nz: f32[4]\nw: f32[4]\nv: f32[4]\np = _foreach_lerp.List([x, x], [z, z], [w, v])\n"
        "a: f32[4] = p[0]\nb: f32[4] = p[1]\nreturn a, b",
        "x: f32[4]\nz: f32[4]\nw: f32[4]\nv: f32[4]\np = _foreach_lerp.List([x, x], [z, z], [w, v])\n"
        "a: f32[4] = p[0]\nb: f32[4] = p[1]\nreturn a, b",
        "x: f32[4]\nz: f32[4]\nw: f32[4]\nv: f32[4]\np = _foreach_lerp.List([x, x], [z, z], [v, w])\n"
        "a: f32[4] = p[0]\nb: f32[4] = p[1]\nreturn a, b",
    ),
)


@table(*ARGUMENTS, *LISTS)
def test_arguments(case: Case, outcomes: Outcomes) -> None:
    check(case, outcomes(case))


@table(*WRITES, *HIDDEN)
def test_memory(case: Case, outcomes: Outcomes) -> None:
    check(case, outcomes(case))


@table(*INTEGERS)
def test_integers(case: Case, outcomes: Outcomes) -> None:
    check(case, outcomes(case))


@table(*NORMS, *ZERO)
def test_numbers(case: Case, outcomes: Outcomes) -> None:
    check(case, outcomes(case))
