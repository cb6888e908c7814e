"""What random programs are made of: one function per kind of step, forward and backward."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from .fuzz import ADDS, EVERY, EXTREMA, Fuzzer, New, Rule, Tensor, alike, letters, ranked
from .movement import MOVEMENT
from .promotion import Invalid
from .vocabulary import entropy_gradient, hot, lookup, lookup_gradient, loss_gradient, picked
from .writing import Ref, Site

UNARY = ("relu", "gelu", "exp", "tanh", "neg", "square", "sigmoid", "silu", "abs")
LINEAR = ("neg",)
MONOTONE = ("relu", "exp", "tanh", "sigmoid")
TINY = 2**-16  # two of them make a denominator that does not fit
BACKWARD = (
    "gelu_backward", "silu_backward", "sigmoid_backward", "tanh_backward", "threshold_backward",
)  # fmt: skip


# ---- element by element ----------------------------------------------------------------------------
def unary(f: Fuzzer, x: Tensor) -> None:
    """A function of one tensor."""
    name, dims = f.rng.choice(UNARY), letters(x)
    open_ = {**dict.fromkeys(LINEAR, ADDS), **dict.fromkeys(MONOTONE, EXTREMA)}
    rule = Rule([dims], [dims], open={0: open_.get(name, ())})
    kwargs = {"approximate": "tanh"} if name == "gelu" and f.chance(0.4) else {}
    f.apply([x], rule, lambda at: [at.call(name, at[0], **kwargs)])


def scaled(f: Fuzzer, x: Tensor) -> None:
    """A product with a number."""
    by = f.rng.choice([2, 0.5, -1, 0.1, 3, -0.3])
    again = by * 2 if f.wrong() else by
    target = f.rng.choice(["mul.Tensor", "div.Tensor"])
    rule = Rule([letters(x)], [letters(x)], open={0: EVERY if by > 0 and f.chance(0.2) else ADDS})
    f.apply([x], rule, lambda at: [at.call(target, at[0], by if at.seq else again)])


def additive(f: Fuzzer, x: Tensor) -> None:
    """A sum or difference of tensors of one shape."""
    swap = f.wrong(0.5)
    target = f.rng.choice(["add.Tensor", "sub.Tensor", "rsub.Tensor"])
    more = {"alpha": 2} if f.chance(0.2) else {}
    rule = Rule([letters(x)] * 2, [letters(x)], together=ADDS)

    def emit(at: Site) -> Sequence[Ref]:
        both = [at[1], at[0]] if swap and not at.seq else [at[0], at[1]]
        return [at.call(target, *both, **more)]

    f.apply([x, alike(f, x)], rule, emit)


def multiplied(f: Fuzzer, x: Tensor) -> None:
    """A product or quotient, maybe with one operand broadcast."""
    dims = letters(x)
    target = f.rng.choice(["mul.Tensor", "mul.Tensor", "div.Tensor", "maximum"])
    open_ = {"mul.Tensor": {0: ADDS, 1: ADDS}, "div.Tensor": {0: ADDS}}.get(target, {})
    if len(dims) > 1 and f.chance(0.4):
        rule = Rule([dims, dims[-1]], [dims], open=open_)
        f.apply([x, New()], rule, lambda at: [at.call(target, at[0], at[1])])
        return
    rule = Rule([dims, dims], [dims], open=open_)
    other = New() if target == "div.Tensor" else alike(f, x)  # no 0 / 0
    f.apply([x, other], rule, lambda at: [at.call(target, at[0], at[1])])


def biased(f: Fuzzer, x: Tensor) -> None:
    """A sum with a vector."""
    dims = ranked(x, 2)
    rule = Rule([dims, dims[-1]], [dims])
    f.apply([x, New()], rule, lambda at: [at.call("add.Tensor", at[0], at[1])])


def masked(f: Fuzzer, x: Tensor) -> None:
    """0 (or a number) where a mask is true, in one of several forms."""
    dims = letters(x)
    fewer = dims[:-1] if len(dims) > 1 and f.chance(0.4) else dims
    value = f.rng.choice([0, 0, 0, 2.5])
    forms = [f.rng.choice(["fill", "where", "kept"])] * 2
    if not value and forms[0] != "kept":  # two forms of one thing
        forms[1] = f.rng.choice(["fill", "where"])
    inverted = f.wrong(0.5)

    def emit(at: Site) -> Sequence[Ref]:
        mask = at[1] if fewer == dims else at.call("unsqueeze", at[1], -1)
        if inverted and not at.seq:
            mask = at.call("logical_not", mask)
        form = forms[at.seq]
        if form == "fill":
            return [at.call("masked_fill.Scalar", at[0], mask, value)]
        number = at.constant(float(value))
        if form == "where":
            return [at.call("where.self", mask, number, at[0])]
        return [at.call("where.self", at.call("logical_not", mask), at[0], number)]

    f.apply([x, New("bool")], Rule([dims, fewer], [dims], open={0: () if value else ADDS}), emit)


def activation_backward(f: Fuzzer, x: Tensor) -> None:
    """The gradient of an activation; either operand may be the tensor at hand."""
    name, dims = f.rng.choice(BACKWARD), letters(x)
    more = [0] if "threshold" in name else []
    kwargs = {"approximate": "tanh"} if "gelu" in name and f.chance(0.5) else {}
    other = alike(f, x)
    both = [x, other] if f.chance(0.6) else [other, x]
    rule = Rule([dims, dims], [dims], open={0: ADDS})
    f.apply(both, rule, lambda at: [at.call(name, at[0], at[1], *more, **kwargs)])


# ---- along a dimension -----------------------------------------------------------------------------
def softmax(f: Fuzzer, x: Tensor) -> None:
    """Softmax and the like over the last dimension."""
    dims = letters(x)
    name = f.rng.choice(["_softmax", "_softmax", "_log_softmax", "cumsum"])
    more = [] if name == "cumsum" else [False]
    rule = Rule([dims], [dims], whole=dims[-1], open={0: ADDS if name == "cumsum" else ()})
    f.apply([x], rule, lambda at: [at.call(name, at[0], len(dims) - 1, *more)])


def softmax_backward(f: Fuzzer, x: Tensor) -> None:
    """Softmax (or its logarithm) and the gradient of what it was made of."""
    dims = letters(x)
    name = f.rng.choice(["_softmax", "_log_softmax"])
    inner = f.rng.choice([-1, len(dims) - 1])

    def emit(at: Site) -> Sequence[Ref]:
        y = at.call(name, at[1], inner, False)
        return [at.call(f"{name}_backward_data", at[0], y, inner, {"dtype": "float32"})]

    other = alike(f, x)
    both = [x, other] if f.chance(0.6) else [other, x]
    f.apply(both, Rule([dims, dims], [dims], whole=dims[-1], open={0: ADDS}), emit)


def reduced(f: Fuzzer, x: Tensor) -> None:
    """A sum, mean, maximum or minimum over some dimensions."""
    name = f.rng.choice(["sum.dim_IntList", "sum.dim_IntList", "mean.dim", "amax", "amin"])
    dims = letters(x)
    count = 1 if f.chance(0.8) else f.rng.randint(1, len(dims))
    gone = sorted(f.rng.sample(range(len(dims)), count))
    keep = f.chance(0.3)
    kind = {"mean.dim": "avg", "amax": "max", "amin": "min"}.get(name, "sum")
    out = "".join(("u" if keep else "") if i in gone else n for i, n in enumerate(dims))
    rule = Rule([dims], [out], open={0: ADDS if kind in ADDS else (kind,)}, kind=kind)
    f.apply([x], rule, lambda at: [at.call(name, at[0], gone, keep)])


def norm(f: Fuzzer, x: Tensor) -> None:
    """Layer norm or RMS norm over the last dimension."""
    dims = letters(x)
    stats = dims[:-1] + "u"
    layer = f.chance(0.6)
    rule = Rule([dims, dims[-1], dims[-1]][: 2 + layer], [dims, stats], whole=dims[-1])
    eps, which = [1e-4 if f.wrong(0.5) else 1e-5, 1e-5], f.rng.choice([1, 1 + layer])

    def emit(at: Site) -> Sequence[Ref]:
        name = "native_layer_norm" if layer else "_fused_rms_norm"
        made = at.call(name, at[0], [at.size(dims[-1])], *at.operands[1:], eps[at.seq])
        return [at.item(made, 0), at.item(made, which)]

    f.apply([x, New(), New()][: 2 + layer], rule, emit)


def norm_backward(f: Fuzzer, x: Tensor) -> None:
    """A norm and the gradients of input, weight and bias; linear in the gradient."""
    dims = letters(x)
    last, layer = dims[-1], f.chance(0.6)
    other = alike(f, x)
    operands = [x, other, New(), New()] if f.chance(0.6) else [other, x, New(), New()]
    if operands[0] is operands[1]:
        operands[1] = New()

    def emit(at: Site) -> Sequence[Ref]:
        width = [at.size(last)]
        if layer:
            y = at.call("native_layer_norm", at[1], width, at[2], at[3], 1e-5)
            stats = [at.item(y, 1), at.item(y, 2), at[2], at[3], [True, True, True]]
            made = at.call("native_layer_norm_backward", at[0], at[1], width, *stats)
        else:
            y = at.call("_fused_rms_norm", at[1], width, at[2], 1e-5)
            rest = [at.item(y, 1), at[2], [True, True]]
            made = at.call("_fused_rms_norm_backward", at[0], at[1], width, *rest)
        return [at.item(made, i) for i in range(2 + layer)]

    count = 3 + layer
    rule = Rule([dims, dims, last, last][:count], [dims, last, last][: 2 + layer], last, {0: ADDS})
    f.apply(operands[:count], rule, emit)


# ---- products --------------------------------------------------------------------------------------
def matmul(f: Fuzzer, x: Tensor) -> None:
    """A product with a new weight, which may be transposed, with a bias or not."""
    dims = ranked(x, 2, 4)
    form = f.rng.choice(["matmul", "matmul", "linear", "addmm"])
    if form == "addmm" and len(dims) != 2:
        form = "matmul"
    weight = {"linear": "o" + dims[-1]}.get(form, dims[-1] + "o")
    out = dims[:-1] + "o"
    extents = {"o": f.rng.choice([2, 3, 4, 6])}
    if form == "addmm":
        rule = Rule(["o", dims, weight], [out], whole=dims[-1], extents=extents)
        f.apply([New(), x, New()], rule, lambda at: [at.call("addmm", *at.operands)])
        return
    rule = Rule([dims, weight], [out], open={0: ADDS, 1: ADDS}, extents=extents)
    f.apply([x, New()], rule, lambda at: [at.call(form, at[0], at[1])])


def batched(f: Fuzzer, x: Tensor) -> None:
    """A product of two batches of matrices."""
    dims = ranked(x, 3, 3)
    second = dims[0] + dims[2] + "o"
    rule = Rule([dims, second], [dims[:2] + "o"], open={0: ADDS, 1: ADDS}, extents={"o": 3})
    f.apply([x, New()], rule, lambda at: [at.call("bmm", at[0], at[1])])


def weight_gradient(f: Fuzzer, x: Tensor) -> None:
    """A product over tokens, in one or in two micro-batches, on either side."""
    dims = ranked(x, 2, 2)
    extents = {"o": f.rng.choice([2, 4, 6])}
    halves = [f.chance(0.3), f.chance(0.05)]
    f.plain = f.plain and not halves[True]
    others = [t for t in f.tensors if len(t.shape) == 2 and t.shape[0] == x.shape[0] and t != x]
    other: Tensor | New = f.rng.choice(others[-4:]) if others and f.chance(0.6) else New()
    if isinstance(other, Tensor):
        extents = {}
    off = f.rng.choice([-1, 1]) if f.wrong() else 0
    again = f.wrong(0.5)

    def product(at: Site, lo: int, hi: int) -> Ref:
        part = [at.call("slice.Tensor", r, 0, lo, hi) for r in at.operands]
        return at.call("mm", at.call("t", part[0]), part[1])

    def emit(at: Site) -> Sequence[Ref]:
        tokens = at.size(dims[0])
        if not halves[at.seq] or tokens < 2:
            return [at.call("mm", at.call("t", at[0]), at[1])]
        cut = tokens // 2
        second = max(0, cut + off) if not at.seq else cut
        parts = [(0, cut), (0, cut) if again and not at.seq else (second, tokens)]
        return [at.call("add.Tensor", *(product(at, lo, hi) for lo, hi in parts))]

    rule = Rule(
        [dims, dims[0] + "o"], [dims[1] + "o"], open={0: ADDS, 1: ADDS}, extents=extents
    )  # fmt: skip
    f.apply([x, other], rule, emit)


def buffer(f: Fuzzer, x: Tensor) -> None:
    """A gradient added to a buffer: as a whole, or a share of it on every rank."""
    dims = letters(x)
    open_ = [axis for axis, place in enumerate(x.layout) if place == ("P", "sum")]
    if not open_ or f.chance(0.5):
        rule = Rule([dims, dims], [dims], together=ADDS)
        f.apply([New(), x], rule, lambda at: [at.call("add.Tensor", at[0], at[1])])
        return
    ranks = prod(f.mesh.shape[axis] for axis in open_)
    one, full = f.chance(0.4), f.wrong()

    def emit(at: Site) -> Sequence[Ref]:
        if at.seq or full:
            return [at.call("add.Tensor", at[0], at[1])]
        if one:
            first = all(at.coordinates[axis] == 0 for axis in open_)
            return [at.call("add.Tensor", at[0], at[1]) if first else at.call("clone", at[1])]
        return [at.call("add.Tensor", at.call("div.Tensor", at[0], ranks), at[1])]

    rule = Rule([dims, dims], [dims], open={1: ADDS})
    made = f.apply([New(), x], rule, emit)
    if made[0].layout != x.layout:
        raise Invalid("it is reduced before it is added")


# ---- lookups and positions -------------------------------------------------------------------------
def added_at(f: Fuzzer, x: Tensor) -> None:
    """Values added to zeros at positions, by index_put or scatter_add."""
    dims = ranked(x, 2, 2)
    rows = f.rng.choice([4, 6])
    forms = [f.rng.choice(["put", "scatter"]) for _ in range(2)]

    def emit(at: Site) -> Sequence[Ref]:
        width = at.size(dims[1])
        zeros = at.call("zeros", [rows, width])
        if forms[at.seq] == "put":
            return [at.call("index_put", zeros, [at[1]], at[0], True)]
        wide = at.call("expand", at.call("unsqueeze", at[1], -1), [at.size(dims[0]), width])
        return [at.call("scatter_add", zeros, 0, wide, at[0])]

    rule = Rule([dims, dims[0]], ["n" + dims[1]], open={0: ADDS}, extents={"n": rows}, whole="n")
    f.apply([x, New("int64")], rule, emit)


def onto(f: Fuzzer, x: Tensor) -> None:
    """Values added to other rows at positions: every rank needs all of them."""
    dims = ranked(x, 2, 2)
    count = f.rng.choice([2, 5])
    rule = Rule([dims, "t", "t" + dims[1]], [dims], whole=dims[0] + "t", extents={"t": count})
    f.apply(
        [x, New("int64"), New()],
        rule,
        lambda at: [at.call("index_put", at[0], [at[1]], at[2], True)],
    )


def overwritten(f: Fuzzer, x: Tensor) -> None:
    """One value per row, put at a position."""
    dims = ranked(x, 2, 2)
    add = f.chance(0.4)

    def emit(at: Site) -> Sequence[Ref]:
        rows = at.call("arange", at.size(dims[0]))
        more = [True] if add else []
        return [at.call("index_put", at[0], [rows, at[1]], at[2], *more)]

    rule = Rule([dims, dims[0], dims[0]], [dims], whole=dims[1])
    f.apply([x, New("int64"), New()], rule, emit)


def gathered(f: Fuzzer, x: Tensor) -> None:
    """Some positions of the last dimension, per row."""
    dims = ranked(x, 2, 3)
    rule = Rule(
        [dims, dims[:-1] + "n"], [dims[:-1] + "n"], dims[-1] + "n", {0: ADDS}, extents={"n": 3}
    )
    last = len(dims) - 1
    f.apply([x, New("int64")], rule, lambda at: [at.call("gather", at[0], last, at[1])])


# ---- norms, losses, steps of an optimizer ---------------------------------------------------------
def squares(f: Fuzzer, x: Tensor) -> None:
    """The norm over a dimension; or its square, which adds up over ranks."""
    dims = letters(x)
    gone = f.rng.randrange(len(dims))
    out, again = dims[:gone] + dims[gone + 1 :], f.chance(0.7)
    forms = [f.rng.choice(["norm", "sum"]) for _ in range(2)]

    def emit(at: Site) -> Sequence[Ref]:
        if again and forms[at.seq] == "sum":
            return [at.call("sum.dim_IntList", at.call("square", at[0]), [gone])]
        made = at.call("linalg_vector_norm", at[0], 2, [gone])
        return [at.call("pow.Tensor_Scalar", made, 2) if again else made]

    f.apply([x], Rule([dims], [out], "" if again else dims[gone]), emit)


def root(f: Fuzzer, x: Tensor) -> None:
    """The root of a square, or the square of a root."""
    dims = letters(x)
    first = f.chance(0.5)

    def emit(at: Site) -> Sequence[Ref]:
        square = at.call("square", at[0])
        if first:
            return [at.call("sqrt", square)]
        total = at.call("add.Tensor", square, at.call("exp", at[0]))
        return [at.call("pow.Tensor_Scalar", at.call("sqrt", total), 2)]

    f.apply([x], Rule([dims], [dims]), emit)


def loss(f: Fuzzer, x: Tensor) -> None:
    """The loss of classes, or its gradient; one class may be ignored."""
    dims = ranked(x, 2, 2)
    reduction, ignored = f.rng.choice([0, 1, 2]), f.rng.choice([-100, 1])
    mean = dims[0] if reduction == 1 else ""
    if f.chance(0.5):
        rule = Rule(
            [dims, dims[0]], [dims[0] if reduction == 0 else ""], dims[1] + mean, open={0: ADDS}
        )  # fmt: skip

        def forward(at: Site) -> Sequence[Ref]:
            made = at.call("nll_loss_forward", at[0], at[1], None, reduction, ignored)
            return [at.item(made, 0)]

        f.apply([x, New("int64")], rule, forward)
        return
    rule = Rule([dims, dims[0], dims[0]], [dims], dims[1] + mean, open={2: ADDS})

    def backward(at: Site) -> Sequence[Ref]:
        made = at.call("nll_loss_forward", at[0], at[1], None, reduction, ignored)
        g = at[2] if reduction == 0 else at.call("select.int", at[2], 0, 0)
        more = [None, reduction, ignored, at.item(made, 1)]
        return [at.call("nll_loss_backward", g, at[0], at[1], *more)]

    if reduction:
        rule = Rule([dims, dims[0], dims[0]], [dims], dims)
    f.apply([x, New("int64"), New()], rule, backward)


def blended(f: Fuzzer, x: Tensor) -> None:
    """Running averages, steps and differences, as an optimizer takes them."""
    dims = letters(x)
    name = f.rng.choice(["lerp.Scalar", "addcmul", "addcdiv", "mse_loss_backward"])
    by = f.rng.choice([0.1, 0.5, -0.25])

    def emit(at: Site) -> Sequence[Ref]:
        if name == "lerp.Scalar":
            return [at.call(name, at[0], at[1], by)]
        if name == "mse_loss_backward":
            return [at.call(name, at[2], at[0], at[1], 2)]
        return [at.call(name, *at.operands, value=by)]

    two = name == "lerp.Scalar"
    operands = [x, alike(f, x), New()][: 3 - two]
    f.apply(operands, Rule([dims] * len(operands), [dims], together=ADDS if two else ()), emit)


def scaled_somewhere(f: Fuzzer, x: Tensor) -> None:
    """Two products and three numbers, which come in another order on each side."""
    dims = letters(x)
    others = [0.1, 0.3, -0.7, 1 / 3] if f.chance(0.25) else []
    numbers = f.rng.sample([2, 0.5, 3, -4, 0.125, TINY, TINY, *others], 3)
    f.plain = f.plain and not others and numbers.count(TINY) < 2
    orders = [f.rng.sample(numbers, 3), numbers]
    if f.chance(0.5):  # all at once
        orders[0] = [1, 1, numbers[0] * numbers[1] * numbers[2]]
    if f.wrong(0.5):
        orders[0][1] *= 2

    def emit(at: Site) -> Sequence[Ref]:
        made, by = at[0], orders[at.seq]
        for i, number in enumerate(by):
            made = at.call("mul.Tensor", made, number) if number != 1 else made
            made = at.call("mul.Tensor", made, at[i + 1]) if i < 2 else made
        return [made]

    rule = Rule([dims, dims, dims[-1]], [dims], open={0: ADDS})
    f.apply([x, New(), New()], rule, emit)


Step = Callable[[Fuzzer, Tensor], None]
STEPS: list[Step] = [
    unary, unary, scaled, additive, additive, multiplied, multiplied, biased, masked,
    activation_backward, softmax, softmax_backward, reduced, reduced, norm, norm_backward,
    matmul, matmul, matmul, batched, weight_gradient, weight_gradient, buffer, buffer, added_at,
    onto, overwritten, gathered, lookup, lookup, lookup_gradient, lookup_gradient, entropy_gradient,
    entropy_gradient, loss_gradient, picked, hot, squares, root, loss, blended, scaled_somewhere, *MOVEMENT,
]  # fmt: skip
