"""The operator table: which operators there are, as data that a user can extend."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from gg_datalog.extract.sharding import read_rule
from gg_datalog.extract.signature import overloads
from gg_datalog.foundation.documents import read_toml
from gg_datalog.foundation.errors import InputError


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

    def merge(self, document: Mapping[str, Any], where: str) -> list[Row]:
        """Adds a document's rows, which it returns; what it says of a target replaces all that was
        known of it."""
        if unknown := set(document) - KINDS:
            raise InputError(
                f"unknown key `{min(unknown)}`", where, "see docs/operators.md for the keys"
            )
        rows = [_row(row, where) for row in _list(document.get("operator", []), where)]
        given = {kind: _dict(document.get(kind, {}), f"{where}: {kind}") for kind in NAMED}
        self._replaced({"operator": {row.target for row in rows}, **given}, where)
        _refuse_overlap(rows, where)
        for row in rows:
            self.rows.setdefault(row.target, []).append(row)
        for name, flags in given["elementwise"].items():
            self.elementwise[name] = tuple(_list(flags, f"{where}: elementwise `{name}`", FLAGS))
        for name, which in given["identity"].items():
            self.identity[name] = _argument(which, f"{where}: identity `{name}`")
        for name, other in given["alias"].items():
            here = f"{where}: alias `{name}`"
            self.aliases[name] = _target(_text(other, here), here)
        for name in given["alias"]:
            self._refuse_circle(name, where)
        placement = document.get("placement", [])
        named = list(placement) if isinstance(placement, dict) else placement
        self.placement |= _texts(named, f"{where}: placement")
        self.commutative |= _texts(document.get("commutative", []), f"{where}: commutative")
        return rows

    def called(self, name: str) -> str:
        """What an operator is called here: where its aliases lead."""
        return self.links(name)[-1]

    def links(self, name: str) -> list[str]:
        """A name and the names that it is an alias for, one of the other."""
        found = [name]
        while (other := self.aliases.get(found[-1])) is not None and other not in found:
            found.append(other)
        return found

    def _replaced(self, fresh: Mapping[str, Iterable[str]], where: str) -> None:
        """Makes room for these targets by kind: nothing is left of what was known of them."""
        kinds: dict[str, str] = {}
        for kind, names in fresh.items():
            for name in names:
                _target(name, f"{where}: {kind} `{name}`")
                if name in kinds:
                    raise InputError(
                        f"`{name}` is described twice: under `{kinds[name]}` and under `{kind}`",
                        where,
                        "leave one of them out",
                    )
                kinds[name] = kind
        for name in kinds:
            for known in (self.rows, self.elementwise, self.identity, self.aliases):
                known.pop(name, None)

    def _refuse_circle(self, name: str, where: str) -> None:
        links = self.links(name)
        back = self.aliases.get(links[-1])
        if back is not None:
            raise InputError(
                f"aliases lead round in a circle: {' = '.join([*links, back])}",
                f"{where}: alias `{name}`",
                "name an operator that is no alias itself",
            )

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
        for row in table.merge(read_toml(path, "operator file", SEE), str(path)):
            refuse_unknown_arguments(row, str(path))
    return table


@cache
def _built_in() -> Table:
    """Read once per process: reading it takes longer than extracting a small case."""
    table = Table()
    text = files("gg_datalog.extract").joinpath("operators.toml").read_text("utf-8")
    table.merge(tomllib.loads(text), "operators.toml")
    return table


NAMED = ("elementwise", "identity", "alias")
KINDS = {"operator", "placement", "commutative", *NAMED}
MOST_RESULTS = 1000  # of one operator: a place beyond is a mistake
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
FLAGS = ("linear", "monotone", "signed", "typed")
SEE = "see docs/operators.md"


def _row(row: Any, where: str) -> Row:
    row = _dict(row, where)
    if not isinstance(row.get("target"), str) or not isinstance(row.get("rule"), str):
        raise InputError("an [[operator]] needs `target` and `rule`", where, SEE)
    target, rule = row["target"], row["rule"]
    here = f"{where}: operator `{target}`"
    if unknown := set(row) - KEYS:
        raise InputError(f"unknown key `{min(unknown)}`", here, f"known: {', '.join(sorted(KEYS))}")
    left, right = read_rule(rule, here)
    operands = [_argument(a, here) for a in _list(row.get("operands", [*range(len(left))]), here)]
    results = _list(row.get("results", [*range(len(right))]), here)
    _refuse_repeated(operands, f"{here}: operands")
    _refuse_repeated(results, f"{here}: results")
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
        tuple(_result(r, f"{here}: results") for r in results),
        tuple(_list(row.get("linear", []), f"{here}: linear", range(len(left)))),
        summed,
        _text(row.get("assume", ""), f"{here}: assume"),
        {
            _one_of(name, known, here): _argument(which, f"{here}: spread `{name}`")
            for name, which in _dict(row.get("spread", {}), f"{here}: spread").items()
        },
        tuple(sorted(_texts(row.get("own", []), f"{here}: own"))),
    )


def _target(name: str, where: str) -> str:
    """An operator's name, which has no overload."""
    if not name.strip():
        raise InputError("the name is empty", where, "operators are called as in `aten.relu`")
    if name.count(".") > 1:
        raise InputError("the target has an overload", where, f"say `{name.rpartition('.')[0]}`")
    return name


def _refuse_overlap(rows: Iterable[Row], where: str) -> None:
    seen: set[tuple[str, int]] = set()
    for row in rows:
        for result in row.results:
            if (row.target, result) in seen:
                raise InputError(
                    f"result {result} of `{row.target}` is described twice",
                    where,
                    "leave one of the rows out, or say with `results` which ones each gives",
                )
            seen.add((row.target, result))


def _refuse_repeated(listed: Sequence[Any], where: str) -> None:
    for place, one in enumerate(listed):
        if one in listed[:place]:
            raise InputError(f"{one!r} is listed twice", where, SEE)


def refuse_unknown_arguments(row: Row, where: str) -> None:
    """An error where a row names an argument that its operator, whose schema is known, lacks."""
    known = overloads(row.target)
    if not known:
        return
    names = list(dict.fromkeys(p.name for one in known for p in one.parameters))
    most = max(len(one.parameters) for one in known)
    sizes = [size for size in row.sizes.values() if isinstance(size, str)]
    for one in (*row.operands, *row.ignore, *sizes, *row.spread.values(), *row.own):
        if one not in names if isinstance(one, str) else one >= most:
            raise InputError(
                f"`{row.target}` has no argument {one!r}",
                f"{where}: operator `{row.target}`",
                f"it has: {', '.join(names) or 'none'}",
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


def _result(value: Any, where: str) -> int:
    if _position(value, where) >= MOST_RESULTS:
        raise InputError(f"no operator has a result {value}", where, "the first result is 0")
    return int(value)


def _argument(value: Any, where: str) -> int | str:
    return value if isinstance(value, str) else _position(value, where)


def _size(value: Any, where: str) -> int | str:
    if value == 0:
        raise InputError("a size is 1 or more", where, SEE)
    return _argument(value, where)
