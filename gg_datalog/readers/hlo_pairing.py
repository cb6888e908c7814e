"""Input relations: which part of a parameter of the sequential program each device has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from gg_datalog.foundation.errors import InputError
from gg_datalog.readers.hlo_devices import BadGroups
from gg_datalog.readers.hlo_graph import Json, Recipe, Value
from gg_datalog.readers.hlo_program import Program
from gg_datalog.readers.hlo_scan import Unbalanced
from gg_datalog.readers.hlo_sharding import (
    UNKNOWN,
    Sharding,
    read_meshes,
    read_shardings,
    shardy_of,
)
from gg_datalog.readers.hlo_text import Instruction, Module

Warn = dict[str, None]


def relations(seq: Program, dist: Sequence[Program], warnings: Warn) -> list[Json] | None:
    """Rows of the input relations; None where no parameter says how it is sharded."""
    rows: list[Json] = []
    known = False
    annotations: dict[int, dict[int, list[Sharding]]] = {}
    for program in dist:
        module = program.module
        shardings = annotations.setdefault(id(module), _annotations(module))
        known = known or bool(shardings)
        for number, other in _pairs(seq, program, warnings):
            given = shardings.get(number)
            if given is None:
                warnings.setdefault(f"parameter {number} says nothing of its sharding")
                continue
            whole, part = seq.parameters[other], program.parameters[number]
            if len(whole) != len(part) or len(given) != len(part):
                warnings.setdefault(f"parameter {number} has another form on both sides")
                continue
            for x, y, sharding in zip(whole, part, given, strict=True):
                row = _row(x, y, sharding, program, number, warnings)
                rows.extend([row] if row else [])
    return [*rows, *_ranges(seq, dist)] if known else None


def _annotations(module: Module) -> dict[int, list[Sharding]]:
    """Shardings of the entry's parameters, by number."""
    found = {}
    try:
        meshes = read_meshes(module.attributes.get("frontend_attributes", ""))
        for at in module.entry.parameters:
            made = _annotation(at, meshes)
            if made is not None:
                found[int(at.inner)] = made
    except (BadGroups, Unbalanced, ValueError) as error:
        raise InputError(
            f"a sharding cannot be read: {error}", module.path, "dump it again"
        ) from None
    return found


def _annotation(at: Instruction, meshes: Mapping[str, str]) -> list[Sharding] | None:
    from gg_datalog.readers.hlo_shapes import leaves

    ranks = [len(leaf.dims) for leaf in leaves(at.shape)]
    if "sharding" in at.attributes:
        return read_shardings(at.attributes["sharding"], ranks, meshes)
    text = shardy_of(at.attributes.get("frontend_attributes", ""))
    return read_shardings(text, ranks, meshes, shardy=True) if text else None


def _pairs(seq: Program, program: Program, warnings: Warn) -> Iterator[tuple[int, int]]:
    """(number, number in the sequential program): by the user's names, else in order."""
    names = _names(seq)
    ours = {number: name for name, number in _names(program).items()}
    same = len(names) == len(seq.parameters) and sorted(names) == sorted(ours.values())
    if len(seq.parameters) == len(program.parameters) and not same:
        yield from ((n, n) for n in sorted(program.parameters) if n in seq.parameters)
        return
    for at in program.module.entry.parameters:
        name = ours.get(int(at.inner), "")
        if name in names:
            yield int(at.inner), names[name]
        else:
            warnings.setdefault(
                f"parameter {at.inner} `{name or at.name}` has no counterpart: the programs have "
                f"{len(seq.parameters)} and {len(program.parameters)} parameters"
            )


def _names(program: Program) -> dict[str, int]:
    """Parameters by the names that the user's program gave them, where no two share one."""
    found: dict[str, int] = {}
    shared: set[str] = set()
    for at in program.module.entry.parameters:
        name = program.sources.name(at)
        if name in found:
            shared.add(name)
        found[name] = int(at.inner)
    return {name: number for name, number in found.items() if name and name not in shared}


def _row(
    whole: Value, part: Value, sharding: Sharding, program: Program, number: int, warnings: Warn
) -> Json | None:
    if sharding == UNKNOWN:
        warnings.setdefault(f"parameter {number}: its sharding does not say what a device has")
        return None
    dims = whole.shape.dims, part.shape.dims
    if len(dims[0]) != len(dims[1]) or whole.shape.dtype != part.shape.dtype:
        warnings.setdefault(f"parameter {number} is {whole.shape} and {part.shape}: left open")
        return None
    try:
        parts = program.devices.partitions  # annotations number the devices of one replica
        boxes = sharding.boxes(program.rank % parts if parts > 1 else program.rank, *dims)
    except BadGroups as error:
        raise InputError(
            f"`{part.node}`: {error}",
            program.module.path,
            "are these dumps of the same function, with the same sizes?",
        ) from None
    if boxes is None:
        return None
    row: Json = {"seq": whole.node, "rank": program.rank, "dist": part.node}
    for key, box, sizes in (("seq_box", boxes[0], dims[0]), ("dist_box", boxes[1], dims[1])):
        if box != [[0, n] for n in sizes]:
            row[key] = box
    return row


# ---- numbers that a device counts from its own offset on
def _ranges(seq: Program, dist: Sequence[Program]) -> Iterator[Json]:
    """Parts of the sequential program's ranges: 8 to 16 on the second of two devices is a part of
    0 to 16. Both are constants, so this is no guess."""
    wholes = list(seq.recipes.values())
    parts: dict[tuple[str, str], list[tuple[Program, Recipe]]] = {}
    for program in dist:
        for recipe in program.recipes.values():
            if recipe.local:
                key = recipe.shape.dtype, recipe.made_for
                parts.setdefault(key, []).append((program, recipe))
    named: dict[str, Recipe] = {}
    for found in parts.values():
        whole = _whole(wholes, [recipe for _, recipe in found])
        if whole is not None:
            named[whole.node] = whole
            yield from (_part(whole, recipe, program) for program, recipe in found)
    for program in dist:  # what the rows name is an input: its copies have to be named, too
        for recipe in program.recipes.values():
            for whole in named.values():
                if not recipe.local and (recipe.known, recipe.shape) == (whole.known, whole.shape):
                    yield _part(whole, recipe, program)


def _whole(wholes: list[Recipe], parts: list[Recipe]) -> Recipe | None:
    """The smallest range of the sequential program that holds those of all devices."""
    fitting = [w for w in wholes if all(_place(w, part) is not None for part in parts)]
    return min(fitting, key=lambda w: w.shape.size, default=None)


def _place(whole: Recipe, part: Recipe) -> int | None:
    """Where a range lies in another one."""
    if whole.shape.dtype != part.shape.dtype or whole.known.steps != part.known.steps:
        return None
    at, rest = divmod(int(part.known.base) - int(whole.known.base), whole.known.steps[0])
    return at if rest == 0 and at >= 0 and at + part.shape.size <= whole.shape.size else None


def _part(whole: Recipe, recipe: Recipe, program: Program) -> Json:
    at = _place(whole, recipe) or 0
    row: Json = {"seq": whole.node, "rank": program.rank, "dist": recipe.node}
    if recipe.shape != whole.shape:
        row["seq_box"] = [[at, at + recipe.shape.size]]
    return row
