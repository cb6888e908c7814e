"""The same repair at more places: a line of the program runs in every layer, a group is used by
many collectives."""

from __future__ import annotations

from collections.abc import Iterator

from gg_datalog.repairs.candidate import Candidate, Site
from gg_datalog.repairs.edits import Json
from gg_datalog.repairs.holders import Scene


def widened(scene: Scene, candidate: Candidate) -> Candidate | None:
    """The candidate wherever the same line, or the same group, asks for it."""
    first = candidate.sites[0]
    if candidate.replaces and (first.rank, first.node) in scene.collectives:
        return candidate.wider(_of_group(scene, candidate), reduction="")
    if candidate.replaces:
        return None
    users = all(site.users for site in candidate.sites)
    return candidate.wider((_of_use if users else _of_line)(scene, candidate))


def _row(scene: Scene, site: Site) -> Json:
    return scene.rows(site.rank)[site.node]


def _of_group(scene: Scene, candidate: Candidate) -> Iterator[Site]:
    """All collectives of a group that is the wrong one."""
    for rank in candidate.ranks:
        named = {_group(_row(scene, site)) for site in candidate.sites if site.rank == rank}
        for name, row in scene.rows(rank).items():
            if (rank, name) in scene.collectives and _group(row) in named:
                yield Site(rank, name)


def _group(row: Json) -> str:
    return next((arg for arg in reversed(row["args"]) if isinstance(arg, str)), "")


def _of_line(scene: Scene, candidate: Candidate) -> Iterator[Site]:
    """All nodes alike that come from the same line and are not reduced."""
    parts = candidate.action != "scale"
    form = _form if parts else _line
    alike = {form(_row(scene, site)) for site in candidate.sites}
    for rank in candidate.ranks:
        for name, row in scene.rows(rank).items():
            if form(row) in alike and not (parts and _reduced(scene, rank, name)):
                yield Site(rank, name)


def _of_use(scene: Scene, candidate: Candidate) -> Iterator[Site]:
    """What goes into all operators alike that come from the same line, at the same place."""
    alike = {
        (_form(scene.rows(site.rank)[user]), place)
        for site in candidate.sites
        for user in site.users
        for place, of in _direct(scene.rows(site.rank)[user])
        if of == site.node
    }
    for rank in candidate.ranks:
        for name, row in scene.rows(rank).items():
            for place, of in _direct(row):
                if (_form(row), place) in alike:
                    yield Site(rank, of, (name,))


def _direct(row: Json) -> list[tuple[int, str]]:
    """The operands that are arguments by themselves, by place."""
    args = enumerate(row.get("args", []))
    return [(place, arg["node"]) for place, arg in args if isinstance(arg, dict) and "node" in arg]


def _form(row: Json) -> tuple[str, ...]:
    return (*_line(row), str(row.get("shape")), str(row.get("dtype")))


def _line(row: Json) -> tuple[str, ...]:
    return str(row.get("target")), str(row.get("source"))


def _reduced(scene: Scene, rank: int, name: str) -> bool:
    users = scene.users(rank, scene.base(rank, name))
    return any(scene.reduces(rank, user) for user, _ in users)
