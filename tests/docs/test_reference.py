"""docs/relations.md, the comments of the rules and the schema of the extraction agree."""

from __future__ import annotations

from pathlib import Path

import pytest

from gg_datalog.datalog import program_path
from gg_datalog.engine.parser import parse_program
from gg_datalog.extract.schema import REPORT_RELATIONS, RULE_RELATIONS, Relation
from gg_datalog.reference.relations import reference
from gg_datalog.result.comments import relation_comments

PAGE = Path(__file__).parents[2] / "docs" / "relations.md"
PROGRAM = parse_program(program_path())


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == reference(), "run `make docs`"


def test_every_relation_that_a_user_sees_is_explained() -> None:
    comments = relation_comments()
    names = [*PROGRAM.inputs, *PROGRAM.outputs, *(r.name for r in REPORT_RELATIONS)]
    assert [name for name in names if not comments.get(name)] == []


def test_every_relation_says_what_a_row_means() -> None:
    assert [str(d.pos) for d in PROGRAM.declarations.values() if not d.doc] == []


@pytest.mark.parametrize("path", PROGRAM.files, ids=lambda path: path.name)
def test_a_file_opens_with_its_idea(path: Path) -> None:
    assert path.read_text(encoding="utf-8").startswith("// ")


def test_extraction_writes_the_inputs_of_the_rules() -> None:
    assert sorted(r.name for r in RULE_RELATIONS) == sorted(PROGRAM.inputs)
    assert {r.name for r in REPORT_RELATIONS}.isdisjoint(PROGRAM.declarations)


@pytest.mark.parametrize("relation", RULE_RELATIONS, ids=lambda r: r.name)
def test_a_relation_is_declared_as_extraction_writes_it(relation: Relation) -> None:
    columns = PROGRAM.declarations[relation.name].columns
    assert relation.columns == tuple((c.name, PROGRAM.kind(c.type)) for c in columns)
