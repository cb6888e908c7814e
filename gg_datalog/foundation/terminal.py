"""A report on a terminal, in colour; anywhere else the same text without."""

from __future__ import annotations

import sys

import click

STYLES = (
    (r"\A(REFINES)\b.*", "bold green"),
    (r"\A(DOES NOT REFINE)\b.*", "bold red"),
    (r"\A(INCONCLUSIVE)\b.*", "bold yellow"),
    (r"(?m)^(ACCEPTED|FAILS)\b", "bold yellow"),
    (r"(?m)^[a-z][^\n]*$(?=\n  )", "bold"),
    (r"(?m)^  GG\d+ error\b", "red"),
    (r"(?m)^  GG\d+ warning\b", "yellow"),
    (r"(?m)^  GG\d+ note\b", "blue"),
    (r"(?m)  mapped(?=  |$)", "green"),
    (r"(?m)  unmapped(, accepted)?$", "red"),
    (r"(?m)  inconclusive(, accepted)?$", "yellow"),
    (r"`[^`\n]+`", "cyan"),
    (r"(?m)^      [a-z ]+:", "dim"),
)


def show(text: str) -> None:
    """Prints a report that was rendered as text; ``NO_COLOR`` turns colours off."""
    if not sys.stdout.isatty():
        click.echo(text)
        return
    from rich.console import Console
    from rich.text import Text

    coloured = Text(text)
    for pattern, style in STYLES:
        coloured.highlight_regex(pattern, style)
    Console(highlight=False).print(coloured, soft_wrap=True)
