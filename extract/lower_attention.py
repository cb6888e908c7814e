"""Attention kernels: each head by itself, softmax over all keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any

from gg_datalog.extract.context import Context, Handler, Unsupported, Value, attributes, lowers
from gg_datalog.extract.graph import Ref
from gg_datalog.extract.lower_rule import by_rule
from gg_datalog.extract.table import Row
from gg_datalog.extract.view import View

# Query heads are groups of `g` over `k` key and value heads.
QUERY, KEY, VALUE, RESULT = "b (k g) s d", "b k t d", "b k t e", "b (k g) s e"
STATISTICS = "b (k g) s"
MASKS = {4: "b? h? s? t", 3: "h? s? t", 2: "s? t", 1: "t"}


@dataclass(frozen=True)
class Kernel:
    """Where a kernel has its arguments: positions, or names of keywords.

    ``operands`` are query, key, value; of a backward form gradient, query, key, value, result and
    statistics. ``mask`` is added to the scores.
    """

    operands: Sequence[int]
    mask: int | str | None
    dropout: int | str
    causal: int | str
    backward: bool = False


KERNELS: Mapping[str, Kernel] = {
    "aten.scaled_dot_product_attention": Kernel((0, 1, 2), 3, 4, 5),
    "aten._scaled_dot_product_flash_attention_for_cpu": Kernel((0, 1, 2), "attn_mask", 3, 4),
    "aten._scaled_dot_product_flash_attention": Kernel((0, 1, 2), None, 3, 4),
    "aten._scaled_dot_product_efficient_attention": Kernel((0, 1, 2), 3, 5, 6),
    "aten._scaled_dot_product_cudnn_attention": Kernel((0, 1, 2), 3, 5, 6),
    "aten._scaled_dot_product_fused_attention_overrideable": Kernel((0, 1, 2), 3, 4, 5),
    "aten._scaled_dot_product_flash_attention_for_cpu_backward": Kernel(
        (0, 1, 2, 3, 4, 5), "attn_mask", 6, 7, backward=True
    ),
    "aten._scaled_dot_product_flash_attention_backward": Kernel(
        (0, 1, 2, 3, 4, 5), None, 10, 11, backward=True
    ),
    "aten._scaled_dot_product_efficient_attention_backward": Kernel(
        (0, 1, 2, 3, 5, 6), 4, 9, 11, backward=True
    ),
}


def _handler(kernel: Kernel) -> Handler:
    def lowered(ctx: Context) -> Value:
        return _attention(ctx, kernel)

    return lowered


for _name, _kernel in KERNELS.items():
    lowers(_name)(_handler(_kernel))


def _attention(ctx: Context, kernel: Kernel) -> Value:
    if _argument(ctx, kernel.dropout, "dropout_p", 0.0):
        raise Unsupported("attention with dropout draws random numbers")
    causal = _argument(ctx, kernel.causal, "is_causal", False)
    views = [ctx.tensor(place) for place in kernel.operands]
    if any(len(view.dims) != 4 for view in views[:3]):
        raise Unsupported("attention of other than four dimensions")
    query = views[1 if kernel.backward else 0]
    scale = ctx.argument(99, "scale")
    scale = 1 / sqrt(query.shape[3]) if scale is None else scale
    named = {k for k, v in ctx.node.kwargs.items() if isinstance(v, Ref)}
    if named - set(MASK_NAMES) or (named and kernel.mask is None) or len(named) > 1:
        raise Unsupported(f"its operands {sorted(named)} are not described")
    # A mask of truths keeps or drops, any other is added to the scores.
    mask = _mask_dtype(ctx, kernel)
    name = "attention_backward" if kernel.backward else "attention"
    target = f"{name}(causal={causal}, scale={scale}, mask={mask})"
    attributes(ctx)  # every keyword is looked at
    rule = _backward if kernel.backward else _forward
    return rule(ctx, kernel, target, bool(causal), views)


MASK_NAMES = ("attn_mask", "attn_bias")


def _mask_at(ctx: Context, kernel: Kernel) -> int | str | None:
    """Where the mask is given: its position, or the keyword that it has."""
    place, kwargs = kernel.mask, ctx.node.kwargs
    if isinstance(place, int) and place < len(ctx.node.args):
        return place
    return next((name for name in MASK_NAMES if kwargs.get(name) is not None), None)


def _mask_dtype(ctx: Context, kernel: Kernel) -> str:
    at = _mask_at(ctx, kernel)
    given = ctx.node.args[at] if isinstance(at, int) else ctx.node.kwargs.get(at or "")
    return "none" if given is None else "bool" if ctx.dtype_of(given) == "bool" else "added"


def _argument(ctx: Context, place: int | str, name: str, default: Any = None) -> Any:
    if isinstance(place, str):
        return ctx.argument(99, place, default)
    return ctx.argument(place, name, default)


def _mask(ctx: Context, kernel: Kernel) -> tuple[list[int | str], list[str]]:
    """The mask as one more operand, where there is one."""
    at = _mask_at(ctx, kernel)
    mask = None if at is None else _argument(ctx, at, "")
    if at is None or mask is None:
        return [], []
    if not isinstance(mask, View) or len(mask.dims) not in MASKS:
        raise Unsupported("its mask is not known")
    return [at], [MASKS[len(mask.dims)]]


def _row(
    target: str,
    left: Sequence[str],
    right: Sequence[str],
    operands: Sequence[int | str],
    **more: Any,
) -> Row:
    given = {"whole": (), "linear": (), "results": tuple(range(len(right))), **more}
    return Row(
        target=target,
        rule=f"{', '.join(left)} -> {', '.join(right)}",
        operands=tuple(operands),
        ignore=(*range(20), *EVERY),
        whole=tuple(given["whole"]),
        sizes={},
        results=given["results"],
        linear=tuple(given["linear"]),
        sums=(),
        assume="",
    )


EVERY = ("attn_mask", "attn_bias", "dropout_p", "is_causal", "scale", "enable_gqa")


def _with_heads(mask: Sequence[str], query: View, key: View) -> list[str]:
    """The heads of a mask are those of the query: of one group each, or as many."""
    plain = query.shape[1] == key.shape[1]
    return [text.replace("h?", "k?" if plain else "h?") for text in mask]


def _forward(
    ctx: Context, kernel: Kernel, target: str, causal: bool, views: Sequence[View]
) -> Value:
    query, key, _ = views
    places, mask = _mask(ctx, kernel)
    if query.shape[1] % key.shape[1]:
        raise Unsupported("its query heads are no groups of key heads")
    if query.shape[1] != key.shape[1] and any("h?" in text for text in mask):
        mask = _ungrouped_mask(ctx, kernel, mask)
    left = [QUERY, KEY, VALUE, *_with_heads(mask, query, key)]
    whole = ["t", "d", "e", *(["s"] if causal else [])]
    several = ctx.node.shape is None
    statistics = several and _has_statistics(ctx, query)
    right = [RESULT, *([STATISTICS] if statistics else [])]
    row = _row(target, left, right, [*kernel.operands, *places], whole=whole)
    found = by_rule(ctx, [row])
    if not several:
        return found[0] if isinstance(found, tuple) else found
    results = found if isinstance(found, tuple) else (found,)
    return (*results, *[None] * SEEDS)  # of its random state nothing is known


SEEDS = 10


def _ungrouped_mask(ctx: Context, kernel: Kernel, mask: Sequence[str]) -> list[str]:
    """A mask over query heads that are grouped: only one that is the same for all of them."""
    at = _mask_at(ctx, kernel)
    value = None if at is None else _argument(ctx, at, "")
    if not isinstance(value, View):
        raise Unsupported("its mask is not known")
    heads = value.shape[-3] if len(value.dims) >= 3 else 1
    if heads != 1:
        raise Unsupported("a mask per head over grouped heads")
    return [text.replace("h?", "u") for text in mask]


def _has_statistics(ctx: Context, query: View) -> bool:
    """Are the kernel's statistics one number per query position?"""
    from gg_datalog.extract.lower import result_shapes

    shapes = result_shapes(ctx, ctx.node)
    return len(shapes) > 1 and shapes[1] == query.shape[:3]


def _backward(
    ctx: Context, kernel: Kernel, target: str, causal: bool, views: Sequence[View]
) -> Value:
    _, query, key, _, _, statistics = views
    if query.shape[1] % key.shape[1]:
        raise Unsupported("its query heads are no groups of key heads")
    if statistics.shape != query.shape[:3]:
        raise Unsupported("its statistics are not one number per query position")
    places, mask = _mask(ctx, kernel)
    if query.shape[1] != key.shape[1] and any("h?" in text for text in mask):
        mask = _ungrouped_mask(ctx, kernel, mask)
    left = [RESULT, QUERY, KEY, VALUE, RESULT, STATISTICS, *_with_heads(mask, query, key)]
    row = _row(
        target,
        left,
        [QUERY, KEY, VALUE],
        [*kernel.operands, *places],
        whole=["g", "s", "t", "d", "e"],
        linear=[0],
    )
    return by_rule(ctx, [row])
