"""Results of a captured pair: which of both programs belong together, and which no rank returns."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from gg_datalog.foundation.errors import InputError
from gg_datalog.tracing.pairing import Held, Related, listed
from gg_datalog.tracing.record import InputRecord, RankRecord
from gg_datalog.tracing.shares import Share, cut, shares

Json = dict[str, Any]
Holders = dict[str, dict[int, InputRecord]]


# Operators that take a tensor for its form.
FORMAL = re.compile(r"^aten\.(new_|sym_|\w+_like\.)")


@dataclass
class Results:
    """The rows of outputs.json, and what is to be said of those that are left out.

    ``graph`` is the sequential one, with parts of results where ranks hold parts of an input under
    several names. ``unchanged`` are, per rank, the inputs that its graph has to return, too: state
    that the sequential program updates and that rank does not.
    """

    graph: Json
    rows: list[Json] = field(default_factory=list)
    unchanged: dict[int, list[InputRecord]] = field(default_factory=dict)
    assumptions: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def pair_results(
    sequential: RankRecord, ranks: Sequence[RankRecord], related: Related, world_size: int
) -> Results:
    """What the ranks return for every sequential result.

    Where all ranks are captured nothing is an answer, too: what no rank returns cannot be rebuilt.
    Only results of state that no rank holds are left out.
    """
    pairing = _Pairing(sequential, ranks, related)
    found = Results(pairing.graph)
    whole = len(ranks) == world_size
    for name, node in pairing.ours.items():
        nodes = pairing.returned(name)
        if nodes or whole:
            for rank, kept in pairing.unchanged(name).items():
                nodes[rank] = kept.node
                found.unchanged.setdefault(rank, []).append(kept)
        if nodes or (whole and pairing.expected(name)):
            held = {str(rank): nodes[rank] for rank in sorted(nodes)}
            state = pairing.state(name, nodes)
            row = {"seq": node, "dist": held, "name": name} | pairing.kind(name) | state
            found.rows.append(row | pairing.lacks(name))
        else:
            found.warnings.append(f"no rank returns anything for `{name}`: it is not checked")
    if not any(pairing.returned(name) for name in pairing.ours):
        raise InputError(
            "no result of the sequential program is returned by any rank",
            None,
            "let both programs return the same things under the same names",
        )
    found.assumptions = list(pairing.left_out())
    left_open = sorted([*found.warnings, *pairing.surplus(), *pairing.second()])
    found.warnings = [*left_open, *pairing.stale(found.unchanged)]
    return found


class _Pairing:
    """What ranks hold and return, by the names that the sequential program has for it."""

    def __init__(
        self, sequential: RankRecord, ranks: Sequence[RankRecord], related: Related
    ) -> None:
        self.shares = list(shares(related))
        self.held = list(_called(related.held, self.shares))
        self.gradients = {one.gradient: one for one in sequential.inputs}
        self.updates = {one.update: one for one in sequential.inputs}
        self.holders = _holders(self.held)
        self.theirs = _by_our_names(ranks, self.held, self.holders)
        self.in_part = related.in_part
        self.graphs = {record.rank: record.graph for record in ranks}
        self.graph, self.ours = sequential.graph, dict(sequential.outputs)
        self._share()
        self.ours |= dict(self._kept(sequential))
        self._cut()

    def _share(self) -> None:
        """Results of inputs of which a rank has several shares are asked for share by share."""
        whole = dict(self.ours)
        for name in {name for one in self.shares for name in one.of.results}:
            self.ours.pop(name, None)
        for one in self.shares:
            self.gradients[one.ours.gradient] = self.updates[one.ours.update] = one.ours
            for name, of in zip(one.ours.results, one.of.results, strict=True):
                if of in whole:
                    self.ours[name] = whole[of]

    def _cut(self) -> None:
        for one in self.shares:
            for name in one.ours.results:
                if name in self.ours:
                    self.graph, self.ours[name] = cut(self.graph, self.ours[name], one)

    def _kept(self, sequential: RankRecord) -> Iterator[tuple[str, str]]:
        """State that ranks alone update: sequentially what was put in is what is there in the
        end. What the sequential program does not read (room for what is received) is nobody's."""
        read = set(nodes_read(sequential.graph))
        for name, one in self.updates.items():
            state = one.kind != "input" and one.node in read
            if state and name not in self.ours and self.returned(name):
                yield name, one.node

    @cached_property
    def read(self) -> dict[int, set[str]]:
        """Per rank the nodes that operators take."""
        return {rank: set(nodes_read(graph)) for rank, graph in self.graphs.items()}

    @cached_property
    def used(self) -> dict[int, set[str]]:
        """Per rank the nodes whose values operators look at."""
        return {rank: set(nodes_read(graph, values=True)) for rank, graph in self.graphs.items()}

    def returned(self, name: str) -> dict[int, str]:
        """Per rank the node that it returns for a sequential result."""
        return {rank: nodes[name] for rank, nodes in self.theirs.items() if name in nodes}

    def expected(self, name: str) -> bool:
        """Has a rank to return something for it? Of state that the sequential program alone has
        (it was built in another way) nothing can be asked."""
        owner = self.gradients.get(name) or self.updates.get(name)
        if owner is None:
            return not name.startswith(("grad_", "updated_"))
        return bool(self.holders.get(owner.update)) and not self._of_a_copy(name)

    def _of_a_copy(self, name: str) -> bool:
        """The gradient of one copy of a parameter, which ranks return for another copy?"""
        return any(
            self.returned(other.ours.gradient)
            for one in self.shares
            for other in self.shares
            if one.ours.gradient == name and other.of is one.of and other.box == one.box
        )

    def kind(self, name: str) -> Json:
        """What a result is said to be."""
        return {"kind": "gradient"} if name in self.gradients else {}

    def state(self, name: str, nodes: Mapping[int, str]) -> Json:
        """What a result is the new value of, if of state: the inputs on both sides."""
        owner = self.updates.get(name)
        if owner is None or owner.kind == "input":
            return {}
        holders = self.holders.get(owner.update, {})
        held = {str(rank): holders[rank].node for rank in sorted(nodes) if rank in holders}
        return {"state": {"seq": owner.node, "dist": held}}

    def unchanged(self, name: str) -> dict[int, InputRecord]:
        """Of state that the sequential program updates: where a rank does not, what it has in the
        end is its input. A parameter of others (another stage), which it does not even read, is
        left out."""
        silent = self._silent(name, self.updates.get(name))
        idle = self._idle(name)
        return {rank: one for rank, one in silent.items() if rank not in idle}

    def _idle(self, name: str) -> set[int]:
        """The ranks with a parameter that others update, and that they do not even read."""
        silent = self._silent(name, self.updates.get(name)) if self.returned(name) else {}
        return {
            rank
            for rank, one in silent.items()
            if one.kind == "parameter" and not self._reads(rank, one)
        }

    def _silent(self, name: str, owner: InputRecord | None) -> dict[int, InputRecord]:
        """The ranks that hold something of the input and return nothing for the result."""
        holders = {} if owner is None else self.holders.get(owner.update, {})
        return {rank: one for rank, one in holders.items() if name not in self.theirs[rank]}

    def _reads(self, rank: int, one: InputRecord) -> bool:
        return one.node in self.read[rank]

    def _uses(self, rank: int, one: InputRecord) -> bool:
        """Does a rank look at the values of an input, and not at its form alone?"""
        return one.node in self.used[rank]

    def surplus(self) -> Iterator[str]:
        """Results that ranks alone have."""
        names = {name for nodes in self.theirs.values() for name in nodes} - self.ours.keys()
        return (f"`{name}` is returned by ranks only: it is not checked" for name in names)

    def second(self) -> Iterator[str]:
        """Inputs of one rank that hold something of one sequential input beside another."""
        for ours, rank, one in self.held:
            followed = self.holders[ours.update].get(rank) is one
            if not followed and not self.ours.keys().isdisjoint(ours.results):
                yield (
                    f"rank {rank} holds something of `{ours.name}` in `{one.name}`, too: what "
                    "becomes of that, and its gradient, is not checked"
                )

    def stale(self, unchanged: Mapping[int, Sequence[InputRecord]]) -> Iterator[str]:
        """State that stays as it was on some ranks alone."""
        kept: dict[tuple[str, ...], list[str]] = {}
        for rank, ones in sorted(unchanged.items()):
            kept.setdefault(tuple(one.name for one in ones), []).append(str(rank))
        for names, ranks in kept.items():
            where = f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {', '.join(ranks)}"
            yield f"not updated on {where}, though elsewhere: {listed(names)}"

    def left_out(self) -> Iterator[str]:
        """What of the ranks' state nothing is asked."""
        names = [
            one.name for name, one in self.updates.items() if name in self.ours and self._idle(name)
        ]
        if names:
            yield (
                "parameters that a rank neither reads nor updates while others do are no part of "
                f"its program: {listed(names)}"
            )

    def lacks(self, name: str) -> Json:
        """The ranks that use what a result is the gradient of, and return none: unless a step is
        captured, which shows what becomes of the parameter, or it is declared to be meant so
        (ZeRO)."""
        owner = self.gradients.get(name)
        if owner is None or owner.update in self.ours or owner.update in self.in_part:
            return {}
        silent = self._silent(name, owner) if self.returned(name) else {}
        using = {str(rank): one.node for rank, one in silent.items() if self._uses(rank, one)}
        return {"lacks": using} if using else {}


