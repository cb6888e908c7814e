"""A case as tables: reading, lowering both sides, writing rows."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa

from gg_datalog.extract.case import Case, CaseFiles, load_case, output_on
from gg_datalog.extract.collectives import World
from gg_datalog.extract.context import Context, Notes
from gg_datalog.extract.dense import chooses_matrices, dense_rows
from gg_datalog.extract.dtypes import valued
from gg_datalog.extract.emit import Emitter, write_sides
from gg_datalog.extract.graph import (
    Graph,
    Ref,
    about_positions,
    integers_of,
    is_symbolic,
    samples_of,
)
from gg_datalog.extract.late import divides_late
from gg_datalog.extract.lower_math import FINITE
from gg_datalog.extract.padding import paddings, write_padding
from gg_datalog.extract.placing import write_placing, write_state
from gg_datalog.extract.relations import Row, cut_in_two_ways, input_rows
from gg_datalog.extract.schema import RELATIONS, Relation
from gg_datalog.extract.side import Side
from gg_datalog.extract.table import Table, load_table
from gg_datalog.extract.twins import stacked_twins
from gg_datalog.extract.unused import unused
from gg_datalog.extract.view import Base, View
from gg_datalog.foundation.errors import InputError

LOSS = re.compile(r"nll_loss|cross_entropy")
BOUND = re.compile(r"\b(clamp|clip|clamp_min|maximum|where)\b")
EXPONENTIAL = re.compile(r"\b(exp|logsumexp|logaddexp)\b")  # what merges parts of a softmax
VARIANCE = re.compile(r"\b(var|var_mean|native_layer_norm|layer_norm|native_batch_norm)\b")
CONVOLUTION = re.compile(r"\b(_?convolution(_backward)?|conv[123]d)\b")
ATTENTION = re.compile(r"\b_?scaled_dot_product\w*attention")
FILL = re.compile(r"\b(where|masked_fill_?|hlo.select|tril|triu)\b")
SINGLE, DOUBLE = {"float32", "bfloat16", "float16"}, {"float64", "complex128"}

Progress = Callable[[str], None] | None


@dataclass
class Built:
    """A case that was lowered: both sides as objects, and the tables that say the same."""

    case: Case
    worlds: dict[str, World]
    tables: dict[str, pa.Table]
    table: Table

    def side(self, name: str) -> Side:
        """One side, ``seq`` or ``dist``."""
        contexts = self.worlds[name].contexts
        return contexts[min(contexts)].side


def build(files: CaseFiles, operators: Sequence[Path], progress: Progress) -> dict[str, pa.Table]:
    """All tables of a case; :class:`InputError` for whatever is wrong with it."""
    return build_sides(files, operators, progress).tables


def build_sides(files: CaseFiles, operators: Sequence[Path], progress: Progress) -> Built:
    """The same with the objects that the tables were written from."""
    table = load_table(operators)
    say = progress or (lambda text: None)
    say("reading graphs")
    case = load_case(files)
    rows = input_rows(case)
    notes = Notes(warnings=case.warnings)
    for kind, text in case.notes:
        notes.assume(kind, text)
    worlds = lowered(case, rows, table, notes, say)
    say("writing facts")
    tables = _tables(_emit(case, rows, worlds, table, notes))
    return Built(case, worlds, tables, table)


def lowered(
    case: Case,
    rows: Sequence[Row],
    table: Table,
    notes: Notes,
    say: Callable[[str], None],
    prepare: Callable[[World], None] = lambda world: None,
) -> dict[str, World]:
    """Both sides, lowered: the sequential one first, for the other one asks what it contracts.
    ``prepare`` is shown each before it is lowered."""
    worlds: dict[str, World] = {}
    graphs_of_all = (case.seq, *case.dist.values())
    exponentials = any(_calls(EXPONENTIAL, graph) for graph in graphs_of_all)
    exponentials = exponentials or _differ(case, _attention)
    fills = any(_calls(FILL, graph) for graph in graphs_of_all)
    moments, shifted = _differ(case, _norms), _shifted(case)
    single = _single(graphs_of_all)
    for name, graphs in (("seq", {0: case.seq}), ("dist", case.dist)):
        say("lowering the " + ("sequential graph" if name == "seq" else f"{len(graphs)} ranks"))
        worlds[name] = _world(name, graphs, case, rows, table, notes)
        side = worlds[name].contexts[min(graphs)].side
        side.exponentials, side.fills, side.single = exponentials, fills, single
        side.late = name == "seq" and divides_late(case.dist.values())
        side.moments, side.shifted = moments, shifted
        if name == "dist":
            side.others = worlds["seq"].contexts[0].side.widths or None
        side.bounds = any(BOUND.search(node.target) for node in case.seq.nodes.values())
        others = list(case.dist.values()) if name == "seq" else [case.seq]
        if not any(LOSS.search(n.target) for graph in others for n in graph.nodes.values()):
            side.told = _integers_about(graphs.values(), others)
            side.samples = tuple({s for g in (*graphs.values(), *others) for s in samples_of(g)})
        if name == "dist":
            side.padding = any(True for _ in paddings(rows, case))
            _ids_between(rows, worlds)
        prepare(worlds[name])
        worlds[name].run(lambda rank: say(f"rank {rank} lowered"))
        if chooses_matrices(worlds["seq"].contexts[0].side):
            dense_rows(side, notes)
        if name == "seq" and any(map(_exchanges, case.dist.values())):
            stacked_twins(side)
    return worlds


def _ids_between(rows: Sequence[Row], worlds: Mapping[str, World]) -> None:
    """What the sequential program looks up lies inside of its tables, on the ranks as well: where
    every element of a rank's input is one of them."""
    seq = worlds["seq"].contexts[0]
    for rank, ctx in worlds["dist"].contexts.items():
        boxes: dict[str, set[Row]] = {}
        for row in rows:
            if row.rank == rank:
                boxes.setdefault(row.dist, set()).add(row)
        for name, mine in boxes.items():
            shape = ctx.graph.nodes[name].shape or ()
            whole = {row for row in mine if row.dist_box == tuple((0, e) for e in shape)}
            ids = [_looked_up(seq, row.seq) for row in whole]
            known = [ends for ends in ids if ends is not None]
            if known:
                ctx.ids[name] = known[0]


