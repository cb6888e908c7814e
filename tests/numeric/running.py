"""Runs graphs: one graph node by node, and all ranks in step, which meet at collectives and exchange
messages. Memory that nobody has written holds numbers that nothing else has, and so does the result of
a collective before it is waited for, where the graph waits for it at all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .execution import Numpy, Values, garbage, name_of, overlap, resolve
from .integers_np import reduced
from .kernels_np import NotExecuted, dropped
from .program import Json, references
from .promotion import Array, Invalid, torch_name
from .signatures import canonical

Versions = dict[
    str, list[tuple[int, Any]]
]  # what a node held, and from which place of the program on


KINDS = (
    "all_gather_into_tensor", "all_reduce", "reduce_scatter_tensor", "broadcast",
    "all_to_all_single", "all_gather",
)  # fmt: skip
TRANSFERS = ("isend", "irecv", "batch_p2p_ops")


def collective(node: Json) -> str | None:
    """Which collective a node is."""
    name = name_of(node)
    if node["op"] != "call_function" or name.endswith("wait_tensor"):
        return None
    return name.split(".")[1] if name.startswith(("_c10d_functional.", "vllm.all_")) else None


# ---- one graph -------------------------------------------------------------------------------------
@dataclass(repr=False)
class Call:
    """A rank that waits at a collective, for one tensor or for a list of them."""

    kind: str
    group: str
    reduction: str
    values: list[Array]
    numbers: tuple[Any, ...]
    splits: tuple[Any, ...]  # lists of sizes, None for equal parts
    dtypes: tuple[str, ...]
    many: bool = False


@dataclass(repr=False)
class Transfer:
    """What a rank sends, and the numbers of those that it waits for: (kind, peer, tag, tensor)."""

    group: str
    messages: list[tuple[str, int, int, Array]]


class Run:
    """One graph on a machine: yields at collectives and is sent their results."""

    def __init__(self, graph: Json, given: Mapping[str, Array], machine: Any, salt: str) -> None:
        self.nodes = [canonical(n) for n in graph["nodes"] if n["op"] != "output"]
        self.given, self.machine, self.salt = given, machine, salt
        self.values: Values = {}
        self.before: Versions = {}
        self.noise: Versions = {}  # what is there before the result of a collective is
        self.drawn: dict[str, int] = {}
        self.waited = {n["args"][0]["node"] for n in self.nodes if _waits(n)}
        items = [n for n in self.nodes if "getitem" in n["target"] and n["name"] in self.waited]
        self.waited |= {n["args"][0]["node"] for n in items}
        self.late: dict[int, tuple[Any, Array, Any, Array | None]] = {}

    def run(self) -> Generator[Call | Transfer, list[Array], Run]:
        """All nodes in order."""
        for place, node in enumerate(self.nodes):
            name, written = node["name"], []
            if name in self.given:
                self.values[name] = self.machine.tensor(self.given[name], node.get("dtype") or "")
            elif node["op"] == "get_attr":
                if "value" not in node:
                    raise NotExecuted("a constant whose value is not known")
                number = node["value"], node["shape"], node.get("dtype") or ""
                self.values[name] = self.machine.number(*number)
            elif kind := collective(node):
                written = yield from self._collective(node, kind)
            elif _waits(node):
                self.values[name] = value = self.values[node["args"][0]["node"]]
                written = self._arrived(value)
            elif name_of(node) == "aten.native_dropout":
                self.values[name] = self._dropped(node)
            else:
                self.values[name], written = self.machine.call(node, self.values)
            self._check_shape(node, self.values[name])
            self._note(place, name, written)
        return self

    def _dropped(self, node: Json) -> Any:
        x, rate, *train = resolve(node["args"], self.values)
        active = rate > 0 and train != [False]
        if not active:
            return x.copy(), np.ones(x.shape, bool)
        again = node.get("draw", node["name"])  # what draws the same once more is the same
        return dropped(x, self.drawn.setdefault(again, len(self.drawn)))

    def _check_shape(self, node: Json, value: Any) -> None:
        shape = node.get("shape")
        if shape is not None and list(value.shape) != shape:
            raise Invalid(f"{node['name']}: its shape is {list(value.shape)}, not {shape}")

    def _note(self, place: int, name: str, written: list[Any]) -> None:
        """What nodes hold now: the one at hand, and all that share what was written."""
        changed = [name]
        if written:
            changed += [n for n, v in self.values.items() if n != name and self._shares(v, written)]
        for one in changed:
            value = self.values[one]
            if hasattr(value, "shape"):
                held = np.array(self.machine.array(value))
                flies = self._shares(value, [into for into, *_ in self.late.values()])
                self.before.setdefault(one, []).append((place, None if flies else held))
                if flies:
                    self.noise.setdefault(one, []).append((place, held))

    def _shares(self, value: Any, written: list[Array]) -> bool:
        if not hasattr(value, "shape"):
            return False
        own = self.machine.array(value)
        return any(overlap(own, self.machine.array(w)) for w in written)

    # ---- collectives -------------------------------------------------------------------------------
    def _collective(self, node: Json, kind: str) -> Generator[Any, Any, list[Any]]:
        """A collective: its results, as new tensors or in the memory of its operands."""
        args = resolve(node["args"], self.values)
        kwargs = {k: resolve(v, self.values) for k, v in node["kwargs"].items()}
        out = kwargs.pop("out", None)
        if kwargs or not args:
            raise NotExecuted(f"{node['target']} of this form")
        if kind in TRANSFERS:
            return (yield from self._transfer(node, kind, args))
        call = self._call(node, kind.removesuffix("_out"), args)
        results = yield call
        tensors = args[0] if call.many else [args[0]]
        made, written = [], []
        for tensor, result in zip(tensors, results, strict=True):
            into = out if out is not None else tensor if kind.endswith("_") else None
            if into is None:
                into = self.machine.tensor(result, torch_name(result))
            else:
                written.append(into)
            waits = node["name"] in self.waited or self._waits_for_operand(node, kind)
            self._deliver(into, result, waits, None if call.kind == "all_reduce" else tensor)
            made.append(into)
        self.values[node["name"]] = made if call.many else made[0]
        return written

    def _waits_for_operand(self, node: Json, kind: str) -> bool:
        """Of a collective in place, the operand itself may be waited for, later on."""
        here = next(i for i, n in enumerate(self.nodes) if n["name"] == node["name"])
        names = references(node["args"][:1]) if kind.endswith("_") else []
        later = [n["args"][0]["node"] for n in self.nodes[here:] if _waits(n)]
        return any(name in later for name in names)

    def _deliver(self, into: Any, result: Array, waits: bool, source: Any) -> None:
        """The result: now, or when it is waited for."""
        if not waits:
            self.machine.fill(into, result)
            return
        salt = f"{self.salt} {len(self.late)} {len(self.values)}"
        noise = garbage(result.shape, torch_name(result), salt)
        self.machine.fill(into, noise)
        copy = None if source is None else np.array(self.machine.array(source))
        self.late[id(into)] = (into, result, source, copy)

    def _arrived(self, value: Any) -> list[Any]:
        """A tensor is waited for; what it was made of must not have been written meanwhile."""
        if id(value) not in self.late:
            return []
        into, result, source, copy = self.late.pop(id(value))
        if copy is not None and not np.array_equal(
            self.machine.array(source), copy, equal_nan=True
        ):
            return []
        self.machine.fill(into, result)
        return [into]

    def _call(self, node: Json, kind: str, args: list[Any]) -> Call:
        words = [a for a in args if isinstance(a, str)]
        plain = kind.removesuffix("_").removesuffix("_coalesced")
        many = isinstance(args[0], list)
        if not words or plain not in KINDS or many != ("_coalesced" in kind):
            raise NotExecuted(f"{node['target']} of this form")
        reduction = words[0] if len(words) > 1 else "sum"
        numbers = tuple(a for a in args[1:] if isinstance(a, int))
        splits = tuple(a for a in args[1:] if a is None or isinstance(a, list))
        values = [np.array(self.machine.array(a)) for a in (args[0] if many else [args[0]])]
        types = tuple(torch_name(v) for v in values)
        return Call(plain, words[-1], reduction, values, numbers, splits, types, many)

    def _transfer(self, node: Json, kind: str, args: list[Any]) -> Generator[Any, Any, list[Any]]:
        """Sends give their operand; what is received comes into the memory of the operand."""
        many = kind == "batch_p2p_ops"
        *_, group = args
        rows = list(zip(*args[:4], strict=True)) if many else [(kind, args[1], args[2], args[0])]
        messages = [(k, p, t, np.array(self.machine.array(x))) for k, p, t, x in rows]
        results = yield Transfer(group, messages)
        written = []
        for (one, _, _, x), result in zip(rows, results, strict=True):
            if one == "irecv":
                self._deliver(x, result, node["name"] in self.waited, None)
                written.append(x)
        tensors = [x for _, _, _, x in rows]
        self.values[node["name"]] = tensors if many else tensors[0]
        return written


def _waits(node: Json) -> bool:
    return node["op"] == "call_function" and name_of(node).endswith("wait_tensor")


# ---- all ranks -------------------------------------------------------------------------------------
@dataclass(repr=False)
class Ranks:
    """All ranks in step."""

    runs: dict[int, Run]
    groups: list[Json]
    sent: dict[Any, list[Array]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.members = {
            (int(rank), name): (number, tuple(group["ranks"]))
            for number, group in enumerate(self.groups)
            for rank, name in group["names"].items()
        }

    def run(self) -> None:
        """To the end; :class:`Invalid` where they hang or their collectives differ."""
        running = {rank: run.run() for rank, run in self.runs.items()}
        waiting: dict[int, Call | Transfer] = {}
        answers: dict[int, Any] = dict.fromkeys(running)
        while running:
            for rank in [r for r in running if r not in waiting]:
                try:
                    waiting[rank] = one = running[rank].send(answers[rank])
                except StopIteration:
                    del running[rank]
                    continue
                if isinstance(one, Transfer):
                    self._send(rank, one)
            if not running:
                break
            answered = self._received(waiting) or self._performed(waiting)
            for rank in answered:
                del waiting[rank]
            answers |= answered
        if any(self.sent.values()):
            raise Invalid("something is never received")

    def _peer(self, rank: int, group: str, place: int) -> tuple[Any, int]:
        if (rank, group) not in self.members:
            raise Invalid(f"rank {rank} is in no group {group}")
        number, ranks = self.members[rank, group]
        if not 0 <= place < len(ranks):
            raise Invalid(f"no member {place}")
        return number, ranks[place]

    def _send(self, rank: int, transfer: Transfer) -> None:
        for kind, place, tag, value in transfer.messages:
            number, peer = self._peer(rank, transfer.group, place)
            if kind == "isend":
                self.sent.setdefault((number, rank, peer, tag), []).append(value)

    def _received(self, waiting: Mapping[int, Call | Transfer]) -> dict[int, list[Array]]:
        """Transfers for which all is there that they wait for."""
        found = {}
        for rank, one in waiting.items():
            if not isinstance(one, Transfer):
                continue
            keys = [self._key(rank, one.group, m) for m in one.messages]
            wanted = Counter(k for k in keys if k is not None)
            if all(len(self.sent.get(k, ())) >= n for k, n in wanted.items()):
                rows = zip(keys, one.messages, strict=True)
                found[rank] = [m[3] if k is None else self._take(k, m[3]) for k, m in rows]
        return found

    def _key(self, rank: int, group: str, message: tuple[str, int, int, Array]) -> Any:
        kind, place, tag, _ = message
        number, peer = self._peer(rank, group, place)
        return (number, peer, rank, tag) if kind == "irecv" else None

    def _take(self, key: Any, like: Array) -> Array:
        value = self.sent[key].pop(0)
        if value.shape != like.shape or value.dtype != like.dtype:
            raise Invalid("another form is received than was sent")
        return value

    def _performed(self, waiting: Mapping[int, Call | Transfer]) -> dict[int, list[Array]]:
        """The first collective at which all members have arrived."""
        for rank, call in waiting.items():
            if isinstance(call, Transfer):
                continue
            group = self.members.get((rank, call.group))
            if group is None:
                raise Invalid(f"rank {rank} is in no group {call.group}")
            others = {r: waiting.get(r) for r in group[1]}
            if all(self._meets(r, c, group) for r, c in others.items()):
                calls = [c for c in others.values() if isinstance(c, Call)]
                return dict(zip(group[1], _perform(calls), strict=True))
        raise Invalid("the program hangs")

    def _meets(self, rank: int, call: Any, group: Any) -> bool:
        return isinstance(call, Call) and self.members.get((rank, call.group)) == group


def run_ranks(
    graphs: Mapping[int, Json],
    groups: list[Json],
    given: Mapping[int, Mapping[str, Array]],
    machine: Any = None,
) -> dict[int, Run]:
    """Runs all ranks in step."""
    machine = machine or Numpy()
    runs = {r: Run(graph, given[r], machine, f"{len(graphs)} {r}") for r, graph in graphs.items()}
    Ranks(runs, groups).run()
    return runs


def _perform(calls: list[Call]) -> list[list[Array]]:
    """The results of each member, one per tensor."""
    first = calls[0]
    if len({(c.kind, c.many, len(c.values)) for c in calls}) > 1:
        raise Invalid("collectives that do not line up")
    if first.kind == "all_to_all_single":
        return [[x] for x in _exchanged(calls)]
    forms = {(c.reduction, c.numbers, c.dtypes, *(v.shape for v in c.values)) for c in calls}
    if len(forms) > 1:
        raise Invalid("collectives that do not line up")
    columns = [_one(first, [c.values[i] for c in calls]) for i in range(len(first.values))]
    return [[np.array(x) for x in row] for row in zip(*columns, strict=True)]


def _one(first: Call, values: list[Array]) -> list[Array]:
    size = len(values)
    if first.kind == "all_gather_into_tensor":
        _expect(first, size)
        return [np.concatenate(values, 0)] * size
    if first.kind == "all_reduce":
        return [_reduce(first.reduction, values)] * size
    if first.kind == "reduce_scatter_tensor":
        _expect(first, size)
        if len(values[0]) % size:
            raise Invalid("a reduce-scatter of rows that do not divide")
        return np.split(_reduce(first.reduction, values), size, 0)
    if first.kind == "broadcast":
        return [values[first.numbers[0]]] * size
    raise NotExecuted(first.kind)


def _exchanged(calls: list[Call]) -> list[Array]:
    """Member i gives its part j to member j."""
    given = []
    for call in calls:
        (value,) = call.values
        rows, size = len(value), len(calls)
        sizes = call.splits[1] if len(call.splits) > 1 else None
        if not sizes and rows % size:
            raise Invalid("rows that do not divide")
        sizes = sizes or [rows // size] * size
        if sum(sizes) != rows or len({(c.dtypes, c.values[0].shape[1:]) for c in calls}) > 1:
            raise Invalid("collectives that do not line up")
        given.append(np.split(value, np.cumsum(sizes)[:-1], 0))
    found = []
    for i, call in enumerate(calls):
        parts = [row[i] for row in given]
        asked = call.splits[0] if call.splits else None
        if asked and list(asked) != [len(p) for p in parts]:
            raise Invalid("a member expects other sizes")
        found.append(np.concatenate(parts, 0))
    return found


def _expect(call: Call, size: int) -> None:
    if call.numbers and call.numbers[-1] != size:
        raise Invalid(f"it says {call.numbers[-1]} members of {size}")


def _reduce(reduction: str, values: list[Array]) -> Array:
    made = reduced(reduction, values)
    if made is None:
        raise NotExecuted(f"reduction {reduction} of {values[0].dtype}")
    return made
