"""The pytest plugin: ``gg_verify`` and ``gg_capture`` for a model's own tests (docs/ci.md).

It is loaded with every pytest session where gg-datalog is installed, so it imports nothing that
takes time, and nothing that may be missing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gg_datalog.commands.assertion import (
    Inconclusive,
    Keeping,
    NotRefined,
    assert_refines,
    hold,
    keeping,
)

if TYPE_CHECKING:
    from gg_datalog.commands.verify import Result
    from gg_datalog.inference.run import Options
    from gg_datalog.settings.configuration import Configuration
    from gg_datalog.tracing import Pair

__all__ = ["NotRefined", "assert_refines"]
LONG = 100


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options of pytest, which ``pytest.ini`` or ``pyproject.toml`` may have, too."""
    group = parser.getgroup("gg-datalog")
    group.addoption(
        "--gg-report-dir",
        metavar="DIR",
        help="keep the files of checks that fail: report, result, facts, case",
    )
    group.addoption(
        "--gg-config",
        metavar="FILE",
        help="configuration of gg_verify (default: the closest gg-datalog.toml or pyproject.toml)",
    )
    parser.addini("gg_report_dir", "as --gg-report-dir, relative to the root folder")


@pytest.hookimpl(hookwrapper=True)  # the form that older releases of pytest know, too
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """While a test runs, its failing checks are kept in a folder of its name."""
    folder = _report_dir(item.config)
    token = keeping.set(None if folder is None else Keeping(folder / _slug(item.nodeid)))
    yield
    keeping.reset(token)


def _report_dir(config: pytest.Config) -> Path | None:
    given: str | None = config.getoption("--gg-report-dir")
    ini: str = config.getini("gg_report_dir")
    if given:
        return config.invocation_params.dir / given
    return config.rootpath / ini if ini else None


def _slug(nodeid: str) -> str:
    """A file name for a test; ids that would look alike get another ending."""
    slug = re.sub(r"[^\w.]+", "-", nodeid).strip("-.")
    if len(slug) <= LONG and "[" not in nodeid:
        return slug
    return f"{slug[:LONG]}-{sha256(nodeid.encode()).hexdigest()[:8]}"


@pytest.fixture(scope="session")
def gg_verify(pytestconfig: pytest.Config) -> Callable[..., Result]:
    """``assert_refines``, with the configuration file's options where a call does not give them."""
    configuration = _configuration(pytestconfig)

    def gg_verify(
        pair: Pair | Result | str | Path, *, inconclusive: Inconclusive = "fail", **given: Any
    ) -> Result:
        __tracebackhide__ = True
        return hold(pair, _options(configuration, given), inconclusive)

    return gg_verify


@pytest.fixture(scope="session")
def gg_capture() -> Callable[..., Pair]:
    """``gg_datalog.capture``; takes ``"module:function"``, too, as the command line does."""

    def gg_capture(program: Any, *arguments: Any, **given: Any) -> Pair:
        __tracebackhide__ = True
        from gg_datalog import capture
        from gg_datalog.commands.capture import described

        if isinstance(program, str):
            return capture(**{**described(program), **given})
        return capture(program, *arguments, **given)

    return gg_capture


def _configuration(config: pytest.Config) -> Configuration:
    from gg_datalog.foundation.errors import GGError
    from gg_datalog.settings.configuration import found, load

    named = config.getoption("--gg-config")
    try:
        if named:
            return load(config.invocation_params.dir / named)
        return found(config.rootpath)
    except GGError as error:
        raise pytest.UsageError(str(error)) from None


def _options(configuration: Configuration, given: dict[str, Any]) -> Options:
    from gg_datalog.inference.run import Options
    from gg_datalog.settings.defaults import PARAMETERS

    known = ("engine", "timeout", "operators", "allow-partial", "allow-layout", "baseline",
             "repairs", "confirm")  # fmt: skip
    said = {name.replace("_", "-"): value for name, value in given.items()}
    if unknown := said.keys() - set(known):
        options = ", ".join(name.replace("-", "_") for name in known)
        raise TypeError(
            f"gg_verify has no option {min(unknown).replace('-', '_')!r} (options: {options})"
        )
    values = {PARAMETERS[key]: said.get(key, configuration.get(key)) for key in known}
    configured = frozenset(PARAMETERS[key] for key in known if key not in said)
    return Options.given(
        **values, severity=configuration.get("severity", {}), configured=configured
    )
