"""Parameters, tuples, calls, loops, choices, and collectives in two halves."""

from __future__ import annotations

from gg_datalog.readers.hlo_graph import Result, Value
from gg_datalog.readers.hlo_opaque import COLLECTIVE
from gg_datalog.readers.hlo_program import HANDLERS, Program, lowers, shape_of
from gg_datalog.readers.hlo_scan import inside, split
from gg_datalog.readers.hlo_shapes import Array, Shape
from gg_datalog.readers.hlo_text import Computation

MOST_ROUNDS = 4096


@lowers("parameter")
def parameter(p: Program) -> Result:
    """An input of the program."""
    number = int(p.at.inner)
    found: list[Value] = []
    p.need(number not in p.parameters, f"two parameters have the number {number}")

    def of(shape: Shape) -> Result:
        if not isinstance(shape, Array):
            return tuple(of(part) for part in shape)
        if shape.dtype in ("token", "opaque"):
            return None
        suffix = str(len(found)) if not isinstance(p.at.shape, Array) else ""
        name = p.free(suffix)
        found.append(Value(p.emit(name, [], shape, suffix, op="placeholder"), shape))
        return found[-1]

    made = of(p.at.shape)
    p.parameters[number] = found
    return made


@lowers("tuple")
def tuple_(p: Program) -> Result:
    """Several results as one."""
    made = tuple(p.result(i) for i in range(len(p.at.operands)))
    shape = shape_of(made)
    p.need(shape is None or shape == p.at.shape, f"it holds {shape}")
    return made


@lowers("get-tuple-element")
def element(p: Program) -> Result:
    """One of several results."""
    of, index = p.result(0), p.ints("index")
    p.need(isinstance(of, tuple) and len(index) == 1, "its operand is no tuple")
    assert isinstance(of, tuple)
    p.need(0 <= index[0] < len(of), f"item {index[0]} of {len(of)}")
    found = of[index[0]]
    return p.alias(found) if isinstance(found, Value) else found


@lowers("call", "fusion")
def call(p: Program) -> Result:
    """What the computation gives for the operands."""
    computation = p.called("calls" if p.at.opcode == "fusion" else "to_apply")
    return p.inline(computation, [p.result(i) for i in range(len(p.at.operands))])


@lowers("after-all", "create-token")
def token(p: Program) -> Result:
    """Order only."""
    return None


@lowers("while")
def while_(p: Program) -> Result:
    """A loop whose number of rounds the text tells, round by round."""
    body, condition = p.called("body"), p.called("condition")
    state = p.result(0)
    for count in range(MOST_ROUNDS):
        more = p.inline(condition, [state], f":{count}:condition")
        if not isinstance(more, Value) or more.single is None:
            raise p.error(
                "how often the loop runs depends on data", "unroll it before it is dumped"
            )
        if not more.single:
            return state
        state = p.inline(body, [state], f":{count}")
    raise p.error(f"the loop runs more than {MOST_ROUNDS} times", "dump a smaller program")


@lowers("conditional")
def conditional(p: Program) -> Result:
    """The branch that is taken where the text tells; else all of them, and a choice."""
    branches = _branches(p)
    choice = p.operand(0)
    pred = choice.shape.dtype == "pred"
    if choice.single is not None:
        at = (0 if choice.single else 1) if pred else int(choice.single)
        at = at if 0 <= at < len(branches) else len(branches) - 1
        return p.inline(branches[at], [p.result(at + 1)])
    for branch in branches:
        _alone(p, branch, set())
    made = [p.inline(b, [p.result(i + 1)], f":{i}") for i, b in enumerate(branches)]
    if pred:
        return _chosen(p, choice, made[0], made[1])
    found = made[-1]  # what any number means that no other branch has
    for place, other in reversed(list(enumerate(made[:-1]))):
        same = p.make("aten.eq.Scalar", [choice.ref, place], Array("pred", ()), f"is{place}")
        found = _chosen(p, same, other, found)
    return found


def _branches(p: Program) -> list[Computation]:
    listed = p.at.attributes.get("branch_computations")
    if listed is None:
        return [p.called("true_computation"), p.called("false_computation")]
    names = [name.lstrip("%") for name in split(inside(listed))]
    p.need(all(name in p.module.computations for name in names), "a branch is missing")
    return [p.module.computations[name] for name in names]


def _alone(p: Program, computation: Computation, seen: set[str]) -> None:
    """A branch that other devices need not take holds no collective."""
    if computation.name in seen:
        return
    seen.add(computation.name)
    for at in computation.instructions:
        if COLLECTIVE.match(at.opcode) and not at.opcode.endswith("-id"):
            raise p.error(f"its branches hold `{at.name}` ({at.opcode})", "not all may take it")
        for text in at.attributes.values():
            for name in split(inside(text)) if text.startswith(("{", "%")) else [text]:
                if name.lstrip("%") in p.module.computations:
                    _alone(p, p.module.computations[name.lstrip("%")], seen)


def _chosen(p: Program, choice: Value, a: Result, b: Result) -> Result:
    if isinstance(a, tuple) and isinstance(b, tuple):
        return tuple(_chosen(p, choice, x, y) for x, y in zip(a, b, strict=True))
    if not isinstance(a, Value) or not isinstance(b, Value):
        return None
    mask = choice
    if a.shape.dims:
        shape = Array("pred", a.shape.dims)
        mask = p.make("hlo.broadcast", [choice.ref, [], list(a.shape.dims)], shape, "mask")
    return p.make("hlo.select", [mask.ref, a.ref, b.ref], a.shape)


# ---- two halves
@lowers("async-start")
def async_start(p: Program) -> Result:
    """What the computation gives: the other half returns it."""
    return p.inline(p.called("calls"), [p.result(i) for i in range(len(p.at.operands))])


@lowers(
    "async-update",
    "async-done",
    "all-reduce-done",
    "all-gather-done",
    "collective-permute-done",
    "copy-done",
)
def done(p: Program) -> Result:
    """What the first half has begun."""
    found = p.result(0)
    if isinstance(found, Value):
        return p.alias(found)
    p.need(
        p.at.opcode == "async-update" or shape_of(found) in (None, p.at.shape),
        f"its other half gives {shape_of(found)}",
    )
    return found


__all__ = ["HANDLERS"]
