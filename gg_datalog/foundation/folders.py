"""Folders that appear complete or not at all, and are only replaced where all in them is ours."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any

from gg_datalog.foundation.aside import NEW, OLD, is_aside, made_aside, recover
from gg_datalog.foundation.errors import GGError, InputError
from gg_datalog.foundation.exchange import swapped
from gg_datalog.foundation.locks import locked
from gg_datalog.foundation.regular import refuse_special
from gg_datalog.foundation.whole import replace_file

MANIFEST = "manifest.json"
# Folders inside of folders that have a manifest of their own, by kind and name.
INSIDE = {
    "facts": {"result": "result"},
    "check": {"case": "case", "facts": "facts", "result": "result"},
}
Json = dict[str, Any]


@contextmanager
def replaced_folder(folder: Path, kind: str) -> Iterator[Path]:
    """A new folder to fill; it takes the place of ``folder`` once everything in it is written.

    What is at ``folder`` already is only replaced where its manifest says that it is of the same
    kind, and lists every file in it. A link stays, what it points to is replaced. Where the new
    folder is gone in the end, so is the old one.
    """
    place = _place(folder)
    refuse_foreign(folder, kind)
    with made_aside(place) as aside:
        fresh = aside / NEW
        try:
            fresh.mkdir()
            yield fresh
            if fresh.exists():
                _complete(fresh, folder.absolute(), kind)
            _publish(fresh, place, kind)
        except GGError as error:
            _renamed(error, fresh, folder)
            raise
        except OSError as error:
            raise InputError(
                f"the folder cannot be written: {error.strerror or error}",
                str(folder),
                "check that there is room and that you may write there",
            ) from error


@contextmanager
def in_use(folder: Path) -> Iterator[None]:
    """While this lasts nobody replaces the folder, or one of ours that it lies in."""
    place = _place(folder)
    with ExitStack() as held:
        for home in (*place.parents[1::-1], place):
            held.enter_context(locked(home / MANIFEST, exclusive=False))
        yield


@contextmanager
def in_use_for(result: Path, facts: Path) -> Iterator[None]:
    """While this lasts nobody replaces the facts, where the result of them lies inside."""
    with in_use(facts) if _place(result).is_relative_to(_place(facts)) else nullcontext():
        yield


def refuse_foreign(folder: Path, kind: str) -> None:
    """An error where ``folder`` holds something that is not ours to replace."""
    place = _place(folder)
    if not os.path.lexists(place):
        return
    if not place.is_dir():
        raise InputError("there is a file of this name", str(folder), "give the name of a folder")
    if not any(place.iterdir()):
        return
    if _known(place).get("kind") != kind:
        raise InputError(
            f"the folder is not empty and holds no {kind} written by gg-datalog",
            str(folder),
            "give another folder, or remove this one yourself",
        )
    if not _listed(_known(place)):
        raise InputError(
            "the folder would be replaced, but its manifest does not list what is in it: an "
            "earlier release wrote it, or somebody else",
            str(folder),
            "give another folder, or remove this one yourself",
        )
    name = next(_foreign(place), None)
    if name is not None:
        raise InputError(
            f"the folder would be replaced, but holds `{name}`, which its manifest does not list",
            str(folder),
            "put that elsewhere, give another folder, or remove this one yourself",
        )


def refuse_inside(inputs: Iterable[Path | None], folder: Path) -> None:
    """An error where what is read lies in the folder that will be replaced."""
    place = _place(folder)
    for path in inputs:
        if path is not None and _place(path).is_relative_to(place):
            raise InputError(
                "this is read, and lies in the folder that would be replaced",
                str(path),
                "give another folder with -o",
            )


def adopt(path: Path) -> None:
    """Lists a file that we made in the manifest of the folder of ours that it lies in."""
    path = _place(path)
    home = next((place for place in path.parents if (place / MANIFEST).is_file()), None)
    if home is None:
        return
    with locked(home / MANIFEST, exclusive=True):
        manifest, name = _known(home), path.relative_to(home).as_posix()
        files = _listed(manifest)
        if manifest.get("kind") in (*INSIDE, "result") and files and name not in files:
            _write(home / MANIFEST, {**manifest, "files": sorted({*files, name})})


def write_manifest(folder: Path, kind: str, content: Json) -> None:
    """The manifest of a folder of this kind (facts or result)."""
    from gg_datalog.foundation.version import __version__

    _write(folder / MANIFEST, {"kind": kind, "gg_datalog": __version__, **content})


def read_manifest(folder: Path, kind: str, made_by: str) -> Json:
    """The manifest of a folder; ``made_by`` is the command that would have written it."""
    path = folder / MANIFEST
    hint = f"give a folder written by `{made_by}`"
    if not folder.is_dir():
        recover(_place(folder))
    if not folder.is_dir():
        raise InputError(f"no such {kind} folder", str(folder), hint)
    refuse_special(path)
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"no {MANIFEST}: this is no {kind} folder", str(folder), hint) from None
    except (OSError, ValueError, RecursionError) as error:
        text = getattr(error, "strerror", None) or error
        raise InputError(f"the manifest cannot be read: {text}", str(path), hint) from None
    if not isinstance(document, dict) or document.get("kind") != kind:
        if (folder / kind / MANIFEST).is_file():  # as `verify -o` has them below one folder
            hint = f"give {folder / kind}"
        raise InputError(f"the manifest is not that of a {kind} folder", str(path), hint)
    return document


# ---- what is in a folder -------------------------------------------------------------------------
def _place(path: Path) -> Path:
    """Where a path leads in the end: a link stays what it is."""
    return Path(os.path.realpath(path))


def _known(folder: Path) -> Json:
    """The manifest of a folder, empty where there is none."""
    try:
        refuse_special(folder / MANIFEST)
        document = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    except (InputError, OSError, ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def _listed(manifest: Json) -> set[str]:
    files = manifest.get("files")
    return {str(name) for name in files} if isinstance(files, list) else set()


def _foreign(folder: Path) -> Iterator[str]:
    """What is in a folder of ours that its manifest does not list, folders inside by their own."""
    manifest = _known(folder)
    listed = _listed(manifest)
    inside = INSIDE.get(str(manifest.get("kind")), {})
    for path in _files(folder, inside):
        name = path.relative_to(folder).as_posix()
        if path.is_dir() and not path.is_symlink():
            yield from (f"{name}/{inner}" for inner in _foreign(path))
        elif name not in listed and name != MANIFEST:
            yield name


def _files(folder: Path, inside: dict[str, str]) -> Iterator[Path]:
    """Everything below a folder that is no folder, and folders inside that have a manifest."""
    for entry in sorted(folder.iterdir()):
        if entry.is_symlink() or not entry.is_dir():
            if not is_aside(entry.name):
                yield entry
        elif inside.get(entry.name, "") == _known(entry).get("kind"):
            yield entry
        elif not is_aside(entry.name):
            yield from _files(entry, {})


# ---- the new one instead of the old one ----------------------------------------------------------
def _complete(fresh: Path, folder: Path, kind: str) -> None:
    """Lists the files in the manifest; manifests name paths as they will be."""
    for path in fresh.rglob(MANIFEST):
        _write(path, _moved(_known(path.parent), str(fresh), str(folder)))
    if not (fresh / MANIFEST).exists():
        write_manifest(fresh, kind, {})
    names = [path.relative_to(fresh).as_posix() for path in fresh.rglob("*") if path.is_file()]
    _write(fresh / MANIFEST, {**_known(fresh), "files": sorted(names)})


def _moved(value: Any, old: str, new: str) -> Any:
    if isinstance(value, str):
        return new + value[len(old) :] if value.startswith(old + os.sep) else value
    if isinstance(value, list):
        return [_moved(item, old, new) for item in value]
    if isinstance(value, dict):
        return {key: _moved(item, old, new) for key, item in value.items()}
    return value


def _renamed(error: GGError, fresh: Path, folder: Path) -> None:
    """The error speaks of the folder as the user knows it."""
    old, new = str(fresh), str(folder)
    error.what = error.what.replace(old, new)
    error.where = error.where and error.where.replace(old, new)


def _publish(fresh: Path, place: Path, kind: str) -> None:
    """Puts ``fresh``, if it is there, where the old folder is, once nobody reads that any more."""
    while True:
        with locked(place / MANIFEST, exclusive=True):
            refuse_foreign(place, kind)
            try:
                if not fresh.exists():
                    _gone(place, fresh)
                elif not _filled(place) or not swapped(fresh, place):
                    _replace(fresh, place)
                return
            except OSError as error:
                if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                    raise  # else somebody was faster


def _filled(place: Path) -> bool:
    return place.is_dir() and any(place.iterdir())


def _gone(place: Path, fresh: Path) -> None:
    if place.exists():
        os.rename(place, fresh)


def _replace(fresh: Path, place: Path) -> None:
    """The same in two steps; the old one comes back where the second one fails."""
    old = fresh.with_name(OLD)
    if _filled(place):
        os.rename(place, old)
    try:
        os.rename(fresh, place)
    except BaseException:
        if old.exists():
            os.rename(old, place)
        raise


def _write(path: Path, document: Json) -> None:
    """Writes a manifest, whole or not at all."""
    text = json.dumps(document, indent=1, ensure_ascii=False)
    replace_file(path, (text + "\n").encode("utf-8", "backslashreplace"))
