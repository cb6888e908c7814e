"""Small programs that are executed while they are written, on all ranks in step.

A tape notes each operator with its arguments per rank; it gives the graphs of the case format, and
is run again on other inputs. Operators are torch's own, called as the graph says, so that writes
into memory, views and refusals are what torch makes of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from gg_datalog.tracing.export import literal

from .operators import overload, parameters

Tensor = torch.Tensor
Json = dict[str, Any]
Env = dict[str, Any]
ITEM = "<built-in function getitem>"
REDUCE = {"sum": torch.add, "max": torch.maximum, "min": torch.minimum}


class Refused(Exception):
    """torch does not execute it on these arguments."""


@dataclass(frozen=True)
class Ref:
    """The value of a node."""

    name: str


@dataclass
class Step:
    """An operator with its arguments on each rank."""

    name: str
    target: str
    args: list[tuple[Any, ...]]
    kwargs: list[dict[str, Any]]


@dataclass
class Tape:
    """The program of one side; ``given`` are the placeholders of each rank."""

    given: Sequence[Mapping[str, Tensor]]
    steps: list[Step] = field(default_factory=list)
    values: list[Env] = field(default_factory=list)
    forms: list[dict[str, Any]] = field(default_factory=list)  # shape and dtype, when it was made

    def __post_init__(self) -> None:
        self.values = _started(self.given)
        self.forms = [{k: _form(v) for k, v in env.items()} for env in self.values]

    @property
    def ranks(self) -> int:
        """How many ranks the program has."""
        return len(self.values)

    def call(self, stem: str, target: str, *args: Any, **kwargs: Any) -> Ref:
        """The same call on every rank."""
        return self.calls(stem, target, [args] * self.ranks, [kwargs] * self.ranks)

    def calls(
        self, stem: str, target: str, args: list[tuple[Any, ...]], kwargs: list[dict[str, Any]]
    ) -> Ref:
        """A call that differs by rank; :class:`Refused` where torch refuses one of them."""
        name, count = stem, 0
        while any(name in env for env in self.values):
            count += 1
            name = f"{stem}_{count}"
        step = Step(name, target, args, kwargs)
        perform(step, self.values)
        self.steps.append(step)
        for env, forms in zip(self.values, self.forms, strict=True):
            forms[name] = _form(env[name])
        return Ref(name)

    def undo(self) -> None:
        """Takes the last step back."""
        step = self.steps.pop()
        for env, forms in zip(self.values, self.forms, strict=True):
            del env[step.name], forms[step.name]

    def items(self, of: Ref) -> list[Ref]:
        """The tensors that a node gives: itself, or its items, each a node."""
        value = self.values[0][of.name]
        if isinstance(value, Tensor):
            return [of]
        if not isinstance(value, (tuple, list)):
            raise Refused("its result is no tensor")
        kept = [i for i, v in enumerate(value) if isinstance(v, Tensor)]
        return [self.call(f"{of.name}_{i}", ITEM, of, i) for i in kept]

    def value(self, ref: Ref, rank: int = 0) -> Any:
        """What a node is on a rank."""
        return self.values[rank][ref.name]

    def again(self, given: Sequence[Mapping[str, Tensor]]) -> list[Env]:
        """The values of all nodes on other inputs."""
        values = _started(given)
        for step in self.steps:
            perform(step, values)
        return values

    def graphs(self, returned: Sequence[str]) -> list[Json]:
        """The graph of each rank."""
        return [self._graph(rank, returned) for rank in range(self.ranks)]

    def _graph(self, rank: int, returned: Sequence[str]) -> Json:
        forms = self.forms[rank]
        nodes = [
            {"name": n, "op": "placeholder", "target": n, "args": [], "kwargs": {}, **forms[n]}
            for n in self.given[rank]
        ]
        for step in self.steps:
            args = [_json(a) for a in step.args[rank]]
            kwargs = {k: _json(v) for k, v in step.kwargs[rank].items()}
            nodes.append({"name": step.name, "op": "call_function", "target": step.target,
                          "args": args, "kwargs": kwargs, **forms[step.name]})  # fmt: skip
        rows = [[{"node": name} for name in returned]]
        nodes.append(
            {"name": "output", "op": "output", "target": "output", "args": rows, "kwargs": {}}
        )
        return {"format": "fx-graph", "version": 2, "rank": rank, "nodes": nodes}


def _started(given: Sequence[Mapping[str, Tensor]]) -> list[Env]:
    return [{name: x.clone() for name, x in mine.items()} for mine in given]


def _form(value: Any) -> Json:
    if not isinstance(value, Tensor):
        return {}
    return {"shape": list(value.shape), "dtype": str(value.dtype).removeprefix("torch.")}


def _json(value: Any) -> Any:
    if isinstance(value, Ref):
        return {"node": value.name}
    if isinstance(value, (list, tuple)):
        return [_json(part) for part in value]
    return literal(value, None)


def resolved(tree: Any, env: Env) -> Any:
    """Arguments with values for references."""
    if isinstance(tree, Ref):
        return env[tree.name]
    if isinstance(tree, (list, tuple)):
        return type(tree)(resolved(part, env) for part in tree)
    return tree


def perform(step: Step, values: list[Env]) -> None:
    """Executes a step on every rank."""
    given = [
        (resolved(args, env), {k: resolved(v, env) for k, v in kwargs.items()})
        for args, kwargs, env in zip(step.args, step.kwargs, values, strict=True)
    ]
    if step.target == "_c10d_functional.all_reduce.default":
        made = _reduced(given)
    else:
        for one in given:
            _check_classes(step.target, *one)
        made = [_executed(function_of(step.target), *one) for one in given]
    for env, value in zip(values, made, strict=True):
        env[step.name] = value


def function_of(target: str) -> Callable[..., Any]:
    """What computes a target."""
    if target == ITEM:
        return lambda of, place: of[place]
    if target == "_c10d_functional.wait_tensor.default":
        return lambda x: x
    return overload(target)


def _check_classes(target: str, args: Any, kwargs: Any) -> None:
    """Gradients of losses write where the targets say, into whatever memory is there."""
    if not re.fullmatch(r"aten\.nll_loss\w*_backward\.\w+", target):
        return
    given = {**dict(zip((p.name for p in parameters(target)), args, strict=False)), **kwargs}
    of, ids, ignored = given["self"], given["target"], given["ignore_index"]
    classes = of.shape[1 if of.dim() > 1 else 0] if of.dim() else 0
    if not bool(((ids == ignored) | ((ids >= 0) & (ids < classes))).all()):
        raise Refused("a target is none of the classes")


def _executed(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    try:
        return function(*args, **kwargs)
    except Exception as problem:
        raise Refused(str(problem).splitlines()[0] if str(problem) else "") from None


def _reduced(given: list[Any]) -> list[Tensor]:
    tensors = [args[0] for args, _ in given]
    if len({(x.shape, x.dtype) for x in tensors}) > 1:
        raise Refused("tensors of several forms are reduced")
    if tensors[0].is_complex() or not tensors[0].numel():
        raise Refused("a reduction of complex numbers, or of none")
    total, how = tensors[0], given[0][0][1]
    for one in tensors[1:]:
        total = REDUCE.get(how, torch.add)(total, one)
    if how == "avg":
        total = total / len(tensors)
    return [total.clone() for _ in tensors]
