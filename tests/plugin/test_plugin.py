"""The pytest plugin, in sessions of their own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest_plugins = "pytester"

ROOT = Path(__file__).parents[2]
CASES = ROOT / "examples" / "tp_block"
RIGHT, WRONG = CASES / "case", CASES / "case-missing-all-reduce"
NAMES = f"RIGHT, WRONG = {str(RIGHT)!r}, {str(WRONG)!r}\n"
HEAVY = ("torch", "duckdb", "pyarrow", "clingo", "rich", "lark", "click")


def _session(pytester: pytest.Pytester, text: str, *options: str) -> pytest.RunResult:
    """A session over one file of tests, in a process of its own."""
    pytester.makepyfile(test_model=NAMES + text)
    return pytester.runpytest_subprocess("-p", "no:cacheprovider", *options)


CHECKS = """
import pytest
from gg_datalog import NotRefined, assert_refines, verify

def test_right(gg_verify):
    assert gg_verify(RIGHT).refines

def test_wrong():
    assert_refines(WRONG)

def test_result():
    result = verify(WRONG)
    assert not result.refines
    with pytest.raises(NotRefined) as error:
        assert_refines(result)
    assert error.value.result.verdict == "does-not-refine"

def test_misspelt(gg_verify):
    with pytest.raises(TypeError, match="no option 'engin'"):
        gg_verify(RIGHT, engin="clingo")
"""


def test_verdicts(pytester: pytest.Pytester) -> None:
    done = _session(pytester, CHECKS, "--gg-report-dir=kept")
    done.assert_outcomes(passed=3, failed=1)
    done.stdout.fnmatch_lines(
        [
            ">*assert_refines(WRONG)",
            "E*gg_datalog.NotRefined: does not refine: 1 of 1 outputs not rebuilt (GG108)",
            "E*add_1: unmapped",
            "E*GG108 error: *`addmm_1`*the reduction over * is missing*",
            "E*sequential: examples/tp_block/model.py:69 in forward: x = x + self.proj(context)",
            "E*ranks: examples/tp_block/model.py:87 in forward: y = F.linear(x, self.weight)",
            "E*kept in *kept*test_wrong*report.html",
            "FAILED test_model.py::test_wrong - gg_datalog.NotRefined: does not refine: 1*",
        ]
    )
    assert "assertion.py" not in done.stdout.str()  # the trace ends in the test
    # Of the checks that passed, and of what the test caught before it ended, nothing is kept.
    names = sorted(path.name for path in (pytester.path / "kept").iterdir())
    assert names == ["test_model.py-test_result", "test_model.py-test_wrong"]
    folder = pytester.path / "kept" / "test_model.py-test_wrong"
    assert json.loads((folder / "report.json").read_text())["verdict"] == "does-not-refine"
    manifest = json.loads((folder / "result" / "manifest.json").read_text())
    assert Path(manifest["facts"]) == folder / "facts"


@pytest.mark.exhaustive
def test_a_configuration_a_baseline_and_names_of_folders(pytester: pytest.Pytester) -> None:
    """Also: a folder that somebody else filled is left alone, and that is said."""
    pytester.makefile(".toml", **{"gg-datalog": 'engine = "clingo"\nbaseline = "known.json"'})
    (pytester.path / "known.json").write_text('{"schema_version": 1, "entries": []}')
    pytester.makefile(".ini", pytest="[pytest]\ngg_report_dir = kept")
    foreign = pytester.path / "kept" / "test_model.py-test_two"
    foreign.mkdir(parents=True)
    (foreign / "mine.txt").write_text("")
    done = _session(
        pytester,
        """
import pytest
from gg_datalog import NotRefined
from gg_datalog.foundation.errors import InputError

def test_two(gg_verify):
    with pytest.raises(InputError, match="not empty"):
        gg_verify(WRONG)

@pytest.mark.parametrize("case", ["a/b", "a-b"])
def test_many(gg_verify, case):
    for _ in range(2):
        with pytest.raises(NotRefined) as error:
            gg_verify(WRONG)
    assert error.value.kept.name.endswith("-2")
    assert error.value.result.report.engine["name"] == "clingo"
