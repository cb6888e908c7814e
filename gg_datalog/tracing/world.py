"""One process that plays one rank: a process group that moves no data."""

from __future__ import annotations

import multiprocessing
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection, wait
from typing import Any, TypeVar

import torch
import torch.distributed as dist

from gg_datalog.foundation.errors import InputError
from gg_datalog.foundation.garbage import collected_seldom
from gg_datalog.tracing.objects import Awaited
from gg_datalog.tracing.private import FakeStore, forget_ranks
from gg_datalog.tracing.remembered import KNOWN, learnt

T = TypeVar("T")


@contextmanager
def rank_of(rank: int, world_size: int) -> Iterator[None]:
    """This process as that rank."""
    if dist.is_initialized():
        raise InputError(
            "a process group is there already: capture makes its own, one per rank",
            None,
            "call capture before init_process_group, or after destroy_process_group",
        )
    forget_ranks()
    named = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": world_size}
    before = {name: os.environ.get(name) for name in named}
    os.environ.update({name: str(value) for name, value in named.items()})
    hook = sys.excepthook  # torch puts the rank in front of what it prints, for good
    dist.init_process_group("fake", rank=rank, world_size=world_size, store=FakeStore())
    try:
        yield
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()
        sys.excepthook = hook
        forget_ranks()
        for name, value in before.items():
            os.environ.pop(name, None) if value is None else os.environ.update({name: value})


def can_fork() -> bool:
    """May every rank have a process of its own?"""
    return sys.platform.startswith("linux") and hasattr(os, "fork")


def in_processes(
    jobs: Sequence[tuple[str, Callable[[], T]]], workers: int, done: Callable[[str], None]
) -> list[T]:
    """Runs every job in a process of its own, forked from this one, so that what a program keeps
    in globals (process groups, caches, counters) is fresh for every rank."""
    context: Any = multiprocessing.get_context("fork")
    running: dict[Any, tuple[int, Any]] = {}
    results: dict[int, T] = {}
    waiting = list(enumerate(jobs))
    held: dict[int, Awaited] = {}
    try:
        while waiting or running or held:
            ready_now = [place for place, one in held.items() if one.has_come()]
            waiting += [(place, jobs[place]) for place in ready_now if held.pop(place)]
            if not waiting and not running:
                raise never_sent(held, jobs)
            while waiting and len(running) < workers:
                place, (_, job) = waiting.pop(0)
                ours, theirs = context.Pipe(duplex=False)
                process = context.Process(target=_child, args=(job, theirs), daemon=True)
                process.start()
                theirs.close()
                running[ours] = (place, process)
            for ready in wait(list(running)):
                place, process = running.pop(ready)
                try:
                    results[place] = _received(ready, process, jobs[place][0])
                    done(jobs[place][0])
                except Awaited as one:
                    held[place] = one
    finally:
        for _, process in running.values():
            process.kill()
            process.join()
    return [results[place] for place in range(len(jobs))]


def in_turn(jobs: Sequence[tuple[str, Callable[[], T]]], start: Callable[[str], None]) -> list[T]:
    """Runs every job here; what waits for an object of another one again when it is there."""
    results: dict[int, T] = {}
    held: dict[int, Awaited] = {}
    waiting = list(range(len(jobs)))
    while waiting:
        for place in waiting:
            who, job = jobs[place]
            start(who)
            try:
                results[place] = job()
                held.pop(place, None)
            except Awaited as one:
                held[place] = one
        waiting = [place for place, one in held.items() if one.has_come()]
    if held:
        raise never_sent(held, jobs)
    return [results[place] for place in range(len(jobs))]


def never_sent(held: Mapping[int, Awaited], jobs: Sequence[tuple[str, Any]]) -> InputError:
    """All that are left wait for what nobody sends."""
    waits = "; ".join(f"{jobs[place][0]} for {one.what}" for place, one in held.items())
    return InputError(
        f"ranks wait for objects that are not sent: {waits}",
        None,
        "capture all ranks, and let every rank make the same calls",
    )


def _child(job: Callable[[], T], pipe: Connection) -> None:
    known = len(KNOWN)
    collected_seldom()  # what the parent made is the parent's to clean up
    torch.set_num_threads(1)
    os.dup2(2, 1)  # what the program prints is not the report
    try:
        answer: tuple[str, Any] = ("result", job())
    except InputError as error:
        answer = ("error", (error.what, error.where, error.hint))
    except Awaited as one:
        answer = ("awaited", (one.what, one.path))
    except BaseException as error:
        if os.environ.get("GG_DATALOG_DEBUG"):
            traceback.print_exc()
        answer = ("error", (f"{type(error).__name__}: {error}", None, None))
    pipe.send((*answer, learnt(known)))
    pipe.close()


def _received(pipe: Any, process: Any, who: str) -> Any:
    try:
        kind, answer, forms = pipe.recv()
    except EOFError:
        process.join()
        code = process.exitcode or 0
        how = f"was ended by signal {-code}" if code < 0 else f"ended with code {code}"
        raise InputError(
            f"the process that played it {how}",
            who,
            "capture with jobs=0 to see it happen in this process; where memory was short "
            "(signal 9), with fewer jobs",
        ) from None
    process.join()
    KNOWN.update(forms)  # for the ranks that are still to come
    if kind == "awaited":
        raise Awaited(*answer)
    if kind == "error":
        what, where, hint = answer
        raise InputError(what, where or who, hint)
    return answer
