"""What a trace does not see: that a tensor is given other memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from gg_datalog.tracing.refusal import Refused


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


SET_DATA = torch.Tensor.data.__set__
