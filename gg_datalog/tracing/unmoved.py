"""What a trace does not see: that a tensor is given other memory, or written beside operators."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import wraps
from typing import Any
from unittest.mock import patch

import torch
from torch.overrides import TorchFunctionMode

from gg_datalog.tracing.refusal import Refused
from gg_datalog.tracing.source import is_library


class MemoryKept(TorchFunctionMode):  # type: ignore[misc]
    """Refuses `.data = ...` on tensors that are computed; of inputs it is seen afterwards."""

    def __init__(self, inputs: Sequence[torch.Tensor]) -> None:
        super().__init__()
        self.inputs = {id(tensor) for tensor in inputs}

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        """Every function of torch's comes by."""
        if func == SET_DATA and args[0] is not args[1] and id(args[0]) not in self.inputs:
            raise Refused(
                "the program gives a tensor other memory (`.data = ...`), which a trace does "
                "not see",
                "write into it: .data.copy_(...)",
            )
        return func(*args, **(kwargs or {}))


@contextmanager
def storages_kept() -> Iterator[None]:
    """Refuses what a program writes into the storage of a tensor, which no operator tells of."""
    with ExitStack() as stack:
        for kind in (torch.UntypedStorage, torch.TypedStorage):
            for name in ("fill_", "copy_", "__setitem__"):
                stack.enter_context(patch.object(kind, name, _refused(getattr(kind, name))))
        yield


def _refused(write: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(write)
    def called(*args: Any, **kwargs: Any) -> Any:
        if is_library(sys._getframe(1).f_code.co_filename):  # torch's own, such as of a deep copy
            return write(*args, **kwargs)
        raise Refused(
            "the program writes into the storage of a tensor, which a trace does not see",
            "write into the tensor: .fill_(...), .copy_(...)",
        )

    return called


SET_DATA = torch.Tensor.data.__set__
