"""Plans: what an audit runs, from a TOML file or from a folder of cases and facts."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gg_datalog.audit.entries import Entry, expanded
from gg_datalog.audit.expectation import USUAL, expectation_of
from gg_datalog.audit.items import NOTHING, Item
from gg_datalog.audit.limits import Limits
from gg_datalog.extract.case import RANK_FILE
from gg_datalog.foundation.documents import read_toml
from gg_datalog.foundation.errors import InputError
from gg_datalog.foundation.folders import MANIFEST, Json

DOCS = "docs/audit.md says what a plan holds"
TABLES = ("name", "limits", "capture", "extract", "run", "preload", "expect", "entry")


@dataclass(frozen=True)
class Plan:
    """The items in order; ``preload`` are modules that every worker imports once."""

    name: str
    items: Sequence[Item]
    preload: tuple[str, ...] = ()

    @property
    def captures(self) -> bool:
        """Is torch needed?"""
        return any(item.kind == "program" for item in self.items)


def read_plan(path: Path, limits: Limits) -> Plan:
    """The plan of a TOML file, or of every case and facts folder below a folder.

    Raises:
        InputError: there is no such file or folder, it has a mistake, or nothing is to be run.
    """
    plan = _of_folder(path, limits) if path.is_dir() else _of_file(path, limits)
    if not plan.items:
        what = (
            "there is no case and no facts folder below it" if path.is_dir() else "it has no item"
        )
        raise InputError(what, str(path), DOCS)
    _refuse_namesakes(plan, path)
    return plan


def _refuse_namesakes(plan: Plan, path: Path) -> None:
    seen: set[str] = set()
    for item in plan.items:
        if item.name in seen:
            raise InputError(
                f"two items are called `{item.name}`", str(path), "give each entry its own `name`"
            )
        seen.add(item.name)


# ---- a folder ------------------------------------------------------------------------------------
def _of_folder(folder: Path, limits: Limits) -> Plan:
    base = folder.absolute()
    return Plan(base.name, [_alone(base, *found, limits) for found in found_below(base)])


def _alone(base: Path, kind: str, path: Path, limits: Limits) -> Item:
    """The item of one folder."""
    name = path.relative_to(base).as_posix() if path != base else base.name
    expect = _expected(kind, path)
    return Item(name, name, name, NOTHING, kind, str(path), limits=limits, expect=expect)


def _expected(kind: str, path: Path) -> tuple[str, ...]:
    return (expectation_of(path) if kind == "case" else None) or USUAL


def found_below(folder: Path) -> Iterator[tuple[str, Path]]:
    """Kind and place of every case and facts folder; none is looked for inside of another."""
    kind = kind_of(folder)
    if kind is not None:
        yield kind, folder
        return
    for entry in sorted(folder.iterdir()):
        if entry.is_dir() and not entry.is_symlink() and not entry.name.startswith("."):
            yield from found_below(entry)


def kind_of(folder: Path) -> str | None:
    """``case`` or ``facts``; None where the folder is neither."""
    if os.path.lexists(folder / "seq.json") and any(
        RANK_FILE.fullmatch(path.name) for path in folder.iterdir()
    ):
        return "case"
    return "facts" if _manifest_kind(folder) == "facts" else None


def _manifest_kind(folder: Path) -> str | None:
    import json

    try:
        document = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return document.get("kind") if isinstance(document, dict) else None


# ---- a file --------------------------------------------------------------------------------------
def _of_file(path: Path, limits: Limits) -> Plan:
    document = _read(path)
    where = str(path)
    if unknown := sorted(document.keys() - set(TABLES)):
        raise InputError(
            f"unknown key `{unknown[0]}`", where, f"known keys: {', '.join(TABLES)}; {DOCS}"
        )
    entries = document.get("entry", [])
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise InputError("`entry` is no list of tables", where, "write each as [[entry]]")
    home = path.absolute().parent
    items: list[Item] = []
    for number, table in enumerate(entries, 1):
        try:
            entry = Entry.read(_with_defaults(table, document), home, limits)
            items += expanded(entry, found_below)
        except ValueError as error:
            name = table.get("name", f"number {number}")
            raise InputError(f"entry {name}: {error}", where, DOCS) from None
    return Plan(str(document.get("name", path.stem)), items, _preload(document, where))


def _read(path: Path) -> Json:
    return read_toml(path, "the plan", DOCS, "give a plan (TOML), or a folder of cases")


def _with_defaults(entry: Json, document: Mapping[str, Any]) -> Json:
    """An entry with what the plan says for all of them."""
    merged = dict(entry)
    for name in ("limits", "capture", "extract", "run"):
        both = [document.get(name, {}), entry.get(name, {})]
        if not all(isinstance(table, dict) for table in both):
            raise ValueError(f"`{name}` is no table")
        merged[name] = both[0] | both[1]
    if "expect" in document:
        merged.setdefault("expect", document["expect"])
    return merged


def _preload(document: Mapping[str, Any], where: str) -> tuple[str, ...]:
    given = document.get("preload", [])
    if not isinstance(given, list) or not all(isinstance(name, str) for name in given):
        raise InputError("`preload` is no list of modules", where, DOCS)
    return tuple(given)