def _looked_up(seq: Context, name: str) -> tuple[int, int] | None:
    view = seq.source_of(name)
    return seq.side.notes.ids.get(view.base) if isinstance(view, View) else None


def _integers_about(own: Iterable[Graph], others: Iterable[Graph]) -> frozenset[int]:
    """The integers that programs are written with, but for what losses ignore, and for positions:
    nothing that only compares those ignores a class."""
    found = set[int]()
    for graph in others:
        found |= integers_of(graph, about_positions(graph))
    for graph in own:
        losses = {n.name: n for n in graph.nodes.values() if LOSS.search(n.target)}
        of = {n.bound.get("target") for n in losses.values()} - {None}
        asks = {
            n.name
            for n in graph.nodes.values()
            if n.target.startswith("aten.eq.") and n.bound.get("self") in of
        }
        found |= integers_of(graph, {*losses, *asks, *about_positions(graph)})
    return frozenset(found)


def _differ(case: Case, kernels: Callable[[Graph], list[str]]) -> bool:
    """Do the ranks that call such kernels call them another number of times, or in another form,
    than the sequential program does?"""
    ours = sorted(kernels(case.seq))
    theirs = [sorted(found) for graph in case.dist.values() if (found := kernels(graph))]
    return any(found != ours for found in theirs) or bool(ours and not theirs)


def _attention(graph: Graph) -> list[str]:
    """Each call of an attention kernel, with the form of its mask."""
    found = [node for node in graph.nodes.values() if ATTENTION.search(node.target)]
    masked = ("attn_mask", "attn_bias")
    return [
        f"{node.target} {node.bound.get('is_causal')} {any(node.bound.get(m) for m in masked)}"
        for node in found
    ]


def _norms(graph: Graph) -> list[str]:
    """Each variance and each norm, by its operator."""
    return [node.target for node in graph.nodes.values() if VARIANCE.search(node.target)]


