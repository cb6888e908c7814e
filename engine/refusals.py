"""Names what a syntax error ran into: mostly Soufflé that is outside the subset."""

from __future__ import annotations

import re
from pathlib import Path

from lark import UnexpectedCharacters, UnexpectedInput, UnexpectedToken

from gg_datalog.foundation.errors import EngineError

from .program import Pos

HINT = "the subset: .type, .decl, .input, .output, .include, facts and plain rules"

# Soufflé takes none of these words as a name.
RESERVED = (
    "(?:as|nil|count|sum|min|max|mean|range|cat|ord|strlen|substr|contains|match|true|false"
    "|autoinc|land|lor|lnot|lxor|band|bor|bxor|bnot|bshl|bshr|bshru|to_number|to_string"
    "|to_float|to_unsigned|inline|no_inline|magic|no_magic|eqrel|brie|btree|btree_delete"
    "|printsize|input|output|recursive_iteration_cnt|debug_delta|stateful|overridable)"
)

# What stands at the error -> how Soufflé calls it.
_CONSTRUCTS = (
    (r"\.(input|output|decl|type|include)\b", "a misplaced {0}"),
    (r"\.[a-z_]+", "the directive {0}"),
    (r";", "a disjunction (;)"),
    (r"@", "a user-defined functor (@)"),
    (r"\$", "an algebraic data type or counter ($)"),
    (r"\^|&|\|", "the operator {0}"),
    (r"[0-9]+\.[0-9]+", "the floating-point number {0}"),
    (r"0[xb][0-9a-fA-F]+|[0-9]+u", "the number format {0}"),
    (r"(count|sum|min|max|mean)\b\s*[^=(,)\s]*\s*:", "an aggregate"),
    (r"\{", "an aggregate or component body"),
    (r"<=", "subsumption (<=)"),
    (r"choice-domain", "choice-domain"),
    (rf"{RESERVED}\b(?=\s*\()", "the functor {0}(...)"),
    (rf"{RESERVED}\b", "the reserved word {0}"),
)


def refuse_syntax(error: UnexpectedInput, path: Path, text: str) -> EngineError:
    """The syntax error as an error that names the construct, the file and the line."""
    start = _offset(error, text)
    line = text.count("\n", 0, start) + 1
    return EngineError(_what(text, start), str(Pos(path, line)), HINT)


def _offset(error: UnexpectedInput, text: str) -> int:
    if isinstance(error, UnexpectedToken) and error.token.type == "$END":
        return len(text.rstrip())
    at_character = isinstance(error, UnexpectedToken | UnexpectedCharacters)
    return (error.pos_in_stream or 0) if at_character else 0


def _what(text: str, start: int) -> str:
    if start >= len(text.rstrip()):
        return "the file ends inside a clause"
    before = re.search(r"[A-Za-z_]\w*\s*$", text[:start])
    if re.search(r"\.type\s+\w+\s*=\s*$", text[:start]):
        return "a type that is neither a subset nor a record is not in the subset"
    if before and text[start] in "(:-" and not re.search(r"[:.]\s*$", text[: before.start()]):
        return _named(text, before.start())
    return _named(text, start)


def _named(text: str, start: int) -> str:
    for pattern, name in _CONSTRUCTS:
        found = re.match(pattern, text[start:])
        if found:
            return f"{name.format(found.group(0))} is not in the subset"
    found = re.match(r"([A-Za-z_]\w*)\s*\(", text[start:])
    if found:
        return f"the functor {found.group(1)}(...) is not in the subset"
    return f"syntax error at {text[start:].splitlines()[0][:30]!r}"
