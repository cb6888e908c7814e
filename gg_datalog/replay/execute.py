"""Runs the sequential graph, and all ranks of the distributed one in step, collectives included."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from gg_datalog.extract.table import Table
from gg_datalog.replay.calls import NotExecuted
from gg_datalog.replay.collectives import Call, Mismatch, perform
from gg_datalog.replay.documents import Json
from gg_datalog.replay.dtypes import exact
from gg_datalog.replay.program import FAILURES, Masks, Values, failed, run_graph
from gg_datalog.replay.tensor import Tensor
from gg_datalog.replay.transfers import KINDS, Mailbox, Post


def run_ranks(
    graphs: Mapping[int, Json],
    groups: Sequence[Json],
    table: Table,
    given: Mapping[int, Mapping[str, Tensor]],
    masks: Masks,
    seed: int = 0,
) -> dict[int, Values]:
    """Runs all ranks in step; :class:`Mismatch` where they hang or their collectives differ."""
    with exact():
        return _in_step(graphs, groups, table, given, masks, seed)


def _in_step(
    graphs: Mapping[int, Json],
    groups: Sequence[Json],
    table: Table,
    given: Mapping[int, Mapping[str, Tensor]],
    masks: Masks,
    seed: int,
) -> dict[int, Values]:
    members: dict[tuple[int, str], tuple[Any, tuple[int, ...]]] = {
        (int(rank), name): (number, tuple(group["ranks"]))
        for number, group in enumerate(groups)
        for rank, name in group["names"].items()
    }
    running = {r: run_graph(g, r, table, given[r], masks, seed) for r, g in graphs.items()}
    done: dict[int, Values] = {}
    waiting: dict[int, Call] = {}
    sent: dict[int, Tensor | None] = dict.fromkeys(running)
    posts: dict[int, Post] = {}
    started: dict[tuple[int, str], Post] = {}
    mailbox = Mailbox()
    while len(done) < len(graphs):
        for rank in [r for r in graphs if r not in done and r not in waiting]:
            try:
                waiting[rank] = running[rank].send(sent[rank])
            except StopIteration as stop:
                done[rank] = stop.value
            except NotExecuted as error:
                where = f"rank {rank}: " if len(graphs) > 1 else ""
                raise type(error)(f"{where}{error}") from error
        for rank, call in waiting.items():
            if call.of:
                posts[rank] = started[rank, call.of]
                continue
            if call.ranks:  # a group that is told by its members
                members.setdefault((rank, call.group), (call.group, call.ranks))
            if (rank, call.group) not in members:
                raise NotExecuted(f"group `{call.group}` of rank {rank} is not known")
            if call.kind in KINDS and rank not in posts:
                group = members[rank, call.group]
                post = mailbox.post(call.kind, rank, call.given, group, call.started)
                if call.started:
                    started[rank, call.node] = post
                posts[rank] = post
        taken = {
            rank: (True, None) if waiting[rank].started else mailbox.take(post)
            for rank, post in posts.items()
        }
        for rank, (there, value) in taken.items():
            if there:
                sent[rank] = _own(value)
                del posts[rank], waiting[rank]
        if len(done) < len(graphs) and not any(there for there, _ in taken.values()):
            ranks = _ready({r: c for r, c in waiting.items() if r not in posts}, waiting, members)
            calls = [waiting.pop(r) for r in ranks]
            try:
                sent.update(zip(ranks, map(_own, perform(calls)), strict=True))
            except FAILURES as error:
                raise failed(f"collective `{calls[0].node}`", error) from error
    if rest := mailbox.rest():
        told = ", ".join(f"rank {k[1]} to rank {k[2]} (tag {k[3]})" for k in rest)
        raise Mismatch(f"what is sent from {told} is never received")
    return done


def _ready(
    waiting: Mapping[int, Call], every: Mapping[int, Call], members: Mapping[Any, Any]
) -> tuple[int, ...]:
    for rank, call in waiting.items():
        group = members[rank, call.group]
        others = [waiting.get(r) for r in group[1]]
        if all(
            c is not None and members.get((r, c.group)) == group
            for r, c in zip(group[1], others, strict=True)
        ):
            return tuple(group[1])
    at = ", ".join(f"rank {r} at `{c.node}`" for r, c in sorted(every.items()))
    raise Mismatch(f"the program hangs: {at}")


def _own(value: Any) -> Any:
    """The memory of one rank: another one may write into its own."""
    if isinstance(value, torch.Tensor):
        return value.clone()
    return [_own(v) for v in value] if isinstance(value, (list, tuple)) else value
