"""Backward operators: norms, softmax, activations, lookups, cross entropy, values put at positions,
accumulated gradients. In the texts of this file ``{a|b}`` is `a` in the sequential program and `b`
in the distributed one, and ``SUM(y)`` is ``all_reduce(y, "sum", "g")``.
"""

from __future__ import annotations

import re
from typing import Any

from .build import Case, Row, check, extracted, row, table
from .conftest import Outcomes

EITHER = re.compile(r"\{([^{}|]*)\|([^{}|]*)\}")


def spelled(text: str) -> str:
    """``SUM(y)`` spelled out."""
    return re.sub(r"SUM\(([\w\[\]]+)\)", r'all_reduce(\1, "sum", "g")', text)


def uneven(text: str) -> str:
    """Two shards of 4 as three of 3, 3 and 2."""
    return text.replace("[4,", "[3 - (rank == 2),")


def pair(name: str, text: str, ranks: int = 2, **changes: Any) -> Case:
    """A case of a text for both sides."""
    seq, dist = (EITHER.sub(side, spelled(text)) for side in (r"\1", r"\2"))
    return Case(name, seq, dist, ranks, **changes)


def family(case: Case, text: str) -> list[Case]:
    """The case and its siblings, one a line: ``name | old | new`` maps nothing, with ``= name``
    everything, with `` | dx dw`` at the end those outputs."""
    found = [case]
    for line in spelled(text).strip().splitlines():
        name, old, new, *names = (part.strip() for part in line.split("|"))
        maps = tuple(names[0].split()) if names else None if name[0] == "=" else ()
        found.append(case.miss(name.strip("= "), old, new, maps=maps))
    return found


# ---- norms: `1e-5` is the epsilon of the forward kernel, `0.00001` that of the backward one ----------
NORMS = {
    "layer norm": (
        "native_layer_norm(x, [6], w, b, 1e-5)",
        "native_layer_norm_backward(dy, x, [6], f[1], f[2], w, b, [True, True, True])",
    ),
    "RMS norm": (
        "_fused_rms_norm(x, [6], w, 1e-5)",
        "_fused_rms_norm_backward(dy, x, [6], f[1], w, [True, True])",
    ),
    "apex layer norm": (
        "apex.fused_layer_norm_affine_fwd(x, w, b, [6], 1e-5)",
        "apex.fused_layer_norm_affine_bwd(dy, f[1], f[2], x, [6], w, b, 0.00001)",
    ),
    "apex RMS norm": (
        "apex.fused_rms_norm_affine_fwd(x, w, [6], 1e-5)",
        "apex.fused_rms_norm_affine_bwd(dy, f[1], x, [6], w, 0.00001)",
    ),
}
GIVEN = "dy: f32[{8|4}, 2, 6]\nx: f32[{8|4}, 2, 6]\nz: f32[{8|4}, 2, 6]\n"
PARTS = "a: f32[8, 2, {8|4}]\nv: f32[{8|4}, 6]\nx: f32[8, 2, 6]\ndy = matmul(a, v)\n"
INPUT = PARTS.replace("x:", "dy:").replace("dy =", "x =")
TWICE = PARTS.replace("dy", "c") + "dy = {clone(c)|SUM(c)}\n"
WEIGHTS = "w: f32[6]\nb: f32[6]\nf = %s\no = %s\n"
GRADIENTS = "dx = %s\ndw = {o[1]|SUM(o[1])}\n"


