"""Instructions that stay uninterpreted, with everything that tells them apart; custom calls."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from gg_datalog.extract.signature import signature
from gg_datalog.readers.hlo_graph import Json, Result, Value
from gg_datalog.readers.hlo_program import HANDLERS, Program, lowers
from gg_datalog.readers.hlo_scan import inside, split, unquoted
from gg_datalog.readers.hlo_shapes import Array, Shape
from gg_datalog.readers.hlo_text import Computation, Module

# Attributes that say where an instruction comes from, runs or lies, not what it gives.
SILENT = frozenset(
    [
        "metadata",
        "sharding",
        "channel_id",
        "control-predecessors",
        "operand_layout_constraints",
        "output_to_operand_aliasing",
        "api_version",
        "statistics",
        "origin",
        "original_value",
        "custom_call_target",
        "is_host_transfer",
        "execution_threads",
        "async_execution_thread",
    ]
)
CALLS = ("to_apply", "calls", "select", "scatter", "body", "condition", "called_computations",
         "branch_computations", "true_computation", "false_computation")  # fmt: skip
# Custom calls that return their operands.
MARKERS = re.compile(
    r"Sharding|LayoutConstraint|annotate_device_placement|MoveToHost|MoveToDevice|Pin|Unpin"
    r"|xla\.sdy\.\w+|AwsNeuronTransferWithStaticRing\w*|AwsNeuronModuleMarker(Start|End)\S*"
    r"|NeuronBoundaryMarker\S*|AwsNeuronLNCShardingConstraint"
)
REFUSED = {
    "SPMDFullToShardShape": "it is a text from before the SPMD partitioner",
    "SPMDShardToFullShape": "it is a text from before the SPMD partitioner",
    "xla.sdy.GlobalToLocalShape": "it is a text from before the SPMD partitioner",
    "xla.sdy.LocalToGlobalShape": "it is a text from before the SPMD partitioner",
}
COLLECTIVE = re.compile(r"all-|reduce-scatter|collective-|partition-id|replica-id|send|recv|feed")
UNREADABLE = re.compile(r"[\x00-\x1f\x7f]")


def opaque(p: Program, target: str | None = None) -> Result:
    """An operator that is a function of its operands and of every attribute of the text."""
    name = target or "hlo." + p.at.opcode.replace("-", "_")
    operands = [_reference(p, p.result(i)) for i in range(len(p.at.operands))]
    known = signature(name)
    if known is not None and known.parameters[0].type == "Tensor[]":
        operands = [operands]
    told = ", ".join(f"{key}={text}" for key, text in sorted(attributes(p).items()))
    return given(p, name, operands, {"attributes": told} if told else {})


def unknown(p: Program) -> Result:
    """What no version of HLO that is known here has: never taken for what has a meaning."""
    if COLLECTIVE.match(p.at.opcode):
        raise p.error("this collective is not described", "take a dump of an earlier pass")
    name = "hlo." + p.at.opcode.replace("-", "_")
    p.need(signature(name) is None, "no operator of HLO is called that")
    return opaque(p, name)


@lowers(
    "batch-norm-grad",
    "batch-norm-inference",
    "batch-norm-training",
    "cholesky",
    "complex",
    "convolution",
    "fft",
    "imag",
    "map",
    "real",
    "rng-bit-generator",
    "select-and-scatter",
    "sort",
    "stochastic-convert",
    "topk",
    "triangular-solve",
)
def undescribed(p: Program) -> Result:
    """Operators of HLO that nothing more is known of."""
    return opaque(p)


def given(p: Program, name: str, operands: Sequence[Any], kwargs: Json) -> Result:
    """A node of the form of the instruction: one tensor, or a list of them."""
    if isinstance(p.at.shape, Array):
        return p.make(name, operands, kwargs=kwargs)
    node = p.emit(name, operands, None, kwargs=kwargs)
    places = iter(range(10**6))

    def items(shape: Shape) -> Result:
        if not isinstance(shape, Array):
            return tuple(items(part) for part in shape)
        place = next(places)
        return p.item(node, place, shape, f"item{place}")

    return items(p.at.shape)


def _reference(p: Program, value: Result) -> Any:
    if value is None:
        raise p.error("an operand holds no data", "take the text before it is scheduled")
    return value.ref if isinstance(value, Value) else [_reference(p, v) for v in value]


def attributes(p: Program) -> Json:
    """Attributes that may change the result, as text; computations as what they compute."""
    found: Json = {}
    for key, text in p.at.attributes.items():
        if key in SILENT:
            continue
        if key == "frontend_attributes":
            kept = [part for part in split(inside(text)) if not part.startswith(("xla.", "_xla"))]
            text = ",".join(kept)
        elif key in CALLS:
            text = called(p, key, text)
        if text:
            found[key.replace("-", "_")] = UNREADABLE.sub(" ", unquoted(text))
    return found


def called(p: Program, key: str, text: str) -> str:
    """Computations by what they compute: their names mean nothing."""
    names = split(inside(text)) if text.startswith("{") else [text]
    found = []
    for name in names:
        computation = p.module.computations.get(name.lstrip("%"))
        if computation is None:
            raise p.error(f"`{key}` names no computation ({name!r})", "dump the whole module")
        found.append(expression(p, computation))
    return " | ".join(found)


def expression(p: Program, computation: Computation, level: int = 0) -> str:
    """A computation as text that does not depend on names."""
    if level > 16:
        raise p.error("computations nest too deeply")
    steps: list[str] = []
    places: dict[str, int] = {}
    for at in _used(computation):
        if COLLECTIVE.match(at.opcode):
            raise p.error(f"its computation holds `{at.name}` ({at.opcode})", "take another pass")
        inner = " ".join(at.inner.split()) if not at.operands else ""
        parts = [f"%{places[name]}" for name in at.operands]
        for key, text in sorted(at.attributes.items()):
            if key in CALLS:
                module: Module = p.module
                for name in split(inside(text)) if text.startswith("{") else [text]:
                    nested = module.computations[name.lstrip("%")]
                    parts.append(f"{key}=({expression(p, nested, level + 1)})")
            elif key not in SILENT and key != "frontend_attributes":
                parts.append(f"{key}={text}")
        places[at.name] = len(steps)
        steps.append(f"{at.shape} {at.opcode}({inner}{', '.join(parts)})")
    return "; ".join(steps)


def _used(computation: Computation) -> list[Any]:
    """What the root needs, in order; parameters all of them, by number."""
    by_name = {at.name: at for at in computation.instructions}
    needed, left = {computation.root.name}, [computation.root.name]
    while left:
        for name in by_name[left.pop()].operands:
            if name not in needed:
                needed.add(name)
                left.append(name)
    rest = [at for at in computation.instructions if at.opcode != "parameter"]
    return [*computation.parameters, *(at for at in rest if at.name in needed)]


@lowers("custom-call")
def custom_call(p: Program) -> Result:
    """A call of a kernel outside of HLO: markers return what they get, others stay opaque."""
    target = unquoted(p.at.attributes.get("custom_call_target", ""))
    p.need(bool(target), "it names no `custom_call_target`")
    if target in REFUSED:
        raise p.error(REFUSED[target], "take the dump *after_spmd-partitioning*")
    if MARKERS.fullmatch(target):
        return _marker(p)
    if target in ("AwsNeuronRmsNorm",):
        return _rms_norm(p)
    name = re.sub(r"[^\w]", "_", target)
    if p.at.attributes.get("custom_call_has_side_effect") == "true":
        name += "_random"  # no two calls need give the same: never taken as equal
    kernel = {} if name == target else {"custom_call_target": UNREADABLE.sub(" ", target)}
    if signature(f"hlo.{name}") is not None:  # a kernel that is called like an operator of HLO
        name = f"custom_call_{name}"
    operands = [_reference(p, p.result(i)) for i in range(len(p.at.operands))]
    return given(p, f"hlo.{name}", operands, attributes(p) | kernel)


def _marker(p: Program) -> Result:
    """Its operands as they are."""
    given = [p.result(i) for i in range(len(p.at.operands))]
    if isinstance(p.at.shape, Array):
        p.need(len(given) == 1, f"it returns one of {len(given)} operands")
        return p.alias(p.operand(0))
    p.need(len(given) == len(p.at.shape), f"{len(given)} operands, {len(p.at.shape)} results")
    return tuple(given)


def _rms_norm(p: Program) -> Result:
    """NeuronX's RmsNorm over the dimension that `backend_config` names: brought to the front."""
    x, weight = p.operand(0), p.operand(1)
    config = unquoted(p.at.attributes.get("backend_config", "")).strip()
    dims = [i for i, n in enumerate(x.shape.dims) if weight.shape.dims == (n,)]
    if re.fullmatch(r"-?\d+", config):
        dims = [i for i in dims if i == int(config) % len(x.shape.dims)]
    rest = attributes(p)
    if not config or re.fullmatch(r"-?\d+", config):
        rest.pop("backend_config", None)
    p.need(len(dims) == 1, f"`backend_config` {config!r} is no dimension of its weight")
    more = [p.operand(i) for i in range(2, len(p.at.operands))]
    p.need(len(more) <= 1, f"it has {len(p.at.operands)} operands")
    args = [weight.ref, *(v.ref if v.number is None else v.number for v in more)]
    told = ", ".join(f"{key}={text}" for key, text in sorted(rest.items()))
    kwargs = {"attributes": told} if told else {}
    if dims == [0]:
        return p.make("hlo.AwsNeuronRmsNorm", [x.ref, *args], kwargs=kwargs)
    order = [dims[0], *(i for i in range(len(x.shape.dims)) if i != dims[0])]
    front = p.permuted(x, order, "front")
    shape = Array(p.array().dtype, front.shape.dims)
    normal = p.make("hlo.AwsNeuronRmsNorm", [front.ref, *args], shape, "normal", kwargs)
    return p.permuted(normal, [order.index(i) for i in range(len(order))])


