"""``verify``: a verdict in Python."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gg_datalog.cases import extracted
from gg_datalog.extract import case_files
from gg_datalog.progress import Progress
from gg_datalog.report import Assumption, Finding, OutputRow, Report
from gg_datalog.running import Options, run_facts
from gg_datalog.store import write_facts

if TYPE_CHECKING:
    from gg_datalog.tracing import Pair


class Result:
    """A verdict. As text it is what ``gg-datalog run`` prints."""

    def __init__(self, report: Report) -> None:
        self.report = report

    @property
    def refines(self) -> bool:
        """Is every output that matters rebuilt?"""
        return self.verdict == "refines"

    @property
    def verdict(self) -> str:
        """``refines``, ``does-not-refine`` or ``inconclusive``."""
        return self.report.verdict

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
        from gg_datalog.human import as_text

        return as_text(self.report)

    def __repr__(self) -> str:
        return f"<Result {self.verdict}, {len(self.findings)} findings>"


def verify(
    pair: Pair | str | Path,
    *,
    engine: str = "auto",
    operators: Sequence[str | Path] = (),
    timeout: float | None = None,
    result: str | Path | None = None,
    progress: Progress | None = None,
) -> Result:
    """Says whether the ranks' program computes what the sequential one computes.

    Args:
        pair: what :func:`gg_datalog.capture` gives, or the folder of a case.
        engine: ``auto``, ``souffle`` or ``clingo``.
        operators: files with rows for further operators.
        timeout: seconds after which the rules give up.
        result: a folder for the derived relations, for ``gg-datalog query``; kept nowhere
            where it is not given.
        progress: called with what is being done.

    Raises:
        GGError: the case cannot be used, or the rules could not be run.
    """
    say = progress or (lambda text: None)
    tables = [Path(path) for path in operators]
    with tempfile.TemporaryDirectory(prefix="gg-datalog-") as work:
        home = Path(work)
        if isinstance(pair, (str, Path)):
            files = case_files(Path(pair))
        else:
            files = pair.documents.write(home / "case")
        facts, case = extracted(files, tables, say)
        write_facts(facts, home / "facts", "parquet", case)
        target = home / "result" if result is None else Path(result)
        report = run_facts(home / "facts", target, Options(engine, timeout), say)
    return Result(report)
