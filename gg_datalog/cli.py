"""The command line: options here, work in the modules that the commands import."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from gg_datalog.audit.commands import audit
from gg_datalog.foundation.errors import GGError, InputError, is_memory
from gg_datalog.foundation.garbage import collected_seldom
from gg_datalog.foundation.signals import Stopped, end, stoppable
from gg_datalog.foundation.version import __version__
from gg_datalog.foundation.visible import visible
from gg_datalog.proofs.commands import certificate, check, explain
from gg_datalog.settings.defaults import PARAMETERS, configurable

if TYPE_CHECKING:
    from gg_datalog.reporting.targets import Target

ERROR = 2
FILE = click.Path(path_type=Path, dir_okay=False)
FOLDER = click.Path(path_type=Path)
EXIT_CODES = "Exit codes: 0 refines, 1 does not refine, 2 error, 3 inconclusive."

partial_option = click.option(
    "--allow-partial",
    "partial",
    multiple=True,
    metavar="SEQ",
    help="Sequential output that may be an open sum. Repeatable.",
)
layout_option = click.option(
    "--allow-layout",
    "layouts",
    multiple=True,
    metavar="SEQ",
    help="Sequential output whose elements the ranks may return in any order. Repeatable.",
)
operators_option = click.option(
    "--operators",
    multiple=True,
    type=FILE,
    metavar="FILE",
    help="Table of further operators (TOML). Repeatable.",
)


def _targets(_: click.Context, option: click.Parameter, values: Sequence[str]) -> Sequence[Target]:
    from gg_datalog.reporting.targets import parsed

    try:
        return [parsed(value) for value in values]
    except ValueError as error:
        raise click.BadParameter(str(error), param=option) from None


report_option = click.option(
    "--report",
    "targets",
    multiple=True,
    metavar="FORMAT=PATH",
    callback=_targets,
    help="Also write the report there: json, sarif, junit, github, markdown, html. Repeatable.",
)


def _seconds(_: click.Context, option: click.Parameter, value: float | None) -> float | None:
    if value is not None and not 0 < value < 1e9:
        raise click.BadParameter(f"{value} is no number of seconds above 0", param=option)
    return value


def _budget(_: click.Context, option: click.Parameter, value: float | None) -> float | None:
    if value is not None and not 0 <= value < 1e9:
        raise click.BadParameter(f"{value} is no number of seconds", param=option)
    return value


RUN_OPTIONS = (
    click.option(
        "--engine",
        type=click.Choice(["auto", "souffle", "clingo"]),
        default="auto",
        show_default=True,
        help="auto takes souffle where it is on the PATH and usable.",
    ),
    click.option(
        "--format", "form", type=click.Choice(["human", "json"]), default="human", show_default=True
    ),
    click.option(
        "--timeout",
        type=float,
        metavar="SECONDS",
        callback=_seconds,
        help="Give up, with exit code 2, when the rules take longer.",
    ),
    report_option,
    click.option(
        "--repairs/--no-repairs",
        default=True,
        show_default=True,
        help="Try out what would close the gap, where the graphs are still there.",
    ),
    click.option(
        "--confirm",
        type=float,
        metavar="SECONDS",
        callback=_budget,
        help="Execute what is not proved, where torch is installed; 0 for not at all.  "
        "[default: 20]",
    ),
    partial_option,
    layout_option,
    operators_option,
    click.option("--baseline", type=FILE, help="Findings that are known and do not fail the run."),
    click.option("--write-baseline", is_flag=True, help="Make the baseline of what is found."),
    configurable(*PARAMETERS, "severity"),
)


def run_options(command: Callable[..., None]) -> Callable[..., None]:
    """The options of a verdict; the command gets what ``presenting.Asked`` holds."""
    for option in reversed(RUN_OPTIONS):
        command = option(command)
    return command


CAPTURE_OPTIONS = (
    click.option("--world-size", type=click.IntRange(1, 65536), help="How many ranks."),
    click.option(
        "--mode",
        type=click.Choice(["dynamo", "eager"]),
        help="As torch.compile runs it, or as it runs without.  [default: dynamo]",
    ),
    click.option("--backward/--no-backward", default=None, help="Capture gradients, too."),
    click.option("--ranks", metavar="LIST", help="Only these ranks, such as 0,1.  [default: all]"),
    click.option("--relations", type=FILE, help="relations.toml: what inputs hold."),
    click.option("--jobs", type=click.IntRange(0), help="Ranks at a time.  [default: the cores]"),
)
CAPTURED = ("world_size", "mode", "backward", "ranks", "relations", "jobs")


def capture_options(command: Callable[..., None]) -> Callable[..., None]:
    """The options of a capture, which the command gets as ``CAPTURED``."""
    for option in reversed(CAPTURE_OPTIONS):
        command = option(command)
    return command


@click.group(context_settings={"help_option_names": ["-h", "--help"]}, epilog=EXIT_CODES)
@click.version_option(__version__, prog_name="gg-datalog")
def cli() -> None:
    """Checks that a distributed program computes what its sequential original computes."""


@cli.command()
@click.argument("paths", nargs=-1, type=FOLDER, metavar="[CASE_DIR | FILE...]")
@click.option("-o", "--out", "facts", required=True, type=FOLDER, help="Folder for the facts.")
@click.option(
    "--from",
    "reader",
    metavar="FORMAT",
    help="FILEs are of this form: fx-text, hlo, or one that another package reads.",
)
@click.option(
    "--group",
    "named_groups",
    multiple=True,
    metavar="NAME=RANKS",
    help="With --from: the ranks of a process group, such as 12=0,1. Repeatable.",
)
@click.option("--seq", type=FILE, help="Sequential graph, instead of CASE_DIR.")
@click.option("--dist", multiple=True, type=FILE, help="Graph of one rank, in order. Repeatable.")
@click.option("--groups", type=FILE, help="Process groups.")
@click.option("--relations", type=FILE, help="What is known of the inputs.")
@click.option("--outputs", type=FILE, help="The outputs that matter.")
@click.option(
    "--output",
    "chosen",
    multiple=True,
    metavar="SEQ[=DIST]",
    help="An output that matters, and what is meant to hold it. Repeatable.",
)
@partial_option
@operators_option
@click.option(
    "--facts-format",
    "form",
    type=click.Choice(["parquet", "tsv"]),
    default="parquet",
    show_default=True,
    help="tsv is what the souffle binary reads.",
)
@configurable("operators")
def extract(
    paths: Sequence[Path],
    facts: Path,
    reader: str | None,
    named_groups: Sequence[str],
    seq: Path | None,
    dist: Sequence[Path],
    groups: Path | None,
    relations: Path | None,
    outputs: Path | None,
    chosen: Sequence[str],
    partial: Sequence[str],
    operators: Sequence[Path],
    form: str,
) -> None:
    """Turn captured graphs into facts.

    CASE_DIR holds seq.json and dist.r<rank>.json, and where known groups.json, relations.json
    and outputs.json. Options for single files come before what CASE_DIR holds.

    With --from the FILEs are texts: the sequential graph first, then one of each rank (or one
    for all ranks, where the form has that). What was read is kept as a case, in FACTS/case.
    """
    from gg_datalog.commands.extract import Given
    from gg_datalog.foundation.folders import refuse_foreign
    from gg_datalog.foundation.progress import progress

    refuse_foreign(facts, "facts")
    given = Given(paths, reader, named_groups, seq, dist, groups, relations, outputs)
    with progress() as say:
        warnings = given.extract(facts, operators, chosen, partial, form, say)
    for text in warnings:
        click.echo(f"warning: {visible(text)}", err=True)


@cli.command(epilog=EXIT_CODES)
@click.argument("facts", type=FOLDER)
@click.option("-o", "--out", "result", type=FOLDER, help="Result folder.  [default: FACTS/result]")
@run_options
def run(facts: Path, result: Path | None, **asked: Any) -> None:
    """Infer how the tensors of the ranks relate to the sequential ones, and judge the outputs.

    With --operators the graphs, which must still be where they were, are extracted again.
    """
    from gg_datalog.commands.presentation import Asked, run_command

    raise SystemExit(run_command(facts, result or facts / "result", Asked(**asked)))


def _schema(context: click.Context, _: click.Parameter, value: bool) -> None:
    if value and not context.resilient_parsing:
        from gg_datalog.reporting.document import schema

        click.echo(schema(), nl=False)
        context.exit()


@cli.command()
@click.argument("result", type=FOLDER)
@report_option
@click.option(
    "--schema",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_schema,
    help="Print the JSON schema of the json report, and stop.",
)
def report(result: Path, targets: Sequence[Target]) -> None:
    """Present a result once more: for a person, or with --report in other formats.

    PATH may be - for stdout, which then holds that report alone.
    """
    from gg_datalog.foundation.terminal import show
    from gg_datalog.reporting.targets import check, own, write
    from gg_datalog.reporting.text import as_text
    from gg_datalog.result.folder import read_result

    check(targets)
    found, _ = read_result(result)
    write(targets, found, result)
    own(targets)
    if not targets:
        show(as_text(found))


@cli.command()
@click.argument("result", required=False, type=FOLDER)
@click.argument("name", required=False)
@click.argument("tensor", required=False)
@click.option("--sql", help="Any statement, instead of NAME.")
@click.option("--list", "listing", is_flag=True, help="Show the queries there are.")
@click.option("--tables", is_flag=True, help="Show the views that --sql asks first.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "csv", "json"]),
    default="table",
    show_default=True,
)
def query(
    result: Path | None,
    name: str | None,
    tensor: str | None,
    sql: str | None,
    listing: bool,
    tables: bool,
    form: str,
) -> None:
    """Ask a result: NAME is one of the queries that --list shows. `where` asks about one TENSOR."""
    from gg_datalog.commands.query import ask, asked, render, shown

    if listing or tables:
        click.echo(_listed(tables))
        return
    if result is None or (name is None) == (sql is None):
        raise click.UsageError("give RESULT and either NAME or --sql (--list shows the names)")
    answer = ask(result, sql) if sql is not None else asked(result, name or "", tensor)
    if form != "json" and (form == "table" or sys.stdout.isatty()):
        answer = shown(answer)
    click.echo(render(answer, form), nl=False)


def _listed(tables: bool) -> str:
    """The queries, or the views that people ask first."""
    if tables:
        from gg_datalog.reference.views import tables as views

        return views()
    from gg_datalog.queries import listed

    return listed()


@cli.command(epilog=EXIT_CODES)
@click.argument("case_or_facts", type=FOLDER)
@click.option("--seed", type=click.IntRange(0, 2**31 - 1), default=0, show_default=True)
@click.option("--full-size", is_flag=True, help="Keep the captured sizes.")
@click.option(
    "--format", "form", type=click.Choice(["human", "json"]), default="human", show_default=True
)
@partial_option
@layout_option
@operators_option
@configurable("operators", "format")
def replay(case_or_facts: Path, form: str, operators: Sequence[Path], **asked: Any) -> None:
    """Execute both programs (needs torch), and compare outputs and derived relations in numbers.

    Large sizes are reduced, consistently over both graphs, unless --full-size is given.
    """
    from gg_datalog.commands.replay import replayed
    from gg_datalog.foundation.progress import progress
    from gg_datalog.result.report import EXIT_CODE

    with progress() as say:
        text, verdict = replayed(case_or_facts, form, operators, say, **asked)
    click.echo(text)
    raise SystemExit(EXIT_CODE[verdict])


@cli.command()
@click.argument("program", metavar="MODULE:FUNCTION")
@click.option("-o", "--out", "case", required=True, type=FOLDER, help="Folder for the case.")
@capture_options
def capture(program: str, case: Path, **options: Any) -> None:
    """Capture a program with torch: a case for extract and replay.

    FUNCTION takes nothing and returns build and make_inputs, or a mapping of the arguments of
    gg_datalog.capture. MODULE is imported as python would from the current folder.
    """
    from gg_datalog.commands.capture import captured_case
    from gg_datalog.foundation.folders import refuse_foreign
    from gg_datalog.foundation.progress import progress

    refuse_foreign(case, "case")
    with progress() as say:
        lines = captured_case(program, case, options, say)
    for line in lines:
        click.echo(visible(line), err=True)


@cli.command(epilog=EXIT_CODES)
@click.argument("program", metavar="CASE_DIR | MODULE:FUNCTION")
@click.option("-o", "--out", "folder", type=FOLDER, help="Keep case, facts and result in it.")
@capture_options
@run_options
def verify(program: str, folder: Path | None, **options: Any) -> None:
    """Capture, extract and run in one: the verdict on a case, or on a program (needs torch)."""
    from gg_datalog.commands.presentation import Asked, verify_command

    captured = {name: options.pop(name) for name in CAPTURED}
    raise SystemExit(verify_command(program, folder, captured, Asked(**options)))


@cli.command()
@click.argument("code", required=False)
@click.option("--list", "listing", is_flag=True, help="Show all codes.")
def rule(code: str | None, listing: bool) -> None:
    """Say what the CODE of a finding means, why it matters and what to do, with an example."""
    from gg_datalog.diagnosis.findings import page
    from gg_datalog.reference.pages import as_text, listed

    if listing == (code is not None):
        raise click.UsageError("give either a CODE, such as GG108, or --list")
    click.echo(listed() if code is None else as_text(page(code)))


@cli.command()
def rules() -> None:
    """Print the rules as one program in Soufflé's language.

    The souffle binary runs it by hand on facts that are text:
    `souffle -F facts/ rules.dl`, after `gg-datalog extract ... --facts-format tsv`.
    """
    from gg_datalog.datalog import program_path
    from gg_datalog.engine.one_text import one_text

    click.echo(one_text(program_path()), nl=False)


@cli.command()
def doctor() -> None:
    """Say what is installed and usable."""
    from gg_datalog.commands.doctor import findings

    lines, usable = findings()
    click.echo("\n".join(map(visible, lines)))
    if not usable:
        raise SystemExit(ERROR)


for command in (explain, certificate, check, audit):
    cli.add_command(command)


def main() -> NoReturn:
    """Entry point: whatever happens, one message and the exit code that belongs to it."""
    stopped: Stopped | None = None
    collected_seldom()
    try:
        with stoppable():
            cli(standalone_mode=False, prog_name="gg-datalog")
    except SystemExit as stop:
        _leave(stop.code if isinstance(stop.code, int) else ERROR)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
    except click.ClickException as error:
        _shown(error).show()
    except click.exceptions.Exit as stop:
        _leave(stop.exit_code)
    except (click.Abort, KeyboardInterrupt) as error:
        stopped = error if isinstance(error, Stopped) else None
        click.echo("interrupted", err=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except GGError as error:
        click.echo(f"error: {error}", err=True)
    except OSError as error:
        where = None if error.filename is None else os.fsdecode(error.filename)
        click.echo(f"error: {InputError(error.strerror or str(error), where)}", err=True)
    except Exception as error:
        if os.environ.get("GG_DATALOG_DEBUG"):
            traceback.print_exc()
        click.echo(f"error: {_unexpected(error)}", err=True)
    else:
        _leave(0)
    if stopped is not None:
        end(stopped.number)
    sys.exit(ERROR)


def _shown(error: click.ClickException) -> click.ClickException:
    """The same error in a text that can be shown: it repeats what the command line holds."""
    text = visible(error.format_message())
    if isinstance(error, click.UsageError):
        return click.UsageError(text, error.ctx)
    return click.ClickException(text)


def _leave(code: int) -> NoReturn:
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code)


def _unexpected(error: Exception) -> InputError:
    text = " ".join(str(error).split())[:300]
    if is_memory(error):
        return InputError(
            f"no memory is left: {text}".rstrip(": "),
            None,
            "free some, or use a machine with more of it",
        )
    return InputError(
        f"something that should not happen: {type(error).__name__}: {text}",
        None,
        "please report this; GG_DATALOG_DEBUG=1 shows where it happened",
    )
