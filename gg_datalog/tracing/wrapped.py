"""Modules that replicate or shard another one, and communicate in hooks: DDP and FSDP2.

Both run on the eager route as they are. What they do in C++ with values is left out while the
program is built (it compares shapes over ranks, and gives all ranks the parameters of the first:
relations say what ranks hold), or done by operators (DDP's buffers).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from inspect import signature
from typing import Any
from unittest.mock import patch
from weakref import WeakSet

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp._fully_shard import _fsdp_collectives

from gg_datalog.tracing.futures import waited_for
from gg_datalog.tracing.refusal import WITHOUT, Refused

INSIDE = {"DistributedDataParallel": "module", "OptimizedModule": "_orig_mod"}


def plain_names(module: nn.Module) -> Callable[[str], str]:
    """Drops from a name what wrappers add to it (``module.``): the sequential program has none."""
    wrappers = {
        f"{path}.{inside}".lstrip("."): path
        for path, one in module.named_modules()
        if (inside := INSIDE.get(type(one).__name__)) is not None
    }

    def plain(name: str) -> str:
        for inner in sorted(wrappers, key=len, reverse=True):
            if name == inner or name.startswith(f"{inner}."):
                name = (wrappers[inner] + name[len(inner) :]).lstrip(".")
        return name

    return plain


def innermost(module: nn.Module) -> nn.Module:
    """The module that wrappers pass their arguments to."""
    while (inside := INSIDE.get(type(module).__name__)) is not None:
        module = getattr(module, inside)
    return module


def hooked(module: nn.Module) -> list[str]:
    """The modules whose hooks communicate, which only the eager route sees: how messages call
    them. One that cannot be captured at all is an error."""
    found = []
    for path, one in module.named_modules():
        kind = type(one).__name__
        if kind == "FullyShardedDataParallel":
            raise Refused(
                f"`{path or 'the module'}` is a {kind}, whose communication runs outside of the "
                "captured operators",
                f"use fully_shard, or {WITHOUT}",
            )
        if kind == "DistributedDataParallel" or hasattr(one, "_get_fsdp_state"):
            found.append(f"`{path or 'the module'}` ({kind})")
    return found


@contextmanager
def built_alone() -> Iterator[None]:
    """While a program is built nothing is compared over ranks, and nothing sent."""
    with (
        _replaced(lambda *_: None),
        patch.object(dist, "_register_builtin_comm_hook", _refused_hook),
    ):
        yield


def _refused_hook(*_: Any) -> None:
    raise Refused(
        "a built-in communication hook of DistributedDataParallel runs where no trace sees it",
        "register the hook of torch.distributed.algorithms.ddp_comm_hooks that does the same",
    )


LOOKING: WeakSet[nn.Module] = WeakSet()  # what would look for unused parameters


def buckets_made(module: nn.Module) -> None:
    """Makes what DDP reduces gradients in once more, so that its memory is made by operators that
    are recorded: as torch does where a module is unpickled (``__setstate__``).

    Which parameters are used is not looked for: torch reads a tensor for that, and where all of
    them are (:func:`all_used`) it makes no difference.
    """
    for one in module.modules():
        if type(one).__name__ != "DistributedDataParallel":
            continue
        parameters, sparse = one._build_params_for_reducer()
        names = one._build_debug_param_to_name_mapping(parameters)
        if one.static_graph or one.find_unused_parameters:
            LOOKING.add(one)
        one.static_graph = one.find_unused_parameters = False
        one._ddp_init_helper(parameters, sparse, names, False)
        for hook, state in one._comm_hooks:
            dist._register_comm_hook(one.reducer, state, waited_for(hook))


def all_used(module: nn.Module) -> None:
    """Refuses parameters without a gradient where DDP is to find out which of them are used."""
    for path, one in module.named_modules():
        if one in LOOKING:
            for name, parameter in one.module.named_parameters():
                if parameter.requires_grad and parameter.grad is None:
                    raise Refused(
                        f"`{path or 'the module'}` reduces gradients of parameters that this rank "
                        f"may not use, such as `{name}`: it finds them by values",
                        "let every rank use every parameter, or reduce the gradients in "
                        "step(module)",
                    )


@contextmanager
def buffers_sent() -> Iterator[None]:
    """What DDP sends before a forward pass, each tensor by a collective of its own; FSDP2 divides
    gradients by a factor of the user's beside the reduction, not inside of it (a sum of NCCL's that
    does not say its factor). DDP keeps its buckets, which it would sort anew after a backward pass,
    by an exchange in C++."""
    divisors = _fsdp_collectives._get_gradient_divide_factors

    @wraps(divisors)
    def apart(*args: Any, **kwargs: Any) -> Any:
        given = signature(divisors).bind(*args, **kwargs)
        if given.arguments.get("factor") is not None:
            given.arguments["force_sum_reduction_for_comms"] = True
        return divisors(*given.args, **given.kwargs)

    with (
        _replaced(_broadcast),
        patch.object(_fsdp_collectives, "_get_gradient_divide_factors", apart),
        patch.object(dist.Reducer, "_rebuild_buckets", lambda _: False),
    ):
        yield


@contextmanager
def _replaced(broadcast: Callable[..., None]) -> Iterator[None]:
    with (
        patch.object(dist, "_verify_params_across_processes", lambda *_: None),
        patch.object(dist, "_broadcast_coalesced", broadcast),
    ):
        yield


def _broadcast(group: Any, tensors: Sequence[torch.Tensor], _size: int, root: int = 0) -> None:
    for tensor in tensors:
        dist.broadcast(tensor, group=group, group_src=root)
