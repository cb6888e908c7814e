"""The operator table: which operators there are, as data that a user can extend."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from gg_datalog.extract.sharding import read_rule
from gg_datalog.foundation.errors import InputError
from gg_datalog.foundation.regular import refuse_special


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
    sums: tuple[str, ...]
    assume: str
    # letters that stand for as many dimensions as a list argument has sizes, and which argument
    spread: Mapping[str, int | str] = field(default_factory=dict)
    own: tuple[str, ...] = ()  # arguments of which None is a number of the type's own


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
            self.elementwise[name] = tuple(_list(flags, f"{where}: elementwise `{name}`", FLAGS))
        for name, which in _dict(document.get("identity", {}), where).items():
            self.identity[name] = _argument(which, f"{where}: identity `{name}`")
        for name, other in _dict(document.get("alias", {}), where).items():
            self.aliases[name] = _text(other, f"{where}: alias `{name}`")
        placement = document.get("placement", [])
        named = list(placement) if isinstance(placement, dict) else placement
        self.placement |= _texts(named, f"{where}: placement")
        self.commutative |= _texts(document.get("commutative", []), f"{where}: commutative")

    def copy(self) -> Table:
        """A table of the same rows that takes others without changing this one."""
        return replace(
            self,
            rows=dict(self.rows),
            elementwise=dict(self.elementwise),
            identity=dict(self.identity),
            aliases=dict(self.aliases),
        )


def load_table(extra: Sequence[Path] = ()) -> Table:
    """The built-in table with the user's files on top."""
    table = _built_in().copy()
    for path in extra:
        refuse_special(path)
        try:
            table.merge(tomllib.loads(path.read_text("utf-8")), str(path))
        except OSError as error:
            raise InputError(f"operator file cannot be read: {error.strerror}", str(path)) from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise InputError(f"operator file is not TOML: {error}", str(path)) from None
    return table


@cache
def _built_in() -> Table:
    """Read once per process: reading it takes longer than extracting a small case."""
    table = Table()
    text = files("gg_datalog.extract").joinpath("operators.toml").read_text("utf-8")
    table.merge(tomllib.loads(text), "operators.toml")
    return table


KEYS = {
    "target",
    "rule",
    "operands",
    "ignore",
    "whole",
    "sizes",
    "results",
    "linear",
    "sum",
    "assume",
    "spread",
    "own",
}
FLAGS = ("linear", "monotone")
SEE = "see docs/operators.md"


def _row(row: Any, where: str) -> Row:
    row = _dict(row, where)
    if not isinstance(row.get("target"), str) or not isinstance(row.get("rule"), str):
        raise InputError("an [[operator]] needs `target` and `rule`", where, SEE)
    target, rule = row["target"], row["rule"]
    here = f"{where}: operator `{target}`"
    if unknown := set(row) - KEYS:
        raise InputError(f"unknown key `{min(unknown)}`", here, f"known: {', '.join(sorted(KEYS))}")
    if target.count(".") > 1:
        raise InputError("the target has an overload", here, f"say `{target.rpartition('.')[0]}`")
    left, right = read_rule(rule, here)
    operands = [_argument(a, here) for a in _list(row.get("operands", [*range(len(left))]), here)]
    results = _list(row.get("results", [*range(len(right))]), here)
    if len(operands) != len(left) or len(results) != len(right):
        raise InputError(
            f"rule `{rule}` does not name {len(operands)} operands and {len(results)} results",
            here,
            "write one dimension list per operand, `->`, one per result, separated by commas",
        )
    sizes = _dict(row.get("sizes", {}), here)
    names = [{n for dim in dims for n in dim} - {"(", "?"} for dims in (*left, *right)]
    known = set().union({"u"}, sizes, *names[: len(left)])
    for name in sorted(set().union(*names[len(left) :]) - known):
        raise InputError(f"rule `{rule}` makes `{name}` of nothing", here, "give it in `sizes`")
    summed = _summed(row, f"{here}: sum", set().union(*names[: len(left)]))
    whole = _list(row.get("whole", []), f"{here}: whole", sorted(known))
    kept = set.intersection(*names[len(left) :]) if right else set()
    for name in sorted(set().union(*names[: len(left)]) - kept):
        if name not in (*whole, *summed, "u"):
            some = name in set().union(*names[len(left) :])
            raise InputError(
                f"{'not every' if some else 'no'} result of rule `{rule}` has `{name}`",
                here,
                "list it in `whole` (it may not be cut) or in `sum` (it is added up)",
            )
    return Row(
        target,
        rule,
        tuple(operands),
        tuple(_argument(a, here) for a in _list(row.get("ignore", []), here)),
        tuple(whole),
        {name: _size(size, f"{here}: size `{name}`") for name, size in sizes.items()},
        tuple(_position(r, f"{here}: results") for r in results),
        tuple(_list(row.get("linear", []), f"{here}: linear", range(len(left)))),
        summed,
        _text(row.get("assume", ""), f"{here}: assume"),
        {
            _one_of(name, known, here): _argument(which, f"{here}: spread `{name}`")
            for name, which in _dict(row.get("spread", {}), f"{here}: spread").items()
        },
        tuple(sorted(_texts(row.get("own", []), f"{here}: own"))),
    )


def _one_of(name: str, known: set[str], where: str) -> str:
    if name not in known:
        raise InputError(f"spread names `{name}`, which the rule does not have", where, SEE)
    return name


def _summed(row: Mapping[str, Any], where: str, known: set[str]) -> tuple[str, ...]:
    """Dimensions that are added up: no result has them."""
    listed = _list(row.get("sum", []), where, sorted(known))
    if both := set(listed) & set(row.get("whole", [])):
        raise InputError(f"`{min(both)}` is both whole and added up", where, SEE)
    return tuple(listed)


def _list(value: Any, where: str, known: Sequence[Any] | None = None) -> list[Any]:
    if not isinstance(value, list):
        raise InputError(f"expected a list, not {value!r}", where, SEE)
    for part in value:
        if known is not None and (isinstance(part, bool) or part not in known):
            listed = ", ".join(map(str, known))
            raise InputError(f"{part!r} is not one of {listed}", where, SEE)
    return value


def _dict(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InputError(f"expected a table, not {value!r}", where, SEE)
    return value


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise InputError(f"expected a string, not {value!r}", where, SEE)
    return value


def _texts(value: Any, where: str) -> frozenset[str]:
    return frozenset(_text(part, where) for part in _list(value, where))


def _position(value: Any, where: str) -> int:
    if type(value) is not int or value < 0:
        raise InputError(f"expected a position from 0 on, not {value!r}", where, SEE)
    return value


def _argument(value: Any, where: str) -> int | str:
    return value if isinstance(value, str) else _position(value, where)


def _size(value: Any, where: str) -> int | str:
    if value == 0:
        raise InputError("a size is 1 or more", where, SEE)
    return _argument(value, where)
