"""Every command with its options, as ``docs/commands.md``: what ``--help`` says, with links.

`make docs` writes it; the command line is given, since it lies above the reference.
"""

from __future__ import annotations

from collections.abc import Iterator
from inspect import cleandoc

import click

NAME = "gg-datalog"
INTRODUCTION = """\
# Commands

Written by `make docs` from the command line itself; do not edit. `gg-datalog COMMAND --help` says
the same.

| exit code | meaning |
| --- | --- |
| 0 | refines: every output that matters is rebuilt |
| 1 | does not refine: a difference is shown for some output, or collectives do not line up |
| 2 | error: usage, bad input, engine; one message on stderr, nothing written |
| 3 | inconclusive: for some output there is neither a proof nor a difference |

As verdicts 0, 1 and 3 are those of `run`, `verify` and `replay`; a
[baseline](ci.md#baseline) or a [severity](configuration.md) may change the exit code, never the
verdict. `check` ends with 1 where a certificate does not hold or does not prove every output, and
the commands of `audit` say how they end. The others end with 0 or 2.

The report alone is on stdout; progress and warnings are on stderr. Files and folders appear
complete or not at all, however a command ends, and only
[what gg-datalog wrote](format.md#folders-that-are-written) is ever replaced.
"""
# Where a command is told about at length.
PAGES = {
    "audit": ("audit.md",),
    "capture": ("capture.md",),
    "certificate": ("certificates.md",),
    "check": ("certificates.md",),
    "explain": ("certificates.md",),
    "extract": ("format.md", "readers.md", "operators.md"),
    "query": ("asking.md", "views.md"),
    "replay": ("replay.md",),
    "report": ("reports.md",),
    "rule": ("findings.md",),
    "run": ("reports.md", "repairs.md", "configuration.md"),
    "verify": ("ci.md", "configuration.md"),
}


def reference(cli: click.Group) -> str:
    """All commands of the command line, as Markdown."""
    commands = sorted(cli.commands.items())
    rows = (f"| [`{name}`](#{name}) | {_line(command)} |" for name, command in commands)
    table = "\n".join(["| command | what it does |", "| --- | --- |", *rows]) + "\n"
    return "\n".join([INTRODUCTION, table, *(_section(*one) for one in commands)])


def _line(command: click.Command) -> str:
    """The first sentence of a command's help."""
    return cleandoc(command.help or "").partition("\n\n")[0].replace("\n", " ")


def _section(name: str, command: click.Command, level: int = 2) -> str:
    context = click.Context(command, info_name=f"{NAME} {name}")
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    parts = [f"{'#' * level} {name}", _escaped(cleandoc(command.help or ""))]
    parts += [f"```text\n{usage}\n```", "\n".join(_options(command, context)), command.epilog or ""]
    if name in PAGES:
        parts.append(f"More: {', '.join(f'[{page}]({page})' for page in PAGES[name])}.")
    inner = sorted(command.commands.items()) if isinstance(command, click.Group) else []
    parts += [_section(f"{name} {one}", found, level + 1).rstrip() for one, found in inner]
    return "\n\n".join(filter(None, parts)) + "\n"


def _options(command: click.Command, context: click.Context) -> Iterator[str]:
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record is not None and parameter.name != "help":
            flags, text = record
            yield f"- `{flags}`: {_escaped(' '.join(text.split()))}"


def _escaped(text: str) -> str:
    """Text of a terminal, without what Markdown would take for a tag."""
    return text.replace("<", "&lt;")
