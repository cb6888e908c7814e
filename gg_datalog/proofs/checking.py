"""``check``: a certificate and the facts that it is about, read for the checker."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gg_datalog.errors import GGError, InputError
from gg_datalog.extract.schema import RULE_RELATIONS
from gg_datalog.progress import Progress
from gg_datalog.proofs.certifying import FORM
from gg_datalog.proofs.checker import Checker, Refused
from gg_datalog.store import read_facts

WRITTEN_BY = "give a file written by `gg-datalog certificate`"


class NotProved(GGError):
    """A certificate does not prove what it says."""


def checked(proof: Path, facts: Path, progress: Progress) -> str:
    """What a certificate proves, in a sentence.

    Raises:
        InputError: a file cannot be read.
        NotProved: a step or an output does not follow from the facts.
    """
    document = _document(proof)
    progress("reading facts")
    tables, _ = read_facts(facts)
    rows = {r.name: _rows(tables[r.name]) for r in RULE_RELATIONS}
    progress(f"checking {len(document['steps'])} steps")
    try:
        proved = Checker(rows).certificate(document)
    except Refused as error:
        raise NotProved(
            f"the certificate does not hold: {error}",
            str(proof),
            "make it again from a result of these facts",
        ) from None
    names = [row["seq"] for row in tables["output_name"].to_pylist() if row["wants"] in proved]
    total = tables["output_name"].num_rows
    text = f"{len(document['steps'])} steps hold; {len(proved)} of {total} outputs are proved"
    mismatches = tables["collective_mismatch"].num_rows
    if mismatches:
        text += f", if {mismatches} collectives that do not line up between ranks end at all"
    return f"{text}: {', '.join(names)}"


def _document(path: Path) -> dict[str, Any]:
    try:
        document: Any = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", str(path), WRITTEN_BY) from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"this is no JSON: {error}", str(path), WRITTEN_BY) from None
    known = isinstance(document, dict) and set(document) == {"form", "steps", "outputs"}
    if not known or document["form"] != FORM:
        raise InputError("this is no certificate of this release", str(path), WRITTEN_BY)
    if not isinstance(document["steps"], list) or not isinstance(document["outputs"], list):
        raise InputError("steps and outputs have to be lists", str(path), WRITTEN_BY)
    if not document["outputs"]:
        raise InputError("no output is in it: there is nothing to prove", str(path), WRITTEN_BY)
    found: dict[str, Any] = document
    return found


def _rows(table: Any) -> list[tuple[Any, ...]]:
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))
