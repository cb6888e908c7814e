"""GG154: an output comes back in another order."""

from __future__ import annotations

from collections.abc import Iterator

from gg_datalog.diagnosis.mistakes.mistake import Example, Mistake
from gg_datalog.diagnosis.sites.rebuilt import Rebuilt
from gg_datalog.result.placement import names_text
from gg_datalog.result.report import Finding

MISTAKE = Mistake(
    code="GG154",
    title="an output comes back in another order",
    level="error",
    note="""
What the ranks return holds every element of the output, but not in its place: it is equal only
after a transpose, a roll or another order of rows, or a rank has a share that is another
rank's. Whoever reads the result where it stands, a checkpoint, an all-gather or the next step,
reads other elements. A result in the sequential shape has to be equal element by element; a
share keeps the order of its elements, and shares lie in the order of an axis of the mesh of
ranks (periodically, where several dimensions became one), or as an input of that extent is
declared to lie.""",
    remedy="""
Return it as the sequential program does. Where another order is meant, declare it:
relations.json for the input that brings it (the tokens of zig-zag context parallelism), or
`--allow-layout SEQ` for an output whose order does not matter.""",
    example=Example(
        sequential="""
x: f32[4, 4]
return relu(x)""",
        wrong="""
x: f32[4, 4]
return t(relu(x))""",
        right="""
x: f32[4, 4]
return relu(x)""",
        says=(
            "`out` on ranks 0-1, returned for `out`, is not `out` in place: out = "
            "permute(r0.out, [1, 0])"
        ),
    ),
    certain=True,
    layout=True,
)


def misplaced(rebuilt: Rebuilt) -> Iterator[Finding]:
    """Outputs that are rebuilt, but not in place."""
    unknown = {wants for (wants,) in rebuilt.scene.rows("SELECT wants FROM order_unknown")}
    for (wants,) in rebuilt.scene.rows("SELECT wants FROM output_misplaced ORDER BY wants"):
        yield _misplaced(rebuilt, wants, wants in unknown)


def _misplaced(rebuilt: Rebuilt, wants: int, unknown: bool) -> Finding:
    """One of them; ``unknown``: it is not shown in what order it is."""
    seq, relation = rebuilt.outputs[wants].seq, rebuilt.told(wants)
    dist = tuple(rebuilt.returned[wants])
    names = names_text(dist)
    text = f"{names}, returned for `{seq}`, is not `{seq}` in place"
    if unknown:
        text = f"in what order {names} holds the elements of `{seq}` is not shown"
    return MISTAKE.finding(
        f"{text}: {seq} = {relation}",
        seq=seq,
        dist=dist,
        effect=f"whoever reads `{seq}` where it stands reads other elements",
        expected=seq,
        found=relation,
        outputs=(seq,),
        certain=not unknown,
    )