def _shifted(case: Case) -> frozenset[int]:
    """The dimensions in space, counted from the last one, of which convolutions have another extent
    on the ranks, or other padding."""
    ours = _spaces(case.seq)
    theirs: dict[int, set[str]] = {}
    for graph in case.dist.values():
        for dim, forms in _spaces(graph).items():
            theirs.setdefault(dim, set()).update(forms)
    return frozenset(dim for dim in ours.keys() & theirs.keys() if ours[dim] != theirs[dim])


def _spaces(graph: Graph) -> dict[int, set[str]]:
    """Per dimension in space of convolutions what goes in, and how it is padded."""
    found: dict[int, set[str]] = {}
    for node in graph.nodes.values():
        of = node.bound.get("input") if CONVOLUTION.search(node.target) else None
        shape = graph.nodes[of.name].shape if isinstance(of, Ref) else None
        padding = node.bound.get("padding", (0,))
        if shape is None or not isinstance(padding, tuple) or not padding:
            continue
        for dim in range(2 - len(shape), 0):
            form = f"{shape[dim]} {padding[dim] if len(padding) > 1 else padding[0]}"
            found.setdefault(dim, set()).add(form)
    return found


def _calls(what: re.Pattern[str], graph: Graph) -> bool:
    """Does a program call an operator of such a name?"""
    return any(what.search(node.target) for node in graph.nodes.values())


def _single(graphs: Iterable[Graph]) -> bool:
    """Do programs compute in floats, and in none of more than float32?"""
    dtypes = {node.dtype for graph in graphs for node in graph.nodes.values()}
    return bool(dtypes & SINGLE) and not dtypes & DOUBLE


def _exchanges(graph: Graph) -> bool:
    """Does a rank give each of the others something else?"""
    return any("all_to_all" in node.target for node in graph.nodes.values())


def _world(
    name: str,
    graphs: Mapping[int, Graph],
    case: Case,
    rows: Sequence[Row],
    table: Table,
    notes: Notes,
) -> World:
    side = Side(name, (lambda rank: "") if name == "seq" else (lambda rank: f"r{rank}."))
    side.mesh = name == "dist" and cut_in_two_ways(rows)
    contexts = {}
    for rank, graph in graphs.items():
        related = (
            {r.seq for r in rows} if name == "seq" else {r.dist for r in rows if r.rank == rank}
        )
        contexts[rank] = Context(graph, side, table, notes, frozenset(related))
    return World(contexts, case.groups[name])


def _emit(
    case: Case, rows: Sequence[Row], worlds: Mapping[str, World], table: Table, notes: Notes
) -> Emitter:
    out = Emitter()
    seq, dist = worlds["seq"].contexts[0], worlds["dist"].contexts
    roots: dict[str, list[Base]] = {"seq": [], "dist": []}
    views: dict[int, View] = {}
    shares: dict[int, dict[int, View]] = {}
    for number, row in enumerate(case.outputs):
        wanted = views[number] = _returned(seq, row.seq)
        shares[number] = {}
        out.add("output_name", number, row.seq, int(row.partial), row.name)
        if row.kind:
            out.add("output_kind", number, row.kind)
        out.add("wanted", number, wanted.base.name, out.scale(wanted.scale))
        out.add("output_view", number, "seq", 0, _digits(wanted))
        roots["seq"].append(wanted.base)
        if row.partial:
            out.add("may_be_partial", number)
        for rank, ctx in dist.items():
            name = output_on(row, rank)
            if name is None:
                continue
            if _empty(ctx, name) and not _empty(seq, row.seq):
                continue  # an empty share: there is nothing that could be wrong in it
            view = shares[number][rank] = _returned(ctx, name)
            out.add("returned", number, rank, view.base.name, out.scale(view.scale))
            out.add("returned_name", number, rank, name)
            out.add("output_view", number, "dist", rank, _digits(view))
            roots["dist"].append(view.base)
    sides = [(worlds[n].contexts[min(worlds[n].contexts)].side, roots[n]) for n in ("seq", "dist")]
    live = write_sides(out, sides, table.commutative)
    _inputs(out, rows, seq, dist, live)
    write_placing(out, views, shares, rows, case)
    write_state(out, views, shares, case, seq, dist)
    write_padding(out, sides[1][0].notes, views, shares, rows, case)
    if out.rows.get("label_fades") or out.rows.get("zero_from"):
        notes.assume(*FINITE)
    _report(out, worlds, notes)
    return out


