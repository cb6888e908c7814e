"""Workers on the nodes of a Ray cluster: tasks of one item each.

A node needs gg-datalog and Ray, and no disk in common with any other: what an item reads is put
into Ray's object store by its hash, what it makes comes back. A node or a process that is lost
takes its items with it, which the coordinator gives out again.
"""

from __future__ import annotations

import hashlib
import re
import socket
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from time import monotonic
from typing import Any

from gg_datalog.audit.pool import Answer
from gg_datalog.audit.ray_node import work
from gg_datalog.audit.shipping import archived, modules, needed
from gg_datalog.foundation.errors import InputError

Json = dict[str, Any]
KNOWN = 64  # contents that stay in the object store, should another item have the same
LOOK = 5.0  # seconds until the size of the cluster is asked for again
PATIENCE = 20.0  # seconds for a cluster to answer
INSTALL = "install it: pip install 'gg-datalog[ray]'"
AGAIN = "the same command goes on when the cluster is there again"


def refuse_without() -> None:
    """One message where Ray is missing, before anything is done."""
    if find_spec("ray") is None:
        raise InputError("--ray needs Ray, which is not installed", None, INSTALL)


class RayPool:
    """As many items at a time as the cluster has cores, or ``jobs``."""

    def __init__(
        self, address: str, jobs: int | None, settings: Mapping[str, Any], audit: Path
    ) -> None:
        self.jobs, self.settings = jobs, dict(settings)
        self.ray = connected(address)
        self._work = self.ray.remote(num_cpus=1, max_retries=0, scheduling_strategy="SPREAD")(work)
        self._flying: dict[Any, Json] = {}
        self._contents: OrderedDict[str, Any] = OrderedDict()
        self._modules = self._put(archived(modules(self.settings["path"], audit)))
        self._size, self._looked = 0, -LOOK

    def free(self) -> int:
        """How many cores of the cluster have nothing to do for this audit."""
        if monotonic() - self._looked > LOOK:
            self._looked = monotonic()
            self._size = int(self._asked(self.ray.cluster_resources).get("CPU", 0))
        return max(0, min(self.jobs or self._size, self._size) - len(self._flying))

    def give(self, task: Json) -> None:
        """Starts a task on some node."""
        content = self._put(archived(needed(task)))
        handle = self._work.remote(self.settings, task, content, self._modules)
        self._flying[handle] = task

    def _put(self, content: bytes) -> Any:
        """Content in the object store, each once."""
        key = hashlib.sha256(content).hexdigest()
        if key not in self._contents:
            self._contents[key] = self._asked(self.ray.put, content)
        self._contents.move_to_end(key)
        while len(self._contents) > KNOWN:
            self._contents.popitem(last=False)
        return self._contents[key]

    def answers(self, seconds: float) -> Iterator[Answer]:
        """What has come by now; waits so long for the first."""
        handles = list(self._flying)
        ready, _ = self._asked(self.ray.wait, handles, num_returns=1, timeout=seconds)
        if ready:
            ready, _ = self._asked(
                self.ray.wait, handles, num_returns=len(handles), timeout=0, fetch_local=False
            )
        for handle in ready:
            yield self._answer(handle, self._flying.pop(handle))

    def _answer(self, handle: Any, task: Json) -> Answer:
        from ray.exceptions import RayError, RayTaskError

        try:
            found = self.ray.get(handle)
        except RayTaskError as error:
            text = str(error).strip().splitlines()[-1]
            hint = "gg-datalog must be installed on all nodes, in the same version"
            raise InputError(f"a node cannot run items: {text}", None, hint) from None
        except RayError as error:
            return Answer(task, lost=f"{type(error).__name__} on the cluster")
        if "refused" in found:
            raise InputError(found["refused"], None, found["hint"])
        if "lost" in found:
            return Answer(task, lost=found["lost"])
        scratch = Path(task["scratch"])
        scratch.mkdir(parents=True, exist_ok=True)
        for name, content in found["files"].items():
            (scratch / name).write_bytes(content)
        return Answer(task, found["record"], found["used"], "", found["host"])

    def _asked(self, function: Any, *arguments: Any, **named: Any) -> Any:
        """What Ray answers; one message where the cluster is gone."""
        from ray.exceptions import RayError

        try:
            return function(*arguments, **named)
        except (RayError, ConnectionError) as error:
            text = str(error).strip().partition("\n")[0]
            raise InputError(f"the Ray cluster is gone: {text}", None, AGAIN) from None

    def close(self) -> None:
        """Leaves the cluster, which ends what runs there for this audit."""
        self._flying, self._contents, self._modules = {}, OrderedDict(), None
        self.ray.shutdown()


def connected(address: str) -> Any:
    """Ray, connected to a cluster.

    Raises:
        InputError: Ray is missing, or there is no cluster.
    """
    refuse_without()
    import logging

    import ray

    try:
        _answers(address)
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        text = str(error).strip().partition("\n")[0]
        hint = "start one with `ray start --head`, or give its address, HOST:PORT"
        raise InputError(f"no Ray cluster is reached at {address}: {text}", None, hint) from None
    return ray


def _answers(address: str) -> None:
    """An OSError where nobody listens at an address: Ray itself would try for minutes."""
    found = re.fullmatch(r"(?:ray://)?\[?([^\[\]]+)\]?:(\d+)", address)
    if found is not None:
        socket.create_connection((found[1], int(found[2])), timeout=PATIENCE).close()
