"""The engine that comes with the package: clingo's grounder as Datalog evaluator."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from gg_datalog.foundation.errors import EngineError

from .base import EngineResult, Progress, Stopwatch
from .process import Finished, run_process

if TYPE_CHECKING:
    import pyarrow as pa

    from .translation import Translation

# Exit statuses of clingo: satisfiable, and satisfiable with the search space exhausted.
_SOLVED = (10, 30)


class ClingoEngine:
    """Runs the rules on clingo, in a process of its own."""

    name = "clingo"

    def version(self) -> str:
        """The version of the clingo package."""
        from importlib.metadata import version

        return version("clingo")

    def word_bits(self) -> int:
        """clingo's numbers have 32 bits and wrap silently."""
        return 32

    def run(
        self,
        program_path: Path,
        facts: Mapping[str, pa.Table],
        *,
        timeout: float | None = None,
        progress: Progress | None = None,
    ) -> EngineResult:
        """Evaluate the program over the facts."""
        watch = Stopwatch(progress)
        watch.phase("translate", "clingo: translating the rules")
        from .clingo_text import read_answer, write_facts
        from .kept import kept
        from .tables import check_facts
        from .translate import Symbols, translated

        rules = kept("clingo", Path(program_path), translated)
        program = rules.program
        symbols = Symbols(rules.constants)
        watch.phase("facts", "clingo: checking and writing the facts")
        tables = check_facts(program, facts, self.word_bits())
        translation = rules.translation.firing(name for name, t in tables.items() if t.num_rows)
        with tempfile.TemporaryDirectory(prefix="gg-datalog-") as folder:
            text, data = Path(folder, "rules.lp"), Path(folder, "facts.lp")
            text.write_text(translation.text, encoding="utf-8")
            write_facts(data, tables, symbols)
            watch.phase("evaluate", "clingo: evaluating the rules")
            finished = _evaluate([text, data], timeout)
        watch.phase("read", "clingo: reading the relations")
        answer = _answer(finished, translation)
        relations = read_answer(answer, program, symbols)
        return EngineResult(relations, watch.stop())


WORKER = Path(__file__).with_name("clingo_worker.py")
"""Run as a file: to import the package it lies in takes as long as a small case. The search for
site packages (-S) is left out, too: it is told where ours lie."""


def _evaluate(files: list[Path], timeout: float | None) -> Finished:
    command = [sys.executable, "-PS", str(WORKER), *map(str, files)]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return run_process(command, engine="clingo", timeout=timeout, env=env)


def _answer(finished: Finished, translation: Translation) -> str:
    """The atoms that clingo printed, or its complaint as an error."""
    complaint = re.search(r"rules\.lp:(\d+):\S+ (error|info): (.*(?:\n  .*)*)", finished.stderr)
    if complaint is not None:
        raise _refusal(int(complaint[1]), " ".join(complaint[3].split()), translation)
    if finished.status not in _SOLVED:
        raise EngineError(
            f"clingo failed with status {finished.status}", hint=finished.stderr[-800:]
        )
    text = finished.stdout.decode("utf-8")
    lines = [line for line in text.splitlines() if not line.startswith("%")]
    if lines[:1] != ["ANSWER"]:
        raise EngineError(f"clingo gave no answer: {finished.stderr.strip()[-800:]}")
    return "\n".join(lines[1:])


def _refusal(line: int, message: str, translation: Translation) -> EngineError:
    origin = translation.origin(line)
    where = None if origin is None else str(origin)
    if "operation undefined" in message:
        hint = "guard the divisor in an earlier rule: within one rule there is no order"
        return EngineError(f"clingo: division by zero ({message})", where, hint)
    return EngineError(f"clingo: {message}", where)
