"""Runs the items of a plan: what is known is looked up, the rest goes to workers, and whatever
comes of it is written at once."""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from time import monotonic
from typing import Any
from uuid import uuid4

from gg_datalog.audit.captures import sources_hash, unchanged
from gg_datalog.audit.display import Display
from gg_datalog.audit.events import Events
from gg_datalog.audit.folder import AuditFolder, Shard
from gg_datalog.audit.items import Item
from gg_datalog.audit.key import capture_key, content_hash, digest, item_key
from gg_datalog.audit.known import ALWAYS, Known, Outcome, read_known
from gg_datalog.audit.lake import Lake
from gg_datalog.audit.packing import SUFFIX
from gg_datalog.audit.pool import Answer, Pool
from gg_datalog.audit.recording import captured_note, mention, row_of
from gg_datalog.foundation.whole import replace_file

ATTEMPTS = 3
TICK = 0.25
SOON = 5.0  # seconds until rows of cached items are written
BATCH = 1000
Json = dict[str, Any]


@dataclass
class Job:
    """An item on its way; ``attempt`` counts from 1."""

    item: Item
    attempt: int = 1
    content: str = ""
    key: str = ""
    capture_key: str = ""
    note: Json = field(default_factory=dict)
    why: str = ""


@dataclass
class Tally:
    """What came of the items: how many ended with each status, were known, are not as expected."""

    statuses: Counter[str] = field(default_factory=Counter)
    unexpected: Counter[str] = field(default_factory=Counter)
    cached: int = 0
    total: int = 0

    @property
    def done(self) -> int:
        """How many items have ended."""
        return self.statuses.total()

    def exit_code(self) -> int:
        """0 where all are as expected, 3 where what is not is inconclusive, else 1."""
        if not self.unexpected:
            return 0
        return 3 if set(self.unexpected) == {"inconclusive"} else 1


@dataclass(frozen=True)
class Settings:
    """How a plan is run."""

    keep: str = "failures"
    shard: Shard = field(default_factory=Shard)


