"""Mixture of experts: rows chosen by a mask, how many depends on data, experts on several ranks."""

from __future__ import annotations

from .build import Case, check, row, table
from .conftest import Outcomes

CHOICE = """
x: f32[{n}, 4]
r: f32[4, {e}]
score = mm(x, r)
route: f32[{n}, {e}] = {router}
best = max.dim(route, 1)
ind: i64[{n}] = best[1]
gate = sigmoid(score)
at: i64[{n}] = arange({n})
p = unsqueeze(index.Tensor(gate, [at, ind]), 1)
"""
EXPERT = """
m{i}: b[{t}] = eq.Scalar({ind}, {i})
i{i}: i64["u{i}", 1] = nonzero(m{i})
h{i}: f32["u{i}", 1, 4] = index.Tensor({x}, [i{i}])
v{i}: f32["u{i}", 4] = view(h{i}, ["u{i}", 4])
o{i} = view(relu(mm(v{i}, w{i})), ["u{i}", 1, 4])
"""


def weights(*experts: int) -> str:
    """The experts' weights."""
    return "".join(f"w{i}: f32[4, 4]\n" for i in experts)


def expert(i: int, into: str, out: str, t: int, x: str = "x", ind: str = "ind") -> str:
    """One expert: its rows of ``x`` go into ``into``."""
    body = EXPERT.format(i=i, t=t, x=x, ind=ind).replace(
        f'o{i} = view(relu(mm(v{i}, w{i})), ["u{i}", 1, 4])',
        f'e{i}: f32["u{i}", 4] = relu(mm(v{i}, w{i}))\n'
        f'o{i}: f32["u{i}", 1, 4] = view(e{i}, ["u{i}", 1, 4])',
    )
    return body + f"{out}: f32[{t}, 4] = index_put({into}, [i{i}], o{i})\n"


def program(n: int, e: int, router: str = "softmax(score, 1)") -> str:
    """The router over ``n`` tokens."""
    return CHOICE.format(n=n, e=e, router=router)


SEQ = (
    weights(0, 1) + program(8, 2) + "z: f32[8, 4] = zeros([8, 4])\n"
    + expert(0, "z", "t0", 8) + expert(1, "t0", "t1", 8)
    + "y = mul.Tensor(t1, p)\nreturn y"
)  # fmt: skip
GATHER = """
xs = all_gather_into_tensor(x, 2, "g")
gi: i64[8] = all_gather_into_tensor(ind, 2, "g")
z: f32[8, 4] = zeros([8, 4])
"""
# rank r holds expert r; `w` stands for its weight, the number of the expert for its index
DIST = (
    "we: f32[4, 4]\n" + program(4, 2) + GATHER
    + expert(0, "z", "t0", 8, "xs", "gi").replace("w0", "we").replace("ind, 0", "gi, 0")
    .replace("eq.Scalar(gi, 0)", "eq.Scalar(gi, rank)")
    + 't1 = reduce_scatter_tensor(t0, "sum", 2, "g")\ny = mul.Tensor(t1, p)\nreturn y'
)  # fmt: skip
RELATE = {"w0": [row(0, "w0", "we")], "w1": [row(1, "w1", "we")]}
PARALLEL = Case("experts on two ranks, tokens sharded", SEQ, DIST, relate=RELATE)
LOCAL = Case(
    "experts one by one on sharded tokens",
    SEQ,
    weights(0, 1) + program(4, 2) + "z: f32[4, 4] = zeros([4, 4])\n"
    + expert(0, "z", "t0", 4) + expert(1, "t0", "t1", 4)
    + "y = mul.Tensor(t1, p)\nreturn y",
    xfail="refused: rows chosen from a shard of the tokens",
)  # fmt: skip
REPLICATED = Case("experts on every rank", SEQ, SEQ)
SINKHORN = PARALLEL.but(
    "a router that normalises over tokens",
    seq=SEQ.replace("softmax(score, 1)", "softmax(score, 0)"),
    dist=DIST.replace("softmax(score, 1)", "softmax(score, 0)"),
)
OPAQUE = PARALLEL.but(
    "a router that is a kernel",
    seq=SEQ.replace("softmax(score, 1)", "my.sinkhorn(score)"),
    dist=DIST.replace("softmax(score, 1)", "my.sinkhorn(score)"),
)
# of one expert the index is 0 whatever the router says
SINGLE = Case(
    "one expert: the index of a maximum over one position",
    weights(0) + program(8, 1, "my.sinkhorn(score)") + "z: f32[8, 4] = zeros([8, 4])\n"
    + expert(0, "z", "t0", 8) + "y = mul.Tensor(t0, p)\nreturn y",
    weights(0) + program(4, 1, "my.sinkhorn(score)") + GATHER.replace("gi: i64[8]", "gi: i64[8]")
    + expert(0, "z", "t0", 8, "xs", "gi")
    + "t1 = slice(t0, 0, 4 * rank, 4 * rank + 4)\ny = mul.Tensor(t1, p)\nreturn y",
)  # fmt: skip
OTHER_ORDER = Case(
    "experts in another order",
    SEQ,
    weights(0, 1) + program(8, 2) + "z: f32[8, 4] = zeros([8, 4])\n"
    + expert(1, "z", "t1", 8) + expert(0, "t1", "t0", 8)
    + "y = mul.Tensor(t0, p)\nreturn y",
)  # fmt: skip
GRADIENT = Case(
    "gradients through chosen rows",
    "x: f32[8, 4]\nind: i64[8]\ng: f32[8, 4]\n"
    'm: b[8] = eq.Scalar(ind, 1)\ni: i64["u0", 1] = nonzero(m)\n'
    'gi: f32["u0", 1, 4] = index.Tensor(g, [i])\nhi: f32["u0", 1, 4] = index.Tensor(x, [i])\n'
    'a: f32["u0", 4] = view(gi, ["u0", 4])\nb: f32["u0", 4] = view(hi, ["u0", 4])\n'
    "gw = mm(t(b), a)\nnone: f32[()] = const(0.0)\nrest: f32[8, 4] = index_put(g, [i], none)\n"
    "z: f32[8, 4] = zeros([8, 4])\nback: f32[8, 4] = index_put(z, [i], gi, True)\n"
    "return gw, rest, back",
    "x: f32[8, 4]\nind: i64[8]\ng: f32[8, 2]\n"
    'm: b[8] = eq.Scalar(ind, 1)\ni: i64["u3", 1] = nonzero(m)\n'
    'gi: f32["u3", 1, 2] = index.Tensor(g, [i])\nhi: f32["u3", 1, 4] = index.Tensor(x, [i])\n'
    'a: f32["u3", 2] = view(gi, ["u3", 2])\nb: f32["u3", 4] = view(hi, ["u3", 4])\n'
    "gw = mm(t(b), a)\nnone: f32[()] = const(0.0)\nrest: f32[8, 2] = index_put(g, [i], none)\n"
    "z: f32[8, 2] = zeros([8, 2])\nback: f32[8, 2] = index_put(z, [i], gi, True)\n"
    "return gw, rest, back",
)
SIZES = Case(
    "what is made in a size that depends on data",
    'm: b[8]\nn: b[8]\ni: i64["u0", 1] = nonzero(m)\nj: i64["u1", 1] = nonzero(n)\n'
    'k: i64[()] = sym_size.int(i, 0)\no: f32["u0"] = ones([k])\ny = sum.default(o)\n'
    'z: f32["u0"] = full([k], 2.0)\nq = mean.default(index.Tensor(arange_like(m), [i]))\nreturn y, z, q',
    'm: b[8]\nn: b[8]\ni: i64["u0", 1] = nonzero(m)\nj: i64["u1", 1] = nonzero(n)\n'
    'k: i64[()] = sym_size.int(j, 0)\no: f32["u1"] = ones([k])\ny = sum.default(o)\n'
    'z: f32["u1"] = full([k], 2.0)\nq = mean.default(index.Tensor(arange_like(m), [j]))\nreturn y, z, q',
    maps=(),
)


