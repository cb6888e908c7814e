"""Captured graphs as they lie on disk: reading them, and refusing what cannot be right."""

from __future__ import annotations

import json
import re
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from gg_datalog.extract.signature import Signature, Unbound, bound
from gg_datalog.foundation.errors import InputError
from gg_datalog.foundation.regular import refuse_special

VERSIONS = (1, 2)
OPS = ("placeholder", "get_attr", "call_function", "output")
MAX_EXTENT = 2**31 - 1
# Stands for every size that depends on data. It is a prime that no size is a multiple of, so
# nothing splits it; that two such sizes are equal only follows from the operators that give them.
SYMBOL = 1073741789
NAME = re.compile(r"[A-Za-z_]\w*")
MAX_DEPTH = 32
UNREADABLE = re.compile(r"[\x00-\x1f\x7f]")
DTYPE = re.compile(  # torch's, and XLA's small floats
    r"bool|u?int(8|16|32|64|[1-7])|b?float16|float(32|64)|complex(32|64|128)|qu?int8|qint32"
    r"|float[48]_e\dm\d(fn|fnu|fnuz|b11fnuz)?(_x2)?|quint(4x2|2x4)|bits(1x8|2x4|4x2|8|16)"
    r"|half|float|double|c(half|float|double)|long|int|short"
)
COUNTS = re.compile(r"aten\.arange\b|prims\.iota\b|hlo\.iota\b")
MOVES = re.compile(
    r"aten\.(add|sub|rsub|neg|mul|floor_divide|remainder|view|reshape|unsqueeze|squeeze|expand|slice|"
    r"select|permute|transpose|t|clone|_to_copy)\b"
)
COMPARES = re.compile(r"aten\.(lt|le|gt|ge|eq|ne)\b")


@dataclass(frozen=True)
class Ref:
    """A reference to another node of the same graph."""

    name: str


@dataclass(frozen=True)
class Node:
    """One node: ``args`` and ``kwargs`` hold literals and :class:`Ref` as they were captured,
    ``bound`` the same by name, defaults included (by position where no signature is known);
    ``shape`` is None where the value is not one tensor; symbolic sizes are strings. ``draw`` names
    the random numbers that it draws: ``SEED:STATE:FORM``, ``-`` for a seed that nobody gave.
    ``sample`` is between what the numbers of an integer input lay, where the program was given
    some: nothing is derived from it."""

    name: str
    op: str
    target: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    shape: tuple[int | str, ...] | None
    dtype: str | None
    value: Any
    source: str
    module: str
    position: int
    draw: str = ""
    sample: tuple[int, int] | None = None
    signature: Signature | None = None
    bound: Mapping[str | int, Any] = field(default_factory=dict)

    @cached_property
    def references(self) -> tuple[str, ...]:
        """The nodes among its arguments: positions in order, then keywords by name."""
        return tuple(references((self.args, self.kwargs)))


@dataclass(frozen=True)
class Graph:
    """The nodes of one rank, in program order, and what the graph returns.

    ``file`` holds it; ``path`` is what messages name: where it was read from originally."""

    path: str
    rank: int
    nodes: Mapping[str, Node]
    returns: tuple[Any, ...]
    file: str

    @cached_property
    def users(self) -> Mapping[str, Sequence[Node]]:
        """By name, the nodes that refer to a node, in program order."""
        found: dict[str, list[Node]] = {}
        for node in self.nodes.values():
            for name in dict.fromkeys(node.references):
                found.setdefault(name, []).append(node)
        return found


def is_symbolic(extent: int) -> bool:
    """Does a size (or a number of elements) depend on data?"""
    return extent % SYMBOL == 0 and extent != 0


def extents(shape: Sequence[int | str] | None) -> tuple[int | str, ...] | None:
    """A shape whose symbols are :data:`SYMBOL`; what is more than a name stays text."""
    if shape is None:
        return None
    return tuple(SYMBOL if isinstance(e, str) and NAME.fullmatch(e) else e for e in shape)


