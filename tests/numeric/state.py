"""Several steps of an optimizer in one program: parameters and what an optimizer remembers of them, in
place or not, returned at the end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from .fuzz import ADDS, Fuzzer, Rule, Tensor, letters, ranked
from .writing import Ref, Site

DIMS = "io"


@dataclass
class Optimizer:
    """How parameters change; the numbers are those of the sequential program."""

    f: Fuzzer
    kind: str
    forms: tuple[str, str]  # of the ranks, and of the sequential program
    lr: float = 0.1
    beta: float = 0.9
    mistakes: dict[int, str] = field(default_factory=dict)  # of the ranks, by step

    @property
    def states(self) -> int:
        """How many tensors it remembers."""
        return {"sgd": 0, "momentum": 1, "average": 1, "adam": 2, "fused": 2}[self.kind]

    def update(self, step: int) -> Callable[[Site], Sequence[Ref]]:
        """Parameter, gradient and state on one graph; gives parameter and state."""

        def emit(at: Site) -> Sequence[Ref]:
            made = "" if at.seq else self.mistakes.get(step, "")
            how = How(at, self.forms[at.seq], self.lr * (2 if made == "rate" else 1), self.beta)
            if made == "left out":
                return [at[0], *at.operands[2:]]
            p, *states = getattr(how, self.kind)(made == "old state")
            if made == "again":
                how.operands = [p, at[1], *states]
                p, *states = getattr(how, self.kind)(False)
            return [p, *states]

        return emit


class How:
    """Updates written into one graph."""

    def __init__(self, at: Site, form: str, lr: float, beta: float) -> None:
        self.at, self.form, self.lr, self.beta = at, form, lr, beta
        self.operands = list(at.operands)

    def plus(self, x: Ref, y: Ref, by: float) -> Ref:
        """``x + by * y``, where the form says so in the memory of ``x``."""
        at = self.at
        if self.form == "place":
            at.call("add_.Tensor", x, y, alpha=by)
            return x
        if self.form == "lists":
            at.call("_foreach_add_.List", [x], [y], alpha=by)
            return x
        if self.form == "copy":
            at.call("copy_", x, at.call("add.Tensor", x, at.call("mul.Tensor", y, by)))
            return x
        return at.call("add.Tensor", x, y, alpha=by)

    def scaled(self, x: Ref, by: float) -> Ref:
        """``by * x``."""
        at = self.at
        if self.form == "lists":
            at.call("_foreach_mul_.Scalar", [x], by)
            return x
        if self.form in ("place", "copy"):
            at.call("mul_.Tensor", x, by)
            return x
        return at.call("mul.Tensor", x, by)

    def sgd(self, _: bool) -> list[Ref]:
        """A step against the gradient."""
        return [self.plus(self.operands[0], self.operands[1], -self.lr)]

    def momentum(self, old: bool) -> list[Ref]:
        """The gradient is added to what is left of the earlier ones."""
        p, g, m = self.operands
        if old:
            p = self.plus(p, m, -self.lr)
        m = self.plus(self.scaled(m, self.beta), g, 1.0)
        return [p if old else self.plus(p, m, -self.lr), m]

    def average(self, old: bool) -> list[Ref]:
        """A running average of the parameter."""
        p, g, e = self.operands
        before = self.at.call("clone", p) if old else p
        p = self.plus(p, g, -self.lr)
        of = before if old else p
        if self.form == "place":
            self.at.call("lerp_.Scalar", e, of, 1 - self.beta)
            return [p, e]
        if self.form == "lists":
            self.at.call("_foreach_lerp_.Scalar", [e], [of], 1 - self.beta)
            return [p, e]
        if self.form == "function":
            return [p, self.at.call("lerp.Scalar", e, of, 1 - self.beta)]
        return [p, self.plus(self.scaled(e, self.beta), of, 1 - self.beta)]

    def adam(self, old: bool) -> list[Ref]:
        """Averages of the gradient and of its square, without the correction of the bias."""
        p, g, m, v = self.operands
        at = self.at
        denominator = self._root(at.call("clone", v)) if old else None
        m = self.plus(self.scaled(m, self.beta), g, 1 - self.beta)
        v = self.scaled(v, 0.5)
        if self.form == "place":
            at.call("addcmul_", v, g, g, value=0.5)
        elif self.form == "lists":
            at.call("_foreach_addcmul_.Scalar", [v], [g], [g], 0.5)
        else:
            v = self.plus(v, at.call("mul.Tensor", g, g), 0.5)
        denominator = denominator or self._root(v)
        if self.form == "place":
            at.call("addcdiv_", p, m, denominator, value=-self.lr)
        elif self.form == "lists":
            at.call("_foreach_addcdiv_.Scalar", [p], [m], [denominator], -self.lr)
        elif self.form == "function":
            p = at.call("addcdiv", p, m, denominator, value=-self.lr)
        else:
            p = self.plus(p, at.call("div.Tensor", m, denominator), -self.lr)
        return [p, m, v]

    def fused(self, _: bool) -> list[Ref]:
        """All of it in one kernel, which returns nothing, and reads memory one after the other."""
        at = self.at
        dense = {"memory_format": "torch.contiguous_format"}
        p, g, m, v = (at.call("clone", r, memory_format=dense) for r in self.operands)
        steps = at.call("full", [], 3.0)
        numbers = {
            "lr": self.lr,
            "beta1": self.beta,
            "beta2": 0.5,
            "weight_decay": 0.0,
            "eps": 1e-3,
        }
        at.call(
            "_fused_adam_",
            [p],
            [g],
            [m],
            [v],
            [],
            [steps],
            **numbers,
            amsgrad=False,
            maximize=False,
        )
        return [p, m, v]

    def _root(self, v: Ref) -> Ref:
        at = self.at
        return at.call("add.Tensor", at.call("sqrt", at.call("abs", v)), 0.25)


FORMS = ("place", "place", "function", "lists", "copy")
MISTAKES = ("rate", "left out", "old state", "again", "old gradient")


def training(f: Fuzzer, x: Tensor) -> None:
    """Steps on the gradient of a sum of squares of a product: of what each rank has of the rows."""
    dims = ranked(x, 2, 2)
    width = f.rng.choice([2, 3, 4])
    shape = (x.shape[1], width)
    layout = f.layout_for(shape)
    how = _optimizer(f)
    p = f.input(shape, layout)
    states = [f.input(shape, layout) for _ in range(how.states)]
    if how.kind == "fused":  # squares are not negative
        squared = Rule([DIMS], [DIMS])
        states[1:] = f.apply(states[1:], squared, lambda at: [at.call("square", at[0])])
    g: Tensor | None = None
    for step in range(f.rng.choice([2, 2, 3])):
        if f.wrong(0.5, "state"):
            how.mistakes[step] = f.rng.choice(MISTAKES)
        if g is None or how.mistakes.get(step) != "old gradient":
            g = _gradient(f, x, p, dims)
        stale = how.mistakes.get(step) == "old gradient"
        g = _fresh(f, x, p, dims, g) if stale else g
        p, *states = _step(f, how, step, p, g, states)
    f.forced += [p, *states]


def _optimizer(f: Fuzzer) -> Optimizer:
    forms = f.rng.choice(FORMS), f.rng.choice(FORMS)
    kind = f.rng.choice(["sgd", "momentum", "momentum", "average", "adam", "fused"])
    return Optimizer(f, kind, forms, f.rng.choice([0.1, 0.5]), f.rng.choice([0.9, 0.5]))


def _gradient(f: Fuzzer, x: Tensor, p: Tensor, dims: str) -> Tensor:
    """Of half the sum of the squares of ``x @ p``."""
    rule = Rule([dims, dims[1] + "o"], [dims[0] + "o"], open={0: ADDS, 1: ADDS})
    (y,) = f.apply([x, p], rule, lambda at: [at.call("mm", at[0], at[1])])
    back = Rule([dims, dims[0] + "o"], [dims[1] + "o"], open={0: ADDS, 1: ADDS})
    (g,) = f.apply([x, y], back, lambda at: [at.call("mm", at.call("t", at[0]), at[1])])
    return g


def _fresh(f: Fuzzer, x: Tensor, p: Tensor, dims: str, old: Tensor) -> Tensor:
    """A mistake: the gradient of now on the sequential side, the last one on the ranks."""
    g = _gradient(f, x, p, dims)
    if g.layout != old.layout:
        return g
    return Tensor(g.seq, old.dist, g.shape, g.layout, dtype=g.dtype)


def _step(
    f: Fuzzer, how: Optimizer, step: int, p: Tensor, g: Tensor, states: Sequence[Tensor]
) -> list[Tensor]:
    count = 1 + len(states)
    together: Any = ADDS if how.kind == "sgd" else ()
    rule = Rule([DIMS] * (count + 1), [DIMS] * count, together=together)
    return f.apply([p, g, *states], rule, how.update(step))


def accumulated(f: Fuzzer, x: Tensor) -> None:
    """A buffer to which something is added in a loop, and a count of how often."""
    dims = letters(x)
    forms = [f.rng.choice(FORMS), f.rng.choice(FORMS)]
    steps, lost = f.rng.choice([2, 3]), f.wrong(0.6, "a step less")

    def emit(at: Site) -> Sequence[Ref]:
        total = at.call("zeros_like", at[0])
        for i in range(steps - (lost and not at.seq)):
            part = at.call("mul.Tensor", at[0], float(i + 1))
            total = How(at, forms[at.seq], 1.0, 1.0).plus(total, part, 0.5)
        return [total]

    f.apply([x], Rule([dims], [dims], open={0: ADDS}), emit)


STATE = [training, training, accumulated]
