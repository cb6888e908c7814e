"""Repairs: one collective or scalar that would close the gap of a finding, tried out."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from gg_datalog.errors import InputError
from gg_datalog.progress import Progress
from gg_datalog.report import Finding

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

    from gg_datalog.engine import Engine
    from gg_datalog.extract import CaseFiles


@dataclass(frozen=True)
class Ran:
    """A run that did not prove everything: what it was given, what it derived, how many seconds it
    took and may take (``timeout``). ``extract`` gives the facts of other graphs as the user asked
    for them."""

    database: duckdb.DuckDBPyConnection
    case: Mapping[str, Any]
    facts: Mapping[str, pa.Table]
    derived: Mapping[str, pa.Table]
    engine: Engine
    seconds: float
    timeout: float | None
    extract: Callable[[CaseFiles], dict[str, pa.Table]]


def with_repairs(ran: Ran, findings: Sequence[Finding], progress: Progress) -> list[Finding]:
    """The findings, the first few causes among them with a repair where one was found.

    Whatever goes wrong costs the suggestion only: nothing here has a say in the verdict.
    """
    from gg_datalog.repairs.search import Search

    try:
        repairs = Search(ran, progress).repairs(findings)
    except InputError:  # the graphs are gone, or others
        return list(findings)
    except Exception:
        if os.environ.get("GG_DATALOG_DEBUG"):
            raise
        return list(findings)
    return [replace(f, repair=repairs.get(i)) for i, f in enumerate(findings)]
