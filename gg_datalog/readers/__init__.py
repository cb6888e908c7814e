"""Readers of captured graphs in other forms than the JSON case format, found by entry point."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import TYPE_CHECKING

from gg_datalog.foundation.errors import GGError, InputError

if TYPE_CHECKING:
    from gg_datalog.extract.documents import CaseDocuments

ENTRY_POINTS = "gg_datalog.readers"


@dataclass(frozen=True)
class ReaderInput:
    """What the user gave: the sequential file first, then one file per rank (or one for all).

    ``groups`` are process groups by name, members in order, from ``--group NAME=0,1``.
    """

    files: Sequence[Path]
    groups: dict[str, tuple[int, ...]] = field(default_factory=dict)
    progress: Callable[[str], None] = lambda text: None


Reader = Callable[[ReaderInput], "CaseDocuments"]


def reader_names() -> list[str]:
    """The readers that are installed."""
    return sorted({point.name for point in _points()})


def load_reader(name: str) -> Reader:
    """The reader called ``name``."""
    found = [point for point in _points() if point.name == name]
    if not found:
        raise InputError(
            f"there is no reader `{name}`", None, f"installed: {', '.join(reader_names())}"
        )
    if len({point.value for point in found}) > 1:
        homes = ", ".join(sorted(point.value for point in found))
        raise InputError(f"two readers are called `{name}`: {homes}", None, "remove one of them")
    try:
        reader = found[0].load()
    except (Exception, SystemExit) as error:
        raise InputError(
            f"the reader `{name}` ({found[0].value}) cannot be loaded: {error}",
            None,
            "reinstall the package that brings it",
        ) from None
    if not callable(reader):
        raise InputError(f"the reader `{name}` ({found[0].value}) is no function", None)
    return reader  # type: ignore[no-any-return]


def read_with(name: str, reader: Reader, given: ReaderInput) -> CaseDocuments:
    """What the reader called ``name`` makes of the files; one message where it is wrong itself."""
    from gg_datalog.extract.documents import CaseDocuments

    try:
        documents = reader(given)
    except (GGError, OSError):
        raise
    except Exception as error:
        if str(getattr(reader, "__module__", "")).startswith("gg_datalog."):
            raise
        raise InputError(
            f"the reader `{name}` failed: {type(error).__name__}: {error}", None, BROUGHT
        ) from error
    if not isinstance(documents, CaseDocuments):
        raise InputError(
            f"the reader `{name}` returned {type(documents).__name__}, not CaseDocuments",
            None,
            BROUGHT,
        )
    return documents


BROUGHT = "report this to those who wrote the package that brings it"


def _points() -> Sequence[EntryPoint]:
    return list(entry_points(group=ENTRY_POINTS))
