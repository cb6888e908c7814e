"""The commands that tell why: explain, certificate, check."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from gg_datalog.foundation.visible import visible, visible_json

FILE = click.Path(path_type=Path, dir_okay=False)
FOLDER = click.Path(path_type=Path)
NOT_ALL = 1
WIDE = 10_000
"""Columns where no terminal reads along."""


@click.command()
@click.argument("result", type=FOLDER)
@click.argument("tensor")
@click.option("--rank", type=click.IntRange(0), help="What this rank has of it.")
@click.option("--depth", type=click.IntRange(0), help="Levels of premises to show.  [default: 6]")
@click.option(
    "--format", "form", type=click.Choice(["human", "json"]), default="human", show_default=True
)
def explain(result: Path, tensor: str, rank: int | None, depth: int | None, form: str) -> None:
    """Why a relation holds, down to the input relations; or what it would have needed.

    TENSOR is a node: add_1 of the sequential graph, r0.mm_5 of a rank, or mm_5 with --rank.
    """
    from gg_datalog.foundation.progress import progress
    from gg_datalog.proofs.explaining import explain as explained
    from gg_datalog.proofs.explanation import as_json, as_tree

    with progress() as say:
        say("looking for the steps")
        found = explained(result, tensor, rank, depth)
    if form == "json":
        click.echo(as_json(found))
        return
    terminal = sys.stdout.isatty()
    width = click.get_current_context().terminal_width or _columns() if terminal else WIDE
    click.echo(as_tree(found, width, terminal))


def _columns() -> int:
    from shutil import get_terminal_size

    return get_terminal_size().columns


@click.command()
@click.argument("result", type=FOLDER)
@click.option("-o", "--out", "proof", required=True, type=FILE, help="File for the certificate.")
def certificate(result: Path, proof: Path) -> None:
    """Write for each mapped output the steps that prove it, for `check`."""
    from gg_datalog.foundation.folders import adopt
    from gg_datalog.foundation.progress import progress
    from gg_datalog.foundation.whole import replace_file
    from gg_datalog.proofs.certifying import as_text
    from gg_datalog.proofs.certifying import certificate as certified

    with progress() as say:
        document = certified(result, say)
        replace_file(proof, visible_json(as_text(document)).encode())
        adopt(proof)
    outputs = len(document["outputs"])
    proved = f"{outputs} output{'s' if outputs > 1 else ''}"
    click.echo(f"{len(document['steps'])} steps prove {proved}", err=True)


@click.command()
@click.argument("proof", type=FILE)
@click.argument("facts", type=FOLDER)
def check(proof: Path, facts: Path) -> None:
    """Validate a certificate against facts, step by step, without the engine and its rules.

    Ends with 0 where every step follows and every output is proved, with 1 where one is not, with
    2 on bad input.
    """
    from gg_datalog.foundation.progress import progress
    from gg_datalog.proofs.checking import NotProved, checked

    try:
        with progress() as say:
            text, complete = checked(proof, facts, say)
    except NotProved as error:
        click.echo(f"error: {error}", err=True)
        raise SystemExit(NOT_ALL) from None
    click.echo(visible(text))
    if not complete:
        raise SystemExit(NOT_ALL)
