"""The backends that a program asks for (gloo, NCCL): here none of them moves data.

Groups are made of the backend that capture's own group has, and called as the program called them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any
from unittest.mock import patch
from weakref import WeakKeyDictionary

import torch.distributed as dist
from torch.distributed import distributed_c10d

from gg_datalog.tracing.refusal import Refused

OURS, ASSUMED = "fake", "gloo"  # what the group of all ranks is, and what a program on a CPU sees


@contextmanager
def any_backend() -> Iterator[None]:
    """Groups of any backend can be made, and the program's own call that makes the group of all
    ranks finds it there."""
    asked: Any = WeakKeyDictionary()
    with (
        patch.object(dist, "new_group", _made(dist.new_group, asked)),
        patch.object(distributed_c10d, "new_group", _made(distributed_c10d.new_group, asked)),
        patch.object(dist, "get_backend", _named(dist.get_backend, asked)),
        patch.object(dist, "init_process_group", _there),
        patch.object(distributed_c10d, "init_process_group", _there),
    ):
        yield


def _made(make: Callable[..., Any], asked: Any) -> Callable[..., Any]:
    @wraps(make)
    def new_group(
        ranks: Any = None, timeout: Any = None, backend: Any = None, *args: Any, **kwargs: Any
    ) -> Any:
        if backend is None or str(backend) == OURS:
            return make(ranks, timeout, backend, *args, **kwargs)
        # options are those of the backend that is not there
        kwargs.pop("pg_options", None)
        group = make(ranks, timeout, OURS, None, *args[1:], **kwargs)
        if isinstance(group, dist.ProcessGroup):
            asked[group] = str(backend).lower()
        return group

    return new_group


def _named(name: Callable[..., Any], asked: Any) -> Callable[..., Any]:
    @wraps(name)
    def get_backend(group: Any = None) -> Any:
        found = str(name(group))
        named = None if group is None else asked.get(group)
        return (named or ASSUMED) if found == OURS else found

    return get_backend


def _there(*_: Any, **given: Any) -> None:
    """What the program calls to make the group of all ranks: it is there."""
    for what, here in (("rank", dist.get_rank()), ("world_size", dist.get_world_size())):
        wanted = given.get(what, -1)
        if wanted not in (-1, None, here):
            raise Refused(
                f"the program makes a process group with {what} {wanted}, captured as {here}",
                "build it for the rank and the number of ranks that `build` is called with",
            )
