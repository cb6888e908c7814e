"""Baseline files: JSON, checked when read, written whole."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from gg_datalog.foundation.errors import InputError
from gg_datalog.foundation.regular import refuse_special
from gg_datalog.settings.baseline import Baseline, Entry, key

BASELINE_VERSION = 1
AGAIN = "`--write-baseline` writes a new one"


def load_baseline(path: Path) -> Baseline:
    """The baseline in a file.

    Raises:
        InputError: there is none, or it is not usable.
    """
    refuse_special(path)
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        return Baseline(tuple(_entries(document)))
    except FileNotFoundError:
        raise InputError("there is no such baseline", str(path), AGAIN) from None
    except OSError as error:
        what = f"the baseline cannot be read: {error.strerror}"
        raise InputError(what, str(path), "give the path of a file") from None
    except RecursionError:
        raise InputError("this is no baseline: nested too deeply", str(path), AGAIN) from None
    except ValueError as error:
        raise InputError(f"this is no baseline: {error}", str(path), AGAIN) from None


def check_place(path: Path) -> None:
    """Refuses a path where no baseline can be written, before any work is done."""
    folder = next(place for place in path.absolute().parents if place.exists())
    what = None
    if path.is_dir():
        what = "there is a folder of this name"
    elif not os.access(path if path.exists() else folder, os.W_OK):
        what = "the baseline may not be written"
    if what is not None:
        raise InputError(what, str(path), "give another path to --baseline")


def save_baseline(baseline: Baseline, path: Path) -> None:
    """Writes a baseline file, whole or not at all.

    Raises:
        InputError: it cannot be written.
    """
    from gg_datalog.foundation.whole import replace_file

    rows = [asdict(entry) for entry in baseline.entries]
    for row in rows:
        if row["count"] == 1:
            del row["count"]
    document = {"schema_version": BASELINE_VERSION, "entries": rows}
    text = json.dumps(document, indent=1, ensure_ascii=False) + "\n"
    try:
        replace_file(path, text.encode("utf-8", "backslashreplace"))
    except OSError as error:
        what = f"the baseline cannot be written: {error.strerror}"
        raise InputError(what, str(path), "give another path to --baseline") from None


def _entries(document: Any) -> Iterator[Entry]:
    if not isinstance(document, Mapping) or not isinstance(document.get("entries"), list):
        raise ValueError("not an object with a list `entries`")
    if document.get("schema_version") != BASELINE_VERSION:
        raise ValueError(
            f"schema version {document.get('schema_version')!r}, not {BASELINE_VERSION}"
        )
    seen = set()
    for number, row in enumerate(document["entries"]):
        entry = _read(row, f"entry {number}")
        if key(entry) in seen:
            raise ValueError(f"entry {number}: `{entry.fingerprint}` is there already")
        seen.add(key(entry))
        yield entry


def _read(row: Any, where: str) -> Entry:
    if not isinstance(row, Mapping):
        raise ValueError(f"{where} is not an object")
    names = [field.name for field in fields(Entry)]
    for name, value in row.items():
        if name not in names:
            raise ValueError(f"{where} has an unknown key `{name}` (known: {', '.join(names)})")
        if not _fits(name, value):
            raise ValueError(f"{where}: `{name}` is {value!r}")
    if not row.get("fingerprint") or not row.get("code"):
        raise ValueError(f"{where} has no fingerprint or no code")
    given: dict[str, Any] = {k: tuple(v) if k == "outputs" else v for k, v in row.items()}
    return Entry(**given)


def _fits(name: str, value: Any) -> bool:
    if name == "outputs":
        return isinstance(value, list) and all(isinstance(item, str) for item in value)
    if name == "count":
        return type(value) is int and value > 0
    return isinstance(value, str)
