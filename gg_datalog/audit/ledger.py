"""What one run of an audit writes: rows of what ended, what is kept beside them, and captures."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from time import monotonic
from typing import Any

from gg_datalog.audit.captures import unchanged
from gg_datalog.audit.folder import AuditFolder
from gg_datalog.audit.jobs import Job
from gg_datalog.audit.known import ALWAYS, Known, Outcome, read_known
from gg_datalog.audit.lake import Lake
from gg_datalog.audit.packing import SUFFIX
from gg_datalog.audit.recording import mention
from gg_datalog.foundation.whole import replace_file

SOON = 5.0  # seconds until rows of cached items are written
BATCH = 1000
Json = dict[str, Any]


class Ledger:
    """The results of a folder, as one ``writer`` adds to them."""

    def __init__(self, folder: AuditFolder, writer: str, run: str) -> None:
        self.folder, self.run = folder, run
        self.known = Known({}, {})
        self._rows, self._kept = Lake(folder.rows, writer), Lake(folder.kept, writer)
        self._mentions: list[Json] = []
        self._written = monotonic()

    def open(self) -> None:
        """Puts in order what an earlier run left, and reads what is known."""
        self._rows.recover()
        self._kept.recover()
        self.known = read_known(self.folder)

    def add(self, job: Job, row: Json) -> None:
        """Writes how an item ended; it is known from now on."""
        self._rows.append([row])
        status = row["status"]
        allowed = {} if status in ALWAYS else job.item.limits.document()
        found = Outcome(status, allowed, bool(row.get("page")), job.item.name)
        self.known.outcomes[job.key] = found
        self.known.last[job.item.name] = (job.key, status)

    def keep(self, key: str, files: Json, scratch: Path) -> None:
        """Facts and report of an item that are to stay; before the row that speaks of them."""
        if "page" in files:
            os.replace(scratch / files["page"], self.folder.reports / f"{key}.html")
        if "kept" in files:
            self._kept.take(scratch / files["kept"])

    # ---- items that end as another one did
    def mention(self, job: Job, found: Outcome) -> None:
        """Notes that an item ends as another one did; many such rows are written in one go."""
        if self.known.last.get(job.item.name) != (job.key, found.status):
            self._mentions.append(mention(job, found, self.run))
            self.known.last[job.item.name] = (job.key, found.status)

    def write_soon(self) -> None:
        """Writes what is noted, where it is much or some time has passed."""
        late = monotonic() - self._written > SOON
        if len(self._mentions) >= BATCH or (late and self._mentions):
            self.write()

    def write(self) -> None:
        """Writes what is noted."""
        if self._mentions:
            self._rows.append(self._mentions)
        self._mentions, self._written = [], monotonic()

    def close(self) -> None:
        """Writes what is noted, and makes one file of the rows: questions need not open them
        one by one."""
        self.write()
        self._rows.compact()

    # ---- captures
    def packed(self, content: str) -> Path:
        """Where a captured case lies."""
        return (self.folder.cases / (content + SUFFIX)).absolute()

    def noted(self, key: str) -> Json | None:
        """What came of a capture, where nothing that it was made of has changed."""
        try:
            note: Json = json.loads(self._note(key).read_text("utf-8"))
        except (OSError, ValueError):
            return None
        if note["status"] == "captured" and not self.packed(note["content"]).exists():
            return None
        return note if unchanged(note["sources"]) else None

    def note(self, key: str, note: Json) -> None:
        """Notes what came of a capture."""
        replace_file(self._note(key), (json.dumps(note) + "\n").encode())

    def take_case(self, content: str, place: Path) -> None:
        """Keeps a packed case."""
        os.replace(place, self.packed(content))

    def _note(self, key: str) -> Path:
        return self.folder.captures / f"{key}.json"


def emptied(folder: Path) -> None:
    """Removes a folder, whatever is in it."""
    shutil.rmtree(folder, ignore_errors=True)
