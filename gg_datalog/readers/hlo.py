"""HLO text: XLA's dump after the SPMD partitioner, or one text per device (docs/readers.md)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from gg_datalog.extract.documents import CaseDocuments
from gg_datalog.foundation.errors import InputError
from gg_datalog.readers import (
    ReaderInput,
    hlo_collectives,
    hlo_control,
    hlo_elementwise,
    hlo_index,
    hlo_movement,
)
from gg_datalog.readers.hlo_devices import BadGroups, Devices, read_groups
from gg_datalog.readers.hlo_graph import Json, Result, Value
from gg_datalog.readers.hlo_opaque import unknown
from gg_datalog.readers.hlo_pairing import relations
from gg_datalog.readers.hlo_program import Program
from gg_datalog.readers.hlo_scan import numbers
from gg_datalog.readers.hlo_text import Module, read_module

_ = (hlo_collectives, hlo_control, hlo_elementwise, hlo_index, hlo_movement)  # register handlers
PRECISION = ("precision", "the precision of products, and layouts in memory, are not looked at")
MOST_DEVICES = 4096


def read(given: ReaderInput) -> CaseDocuments:
    """The case of a sequential HLO text and one for all devices, or one per device."""
    if given.groups:
        raise InputError("HLO text tells its groups itself", None, "leave --group out")
    given.progress(f"reading {given.files[0]}")
    seq = program(read_module(given.files[0]), Devices(1, 1), 0)
    dist = []
    modules = _modules(given.files[1:])
    devices = _devices(modules)
    for rank in range(devices.count):
        given.progress(f"device {rank} of {devices.count}")
        dist.append(program(modules[rank if len(modules) > 1 else 0], devices, rank))
    warnings: dict[str, None] = {}
    for one in (seq, *dist):
        warnings |= one.warnings
    rows = relations(seq, dist, warnings)
    return CaseDocuments(
        seq=_document(seq),
        dist={one.rank: _document(one) for one in dist},
        groups=_groups(dist),
        relations=rows,
        about=_about(modules, devices, rows, list(warnings)),
    )


def _modules(files: Sequence[Path]) -> list[Module]:
    """The texts of the devices; a file that is given twice is read once."""
    found: dict[Path, Module] = {}
    for path in files:
        if path not in found:
            found[path] = read_module(path)
    return [found[path] for path in files]


def _devices(modules: Sequence[Module]) -> Devices:
    """How many devices there are: the header says it, the number of files, or the groups."""
    partitions = {m.count("num_partitions") for m in modules}
    replicas = {m.count("replica_count") for m in modules}
    if len(modules) > 1:
        parts = min(partitions)
        whole = len(partitions) == 1 and len(modules) % parts == 0
        return Devices(len(modules) // parts, parts) if whole else Devices(len(modules), 1)
    found = Devices(min(replicas), min(partitions))
    if found.count == 1:
        found = Devices(_named(modules[0]), 1)
    if found.count > MOST_DEVICES:
        raise InputError(
            f"{found.count} devices are too many", modules[0].path, f"at most {MOST_DEVICES}"
        )
    return found


def _named(module: Module) -> int:
    """One more than the largest device that a collective names."""
    largest = 0
    for computation in module.computations.values():
        for at in computation.instructions:
            try:
                groups = read_groups(at.attributes.get("replica_groups", "{}"))
            except (BadGroups, ValueError):
                continue  # told where the instruction is translated
            pairs = numbers(at.attributes.get("source_target_pairs", ""))
            largest = max([largest, *pairs, *(n for group in groups for n in group)])
    return largest + 1


def program(module: Module, devices: Devices, rank: int) -> Program:
    """One device's program as a graph."""
    made = Program(module, devices, rank, fallback=unknown)
    made.at = module.entry.root
    given = made.run(module.entry, None)
    made.at = module.entry.root
    returned = _tensors(given)
    made.need(bool(returned), "the program returns no tensor")
    made.nodes = _used(made.nodes, {value.node for value in returned})
    made.nodes.append(
        {
            "name": made.free("output") if "output" in made.names else "output",
            "op": "output",
            "target": "output",
            "args": [[value.ref for value in returned]],
            "kwargs": {},
        }
    )
    return made


def _used(nodes: list[Json], returned: set[str]) -> list[Json]:
    """Without the tables that served only to look up what a device's number says."""
    referred = set(returned)
    for row in nodes:
        referred.update(_references(row["args"]), _references(row["kwargs"]))
    return [
        row
        for row in nodes
        if row["target"] != "hlo.constant" or row["name"] in referred or row["args"][0][0] == "f"
    ]


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        for part in value:
            yield from _references(part)
    elif isinstance(value, dict) and "node" in value:
        yield value["node"]


def _tensors(result: Result) -> list[Value]:
    if isinstance(result, Value):
        return [result]
    return [value for part in result or () for value in _tensors(part)]


def _document(one: Program) -> Json:
    return {
        "format": "fx-graph",
        "version": 1,
        "rank": one.rank,
        "origin": one.module.path,
        "nodes": one.nodes,
    }


def _groups(dist: Sequence[Program]) -> Json:
    """The groups that collectives name, each by the names that its members use."""
    names: dict[tuple[int, ...], dict[str, str]] = {}
    for one in dist:
        for ranks, name in one.groups.items():
            names.setdefault(ranks, {})[str(one.rank)] = name
    return {
        "seq": [],
        "dist": [{"ranks": list(ranks), "names": named} for ranks, named in sorted(names.items())],
    }


def _about(
    modules: Sequence[Module], devices: Devices, rows: list[Json] | None, warnings: list[str]
) -> dict[str, Any]:
    assumptions = [PRECISION]
    if rows is not None:
        text = "parameters are paired by name or in order, and sharded as their annotations say"
        assumptions.append(("input relations", text))
    if len(modules) == 1:
        told = f"every one of {devices.count} devices runs the same text"
        assumptions.append(("devices", told))
    return {
        "route": "hlo",
        "assumptions": [{"kind": kind, "text": text} for kind, text in assumptions],
        "warnings": warnings,
    }
