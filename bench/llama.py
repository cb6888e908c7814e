"""Llama in the manner of Transformers-NeuronX, captured as HLO: tensor parallel context encoding.

Hidden states are `[hidden, seq, batch]`, the projections of queries, keys and values are one
weight, and key and value heads are repeated for the query heads that share them.
"""

from __future__ import annotations

from dataclasses import dataclass

from graphs import Case, Graph, Input, Sharding, divide, even, fused
from hlo import Instructions
from shapes import Tensor

EPSILON = 9.999999747378752e-06
MASKED = -30000.0


@dataclass(frozen=True)
class Sizes:
    """Sizes of the model; ranks must divide the key/value heads."""

    layers: int = 1
    ranks: int = 2
    hidden: int = 2048
    heads: int = 32
    kv_heads: int = 8
    ffn: int = 8192
    vocab: int = 128256
    seq: int = 64
    batch: int = 4

    @property
    def head(self) -> int:
        """The size of a head."""
        return divide(self.hidden, self.heads, "hidden size")


def inputs(sizes: Sizes) -> list[Input]:
    """The placeholders: hidden states and positions, caches, parameters."""
    hidden, ranks, kv = sizes.hidden, sizes.ranks, sizes.kv_heads
    divide(sizes.heads, kv, "a number of heads")
    divide(sizes.heads, ranks, "a number of heads")
    divide(kv, ranks, "a number of key/value heads")
    found: list[Input] = []

    def add(*shape: int, dtype: str = "float16", shard: Sharding | None = None) -> None:
        place = len(found)
        found.append(Input(f"p{place}.{place + 1}", shape, dtype, shard))

    add(hidden, sizes.seq, sizes.batch)
    for size in (sizes.seq, sizes.batch, 1, 1, 1):
        add(size, dtype="int32")
    for _ in range(2 * sizes.layers):
        add(sizes.seq, sizes.batch, kv, sizes.head, shard=even(2, kv, ranks))
    pieces = [sizes.heads * sizes.head, kv * sizes.head, kv * sizes.head]
    for _ in range(sizes.layers):
        add(hidden, dtype="float32")
        add(hidden, sum(pieces), shard=fused(1, pieces, ranks))
        add(hidden, pieces[0], shard=even(1, pieces[0], ranks))
        add(hidden, dtype="float32")
        for _ in range(3):
            add(hidden, sizes.ffn, shard=even(1, sizes.ffn, ranks))
    add(hidden, dtype="float32")
    add(hidden, sizes.vocab, shard=even(1, sizes.vocab, ranks))
    return found


