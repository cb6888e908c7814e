"""The text of a sharding rule, such as ``... h, h -> ... h``.

A rule lists the dimensions of every operand and result: names, ``(a b)`` for a dimension made of
two (a outer), ``a?`` for one that may be of one position, which is then repeated, ``...`` for any
leading (or trailing) dimensions, ``u`` for one position.
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any

from lark import Lark, Transformer
from lark.exceptions import LarkError

from gg_datalog.foundation.errors import InputError

GRAMMAR = r"""
rule: tensors "->" tensors
tensors: tensor ("," tensor)*
tensor: dim*
dim: NAME | NAME "?" -> maybe | REST -> rest | "(" (NAME | REST)* ")" -> group
NAME: /[a-z][a-z0-9_]*/
REST: "..."
%ignore " "
"""


class _Read(Transformer[Any, Any]):
    def dim(self, names: list[Any]) -> tuple[str, ...]:
        return (str(names[0]),)

    def maybe(self, names: list[Any]) -> tuple[str, ...]:
        return ("?", str(names[0]))

    def rest(self, _: list[Any]) -> tuple[str, ...]:
        return ("...",)

    def group(self, names: list[Any]) -> tuple[str, ...]:
        return ("(", *map(str, names))

    tensor = list
    tensors = list
    rule = tuple


@cache
def _parser() -> Lark:
    return Lark(GRAMMAR, start="rule", parser="lalr")


@lru_cache
def read_rule(rule: str, where: str = "") -> tuple[list[Any], list[Any]]:
    """Dimensions per operand and per result."""
    try:
        left, right = _Read().transform(_parser().parse(rule))
    except LarkError as error:
        raise InputError(
            f"rule `{rule}` cannot be read: {str(error).splitlines()[0]}",
            where,
            "see docs/operators.md",
        ) from None
    return left, right