@table(
    PARALLEL,
    PARALLEL.miss("another expert's rows", "eq.Scalar(gi, rank)", "eq.Scalar(gi, 1 - rank)"),
    PARALLEL.miss("the same expert twice", "eq.Scalar(gi, rank)", "eq.Scalar(gi, 0)"),
    PARALLEL.miss("put into something", "z: f32[8, 4] = zeros([8, 4])", "z: f32[8, 4] = clone(xs)"),
    PARALLEL.miss(
        "indices not gathered",
        'gi: i64[8] = all_gather_into_tensor(ind, 2, "g")',
        "gi: i64[8] = cat([ind, ind], 0)",
    ),
    PARALLEL.miss(
        "not reduced",
        't1 = reduce_scatter_tensor(t0, "sum", 2, "g")',
        "t1 = slice(t0, 0, 4 * rank, 4 * rank + 4)",
    ),
    PARALLEL.miss(
        "a scale of another token", "y = mul.Tensor(t1, p)", "y = mul.Tensor(t1, flip(p, [0]))"
    ),
    PARALLEL.miss(
        "weights exchanged",
        "we",
        "we",
        relate={"w0": [row(1, "w0", "we")], "w1": [row(0, "w1", "we")]},
    ),
    LOCAL,
    REPLICATED,
    REPLICATED.miss("one expert for both", "mm(v1, w1)", "mm(v1, w0)"),
    REPLICATED.miss("indices exchanged", "eq.Scalar(ind, 1)", "eq.Scalar(ind, 2)"),
    SINKHORN,
    OPAQUE,
    SINGLE,
    SINGLE.miss(
        "another slice of the tokens",
        "slice(t0, 0, 4 * rank, 4 * rank + 4)",
        "slice(t0, 0, 4 - 4 * rank, 8 - 4 * rank)",
    ),
    OTHER_ORDER,
    OTHER_ORDER.miss(
        "both put at one expert's rows",
        "index_put(z, [i1], o1)",
        "index_put(z, [i1], mul.Tensor(o1, 2))",
    ),
    GRADIENT,
    GRADIENT.miss("of other rows", "eq.Scalar(ind, 1)", "eq.Scalar(ind, 0)"),
    SIZES,
)
def test_experts(case: Case, outcomes: Outcomes) -> None:
    check(case, outcomes(case))
