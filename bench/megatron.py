"""Layers in the manner of Megatron-LM: tensor, sequence and vocabulary parallel.

One source writes both programs, as both run the same source: a graph without a rank takes the
paths of a group of one.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from graphs import Graph
from shapes import Tensor

EPSILON = 1e-05
DROPOUT = 0.1


@dataclass(frozen=True)
class Sizes:
    """Sizes of the model; the defaults divide by up to 16 ranks (and by 48 heads)."""

    layers: int = 1
    ranks: int = 2
    hidden: int = 768
    heads: int = 48
    ffn: int = 3072
    vocab: int = 98304
    seq: int = 1536
    batch: int = 8


@dataclass
class Layers:
    """Writes layers into a graph. `saved` is what the forward pass keeps for the backward pass."""

    sizes: Sizes
    g: Graph
    saved: dict[str, Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.parallel = self.g.rank is not None
        self.ranks = self.sizes.ranks if self.parallel else 1
        self.rank = self.g.rank or 0
        self.group = "tp" if self.parallel else "self"
        self.device = {"device": f"cuda:{self.rank}"}
        self.vocab = self.sizes.vocab // self.ranks
        self.tokens = self.sizes.seq * self.sizes.batch

    def save(self, *tensors: Tensor) -> None:
        """Keep tensors for backward."""
        self.saved.update({tensor.name: tensor for tensor in tensors})

    def empty(self, *shape: int) -> Tensor:
        """Uninitialised memory."""
        dtype = {"dtype": "float32"}
        return self.g.aten(
            "empty.memory_format", list(shape), dtype=dtype, device=self.device, pin_memory=False
        )

    def contiguous(self, x: Tensor) -> Tensor:
        """A contiguous copy."""
        return self.g.aten("clone", x, memory_format={"memory_format": "contiguous_format"})

    def all_reduce(self, x: Tensor, reduction: str) -> Tensor:
        """All-reduce in place: the result is copied back over the operand."""
        reduced = self.g.call("_c10d_functional.all_reduce.default", x, reduction, self.group)
        return self.g.aten("copy", x, self.wait(reduced))

    def wait(self, x: Tensor) -> Tensor:
        """Wait for a collective."""
        return self.g.call("_c10d_functional.wait_tensor.default", x)

    def gather(self, x: Tensor) -> Tensor:
        """From a rank's part of the sequence to all of it, before a column-parallel layer."""
        if not self.parallel:
            copied = self.g.aten("view", x, list(x.shape))
            self.save(copied)
            return copied
        self.save(x)
        target = "_c10d_functional.all_gather_into_tensor.default"
        return self.wait(self.g.call(target, x, self.ranks, self.group))

    def scatter(self, x: Tensor) -> Tensor:
        """From partial sums of the sequence to a rank's part of the sum."""
        if not self.parallel:
            return self.g.aten("view", x, list(x.shape))
        seq, *rest = x.shape
        buffer = self.empty(seq // self.ranks, *rest)
        target = "_c10d_functional.reduce_scatter_tensor.default"
        return self.g.aten(
            "copy", buffer, self.wait(self.g.call(target, x, "sum", self.ranks, self.group))
        )

    def dropout(self, x: Tensor) -> Tensor:
        """Dropout with its own random mask."""
        results = self.g.multi("aten.native_dropout.default", x, DROPOUT, True)
        kept = self.g.getitem(results, 0)
        self.save(self.g.getitem(results, 1))
        return kept

    def norm(self, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        """Layer norm; its statistics are results too."""
        target = "apex.fused_layer_norm_affine_fwd.default"
        results = self.g.multi(target, x, weight, bias, [self.sizes.hidden], EPSILON)
        normed = self.g.getitem(results, 0)
        self.save(weight, bias, self.g.getitem(results, 1), self.g.getitem(results, 2))
        return normed

    def linear(self, x: Tensor, weight: Tensor) -> Tensor:
        """A matrix product over the last dimension of `[seq, batch, features]`."""
        transposed = self.g.aten("t", weight)
        flat = self.g.aten("view", x, [self.tokens, x.shape[2]])
        product = self.g.aten("mm", flat, transposed)
        return self.g.aten("view", product, [*x.shape[:2], weight.shape[0]])

    def column(self, x: Tensor, weight: Tensor) -> Tensor:
        """A column-parallel layer without its bias."""
        if not self.parallel:
            self.save(weight)
        return self.linear(self.gather(x), weight)

    def row(self, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        """A row-parallel layer; the bias is added to the reduced sum."""
        self.save(weight)
        return self.g.aten("add.Tensor", self.scatter(self.linear(x, weight)), bias)

    def outside(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Which ids the rank's vocabulary does not hold, and ids into it, 0 for those."""
        start = self.rank * self.vocab
        below = self.g.aten("lt.Scalar", ids, start)
        above = self.g.aten("ge.Scalar", ids, start + self.vocab)
        mask = self.g.aten("bitwise_or.Tensor", below, above)
        self.save(mask)
        local = self.g.aten("sub.Tensor", self.g.aten("clone", ids), start)
        return mask, self.g.aten("index_put", local, [mask], self.g.constant(0, "int64"))
