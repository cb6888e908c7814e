"""Relations in the words of the field: ``f32[4, 6] Shard(0) of mm on ranks 0-3``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby, pairwise
from math import prod

from gg_datalog.result.blocks import Box
from gg_datalog.result.names import ranked
from gg_datalog.result.terms import Block, Coefficient, Run

SHORT = {
    "float64": "f64", "float32": "f32", "float16": "f16", "bfloat16": "bf16", "int64": "i64",
    "int32": "i32", "int16": "i16", "int8": "i8", "uint8": "u8", "bool": "b8",
    "complex64": "c64", "complex128": "c128",
}  # fmt: skip
MANY = 4


def dtype_text(dtype: str) -> str:
    """``f32`` for ``float32``; a dtype without a short name stays as it is."""
    return SHORT.get(dtype, dtype)


def tensor_text(dtype: str, shape: Sequence[int]) -> str:
    """``f32[4, 6]``."""
    return f"{dtype_text(dtype)}[{', '.join(map(str, shape))}]"


def shape_of(text: str) -> tuple[int, ...]:
    """The extents of ``4x6``, as facts have them."""
    return tuple(int(extent) for extent in text.split("x") if extent.isdigit())


def numbers_text(numbers: Iterable[int]) -> str:
    """``0-3, 6`` for 0, 1, 2, 3, 6."""
    found = sorted(set(numbers))
    runs = [
        [n for _, n in run]
        for _, run in groupby(enumerate(found), key=lambda item: item[1] - item[0])
    ]
    return ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)


def ranks_text(ranks: Iterable[int]) -> str:
    """``rank 2`` or ``ranks 0-3``."""
    found = set(ranks)
    return f"rank{'s' if len(found) > 1 else ''} {numbers_text(found)}"


def names_text(names: Iterable[str], many: int = MANY) -> str:
    """Names of distributed nodes, ranks put together: ```mm` on ranks 0-3``."""
    nodes: dict[str, list[int]] = {}
    for name in names:
        rank, node = ranked(name)
        nodes.setdefault(node, []).append(rank)
    places: dict[str, list[str]] = {}
    for node, ranks in nodes.items():
        places.setdefault(ranks_text(ranks), []).append(f"`{node}`")
    return some([f"{some(found, many)} on {ranks}" for ranks, found in places.items()], many)


def some(texts: Sequence[str], many: int = MANY) -> str:
    """The first of them; the rest of a long list as a number."""
    more = f" and {len(texts) - many} more" if len(texts) > many else ""
    return ", ".join(texts[:many]) + more


def span(lo: int, hi: int) -> str:
    """``4:8``."""
    return f"{lo}:{hi}"


def spans_text(spans: Sequence[tuple[int, int]]) -> str:
    """``0:4, 4:8``; of a long list the first two and the last."""
    texts = [span(*s) for s in spans]
    if len(texts) <= MANY:
        return ", ".join(texts)
    return f"{texts[0]}, {texts[1]}, ..., {texts[-1]}"


# ---- pieces ----------------------------------------------------------------------------------
def range_of(block: Block, shape: Sequence[int]) -> Box | None:
    """The range per sequential dimension that a block of the rules reaches; None where it is no
    box: runs that are strided or recur."""
    if len(block) != len(shape):
        return None
    found = []
    for runs, extent in zip(block, shape, strict=True):
        if len(runs) == 1 and runs[0].stride == 1:
            found.append((runs[0].lo, runs[0].lo + runs[0].n))
        elif _nested(runs) == extent:
            found.append((0, extent))
        else:
            return None
    return tuple(found)


def _nested(runs: Sequence[Run]) -> int:
    """How many positions runs reach from 0 on that continue each other without a gap, else 0."""
    reach = 1
    for stride, lo, n, *_ in sorted(runs):
        if stride != reach or lo:
            return 0
        reach = stride * n
    return reach


def merged(box: Box, base: Sequence[int], node: Sequence[int]) -> Box | None:
    """A box of a base tensor as one of the node that it is the value of; None where the node has
    dimensions of which the box is no range.

    Base dimensions are those of the node without those of one position, or finer ones."""
    found: list[tuple[int, int]] = []
    at = 0
    for extent in node:
        start, reach = at, 1
        while reach < extent and at < len(base):
            reach *= base[at]
            at += 1
        if reach != extent:
            return None
        piece = _range_of(box[start:at], base[start:at])
        if piece is None:
            return None
        found.append(piece)
    return tuple(found) if at == len(base) else None


def _range_of(box: Box, shape: Sequence[int]) -> tuple[int, int] | None:
    """A box of dimensions that lie in one, the first outermost, as a range of it."""
    for place, ((lo, hi), extent) in enumerate(zip(box, shape, strict=True)):
        if (lo, hi) == (0, extent):
            continue
        rest = list(zip(box[place + 1 :], shape[place + 1 :], strict=True))
        if prod(shape[:place]) != 1 or any(piece != (0, e) for piece, e in rest):
            return None
        inner = prod(shape[place + 1 :])
        return lo * inner, hi * inner
    return 0, prod(shape)


def placement(boxes: Mapping[int, Box], shape: Sequence[int]) -> str:
    """What the ranks have of a tensor: ``Replicate``, ``Shard(0)``, or the ranges of each rank."""
    cut = {
        dim
        for box in boxes.values()
        for dim, (piece, extent) in enumerate(zip(box, shape, strict=True))
        if piece != (0, extent)
    }
    if not cut:
        return "Replicate"
    if len(cut) == 1:
        (dim,) = cut
        ends = [boxes[rank][dim] for rank in sorted(boxes)]
        meet = all(a[1] == b[0] for a, b in pairwise(ends))
        if meet and (ends[0][0], ends[-1][1]) == (0, shape[dim]):
            return f"Shard({dim})"
    return _pieces(boxes, sorted(cut))


def _pieces(boxes: Mapping[int, Box], cut: Sequence[int]) -> str:
    """``[0:4] of dim 0 on rank 0, [3:7] on rank 1``."""
    ranks: dict[tuple[tuple[int, int], ...], list[int]] = {}
    for rank in sorted(boxes):
        ranks.setdefault(tuple(boxes[rank][dim] for dim in cut), []).append(rank)
    texts = [
        f"[{', '.join(span(*s) for s in spans)}] on {ranks_text(held)}"
        for spans, held in ranks.items()
    ]
    return f"{some(texts)}, of dim {', '.join(map(str, cut))}"


def prefix(times: Coefficient) -> str:
    """``2 x `` for a coefficient of the rules, nothing for 1."""
    return "" if times.text == "1" else f"{times.text} x "
