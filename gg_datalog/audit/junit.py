"""JUnit XML: a test case per item."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree as xml

from gg_datalog.audit.folder import AuditFolder
from gg_datalog.audit.items import PENDING
from gg_datalog.audit.listing import listed
from gg_datalog.foundation.visible import visible


def render(folder: AuditFolder, _: str) -> str:
    """One suite: items that are not as expected fail; pending and unexpectedly inconclusive ones
    are skipped."""
    cases = [_case(row) for row in listed(folder)]
    suite = xml.Element("testsuite", _counts(cases))
    suite.extend(cases)
    root = xml.Element("testsuites")
    root.append(suite)
    xml.indent(root, " ")
    return '<?xml version="1.0" encoding="utf-8"?>\n' + xml.tostring(root, "unicode") + "\n"


def _counts(cases: list[xml.Element]) -> dict[str, str]:
    def having(tag: str) -> str:
        return str(sum(case.find(tag) is not None for case in cases))

    counted = {"failures": having("failure"), "errors": "0", "skipped": having("skipped")}
    return {"name": "gg-datalog audit", "tests": str(len(cases)), **counted}


def _case(row: dict[str, Any]) -> xml.Element:
    told = {"classname": visible(row["program"]), "name": visible(row["item"])}
    case = xml.Element("testcase", {**told, "time": f"{row['seconds'] or 0:.3f}"})
    if row["as_expected"]:
        return case
    message = f"{row['status']}, expected {' or '.join(row['expected'])}"
    quiet = row["status"] in ("inconclusive", PENDING)
    given = {"message": message} if quiet else {"type": row["status"], "message": message}
    ended = xml.SubElement(case, "skipped" if quiet else "failure", given)
    ended.text = visible(row["why"])
    return case
