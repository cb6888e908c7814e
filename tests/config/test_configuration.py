"""Where a configuration is found, and what is said of its mistakes."""

from __future__ import annotations

from pathlib import Path

import pytest

from gg_datalog.foundation.errors import InputError
from gg_datalog.reporting.targets import Target
from gg_datalog.settings.configuration import found, load


def _write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_all_keys(tmp_path: Path) -> None:
    path = _write(
        tmp_path / "gg-datalog.toml",
        """
        engine = "clingo"
        timeout = 60
        operators = ["ops/mine.toml"]
        allow-partial = ["loss"]
        allow-layout = ["logits"]
        format = "json"
        report = ["json=out/report.json"]
        baseline = "known.json"
        repairs = true
        [severity]
        GG133 = "error"
        GG131 = "off"
        """,
    )
    values = load(path).values
    assert values == {
        "engine": "clingo",
        "timeout": 60.0,
        "operators": [tmp_path / "ops/mine.toml"],
        "allow-partial": ["loss"],
        "allow-layout": ["logits"],
        "format": "json",
        "report": [Target("json", str(tmp_path / "out/report.json"))],
        "baseline": tmp_path / "known.json",
        "repairs": True,
        "severity": {"GG133": "error", "GG131": "off"},
    }


def test_the_closest_file_going_up(tmp_path: Path) -> None:
    outer = _write(tmp_path / "gg-datalog.toml", 'engine = "clingo"')
    _write(tmp_path / "a" / "pyproject.toml", '[project]\nname = "x"\n[tool.ruff]\n')
    inner = _write(tmp_path / "a" / "b" / "pyproject.toml", "[tool.gg-datalog]\ntimeout = 5\n")
    assert found(tmp_path / "a").path == outer
    deep = tmp_path / "a" / "b" / "c"
    deep.mkdir()
    assert (found(deep).path, found(deep).values) == (inner, {"timeout": 5.0})


def test_two_files_in_one_folder(tmp_path: Path) -> None:
    _write(tmp_path / "gg-datalog.toml", "")
    _write(tmp_path / "pyproject.toml", "[tool.other]\n")
    assert found(tmp_path).path == tmp_path / "gg-datalog.toml"
    _write(tmp_path / "pyproject.toml", "[tool.gg-datalog]\n")
    with pytest.raises(InputError, match=r"pyproject\.toml beside it both hold") as error:
        found(tmp_path)
    assert error.value.where == str(tmp_path / "gg-datalog.toml")


MISTAKES = {
    'engin = "auto"': ("unknown key `engin`", "did you mean `engine`?"),
    "zzz = 1": ("unknown key `zzz`", "known keys: engine, timeout"),
    'engine = "soufle"': ("'soufle' is none of auto, souffle, clingo", "did you mean `souffle`?"),
    "engine = ['auto']": ("`engine`: ['auto'] is none of", ""),
    "timeout = 0": ("`timeout`: 0 is no number of seconds above 0", ""),
    "timeout = true": ("`timeout`: True is no number", ""),
    "timeout = nan": ("`timeout`: nan is no number", ""),
    'operators = "x.toml"': ("`operators`: 'x.toml' is no list of texts", "such as"),
    "allow-partial = [1]": ("`allow-partial`: [1] is no list", ""),
    "repairs = 1": ("`repairs`: 1 is neither true nor false", ""),
    "baseline = []": ("`baseline`: [] is no path", ""),
    'report = ["sarfi=x"]': ("`report`: no such format: 'sarfi'", ""),
    'report = ["json=-"]': ("`report`: stdout holds", ""),
    "severity = 1": ("`severity`: 1 is no table", ""),
    'severity = { GG199 = "note" }': ("unknown code `GG199`", "codes: GG101, GG102"),
    'severity = { GG133 = "errors" }': ("'errors', for GG133, is none of", "did you mean `error`?"),
    "severity = { GG133 = true }": ("True, for GG133, is none of", ""),
    'severity = { GG108 = "off" }': ("GG108 says why an output is not shown", "baseline"),
    'severity = { GG120 = "off" }': ("GG120 says why an output is not shown", "baseline"),
    'severity = { GG141 = "off" }': ("GG141 is said by `gg-datalog replay` alone", ""),
    "engine = ": ("the configuration is not TOML", "--no-config"),
}


@pytest.mark.parametrize("text", MISTAKES)
def test_mistakes(tmp_path: Path, text: str) -> None:
    what, hint = MISTAKES[text]
    own = _write(tmp_path / "own" / "gg-datalog.toml", text)
    shared = _write(tmp_path / "pyproject.toml", f"[tool.gg-datalog]\n{text}\n")
    for path in (own, shared):
        with pytest.raises(InputError) as error:
            load(path)
        said = str(error.value)
        assert what in said and hint in said
        assert said.startswith(str(path)) and "\n  " in said + "\n  "


def test_the_header_in_a_file_of_its_own(tmp_path: Path) -> None:
    path = _write(tmp_path / "gg-datalog.toml", "[tool.gg-datalog]\ntimeout = 1\n")
    with pytest.raises(InputError, match="leave it out here"):
        load(path)


@pytest.mark.parametrize(
    ("text", "words"),
    [("[tool]\ngg-datalog = 1", "this is no table"), ("[tool.other]", "there is no table")],
)
def test_a_pyproject_without_the_table(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        load(_write(tmp_path / "pyproject.toml", text))


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        load(tmp_path / "none.toml")
