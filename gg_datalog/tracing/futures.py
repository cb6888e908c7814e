"""What the communication hooks of DDP take of a collective: a future, which DDP waits for.

Outside of such a hook nothing says when the callbacks of a future run, so it is refused there. In a
hook the collective is waited for where the program says what happens then, or where it returns the
future itself. One that the hook drops is waited for by nobody, here as there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import torch

RUNNING: list[Callable[..., Any]] = []  # the hooks that are at work, the innermost last


class Arriving(torch.futures.Future):  # type: ignore[misc]
    """The tensors of a collective that was started; ``wait`` waits for it."""

    def __init__(self, wait: Callable[[], Any], tensors: Sequence[torch.Tensor]) -> None:
        super().__init__()
        self._wait, self._tensors = wait, list(tensors)

    def arrive(self) -> None:
        """Waits for the collective."""
        self._wait()
        if not super().done():
            self.set_result(self._tensors)

    def then(self, callback: Callable[[Any], Any]) -> Any:
        """Of what comes back DDP waits for the last one."""
        self.arrive()
        return super().then(callback)

    def wait(self) -> Any:
        """The tensors."""
        self.arrive()
        return super().wait()

    def value(self) -> Any:
        """The tensors."""
        self.arrive()
        return super().value()


def waited_for(hook: Callable[..., Any]) -> Callable[..., Any]:
    """The hook, whose future is waited for."""

    @wraps(hook)
    def run(*given: Any) -> Any:
        RUNNING.append(hook)
        try:
            future = hook(*given)
        finally:
            RUNNING.pop()
        if isinstance(future, Arriving):  # a list of tensors is none to DDP, but where C++ made it
            return future.then(lambda one: one.value()[0])
        return future

    return run