def norm(name: str) -> list[Case]:
    """The gradients of input, weight and bias: what is sharded, reduced and left out."""
    bias = "db" * ("layer" in name)  # its gradient needs neither the input nor its statistics
    head = WEIGHTS % NORMS[name]
    tail = "db = {o[2]|SUM(o[2])}\nreturn dx, dw, db" if bias else "return dx, dw"
    body = head + GRADIENTS % "o[0]" + tail
    tokens = pair(f"{name}: tokens", GIVEN + body)
    late = head + GRADIENTS % "{o[0]|SUM(o[0])}" + tail
    cut = (GIVEN + body).replace("{8|4}, 2, 6", "8, 2, {6|3}").replace("[6]", "[{6|3}]")
    hidden = re.sub(r"SUM\((o\[.\])\)", r"\1", cut)
    parts = pair(f"{name}: a partial gradient", PARTS + late)
    first = NORMS[name][0].partition("(x")[0]
    text = f"""
        dw is not reduced | SUM(o[1]) | o[1] | dx {bias}
        dx is reduced | dx = o[0] | dx = SUM(o[0]) | dw {bias}
        averaged | "sum" | "avg" | dx
        epsilon of the forward kernel | 1e-5 | 1e-6 | {bias}
        statistics of another tensor | {first}(x | {first}(z | {bias}
        of another tensor | , x, [ | , z, [ | {bias}
        of another gradient | dy, | z,"""
    if bias:
        text += "\ndb is not reduced | SUM(o[2]) | o[2] | dx dw"
        text += "\nstatistics exchanged | f[1], f[2] | f[2], f[1] | db"
    if "apex" in name:
        text += "\nepsilon of the backward kernel | 0.00001 | 1e-6"
    return [
        *family(tokens, text),
        tokens.but("uneven", maps=None, ranks=3, dist=uneven(tokens.dist)),
        pair(f"{name}: the other tokens", (GIVEN + body).replace("{8|4}, 2", "3, {8|4}")),
        pair(f"{name}: hidden", hidden, maps=tuple(bias.split())),
        *family(parts, f"dx is not reduced | SUM(o[0]) | o[0] | dw {bias}"),
        pair(f"{name}: a partial tensor", INPUT + late, maps=()),
        pair(f"{name}: reduced twice", TWICE + body, maps=("dx",)),
    ]


COLUMNS = "dy: f32[8, {6|2}]\nx: f32[8, {6|2}]\nm: f32[8, 1]\nr: f32[8, 1]\nw: f32[{6|2}]\nb: f32[{6|2}]\n"
COLUMNS += "o = native_layer_norm_backward(dy, x, [{6|2}], m, r, w, b, [True, True, True])\n"
COLUMNS += "return o[0], o[1], o[2]"
NO_BIAS = COLUMNS.replace("{6|2}", "6").replace("8", "{8|4}").replace("w, b", "w, None")
NORM_CASES = (
    *(case for name in NORMS for case in norm(name)),
    # of given statistics a column of the weight's gradient needs no other column
    pair("columns", COLUMNS, 3, maps=("out_1", "out_2")),
    pair(
        "no bias",
        NO_BIAS.replace("o[0], o[1], o[2]", "o[0]"),
    ),
)

# ---- element by element, and along a dimension -------------------------------------------------------
ACTIVATIONS = (
    ("gelu_backward(g, x)", "x)", "x, approximate='tanh')"),
    ("gelu_backward(g, x, approximate='tanh')", "tanh", "none"),
    ("silu_backward(g, x)", "silu", "sigmoid"),
    ("sigmoid_backward(g, x)", "sigmoid", "tanh"),
    ("tanh_backward(g, x)", "tanh", "sigmoid"),
    ("threshold_backward(g, x, 0)", "0)", "1)"),
    ("hardtanh_backward(g, x, -1.0, 1.0)", "1.0)", "2.0)"),
    ("leaky_relu_backward(g, x, 0.1, False)", "0.1", "0.2"),
    ("softplus_backward(g, x, 1.0, 20.0)", "1.0,", "2.0,"),
    ("mish_backward(g, x)", "mish", "silu"),
    ("hardswish_backward(g, x)", "hardswish", "hardsigmoid"),
    ("hardsigmoid_backward(g, x)", "hardsigmoid", "hardswish"),
    ("logit_backward(g, x, 0.1)", "0.1", "0.2"),
    ("logit_backward(g, x)", "x)", "x, 0.1)"),
    ("elu_backward(g, 1.0, 1.0, 1.0, False, x)", "False", "True"),
    ("_softmax_backward_data(g, x, 1, 'float32')", "x, 1", "x, 0"),
    ("_log_softmax_backward_data(g, x, 1, 'float32')", "_log_", "_"),
)


