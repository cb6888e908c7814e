"""GG106: what a rank returns for an output is not found to be it."""

from __future__ import annotations

from gg_datalog.diagnosis.mistakes.mistake import Example, Mistake
from gg_datalog.diagnosis.sites.outputs import Output
from gg_datalog.result.reasons import Returned
from gg_datalog.result.report import Finding

MISTAKE = Mistake(
    code="GG106",
    title="what a rank returns for an output is not found to be it",
    level="error",
    note="""
The output is computed, but what is returned in its place is another tensor, or one that no
rule relates to it.""",
    remedy="""
Check the order of the returned values, and which of them `outputs.json` (or `--output
SEQ=DIST`) pairs.""",
    example=Example(
        sequential="""
x: f32[4, 8]
a = relu(x)
b = tanh(x)
return a, b""",
        wrong="""
x: f32[4, 8]
a = relu(x)
b = tanh(x)
return b, a""",
        right="""
x: f32[4, 8]
a = relu(x)
b = tanh(x)
return a, b""",
        says="`b` on ranks 0-1, returned for `a`, is `b`",
    ),
)


def at_output(output: Output) -> Finding | None:
    """Something that is related to an output in no way comes back for it."""
    if output.broken or output.state != Returned.NOTHING:
        return None
    other = _instead(output)
    text = f"no rule relates {output.names}, returned for `{output.seq}`, to it"
    if other is not None:
        text = f"{output.names}, returned for `{output.seq}`, is `{other}`"
    return MISTAKE.finding(text, expected=output.seq, found=other, **output.where)


def _instead(output: Output) -> str | None:
    """The sequential tensor that the ranks return in place of an output, if they return one."""
    found = [tensor for (tensor,) in output.scene.rows(_INSTEAD, output.wants)]
    things = output.scene.things("seq", found)
    return things[0].node if len(found) == len(things) == 1 else None


_INSTEAD = """
    SELECT DISTINCT h.seq FROM returned r
    JOIN holds h ON h.dist = r."of" AND NOT is_open(h.parts) AND is_one(h.times)
    WHERE r.wants = ?"""
