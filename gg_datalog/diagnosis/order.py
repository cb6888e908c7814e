"""In which order mistakes are looked for: at each kind of place the first that is there is told.

What names a mistake more closely comes before what is said of any difference; where two may hold,
the one that explains the other comes first.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable

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
    gg130_extraction_warning,
    gg131_uninterpreted_operator,
    gg132_unrelated_input,
    gg133_share_order,
    gg134_other_precision,
    gg135_unused_collective,
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
from gg_datalog.diagnosis.mistakes.mistake import Check, Look, first
from gg_datalog.diagnosis.scene import Scene
from gg_datalog.diagnosis.sites.breaks import Break, operands_of
from gg_datalog.diagnosis.sites.concatenations import Concatenation, concatenations
from gg_datalog.diagnosis.sites.factors import Counted, multiplied
from gg_datalog.diagnosis.sites.outputs import Output
from gg_datalog.diagnosis.sites.ranks import RankBreak
from gg_datalog.diagnosis.sites.rebuilt import Rebuilt
from gg_datalog.diagnosis.sites.reductions import Reduction
from gg_datalog.diagnosis.sites.sums import Uneven
from gg_datalog.diagnosis.sites.unknowns import Obstacle
from gg_datalog.diagnosis.together import Likeness, Words
from gg_datalog.result.reasons import Returned
from gg_datalog.result.report import Finding

# ---- of the whole program ------------------------------------------------------------------------
BEFORE: tuple[Look[Scene], ...] = (
    gg110_misaligned_collective.misaligned_collectives,
    gg157_repeated_draw.repeated_draws,
    gg158_unequal_draw.unequal_draws,
    gg156_lacking_gradient.lacking_gradients,
)
"""What is wrong whatever else is, before all breaks."""

UNRETURNED: tuple[Look[Scene], ...] = (gg105_missing_piece.never_returned,)
"""What is not there at all, after what comes back in another form."""

AT_SUM: tuple[Check[Uneven], ...] = (gg107_uneven_sum.at_sum,)
"""Sums that both sides have, after reductions that stay open and before other breaks."""

AFTER: tuple[Look[Scene], ...] = (
    gg122_number_limit.number_limits,
    gg123_shared_draw.shared_draws,
    gg130_extraction_warning.extraction_warnings,
    gg131_uninterpreted_operator.uninterpreted_operators,
    gg132_unrelated_input.unrelated_inputs,
    gg134_other_precision.other_precisions,
    gg135_unused_collective.unused_collectives,
)
"""What is worth knowing, after all breaks."""

REBUILT: tuple[Look[Rebuilt], ...] = (
    gg154_element_order.misplaced,
    gg155_moved_state.moved_state,
    gg133_share_order.out_of_order,
)
"""Of outputs that are rebuilt, last."""

# ---- where a reduction stays open ----------------------------------------------------------------
AT_REDUCTION: tuple[Check[Reduction], ...] = (
    gg113_reduction_group.at_reduction,
    gg112_slice_range.at_reduction,
    gg109_early_operator.at_reduction,
    gg119_open_gradient.at_reduction,
    gg108_used_part.at_reduction,
)

# ---- where a factor comes in, or pieces are put together -----------------------------------------
AT_FACTOR: tuple[Check[Counted], ...] = (
    gg114_repeated_reduction.at_factor,
    gg113_reduction_group.at_factor,
)

AT_CONCATENATION: tuple[Check[Concatenation], ...] = (
    gg111_shard_order.at_concatenation,
    gg112_slice_range.at_concatenation,
)


def _factors(place: Break) -> Finding | None:
    """What is multiplied on its way into a break."""
    used = multiplied(place)
    if used is None:
        return None
    return first(AT_FACTOR, used.counted) or gg115_stray_factor.at_factors(used)


def _concatenations(place: Break) -> Finding | None:
    """Pieces that are put together at a break."""
    dists = [*place.dists, *place.broken]
    return _first(first(AT_CONCATENATION, one) for one in concatenations(place, dists))


def _operand_concatenations(place: Break) -> Finding | None:
    """Pieces that are put together right before a break."""
    dists = operands_of(place.scene, place.ranged)
    return _first(first(AT_CONCATENATION, one) for one in concatenations(place, dists))


def _first(found: Iterable[Finding | None]) -> Finding | None:
    return next((one for one in found if one is not None), None)


# ---- where a chain breaks ------------------------------------------------------------------------
NAMED: tuple[Check[Break], ...] = (
    gg151_unwritten_memory.at_break,
    _factors,
    _concatenations,
    gg152_lookup_mask.at_break,
    gg118_cut_dimension.at_break,
    gg112_slice_range.of_operands,
    gg116_other_attribute.at_break,
    gg112_slice_range.of_slices,
    gg112_slice_range.of_origin,
    gg117_other_operand.at_break,
    _operand_concatenations,
    gg153_omitted_operator.at_break,
    gg150_stale_output.at_break,
)
"""Mistakes that have a name of their own."""

IN_THE_WAY: tuple[Check[Obstacle], ...] = (
    gg120_unknown_operator.in_the_way,
    gg121_unknown_input.in_the_way,
)


def _in_the_way(place: Break | RankBreak) -> Finding | None:
    """What no rule describes."""
    return first(IN_THE_WAY, place.obstacle) if place.obstacle else None


AT_BREAK: tuple[Check[Break], ...] = (
    _in_the_way,
    gg124_input_gap.at_break,
    *NAMED,
    gg120_unknown_operator.at_break,
    gg101_chain_break.at_break,
)
"""Where the sequential chain breaks."""


def _named(place: RankBreak) -> Finding | None:
    """A mistake that has a name, at what comes closest."""
    return first(NAMED, place.place) if place.near is not None else None


AT_RANK: tuple[Check[RankBreak], ...] = (_in_the_way, _named, gg102_rank_break.at_rank)
"""Where chains break on single ranks."""


# ---- where an output comes back in another form --------------------------------------------------
def _multiple(output: Output) -> Finding | None:
    """A multiple of an output: what brings the factor in, or that it comes back."""
    if output.state != Returned.COEFFICIENT:
        return None
    told = None if output.counted is None else first(AT_FACTOR, output.counted)
    return told or gg103_other_coefficient.at_output(output)


AT_OUTPUT: tuple[Check[Output], ...] = (
    _multiple,
    gg119_open_gradient.at_output,
    gg104_open_output.at_output,
    gg106_unrelated_output.at_output,
    gg105_missing_piece.at_output,
)


# ---- one cause, one finding ----------------------------------------------------------------------
def _same_return(output: Output, found: Finding) -> Hashable:
    """The same shares of what they are, or a factor that one line brings in."""
    if output.is_part:
        return output.state, output.kind, output.shares
    scales = output.factor is not None and output.factor.scales
    return output.state, found.dist_source, scales or output.times


def _same_users(reduction: Reduction, found: Finding) -> Hashable:
    """What uses them."""
    return reduction.users


def _same_reduction(reduction: Reduction, found: Finding) -> Hashable:
    """The same shares over the same ranks, of gradients or of what one line computes."""
    gradient = found.code == gg119_open_gradient.MISTAKE.code
    line = None if gradient else found.dist_source or reduction.of.target
    return reduction.shares, line


ALIKE_OUTPUTS: tuple[Likeness[Output], ...] = (_same_return,)
OUTPUTS_IN_WORDS: Words[Output] = {
    gg103_other_coefficient.MISTAKE.code: gg103_other_coefficient.of_several,
    gg104_open_output.MISTAKE.code: gg104_open_output.of_several,
    gg114_repeated_reduction.MISTAKE.code: gg114_repeated_reduction.of_several,
    gg119_open_gradient.MISTAKE.code: gg119_open_gradient.of_outputs,
}
"""Outputs that have one cause, and several of them in words."""

ALIKE_REDUCTIONS: tuple[Likeness[Reduction], ...] = (_same_users, _same_reduction)
REDUCTIONS_IN_WORDS: Words[Reduction] = {
    gg108_used_part.MISTAKE.code: gg108_used_part.of_several,
    gg119_open_gradient.MISTAKE.code: gg119_open_gradient.of_reductions,
}
"""Open reductions that have one cause, and several of them in words."""