def _digits(view: View) -> str:
    dims = ("*".join(f"{d.dim}/{d.extent}/{d.stride}" for d in dim) or "-" for dim in view.dims)
    return " ".join(dims)


def _empty(ctx: Context, name: str) -> bool:
    return 0 in (ctx.graph.nodes[name].shape or ())


def _returned(ctx: Context, name: str) -> View:
    value = ctx.values.get(name)
    repeats = isinstance(value, View) and any(
        d.dim < 0 and is_symbolic(d.extent) for dim in value.dims for d in dim
    )
    ctx.side.at.rank, ctx.side.at.node = ctx.rank, name
    if isinstance(value, View) and not repeats:
        return valued(ctx, value)
    return ctx.side.source((), "opaque")


def _inputs(
    out: Emitter,
    rows: Sequence[Row],
    seq: Context,
    dist: Mapping[int, Context],
    live: Mapping[str, set[Base]],
) -> None:
    found: dict[tuple[str, str], list[tuple[Range, ...]]] = {}
    for number, row in enumerate(rows):
        ours, theirs = seq.source_of(row.seq), dist[row.rank].source_of(row.dist)
        boxes = [",".join(f"{lo}:{hi}" for lo, hi in box) for box in (row.seq_box, row.dist_box)]
        out.add("input_row", number, row.seq, row.rank, row.dist, *boxes)
        if not isinstance(ours, View) or not isinstance(theirs, View):
            continue
        if ours.base not in live["seq"]:
            continue
        if {ours.base.kind, theirs.base.kind} != {"input"}:
            out.add(
                "warning", f"row {number} of the input relations names a constant of known value"
            )
            continue
        ranges = _ranges(ours, theirs, row)
        if ranges is None:
            out.add("warning", f"row {number} of the input relations cannot be used")
            continue
        out.add("related_input", number, theirs.base.name, ours.base.name)
        for r in ranges:
            out.add("related_range", number, *r)
        found.setdefault((theirs.base.name, ours.base.name), []).append(tuple(ranges))
    number = len(rows)
    for pair, boxes_of in found.items():
        for one, dim, repeat in recurring(boxes_of):
            out.add("related_input", number, *pair)
            for r in one:
                out.add("related_range", number, *r)
            out.add("related_repeat", number, dim, *repeat)
            number += 1


Range = tuple[int, int, int, int, int]


def recurring(rows: Sequence[tuple[Range, ...]]) -> Iterator[tuple[list[Range], int, Repeat]]:
    """Pieces of one pair of tensors that lie at equal distances along one dimension on both sides
    (the halves of a fused projection): all of them as one row. (ranges, dim, repeat)."""
    groups: dict[Any, list[tuple[int, int]]] = {}
    for ranges in dict.fromkeys(rows):
        for at, (dim, lo, n, to, dlo) in enumerate(ranges):
            if to >= 0:
                rest = (*ranges[:at], (dim, n, to), *ranges[at + 1 :])
                groups.setdefault((at, rest), []).append((lo, dlo))
    for (at, rest), starts in groups.items():
        repeat = _progression(sorted(starts), rest[at][1])
        if repeat is not None:
            lo, dlo, by = repeat
            dim, n, to = rest[at]
            yield [*rest[:at], (dim, lo, n, to, dlo), *rest[at + 1 :]], dim, by


Repeat = tuple[int, int, int, int, int]


