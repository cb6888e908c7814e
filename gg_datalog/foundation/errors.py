"""The one error tree: every error says what happened, where, and what to do about it."""

from __future__ import annotations

from gg_datalog.foundation.visible import visible


class GGError(Exception):
    """An error for the user: ``what`` happened, ``where``, and a ``hint`` on what to do.

    As text it can be shown: names in it come from the user's files (:func:`visible`)."""

    def __init__(self, what: str, where: str | None = None, hint: str | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.hint = hint

    def __str__(self) -> str:
        text = visible(self.what if self.where is None else f"{self.where}: {self.what}")
        return text if self.hint is None else f"{text}\n  {visible(self.hint)}"


class InputError(GGError):
    """The graphs, relations, facts or options given by the user are not usable."""


class EngineError(GGError):
    """The rules could not be run: engine missing, program refused, time limit, crash."""


def is_memory(error: BaseException) -> bool:
    """Did Python or DuckDB find no more memory?"""
    return isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryException"
