"""Entries of a plan, and the items that they stand for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gg_datalog.audit.expectation import USUAL, expectation_of, statuses
from gg_datalog.audit.items import NOTHING, Item, configured
from gg_datalog.audit.limits import Limits
from gg_datalog.audit.matrix import Values, combinations, filled, fits, named
from gg_datalog.audit.options import CAPTURE, EXTRACT, READING, RUN, checked

SOURCES = {"program": "program", "cases": "case", "facts": "facts", "texts": "text"}
KEYS = (*SOURCES, "name", "label", "matrix", "exclude", "expect", "expected", "watch", "limits",
        "capture", "extract", "run", *READING)  # fmt: skip
Found = Callable[[Path], Iterable[tuple[str, Path]]]


@dataclass(frozen=True)
class Entry:
    """One ``[[entry]]``: what it names, by a glob where that is folders, and its matrix."""

    name: str
    kind: str
    source: str
    home: Path
    label: str
    axes: Mapping[str, Sequence[Any]]
    excluded: Sequence[Values]
    expect: tuple[str, ...] | None
    expected: Sequence[Mapping[str, Any]]
    limits: Limits
    tables: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    watched: tuple[str, ...] = ()

    @classmethod
    def read(cls, table: Mapping[str, Any], home: Path, limits: Limits) -> Entry:
        """The entry that a table of a plan describes; ValueError says what is wrong with it."""
        if unknown := sorted(table.keys() - set(KEYS)):
            raise ValueError(f"unknown key `{unknown[0]}` (keys: {', '.join(KEYS)})")
        given = [key for key in SOURCES if key in table]
        if len(given) != 1 or not isinstance(table[given[0]], str):
            raise ValueError(f"give one of {', '.join(SOURCES)}, a text")
        source = table[given[0]]
        name = _text(table, "name", source)
        tables = {kind: table.get(kind, {}) for kind in ("capture", "extract", "run")}
        tables["reading"] = {key: table[key] for key in READING if key in table}
        return cls(
            name,
            SOURCES[given[0]],
            source,
            home,
            _text(table, "label", ""),
            _axes(table.get("matrix", {})),
            _rules(table, "exclude"),
            statuses(table["expect"]) if "expect" in table else None,
            _rules(table, "expected"),
            limits.changed(table["limits"]),
            tables,
            tuple(_texts(table, "watch")),
        )


def _text(table: Mapping[str, Any], key: str, usual: str) -> str:
    value = table.get(key, usual)
    if not isinstance(value, str):
        raise ValueError(f"`{key}` is no text")
    return value


def _texts(table: Mapping[str, Any], key: str) -> list[str]:
    value = table.get(key, [])
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise ValueError(f"`{key}` is no list of texts")
    return value


def _axes(table: Any) -> dict[str, Sequence[Any]]:
    if not isinstance(table, dict):
        raise ValueError("`matrix` is no table")
    for name, values in table.items():
        scalar = isinstance(values, list) and all(
            isinstance(value, (str, int, float, bool)) for value in values
        )
        if not scalar or not values or not name.isidentifier():
            raise ValueError(f"axis `{name}` of the matrix is no name with a list of values")
    return table


def _rules(table: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    rules = table.get(key, [])
    axes = set(_axes(table.get("matrix", {}))) | ({"status"} if key == "expected" else set())
    if not isinstance(rules, list) or not all(isinstance(rule, dict) for rule in rules):
        raise ValueError(f"`{key}` is no list of tables")
    for rule in rules:
        if unknown := sorted(rule.keys() - axes):
            raise ValueError(f"`{key}` names `{unknown[0]}`, which is no axis of the matrix")
        if key == "expected" and "status" not in rule:
            raise ValueError("`expected` does not say which `status`")
    return rules


# ---- items ---------------------------------------------------------------------------------------
def expanded(entry: Entry, found: Found) -> Iterator[Item]:
    """The items of an entry: every combination of its matrix, for every folder that it names."""
    for chosen in combinations(entry.axes, entry.excluded):
        options = _options(entry, chosen)
        if entry.kind == "program":
            yield _item(entry, chosen, entry.name, str(filled(entry.source, chosen)), options)
            continue
        pattern = Path(str(filled(entry.source, chosen)))
        folders = _folders(entry, pattern, found)
        for folder in folders:
            name = entry.name
            if len(folders) > 1 or name == entry.source:
                name = _shown(entry, pattern, folder)
            yield _item(entry, chosen, name, str(folder), options)


def _shown(entry: Entry, pattern: Path, folder: Path) -> str:
    """The name of one of several folders: its place beside the plan, below the name of the entry.
    Of a pattern that is absolute only what lies below its fixed part is told where that has a
    name."""
    unnamed = entry.name == entry.source
    if not pattern.is_absolute():
        base = entry.home
    elif unnamed:
        base = Path()
    else:
        base = next(place for place in (pattern, *pattern.parents) if folder.is_relative_to(place))
    shown = folder.relative_to(base).as_posix() if folder.is_relative_to(base) else str(folder)
    return shown if unnamed else f"{entry.name}/{shown}"


def _folders(entry: Entry, pattern: Path, found: Found) -> list[Path]:
    """The folders of a glob, or those of the kind below them."""
    base, parts = (Path(pattern.anchor), pattern.parts[1:]) if pattern.is_absolute() else (
        entry.home, pattern.parts)  # fmt: skip
    given = sorted(base.glob(str(Path(*parts)))) if parts else [base]
    folders = [folder for folder in given if folder.is_dir()]
    if entry.kind != "text":
        folders = [path for top in folders for kind, path in found(top) if kind == entry.kind]
    if not folders:
        raise ValueError(f"`{pattern}` fits no folder of {entry.kind}s")
    return list(dict.fromkeys(folders))


Options = dict[str, Mapping[str, Any]]


def _options(entry: Entry, chosen: Values) -> Options:
    """The options of a combination by what they are of; all its folders have them in common."""
    tables = {kind: filled(table, chosen) for kind, table in entry.tables.items()}
    if entry.kind == "text" and not {"reader", "sequential", "ranks"} <= tables["reading"].keys():
        raise ValueError("texts need `reader`, `sequential` and `ranks` (globs in the folder)")
    extract = checked(tables["extract"], EXTRACT, entry.home)
    program = entry.kind == "program"
    return {
        "arguments": dict(chosen) if program else NOTHING,
        "capture": checked(tables["capture"], CAPTURE, entry.home) if program else NOTHING,
        "reading": checked(tables["reading"], READING, entry.home),
        "run": checked(tables["run"], RUN, entry.home) | extract,
    }


def _item(entry: Entry, chosen: Values, name: str, source: str, options: Options) -> Item:
    label = str(filled(entry.label, chosen)) if entry.label else name
    shown = {axis: value for axis, value in chosen.items() if axis not in named(entry.label)}
    if entry.kind == "program" and source.count(":") != 1:
        raise ValueError(f"program {source!r} is not MODULE:FUNCTION")
    return Item(
        f"{name}[{configured(chosen)}]" if chosen else name,
        entry.name,
        label,
        shown,
        entry.kind,
        source,
        str(entry.home),
        watched=tuple(entry.watched),
        limits=entry.limits,
        expect=_expected(entry, chosen, Path(source)),
        optional=tuple(sorted(named(dict(entry.tables)) & chosen.keys())),
        **options,
    )


def _expected(entry: Entry, chosen: Values, source: Path) -> tuple[str, ...]:
    """What the last rule that fits says, else what the entry expects, else what the case does."""
    expect = entry.expect
    for rule in entry.expected:
        if fits({axis: value for axis, value in rule.items() if axis != "status"}, chosen):
            expect = statuses(rule["status"])
    if expect is None and entry.kind == "case":
        expect = expectation_of(source)
    return expect or USUAL
