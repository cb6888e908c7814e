"""Options from a configuration file: the command line wins, and mistakes stop everything."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from ..command import Cli
from .build import call, documents, graph, placeholder, returns

MakeCase = Callable[[Mapping[str, Any]], Path]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, where the configuration is."""
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def swapped(make_case: MakeCase) -> Path:
    """A case that refines, with shares in another order than that of the ranks (GG133)."""
    relu = call("y", "aten.relu.default", ["%x"], [2, 6])
    whole = call("y", "aten.relu.default", ["%x"], [4, 6])
    rank = graph(placeholder("x", [2, 6]), relu, returns("y"))
    rows = [
        {"seq": "x", "rank": r, "dist": "x", "seq_box": [[lo, lo + 2], [0, 6]]}
        for r, lo in enumerate((2, 0))
    ]
    seq = graph(placeholder("x", [4, 6]), whole, returns("y"))
    return make_case({"seq": seq, "dist.r0": rank, "dist.r1": rank, "relations": rows})


def test_defaults_come_from_the_file_and_the_command_line_wins(
    cli: Cli, good: Path, here: Path
) -> None:
    assert cli("extract", good, "-o", "facts").status == 0
    (here / "pyproject.toml").write_text(
        '[tool.gg-datalog]\nengine = "clingo"\nformat = "json"\nreport = ["json=kept.json"]\n'
    )
    found = cli("run", "facts")
    assert found.report["engine"]["name"] == "clingo"
    assert json.loads((here / "kept.json").read_text()) == found.report
    assert cli("run", "facts", "--format", "human").out.startswith("REFINES")
    assert cli("run", "facts", "--no-config").out.startswith("REFINES")
    (here / "other.toml").write_text('format = "human"')
    assert cli("run", "facts", "--config", "other.toml").out.startswith("REFINES")


def test_both_ways_to_say_which_file(cli: Cli, here: Path) -> None:
    found = cli("run", "facts", "--config", "other.toml", "--no-config")
    assert found.status == 2 and "give either --config or --no-config" in found.err


@pytest.mark.parametrize("command", ["extract", "run", "replay"])
def test_a_mistake_stops_every_command(cli: Cli, good: Path, here: Path, command: str) -> None:
    (here / "gg-datalog.toml").write_text('severety = { GG133 = "error" }')
    options = ("-o", "facts") if command == "extract" else ()
    found = cli(command, good, *options)
    assert (found.status, found.out) == (2, "")
    assert "gg-datalog.toml: unknown key `severety`" in found.err
    assert "did you mean `severity`?" in found.err
    assert not (here / "facts").exists()


def test_the_doctor_says_which_file(cli: Cli, here: Path) -> None:
    assert "configuration: none" in cli("doctor").out
    (here / "gg-datalog.toml").write_text("")
    assert f"configuration: {here / 'gg-datalog.toml'}" in cli("doctor").out
    (here / "gg-datalog.toml").write_text("engin = 1")
    found = cli("doctor")
    assert found.status == 0 and "not usable: " in found.out and "`engin`" in found.out


def test_severity(cli: Cli, swapped: Path, here: Path) -> None:
    assert cli("extract", swapped, "-o", "facts").status == 0
    plain = cli("run", "facts", "--format", "json")
    assert (plain.status, [f["level"] for f in plain.report["findings"]]) == (0, ["warning"])
    (here / "gg-datalog.toml").write_text('severity = { GG133 = "error" }')
    found = cli("run", "facts", "--format", "json")
    assert (found.status, found.report["verdict"]) == (1, "refines")
    assert [f["level"] for f in found.report["findings"]] == ["error"]
    assert "FAILS: GG133 is an error here" in cli("run", "facts").out
    (here / "gg-datalog.toml").write_text('severity = { GG133 = "off" }')
    found = cli("run", "facts", "--format", "json")
    assert (found.status, found.report["findings"]) == (0, [])


def test_what_is_not_shown_right_stays_so(cli: Cli, bad: Path, here: Path) -> None:
    assert cli("extract", bad, "-o", "facts").status == 0
    codes = ("GG101", "GG102", "GG104", "GG106", "GG108", "GG120", "GG121")
    levels = ", ".join(f'{code} = "note"' for code in codes)
    (here / "gg-datalog.toml").write_text(f"severity = {{ {levels} }}")
    found = cli("run", "facts", "--format", "json")
    assert (found.status, found.report["verdict"]) == (1, "does-not-refine")
    assert {f["level"] for f in found.report["findings"]} == {"note"}


def test_names_of_partial_outputs_that_a_case_does_not_have(
    cli: Cli, make_case: MakeCase, here: Path
) -> None:
    """One file serves many cases; on the command line such a name is a mistake."""
    files = documents(reduced=False)
    for name in ("seq", "dist.r0", "dist.r1"):
        files[name]["nodes"] = [*files[name]["nodes"][:3], returns("mm")]
    files["outputs"] = [{"seq": "mm", "dist": "mm"}]
    assert cli("extract", make_case(files), "-o", "facts").status == 0
    assert cli("run", "facts").status == 1
    (here / "gg-datalog.toml").write_text('allow-partial = ["loss", "mm"]')
    assert cli("run", "facts").status == 0
    refused = cli("run", "facts", "--allow-partial", "loss")
    assert refused.status == 2 and "`loss`, which is no output" in refused.err


def test_operators(cli: Cli, make_case: MakeCase, here: Path) -> None:
    """They are used by extract; run extracts again only what was extracted without them."""
    files = documents()
    for name in ("seq", "dist.r0", "dist.r1"):
        nodes = files[name]["nodes"]
        nodes[-2] = call("y", "mine.kernel.default", [f"%{nodes[-3]['name']}"], [4, 5])
    case = make_case(files)
    (here / "mine.toml").write_text('[[operator]]\ntarget = "mine.kernel"\nrule = "a b -> a b"\n')
    assert cli("extract", case, "-o", "before").status == 0
    (here / "gg-datalog.toml").write_text('operators = ["mine.toml"]')
    assert cli("extract", case, "-o", "after").status == 0
    for facts in ("before", "after"):
        assert cli("run", facts, "--format", "json").report["findings"] == []
    (case / "seq.json").unlink()
    assert cli("run", "after").status == 0
    gone = cli("run", "before")
    assert gone.status == 2 and "this file is gone" in gone.err
