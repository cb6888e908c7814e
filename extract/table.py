"""The operator table: which operators there are, as data that a user can extend."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

from gg_datalog.errors import InputError


@dataclass(frozen=True)
class Row:
    """An operator with a sharding rule such as ``... h, h -> ... h``."""

    target: str
    rule: str
    operands: tuple[int | str, ...]
    ignore: tuple[int | str, ...]
    whole: tuple[str, ...]
    sizes: Mapping[str, int | str]
    results: tuple[int, ...]
    linear: tuple[int, ...]
    assume: str


@dataclass
class Table:
    """All rows by target, and the plain lists."""

    rows: dict[str, list[Row]] = field(default_factory=dict)
    elementwise: dict[str, tuple[str, ...]] = field(default_factory=dict)
    identity: dict[str, int | str] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)
    placement: frozenset[str] = frozenset()
    commutative: frozenset[str] = frozenset()

    def merge(self, document: Mapping[str, Any], where: str) -> None:
        """Adds a document's rows; a row of the same target replaces earlier ones."""
        unknown = set(document) - {
            "operator",
            "elementwise",
            "identity",
            "alias",
            "placement",
            "commutative",
        }
        if unknown:
            raise InputError(
                f"unknown key `{min(unknown)}`", where, "see docs/operators.md for the keys"
            )
        fresh: dict[str, list[Row]] = {}
        for row in _list(document.get("operator", []), where):
            made = _row(row, where)
            fresh.setdefault(made.target, []).append(made)
        self.rows.update(fresh)
        for name, flags in _dict(document.get("elementwise", {}), where).items():
            self.elementwise[name] = tuple(_list(flags, where))
        self.identity.update(_dict(document.get("identity", {}), where))
        self.aliases.update(_dict(document.get("alias", {}), where))
        self.placement |= frozenset(_list(document.get("placement", []), where))
        self.commutative |= frozenset(_list(document.get("commutative", []), where))


def load_table(extra: Sequence[Path] = ()) -> Table:
    """The built-in table with the user's files on top."""
    table = Table()
    builtin = files("gg_datalog.extract").joinpath("operators.toml").read_text("utf-8")
    table.merge(tomllib.loads(builtin), "operators.toml")
    for path in extra:
        try:
            table.merge(tomllib.loads(path.read_text("utf-8")), str(path))
        except OSError as error:
            raise InputError(f"operator file cannot be read: {error.strerror}", str(path)) from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise InputError(f"operator file is not TOML: {error}", str(path)) from None
    return table


KEYS = {"target", "rule", "operands", "ignore", "whole", "sizes", "results", "linear", "assume"}


def _row(row: Any, where: str) -> Row:
    row = _dict(row, where)
    if not isinstance(row.get("target"), str) or not isinstance(row.get("rule"), str):
        raise InputError(
            "an [[operator]] needs `target` and `rule`", where, "see docs/operators.md"
        )
    here = f"{where}: operator `{row['target']}`"
    if unknown := set(row) - KEYS:
        raise InputError(f"unknown key `{min(unknown)}`", here, f"known: {', '.join(sorted(KEYS))}")
    left, arrow, right = row["rule"].partition("->")
    operands = tuple(_list(row.get("operands", list(range(len(left.split(","))))), here))
    results = tuple(_list(row.get("results", list(range(len(right.split(","))))), here))
    if not arrow or len(operands) != len(left.split(",")) or len(results) != len(right.split(",")):
        raise InputError(
            f"rule `{row['rule']}` does not name {len(operands)} operands "
            f"and {len(results)} results",
            here,
            "write one dimension list per operand, `->`, one per result, separated by commas",
        )
    return Row(
        row["target"],
        row["rule"],
        operands,
        tuple(_list(row.get("ignore", []), here)),
        tuple(_list(row.get("whole", []), here)),
        _dict(row.get("sizes", {}), here),
        results,
        tuple(_list(row.get("linear", []), here)),
        str(row.get("assume", "")),
    )


def _list(value: Any, where: str) -> list[Any]:
    if not isinstance(value, list):
        raise InputError(f"expected a list, not {value!r}", where)
    return value


def _dict(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InputError(f"expected a table, not {value!r}", where)
    return value
