"""Attention kernels: each head by itself, softmax over all keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import sqrt
from typing import Any

from gg_datalog.extract.context import (
    Context,
    Handler,
    Unsupported,
    Value,
    attributes,
    lowers,
    result_shapes,
)
from gg_datalog.extract.lower_rule import by_rule
from gg_datalog.extract.signature import packet_of
from gg_datalog.extract.spelled_attention import Asked, forward, gradients, grouped
from gg_datalog.extract.table import Row
from gg_datalog.extract.view import View

# Query heads are groups of `g` over `k` key and value heads.
QUERY, KEY, VALUE, RESULT = "b (k g) s d", "b k t d", "b k t e", "b (k g) s e"
STATISTICS = "b (k g) s"
MASKS = {4: "b? h? s? t", 3: "h? s? t", 2: "s? t", 1: "t"}


FORWARD = ("query", "key", "value")
# Of a backward form gradient, query, key, value, result and statistics.
BACKWARD = ("grad_out", *FORWARD, "out", "logsumexp")
KERNELS: Mapping[str, Sequence[str]] = {
    "aten.scaled_dot_product_attention": FORWARD,
    "aten._scaled_dot_product_flash_attention_for_cpu": FORWARD,
    "aten._scaled_dot_product_flash_attention": FORWARD,
    "aten._scaled_dot_product_efficient_attention": FORWARD,
    "aten._scaled_dot_product_cudnn_attention": FORWARD,
    "aten._scaled_dot_product_fused_attention_overrideable": FORWARD,
    "aten._scaled_dot_product_flash_attention_for_cpu_backward": BACKWARD,
    "aten._scaled_dot_product_flash_attention_backward": BACKWARD,
    "aten._scaled_dot_product_efficient_attention_backward": ("grad_out_", *BACKWARD[1:]),
}


def _handler(operands: Sequence[str]) -> Handler:
    def lowered(ctx: Context) -> Value:
        return _attention(ctx, operands)

    return lowered


for _name, _operands in KERNELS.items():
    lowers(_name)(_handler(_operands))


def _attention(ctx: Context, operands: Sequence[str]) -> Value:
    if ctx.argument("dropout_p"):
        raise Unsupported("attention with dropout draws random numbers")
    causal = bool(ctx.argument("is_causal"))
    views = [ctx.tensor(name) for name in operands]
    backward = len(operands) > len(FORWARD)
    if any(len(view.dims) != 4 for view in views[:3]):
        raise Unsupported("attention of other than four dimensions")
    strange = [
        p
        for p in (ctx.node.signature.parameters if ctx.node.signature is not None else ())
        if p.tensor and p.name not in (*operands, *MASK_NAMES, *STATE)
    ]
    if any(ctx.node.bound[p.name] is not None for p in strange):
        raise Unsupported(f"its operand `{strange[0].name}` is not described")
    query = views[1 if backward else 0]
    scale = ctx.argument("scale")
    scale = 1 / sqrt(query.shape[3]) if scale is None else scale
    # A mask of truths keeps or drops, any other is added to the scores.
    mask = _mask_dtype(ctx)
    name = "attention_backward" if backward else "attention"
    target = f"{name}(causal={causal}, scale={scale}, mask={mask})"
    attributes(ctx)  # every argument is looked at
    rule = _backward if backward else _forward
    kernel = rule(ctx, operands, target, causal, views)
    if not _is_spelled(ctx):
        return kernel
    given = kernel if isinstance(kernel, tuple) else (kernel,)
    try:
        found = _spelled(ctx, views, scale, causal, mask)
    except Unsupported:  # a mask that is not known, say
        return kernel
    results = tuple(_either(ctx, *both) for both in zip(found, given, strict=False))
    return (*results, *given[len(results) :]) if isinstance(kernel, tuple) else results[0]


# Kernels whose statistics are known to be the natural logarithms of the sums.
SPELLED = (
    "scaled_dot_product_attention",
    "_scaled_dot_product_flash_attention_for_cpu",
    "_scaled_dot_product_flash_attention_for_cpu_backward",
)


def _is_spelled(ctx: Context) -> bool:
    """Is the kernel to be told in plain operators, too?"""
    return ctx.side.exponentials and packet_of(ctx.node.target).split(".")[1] in SPELLED


def _spelled(
    ctx: Context, views: Sequence[View], by: float, causal: bool, mask: str
) -> Sequence[View]:
    """Its results in plain operators."""
    backward = len(views) > len(FORWARD)
    query, key, value = views[1:4] if backward else views
    heads, at = key.shape[1], _mask_at(ctx)
    given = None if at is None else ctx.tensor(at)
    asked = Asked(
        grouped(query, heads), key, value, ctx.scale(by), causal, given, truths=mask == "bool"
    )
    if not backward:
        return forward(ctx, asked)
    gradient, out, low = (grouped(views[i], heads) for i in (0, 4, 5))
    return gradients(ctx, asked, gradient, out, low)


def _either(ctx: Context, plain: View, kernel: View | None) -> View | None:
    """A result in plain operators. A kernel is noted that gives it, and no multiple."""
    if kernel is not None:
        ctx.side.alternative(plain, kernel)
    return None if kernel is None else plain


def _by_results(ctx: Context, row: Row) -> list[Row]:
    """One row per result where each is told in plain operators."""
    if not _is_spelled(ctx):
        return [row]
    left, right = row.rule.split(" -> ")
    results = right.split(", ")
    return [
        replace(row, target=f"{row.target}#{i}", rule=f"{left} -> {one}", results=(i,))
        for i, one in enumerate(results)
    ]


MASK_NAMES = ("attn_mask", "attn_bias")
# What a kernel saves of its random state and of its sequences for the backward form.
STATE = ("philox_seed", "philox_offset", "cum_seq_q", "cum_seq_k")


def _mask_at(ctx: Context) -> str | None:
    """The argument that holds the mask, where there is one."""
    return next((name for name in MASK_NAMES if ctx.node.bound.get(name) is not None), None)


def _mask_dtype(ctx: Context) -> str:
    at = _mask_at(ctx)
    return "none" if at is None else "bool" if ctx.dtype(at) == "bool" else "added"


def _mask(ctx: Context) -> tuple[list[str], list[str]]:
    """The mask as one more operand, where there is one."""
    at = _mask_at(ctx)
    if at is None:
        return [], []
    mask = ctx.argument(at)
    if not isinstance(mask, View) or len(mask.dims) not in MASKS:
        raise Unsupported("its mask is not known")
    return [at], [MASKS[len(mask.dims)]]


def _row(
    target: str,
    left: Sequence[str],
    right: Sequence[str],
    operands: Sequence[str],
    **more: Any,
) -> Row:
    given = {"whole": (), "linear": (), "results": tuple(range(len(right))), **more}
    return Row(
        target=target,
        rule=f"{', '.join(left)} -> {', '.join(right)}",
        operands=tuple(operands),
        ignore=EVERY,
        whole=tuple(given["whole"]),
        sizes={},
        results=given["results"],
        linear=tuple(given["linear"]),
        sums=(),
        assume="",
    )


# The signature has the causal mask and the scale already.
EVERY = (
    *MASK_NAMES,
    *STATE,
    "dropout_p",
    "is_causal",
    "scale",
    "enable_gqa",
    "max_q",
    "max_k",
)


def _with_heads(mask: Sequence[str], query: View, key: View) -> list[str]:
    """The heads of a mask are those of the query: of one group each, or as many."""
    plain = query.shape[1] == key.shape[1]
    return [text.replace("h?", "k?" if plain else "h?") for text in mask]


def _forward(
    ctx: Context, operands: Sequence[str], target: str, causal: bool, views: Sequence[View]
) -> Value:
    query, key, _ = views
    places, mask = _mask(ctx)
    if query.shape[1] % key.shape[1]:
        raise Unsupported("its query heads are no groups of key heads")
    if query.shape[1] != key.shape[1] and any("h?" in text for text in mask):
        mask = _ungrouped_mask(ctx, mask)
    left = [QUERY, KEY, VALUE, *_with_heads(mask, query, key)]
    whole = ["t", "d", "e", *(["s"] if causal else [])]
    several = ctx.node.shape is None
    statistics = several and _has_statistics(ctx, query)
    right = [RESULT, *([STATISTICS] if statistics else [])]
    row = _row(target, left, right, [*operands, *places], whole=whole)
    found = by_rule(ctx, _by_results(ctx, row))
    if not several:
        return found[0] if isinstance(found, tuple) else found
    results = found if isinstance(found, tuple) else (found,)
    return (*results, *[None] * SEEDS)  # of its random state nothing is known


SEEDS = 10


def _ungrouped_mask(ctx: Context, mask: Sequence[str]) -> list[str]:
    """A mask over query heads that are grouped: only one that is the same for all of them."""
    at = _mask_at(ctx)
    value = None if at is None else ctx.argument(at)
    if not isinstance(value, View):
        raise Unsupported("its mask is not known")
    heads = value.shape[-3] if len(value.dims) >= 3 else 1
    if heads != 1:
        raise Unsupported("a mask per head over grouped heads")
    return [text.replace("h?", "u") for text in mask]


def _has_statistics(ctx: Context, query: View) -> bool:
    """Are the kernel's statistics one number per query position?"""
    shapes = result_shapes(ctx, ctx.node)
    return len(shapes) > 1 and shapes[1] == query.shape[:3]


def _backward(
    ctx: Context, operands: Sequence[str], target: str, causal: bool, views: Sequence[View]
) -> Value:
    _, query, key, _, _, statistics = views
    if query.shape[1] % key.shape[1]:
        raise Unsupported("its query heads are no groups of key heads")
    if statistics.shape != query.shape[:3]:
        raise Unsupported("its statistics are not one number per query position")
    places, mask = _mask(ctx)
    if query.shape[1] != key.shape[1] and any("h?" in text for text in mask):
        mask = _ungrouped_mask(ctx, mask)
    left = [RESULT, QUERY, KEY, VALUE, RESULT, STATISTICS, *_with_heads(mask, query, key)]
    row = _row(
        target,
        left,
        [QUERY, KEY, VALUE],
        [*operands, *places],
        whole=["g", "s", "t", "d", "e"],
        linear=[0],
    )
    return by_rule(ctx, _by_results(ctx, row))
