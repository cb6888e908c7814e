"""Outputs that no rule shows, executed: in a process of its own, with so much time and memory.

Nothing that goes wrong there takes the run with it: what is known by then counts, and what is not
is said.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from gg_datalog.foundation.errors import InputError
from gg_datalog.result.report import Element, Numbers, Report, as_json
from gg_datalog.result.sources import remembered

SECONDS = 20.0
VARIABLE = "GG_DATALOG_CONFIRM"
SEED = 0
COMMAND = (sys.executable, "-P", "-m", "gg_datalog.replay.confirm")
WANTED = 5  # draws
ENOUGH = 3  # of which so many have to have numbers to compare
GUESSED = "the numbers differ as the inputs are guessed, and agree where they are guessed otherwise"
NOTHING = "no rank returns anything, or in smaller sizes the rules come to another verdict"
LEAST = 2**30  # bytes that torch takes for itself
Json = Mapping[str, Any]


def budget(given: float | None) -> float:
    """The time budget: what is asked for, else what the environment says, else 20 seconds.

    Raises:
        InputError: the environment says no number of seconds.
    """
    if given is not None:
        return given
    text = os.environ.get(VARIABLE, "")
    try:
        value = float(text) if text else SECONDS
    except ValueError:
        value = -1.0
    if not 0 <= value < 1e9:
        raise InputError(f"{VARIABLE} is {text!r}, no number of seconds", None, "0 turns it off")
    return value


@dataclass(frozen=True)
class Question:
    """What is to be executed: the case as the manifest of its facts has it, the folder with what
    was derived, the outputs (by place) that are in question, those declared partial; ``name`` is
    what a user gives to ``gg-datalog replay``."""

    case: Json
    result: Path
    report: Report
    outputs: Sequence[int]
    partial: Sequence[str]
    name: str


def confirmed(asked: Question, allowed: float) -> dict[int, Numbers]:
    """What the numbers say of each output in question."""
    if not allowed:
        return {}
    if find_spec("torch") is None:
        return _untold(asked, "torch is not installed")
    try:
        remembered(asked.case, "")
    except InputError as problem:
        return _untold(asked, " ".join(filter(None, (problem.where, problem.what))))
    lines, ending = _executed(_document(asked), allowed)
    return _numbers(asked, lines, ending)


def _untold(asked: Question, why: str) -> dict[int, Numbers]:
    return dict.fromkeys(asked.outputs, Numbers(None, note=f"not executed: {why}"))


def _document(asked: Question) -> str:
    return json.dumps(
        {
            "case": dict(asked.case),
            "result": str(asked.result),
            "report": as_json(asked.report),
            "outputs": list(asked.outputs),
            "partial": list(asked.partial),
            "memory": max(LEAST, _memory() // 2),
        }
    )


def _memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


# ---- the process ---------------------------------------------------------------------------------
def _executed(document: str, allowed: float) -> tuple[list[Json], str]:
    """The lines that the process wrote, and what ended it before it was done."""
    paths = [str(Path(__file__).resolve().parents[1]), os.environ.get("PYTHONPATH", "")]
    child = subprocess.Popen(
        COMMAND,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
        start_new_session=True,
    )
    ending = ""
    try:
        out, err = child.communicate(document.encode(), timeout=allowed)
        if child.returncode:
            ending = _ended(child.returncode, err.decode("utf-8", "replace"))
    except subprocess.TimeoutExpired:
        _kill(child)
        out, _ = child.communicate()
        ending = f"it takes more than {allowed:g} s (--confirm SECONDS)"
    finally:
        _kill(child)
    return _lines(out), ending


def _kill(child: subprocess.Popen[bytes]) -> None:
    if child.returncode is None:
        os.killpg(child.pid, signal.SIGKILL)


def _ended(status: int, errors: str) -> str:
    told = errors.strip().splitlines()
    if status < 0:
        return f"the process was ended by signal {-status}"
    return f"the process broke off: {told[-1]}" if told else f"the process ended with {status}"


def _lines(out: bytes) -> list[Json]:
    """Every line that is complete."""
    return [json.loads(line) for line in out.decode("utf-8", "replace").split("\n")[:-1] if line]


# ---- what it found -------------------------------------------------------------------------------
def _numbers(asked: Question, lines: Sequence[Json], ending: str) -> dict[int, Numbers]:
    known = [line for line in lines if "outputs" in line]
    problem = next((str(line["problem"]) for line in lines if "problem" in line), ending)
    if not known:
        return _untold(asked, problem or "it ended without an answer")
    last = known[-1]
    return {place: _one(asked, last, place, problem) for place in asked.outputs}


def _one(asked: Question, last: Json, place: int, problem: str) -> Numbers:
    given = last["outputs"].get(str(place))
    if given is None:
        return Numbers(None, note=f"not executed: {NOTHING}")
    command = f"gg-datalog replay {asked.name} --seed {SEED}"
    first = given["first"] or {}
    numbers = Numbers(
        given["agrees"],
        given["draws"],
        SEED,
        given["max_abs"],
        given["max_rel"],
        first.get("seq"),
        first.get("seq_source"),
        tuple(first.get("dist", ())),
        first.get("dist_source"),
        tuple(Element(**{**e, "at": tuple(e["at"])}) for e in given["elements"]),
        command=command,
    )
    if numbers.agrees is False and (names := given.get("unknown")):
        told = ", ".join(f"`{name}`" for name in names)
        return Numbers(None, note=f"the numbers rest on values that are not known: {told}")
    if numbers.agrees is False and (names := given.get("guessed")):
        return Numbers(None, seed=SEED, command=command, guesses=tuple(names), note=GUESSED)
    if numbers.agrees is False:
        apart = "" if numbers.max_abs is not None else "the ranks return no such shape"
        return replace(numbers, draws=last["draws"], note=apart)
    if last["breaks_off"]:
        return Numbers(False, seed=SEED, note=last["breaks_off"], command=command)
    if problem:
        return replace(numbers, agrees=None, note=f"not executed to the end: {problem}")
    if numbers.agrees is None or numbers.draws < min(ENOUGH, last["draws"]):
        return replace(numbers, agrees=None, note="there are no numbers to compare")
    return numbers
