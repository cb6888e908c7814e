"""GG105: what the ranks return is only a piece of an output."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gg_datalog.diagnosis.mistakes.mistake import Example, Mistake
from gg_datalog.diagnosis.scene import Held, Scene
from gg_datalog.diagnosis.sites.outputs import Output
from gg_datalog.diagnosis.sites.ranges import coverage
from gg_datalog.result.placement import some, spans_text
from gg_datalog.result.reasons import OutputKind, Returned
from gg_datalog.result.report import Finding

MISTAKE = Mistake(
    code="GG105",
    title="what the ranks return is only a piece of an output",
    level="error",
    note="""
What comes back is right as far as it goes, but some elements of the output are on no rank, or
some of what a rank returns belongs to nothing.""",
    remedy="""
Look at the ranges: a slice that is too short, a rank that returns the share of another, an
all-gather over too few ranks.""",
    example=Example(
        sequential="""
x: f32[8, 6]
return relu(x)""",
        wrong="""
x: f32[8, 6]
y = relu(x)
return slice(y, 0, 3 * rank, 3 * rank + 4)""",
        right="""
x: f32[8, 6]
y = relu(x)
return slice(y, 0, 4 * rank, 4 * rank + 4)""",
        says=(
            "`out` on ranks 0-1: the pieces of `out` that are returned do not make up all "
            "of it: 0:4, 3:7 of dim 0, 7:8 of 8 is missing and 3:4 is there twice"
        ),
    ),
)


def at_output(output: Output) -> Finding | None:
    """Pieces of an output that are not all of it, or not of it alone."""
    if output.broken:
        return None
    if output.state == Returned.PIECE:
        text = f"{output.names}: only some of what is returned for `{output.seq}` is shown to "
        return MISTAKE.finding(f"{text}belong to it", **output.where)
    return _left_out(output) if output.all_right else None


def _left_out(output: Output) -> Finding:
    held = [h for h in output.held if h.whole]
    text = f"{output.names}: the pieces of `{output.seq}` that are returned do not make up all of "
    return MISTAKE.finding(
        f"{text}it{_range_left_out(output, held)}",
        expected=output.seq,
        found=output.relation(held),
        certain=True,
        **output.where,
    )


def _range_left_out(output: Output, held: Sequence[Held]) -> str:
    """Which range of an output is returned by no rank."""
    scene, shape = output.scene, output.scene.seq(output.base).shape
    boxes = [b for h in held if (b := scene.box(h)) is not None]
    differ = [d for d, e in enumerate(shape) if any(b[d] != (0, e) for b in boxes)]
    if len(differ) != 1:
        return ""
    (dim,) = differ
    spans = list(dict.fromkeys(b[dim] for b in boxes))
    return f": {spans_text(spans)} of dim {dim}, {coverage(spans, shape[dim])}"


def never_returned(scene: Scene) -> Iterator[Finding]:
    """Outputs for which no rank returns anything, those of a kind together. Gradients are freed by
    a step that is captured with them: what it makes of them is returned."""
    stepped = bool(scene.rows(_UPDATED))
    for kind, named, seqs in scene.rows(_NOT_RETURNED):
        text = f"no rank returns anything for {some([f'`{name}`' for name in named])}"
        certain = not (stepped and kind == OutputKind.GRADIENT)
        yield MISTAKE.finding(text, seq=seqs[0], outputs=tuple(seqs), certain=certain)


_NOT_RETURNED = """
    SELECT k.kind, list(coalesce(nullif(o.name, ''), o.seq) ORDER BY wants),
           list(o.seq ORDER BY wants)
    FROM output_name o LEFT JOIN output_kind k USING (wants)
    WHERE wants NOT IN (SELECT wants FROM returned_name) GROUP BY k.kind ORDER BY min(wants)"""

_UPDATED = "SELECT 1 FROM output_kind WHERE kind = 'state' LIMIT 1"
