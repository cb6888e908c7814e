"""What a task reads, as one archive: files by their whole paths, to be laid below another root."""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from gg_datalog.audit.key import behind
from gg_datalog.extract.case import case_files
from gg_datalog.foundation.errors import GGError, InputError
from gg_datalog.foundation.folders import MANIFEST

Json = dict[str, Any]
MOST = 512 * 2**20  # bytes of the user's modules
LEFT_OUT = ("__pycache__", "node_modules", "audit.json")


def needed(task: Mapping[str, Any]) -> list[Path]:
    """The files that a task reads, beside the user's modules."""
    if task["does"] == "capture":
        relations = task["capture"].get("relations")
        return [Path(relations)] if relations else []
    tables = [Path(path) for path in task["run"].get("operators", ())]
    return [path for path in (*_read(task["kind"], Path(task["place"])), *tables) if path.is_file()]


def _read(kind: str, place: Path) -> Iterator[Path]:
    if place.is_file():
        yield place
    elif kind == "case":
        yield from _graphs(place)
    elif kind == "facts":
        yield from place.iterdir()
        yield from map(Path, behind(place))
    else:
        yield from place.rglob("*")


def _graphs(folder: Path) -> Iterator[Path]:
    """The files of a case; all that lies there where it is none, so that running it says why."""
    try:
        found = case_files(folder)
    except GGError:
        yield from folder.iterdir()
        return
    others = (found.groups, found.relations, found.outputs, found.about)
    yield from (path for path in (found.seq, *found.dist, *others) if path is not None)


def modules(homes: Iterable[str], audit: Path) -> Iterator[Path]:
    """The files below the folders of the user's modules: not what is hidden, nor any audit.

    Raises:
        InputError: they are too large to be sent around.
    """
    total = 0
    for home in homes:
        for folder, below, names in os.walk(home):
            below[:] = [one for one in below if _wanted(Path(folder) / one, audit)]
            for path in (Path(folder) / name for name in names if not name.startswith(".")):
                if path.is_file():
                    total += path.stat().st_size
                    yield path
        if total > MOST:
            raise InputError(
                f"the folder of the plan holds {total >> 20} MB, too much for every node",
                home,
                "put the plan and the modules that it calls into a folder of their own",
            )


def _wanted(folder: Path, audit: Path) -> bool:
    hidden = folder.name.startswith(".") or folder.name in LEFT_OUT
    return not hidden and folder != audit and not (folder / "audit.json").exists()


# ---- archives ------------------------------------------------------------------------------------
def archived(paths: Iterable[Path]) -> bytes:
    """Files as an archive; the same files give the same bytes."""
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w:gz", compresslevel=1) as archive:
        for path in sorted({Path(os.path.abspath(path)) for path in paths}):
            content = path.read_bytes()
            entry = tarfile.TarInfo(path.as_posix().lstrip("/"))
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return whole.getvalue()


def laid(archive: bytes, root: Path) -> None:
    """Writes the files of an archive below a root; facts that speak of graphs find them there."""
    with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as files:
        files.extractall(root, filter="data")


def moved(task: Mapping[str, Any], root: Path, home: Path) -> Json:
    """A task whose files lie below ``root``, and whose modules lie below ``home``."""
    if task["does"] == "capture":
        capture = dict(task["capture"])
        if capture.get("relations"):
            capture["relations"] = below(root, capture["relations"])
        return {**task, "home": below(home, task["home"]), "capture": capture}
    run = dict(task["run"])
    run["operators"] = [below(root, path) for path in run.get("operators", ())]
    place = below(root, task["place"])
    if task["kind"] == "facts":
        _point(Path(place), root)
    return {**task, "run": run, "place": place}


def below(root: Path, path: str) -> str:
    """Where a file of another machine lies below a root."""
    return f"{root}{os.path.abspath(path)}"


def _point(facts: Path, root: Path) -> None:
    """Has the manifest of facts name the graphs where they lie now."""
    manifest = facts / MANIFEST
    text = manifest.read_text("utf-8") if manifest.is_file() else ""
    for path in behind(facts):
        text = text.replace(f'"{path}"', f'"{below(root, path)}"')
    if text:
        manifest.write_text(text, "utf-8")
