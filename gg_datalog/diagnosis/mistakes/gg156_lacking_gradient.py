"""GG156: a gradient that some ranks lack."""

from __future__ import annotations

from collections.abc import Iterator

from gg_datalog.diagnosis.mistakes.mistake import Example, Mistake
from gg_datalog.diagnosis.scene import Scene
from gg_datalog.result.placement import ranks_text, some
from gg_datalog.result.report import Finding

MISTAKE = Mistake(
    code="GG156",
    title="a gradient that some ranks lack",
    level="error",
    note="""
Some ranks use a parameter and end without a gradient of it, while others return it. What the
others return is right, but replicas of the parameter drift apart with the next step: an
optimizer changes some of them and leaves the others as they are.""",
    remedy="""
Let every rank that uses the parameter get its gradient, or capture the step that shows what
becomes of it (`step=`). Where it is meant so (ZeRO), say it in `relations.toml`:
`gradients_in_part = ["layers.*"]`.""",
    example=Example(
        sequential="""
w: f32[4, 4]
x: f32[4, 4]
y = mm(x, w)
g = mm(t(x), y)
return g""",
        wrong="""
w: f32[4, 4]
x: f32[4, 4]
y = mm(x, w)
g = mm(t(x), y)
return g                        # on rank 0 only: w.grad is None on rank 1""",
        right="""
w: f32[4, 4]
x: f32[4, 4]
y = mm(x, w)
g = mm(t(x), y)
return g""",
        names=["grad_w"],
        lacks=["w"],
        says="rank 0 alone returns `grad_w`, and rank 1 uses the parameter, too",
    ),
    certain=True,
    static=True,
)


def lacking_gradients(scene: Scene) -> Iterator[Finding]:
    """One finding for all gradients that the same ranks lack."""
    for lacking, giving, names, outputs, used in scene.rows(_LACKING):
        yield MISTAKE.finding(
            f"{ranks_text(giving)} alone {'returns' if len(giving) == 1 else 'return'} "
            f"{some([f'`{name}`' for name in names])}, and {ranks_text(lacking)} "
            f"{'uses' if len(lacking) == 1 else 'use'} the parameter, too",
            dist=tuple(used),
            effect="replicas of the parameter drift apart with the next step",
            outputs=tuple(outputs),
        )


_LACKING = """
    WITH lacking AS (
        SELECT wants, list('r' || rank || '.' || dist ORDER BY rank) AS used,
               list(rank ORDER BY rank) AS ranks
        FROM gradient_lacked GROUP BY wants
    ), given AS (
        SELECT wants, list(rank ORDER BY rank) AS ranks FROM returned_name GROUP BY wants
    )
    SELECT l.ranks, g.ranks, list(coalesce(nullif(o.name, ''), o.seq) ORDER BY wants),
           list(o.seq ORDER BY wants), arg_min(l.used, wants)
    FROM lacking l JOIN given g USING (wants) JOIN output_name o USING (wants)
    GROUP BY ALL ORDER BY min(wants)"""
