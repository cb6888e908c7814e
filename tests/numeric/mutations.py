"""Ways to break a pair of programs in its documents, at random places."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from .execution import in_place, name_of
from .program import Json, Program, references

Mutation = Callable[[Program, random.Random], str | None]
KINDS: dict[str, Mutation] = {}


@dataclass(repr=False)
class Broken:
    """A program that was changed, and how."""

    kind: str
    text: str
    program: Program


def kind(function: Mutation) -> Mutation:
    """Registers a kind of mutation; it changes the program and says how, or returns None."""
    KINDS[function.__name__] = function
    return function


def mutate(program: Program, rng: random.Random, name: str | None = None) -> Broken:
    """A changed copy; kinds without a place to act are passed over."""
    while True:
        chosen = name or rng.choice(sorted(KINDS))
        copy = program.copy()
        text = KINDS[chosen](copy, rng)
        if text is not None:
            return Broken(chosen, text, copy)
        if name is not None:
            raise LookupError(f"nothing to {name}")


# ---- places ------------------------------------------------------------------------------------------
def some_graphs(program: Program, rng: random.Random) -> list[tuple[str, Json]]:
    """One rank, or all of them."""
    graphs = [(f"rank {rank}", graph) for rank, graph in program.dist.items()]
    return graphs if rng.random() < 0.5 else [rng.choice(graphs)]


def calls(graph: Json, *names: str) -> list[Json]:
    """Operators with these names."""
    found = [n for n in graph["nodes"] if n["op"] == "call_function"]
    return [n for n in found if not names or name_of(n) in names]


def alike(
    program: Program, rng: random.Random, accept: Callable[[Json, Json], bool]
) -> Iterator[tuple[str, Json, Json]]:
    """The same place, by its position, in one graph or in all: (where, graph, node)."""
    graphs = some_graphs(program, rng)
    places = [i for i, n in enumerate(graphs[0][1]["nodes"]) if accept(graphs[0][1], n)]
    if not places:
        return
    place = rng.choice(places)
    for where, graph in graphs:
        if place < len(graph["nodes"]) and accept(graph, graph["nodes"][place]):
            yield where, graph, graph["nodes"][place]


def described(rows: list[str]) -> str | None:
    """What was done where, None if nothing."""
    return "; ".join(rows) or None


# ---- collectives ---------------------------------------------------------------------------------------
ALL_REDUCE = ("_c10d_functional.all_reduce", "vllm.all_reduce")


@kind
def remove_all_reduce(program: Program, rng: random.Random) -> str | None:
    """Its users take its operand; on all ranks."""
    graphs = list(program.dist.values())
    found = calls(graphs[0], *ALL_REDUCE)
    if not found:
        return None
    name = rng.choice(found)["name"]
    for graph in graphs:
        (node,) = (n for n in graph["nodes"] if n["name"] == name)
        node.update(target="aten.clone.default", args=node["args"][:1], kwargs={})
    return f"`{name}` removed"


@kind
def reduce_again(program: Program, rng: random.Random) -> str | None:
    """What was reduced is reduced once more, so that it counts twice; on all ranks."""
    found = calls(next(iter(program.dist.values())), *ALL_REDUCE)
    if not found:
        return None
    name = rng.choice(found)["name"]
    again = f"{name}_again"
    for graph in program.dist.values():
        nodes = graph["nodes"]
        place = next(i for i, n in enumerate(nodes) if n["name"] == name)
        for user in nodes[place + 1 :]:
            user["args"] = _replaced(user["args"], name, again)
            user["kwargs"] = _replaced(user.get("kwargs", {}), name, again)
        args = [{"node": name}, *nodes[place]["args"][1:]]
        nodes.insert(place + 1, nodes[place] | {"name": again, "args": args})
    for row in program.outputs:
        if isinstance(row["dist"], dict):
            row["dist"] = {r: again if n == name else n for r, n in row["dist"].items()}
        elif row["dist"] == name:
            row["dist"] = again
    return f"`{name}` reduced twice"


@kind
def change_reduction(program: Program, rng: random.Random) -> str | None:
    """sum becomes max and the other way round; on all ranks."""
    graphs = list(program.dist.values())
    names = ("_c10d_functional.all_reduce", "_c10d_functional.reduce_scatter_tensor")
    found = calls(graphs[0], *names)
    if not found:
        return None
    name = rng.choice(found)["name"]
    for graph in graphs:
        (node,) = (n for n in graph["nodes"] if n["name"] == name)
        node["args"][1] = "max" if node["args"][1] == "sum" else "sum"
    return f"`{name}` is now {node['args'][1]}"


@kind
def group_of_one(program: Program, rng: random.Random) -> str | None:
    """A rank leaves its group and is a group by itself."""
    groups = [g for g in program.groups["dist"] if len(g["ranks"]) > 1]
    group = rng.choice(groups)
    rank = rng.choice(group["ranks"])
    group["ranks"].remove(rank)
    name = group["names"].pop(str(rank))
    program.groups["dist"].append({"ranks": [rank], "names": {str(rank): name}})
    return f"rank {rank} is alone"


@kind
def permute_group(program: Program, rng: random.Random) -> str | None:
    """Members of a group in another order."""
    group = rng.choice([g for g in program.groups["dist"] if len(g["ranks"]) > 1])
    a, b = rng.sample(range(len(group["ranks"])), 2)
    ranks = group["ranks"]
    ranks[a], ranks[b] = ranks[b], ranks[a]
    return f"members in the order {ranks}"


@kind
def drop_rank(program: Program, rng: random.Random) -> str | None:
    """A rank has no graph."""
    rank = rng.choice(list(program.dist))
    del program.dist[rank]
    return f"rank {rank} dropped"


@kind
def other_peer(program: Program, rng: random.Random) -> str | None:
    """A message goes to, or comes from, another rank, or has another tag."""

    def accept(_: Json, node: Json) -> bool:
        return node["op"] == "call_function" and name_of(node).endswith((".isend", ".irecv"))

    place, size = rng.choice([1, 1, 2]), len(program.groups["dist"][0]["ranks"])
    done = []
    for where, _, node in alike(program, rng, accept):
        old = node["args"][place]
        node["args"][place] = (old + 1) % size if place == 1 else old + 1
        done.append(f"{where}: `{node['name']}` {old} is now {node['args'][place]}")
    return described(done)


@kind
def read_early(program: Program, rng: random.Random) -> str | None:
    """What a collective gives is used before it is waited for; on all ranks."""
    waits = calls(next(iter(program.dist.values())), "_c10d_functional.wait_tensor")
    if not waits:
        return None
    name, done = rng.choice(waits)["name"], []
    for rank, graph in program.dist.items():
        nodes = graph["nodes"]
        place = next((i for i, n in enumerate(nodes) if n["name"] == name), None)
        users = [i for i, n in enumerate(nodes) if name in references([n["args"], n.get("kwargs")])]
        if place is None or not users or nodes[users[0]]["op"] == "output":
            continue
        user, of = nodes[users[0]], nodes[place]["args"][0]["node"]
        user["args"] = _replaced(user["args"], name, of)
        user["kwargs"] = _replaced(user.get("kwargs", {}), name, of)
        nodes.insert(users[0], nodes.pop(place))
        done.append(f"rank {rank}: `{user['name']}` does not wait for `{of}`")
    return described(done)


# ---- inputs ----------------------------------------------------------------------------------------------
@kind
def permute_shards(program: Program, rng: random.Random) -> str | None:
    """Two ranks hold each other's shard of an input."""
    pairs = [
        (a, b)
        for i, a in enumerate(program.relations)
        for b in program.relations[:i]
        if a["seq"] == b["seq"]
        and a["rank"] != b["rank"]
        and a.get("seq_box") != b.get("seq_box")
        and a.get("dist_box") == b.get("dist_box")
        and _sizes(a) == _sizes(b)
    ]
    if not pairs:
        return None
    a, b = rng.choice(pairs)
    a["seq_box"], b["seq_box"] = b["seq_box"], a["seq_box"]
    return f"shards of `{a['seq']}` on ranks {a['rank']} and {b['rank']} swapped"


