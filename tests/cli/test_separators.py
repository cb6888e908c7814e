"""Names with the separators of records and reports: the verdict speaks of them as of any other."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from markdown_it import MarkdownIt

from ..command import Cli
from .build import call, documents, graph, placeholder, returns, write_case
from .renaming import renamed

ODD = [
    "|",
    "a\\|b",
    "]",
    "[1, 2, nil]",
    "[x](http://y)",
    "`",
    "a`<b>`c",
    ", ",
    "nil",
    "12",
    "-1",
    "²",
    "r0.r1.",
    "sum(",
    "::error::%0A",
    "' OR '1'='1",
    "{{7*7}}",
]
FORMATS = ("sarif", "junit", "github", "markdown", "html")


def _documents() -> dict[str, Any]:
    """Two outputs: a sum that is left open, and shares that are put together."""
    files = documents(reduced=False)
    for name in ("seq", "dist.r0", "dist.r1"):
        nodes = files[name]["nodes"]
        rows = 4 if name == "seq" else 2
        more = [
            placeholder("b", [rows, 2]),
            call("z", "aten.relu.default", ["%b"], [rows, 2]),
        ]
        files[name] = graph(*nodes[:-1], *more, returns("y", "z"))
    for rank, lo in ((0, 2), (1, 0)):
        box = [[lo, lo + 2], [0, 2]]
        files["relations"].append({"seq": "b", "rank": rank, "dist": "b", "seq_box": box})
    files["outputs"].append({"seq": "z", "dist": "z"})
    return files


def _plain(name: str) -> str:
    return f"Q{name}Q"


def _run(cli: Cli, files: Mapping[str, Any], folder: Path, *options: str) -> Any:
    case, facts = write_case(folder / "case", files), folder / "facts"
    assert cli("extract", case, "-o", facts).err == ""
    reports = [text for form in FORMATS for text in ("--report", f"{form}={folder}/{form}")]
    asked = options or reports
    found = cli("run", facts, "--engine", "clingo", "--format", "json", *asked)
    assert (found.status, found.err) == (1, "")
    for finding in found.report["findings"]:
        del finding["fingerprint"]
    return {name: found.report[name] for name in ("verdict", "outputs", "findings", "assumptions")}


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What is said once of names that stand out, for all tests."""
    return {"folder": tmp_path_factory.mktemp("plain")}


FORMS = [pair for odd in ODD for pair in ((odd, ""), ("", odd))]
NODES = ("y", "x", "z", "w", "mm", "b")  # those that reports name first


@pytest.mark.exhaustive("6", "12", "18", "24")
@pytest.mark.parametrize("turn", range(0, len(FORMS), len(NODES)))
def test_names_with_separators(cli: Cli, plain: dict[str, Any], tmp_path: Path, turn: int) -> None:
    if "report" not in plain:
        plain["report"] = _run(cli, renamed(_documents(), _plain), plain["folder"])
    assert [found["code"] for found in plain["report"]["findings"]] == ["GG108", "GG133"]
    forms = (FORMS[turn:] + FORMS)[: len(NODES)]
    names = {n: f"{before}{n}{after}" for n, (before, after) in zip(NODES, forms, strict=True)}
    found = _run(cli, renamed(_documents(), lambda name: names.get(name, name)), tmp_path)
    assert found == _renamed(plain["report"], names)
    for node in ("y", "z"):
        _shown(tmp_path, names[node])
        _explained(cli, tmp_path / "facts" / "result", names[node])


def _renamed(report: Any, names: Mapping[str, str]) -> Any:
    """A report on plain names that speaks of these."""
    text = json.dumps(report, ensure_ascii=False)
    for node, name in names.items():
        text = text.replace(_plain(node), json.dumps(name, ensure_ascii=False)[1:-1])
    return json.loads(text)


