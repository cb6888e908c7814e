"""Where the graphs of a result lie, so that reports of many pairs can be told apart."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from gg_datalog.foundation.errors import InputError
from gg_datalog.foundation.folders import read_manifest
from gg_datalog.foundation.visible import visible
from gg_datalog.reporting.places import Place, place
from gg_datalog.result.names import ranked
from gg_datalog.result.report import Finding

TOOL = "gg-datalog"


@dataclass(frozen=True)
class Origin:
    """The paths of the graphs, as far as the manifest of the result tells them."""

    seq: str | None
    dist: tuple[str, ...]

    @property
    def name(self) -> str:
        """The folder of the graphs, as far as that is below the current one; else its name."""
        if self.seq is None:
            return TOOL
        folder, here = Path(os.path.normpath(self.seq)).parent, Path.cwd()
        if folder != here and folder.is_relative_to(here):
            return visible(folder.relative_to(here).as_posix())
        return visible(folder.name) or TOOL

    def graph(self, found: Finding) -> Place | None:
        """The graph that a finding is about: the place to look at where no code line is known."""
        rank, _ = ranked(found.dist[0]) if found.dist else (-1, "")
        path = self.dist[rank] if rank in range(len(self.dist)) else self.seq
        return place(f"{path}:1") if path else None


def origin(result: Path) -> Origin:
    """Where the graphs of a result lie; nothing where its folder does not say."""
    try:
        case = read_manifest(result, "result", "gg-datalog run")["case"]
        return Origin(str(case["seq"]), tuple(str(path) for path in case["dist"]))
    except (InputError, KeyError, TypeError):
        return Origin(None, ())
