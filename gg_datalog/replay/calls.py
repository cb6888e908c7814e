"""What a node calls: the operator and its arguments by name, however they were given."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from gg_datalog.extract import signature as schemas
from gg_datalog.extract.graph import HIGHER_ORDER
from gg_datalog.extract.signature import Signature, Unbound, bound, packet_of
from gg_datalog.extract.table import Table
from gg_datalog.replay.documents import Json
from gg_datalog.replay.dtypes import dtype_of
from gg_datalog.replay.tensor import Tensor

Key = str | int  # the name of an argument; its place where no signature is known
SCHEMED = ("aten", "prims", "_c10d_functional", "_c10d_functional_autograd", "c10d_functional",
           "c10d", "symm_mem")  # fmt: skip
# Where a tensor lies means nothing here.
PLACEMENT = ("device", "layout", "pin_memory", "non_blocking", "generator")


class NotExecuted(Exception):
    """A node that cannot be executed: what is missing."""


@dataclass(frozen=True)
class Called:
    """A call: ``target`` with its overload, ``name`` without it and with aliases resolved.

    ``given`` has the arguments by name, in the order of the schema and with its defaults, or by
    place and keyword where no signature is known; ``args`` and ``kwargs`` are as the graph has
    them, ``exact`` says whether the signature is that of the overload that the graph names."""

    target: str
    name: str
    signature: Signature | None
    given: Mapping[Key, Any]
    args: Sequence[Any] = ()
    kwargs: Mapping[str, Any] | None = None
    exact: bool = False

    def key(self, which: Key) -> Key:
        """The key of an argument that is told by name or by place."""
        if isinstance(which, int) and self.signature is not None:
            return self.signature.parameters[which].name
        return which

    def __getitem__(self, which: Key) -> Any:
        return self.given[self.key(which)]

    def get(self, *names: str, default: Any = None) -> Any:
        """The first of these arguments that the operator has."""
        return next((self.given[n] for n in names if n in self.given), default)

    def default(self, name: Key) -> Any:
        """The default of an argument."""
        parameters = self.signature.parameters if self.signature is not None else ()
        return next((p.default for p in parameters if p.name == name), schemas.REQUIRED)

    def having(self, values: Mapping[Key, Any]) -> Called:
        """The same call with other values for some arguments."""
        return replace(self, given={**self.given, **values})

    def tensors(self) -> list[Tensor]:
        """The tensors among the arguments."""
        return tensors(list(self.given.values()))

    def written(self) -> dict[Key, Any]:
        """The arguments that the call writes into."""
        if self.signature is None:
            return {}
        names = self.signature.written({str(k): v for k, v in self.given.items()})
        return {name: self.given[name] for name in names}


def tensors(value: Any) -> list[Tensor]:
    """The tensors of an argument tree."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        return [t for _, v in sorted(value.items()) for t in tensors(v)]
    return [t for v in value for t in tensors(v)] if isinstance(value, (list, tuple)) else []


def kernel_of(node: Json) -> str:
    """The target; of a functionalised kernel the kernel's own."""
    higher = node["target"] in HIGHER_ORDER
    return str(node["args"][0]) if higher and node["args"] else str(node["target"])


def named(table: Table, node: Json) -> str:
    """The name of what a node calls, aliases resolved."""
    return table.called(packet_of(kernel_of(node)))


def binding(
    table: Table, target: str, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[Signature, dict[str, Any]] | None:
    """The signature of a call and its arguments by name; None where no signature is known. A list
    of tensors is bound as one is; what a table has another name for, as that is."""
    links = table.links(packet_of(target))
    for one in dict.fromkeys((target, *links, links[-1].removesuffix("_coalesced"))):
        found = bound(one, args, kwargs)
        if found is not None:
            return found[0], {str(name): value for name, value in found[1].items()}
    return None


def call_of(table: Table, node: Json, resolved: Callable[[Any], Any]) -> Called:
    """What a node calls; ``resolved`` replaces references. :class:`NotExecuted` where its arguments
    are not those of the operator."""
    target, name = kernel_of(node), named(table, node)
    args, kwargs = node["args"], node.get("kwargs") or {}
    if node["target"] in HIGHER_ORDER:
        given = {k: resolved(v) for k, v in kwargs.items()}
        return Called(target, name, None, given, (), given)
    try:
        found = binding(table, target, args, kwargs)
    except Unbound as problem:
        if name.partition(".")[0] not in SCHEMED:  # attributes of a kernel that only looks like it
            found = None
        else:
            raise NotExecuted(f"node `{node['name']}` ({target}): {problem}") from problem
    args = [resolved(a) for a in args]
    keywords = {k: resolved(v) for k, v in kwargs.items()}
    if found is None:
        placed: dict[Key, Any] = {**dict(enumerate(args)), **dict(sorted(keywords.items()))}
        return Called(target, name, None, placed, args, keywords)
    signature, told = found
    values: dict[Key, Any] = {k: resolved(v) for k, v in told.items()}
    exact = signature.target == target or len(schemas.overloads(target)) == 1
    return Called(target, name, signature, values, args, keywords, exact)


def literal(argument: Mapping[str, Any]) -> Any:
    """A literal of a graph: types, infinite floats, orders of memory; what says where a tensor lies
    means nothing."""
    if "dtype" in argument:
        return dtype_of(argument["dtype"])
    if "float" in argument:
        return float(argument["float"])
    if "memory_format" in argument:
        return getattr(torch, str(argument["memory_format"]).removeprefix("torch."), None)
    return slice(*argument["slice"]) if "slice" in argument else None


def attributes(call: Called, skip: Sequence[Key] = (), placement: Sequence[str] = ()) -> str:
    """Everything that is no tensor, and does not say where one lies, as text."""
    gone = {call.key(which) for which in skip} | set(PLACEMENT) | {"memory_format", *placement}
    return ", ".join(_attributes(call, gone))


def _attributes(call: Called, gone: set[Key]) -> Iterator[str]:
    kinds = {p.name: p.type for p in call.signature.parameters} if call.signature else {}
    for key, value in call.given.items():
        if key in gone:
            continue
        if kinds.get(str(key), "").startswith("float") and type(value) is int:
            value = float(value)
        plain = isinstance(key, int) or isinstance(value, torch.Tensor)
        yield told(value) if plain else f"{key}={told(value)}"


def told(value: Any) -> str:
    """An argument as text."""
    if isinstance(value, torch.Tensor):
        return "%"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(told, value)) + "]"
    return repr(value)
