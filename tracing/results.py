"""Results of a captured pair: which of both programs belong together, and which no rank returns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from gg_datalog.errors import InputError
from gg_datalog.tracing.record import InputRecord, RankRecord
from gg_datalog.tracing.relations import Related, listed

Json = dict[str, Any]
Holders = dict[str, dict[int, InputRecord]]


@dataclass
class Results:
    """The rows of outputs.json, and what is to be said of those that are left out.

    ``unchanged`` are, per rank, the inputs that its graph has to return, too: state that the
    sequential program updates and that rank does not.
    """

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
    found, pairing = Results(), _Pairing(sequential, ranks, related)
    whole = len(ranks) == world_size
    for name, node in pairing.ours.items():
        nodes = pairing.returned(name)
        if nodes or whole:
            for rank, kept in pairing.unchanged(name).items():
                nodes[rank] = kept.node
                found.unchanged.setdefault(rank, []).append(kept)
        if nodes or (whole and pairing.expected(name)):
            held = {str(rank): nodes[rank] for rank in sorted(nodes)}
            found.rows.append({"seq": node, "dist": held, "name": name})
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
    found.warnings = [*left_open, *pairing.stale(found.unchanged), *pairing.in_part()]
    return found


class _Pairing:
    """What ranks hold and return, by the names that the sequential program has for it."""

    def __init__(
        self, sequential: RankRecord, ranks: Sequence[RankRecord], related: Related
    ) -> None:
        self.related = related
        self.gradients = {one.gradient: one for one in sequential.inputs}
        self.updates = {one.update: one for one in sequential.inputs}
        self.holders = _holders(related)
        self.theirs = _by_our_names(ranks, related, self.holders)
        self.graphs = {record.rank: record.graph for record in ranks}
        self.ours = dict(sequential.outputs)
        self.ours |= dict(self._kept(sequential))

    def _kept(self, sequential: RankRecord) -> Iterator[tuple[str, str]]:
        """State that ranks alone update: sequentially what was put in is what is there in the
        end. What the sequential program does not read (room for what is received) is nobody's."""
        read = set(_operands(sequential.graph))
        for name, one in self.updates.items():
            state = one.kind != "input" and one.node in read
            if state and name not in self.ours and self.returned(name):
                yield name, one.node

    @cached_property
    def read(self) -> dict[int, set[str]]:
        """Per rank the nodes that operators take."""
        return {rank: set(_operands(graph)) for rank, graph in self.graphs.items()}

    def returned(self, name: str) -> dict[int, str]:
        """Per rank the node that it returns for a sequential result."""
        return {rank: nodes[name] for rank, nodes in self.theirs.items() if name in nodes}

    def expected(self, name: str) -> bool:
        """Has a rank to return something for it? Of state that the sequential program alone has
        (it was built in another way) nothing can be asked."""
        owner = self.gradients.get(name) or self.updates.get(name)
        if owner is None:
            return not name.startswith(("grad_", "updated_"))
        return bool(self.holders.get(owner.node))

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
        holders = {} if owner is None else self.holders.get(owner.node, {})
        return {rank: one for rank, one in holders.items() if name not in self.theirs[rank]}

    def _reads(self, rank: int, one: InputRecord) -> bool:
        return one.node in self.read[rank]

    def surplus(self) -> Iterator[str]:
        """Results that ranks alone have."""
        names = {name for nodes in self.theirs.values() for name in nodes} - self.ours.keys()
        return (f"`{name}` is returned by ranks only: it is not checked" for name in names)

    def second(self) -> Iterator[str]:
        """Inputs of one rank that hold something of one sequential input beside another."""
        for ours, rank, one in self.related.held:
            chosen = self.holders[ours.node].get(rank)
            if chosen is not one and not {ours.gradient, ours.update}.isdisjoint(self.ours):
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

    def in_part(self) -> Iterator[str]:
        """Gradients that some of the ranks alone have which use the parameter may be meant so
        (ZeRO), and what becomes of the others' parameters shows where a step is captured."""
        names = [
            name
            for name, owner in self.gradients.items()
            if self.returned(name) and owner.update not in self.ours and name in self.ours
            if any(self._reads(rank, one) for rank, one in self._silent(name, owner).items())
        ]
        if names:
            yield (
                f"some ranks use the parameter and return nothing for {listed(names)}: only what "
                "the others return is checked"
            )


def _holders(related: Related) -> Holders:
    """By sequential input: on each rank the input of that name, or the only one that is declared
    to hold something of it."""
    known: dict[str, dict[int, list[InputRecord]]] = {}
    named: Holders = {}
    for ours, rank, one in related.held:
        known.setdefault(ours.node, {}).setdefault(rank, []).append(one)
        if one.name == ours.name:
            named.setdefault(ours.node, {}).setdefault(rank, one)
    return {
        node: {rank: ones[0] for rank, ones in per_rank.items() if len(ones) == 1}
        | named.get(node, {})
        for node, per_rank in known.items()
    }


def _by_our_names(
    ranks: Sequence[RankRecord], related: Related, holders: Holders
) -> dict[int, dict[str, str]]:
    """What every rank returns; gradients and new values under the name of the sequential input."""
    meant: dict[int, dict[str, str]] = {record.rank: {} for record in ranks}
    for ours, rank, one in related.held:
        if holders[ours.node].get(rank) is one:
            meant[rank] |= {one.gradient: ours.gradient, one.update: ours.update}
    found: dict[int, dict[str, str]] = {}
    for record in ranks:
        names = meant[record.rank]
        found[record.rank] = {names.get(name, name): node for name, node in record.outputs}
    return found


def _operands(graph: Json) -> Iterator[str]:
    """The nodes that operators take."""
    for node in graph["nodes"]:
        if node["op"] == "call_function":
            yield from _named([node["args"], node["kwargs"]])


def _named(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping) and isinstance(value.get("node"), str):
        yield value["node"]
    elif isinstance(value, (list, Mapping)):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from _named(item)
