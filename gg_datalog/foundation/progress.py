"""Progress on stderr, where that is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from gg_datalog.foundation.visible import visible

Progress = Callable[[str], None]


@contextmanager
def progress() -> Iterator[Progress]:
    """A function that shows what is being done; silent where nobody watches."""
    if not sys.stderr.isatty():
        yield lambda text: None
        return
    from rich.console import Console
    from rich.text import Text

    with Console(stderr=True).status("") as status:
        # No markup: texts may name what the user's files name.
        yield lambda text: status.update(Text(visible(text)))
