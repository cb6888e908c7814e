"""``capture``: from a model in PyTorch to a pair of captured programs."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch
from torch import nn

from gg_datalog.foundation.errors import InputError
from gg_datalog.tracing.objects import shared_folder
from gg_datalog.tracing.override import load_override
from gg_datalog.tracing.pair import Pair, paired
from gg_datalog.tracing.private import tested_version
from gg_datalog.tracing.program import Program
from gg_datalog.tracing.rank import ROUTES, capture_rank
from gg_datalog.tracing.record import SEQUENTIAL, RankRecord, named
from gg_datalog.tracing.world import can_fork, in_processes, in_turn

Mode = Literal["dynamo", "eager"]


def capture(
    build: Callable[[int, int], nn.Module],
    make_inputs: Callable[..., Any],
    *,
    world_size: int,
    mode: Mode = "dynamo",
    backward: bool = False,
    ranks: Sequence[int] | Literal["all"] = "all",
    loss: Callable[..., torch.Tensor] | None = None,
    step: Callable[[nn.Module], Any] | None = None,
    sequential: Callable[[int, int], nn.Module] | None = None,
    sequential_step: Callable[[nn.Module], Any] | None = None,
    relations: str | Path | Mapping[str, Any] | None = None,
    jobs: int | None = None,
    progress: Callable[[str], None] | None = None,
) -> Pair:
    """Captures the sequential program and every rank of the distributed one, on one CPU.

    Args:
        build: ``build(rank, world_size)`` returns the module as the program builds it on that
            rank, inside a process group of that size that moves no data; parameters get no
            memory. Called as ``build(0, 1)`` for the sequential program.
        make_inputs: ``make_inputs(rank, world_size)``, or without parameters: the tuple of inputs,
            a mapping of keywords, or a pair of both. Sizes and types count, values do not.
        world_size: how many ranks there are.
        mode: ``dynamo`` captures what ``torch.compile`` would run, ``eager`` what runs without
            it. They differ (docs/capture.md): take the one that the model is run with.
        backward: capture the gradients of all parameters, too.
        ranks: the ranks to capture. A verdict holds for all only where all are captured.
        loss: ``loss(output, *inputs)``; without it the program returns the loss itself.
        step: ``step(module)`` runs after the backward pass: reductions of gradients, an optimizer.
            Only ``eager``.
        sequential: another ``build`` for the sequential program.
        sequential_step: another ``step`` for it; ``step`` where it is not given.
        relations: ``relations.toml`` or its content: what inputs hold, where nothing else says it.
        jobs: how many ranks are captured at a time, each in a process of its own; 0 captures all
            in this one.
        progress: called with what is being done.

    Raises:
        InputError: the program cannot be captured: which rank, what, which line, what to do.
    """
    _check(world_size, mode, ranks)
    _check_functions(build=build, make_inputs=make_inputs, loss=loss, step=step)
    _check_functions(sequential=sequential, sequential_step=sequential_step)
    chosen = list(range(world_size)) if ranks == "all" else sorted(set(ranks))
    override = load_override(relations)
    program = Program(build, make_inputs, backward, loss, step)
    original = Program(sequential or build, make_inputs, backward, loss, sequential_step or step)

    programs = [(original, SEQUENTIAL, 1), *((program, rank, world_size) for rank in chosen)]
    say = progress or (lambda text: None)
    with shared_folder():
        records = _captured(programs, mode, jobs, say)
        if len({record.route for record in records}) > 1:
            # Results have other names on another route, so all go where one has to.
            mode = "eager"
            late = [place for place, record in enumerate(records) if record.route != mode]
            again = _captured([programs[place] for place in late], mode, jobs, say)
            for place, record in zip(late, again, strict=True):
                records[place] = record
    first, *others = records
    about = _about(mode, world_size, chosen, [first, *others])
    return paired(first, others, override, world_size, about)


def _check(world_size: int, mode: str, ranks: Any) -> None:
    if type(world_size) is not int or world_size < 1:
        raise InputError(f"world_size is {world_size!r}", None, "give the number of ranks")
    if mode not in ROUTES:
        raise InputError(f"mode is {mode!r}", None, f"known: {', '.join(ROUTES)}")
    if ranks == "all":
        return
    numbers = list(ranks) if isinstance(ranks, Sequence) and not isinstance(ranks, str) else []
    if not numbers or not all(type(r) is int and 0 <= r < world_size for r in numbers):
        raise InputError(
            f"ranks is {ranks!r}", None, f'give "all", or ranks from 0 to {world_size - 1}'
        )


def _check_functions(**given: Any) -> None:
    for name, function in given.items():
        if not callable(function) and (function is not None or name in ("build", "make_inputs")):
            raise InputError(f"{name} is {function!r}", None, "give a function (docs/capture.md)")


def _captured(
    programs: Sequence[tuple[Program, int, int]],
    route: str,
    jobs: int | None,
    progress: Callable[[str], None],
) -> list[RankRecord]:
    """Each program on its rank of so many."""
    tasks = [
        (named(rank), partial(capture_rank, one, rank, size, route)) for one, rank, size in programs
    ]
    workers = min(len(tasks), os.cpu_count() or 1) if jobs is None else jobs
    if workers < 1 or not can_fork():
        return in_turn(tasks, lambda who: progress(f"capturing {who}"))
    finished: list[str] = []

    def done(who: str) -> None:
        finished.append(who)
        progress(f"captured {who} ({len(finished)} of {len(tasks)})")

    progress(f"capturing {len(tasks)} programs")
    return in_processes(tasks, workers, done)


def _about(
    mode: str, world_size: int, chosen: Sequence[int], records: Sequence[RankRecord]
) -> dict[str, Any]:
    """How the graphs were made: for the reader of a report, and for the assumptions."""
    from gg_datalog.foundation.version import __version__

    about: dict[str, Any] = {
        "route": mode,
        "torch": torch.__version__,
        "gg_datalog": __version__,
        "world_size": world_size,
        "ranks": list(chosen),
        "programs": [
            {
                "program": record.who,
                "seconds": round(record.seconds, 2),
                "memory": record.memory,
                **record.counts,
            }
            for record in records
        ],
    }
    if not tested_version():
        about["untested"] = f"torch {torch.__version__} is not a release capture was tested with"
    return about
