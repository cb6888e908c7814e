"""Every entry point of torch that is not public, but for its tracer (``tracer.py``), in one place.
Tested with torch 2.13.0 (CPU).

Another release may move them: then this module is what to change, and what
:func:`check_version` warns of.
"""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import wraps
from importlib import import_module
from types import FunctionType
from typing import Any

import torch
from torch import nn

from gg_datalog.tracing.source import forget_lines, traced_line

TESTED = ("2.13",)

try:
    from torch._C._distributed_c10d import FakeWork
    from torch._dynamo.functional_export import dynamo_graph_capture_for_export
    from torch._dynamo.output_graph import OutputGraph
    from torch._functorch._aot_autograd.descriptors import (
        AOTInput,
        AOTOutput,
        BufferAOTInput,
        GradAOTOutput,
        InputMutationAOTOutput,
        ParamAOTInput,
        PlainAOTInput,
        PlainAOTOutput,
        SubclassGetAttrAOTInput,
        SubclassGetAttrAOTOutput,
        TangentAOTInput,
    )
    from torch._functorch._aot_autograd.logging_utils import setup_stacktrace_preservation_hooks
    from torch._functorch.aot_autograd import aot_export_joint_with_descriptors
    from torch._subclasses import FakeTensorMode
    from torch._subclasses.fake_tensor import (
        DataDependentOutputException,
        DynamicOutputShapeException,
        FakeTensor,
        unset_fake_temporarily,
    )
    from torch.distributed.distributed_c10d import (
        ProcessGroup,
        Work,
        _resolve_process_group,
        _world,
        get_process_group_ranks,
    )
    from torch.fx import traceback as fx_traceback
    from torch.fx.experimental.proxy_tensor import disable_proxy_modes_tracing as unrecorded
    from torch.fx.experimental.proxy_tensor import make_fx
    from torch.fx.proxy import TracerBase
    from torch.testing._internal.distributed.fake_pg import FakeStore
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._python_dispatch import _disable_current_modes as disable_current_modes
    from torch.utils._pytree import tree_leaves
except ImportError as error:
    from gg_datalog.foundation.errors import InputError

    raise InputError(
        f"torch {torch.__version__} has another inside than the releases this was tested with: "
        f"{error}",
        None,
        f"capture with torch {' or '.join(TESTED)}: pip install 'gg-datalog[torch]'",
    ) from None

# What torch imports when it traces for the first time: imported before a process is forked for
# every rank, not once in each of them.
for _later in (
    "torch._dynamo.backends.debugging",
    "torch._dynamo.backends.inductor",
    "torch._dynamo.repro.after_dynamo",
    "torch._higher_order_ops.passes.inline_invoke_subgraph",
    "torch._inductor.fx_passes.dedupe_symint_uses",
    "torch.distributed._tools",
    "torch.distributed.tensor.debug",
    "torch.distributed.tensor.experimental",
    "torch.export._trace",
):
    with suppress(ImportError):
        import_module(_later)

__all__ = [
    "AOTInput",
    "AOTOutput",
    "BufferAOTInput",
    "DataDependentOutputException",
    "DynamicOutputShapeException",
    "FakeStore",
    "FakeTensor",
    "FakeTensorMode",
    "FakeWork",
    "GradAOTOutput",
    "InputMutationAOTOutput",
    "ParamAOTInput",
    "PlainAOTInput",
    "PlainAOTOutput",
    "ProcessGroup",
    "SubclassGetAttrAOTInput",
    "SubclassGetAttrAOTOutput",
    "TangentAOTInput",
    "TorchDispatchMode",
    "Work",
    "aot_export_joint_with_descriptors",
    "below_autograd",
    "disable_current_modes",
    "dynamo_graph_capture_for_export",
    "fx_traceback",
    "get_process_group_ranks",
    "make_fx",
    "setup_stacktrace_preservation_hooks",
    "unrecorded",
    "unset_fake_temporarily",
    "votes_by_objects",
]


DEVICE = torch.ops.prim.device.default


def device_of(tensor: Any) -> torch.device:
    """What :data:`DEVICE` gives of a fake tensor."""
    if tensor.fake_mode.in_kernel_invocation:
        return torch.device("meta")
    return tensor.fake_device


