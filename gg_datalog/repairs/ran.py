"""What a run that did not prove everything leaves to search in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

    from gg_datalog.engine import Engine
    from gg_datalog.extract import CaseFiles


@dataclass(frozen=True)
class Ran:
    """A run that did not prove everything: what it was given, what it derived, how many seconds it
    took and may take (``timeout``). ``program`` are the rules; ``extract`` gives the facts of
    other graphs as the user asked for them."""

    database: duckdb.DuckDBPyConnection
    case: Mapping[str, Any]
    facts: Mapping[str, pa.Table]
    derived: Mapping[str, pa.Table]
    engine: Engine
    program: Path
    seconds: float
    timeout: float | None
    extract: Callable[[CaseFiles], dict[str, pa.Table]]
