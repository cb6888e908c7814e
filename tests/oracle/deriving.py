"""What the rules derive of many combinations: extraction of each, one run of the engine for all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from gg_datalog.engine.clingo_engine import ClingoEngine
from gg_datalog.foundation.errors import InputError
from gg_datalog.replay.documents import Documents

from ..numeric.batches import STEP, merged, separated
from ..numeric.lowered import Extracted, extract
from ..numeric.relations import RULES

Rows = list[dict[str, Any]]
LARGEST = 2**31  # of the engine's words
SHARED = Path("/dev/shm")  # files that are never written to a disk


@dataclass(repr=False)
class Derived:
    """What is derived of a combination; ``reason`` says why extraction refused it."""

    extracted: Extracted | None
    reason: str = ""
    crashed: bool = False
    holds: Rows = field(default_factory=list)
    returned: Rows = field(default_factory=list)
    mapped: set[int] = field(default_factory=set)


def derived(cases: Sequence[Documents]) -> list[Derived]:
    """What the rules derive of each case."""
    found = [_extracted(case) for case in cases]
    rows = {n: one.extracted.rows for n, one in enumerate(found) if one.extracted is not None}
    if not rows:
        return found
    made = derived_from(merged(rows))
    holds, returned = separated(made["holds"]), separated(made["returned_holds"])
    for row in made["output_mapped"]:
        found[row["wants"] // STEP].mapped.add(row["wants"] % STEP)
    for number, one in enumerate(found):
        one.holds, one.returned = holds.get(number, []), returned.get(number, [])
        if one.extracted is not None and one.extracted.rows.get("collective_mismatch"):
            one.mapped.clear()
    return found


def derived_from(facts: dict[str, Any]) -> dict[str, Rows]:
    """The relations that are compared, of these facts."""
    found = ClingoEngine().run(RULES, facts).relations
    return {name: found[name].to_pylist() for name in ("holds", "returned_holds", "output_mapped")}


def _fits(rows: Mapping[str, Any]) -> bool:
    return all(
        abs(value) < LARGEST
        for table in rows.values() for row in table for value in row if type(value) is int
    )  # fmt: skip


def _extracted(case: Documents) -> Derived:
    with TemporaryDirectory(dir=SHARED if SHARED.is_dir() else None) as folder:
        try:
            found = extract(case.write(Path(folder)))
            if not _fits(found.rows):
                return Derived(None, "a number that does not fit the engine's word")
            return Derived(found)
        except InputError as error:
            return Derived(None, str(error).replace(folder, ""))
        except Exception as error:  # a defect, whatever it is
            return Derived(None, f"{type(error).__name__}: {error}", crashed=True)
