"""``capture``: which program the user means, and whether torch is there to capture with."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from gg_datalog.foundation.errors import GGError, InputError
from gg_datalog.foundation.progress import Progress

if TYPE_CHECKING:
    from gg_datalog.tracing import Pair

INSTALL = "install it: pip install 'gg-datalog[torch]'"


def tracing() -> ModuleType:
    """The package that captures; one message where torch is missing or cannot be used."""
    if find_spec("torch") is None:
        raise InputError(
            "capture traces programs with torch, which is not installed", None, INSTALL
        )
    try:
        from gg_datalog import tracing as package
    except (ImportError, OSError) as error:
        raise InputError(
            f"torch is installed, but cannot be used: {str(error).strip() or type(error).__name__}",
            None,
            INSTALL,
        ) from None
    return package


def captured_case(
    program: str, case: Path, options: Mapping[str, Any], progress: Progress
) -> list[str]:
    """Captures what MODULE:FUNCTION describes into a case folder; what there is to say of it.
    ``options`` are those of the command line; None where one is not given."""
    tracing()
    with _stdout_kept_clean():
        pair = captured(program, described(program), options, progress)
    pair.save(case)
    return list(_said(pair.documents.about))


def captured(
    program: str, arguments: Mapping[str, Any], options: Mapping[str, Any], progress: Progress
) -> Pair:
    """Captures what a program is described by. ``options`` are those of the command line, which
    go before; None where one is not given."""
    package = tracing()
    given = {key: value for key, value in options.items() if value is not None}
    _check_world_size(program, arguments, given)
    if "ranks" in given:
        given["ranks"] = _numbers(given["ranks"])
    try:
        pair: Pair = package.capture(**{**arguments, **given}, progress=progress)
    except TypeError as error:
        raise InputError(
            f"what it returns does not suit capture: {error}", program, DESCRIBE
        ) from None
    return pair


def _check_world_size(program: str, arguments: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    size = arguments.get("world_size", given.get("world_size"))
    if size is None:
        raise InputError("it does not say how many ranks there are", program, "give --world-size")
    if given.get("world_size", size) != size:
        raise InputError(
            f"it returns world_size {size}, --world-size is {given['world_size']}",
            program,
            "leave it out there, or give the same number",
        )


@contextmanager
def _stdout_kept_clean() -> Iterator[None]:
    """What the program prints is not the report."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)


DESCRIBE = (
    "return (build, make_inputs), or a mapping of arguments of gg_datalog.capture (docs/capture.md)"
)


def described(
    program: str, call: Callable[[Any], Any] = lambda function: function()
) -> dict[str, Any]:
    """The arguments of ``capture`` that MODULE:FUNCTION returns; ``call`` calls it."""
    module, colon, name = program.partition(":")
    if not colon or not module or not name:
        raise InputError(
            f"{program!r} is not MODULE:FUNCTION", None, "such as model:tensor_parallel"
        )
    described = _call(partial(call, _function(module, name)), program)
    if isinstance(described, tuple) and len(described) == 2:
        return {"build": described[0], "make_inputs": described[1]}
    if isinstance(described, Mapping) and {"build", "make_inputs"} <= set(described):
        return dict(described)
    raise InputError(f"it returned {type(described).__name__}", program, DESCRIBE)


def _function(module: str, name: str) -> Any:
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    path = Path(module)
    try:
        if path.suffix == ".py":
            sys.path.insert(0, str(path.resolve().parent))
            found = import_module(path.stem)
        else:
            found = import_module(module)
    except GGError:
        raise
    except (Exception, SystemExit) as error:
        raise InputError(
            f"the module cannot be imported: {type(error).__name__}: {error}",
            _line(error) or module,
            "give a module that python -c 'import ...' finds from the current folder",
        ) from None
    function = getattr(found, name, None)
    if not callable(function):
        raise InputError(f"there is no function `{name}` in it", module, "give MODULE:FUNCTION")
    return function


def _call(function: Any, program: str) -> Any:
    try:
        return function()
    except GGError:
        raise
    except (Exception, SystemExit) as error:
        raise InputError(
            f"it failed: {type(error).__name__}: {error}", _line(error) or program, DESCRIBE
        ) from None


def _line(error: BaseException) -> str | None:
    frames = [
        f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith("<")
    ]
    ours = str(Path(__file__).resolve())
    outside = [f for f in frames if f.filename != ours and "importlib" not in f.filename]
    return f"{outside[-1].filename}:{outside[-1].lineno}" if outside else None


def _numbers(text: str) -> list[int]:
    parts = text.split(",")
    if not all(part.strip().isdecimal() for part in parts):
        raise InputError(f"--ranks {text!r} is no list of ranks", None, "such as 0,1")
    return [int(part) for part in parts]


def _said(about: Mapping[str, Any]) -> Iterator[str]:
    yield from (f"warning: {text}" for text in about.get("warnings", ()))
    for row in about["programs"]:
        yield (
            f"{row['program']}: {row['calls']} operators, {row['collectives']} collectives, "
            f"{row['seconds']} s, {row['memory'] / 1e9:.1f} GB"
        )
