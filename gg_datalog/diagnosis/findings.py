"""The codes of findings, and what each means. A code never changes its meaning; a new meaning gets
a new code. Each has a module of :mod:`gg_datalog.diagnosis.mistakes`, whose page is reference, help
and title at once."""

from __future__ import annotations

from difflib import get_close_matches
from enum import Enum

from gg_datalog.diagnosis.mistakes import (
    gg101_chain_break,
    gg102_rank_break,
    gg103_other_coefficient,
    gg104_open_output,
    gg105_missing_piece,
    gg106_unrelated_output,
    gg107_uneven_sum,
    gg108_used_part,
    gg109_early_operator,
    gg110_misaligned_collective,
    gg111_shard_order,
    gg112_slice_range,
    gg113_reduction_group,
    gg114_repeated_reduction,
    gg115_stray_factor,
    gg116_other_attribute,
    gg117_other_operand,
    gg118_cut_dimension,
    gg119_open_gradient,
    gg120_unknown_operator,
    gg121_unknown_input,
    gg122_number_limit,
    gg123_shared_draw,
    gg124_input_gap,
    gg125_agreeing_numbers,
    gg126_refuted_guess,
    gg130_extraction_warning,
    gg131_uninterpreted_operator,
    gg132_unrelated_input,
    gg133_share_order,
    gg134_other_precision,
    gg140_contradiction,
    gg141_unproved_agreement,
    gg150_stale_output,
    gg151_unwritten_memory,
    gg152_lookup_mask,
    gg153_omitted_operator,
    gg154_element_order,
    gg155_moved_state,
    gg156_lacking_gradient,
    gg157_repeated_draw,
    gg158_unequal_draw,
)
from gg_datalog.diagnosis.mistakes.mistake import Example, Mistake
from gg_datalog.foundation.errors import InputError

__all__ = ["BESIDE", "PAGES", "Example", "Kind", "Mistake", "page"]


class Kind(Enum):
    """All kinds of findings."""

    CHAIN_BREAKS = gg101_chain_break.MISTAKE
    RANK_BREAKS = gg102_rank_break.MISTAKE
    OTHER_COEFFICIENT = gg103_other_coefficient.MISTAKE
    OPEN_REDUCTION = gg104_open_output.MISTAKE
    NOT_COVERED = gg105_missing_piece.MISTAKE
    NOT_RELATED = gg106_unrelated_output.MISTAKE
    SUM_RATIO = gg107_uneven_sum.MISTAKE
    PART_USED = gg108_used_part.MISTAKE
    NOT_LINEAR = gg109_early_operator.MISTAKE
    COLLECTIVE = gg110_misaligned_collective.MISTAKE
    WRONG_ORDER = gg111_shard_order.MISTAKE
    WRONG_RANGE = gg112_slice_range.MISTAKE
    WRONG_GROUP = gg113_reduction_group.MISTAKE
    REDUCED_TWICE = gg114_repeated_reduction.MISTAKE
    USED_FACTOR = gg115_stray_factor.MISTAKE
    OTHER_ATTRIBUTE = gg116_other_attribute.MISTAKE
    OTHER_OPERAND = gg117_other_operand.MISTAKE
    NEEDS_WHOLE = gg118_cut_dimension.MISTAKE
    GRADIENT = gg119_open_gradient.MISTAKE
    UNSUPPORTED = gg120_unknown_operator.MISTAKE
    OPAQUE = gg121_unknown_input.MISTAKE
    LIMIT = gg122_number_limit.MISTAKE
    SHARED_DRAW = gg123_shared_draw.MISTAKE
    INPUT_GAP = gg124_input_gap.MISTAKE
    AGREES = gg125_agreeing_numbers.MISTAKE
    GUESS = gg126_refuted_guess.MISTAKE
    EXTRACTION = gg130_extraction_warning.MISTAKE
    UNINTERPRETED = gg131_uninterpreted_operator.MISTAKE
    NOTHING_KNOWN = gg132_unrelated_input.MISTAKE
    OUT_OF_ORDER = gg133_share_order.MISTAKE
    PRECISION = gg134_other_precision.MISTAKE
    CONTRADICTED = gg140_contradiction.MISTAKE
    NOT_SHOWN = gg141_unproved_agreement.MISTAKE
    STALE = gg150_stale_output.MISTAKE
    UNWRITTEN = gg151_unwritten_memory.MISTAKE
    OTHER_MASK = gg152_lookup_mask.MISTAKE
    LEFT_OUT = gg153_omitted_operator.MISTAKE
    MISPLACED = gg154_element_order.MISTAKE
    STATE_MOVED = gg155_moved_state.MISTAKE
    GRADIENT_LACKED = gg156_lacking_gradient.MISTAKE
    DRAW_REPEATED = gg157_repeated_draw.MISTAKE
    DRAW_UNEQUAL = gg158_unequal_draw.MISTAKE


PAGES = {kind.value.code: kind.value for kind in Kind}

# Findings that are worth knowing beside a verdict. Any other code, new ones too, gives a reason
# why an output is not rebuilt: it cannot be turned off.
BESIDE = tuple(kind.value.code for kind in Kind if kind.value.code.startswith("GG13"))


def page(code: str) -> Mistake:
    """What a code means; upper and lower case are the same.

    Raises:
        InputError: there is no such code.
    """
    found = PAGES.get(code.upper())
    if found is None:
        close = get_close_matches(code.upper(), PAGES, 3, 0.5) or list(PAGES)
        hint = f"closest: {', '.join(close)}; `gg-datalog rule --list` shows all"
        raise InputError(f"there is no code `{code}`", None, hint)
    return found
