"""The route of compiled code: dynamo, then AOT autograd's joint graph."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import torch
from torch import fx, nn
from torch.utils import _pytree as pytree

from gg_datalog.tracing.draws import note_compiled
from gg_datalog.tracing.eager_route import NO_GRADIENT, Reduction, Traced, open_reductions
from gg_datalog.tracing.inputs import Input, local_of
from gg_datalog.tracing.loss_context import loss_context
from gg_datalog.tracing.private import (
    BufferAOTInput,
    FakeTensorMode,
    GradAOTOutput,
    InputMutationAOTOutput,
    ParamAOTInput,
    PlainAOTInput,
    PlainAOTOutput,
    SubclassGetAttrAOTInput,
    SubclassGetAttrAOTOutput,
    TangentAOTInput,
    aot_export_joint_with_descriptors,
    dynamo_graph_capture_for_export,
    replaced_state,
)
from gg_datalog.tracing.program import WRAPPED, Program, WithLoss
from gg_datalog.tracing.record import result_of
from gg_datalog.tracing.refusal import Refused
from gg_datalog.tracing.tracer import lazy_modules, plain_calls


def trace_dynamo(
    program: Program,
    module: nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    inputs: Sequence[Input],
    mode: FakeTensorMode,
) -> Traced:
    """The joint graph of forward and backward, as torch.compile would run it."""
    if program.step is not None:
        raise Refused(
            "a step after the backward pass is not part of what dynamo captures",
            'capture with mode="eager"',
        )
    whole = module if program.loss is None else WithLoss(module, program.loss)
    if not program.backward:
        module.requires_grad_(False)
    _attributes_as_buffers(module)
    with mode, loss_context() as context, ExitStack() as stack:
        try:
            with replaced_state() as replaced:
                captured = dynamo_graph_capture_for_export(whole)(*args, **kwargs)
        except SyntaxError as error:  # of the code that dynamo writes to return nothing
            raise Refused(
                "the program returns no tensor", "return what is to be compared"
            ) from error
        _check_kept(replaced)
        try:
            with plain_calls(as_written=False), lazy_modules(), context.again():
                exported = aot_export_joint_with_descriptors(stack, captured, args, kwargs or None)
        except AssertionError as error:
            raise _constant_of_program(error) from error
    traced = _described(exported, inputs, _arguments(inputs, pytree.tree_leaves((args, kwargs))))
    if program.backward and not any(name.startswith("grad_") for name in traced.returned):
        raise Refused(*NO_GRADIENT)
    return traced


def _attributes_as_buffers(module: nn.Module) -> None:
    """Tensors that modules hold as plain attributes become inputs, as buffers are."""
    for one in module.modules():
        for name, value in list(vars(one).items()):
            if isinstance(value, torch.Tensor):
                delattr(one, name)
                one.register_buffer(name, value, persistent=False)


def _check_kept(replaced: Collection[str]) -> None:
    """Dynamo's graph does not return the tensors that a module's own names stand for anew."""
    if replaced:
        path = ".".join(name for name in HELD.findall(min(replaced)) if name != WRAPPED)
        raise Refused(
            f"the program gives `{path}` another tensor, which dynamo does not record",
            'capture with mode="eager", or write into it: self.scale.copy_(...)',
        )


HELD = re.compile(r"\._(?:modules|buffers|parameters)\['([^']*)'\]")


def _constant_of_program(error: AssertionError) -> Exception:
    """A tensor from elsewhere has neither a name nor, where the program made it, values."""
    if "fake buffer" not in str(error):
        return error
    return Refused(
        "a tensor is used that is neither an input nor a parameter, buffer or attribute of the "
        "module",
        "make it a buffer or an attribute of the module that uses it",
    )


def _arguments(inputs: Sequence[Input], leaves: Sequence[Any]) -> list[Input | None]:
    """The inputs that the program is called with, by their place."""
    by_tensor = {id(one.tensor): one for one in inputs}
    return [by_tensor.get(id(local_of(leaf))) for leaf in leaves]


def _described(exported: Any, inputs: Sequence[Input], plain: Sequence[Input | None]) -> Traced:
    graph: fx.GraphModule = exported.graph_module
    note_compiled(graph.graph)
    node = graph.graph.output_node()
    descriptions = node.meta["desc"]
    pending = _open(exported, descriptions, plain)
    rows = [
        (value, output_name(description, plain))
        for value, description in zip(node.args[0], descriptions, strict=True)
        if isinstance(value, fx.Node) and description is not None
    ]
    kept = [(value, name) for value, name in rows if name is not None]
    node.args = (tuple(value for value, _ in kept),)
    found = _kept_inputs(graph.graph, inputs, plain)
    return Traced(graph, found, [name for _, name in kept], pending)


def _kept_inputs(
    graph: fx.Graph, inputs: Sequence[Input], plain: Sequence[Input | None]
) -> list[Input]:
    """The placeholders' inputs; what is no tensor (a device mesh) goes."""
    known = {(one.kind, one.name): one for one in inputs}
    found = []
    for node in graph.find_nodes(op="placeholder"):
        value = node.meta.get("val")
        if not node.users and _is_second_name(node, known):
            graph.erase_node(node)
        elif isinstance(value, torch.Tensor):
            found.append(_input(node, known, plain))
        elif node.users:
            raise Refused(
                f"`{node.name}` is an input that is no tensor, and is computed with",
                "give it as a constant of the program",
            )
        else:
            graph.erase_node(node)
    return found


