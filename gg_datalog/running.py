"""``run``: facts in, a result folder and a report out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from gg_datalog.cases import extracted_again
from gg_datalog.database import DATABASE, complete, create
from gg_datalog.documentation import program_path
from gg_datalog.engine import select_engine
from gg_datalog.errors import InputError
from gg_datalog.extract import CaseFiles, extract_case
from gg_datalog.extract.schema import RULE_RELATIONS, SCHEMA_VERSION
from gg_datalog.folders import refuse_foreign, replaced_folder, write_manifest
from gg_datalog.progress import Progress
from gg_datalog.report import Finding, Report, as_json
from gg_datalog.settings.policy import Policy
from gg_datalog.store import read_facts, write_parquet

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

    from gg_datalog.engine import Engine, EngineResult

REPORT = "report.json"


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


def run_facts(facts: Path, result: Path, options: Options, progress: Progress) -> Report:
    """Runs the rules over a facts folder and writes the result folder."""
    started = perf_counter()
    engine = select_engine(options.engine)
    progress("reading facts")
    tables, case = read_facts(facts)
    refuse_foreign(result, "result")
    if operators := _operators(case, options):
        tables = extracted_again(case, operators, progress)
        added = [str(path.absolute()) for path in operators]
        case = {**case, "operators": [*case["operators"], *added]}
    tables = _with_partial(tables, _partial(tables, options))
    if not tables["wanted"].num_rows:
        raise InputError(
            "the facts have no outputs to check", str(facts), "extract with --output SEQ[=DIST]"
        )
    read = perf_counter() - started
    inputs = {relation.name: tables[relation.name] for relation in RULE_RELATIONS}
    with replaced_folder(result, "result") as fresh, ThreadPoolExecutor(1) as beside:
        stored = beside.submit(create, fresh / DATABASE, tables)
        found = engine.run(program_path(), inputs, timeout=options.timeout, progress=progress)
        progress("writing the result")
        seconds = {"read facts": read, **{k: v for k, v in found.seconds.items() if k != "total"}}
        run = _Run(options, case, tables, found, engine)
        report = _write(fresh, stored, run, seconds, progress)
        counts = {name: table.num_rows for name, table in found.relations.items()}
        content = {"relations": counts, "facts": str(facts.absolute()), "case": case}
        write_manifest(fresh, "result", {"schema_version": SCHEMA_VERSION, **content})
    return report


@dataclass(frozen=True)
class _Run:
    """What was run, and what came out."""

    options: Options
    case: Mapping[str, Any]
    facts: Mapping[str, pa.Table]
    found: EngineResult
    engine: Engine


def _write(
    fresh: Path,
    stored: Future[duckdb.DuckDBPyConnection],
    run: _Run,
    seconds: dict[str, float],
    progress: Progress,
) -> Report:
    from gg_datalog.judging import judge

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
    with stored.result() as database:
        complete(database, found.relations)
        report = run.options.policy.applied(Report(*judge(database), engine=about, stats=stats))
        seconds["judge and write"] = perf_counter() - started
        if run.options.repairs and report.verdict == "does-not-refine":
            report = replace(report, findings=_repaired(database, run, report, seconds, progress))
    stats["seconds"] = {phase: round(took, 4) for phase, took in seconds.items()}
    (fresh / REPORT).write_text(as_json(report) + "\n", encoding="utf-8")
    return report


def _operators(case: Mapping[str, Any], options: Options) -> list[Path]:
    known = case.get("operators", ()) if "operators" in options.configured else ()
    return [path for path in options.operators if str(path.absolute()) not in known]


def _partial(tables: Mapping[str, pa.Table], options: Options) -> list[str]:
    if "partial" not in options.configured:
        return list(options.partial)
    outputs = set(tables["output_name"].column("seq").to_pylist())
    return [name for name in options.partial if name in outputs]


def _repaired(
    database: duckdb.DuckDBPyConnection,
    run: _Run,
    report: Report,
    seconds: dict[str, float],
    progress: Progress,
) -> list[Finding]:
    """The findings with repairs that were tried out."""
    from gg_datalog.repairs import Ran, with_repairs

    def extract(files: CaseFiles) -> dict[str, pa.Table]:
        operators = [Path(path) for path in run.case["operators"]]
        tables = extract_case(files, operators)
        return _with_partial(tables, _partial(tables, run.options))

    started, took = perf_counter(), run.found.seconds.get("total", 0.0)
    limits = (took, run.options.timeout)
    ran = Ran(database, run.case, run.facts, run.found.relations, run.engine, *limits, extract)
    findings = with_repairs(ran, report.findings, progress)
    seconds["try repairs"] = perf_counter() - started
    return findings


def _with_partial(tables: dict[str, pa.Table], names: Sequence[str]) -> dict[str, pa.Table]:
    """The facts with these outputs declared partial."""
    if not names:
        return tables
    import pyarrow as pa

    outputs = tables["output_name"].to_pylist()
    unknown = set(names) - {row["seq"] for row in outputs}
    if unknown:
        known = ", ".join(row["seq"] for row in outputs)
        raise InputError(
            f"--allow-partial names `{min(unknown)}`, which is no output", None, f"outputs: {known}"
        )
    for row in outputs:
        row["partial"] = int(row["partial"] or row["seq"] in names)
    rows = [{"wants": row["wants"]} for row in outputs if row["partial"]]
    return {
        **tables,
        "output_name": pa.Table.from_pylist(outputs, tables["output_name"].schema),
        "may_be_partial": pa.Table.from_pylist(rows, tables["may_be_partial"].schema),
    }