def _called(held: Sequence[Held], found: Sequence[Share]) -> Iterator[Held]:
    """The pairs of inputs; a sequential one of which there are shares under the name of each."""
    own = {id(one): share.ours for share in found for one in share.holders.values()}
    for ours, rank, one in held:
        yield own.get(id(one), ours), rank, one


def _holders(held: Sequence[Held]) -> Holders:
    """By sequential input (by what its new value is called): on each rank the input of that name,
    or the only one that is declared to hold something of it."""
    known: dict[str, dict[int, list[InputRecord]]] = {}
    named: Holders = {}
    for ours, rank, one in held:
        known.setdefault(ours.update, {}).setdefault(rank, []).append(one)
        if one.name == ours.name:
            named.setdefault(ours.update, {}).setdefault(rank, one)
    return {
        name: {rank: ones[0] for rank, ones in per_rank.items() if len(ones) == 1}
        | named.get(name, {})
        for name, per_rank in known.items()
    }


def _by_our_names(
    ranks: Sequence[RankRecord], held: Sequence[Held], holders: Holders
) -> dict[int, dict[str, str]]:
    """What every rank returns; gradients and new values under the name of the sequential input."""
    meant: dict[int, dict[str, str]] = {record.rank: {} for record in ranks}
    for ours, rank, one in held:
        if holders[ours.update].get(rank) is one:
            meant[rank] |= {one.gradient: ours.gradient, one.update: ours.update}
    found: dict[int, dict[str, str]] = {}
    for record in ranks:
        names = meant[record.rank]
        found[record.rank] = {names.get(name, name): node for name, node in record.outputs}
    return found


def nodes_read(graph: Json, values: bool = False) -> Iterator[str]:
    """The nodes that operators take; with ``values`` those whose values they look at."""
    for node in graph["nodes"]:
        formal = values and FORMAL.search(str(node["target"]))
        if node["op"] == "call_function" and not formal:
            yield from _named([node["args"], node["kwargs"]])


def _named(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping) and isinstance(value.get("node"), str):
        yield value["node"]
    elif isinstance(value, (list, Mapping)):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from _named(item)
