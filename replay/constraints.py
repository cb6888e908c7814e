"""Which sizes of a captured graph have to change together, operator by operator.

Each handler says how the dimensions of a node come from those of its operands, and which of its
arguments are sizes or positions, to be written anew once the sizes are chosen. An operator without
a handler keeps its sizes, and so do all its operands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

from gg_datalog.extract.sharding import read_rule
from gg_datalog.extract.table import Row, Table
from gg_datalog.replay.atoms import Dim, cut, extent, fix, fixed, fresh, off_by, scaled, size, unify
from gg_datalog.replay.documents import Json, nodes_of

Dims = list[Dim]
END = 2**62
REDUCTIONS = ("sum", "mean", "amax", "amin", "max", "min", "argmax", "argmin", "prod", "var",
              "logsumexp", "any", "all", "linalg_vector_norm", "reduce_add",
              "reduce_max", "reduce_min")  # fmt: skip
SAME = ("add", "sub", "rsub", "mul", "div", "true_divide", "neg", "where", "masked_fill", "softmax",
        "log_softmax", "cumsum", "dropout", "fill", "zero", "zeros_like", "ones_like", "full_like",
        "empty_like", "rand_like", "randn_like", "addcmul", "addcdiv", "lerp", "select", "tril",
        "triu", "softmax_backward_data", "log_softmax_backward_data", "native_dropout_backward",
        "native_dropout", "copy", "expand_as", "clone", "wait_tensor", "detach",
        "bernoulli")  # fmt: skip
MADE = ("zeros", "ones", "full", "empty", "rand", "randn", "new_zeros", "new_ones", "new_full",
        "new_empty", "new_empty_strided", "empty_strided", "empty_permuted", "scalar_tensor",
        "arange", "iota", "randint", "randperm")  # fmt: skip


@dataclass
class GraphSizes:
    """The dimensions of the nodes of one graph; ``domains`` are the tables that an integer tensor
    looks up, ``counted`` the numbers that it is compared with or shifted by."""

    graph: Json
    table: Table
    dims: dict[str, Any] = field(default_factory=dict)
    origin: dict[str, str] = field(default_factory=dict)
    domains: dict[str, Dims] = field(default_factory=dict)
    # per such tensor the numbers that its lookups leave out (None: one leaves out nothing)
    skipped: dict[str, set[int | None]] = field(default_factory=dict)
    counted: list[tuple[str, Json, int]] = field(default_factory=list)
    collectives: list[tuple[str, str, Json, Dims]] = field(default_factory=list)
    rewrites: list[Callable[[], None]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.nodes = nodes_of(self.graph)

    def collect(self) -> None:
        """Walks the graph in program order."""
        for node in self.graph["nodes"]:
            if node["op"] == "output":
                continue
            made = None
            if node["op"] == "call_function":
                try:
                    made = self._node(node)
                except (
                    ValueError,
                    IndexError,
                    KeyError,
                    TypeError,
                    AttributeError,
                    AssertionError,
                ):
                    self._keep(node)
            self.dims[node["name"]] = self._checked(node, made)
            self._follow(node)

    def _checked(self, node: Json, made: Any) -> Any:
        """Dimensions as the node's shape says."""
        shape = node.get("shape")
        if shape is None or any(isinstance(e, str) for e in shape):
            return made
        own = [fresh(e) for e in shape]
        if made is None:
            if node["op"] == "call_function":
                self._keep(node)
                fix([a for dim in own for a in dim])
            return own
        if [extent(d) for d in made] != shape:
            self._keep(node)
            for dim in made:
                fix(dim)
            own = [fixed(e) for e in shape]
            return own
        return made

    def _keep(self, node: Json) -> None:
        """The operands of an operator keep their sizes."""
        for name in refs([node.get("args", []), node.get("kwargs", {})]):
            _fix_all(self.dims.get(name))

    def count(self) -> None:
        """Numbers that looked-up positions are compared with are counted in units of the table."""
        for source, node, place in self.counted:
            dims = self.domains.get(source)
            if not dims:
                continue
            value = node["args"][place]
            short = node["target"].split(".")[1]
            if value < 0 and short in COMPARING:  # no position: it stays what it is
                continue
            by = off_by(dims[0], [abs(value)]) * (1 if value > 0 else -1)
            unit = cut(dims[0], [abs(value - by)])
            self.number_at(node["args"], place, lambda v=value, u=unit, b=by: scaled(v, u, b))  # type: ignore[misc]

    def resize(self) -> None:
        """Writes the chosen sizes into the graph."""
        for rewrite in self.rewrites:
            rewrite()
        for node in self.graph["nodes"]:
            dims = self.dims.get(node["name"])
            if node.get("shape") is not None and dims is not None and not isinstance(dims, tuple):
                node["shape"] = [size(d) for d in dims]

    def elements(self, new: bool) -> int:
        """Elements of all tensors together."""
        total = 0
        for dims in self.dims.values():
            for one in dims if isinstance(dims, tuple) else (dims,):
                if one is not None:
                    total += prod(size(d) if new else extent(d) for d in one)
        return total

    # ---- arguments
    def of(self, argument: Any) -> Dims:
        """Dimensions of a tensor argument; none for a number."""
        if isinstance(argument, dict) and "node" in argument:
            found = self.dims[argument["node"]]
            if found is None or isinstance(found, tuple):
                raise ValueError("not one tensor")
            return list(found)
        if isinstance(argument, (int, float)) or argument is None:
            return []
        if isinstance(argument, dict):
            return []
        raise ValueError("not a tensor")

    def sizes_at(self, holder: Any, key: Any, dims: Dims) -> None:
        """``holder[key]`` is a list of sizes that ``dims`` give; -1 stays."""
        listed = holder[key]

        def write() -> None:
            holder[key] = [
                size(d) if e != -1 and isinstance(e, int) else e
                for e, d in zip(listed, dims, strict=True)
            ]

        if isinstance(listed, list) and len(listed) == len(dims):
            self.rewrites.append(write)
        elif isinstance(listed, list):
            raise ValueError("other sizes")

    def number_at(self, holder: Any, key: Any, value: Callable[[], int]) -> None:
        """``holder[key]`` becomes ``value()``."""

        def write() -> None:
            holder[key] = value()

        self.rewrites.append(write)

    # ---- operators
    def _node(self, node: Json) -> Any:
        target, args = node["target"], node.get("args", [])
        kernel = target
        if target.startswith("auto_functionalized"):
            return self._functionalised(node)
        if "getitem" in target:
            whole = self.dims[args[0]["node"]]
            return whole[args[1]]
        name = kernel.rpartition(".")[0] if kernel.count(".") > 1 else kernel
        name = self.table.aliases.get(name, name).removesuffix("_")
        space, _, short = name.partition(".")
        short = short.lstrip("_").removesuffix("_copy") if short else name
        if name in self.table.rows:
            return self._by_rows(node, self.table.rows[name], args, node.get("kwargs", {}))
        if space in ("_c10d_functional", "c10d_functional", "c10d") and short != "wait_tensor":
            return self._collective(node, short)
        if name == "hlo.dot":
            return _dot(self, node)
        if name in self.table.identity or name in self.table.elementwise or short in SAME:
            return self._same(node, short)
        handler = HANDLERS.get(short)
        return None if handler is None else handler(self, node)

    def _same(self, node: Json, short: str) -> Any:
        tensors = [self.of(a) for a in node["args"] if _tensor(a)]
        tensors += [self.of(a) for a in node.get("kwargs", {}).values() if _tensor(a)]
        made = broadcast(tensors)
        if short in ("copy", "expand_as") and len(tensors) == 2:
            made = tensors[0] if short == "copy" else tensors[1]
        if short == "select" and node["target"].startswith("aten"):
            return _select(self, node)
        if short == "native_dropout":
            return (made, made)
        return made

    def _functionalised(self, node: Json) -> Any:
        kernel, kwargs = node["args"][0], node["kwargs"]
        name = kernel.rpartition(".")[0] if kernel.count(".") > 1 else kernel
        if name in self.table.rows:
            return self._by_rows(node, self.table.rows[name], node["args"], kwargs)
        if name in self.table.identity:
            bases = kwargs.get("_all_bases") or [v for v in kwargs.values() if _tensor(v)]
            return (None, *(self.of(b) for b in bases))
        raise ValueError("not in the table")

    def _by_rows(self, node: Json, rows: Sequence[Row], args: list[Any], kwargs: Json) -> Any:
        found: dict[int, Dims] = {}
        for row in rows:
            found |= zip(row.results, self._by_row(row, args, kwargs), strict=True)
        if node.get("shape") is not None and set(found) == {0}:
            return found[0]
        return tuple(found.get(i) for i in range(max(found) + 1))

    def _by_row(self, row: Row, args: list[Any], kwargs: Json) -> list[Dims]:
        left, right = read_rule(row.rule)
        given = [self.of(args[w] if isinstance(w, int) else kwargs[w]) for w in row.operands]
        rest = [
            len(d) - sum(n != ("...",) for n in names)
            for d, names in zip(given, left, strict=True)
            if ("...",) in names
        ]
        more = [f"...{i}" for i in range(rest[0] if rest else 0)]
        known: dict[str, Dim] = {"u": []}
        for name, value in row.sizes.items():
            if isinstance(value, int):
                known[name] = fixed(value)
            else:
                known[name] = fresh(kwargs[value])
                self.number_at(kwargs, value, lambda n=name: size(known[n]))  # type: ignore[misc]
        expanded = [_expand(names, more) for names in left]
        for dims, names in zip(given, expanded, strict=True):  # plain letters first
            for dim, letters in zip(dims, names, strict=True):
                if len(letters) == 1:
                    _join(known, letters[0], dim)
        for dims, names in zip(given, expanded, strict=True):
            for dim, letters in zip(dims, names, strict=True):
                open_ = [n for n in letters if n not in known]
                if open_:
                    inner = prod(extent(known[n]) for n in letters if n in known)
                    known[open_[0]] = fresh(extent(dim) // inner)
                unify(dim, [a for n in letters for a in known[n]])
        for which in row.ignore:  # a list of sizes, such as a normalized shape
            listed = args[which] if isinstance(which, int) and which < len(args) else None
            whole = [known[n] for n in row.whole if n in known]
            if isinstance(listed, list) and listed and listed == [extent(d) for d in whole]:
                self.sizes_at(args, which, whole)
        outs = [_expand(names, more) for names in right]
        return [[[a for n in letters for a in known[n]] for letters in names] for names in outs]

    def _collective(self, node: Json, short: str) -> Any:
        dims = self.of(node["args"][0])
        kwargs = node.get("kwargs", {})
        words = [a for a in node["args"] if isinstance(a, str)]
        words += [kwargs[k] for k in ("group_name", "group") if isinstance(kwargs.get(k), str)]
        self.collectives.append((words[-1], short, node, dims))
        counts = [a for a in node["args"][1:] if isinstance(a, int)]
        if short == "all_gather_into_tensor":
            dim = counts[0] % len(dims) if len(counts) > 1 else 0
            return [*dims[:dim], [*fixed(counts[-1]), *dims[dim]], *dims[dim + 1 :]]
        if short == "reduce_scatter_tensor":
            inner = fresh(extent(dims[0]) // counts[-1])
            unify(dims[0], [*fixed(counts[-1]), *inner])
            return [inner, *dims[1:]]
        if short in ("all_reduce", "broadcast"):
            return dims
        for one in dims:
            fix(one)
        return None

    # ---- integers that look something up
    def _follow(self, node: Json) -> None:
        args = node.get("args", [])
        if node["op"] != "call_function" or not str(node.get("dtype", "")).startswith(
            ("int", "bool")
        ):
            return
        used = [n for n in refs(args) if n in self.origin or self._integer(n)]
        if not used:
            return
        short = node["target"].split(".")[1] if "." in node["target"] else ""
        if short in ("embedding", "index_select", "gather", "argmax", "max"):
            return
        source = self.source(used[-1] if short == "copy" else used[0])
        self.origin[node["name"]] = source
        for place, value in enumerate(args):
            if short in COUNTING and type(value) is int and value:
                self.counted.append((source, node, place))

    def _integer(self, name: str) -> bool:
        return str(self.nodes[name].get("dtype", "")).startswith("int")

    def source(self, name: str) -> str:
        """The integer tensor from which this one was shifted, clamped or moved."""
        return self.origin.get(name, name)

    def looks_up(self, ids: Any, dim: Dim, skips: int | None = None) -> None:
        """Integer tensor ``ids`` holds positions of a dimension, or the number that is left out."""
        if isinstance(ids, dict) and "node" in ids:
            self.domains.setdefault(self.source(ids["node"]), []).append(dim)
            self.skipped.setdefault(self.source(ids["node"]), set()).add(skips)


COMPARING = ("lt", "le", "ge", "gt", "eq", "ne")
COUNTING = ("add", "sub", "mul", *COMPARING)


def _tensor(argument: Any) -> bool:
    return isinstance(argument, dict) and "node" in argument


def refs(value: Any) -> list[str]:
    """Names of nodes in an argument tree."""
    if isinstance(value, dict):
        if set(value) == {"node"}:
            return [value["node"]]
        return [n for v in value.values() for n in refs(v)]
    return [n for v in value for n in refs(v)] if isinstance(value, list) else []


def _fix_all(dims: Any) -> None:
    for one in dims if isinstance(dims, tuple) else (dims,):
        for dim in one or []:
            fix(dim)


def _expand(names: Sequence[tuple[str, ...]], more: list[str]) -> list[tuple[str, ...]]:
    out: list[tuple[str, ...]] = []
    for dim in names:
        if dim == ("...",):
            out += [(n,) for n in more]
        elif dim[0] == "(":
            out.append(tuple(m for n in dim[1:] for m in (more if n == "..." else (n,))))
        else:
            out.append(dim)
    return out


def _join(known: dict[str, Dim], letter: str, dim: Dim) -> None:
    if letter not in known or extent(known[letter]) == 1:
        known[letter] = dim
    elif extent(dim) != 1:
        unify(known[letter], dim)


def broadcast(tensors: Sequence[Dims]) -> Dims:
    """Dimensions of tensors together, as torch broadcasts."""
    rank = max((len(t) for t in tensors), default=0)
    made: Dims = []
    for place in range(-rank, 0):
        wide = [t[place] for t in tensors if len(t) >= -place and extent(t[place]) != 1]
        for other in wide[1:]:
            unify(wide[0], other)
        made.append(wide[0] if wide else [])
    return made


Handler = Callable[[GraphSizes, Json], Any]
HANDLERS: dict[str, Handler] = {}


def sizes(*names: str) -> Callable[[Handler], Handler]:
    """Registers a handler for operators with these names (without namespace and overload)."""

    def register(handler: Handler) -> Handler:
        HANDLERS.update(dict.fromkeys(names, handler))
        return handler

    return register


def _int(node: Json, place: int, name: str, default: Any = None) -> Any:
    args = node["args"]
    return args[place] if place < len(args) else node.get("kwargs", {}).get(name, default)


@sizes("view", "unsafe_view", "reshape")
def _view(at: GraphSizes, node: Json) -> Dims:
    of = at.of(node["args"][0])
    made = [fresh(e) for e in node["shape"]]
    unify([a for d in made for a in d], [a for d in of for a in d])
    if not node["target"].startswith("aten.flatten"):
        at.sizes_at(node["args"], 1, made)
    return made


@sizes("permute", "transpose", "t", "numpy_T", "unsqueeze", "squeeze", "swapaxes")
def _moved(at: GraphSizes, node: Json) -> Dims:
    of, args, target = at.of(node["args"][0]), node["args"], node["target"]
    rank = len(of)
    if "permute" in target or target.startswith("hlo."):
        return [of[i] for i in args[1]]
    if "transpose" in target or "swap" in target:
        a, b = args[1] % rank, args[2] % rank
        of[a], of[b] = of[b], of[a]
        return of
    if "unsqueeze" in target:
        of.insert(args[1] % (rank + 1), [])
        return of
    if "squeeze" in target:
        asked = args[1] if len(args) > 1 else list(range(rank))
        gone = {d % rank for d in (asked if isinstance(asked, list) else [asked])}
        return [d for i, d in enumerate(of) if i not in gone or extent(d) != 1]
    return of[::-1]


@sizes("expand", "broadcast_to")
def _expanded(at: GraphSizes, node: Json) -> Dims:
    of = at.of(node["args"][0])
    shape = node["shape"]
    of = [[] for _ in range(len(shape) - len(of))] + of
    made = [fresh(e) if extent(d) == 1 else d for e, d in zip(shape, of, strict=True)]
    at.sizes_at(node["args"], 1, made)
    return made


@sizes("broadcast")
def _hlo_broadcast(at: GraphSizes, node: Json) -> Dims:
    of, places, shape = at.of(node["args"][0]), node["args"][1], node["shape"]
    made = [fresh(e) for e in shape]
    for dim, place in zip(of, places, strict=False):
        if extent(dim) != 1:
            made[place] = dim
    at.sizes_at(node["args"], 2, made)
    return made


@sizes(*MADE)
def _made(at: GraphSizes, node: Json) -> Dims:
    made = [fresh(e) for e in node["shape"]]
    args, short = node["args"], node["target"].split(".")[1]
    if short in ("arange", "iota"):
        numbers = [i for i, a in enumerate(args) if type(a) is int]
        plain = len(numbers) == 1 or (len(numbers) == 2 and args[0] == 0)
        if not plain or "iota" in short:
            fix(made[0])
        else:
            at.number_at(args, numbers[-1], lambda: size(made[0]))
        return made
    if "size" in node.get("kwargs", {}):
        at.sizes_at(node["kwargs"], "size", made)
        return made
    for place, listed in enumerate(args):
        if isinstance(listed, list) and listed == node["shape"]:
            at.sizes_at(args, place, made)
            if short.endswith("strided"):
                args[place + 1 : place + 2] = []
                node["target"] = node["target"].replace("_strided", "")
            return made
    raise ValueError("its sizes are not listed")


@sizes("mm", "bmm", "matmul", "mv", "dot")
def _matmul(at: GraphSizes, node: Json) -> Dims:
    return product(at.of(node["args"][0]), at.of(node["args"][1]))


def product(a: Dims, b: Dims) -> Dims:
    """Dimensions of a matrix product."""
    unify(a[-1], b[-2] if len(b) > 1 else b[0])
    batch = broadcast([a[:-2], b[:-2]])
    return [*batch, *a[-2:-1], *(b[-1:] if len(b) > 1 else [])]


@sizes("addmm", "baddbmm")
def _addmm(at: GraphSizes, node: Json) -> Dims:
    made = product(at.of(node["args"][1]), at.of(node["args"][2]))
    broadcast([made, at.of(node["args"][0])])
    return made


@sizes("linear")
def _linear(at: GraphSizes, node: Json) -> Dims:
    x, w = at.of(node["args"][0]), at.of(node["args"][1])
    unify(x[-1], w[1])
    if len(node["args"]) > 2 and _tensor(node["args"][2]):
        unify(at.of(node["args"][2])[0], w[0])
    return [*x[:-1], w[0]]


def _dot(at: GraphSizes, node: Json) -> Dims:
    a, b = at.of(node["args"][0]), at.of(node["args"][1])
    ka, kb, na, nb = (list(x or []) for x in (*node["args"][2:6], [], [])[:4])
    for i, j in zip([*ka, *na], [*kb, *nb], strict=True):
        unify(a[i], b[j])
    made = [a[i] for i in na] + [d for i, d in enumerate(a) if i not in (*ka, *na)]
    return made + [d for j, d in enumerate(b) if j not in (*kb, *nb)]


@sizes(*REDUCTIONS)
def _reduced(at: GraphSizes, node: Json) -> Any:
    of, args = at.of(node["args"][0]), node["args"]
    short, overload = node["target"].split(".")[1], node["target"].rpartition(".")[2]
    if overload == "other":
        return broadcast([of, at.of(args[1])])
    place = 2 if short == "linalg_vector_norm" else 1
    dims = _int(node, place, "dim")
    keep = bool(_int(node, place + 1, "keepdim", False))
    listed = dims if isinstance(dims, list) else [] if dims is None else [dims]
    gone = {d % max(len(of), 1) for d in listed or range(len(of))}
    made = [[] if i in gone else d for i, d in enumerate(of) if keep or i not in gone]
    pair = short in ("max", "min") and overload == "dim"
    return (made, made) if pair else made


@sizes("cat", "concatenate", "stack")
def _cat(at: GraphSizes, node: Json) -> Dims:
    parts = [at.of(a) for a in node["args"][0]]
    dim = _int(node, 1, "dim", 0) % max(len(parts[0]), 1)
    for other in parts[1:]:
        for i, (a, b) in enumerate(zip(parts[0], other, strict=True)):
            if i != dim:
                unify(a, b)
    along = [p[dim] for p in parts]
    widths = [extent(d) for d in along]
    units = [cut(d, widths) for d in along]
    for unit in units[1:]:
        unify(units[0], unit)
    made = [*fixed(sum(widths) // extent(units[0])), *units[0]]
    return [*parts[0][:dim], made, *parts[0][dim + 1 :]]


def _pieces(at: GraphSizes, of: Dims, dim: int, widths: Sequence[int]) -> list[Dims]:
    unit = cut(of[dim], widths)
    return [[*of[:dim], [*fixed(w // extent(unit)), *unit], *of[dim + 1 :]] for w in widths]


@sizes("split", "split_with_sizes", "chunk", "unbind")
def _split(at: GraphSizes, node: Json) -> Any:
    of, args = at.of(node["args"][0]), node["args"]
    short = node["target"].split(".")[1]
    dim = _int(node, 1 if short == "unbind" else 2, "dim", 0) % len(of)
    total = extent(of[dim])
    if short == "unbind":
        fix(of[dim])
        return tuple([*of[:dim], *of[dim + 1 :]] for _ in range(total))
    asked = args[1]
    widths = asked
    if isinstance(asked, int):
        width = -(-total // asked) if short == "chunk" else asked
        widths = [min(width, total - i) for i in range(0, total, width)]
    made = _pieces(at, of, dim, widths)
    if isinstance(asked, list):
        at.sizes_at(args, 1, [m[dim] for m in made])
    elif short == "split":
        at.number_at(args, 1, lambda: size(made[0][dim]))
    return tuple(made)


@sizes("slice", "narrow", "slice_scatter")
def _slice(at: GraphSizes, node: Json) -> Dims:
    args, short = node["args"], node["target"].split(".")[1]
    of, first = at.of(args[0]), 2 if short == "slice_scatter" else 1
    dim = _int(node, first, "dim", 0) % len(of)
    total = extent(of[dim])
    if _int(node, first + 3, "step", 1) != 1:
        raise ValueError("a slice with a step")
    start, end = (
        _int(node, first + 1, "start", 0) or 0,
        _int(node, first + 2, "length" if short == "narrow" else "end"),
    )
    end = total if end is None else end + start if short == "narrow" else end
    low, high = (max(0, min(total, v + total if v < 0 else v)) for v in (start, end))
    whole = (low, high) == (0, total)
    by = 0 if whole else off_by(of[dim], [low, high])
    unit = of[dim] if whole else cut(of[dim], [low - by, high - by])
    last = high - low if short == "narrow" else high
    end_name = "length" if short == "narrow" else "end"
    for place, name, position in ((first + 1, "start", low), (first + 2, end_name, last)):
        holder, key = (args, place) if place < len(args) else (node.get("kwargs", {}), name)
        given = _int(node, place, name)
        if given is not None and given < END:
            beside = 0 if name == "length" else by
            at.number_at(holder, key, lambda v=position, b=beside: scaled(v, unit, b))  # type: ignore[misc]
    part = [*of[:dim], [*fixed((high - low) // extent(unit)), *unit], *of[dim + 1 :]]
    if short == "slice_scatter":
        broadcast([part, at.of(args[1])])
        return of
    return part


def _select(at: GraphSizes, node: Json) -> Dims:
    of = at.of(node["args"][0])
    dim, index = node["args"][1] % len(of), node["args"][2]
    if index == extent(of[dim]) - 1:  # the last one
        at.number_at(node["args"], 2, lambda: size(of[dim]) - 1)
    elif index not in (0, -1):
        fix(of[dim])
    return [*of[:dim], *of[dim + 1 :]]


@sizes("embedding")
def _embedding(at: GraphSizes, node: Json) -> Dims:
    table, ids = at.of(node["args"][0]), at.of(node["args"][1])
    at.looks_up(node["args"][1], table[0])
    return [*ids, *table[1:]]


@sizes("embedding_dense_backward")
def _embedding_backward(at: GraphSizes, node: Json) -> Dims:
    g, ids, args = at.of(node["args"][0]), at.of(node["args"][1]), node["args"]
    broadcast([g[:-1], ids])
    rows = fresh(args[2])
    at.number_at(args, 2, lambda: size(rows))
    at.looks_up(args[1], rows)
    return [rows, g[-1]]


@sizes("index", "index_put", "unsafe_index_put", "index_put_impl")
def _index(at: GraphSizes, node: Json) -> Dims:
    of, listed = at.of(node["args"][0]), node["args"][1]
    puts = "put" in node["target"]
    if any(at.nodes[i["node"]].get("dtype") == "bool" for i in listed if i is not None):
        if not puts or len(listed) != 1:
            raise ValueError("rows chosen by a mask")
        for a, b in zip(of, at.of(listed[0]), strict=False):
            unify(a, b)
        return of
    used = [(i, x) for i, x in enumerate(listed) if x is not None]
    places = [i for i, _ in used]
    if places != list(range(places[0], places[-1] + 1)):
        raise ValueError("indices that are not side by side")
    chosen = broadcast([at.of(x) for _, x in used])
    for i, x in used:
        if at.nodes[x["node"]]["target"].startswith("aten.arange"):
            unify(of[i], at.of(x)[0])
        else:
            at.looks_up(x, of[i])
    made = [*of[: places[0]], *chosen, *of[places[-1] + 1 :]]
    if puts:
        broadcast([made, at.of(node["args"][2])])
        return of
    return made


@sizes("nll_loss_forward", "nll_loss2d_forward")
def _nll_loss(at: GraphSizes, node: Json) -> Any:
    scores, target = at.of(node["args"][0]), at.of(node["args"][1])
    unify(scores[0], target[0])
    at.looks_up(node["args"][1], scores[1], _int(node, 4, "ignore_index", -100))
    reduced = _int(node, 3, "reduction", 1) != 0
    return ([] if reduced else target, [])


@sizes("nll_loss_backward", "nll_loss2d_backward")
def _nll_loss_backward(at: GraphSizes, node: Json) -> Dims:
    scores, target = at.of(node["args"][1]), at.of(node["args"][2])
    unify(scores[0], target[0])
    at.looks_up(node["args"][2], scores[1], _int(node, 5, "ignore_index", -100))
    return scores


@sizes("index_add")
def _index_add(at: GraphSizes, node: Json) -> Dims:
    of, dim, source = at.of(node["args"][0]), node["args"][1], at.of(node["args"][3])
    at.looks_up(node["args"][2], of[dim])
    for i, (a, b) in enumerate(zip(of, source, strict=True)):
        if i != dim:
            unify(a, b)
    unify(source[dim], at.of(node["args"][2])[0])
    return of


@sizes("index_select")
def _index_select(at: GraphSizes, node: Json) -> Dims:
    of, dim, ids = at.of(node["args"][0]), node["args"][1], at.of(node["args"][2])
    at.looks_up(node["args"][2], of[dim])
    return [*of[:dim], *ids, *of[dim + 1 :]]


@sizes("gather", "scatter_add", "scatter")
def _gather(at: GraphSizes, node: Json) -> Dims:
    of, args = at.of(node["args"][0]), node["args"]
    if node["target"].startswith("hlo"):
        return _hlo_gather(at, node)
    dim, ids = args[1] % len(of), at.of(args[2])
    for i, (a, b) in enumerate(zip(of, ids, strict=True)):
        if i != dim:
            unify(a, b)
    at.looks_up(args[2], of[dim])
    if "scatter" in node["target"]:
        if len(args) > 3 and _tensor(args[3]):
            broadcast([ids, at.of(args[3])])
        return of
    return ids


def _hlo_gather(at: GraphSizes, node: Json) -> Dims:
    table, ids = at.of(node["args"][0]), at.of(node["args"][1])
    offsets, collapsed, _, vector, listed = node["args"][2:7]
    rows = [d for i, d in enumerate(table) if i not in collapsed]
    if len(collapsed) != 1:
        raise ValueError("a gather of several dimensions")
    ids = [d for i, d in enumerate(ids) if i != vector]
    at.looks_up(node["args"][1], table[collapsed[0]])
    rest, ours = iter(rows), iter(ids)
    made = [next(rest) if i in offsets else next(ours) for i in range(len(node["shape"]))]
    whole = [[] if i in collapsed else d for i, d in enumerate(table)]
    if [extent(d) for d in whole] == listed:
        at.sizes_at(node["args"], 6, whole)
    return made
