"""The relations that extraction writes: declared once, for Parquet, for TSV and for the rules.

``RULE_RELATIONS`` are inputs of ``datalog/main.dl`` (a test compares them with its ``.decl``s);
``REPORT_RELATIONS`` say what a person wants to read beside a result: names, lines, assumptions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

SCHEMA_VERSION = 2


@dataclass(frozen=True)
class Relation:
    """One relation: ``columns`` are (name, type) with type ``number`` (int64) or ``symbol``."""

    name: str
    columns: tuple[tuple[str, str], ...]

    def arrow(self) -> pa.Schema:
        """The Arrow schema, with relation name and schema version as metadata."""
        import pyarrow as pa

        types = {"number": pa.int64(), "symbol": pa.string()}
        fields = [pa.field(name, types[kind], nullable=False) for name, kind in self.columns]
        return pa.schema(
            fields, metadata={"relation": self.name, "schema_version": str(SCHEMA_VERSION)}
        )


def _relation(text: str) -> Relation:
    name, _, rest = text.partition("(")
    columns = (part.strip() for part in rest.rstrip(")").split(","))
    typed = tuple((c[1:], "number") if c[0] == "#" else (c, "symbol") for c in columns)
    return Relation(name, typed)


# A column is a symbol; `#` marks a number.
RULE_RELATIONS = tuple(
    map(
        _relation,
        (
            "seq_operator(by, signed, shaped)",
            "dist_operator(by, signed, shaped)",
            "operand_count(by, #total)",
            "operand_of(by, #place, of, times)",
            "result_of(by, #place, gives)",
            "linear_in(signed, #place)",
            "plain_sum(signed)",
            "plain_extremum(signed)",
            "random_draw(signed)",
            "drawn_as(by, stream, form)",
            "lets_pass(signed, #place, kind)",
            "seq_tensor(of, shaped)",
            "dist_tensor(of, shaped)",
            "label_of(shaped, #label, #extent, factor, kind)",
            "label_count(shaped, #total)",
            "digit_of(shaped, #place, #dim, #level, #extent, #label, #stride)",
            "digit_count(shaped, #place, #dim, #total)",
            "result_dim(shaped, #place, #dim, #label)",
            "result_rank(shaped, #place, #total)",
            "label_fades(shaped, #row, #col, #least)",
            "operand_half(by, #place, #row, #col, #least)",
            "hidden_by(by, #row, #col, #least)",
            "scale_of(id, #num, #den, over, under)",
            "seq_sum(by, kind, #total, gives)",
            "dist_sum(by, kind, #total, gives)",
            "term_of(by, #place, of, times, shaped)",
            "seq_slice(by, of, shaped, #label, #start, #size, gives)",
            "dist_slice(by, of, shaped, #label, #start, #size, gives)",
            "seq_member(by, #place, of, times, shaped, #label, #start)",
            "dist_member(by, #place, of, times, shaped, #label, #start)",
            "seq_concat(by, #total, gives)",
            "dist_concat(by, #total, gives, #local)",
            "seq_lookup(by, table, ids, shaped, #label, gives)",
            "dist_lookup(by, table, ids, shaped, #label, gives)",
            "lookup_masked(by, mask)",
            "seq_onehot(by, ids, shaped, #label, gives)",
            "dist_onehot(by, ids, shaped, #label, gives)",
            "alternative(by)",
            "integer_test(gives, of, compare, #bound)",
            "integer_pair(gives, op, a, b)",
            "integer_not(gives, of)",
            "integer_same(gives, of, #number, #truth)",
            "integer_fill(gives, of, mask, #value)",
            "integer_clamp(gives, of, #low, #high)",
            "integer_term(gives, #place, of, #times)",
            "integer_sum(gives, #total)",
            "constant_one(of)",
            "seq_counting(of, #step, #phase, #first, #extent)",
            "dist_counting(of, #step, #phase, #first, #extent)",
            "related_input(#row, dist, seq)",
            "related_range(#row, #dim, #lo, #n, #dist_dim, #dist_lo)",
            "related_repeat(#row, #dim, #stride, #first, #times, #dist_stride, #dist_first)",
            "seq_rank(of, #total)",
            "wanted(#wants, of, times)",
            "returned(#wants, #rank, of, times)",
            "may_be_partial(#wants)",
            "wanted_shaped(#wants, shaped)",
            "returned_shaped(#wants, #rank, shaped)",
            "declared_cut(#wants, #rank, #place, #way, #lo, #n, #shift)",
            "period_of(#wants, #place, #period)",
            "returned_by(#wants, #mesh)",
            "mesh_axis(#mesh, #axis)",
            "mesh_step(#mesh, #axis, #rank, #next)",
            "mesh_peer(#mesh, #axis, #rank, #next)",
            "layout_allowed(#wants)",
            "state_of(#wants, #rank, seq, dist, seq_shaped, dist_shaped)",
            "state_reshaped(#wants, #rank)",
            "zero_from(#wants, #rank, #dim, #first)",
        ),
    )
)

REPORT_RELATIONS = tuple(
    map(
        _relation,
        (
            # one row per node of a graph; side is seq or dist; tensor is its base ("" if none),
            # times its coefficient relative to the base, value "view" | "operator" | "input" | ...
            "graph_node(side, #rank, name, #position, op, target, dtype, shape, source, module, "
            "tensor, times, made_by)",
            # operator `by` stands for node `node` of rank `rank` (the first of several)
            "operator_node(by, side, #rank, node, target, attributes)",
            # base tensor `tensor` is computed from base tensor `needs` by operator `by`
            "tensor_needs(side, by, tensor, needs, #place)",
            "base_tensor(side, tensor, #rank, node, kind, shape, dtype)",
            "output_name(#wants, seq, #partial, name)",
            # what output `wants` is, where the case says so: gradient or state (a new value)
            "output_kind(#wants, kind)",
            "returned_name(#wants, #rank, dist)",
            # output `wants` is the new value of input `seq`, which the rank was given as `dist`
            "state_name(#wants, #rank, seq, dist)",
            # output `wants` is the gradient of `dist`, which the rank uses without returning one
            "gradient_lacked(#wants, #rank, dist)",
            # how an output (side seq) or what a rank returns for it lies over its base tensor: per
            # dimension its digits `base dimension/extent/stride`, outermost first ("-": none)
            "output_view(#wants, side, #rank, digits)",
            "input_row(#row, seq, #rank, dist, seq_box, dist_box)",
            "assumption(kind, text)",
            "unsupported_operator(side, #rank, node, target, reason)",
            "opaque_input(side, #rank, node, reason)",
            "uninitialised(side, #rank, node)",
            "collective(#instance, kind, reduction, ranks, #rank, node)",
            # node `node` of rank `rank` takes part in collective `instance`, of which no rank uses
            # what it gives; it takes node `of`
            "collective_unused(#instance, kind, #rank, node, of)",
            "collective_mismatch(#rank, node, kind, problem)",
            "warning(text)",
        ),
    )
)

RELATIONS = {relation.name: relation for relation in (*RULE_RELATIONS, *REPORT_RELATIONS)}
