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
    """What a rank sends and waits for: (receives, key, tensor) each."""

    parts: tuple[tuple[bool, Key, Tensor], ...]
    many: bool


@dataclass
class Mailbox:
    """What was sent and not yet received."""

    sent: dict[Key, list[Tensor]] = field(default_factory=lambda: defaultdict(list))

    def post(
        self, kind: str, rank: int, given: Mapping[str, Any], group: tuple[int, tuple[int, ...]]
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
            parts.append((receives, (group[0], *ends, tag), tensor))
        post = Post(tuple(parts), many)
        for receives, key, tensor in post.parts:
            if not receives:  # whatever the sender does to its memory afterwards
                self.sent[key].append(tensor.clone())
        return post

    def take(self, post: Post) -> tuple[bool, Any]:
        """(is everything there, what the node gives)."""
        wanted = Counter(key for receives, key, _ in post.parts if receives)
        if any(len(self.sent[key]) < count for key, count in wanted.items()):
            return False, None
        values = [self.sent[k].pop(0) if receives else x for receives, k, x in post.parts]
        return True, values if post.many else values[0]

    def rest(self) -> Mapping[Key, list[Tensor]]:
        """What nobody received."""
        return {key: tensors for key, tensors in self.sent.items() if tensors}