class Coordinator:
    """One run over the items of a plan."""

    def __init__(
        self,
        folder: AuditFolder,
        items: Sequence[Item],
        settings: Settings,
        pool: Callable[[str], Pool],
        display: Display,
    ) -> None:
        self.folder, self.settings, self.display = folder, settings, display
        self.run_name = f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{uuid4().hex[:8]}"
        self.tally = Tally(total=len(items))
        self._make_pool = pool
        self._pool: Pool | None = None
        self._left: Iterator[Item] = iter(items)
        self._again: deque[Job] = deque()
        self._flying: dict[int, Job] = {}
        self._like: dict[str, list[Job]] = {}
        self._mentions: list[Json] = []
        self._written = monotonic()
        self._numbers = count(1)
        writer = f"s{settings.shard.number}of{settings.shard.of}"
        self._rows, self._kept = Lake(folder.rows, writer), Lake(folder.kept, writer)
        self._work = folder.work / writer
        self._known = Known({}, {})

    def run(self) -> Tally:
        """Runs everything; what has ended is written, however this ends."""
        self._events = Events(self.folder.events, self.run_name)
        try:
            self._prepare()
            self._events.say("run", total=self.tally.total, shard=str(self.settings.shard))
            while self._step():
                pass
            self._events.say("done", statuses=dict(self.tally.statuses), cached=self.tally.cached)
        finally:
            if self._pool is not None:
                self._pool.close()
            self._mention_all()
            shutil.rmtree(self._work, ignore_errors=True)
            self._events.close()
        return self.tally

    def _prepare(self) -> None:
        shutil.rmtree(self._work, ignore_errors=True)
        self._rows.recover()
        self._kept.recover()
        self._known = read_known(self.folder)

    def _step(self) -> bool:
        """Gives workers what they can take, and takes what they answer; False at the end."""
        while (self._pool is None or self._pool.free()) and (task := self._next_task()):
            self._pool = self._pool or self._make_pool(self.run_name)
            self._pool.give(task)
        if not self._flying:
            return False
        if self._pool is not None:
            for answer in self._pool.answers(TICK):
                self._took(answer)
        self._written_soon()
        self.display.tick(self.tally, len(self._flying))
        return True

    def _next_task(self) -> Json | None:
        """The next task that nobody knows the end of."""
        while True:
            if self._again:
                task = self._task(self._again.popleft())
            else:
                item = next(self._left, None)
                if item is None:
                    return None
                task = self._task(Job(item))
            if task is not None:
                return task
            self._written_soon()
            self.display.tick(self.tally, len(self._flying))

    # ---- what is to be done
    def _task(self, job: Job) -> Json | None:
        """The task of an item; None where it has ended, or waits for another one like it."""
        if not job.content and not job.key:
            if job.item.kind != "program":
                job.content = content_hash(job.item)
            elif (task := self._capture(job)) is not None or not job.content:
                return task
        job.key = job.key or item_key(job.content, job.item)
        found = self._known.usable(job.key, job.item, self.settings.keep)
        if found is not None:
            self._found(job, found)
            return None
        if self._waits(job.key, job):
            return None
        return self._started(job, self._check_task(job))

    def _capture(self, job: Job) -> Json | None:
        """The task of capturing a program, unless it is captured already: its content is then
        known, or how it failed."""
        job.capture_key = job.capture_key or capture_key(job.item)
        note = self._noted(job.capture_key)
        if note is None:
            if self._waits(job.capture_key, job):
                return None
            return self._started(job, self._capture_task(job))
        job.note = note
        if note["status"] == "captured":
            job.content = note["content"]
            return None
        job.key = digest([job.capture_key, sources_hash(note["sources"])])
        found = self._known.usable(job.key, job.item, "none")
        if found is not None:
            self._found(job, found)
            return None
        job.key = ""
        return self._started(job, self._capture_task(job))

    def _noted(self, key: str) -> Json | None:
        """What came of a capture, where nothing that it was made of has changed."""
        try:
            note: Json = json.loads((self.folder.captures / f"{key}.json").read_text("utf-8"))
        except (OSError, ValueError):
            return None
        if note["status"] == "captured" and not self._packed(note["content"]).exists():
            return None
        return note if unchanged(note["sources"]) else None

    def _packed(self, content: str) -> Path:
        return self.folder.cases / (content + SUFFIX)

    def _waits(self, key: str, job: Job) -> bool:
        """Waits where another item with this key is being run."""
        if key in self._like:
            self._like[key].append(job)
            return True
        self._like[key] = []
        return False

    def _started(self, job: Job, task: Json) -> Json:
        number = next(self._numbers)
        self._flying[number] = job
        self._events.say("started", item=job.item.name, does=task["does"], attempt=job.attempt)
        scratch = self._work / str(number)
        limits = job.item.limits.document()
        return {**task, "id": number, "scratch": str(scratch.absolute()), "limits": limits}

    def _capture_task(self, job: Job) -> Json:
        item = job.item
        return {
            "does": "capture",
            "source": item.source,
            "home": item.home,
            "arguments": dict(item.arguments),
            "optional": list(item.optional),
            "capture": dict(item.capture),
        }

    def _check_task(self, job: Job) -> Json:
        item, program = job.item, job.item.kind == "program"
        place = self._packed(job.content).absolute() if program else Path(item.source)
        return {
            "does": "check",
            "kind": "case" if program else item.kind,
            "place": str(place),
            "content": job.content,
            "key": job.key,
            "run": dict(item.run),
            "reading": dict(item.reading),
            "keep": self.settings.keep,
            "replayable": "CASE" if program or item.kind == "text" else str(place),
        }

    # ---- what came of it
    def _took(self, answer: Answer) -> None:
        job = self._flying.pop(answer.task["id"])
        scratch = Path(answer.task["scratch"])
        why = answer.lost or (answer.record["reason"] if answer.record.get("killed") else "")
        if why and job.attempt < (ATTEMPTS if answer.lost else 2):
            self._lost(job, answer.task, why)
        elif answer.lost:
            self._ended(job, answer, {"status": "lost", "reason": f"{why}, {ATTEMPTS} times"})
        elif answer.record["status"] == "captured":
            self._captured(job, answer, scratch)
        else:
            self._ended(job, answer, answer.record)
        shutil.rmtree(scratch, ignore_errors=True)

    def _lost(self, job: Job, task: Mapping[str, Any], why: str) -> None:
        """Tries an item again that ended through no fault of its own."""
        self._events.say("lost", item=job.item.name, attempt=job.attempt, reason=why)
        self._free(job.capture_key if task["does"] == "capture" else job.key)
        if task["does"] == "capture":
            job.key = ""
        job.attempt += 1
        self._again.append(job)

    def _captured(self, job: Job, answer: Answer, scratch: Path) -> None:
        """Keeps a captured case, and goes on with every item that waits for it."""
        record = answer.record
        os.replace(scratch / record["files"]["case"], self._packed(record["content"]))
        self._note(job, captured_note(answer))
        job.content = record["content"]
        self._again.append(job)
        self._free(job.capture_key)

    def _note(self, job: Job, note: Json) -> None:
        job.note = note
        path = self.folder.captures / f"{job.capture_key}.json"
        replace_file(path, (json.dumps(note) + "\n").encode())

    def _free(self, key: str) -> None:
        """Items that wait for one like them are looked at again."""
        for other in self._like.pop(key, ()):
            self._again.append(other)

    def _ended(self, job: Job, answer: Answer, record: Json) -> None:
        """Writes how an item ended; those like it end the same way."""
        if not job.key:
            self._capture_failed(job, answer, record)
        self._keep(job, record, Path(answer.task["scratch"]))
        row = row_of(job, answer, record, self.run_name)
        self._rows.append([row])
        allowed = {} if record["status"] in ALWAYS else job.item.limits.document()
        found = Outcome(record["status"], allowed, bool(record.get("page")), job.item.name)
        self._known.outcomes[job.key] = found
        self._known.last[job.item.name] = (job.key, record["status"])
        self._tell(job, record["status"], row["seconds"], "")
        self._free(job.key)
        self._free(job.capture_key)

    def _capture_failed(self, job: Job, answer: Answer, record: Json) -> None:
        known = answer.record.get("sources", {"files": {}, "packages": {}})
        job.key = digest([job.capture_key, sources_hash(known)])
        if answer.record.get("sources") and record["status"] != "lost":
            self._note(job, {**captured_note(answer), "status": record["status"]})

    def _keep(self, job: Job, record: Json, scratch: Path) -> None:
        """Facts and report of an item that are to stay; before the row that speaks of them."""
        files = record.get("files", {})
        if "page" in files:
            os.replace(scratch / files["page"], self.folder.reports / f"{job.key}.html")
        if "kept" in files:
            self._kept.take(scratch / files["kept"])

    def _found(self, job: Job, found: Outcome) -> None:
        """The item ends as another one did."""
        if self._known.last.get(job.item.name) != (job.key, found.status):
            self._mentions.append(mention(job, found, self.run_name))
            self._known.last[job.item.name] = (job.key, found.status)
        self.tally.cached += 1
        self._tell(job, found.status, None, found.item)

    def _tell(self, job: Job, status: str, seconds: float | None, like: str) -> None:
        expected = status in job.item.expect
        self.tally.statuses[status] += 1
        if not expected:
            self.tally.unexpected[status] += 1
        told = {"like": like} if seconds is None else {"seconds": seconds}
        self._events.say("ended", item=job.item.name, status=status, expected=expected, **told)
        self.display.ended(job.item, status, expected, seconds, self.tally)

    def _written_soon(self) -> None:
        late = monotonic() - self._written > SOON
        if len(self._mentions) >= BATCH or (late and self._mentions):
            self._mention_all()

    def _mention_all(self) -> None:
        if self._mentions:
            self._rows.append(self._mentions)
        self._mentions, self._written = [], monotonic()
