"""Sample arguments of operators, recorded from torch's own operator tests.

Every OpInfo is run on its sample inputs under a dispatch mode that notes which overloads are called
with what; with gradients, so that backward kernels are among them. Operators that the dispatcher
takes apart before the mode sees them are called by their own name with the samples of the OpInfo.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import random
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

from .operators import base_of, is_functional, overload, told

Tensor = torch.Tensor
DTYPES = (torch.float64, torch.int64, torch.bool)  # recorded; others are put in their place
HERE = Path(__file__).resolve().parent
PER_OPINFO = 40
MANY = 1000  # calls of an operator that are kept
LARGEST = 600  # elements of an operand
FEW = 48  # samples of an operator


@dataclass(frozen=True)
class Slot:
    """The place of a tensor among the arguments."""

    index: int


@dataclass(frozen=True, eq=False)
class Sample:
    """A call of an operator: arguments with :class:`Slot` where its operands are."""

    target: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    operands: tuple[Tensor, ...]
    free: tuple[bool, ...] = ()  # may the operand hold any number of its type?

    @property
    def form(self) -> tuple[Any, ...]:
        """Samples of one form differ in extents and values only."""
        ranks = tuple((x.dim(), str(x.dtype)) for x in self.operands)
        return ranks, repr((self.args, sorted(self.kwargs.items())))

    def call(self, operands: Iterable[Tensor]) -> Any:
        """The operator on other operands."""
        given = list(operands)
        args, kwargs = filled((self.args, dict(self.kwargs)), given)
        return overload(self.target)(*args, **kwargs)


def filled(tree: Any, operands: list[Any]) -> Any:
    """Arguments with these in the places of the operands."""
    if isinstance(tree, Slot):
        return operands[tree.index]
    if isinstance(tree, (list, tuple)):
        return type(tree)(filled(part, operands) for part in tree)
    if isinstance(tree, dict):
        return {key: filled(part, operands) for key, part in tree.items()}
    return tree


PLAIN = (bool, int, float, str, torch.dtype, torch.layout, torch.device, torch.memory_format)


def sample_of(target: str, args: Any, kwargs: Any) -> Sample | None:
    """A call as a sample; None where an argument has no form in a graph, or is too large."""
    operands: list[Tensor] = []

    def slot(value: Any) -> Any:
        if isinstance(value, Tensor):
            operands.append(value.detach().resolve_conj().resolve_neg().contiguous().clone())
            return Slot(len(operands) - 1)
        return value

    if any(isinstance(v, Tensor) and not _small(v) for v in tree_flatten((args, kwargs))[0]):
        return None
    args, kwargs = tree_map(slot, (tuple(args), dict(kwargs)))
    leaves = tree_flatten((args, kwargs))[0]
    if not all(v is None or isinstance(v, (*PLAIN, Slot)) for v in leaves):
        return None
    return Sample(target, args, kwargs, tuple(operands))


def _small(value: Tensor) -> bool:
    plain = value.layout == torch.strided and not value.is_complex() and not value.is_quantized
    return plain and value.device.type == "cpu" and 0 < value.numel() <= LARGEST


# ---- recording
@dataclass
class Recorder(TorchDispatchMode):
    """Notes every call."""

    found: dict[str, dict[Any, Sample]] = field(default_factory=lambda: defaultdict(dict))

    def __post_init__(self) -> None:
        super().__init__()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.note(str(func), args, kwargs or {})
        return func(*args, **(kwargs or {}))

    def note(self, target: str, args: Any, kwargs: Any) -> None:
        """One call, if the oracle can make something of it; in-place calls count as functional."""
        if target.count(".") < 2 or not told(target):
            return
        if not is_functional(target):
            target = f"{base_of(target)}.{target.rpartition('.')[2]}"
            if overload(target) is None or not is_functional(target):
                return
        leaves = tree_flatten((args, kwargs))[0]
        key = tuple(_told(v) for v in leaves)
        have = self.found.get(target, {})
        if key in have or len(have) >= MANY:
            return
        if (sample := sample_of(target, args, kwargs)) is not None:
            self.found[target][key] = sample


def _told(value: Any) -> Any:
    """What tells samples apart: extents and type of a tensor, anything else as it is."""
    return (tuple(value.shape), value.dtype) if isinstance(value, Tensor) else repr(value)


def _opinfos() -> Iterator[tuple[Any, dict[str, Any]]]:
    from torch.testing._internal import common_methods_invocations as db

    for op in db.op_db:
        yield op, {}
    few = {"noncontiguous": False, "same_size": True, "num_input_tensors": [2]}
    for name in ("unary", "binary", "pointwise", "reduce", "other"):
        for op in getattr(db, f"foreach_{name}_op_db"):
            yield op, few


_found: dict[str, list[Sample]] = {}


def recorded() -> dict[str, list[Sample]]:
    """All samples by target; they are kept below `build`, for recording them takes a while."""
    if not _found:
        _found.update(_kept())
    return _found


def restrict(names: Iterable[str]) -> None:
    """From now on only samples of these OpInfos: to record them takes seconds."""
    found = record(frozenset(names))
    _found.clear()
    _found.update(found)


def _kept() -> dict[str, list[Sample]]:
    sources = "".join((HERE / f"{n}.py").read_text("utf-8") for n in ("samples", "operators"))
    mark = hashlib.sha256((torch.__version__ + sources).encode()).hexdigest()[:16]
    kept = HERE.parents[1] / "build" / "oracle" / f"samples-{mark}.pickle"
    if kept.is_file():
        found: dict[str, list[Sample]] = pickle.loads(kept.read_bytes())
        return found
    found = record()
    kept.parent.mkdir(parents=True, exist_ok=True)
    partial_ = kept.with_suffix(f".{os.getpid()}")
    partial_.write_bytes(pickle.dumps(found))
    partial_.rename(kept)
    return found


def record(names: frozenset[str] | None = None) -> dict[str, list[Sample]]:
    """All samples by target, or those of some OpInfos, recorded now."""
    recorder = Recorder()
    with warnings.catch_warnings(), torch.random.fork_rng():
        warnings.simplefilter("ignore")
        torch.manual_seed(0)
        for op, more in _opinfos():
            for dtype in DTYPES if names is None or op.name in names else ():
                if dtype in op.dtypes:
                    _run(recorder, op, dtype, more)
        for run in functions() if names is None else ():
            with recorder:
                run()
    for target, args, kwargs in extra():
        recorder.note(target, args, kwargs)
    return {t: _marked(t, list(s.values())) for t, s in sorted(recorder.found.items())}


def _run(recorder: Recorder, op: Any, dtype: torch.dtype, more: dict[str, Any]) -> None:
    backward = dtype == torch.float64 and op.supports_autograd
    try:
        for sample in islice(op.sample_inputs("cpu", dtype, backward, **more), PER_OPINFO):
            _call(recorder, op, sample, backward)
    except Exception:  # some generators want packages or devices that are not there
        return


def _call(recorder: Recorder, op: Any, sample: Any, backward: bool) -> None:
    try:
        _by_name(recorder, op, sample)
        with recorder:
            out = op(sample.input, *sample.args, **sample.kwargs)
            outs = [x for x in tree_flatten(out)[0] if isinstance(x, Tensor) and x.requires_grad]
            if backward and outs:
                torch.autograd.backward(outs, [torch.rand_like(x) for x in outs])
    except Exception:  # what this machine cannot compute
        return


def _by_name(recorder: Recorder, op: Any, sample: Any) -> None:
    """The operators of ATen that are called like the OpInfo, or like an alias of it."""
    names = {op.aten_name, op.name.rpartition(".")[2], *(a.name for a in op.aliases)}
    names = {*names, *(name.replace(".", "_") for name in names), *SAME.get(op.aten_name, ())}
    for name in sorted(n for n in names if n):
        packet = getattr(torch.ops.aten, name, None)
        for which in packet.overloads() if packet is not None else ():
            _try(recorder, f"aten.{name}.{which}", (sample.input, *sample.args), sample.kwargs)


# Operators without an OpInfo that take what another one takes.
SAME = {"t": ["numpy_T"], "clone": ["lift_fresh_copy"], "sigmoid": ["special_expit"],
        "index_put": ["_unsafe_index_put", "_index_put_impl"]}  # fmt: skip


def _try(recorder: Recorder, target: str, args: Any, kwargs: Any) -> bool:
    if not told(target) or overload(target) is None or not is_functional(target):
        return False
    try:
        plain = tree_map(lambda x: x.detach() if isinstance(x, Tensor) else x, (args, kwargs))
        overload(target)(*plain[0], **plain[1])
    except Exception:
        return False
    recorder.note(target, args, kwargs)
    return True


def functions() -> Iterator[Callable[[], Any]]:
    """What to run beside the OpInfos, with gradients."""

    def attention(causal: bool, heads: int) -> None:
        q, k, v = (
            torch.randn(2, heads, 6, 4, requires_grad=True, dtype=torch.float64) for _ in "qkv"
        )
        out = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
        out.backward(torch.rand_like(out))

    yield from (partial(attention, causal, heads) for causal in (False, True) for heads in (2, 6))


def extra() -> Iterator[tuple[str, tuple[Any, ...], dict[str, Any]]]:
    """What no OpInfo speaks of."""
    x, y = torch.randn(6, 5, dtype=torch.float64), torch.randint(-9, 9, (6, 4))
    for given, dtype in ((x, torch.float32), (x, torch.int64), (x, torch.bool), (y, torch.float64),
                         (y, torch.uint8), (y, torch.int32), (y.bool(), torch.int64)):  # fmt: skip
        yield "prims.convert_element_type.default", (given, dtype), {}
        yield "aten.to.dtype", (given, dtype), {}
        yield "aten.to.dtype_layout", (given,), {"dtype": dtype}
        yield "aten.to.other", (given, torch.zeros(2, dtype=dtype)), {}
        yield "aten.type_as.default", (given, torch.zeros(2, dtype=dtype)), {}
    yield "aten.to.dtype", (x, x.dtype), {}
    yield "aten.type_as.default", (x, x + 1), {}
    yield "prims.view_of.default", (x,), {}
    yield "aten.slice_scatter.default", (x, x[1:3] + 1, 0, 1, 3), {}
    yield "aten.slice_scatter.default", (x, x[:, ::2] + 1, 1, 0, 5, 2), {}
    yield "prims.iota.default", (6,), {
        "start": 1, "step": 2, "dtype": torch.int64, "device": torch.device("cpu"), "requires_grad": False
    }  # fmt: skip
    w = torch.randn(5, dtype=torch.float64)
    for weight, eps in ((w, 1e-5), (None, 1e-6), (w, None), (None, None)):
        for given in (x, x.reshape(2, 3, 5)):
            yield "aten._fused_rms_norm.default", (given, [5], weight, eps), {}
            yield "aten.rms_norm.default", (given, [5], weight, eps), {}
    rstd = torch.rand(6, 1, dtype=torch.float64)
    yield "aten._fused_rms_norm_backward.default", (x, x + 1, [5], rstd, w, [True, True]), {}


def _marked(target: str, samples: list[Sample]) -> list[Sample]:
    """With what may stand in each place: a place where floats and integers both occur takes any
    number, one where only integers do is taken for positions."""
    floats = {i for s in samples for i, x in enumerate(s.operands) if x.is_floating_point()}
    return [
        Sample(s.target, s.args, s.kwargs, s.operands,
               tuple(i in floats or x.dtype == torch.bool or _arithmetic(target) for i, x in enumerate(s.operands)))
        for s in samples
    ]  # fmt: skip


def _arithmetic(target: str) -> bool:
    return any(word in target for word in ("bitwise", "shift", "gcd", "lcm", "prims.convert"))


def chosen(target: str, rng: random.Random, few: int = FEW) -> list[Sample]:
    """Some samples of an operator, of as many forms as there are."""
    by_form: dict[Any, list[Sample]] = defaultdict(list)
    for sample in recorded().get(target, ()):
        by_form[sample.form].append(sample)
    forms = [
        rng.sample(found, len(found))
        for _, found in sorted(by_form.items(), key=lambda x: repr(x[0]))
    ]
    rng.shuffle(forms)
    rounds = (
        islice((f[i] for f in forms if i < len(f)), few)
        for i in range(max(map(len, forms), default=0))
    )
    return list(islice(chain.from_iterable(rounds), few))