def _sizes(row: Json) -> list[int]:
    return [hi - lo for lo, hi in row.get("seq_box") or []]


@kind
def shift_input(program: Program, rng: random.Random) -> str | None:
    """A shard of an input begins one position earlier."""
    rows = [
        (row, dim)
        for row in program.relations
        for dim, (lo, _) in enumerate(row.get("seq_box") or [])
        if lo > 0
    ]
    if not rows:
        return None
    row, dim = rng.choice(rows)
    row["seq_box"][dim] = [bound - 1 for bound in row["seq_box"][dim]]
    return f"`{row['seq']}` of rank {row['rank']} is now {row['seq_box']}"


# ---- operators -------------------------------------------------------------------------------------------
@kind
def wrong_tensor(program: Program, rng: random.Random) -> str | None:
    """An operator is fed another tensor of the same shape and dtype."""

    def used(node: Json) -> list[str]:
        called = node["op"] == "call_function"
        return references([node["args"], node["kwargs"]]) if called else []

    def others(graph: Json, node: Json, name: str) -> list[str]:
        earlier = []
        (old,) = (n for n in graph["nodes"] if n["name"] == name)
        for other in graph["nodes"]:
            if other is node:
                break
            same = all(other.get(k) == old.get(k) for k in ("shape", "dtype"))
            if same and other["name"] != name and other.get("shape") is not None:
                earlier.append(other["name"])
        return earlier

    def accept(graph: Json, node: Json) -> bool:
        return any(others(graph, node, name) for name in used(node))

    done = []
    chosen: tuple[str, str] | None = None
    for where, graph, node in alike(program, rng, accept):
        if chosen is None:
            old = rng.choice([n for n in used(node) if others(graph, node, n)])
            chosen = old, rng.choice(others(graph, node, old))
        node["args"], node["kwargs"] = _replaced([node["args"], node["kwargs"]], *chosen)
        done.append(f"{where}: `{node['name']}` takes `{chosen[1]}` for `{chosen[0]}`")
    return described(done)


