"""``check``: a certificate and the facts that it is about, read for the checker."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gg_datalog.extract.schema import RULE_RELATIONS
from gg_datalog.foundation.errors import GGError, InputError
from gg_datalog.foundation.progress import Progress
from gg_datalog.foundation.regular import refuse_special
from gg_datalog.proofs.certifying import FORM
from gg_datalog.proofs.checker import Checker
from gg_datalog.proofs.positions import Refused
from gg_datalog.result.store import open_facts

WRITTEN_BY = "give a file written by `gg-datalog certificate`"
FIELDS = {"form", "facts", "steps", "outputs"}
SHORT = 12


class NotProved(GGError):
    """A certificate does not prove what it says."""


def checked(proof: Path, facts: Path, progress: Progress) -> tuple[str, bool]:
    """What a certificate proves, in a sentence, and whether that is every output.

    Raises:
        InputError: a file cannot be read.
        NotProved: it is about other facts, or a step or an output does not follow from them.
    """
    document = _document(proof)
    progress("reading facts")
    given = open_facts(facts)
    tables = given.tables
    if document["facts"] != given.joint_hash:
        raise NotProved(
            "the certificate does not hold: it is about other facts, with the hash "
            f"{document['facts'][:SHORT]}..., these have {given.joint_hash[:SHORT]}...",
            str(proof),
            "make it again from a result of these facts; where `run` was given --operators, give "
            "them to `extract`",
        )
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
    return _told(len(document["steps"]), proved, tables)


def _told(steps: int, proved: Sequence[int], tables: Mapping[str, Any]) -> tuple[str, bool]:
    rows = tables["output_name"].to_pylist()
    names = [row["seq"] for row in rows if row["wants"] in proved]
    others = [row["seq"] for row in rows if row["wants"] not in proved]
    text = f"{steps} steps hold; {len(proved)} of {len(rows)} outputs are proved"
    mismatches = tables["collective_mismatch"].num_rows
    if mismatches:
        text += f", if {mismatches} collectives that do not line up between ranks end at all"
    text += f": {', '.join(names)}" + (f"; not proved: {', '.join(others)}" if others else "")
    return text, not others and not mismatches


def _document(path: Path) -> dict[str, Any]:
    refuse_special(path)
    try:
        document: Any = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", str(path), WRITTEN_BY) from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"this is no JSON: {error}", str(path), WRITTEN_BY) from None
    known = isinstance(document, dict) and {*document, "facts"} == FIELDS
    if not known or document["form"] != FORM:
        raise InputError("this is no certificate of this release", str(path), WRITTEN_BY)
    if not isinstance(document["steps"], list) or not isinstance(document["outputs"], list):
        raise InputError("steps and outputs have to be lists", str(path), WRITTEN_BY)
    if not document["outputs"]:
        raise InputError("no output is in it: there is nothing to prove", str(path), WRITTEN_BY)
    if not isinstance(document.get("facts"), str):
        raise InputError("it does not say which facts it is about", str(path), WRITTEN_BY)
    found: dict[str, Any] = document
    return found


def _rows(table: Any) -> list[tuple[Any, ...]]:
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))
