"""``gg-datalog audit``: options here, work in the modules that the commands import."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gg_datalog.audit.comparing import again, diff, merge
from gg_datalog.foundation.visible import visible

if TYPE_CHECKING:
    from gg_datalog.audit.folder import Shard
    from gg_datalog.reporting.targets import Target

FOLDER = click.Path(path_type=Path, file_okay=False)
FILE = click.Path(path_type=Path, dir_okay=False)
PLACE = click.Path(path_type=Path)
EXIT_CODES = (
    "Exit codes: 0 all items are as expected, 1 some are not, 2 error, 3 those that are not are "
    "inconclusive."
)
DEFAULT = "run"


class WithDefault(click.Group):
    """A group whose first argument may be the name of a command, else what ``run`` takes. A path
    that is called as a command is given as ``./status``."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that is meant."""
        if args and args[0] not in self.commands:
            args = [DEFAULT, *args]
        return super().resolve_command(ctx, args)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Options before the first argument are those of ``run``, but for ``--help``."""
        if args and args[0].startswith("-") and args[0] not in ctx.help_option_names:
            args = [DEFAULT, *args]
        return super().parse_args(ctx, args)

    def format_usage(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Both ways to call it."""
        formatter.write_usage(ctx.command_path, "PATH|PLAN.toml -o DIR [OPTIONS]")
        formatter.write_usage(ctx.command_path, "COMMAND DIR [ARGS]...")


@click.group(cls=WithDefault, epilog=EXIT_CODES)
def audit() -> None:
    """Check many pairs: every case below a folder, or what a plan names, each in a process of its
    own, with all results in one table.

    `gg-datalog audit run --help` has the options of the first form.
    """


def _shard(_: click.Context, option: click.Parameter, value: str | None) -> Shard:
    from gg_datalog.audit.folder import Shard

    if value is None:
        return Shard()
    found = re.fullmatch(r"(\d+)/(\d+)", value)
    if found is None or not 1 <= int(found[1]) <= int(found[2]):
        raise click.BadParameter(f"{value!r} is not i/n, such as 3/8", param=option)
    return Shard(int(found[1]), int(found[2]))


RUN_OPTIONS = (
    click.option("--jobs", type=click.IntRange(1, 4096), help="Items at a time.  [default: cores]"),
    click.option(
        "--ray",
        metavar="ADDRESS|auto",
        help="Run items on the nodes of this Ray cluster; --jobs then limits them all together.",
    ),
    click.option("--only", multiple=True, metavar="GLOB", help="Only such items. Repeatable."),
    click.option("--shard", metavar="I/N", callback=_shard, help="Only this part of the items."),
    click.option(
        "--keep",
        type=click.Choice(["facts", "failures", "none"]),
        default="failures",
        show_default=True,
        help="Of which items facts, relations and an own report are kept: all, those that do not "
        "refine, or none.",
    ),
)  # fmt: skip


def run_options(command: Callable[..., None]) -> Callable[..., None]:
    """The options of what runs items."""
    for option in reversed(RUN_OPTIONS):
        command = option(command)
    return command


def _targets(_: click.Context, option: click.Parameter, values: Sequence[str]) -> Sequence[Target]:
    from gg_datalog.audit.reports import FORMATS
    from gg_datalog.reporting.targets import parsed

    try:
        return [parsed(value, FORMATS) for value in values]
    except ValueError as error:
        raise click.BadParameter(str(error), param=option) from None


report_option = click.option(
    "--report",
    "targets",
    multiple=True,
    metavar="FORMAT=PATH",
    callback=_targets,
    help="Also write the report there: html, junit, sarif, markdown, json. Repeatable.",
)


