"""Results on disk: what ``run`` left in a folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from gg_datalog.extract.schema import SCHEMA_VERSION
from gg_datalog.foundation.errors import InputError
from gg_datalog.foundation.folders import in_use, read_manifest
from gg_datalog.foundation.regular import is_there, refuse_special
from gg_datalog.result.blank import PATH
from gg_datalog.result.database import DATABASE
from gg_datalog.result.report import REPORT, Report, from_json

if TYPE_CHECKING:
    import duckdb

AGAIN = "run `gg-datalog run` again"
_CURRENT = "SELECT 1 FROM duckdb_views() WHERE view_name = 'seq_break'"  # the newest one


def read_result(folder: Path) -> tuple[Report, dict[str, Any]]:
    """The report of a result folder, and its manifest: where the facts lie, and of which case."""
    with in_use(folder):
        return _read(folder)


def result_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a result folder.

    Raises:
        InputError: there is none, or it is one of another schema version.
    """
    manifest = read_manifest(folder, "result", "gg-datalog run")
    found = manifest.get("schema_version")
    if found != SCHEMA_VERSION or isinstance(found, bool):
        raise InputError(
            f"the result has schema version {found!r}, this release reads {SCHEMA_VERSION}",
            str(folder),
            "run `gg-datalog extract` and `gg-datalog run` again with this release",
        )
    return manifest


def _read(folder: Path) -> tuple[Report, dict[str, Any]]:
    manifest = result_manifest(folder)
    path = folder / REPORT
    refuse_special(path)
    try:
        return from_json(path.read_text(encoding="utf-8")), manifest
    except OSError as error:
        raise InputError(f"the report cannot be read: {error.strerror}", str(path), AGAIN) from None
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"this is no report: {error}", str(path), AGAIN) from None


def open_result(folder: Path) -> duckdb.DuckDBPyConnection:
    """The database of a result folder, to read from.

    Raises:
        InputError: there is none, or another release wrote it.
    """
    with in_use(folder):
        database = _opened(folder, {})
    if not database.execute(_CURRENT).fetchall():
        hint = "run `gg-datalog run` again with this release"
        raise InputError("the database is one of another release", str(folder / DATABASE), hint)
    return database


def ask_result(folder: Path) -> duckdb.DuckDBPyConnection:
    """The same for statements of the user, which reach nothing but the database."""
    with in_use(folder):
        return _opened(folder, {"enable_external_access": False})


def _opened(folder: Path, options: dict[str, Any]) -> duckdb.DuckDBPyConnection:
    import duckdb

    result_manifest(folder)
    path = folder / DATABASE
    if not is_there(path):
        raise InputError("the result has no database", str(path), AGAIN)
    try:
        database = duckdb.connect(str(path), read_only=True, config=options)
        if database.execute(_CURRENT).fetchall():
            database.execute(PATH)
        return database
    except duckdb.Error as error:
        text = str(error).splitlines()[0]
        raise InputError(f"the database cannot be read: {text}", str(path), AGAIN) from None
