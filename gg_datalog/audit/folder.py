"""The folder of an audit: what lies where in it, and who may write into it."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep
from uuid import uuid4

from gg_datalog.audit.schema import VERSION
from gg_datalog.foundation.errors import InputError
from gg_datalog.foundation.locks import opened as opened_for_lock
from gg_datalog.foundation.locks import taken
from gg_datalog.foundation.regular import refuse_special
from gg_datalog.foundation.whole import replace_file

MARK = "audit.json"
LOCK = re.compile(r"shard-(\d+)-of-(\d+)\.lock")


@dataclass(frozen=True)
class Shard:
    """Of ``of`` parts of a plan the one of this ``number``, counted from 1."""

    number: int = 1
    of: int = 1

    def has(self, position: int) -> bool:
        """Does the item at this position of the plan belong to it?"""
        return position % self.of == self.number - 1

    def meets(self, other: Shard) -> bool:
        """Can an item belong to both?"""
        return (self.number - other.number) % math.gcd(self.of, other.of) == 0

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"


@dataclass(frozen=True)
class AuditFolder:
    """Where everything lies below ``path``."""

    path: Path

    @property
    def rows(self) -> Path:
        """One row for each time that an item was run."""
        return self.path / "rows"

    @property
    def kept(self) -> Path:
        """Facts and derived relations."""
        return self.path / "kept"

    @property
    def plans(self) -> Path:
        """The plans that were run, each by its hash."""
        return self.path / "plans"

    @property
    def cases(self) -> Path:
        """Captured cases, packed, by their hash."""
        return self.path / "cases"

    @property
    def captures(self) -> Path:
        """What came of each capture."""
        return self.path / "captures"

    @property
    def reports(self) -> Path:
        """The items' own reports, by key."""
        return self.path / "reports"

    @property
    def rules(self) -> Path:
        """Other rules that items were run with, by their hash."""
        return self.path / "rules"

    @property
    def work(self) -> Path:
        """Where items are run; nothing in it outlives the audit."""
        return self.path / "work"

    @property
    def database(self) -> Path:
        """The views over everything."""
        return self.path / "audit.duckdb"

    @property
    def events(self) -> Path:
        """What happened, a JSON object a line."""
        return self.path / "events.jsonl"

    def known(self) -> bool:
        """Is there an audit in it?"""
        return (self.path / MARK).is_file()


def opened(path: Path) -> AuditFolder:
    """The folder of an audit that is there.

    Raises:
        InputError: there is none, or another version wrote it.
    """
    hint = "give the folder that `gg-datalog audit ... -o` wrote"
    refuse_special(path / MARK)
    try:
        document = json.loads((path / MARK).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"there is no audit in it (no {MARK})", str(path), hint) from None
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{MARK} cannot be read: {error}", str(path), hint) from None
    found = document.get("schema_version") if isinstance(document, dict) else None
    if found != VERSION:
        raise InputError(
            f"the audit has schema version {found!r}, this release has {VERSION}",
            str(path),
            "start another audit in a folder of its own",
        )
    return AuditFolder(path)


def made(path: Path) -> AuditFolder:
    """The folder of an audit, made where it is not there yet.

    Raises:
        InputError: something else lies there.
    """
    if (path / MARK).exists():
        return opened(path)
    refuse(path)
    folder = AuditFolder(path)
    for place in (folder.rows, folder.kept, folder.plans, folder.cases, folder.captures,
                  folder.reports, path / "locks"):  # fmt: skip
        place.mkdir(parents=True, exist_ok=True)
    document = {"kind": "audit", "schema_version": VERSION, "id": uuid4().hex}
    replace_file(path / MARK, (json.dumps(document) + "\n").encode())
    return folder


def refuse(path: Path) -> None:
    """An error where an audit cannot be written into this folder."""
    if path.exists() and not path.is_dir():
        raise InputError("there is a file of this name", str(path), "give the name of a folder")
    ours = {"rows", "kept", "plans", "cases", "captures", "reports", "rules", "locks"}
    if (path / MARK).exists() or not path.is_dir():
        return
    if others := sorted({entry.name for entry in path.iterdir()} - ours):
        raise InputError(
            f"the folder holds `{others[0]}`, and no audit",
            str(path),
            "give another folder with -o, or an empty one",
        )


# ---- who writes ----------------------------------------------------------------------------------
@contextmanager
def held(folder: AuditFolder, shard: Shard) -> Iterator[None]:
    """While this lasts no other process runs items of this shard in the folder.

    Raises:
        InputError: another one does.
    """
    locks = folder.path / "locks"
    locks.mkdir(exist_ok=True)
    with ExitStack() as stack:
        own = _handle(locks / f"shard-{shard.number}-of-{shard.of}.lock", stack)
        if not _taken_soon(own):
            _refuse(folder, shard)
        for path in locks.iterdir():
            found = LOCK.fullmatch(path.name)
            other = found and Shard(int(found[1]), int(found[2]))
            if other and other != shard and other.meets(shard):
                with ExitStack() as brief:
                    if taken(_handle(path, brief)) is False:
                        _refuse(folder, other)
        yield


def running(folder: AuditFolder) -> bool:
    """Is an audit being run in the folder?"""
    for path in (folder.path / "locks").glob("*.lock"):
        handle = opened_for_lock(path, exclusive=True)
        if handle is not None:
            with ExitStack() as brief:
                brief.callback(os.close, handle)
                if taken(handle) is False:
                    return True
    return False


def _taken_soon(handle: int) -> bool:
    """Is the lock free, or soon? A process that a killed coordinator was about to start has it for
    a moment longer, until it has become another program."""
    until = monotonic() + GRACE
    while taken(handle) is False:
        if monotonic() > until:
            return False
        sleep(GRACE / 20)
    return True


GRACE = 2.0  # seconds


def _handle(path: Path, stack: ExitStack) -> int:
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    stack.callback(os.close, handle)
    return handle


def _refuse(folder: AuditFolder, shard: Shard) -> None:
    part = "" if shard.of == 1 else f" (its shard {shard})"
    raise InputError(
        f"another gg-datalog audit is running in this folder{part}",
        str(folder.path),
        "wait for it, give another folder, or run shards that have no item in common",
    )