NOT_READ = {
    "infeed": "what it reads comes from outside of the program",
    "outfeed": "what it writes leaves the program",
    "send": "it is a transfer to a host or of a pipeline that is not described",
    "recv": "it is a transfer from a host or of a pipeline that is not described",
    "send-done": "it belongs to a transfer that is not described",
    "recv-done": "it belongs to a transfer that is not described",
    "ragged-all-to-all": "sizes that depend on data are not described",
    "set-dimension-size": "a size that depends on data is not described",
    "get-dimension-size": "a size that depends on data is not described",
    "dynamic-reshape": "a size that depends on data is not described",
    "domain": "it belongs to a pass in the middle of the partitioner",
}


@lowers(*NOT_READ)
def refused(p: Program) -> Result:
    """What cannot be judged."""
    raise p.error(NOT_READ[p.at.opcode], "take the dump *after_spmd-partitioning*")


@lowers("rng", "rng-get-and-update-state")
def rng(p: Program) -> Result:
    """Random numbers, paired by their order: the name says so."""
    kind = p.at.attributes.get("distribution", "")
    name = {"rng_uniform": "uniform", "rng_normal": "normal"}.get(kind, "random")
    return opaque(p, f"hlo.rng_{name}")


__all__ = ["HANDLERS", "attributes", "expression", "given", "opaque"]
