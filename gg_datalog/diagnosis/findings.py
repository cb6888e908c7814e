"""The codes of findings, and what each means. A code never changes its meaning; a new meaning gets
a new code. Each has a module of :mod:`gg_datalog.diagnosis.mistakes`, whose page is reference, help
and title at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from importlib import import_module
from pkgutil import iter_modules

from gg_datalog.diagnosis import mistakes
from gg_datalog.diagnosis.mistakes.mistake import Example, Mistake
from gg_datalog.foundation.errors import InputError

__all__ = ["BESIDE", "PAGES", "REPLAYED", "Example", "Mistake", "page"]


class _Pages(Mapping[str, Mistake]):
    """Of every module whose name begins with a code; loaded when it is asked for, as which codes
    there are is asked far more often than what they mean."""

    def __init__(self) -> None:
        names = sorted(module.name for module in iter_modules(mistakes.__path__))
        self._modules = {n.split("_")[0].upper(): n for n in names if n.startswith("gg")}

    def __getitem__(self, code: str) -> Mistake:
        found: Mistake = import_module(f"{mistakes.__name__}.{self._modules[code]}").MISTAKE
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __len__(self) -> int:
        return len(self._modules)


PAGES: Mapping[str, Mistake] = _Pages()
"""All mistakes by their codes."""

# Findings that are worth knowing beside a verdict. Any other code, new ones too, gives a reason
# why an output is not rebuilt: it cannot be turned off.
BESIDE = tuple(code for code in PAGES if code.startswith("GG13"))

REPLAYED = tuple(code for code in PAGES if code.startswith("GG14"))
"""What only an execution says (``gg-datalog replay``)."""


def page(code: str) -> Mistake:
    """What a code means; upper and lower case are the same.

    Raises:
        InputError: there is no such code.
    """
    found = PAGES.get(code.upper())
    if found is None:
        close = get_close_matches(code.upper(), PAGES, 3, 0.5) or list(PAGES)
        hint = f"closest: {', '.join(close)}; `gg-datalog rule --list` shows all"
        raise InputError(f"there is no code `{code}`", None, hint)
    return found