@audit.command(DEFAULT, hidden=True, epilog=EXIT_CODES)
@click.argument("path", metavar="PATH|PLAN.toml", type=PLACE)
@click.option("-o", "--out", type=FOLDER, help="Folder of the audit; an audit in it goes on.")
@run_options
@click.option("--list", "listing", is_flag=True, help="Show the items, and run nothing.")
@report_option
def run(
    path: Path, out: Path | None, listing: bool, targets: Sequence[Target], **options: Any
) -> None:
    """Run every case below a folder, or what a plan names."""
    from gg_datalog.audit.running import Asked, planned_items, run_audit

    asked = Asked(**options)
    if listing:
        for item in planned_items(path, asked)[1]:
            click.echo(visible(f"{item.name}  {item.kind}, expected {' or '.join(item.expect)}"))
        return
    if out is None:
        raise click.UsageError("give the folder of the audit with -o, or --list")
    _checked(targets)
    tally = run_audit(path, out, asked)
    _present(out, targets)
    raise SystemExit(tally.exit_code())


def _checked(targets: Sequence[Target]) -> None:
    from gg_datalog.reporting.targets import STDOUT, check

    if any(target.path == STDOUT for target in targets):
        raise click.UsageError("stdout holds the summary: use `gg-datalog audit report` for `-`")
    check(targets)


def _present(folder: Path, targets: Sequence[Target]) -> None:
    """The summary on stdout, unless a report is asked for there; and all reports."""
    from gg_datalog.audit.folder import opened
    from gg_datalog.audit.reports import write
    from gg_datalog.audit.summary import as_text
    from gg_datalog.reporting.targets import STDOUT

    found = opened(folder)
    write(targets, found)
    if not any(target.path == STDOUT for target in targets):
        click.echo(as_text(found))


@audit.command()
@click.argument("folder", metavar="DIR", type=FOLDER)
@click.option(
    "--format", "form", type=click.Choice(["human", "json"]), default="human", show_default=True
)
def status(folder: Path, form: str) -> None:
    """Say how far an audit is, and how its items ended."""
    import json

    from gg_datalog.audit.folder import opened
    from gg_datalog.audit.summary import headline, read_status

    found = read_status(opened(folder))
    if form == "json":
        document = {"total": found.total, "pending": found.pending, "statuses": found.counts}
        click.echo(json.dumps({**document, "unexpected": found.unexpected}, indent=1))
        return
    click.echo(headline(found))
    for name, count in found.counts.items():
        click.echo(f"  {name:<16} {count}")


@audit.command(epilog="Exit codes: 0, however the items ended; 2 error.")
@click.argument("folder", metavar="DIR", type=FOLDER)
@report_option
def report(folder: Path, targets: Sequence[Target]) -> None:
    """Present an audit: in words, or with --report in other formats."""
    from gg_datalog.audit.folder import opened
    from gg_datalog.reporting.targets import check

    check(targets)
    opened(folder)
    _present(folder, targets)


@audit.command()
@click.argument("folder", metavar="DIR", required=False, type=FOLDER)
@click.argument("name", required=False)
@click.option("--sql", help="Any statement that reads, instead of NAME.")
@click.option("--list", "listing", is_flag=True, help="Show the queries there are.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "csv", "json"]),
    default="table",
    show_default=True,
)
def query(folder: Path | None, name: str | None, sql: str | None, listing: bool, form: str) -> None:
    """Ask everything that ran: NAME is one of the queries that --list shows."""
    from gg_datalog.audit.database import asked_by_user
    from gg_datalog.audit.folder import opened
    from gg_datalog.commands.query import render, shown
    from gg_datalog.queries import listed, statement

    if listing:
        click.echo(listed("audit"))
        return
    if folder is None or (name is None) == (sql is None):
        raise click.UsageError("give DIR and either NAME or --sql (--list shows the names)")
    answer = asked_by_user(opened(folder), sql or statement(name or "", "audit"))
    if form == "table" or (form == "csv" and sys.stdout.isatty()):
        answer = shown(answer)
    click.echo(render(answer, form), nl=False)


for command in (diff, merge, again):
    audit.add_command(command)
