"""False proofs seen in the wild, each beside a right program that differs only in the mistake, and
right programs that must not be refused."""

from __future__ import annotations

from .build import Case, check, row, table
from .conftest import Outcomes

DROPOUT = Case(
    "dropout probability",
    "x: f32[8, 4]\ny = native_dropout(x, 0.1, True)[0]\nreturn y",
    "x: f32[4, 4]\ny = native_dropout(x, 0.1, True)[0]\nreturn y",
)
NORM = Case(
    "layer norm",
    "x: f32[8, 6]\nw: f32[6]\nb: f32[6]\ny = native_layer_norm(x, [6], w, b, 1e-5)[0]\nreturn y",
    "x: f32[4, 6]\nw: f32[6]\nb: f32[6]\ny = native_layer_norm(x, [6], w, b, 1e-5)[0]\nreturn y",
)
ROTARY = """
p: i64[5]
q: f32[5, {q}]
k: f32[5, {k}]
c: f32[10, 4]
t = kernel("_C.rotary_embedding", positions=p, query=q, key=k, head_size=4, cos_sin_cache=c, is_neox=True)
y: f32[5, {q}] = t[1]
return y
"""
ROTARY_CASE = Case("rotary", ROTARY.format(q=32, k=16), ROTARY.format(q=16, k=8))
HEADS = Case(
    "softmax per head",
    "x: f32[5, 24]\ny = _softmax(view(x, [5, 6, 4]), 2, False)\nreturn y",
    "x: f32[5, 12]\ny = _softmax(view(x, [5, 3, 4]), 2, False)\nreturn y",
)
BADDBMM = Case(
    "beta * empty",
    "a: f32[4, 2, 3]\nb: f32[4, 3, 5]\ne: f32[4, 2, 5] = empty([4, 2, 5])\n"
    "y = baddbmm(e, a, b, beta=0, alpha=0.5)\nreturn y",
    "a: f32[2, 2, 3]\nb: f32[2, 3, 5]\ne: f32[2, 2, 5] = empty([2, 2, 5])\n"
    "y = baddbmm(e, a, b, beta=0, alpha=0.5)\nreturn y",
)
FULL = Case(
    "constant by value",
    "x: f32[8]\nc: f32[8] = full([8], 3.0)\ny = maximum(x, c)\nreturn y",
    "x: f32[4]\nc: f32[4] = full([4], 3.0)\ny = maximum(x, c)\nreturn y",
)
LOST = Case(
    "constant whose value was lost",
    "x: f32[8]\nc: f32[()] = const()\ny = maximum(x, c)\nreturn y",
    "x: f32[4]\nc: f32[()] = const()\ny = maximum(x, c)\nreturn y",
    relate={"c": [row(r, "c") for r in range(2)]},
)
IDENTITY = Case(
    "dropout that does nothing",
    "x: f32[8]\ny = native_dropout(x, 0.5, False)[0]\nreturn y",
    "x: f32[4]\ny = clone(x)\nreturn y",
)
TWO_OUTPUTS = Case(
    "every output",
    "x: f32[8]\na = relu(x)\nb = exp(x)\nreturn a, b",
    "x: f32[4]\na = relu(x)\nb = exp(x)\nreturn a, b",
)
ROW = "x: f32[4, {n}]\nw: f32[{n}, 5]\ny = mm(x, w)\n"
ROW_CASE = Case(
    "row parallel",
    ROW.format(n=6) + "return y",
    ROW.format(n=3) + 'z = all_reduce(y, "sum", "g")\nreturn z',
)
RELATED = Case(
    "contradictory relations",
    "x: f32[8]\ny = relu(x)\nreturn y",
    "x: f32[4]\ny = relu(x)\nreturn y",
    relate={"x": [row(r, "x", seq_box=[[4 * r, 4 * r + 4]]) for r in range(2)]},
)
COLUMNS = Case(
    "gathered columns",
    "x: f32[4, 6]\nw: f32[6, 5]\ny = mm(x, w)\nreturn y",
    'x: f32[4, 3]\nw: f32[6, 5]\ng: f32[8, 3] = all_gather_into_tensor(x, 2, "g")\n'
    "v = view(g, [2, 4, 3])\np = permute(v, [1, 0, 2])\nu: f32[4, 6] = view(p, [4, 6])\ny = mm(u, w)\nreturn y",
)
CHUNKS = Case(
    "gathered columns put together from chunks",
    "x: f32[4, 6]\nw: f32[6, 5]\ny = mm(x, w)\nreturn y",
    'x: f32[4, 3]\nw: f32[6, 5]\ng: f32[8, 3] = all_gather_into_tensor(x, 2, "g")\nt = split.Tensor(g, 4)\n'
    "y = mm(cat([t[0], t[1]], 1), w)\nreturn y",
)
VIEWS = Case(
    "the same range of two views",
    "x: f32[12, 2]\nv = view(x, [6, 4])\ny = slice(v, 0, 0, 3)\nreturn y",
    "x: f32[12, 2]\nv = view(x, [6, 4])\ny = slice(v, 0, 0, 3)\nreturn y",
)
GROUPED = """
q: f32[5, {h}, 4]
k: f32[5, {g}, 4]
v: f32[5, {g}, 4]
o: f32[5, {h}, 4] = empty([5, {h}, 4])
t = kernel("vllm.unified_attention_with_output", query=q, key=k, value=v, output=o, layer_name="a")
y: f32[5, {h}, 4] = t[1]
return y
"""
GROUPED_CASE = Case("grouped-query attention", GROUPED.format(h=8, g=4), GROUPED.format(h=4, g=2))
FUSED = "w: f32[{n}, 3]\nx: f32[2, 3]\nm = mm(x, t(w))\na = slice(m, 1, 0, {n} // 2)\n"
FUSED += "b = slice(m, 1, {n} // 2, {n})\ny = mul(silu(a), b)\nreturn y"


