"""What if: the items of an audit run again with more tables of operators, or with other rules."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from gg_datalog.audit.database import asked as ask
from gg_datalog.audit.differences import Differences, compared
from gg_datalog.audit.folder import AuditFolder, made, refuse
from gg_datalog.audit.items import PENDING, Item
from gg_datalog.audit.key import content_hash, rules_hash
from gg_datalog.audit.limits import Limits
from gg_datalog.audit.packing import SUFFIX
from gg_datalog.audit.plan import Plan
from gg_datalog.audit.running import Asked, check_machine, chosen_by, chosen_by_name, run_items
from gg_datalog.extract.table import load_table
from gg_datalog.foundation.errors import InputError
from gg_datalog.foundation.visible import visible

MAIN = "main.dl"
Json = dict[str, Any]


@dataclass(frozen=True)
class Stored:
    """The items of an audit that can be run again, and why the others cannot, by item."""

    items: Sequence[Item]
    left_out: Mapping[str, str]


ITEMS = """
    SELECT p.*, i.status, i.content FROM planned p JOIN items i USING (item)
    ORDER BY p.position"""


def stored_items(folder: AuditFolder, operators: Sequence[Path], rules: Path | None) -> Stored:
    """The items of an audit as they were run, with these tables of operators besides their own and
    with these rules instead of ours. Programs are not captured again."""
    found = ask(folder, ITEMS)
    items, left_out = [], {}
    for row in found.rows:
        given = dict(zip(found.columns, row, strict=True))
        item = _item(folder, given, operators, rules)
        if why := _left_out(given, item):
            left_out[item.name] = why
        else:
            items.append(item)
    return Stored(items, left_out)


def _item(folder: AuditFolder, row: Json, operators: Sequence[Path], rules: Path | None) -> Item:
    settings = json.loads(row["settings"])
    run = settings["run"]
    tables = [*run.get("operators", ()), *(str(path.absolute()) for path in operators)]
    run |= {"operators": tables} if tables else {}
    run |= {} if rules is None else {"rules": str(rules.absolute())}
    program = row["kind"] == "program"
    packed = folder.cases / f"{row['content']}{SUFFIX}"
    return Item(
        row["item"],
        row["entry"],
        row["program"],
        {axis["name"]: axis["value"] for axis in row["axes"] or ()},
        "case" if program else row["kind"],
        str(packed.absolute()) if program else row["source"],
        reading=settings["reading"],
        run=run,
        limits=Limits(**settings["limits"]),
        expect=tuple(row["expected"]),
    )


def _left_out(row: Json, item: Item) -> str:
    """Why an item cannot be run again; nothing where it can."""
    if row["status"] == PENDING:
        return "it was not run yet"
    if not row["content"]:
        return "it was not captured"
    if not Path(item.source).exists():
        return f"{item.source} is gone"
    if content_hash(item) != row["content"]:
        return "its graphs are no longer those that were audited"
    return ""


def what_if(
    folder: AuditFolder,
    out: Path,
    operators: Sequence[Path],
    rules: Path | None,
    asked: Asked,
    slower: float | None = None,
) -> Differences:
    """Runs the items of an audit again into another folder, and compares.

    Args:
        folder: the audit, which stays as it is.
        out: the folder of the second audit; what it has is not run again.
        operators: tables of operators, besides those that an item had.
        rules: a folder of rules, in place of ours.
        asked: how it is run.
        slower: see :func:`compared`.

    Raises:
        InputError: tables or rules have a mistake, or there is nothing to run.
    """
    check_machine(asked)
    load_table(operators)
    if rules is not None:
        checked_rules(rules)
    if out.resolve() == folder.path.resolve():
        raise InputError("that is the audit itself", str(out), "give another folder with -o")
    refuse(out)
    stored = stored_items(folder, operators, rules)
    items = [item for item in stored.items if chosen_by(asked.only, item)]
    _say_left_out(stored, asked.only)
    if not items:
        raise InputError("nothing of it can be run again", str(folder.path), "run the audit")
    second = made(out)
    if rules is not None:
        kept = str(kept_rules(second, rules).absolute())
        items = [replace(item, run={**item.run, "rules": kept}) for item in items]
    run_items(second, Plan(folder.path.name, items), items, asked)
    return compared(folder, second, slower, {item.name for item in items})


def _say_left_out(stored: Stored, only: Sequence[str]) -> None:
    """Names what is not run again, by why that is so."""
    reasons: dict[str, list[str]] = {}
    for name, why in stored.left_out.items():
        if chosen_by_name(only, name):
            reasons.setdefault(why, []).append(name)
    for why, names in reasons.items():
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        click.echo(visible(f"not run again: {names[0]}{more}: {why}"), err=True)


# ---- other rules ---------------------------------------------------------------------------------
def checked_rules(folder: Path) -> None:
    """Refuses rules that cannot stand in the place of ours.

    Raises:
        InputError: they lack what a report is made of, or want facts that there are none of.
        EngineError: they are no Datalog.
    """
    from gg_datalog.datalog import program_path
    from gg_datalog.engine import parse_program
    from gg_datalog.engine.check import check_program
    from gg_datalog.engine.demand import with_demand

    if not (folder / MAIN).is_file():
        hint = "give a folder such as gg_datalog/datalog"
        raise InputError(f"there is no {MAIN} in it", str(folder), hint)
    ours, theirs = parse_program(program_path()), parse_program(folder / MAIN)
    check_program(with_demand(theirs))
    for text in _lacking(ours, theirs):
        hint = "start from a copy of gg_datalog/datalog"
        raise InputError(text, str(folder / MAIN), hint)


def _lacking(ours: Any, theirs: Any) -> Iterator[str]:
    home = theirs.path.parent.resolve()
    for file in theirs.files:
        if not file.resolve().is_relative_to(home):
            yield f"it includes {file}, which is not in the folder"
    for name in ours.outputs:
        if name not in theirs.outputs:
            yield f"relation {name} is no output of these rules"
        elif _columns(ours, name) != _columns(theirs, name):
            yield f"relation {name} has other columns than in our rules"
    for name in theirs.inputs:
        if name not in ours.inputs or _columns(ours, name) != _columns(theirs, name):
            yield f"there are no facts for the input {name}"


def _columns(program: Any, name: str) -> list[tuple[str, str]]:
    names = [column.name for column in program.declarations[name].columns]
    return list(zip(names, program.kinds(name), strict=True))


def kept_rules(folder: AuditFolder, rules: Path) -> Path:
    """A copy of rules in the folder of an audit: they may be changed while it runs."""
    place = folder.rules / rules_hash(str(rules))[:16]
    if not place.exists():
        fresh = place.with_name(f".{place.name}")
        shutil.rmtree(fresh, ignore_errors=True)
        for path in sorted(rules.rglob("*.dl")):
            copy = fresh / path.relative_to(rules)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)
        fresh.rename(place)
    return place
