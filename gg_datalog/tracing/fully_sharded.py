"""What ``fully_shard`` (FSDP2) calls, in operators that everybody knows.

Its three operators of packing say nothing of what they write (``fsdp::all_gather_copy_in``,
``split_with_sizes_copy``, ``chunk_cat``), so a graph of them could not be made functional. Each is
done here as torch's own implementation does it (torch/distributed/fsdp/_fully_shard,
``_fsdp_collectives.py``), out of slices, views and copies.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from math import prod
from typing import Any

import torch
from torch.nn.functional import pad

from gg_datalog.tracing.private import TorchDispatchMode, unrecorded

Given = dict[str, Any]


def _all_gather_copy_in(given: Given) -> Any:
    """The shards of a group, behind each other. Torch has them at their rank's place in the memory
    that the gathered ones come into; they are gathered from there, and nobody reads it before."""
    shards = [shard.reshape(-1) for shard in given["all_gather_inputs"]]
    return torch.cat(shards), given["all_gather_output"]


def _split_with_sizes_copy(given: Given) -> None:
    """Each parameter's part of what was gathered, into its own memory."""
    sizes, dim = given["all_gather_input_split_sizes"], given.get("dim", 0)
    starts = accumulate(sizes, initial=0)
    for out, start, size in zip(given["out"], starts, sizes, strict=False):
        out.copy_(given["all_gather_output"].narrow(dim, start, size))


def _chunk_cat(given: Given) -> None:
    """Row i of the result: the i-th share of every gradient, padded to shares of one size."""
    count = given["num_chunks"]
    rows = [_rows(tensor, given["dim"], count) for tensor in given["tensors"]]
    given["out"].copy_(torch.cat(rows, 1).view(given["out"].shape))


def _rows(tensor: torch.Tensor, dim: int, count: int) -> torch.Tensor:
    """The shares of a tensor along ``dim``, one in a row (torch asks for ``dim`` 0 here)."""
    tensor = tensor.movedim(dim, 0)
    missing = -tensor.shape[0] % count
    if missing:
        tensor = pad(tensor, (0, 0) * (tensor.dim() - 1) + (0, missing))
    return tensor.reshape(count, -1)


def _as_strided(given: Given) -> Any:
    """A stretch of contiguous memory in the usual order, as what it is: a slice in another form."""
    x, size = given["self"], list(given["size"])
    start = given.get("storage_offset")
    start = 0 if start is None else start - x.storage_offset()
    inside = start >= 0 and start + prod(size) <= x.numel()
    if not (x.is_contiguous() and inside and list(given["stride"]) == _strides(size)):
        return NotImplemented
    if prod(size) == x.numel():
        return x.view(size)
    return x.view(-1).narrow(0, start, prod(size)).view(size)


def _strides(size: Sequence[int]) -> list[int]:
    """The strides of a contiguous tensor."""
    return [prod(size[dim + 1 :]) for dim in range(len(size))]


PACKING: dict[str, Callable[[Given], Any]] = {
    "fsdp::all_gather_copy_in": _all_gather_copy_in,
    "fsdp::split_with_sizes_copy": _split_with_sizes_copy,
    "fsdp::chunk_cat": _chunk_cat,
    "aten::as_strided": _as_strided,
}


class Unpacked(TorchDispatchMode):  # type: ignore[misc]
    """Writes these operators out, and leaves what only measures time out of the record."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        """Every operator comes by; what is not written out is called as it is."""
        if func.namespace == "profiler":
            with unrecorded():
                return func(*args, **(kwargs or {}))
        rewrite = PACKING.get(func._schema.name)
        if rewrite is not None:
            given = dict(zip((a.name for a in func._schema.arguments), args, strict=False))
            made = rewrite({**given, **(kwargs or {})})
            if made is not NotImplemented:
                return made
        return func(*args, **(kwargs or {}))
