"""``run``: facts in, a result folder and a report out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from shlex import quote
from time import perf_counter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from gg_datalog.datalog import program_path
from gg_datalog.engine import select_engine
from gg_datalog.extract import extract_case
from gg_datalog.extract.schema import RULE_RELATIONS, SCHEMA_VERSION
from gg_datalog.foundation.errors import InputError
from gg_datalog.foundation.folders import (
    in_use_for,
    refuse_foreign,
    refuse_inside,
    replaced_folder,
    write_manifest,
)
from gg_datalog.foundation.progress import Progress
from gg_datalog.result.database import DATABASE, create, decide
from gg_datalog.result.reasons import Status, Verdict
from gg_datalog.result.report import REPORT, Finding, OutputRow, Report, as_json
from gg_datalog.result.sources import extracted_again
from gg_datalog.result.store import Facts, hashed, open_facts, write_parquet
from gg_datalog.settings.baseline_file import load_baseline
from gg_datalog.settings.policy import Policy

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

    from gg_datalog.engine import Engine, EngineResult
    from gg_datalog.extract import CaseFiles


@dataclass(frozen=True)
class Options:
    """What the user asked of a run."""

    engine: str = "auto"
    timeout: float | None = None
    partial: Sequence[str] = ()
    operators: Sequence[Path] = ()
    policy: Policy = field(default_factory=Policy)
    configured: frozenset[str] = frozenset()
    """Which of ``partial`` and ``operators`` a configuration file gives, for all cases alike: what
    of them this case does not have, or has been extracted with, is passed over."""
    repairs: bool = True
    confirm: float | None = None
    """Seconds for executing what is not proved; None for the default, 0 for not at all."""
    replayable: str = "CASE"
    """What a user gives to ``gg-datalog replay``, to see the numbers of this run again."""
    layouts: Sequence[str] = ()
    """Sequential outputs whose elements the ranks may return in any order."""
    rules: str | None = None
    """A folder of other rules, whose `main.dl` is run."""
    raw: bool = False
    """Whether the report is to say what the rules say, and nothing of what that proves."""

    @property
    def program(self) -> Path:
        """The rules."""
        return program_path() if self.rules is None else Path(self.rules, "main.dl")

    @classmethod
    def given(
        cls,
        *,
        operators: Iterable[Path | str] | None,
        baseline: Path | str | None,
        severity: Mapping[str, str] = MappingProxyType({}),
        **options: Any,
    ) -> Options:
        """Options as Python callers give them: files by their paths; None for the default."""
        known = None if baseline is None else load_baseline(Path(baseline))
        tables = [Path(path) for path in operators or ()]
        chosen = {name: value for name, value in options.items() if value is not None}
        return cls(operators=tables, policy=Policy(severity, known), **chosen)


Look = Callable[["duckdb.DuckDBPyConnection", Report], object]
"""Something that looks at the database of a result, and its report, before it is closed."""


def nobody(database: duckdb.DuckDBPyConnection, report: Report) -> None:
    """Nobody looks."""


def run_facts(
    facts: Path, result: Path, options: Options, progress: Progress, look: Look = nobody
) -> Report:
    """Runs the rules over a facts folder and writes the result folder; ``look`` sees its
    database."""
    refuse_foreign(result, "result")
    refuse_inside([facts, *options.operators], result)
    with in_use_for(result, facts):
        started = perf_counter()
        progress("reading facts")
        given = _given(open_facts(facts), options, progress)
        return run_given(given, facts, result, options, progress, perf_counter() - started, look)


def run_given(
    given: Facts,
    facts: Path,
    result: Path,
    options: Options,
    progress: Progress,
    read: float = 0.0,
    look: Look = nobody,
) -> Report:
    """The same over facts that are in memory, and lie, or would lie, in the folder ``facts``.
    ``read`` is how many seconds it took to read them."""
    engine = select_engine(options.engine)
    tables = _as_allowed(given.tables, options)
    if not tables["wanted"].num_rows:
        raise InputError(
            "the facts have no outputs to check", str(facts), "extract with --output SEQ[=DIST]"
        )
    inputs = {relation.name: tables[relation.name] for relation in RULE_RELATIONS}
    with replaced_folder(result, "result") as fresh:
        found = engine.run(options.program, inputs, timeout=options.timeout, progress=progress)
        progress("writing the result")
        seconds = {"read facts": read, **{k: v for k, v in found.seconds.items() if k != "total"}}
        run = _Run(options, given.case, tables, found, engine)
        report = _write(fresh, run, seconds, progress, look)
        counts = {name: table.num_rows for name, table in found.relations.items()}
        about = {"facts": str(facts.absolute()), "hash": given.joint_hash, "case": given.case}
        content = {"schema_version": SCHEMA_VERSION, "relations": counts, **about}
        write_manifest(fresh, "result", content)
    return report


def _given(facts: Facts, options: Options, progress: Progress) -> Facts:
    """The facts; with further operators they are extracted once more."""
    operators = _operators(facts.case, options)
    if not operators:
        return facts
    tables, case = extracted_again(facts.case, operators, progress)
    return Facts(tables, case, hashed(tables))


@dataclass(frozen=True)
class _Run:
    """What was run, and what came out."""

    options: Options
    case: Mapping[str, Any]
    facts: Mapping[str, pa.Table]
    found: EngineResult
    engine: Engine


def _write(
    fresh: Path, run: _Run, seconds: dict[str, float], progress: Progress, look: Look
) -> Report:
    from gg_datalog.diagnosis.judgement import judge, state_kept

    started = perf_counter()
    found, engine = run.found, run.engine
    stats: dict[str, Any] = {
        "facts": sum(table.num_rows for table in run.facts.values()),
        "relations": sum(table.num_rows for table in found.relations.values()),
        "rounds": found.rounds,
    }
    for name, table in found.relations.items():
        write_parquet(fresh / f"{name}.parquet", name, table)
    about = {"name": engine.name, "version": engine.version()}
    with create(fresh / DATABASE, run.facts, found.relations) as database:
        report = Report(*judge(database), engine=about, stats=stats)
        if kept := state_kept(database):
            stats["state"] = kept
        seconds["judge and write"] = perf_counter() - started
        gap = report.verdict == Verdict.DIFFERS
        if not run.options.raw:
            report = _decided(fresh, run, report, seconds, progress)
            decide(database, report)
        report = run.options.policy.applied(report)
        if run.options.repairs and gap and any(map(_open, report.outputs)):
            report = replace(report, findings=_repaired(database, run, report, seconds, progress))
        look(database, report)
    stats["seconds"] = {phase: round(took, 4) for phase, took in seconds.items()}
    (fresh / REPORT).write_text(as_json(report) + "\n", encoding="utf-8")
    return report


def _decided(
    fresh: Path, run: _Run, report: Report, seconds: dict[str, float], progress: Progress
) -> Report:
    """The report with what numbers say of the outputs that are not proved."""
    from gg_datalog.diagnosis.evidence import decided, in_question
    from gg_datalog.inference.confirmation import Question, budget, confirmed

    allowed, places = budget(run.options.confirm), in_question(report)
    if not places:
        return decided(report, {})
    started = perf_counter()
    progress("executing what is not proved")
    partial = _partial(run.facts, run.options)
    asked = Question(run.case, fresh, report, places, partial, _replayed(run, partial))
    numbers = confirmed(asked, allowed)
    if allowed:
        seconds["confirm"] = perf_counter() - started
    return decided(report, numbers)


def _replayed(run: _Run, partial: Sequence[str]) -> str:
    """What a user gives to ``gg-datalog replay``, with what this run was given."""
    options = run.options
    return (
        options.replayable
        + repeated("--allow-partial", partial)
        + repeated("--allow-layout", _named(run.facts, options, "layouts", options.layouts))
        + repeated("--operators", _operators(run.case, options))
    )


def repeated(option: str, values: Iterable[object]) -> str:
    """An option of a command line, once for each value."""
    return "".join(f" {option} {quote(str(value))}" for value in values)


def _open(row: OutputRow) -> bool:
    """Is it neither proved, nor do numbers agree?"""
    return row.status != Status.MAPPED and not (row.numbers is not None and row.numbers.agrees)


def _operators(case: Mapping[str, Any], options: Options) -> list[Path]:
    known = case.get("operators", ()) if "operators" in options.configured else ()
    return [path for path in options.operators if str(path.absolute()) not in known]


def _partial(tables: Mapping[str, pa.Table], options: Options) -> list[str]:
    return _named(tables, options, "partial", options.partial)


def _named(
    tables: Mapping[str, pa.Table], options: Options, option: str, names: Sequence[str]
) -> list[str]:
    """The outputs that an option names; a configuration file may name those of other cases."""
    if option not in options.configured:
        return list(names)
    outputs = set(tables["output_name"].column("seq").to_pylist())
    return [name for name in names if name in outputs]


def _as_allowed(tables: dict[str, pa.Table], options: Options) -> dict[str, pa.Table]:
    """The facts with what the options allow of outputs."""
    tables = _with_partial(tables, _partial(tables, options))
    return _with_layouts(tables, _named(tables, options, "layouts", options.layouts))


def _repaired(
    database: duckdb.DuckDBPyConnection,
    run: _Run,
    report: Report,
    seconds: dict[str, float],
    progress: Progress,
) -> list[Finding]:
    """The findings with repairs that were tried out."""
    from gg_datalog.repairs.ran import Ran
    from gg_datalog.repairs.search import with_repairs

    def extract(files: CaseFiles) -> dict[str, pa.Table]:
        operators = [Path(path) for path in run.case["operators"]]
        tables = extract_case(files, operators)
        return _as_allowed(tables, run.options)

    started, took = perf_counter(), run.found.seconds.get("total", 0.0)
    limits = (took, run.options.timeout)
    derived, rules = run.found.relations, run.options.program
    ran = Ran(database, run.case, run.facts, derived, run.engine, rules, *limits, extract)
    findings = with_repairs(ran, report.findings, progress)
    seconds["try repairs"] = perf_counter() - started
    return findings


def _with_partial(tables: dict[str, pa.Table], names: Sequence[str]) -> dict[str, pa.Table]:
    """The facts with these outputs declared partial."""
    if not names:
        return tables
    import pyarrow as pa

    outputs = _outputs(tables, "--allow-partial", names)
    for row in outputs:
        row["partial"] = int(row["partial"] or row["seq"] in names)
    rows = [{"wants": row["wants"]} for row in outputs if row["partial"]]
    return {
        **tables,
        "output_name": pa.Table.from_pylist(outputs, tables["output_name"].schema),
        "may_be_partial": pa.Table.from_pylist(rows, tables["may_be_partial"].schema),
    }


def _with_layouts(tables: dict[str, pa.Table], names: Sequence[str]) -> dict[str, pa.Table]:
    """The facts with these outputs allowed to come back in any order."""
    if not names:
        return tables
    import pyarrow as pa

    chosen = {
        row["wants"] for row in _outputs(tables, "--allow-layout", names) if row["seq"] in names
    }
    chosen |= set(tables["layout_allowed"].column("wants").to_pylist())
    rows = [{"wants": wants} for wants in sorted(chosen)]
    schema = tables["layout_allowed"].schema
    return {**tables, "layout_allowed": pa.Table.from_pylist(rows, schema)}


def _outputs(tables: Mapping[str, pa.Table], option: str, names: Sequence[str]) -> list[Any]:
    """All outputs; refused where a name is none of them."""
    outputs: list[Any] = tables["output_name"].to_pylist()
    unknown = set(names) - {row["seq"] for row in outputs}
    if unknown:
        known = ", ".join(row["seq"] for row in outputs)
        text = f"{option} names `{min(unknown)}`, which is no output"
        raise InputError(text, None, f"outputs: {known}")
    return outputs
