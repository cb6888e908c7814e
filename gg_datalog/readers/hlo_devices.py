"""Devices of a program, and the groups of them that a collective names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from gg_datalog.readers.hlo_scan import closing, inside, numbers, split

IOTA = re.compile(r"\[([\d,]+)\]\s*<=\s*\[([\d,]+)\]\s*(?:T\(([\d,]+)\))?")
AXIS = re.compile(r"'?([\w.\-]+)'?=(\d+)")
REFERENCE = re.compile(r"'?([\w.\-]+)'?(?::\((\d+)\)(\d+))?")


class BadGroups(ValueError):
    """Groups or devices that do not make sense."""


@dataclass(frozen=True)
class Devices:
    """``replicas`` x ``partitions`` devices; a rank is replica * partitions + partition."""

    replicas: int
    partitions: int

    @property
    def count(self) -> int:
        """How many there are."""
        return self.replicas * self.partitions

    def groups(
        self, text: str, channel: bool, flat: bool | None, rank: int
    ) -> tuple[int, ...] | None:
        """The ranks of the group in which ``rank`` is, in member order; None where in none.

        As XLA reads the ids: without a channel they are replicas, with one and ``flat`` ranks,
        with one and not ``flat`` replicas with all their partitions, and where an instruction has
        no such flag (None) partitions."""
        listed = self._listed(text, channel, flat)
        replica, partition = divmod(rank, self.partitions)
        for group in listed:
            if not channel:
                members = [r * self.partitions + partition for r in group]
            elif flat:
                members = list(group)
            elif flat is None:
                members = [replica * self.partitions + p for p in group]
            else:
                members = [r * self.partitions + p for r in group for p in range(self.partitions)]
            if rank in members:
                return self._checked(members)
        return None

    def _listed(self, text: str, channel: bool, flat: bool | None) -> list[list[int]]:
        found = read_groups(text)
        if found:
            return found
        if channel and flat:
            return [list(range(self.count))]
        over = self.partitions if channel and flat is None else self.replicas
        return [list(range(over))]

    def _checked(self, members: Sequence[int]) -> tuple[int, ...]:
        if len(set(members)) < len(members) or not all(0 <= m < self.count for m in members):
            raise BadGroups(f"group {list(members)} does not fit {self.count} devices")
        return tuple(members)


def iota(text: str) -> list[int]:
    """The devices of ``[4,2]<=[2,4]T(1,0)``, in order."""
    found = IOTA.search(text)
    if found is None:
        raise BadGroups(f"{text!r} is no list of devices")
    dims = numbers(found[2])
    order = numbers(found[3]) if found[3] else list(range(len(dims)))
    if sorted(order) != list(range(len(dims))) or prod(dims) != prod(numbers(found[1])):
        raise BadGroups(f"{text!r} does not add up")
    return transposed(list(range(prod(dims))), dims, order)


def transposed(values: Sequence[int], dims: Sequence[int], order: Sequence[int]) -> list[int]:
    """Row-major elements after a permutation of the dimensions."""
    far = [prod(dims[i + 1 :]) for i in range(len(dims))]
    places = [0]
    for axis in order:
        places = [p + i * far[axis] for p in places for i in range(dims[axis])]
    return [values[p] for p in places]


def read_groups(text: str) -> list[list[int]]:
    """The groups of ``{{0,1},{2,3}}``, ``[2,2]<=[4]`` or ``mesh['a'=2,'b'=2] {'b'}``."""
    text = text.strip()
    if text.startswith("mesh"):
        return _of_mesh(text)
    if text.startswith("["):
        ids, dims = iota(text), numbers(text[: text.index("]")])
        if len(dims) != 2:
            raise BadGroups(f"{text!r} has not two dimensions")
        return [ids[i : i + dims[1]] for i in range(0, len(ids), dims[1])]
    if not text.startswith("{"):
        raise BadGroups(f"{text!r} are no groups")
    rows = split(inside(text))
    found = [numbers(row) for row in rows] if all("{" in r for r in rows) else [numbers(text)]
    return [group for group in found if group]


@dataclass(frozen=True)
class Mesh:
    """Named axes over devices."""

    axes: tuple[tuple[str, int], ...]
    ids: tuple[int, ...]

    def digits(self, listed: str) -> list[tuple[str, int, int]]:
        """Axes such as ``'a', 'b':(2)4``: (axis, how much of it comes before, size)."""
        sizes = dict(self.axes)
        found = []
        for part in split(listed):
            if part.strip() == "?":
                continue
            name = REFERENCE.fullmatch(part.strip())
            if name is None or name[1] not in sizes:
                raise BadGroups(f"{part!r} is no axis of {list(sizes)}")
            whole = sizes[name[1]]
            before, size = (int(name[2]), int(name[3])) if name[2] else (1, whole)
            if before * size == 0 or whole % (before * size):
                raise BadGroups(f"{part!r} does not split {whole}")
            found.append((name[1], before, size))
        return found

    def coordinates(self) -> dict[int, dict[str, int]]:
        """Where each device lies on each axis."""
        found = {}
        for place, device in enumerate(self.ids):
            where = {}
            for name, size in reversed(self.axes):
                place, where[name] = divmod(place, size)
            found[device] = where
        return found

    def place(self, where: dict[str, int], digits: Sequence[tuple[str, int, int]]) -> int:
        """Which one of the parts along some axes it is."""
        sizes, at = dict(self.axes), 0
        for name, before, size in digits:
            at = at * size + where[name] // (sizes[name] // (before * size)) % size
        return at


def read_mesh(text: str) -> tuple[Mesh, str]:
    """A mesh such as ``mesh['a'=2,'b'=4], device_ids=([8]<=[2,4]T(1,0))``, and the rest."""
    start = text.find("[")
    if start < 0:
        raise BadGroups(f"{text!r} is no mesh")
    end = closing(text, start)
    axes = tuple((name, int(size)) for name, size in AXIS.findall(text[start:end]))
    rest = text[end + 1 :].lstrip(", ")
    count = prod(size for _, size in axes)
    ids = list(range(count))
    if rest.startswith("device_ids="):
        rest = rest.removeprefix("device_ids=").lstrip()
        end = closing(rest, 0)
        listed, rest = rest[1:end], rest[end + 1 :].lstrip(", ")
        ids = iota(listed) if "<=" in listed else numbers(listed)
    if not axes or len(ids) != count:
        raise BadGroups(f"{text!r}: {len(ids)} devices on {count} places")
    return Mesh(axes, tuple(ids)), rest


def _of_mesh(text: str) -> list[list[int]]:
    """Devices that differ along the named axes only, the first axis being the outermost."""
    mesh, rest = read_mesh(text)
    digits = mesh.digits(inside(rest))
    groups: dict[tuple[int, ...], dict[int, int]] = {}
    for device, where in mesh.coordinates().items():
        mine = dict(where)
        sizes = dict(mesh.axes)
        for name, before, size in digits:
            far = sizes[name] // (before * size)
            mine[name] -= where[name] // far % size * far
        groups.setdefault(tuple(mine.values()), {})[mesh.place(where, digits)] = device
    return [[group[i] for i in sorted(group)] for group in groups.values()]
