"""Reasons and states that views and rules give, and what reads them knows them by.

Each is written once here, and in the SQL or the rule that gives it; ``tests/rules/test_reasons.py``
compares them.
"""

from __future__ import annotations

from enum import StrEnum


class Word(StrEnum):
    """One of the words of an enumeration; whoever prints it sees its text."""

    def __repr__(self) -> str:
        return repr(self.value)


class Reason(Word):
    """Why a distributed operator does not give a sequential tensor (views ``blocked``,
    ``pair_reason``, ``operand_at_fault``, ``return_break``), or no rule describes a tensor
    (``tensor_opaque``)."""

    PART_TAKEN = "operand is a part of a reduction"
    PART_GIVEN = "result is a part of a reduction"
    COEFFICIENT = "other coefficient"
    OPERAND = "different operand"
    RANGE = "different range"
    MASK = "different mask"
    ATTRIBUTE = "different attribute"
    UNSUPPORTED = "unsupported operator"
    OPAQUE = "opaque input"
    NO_COUNTERPART = "no counterpart"


PARTS = (Reason.PART_TAKEN, Reason.PART_GIVEN)


class Returned(Word):
    """In what form a rank returns an output (view ``returned_state``)."""

    RIGHT = "right"
    ORDER = "order"
    PIECE = "piece"
    COEFFICIENT = "coefficient"
    PART = "part"
    NOTHING = "nothing"


class OutputKind(Word):
    """What an output is, where the case says so (relation ``output_kind``)."""

    GRADIENT = "gradient"
    STATE = "state"


class Term(Word):
    """How a term of a sequential sum is found in a distributed one (relation ``sum_found``)."""

    COMPLETE = "complete"
    MISSING = "missing"
    OPEN = "open"


class Status(Word):
    """What is shown of an output (view ``output_status``)."""

    MAPPED = "mapped"
    UNMAPPED = "unmapped"
    INCONCLUSIVE = "inconclusive"


class Evidence(Word):
    """What the status of an output rests on (view ``output_status``)."""

    PROOF = "proof"
    NUMBERS = "numbers"
    RELATIONS = "relations"
    NONE = "none"


class Verdict(Word):
    """What is shown of all outputs (view ``verdict``)."""

    REFINES = "refines"
    DIFFERS = "does-not-refine"
    INCONCLUSIVE = "inconclusive"
