"""What cannot be captured, and where in the user's code."""

from __future__ import annotations

import re
import traceback
from collections.abc import Sequence
from linecache import getline
from pathlib import Path
from types import TracebackType

from gg_datalog.foundation.errors import InputError
from gg_datalog.tracing.source import is_library, shown_path

OURS = str(Path(__file__).resolve().parent)


class Refused(Exception):
    """Something in the program that capture does not follow: ``what``, and what to do."""

    def __init__(self, what: str, hint: str) -> None:
        super().__init__(what)
        self.what, self.hint = what, hint


VALUES = (
    "a value of a tensor steers the program: captured tensors hold no values. Decide by shapes or "
    "configuration, or with torch.where"
)
WITHOUT = "build the module without it, and reduce the gradients in step(module)"
HINTS = {
    "DataDependentOutputException": VALUES,
    "GuardOnDataDependentSymNode": VALUES,
    "DynamicOutputShapeException": "the size of a result depends on data, which capture does not "
    "follow here",
    "Unsupported": 'what torch.compile cannot trace, mode="eager" may',
}
# What torch says after what happened.
ADVICE = re.compile(
    r" (Hint: |Developer debug context|While executing |Original traceback|For more details|"
    r"Enable TORCH_|Use tlparse|The branch condition |If you're using |To fix this, ).*"
)
FRAME = re.compile(r'File "([^"]+)", line (\d+), in ([^\s,]+)')


def refusal(error: BaseException, who: str, doing: str) -> InputError:
    """One message for whatever went wrong: which rank, what, and the line of the user's code."""
    if isinstance(error, InputError):
        return InputError(error.what, error.where or who, error.hint)
    where = user_line(error.__traceback__) or _told_line(error)
    at = who if where is None else f"{who}, {where}"
    if isinstance(error, Refused):
        return InputError(f"{doing} failed: {error.what}", at, error.hint)
    text = ADVICE.sub("", " ".join(str(error).split())).replace(" Explanation: ", ": ")
    what = f"{type(error).__name__}: {text[:400]}"
    return InputError(f"{doing} failed: {what}", at, _hint(error, text) or "see docs/capture.md")


def _hint(error: BaseException, text: str) -> str | None:
    files = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
    if any("/distributed/fsdp/" in f or f.endswith("nn/parallel/distributed.py") for f in files):
        return WITHOUT
    return VALUES if text.startswith("Data-dependent") else HINTS.get(type(error).__name__)


def user_line(trace: TracebackType | None) -> str | None:
    """``file:line in function: code`` of the innermost frame outside torch and this package."""
    return _line([(f.filename, f.lineno or 0, f.name) for f in traceback.extract_tb(trace)])


def _told_line(error: BaseException) -> str | None:
    """The same for code that is traced, of which torch's own error tells the lines."""
    found = [(f.filename, f.lineno or 0, f.name) for f in getattr(error, "real_stack", None) or ()]
    told = [(file, int(line), name) for file, line, name in FRAME.findall(str(error))]
    return _line(found) or _line(told)


def _line(frames: Sequence[tuple[str, int, str]]) -> str | None:
    outside = [frame for frame in frames if not is_library(frame[0])]
    if not outside:
        return None
    file, line, name = outside[-1]
    return f"{shown_path(file)}:{line} in {name}: {getline(file, line).strip()}"
