"""Qwen2 in the manner of vLLM: tensor parallel, with opaque kernels for norm, rotary embedding
and attention.

With more ranks than key/value heads every such head is replicated on the ranks whose query heads
share it.
"""

from __future__ import annotations

from dataclasses import dataclass

from graphs import Case, Graph, Input, Results, Sharding, divide, even, fused
from shapes import Tensor

EPSILON = 1e-06


@dataclass(frozen=True)
class Sizes:
    """Sizes of the model, by default those of 1.5B; `seq * batch` are the tokens."""

    layers: int = 1
    ranks: int = 2
    hidden: int = 1536
    heads: int = 12
    kv_heads: int = 2
    ffn: int = 8960
    vocab: int = 151936
    seq: int = 4096
    batch: int = 8

    @property
    def head(self) -> int:
        """The size of a head."""
        return divide(self.hidden, self.heads, "hidden size")

    @property
    def tokens(self) -> int:
        """The number of tokens, in one dimension."""
        return self.seq * self.batch


def shard_qkv(sizes: Sizes) -> Sharding:
    """The rows of the fused projection: even for queries, whole heads for keys and values."""
    ranks, heads, kv, head = sizes.ranks, sizes.heads, sizes.kv_heads, sizes.head
    divide(heads, kv, "a number of heads")
    divide(heads, ranks, "a number of heads")
    if ranks <= kv:
        return fused(0, [heads * head, kv * head, kv * head], ranks)
    replicas = divide(ranks, kv, "a number of ranks")
    ranges = []
    for rank in range(ranks):
        part = heads // ranks * head
        held = [(rank * part, (rank + 1) * part)]
        for start in (heads, heads + kv):
            first = (start + rank // replicas) * head
            held.append((first, first + head))
        ranges.append(held)
    return Sharding(0, ranges)


def inputs(sizes: Sizes) -> list[Input]:
    """The placeholders, in the order of their first use."""
    hidden, ranks, ffn = sizes.hidden, sizes.ranks, sizes.ffn
    qkv = (sizes.heads + 2 * sizes.kv_heads) * sizes.head
    found: list[Input] = []

    def add(*shape: int, dtype: str = "bfloat16", shard: Sharding | None = None) -> None:
        found.append(Input(f"arg{len(found)}_1", shape, dtype, shard))

    add(sizes.tokens, dtype="int64")
    add(sizes.vocab, hidden, shard=even(0, sizes.vocab, ranks))
    for layer in range(sizes.layers):
        add(hidden)
        add(qkv, shard=shard_qkv(sizes))
        add(qkv, hidden, shard=shard_qkv(sizes))
        if layer == 0:
            add(sizes.tokens, sizes.head)
            add(sizes.tokens, dtype="int64")
        add(hidden, sizes.heads * sizes.head, shard=even(1, sizes.heads * sizes.head, ranks))
        add(hidden)
        add(2 * ffn, hidden, shard=fused(0, [ffn, ffn], ranks))
        add(hidden, ffn, shard=even(1, ffn, ranks))
    add(hidden)
    return found


class Builder:
    """Writes one graph."""

    def __init__(self, sizes: Sizes, graph: Graph) -> None:
        self.sizes, self.g = sizes, graph
        self.parallel = graph.rank is not None
        self.ranks, self.rank = sizes.ranks if self.parallel else 1, graph.rank or 0
        self.heads = sizes.heads // self.ranks
        self.kv = max(1, sizes.kv_heads // self.ranks)

    def all_reduce(self, x: Tensor) -> Tensor:
        """Add the ranks' parts of a sum, where there are several."""
        return self.g.call("vllm.all_reduce.default", x, "tp") if self.parallel else x

    def linear(self, x: Tensor, weight: Tensor) -> Tensor:
        """A layer without bias."""
        return self.g.aten("mm", x, self.g.aten("t", weight))

    def embedding(self, ids: Tensor, table: Tensor) -> Tensor:
        """The embedding, masked outside the rank's vocabulary; no vocabulary is added."""
        g, size = self.g, self.sizes.vocab
        if not self.parallel:
            return g.aten("embedding", table, ids)
        part = size // self.ranks
        bounds = [(self.rank * part, (self.rank + 1) * part), (size, size)]
        own, added = (
            g.aten("bitwise_and.Tensor", g.aten("ge.Scalar", ids, lo), g.aten("lt.Scalar", ids, hi))
            for lo, hi in bounds
        )
        offset = g.aten("mul.Tensor", own, bounds[0][0])
        offset = g.aten("add.Tensor", offset, g.aten("mul.Tensor", added, size - part))
        valid = g.aten("bitwise_or.Tensor", own, added)
        local = g.aten("mul.Tensor", valid, g.aten("sub.Tensor", ids, offset))
        mask = g.aten("bitwise_not", valid)
        rows = g.aten("embedding", table, local)
        rows = g.aten("masked_fill.Scalar", rows, g.aten("unsqueeze", mask, -1), 0)
        return self.all_reduce(rows)

    def first_norm(self, x: Tensor, weight: Tensor) -> Tensor:
        """RMS norm."""
        buffer = self.g.aten("empty_like", x, pin_memory=False)
        weight = self.g.aten("detach", weight)
        results = self.g.kernel(
            "_C.rms_norm.default", result=buffer, input=x, weight=weight, epsilon=EPSILON
        )
        return self.g.getitem(results, 1)

    def norm(self, x: Tensor, residual: Tensor, weight: Tensor) -> Results:
        """RMS norm of `x + residual`, the first result, and that sum, the second."""
        weight = self.g.aten("detach", weight)
        return self.g.kernel(
            "_C.fused_add_rms_norm.default",
            **{"input": x, "residual": residual, "weight": weight, "epsilon": EPSILON},
        )

    def piece(self, mixed: Tensor, index: int) -> Tensor:
        """Queries, keys or values of the fused projection."""
        head = self.sizes.head
        sizes = [self.heads * head, self.kv * head, self.kv * head]
        return self.g.getitem(
            self.g.multi("aten.split_with_sizes.default", mixed, sizes, -1), index
        )

    def rotate(self, mixed: Tensor, cache: Tensor, positions: Tensor) -> Tensor:
        """The rotary embedding, written back over queries and keys."""
        g, head = self.g, self.sizes.head
        queries, keys = self.heads * head, self.kv * head
        parts = g.multi("aten.split_with_sizes.default", mixed, [queries, keys, keys], -1)
        query, key = g.getitem(parts, 0), g.getitem(parts, 1)
        results = self.g.kernel(
            "_C.rotary_embedding.default",
            **{"positions": positions, "query": query, "key": key, "head_size": head},
            **{"cos_sin_cache": cache, "is_neox": True},
        )
        query, key = g.getitem(results, 1), g.getitem(results, 2)
        mixed = g.aten("slice_scatter", mixed, query, 1, 0, queries)
        return g.aten("slice_scatter", mixed, key, 1, queries, queries + keys)

    def attention(self, mixed: Tensor, name: str) -> Tensor:
        """The attention kernel over the fused projections."""
        g, head = self.g, self.sizes.head
        output = g.aten("empty_like", self.piece(mixed, 0), pin_memory=False)
        output = g.aten("view", output, [-1, self.heads, head])
        query = g.aten("view", self.piece(mixed, 0), [-1, self.heads, head])
        key = g.aten("view", self.piece(mixed, 1), [-1, self.kv, head])
        value = g.aten("view", self.piece(mixed, 2), [-1, self.kv, head])
        results = self.g.kernel(
            "vllm.unified_attention_with_output.default",
            **{"query": query, "key": key, "value": value, "output": output, "layer_name": name},
        )
        context = g.getitem(results, 1)
        return g.aten("view", context, [self.sizes.tokens, self.heads * head])

    def project(self, context: Tensor, weight: Tensor) -> Tensor:
        """The row-parallel projection after attention."""
        g, head = self.g, self.sizes.head
        transposed = g.aten("t", weight)
        context = g.aten("view", context, [-1, self.heads, head])
        context = g.aten("view", context, [-1, self.heads * head])
        return self.all_reduce(g.aten("mm", context, transposed))

    def mlp(self, x: Tensor, gate_up: Tensor, down: Tensor) -> Tensor:
        """The gated MLP."""
        g = self.g
        both = self.linear(x, gate_up)
        device = {"device": f"cuda:{self.rank}"}
        buffer = g.aten(
            "empty.memory_format",
            [self.sizes.tokens, self.sizes.ffn // self.ranks],
            dtype={"dtype": "bfloat16"},
            device=device,
            pin_memory=False,
        )
        results = self.g.kernel("_C.silu_and_mul.default", out=buffer, input=both)
        return self.all_reduce(self.linear(g.getitem(results, 1), down))

    def build(self) -> list[str]:
        """Write the graph; returns the names of the hidden states and the rotary cache."""
        g = self.g
        held = [g.placeholder(source) for source in inputs(self.sizes)]
        ids, table, *weights = held
        cache, positions = weights[3:5]
        del weights[3:5]
        with g.within("model.embed_tokens"):
            x = residual = self.embedding(ids, table)
        for index in range(self.sizes.layers):
            w = weights[7 * index : 7 * index + 7]
            name = f"model.layers.{index}.self_attn"
            with g.within(name):
                if index == 0:
                    x = self.first_norm(x, w[0])
                else:
                    results = self.norm(x, residual, w[0])
                    x, residual = g.getitem(results, 1), g.getitem(results, 2)
                mixed = g.aten("addmm", w[1], x, g.aten("t", w[2]))
                mixed = self.rotate(mixed, cache, positions)
                x = self.project(self.attention(mixed, f"{name}.attn"), w[3])
            with g.within(f"model.layers.{index}.mlp"):
                results = self.norm(x, residual, w[4])
                x, residual = g.getitem(results, 1), g.getitem(results, 2)
                x = self.mlp(x, w[5], w[6])
        with g.within("model.norm"):
            x = g.getitem(self.norm(x, residual, weights[-1]), 1)
        assert x.shape == (self.sizes.tokens, self.sizes.hidden)
        g.output([x, cache])
        return [x.name, cache.name]


def case(sizes: Sizes) -> Case:
    """The sequential graph and that of every rank."""
    seq, dist = Graph(None), [Graph(rank) for rank in range(sizes.ranks)]
    names = Builder(sizes, seq).build()
    parallel = [Builder(sizes, graph).build() for graph in dist]
    assert all(found == parallel[0] for found in parallel)
    outputs = list(zip(names, parallel[0], strict=True))
    return Case(seq, dist, inputs(sizes), outputs, group="tp")
