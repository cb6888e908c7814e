"""``verify``: a verdict in Python."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from gg_datalog.foundation.progress import Progress
from gg_datalog.inference.run import Options, repeated, run_facts
from gg_datalog.result.reasons import Verdict
from gg_datalog.result.report import Assumption, Finding, OutputRow, Report
from gg_datalog.result.sources import extracted
from gg_datalog.result.store import write_facts

if TYPE_CHECKING:
    from gg_datalog.tracing import Pair


class Result:
    """A verdict. As text it is what ``gg-datalog run`` prints."""

    def __init__(self, report: Report) -> None:
        self.report = report

    @property
    def refines(self) -> bool:
        """Is every output that matters rebuilt?"""
        return self.verdict == Verdict.REFINES

    @property
    def verdict(self) -> str:
        """``refines``, ``does-not-refine`` or ``inconclusive``."""
        return self.report.verdict

    @property
    def accepted(self) -> bool:
        """Is it not shown to refine, but for nothing that the baseline does not have?"""
        return self.report.accepted

    @property
    def outputs(self) -> Sequence[OutputRow]:
        """Every output with its status and relation."""
        return self.report.outputs

    @property
    def findings(self) -> Sequence[Finding]:
        """What is wrong, the cause first."""
        return self.report.findings

    @property
    def assumptions(self) -> Sequence[Assumption]:
        """What the verdict takes on trust."""
        return self.report.assumptions

    def __str__(self) -> str:
        from gg_datalog.reporting.text import as_text

        return as_text(self.report)

    def __repr__(self) -> str:
        return f"<Result {self.verdict}, {len(self.findings)} findings>"


def verify(
    pair: Pair | str | Path,
    *,
    engine: str = "auto",
    operators: Sequence[str | Path] = (),
    allow_partial: Sequence[str] = (),
    allow_layout: Sequence[str] = (),
    baseline: str | Path | None = None,
    timeout: float | None = None,
    result: str | Path | None = None,
    repairs: bool = True,
    confirm: float | None = None,
    progress: Progress | None = None,
) -> Result:
    """Says whether the ranks' program computes what the sequential one computes.

    Args:
        pair: what :func:`gg_datalog.capture` gives, or the folder of a case.
        engine: ``auto``, ``souffle`` or ``clingo``.
        operators: files with rows for further operators.
        allow_partial: sequential outputs that may be open sums.
        allow_layout: sequential outputs whose elements the ranks may return in any order.
        baseline: a file of findings that are known, which are then marked as accepted.
        timeout: seconds after which the rules give up.
        result: a folder for the derived relations, for ``gg-datalog query``; kept nowhere
            where it is not given.
        repairs: whether to look for one collective or scalar that would close the gap of a
            finding, and to try it out.
        confirm: seconds for executing what is not proved, where torch is installed; 0 for not
            at all (20, or what ``GG_DATALOG_CONFIRM`` says).
        progress: called with what is being done.

    Raises:
        GGError: the case cannot be used, or the rules could not be run.
    """
    options = Options.given(
        operators=operators,
        baseline=baseline,
        engine=engine,
        timeout=timeout,
        partial=allow_partial,
        layouts=allow_layout,
        repairs=repairs,
        confirm=confirm,
    )
    with tempfile.TemporaryDirectory(prefix="gg-datalog-") as work:
        home = Path(work)
        target = home / "result" if result is None else Path(result)
        report = judged(pair, home, target, options, progress or (lambda text: None))
    return Result(report)


def judged(
    pair: Pair | str | Path, home: Path, result: Path, options: Options, say: Progress
) -> Report:
    """The report on a pair; its case, where it has no folder yet, and its facts go to ``home``."""
    if isinstance(pair, (str, Path)):
        from gg_datalog.extract import case_files

        files = case_files(Path(pair))
        if options.replayable == Options.replayable:
            options = replace(options, replayable=quote(str(pair)))
    else:
        files = pair.documents.write(home / "case")
    facts, case = extracted(files, options.operators, say)
    write_facts(facts, home / "facts", "parquet", case)
    replayable = options.replayable + repeated("--operators", options.operators)
    options = replace(options, operators=(), replayable=replayable)
    return run_facts(home / "facts", result, options, say)
