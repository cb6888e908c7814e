"""Reasons and states: what SQL and rules write, and what the enumerations say, is the same."""

from __future__ import annotations

import json
import re
from enum import StrEnum
from importlib.resources import files
from pathlib import Path

import pytest

from gg_datalog.extract.case import Output
from gg_datalog.result.reasons import (
    Evidence,
    OutputKind,
    Reason,
    Returned,
    Status,
    Term,
    Verdict,
)

PACKAGE = Path(str(files("gg_datalog")))
ROOT = PACKAGE.parent
VIEWS = {path.stem: path.read_text("utf-8") for path in PACKAGE.glob("result/views/*.sql")}
RULES = "\n".join(path.read_text("utf-8") for path in sorted((ROOT / "datalog").rglob("*.dl")))
LITERAL = re.compile(r"'((?:[^']|'')*)'")
CREATED = re.compile(r"CREATE (?:VIEW|TABLE) (?:internal\.|stored\.)?(\w+)")

# Where each is written: the views whose branches and rows give its members.
GIVEN: dict[type[StrEnum], tuple[str, ...]] = {
    Reason: (
        *("tensor_opaque", "pair_reason", "operand_at_fault", "range_origin", "blocked"),
        "return_break",
    ),
    Returned: ("returned_state",),
    Status: ("output_found",),
    Verdict: ("verdict",),
}
# Columns that hold members, wherever they are compared.
COMPARED: dict[type[StrEnum], str] = {Reason: "reason", Status: "status", Verdict: "verdict"}


def statements() -> dict[str, str]:
    """The text of every view and table by its name, without comments."""
    found = {}
    for text in VIEWS.values():
        for statement in re.sub(r"--.*", "", text).split(";"):
            created = CREATED.search(statement)
            if created and "SELECT * FROM stored." not in statement:
                found[created[1]] = statement
    return found


STATEMENTS = statements()


def given(view: str) -> set[str]:
    """The literals that a view gives: of its branches, and of its columns."""
    text = STATEMENTS[view]
    branches = set(re.findall(r"(?:THEN|ELSE) '([^']*)'", text))
    columns = set(re.findall(r"(?:SELECT|,)\s+'([^']*)'(?=\s*(?:,|AS reason|FROM|\n))", text))
    return branches | columns


@pytest.mark.parametrize("members", GIVEN, ids=lambda members: members.__name__)
def test_views_give_the_members_and_nothing_else(members: type[StrEnum]) -> None:
    written = set().union(*(given(view) for view in GIVEN[members]))
    assert written - {"seq", "dist"} == {str(member) for member in members}


def test_the_rules_give_the_states_of_terms() -> None:
    assert set(re.findall(r'sum_found\([^"()]*"(\w+)"', RULES)) == {str(term) for term in Term}


def test_cases_give_the_kinds_of_outputs() -> None:
    outputs = (
        Output("y", {}, state=("w", {})),
        Output("y", {}, gradient=True),
        Output("y", {}, lacks={1: "w"}),
        Output("y", {}),
    )
    kinds = [output.kind for output in outputs]
    assert kinds == [OutputKind.STATE, OutputKind.GRADIENT, OutputKind.GRADIENT, ""]


def test_the_view_of_outputs_says_what_evidence_there_is() -> None:
    comment = VIEWS["verdict"].partition("COMMENT ON VIEW output_status IS")[2].partition(";")[0]
    said = re.sub(r"'\s*'", "", comment).partition("rests on: ")[2]
    assert re.findall(r"\w+", said.replace(" or ", " ")) == [str(member) for member in Evidence]


def test_reports_are_described_by_the_members() -> None:
    schema = json.loads((PACKAGE / "schemas" / "report.schema.json").read_text("utf-8"))
    output = schema["$defs"]["output"]["properties"]
    described = schema["properties"]["verdict"], output["status"], output["evidence"]
    for form, members in zip(described, (Verdict, Status, Evidence), strict=True):
        assert form["enum"] == [str(member) for member in members]


def sql_texts() -> list[tuple[str, str]]:
    """All SQL of the package and the queries, also where it lies in Python."""
    shipped = [*ROOT.glob("queries/*.sql"), *PACKAGE.glob("result/views/*.sql")]
    rooms = ("diagnosis", "inference", "repairs", "result", "proofs")
    code = [path for room in rooms for path in PACKAGE.glob(f"{room}/**/*.py")]
    return [(path.name, path.read_text("utf-8")) for path in (*shipped, *code)]


@pytest.mark.parametrize("members", COMPARED, ids=lambda members: members.__name__)
def test_sql_compares_with_members_only(members: type[StrEnum]) -> None:
    column = COMPARED[members]
    compared = re.compile(rf"\b{column} (?:=|<>|LIKE) '([^']*)'|\b{column} IN \(('[^)]*)\)")
    wrong = [
        (name, literal)
        for name, text in sql_texts()
        for one, several in compared.findall(text)
        for literal in (LITERAL.findall(several) if several else [one])
        if literal not in {str(member) for member in members}
    ]
    assert not wrong


def test_sql_compares_states_with_states_only() -> None:
    """`state` is of a term or of what is returned."""
    known = {str(member) for member in (*Term, *Returned)}
    found = {
        literal
        for _, text in sql_texts()
        for literal in re.findall(r"\bstate (?:=|<>) '([^']*)'|CASE s\.state WHEN '([^']*)'", text)
        for literal in literal
        if literal
    }
    assert found and found <= known


def test_no_reason_is_written_out_in_python() -> None:
    """The reasons are sentences: whoever compares with one in Python takes the member."""
    declared = PACKAGE / "result" / "reasons.py"
    wrong = [
        (path.name, str(reason))
        for path in PACKAGE.rglob("*.py")
        if path != declared
        for reason in Reason
        if f'"{reason}"' in path.read_text("utf-8")
    ]
    assert not wrong
