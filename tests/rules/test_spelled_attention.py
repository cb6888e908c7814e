"""Attention kernels beside what other programs do by hand, in blocks of keys or with a prefix of them
(``extract/spelled_attention.py``)."""

from __future__ import annotations

from .build import Case, check, table
from .conftest import Outcomes

KERNEL = "_scaled_dot_product_flash_attention_for_cpu"
INPUTS = "q: f32[2, 2, 4, 4]\nk: f32[2, 2, 4, 4]\nv: f32[2, 2, 4, 4]\n"
RESULTS = "y: f32[2, 2, 4, 4] = r[0]\nl: f32[2, 2, 4] = r[1]\nreturn y, l\n"
CAUSAL = f"{INPUTS}r = {KERNEL}(q, k, v, 0.0, True)\n{RESULTS}"
PLAIN = CAUSAL.replace("0.0, True", "0.0, False")
BY_HAND = Case(
    "a causal kernel, and the same by hand",
    CAUSAL,
    INPUTS
    + """
s: f32[2, 2, 4, 4] = div.Tensor(matmul(q, transpose.int(k, 2, 3)), 2.0)
o: b[4, 4] = full([4, 4], True)
m: b[4, 4] = triu(o, 1)
t: f32[2, 2, 4, 4] = masked_fill.Scalar(s, m, -inf)
p: f32[2, 2, 4, 4] = _softmax(t, 3, False)
y: f32[2, 2, 4, 4] = matmul(p, v)
l: f32[2, 2, 4] = logsumexp(t, [3])
return y, l
""",
)
MASKED = Case(
    "a mask that is added for a causal kernel",
    CAUSAL,
    INPUTS
    + f"""
o: b[4, 4] = full([4, 4], True)
c: b[4, 4] = tril(o, 0)
z: f32[()] = scalar_tensor(0.0)
w: f32[()] = scalar_tensor(-inf)
a: f32[4, 4] = where.self(c, z, w)
r = {KERNEL}(q, k, v, 0.0, False, attn_mask=a)
{RESULTS}""",
)
PREFIX = Case(
    "a rank's queries with the keys that they see",
    CAUSAL,
    f"""
q: f32[2, 2, 2, 4]
k: f32[2, 2, 4, 4]
v: f32[2, 2, 4, 4]
k0: f32[2, 2, 2 + 2 * rank, 4] = slice.Tensor(k, 2, 0, 2 + 2 * rank)
v0: f32[2, 2, 2 + 2 * rank, 4] = slice.Tensor(v, 2, 0, 2 + 2 * rank)
o: b[2, 2 + 2 * rank] = full([2, 2 + 2 * rank], True)
c: b[2, 2 + 2 * rank] = tril(o, 2 * rank)
z: f32[()] = scalar_tensor(0.0)
w: f32[()] = scalar_tensor(-inf)
a: f32[2, 2 + 2 * rank] = where.self(c, z, w)
r = {KERNEL}(q, k0, v0, 0.0, False, attn_mask=a)
y: f32[2, 2, 2, 4] = r[0]
l: f32[2, 2, 2] = r[1]
return y, l
""",
)
MERGED = Case(
    "kernels of two blocks of keys, merged by their statistics",
    PLAIN,
    f"""
q: f32[2, 2, 4, 4]
k: f32[2, 2, 4, 4]
v: f32[2, 2, 4, 4]
r = {KERNEL}(q, slice.Tensor(k, 2, 0, 2), slice.Tensor(v, 2, 0, 2), 0.0, False)
y0: f32[2, 2, 4, 4] = r[0]
l0: f32[2, 2, 4] = r[1]
u = {KERNEL}(q, slice.Tensor(k, 2, 2, 4), slice.Tensor(v, 2, 2, 4), 0.0, False)
y1: f32[2, 2, 4, 4] = u[0]
l1: f32[2, 2, 4] = u[1]
l: f32[2, 2, 4] = logaddexp(l0, l1)
a = mul.Tensor(y0, unsqueeze(exp(sub.Tensor(l0, l)), 3))
y = add.Tensor(a, mul.Tensor(y1, unsqueeze(exp(sub.Tensor(l1, l)), 3)))
return y, l
""",
)
GROUPED = Case(
    "a kernel with grouped heads, and the same by hand with repeated keys",
    f"q: f32[2, 4, 3, 4]\nk: f32[2, 2, 3, 4]\nv: f32[2, 2, 3, 4]\nr = {KERNEL}(q, k, v, 0.0, False)\n"
    "y: f32[2, 4, 3, 4] = r[0]\nreturn y\n",
    """
q: f32[2, 4, 3, 4]
k: f32[2, 2, 3, 4]
v: f32[2, 2, 3, 4]
k4: f32[2, 4, 3, 4] = reshape(expand(unsqueeze(k, 2), [2, 2, 2, 3, 4]), [2, 4, 3, 4])
v4: f32[2, 4, 3, 4] = reshape(expand(unsqueeze(v, 2), [2, 2, 2, 3, 4]), [2, 4, 3, 4])
s: f32[2, 4, 3, 3] = div.Tensor(matmul(q, transpose.int(k4, 2, 3)), 2.0)
y = matmul(div.Tensor(exp(s), sum.dim_IntList(exp(s), [3], True)), v4)
return y
""",
)
GRADIENTS = Case(
    "the gradients of a kernel, and the same by hand",
    f"{INPUTS}g: f32[2, 2, 4, 4]\nr = {KERNEL}(q, k, v, 0.0, True)\no: f32[2, 2, 4, 4] = r[0]\n"
    f"l: f32[2, 2, 4] = r[1]\nb = {KERNEL}_backward(g, q, k, v, o, l, 0.0, True)\n"
    "dq: f32[2, 2, 4, 4] = b[0]\ndk: f32[2, 2, 4, 4] = b[1]\ndv: f32[2, 2, 4, 4] = b[2]\nreturn dq, dk, dv\n",
    BY_HAND.dist.replace("k: f32", "g: f32[2, 2, 4, 4]\nk: f32", 1).replace(
        "return y, l",
        """
w: f32[2, 2, 4, 4] = exp(sub.Tensor(t, unsqueeze(l, 3)))
dv = matmul(transpose.int(w, 2, 3), g)
d: f32[2, 2, 4, 1] = sum.dim_IntList(mul.Tensor(g, y), [3], True)
ds = div.Tensor(mul.Tensor(w, sub.Tensor(matmul(g, transpose.int(v, 2, 3)), d)), 2.0)
dq = matmul(ds, k)
dk = matmul(transpose.int(ds, 2, 3), q)
return dq, dk, dv
""",
    ),
)
HIDDEN = "m: b[2, 2, 4, 4]\n"


