"""Folders that appear complete or not at all."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gg_datalog.errors import InputError

MANIFEST = "manifest.json"


@contextmanager
def replaced_folder(folder: Path, kind: str) -> Iterator[Path]:
    """A new folder to fill; it takes the place of ``folder`` once everything in it is written.

    What is at ``folder`` already is only replaced where its manifest says it is of the same kind.
    """
    folder = folder.absolute()
    refuse_foreign(folder, kind)
    fresh = _beside(folder)
    try:
        yield fresh
        _swap(fresh, folder)
    except OSError as error:
        raise InputError(
            f"the folder cannot be written: {error.strerror or error}",
            str(folder),
            "check that there is room and that you may write there",
        ) from error
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


@contextmanager
def emptied_folder(folder: Path, kind: str) -> Iterator[Path]:
    """An empty folder to work in, in the place of one of the same kind, which comes back where an
    error ends the work. For folders in which files name each other by absolute paths."""
    folder = folder.absolute()
    refuse_foreign(folder, kind)
    aside = _beside(folder)
    old = aside / "old"
    try:
        if folder.exists():
            os.rename(folder, old)
        folder.mkdir()
        write_manifest(folder, kind, {})
        yield folder
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        if old.exists():
            os.rename(old, folder)
        raise
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def refuse_foreign(folder: Path, kind: str) -> None:
    """An error where ``folder`` holds something that is not ours to replace."""
    if not folder.exists() and not folder.is_symlink():
        return
    if not folder.is_dir():
        raise InputError("there is a file of this name", str(folder), "give the name of a folder")
    if not any(folder.iterdir()) or _kind(folder) == kind:
        return
    raise InputError(
        f"the folder is not empty and holds no {kind} written by gg-datalog",
        str(folder),
        "give another folder, or remove this one yourself",
    )


def write_manifest(folder: Path, kind: str, content: dict[str, Any]) -> None:
    """The manifest of a folder of this kind (facts or result)."""
    from gg_datalog import __version__

    document = {"kind": kind, "gg_datalog": __version__, **content}
    text = json.dumps(document, indent=1, ensure_ascii=False)
    (folder / MANIFEST).write_text(text + "\n", encoding="utf-8")


def read_manifest(folder: Path, kind: str, made_by: str) -> dict[str, Any]:
    """The manifest of a folder; ``made_by`` is the command that would have written it."""
    path = folder / MANIFEST
    hint = f"give a folder written by `{made_by}`"
    if not folder.is_dir():
        raise InputError(f"no such {kind} folder", str(folder), hint)
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"no {MANIFEST}: this is no {kind} folder", str(folder), hint) from None
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"the manifest cannot be read: {error}", str(path), hint) from None
    if not isinstance(document, dict) or document.get("kind") != kind:
        raise InputError(f"the manifest is not that of a {kind} folder", str(path), hint)
    return document


def _kind(folder: Path) -> str | None:
    try:
        document = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return document.get("kind") if isinstance(document, dict) else None


def _beside(folder: Path) -> Path:
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
        made.chmod(0o777 & ~_umask())
    except OSError as error:
        raise InputError(
            f"no folder can be made here: {error.strerror}", str(folder.parent), "give another one"
        ) from None
    return made


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _swap(fresh: Path, folder: Path) -> None:
    """Puts ``fresh`` where ``folder`` is; the old one comes back where that fails."""
    old = None
    if folder.exists():
        old = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent)) / "old"
        os.rename(folder, old)
    try:
        os.rename(fresh, folder)
    except OSError:
        if old is not None:
            os.rename(old, folder)
        raise
    finally:
        if old is not None:
            shutil.rmtree(old.parent, ignore_errors=True)