def _is_second_name(node: fx.Node, known: Mapping[tuple[str, str], Input]) -> bool:
    """Another name of a parameter or buffer that has one already, as tied weights do?"""
    description = _base(node.meta.get("desc"))
    if not isinstance(description, (ParamAOTInput, BufferAOTInput)):
        return False
    return not any((kind, _own_name(description.target)) in known for kind in KEPT)


KEPT = ("parameter", "buffer", "attribute")


def _input(
    node: fx.Node, known: Mapping[tuple[str, str], Input], plain: Sequence[Input | None]
) -> Input:
    description = _base(node.meta.get("desc"))
    if isinstance(description, (ParamAOTInput, BufferAOTInput)):
        name = _own_name(description.target)
        for kind in KEPT:
            if (kind, name) in known:
                return known[kind, name]
        return Input(name, "attribute", node.meta["val"], tuple(node.meta["val"].shape))
    if isinstance(description, PlainAOTInput):
        given = _given(description, plain)
        if given is not None:
            return given
    if isinstance(description, TangentAOTInput):
        name = f"gradient_of_{output_name(description.output) or 'output'}"
        return Input(name, "gradient", node.meta["val"], tuple(node.meta["val"].shape))
    raise Refused(f"an input of the kind {type(description).__name__} is not known here", HINT)


HINT = 'capture with mode="eager", or see docs/capture.md'


def _given(description: Any, plain: Sequence[Input | None]) -> Input | None:
    place = int(description.idx)
    return plain[place] if place < len(plain) else None


def _base(description: Any) -> Any:
    """What a local tensor of a DTensor is a part of."""
    wrapped = isinstance(description, (SubclassGetAttrAOTInput, SubclassGetAttrAOTOutput))
    return description.base if wrapped else description


def _own_name(target: str) -> str:
    """A parameter's name as the user's module has it."""
    return target.removeprefix(f"{WRAPPED}.")


def output_name(description: Any, plain: Sequence[Input | None] = ()) -> str | None:
    """What a result is called: the same on every rank. None for what is no tensor.

    ``plain`` are the inputs that the program is called with.
    """
    local = isinstance(description, SubclassGetAttrAOTOutput)
    if local and description.attr != "_local_tensor":
        return None
    description = _base(description)
    if isinstance(description, PlainAOTOutput):
        return f"output_{description.idx}"
    if isinstance(description, GradAOTOutput):
        of = _name_of(description.grad_of, plain)
        return f"grad_{of}" if of else None
    if isinstance(description, InputMutationAOTOutput):
        of = _name_of(description.mutated_input, plain)
        return f"updated_{of}" if of else None
    return None


def _name_of(description: Any, plain: Sequence[Input | None]) -> str | None:
    """How results are called after an input."""
    if isinstance(description, (ParamAOTInput, BufferAOTInput)):
        return _own_name(description.target)
    if isinstance(description, PlainAOTInput):
        given = _given(description, plain)
        return result_of("input", given.name if given else str(description.idx))
    return None


def _open(
    exported: Any, descriptions: Sequence[Any], plain: Sequence[Input | None]
) -> Mapping[str, Sequence[Reduction]]:
    """Results that are DTensors whose local tensors are yet to be added up."""
    metas = exported._aot_graph_capture.maybe_subclass_meta
    if metas is None:
        return {}
    forward = exported._aot_state.fw_metadata.subclass_fw_graph_out_meta
    at, found = 0, {}
    for meta in (*forward, *(metas.grad_input_metas or ())):
        tensor = getattr(meta, "original_subclass", None)
        name = output_name(descriptions[at], plain) if at < len(descriptions) else None
        if name is not None and tensor is not None and (pending := open_reductions(tensor)):
            found[name] = pending
        at += getattr(meta, "arg_count", 1)
    return found
