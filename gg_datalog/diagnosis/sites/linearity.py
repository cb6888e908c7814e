"""Which operators are linear: what they make of parts may be added up later."""

from __future__ import annotations

from collections.abc import Sequence

from gg_datalog.diagnosis.scene import Scene


def linear(scene: Scene, users: Sequence[str], operands: Sequence[str]) -> bool:
    """Are all of these operators linear in what they take of these operands?"""
    return not scene.rows(_NOT_LINEAR, list(users), list(operands))


# Operators that take some of these operands, and are not linear in them; those that only put
# elements elsewhere are linear in all of their operands together.
_MOVES = (
    r"^(aten\.)?(cat|stack|index|gather|scatter|select|constant_pad|roll|flip|as_strided|slice|"
    r"where|masked_|embedding|triu|tril|diag|unfold|col2im|im2col)"
)
_NOT_LINEAR = f"""
    SELECT r.gives FROM result_of r JOIN dist_operator d ON d."by" = r."by"
    JOIN operand_of o ON o."by" = r."by"
    WHERE r.gives IN (SELECT unnest(?)) AND o."of" IN (SELECT unnest(?))
      AND NOT EXISTS (
          SELECT 1 FROM linear_in l WHERE l.signed = d.signed AND l.place = o.place
      )
      AND NOT EXISTS (SELECT 1 FROM tensor_opaque u WHERE u.side = 'dist' AND u.tensor = r.gives)
      AND NOT regexp_matches(d.signed, '{_MOVES}')
    LIMIT 1"""