def halves(first: int, second: int) -> list[dict[str, object]]:
    """Rank r has rows of each half of a fused projection of 2 x 8 rows, the first ``first`` rows of
    its weight from the first half."""
    rows = []
    for r in range(2):
        at = [[[first * r, first * r + first]], [[8 + second * r, 8 + second * r + second]]]
        mine = [[[0, first]], [[first, first + second]]]
        rows += [
            row(r, "w", seq_box=[*s, [0, 3]], dist_box=[*d, [0, 3]])
            for s, d in zip(at, mine, strict=True)
        ]
    return rows


FUSED_CASE = Case(
    "halves of a fused projection",
    FUSED.format(n=16),
    FUSED.format(n=8),
    relate={"w": halves(4, 4)},
)
KERNEL = Case(
    "result of a kernel",
    "x: f32[8, 6]\nw: f32[6]\nb: f32[6]\nt = native_layer_norm(x, [6], w, b, 1e-5)\ny = mul(t[1], t[2])\nreturn y",
    "x: f32[4, 6]\nw: f32[6]\nb: f32[6]\nt = native_layer_norm(x, [6], w, b, 1e-5)\ny = mul(t[1], t[2])\nreturn y",
)
MEMBERS = Case(
    "members",
    ROW.format(n=8) + "return y",
    "x: f32[4, 2]\nw: f32[2, 5]\ny = mm(x, w)\n" + 'z = all_reduce(y, "sum", "g")\nreturn z',
    ranks=4,
)
TWO_REDUCTIONS = Case(
    "two reductions",
    "x: f32[4, 4]\nw: f32[4, 5]\nv: f32[4, 5]\na = mm(x, w)\nb = mm(x, v)\nreturn a, b",
    'x: f32[4, 2]\nw: f32[2, 5]\nv: f32[2, 5]\na = all_reduce(mm(x, w), "sum", "g")\n'
    'b = all_reduce(mm(x, v), "sum", "g")\nreturn a, b',
)
SCATTERED = Case(
    "row blocks of parts",
    ROW.format(n=6) + "return y",
    ROW.format(n=3) + 'z = reduce_scatter_tensor(y, "sum", 2, "g")\nreturn z',
)
MAXIMUM = Case(
    "maximum",
    "x: f32[4, 6]\ny = exp(amax(x, [1]))\nreturn y",
    'x: f32[4, 3]\ny = all_reduce(exp(amax(x, [1])), "max", "g")\nreturn y',
)
MAX_MATMUL = Case(
    "maximum and a matmul",
    "x: f32[4, 6]\nw: f32[4, 5]\nm = view(amax(x, [1]), [1, 4])\ny = mm(m, w)\nreturn y",
    'x: f32[4, 3]\nw: f32[4, 5]\nm = all_reduce(amax(x, [1]), "max", "g")\ny = mm(view(m, [1, 4]), w)\nreturn y',
)
MAX_NEGATED = Case(
    "maximum and a negative scale",
    "x: f32[4, 6]\ny = neg(amax(x, [1]))\nreturn y",
    'x: f32[4, 3]\ny = neg(all_reduce(amax(x, [1]), "max", "g"))\nreturn y',
)
BIASED = Case(
    "bias / N before the all-reduce",
    "x: f32[4, 6]\nw: f32[6, 5]\nb: f32[5]\ny = addmm(b, x, w)\nreturn y",
    "x: f32[4, 3]\nw: f32[3, 5]\nb: f32[5]\np = add.Tensor(mm(x, w), div.Tensor(b, 2))\n"
    'y = all_reduce(p, "sum", "g")\nreturn y',
)
SHARED = Case(
    "routed and shared experts",
    "x: f32[4, 6]\nw: f32[6, 5]\ns: f32[6, 5]\nu: f32[4, 6]\ny = add.Tensor(mm(x, w), mm(u, s))\nreturn y",
    "x: f32[4, 3]\nw: f32[3, 5]\ns: f32[6, 5]\nu: f32[4, 6]\n"
    'y = add.Tensor(all_reduce(mm(x, w), "sum", "g"), mm(u, s))\nreturn y',
)
POSITIONS = Case(
    "position table",
    "p: f32[8, 6]\nx: f32[8, 6]\ny = add.Tensor(x, p)\nreturn y",
    "p: f32[8, 6]\nx: f32[4, 6]\nl = slice(p, 0, 4 * rank, 4 * rank + 4)\ny = add.Tensor(x, l)\nreturn y",
)
WILD = (
    DROPOUT,
    DROPOUT.miss("differs", "0.1", "0.2"),
    DROPOUT.miss("as identity", "native_dropout(x, 0.1, True)[0]", "clone(x)"),
    DROPOUT.miss(
        "left out in the sequential program",
        "native_dropout(x, 0.1, True)[0]",
        "clone(x)",
        side="seq",
    ),
    IDENTITY,
    IDENTITY.miss("but in training", "False", "True", side="seq"),
    ROTARY_CASE,
    ROTARY_CASE.miss("style", "is_neox=True", "is_neox=False"),
    ROTARY_CASE.miss("head size", "head_size=4", "head_size=8"),
    ROTARY_CASE.miss(
        "key instead of query",
        "t[1]",
        "t[2]",
        dist=ROTARY.format(q=16, k=16).replace("t[1]", "t[2]"),
    ),
    NORM,
    NORM.miss("epsilon", "1e-5", "1e-6"),
    HEADS,
    HEADS.miss("heads of another size", "[5, 3, 4]", "[5, 6, 2]"),
    HEADS.miss(
        "boundary inside a head",
        "x: f32[5, 12]\ny = _softmax(view(x, [5, 3, 4]), 2, False)",
        "x: f32[5, 8]\ny = _softmax(view(x, [5, 2, 4]), 2, False)",
        ranks=3,
        relate={
            "x": [
                row(r, "x", seq_box=[[0, 5], [8 * r - 2 * (r > 0), 8 * r + 8 - 2 * (r > 0)]])
                for r in range(3)
            ]
        },
    ),
    BADDBMM,
    BADDBMM.miss("beta 1", "beta=0", "beta=1"),
    BADDBMM.but(
        "beta 1 on both sides",
        seq=BADDBMM.seq.replace("beta=0", "beta=1"),
        dist=BADDBMM.dist.replace("beta=0", "beta=1"),
    ),
    FULL,
    FULL.miss("another value", "3.0", "4.0"),
    FULL.miss("memory instead", "full([4], 3.0)", "empty([4])"),
    LOST,
    LOST.but("and nothing is said of it", relate={"c": []}),
    TWO_OUTPUTS,
    TWO_OUTPUTS.miss("the second is wrong", "b = exp(x)", "b = sin(x)", maps=("a",)),
    TWO_OUTPUTS.miss("the first is wrong", "a = relu(x)", "a = sin(x)", maps=("b",)),
    TWO_OUTPUTS.miss(
        "one rank of the second is wrong",
        "b = exp(x)",
        "b = exp(x) if rank == 0 else sin(x)",
        maps=("a",),
    ),
    RELATED,
    RELATED.but(
        "two halves in one place",
        error="is said to hold both",
        relate={"x": [*RELATED.relate["x"], row(0, "x", seq_box=[[4, 8]])]},
    ),
    RELATED.but(
        "about a computed node",
        error="is computed from other nodes",
        relate={"x": [*RELATED.relate["x"], row(0, "y", seq_box=[[0, 4]])]},
    ),
    CHUNKS,
    CHUNKS.miss("out of order", "[t[0], t[1]]", "[t[1], t[0]]"),
    COLUMNS,
    COLUMNS.miss("viewed, not transposed", "view(p, [4, 6])", "view(g, [4, 6])"),
    COLUMNS.miss("rows for columns", "view(p, [4, 6])", "view(permute(v, [1, 2, 0]), [4, 6])"),
    VIEWS,
    VIEWS.miss(
        "of another view",
        "[6, 4]",
        "[6, 2, 2]",
        dist="x: f32[12, 2]\ny: f32[3, 4] = view(slice(x, 0, 3, 9), [3, 4])\nreturn y",
    ),
    VIEWS.miss(
        "of the base", "v = view(x, [6, 4])\ny = slice(v, 0, 0, 3)", "y = slice(x, 0, 0, 3)"
    ),
    GROUPED_CASE,
    GROUPED_CASE.but(
        "boundary across a key/value group",
        relate={
            n: [row(r, n, seq_box=[[0, 5], [r, r + 2], [0, 4]]) for r in range(2)]
            for n in ("k", "v")
        },
    ),
    GROUPED_CASE.but(
        "every query with the wrong key",
        relate={
            "k": [row(r, "k", seq_box=[[0, 5], [2 - 2 * r, 4 - 2 * r], [0, 4]]) for r in range(2)]
        },
    ),
    FUSED_CASE,
    FUSED_CASE.but("unequal halves", relate={"w": halves(5, 3)}),
    FUSED_CASE.but("the whole in one cut", relate={}),
    KERNEL,
    KERNEL.miss("two of one", "mul(t[1], t[2])", "mul(t[1], t[1])"),
    KERNEL.miss("taken for another", "mul(t[1], t[2])", "mul(t[2], t[2])"),
    TWO_REDUCTIONS,
    TWO_REDUCTIONS.miss(
        "one part of each",
        '"g")\nb',
        '"g")\nb',
        maps=("b",),
        dist=TWO_REDUCTIONS.dist.replace(
            "a = all_reduce(mm(x, w)", "a = all_reduce(mm(x, w) if rank == 0 else mm(x, v)"
        ),
    ),
    MEMBERS,
    MEMBERS.miss(
        "one counted twice while another is garbage",
        "y = mm(x, w)",
        "y = mm(x, w) if rank != 3 else sin(mm(x, w))",
        relate={
            "x": [
                row(r, "x", seq_box=[[0, 4], [2 * min(r, 2), 2 * min(r, 2) + 2]]) for r in range(4)
            ],
            "w": [
                row(r, "w", seq_box=[[2 * min(r, 2), 2 * min(r, 2) + 2], [0, 5]]) for r in range(4)
            ],
        },
    ),
    MEMBERS.but(
        "one counted twice, one never",
        relate={
            "x": [
                row(r, "x", seq_box=[[0, 4], [2 * min(r, 2), 2 * min(r, 2) + 2]]) for r in range(4)
            ],
            "w": [
                row(r, "w", seq_box=[[2 * min(r, 2), 2 * min(r, 2) + 2], [0, 5]]) for r in range(4)
            ],
        },
    ),
    SCATTERED,
    SCATTERED.miss(
        "taken apart before they are added",
        'z = reduce_scatter_tensor(y, "sum", 2, "g")',
        "z = slice(y, 0, 2 * rank, 2 * rank + 2)",
    ),
    SCATTERED.miss(
        "row block of one with row block of the next",
        'z = reduce_scatter_tensor(y, "sum", 2, "g")',
        'z = all_reduce(slice(y, 0, 2 * rank, 2 * rank + 2), "sum", "g")',
    ),
    MAXIMUM,
    MAXIMUM.miss("added up", '"max"', '"sum"'),
    MAX_MATMUL,
    MAX_MATMUL.miss(
        "after it",
        'm = all_reduce(amax(x, [1]), "max", "g")\ny = mm(view(m, [1, 4]), w)',
        'm = amax(x, [1])\ny = all_reduce(mm(view(m, [1, 4]), w), "max", "g")',
    ),
    MAX_NEGATED,
    MAX_NEGATED.miss(
        "before it",
        'neg(all_reduce(amax(x, [1]), "max", "g"))',
        'all_reduce(neg(amax(x, [1])), "max", "g")',
    ),
    BIASED,
    BIASED.miss("(p0 + b) + (p1 + b)", "div.Tensor(b, 2)", "b"),
    SHARED,
    SHARED.miss(
        "shared inside the sum",
        'add.Tensor(all_reduce(mm(x, w), "sum", "g"), mm(u, s))',
        'all_reduce(add.Tensor(mm(x, w), mm(u, s)), "sum", "g")',
    ),
    POSITIONS,
    POSITIONS.miss("without the offset of the rank", "4 * rank, 4 * rank + 4", "0, 4"),
    ROW_CASE,
    ROW_CASE.miss("without the all-reduce", "return z", "return y"),
)

