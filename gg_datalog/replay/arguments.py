"""Arguments that are sizes or positions, by their names: how they are written anew.

A size that is not listed here (torch's schemas call them `SymInt`) keeps the sizes of its node.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gg_datalog.replay.atoms import cut, extent, fix, off_by, scaled, size
from gg_datalog.replay.calls import named
from gg_datalog.replay.lookups import short
from gg_datalog.replay.sized import Sized

END = 2**62
Rewrite = Callable[[Sized, str], None]


def result_sizes(call: Sized, name: str) -> None:
    """The sizes of the result."""
    call.sizes(name, call.result)


def nothing(_: Sized, __: str) -> None:
    """It counts what does not change."""


def strides(call: Sized, name: str) -> None:
    """A dense order of memory: that of the captured strides."""
    holder, key = call.place(name)
    order = sorted(range(len(holder[key])), key=lambda i: -holder[key][i])

    def write() -> None:
        made, step = [0] * len(order), 1
        for i in reversed(order):
            made[i], step = step, step * size(call.result[i])
        holder[key] = made

    call.at.rewrites.append(write)


def normalized(call: Sized, name: str) -> None:
    """The last dimensions of the input."""
    call.sizes(name, call.operand("input")[-len(call.given[name]) :])


def rows(call: Sized, name: str) -> None:
    """How many rows the result has."""
    call.number(name, call.result[0])


def classes(call: Sized, name: str) -> None:
    """How many classes the last dimension of the result has; -1 where they are counted."""
    if call.given[name] >= 0:
        call.number(name, call.result[-1])


def unflattened(call: Sized, name: str) -> None:
    """What a dimension is made of."""
    dim, count = call.along(), len(call.given[name])
    call.sizes(name, call.result[dim : dim + count])


def slice_sizes(call: Sized, name: str) -> None:
    """The sizes of the table, 1 along the dimension that is looked up."""
    gone = call.given["collapsed_dims"]
    whole = [[] if i in gone else d for i, d in enumerate(call.operand("self"))]
    if [extent(d) for d in whole] != call.given[name]:
        raise ValueError("a part of each row")
    call.sizes(name, whole)


def counted(call: Sized, name: str) -> None:
    """The end of what counts from 0 on."""
    start, step = call.given.get("start", 0), call.given.get("step", 1)
    if (start, step) != (0, 1) or type(call.given[name]) is not int:
        fix(call.result[0])
        call.at.say(call.node, call.result)
        return
    call.number(name, call.result[0])


def width(call: Sized, name: str) -> None:
    """The size of the pieces of a dimension."""
    pieces = call.at.dims[call.node["name"]]
    if isinstance(call.given[name], int):
        call.number(name, pieces[0][call.along()])
    else:
        call.sizes(name, [p[call.along()] for p in pieces])


def index(call: Sized, name: str) -> None:
    """A position: the first and the last one are that in any size."""
    dim = call.operand("self")[call.along()]
    if call.given[name] == extent(dim) - 1 != 0:
        call.number(name, dim, less=1)
    elif call.given[name] not in (0, -1):
        fix(dim)


def bound(call: Sized, name: str) -> None:
    """Where a slice starts or ends, or how long it is."""
    dim = call.operand("self")[call.along()]
    low, high = _bounds(call, extent(dim))
    if call.given[name] >= END:
        return
    first, last = low == 0, high == extent(dim)
    if high - low == 1 and (first or last):  # one position at an end
        if last and not first and name != "length":
            call.number(name, dim, less=0 if name == "end" else 1)
        return
    whole = first and last
    by = 0 if whole else off_by(dim, [low, high])
    unit = dim if whole else cut(dim, [low - by, high - by])
    position, beside = {"start": (low, by), "end": (high, by), "length": (high - low, 0)}[name]
    call.at.number_at(*call.place(name), lambda: scaled(position, unit, beside))


def one_by_one(call: Sized, name: str) -> None:
    """Of a slice with a step nothing is known."""
    if call.given[name] != 1:
        raise ValueError("a slice with a step")


def _bounds(call: Sized, total: int) -> tuple[int, int]:
    given = call.given
    start, end = given.get("start") or 0, given.get("end")
    if "length" in given:
        end = start + given["length"]
    end = total if end is None else end
    low, high = (max(0, min(total, v + total if v < 0 else v)) for v in (start, end))
    return low, high


def splits(call: Sized, name: str) -> None:
    """How many rows go to each member, or come from it."""
    if not call.given[name]:
        return
    of = next(iter(call.given.values()))
    dims = call.at.dims[of["node"]] if name.startswith("input") else call.result
    if not isinstance(dims, list) or not all(type(e) is int for e in call.given[name]):
        raise ValueError("splits that depend on data")
    unit = cut(dims[0], call.given[name])
    holder, key = call.place(name)
    listed = holder[key]

    def write() -> None:
        holder[key] = [scaled(e, unit) for e in listed]

    call.at.rewrites.append(write)


SIZES: dict[str, Rewrite] = {
    "size": result_sizes,
    "shape": result_sizes,
    "input_sizes": result_sizes,
    "self_sizes": result_sizes,
    "stride": strides,
    "normalized_shape": normalized,
    "num_weights": rows,
    "num_classes": classes,
    "slice_sizes": slice_sizes,
    "split_size": width,
    "split_sizes": width,
    "start": bound,
    "end": bound,
    "length": bound,
    "index": index,
    "step": one_by_one,
    "padding_idx": nothing,
    "input_split_sizes": splits,
    "output_split_sizes": splits,
}
COUNTS: dict[str, Rewrite] = {"end": counted, "length": counted, "start": nothing, "step": nothing}
OPERATORS: dict[str, dict[str, Rewrite]] = {
    "arange": COUNTS,
    "iota": COUNTS,
    "unflatten": {"sizes": unflattened},
    "topk": {"k": nothing},
    "chunk": {"chunks": nothing},
    "unsafe_chunk": {"chunks": nothing},
    "tensor_split": {"sections": nothing},
    "repeat": {"repeats": nothing},
    "as_strided": {"size": lambda call, _: call.at.keep(call.node), "stride": nothing},
}
REFERENCES = ("index_select", "index_add", "index_copy", "index_fill", "gather", "scatter",
              "scatter_add", "scatter_reduce", "index")  # fmt: skip
for _kernel in REFERENCES:  # there `index` is a tensor
    OPERATORS[_kernel] = {"index": nothing}


def rewrite(call: Sized) -> None:
    """Notes which arguments are to be written anew."""
    name = named(call.at.table, call.node)
    if name in call.at.table.rows:
        return _by_rows(call, name)
    kernel = short(call.at.table, call.node)
    known = dict(SIZES) | dict(OPERATORS.get(kernel, {}))
    for argument, value in call.given.items():
        kind = _type(call, argument)
        if argument in known:
            if value is not None and call.is_given(argument):
                known[argument](call, argument)
        elif kind.startswith("SymInt") and value is not None and call.is_given(argument):
            raise ValueError(f"argument `{argument}` is a size of something")
    return None


def _type(call: Sized, argument: Any) -> str:
    parameters = call.signature.parameters if call.signature else ()
    return next((p.type for p in parameters if p.name == argument), "")


def _by_rows(call: Sized, name: str) -> None:
    """Sizes that the rows of a kernel name by the letters of their rules."""
    assert call.at.lowered is not None
    letters = call.at.lowered.letters(call.node["name"])
    for row in call.at.table.rows[name]:
        for letter, value in row.sizes.items():
            if isinstance(value, int):
                fix(letters.get(letter, []))
            elif letter in letters:
                call.number(value, letters[letter])
        for letter, which in row.spread.items():
            several = [d for n, d in letters.items() if n.startswith(f"{letter}.")]
            if several:
                call.sizes(call.key(which), several)
        whole = [letters[n] for n in row.whole if n in letters]
        for key in map(call.key, row.ignore):
            if call.given.get(key) == [extent(d) for d in whole] != []:
                call.sizes(key, whole)