@table(
    BY_HAND,
    BY_HAND.miss("one further", "triu(o, 1)", "triu(o, 2)"),
    BY_HAND.miss("hidden the other way round", "triu(o, 1)", "tril(o, -1)"),
    BY_HAND.miss("another scale", "2.0)", "4.0)"),
    BY_HAND.miss("no mask", "_softmax(t, 3", "_softmax(s, 3", maps=("l",)),
    BY_HAND.miss("statistics without the mask", "logsumexp(t", "logsumexp(s", maps=("y",)),
    BY_HAND.miss("a softmax of queries", "_softmax(t, 3", "_softmax(t, 2", maps=("l",)),
    BY_HAND.miss("values for keys", "matmul(q, transpose.int(k", "matmul(q, transpose.int(v"),
    MASKED,
    MASKED.miss("kept and hidden swapped", "(c, z, w)", "(c, w, z)"),
    MASKED.miss("one further", "tril(o, 0)", "tril(o, 1)"),
    MASKED.miss("one less: a row of which nothing is left", "tril(o, 0)", "tril(o, -1)"),
    MASKED.miss("a number that hides little", "scalar_tensor(-inf)", "scalar_tensor(-1.0)"),
    MASKED.miss("not 0 where it is kept", "scalar_tensor(0.0)", "scalar_tensor(1.0)"),
    PREFIX,
    PREFIX.miss("the diagonal of the upper left", "tril(o, 2 * rank)", "tril(o, 0)"),
    PREFIX.miss("one too few", "tril(o, 2 * rank)", "tril(o, 2 * rank - 1)"),
    PREFIX.miss("keys of the wrong end", "slice.Tensor(k, 2, 0, 2 + 2 * rank)", "slice.Tensor(k, 2, 2 - 2 * rank, 4)"),
    PREFIX.miss("causal, as torch counts", "0.0, False, attn_mask=a)", "0.0, True)"),
    MERGED,
    MERGED.miss("weights swapped", "mul.Tensor(y0, unsqueeze(exp(sub.Tensor(l0", "mul.Tensor(y0, unsqueeze(exp(sub.Tensor(l1",
                maps=("l",)),
    MERGED.miss("a block twice", "slice.Tensor(k, 2, 2, 4)", "slice.Tensor(k, 2, 0, 2)"),
    MERGED.miss("the greater of both", "logaddexp(l0, l1)", "maximum(l0, l1)"),
    MERGED.miss("causal blocks", "slice.Tensor(v, 2, 2, 4), 0.0, False", "slice.Tensor(v, 2, 2, 4), 0.0, True"),
    MERGED.miss("a causal program", "0.0, False", "0.0, True", side="seq"),
    GROUPED,
    GROUPED.miss("heads dealt out in turn", "expand(unsqueeze(k, 2), [2, 2, 2, 3, 4])", "expand(unsqueeze(k, 1), [2, 2, 2, 3, 4])"),
    GRADIENTS,
    GRADIENTS.miss("sums of the output alone", "mul.Tensor(g, y)", "y", maps=("dv",)),
    GRADIENTS.miss("without the sums", "sub.Tensor(matmul(g, transpose.int(v, 2, 3)), d)",
                   "matmul(g, transpose.int(v, 2, 3))", maps=("dv",)),
    GRADIENTS.miss("not scaled", "d)), 2.0)", "d)), 1.0)", maps=("dv",)),
    GRADIENTS.miss("statistics of another", "unsqueeze(l, 3)", "mul.Tensor(unsqueeze(l, 3), 2.0)"),
    Case(
        "rows that a mask may hide entirely",
        INPUTS + HIDDEN + f"r = {KERNEL}(q, k, v, 0.0, False, attn_mask=m)\n{RESULTS}",
        INPUTS + HIDDEN + BY_HAND.dist[len(INPUTS) :].replace("(s, m,", "(s, logical_not(m),")
        .replace("m: b[4, 4] = triu(o, 1)\n", ""),
        maps=(),
    ),
)  # fmt: skip
def test_spelled_attention(case: Case, outcomes: Outcomes) -> None:
    """A kernel is scores, what is hidden of them, softmax and values."""
    check(case, outcomes(case))
