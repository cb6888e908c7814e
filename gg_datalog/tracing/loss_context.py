"""``loss_parallel``, which a program opens around its loss: the backward pass runs in it, too.

Capture itself calls the backward pass of a loss that the program returns, with the context closed
already. And dynamo keeps what the context changes for when its code runs, after the graph is made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from unittest.mock import patch

import torch
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import loss


class LossContext:
    """Whether the program has opened the context, and what opens it again."""

    def __init__(self) -> None:
        self.opened = False
        self._enable: Callable[[], None] = loss._enable_custom_loss_ops

    def open(self) -> None:
        """As the context does; noted."""
        self.opened = True
        self._enable()

    @contextmanager
    def again(self) -> Iterator[None]:
        """In the context, where the program was in it before."""
        before = dict(_handlers())
        if self.opened:
            self._enable()
        try:
            yield
        finally:
            _handlers().clear()
            _handlers().update(before)


@contextmanager
def loss_context() -> Iterator[LossContext]:
    """Notes that the program opens ``loss_parallel``; what it has changed is changed back."""
    context, before = LossContext(), dict(_handlers())

    def opened() -> None:
        context.open()

    def closed() -> None:
        for operator in loss.customized_loss_ops:
            _handlers().pop(operator, None)

    for one in (opened, closed):  # dynamo calls them where it meets them
        torch._dynamo.assume_constant_result(one)
    with (
        patch.object(loss, "_enable_custom_loss_ops", opened),
        patch.object(loss, "_disable_custom_loss_ops", closed),
    ):
        try:
            yield context
        finally:
            _handlers().clear()
            _handlers().update(before)


def _handlers() -> dict[object, object]:
    """What DTensor does with some operators, in place of its own rules."""
    return DTensor._op_dispatcher._custom_op_handlers  # type: ignore[no-any-return]
