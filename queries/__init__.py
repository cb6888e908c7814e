"""Questions about a result, as SQL: one file each, described in its first lines."""

from __future__ import annotations

from importlib.resources import files

from gg_datalog.foundation.errors import InputError


def listed(of: str = "") -> str:
    """Every query with its header comment; of results, or of ``audit``."""
    blocks = []
    for name, text in _queries(of).items():
        blocks.append("\n".join([name, *(f"  {line}" for line in _header(text))]))
    return "\n\n".join(blocks)


def statement(name: str, of: str = "") -> str:
    """The SQL of a query; of results, or of ``audit``."""
    queries = _queries(of)
    if name not in queries:
        raise InputError(
            f"there is no query `{name}`", None, f"known: {', '.join(queries)}; or use --sql"
        )
    return queries[name]


def _queries(of: str = "") -> dict[str, str]:
    """SQL by name."""
    found = files(__name__).joinpath(of).iterdir()
    named = {entry.name: entry for entry in found if entry.name.endswith(".sql")}
    return {name.removesuffix(".sql"): named[name].read_text("utf-8") for name in sorted(named)}


def _header(sql: str) -> list[str]:
    lines = []
    for line in sql.splitlines():
        if not line.startswith("--"):
            break
        lines.append(line.removeprefix("--").strip())
    return lines
