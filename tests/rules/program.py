"""Small programs as text, for tests: Python's syntax, read with its own parser, never run.

::

    x: f32[4, 8]                              a placeholder
    n: sym                                    a placeholder that is no tensor
    c: f32[()] = const(2.0)                   a constant; without a value where none is given
    y = relu(mm(x, w))                        aten.relu.default(aten.mm.default(x, w))
    m: i64[4] = sub.Tensor(ids, 4 * rank)     with dtype and shape; an overload; the rank
    n = kernel("_C.rms_norm", input=x)[1]     a functionalised kernel and one of its results
    z = all_reduce(y, "sum", "g")             a collective; `g` is a group of the case
    return z

Names in a dotted call such as ``hlo.dot`` are a namespace where it is one of ``NAMESPACES``, else
an overload. A branch ``a if rank == 0 else b`` is resolved when the program is read.
"""

from __future__ import annotations

import ast
import textwrap
from collections import Counter
from math import inf, nan
from typing import Any

Json = dict[str, Any]
DTYPES = {
    "f32": "float32", "f16": "float16", "f64": "float64", "bf16": "bfloat16", "i64": "int64", "i32": "int32",
    "i16": "int16", "i8": "int8", "u8": "uint8", "b": "bool", "c64": "complex64",
}  # fmt: skip
NAMESPACES = ("_C", "apex", "hlo", "my", "prims", "tg", "vllm")
COLLECTIVES = (
    "all_reduce", "all_reduce_", "all_gather_into_tensor", "reduce_scatter_tensor", "broadcast",
    "all_to_all_single", "all_reduce_coalesced", "reduce", "scatter", "gather_to", "isend", "irecv",
    "batch_p2p_ops", "wait_tensor",
)  # fmt: skip
TESTS = ("lt", "le", "gt", "ge", "eq", "ne", "logical_not", "logical_or", "logical_and")


class Program:
    """One rank's graph, read from text."""

    def __init__(self, text: str, rank: int = 0, ranks: int = 1) -> None:
        self.nodes: list[Json] = []
        self.returned: list[str] = []
        self._env = {"rank": rank, "ranks": ranks, "inf": inf, "nan": nan}
        self._known: dict[str, str] = {}
        self._dtype: dict[str, str] = {}
        self._names: Counter[str] = Counter()
        for statement in ast.parse(textwrap.dedent(text)).body:
            self._statement(statement)

    def shape(self, name: str) -> list[int] | None:
        """The shape of a placeholder or constant."""
        return next((n["shape"] for n in self.nodes if n["name"] == name and "shape" in n), None)

    def sources(self) -> list[str]:
        """Names of the placeholders."""
        return [n["name"] for n in self.nodes if n["op"] == "placeholder"]

    def _statement(self, statement: ast.stmt) -> None:
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            self._declared(statement.target.id, statement.annotation, statement.value)
        elif isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            wanted = statement.targets[0].id
            self._known[wanted] = self._node(statement.value, wanted)
        elif isinstance(statement, ast.Return) and statement.value is not None:
            value = statement.value
            parts = value.elts if isinstance(value, ast.Tuple) else [value]
            self.returned = [self._node(p, "out") for p in parts]
            refs = [[{"node": n} for n in self.returned]]
            self.nodes.append({"name": "output", "op": "output", "target": "output", "args": refs})
        else:
            self._node(statement.value, "unused")  # type: ignore[attr-defined]

    def _declared(self, name: str, annotation: ast.expr, value: ast.expr | None) -> None:
        if isinstance(annotation, ast.Name):
            assert annotation.id == "sym" and value is None
            self._known[name] = self._add(name, "placeholder", name, [], {})
            return
        assert isinstance(annotation, ast.Subscript) and isinstance(annotation.value, ast.Name)
        sizes = self._const(annotation.slice)
        shape = list(sizes) if isinstance(sizes, tuple) else [sizes]
        dtype = DTYPES[annotation.value.id]
        if value is None:
            node = self._add(name, "placeholder", name, [], {})
        elif isinstance(value, ast.Call) and ast.unparse(value.func) == "const":
            node = self._add(name, "get_attr", name, [], {})
            if value.args:
                self.nodes[-1]["value"] = self._const(value.args[0])
        else:
            node = self._node(value, name)
        row = next(n for n in self.nodes if n["name"] == node)
        row |= {"shape": shape, "dtype": dtype}
        self._known[name], self._dtype[node] = node, dtype

    def _node(self, value: ast.expr, wanted: str) -> str:
        """The name of the node that the expression is."""
        if isinstance(value, ast.IfExp):
            return self._node(value.body if self._const(value.test) else value.orelse, wanted)
        if isinstance(value, ast.Name):
            return self._known[value.id]
        if isinstance(value, ast.Subscript):
            args = [self._argument(value.value), self._const(value.slice)]
            return self._add(wanted, "call_function", "<built-in function getitem>", args, {})
        assert isinstance(value, ast.Call), ast.unparse(value)
        return self._call(value, wanted)

    def _call(self, call: ast.Call, wanted: str) -> str:
        args = [self._argument(a) for a in call.args]
        kwargs = {k.arg: self._argument(k.value) for k in call.keywords if k.arg}
        drawn = kwargs.pop("drawn", "")
        if "dtype" in kwargs:
            kwargs["dtype"] = {"dtype": kwargs["dtype"]}
        name = ast.unparse(call.func)
        first, _, rest = name.partition(".")
        if name == "kernel":
            target, args = "auto_functionalized", [f"{args[0]}.default"]
        elif first in COLLECTIVES and name != "scatter.src":
            target = f"_c10d_functional.{name}.default"
        elif first in NAMESPACES:
            target = name if first == "hlo" else f"{name}.default"
        else:
            target = f"aten.{first}.{rest or 'default'}"
        node = self._add(wanted, "call_function", target, args, kwargs)
        dtype = kwargs["dtype"]["dtype"] if "dtype" in kwargs else "bool" if first in TESTS else ""
        if drawn:
            self.nodes[-1]["draw"] = drawn
        if dtype:
            self.nodes[-1]["dtype"] = self._dtype[node] = dtype
        return node

    def _argument(self, value: ast.expr) -> Any:
        if isinstance(value, (ast.List, ast.Tuple)):
            return [self._argument(v) for v in value.elts]
        is_node = isinstance(value, (ast.Call, ast.Subscript)) or (
            isinstance(value, ast.Name) and value.id in self._known
        )
        if is_node or (
            isinstance(value, ast.IfExp) and isinstance(value.body, (ast.Call, ast.Name))
        ):
            stem = ast.unparse(value.func) if isinstance(value, ast.Call) else "item"
            return {"node": self._node(value, stem.replace(".", "_"))}
        found = self._const(value)
        special = isinstance(found, float) and (found != found or abs(found) == inf)
        return {"float": str(found)} if special else found

    def _const(self, value: ast.expr) -> Any:
        return eval(compile(ast.Expression(value), "program", "eval"), {}, self._env)

    def _add(self, wanted: str, op: str, target: str, args: list[Any], kwargs: Json) -> str:
        count = self._names[wanted]
        self._names[wanted] += 1
        name = wanted if not count else f"{wanted}_{count}"
        row: Json = {"name": name, "op": op, "target": target, "args": args, "kwargs": kwargs}
        of = [a["node"] for a in args if isinstance(a, dict) and "node" in a]
        if op == "call_function" and of and of[0] in self._dtype:
            row["dtype"] = self._dtype[name] = self._dtype[of[0]]
        self.nodes.append(row)
        return name
