"""JUnit XML: a test case per output, for the test views of CI systems."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from xml.etree import ElementTree as xml

from gg_datalog.diagnosis.outcome import exit_code
from gg_datalog.reporting.origin import TOOL, origin
from gg_datalog.reporting.text import VERDICT
from gg_datalog.reporting.wording import MANY, called, clipped, concerns, details, executed
from gg_datalog.result.reasons import Status, Verdict
from gg_datalog.result.report import EXIT_CODE, Finding, OutputRow, Report


def render(report: Report, result: Path) -> str:
    """One suite: unmapped outputs fail, inconclusive ones are skipped, and an error that belongs
    to none of them is a case of its own."""
    cases = _cases(report, origin(result).name.replace("/", "."))
    _number_namesakes(cases)
    suite = xml.Element("testsuite", _counts(cases, report))
    suite.append(_properties(report))
    suite.extend(cases)
    if notes := [
        _told(found) for found in report.findings if found.level != "error" or found.accepted
    ]:
        xml.SubElement(suite, "system-out").text = "\n\n".join(notes)
    root = xml.Element("testsuites")
    root.append(suite)
    xml.indent(root, " ")
    return '<?xml version="1.0" encoding="utf-8"?>\n' + xml.tostring(root, "unicode") + "\n"


def _cases(report: Report, of: str) -> list[xml.Element]:
    cases = [_case(report, row, name, of) for row, name in _named(report.outputs)]
    cases += [_stray(found, of) for found in _strays(report)]
    failed = any(case.find("failure") is not None for case in cases)
    if exit_code(report) == EXIT_CODE[Verdict.DIFFERS] and not failed:
        cases.append(_failed("verdict", of, report.verdict, VERDICT[report.verdict], ""))
    return cases


def _counts(cases: Sequence[xml.Element], report: Report) -> dict[str, str]:
    def having(tag: str) -> str:
        return str(sum(case.find(tag) is not None for case in cases))

    return {
        "name": TOOL,
        "tests": str(len(cases)),
        "failures": having("failure"),
        "errors": "0",
        "skipped": having("skipped"),
        "time": f"{sum(report.stats.get('seconds', {}).values()):.3f}",
    }


def _properties(report: Report) -> xml.Element:
    rows = [
        ("verdict", report.verdict),
        *((f"engine {name}", value) for name, value in report.engine.items()),
        *(("assumption", f"{row.kind}: {row.text}") for row in report.assumptions),
    ]
    properties = xml.Element("properties")
    for name, value in rows:
        xml.SubElement(properties, "property", {"name": name, "value": str(value)})
    return properties


def _named(outputs: Sequence[OutputRow]) -> Iterator[tuple[OutputRow, str]]:
    """Outputs with the program's name, and with the node's where that alone does not tell."""
    names = Counter(called(output) for output in outputs)
    for output in outputs:
        name = called(output)
        told = names[name] == 1 or name == output.seq
        yield output, name if told else f"{name} ({output.seq})"


def _number_namesakes(cases: Sequence[xml.Element]) -> None:
    """Test views keep one case of a name: others of that name get a number."""
    taken = {case.attrib["name"] for case in cases}
    seen: set[str] = set()
    for case in cases:
        name = case.attrib["name"]
        numbered = (f"{name} #{number}" for number in count(2))
        if name in seen:
            name = case.attrib["name"] = next(n for n in numbered if n not in taken)
        seen.add(name)
        taken.add(name)


def _case(report: Report, output: OutputRow, name: str, of: str) -> xml.Element:
    about = [found for found in report.findings if concerns(found, output)]
    if output.status == Status.MAPPED:
        case = _passed(name, of)
        told = [output.relation or "", *(_told(found) for found in about)]
        xml.SubElement(case, "system-out").text = "\n\n".join(text for text in told if text)
        return case
    chosen = sorted((found for found in about if found.level != "note"), key=_severity)
    headline = clipped(chosen[0].message) if chosen else f"`{output.seq}` is {output.status}"
    # Where no finding names the output, those that name none may be the reason.
    text = _all_told(chosen or [found for found in report.findings if found.level != "note"])
    text = "\n\n".join(filter(None, (text, executed(output))))
    if output.status == Status.UNMAPPED and not output.accepted:
        return _failed(name, of, chosen[0].code if chosen else Status.UNMAPPED, headline, text)
    case = _passed(name, of)
    message = f"accepted, the baseline has it: {headline}" if output.accepted else headline
    xml.SubElement(case, "skipped", {"message": message}).text = text
    return case


def _severity(found: Finding) -> tuple[bool, bool]:
    """New ones before those that a baseline has, errors before warnings."""
    return found.accepted, found.level != "error"


def _strays(report: Report) -> Iterator[Finding]:
    """Errors that no output's failure tells, and no baseline accepts."""
    failed = [row for row in report.outputs if row.status == Status.UNMAPPED and not row.accepted]
    for found in report.findings:
        counts = found.level == "error" and not found.accepted
        if counts and not any(concerns(found, output) for output in failed):
            yield found


def _stray(found: Finding, of: str) -> xml.Element:
    at = found.dist[0] if found.dist else found.seq
    name = f"{found.code} {found.title}".strip() + (f": {at}" if at else "")
    return _failed(name, of, found.code, clipped(found.message), _told(found))


def _passed(name: str, of: str) -> xml.Element:
    return xml.Element("testcase", {"classname": of, "name": name})


def _failed(name: str, of: str, kind: str, message: str, text: str) -> xml.Element:
    case = _passed(name, of)
    xml.SubElement(case, "failure", {"type": kind, "message": message}).text = text or message
    return case


def _all_told(found: Sequence[Finding]) -> str:
    told = [_told(one) for one in found[:MANY]]
    if len(found) > MANY:
        told.append(f"and {len(found) - MANY} more findings")
    return "\n\n".join(told)


def _told(found: Finding) -> str:
    rows = [f"  {label}: {text}" for label, text in details(found)]
    return "\n".join([f"{found.code} {found.level}: {clipped(found.message)}", *rows])