class Builder(Instructions):
    """Writes one graph."""

    def __init__(self, sizes: Sizes, graph: Graph) -> None:
        super().__init__(graph)
        self.sizes = sizes
        self.ranks = 1 if graph.rank is None else sizes.ranks
        self.heads, self.kv = sizes.heads // self.ranks, sizes.kv_heads // self.ranks

    def all_reduce(self, x: Tensor) -> Tensor:
        """Add the ranks' parts of a sum, where there are several."""
        if self.ranks == 1:
            return x
        return self.op("all-reduce", "_c10d_functional.all_reduce.default", x, "sum", "tp")

    def norm(self, x: Tensor, weight: Tensor) -> Tensor:
        """RMS norm over dimension 0, in float32."""
        x = self.convert(x, "float32")
        return self.op("custom-call", "hlo.AwsNeuronRmsNorm", x, weight, EPSILON, dtype="float16")

    def tables(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Sine and cosine of the rotary embedding; the frequencies are a lost constant."""
        place = self.reshape(self.convert(positions, "float32"), positions.shape[0], 1)
        half = self.sizes.head // 2
        frequencies = self.op("constant", "aten.empty.memory_format", [half])
        angles = self.dot(place, self.reshape(frequencies, 1, half), (1, 0))
        sine = self.op("sine", "aten.sin.default", angles)
        cosine = self.op("cosine", "aten.cos.default", angles)
        self.frequencies = frequencies.name
        return self.convert(sine, "float16"), self.convert(cosine, "float16")

    def mask(self, positions: Tensor, starts: Tensor) -> Tensor:
        """Which key each query may see: no later one, none before the sequence starts."""
        seq, batch = self.sizes.seq, self.sizes.batch
        iota = self.op("iota", "aten.arange.start", 0, seq, dtype="int32")
        columns = self.broadcast(iota, [1], seq, seq)
        rows = self.broadcast(positions, [0], seq, seq)
        causal = self.op("compare", "aten.le.Tensor", columns, rows)
        columns = self.broadcast(iota, [1], batch, seq)
        first = self.broadcast(starts, [0], batch, seq)
        started = self.op("compare", "aten.ge.Tensor", columns, first)
        causal = self.broadcast(causal, [1, 2], batch, seq, seq)
        started = self.broadcast(started, [0, 2], batch, seq, seq)
        return self.op("and", "aten.bitwise_and.Tensor", causal, started)

    def rotate(self, x: Tensor, tables: tuple[Tensor, Tensor]) -> Tensor:
        """The rotary embedding of `[seq, batch, heads, head]`."""
        half = self.sizes.head // 2
        shape = (*x.shape[:3], half)
        sine, cosine = (
            self.broadcast(self.reshape(table, *table.shape), [0, 3], *shape) for table in tables
        )
        left, right = self.cut(x, 3, 0, half), self.cut(x, 3, half, 2 * half)
        real = self.binary("multiply", cosine, left)
        real = self.binary("subtract", real, self.binary("multiply", sine, right))
        imaginary = self.binary("multiply", cosine, right)
        imaginary = self.binary("add", imaginary, self.binary("multiply", sine, left))
        return self.op("concatenate", "aten.cat.default", [real, imaginary], 3)

    def repeat(self, x: Tensor) -> Tensor:
        """Repeat each key/value head for the query heads that share it."""
        seq, batch, kv, head = x.shape
        x = self.reshape(x, *x.shape)
        x = self.broadcast(x, [0, 1, 2, 4], seq, batch, kv, self.heads // kv, head)
        return self.reshape(x, seq, batch, self.heads, head)

    def softmax(self, x: Tensor) -> Tensor:
        """Softmax over the last of four dimensions, written out."""
        high = self.op("reduce", "hlo.reduce_max", x, 3)
        high = self.broadcast(self.reshape(high, *high.shape), [0, 1, 2], *x.shape)
        powers = self.op("exponential", "aten.exp.default", self.binary("subtract", x, high))
        total = self.op("reduce", "aten.sum.dim_IntList", powers, [3], False)
        total = self.broadcast(self.reshape(total, *total.shape), [0, 1, 2], *x.shape)
        return self.binary("divide", powers, total)

    def attention(
        self, x: Tensor, weights: list[Tensor], tables: tuple[Tensor, Tensor], mask: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Attention of `[hidden, seq, batch]`; with the keys and values for the cache."""
        (hidden, seq, batch), head = x.shape, self.sizes.head
        queries, keys = self.heads * head, self.kv * head
        mixed = self.dot(self.reshape(x, hidden, seq * batch), weights[0], (0, 0))
        ends = [0, queries, queries + keys, queries + 2 * keys]
        assert mixed.shape == (seq * batch, ends[3])
        parts = [self.cut(mixed, 1, ends[i], ends[i + 1]) for i in range(3)]
        q = self.reshape(parts[0], seq, batch, self.heads, head)
        k, v = (self.reshape(part, seq, batch, self.kv, head) for part in parts[1:])
        q, k = self.rotate(q, tables), self.rotate(k, tables)
        q = self.binary("divide", q, self.broadcast(head**0.5, [], *q.shape))
        scores = self.op("dot", "hlo.dot", q, self.repeat(k), [3], [3], [1, 2], [1, 2])
        low = self.broadcast(MASKED, [], *scores.shape)
        seen = self.broadcast(self.reshape(mask, *mask.shape), [0, 2, 3], *scores.shape)
        probs = self.softmax(self.op("select", "hlo.select", seen, scores, low))
        context = self.op("dot", "hlo.dot", probs, self.repeat(v), [3], [0], [0, 1], [1, 2])
        context = self.reshape(self.transpose(context, 2, 0, 1, 3), seq * batch, queries)
        return self.row(context, weights[1]), k, v

    def row(self, x: Tensor, weight: Tensor) -> Tensor:
        """A row-parallel layer from `[seq * batch, features]` to `[hidden, seq, batch]`."""
        product = self.transpose(self.dot(x, weight, (1, 1)), 1, 0)
        shape = (self.sizes.hidden, self.sizes.seq, self.sizes.batch)
        return self.all_reduce(self.reshape(product, *shape))

    def mlp(self, x: Tensor, weights: list[Tensor]) -> Tensor:
        """The gated MLP."""
        x = self.reshape(x, self.sizes.hidden, self.sizes.seq * self.sizes.batch)
        gate = self.dot(x, weights[0], (0, 0))
        gate = self.binary("multiply", gate, self.op("logistic", "hlo.logistic", gate))
        up = self.dot(x, weights[1], (0, 0))
        return self.row(self.binary("multiply", gate, up), weights[2])

    def build(self) -> list[str]:
        """Write the graph; returns the names of the logits and of each layer's keys and values."""
        sizes = self.sizes
        held = [self.g.placeholder(source) for source in inputs(sizes)]
        x, positions, starts, last = held[:4]
        caches, weights = held[6 : 6 + 2 * sizes.layers], held[6 + 2 * sizes.layers :]
        final, head = self.custom(held[-2]), self.custom(held[-1])
        tables, mask = self.tables(positions), self.mask(positions, starts)
        cached: list[Tensor] = []
        for index in range(sizes.layers):
            with self.g.within(f"layers.{index}"):
                for cache in caches[2 * index : 2 * index + 2]:
                    self.custom(cache)
                w = [self.custom(weight) for weight in weights[7 * index : 7 * index + 7]]
                mixed, k, v = self.attention(self.norm(x, w[0]), w[1:3], tables, mask)
                x = self.binary("add", mixed, x)
                x = self.binary("add", self.mlp(self.norm(x, w[3]), w[4:]), x)
            cached += [k, v]
        row = self.transpose(x, 1, 0, 2)
        picked = [1, sizes.hidden, sizes.batch]
        row = self.op("gather", "hlo.gather", row, last, [1, 2], [0], [0], 1, picked)
        row = self.norm(self.transpose(row, 1, 0, 2), final)
        row = self.reshape(row, sizes.hidden, sizes.batch)
        logits = self.dot(head, row, (0, 0))
        logits = self.reshape(logits, sizes.vocab // self.ranks, 1, sizes.batch)
        outputs = [logits, *cached]
        self.g.output(outputs)
        return [tensor.name for tensor in outputs]


def case(sizes: Sizes) -> Case:
    """The sequential graph and that of every rank."""
    builders = [Builder(sizes, Graph(rank, dotted=True)) for rank in (None, *range(sizes.ranks))]
    seq, *dist = (builder.build() for builder in builders)
    assert all(names == dist[0] for names in dist)
    (frequencies,) = {builder.frequencies for builder in builders}
    graphs = [builder.g for builder in builders]
    outputs = list(zip(seq, dist[0], strict=True))
    return Case(graphs[0], graphs[1:], inputs(sizes), outputs, group="tp", equal=[frequencies])