def _replaced(value: Any, old: str, new: str) -> Any:
    if isinstance(value, list):
        return [_replaced(v, old, new) for v in value]
    if isinstance(value, dict) and "node" not in value:
        return {k: _replaced(v, old, new) for k, v in value.items()}
    return {"node": new} if value == {"node": old} else value


@kind
def lose_write(program: Program, rng: random.Random) -> str | None:
    """Nothing is written into memory where something was."""

    def accept(_: Json, node: Json) -> bool:
        mine = node["op"] == "call_function" and node.get("shape") is not None
        return mine and in_place(name_of(node)) is not None

    done = []
    for where, _, node in alike(program, rng, accept):
        node.update(target="aten.alias.default", args=node["args"][:1], kwargs={})
        done.append(f"{where}: `{node['name']}` writes nothing")
    return described(done)


@kind
def shift_slice(program: Program, rng: random.Random) -> str | None:
    """A slice moves by one and keeps its shape."""

    def room(graph: Json, node: Json) -> list[int]:
        if name_of(node) != "aten.slice" or node["op"] != "call_function":
            return []
        (of,) = (n for n in graph["nodes"] if n["name"] == node["args"][0]["node"])
        _, dim, lo, hi = node["args"][:4]
        extent = of["shape"][dim]
        return [by for by in (-1, 1) if lo + by >= 0 and min(hi, extent) + by <= extent]

    done = []
    for where, graph, node in alike(program, rng, lambda g, n: bool(room(g, n))):
        by = rng.choice(room(graph, node))
        (of,) = (n for n in graph["nodes"] if n["name"] == node["args"][0]["node"])
        hi = min(node["args"][3], of["shape"][node["args"][1]])
        node["args"][2:4] = [node["args"][2] + by, hi + by]
        done.append(f"{where}: `{node['name']}` moved by {by}")
    return described(done)


SCALAR_ARGS = {
    "aten.mul": (1,), "aten.div": (1,), "aten.add": (1,), "aten.sub": (1,), "aten.masked_fill": (2,),
    "aten.native_dropout": (1,), "apex.fused_layer_norm_affine_fwd": (4,),
    "aten.native_layer_norm": (4,), "hlo.AwsNeuronRmsNorm": (2,), "hlo.broadcast": (0,),
    "aten.index_put": (), "aten.baddbmm": (), "auto_functionalized": (), "aten.arange": (),
}  # fmt: skip
SCALAR_KWARGS = ("alpha", "beta", "epsilon", "head_size")


@kind
def change_scalar(program: Program, rng: random.Random) -> str | None:
    """A number that means something is another one."""

    def places(node: Json) -> list[tuple[str, Any]]:
        if node["op"] == "get_attr" and isinstance(node.get("value"), (int, float)):
            return [("", "value")]
        if node["op"] != "call_function":
            return []
        found: list[tuple[str, Any]] = []
        for i in SCALAR_ARGS.get(name_of(node), ()):
            if i < len(node["args"]) and isinstance(node["args"][i], (int, float)):
                found.append(("args", i))
        return found + [("kwargs", k) for k in SCALAR_KWARGS if k in node.get("kwargs", {})]

    done = []
    for where, _, node in alike(program, rng, lambda _, n: bool(places(n))):
        part, key = places(node)[0]
        holder = node[part] if part else node
        old = holder[key]
        holder[key] = old + 1 if isinstance(old, int) else old * 2 if old else 0.5
        done.append(f"{where}: `{node['name']}` {old} is now {holder[key]}")
    return described(done)


