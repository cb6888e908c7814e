"""What each relation means: comments above declarations, and those of the report's own."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

from gg_datalog.datalog import program_path

DECLARATION = re.compile(r"\s*\.decl\s+(\w+)\s*\(")
COMMENT = re.compile(r"\s*//\s?(.*)")
DIVIDER = re.compile(r"-{4} .* -{4,}\s*")

REPORT_RELATIONS = {
    "graph_node": "A node of a captured graph (side seq or dist). It is `times` times a view of "
    "base tensor `tensor`, which `made_by` gives.",
    "operator_node": "Operator `by` stands for node `node`, of the first rank where several agree.",
    "tensor_needs": "Base tensor `tensor` is computed from base tensor `needs` by operator `by`.",
    "base_tensor": "A base tensor: the result of an operator before any movement, without its "
    "dimensions of one position.",
    "output_name": "Output `wants` is sequential node `seq`; partial: it may be an open sum; name: "
    "what the program calls it, where a capture knows.",
    "output_kind": "What output `wants` is, where the case says so: the gradient of an input, or "
    "the new value of one (state).",
    "returned_name": "Rank `rank` returns node `dist` for output `wants`.",
    "state_name": "Output `wants` is the new value of sequential input `seq`, of which rank `rank` "
    "was given `dist`.",
    "gradient_lacked": "Output `wants` is the gradient of what rank `rank` uses as `dist`, and it "
    "returns none.",
    "input_row": "Row `row` of the input relations: seq[seq_box] == dist[dist_box] on `rank`.",
    "assumption": "Something that the verdict takes on trust.",
    "unsupported_operator": "A node that no rule of the operator table describes: equal operands "
    "give equal results, and nothing more.",
    "opaque_input": "A node of which nothing is known.",
    "uninitialised": "A node whose memory is never written; it equals nothing.",
    "collective": "Node `node` of rank `rank` takes part in collective `instance`.",
    "collective_unused": "Node `node` of rank `rank`, which takes `of`, takes part in collective "
    "`instance`, of which no rank uses what it gives.",
    "collective_mismatch": "A collective that does not line up between its members.",
    "warning": "What extraction warned of.",
    "output_view": "How an output lies over its base tensor: per dimension its digits, "
    "`base dimension/extent/stride`, outermost first.",
}


@cache
def relation_comments() -> Mapping[str, str]:
    """A sentence or two for every relation that facts, rules or report declare."""
    found = dict(REPORT_RELATIONS)
    for path in sorted(program_path().parent.rglob("*.dl")):
        found.update(_comments(path.read_text(encoding="utf-8")))
    return found


def _comments(text: str) -> dict[str, str]:
    """Comments right above a ``.decl``; one without any shares that of the one before."""
    found: dict[str, str] = {}
    above: list[str] = []
    last = ""
    for line in text.splitlines():
        declared = DECLARATION.match(line)
        comment = COMMENT.match(line)
        if declared:
            last = " ".join(above) or last
            if last:
                found[declared[1]] = last
            above = []
        elif comment and not DIVIDER.match(comment[1]):
            above.append(comment[1])
        elif not line.strip():
            above, last = [], ""
        elif not comment and not line.startswith(".input"):
            above = []
    return found
