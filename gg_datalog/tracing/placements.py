"""Which part of a global tensor a rank holds, as frameworks say it."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist

from gg_datalog.foundation.errors import InputError
from gg_datalog.tracing.megatron import by_attributes
from gg_datalog.tracing.pieces import Placed, Run, boxes, runs


def placed(tensor: torch.Tensor, name: str) -> Placed:
    """(global shape, pieces, what says so, placements); None where nothing says it."""
    if hasattr(tensor, "placements") and hasattr(tensor, "device_mesh"):
        return _dtensor(tensor, name)
    if hasattr(tensor, "partition_dim"):
        return by_attributes(tensor, name)
    return tuple(tensor.shape), None, "", []


# ---- DTensor
def _dtensor(tensor: Any, name: str) -> Placed:
    placements = [str(p) for p in tensor.placements]
    if any(p.is_partial() for p in tensor.placements):
        raise InputError(
            f"`{name}` is given as Partial: its value is a sum over ranks, of which no rank holds "
            "a part that can be named",
            None,
            "redistribute it to Replicate or Shard before the program takes it",
        )
    shape = tuple(tensor.shape)
    per_dim = [_runs(tensor, dim, extent) for dim, extent in enumerate(shape)]
    pieces = boxes(per_dim)
    held = tuple(sum(count for _, _, count in found) for found in per_dim)
    if held != tuple(tensor._local_tensor.shape):
        raise InputError(
            f"`{name}` is placed as {', '.join(placements)} of {list(shape)}, which is "
            f"{list(held)} here, but its local tensor is {list(tensor._local_tensor.shape)}",
            None,
            "give DTensor.from_local the global shape",
        )
    return shape, pieces, "DTensor placements", placements


def _runs(tensor: Any, dim: int, extent: int) -> list[Run]:
    """The global positions along a dimension that this rank holds, in order: torch's own
    splitting, applied to the positions themselves."""
    from gg_datalog.tracing.private import unset_fake_temporarily

    mesh = tensor.device_mesh
    with unset_fake_temporarily():
        # Not get_coordinate(): a mesh may be another rank's, of which torch kept it.
        at = (mesh.mesh == dist.get_rank()).nonzero()
        if not len(at):
            return []
        coordinate = [int(c) for c in at[0]]
        held = torch.arange(extent)
        for axis, placement in enumerate(tensor.placements):
            if _shards(placement) != dim:
                continue
            split, _ = _along_first(placement, held, mesh.size(axis))
            held = split[coordinate[axis]]
        return runs(held)


def _along_first(placement: Any, held: torch.Tensor, parts: int) -> Any:
    """Splits a vector the way the placement splits its dimension."""
    from torch.distributed.tensor.placement_types import Shard, _StridedShard

    first: Any = (
        _StridedShard(0, split_factor=placement.split_factor)
        if isinstance(placement, _StridedShard)
        else Shard(0)
    )
    return first._split_tensor(held, parts, with_padding=False, contiguous=True)


def _shards(placement: Any) -> int | None:
    dim = getattr(placement, "dim", None)
    return None if dim is None or placement.is_replicate() else int(dim)
