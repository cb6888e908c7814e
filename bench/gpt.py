"""GPT in the manner of Megatron-LM: tensor, sequence and vocabulary parallel forward with loss."""

from __future__ import annotations

from math import sqrt
from typing import Any

from graphs import Case, Graph, Input, divide, even
from megatron import Layers, Sizes
from shapes import Tensor

INT64_MAX = 2**63 - 1


def inputs(sizes: Sizes) -> list[Input]:
    """The placeholders: parameters in the order of the modules, then the batch."""
    hidden, ffn, vocab, ranks = sizes.hidden, sizes.ffn, sizes.vocab, sizes.ranks
    divide(hidden, sizes.heads, "hidden size")
    divide(sizes.heads, ranks, "a number of heads")
    divide(sizes.seq, ranks, "a sequence")
    found: list[Input] = []

    def add(*shape: int, dtype: str = "float32", shard: int | None = None) -> None:
        sharding = None if shard is None else even(shard, shape[shard], ranks)
        found.append(Input(f"primals_{len(found) + 1}", shape, dtype, sharding))

    add(vocab, hidden, shard=0)
    for _ in range(sizes.layers):
        add(hidden)
        add(hidden)
        add(3 * hidden, hidden, shard=0)
        add(3 * hidden, shard=0)
        add(hidden, hidden, shard=1)
        add(hidden)
        add(hidden)
        add(hidden)
        add(ffn, hidden, shard=0)
        add(ffn, shard=0)
        add(hidden, ffn, shard=1)
        add(hidden)
    add(hidden)
    add(hidden)
    add(vocab, hidden, shard=0)
    add(sizes.seq, hidden)
    add(sizes.batch, sizes.seq, dtype="int64")
    add(sizes.batch, 1, sizes.seq, sizes.seq, dtype="bool")
    add(sizes.batch, sizes.seq, dtype="int64")
    add(sizes.batch, sizes.seq, dtype="int64")
    add(sizes.batch, sizes.seq)
    return found


