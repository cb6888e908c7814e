"""Lowering of random operators: dropout and draws."""

from __future__ import annotations

from gg_datalog.extract.context import Context, Unsupported, Value, lowers
from gg_datalog.extract.graph import Ref
from gg_datalog.extract.lower_movement import need
from gg_datalog.extract.scale import scale
from gg_datalog.extract.view import View


@lowers("aten.native_dropout_backward")
def dropout_backward(ctx: Context) -> Value:
    by = ctx.number("scale")
    if by is None:
        raise Unsupported("its scale is not known")
    both = [ctx.operand("grad_output"), ctx.operand("mask")]
    return ctx.elementwise("mul", both, linear=(0, 1))[0].scaled(by)


@lowers("aten.native_dropout", "aten.dropout")
def dropout(ctx: Context) -> Value:
    x = ctx.tensor("input")
    p, train = ctx.argument("p"), ctx.argument("train")
    single = ctx.node.target.startswith("aten.dropout")
    if train is False or p == 0:
        mask = need(ctx.side.constant(scale(1)).expanded(x.shape))
        return x if single else (x, mask)
    if any(d.dim < 0 for dim in x.dims for d in dim):
        raise Unsupported("dropout of a repeated tensor")
    name = ctx.random(f"dropout({p!r})")
    outs = ctx.elementwise(name, [x], results=2, numbered=False)
    return outs[0] if single else tuple(outs)


@lowers("aten.bernoulli")
def bernoulli(ctx: Context) -> Value:
    """A mask drawn in the form of a tensor, as dropout does it on a CPU: of the form alone nothing
    would say which elements of the ranks' mask are which of the sequential one."""
    rate, drawn = ctx.argument("p"), ctx.raw("self")
    made = ctx.graph.nodes.get(drawn.name) if isinstance(drawn, Ref) else None
    like = made is not None and made.target.startswith(("aten.empty_like.", "aten.new_empty."))
    form = ctx.value(made.bound["self"]) if made is not None and like else None
    if not isinstance(rate, float) or not isinstance(form, View):
        raise Unsupported("a draw in the form of no tensor, or by no probability")
    if form.shape != ctx.node.shape or any(d.dim < 0 for dim in form.dims for d in dim):
        raise Unsupported("a draw in another form than that of the tensor it is for")
    name = ctx.random(f"bernoulli({rate!r})")
    return ctx.elementwise(name, [form], numbered=False)[0]
