"""Pairs of PyTorch functions, wrong ones and right ones that look like them, as FX texts.

Each is a function of one process and one of every rank of two; inputs that have a rank's name are
sharded along dimension 0. Torch says what is right: :func:`truths` runs the traced graphs, ranks in
step. Many pairs are one graph with many results, so that the rules run once."""

from __future__ import annotations

import ast
import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.fx.experimental.proxy_tensor import make_fx

from gg_datalog.extract.signature import signature

aten, prims, c10d = torch.ops.aten, torch.ops.prims, torch.ops._c10d_functional
GROUP = "0"
U8, I8, I32, I64 = torch.uint8, torch.int8, torch.int32, torch.int64
F32, F64, BOOL = torch.float32, torch.float64, torch.bool


@dataclass(frozen=True)
class Pair:
    """``right`` is None where it may be right, and need not be seen to be; ``parts`` says for each
    input whether a rank has half of its rows. ``told`` is True where what is read has not arrived,
    or may not have: torch cannot be asked."""

    seq: Callable[..., Any]
    rank: Callable[..., Any]
    right: bool | None
    types: tuple[Any, ...]
    shape: tuple[int, ...]
    parts: bool
    told: bool = False


PAIRS: dict[str, dict[str, Pair]] = {}


def pair(
    family: str,
    name: str,
    right: bool | None,
    seq: Callable[..., Any],
    rank: Callable[..., Any] | None = None,
    types: Sequence[Any] = (F32,),
    parts: bool = False,
    shape: tuple[int, ...] = (4, 6),
    told: bool = False,
) -> None:
    """A pair."""
    rows = PAIRS.setdefault(family, {})
    assert name not in rows, name
    rows[name] = Pair(seq, rank or seq, right, tuple(types), shape, parts, told)


# ---- graphs
def inputs(pairs: Sequence[Pair], seed: int) -> list[torch.Tensor]:
    """Numbers for every input; integers over their range."""
    torch.manual_seed(seed)
    return [number(one.shape, dtype) for one in pairs for dtype in one.types]


def number(shape: Sequence[int], dtype: Any) -> torch.Tensor:
    """Floats with quarters; small and large integers; truth values."""
    if dtype is BOOL:
        return torch.rand(shape) < 0.5
    if dtype.is_floating_point:
        return (torch.randn(shape) * 8).round().to(dtype) / 4
    ends = torch.iinfo(dtype)
    far = torch.randint(max(ends.min, -(2**62)), min(ends.max, 2**62), shape).to(dtype)
    return torch.where(torch.rand(shape) < 0.5, far, torch.randint(0, 60, shape).to(dtype))


def half(pairs: Sequence[Pair], whole: Sequence[torch.Tensor], rank: int) -> list[torch.Tensor]:
    """What a rank has."""
    parts = [one.parts for one in pairs for _ in one.types]
    return [t.chunk(2)[rank].clone() if p else t.clone() for t, p in zip(whole, parts, strict=True)]


@cache
def graph(pairs: tuple[Pair, ...], rank: int | None) -> Any:
    """The traced graph of one process, or of a rank; the same for all who ask."""
    whole = inputs(pairs, 0)
    given = whole if rank is None else half(pairs, whole, rank)

    def every(*values: torch.Tensor) -> list[Any]:
        left, out = list(values), []
        for one in pairs:
            mine = [left.pop(0) for _ in one.types]
            out.append((one.seq if rank is None else one.rank)(*mine))
        return out

    with fake_group():
        return make_fx(every, pre_dispatch=True)(*given)


@contextlib.contextmanager
def fake_group() -> Iterator[None]:
    """A group of two that sends nothing, to trace by."""
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.init_process_group("fake", rank=0, world_size=2, store=FakeStore())
    try:
        yield
    finally:
        dist.destroy_process_group()


