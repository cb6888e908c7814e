"""A transformer block in JAX, for one device and split over several by hand."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, PartitionSpec

VOCABULARY, WIDTH, HEADS, DEPTH, HIDDEN = 64, 32, 8, 4, 64
BATCH, LENGTH = 8, 16
P = PartitionSpec

# Name, sizes, and how it lies over the mesh: heads and hidden units over "tp".
PARAMETERS = {
    "table": ((VOCABULARY, WIDTH), P("tp", None)),
    "norm1": ((WIDTH,), P(None)),
    "norm2": ((WIDTH,), P(None)),
    "wq": ((WIDTH, HEADS, DEPTH), P(None, "tp", None)),
    "wk": ((WIDTH, HEADS, DEPTH), P(None, "tp", None)),
    "wv": ((WIDTH, HEADS, DEPTH), P(None, "tp", None)),
    "wo": ((HEADS, DEPTH, WIDTH), P("tp", None, None)),
    "w1": ((WIDTH, HIDDEN), P(None, "tp")),
    "w2": ((HIDDEN, WIDTH), P("tp", None)),
    "head": ((WIDTH, VOCABULARY), P(None, "tp")),
}


def rms_norm(x: jax.Array, weight: jax.Array) -> jax.Array:
    """Divided by the root of the mean square."""
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * weight


def attention(p: dict[str, jax.Array], x: jax.Array) -> jax.Array:
    """Causal attention; of a shard of the heads the part of the sum that they give."""
    q = jnp.einsum("bsd,dhk->bshk", x, p["wq"])
    k = jnp.einsum("bsd,dhk->bshk", x, p["wk"])
    v = jnp.einsum("bsd,dhk->bshk", x, p["wv"])
    scores = jnp.einsum("bqhk,bshk->bhqs", q, k) / DEPTH**0.5
    causal = jnp.tril(jnp.ones((LENGTH, LENGTH), bool))
    weights = jax.nn.softmax(jnp.where(causal, scores, -1e9), -1)
    context = jnp.einsum("bhqs,bshk->bqhk", weights, v)
    return jnp.einsum("bshk,hkd->bsd", context, p["wo"])


def mlp(p: dict[str, jax.Array], x: jax.Array) -> jax.Array:
    """Two layers; of a shard of the hidden units the part of the sum that they give."""
    return jax.nn.silu(x @ p["w1"]) @ p["w2"]


def block(p: dict[str, jax.Array], x: jax.Array) -> jax.Array:
    """The block on one device."""
    x = x + attention(p, rms_norm(x, p["norm1"]))
    return x + mlp(p, rms_norm(x, p["norm2"]))


def loss(p: dict[str, jax.Array], ids: jax.Array, labels: jax.Array) -> jax.Array:
    """Embedding, block, and the mean cross entropy of the next tokens."""
    logits = block(p, p["table"][ids]) @ p["head"]
    chosen = jnp.take_along_axis(jax.nn.log_softmax(logits, -1), labels[..., None], -1)
    return -jnp.mean(chosen)


def split_block(p: dict[str, jax.Array], x: jax.Array, forget: str = "") -> jax.Array:
    """The block on a shard of heads and hidden units: what devices give is added up."""
    given = attention(p, rms_norm(x, p["norm1"]))
    x = x + (given if forget == "attention" else jax.lax.psum(given, "tp"))
    given = mlp(p, rms_norm(x, p["norm2"]))
    return x + (given if forget == "mlp" else jax.lax.psum(given, "tp"))


def split_by_hand(mesh: Mesh, forget: str = "") -> Any:
    """The block with its collectives written out; ``forget`` leaves one of them out."""
    names = ("norm1", "norm2", "wq", "wk", "wv", "wo", "w1", "w2")
    specs = {name: PARAMETERS[name][1] for name in names}
    return jax.shard_map(
        partial(split_block, forget=forget),
        mesh=mesh,
        in_specs=(specs, P("dp", None, None)),
        out_specs=P("dp", None, None),
        check_vma=not forget,
    )
