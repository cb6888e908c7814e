"""``relations.toml``: what the user declares of inputs, where placements do not say it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from math import prod
from pathlib import Path
from typing import Any

from gg_datalog.foundation.documents import read_toml
from gg_datalog.foundation.errors import InputError
from gg_datalog.tracing.pieces import Box, Piece, boxes, runs

KEYS = {
    "name", "sequential", "placement", "parts", "groups", "grouped", "pieces", "transposed",
    "overrules", "optional",
}  # fmt: skip
DOCUMENT = {"mesh", "relation", "gradients_in_part"}
SHARD = re.compile(r"shard\(\s*(-?\d+)\s*(?:,\s*(\w+)\s*)?\)", re.IGNORECASE)
REPLICATE = re.compile(r"replicate(?:\(\s*(?:\w+)?\s*\))?", re.IGNORECASE)
SEE = "see docs/capture.md"
BOXES = "boxes are [[lo, hi], ...], one pair per dimension, inside of the tensor"
OF_PARTS = {"groups", "grouped"}  # what says more of `parts`
OF_PLACEMENT = {"parts", *OF_PARTS}


@dataclass(frozen=True)
class Explicit:
    """One of `pieces`: equal boxes of both tensors, on these ranks (None: on all)."""

    ranks: Sequence[int] | None
    sequential: Box
    distributed: Box

    def on(self, rank: int) -> bool:
        """Is this said of that rank?"""
        return self.ranks is None or rank in self.ranks

    def check(
        self, shape: Sequence[int], local: Sequence[int], permute: Sequence[int], where: str
    ) -> None:
        """The boxes lie inside of both tensors, and are of one size."""
        for box, of in ((self.sequential, shape), (self.distributed, local)):
            fits = len(box) == len(of) and all(
                0 <= lo < hi <= e for (lo, hi), e in zip(box, of, strict=True)
            )
            if not fits:
                raise InputError(f"the box {box} is no part of a tensor {list(of)}", where, BOXES)
        ours, theirs = ([hi - lo for lo, hi in box] for box in (self.sequential, self.distributed))
        ours = [ours[i] for i in permute] or ours
        if ours != theirs:
            raise InputError(
                f"the boxes {self.sequential} and {self.distributed} differ in size", where, BOXES
            )


@dataclass(frozen=True)
class Declared:
    """One ``[[relation]]``: how the inputs whose name fits ``name`` are spread over the ranks."""

    name: str
    where: str
    mesh: Mapping[str, int]
    counterpart: str | None = None
    shards: Sequence[tuple[int, str | None]] = ()
    parts: Sequence[int] = ()
    groups: int = 1
    grouped: str = "distributed"
    explicit: Sequence[Explicit] = ()
    transposed: bool = False
    overrules: bool = False
    optional: bool = False

    def sequential(self, name: str) -> str:
        """The name of the sequential input."""
        return name if self.counterpart is None else self.counterpart

    @property
    def permute(self) -> Sequence[int]:
        """The order of the sequential dimensions in the distributed tensor; empty: the same."""
        return [1, 0] if self.transposed else []

    def pieces(
        self, shape: Sequence[int], local: Sequence[int], rank: int, world_size: int
    ) -> list[Piece]:
        """Pairs of boxes (sequential, distributed) that this declaration means for a rank."""
        if self.transposed and len(shape) != 2:
            raise InputError(
                f"only matrices can be transposed, this is {list(shape)}",
                self.where,
                "leave `transposed` out",
            )
        if self.explicit:
            mine = [piece for piece in self.explicit if piece.on(rank)]
            for piece in mine:
                piece.check(shape, local, self.permute, self.where)
            return [(piece.sequential, piece.distributed) for piece in mine]
        self._check_dimensions(shape)
        per_dim = [self._positions(dim, list(shape), rank, world_size) for dim in range(len(shape))]
        found = boxes([runs(positions) for positions in per_dim])
        if self.transposed:
            found = [(seq, dist[::-1]) for seq, dist in found]
        held = [len(positions) for positions in per_dim]
        held = held[::-1] if self.transposed else held
        if held != list(local):
            raise InputError(
                f"`{self.name}` declares a part of {held} on rank {rank}, the tensor there is "
                f"{list(local)} (sequentially {list(shape)})",
                self.where,
                "correct placement, parts or groups",
            )
        return found

    def _check_dimensions(self, shape: Sequence[int]) -> None:
        for dim, _ in self.shards:
            if not -len(shape) <= dim < len(shape):
                raise InputError(
                    f"dimension {dim} is not one of {list(shape)}", self.where, "count them from 0"
                )

    def _positions(self, dim: int, shape: list[int], rank: int, world_size: int) -> list[int]:
        """Sequential positions along a dimension that the rank holds, in its own order."""
        cuts = [axis for at, axis in self.shards if at % len(shape) == dim]
        blocks = self._blocks(dim, shape)
        held = []
        for block in blocks:
            for axis in cuts:
                parts, place = self._coordinate(axis, rank, world_size)
                block = _share(block, parts, place, self.where)
            held.append(block)
        if len(held) > 1 and self.groups > 1 and self.grouped == "distributed":
            return _interleaved(held, self.groups, self.where)
        return [position for block in held for position in block]

    def _blocks(self, dim: int, shape: list[int]) -> list[list[int]]:
        """The fused parts of a dimension, each a list of sequential positions."""
        extent = shape[dim]
        fused_dim = self.shards[0][0] % len(shape) if self.shards else 0
        if not self.parts or dim != fused_dim:
            return [list(range(extent))]
        if sum(self.parts) != extent:
            raise InputError(
                f"`parts` {list(self.parts)} add up to {sum(self.parts)}, dimension {dim} has "
                f"{extent}",
                self.where,
                "give the sizes of the fused parts in the sequential tensor",
            )
        starts = [sum(self.parts[:i]) for i in range(len(self.parts))]
        if self.grouped == "sequential":
            return _ungrouped(list(range(extent)), self.parts, self.groups, self.where)
        return [
            list(range(start, start + size)) for start, size in zip(starts, self.parts, strict=True)
        ]

    def _coordinate(self, axis: str | None, rank: int, world_size: int) -> tuple[int, int]:
        """(number of shards, place) of a rank along an axis of the mesh; None: all ranks."""
        if axis is None:
            return world_size, rank
        if axis not in self.mesh:
            raise InputError(
                f"the axis `{axis}` is not in [mesh]",
                self.where,
                f"axes: {', '.join(self.mesh) or 'none'}; give their sizes under [mesh]",
            )
        if prod(self.mesh.values()) != world_size:
            raise InputError(
                f"[mesh] has {prod(self.mesh.values())} ranks, there are {world_size}",
                self.where,
                "give the sizes of all axes, the outermost first",
            )
        names = list(self.mesh)
        inner = prod(self.mesh[name] for name in names[names.index(axis) + 1 :])
        return self.mesh[axis], rank // inner % self.mesh[axis]


def _share(block: list[int], parts: int, place: int, where: str) -> list[int]:
    if len(block) % parts:
        raise InputError(
            f"{len(block)} positions cannot be cut into {parts} equal shards",
            where,
            "give `pieces`: boxes per rank",
        )
    width = len(block) // parts
    return block[place * width : (place + 1) * width]


def _interleaved(held: list[list[int]], groups: int, where: str) -> list[int]:
    """The parts of a rank, group by group: q of the first group, its k, its v, q of the next."""
    if any(len(block) % groups for block in held):
        raise InputError(
            f"parts of {[len(b) for b in held]} positions on a rank are not {groups} groups each",
            where,
            "`groups` is the number of groups that one rank holds",
        )
    return [
        position
        for group in range(groups)
        for block in held
        for position in block[group * len(block) // groups : (group + 1) * len(block) // groups]
    ]


def _ungrouped(
    positions: list[int], parts: Sequence[int], groups: int, where: str
) -> list[list[int]]:
    """The parts of a sequential tensor that is fused group by group."""
    if any(part % groups for part in parts):
        raise InputError(f"parts {list(parts)} are not {groups} groups each", where, SEE)
    widths = [part // groups for part in parts]
    found: list[list[int]] = [[] for _ in parts]
    at = 0
    for _ in range(groups):
        for block, width in zip(found, widths, strict=True):
            block.extend(positions[at : at + width])
            at += width
    return found


@dataclass
class Override:
    """All declarations; the last one that fits a name counts."""

    declarations: Sequence[Declared] = ()
    gradients_in_part: Sequence[str] = ()
    used: set[int] = field(default_factory=set)
    fitted: set[str] = field(default_factory=set)  # of gradients_in_part

    def declared(self, name: str) -> Declared | None:
        """What is declared of an input."""
        for place in reversed(range(len(self.declarations))):
            if fnmatchcase(name, self.declarations[place].name):
                self.used.add(place)
                return self.declarations[place]
        return None

    def in_part(self, name: str) -> bool:
        """Is it enough that some of the ranks that use the input return its gradient?"""
        fitting = {text for text in self.gradients_in_part if fnmatchcase(name, text)}
        self.fitted |= fitting
        return bool(fitting)

    def check_used(self) -> None:
        """A declaration that fits no input is a mistake in it."""
        for place, one in enumerate(self.declarations):
            if place not in self.used and not one.optional:
                raise InputError(
                    f"no input is called `{one.name}`",
                    one.where,
                    "names are those of parameters, buffers and arguments; * fits anything; "
                    "`optional = true` allows that nothing fits",
                )
        for text in self.gradients_in_part:
            if text not in self.fitted:
                raise InputError(
                    f"no input is called `{text}`", "gradients_in_part", "correct the name"
                )


def load_override(given: Path | str | Mapping[str, Any] | None) -> Override:
    """Reads relations.toml, or takes what it would hold."""
    if given is None:
        return Override()
    if isinstance(given, Mapping):
        return _override(given, "relations")
    if not isinstance(given, (str, Path)):
        raise InputError(f"relations are {type(given).__name__}", None, "give a file or a mapping")
    path = Path(given)
    return _override(read_toml(path, "the relations file", SEE, SEE), str(path))


def _override(document: Mapping[str, Any], where: str) -> Override:
    names = document.get("gradients_in_part", [])
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise InputError("gradients_in_part is a list of names; * fits anything", where, SEE)
    return Override(list(_declarations(document, where)), names)


def _declarations(document: Mapping[str, Any], where: str) -> Iterator[Declared]:
    if unknown := set(document) - DOCUMENT:
        known = ", ".join(sorted(DOCUMENT))
        raise InputError(f"unknown key `{min(unknown)}`", where, f"known: {known}")
    mesh, rows = document.get("mesh", {}), document.get("relation", [])
    if not isinstance(mesh, Mapping) or not all(type(n) is int and n > 0 for n in mesh.values()):
        raise InputError("[mesh] gives a size per axis, the outermost first", where, SEE)
    if not isinstance(rows, Sequence) or not all(isinstance(row, Mapping) for row in rows):
        raise InputError("relations are tables: [[relation]]", where, SEE)
    for number, row in enumerate(rows):
        yield _declaration(row, dict(mesh), f"{where}: relation {number}")


def _declaration(row: Mapping[str, Any], mesh: Mapping[str, int], where: str) -> Declared:
    if unknown := set(row) - KEYS:
        raise InputError(
            f"unknown key `{min(unknown)}`", where, f"known: {', '.join(sorted(KEYS))}"
        )
    name = row.get("name")
    if not isinstance(name, str) or not name:
        raise InputError("a relation needs the `name` of an input", where, SEE)
    where = f"{where} (`{name}`)"
    for key in ("transposed", "overrules", "optional"):
        if not isinstance(row.get(key, False), bool):
            raise InputError(f"`{key}` is neither true nor false", where, SEE)
    if ("placement" in row) == ("pieces" in row):
        raise InputError("give either `placement` or `pieces`", where, SEE)
    idle = set(row) & (OF_PLACEMENT if "pieces" in row else set() if "parts" in row else OF_PARTS)
    if idle:
        needed = "placement" if "pieces" in row else "parts"
        raise InputError(f"`{min(idle)}` says nothing without `{needed}`", where, SEE)
    if row.get("grouped", "distributed") not in ("distributed", "sequential"):
        raise InputError("`grouped` is distributed or sequential", where, SEE)
    sequential = row.get("sequential")
    if sequential is not None and not isinstance(sequential, str):
        raise InputError("`sequential` is the name of a sequential input", where, SEE)
    return Declared(
        name=name,
        where=where,
        mesh=mesh,
        counterpart=sequential,
        shards=_shards(row.get("placement", "replicate"), where),
        parts=_numbers(row, "parts", where),
        groups=(_numbers({"groups": [row.get("groups", 1)]}, "groups", where))[0],
        grouped=row.get("grouped", "distributed"),
        explicit=_pieces(row, where),
        transposed=row.get("transposed", False),
        overrules=row.get("overrules", False),
        optional=row.get("optional", False),
    )


def _pieces(row: Mapping[str, Any], where: str) -> list[Explicit]:
    pieces = row.get("pieces", [])
    if not isinstance(pieces, list) or not all(isinstance(p, Mapping) for p in pieces):
        raise InputError("`pieces` is a list of tables", where, SEE)
    if "pieces" in row and not pieces:
        raise InputError("`pieces` is empty", where, "list what the ranks hold")
    return [_explicit(piece, where) for piece in pieces]


def _explicit(piece: Mapping[str, Any], where: str) -> Explicit:
    ranks = piece.get("rank")
    listed = [ranks] if type(ranks) is int else ranks
    boxes: list[Any] = [piece.get("sequential"), piece.get("distributed")]
    fits = (
        set(piece) <= {"rank", "sequential", "distributed"}
        and (listed is None or _integers(listed))
        and all(_is_box(box) for box in boxes)
    )
    if not fits:
        raise InputError(
            f"the piece {dict(piece)} is not `rank`, `sequential` and `distributed`", where, BOXES
        )
    return Explicit(listed, *boxes)


def _integers(value: Any) -> bool:
    return isinstance(value, list) and all(type(v) is int for v in value)


def _is_box(value: Any) -> bool:
    return isinstance(value, list) and all(_integers(side) and len(side) == 2 for side in value)


def _numbers(row: Mapping[str, Any], key: str, where: str) -> list[int]:
    numbers = row.get(key, [])
    if not isinstance(numbers, list) or not all(type(n) is int and n > 0 for n in numbers):
        raise InputError(f"`{key}` is not made of positive numbers", where, SEE)
    return numbers


def _shards(placement: Any, where: str) -> list[tuple[int, str | None]]:
    texts = [placement] if isinstance(placement, str) else placement
    if not isinstance(texts, list) or not texts:
        raise InputError("`placement` is replicate, shard(dim), or a list of those", where, SEE)
    found = [shard for text in texts if (shard := _shard(text, where)) is not None]
    axes = [axis for _, axis in found]
    if len(set(axes)) < len(axes) or (None in axes and len(axes) > 1):
        raise InputError(
            f"the placement {texts} cuts over the same ranks twice",
            where,
            "name an axis of [mesh] per shard: shard(0, data), shard(1, tensor)",
        )
    return found


def _shard(text: Any, where: str) -> tuple[int, str | None] | None:
    shard = SHARD.fullmatch(text) if isinstance(text, str) else None
    if shard is not None:
        return int(shard.group(1)), shard.group(2)
    if isinstance(text, str) and REPLICATE.fullmatch(text):
        return None
    raise InputError(
        f"the placement {text!r} is not known",
        where,
        "replicate, shard(dim) or shard(dim, axis of the mesh)",
    )
