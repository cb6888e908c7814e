"""GG124: the input relations leave out a piece of an input."""

from __future__ import annotations

from gg_datalog.diagnosis.mistakes.mistake import Example, Mistake
from gg_datalog.diagnosis.scene import Held
from gg_datalog.diagnosis.sites.breaks import Break
from gg_datalog.diagnosis.sites.ranges import coverage
from gg_datalog.result.placement import spans_text
from gg_datalog.result.report import Finding

MISTAKE = Mistake(
    code="GG124",
    title="the input relations leave out a piece of an input",
    level="error",
    note="""
By the input relations the ranks together do not hold all of this input: ranges overlap, leave
a gap, or a rank is missing. What is computed from all of it cannot be rebuilt. (Rows that
contradict each other, two contents for one element, are refused by `extract`.)""",
    remedy="""
Correct the rows of `relations.json` (docs/format.md), or the way in which the checkpoint is
cut if the rows say what it does.""",
    example=Example(
        sequential="""
x: f32[8, 6]
return relu(x)""",
        wrong="""
x: f32[4, 6]
return relu(x)""",
        relate={
            "x": [
                {"rank": 0, "seq_box": [[0, 4], [0, 6]]},
                {"rank": 1, "seq_box": [[3, 7], [0, 6]]},
            ]
        },
        right="""
x: f32[4, 6]
return relu(x)""",
        says=(
            "input `x`: the ranks hold 0:4, 3:7 of dim 0: 7:8 of 8 is missing and 3:4 is "
            "there twice"
        ),
    ),
)


def at_break(place: Break) -> Finding | None:
    """An input of which the ranks have pieces that leave something out."""
    if place.computed:
        return None
    scene, of = place.scene, place.of
    rows = [h for h in scene.held(place.dists, place.seq) if h.whole]
    problem = _problem(place, rows)
    return MISTAKE.finding(
        f"input `{of.node}`: {problem}",
        seq=of.node,
        dist=tuple(scene.names(place.dists)),
        trigger=problem,
        effect=f"what is computed from all of `{of.node}` cannot be rebuilt",
        expected=f"relations that cover {of.node}",
        found=scene.relation(place.seq, rows) if rows else None,
        outputs=place.outputs,
    )


def _problem(place: Break, rows: list[Held]) -> str:
    """What the input relations leave out."""
    shape = place.of.shape
    boxes = [b for h in rows if (b := place.scene.box(h)) is not None]
    differ = [d for d, e in enumerate(shape) if any(b[d] != (0, e) for b in boxes)]
    if len(differ) == 1 and boxes:
        spans = [b[differ[0]] for b in boxes]
        left = coverage(spans, shape[differ[0]])
        return f"the ranks hold {spans_text(sorted(set(spans)))} of dim {differ[0]}: {left}"
    if not rows:
        return "the input relations do not say what the ranks hold of it"
    return "the input relations do not say that the ranks hold all of it"