def texts(pairs: Iterable[Pair], folder: Path) -> list[Path]:
    """The graphs printed by torch: the sequential one, and one per rank."""
    files = []
    for name, rank in (("seq", None), ("rank0", 0), ("rank1", 1)):
        files.append(folder / f"{name}.txt")
        files[-1].write_text(graph(tuple(pairs), rank).print_readable(print_output=False))
    return files


class _Spelling(ast.NodeTransformer):
    def visit_Call(self, call: ast.Call) -> ast.Call:
        target = ast.unparse(call.func).removeprefix("torch.ops.")
        known = signature(target)
        if known is None:
            return call
        names = [p.name for p in known.parameters]
        words = [ast.keyword(name, value) for name, value in zip(names, call.args, strict=False)]
        return ast.Call(call.func, [], [*call.keywords, *words])


def by_name(text: str) -> str:
    """A printed graph with every argument by its name, the last ones first."""
    return ast.unparse(_Spelling().visit(ast.parse(text.replace("<lambda>", "Graph")))) + "\n"


# ---- what torch says
class Member(torch.fx.Interpreter):
    """One rank: it waits for the others where they exchange."""

    def __init__(self, module: Any, rank: int, table: list[Any], barrier: Any) -> None:
        super().__init__(module)
        self.rank, self.table, self.barrier = rank, table, barrier

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        """Torch's operator, or the exchange."""
        if target.__name__.startswith("getitem") or target.namespace != "_c10d_functional":
            return super().call_function(target, args, kwargs)
        name = target._schema.name.split("::")[1]
        if name == "wait_tensor":
            return args[0]
        names = [a.name for a in target._schema.arguments]
        given = dict(zip(names, args, strict=False)) | kwargs
        self.table[self.rank] = given["input"].clone()
        self.barrier.wait()
        parts = list(self.table)
        self.barrier.wait()
        made = exchanged(name.removesuffix("_"), parts, given.get("reduce_op"), self.rank)
        return given["input"].copy_(made) if name.endswith("_") else made


def exchanged(name: str, parts: list[torch.Tensor], by: str | None, rank: int) -> torch.Tensor:
    """What a rank is given."""
    if name == "all_gather_into_tensor":
        return torch.cat(parts)
    stacked = torch.stack(parts)
    made = {
        "sum": lambda: parts[0] + parts[1],
        "avg": lambda: (parts[0] + parts[1]) / 2,
        "max": lambda: stacked.amax(0),
        "min": lambda: stacked.amin(0),
        "product": lambda: parts[0] * parts[1],
    }[str(by)]()
    return made.chunk(2)[rank] if name == "reduce_scatter_tensor" else made.clone()


