"""``audit PATH``: a plan is read, checked and run."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from gg_datalog.audit.coordinator import Coordinator, Settings
from gg_datalog.audit.database import ensure
from gg_datalog.audit.display import display
from gg_datalog.audit.folder import AuditFolder, Shard, held, made, refuse
from gg_datalog.audit.items import Item
from gg_datalog.audit.jobs import Tally
from gg_datalog.audit.key import engine_of
from gg_datalog.audit.limits import usual
from gg_datalog.audit.plan import Plan, read_plan
from gg_datalog.audit.planned import store
from gg_datalog.audit.pool import MARK, LocalPool, Pool
from gg_datalog.audit.processes import marked, supported
from gg_datalog.foundation.errors import InputError


@dataclass(frozen=True)
class Asked:
    """The options of the command line."""

    jobs: int | None = None
    only: Sequence[str] = ()
    shard: Shard = field(default_factory=Shard)
    keep: str = "failures"
    ray: str | None = None

    @property
    def workers(self) -> int:
        """How many items are run at a time on this machine."""
        return self.jobs or os.cpu_count() or 1


def planned_items(path: Path, asked: Asked) -> tuple[Plan, list[Item]]:
    """The plan, and what of it is to be run.

    Raises:
        InputError: the plan has a mistake, or nothing of it is to be run.
    """
    plan = read_plan(path, usual(asked.workers))
    parts = [item for place, item in enumerate(plan.items) if asked.shard.has(place)]
    chosen = [item for item in parts if chosen_by(asked.only, item)]
    if asked.only and not any(chosen_by(asked.only, item) for item in plan.items):
        raise InputError(
            f"no item fits --only {' '.join(asked.only)}", str(path), "--list shows the items"
        )
    return plan, chosen


def chosen_by(only: Sequence[str], item: Item) -> bool:
    """Does an item fit one of these globs? Brackets of a configuration stand for themselves."""
    return chosen_by_name(only, item.name)


def chosen_by_name(only: Sequence[str], name: str) -> bool:
    """The same for the name of an item."""
    return not only or any(
        name == glob or fnmatchcase(name, glob.replace("[", "[[]")) for glob in only
    )


def run_audit(path: Path, out: Path, asked: Asked) -> Tally:
    """Runs a plan into a folder.

    Raises:
        InputError: something is wrong with the plan, the folder or this machine.
    """
    check_machine(asked)
    plan, items = planned_items(path, asked)
    refuse(out)
    for choice in {item.run.get("engine", "auto") for item in items}:
        engine_of(choice)
    folder = made(out)
    return run_items(folder, plan, items, asked)


def run_items(folder: AuditFolder, plan: Plan, items: Sequence[Item], asked: Asked) -> Tally:
    """Runs items of a plan into a folder that is there."""
    with held(folder, asked.shard):
        store(folder, plan.items)
        ensure(folder)
        mark = f"{folder.path.absolute()} {asked.shard}"
        _end_strays(mark)
        with display(len(items)) as shown:
            settings = Settings(asked.keep, asked.shard)
            pool = _pool(folder, plan, items, asked, mark)
            tally = Coordinator(folder, items, settings, pool, shown).run()
        with suppress(OSError):
            folder.work.rmdir()
    return tally


def check_machine(asked: Asked) -> None:
    """Refuses a machine that cannot isolate items."""
    if not supported():
        raise InputError(
            "items are isolated by means of Linux, which this is not",
            None,
            "run it in a Linux container",
        )
    if asked.ray is not None:
        from gg_datalog.audit.ray_pool import refuse_without

        refuse_without()


def _end_strays(mark: str) -> None:
    """Ends what an earlier run in this folder left, should everything of it have been killed."""
    import signal

    for pid in marked(MARK, mark):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _pool(
    folder: AuditFolder, plan: Plan, items: Sequence[Item], asked: Asked, mark: str
) -> Callable[[str], Pool]:
    homes = list(dict.fromkeys(item.home for item in plan.items if item.kind == "program"))
    rules = sorted({item.run["rules"] for item in plan.items if "rules" in item.run})
    settings: dict[str, Any] = {
        "rules": rules,
        "captures": plan.captures,
        "preload": list(plan.preload),
        "path": homes,
    }
    address = asked.ray
    if address is None:
        return lambda run: LocalPool(asked.workers, settings, mark)
    from gg_datalog.audit.ray_node import expected
    from gg_datalog.audit.ray_pool import RayPool

    engines = {item.run.get("engine", "auto"): None for item in items}
    same = expected(engines, plan.captures)
    there = {**settings, "expected": same, "mark": mark}
    return lambda run: RayPool(address, asked.jobs, there, folder.path.absolute())