@kind
def skip_mask(program: Program, rng: random.Random) -> str | None:
    """What a mask sets to a number stays as it is."""

    def accept(graph: Json, node: Json) -> bool:
        if node["op"] != "call_function":
            return False
        if name_of(node) == "aten.masked_fill":
            return True
        of = references(node["args"][1:2]) if name_of(node) == "aten.index_put" else []
        dtypes = [n.get("dtype") for n in graph["nodes"] if n["name"] in of]
        return dtypes == ["bool"]

    done = []
    for where, _, node in alike(program, rng, accept):
        node.update(target="aten.clone.default", args=node["args"][:1], kwargs={})
        done.append(f"{where}: `{node['name']}` without its mask")
    return described(done)


@kind
def change_bound(program: Program, rng: random.Random) -> str | None:
    """A bound of a mask moves by one."""
    names = ("aten.lt", "aten.ge", "aten.le", "aten.gt")

    def accept(_: Json, node: Json) -> bool:
        mine = node["op"] == "call_function" and name_of(node) in names
        return mine and isinstance(node["args"][1], int)

    by = rng.choice([-1, 1])
    done = []
    for where, _, node in alike(program, rng, accept):
        node["args"][1] += by
        done.append(f"{where}: `{node['name']}` has bound {node['args'][1]}")
    return described(done)


@kind
def change_comparison(program: Program, rng: random.Random) -> str | None:
    """lt becomes le, ge becomes gt, or becomes and."""
    swaps = {
        "aten.lt.Scalar": "aten.le.Scalar", "aten.ge.Scalar": "aten.gt.Scalar",
        "aten.bitwise_or.Tensor": "aten.bitwise_and.Tensor", "aten.le.Tensor": "aten.lt.Tensor",
        "aten.bitwise_and.Tensor": "aten.bitwise_or.Tensor", "aten.ge.Tensor": "aten.gt.Tensor",
    }  # fmt: skip
    done = []
    for where, _, node in alike(program, rng, lambda _, n: n["target"] in swaps):
        node["target"] = swaps[node["target"]]
        done.append(f"{where}: `{node['name']}` is now {node['target']}")
    return described(done)


@kind
def swap_operands(program: Program, rng: random.Random) -> str | None:
    """a - b becomes b - a, a / b becomes b / a, a b becomes b a where shapes stay."""

    def accept(graph: Json, node: Json) -> bool:
        if node["op"] != "call_function" or name_of(node) not in (
            "aten.sub", "aten.div", "aten.mm", "aten.bmm", "aten.cat", "aten.le", "aten.ge"
        ):  # fmt: skip
            return False
        used = references(node["args"])
        shapes = {n["name"]: n.get("shape") for n in graph["nodes"]}
        if len(used) != 2 or shapes[used[0]] != shapes[used[1]] or used[0] == used[1]:
            return False
        return "mm" not in node["target"] or shapes[used[0]][-1] == shapes[used[0]][-2]

    done = []
    for where, _, node in alike(program, rng, accept):
        args = node["args"]
        both = args[0] if isinstance(args[0], list) else args
        both[0], both[1] = both[1], both[0]
        done.append(f"{where}: operands of `{node['name']}` swapped")
    return described(done)


@kind
def change_dim(program: Program, rng: random.Random) -> str | None:
    """Another dimension is reduced, normalised or transposed, where shapes stay."""

    def other(graph: Json, node: Json) -> list[Any]:
        if node["op"] != "call_function" or not references(node.get("args")):
            return []
        shapes = {n["name"]: n.get("shape") for n in graph["nodes"]}
        shape = shapes[references(node["args"])[0]]
        name = name_of(node)
        if name == "aten._softmax":
            return [d for d in range(len(shape)) if d != node["args"][1] % len(shape)]
        if name in ("aten.permute", "hlo.transpose"):
            order = node["args"][1]
            return [o for o in _swaps(order) if [shape[i] for i in o] == node["shape"]]
        if name in ("aten.sum", "hlo.reduce_max") and len(node["args"]) > 1:
            old = node["args"][1]
            dim = (old[0] if isinstance(old, list) else old) % len(shape)
            dims = [d for d, e in enumerate(shape) if d != dim and e == shape[dim]]
            dims = [d for d in dims if shape[:d] + shape[d + 1 :] == node["shape"]]
            return [[d] if isinstance(old, list) else d for d in dims]
        return []

    done = []
    chosen = None
    for where, graph, node in alike(program, rng, lambda g, n: bool(other(g, n))):
        chosen = rng.choice(other(graph, node)) if chosen is None else chosen
        node["args"][1] = chosen
        done.append(f"{where}: `{node['name']}` now over {chosen}")
    return described(done)


def _swaps(order: list[int]) -> list[list[int]]:
    found = []
    for i in range(len(order)):
        for j in range(i):
            new = list(order)
            new[i], new[j] = new[j], new[i]
            found.append(new)
    return found
