"""Keys: what a verdict depends on, in one hash.

Two items with one key get one verdict. A key is over what the graphs hold (or the facts, or the
texts), tables of operators, rules, everything of this package that judges, the engine with its
version, and the options. Where files lie, and how long a capture took, does not count.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

from gg_datalog.audit.items import Item
from gg_datalog.audit.packing import SUFFIX
from gg_datalog.engine import select_engine
from gg_datalog.extract.case import CaseFiles, case_files
from gg_datalog.foundation.errors import GGError
from gg_datalog.foundation.folders import MANIFEST
from gg_datalog.foundation.hashes import file_hash
from gg_datalog.inference.confirmation import budget

RULES = ("datalog",)
CAPTURE = ("tracing",)
BESIDE = ("audit", "reporting", "queries", *RULES, *CAPTURE)
"""Parts of the package on which no verdict depends, or which have a hash of their own."""
SUFFIXES = (".py", ".dl", ".toml", ".sql", ".json")


def digest(value: Any) -> str:
    """The hash of what JSON can hold."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()


# ---- what judges ---------------------------------------------------------------------------------
@cache
def rules_hash(other: str | None = None) -> str:
    """The hash of the rules; of those in another folder, where one is given."""
    if other is None:
        return _package(lambda part: part in RULES)
    paths = sorted(Path(other).rglob("*.dl"))
    return digest([[path.relative_to(other).as_posix(), file_hash(path)] for path in paths])


@cache
def tool_hash() -> str:
    """The hash of all code and tables that a verdict depends on, beside the rules."""
    return _package(lambda part: part not in BESIDE)


@cache
def capture_hash() -> str:
    """The hash of the code that captures, and of the versions of Python and torch."""
    import sys

    return digest([_package(lambda part: part in CAPTURE), sys.version, _version("torch")])


def _package(wanted: Any) -> str:
    found = hashlib.sha256()
    with as_file(files("gg_datalog")) as root:
        for path in sorted(_sources(root)):
            name = path.relative_to(root)
            if wanted(name.parts[0]):
                found.update(f"{name.as_posix()} {file_hash(path)}\n".encode())
    return found.hexdigest()


def _sources(folder: Path) -> Iterator[Path]:
    """Files below the package, also behind the links of a working copy."""
    for entry in folder.iterdir():
        if entry.is_dir():
            if entry.name != "__pycache__":
                yield from _sources(entry)
        elif entry.suffix in SUFFIXES:
            yield entry


@cache
def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


@cache
def engine_of(choice: str) -> tuple[str, str, int]:
    """Name, version and word size of the engine that a choice stands for.

    Raises:
        GGError: it cannot be used.
    """
    engine = select_engine(choice)
    return engine.name, engine.version(), engine.word_bits()


# ---- what is judged ------------------------------------------------------------------------------
def options_hash(item: Item) -> str:
    """The hash of all that decides beside the content: options, tables, rules, engine."""
    given = dict(item.run)
    tables = [_file(Path(path)) for path in given.pop("operators", ())]
    rules = given.pop("rules", None)
    seconds = given["confirm"] = budget(given.get("confirm"))
    return digest(
        {
            "options": given,
            "reading": dict(item.reading),
            "operators": tables,
            "engine": engine_of(given.get("engine", "auto")),
            "rules": rules_hash(rules),
            "tool": tool_hash(),
            "torch": _version("torch") if seconds else "",
        }
    )


def item_key(content: str, item: Item) -> str:
    """The key of an item with this content."""
    return digest([content, options_hash(item)])


def content_hash(item: Item) -> str:
    """The hash of the graphs, facts or texts of an item that is on disk; what cannot be read
    counts as what it is, and running the item says so."""
    place = Path(item.source)
    if is_packed(item):
        return place.name.removesuffix(SUFFIX)
    if item.kind == "case":
        return case_hash(place)
    if item.kind == "facts":
        return _facts_hash(place)
    return digest([[path.name, _file(path)] for path in sorted(place.iterdir())])


def is_packed(item: Item) -> bool:
    """Is it a case in one file, which is named by what it holds?"""
    return item.kind == "case" and item.source.endswith(SUFFIX)


def case_hash(folder: Path) -> str:
    """The hash of the graphs of a case and of what belongs to them."""
    try:
        found = case_files(folder)
    except (GGError, OSError) as error:
        return digest(["no case", str(error)])
    return files_hash(found)


def files_hash(found: CaseFiles) -> str:
    """The same for files that are known. Of how they were captured counts what a verdict lists."""
    others = {
        role: path and _file(path)
        for role, path in (
            ("groups", found.groups),
            ("relations", found.relations),
            ("outputs", found.outputs),
        )
    }
    ranks = [[path.name, _file(path)] for path in found.dist]
    return digest(["case", _file(found.seq), ranks, others, _said(found.about)])


def _said(about: Path | None) -> Any:
    if about is None:
        return None
    try:
        document = json.loads(about.read_text(encoding="utf-8"))
        return [document.get("assumptions"), document.get("warnings")]
    except (OSError, ValueError, AttributeError, RecursionError):
        return _file(about)


def _facts_hash(folder: Path) -> str:
    """Every file of the facts, and the graphs behind them as they are now: numbers and repairs
    are looked for in those."""
    rows = [[path.name, _file(path)] for path in sorted(folder.iterdir()) if path.is_file()]
    return digest(["facts", rows, [_file(Path(path)) for path in behind(folder)]])


def behind(folder: Path) -> Iterator[str]:
    """The graphs that facts were extracted from, as their manifest names them."""
    try:
        case = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))["case"]
        given = [case["seq"], *case["dist"], case["groups"], case["relations"], case["outputs"]]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return
    yield from (path for path in given if isinstance(path, str))


def _file(path: Path) -> str:
    """The hash of a file; of what is none, or cannot be read, a word for it."""
    try:
        return file_hash(path) if path.is_file() else f"no file: {path.exists()}"
    except OSError as error:
        return f"not read: {error.strerror}"


def capture_key(item: Item) -> str:
    """What a capture depends on, beside the user's code: that is known once it was captured."""
    relations = item.capture.get("relations")
    given: Mapping[str, Any] = {
        "source": item.source,
        "home": item.home,
        "arguments": dict(item.arguments),
        "capture": {name: value for name, value in item.capture.items() if name != "jobs"},
        "relations": relations and _file(Path(relations)),
        "watched": [
            [str(p), _file(p)] for g in item.watched for p in sorted(Path(item.home).glob(g))
        ],
        "code": capture_hash(),
    }
    return digest(given)
