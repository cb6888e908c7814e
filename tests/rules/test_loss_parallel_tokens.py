"""The same for tokens of sequence and batch, cut or not: a head with its gradients, classes that do
not come last."""

from __future__ import annotations

from .build import Case, check, row, table
from .conftest import Outcomes
from .loss_parallel import BACK, COLUMN, LOOKUP, SEQ, SOFTMAX, T, filled, misses

# ---- a head and its gradients; tokens of sequence and batch are cut as well: rank 2 * d + t
HEAD = """
h: f32[{shape}, 5]
w: f32[{n}, 5]
labels: i64[{shape}]
h2 = view(h, [{t}, 5])
x = view(view(mm(h2, t(w)), [{shape}, {n}]), [{t}, {n}])
y = view(labels, [{t}])
"""
ALONE = "{head}{text}v = clone(l[0])\ndw = mm(t(dx), h2)\ndh = view(mm(dx, w), [{shape}, 5])\n"
ALONE += "return v, dw, dh"
GRID = """{head}{text}
v = div.Tensor(all_reduce(sum(each), "sum", "d"), count)
dw = all_reduce(mm(t(dx), h2), "sum", "d")
dh = view(all_reduce(mm(dx, w), "sum", "t"), [{shape}, 5])
return v, dw, dh
"""
BOTH = SOFTMAX + LOOKUP + COLUMN.replace("mask", "far_mask").replace("there", "column")
BOTH = BOTH.replace("_to_copy(c,", '_to_copy(all_reduce(c, "sum", "d"),')


def tokens(name: str, mine: str, dim: int, swap: bool = False) -> Case:
    """Of sequence and batch, [4, 2], every pair of ranks has ``mine``, cut along ``dim``; labels
    are batch first where ``swap`` is set."""
    body = {"{head}": HEAD, "{text}": "\n".join(BOTH.splitlines()[3:]) + "\n"}
    whole = {"{head}": HEAD, "{text}": (SEQ + BACK).split("\n", 2)[2].replace("6, 12", "8, 12")}
    texts = []
    for text, parts, shape in ((ALONE, whole, "4, 2"), (GRID, body, mine)):
        for key, value in parts.items():
            text = text.replace(key, value)
        if swap:
            text = text.replace("labels: i64[{shape}]", f"labels: i64[{shape[::-1]}]")
            text = text.replace("view(labels,", "view(transpose(labels, 0, 1),")
        texts.append(text.replace("{shape}", shape))
    n = 2 if dim == 0 else 1
    boxes = [
        [[n * (r // 2), n * (r // 2) + n] if i == dim else [0, e] for i, e in enumerate((4, 2))]
        for r in range(4)
    ]
    relate = {
        "h": [row(r, "h", seq_box=[*boxes[r], [0, 5]]) for r in range(4)],
        "labels": [
            row(r, "labels", seq_box=boxes[r][::-1] if swap else boxes[r]) for r in range(4)
        ],
        "w": [row(r, "w", seq_box=[[6 * (r % 2), 6 * (r % 2) + 6], [0, 5]]) for r in range(4)],
    }
    groups = {"t": [[0, 1], [2, 3]], "d": [[0, 2], [1, 3]]}
    seq, dist = filled(texts[0], 8, "12"), filled(texts[1], 4, "6", "6 * (rank % 2)")
    return Case(name, seq, dist, 4, relate=relate, groups=groups)


BATCH = tokens("batch cut", "4, 1", 1)
SEQUENCE = tokens("sequence cut", "2, 2", 0)
OF_GRID = """
count not reduced | _to_copy(all_reduce(c, "sum", "d") | _to_copy(c
count averaged | all_reduce(c, "sum", "d") | all_reduce(c, "avg", "d")
count reduced over classes | all_reduce(c, "sum", "d") | all_reduce(c, "sum", "t")
loss not reduced | all_reduce(sum(each), "sum", "d") | sum(each) | dw dh
maximum over tokens | "max", "t" | "max", "d"
denominators over tokens | dim_IntList(exp(s), [1], True), "sum", "t" | dim_IntList(exp(s), [1], True), "sum", "d"
lookups over tokens | all_reduce(found, "sum", "t") | all_reduce(found, "sum", "d") | dw dh
"""


PLANES = Case(
    "classes in the middle",
    """
    x: f32[3, 12, 5]
    y: i64[3, 5]
    g: f32[()]
    ls = _log_softmax(x, 1, False)
    l4 = view(ls, [3, 12, 1, 5])
    y3 = view(y, [3, 1, 5])
    l = nll_loss2d_forward(l4, y3, None, 1, -100)
    b: f32[3, 12, 1, 5] = nll_loss2d_backward(g, l4, y3, None, 1, -100, l[1])
    dx = _log_softmax_backward_data(view(b, [3, 12, 5]), ls, 1, 'float32')
    v = clone(l[0])
    return v, dx
    """,
    filled(
        (SOFTMAX + LOOKUP)
        .replace("[{t}, {n}]", "[3, 4, 5]")
        .replace("[{t}, 1]", "[3, 1, 5]")
        .replace("[{t}]", "[3, 5]")
    )
    + "v = div.Tensor(sum(each), count)\ny1 = view(y1, [15])\n"
    + filled(COLUMN, 15)
    .replace("q: f32[15, 1]", "q: f32[3, 1, 5]")
    .replace("dx =", "plane = transpose(view(hot, [3, 5, 4]), 1, 2)\ndx =")
    .replace("(hot, exp", "(plane, exp")
    + "return v, dx",
    3,
    groups=T,
)


@table(
    PLANES,
    PLANES.miss("not masked", "(kept, by, none)", "(kept, by, by)", maps=("v",)),
    PLANES.miss("planes on their side", "[3, 5, 4]), 1, 2)", "[3, 4, 5]), 1, 1)", maps=("v",)),
    PLANES.miss(
        "lookups of one rank", 'all_reduce(found, "sum", "t")', "clone(found)", maps=("dx",)
    ),
    BATCH,
    SEQUENCE,
    tokens("batch cut, labels batch first", "4, 1", 1, swap=True),
    tokens("sequence cut, labels batch first", "2, 2", 0, swap=True),
    *misses(BATCH, OF_GRID),
)
def test_tokens_are_cut_as_well(case: Case, outcomes: Outcomes) -> None:
    """The loss and the gradients of weight and input."""
    check(case, outcomes(case))
