"""What cannot be captured, and where in the user's code."""

from __future__ import annotations

import traceback
from pathlib import Path
from types import TracebackType

from gg_datalog.errors import InputError

OURS = str(Path(__file__).resolve().parent)


class Refused(Exception):
    """Something in the program that capture does not follow: ``what``, and what to do."""

    def __init__(self, what: str, hint: str) -> None:
        super().__init__(what)
        self.what, self.hint = what, hint


HINTS = {
    "DataDependentOutputException": "a value of a tensor steers the program: captured tensors hold "
    "no values. Decide by shapes or configuration, or with torch.where",
    "GuardOnDataDependentSymNode": "a value of a tensor steers the program: captured tensors hold "
    "no values. Decide by shapes or configuration, or with torch.where",
    "DynamicOutputShapeException": "the size of a result depends on data, which capture does not "
    "follow here",
    "Unsupported": 'what torch.compile cannot trace, mode="eager" may',
}


def refusal(error: BaseException, who: str, doing: str) -> InputError:
    """One message for whatever went wrong: which rank, what, and the line of the user's code."""
    if isinstance(error, InputError):
        return InputError(error.what, error.where or who, error.hint)
    where = user_line(error.__traceback__)
    text = " ".join(str(error).split())
    kind = type(error).__name__
    what = error.what if isinstance(error, Refused) else f"{kind}: {text[:400]}"
    hint = error.hint if isinstance(error, Refused) else HINTS.get(kind)
    at = who if where is None else f"{who}, {where}"
    return InputError(f"{doing} failed: {what}", at, hint or "see docs/capture.md")


def user_line(trace: TracebackType | None) -> str | None:
    """``file:line in function: code`` of the innermost frame outside torch and this package."""
    from gg_datalog.tracing.source import is_library, shown_path

    frames = [f for f in traceback.extract_tb(trace) if not is_library(f.filename)]
    if not frames:
        return None
    frame = frames[-1]
    return f"{shown_path(frame.filename)}:{frame.lineno} in {frame.name}: {frame.line}"
