"""GG155: state does not come back as it was given."""

from __future__ import annotations

from collections.abc import Iterator

from gg_datalog.diagnosis.mistakes.mistake import Example, Mistake
from gg_datalog.diagnosis.sites.rebuilt import Rebuilt
from gg_datalog.result.placement import names_text, some
from gg_datalog.result.report import Finding

MISTAKE = Mistake(
    code="GG155",
    title="state does not come back as it was given",
    level="error",
    note="""
A parameter, buffer or optimizer state that the program updates comes back in another relation
than the one in which it was given: another piece of it, all of it instead of a shard, another
order. One step is right, but the next one starts from something else than the verdict is
about.""",
    remedy="""
Return on each rank the piece that it was given, at the same place.""",
    example=Example(
        sequential="""
w: f32[8, 4]
return sub(w, mul(w, 0.5))""",
        wrong="""
w: f32[4, 4]
y = sub(w, mul(w, 0.5))
return all_gather_into_tensor(y, 2, "g")     # the whole weight, where a shard was given""",
        right="""
w: f32[4, 4]
y = sub(w, mul(w, 0.5))
return y""",
        names=["updated_w"],
        state=["w"],
        says=(
            "`out` on ranks 0-1: `updated_w`, the new value of `w`, does not come back as "
            "it was given: the ranks were given r0.w = w[0:4,0:4], r1.w = w[4:8,0:4], and "
            "`out` is r0.out"
        ),
    ),
    certain=True,
    layout=True,
)


def moved_state(rebuilt: Rebuilt) -> Iterator[Finding]:
    """State that comes back in another relation than the one in which it was given."""
    for wants, given, dist, pieces in rebuilt.scene.rows(_STATE_LOST):
        output, back = rebuilt.outputs[wants], rebuilt.told(wants)
        told = some(list(dict.fromkeys(pieces)))
        text = (
            f"{names_text(dist)}: `{output.name or output.seq}`, the new value of `{given}`, does "
            f"not come back as it was given: the ranks were given {told}, and `{output.seq}` is "
            f"{back}"
        )
        yield MISTAKE.finding(
            text,
            seq=output.seq,
            dist=tuple(dist),
            effect="the next step starts from something else than this one did",
            expected=told,
            found=back,
            outputs=(output.seq,),
        )


_STATE_LOST = """
    SELECT l.wants, s.seq, list_distinct(list('r' || l.rank || '.' || n.dist ORDER BY l.rank)),
           list('r' || l.rank || '.' || s.dist ||
                coalesce(' = ' || s.seq || '[' || i.seq_box || ']', ', related to nothing')
                ORDER BY l.rank, i.row)
    FROM state_lost l JOIN returned_name n USING (wants, rank)
    JOIN state_name s USING (wants, rank)
    LEFT JOIN input_row i ON i.rank = l.rank AND i.dist = s.dist AND i.seq = s.seq
    GROUP BY l.wants, s.seq ORDER BY l.wants"""