def below_autograd() -> Any:
    """A context in which operators are not seen by autograd, as inside of a dispatch mode."""
    return torch._C._AutoDispatchBelowAutograd()


def tested_version() -> bool:
    """Is this a release of torch that capture was tested with?"""
    return torch.__version__.split("+")[0].rpartition(".")[0] in TESTED


def ranks_of_group(name: str) -> list[int]:
    """The global ranks of a process group of this process, in member order."""
    return list(get_process_group_ranks(_resolve_process_group(name)))


def forget_ranks() -> None:
    """Empties what torch keeps between ranks: its caches hold meshes, and a mesh equals that of
    another rank."""
    from torch.distributed.tensor import _redistribute, debug

    debug._clear_sharding_prop_cache()
    _redistribute._gen_transform_infos.cache_clear()
    FakeTensorMode.cache_clear()
    torch._dynamo.reset()


def ordinal_of_group(name: str) -> int:
    """The place of a process group among those with the same ranks, as they were made."""
    group: Any = _resolve_process_group(name)
    members = get_process_group_ranks(group)
    made = [one for one in _world.pg_names if get_process_group_ranks(one) == members]
    return next(place for place, one in enumerate(made) if one == group)


class _RealTorch:
    """torch for the module of device meshes: what it creates is real."""

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)

    def arange(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        with unset_fake_temporarily():
            return torch.arange(*args, **kwargs)


@contextmanager
def real_meshes() -> Iterator[None]:
    """Device meshes hold the ranks as a tensor that is read: no fake one may take its place."""
    from torch.distributed import device_mesh

    mesh: Any = device_mesh.DeviceMesh
    module: Any = device_mesh
    originals = dict(vars(mesh))
    for name, member in originals.items():
        if (wrapped := _unfaked(member)) is not None:
            setattr(mesh, name, wrapped)
    module.torch = _RealTorch()
    try:
        yield
    finally:
        module.torch = torch
        for name, member in originals.items():
            if _unfaked(member) is not None:
                setattr(mesh, name, member)


def _unfaked(member: Any) -> Any:
    """A method or property that runs without fake tensors; None for what is neither."""
    if isinstance(member, staticmethod):
        return staticmethod(_outside_fake(member.__func__))
    if isinstance(member, classmethod):
        return classmethod(_outside_fake(member.__func__))
    if isinstance(member, property) and member.fget is not None:
        return property(_outside_fake(member.fget), member.fset, member.fdel)
    return _outside_fake(member) if isinstance(member, FunctionType) else None


def _outside_fake(call: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(call)
    def outside(*args: Any, **kwargs: Any) -> Any:
        with unset_fake_temporarily():
            return call(*args, **kwargs)

    return outside


@contextmanager
def source_lines() -> Iterator[None]:
    """Every node of a trace carries the line that made it: also in functions that are not called
    ``forward``, and in a backward pass, where it is the line of the forward operator, or the one
    inside a backward that the user wrote."""
    tracer: Any = TracerBase
    originals = fx_traceback.format_stack, tracer.create_node
    create = tracer.create_node

    def create_node(self: Any, *args: Any, **kwargs: Any) -> Any:
        node = create(self, *args, **kwargs)
        line, in_backward = traced_line()
        if in_backward or not node.stack_trace:
            node.stack_trace = line
        return node

    forget_lines()
    fx_traceback.format_stack = lambda: [traced_line()[0]]
    tracer.create_node = create_node
    try:
        with _backward_lines():
            yield
    finally:
        fx_traceback.format_stack, tracer.create_node = originals


@contextmanager
def quiet() -> Iterator[None]:
    """torch logs what a fake tensor raises, with its traceback, before it raises it."""
    log = logging.getLogger("torch._subclasses.fake_tensor")
    before = log.disabled
    log.disabled = not os.environ.get("GG_DATALOG_DEBUG")
    try:
        yield
    finally:
        log.disabled = before


def inline_compiled() -> Any:
    """Functions that are compiled run as they are written while a trace goes on around them."""
    return torch._dynamo.config.patch(error_on_nested_fx_trace=False)


@contextmanager
def replaced_state() -> Iterator[set[str]]:
    """The parameters and buffers that traced code gives another tensor, beside its graph, by
    dynamo's names for them: ``L['self']._modules['a']._buffers['scale']``. Known when the trace is
    done."""
    found: set[str] = set()
    original = OutputGraph.get_replayed_side_effect_source_refs

    def noted(graph: Any, **given: Any) -> list[str]:
        for one in graph.side_effects._get_modified_vars():
            held = _source_of(one)
            if held.endswith(("._parameters", "._buffers")):
                named = (
                    (f"{held}[{key.vt.as_python_constant()!r}]", v) for key, v in one.items.items()
                )
                found.update(name for name, value in named if _source_of(value.realize()) != name)
        original(graph, **given)
        return []  # what torch would warn of

    OutputGraph.get_replayed_side_effect_source_refs = noted
    try:
        yield found
    finally:
        OutputGraph.get_replayed_side_effect_source_refs = original


def _source_of(variable: Any) -> str:
    """Where dynamo has a value from; "" for what the program computes."""
    source = getattr(variable, "source", None)
    return "" if source is None else str(source.name)


@contextmanager
def _backward_lines() -> Iterator[None]:
    engine: Any = torch.autograd
    originals = engine.backward, engine.grad

    def prepared(call: Callable[..., Any]) -> Callable[..., Any]:
        def with_hooks(*args: Any, **kwargs: Any) -> Any:
            given = args[:1] or [kwargs[name] for name in ("tensors", "outputs") if name in kwargs]
            roots = [one for value in given for one in tree_leaves(value)]
            found = [t.grad_fn for t in roots if getattr(t, "grad_fn", None) is not None]
            setup_stacktrace_preservation_hooks(found)
            try:
                return call(*args, **kwargs)
            finally:
                fx_traceback.current_meta.pop("stack_trace", None)

        return with_hooks

    engine.backward, engine.grad = map(prepared, originals)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Anomaly Detection")
            anomaly = torch.autograd.detect_anomaly(check_nan=False)
        with anomaly:
            yield
    finally:
        engine.backward, engine.grad = originals


@contextmanager
def votes_by_objects() -> Iterator[None]:
    """Pipeline stages agree on whether shapes are given, by a tensor whose value each of them
    reads: they do it by objects."""
    from torch.distributed.pipelining import schedules, stage

    kind: Any = schedules._PipelineSchedule
    original = kind._warmup_p2p

    def agreed(self: Any, stages: Any, has_backward: bool, p2p_done: bool) -> None:
        if not all(isinstance(one, stage.PipelineStage) for one in stages):
            return original(self, stages, has_backward, p2p_done)  # type: ignore[no-any-return]
        needs = stage.InferenceMode.needs_dynamic
        dynamic = any(needs(one._user_meta, has_backward) for one in stages)
        votes = [None] * stages[0].group_size
        torch.distributed.all_gather_object(votes, dynamic, stages[0].group)
        mode = stage.InferenceMode.DYNAMIC if any(votes) else stage.InferenceMode.STATIC
        for one in stages:
            one._inference_mode = mode
        return None

    kind._warmup_p2p = agreed
    try:
        yield
    finally:
        kind._warmup_p2p = original


def storage_of(tensor: torch.Tensor) -> int:
    """Tells the memory of one tensor from that of another."""
    return int(tensor.untyped_storage()._cdata)


@contextmanager
def module_paths(module: nn.Module) -> Iterator[None]:
    """Nodes carry the path of the module that made them, as ``meta["custom"]["module"]``."""
    names = {id(m): name for name, m in module.named_modules() if name}
    stack: list[Any] = []

    def enter(module: nn.Module, args: Any) -> None:
        meta = fx_traceback.current_meta
        stack.append(meta.get("custom"))
        if id(module) in names:
            meta["custom"] = {"module": names[id(module)]}

    def leave(module: nn.Module, args: Any, result: Any) -> None:
        before = stack.pop() if stack else None
        if before is None:
            fx_traceback.current_meta.pop("custom", None)
        else:
            fx_traceback.current_meta["custom"] = before

    handles = [
        nn.modules.module.register_module_forward_pre_hook(enter),
        nn.modules.module.register_module_forward_hook(leave, always_call=True),
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