@pytest.mark.exhaustive("12", "-1", "nil", ", ", " mm")
@pytest.mark.parametrize("name", ["]", "a[", "[1, nil]", ", ", ",", "nil", "12", "-1", " mm", "²"])
def test_names_in_records(cli: Cli, plain: dict[str, Any], tmp_path: Path, name: str) -> None:
    """What the rules say of the operator whose sum is left open, read back from their records."""

    def told(mm: str, folder: Path) -> Any:
        files = renamed(_documents(), lambda node: mm if node == "mm" else node)
        return _run(cli, files, folder, "--no-repairs")

    if "records" not in plain:
        plain["records"] = told(_plain("mm"), plain["folder"] / "records")
    assert told(name, tmp_path) == _renamed(plain["records"], {"mm": name})
    text = cli("explain", tmp_path / "facts" / "result", "--", f"r0.{name}").out
    assert f"Partial(sum over 0:3 of 6 in {name})" in text


def test_rows_of_names_with_separators(cli: Cli, tmp_path: Path) -> None:
    """Records are rows whatever nodes are called: rank and node stand in columns of their own."""
    names = {"mm": "a, [b].c d, nil]", "x": "r7.x[0, 1]", "w": "[1, 2, nil] .w"}
    files = renamed(_documents(), lambda node: names.get(node, node))
    _run(cli, files, tmp_path, "--no-repairs")
    result = tmp_path / "facts" / "result"
    rows = cli("query", result, "shards", "--format", "json").report
    found = {(r["rank"], r["node"], r["seq"], r["dim"], r["lo"], r["hi"], r["open"]) for r in rows}
    for rank in (0, 1):
        lo, hi = 3 * rank, 3 * rank + 3
        for row in (
            (rank, names["x"], names["x"], 1, lo, hi, None),
            (rank, names["w"], names["w"], 0, lo, hi, None),
            (rank, names["mm"], names["mm"], 1, 0, 5, f"sum over {lo}:{hi} of 6"),
        ):
            assert row in found
    sql = "SELECT text FROM relation WHERE rank = 0 AND seq = node"
    texts = {r["text"] for r in cli("query", result, "--sql", sql, "--format", "json").report}
    mm = names["mm"]
    assert f"r0.{mm} = Partial(sum over 0:3 of 6 in {mm}) of {mm}" in texts


def _shown(folder: Path, name: str) -> None:
    """Every format is what it should be, and shows the name as it is."""
    page = MarkdownIt("commonmark").enable("table").render((folder / "markdown").read_text())
    cells = [html.unescape(re.sub(r"<!--.*?-->|<[^>]*>", "", c)) for c in _first_cells(page)]
    assert name.strip() in [cell.strip() for cell in cells]
    assert "<a " not in page and "<b>" not in page
    cases = ElementTree.parse(folder / "junit").getroot().iter("testcase")
    assert name in {case.attrib["name"] for case in cases}
    log = json.loads((folder / "sarif").read_text())
    told = [found["properties"] for found in log["runs"][0]["results"]]
    assert name in {row["seq"] for row in told} | {
        n for row in told for n in row.get("outputs", ())
    }
    lines = (folder / "github").read_text().splitlines()
    assert all(line.startswith(("::error ", "::warning ", "gg-datalog: ")) for line in lines)
    assert name in html.unescape((folder / "html").read_text())


def _first_cells(page: str) -> list[str]:
    """The first cells of the tables of outputs; every row has three."""
    tables = re.findall(r"<th>made of</th>(.*?)</table>", page, re.DOTALL)
    rows = re.findall(r"<tr>(.*?)</tr>", "".join(tables), re.DOTALL)
    cells = [re.findall(r"<td>(.*?)</td>", row, re.DOTALL) for row in rows if "<td>" in row]
    assert len(tables) == 2 and all(len(row) == 3 for row in cells)
    return [row[0] for row in cells]


def _explained(cli: Cli, result: Path, name: str) -> None:
    found = cli("explain", result, "--format", "json", "--", name)
    assert (found.status, found.report["tensor"]) == (0, name)
    found = cli("query", result, "--sql", "SELECT seq FROM output_name", "--format", "json")
    assert name in {row["seq"] for row in found.report}