def partial(call: str, open_: str, full: str, **changes: Any) -> Case:
    """An operator on ``open_``, of which each of three ranks has a part."""
    text = f"a: f32[8, {{9|3}}]\nv: f32[{{9|3}}, 6]\n{full}: f32[8, 6]\n{open_} = mm(a, v)\n"
    text += f"y = {call}\nreturn {{y|SUM(y)}}"
    return pair(f"{call}: {open_} is partial", text, 3, **changes)


def activation(call: str, old: str, new: str) -> list[Case]:
    """Shards, parts, another attribute, operands exchanged."""
    text = f"g: f32[{{8|4}}, 6]\nx: f32[{{8|4}}, 6]\ny = {call}\nreturn y"
    case = pair(call, text)
    swapped = call.replace("(g", "(x", 1).replace(" x", " g", 1)
    columns = text.replace("{8|4}, 6", "8, {6|3}")
    other = call.replace(old, new)
    return [
        *family(case, f"differs | {call} | {other}\nexchanged | {call} | {swapped}"),
        case.but("uneven", maps=None, ranks=3, dist=uneven(case.dist)),
        pair(f"{call}: columns", columns, maps=() if "softmax" in call else None),
        *family(partial(call, "g", "x"), 'not reduced | SUM(y) | y\naveraged | "sum" | "avg"'),
        partial(call, "x", "g", maps=()),
    ]


DROPPED = "a: f32[{8|4}, 6]\ng: f32[{8|4}, 6]\nd = native_dropout(a, 0.2, True)\n"
DROPPED += "e = native_dropout(a, 0.2, True)\ny = native_dropout_backward(g, d[1], 1.25)\nreturn y"
MASKED = "m: b[8, 6]\nnone: f32[()] = const(0)\na: f32[8, {8|4}]\nv: f32[{8|4}, 6]\ng = mm(a, v)\n"
MASKED += "y: f32[8, 6] = %s\nreturn {y|SUM(y)}"
PART = MASKED % "native_dropout_backward(g, m, 1.25)"
FILLED = MASKED % "where.self(m, g, none)"
ELEMENTWISE = (
    *(case for a in ACTIVATIONS for case in activation(*a)),
    partial("gelu_backward(grad_output=g, self=x)", "x", "g", maps=()),
    partial("threshold_backward(grad_output=g, self=x, threshold=0)", "x", "g", maps=()),
    *family(
        pair("dropout", DROPPED),
        """
        another scale | 1.25 | 1.0
        scale 0 | 1.25 | 0.0
        another mask | d[1], | logical_not(d[1]),
        of another dropout | d[1] | e[1]
        of what is left | d[1] | d[0]
        """,
    ),
    *family(pair("dropout of a part", PART), "not reduced | SUM(y) | y"),
    *family(
        pair("where with 0", FILLED),
        """
        = as a fill | where.self(m, g, none) | masked_fill.Scalar(g, logical_not(m), 0)
        mask inverted | (m, g | (logical_not(m), g
        arms exchanged | g, none | none, g
        with 1 | const(0) | const(1)
        not reduced | SUM(y) | y
        """,
    ),
    pair("where with 1", FILLED.replace("const(0)", "const(1)"), maps=()),
)

