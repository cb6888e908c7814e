"""What holds for all tests. Nothing is executed to confirm a verdict, unless a test asks for it: it takes
torch seconds to be there."""

from __future__ import annotations

import os
import tempfile
from fnmatch import fnmatch
from pathlib import Path

import pytest

from gg_datalog.foundation.garbage import collected_seldom

from .command import Cli, Outcome, ended

os.environ.setdefault("GG_DATALOG_CONFIRM", "0")
# Every process of the tests has a core; more threads of torch only wait for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Translated rules are kept for all processes and turns of the tests, but not among the user's own.
CACHE = Path(tempfile.gettempdir(), f"gg-datalog-tests-{os.geteuid()}")
os.environ.setdefault("GG_DATALOG_CACHE", str(CACHE))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--exhaustive", action="store_true", help="also variants of what other tests show"
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "exhaustive(*ids): further variants of what other tests show, which take long; the cases of "
        "these ids (patterns), or all of them. They are run with --exhaustive.",
    )


def pytest_collection_finish(session: pytest.Session) -> None:
    collected_seldom()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--exhaustive"):
        return
    skip = pytest.mark.skip(reason="a further variant: run with --exhaustive")
    for item in items:
        for mark in item.iter_markers("exhaustive"):
            case = item.name.partition("[")[2].removesuffix("]")
            if not mark.args or any(fnmatch(case, pattern) for pattern in mark.args):
                item.add_marker(skip)


@pytest.fixture
def cli(capfdbinary: pytest.CaptureFixture[bytes]) -> Cli:
    """Runs ``gg-datalog`` with these arguments in this process; what its processes print counts."""

    def run(*arguments: object) -> Outcome:
        capfdbinary.readouterr()
        status = ended(*arguments)
        out, err = capfdbinary.readouterr()
        return Outcome(status, out.decode(), err.decode())

    return run