class Builder(Layers):
    """Writes one graph."""

    def embedding(self, table: Tensor, positions: Tensor, ids: Tensor, places: Tensor) -> Tensor:
        """Word and position embedding, `[seq, batch, hidden]`, a part of seq on each rank."""
        g = self.g
        if self.parallel:
            mask, local = self.outside(ids)
            self.save(local)
            rows = g.aten("index.Tensor", table, [local])
            zero = g.constant(0, "float32")
            every = g.aten("slice.Tensor", rows, 1, 0, INT64_MAX)
            put = g.aten("index_put", every, [mask], zero)
            words = g.aten("slice_scatter", rows, put, 1, 0, INT64_MAX)
            words = self.all_reduce(words, "sum")
            positioned = g.aten("embedding", positions, places)
            words = g.aten("view", words, list(words.shape))
        else:
            self.save(ids)
            words = g.aten("index.Tensor", table, [ids])
            words = g.aten("view", words, list(words.shape))
            positioned = g.aten("embedding", positions, places)
        self.save(places)
        x = self.contiguous(g.aten("transpose.int", g.aten("add.Tensor", words, positioned), 0, 1))
        if self.parallel:
            part = self.sizes.seq // self.ranks
            x = g.aten("slice.Tensor", x, 0, self.rank * part, (self.rank + 1) * part)
            x = g.aten("clone", x)
        x = self.dropout(x)
        self.save(x)
        return x

    def attention(self, mixed: Tensor, mask: Tensor) -> Tensor:
        """Attention over `[seq, batch, (head, q | k | v)]`."""
        g, (seq, batch, width) = self.g, mixed.shape
        heads, head = self.sizes.heads // self.ranks, self.sizes.hidden // self.sizes.heads
        assert width == 3 * heads * head
        mixed = g.aten("view", mixed, [seq, batch, heads, 3 * head])
        parts = g.multi("aten.split_with_sizes.default", mixed, [head] * 3, 3)
        query, key, value = (g.getitem(parts, index) for index in range(3))
        query = g.aten("view", query, [seq, batch, heads, head])
        query = g.aten("view", query, [seq, batch * heads, head])
        key = g.aten("view", key, [seq, batch * heads, -1])
        buffer = self.empty(batch * heads, seq, seq)
        query = g.aten("transpose.int", query, 0, 1)
        key = g.aten("transpose.int", g.aten("transpose.int", key, 0, 1), 1, 2)
        scores = g.aten("baddbmm", buffer, query, key, beta=0.0, alpha=1 / sqrt(head))
        scores = g.aten("view", scores, [batch, heads, seq, seq])
        scores = g.aten("masked_fill.Scalar", scores, mask, -10000.0)
        scores = g.aten("view", scores, [batch * heads, seq, seq])
        probs = g.aten("_softmax", g.aten("view", scores, [batch, heads, seq, seq]), -1, False)
        dropped = self.dropout(probs)
        value = g.aten("view", value, [seq, batch * heads, -1])
        dropped = g.aten("view", dropped, [batch * heads, seq, -1])
        value = g.aten("transpose.int", value, 0, 1)
        context = g.aten("view", g.aten("bmm", dropped, value), [batch, heads, seq, head])
        context = self.contiguous(g.aten("permute", context, [2, 0, 1, 3]))
        context = g.aten("view", context, [seq, batch, heads * head])
        self.save(query, key, probs, dropped, value, context)
        return context

    def layer(self, x: Tensor, p: list[Tensor], mask: Tensor, module: str) -> Tensor:
        """A transformer layer with its twelve parameters."""
        g = self.g
        with g.within(f"{module}.self_attention"):
            mixed = self.column(self.norm(x, p[0], p[1]), p[2])
            context = self.attention(g.aten("add.Tensor", mixed, p[3]), mask)
            x = g.aten("add.Tensor", x, self.dropout(self.row(context, p[4], p[5])))
        with g.within(f"{module}.mlp"):
            up = self.column(self.norm(x, p[6], p[7]), p[8])
            up = g.aten("add.Tensor", up, p[9])
            active = g.aten("gelu", up)
            out = g.aten("add.Tensor", x, self.dropout(self.row(active, p[10], p[11])))
        self.save(x, up, active, out)
        return out

    def cross_entropy(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Cross entropy `[seq, batch]` over logits that hold the rank's vocabulary."""
        g, seq_batch = self.g, list(labels.shape)
        results = g.multi("aten.max.dim", logits, -1)
        highest = self.all_reduce(g.getitem(results, 0), "max")
        logits = g.aten("clone", logits)
        logits = g.aten("sub.Tensor", logits, g.aten("unsqueeze", highest, -1))
        mask, local = self.outside(labels)
        arange = g.aten("arange.start", 0, self.tokens, device=self.device, pin_memory=False)
        flat = g.aten("view", logits, [-1, self.vocab])
        local = g.aten("view", local, [-1])
        picked = g.aten("clone", g.aten("index.Tensor", flat, [arange, local]))
        picked = g.aten("view", picked, seq_batch)
        picked = g.aten("index_put", picked, [mask], g.constant(0, "float32"))
        picked = g.aten("view", g.aten("view", picked, [self.tokens]), seq_batch)
        powers = g.aten("copy", logits, g.aten("exp", logits))
        total = g.aten("sum.dim_IntList", powers, [-1])
        picked = self.all_reduce(picked, "sum")
        picked = g.aten("view", g.aten("view", picked, [self.tokens]), seq_batch)
        total = self.all_reduce(total, "sum")
        self.save(local, powers, total)
        return g.aten("sub.Tensor", g.aten("log", total), picked)

    def build(self) -> str:
        """Write the graph; returns the name of the loss."""
        g = self.g
        held = [g.placeholder(source) for source in inputs(self.sizes)]
        rest: dict[str, Any] = {"device": {"device": "cuda"}, "pin_memory": False}
        count = g.aten("zeros", [], dtype={"dtype": "int32"}, **rest)
        rest = {"layout": "torch.strided", "device": self.device}
        ids, mask, places, labels, weights = (
            g.aten("_to_copy", x, dtype={"dtype": x.dtype}, **rest) for x in held[-5:]
        )
        self.save(mask)
        with g.within("embedding"):
            x = self.embedding(held[0], held[-6], ids, places)
        for index in range(self.sizes.layers):
            parameters = held[1 + 12 * index : 13 + 12 * index]
            x = self.layer(x, parameters, mask, f"decoder.layers.{index}")
        with g.within("output_layer"):
            x = self.norm(x, held[-9], held[-8])
            logits = self.column(x, held[-7])
            assert logits.shape == (self.sizes.seq, self.sizes.batch, self.vocab)
            labels = self.contiguous(g.aten("transpose.int", labels, 0, 1))
            loss = self.cross_entropy(logits, labels)
            loss = self.contiguous(g.aten("transpose.int", loss, 0, 1))
        weights = g.aten("view", weights, [-1])
        weighted = g.aten("mul.Tensor", g.aten("view", loss, [-1]), weights)
        weight = (g.aten("sum", weighted), g.aten("sum", weights))
        loss = g.aten("div.Tensor", g.aten("div.Tensor", *weight), 1)
        assert loss.shape == ()
        self.save(weights, weight[1])
        order = {node["name"]: place for place, node in enumerate(g.nodes)}
        kept = sorted(self.saved.values(), key=lambda tensor: order[tensor.name])
        g.output([loss, loss, count, *kept])
        return loss.name


def case(sizes: Sizes) -> Case:
    """The sequential graph and that of every rank."""
    seq, dist = Graph(None), [Graph(rank) for rank in range(sizes.ranks)]
    loss = Builder(sizes, seq).build()
    (parallel,) = {Builder(sizes, graph).build() for graph in dist}
    return Case(seq, dist, inputs(sizes), [(loss, parallel)], group="tp", seq_group="self")
