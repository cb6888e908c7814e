"""`--baseline`: what is known does not fail a run, whatever is new does. On real findings."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from ..command import Cli, Outcome
from .build import call, documents, graph, placeholder, returns

MakeCase = Callable[[Mapping[str, Any]], Path]
Verified = Callable[..., Outcome]
REDUCE = "_c10d_functional.all_reduce.default"


def _two(first: bool, second: bool, before: int = 0) -> dict[str, Any]:
    """Two products with an output each; on the ranks each is added up or not. ``before`` is how
    many operators stand in front, so that nodes have other numbers."""

    def nodes(inner: int, reduced: tuple[bool, bool] | None) -> dict[str, Any]:
        made = [placeholder("x", [4, inner]), placeholder("w", [inner, 5])]
        made += [call(f"early_{i}", "aten.neg.default", ["%w"], [inner, 5]) for i in range(before)]
        ends = []
        for number, name in enumerate(("relu", "neg")):
            last = f"mm_{before + number}"
            made.append(call(last, "aten.mm.default", ["%x", "%w"], [4, 5]))
            made[-1]["source"] = f"model.py:{10 + number} in {name}: {name}(x @ w)"
            if reduced and reduced[number]:
                made.append(call(f"all_{number}", REDUCE, [f"%{last}", "sum", "0"], [4, 5]))
                last = f"all_{number}"
            ends.append(f"{name}_{before + number}")
            made.append(call(ends[-1], f"aten.{name}.default", [f"%{last}"], [4, 5]))
        return graph(*made, returns(*ends))

    rank = nodes(3, (first, second))
    rows = [
        {"seq": f"{name}_{before + i}", "dist": f"{name}_{before + i}", "name": name}
        for i, name in enumerate(("relu", "neg"))
    ]
    plain = documents()
    return {**plain, "seq": nodes(6, None), "dist.r0": rank, "dist.r1": rank, "outputs": rows}


@pytest.fixture
def verified(
    cli: Cli, make_case: MakeCase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Verified:
    """Verifies a case of these documents in the folder of the test."""
    monkeypatch.chdir(tmp_path)
    quick = ("--engine", "clingo", "--format", "json", "--no-repairs")
    return lambda files, *options: cli("verify", make_case(files), *quick, *options)


KNOWN = ("--baseline", "known.json")
WRITE = (*KNOWN, "--write-baseline")


def test_known_findings(verified: Verified, tmp_path: Path) -> None:
    wrong = _two(first=False, second=True)
    assert verified(wrong).status == 1
    found = verified(wrong, *WRITE)
    assert (found.status, found.err) == (0, "")
    again = verified(wrong, *KNOWN)
    assert (again.status, again.err) == (0, "")
    for report in (found.report, again.report):
        assert (report["verdict"], report["accepted"]) == ("does-not-refine", True)
        told = [(row["name"], row["status"], row.get("accepted")) for row in report["outputs"]]
        assert told == [("relu", "unmapped", True), ("neg", "mapped", None)]
    (entry,) = json.loads((tmp_path / "known.json").read_text())["entries"]
    assert (entry["code"], entry["outputs"]) == ("GG108", ["relu"])


def test_other_numbers_of_nodes(verified: Verified) -> None:
    assert verified(_two(first=False, second=True), *WRITE).status == 0
    found = verified(_two(first=False, second=True, before=3), *KNOWN)
    assert (found.status, found.err) == (0, "")


def test_what_is_new_fails(verified: Verified) -> None:
    assert verified(_two(first=False, second=True), *WRITE).status == 0
    found = verified(_two(first=False, second=False), *KNOWN)
    assert found.status == 1 and "accepted" not in found.report
    told = {row["name"]: row.get("accepted", False) for row in found.report["outputs"]}
    assert told == {"relu": True, "neg": False}


def test_the_same_mistake_elsewhere_fails(verified: Verified) -> None:
    assert verified(_two(first=False, second=True), *WRITE).status == 0
    found = verified(_two(first=True, second=False), *KNOWN)
    assert found.status == 1
    assert "known.json: a finding of the baseline no longer occurs: GG108" in found.err


def test_a_collective_that_does_not_line_up(verified: Verified) -> None:
    assert verified(_two(first=False, second=True), *WRITE).status == 0
    files = _two(first=False, second=True)
    rank = json.loads(json.dumps(files["dist.r1"]))
    for node in rank["nodes"]:
        if node.get("target") == REDUCE:
            node["args"][1] = "max"
    found = verified({**files, "dist.r1": rank}, *KNOWN)
    assert found.status == 1 and "GG110" in {f["code"] for f in found.report["findings"]}


def test_what_is_repaired_is_told_and_left_out(verified: Verified, tmp_path: Path) -> None:
    assert verified(_two(first=False, second=False), *WRITE).status == 0
    path = tmp_path / "known.json"
    document = json.loads(path.read_text())
    for entry in document["entries"]:
        entry |= {"reason": f"why {entry['outputs']}", "date": "2020-01-02"}
    path.write_text(json.dumps(document))
    half = _two(first=True, second=False)
    found = verified(half, *KNOWN)
    assert found.status == 0 and found.err.count("no longer occurs") == 1
    assert verified(half, *WRITE).status == 0
    (entry,) = json.loads(path.read_text())["entries"]
    assert (entry["reason"], entry["date"]) == ("why ['neg']", "2020-01-02")
    found = verified(_two(first=True, second=True), *KNOWN)
    assert (found.status, found.report["verdict"]) == (0, "refines")
    assert "no longer occurs: GG104" in found.err


def test_the_report_of_a_result_keeps_it(cli: Cli, verified: Verified, tmp_path: Path) -> None:
    wrong = _two(first=False, second=True)
    assert verified(wrong, *WRITE, "-o", "kept").status == 0
    text = cli("report", "kept/result").out
    assert text.startswith("DOES NOT REFINE")
    assert "ACCEPTED: the baseline has every finding" in text
    assert "unmapped, accepted" in text


MISTAKES = {
    "there is no such baseline": (KNOWN, None),
    "this is no baseline": (KNOWN, "{}"),
    "--write-baseline needs --baseline FILE": (("--write-baseline",), None),
    "is a directory": (("--baseline", ".", "--write-baseline"), None),
    "not an object with a list `entries`": (WRITE, "[]"),
}


@pytest.mark.parametrize("words", MISTAKES)
def test_mistakes(verified: Verified, tmp_path: Path, words: str) -> None:
    options, text = MISTAKES[words]
    if text is not None:
        (tmp_path / "known.json").write_text(text)
    found = verified(documents(), *options)
    assert (found.status, found.out) == (2, "") and words in found.err
    assert text is None or (tmp_path / "known.json").read_text() == text
