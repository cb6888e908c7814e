"""GG133: shares of an output are not in the order of the ranks."""

from __future__ import annotations

from collections.abc import Iterator

from gg_datalog.diagnosis.mistakes.mistake import Example, Mistake
from gg_datalog.diagnosis.sites.rebuilt import Rebuilt
from gg_datalog.result.report import Finding

MISTAKE = Mistake(
    code="GG133",
    title="shares of an output are not in the order of the ranks",
    level="warning",
    note="""
The output can be rebuilt, but not by putting the shares of rank 0, 1, 2, ... one after the
other, which is what a checkpoint loader or an all-gather does.""",
    remedy="""
If shards are meant to lie like that, nothing; else cut the inputs in the order of the ranks.""",
    example=Example(
        sequential="""
x: f32[4, 8]
return relu(x)""",
        wrong="""
x: f32[2, 8]     # rows 2:4 on rank 0, rows 0:2 on rank 1
return relu(x)""",
        relate={
            "x": [
                {"rank": 0, "seq_box": [[2, 4], [0, 8]]},
                {"rank": 1, "seq_box": [[0, 2], [0, 8]]},
            ]
        },
        right="""
x: f32[2, 8]     # rows 0:2 on rank 0, rows 2:4 on rank 1
return relu(x)""",
        says=(
            "`out` is rebuilt from shares in another order than that of the ranks: "
            "concat(dim=0, [r1.out, r0.out])"
        ),
    ),
)


def out_of_order(rebuilt: Rebuilt) -> Iterator[Finding]:
    """Outputs that are rebuilt, but not by putting the shares one after the other: whoever gathers
    them in the order of the ranks gets something else. Ranks with several pieces each (of fused
    halves) are not gathered that way to begin with."""
    for wants, relation in rebuilt.relations.items():
        output, ranks = rebuilt.outputs[wants], relation.ranks
        in_order = list(ranks) == sorted(ranks) or len(set(ranks)) < len(ranks)
        if output.relation is not None and not in_order:
            text = f"`{output.seq}` is rebuilt from shares in another order than that of the ranks"
            yield MISTAKE.finding(f"{text}: {output.relation}", seq=output.seq)
