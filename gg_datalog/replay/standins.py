"""Stand-ins for kernels that are not there: functions that obey what the table declares.

A dimension that may be cut is worked on position by position, one that must be whole is mixed with
weights of its own for every position, one that is added up is added up; the result is linear in the
operands that the row declares linear. Attributes go in as a factor.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any
from zlib import crc32

import torch

from gg_datalog.extract.sharding import read_rule
from gg_datalog.extract.table import Row
from gg_datalog.replay.tensor import Tensor


def stand_in(
    row: Row,
    operands: Sequence[Tensor | None],
    attributes: str,
    sizes: Mapping[str, int],
    spread: Mapping[str, Sequence[int]] | None = None,
) -> list[Tensor]:
    """The results of one row of the table; ``sizes`` are those that attributes give, ``spread``
    lists of them for letters that stand for several dimensions. Operands may be left out."""
    row, more_sizes, left, right = _widened(row, spread or {})
    sizes = {**sizes, **more_sizes}
    all_given = list(zip(operands, left, strict=True))
    present = [i for i, x in enumerate(operands) if x is not None]
    row = replace(row, linear=tuple(present.index(i) for i in row.linear if i in present))
    given = [(x, names) for x, names in all_given if x is not None]
    attributes += "".join(f" without {i}" for i, x in enumerate(operands) if x is None)
    rest = [x.dim() - sum(n != ("...",) for n in names) for x, names in given if ("...",) in names]
    more = [f"...{i}" for i in range(rest[0] if rest else 0)]
    known = {"u": 1, **sizes}
    lettered = []
    for x, names in given:
        for letters, extent in zip(_expand(names, more), x.shape, strict=True):
            if len(letters) == 1 and (extent > 1 or letters[0] not in known):
                known[letters[0]] = extent
    for x, names in given:
        shape = []
        for letters, extent in zip(_expand(names, more), x.shape, strict=True):
            for n in (n for n in letters if n not in known):
                known[n] = extent // prod(known[m] for m in letters if m in known)
            shape += [known[n] if extent > 1 else 1 for n in letters]
        flat = [n for letters in _expand(names, more) for n in letters]
        lettered.append((x.reshape(shape).to(torch.float64), flat))
    return [
        _result(row, lettered, _expand(names, more), known, f"{row.target}[{place}]({attributes})")
        for place, names in zip(row.results, right, strict=True)
    ]


def _widened(
    row: Row, given: Mapping[str, Sequence[int]]
) -> tuple[Row, dict[str, int], list[Any], list[Any]]:
    """The row with a letter per size of each list, and those sizes."""
    left, right = read_rule(row.rule)
    letters = {
        n: ["u"] * len(sizes) if n == "u" else [f"{n}.{i}" for i in range(len(sizes))]
        for n, sizes in given.items()
    }
    known = {m: e for n, sizes in given.items() for m, e in zip(letters[n], sizes, strict=True)}

    def wide(dims: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
        return [(m,) if len(d) == 1 else d for d in dims for m in letters.get(d[0], d[:1])]

    def several(names: Sequence[str]) -> tuple[str, ...]:
        return tuple(m for n in names for m in letters.get(n, [n]))

    row = replace(row, whole=several(row.whole), sums=several(row.sums))
    known.pop("u", None)
    return row, known, [wide(d) for d in left], [wide(d) for d in right]


def _expand(names: Sequence[tuple[str, ...]], more: Sequence[str]) -> list[tuple[str, ...]]:
    out: list[tuple[str, ...]] = []
    for dim in names:
        if dim == ("...",):
            out += [(n,) for n in more]
        elif dim[0] == "(":
            out.append(tuple(m for n in dim[1:] for m in (more if n == "..." else (n,))))
        else:
            out.append(dim)
    return out


def _result(
    row: Row,
    lettered: Sequence[tuple[Tensor, list[str]]],
    dims: Sequence[tuple[str, ...]],
    known: Mapping[str, int],
    seed: str,
) -> Tensor:
    out = [n for letters in dims for n in letters]
    summed = sorted({n for _, names in lettered for n in names if _summed(row, n)} - set(out))
    axes = [*out, *summed]
    linear: Tensor | None = None
    other = torch.zeros([1] * len(axes), dtype=torch.float64)
    for place, (x, names) in enumerate(lettered):
        mixed, left = _mixed(row, x, names, out, place)
        spread = _spread(mixed, left, axes)
        if place in row.linear:
            linear = spread if linear is None else linear * spread
        else:
            other = other + (1 + 0.37 * place) * spread
    made = _bent(other, seed)
    if linear is not None:
        made = linear * (0.5 + made)
    for axis, name in enumerate(axes):
        if not any(name in names for _, names in lettered):
            made = made * _weights(known[name], axis, len(axes), axis)
    made = made.expand([known[n] for n in axes])
    if summed:
        made = made.sum(tuple(range(len(out), len(axes))))
    return made.reshape([prod(known[n] for n in letters) for letters in dims])


def _gain(text: str) -> float:
    """A factor from 0.5 to 1.5, another one for every text."""
    return 0.5 + crc32(text.encode()) / 2**32


def _bent(x: Tensor, text: str) -> Tensor:
    """A function that is not linear."""
    return _gain(text) * (torch.tanh(x) + 0.3 * torch.cos(x))


def each(text: str, operands: Sequence[Tensor], flags: Collection[str]) -> Tensor:
    """A function element by element, ``text`` says of which kernel and attributes; `linear` in the
    first operand, `monotone` in the only one, `commutative`."""
    given = [x.to(torch.float64) for x in operands]
    if "linear" in flags:
        rest = sum(((1 + 0.37 * i) * x for i, x in enumerate(given[1:])), torch.zeros(()))
        return given[0] * (2 + _bent(rest, text))
    if "monotone" in flags and len(given) == 1:
        return _gain(text) * (given[0] + torch.tanh(given[0]))
    step = 0.0 if "commutative" in flags else 0.37
    return _bent(sum(((1 + step * i) * x for i, x in enumerate(given)), torch.zeros(())), text)


def _summed(row: Row, letter: str) -> bool:
    return letter in row.sums or ("..." in row.sums and letter.startswith("..."))


def _mixed(
    row: Row, x: Tensor, names: Sequence[str], out: Sequence[str], place: int
) -> tuple[Tensor, list[str]]:
    """An operand whose whole dimensions are mixed; those that the result lacks are gone."""
    left = list(names)
    for name in names:
        if name not in row.whole:
            continue
        axis = left.index(name)
        weights = _weights(x.shape[axis], axis, x.dim(), place + len(name))
        mean = (x * weights).mean(axis, keepdim=True)
        if name in out:
            x = x * weights + mean
        else:
            x = mean.squeeze(axis)
            left.remove(name)
    return x, left


def _weights(extent: int, axis: int, rank: int, seed: int) -> Tensor:
    """One weight per position, along one axis of several."""
    steps = torch.arange(extent, dtype=torch.float64)
    shape = [-1 if i == axis else 1 for i in range(rank)]
    return (1 + 0.5 * torch.cos(1.7 * steps + 0.6 * seed)).reshape(shape)


def _spread(x: Tensor, names: Sequence[str], axes: Sequence[str]) -> Tensor:
    """The operand with one axis per letter of the result."""
    kept = [n for n in names if n in axes]
    x = x.reshape([e for e, n in zip(x.shape, names, strict=True) if n in kept])
    order = sorted(range(len(kept)), key=lambda i: axes.index(kept[i]))
    extents = dict(zip(kept, x.shape, strict=True))
    return x.permute(order).reshape([extents.get(n, 1) for n in axes])


def opaque(
    target: str, operands: Sequence[Tensor], attributes: str, shape: Sequence[int]
) -> Tensor:
    """A stand-in for a kernel of which nothing is known: everything depends on everything."""
    total = torch.zeros((), dtype=torch.float64)
    for place, x in enumerate(operands):
        flat = x.to(torch.float64).reshape(-1)
        total = total + (flat * _weights(flat.numel(), 0, 1, place)).sum() / max(flat.numel(), 1)
    gain = _gain(f"{target}({attributes})")
    return gain * torch.sin(3 * gain * (total + _weights(prod(shape), 0, 1, 3))).reshape(
        list(shape)
    )
