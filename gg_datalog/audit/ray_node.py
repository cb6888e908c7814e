"""What a node of a Ray cluster does for an audit: a worker of its own runs the item.

Ray's own processes have threads, so nothing is forked from them: each starts a worker, which stays
warm for the items that follow. What an item reads comes with it and is laid below a temporary
folder; what it makes goes back as bytes.
"""

from __future__ import annotations

import atexit
import json
import shutil
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from gg_datalog.audit.key import capture_hash, engine_of, rules_hash, tool_hash
from gg_datalog.audit.pool import Answer, LocalPool
from gg_datalog.audit.shipping import laid, moved
from gg_datalog.foundation.errors import GGError

Json = dict[str, Any]
SAME = "install the same versions on all nodes as where the audit is started"


def expected(engines: Mapping[str, Any], captures: bool) -> Json:
    """What must be the same wherever items are run: on that keys depend."""
    return {
        "gg-datalog": tool_hash(),
        "rules": rules_hash(),
        "Python or torch": capture_hash() if captures else "",
        **{f"engine {choice}": list(engine_of(choice)) for choice in engines},
    }


def work(settings: Json, task: Json, content: bytes, modules: bytes) -> Json:
    """The answer to a task: ``record``, ``used``, ``files`` and ``host``; or why it is ``lost``;
    or why this node is ``refused``."""
    try:
        if found := _difference(settings["expected"], settings["captures"]):
            return {"refused": f"a node has another {found}", "hint": SAME}
        home = _home(modules)
        pool = _pool(json.dumps(settings, sort_keys=True), home)
        return _answered(pool, task, content, home)
    except GGError as error:
        return {"refused": error.what, "hint": error.hint}


def _difference(wanted: Json, captures: bool) -> str | None:
    engines = {name[7:]: None for name in wanted if name.startswith("engine ")}
    here = expected(engines, captures)
    return next((name for name, value in wanted.items() if here[name] != value), None)


@cache
def _home(modules: bytes) -> Path:
    """The folder below which the user's modules lie, as long as this process lives."""
    root = _temporary()
    atexit.register(shutil.rmtree, root, ignore_errors=True)
    if modules:
        laid(modules, root)
    return root


def _temporary() -> Path:
    return Path(tempfile.mkdtemp(prefix="gg-datalog-audit-")).resolve()


@cache
def _pool(settings: str, home: Path) -> LocalPool:
    """The worker of this process."""
    given = json.loads(settings)
    given["path"] = [f"{home}{path}" for path in given["path"]]
    return LocalPool(1, given, f"ray {given['mark']}")


def _answered(pool: LocalPool, task: Json, content: bytes, home: Path) -> Json:
    root = _temporary()
    try:
        laid(content, root)
        scratch = root / "scratch"
        pool.give({**moved(task, root, home), "scratch": str(scratch)})
        answer = None
        while answer is None:
            answer = next(pool.answers(60.0), None)
        return _packed(answer, scratch, (root, home))
    finally:
        shutil.rmtree(root, ignore_errors=True)


def _packed(answer: Answer, scratch: Path, roots: tuple[Path, ...]) -> Json:
    """An answer with its files; paths in it are those of where the audit was started."""
    if answer.lost:
        return {"lost": f"{answer.lost} on {answer.host or 'a node'}"}
    record = json.loads(_without(json.dumps(answer.record), roots))
    files = {name: (scratch / name).read_bytes() for name in record.get("files", {}).values()}
    if page := record.get("files", {}).get("page"):
        files[page] = _without(files[page].decode(), roots).encode()
    return {"record": record, "used": answer.used, "files": files, "host": answer.host}


def _without(text: str, roots: tuple[Path, ...]) -> str:
    for root in roots:
        text = text.replace(str(root), "")
    return text
