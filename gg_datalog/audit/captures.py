"""Captures of an audit: a program to a packed case, and which files of the user it is made of."""

from __future__ import annotations

import inspect
import os
import re
import site
import sys
import sysconfig
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from gg_datalog.audit.key import case_hash, digest
from gg_datalog.foundation.errors import InputError
from gg_datalog.foundation.hashes import file_hash

Json = dict[str, Any]
RANK = re.compile(r"rank \d+\b")
RAISED = re.compile(r"failed: (\w+): ")
# What a capture refuses because it does not follow it: no fault of the program.
REFUSED = {"Unsupported", "DataDependentOutputException", "GuardOnDataDependentSymNode",
           "DynamicOutputShapeException", "NotImplementedError", "InternalTorchDynamoError",
           "UserError", "BackendCompilerFailed", "MemoryError", "Refused"}  # fmt: skip


class Captured:
    """The capture of one task; ``known`` is told which sources are known so far."""

    def __init__(
        self, task: Mapping[str, Any], scratch: Path, known: Callable[[Json], None]
    ) -> None:
        self.task, self.scratch, self.known = task, scratch, known

    def record(self) -> Json:
        """``status`` is ``captured``, or how it failed."""
        from gg_datalog.commands.capture import captured, described

        os.chdir(self.task["home"])
        sys.path.insert(0, self.task["home"])
        before = set(sys.modules)
        arguments: Json = {}
        try:
            try:
                arguments = described(self.task["source"], self._called)
            finally:
                self.known(sources(before))
            pair = captured(self.task["source"], arguments, self.task["capture"], _silent)
            pair.save(self.scratch / "case")
        except InputError as error:
            return {"status": self._failed(arguments, error), "reason": str(error)}
        finally:
            self.known(sources(before))
        return self._packed()

    def _called(self, function: Any) -> Any:
        """The function with the matrix's values; those that options speak of only if it takes
        them."""
        given = dict(self.task["arguments"])
        try:
            taken = inspect.signature(function).parameters
        except (TypeError, ValueError):
            return function(**given)
        if not any(p.kind is inspect.Parameter.VAR_KEYWORD for p in taken.values()):
            for name in self.task["optional"]:
                if name not in taken:
                    given.pop(name, None)
        return function(**given)

    def _packed(self) -> Json:
        from gg_datalog.audit.packing import SUFFIX, pack

        content = case_hash(self.scratch / "case")
        place = self.scratch / (content + SUFFIX)
        pack(self.scratch / "case", place)
        return {"status": "captured", "content": content, "files": {"case": place.name}}

    def _failed(self, arguments: Json, error: InputError) -> str:
        """``crashes-on-rank`` where a rank's program raises, and the sequential one does not."""
        raised = RAISED.search(error.what)
        refused = raised is None or raised[1] in REFUSED
        if refused or not arguments or not RANK.match(error.where or ""):
            return "malformed"
        return "crashes-on-rank" if self._runs_alone(arguments) else "malformed"

    def _runs_alone(self, arguments: Json) -> bool:
        """Can the sequential program be captured, as a world of one rank?"""
        from gg_datalog.commands.capture import captured

        alone = {**arguments, "build": arguments.get("sequential") or arguments["build"]}
        alone |= {
            "world_size": 1,
            "step": arguments.get("sequential_step") or arguments.get("step"),
        }
        left_out = ("ranks", "sequential", "sequential_step", "relations")
        alone = {name: value for name, value in alone.items() if name not in left_out}
        given = {k: v for k, v in self.task["capture"].items() if k in ("mode", "backward", "jobs")}
        try:
            captured(self.task["source"], alone, given, _silent)
        except InputError:
            return False
        return True


def _silent(text: str) -> None:
    """Nobody watches."""


# ---- what a capture is made of -------------------------------------------------------------------
def sources(before: set[str]) -> Json:
    """The user's files that were imported, with their hashes, and the versions of all packages
    that were: what is neither the standard library nor installed is the user's."""
    files, packages = {}, set()
    for name, module in list(sys.modules.items()):
        place = getattr(module, "__file__", None)
        if not place or name.partition(".")[0] == "gg_datalog":
            continue
        if _installed(place):
            packages.add(name.partition(".")[0])
        elif not _library(place) and name not in before and os.path.isfile(place):
            files[os.path.realpath(place)] = file_hash(Path(place))
    return {"files": files, "packages": versions(frozenset(packages))}


def versions(packages: frozenset[str]) -> dict[str, str]:
    """Versions of distributions, by the names of the packages that they bring."""
    from importlib.metadata import version

    found = {}
    for package in sorted(packages):
        for distribution in _distributions().get(package, ()):
            found[distribution] = version(distribution)
    return found


@cache
def _distributions() -> Mapping[str, list[str]]:
    from importlib.metadata import packages_distributions

    return packages_distributions()


@cache
def _places() -> tuple[tuple[str, ...], tuple[str, ...]]:
    installed = {
        *site.getsitepackages(),
        sysconfig.get_path("purelib"),
        sysconfig.get_path("platlib"),
    }
    if site.ENABLE_USER_SITE:
        installed.add(site.getusersitepackages())
    library = {sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")}
    return tuple(p + os.sep for p in installed), tuple(p + os.sep for p in library)


def _installed(place: str) -> bool:
    return place.startswith(_places()[0])


def _library(place: str) -> bool:
    return place.startswith(_places()[1]) or place.startswith("<")


def unchanged(found: Json) -> bool:
    """Are the sources of an earlier capture what they were?"""
    return changed_of(found) is None


def changed_of(found: Json) -> str | None:
    """The first source of an earlier capture that is not what it was."""
    for name, known in found["files"].items():
        path = Path(name)
        if not path.is_file() or file_hash(path) != known:
            return str(name)
    for distribution, known in found["packages"].items():
        if _version(distribution) != known:
            return str(distribution)
    return None


@cache
def _version(distribution: str) -> str | None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return str(version(distribution))
    except PackageNotFoundError:
        return None


def sources_hash(found: Json) -> str:
    """One hash for the sources of a capture."""
    return digest(found)
