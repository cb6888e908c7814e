"""Soufflé from Python: a program and Arrow tables in, Arrow tables out.

Usable by itself::

    result = SouffleEngine().run(Path("main.dl"), {"edge": table})
    result.relations["path"]

The ``souffle`` binary runs as a subprocess, in interpreter mode and never with ``-w``: a
missing fact file must stay an error.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from gg_datalog.foundation.errors import EngineError

from .base import EngineResult, Progress, Stopwatch
from .process import Finished, run_process

if TYPE_CHECKING:
    import pyarrow as pa

    from .program import Declaration, Program
    from .translation import Translated, Translation

_PROBE = ".decl r(x:number)\n.output r\nr(2147483647+1).\n"
RULES = "rules.dl"
_GET_IT = (
    "build or install it from souffle-lang (https://souffle-lang.github.io/install),"
    " put it on the PATH, or use --engine clingo"
)


def souffle_usable() -> bool:
    """Whether a ``souffle`` on the PATH can run a tiny program."""
    try:
        SouffleEngine().word_bits()
    except EngineError:
        return False
    return True


class SouffleEngine:
    """Runs the rules on Soufflé's interpreter."""

    name = "souffle"

    def __init__(self) -> None:
        binary = shutil.which("souffle")
        if binary is None:
            raise EngineError("there is no souffle on the PATH", hint=_GET_IT)
        self._binary = binary

    def version(self) -> str:
        """What ``souffle --version`` says."""
        text = _call(self._binary, "--version")
        found = re.search(r"^Version:\s*(\S+)\s*$", text, re.MULTILINE)
        return found[1] if found else "unknown"

    def word_bits(self) -> int:
        """The size of a number in this binary, found by a tiny program."""
        return _word_bits(self._binary)

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
        watch.phase("translate", "souffle: reading the declarations")
        from .kept import kept
        from .tables import check_facts

        rules = kept("souffle", Path(program_path), _read_program)
        program = rules.program
        watch.phase("facts", "souffle: checking and writing the facts")
        tables = check_facts(program, facts, self.word_bits())
        given = {name: table for name, table in tables.items() if table.num_rows}
        text = rules.translation.firing(given)
        for relation in given:
            text.add(f".input {relation}", program.declarations[relation].pos)
        with tempfile.TemporaryDirectory(prefix="gg-datalog-") as name:
            folder = Path(name)
            (folder / RULES).write_text(text.text, encoding="utf-8")
            for relation, table in given.items():
                _write_facts(folder / f"{relation}.facts", table)
            watch.phase("evaluate", "souffle: evaluating the rules")
            _evaluate(self._binary, text, folder, timeout)
            watch.phase("read", "souffle: reading the relations")
            relations = {
                output: _read(program, program.declarations[output], folder)
                for output in program.outputs
            }
        return EngineResult(relations, watch.stop())


def _read_program(path: Path) -> Translated:
    from .parser import parse_program
    from .souffle_text import souffle_text
    from .translation import Translated

    program = parse_program(path)
    return Translated(replace(program, clauses=()), souffle_text(program))


def _evaluate(binary: str, text: Translation, folder: Path, timeout: float | None) -> None:
    place = str(folder)
    command = [binary, *_options(binary), "-F", place, "-D", place, str(folder / RULES)]
    finished = run_process(command, engine="souffle", timeout=timeout)
    if finished.status != 0:
        raise _refusal(finished, text)


@cache
def _options(binary: str) -> tuple[str, ...]:
    """Includes are Soufflé's own, so no C preprocessor where it may be left out."""
    accepted = "--no-preprocessor" in _call(binary, "--help")
    return ("--no-preprocessor",) if accepted else ()


def _call(binary: str, option: str) -> str:
    return run_process([binary, option], engine="souffle", timeout=60).stdout.decode()


@cache
def _word_bits(binary: str) -> int:
    with tempfile.TemporaryDirectory(prefix="gg-datalog-") as name:
        probe = Path(name, "probe.dl")
        probe.write_text(_PROBE)
        command = [binary, *_options(binary), "-D", name, str(probe)]
        finished = run_process(command, engine="souffle", timeout=60)
        result = Path(name, "r.csv")
        if finished.status != 0 or not result.exists():
            raise EngineError(
                f"the souffle on the PATH does not work: {finished.stderr.strip()[-400:]}",
                binary,
                _GET_IT,
            )
        return 64 if result.read_text().strip() == "2147483648" else 32


def _refusal(finished: Finished, program: Translation) -> EngineError:
    """What Soufflé complained about, with the file and line it named."""
    text = finished.stderr.strip() or finished.stdout.decode("utf-8", "replace").strip()
    start = text.find("Error")
    text = text[start:] if start > 0 else text
    found = re.search(r"in file (\S+?) (?:at line |\[)(\d+)", text)
    if found is None:
        return EngineError(f"souffle failed with status {finished.status}: {text[-2000:]}")
    origin = program.origin(int(found[2]))
    return EngineError(f"souffle: {text[:2000]}", None if origin is None else str(origin))


def _write_facts(path: Path, table: pa.Table) -> None:
    """The rows of a table that has some."""
    import pyarrow as pa
    from pyarrow import compute as pc

    if not table.num_columns:
        path.write_text("()\n")
        return
    columns = table.combine_chunks().columns
    cells = [column.chunk(0).cast(pa.string()) for column in columns]
    joined = pc.binary_join_element_wise(*cells, "\t")
    lines = pc.binary_join(pa.ListArray.from_arrays([0, len(joined)], joined), "\n")
    path.write_bytes(lines[0].as_py().encode() + b"\n")


def _read(program: Program, declaration: Declaration, folder: Path) -> pa.Table:
    import pyarrow as pa
    from pyarrow import csv

    from .program import NUMBER
    from .tables import result_table

    path = folder / f"{declaration.name}.csv"
    size = path.stat().st_size
    names = [column.name for column in declaration.columns]
    kinds = program.kinds(declaration.name)
    types = {
        n: pa.int64() if k == NUMBER else pa.string() for n, k in zip(names, kinds, strict=True)
    }
    if not names or not size:
        return result_table(declaration, [pa.array([], t) for t in types.values()], size)
    table = csv.read_csv(
        path,
        read_options=csv.ReadOptions(column_names=names, block_size=size + 1),
        parse_options=csv.ParseOptions(delimiter="\t", quote_char=False, ignore_empty_lines=False),
        convert_options=csv.ConvertOptions(column_types=types, strings_can_be_null=False),
    )
    return result_table(declaration, table.columns, table.num_rows)
