"""Runs the items of a plan: what is known is looked up, the rest goes to workers, and whatever
comes of it is written at once."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any
from uuid import uuid4

from gg_datalog.audit.captures import sources_hash
from gg_datalog.audit.display import Display
from gg_datalog.audit.events import Events
from gg_datalog.audit.folder import AuditFolder, Shard
from gg_datalog.audit.items import Item
from gg_datalog.audit.jobs import Alike, Job, Tally, capture_task, check_task
from gg_datalog.audit.key import capture_key, content_hash, digest, item_key
from gg_datalog.audit.known import Outcome
from gg_datalog.audit.ledger import Ledger, emptied
from gg_datalog.audit.pool import Answer, Pool
from gg_datalog.audit.recording import captured_note, row_of

ATTEMPTS = 3
KILLED = 2
"""How often an item is tried whose own process is killed, by the machine or by itself."""
TICK = 0.25
Json = dict[str, Any]


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
        self._alike = Alike()
        self._numbers = count(1)
        writer = f"s{settings.shard.number}of{settings.shard.of}"
        self._ledger = Ledger(folder, writer, self.run_name)
        self._work = folder.work / writer

    def run(self) -> Tally:
        """Runs everything; what has ended is written, however this ends."""
        self._events = Events(self.folder.events, self.run_name)
        try:
            emptied(self._work)
            self._ledger.open()
            self._events.say("run", total=self.tally.total, shard=str(self.settings.shard))
            while self._step():
                pass
            self._events.say("done", statuses=dict(self.tally.statuses), cached=self.tally.cached)
        finally:
            if self._pool is not None:
                self._pool.close()
            self._ledger.close()
            emptied(self._work)
            self._events.close()
        return self.tally

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
        self._say_how_far()
        return True

    def _say_how_far(self) -> None:
        self._ledger.write_soon()
        self.display.tick(self.tally, len(self._flying))

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
            self._say_how_far()

    # ---- what is to be done
    def _task(self, job: Job) -> Json | None:
        """The task of an item; None where it has ended, or waits for another one like it."""
        if not job.content and not job.key:
            if job.item.kind != "program":
                job.content = content_hash(job.item)
            elif (task := self._capture(job)) is not None or not job.content:
                return task
        job.key = job.key or item_key(job.content, job.item)
        found = self._ledger.known.usable(job.key, job.item, self.settings.keep)
        if found is not None:
            self._found(job, found)
            return None
        if self._alike.waits(job.key, job):
            return None
        program = job.item.kind == "program"
        place = self._ledger.packed(job.content) if program else Path(job.item.source)
        return self._started(job, check_task(job, place, self.settings.keep))

    def _capture(self, job: Job) -> Json | None:
        """The task of capturing a program, unless it is captured already: its content is then
        known, or how it failed."""
        job.capture_key = job.capture_key or capture_key(job.item)
        note = self._ledger.noted(job.capture_key)
        if note is None:
            if self._alike.waits(job.capture_key, job):
                return None
            return self._started(job, capture_task(job.item))
        job.note = note
        if note["status"] == "captured":
            job.content = note["content"]
            return None
        job.key = digest([job.capture_key, sources_hash(note["sources"])])
        found = self._ledger.known.usable(job.key, job.item, "none")
        if found is not None:
            self._found(job, found)
            return None
        job.key = ""
        return self._started(job, capture_task(job.item))

    def _started(self, job: Job, task: Json) -> Json:
        number = next(self._numbers)
        self._flying[number] = job
        self._events.say("started", item=job.item.name, does=task["does"], attempt=job.attempt)
        scratch = self._work / str(number)
        limits = job.item.limits.document()
        return {**task, "id": number, "scratch": str(scratch.absolute()), "limits": limits}

    # ---- what came of it
    def _took(self, answer: Answer) -> None:
        job = self._flying.pop(answer.task["id"])
        scratch = Path(answer.task["scratch"])
        why = answer.lost or (answer.record["reason"] if answer.record.get("killed") else "")
        if why and job.attempt < (ATTEMPTS if answer.lost else KILLED):
            self._lost(job, answer.task, why)
        elif answer.lost:
            self._ended(job, answer, {"status": "lost", "reason": f"{why}, {ATTEMPTS} times"})
        elif answer.record["status"] == "captured":
            self._captured(job, answer, scratch)
        else:
            self._ended(job, answer, answer.record)
        emptied(scratch)

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
        self._ledger.take_case(record["content"], scratch / record["files"]["case"])
        self._note(job, captured_note(answer))
        job.content = record["content"]
        self._again.append(job)
        self._free(job.capture_key)

    def _note(self, job: Job, note: Json) -> None:
        job.note = note
        self._ledger.note(job.capture_key, note)

    def _free(self, key: str) -> None:
        """Items that wait for one like them are looked at again."""
        self._again.extend(self._alike.free(key))

    def _ended(self, job: Job, answer: Answer, record: Json) -> None:
        """Writes how an item ended; those like it end the same way."""
        if not job.key:
            self._capture_failed(job, answer, record)
        self._ledger.keep(job.key, record.get("files", {}), Path(answer.task["scratch"]))
        row = row_of(job, answer, record, self.run_name)
        self._ledger.add(job, row)
        self._tell(job, record["status"], row["seconds"], "")
        self._free(job.key)
        self._free(job.capture_key)

    def _capture_failed(self, job: Job, answer: Answer, record: Json) -> None:
        known = answer.record.get("sources", {"files": {}, "packages": {}})
        job.key = digest([job.capture_key, sources_hash(known)])
        if answer.record.get("sources") and record["status"] != "lost":
            self._note(job, {**captured_note(answer), "status": record["status"]})

    def _found(self, job: Job, found: Outcome) -> None:
        """The item ends as another one did."""
        self._ledger.mention(job, found)
        self.tally.cached += 1
        self._tell(job, found.status, None, found.item)

    def _tell(self, job: Job, status: str, seconds: float | None, like: str) -> None:
        expected = status in job.item.expect
        self.tally.count(status, expected)
        told = {"like": like} if seconds is None else {"seconds": seconds}
        self._events.say("ended", item=job.item.name, status=status, expected=expected, **told)
        self.display.ended(job.item, status, expected, seconds, self.tally)
