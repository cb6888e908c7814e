"""Sharding annotations: which part of a tensor a device has."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import TypeAlias

from gg_datalog.readers.hlo_devices import BadGroups, iota, read_mesh
from gg_datalog.readers.hlo_scan import closing, inside, numbers, split, unquoted

Box: TypeAlias = "list[list[int]]"
TILES = re.compile(r"devices=\[([\d,]+)\]")
LAST = re.compile(r"last_tile_dims=\{([^}]*)\}")
SHARDY = re.compile(r"#sdy\.sharding<@([\w.\-]+|mesh<.*?>),\s*(\[.*)>", re.DOTALL)
MESHES = re.compile(r"([\w.\-]+)\s*=\s*#sdy\.mesh<(\[[^\]]*\])(?:,\s*device_ids=(\[[^\]]*\]))?")


@dataclass(frozen=True)
class Sharding:
    """``tiles`` per dimension, and where each device lies; ``known`` is False where the annotation
    does not say which part a device has (manual or unreduced)."""

    known: bool = True
    tiles: tuple[int, ...] = ()
    places: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    only: int | None = None  # the one device that has it

    def boxes(
        self, device: int, whole: Sequence[int], part: Sequence[int]
    ) -> tuple[Box, Box] | None:
        """(where in the whole tensor, where in the device's) its elements lie; None if nowhere.

        The last shards of an uneven dimension are padded: only what exists is named."""
        if not self.known or (self.only is not None and self.only != device):
            return None
        tiles = self.tiles or (1,) * len(whole)
        place = self.places.get(device) if max(tiles, default=1) > 1 else (0,) * len(tiles)
        if place is None:
            raise BadGroups(f"its sharding does not know device {device}")
        widths = [-(-n // t) for n, t in zip(whole, tiles, strict=True)]
        if widths != list(part):
            raise BadGroups(f"a shard of {list(whole)} is {widths}, the parameter {list(part)}")
        lows = [min(p * w, n) for p, w, n in zip(place, widths, whole, strict=True)]
        highs = [min(lo + w, n) for lo, w, n in zip(lows, widths, whole, strict=True)]
        if any(lo >= hi for lo, hi in zip(lows, highs, strict=True)):
            return None
        seq = [[lo, hi] for lo, hi in zip(lows, highs, strict=True)]
        return seq, [[0, hi - lo] for lo, hi in seq]


UNKNOWN = Sharding(known=False)


def read_shardings(
    text: str, rank_of: Sequence[int], meshes: Mapping[str, str], shardy: bool = False
) -> list[Sharding]:
    """One sharding per tensor of a parameter (``rank_of``: their numbers of dimensions)."""
    if shardy:
        listed = _shardy_items(text)
        return [_shardy(item, r, meshes) for item, r in zip(listed, rank_of, strict=False)]
    body = inside(text)
    if body.startswith("{") or (not body and len(rank_of) != 1):
        items = split(body)
        if len(items) != len(rank_of):
            raise BadGroups(f"{len(items)} shardings for {len(rank_of)} tensors")
        return [read_sharding(item, r) for item, r in zip(items, rank_of, strict=True)]
    return [read_sharding(text, r) for r in rank_of]


def read_sharding(text: str, dims: int) -> Sharding:
    """``{devices=[2,1]<=[2]}``, ``{replicated}``, ``{maximal device=0}`` or one of a mesh."""
    body = inside(text).strip()
    if body.startswith("mesh"):
        return _of_mesh(body, dims)
    if body.startswith("maximal"):
        return Sharding(only=(numbers(body) or [0])[0])
    found = TILES.search(body)
    if found is None:
        return Sharding() if body.split(" ")[0].rstrip(",") == "replicated" else UNKNOWN
    sizes = numbers(found[1])
    last = LAST.search(body)
    kinds = [k.strip() for k in last[1].split(",")] if last else []
    if "last_tile_dim_replicate" in body:
        kinds = ["replicated"]
    rest = body[found.end() :].split("metadata=")[0]
    rest = rest.split("last_tile")[0]
    devices = iota(found[0].removeprefix("devices=") + rest) if "<=" in rest else numbers(rest)
    if len(devices) != prod(sizes) or len(sizes) != dims + len(kinds):
        raise BadGroups(f"sharding {text[:60]} does not fit {dims} dimensions")
    if set(kinds) - {"replicated"}:
        return UNKNOWN
    places = {device: _place(i, sizes)[:dims] for i, device in enumerate(devices)}
    return Sharding(True, tuple(sizes[:dims]), places)


def _place(flat: int, sizes: Sequence[int]) -> tuple[int, ...]:
    found = []
    for size in reversed(sizes):
        flat, rest = divmod(flat, size)
        found.append(rest)
    return tuple(reversed(found))


def _of_mesh(body: str, dims: int) -> Sharding:
    """``mesh['a'=2,'b'=2], [{'a'}, {}], replicated={'b'}``."""
    mesh, rest = read_mesh(body)
    if not rest.startswith("["):
        return Sharding() if rest.startswith("replicated") else UNKNOWN
    end = closing(rest, 0)
    if "manual" in rest[end:] or "unreduced" in rest[end:]:
        return UNKNOWN
    axes = [mesh.digits(inside(item)) for item in split(rest[1:end])]
    axes += [[] for _ in range(dims - len(axes))]
    if len(axes) != dims:
        raise BadGroups(f"sharding {body[:60]} does not fit {dims} dimensions")
    tiles = tuple(prod(size for _, _, size in digits) for digits in axes)
    places = {
        device: tuple(mesh.place(where, digits) for digits in axes)
        for device, where in mesh.coordinates().items()
    }
    return Sharding(True, tiles, places)


# ---- Shardy's own form, in frontend_attributes
def read_meshes(attributes: str) -> dict[str, str]:
    """The meshes that a module declares for Shardy, in the form of :func:`read_mesh`."""
    found = {}
    text = _attribute(attributes, "xla.sdy.meshes")
    for name, axes, ids in MESHES.findall(text):
        found[name] = "mesh" + axes.replace('"', "'")
        if ids:
            found[name] += f", device_ids=({ids[1:-1]})"
    return found


def shardy_of(attributes: str) -> str:
    """The sharding that Shardy noted on an instruction; empty if none."""
    return _attribute(attributes, "xla.sdy.sharding")


def _attribute(attributes: str, key: str) -> str:
    for part in split(inside(attributes)):
        name, _, value = part.partition("=")
        if name.strip() == key:
            return unquoted(value).replace('\\"', '"')
    return ""


def _shardy_items(text: str) -> list[str]:
    at, items = text.find("#sdy.sharding<"), []
    while at >= 0:
        end = text.find(">", text.rfind("]", at, _next(text, at)))
        items.append(text[at : end + 1])
        at = text.find("#sdy.sharding<", at + 1)
    return items or [f"#sdy.sharding{i}" for i in re.findall(r"<@[^>]*>", text)]


def _next(text: str, at: int) -> int:
    following = text.find("#sdy.sharding<", at + 1)
    return len(text) if following < 0 else following


def _shardy(text: str, dims: int, meshes: Mapping[str, str]) -> Sharding:
    found = SHARDY.match(text)
    if found is None or found[1] not in meshes:
        return UNKNOWN
    return _of_mesh(f"{meshes[found[1]]}, {found[2]}".replace('"', "'"), dims)