ADDED = Case(
    "b + a",
    "a: f32[8]\nb: f32[8]\ny = add.Tensor(a, b)\nreturn y",
    "a: f32[4]\nb: f32[4]\ny = add.Tensor(b, a)\nreturn y",
)
ORDER = Case(
    "sums in another order",
    "a: f32[8]\nb: f32[8]\nc: f32[8]\nd: f32[8]\ny = add.Tensor(add.Tensor(a, b), add.Tensor(c, d))\nreturn y",
    "a: f32[4]\nb: f32[4]\nc: f32[4]\nd: f32[4]\ny = add.Tensor(a, add.Tensor(add.Tensor(d, b), c))\nreturn y",
)
RESIDUAL = Case(
    "residuals in another order",
    "x: f32[4, 6]\nw: f32[6, 5]\nr: f32[4, 5]\nb: f32[5]\ny = add.Tensor(r, add.Tensor(mm(x, w), b))\nreturn y",
    "x: f32[4, 3]\nw: f32[3, 5]\nr: f32[4, 5]\nb: f32[5]\n"
    'y = add.Tensor(add.Tensor(r, b), all_reduce(mm(x, w), "sum", "g"))\nreturn y',
)
SCALED = "x: f32[4, 6]\nw: f32[6, 5]\ny = mul.Tensor(mm(x, w), {by})\nreturn y"
MOVED = (
    'x: f32[4, 3]\nw: f32[3, 5]\ny = all_reduce(mm(mul.Tensor(x, {by}), w), "sum", "g")\nreturn y'
)
WIDE = Case(
    "degree",
    ROW.format(n=48) + "return y",
    ROW.format(n=0) + 'z = all_reduce(y, "sum", "g")\nreturn z',
)
UNEVEN = Case(
    "uneven shards",
    "x: f32[4, 11]\nw: f32[11, 5]\ny = mm(x, w)\nreturn y",
    "x: f32[4, 4 - (rank == 2)]\nw: f32[4 - (rank == 2), 5]\n"
    'y = all_reduce(mm(x, w), "sum", "g")\nreturn y',
    ranks=3,
)
PER_HEAD = Case(
    "norm per head",
    "x: f32[5, 24]\nw: f32[4]\nb: f32[4]\nv = view(x, [5, 6, 4])\ny = native_layer_norm(v, [4], w, b, 1e-5)[0]\nreturn y",
    "x: f32[5, 12]\nw: f32[4]\nb: f32[4]\nv = view(x, [5, 3, 4])\ny = native_layer_norm(v, [4], w, b, 1e-5)[0]\nreturn y",
)
GELU = Case(
    "gelu on a shard",
    "x: f32[5, 24]\ny = gelu(x, approximate='tanh')\nreturn y",
    "x: f32[5, 12]\ny = gelu(x, approximate='tanh')\nreturn y",
)
RIGHT = (
    ADDED,
    ADDED.miss("b - a", "add.Tensor(b, a)", "sub.Tensor(b, a)"),
    ADDED.but(
        "b * a",
        maps=None,
        seq=ADDED.seq.replace("add", "mul"),
        dist=ADDED.dist.replace("add", "mul"),
    ),
    ADDED.but("b / a", seq=ADDED.seq.replace("add", "div"), dist=ADDED.dist.replace("add", "div")),
    ORDER,
    ORDER.miss("one term twice", "add.Tensor(d, b), c", "add.Tensor(d, b), b"),
    RESIDUAL,
    RESIDUAL.miss("the bias twice", "add.Tensor(r, b)", "add.Tensor(r, add.Tensor(b, b))"),
    *(
        Case(
            f"a factor of {by} moved through a linear operator",
            SCALED.format(by=by),
            MOVED.format(by=by),
        )
        for by in (0.5, 0.1, 3, -2.0, 0.17677669529663687)
    ),
    Case("a factor lost on the way", SCALED.format(by=0.1), MOVED.format(by=1), maps=()),
    Case("another factor", SCALED.format(by=0.1), MOVED.format(by=0.2), maps=()),
    Case(
        "a factor moved through exp",
        "x: f32[8]\ny = mul.Tensor(exp(x), 2)\nreturn y",
        "x: f32[4]\ny = exp(mul.Tensor(x, 2))\nreturn y",
        maps=(),
    ),
    *(
        WIDE.but(
            str(n),
            maps=None,
            ranks=n,
            dist=WIDE.dist.replace("0", str(48 // n)),
            seq=WIDE.seq.replace("48", str(48 // n * n)),
        )
        for n in (2, 3, 5, 8)
    ),
    *(
        WIDE.but(
            f"{n}, one left out",
            ranks=n,
            groups={"g": [range(n - 1), [n - 1]]},
            dist=WIDE.dist.replace("0", str(48 // n)),
            seq=WIDE.seq.replace("48", str(48 // n * n)),
        )
        for n in (2, 3, 5, 8)
    ),
    UNEVEN,
    UNEVEN.but(
        "that do not meet",
        relate={
            "x": [row(r, "x", seq_box=[[0, 4], [(0, 4, 7)[r], (4, 8, 10)[r]]]) for r in range(3)],
            "w": [row(r, "w", seq_box=[[(0, 4, 7)[r], (4, 8, 10)[r]], [0, 5]]) for r in range(3)],
        },
    ),
    PER_HEAD,
    PER_HEAD.miss(
        "over all heads of the rank",
        "w: f32[4]\nb: f32[4]\nv = view(x, [5, 3, 4])\ny = native_layer_norm(v, [4], w, b, 1e-5)[0]",
        "w: f32[4]\nb: f32[4]\nv = view(x, [5, 3, 4])\nw3 = view(expand(w, [3, 4]), [12])\n"
        "b3 = view(expand(b, [3, 4]), [12])\ny = view(native_layer_norm(x, [12], w3, b3, 1e-5)[0], [5, 3, 4])",
    ),
    GELU,
    GELU.miss("approximate", "'tanh'", "'none'"),
    GELU.but(
        "of a part",
        seq="x: f32[4, 6]\nw: f32[6, 5]\ny = gelu(mm(x, w))\nreturn y",
        dist='x: f32[4, 3]\nw: f32[3, 5]\ny = all_reduce(gelu(mm(x, w)), "sum", "g")\nreturn y',
    ),
)


@table(*WILD)
def test_seen_in_the_wild(case: Case, outcomes: Outcomes) -> None:
    """The mistake is not proved, its right sibling is."""
    check(case, outcomes(case))


@table(*RIGHT)
def test_right_programs(case: Case, outcomes: Outcomes) -> None:
    """A right program is not refused, a wrong one that looks like it is."""
    check(case, outcomes(case))
