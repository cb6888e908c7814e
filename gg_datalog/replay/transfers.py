"""Transfers between two ranks that run in step: by sender, receiver and tag, in order."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gg_datalog.replay.tensor import Tensor

KINDS = ("isend", "irecv", "batch_p2p_ops")
Key = tuple[int, int, int, int]  # communicator, from, to, tag


@dataclass(frozen=True)
class Post:
    """What a rank sends and waits for: (receives, key, tensor, the how many of its kind and key)
    each. One that is ``started`` is waited for later, what it sends, too."""

    parts: tuple[tuple[bool, Key, Tensor, int], ...]
    many: bool
    started: bool = False


@dataclass
class Mailbox:
    """What was sent, and how much was to be received."""

    sent: dict[Key, list[Tensor]] = field(default_factory=lambda: defaultdict(list))
    wanted: Counter[Key] = field(default_factory=Counter)

    def post(
        self,
        kind: str,
        rank: int,
        given: Mapping[str, Any],
        group: tuple[int, tuple[int, ...]],
        started: bool = False,
    ) -> Post:
        """Sends what a rank has to send."""
        many = kind == "batch_p2p_ops"
        if many:
            kinds, peers, tags = (given[n] for n in ("op_list", "peer_list", "tag_list"))
            tensors = given["tensors"]
        else:
            peer = given["dst"] if kind == "isend" else given["src"]
            tensor = given["tensor"] if "tensor" in given else given["self"]
            kinds, peers, tags, tensors = [kind], [peer], [given["tag"]], [tensor]
        parts = []
        for one, peer, tag, tensor in zip(kinds, peers, tags, tensors, strict=True):
            receives = one.endswith("recv")
            other = group[1][peer]
            ends = (other, rank) if receives else (rank, other)
            key: Key = (group[0], *ends, tag)
            parts.append(
                (receives, key, tensor, self.wanted[key] if receives else len(self.sent[key]))
            )
            if receives:
                self.wanted[key] += 1
            else:  # whatever the sender does to its memory afterwards
                self.sent[key].append(tensor.clone())
        return Post(tuple(parts), many, started)

    def take(self, post: Post) -> tuple[bool, Any]:
        """(is everything there, what the node gives)."""
        for receives, key, _, number in post.parts:
            there = len(self.sent[key]) if receives else self.wanted[key]
            if there <= number and (receives or post.started):
                return False, None
        values = [self.sent[k][n] if receives else x for receives, k, x, n in post.parts]
        return True, values if post.many else values[0]

    def rest(self) -> Mapping[Key, list[Tensor]]:
        """What nobody received."""
        left = {key: tensors[self.wanted[key] :] for key, tensors in self.sent.items()}
        return {key: tensors for key, tensors in left.items() if tensors}
