"""``gg-datalog audit diff``, ``merge`` and ``again``: what is done with audits that have run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from gg_datalog.audit.differences import Differences

FOLDER = click.Path(path_type=Path, file_okay=False)
FILE = click.Path(path_type=Path, dir_okay=False, exists=True)
EXIT_CODES = "Exit codes: 0 nothing is worse, 1 something is, 2 error."

format_option = click.option(
    "--format", "form", type=click.Choice(["human", "json"]), default="human", show_default=True
)
slower_option = click.option(
    "--slower",
    type=click.FloatRange(1, min_open=True),
    metavar="FACTOR",
    help="Items that take so many times the CPU seconds count as worse.  [default: those that take "
    "twice as many are shown, and do not count]",
)


@click.command(epilog=EXIT_CODES)
@click.argument("before", metavar="BEFORE", type=FOLDER)
@click.argument("after", metavar="AFTER", type=FOLDER)
@slower_option
@format_option
def diff(before: Path, after: Path, slower: float | None, form: str) -> None:
    """Say what became of the items of an audit in another one: new and fixed findings, items that
    ended otherwise, flap or are slower."""
    from gg_datalog.audit.differences import compared
    from gg_datalog.audit.folder import opened

    _shown(compared(opened(before), opened(after), slower), form)


def _shown(told: Differences, form: str) -> None:
    """Shows differences, and ends with the exit code for them."""
    import json

    from gg_datalog.audit.differences_text import as_text
    from gg_datalog.foundation.visible import visible_json

    if form == "json":
        click.echo(visible_json(json.dumps(told.document(), indent=1, ensure_ascii=False)))
    else:
        click.echo(as_text(told))
    raise SystemExit(1 if told.worse() else 0)


@click.command()
@click.argument("out", metavar="OUT", type=FOLDER)
@click.argument("parts", metavar="PART...", type=FOLDER, nargs=-1, required=True)
def merge(out: Path, parts: Sequence[Path]) -> None:
    """Make one audit of those of an array job's tasks, each run with --shard in a folder of its
    own. OUT may be an audit, which is added to."""
    from gg_datalog.audit.merging import merge as merged
    from gg_datalog.audit.summary import as_text
    from gg_datalog.foundation.progress import progress

    with progress() as say:
        folder = merged(out, parts, say)
    click.echo(as_text(folder))


@click.command(epilog=EXIT_CODES)
@click.argument("folder", metavar="AUDIT", type=FOLDER)
@click.option("--operators", multiple=True, type=FILE, help="More operators (TOML). Repeatable.")
@click.option("--rules", type=FOLDER, metavar="DIR", help="Other rules: a folder with a main.dl.")
@click.option("-o", "--out", type=FOLDER, help="Keep the second audit there; it can be gone on.")
@click.option("--jobs", type=click.IntRange(1, 4096), help="Items at a time.  [default: cores]")
@click.option("--only", multiple=True, metavar="GLOB", help="Only such items. Repeatable.")
@slower_option
@format_option
def again(
    folder: Path,
    operators: Sequence[Path],
    rules: Path | None,
    out: Path | None,
    jobs: int | None,
    only: Sequence[str],
    slower: float | None,
    form: str,
) -> None:
    """Run what an audit has stored again, with more operators or with other rules, and say what
    changes. Nothing is captured, and the audit stays as it is."""
    from gg_datalog.audit.again import what_if
    from gg_datalog.audit.folder import opened
    from gg_datalog.audit.running import Asked

    if not operators and rules is None:
        raise click.UsageError("give --operators, --rules or both")
    with _folder(out) as place:
        asked = Asked(jobs=jobs, only=only)
        told = what_if(opened(folder), place, operators, rules, asked, slower)
        _shown(told, form)


@contextmanager
def _folder(out: Path | None) -> Iterator[Path]:
    """A folder for an audit, one that is gone afterwards where none is given."""
    from tempfile import TemporaryDirectory

    if out is not None:
        yield out
        return
    with TemporaryDirectory(prefix="gg-datalog-") as place:
        yield Path(place, "audit")
