"""Python objects that ranks send each other (``all_gather_object``, ``send_object_list``, ...).

Each rank is captured alone, so what it is sent comes from a folder that all captures of a pair
share. Where it is not there yet, the capture of this rank is given up (:class:`Awaited`) and done
again when another rank has come further.
"""

from __future__ import annotations

import os
import pickle
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import torch.distributed as dist

from gg_datalog.tracing.refusal import Refused

FOLDERS: list[Path] = []  # of the pair that is captured; what is forked has it, too
PLACES = (dist, dist.distributed_c10d)


class Awaited(BaseException):
    """An object that another rank has not sent yet: ``what`` it is, and the ``path`` it gets."""

    def __init__(self, what: str, path: str) -> None:
        super().__init__(what, path)
        self.what, self.path = what, path

    def has_come(self) -> bool:
        """Has another rank sent it in the meantime?"""
        return Path(self.path).exists()


@contextmanager
def shared_folder() -> Iterator[None]:
    """A folder for the objects of all ranks, while they are captured."""
    with TemporaryDirectory(prefix="gg-datalog-") as folder:
        FOLDERS.append(Path(folder))
        try:
            yield
        finally:
            FOLDERS.pop()


class Post:
    """What this rank sends and gets: the n-th object from a rank to another in a group."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.sent: Counter[str] = Counter()
        self.received: Counter[str] = Counter()

    def _next(self, call: str, ends: tuple[int, int], group: Any, count: Counter[str]) -> Path:
        members = "-".join(map(str, _members(group)))
        name = f"{call}.{members}.{ends[0]}.{ends[1]}"
        count[name] += 1
        return self.folder / f"{name}.{count[name]}"

    def send(self, call: str, target: int, group: Any, value: Any) -> None:
        """To a global rank. What was sent before is the same, as the program is."""
        path = self._next(call, (dist.get_rank(), target), group, self.sent)
        if path.exists():
            return
        try:
            data = pickle.dumps(value)
        except Exception as error:
            raise Refused(
                f"an object is sent to rank {target} that cannot be: {error}",
                "send plain data, or exchange tensors by a collective",
            ) from error
        part = path.with_name(f"{path.name}.of.{os.getpid()}")
        part.write_bytes(data)
        part.rename(path)

    def receive(self, call: str, source: int, group: Any) -> Any:
        """From a global rank."""
        path = self._next(call, (source, dist.get_rank()), group, self.received)
        if not path.exists():
            raise Awaited(f"an object of rank {source} ({call})", str(path))
        return pickle.loads(path.read_bytes())


@contextmanager
def objects_by_post() -> Iterator[None]:
    """The functions of torch that exchange objects do it by the folder, where there is one."""
    with ExitStack() as stack:
        if FOLDERS:
            for name, call in _calls(Post(FOLDERS[-1])).items():
                for place in PLACES:
                    stack.enter_context(patch.object(place, name, call))
        yield


def _calls(post: Post) -> dict[str, Callable[..., Any]]:
    """By the name in ``torch.distributed``: the same call by the folder."""

    def to_all(call: str, values: Sequence[Any], group: Any) -> None:
        for target, value in zip(_members(group), values, strict=True):
            post.send(call, target, group, value)

    def send_object_list(
        object_list: list[Any], dst: Any = None, group: Any = None, device: Any = None,
        group_dst: Any = None, use_batch: bool = False,
    ) -> None:  # fmt: skip
        post.send("send_object_list", _global(dst, group_dst, group), group, list(object_list))

    def recv_object_list(
        object_list: list[Any], src: Any = None, group: Any = None, device: Any = None,
        group_src: Any = None, use_batch: bool = False,
    ) -> int:  # fmt: skip
        source = _global(src, group_src, group)
        object_list[:] = post.receive("send_object_list", source, group)
        return source

    def broadcast_object_list(
        object_list: list[Any], src: Any = None, group: Any = None, device: Any = None,
        group_src: Any = None,
    ) -> None:  # fmt: skip
        root = _global(src, group_src, group)
        if dist.get_rank() == root:
            to_all("broadcast_object_list", [list(object_list)] * len(_members(group)), group)
        object_list[:] = post.receive("broadcast_object_list", root, group)

    def all_gather_object(object_list: list[Any], obj: Any, group: Any = None) -> None:
        to_all("all_gather_object", [obj] * len(_members(group)), group)
        object_list[:] = [post.receive("all_gather_object", r, group) for r in _members(group)]

    def gather_object(
        obj: Any, object_gather_list: list[Any] | None = None, dst: Any = None, group: Any = None,
        group_dst: Any = None,
    ) -> None:  # fmt: skip
        root = _global(dst, group_dst, group)
        post.send("gather_object", root, group, obj)
        if dist.get_rank() == root and object_gather_list is not None:
            object_gather_list[:] = [
                post.receive("gather_object", rank, group) for rank in _members(group)
            ]

    def scatter_object_list(
        scatter_object_output_list: list[Any], scatter_object_input_list: Any = None,
        src: Any = None, group: Any = None, group_src: Any = None,
    ) -> None:  # fmt: skip
        root = _global(src, group_src, group)
        if dist.get_rank() == root:
            to_all("scatter_object_list", scatter_object_input_list, group)
        scatter_object_output_list[0] = post.receive("scatter_object_list", root, group)

    return {
        call.__name__: call
        for call in (
            send_object_list, recv_object_list, broadcast_object_list, all_gather_object,
            gather_object, scatter_object_list,
        )
    }  # fmt: skip


def _members(group: Any) -> list[int]:
    return list(dist.get_process_group_ranks(group or dist.group.WORLD))


def _global(rank: int | None, in_group: int | None, group: Any) -> int:
    """A rank that is given by its global number, or by its place in the group."""
    if in_group is not None:
        return _members(group)[in_group]
    return 0 if rank is None else rank