def run(modules: Sequence[Any], given: Sequence[Sequence[torch.Tensor]]) -> list[list[Any]]:
    """What every rank returns."""
    barrier, table = threading.Barrier(len(modules)), [None] * len(modules)
    found: list[Any] = [None] * len(modules)

    def one(rank: int) -> None:
        try:
            found[rank] = Member(modules[rank], rank, table, barrier).run(*given[rank])
        except BaseException:
            barrier.abort()
            raise

    threads = [threading.Thread(target=one, args=(rank,)) for rank in range(len(modules))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


@cache
def truths(pairs: tuple[Pair, ...], seeds: int = 6) -> list[bool]:
    """Whether what the ranks return is what one process does: the same, or parts of it."""
    seq, *ranks = (graph(pairs, rank) for rank in (None, 0, 1))
    held: list[set[Any]] = [{None, 0, 1} for _ in pairs]
    for seed in range(seeds):
        whole = inputs(pairs, seed)
        (one,) = run([seq], [[t.clone() for t in whole]])
        two = run(ranks, [half(pairs, whole, r) for r in (0, 1)])
        for place, total in enumerate(one):
            held[place] &= set(placements(total, [found[place] for found in two]))
    return [bool(found) and not one.told for found, one in zip(held, pairs, strict=True)]


def placements(whole: torch.Tensor, parts: Sequence[torch.Tensor]) -> Iterator[int | None]:
    """How parts make up the whole: None where each is the whole, else a dimension."""
    if all(same(p, whole) for p in parts):
        yield None
    for dim in range(whole.dim()):
        if parts[0].dim() == whole.dim() and same(torch.cat(list(parts), dim), whole):
            yield dim


def same(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Equal; of floats nearly."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    return torch.allclose(a, b, 1e-4, 1e-4, True) if a.is_floating_point() else torch.equal(a, b)


# ---- writes through what lies in the same memory
def through(view: Callable[..., Any]) -> Callable[..., Any]:
    """Writes into a view of a copy, and returns what is made of the copy."""

    def seq(x: torch.Tensor) -> torch.Tensor:
        y = aten.clone(x)
        made = view(y)
        made = made[0] if isinstance(made, (list, tuple)) else made
        aten.add_.Scalar(made, 1)
        return aten.exp(y)

    return seq


VIEWS: dict[str, Callable[..., Any]] = {
    "hsplit": lambda y: aten.hsplit.int(y, 2),
    "vsplit": lambda y: aten.vsplit.int(y, 2),
    "dsplit": lambda y: aten.dsplit.int(aten.unsqueeze(y, 0), 2),
    "mT": aten.mT,
    "mH": aten.mH,
    "matrix_H": aten.matrix_H,
    "adjoint": aten.adjoint,
    "numpy_T": aten.numpy_T,
    "type_as": lambda y: aten.type_as(y, y),
    "positive": aten.positive,
    "resolve_conj": aten.resolve_conj,
    "resolve_neg": aten.resolve_neg,
    "atleast_1d": aten.atleast_1d,
    "atleast_2d": aten.atleast_2d,
    "atleast_3d": aten.atleast_3d,
    "detach": aten.detach,
    "alias": aten.alias,
    "to.dtype": lambda y: aten.to.dtype(y, F32),
    "contiguous": aten.contiguous,
    "view_of": prims.view_of,
    "view_as": lambda y: aten.view_as(y, y),
    "movedim": lambda y: aten.movedim.int(y, 0, 1),
    "moveaxis": lambda y: aten.moveaxis.int(y, 0, 1),
    "swapaxes": lambda y: aten.swapaxes(y, 0, 1),
    "swapdims": lambda y: aten.swapdims(y, 0, 1),
    "tensor_split": lambda y: aten.tensor_split.sections(y, 3),
    "chunk": lambda y: aten.chunk(y, 2),
    "unbind": lambda y: aten.unbind(y),
    "split": lambda y: aten.split.Tensor(y, 2),
    "narrow": lambda y: aten.narrow(y, 0, 1, 2),
    "select": lambda y: aten.select(y, 0, 1),
    "diagonal": aten.diagonal,
    "unfold": lambda y: aten.unfold(y, 0, 1, 1),
    "expand_as": lambda y: aten.expand_as(y, y),
    "ravel": aten.ravel,
    "flatten": aten.flatten,
    "unflatten": lambda y: aten.unflatten.int(y, 0, [2, 2]),
    "reshape": lambda y: aten.reshape(y, [-1]),
    "squeeze": aten.squeeze,
    "unsqueeze": lambda y: aten.unsqueeze(y, 1),
    "view": lambda y: aten.view(y, [2, 12]),
    "as_strided": lambda y: aten.as_strided(y, [2, 2], [6, 1]),
    "real": aten.real,
}
COPIES: dict[str, Callable[..., Any]] = {
    "_to_copy": lambda y: aten._to_copy(y, dtype=F32),
    "clone": aten.clone,
    "to copy": lambda y: aten.to.dtype(y, F32, False, True),
    "to another type": lambda y: aten.to.dtype(y, F64),
    "view_copy": lambda y: aten.view_copy(y, [24]),
    "repeat": lambda y: aten.repeat(y, [1, 1]),
    "neg": aten.neg,
}
for name, view in (VIEWS | COPIES).items():
    family = "copies by to" if name in ("to copy", "to another type") else "views"
    pair(family, f"a write through {name}", name in COPIES, through(view), aten.exp)
    pair(family, f"a write through {name} on both sides", None, through(view))


# ---- writes that no underscore tells
def norm(training: bool, after: bool) -> Callable[..., Any]:
    """Running statistics after a batch norm, or before it."""

    def seq(x: torch.Tensor, m: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        mean, var = aten.clone(m[0]), aten.clone(aten.abs(v[0]))
        if after:
            aten.native_batch_norm(x, None, None, mean, var, training, 0.5, 1e-5)
        return aten.add.Tensor(mean, var)

    return seq


def out_of(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """What a kernel wrote into the memory that it was given."""

    def seq(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        into = aten.clone(y)
        kernel(x, into)
        return aten.exp(into)

    return seq


def index_like(x: torch.Tensor) -> torch.Tensor:
    return torch.zeros(x.shape, dtype=I64)


WRITERS: dict[str, Callable[..., Any]] = {
    "add.out": lambda x, o: aten.add.out(x, x, out=o),
    "sort.values": lambda x, o: aten.sort.values(x, 0, False, values=o, indices=index_like(x)),
    "topk.values": lambda x, o: aten.topk.values(x, 6, values=o, indices=index_like(x)),
    "cummax.out": lambda x, o: aten.cummax.out(x, 0, values=o, indices=index_like(x)),
    "max.dim_max": lambda x, o: aten.max.dim_max(
        x, 0, True, max=o[:1], max_values=index_like(x[:1])
    ),
    "copy_": lambda x, o: aten.copy_(o, x),
    "rrelu_with_noise": lambda x, o: aten.rrelu_with_noise(x, o, 0.1, 0.1, True),
    "add_ of a list": lambda x, o: aten._foreach_add_.Scalar([o], 1.0),
}
pair("writes", "running statistics", False, norm(True, True), norm(True, False), (F32,) * 3)
pair(
    "writes",
    "running statistics, not in training",
    True,
    norm(False, True),
    norm(False, False),
    (F32,) * 3,
)
for name, kernel in WRITERS.items():
    pair("writes", name, False, out_of(kernel), lambda x, y: aten.exp(y), (F32, F32))


# ---- reductions under any spelling
def reduced(by: str, how: str = "", cast: Any = None) -> Callable[..., Any]:
    """Rows added up, then combined over ranks."""

    def rank(x: torch.Tensor) -> torch.Tensor:
        total = aten.sum.dim_IntList(x, [0], dtype=x.dtype)
        total = total if cast is None else aten._to_copy(total, dtype=cast)
        kernel = c10d.all_reduce_ if "in place" in how else c10d.all_reduce
        made = kernel(total, by, GROUP)
        return made if "no wait" in how else c10d.wait_tensor(made)

    return rank


def early(x: torch.Tensor) -> torch.Tensor:
    mine = total(x)
    made = c10d.all_reduce_(mine, "sum", GROUP)
    found = aten.exp(mine)
    c10d.wait_tensor(made)
    return found


def late(x: torch.Tensor) -> torch.Tensor:
    made = c10d.all_reduce(total(x), "sum", GROUP)
    c10d.wait_tensor(made)
    return aten.exp(made)


def total(x: torch.Tensor) -> torch.Tensor:
    return aten.sum.dim_IntList(x, [0], dtype=x.dtype)


for by in ("sum", "avg", "max", "min", "product"):
    for how in ("waited for", "in place"):
        pair(
            "reductions", f"all_reduce {by} {how}", by == "sum", total, reduced(by, how), parts=True
        )
pair(
    "waits",
    "all_reduce that is not waited for",
    False,
    lambda x: aten.exp(total(x)),
    lambda x: aten.exp(reduced("sum", "no wait")(x)),
    parts=True,
    told=True,
)
pair(
    "waits",
    "all_reduce in place that is not waited for",
    False,
    lambda x: aten.exp(total(x)),
    lambda x: aten.exp(reduced("sum", "in place, no wait")(x)),
    parts=True,
    told=True,
)
pair(
    "waits",
    "all_reduce in place, read before it is waited for",
    False,
    lambda x: aten.exp(total(x)),
    lambda x: early(x),
    parts=True,
    told=True,
)
pair(
    "waits",
    "what is waited for under its first name",
    None,
    lambda x: aten.exp(total(x)),
    lambda x: late(x),
    parts=True,
)
for by, kernel in (("max", aten.amax), ("min", aten.amin)):
    pair(
        "reductions",
        f"{by} of rows",
        True,
        lambda x, k=kernel: k(x, [0]),
        lambda x, k=kernel, b=by: c10d.wait_tensor(c10d.all_reduce(k(x, [0]), b, GROUP)),
        parts=True,
    )
pair(
    "reductions",
    "avg of rows",
    True,
    lambda x: aten.mean.dim(x, [0]),
    lambda x: c10d.wait_tensor(
        c10d.all_reduce(aten.mean.dim(x, [0]), reduce_op="avg", group_name=GROUP)
    ),
    parts=True,
)
for by in ("sum", "avg", "max"):
    pair(
        "reductions",
        f"reduce_scatter {by}",
        by == "sum",
        lambda x: aten.mul.Tensor(x, 2),
        lambda x, b=by: c10d.wait_tensor(c10d.reduce_scatter_tensor(x, b, 2, GROUP)),
    )


# ---- integers
def cast_after(kernel: Callable[..., Any], to: Any) -> Callable[..., Any]:
    return lambda *x: aten._to_copy(kernel(*x), dtype=to)


def cast_before(kernel: Callable[..., Any], to: Any) -> Callable[..., Any]:
    return lambda *x: kernel(*(aten._to_copy(v, dtype=to) for v in x))


ONE: dict[str, Callable[..., Any]] = {
    "neg": aten.neg,
    "abs": aten.abs,
    "bitwise_not": aten.bitwise_not,
    "add 7": lambda x: aten.add.Tensor(x, 7),
    "mul 3": lambda x: aten.mul.Tensor(x, 3),
    "rsub 1": lambda x: aten.rsub.Scalar(x, 1),
    "pow 2": lambda x: aten.pow.Tensor_Scalar(x, 2),
    "square": aten.square,
    "sum": lambda x: aten.sum.dim_IntList(x, [0], dtype=x.dtype),
    "cumsum": lambda x: aten.cumsum(x, 0, dtype=x.dtype),
    "shift": lambda x: aten.bitwise_left_shift.Tensor_Scalar(x, 2),
}
TWO: dict[str, Callable[..., Any]] = {
    "add": aten.add.Tensor,
    "sub": aten.sub.Tensor,
    "sub alpha": lambda x, y: aten.sub.Tensor(x, y, alpha=3),
    "mul": aten.mul.Tensor,
    "mm": lambda x, y: aten.mm(x, aten.t(y)),
    "below": lambda x, y: aten._to_copy(aten.lt.Scalar(aten.sub.Tensor(x, y), 0), dtype=I64),
}
for t in (U8, I8, I32, I64):
    word = str(t).removeprefix("torch.")
    for kernels, types in ((ONE, (t,)), (TWO, (t, t))):
        for name, kernel in kernels.items():
            if name in ("bitwise_not", "shift", "below"):
                to = I64 if t is not I64 else I32
            else:
                to = F64
            if not (name == "abs" and t is U8):
                pair(
                    "integers",
                    f"{name} in {word}, then a cast",
                    None,
                    cast_after(kernel, to),
                    cast_before(kernel, to),
                    types,
                )
            pair(
                "integers",
                f"{name} in {word} on both sides",
                True,
                cast_after(kernel, to),
                None,
                types,
            )
    pair("integers", f"sum over ranks in {word}", True, total, reduced("sum"), (t,), True)
    pair(
        "integers",
        f"sum over ranks in {word}, then a cast",
        True,
        cast_after(total, F64),
        cast_after(reduced("sum"), F64),
        (t,),
        True,
    )
    pair(
        "integers",
        f"sum over ranks of {word} after a cast",
        None,
        cast_after(total, F64),
        reduced("sum", cast=F64),
        (t,),
        True,
    )
    pair(
        "integers",
        f"division of {word} before the sum",
        False,
        lambda x: aten.floor_divide(total(x), 2),
        lambda x: c10d.wait_tensor(c10d.all_reduce(total(aten.floor_divide(x, 2)), "sum", GROUP)),
        (t,),
        True,
    )
pair(
    "integers",
    "a count of truth values",
    True,
    lambda x: aten.sum.dim_IntList(x, [0]),
    lambda x: c10d.wait_tensor(c10d.all_reduce(aten.sum.dim_IntList(x, [0]), "sum", GROUP)),
    (BOOL,),
    True,
)
pair(
    "integers",
    "a count, and a sum over ranks of truth values",
    False,
    lambda x: aten.sum.dim_IntList(x, [0]),
    lambda x: aten._to_copy(
        c10d.wait_tensor(c10d.all_reduce(aten.any.dim(x, 0), "sum", GROUP)), dtype=I64
    ),
    (BOOL,),
    True,
)
pair(
    "integers",
    "any over ranks",
    None,
    lambda x: aten.any.dim(x, 0),
    lambda x: c10d.wait_tensor(c10d.all_reduce(aten.any.dim(x, 0), "max", GROUP)),
    (BOOL,),
    True,
)
pair(
    "integers",
    "a cast of a sum of floats",
    False,
    lambda x, y: aten._to_copy(x + y, dtype=I64),
    lambda x, y: aten._to_copy(x, dtype=I64) + aten._to_copy(y, dtype=I64),
    (F32, F32),
)

# ---- numbers that are no numbers
pair(
    "zeros",
    "-inf times 0",
    False,
    lambda x: x + aten.full([4, 6], -float("inf")) * 0,
    lambda x: aten.clone(x),
)
pair(
    "zeros",
    "log of 0 times 0",
    False,
    lambda x: x + aten.log(aten.zeros([4, 6])) * 0,
    lambda x: aten.clone(x),
)
pair(
    "zeros",
    "alpha of 0",
    False,
    lambda x: aten.add.Tensor(x, aten.full([4, 6], float("inf")), alpha=0),
    lambda x: aten.clone(x),
)
pair(
    "zeros",
    "alpha",
    False,
    lambda x, y: aten.add.Tensor(x, y, alpha=2),
    lambda x, y: x + y,
    (F32, F32),
)
pair(
    "zeros",
    "alpha as a factor",
    True,
    lambda x, y: aten.add.Tensor(x, y, alpha=2),
    lambda x, y: x + y * 2,
    (F32, F32),
)

# ---- norms
pair(
    "norms",
    "over both dimensions",
    False,
    lambda x: aten.layer_norm(x, [4, 6]),
    lambda x: aten.layer_norm(x, [6]),
)
pair(
    "norms",
    "over a dimension that is cut",
    False,
    lambda x: aten.layer_norm(x, [4, 6]),
    lambda x: aten.layer_norm(x, [2, 6]),
    parts=True,
)
pair(
    "whole norms",
    "over a dimension that is whole",
    True,
    lambda x: aten.layer_norm(x, [6]),
    parts=True,
)
pair(
    "norms",
    "rms over both dimensions",
    False,
    lambda x: aten.rms_norm(x, [4, 6]),
    lambda x: aten.rms_norm(x, [6]),
)
pair(
    "precision",
    "rms in two precisions",
    False,
    lambda x: aten.rms_norm(x * 1e-3, [6]),
    lambda x: aten._to_copy(aten.rms_norm(aten._to_copy(x * 1e-3, dtype=F64), [6]), dtype=F32),
)