def _progression(starts: Sequence[tuple[int, int]], n: int) -> tuple[int, int, Repeat] | None:
    """(lo, dist_lo, (stride, first, count, dist_stride, dist_first)) of equally spaced pieces."""
    if len(starts) < 2:
        return None
    (lo, dlo), (second, dist_second) = starts[:2]
    stride, dist_stride = second - lo, dist_second - dlo
    even = all(
        (a, b) == (lo + i * stride, dlo + i * dist_stride) for i, (a, b) in enumerate(starts)
    )
    if (
        not even
        or stride <= 0
        or dist_stride <= 0
        or lo % stride + n > stride
        or dlo % dist_stride + n > dist_stride
    ):
        return None
    by = (stride, lo // stride, len(starts), dist_stride, dlo // dist_stride)
    return lo % stride, dlo % dist_stride, by


def _ranges(ours: View, theirs: View, row: Row) -> list[tuple[int, int, int, int, int]] | None:
    """(dim, lo, n, dist dim or -1, dist lo) per sequential dimension of more than one position."""
    found = []
    of_theirs = {of: i for i, of in enumerate(row.order)}
    kept = [i for i, extent in enumerate(theirs.shape) if extent > 1]
    mine = 0
    for dim, ((lo, hi), extent) in enumerate(zip(row.seq_box, ours.shape, strict=True)):
        other = of_theirs[dim]
        if extent > 1:
            to = kept.index(other) if other in kept else -1
            found.append((mine, lo, hi - lo, to, row.dist_box[other][0] if to >= 0 else 0))
        elif other in kept:
            return None
        mine += extent > 1
    return found


# ---- what a person wants to read beside the facts
def _report(out: Emitter, worlds: Mapping[str, World], notes: Notes) -> None:
    for name, world in worlds.items():
        for rank, ctx in world.contexts.items():
            for node in ctx.graph.nodes.values():
                value = ctx.values.get(node.name)
                # (a formal integer is no tensor that anybody sees)
                seen = isinstance(value, View) and not value.base.ring
                view = value if seen and isinstance(value, View) else None
                shape = "x".join(map(str, node.shape)) if node.shape is not None else ""
                made = getattr(view.base.made, "name", "") if view is not None else ""
                out.add(
                    "graph_node",
                    name,
                    rank,
                    node.name,
                    node.position,
                    node.op,
                    node.target,
                    node.dtype or "",
                    shape,
                    node.source,
                    node.module,
                    view.base.name if view is not None else "",
                    str(view.scale) if view is not None else "",
                    made,
                )
        for row in world.mismatches:
            out.add("collective_mismatch", *row)
        if name == "dist":
            graphs = {rank: ctx.graph for rank, ctx in world.contexts.items()}
            for instance in world.instances:
                out.add("collective", *instance)
            for one in unused(graphs, world.instances):
                out.add("collective_unused", *one)
    for name, numbers in notes.randoms.items():
        listed = ", ".join(map(str, sorted(numbers)))
        notes.assume(
            "random",
            f"random operators are paired in program order, one to one per rank: number {listed} "
            f"({name}) of every rank draws what the sequential one draws for the same elements",
        )
    for assumption in notes.assumptions:
        out.add("assumption", *assumption)
    for row_ in dict.fromkeys(notes.unsupported):
        out.add("unsupported_operator", *row_)
    for opaque in notes.opaque:
        out.add("opaque_input", *opaque)
    for empty in notes.uninitialised:
        out.add("uninitialised", *empty)
    for text in notes.warnings:
        out.add("warning", text)


def _tables(out: Emitter) -> dict[str, pa.Table]:
    return {name: _table(relation, out.rows.get(name, [])) for name, relation in RELATIONS.items()}


@cache
def _without_rows(relation: Relation) -> pa.Table:
    """Made once per process: most relations of most cases are empty."""
    return relation.arrow().empty_table()


def _table(relation: Relation, rows: Sequence[tuple[Any, ...]]) -> pa.Table:
    if not rows:
        return _without_rows(relation)
    columns = list(zip(*rows, strict=True))
    arrays = []
    for (name, kind), values in zip(relation.columns, columns, strict=True):
        if kind == "number" and any(not -(2**31) < v < 2**31 for v in values):
            bad = next(i for i, v in enumerate(values) if not -(2**31) < v < 2**31)
            raise InputError(
                f"{values[bad]} does not fit the engine's 32-bit word",
                f"{relation.name}({', '.join(map(str, rows[bad]))}), column {name}",
                "tensors of this size cannot be described",
            )
        try:
            arrays.append(pa.array(values, pa.int64() if kind == "number" else pa.string()))
        except UnicodeEncodeError as error:
            raise InputError(
                f"{error.object!r} is no text ({error.reason})",
                f"{relation.name}, column {name}",
                "write the graph as UTF-8",
            ) from None
    return pa.table(arrays, schema=relation.arrow())
