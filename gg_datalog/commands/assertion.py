"""``assert_refines``: a verdict that a model's own tests can hold.

Loaded with every pytest session by the plugin: whatever takes time is imported when it is needed.
"""

from __future__ import annotations

import shutil
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from gg_datalog.commands.verify import Result
    from gg_datalog.inference.run import Options
    from gg_datalog.tracing import Pair

Inconclusive = Literal["fail", "skip"]


class NotRefined(AssertionError):
    """The ranks' program is not shown to compute what the sequential one does: ``result`` says
    why, ``kept`` is the folder where its files are, if they are kept."""

    def __init__(self, text: str, result: Result, kept: Path | None = None) -> None:
        super().__init__(text)
        self.result = result
        self.kept = kept


NotRefined.__module__ = "gg_datalog"  # as it is imported, and as pytest shows it


@dataclass
class Keeping:
    """Where the files of checks that fail are kept: ``folder``, then ``folder-2``, ..."""

    folder: Path
    used: int = 0

    def next(self) -> Path:
        """The folder for one more check."""
        number = self.used + 1
        return self.folder if number == 1 else self.folder.with_name(f"{self.folder.name}-{number}")


keeping: ContextVar[Keeping | None] = ContextVar("keeping", default=None)


def assert_refines(
    pair: Pair | Result | str | Path,
    *,
    engine: str = "auto",
    operators: Sequence[str | Path] = (),
    allow_partial: Sequence[str] = (),
    allow_layout: Sequence[str] = (),
    baseline: str | Path | None = None,
    timeout: float | None = None,
    repairs: bool = True,
    confirm: float | None = None,
    inconclusive: Inconclusive = "fail",
) -> Result:
    """Fails, with the findings as the message, where the ranks' program is not shown to refine.

    Args:
        pair: what :func:`gg_datalog.capture` gives, the folder of a case, or what
            :func:`gg_datalog.verify` gave (of which only the baseline is still to be applied).
        engine: ``auto``, ``souffle`` or ``clingo``.
        operators: files with rows for further operators.
        allow_partial: sequential outputs that may be open sums.
        allow_layout: sequential outputs whose elements the ranks may return in any order.
        baseline: a file of findings that are known; where they are all there is, that passes.
        timeout: seconds after which the rules give up.
        repairs: whether to try out what would close the gap, where it fails.
        confirm: seconds for executing what is not proved, where torch is installed; 0 for not
            at all (20, or what ``GG_DATALOG_CONFIRM`` says).
        inconclusive: ``skip`` skips the test where nothing is wrong, but something that no rule
            describes stands in the way; else that fails, too.

    Returns:
        The result. ``result.refines`` is false where a baseline let it pass.

    Raises:
        NotRefined: an AssertionError.
        GGError: the case cannot be used, or the rules could not be run.
    """
    __tracebackhide__ = True
    from gg_datalog.inference.run import Options

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
    return hold(pair, options, inconclusive)


def hold(
    pair: Pair | Result | str | Path, options: Options, inconclusive: Inconclusive = "fail"
) -> Result:
    """:func:`assert_refines`, with the options of a run."""
    __tracebackhide__ = True
    from gg_datalog.diagnosis.outcome import exit_code
    from gg_datalog.foundation.errors import InputError
    from gg_datalog.foundation.visible import visible
    from gg_datalog.result.reasons import Verdict

    if inconclusive not in ("fail", "skip"):
        raise InputError(f"inconclusive is {inconclusive!r}", None, 'give "fail" or "skip"')
    with _home() as home:
        result = _result(pair, home, options)
        notes = list(options.policy.said(result.report))
        if exit_code(result.report) == 0:
            for text in notes:
                warnings.warn(visible(text), stacklevel=3)
            return result
        if result.verdict == Verdict.INCONCLUSIVE and inconclusive == "skip":
            _skip(result)
        kept = _keep(home, result, notes)
    raise NotRefined(_text(result, kept, notes), result, kept)


def _result(pair: Any, home: Path, options: Options) -> Result:
    from gg_datalog.commands.verify import Result, judged

    if not isinstance(pair, Result):
        return Result(judged(pair, home, home / "result", options, lambda text: None))
    return Result(options.policy.applied(pair.report))


def _text(result: Result, kept: Path | None, notes: Sequence[str]) -> str:
    from gg_datalog.commands.failure import failure
    from gg_datalog.foundation.visible import visible

    lines = [failure(result.report), *(visible(f"note: {text}") for text in notes)]
    if kept is not None:
        page = kept / "report.html"
        lines += ["", visible(f"kept in {page if page.is_file() else kept}")]
        if (kept / "result").is_dir():
            lines.append(visible(f"  gg-datalog query {kept / 'result'} unmapped_outputs"))
    return "\n".join(lines)


def _skip(result: Result) -> None:
    from pytest import skip

    from gg_datalog.commands.failure import summary

    skip(summary(result.report))


# ---- files of a check ----------------------------------------------------------------------------
@contextmanager
def _home() -> Iterator[Path]:
    """A folder to work in, which is removed, unless ``_keep`` was called for it."""
    keep = keeping.get()
    if keep is None:
        with tempfile.TemporaryDirectory(prefix="gg-datalog-") as work:
            yield Path(work)
        return
    from gg_datalog.foundation.folders import replaced_folder

    used = keep.used
    with replaced_folder(keep.next(), "check") as home:
        yield home
        if keep.used == used:
            shutil.rmtree(home, ignore_errors=True)


def _keep(home: Path, result: Result, notes: list[str]) -> Path | None:
    keep = keeping.get()
    if keep is None:
        return None
    from gg_datalog.reporting import FORMATS, render
    from gg_datalog.result.report import as_json

    place = keep.next()  # home takes that place once it is complete
    keep.used += 1
    (home / "report.json").write_text(as_json(result.report) + "\n", encoding="utf-8")
    if "html" in FORMATS and (home / "result").is_dir():
        try:
            page = render("html", result.report, home / "result")
            (home / "report.html").write_text(page, encoding="utf-8", errors="backslashreplace")
        except Exception as error:  # what is wrong with the program must still be said
            notes.append(f"{place / 'report.html'} is not written: {error}")
    return place