# ---- the gradient of a lookup ------------------------------------------------------------------------
# Megatron's form of ids in a shard of 6 rows
LOCAL = """
ids: i64[5]
mask: b[5] = bitwise_or.Tensor(lt.Scalar(ids, 6 * rank), ge.Scalar(ids, 6 * rank + 6))
local: i64[5] = sub.Tensor(clone(ids), 6 * rank)
zero: i64[()] = const(0)
there: i64[5] = index_put(local, [mask], zero)
"""
CLEARED = "none: f32[()] = const(0)\nkept = index_put(g, [mask], none)\n"
ROWS = "y = embedding_dense_backward(kept, there, 6, -1, False)\nreturn y"
SHARDS = "g: f32[5, 5, 4]" + (LOCAL + CLEARED + ROWS).replace("[5]", "[5, 5]")
DENSE = "g: f32[{9|3}, 4]\nids: i64[{9|3}]\ny = embedding_dense_backward(g, ids, 18, -1, False)\n"
TABLE = pair("", DENSE.replace("{9|3}", "5, 5")).seq + "return y"
OTHER = [row(r, "ids", seq_box=[[6 - 3 * r, 9 - 3 * r]]) for r in range(3)]
LOOKUP = pair("lookup", DENSE + "return {y|SUM(y)}", 3)
SHARD = Case("rows of the vocabulary", TABLE, SHARDS, 3)
# by a product with the mask, and ids that are clamped (TorchTitan)
CLAMPED = Case(
    "product with the mask",
    TABLE.replace(
        "y = embedding_dense_backward(g",
        "twice: f32[5, 5, 4] = mul.Scalar(g, 2)\ny = embedding_dense_backward(twice",
    ),
    """
g: f32[5, 5, 4]
ids: i64[5, 5]
inside: b[5, 5] = bitwise_and.Tensor(ge.Scalar(ids, 6 * rank), lt.Scalar(ids, 6 * rank + 6))
shifted: i64[5, 5] = sub.Tensor(ids, 6 * rank)
there: i64[5, 5] = clamp(shifted, 0, 5)
wide: f32[5, 5, 1] = _to_copy(unsqueeze(inside, -1), dtype="float32")
twice: f32[5, 5, 4] = mul.Scalar(g, 2)
kept = mul.Tensor(twice, wide)
"""
    + ROWS,
    3,
)
ODD = SHARDS.replace("6 * rank", "7 * rank").replace("rank + 6", "rank + 7 - (rank == 2)")
ODD = ODD.replace("there, 6", "there, 7 - (rank == 2)")
POSITIONS = "g: f32[{4|2}, 6, 4]\npos: i64[1, 6]\nids = expand(pos, [{4|2}, 6])\n"
POSITIONS += "y = embedding_dense_backward(g, ids, 6, -1, False)\nreturn {y|SUM(y)}"
CONTEXT = POSITIONS.replace("{4|2}", "4").replace("6]", "{6|3}]").replace("6, 4]", "{6|3}, 4]")
# 2 x 2 ranks: tokens over the first dimension of the mesh, rows over the second
TOKENS: dict[str, list[Row]] = {
    name: [row(r, name, seq_box=[[r // 2 * 2, r // 2 * 2 + 2], *box]) for r in range(4)]
    for name, box in (("g", [[0, 5], [0, 4]]), ("ids", [[0, 5]]))
}
MESH = SHARDS.replace("6 * rank", "6 * (rank % 2)").replace("5, 5", "2, 5")
GRID = Case(
    "rows and tokens",
    TABLE.replace("18", "12").replace("5, 5", "4, 5"),
    MESH.replace("return y", spelled("return SUM(y)")),
    ranks=4,
    relate=TOKENS,
    groups={"g": [[0, 2], [1, 3]]},
)
LOOKUPS = (
    *family(
        LOOKUP,
        """
        not reduced | SUM(y) | y
        averaged | "sum" | "avg"
        other ids | g, ids | g, rsub.Scalar(ids, 17)
        another gradient | g, ids | neg(g), ids
        more rows | 18 | 19
        a padding row | -1 | 3
        scaled by frequency | False | True
        """,
    ),
    LOOKUP.but("replicated", dist=LOOKUP.seq, maps=None),
    LOOKUP.but("uneven", maps=None, dist=LOOKUP.dist.replace("[3", "[4 - rank")),
    LOOKUP.but("ids of other tokens", relate={"ids": OTHER}),
    pair("columns", DENSE.replace("{9|3}", "9").replace(", 4]", ", {4|2}]") + "return y"),
    pair("first rows", DENSE.replace("18", "{18|6}") + "return {slice(y, 0, 0, 6)|SUM(y)}", 3),
    pair("too many rows", DENSE.replace("18", "{5|6}") + "return {y|SUM(y)}", 3, maps=()),
    *family(pair("positions", POSITIONS), "not reduced | SUM(y) | y"),
    *family(pair("positions cut", CONTEXT), "not reduced | SUM(y) | y"),
    *family(
        SHARD,
        """
        = by a fill | index_put(g, [mask], none) | masked_fill.Scalar(g, unsqueeze(mask, -1), 0)
        = by where | kept = index_put(g, [mask], none) | kept: f32[5, 5, 4] = where.self(unsqueeze(mask, -1), none, g)
        = kept inside | kept = index_put(g, [mask], none) | kept: f32[5, 5, 4] = where.self(unsqueeze(logical_not(mask), -1), g, none)
        = clamped to another row inside | zero: i64[()] = const(0) | zero: i64[()] = const(3)
        not cleared | backward(kept | backward(g
        kept outside | (g, [mask], none) | (g, [logical_not(mask)], none)
        cleared elsewhere | (g, [mask], none) | (g, [view(t(mask), [5, 5])], none)
        fill is not 0 | none: f32[()] = const(0) | none: f32[()] = const(1)
        lower bound off by one | (ids, 6 * rank) | (ids, 6 * rank + 1)
        upper bound off by one | 6 * rank + 6 | 6 * rank + 5
        bounds of another rank | (ids, 6 * rank | (ids, 6 * ((rank + 1) % 3)
        not shifted | sub.Tensor(clone(ids), 6 * rank) | clone(ids)
        shifted by another rank | (clone(ids), 6 * rank) | (clone(ids), 6 * ((rank + 1) % 3))
        not clamped | kept, there | kept, local
        one row more | there, 6 | there, 7
        one row less | there, 6 | there, 5
        reduced | return y | return SUM(y)
        """,
    ),
    *family(
        CLAMPED,
        """
        = by a bool | kept = mul.Tensor(twice, wide) | kept = mul.Tensor(twice, unsqueeze(inside, -1))
        = mask in front | mul.Tensor(twice, wide) | mul.Tensor(wide, twice)
        not scaled by 2 | mul.Scalar(g, 2) | clone(g)
        scaled by 3 | mul.Scalar(g, 2) | mul.Scalar(g, 3)
        not cleared | backward(kept | backward(twice
        kept outside | unsqueeze(inside, -1) | unsqueeze(logical_not(inside), -1)
        clamped to more | (shifted, 0, 5) | (shifted, 0, 6)
        clamped to fewer | (shifted, 0, 5) | (shifted, 0, 4)
        lower bound off by one | ge.Scalar(ids, 6 * rank) | ge.Scalar(ids, 6 * rank + 1)
        not shifted | sub.Tensor(ids, 6 * rank) | clone(ids)
        """,
    ),
    SHARD.but("odd", maps=None, seq=TABLE.replace("18", "20"), dist=ODD),
    SHARD.but("fewer rows than shards have", seq=TABLE.replace("18", "17")),
    SHARD.but("more rows than shards have", seq=TABLE.replace("18", "19")),
    *family(GRID, "not reduced | SUM(y) | y"),
    GRID.but("reduced over rows", groups={"g": [[0, 1], [2, 3]]}),
    GRID.but("reduced over all", groups={"g": [[0, 1, 2, 3]]}),
)

# ---- the gradient of a cross entropy -----------------------------------------------------------------
ENTROPY = """
rows: i64[5] = arange.start(0, 5)
old = index.Tensor(p, [rows, there])
far: f32[5] = _to_copy(mask, dtype='float32')
near = rsub.Scalar(far, 1.0)
d = index_put(p, [rows, there], sub.Tensor(old, near))
y = mul.Tensor(d, unsqueeze(s, -1))
return y
"""
FORM = "p: f32[5, 6]\ns: f32[5]" + LOCAL + ENTROPY
ALL = FORM.replace("[5, 6]", "[5, 12]").replace("6 * rank + 6", "12").replace("6 * rank", "0")
PLAIN = "p: f32[{6|3}, 12]\ns: f32[{6|3}]\nids: i64[{6|3}]\nrows: i64[{6|3}] = arange({6|3})\n"
PLAIN += "d = index_put(p, [rows, ids], sub.Tensor(index.Tensor(p, [rows, ids]), 1.0))\n"
PLAIN += "y = mul.Tensor(d, unsqueeze(s, -1))\nreturn y"
LOSS = Case("cross entropy", ALL, FORM)
ENTROPIES = (
    *family(
        LOSS,
        """
        = clamped to another row inside | zero: i64[()] = const(0) | zero: i64[()] = const(2)
        = accumulated | there], sub.Tensor(old, near)) | there], neg(near), True)
        no mask factor | (old, near) | (old, 1.0)
        added | sub.Tensor(old, near) | add.Tensor(old, near)
        factor 2 | (old, near) | (old, near, alpha=2)
        for what is outside | (old, near) | (old, far)
        into another tensor | put(p, [rows | put(relu(p), [rows
        into another column | put(p, [rows, there] | put(p, [rows, rsub.Scalar(there, 5)]
        twice what was there | (old | (add.Tensor(old, old)
        lower bound off by one | (ids, 6 * rank) | (ids, 6 * rank + 1)
        upper bound off by one | 6 * rank + 6 | 6 * rank + 5
        mask inverted | _to_copy(mask | _to_copy(logical_not(mask)
        mask of other bounds | _to_copy(mask | _to_copy(lt.Scalar(ids, 6 * rank + 3)
        not clamped | [rows, there] | [rows, local]
        not shifted | sub.Tensor(clone(ids), 6 * rank) | clone(ids)
        shifted by the other rank | (clone(ids), 6 * rank | (clone(ids), 6 - 6 * rank
        rows from the last | [rows, there] | [neg(rows), there]
        without the loss | mul.Tensor(d, unsqueeze(s, -1)) | clone(d)
        """,
    ),
    LOSS.but(
        "against plain ids",
        maps=None,
        seq=PLAIN.replace("{6|3}", "5"),
    ),
    *family(pair("tokens", PLAIN), "added | sub.T | add.T\nfactor 2 | 1.0) | 2.0)"),
)

# ---- values put or added at positions ----------------------------------------------------------------
ADDED = "x: f32[7, 3]\nids: i64[{8|4}]\nv: f32[{8|4}, 3]\no: f32[7, 3] = zeros([7, 3])\n"
ADDED += "s = index_put({x|o}, [ids], v, True)\ny = {s|SUM(s)}\nreturn {y|add.Tensor(x, y)}"
ONTO = "x: f32[{7|4 - rank}, 3]\nids: i64[8]\nv: f32[8, 3]\nreturn index_put(x, [ids], v, True)"
SIDES = ONTO.replace("{7|4 - rank}, 3", "7, {3|1 + rank}").replace("8, 3", "8, {3|1 + rank}")
SCATTER = "i: i64[{8|4}]\nv: f32[{8|4}, 3]\nids = expand(unsqueeze(i, -1), [{8|4}, 3])\n"
SCATTER += "o: f32[7, 3] = zeros([7, 3])\ny = scatter_add(o, 0, ids, v)\nreturn {y|SUM(y)}"
HOT = "ids: i64[{8|4}, 1]\no: f32[{8|4}, 7] = zeros([{8|4}, 7])\n"
HOT += "s = scatter_.value(o, 1, ids, 1.5)\nreturn _to_copy(s, dtype='float32')"
PLACED, TAKEN = "index_put(x, [rows, ids], v)", "index.Tensor(x, [rows, ids])"
PUT = "x: f32[{8|4}, 6]\nids: i64[{8|4}]\nv: f32[{8|4}]\nrows: i64[{8|4}] = arange({8|4})\n"
PUT += f"y = {PLACED}\nreturn y"
MINUS = PUT.replace("{8|4}", "8").replace("y =", "rows = {clone(rows)|neg(rows)}\ny =")
BYTES = "b: b[{8|4}]\nv: f32[()]\nm = _to_copy(b, dtype='uint8')\no: f32[{8|4}] = zeros([{8|4}])\n"
BYTES += "s = index_put(o, [m], v, True)\nreturn {slice.Tensor(s, 0, 0, 4)|SUM(s)}"
CUT = "n: i64[4]\nm: b[4]\nx: f32[4] = _to_copy(n, dtype='float32')\n"
CUT += "y = masked_fill.Scalar({x|n}, m, 2.5)\nreturn _to_copy(y, dtype='float32')"
SOURCES = pair("added at positions", ADDED)
PUTS = (
    *family(
        SOURCES,
        """
        not reduced | SUM(s) | s
        onto every rank's own | index_put(o | index_put(x
        put | , True) | )
        onto ones | zeros | ones
        onto memory | zeros | empty
        other values | [ids], v | [ids], relu(v)
        other positions | [ids] | [rsub.Scalar(ids, 6)]
        """,
    ),
    pair("added to rows", ONTO, maps=()),
    pair("added to columns", SIDES),
    *family(
        pair("scatter_add", SCATTER),
        """
        = by index_put | scatter_add(o, 0, ids, v) | index_put(o, [i], v, True)
        = in place | scatter_add(o | scatter_add_(o
        not reduced | SUM(y) | y
        onto ones | zeros | ones
        other positions | unsqueeze(i, | unsqueeze(rsub.Scalar(i, 6),
        """,
    ),
    *family(
        pair("scatter of a number", HOT),
        """
        another number | 1.5 | 1.0
        into ones | zeros | ones
        multiplied | value(o, 1, ids, 1.5 | value_reduce(o, 1, ids, 1.5, reduce='multiply'
        cut to an integer | o: f32 | o: i64
        """,
    ),
    pair("scatter into columns", HOT.replace("{8|4}", "8").replace("7]", "{7|4 - rank}]"), maps=()),
    *family(
        pair("overwritten", PUT),
        """
        added | , v) | , v, True)
        other values | , v) | , relu(v))
        other positions | s, ids] | s, rsub.Scalar(ids, 5)]
        left alone | index_put(x, [rows, ids], v) | clone(x)
        """,
    ),
    pair("overwritten columns", PUT.replace("{8|4}", "8").replace("8, 6", "8, {6|3}"), maps=()),
    pair(
        "overwritten as it was",
        PUT.replace("v)", f"{TAKEN})"),
    ),
    pair("taken", PUT.replace(PLACED, TAKEN)),
    # rows 0, -1, -2, ...: the first, the last, the one before
    *(
        pair(f"{name} from the last", MINUS.replace(PLACED, call), maps=())
        for name, call in (("put", PLACED), ("added", PLACED[:-1] + ", True)"), ("taken", TAKEN))
    ),
    pair("a mask of bytes is no list of positions", BYTES, maps=()),
    pair("a number cut to an integer", CUT, maps=()),
    pair("a number cut to a truth value", CUT.replace("i64", "b").replace("2.5", "2"), maps=()),
)

# ---- accumulated gradients ---------------------------------------------------------------------------
TERMS = "buf: f32[6, 5]\na: f32[{12|T}, 6]\nb: f32[{12|T}, 5]\n"
GRAD = TERMS.replace("T", "3") + "grad = mm(t(a), b)\n"
HALVES = TERMS.replace("T", "6") + "g0 = mm(t(slice(a, 0, 0, 2)), slice(b, 0, 0, 2))\n"
HALVES += "g1 = mm(t(slice(a, 0, 2, 6)), slice(b, 0, 2, 6))\n"
STEPS = HALVES.replace("12", "6") + "c = {mm(t(a), b)|add.Tensor(buf, g0)}\n"
SHARED = HALVES + "c = {mm(t(a), b)|add.Tensor(g0, g1)}\nz = {clone(c)|SUM(c)}\n"
ZERO = GRAD.replace("buf: f32[6", "buf: f32[{6|3}").replace("12|3", "12|6")
ZERO += 'p: f32[{6|3}, 5] = {clone(grad)|reduce_scatter_tensor(grad, "sum", 2, "g")}\n'
BUFFER = pair("a shard of the buffer", ZERO + "y = add.Tensor(buf, p)\nreturn y")
EXPAND = "s: f32[6]\nx: f32[{8|4}, 6]\ne = expand(s, [{8|4}, 6])\ny = mul.Tensor(e, x)\n"
EXPAND += "z = sum.dim_IntList(y, [0])\nu = sum.dim_IntList(e, [0])\n"
EXPAND += "return y, {clone(z)|SUM(z)}, {clone(u)|SUM(u)}"
HEADS = "w: f32[{24|12}, 3]\ng: f32[5, {24|12}]\nh = view(g, [5, {4|2}, 6])\n"
HEADS += "q = slice(h, 2, 0, 2)\nk = slice(h, 2, 2, 4)\nv = slice(h, 2, 4, 6)\n"
HEADS += "c = cat([relu(q), exp(k), tanh(v)], 2)\n"
HEADS += "y = mm(view(c, [5, {24|12}]), w)\nreturn {y|SUM(y)}"
SHARE = GRAD + "c = add.Tensor({buf|div.Tensor(buf, 4)}, grad)\nreturn {c|SUM(c)}"
SUMS = (
    *family(
        pair("buffer", GRAD + "c = {clone(grad)|SUM(grad)}\ny = add.Tensor(buf, c)\nreturn y", 4),
        """
        not reduced | SUM(grad) | grad
        averaged | "sum" | "avg"
        twice | (buf | (add.Tensor(buf, buf)
        left out | add.Tensor(buf, c) | clone(c)
        without some tokens | mm(t(a), b) | mm(t(slice(a, 0, 0, 2)), slice(b, 0, 0, 2))
        """,
    ),
    *family(
        pair("a share of the buffer", SHARE, 4),
        """
        = of one rank | (div.Tensor(buf, 4), grad) | (buf, grad) if rank == 0 else grad
        all of every rank | div.Tensor(buf, 4) | buf
        another share | buf, 4 | buf, 3
        of no rank | add.Tensor(div.Tensor(buf, 4), grad) | clone(grad)
        """,
    ),
    *family(
        pair("micro-batches", STEPS + "y = {add.Tensor(buf, c)|add.Tensor(c, g1)}\nreturn y"),
        """
        one twice | (c, g1) | (c, g0)
        the buffer twice | (c, g1) | (c, add.Tensor(buf, g1))
        the buffer for one | (c, g1) | (c, buf)
        with a gap | 2, 6 | 3, 6
        overlapping | 2, 6 | 1, 6
        """,
    ),
    *family(
        pair("micro-batches of shards", SHARED + "y = add.Tensor(buf, z)\nreturn y"),
        """
        = each reduced | z = SUM(c) | z = add.Tensor(SUM(g0), SUM(g1))
        one not reduced | z = SUM(c) | z = add.Tensor(g0, SUM(g1))
        one reduced twice | z = SUM(c) | z = add.Tensor(SUM(c), SUM(g1))
        not reduced | z = SUM(c) | z = clone(c)
        """,
    ),
    *family(
        BUFFER,
        """
        averaged | "sum" | "avg"
        not reduced | buf, p) | buf, slice(grad, 0, 3 * rank, 3 * rank + 3))
        """,
    ),
    BUFFER.but(
        "of the other rank",
        relate={"buf": [row(r, "buf", seq_box=[[3 - 3 * r, 6 - 3 * r], [0, 5]]) for r in range(2)]},
    ),
    *family(
        pair("expanded", EXPAND),
        """
        fewer rows | (e, [0]) | (slice.Tensor(e, 0, 0, 3), [0]) | y out
        not reduced | SUM(u) | u | y out
        """,
    ),
    *family(
        pair("q, k and v by head", HEADS),
        """
        in another order | relu(q), exp(k) | exp(k), relu(q)
        of other parts | relu(q), exp(k) | relu(k), exp(q)
        one after the other | view(g, [5, 2, 6]) | transpose(view(g, [5, 6, 2]), 1, 2)
        """,
    ),
)


@table(*NORM_CASES, *ELEMENTWISE)
def test_norms_softmax_activations(case: Case, outcomes: Outcomes) -> None:
    """Linear in the gradient, and in nothing else; weight and bias add up over tokens."""
    check(case, outcomes(case))


@table(*LOOKUPS, *ENTROPIES, *PUTS)
def test_values_at_positions(case: Case, outcomes: Outcomes) -> None:
    """What is added at ids is a product with them; what overwrites others needs its row."""
    check(case, outcomes(case))


@table(*SUMS)
def test_accumulation(case: Case, outcomes: Outcomes) -> None:
    """Buffers count once."""
    check(case, outcomes(case))


def test_ids_are_taken_to_lie_in_their_table() -> None:
    """What puts values at ids, or adds them there, trusts the ids as a lookup does."""
    for case in (LOOKUP, SOURCES):
        said = extracted(case)["assumption"].to_pylist()
        assert any("ids lie inside" in a["text"] for a in said), case.name