def read_json(path: Path, what: str) -> Any:
    """The JSON document at ``path``; an :class:`InputError` names file, line and column."""
    refuse_special(path)
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(
            f"{what} not found", str(path), "give the path of an existing file"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        text = getattr(error, "strerror", None) or error
        raise InputError(
            f"{what} cannot be read: {text}", str(path), "give a file that you may read"
        ) from None
    except json.JSONDecodeError as error:
        where = f"{path}:{error.lineno}:{error.colno}"
        raise InputError(f"{what} is not JSON: {error.msg}", where, "export it again") from None
    except RecursionError:
        raise InputError(f"{what} is nested too deeply", str(path), "export it again") from None
    except ValueError as error:
        raise InputError(f"{what} cannot be read: {error}", str(path), "export it again") from None


def load_graph(path: Path, rank: int) -> Graph:
    """The graph in file ``path``, checked: known references, no cycles, sane shapes."""
    document = read_json(path, "graph")
    if not isinstance(document, dict) or not isinstance(document.get("nodes"), list):
        raise InputError(
            "not a graph: expected an object with a list `nodes`", str(path), "see docs/format.md"
        )
    form = document.get("format", "fx-graph"), document.get("version", 1)
    if form[0] != "fx-graph" or form[1] not in VERSIONS:
        raise InputError(
            f"graph format {form[0]!r}, version {form[1]!r} is not known",
            str(path),
            f"this release reads fx-graph, versions {' and '.join(map(str, VERSIONS))}",
        )
    file = str(path)
    origin = document.get("origin")
    if origin is not None:
        path = Path(_text(document, "origin", str(path)) or path)
    nodes: dict[str, Node] = {}
    returns: list[Any] = []
    for position, row in enumerate(document["nodes"]):
        node = _node(row, position, path)
        if node.name in nodes:
            raise InputError(f"two nodes are called `{node.name}`", str(path), "names are unique")
        _check_references(node, nodes, document["nodes"], path)
        if node.op == "output":
            returns.extend(_flatten(node.args))
        nodes[node.name] = node
    if not any(node.op == "output" for node in nodes.values()):
        raise InputError("the graph has no `output` node", str(path), "capture it again")
    return Graph(str(path), rank, nodes, tuple(returns), file)


def references(value: Any) -> Iterator[str]:
    """Names of the nodes in an argument tree: positions in order, then keywords by name."""
    if isinstance(value, Ref):
        yield value.name
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from references(part)
    elif isinstance(value, Mapping):
        for _, part in sorted(value.items()):
            yield from references(part)


def samples_of(graph: Graph) -> Iterator[tuple[int, int]]:
    """Between what the numbers of integer inputs lay, where that is known."""
    return (node.sample for node in graph.nodes.values() if node.sample is not None)


def about_positions(graph: Graph) -> set[str]:
    """The nodes that count, and compare what they count with numbers or with each other: what they
    choose are positions. Not those whose numbers go anywhere else."""
    counts: dict[str, Node] = {}
    tests: set[str] = set()
    for node in graph.nodes.values():
        of = node.references
        if (COUNTS if not of else MOVES).match(node.target) and all(n in counts for n in of):
            counts[node.name] = node
        elif COMPARES.match(node.target) and of and all(n in counts for n in of):
            tests.add(node.name)
    for name in reversed(list(counts)):
        users = graph.users.get(name, ())
        if any(user.name not in counts and user.name not in tests for user in users):
            del counts[name]
    return tests | set(counts)


def integers_of(graph: Graph, but: Container[str] = ()) -> set[int]:
    """The integers among the arguments of all operators, those that they have by default too, but
    not of these nodes."""
    found: set[int] = set()
    for node in graph.nodes.values():
        if node.name in but:
            continue
        todo: list[Any] = [node.args, node.kwargs, node.bound]
        if node.signature is not None:
            todo += [p.default for p in node.signature.parameters if p.name not in node.bound]
        while todo:
            value = todo.pop()
            if isinstance(value, (int, float)) and value == value // 1:
                found.add(int(value))
            elif isinstance(value, (list, tuple)):
                todo += value
            elif isinstance(value, Mapping):
                todo += value.values()
    return found


def _flatten(value: Any) -> Iterator[Any]:
    if isinstance(value, (list, tuple)):
        for part in value:
            yield from _flatten(part)
    else:
        yield value


def _node(row: Any, position: int, path: Path) -> Node:
    where = f"{path}: node {position}"
    if not isinstance(row, dict) or not isinstance(row.get("name"), str) or not row["name"]:
        raise InputError("a node is an object with a `name`", where, "see docs/format.md")
    where = f"{path}: node `{row['name']}`"
    if row.get("op") not in OPS:
        raise InputError(f"`op` is {row.get('op')!r}", where, f"expected one of {', '.join(OPS)}")
    args, kwargs = row.get("args", []), row.get("kwargs", {})
    if not isinstance(args, list) or not isinstance(kwargs, dict):
        raise InputError("`args` must be a list and `kwargs` an object", where)
    target = row.get("target", "")
    if not isinstance(target, str) or (row["op"] == "call_function" and not target):
        raise InputError("`target` must be the operator's name", where, "see docs/format.md")
    for text in (row["name"], target, *kwargs):
        if UNREADABLE.search(text):
            raise InputError(
                f"the name {text!r} holds a tab, a line break or another control character",
                where,
                "rename it",
            )
    listed = tuple(_argument(a, where) for a in args)
    named = {k: _argument(a, where) for k, a in kwargs.items()}
    called = row["op"] == "call_function"
    signature, by_name = _bound(target, listed, named, where) if called else (None, {})
    return Node(
        name=row["name"],
        op=row["op"],
        target=target,
        args=listed,
        kwargs=named,
        shape=_shape(row, where),
        dtype=_dtype(row, where) or _asked(by_name),
        value=row.get("value"),
        source=_text(row, "source", where) or "",
        module=_text(row, "module", where) or "",
        position=position,
        draw=_drawn(row, where),
        sample=_sampled(row, where),
        signature=signature,
        bound=by_name,
    )


def _sampled(row: Mapping[str, Any], where: str) -> tuple[int, int] | None:
    given = row.get("sample")
    if given is None:
        return None
    if not isinstance(given, list) or [type(e) for e in given] != [int, int]:
        raise InputError(
            f"`sample` is {given!r}", where, "expected the smallest and the largest number"
        )
    return given[0], given[1]


def _drawn(row: Mapping[str, Any], where: str) -> str:
    text = _text(row, "draw", where) or ""
    if text and not DRAW.fullmatch(text):
        raise InputError(f"`draw` {text!r} is no SEED:STATE:FORM", where, "see docs/format.md")
    return text


DRAW = re.compile(r"(-|\d{1,20}):[0-9A-Za-z]{1,64}(:[0-9A-Za-z]{1,64})?")


def _asked(bound: Mapping[str | int, Any]) -> str | None:
    """The type that a call asks for, of a node that does not say its own."""
    asked = bound.get("dtype")
    return asked.value.removeprefix("torch.") if isinstance(asked, Literal) else None


HIGHER_ORDER = ("auto_functionalized", "auto_functionalized_v2")


def _bound(
    target: str, args: tuple[Any, ...], kwargs: Mapping[str, Any], where: str
) -> tuple[Signature | None, Mapping[str | int, Any]]:
    """The arguments by name; of kernels without a known signature by position and keyword."""
    if target in HIGHER_ORDER:  # (kernel, name=argument, ...)
        return None, {name: value for name, value in kwargs.items()}  # noqa: C416
    try:
        found = bound(target, args, kwargs)
    except Unbound as problem:
        raise InputError(
            f"the arguments do not fit `{target}`: {problem}",
            where,
            "check the node's args and kwargs, or capture it again",
        ) from None
    if found is None:
        return None, {**dict(enumerate(args)), **dict(sorted(kwargs.items()))}
    return found[0], dict(found[1])


def _text(row: Mapping[str, Any], field: str, where: str) -> str | None:
    value = row.get(field)
    if value is not None and not isinstance(value, str):
        raise InputError(f"`{field}` must be a string, not {value!r}", where)
    if value is not None and UNREADABLE.search(value):
        raise InputError(f"`{field}` {value!r} holds a control character", where, "leave it out")
    return value


def _dtype(row: Mapping[str, Any], where: str) -> str | None:
    dtype = _text(row, "dtype", where)
    return dtype and _known_dtype(dtype, where)


def _known_dtype(dtype: str, where: str) -> str:
    """The name of an element type; an error where there is no such type."""
    if not DTYPE.fullmatch(dtype):
        raise InputError(
            f"`dtype` {dtype!r} is not known", where, "use torch's names: float32, int64, bool, ..."
        )
    return dtype


def _shape(row: Mapping[str, Any], where: str) -> tuple[int | str, ...] | None:
    shape = row.get("shape")
    if shape is None:
        return None
    if not isinstance(shape, list):
        raise InputError(f"`shape` must be a list, not {shape!r}", where)
    for extent in shape:
        if isinstance(extent, str) and extent:
            continue
        if isinstance(extent, bool) or not isinstance(extent, int) or extent < 0:
            raise InputError(f"`shape` {shape} holds {extent!r}", where, "sizes are integers >= 0")
        if extent and extent % SYMBOL == 0:
            raise InputError(f"size {extent} is reserved for sizes that depend on data", where)
        if extent > MAX_EXTENT:
            raise InputError(
                f"size {extent} does not fit the engine's 32-bit word", where, "split the dimension"
            )
    return tuple(shape)


LITERALS = ("dtype", "device", "memory_format", "layout")


def _argument(value: Any, where: str, depth: int = 0) -> Any:
    if depth > MAX_DEPTH:
        raise InputError(f"arguments nest deeper than {MAX_DEPTH} levels", where, "flatten them")
    if isinstance(value, list):
        return tuple(_argument(v, where, depth + 1) for v in value)
    if not isinstance(value, dict):
        return value
    if set(value) == {"node"}:
        if not isinstance(value["node"], str):
            raise InputError(f"{value} names no node", where, "see docs/format.md")
        return Ref(value["node"])
    if set(value) == {"float"}:
        try:
            return float(value["float"])
        except (TypeError, ValueError):
            raise InputError(f"{value} is no float", where) from None
    if len(value) == 1 and next(iter(value)) in LITERALS:
        kind, literal = next(iter(value.items()))
        if kind == "dtype":
            _known_dtype(str(literal).removeprefix("torch."), where)
        return Literal(kind, str(literal))
    if value.keys() == {"slice"}:
        parts = value["slice"]
        if not isinstance(parts, list) or not 1 <= len(parts) <= 3:
            raise InputError(f"{value} is no slice", where, "give [start, stop, step]")
        return slice(*parts)
    return {k: _argument(v, where, depth + 1) for k, v in value.items()}


@dataclass(frozen=True)
class Literal:
    """A dtype, device, layout or memory format."""

    kind: str
    value: str


def _check_references(node: Node, known: Mapping[str, Node], rows: list[Any], path: Path) -> None:
    for name in node.references:
        if name in known:
            continue
        later = any(isinstance(row, dict) and row.get("name") == name for row in rows)
        raise InputError(
            f"node `{node.name}` uses `{name}`, "
            + (
                "which comes later: the graph is cyclic or out of order"
                if later
                else "which is not there"
            ),
            str(path),
            "nodes are listed in program order, each after its operands",
        )
