"""Products with the matrix of each row's expert: rows lie in order of their experts, and say where
each one's rows end."""

from __future__ import annotations

from gg_datalog.extract.context import Context, Unsupported, Value, lowers
from gg_datalog.extract.lower_rule import by_rule
from gg_datalog.extract.table import Row

# By the numbers of dimensions of both operands: rows r of experts e.
RULES = {
    (2, 3): ("r k, e k n, e -> r n", ("k",)),
    (3, 2): ("e m k, k r, e -> m r", ("k",)),
    (2, 2): ("n r, r k, e -> e n k", ()),
}


@lowers("aten._grouped_mm")
def grouped_mm(ctx: Context) -> Value:
    ranks = len(ctx.tensor("self").dims), len(ctx.tensor("mat2").dims)
    if ranks not in RULES or ctx.argument("bias") is not None:
        raise Unsupported("experts' matrices in another form")
    rule, sums = RULES[ranks]
    row = Row(
        target=f"grouped_mm{list(ranks)}",
        rule=rule,
        operands=("self", "mat2", "offs"),
        ignore=("bias", "out_dtype"),
        whole=("r", "e"),
        sizes={},
        results=(0,),
        linear=(0, 1),
        sums=sums,
        assume="",
    )
    return by_rule(ctx, [row])