""",
    )
    done.assert_outcomes(passed=3)
    names = sorted(path.name for path in (pytester.path / "kept").iterdir())
    assert len(names) == 5 and [path.name for path in foreign.iterdir()] == ["mine.txt"]


def test_a_mistake_in_the_configuration(pytester: pytest.Pytester) -> None:
    pytester.makepyprojecttoml("[tool.gg-datalog]\nengin = 'clingo'\n")
    done = _session(pytester, "def test(gg_verify):\n    gg_verify(RIGHT)\n")
    done.stdout.fnmatch_lines(["*unknown key `engin`*", "*did you mean `engine`?*"])
    assert done.ret != 0


INCONCLUSIVE = """
import json
from gg_datalog import assert_refines

def _case(folder):
    for name, changed in (("seq", 1), ("dist.r0", 2)):
        x = {"name": "x", "op": "placeholder", "target": "x", "shape": [4], "dtype": "float32"}
        y = {"name": "y", "op": "call_function", "target": "mine.kernel.default",
             "args": [{"node": "x"}, changed], "shape": [4], "dtype": "float32"}
        end = {"name": "output", "op": "output", "args": [[{"node": "y"}]]}
        (folder / f"{name}.json").write_text(json.dumps({"nodes": [x, y, end]}))
    return folder

def test_fails(tmp_path):
    assert_refines(_case(tmp_path))

def test_skips(tmp_path):
    assert_refines(_case(tmp_path), inconclusive="skip")

def test_skips_nothing_that_is_wrong():
    assert_refines(WRONG, inconclusive="skip")
"""


@pytest.mark.exhaustive
def test_inconclusive(pytester: pytest.Pytester) -> None:
    done = _session(pytester, INCONCLUSIVE, "-rs")
    done.assert_outcomes(failed=2, skipped=1)
    done.stdout.fnmatch_lines(["E*gg_datalog.NotRefined: inconclusive: 1 of 1*GG120*"])
    done.stdout.fnmatch_lines(["SKIPPED*inconclusive: 1 of 1 outputs not rebuilt (GG120)"])


def test_nothing_is_loaded_before_it_is_used(pytester: pytest.Pytester) -> None:
    """Nor is anything needed: here nothing but pytest can be imported."""
    pytester.makeconftest(
        f"""
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {HEAVY}:
            raise ImportError(f"{{name}} is not there")

sys.meta_path.insert(0, Refuse())
"""
    )
    text = f"""
import sys

def test_loaded(pytestconfig):
    assert pytestconfig.pluginmanager.has_plugin("gg-datalog")
    assert not set({HEAVY}) & {{name.partition(".")[0] for name in sys.modules}}
    ours = {{name for name in sys.modules if name.startswith("gg_datalog.")}}
    foundation = {{"gg_datalog.foundation", "gg_datalog.foundation.version", "gg_datalog.commands"}}
    assert ours - foundation == {{"gg_datalog.commands.assertion", "gg_datalog.pytest_plugin"}}
"""
    _session(pytester, text, "-p", "no:xdist").assert_outcomes(passed=1)


def test_without_the_plugin(pytester: pytest.Pytester) -> None:
    text = "from gg_datalog import assert_refines\n\ndef test():\n    assert_refines(RIGHT)\n"
    _session(pytester, text, "-p", "no:gg-datalog").assert_outcomes(passed=1)


def test_models(pytester: pytest.Pytester) -> None:
    """The first example, as it is and without its all-reduce."""
    pytest.importorskip("torch", reason="models are captured with torch")
    model = (ROOT / "examples" / "first" / "model.py").read_text(encoding="utf-8")
    pytester.makepyfile(model=model, broken=model.replace("        dist.all_reduce(y)\n", ""))
    done = _session(
        pytester,
        """
def test_right(gg_capture, gg_verify):
    gg_verify(gg_capture("model:tensor_parallel", world_size=2))

def test_broken(gg_capture, gg_verify):
    import broken

    gg_verify(gg_capture(*broken.tensor_parallel(), world_size=2))
""",
        "--gg-report-dir=kept",
    )
    done.assert_outcomes(passed=1, failed=1)
    line = "y = self.down(torch.relu(self.up(x)))"
    done.stdout.fnmatch_lines(
        [
            "E*(output_0): unmapped",
            "E*GG108 error: *the reduction over * is missing*",
            f"E*sequential: *broken.py:15 in forward: {line}",
            f"E*ranks: *broken.py:15 in forward: {line}",
        ]
    )
    kept = pytester.path / "kept" / "test_model.py-test_broken"
    assert (kept / "case" / "seq.json").is_file()
