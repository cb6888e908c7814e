"""``run`` and ``verify`` on the command line: what was asked, and how the verdict is presented."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from shlex import quote
from typing import Any

import click

from gg_datalog.commands.capture import captured_case
from gg_datalog.commands.verify import judged
from gg_datalog.diagnosis.outcome import exit_code
from gg_datalog.foundation.folders import (
    in_use_for,
    read_manifest,
    refuse_foreign,
    refuse_inside,
    replaced_folder,
)
from gg_datalog.foundation.progress import progress
from gg_datalog.foundation.visible import visible
from gg_datalog.inference.run import Options, run_facts
from gg_datalog.reporting.targets import STDOUT, Target, check, own, write
from gg_datalog.result.report import Report, as_json
from gg_datalog.result.sources import changed
from gg_datalog.settings.baseline import Baseline
from gg_datalog.settings.baseline_file import check_place, load_baseline, save_baseline
from gg_datalog.settings.policy import Policy


@dataclass(frozen=True)
class Asked:
    """The options of ``run``, from the command line and the configuration file."""

    engine: str
    form: str
    timeout: float | None
    targets: Sequence[Target]
    partial: Sequence[str]
    operators: Sequence[Path]
    baseline: Path | None
    write_baseline: bool
    severity: Mapping[str, str] = field(default_factory=dict)
    configured: frozenset[str] = frozenset()
    repairs: bool = True
    confirm: float | None = None
    layouts: Sequence[str] = ()

    def options(self, replayable: Path | None, result: Path | None = None) -> Options:
        """What is to be done; everything that can be refused before it is done is refused here."""
        if any(target.path == STDOUT for target in self.targets):
            raise click.UsageError(
                "stdout holds the report of run alone: give --report a file, or use "
                "`gg-datalog report RESULT --report FORMAT=-` afterwards"
            )
        check(self.targets, result)
        policy = Policy(self.severity, self._known(), self.write_baseline)
        partial, operators = tuple(self.partial), tuple(self.operators)
        given = (self.engine, self.timeout, partial, operators, policy, self.configured)
        options = Options(
            *given, repairs=self.repairs, confirm=self.confirm, layouts=tuple(self.layouts)
        )
        return replace(options, replayable=quote(str(replayable))) if replayable else options

    def _known(self) -> Baseline | None:
        if self.baseline is None:
            if self.write_baseline:
                raise click.UsageError("--write-baseline needs --baseline FILE")
            return None
        if self.write_baseline:
            check_place(self.baseline)
            return load_baseline(self.baseline) if self.baseline.exists() else None
        return load_baseline(self.baseline)


def run_command(facts: Path, result: Path, asked: Asked) -> int:
    """Runs, presents, and says with which exit code to end."""
    options = asked.options(facts, result)
    with in_use_for(result, facts):
        with progress() as say:
            report = run_facts(facts, result, options, say)
        for path in _others_by_now(result):
            click.echo(
                f"warning: {visible(str(path))} was changed after the facts were extracted: the "
                "verdict is about what it held then",
                err=True,
            )
        status = present(report, result, asked, options.policy)
    own(asked.targets)
    return status


def verify_command(
    program: str, folder: Path | None, captured: Mapping[str, Any], asked: Asked
) -> int:
    """Captures where that is needed, extracts, runs and presents; the exit code. ``folder`` keeps
    what is made on the way."""
    case = None if ":" in program and not Path(program).exists() else Path(program)
    options = asked.options(case or (folder and folder / "case"))
    given = [name for name, value in captured.items() if value is not None]
    if case is not None and given:
        option = given[0].replace("_", "-")
        raise click.UsageError(f"--{option} goes with MODULE:FUNCTION: {case} is captured already")
    if folder is None:
        with _temporary() as home:
            report = _verified(case, program, captured, home, options)
            return present(report, home / "result", asked, options.policy)
    refuse_foreign(folder, "check")
    refuse_inside([case, *options.operators], folder)
    with replaced_folder(folder, "check") as home:
        report = _verified(case, program, captured, home, options)
    status = present(report, folder / "result", asked, options.policy)
    own(asked.targets)
    return status


def _verified(
    case: Path | None, program: str, captured: Mapping[str, Any], home: Path, options: Options
) -> Report:
    with progress() as say:
        if case is None:
            case = home / "case"
            for line in captured_case(program, case, captured, say):
                click.echo(visible(line), err=True)
        return judged(case, home, home / "result", options, say)


@contextmanager
def _temporary() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="gg-datalog-") as work:
        yield Path(work)


def _others_by_now(result: Path) -> Iterator[Path]:
    """Graphs of a result, and what was read with them, that hold something else by now."""
    case = read_manifest(result, "result", "gg-datalog run").get("case")
    yield from changed(case if isinstance(case, dict) else {})


def present(report: Report, result: Path, asked: Asked, policy: Policy) -> int:
    """Writes and prints a report, as it was asked; the exit code."""
    from gg_datalog.foundation.terminal import show
    from gg_datalog.reporting.text import as_text

    write(asked.targets, report, result)
    baseline = policy.after(report)
    if asked.write_baseline and asked.baseline is not None and baseline is not None:
        save_baseline(baseline, asked.baseline)
    for text in policy.said(report):
        click.echo(visible(f"note: {asked.baseline}: {text}"), err=True)
    if asked.form == "json":
        click.echo(as_json(report))
    else:
        show(as_text(report))
    return exit_code(report)
