"""The graph that is made of a text: nodes in order, and what the names of the text stand for."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import Any

from gg_datalog.readers.fx_values import Json, Unclear, annotated

ARITHMETIC = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.FloorDiv: "floordiv",
    ast.Div: "truediv",
    ast.Mod: "mod",
    ast.Pow: "pow",
    ast.LShift: "lshift",
    ast.RShift: "rshift",
    ast.BitAnd: "and_",
    ast.BitOr: "or_",
    ast.BitXor: "xor",
    ast.MatMult: "matmul",
    ast.Eq: "eq",
    ast.NotEq: "ne",
    ast.Lt: "lt",
    ast.Gt: "gt",
    ast.LtE: "le",
    ast.GtE: "ge",
    ast.UAdd: "pos",
    ast.USub: "neg",
    ast.Invert: "invert",
}


@dataclass
class Program:
    """A graph that was read: its nodes in order, and the line of each by name.

    ``constants`` are numbers that the text itself gives for what ``self`` holds."""

    path: str
    nodes: list[Json] = field(default_factory=list)
    lines: dict[str, int] = field(default_factory=dict)
    constants: dict[str, int | float | bool] = field(default_factory=dict)

    def where(self, name: str) -> str:
        """Where a node stands, for messages."""
        return f"{self.path}:{self.lines.get(name, 1)}"

    @property
    def returns(self) -> Any:
        """What the graph returns, as the output node holds it."""
        return self.nodes[-1]["args"][0]


@dataclass
class Nodes:
    """The nodes so far. ``known`` says what a name stands for: a node, or a subgraph (None)."""

    program: Program
    known: dict[str, Json | None] = field(default_factory=dict)
    notes: dict[str, ast.expr] = field(default_factory=dict)  # annotations on lines of their own
    used: set[str] = field(default_factory=set)

    def add(self, row: Json, annotation: ast.expr | None, line: int, source: str = "") -> None:
        """One more node, with the shape and dtype of its annotation."""
        name = row["name"]
        if name in self.known:
            raise Unclear(f"two nodes are called `{name}`")
        shape, dtype = form(annotation or self.notes.get(name))
        if shape is not None:
            row |= {"shape": shape, "dtype": dtype}
        if source:
            row["source"] = source
        self.known[name] = row
        self.program.nodes.append(row)
        self.program.lines[name] = line

    def placeholder(self, name: str, annotation: ast.expr | None, line: int) -> None:
        """An argument of the graph."""
        self.add(_row(name, "placeholder", name), annotation, line)

    def reference(self, name: str) -> Json:
        """A reference to a node, as an argument."""
        if name not in self.known:
            raise Unclear(f"`{name}` is used before anything is assigned to it")
        row = self.known[name]
        if row is None:
            raise Unclear(f"the subgraph `{name}` is used: graphs inside graphs are not read")
        self.used.add(name)
        return {"node": row["name"]}

    def rename(self, name: str, of: str) -> bool:
        """``input_1 = input``: the node of an argument is called differently."""
        row = self.known.get(of)
        if row is None or row["op"] != "placeholder" or of in self.used or name in self.known:
            return False
        row["name"] = name
        self.known[name] = self.known.pop(of)
        self.program.lines[name] = self.program.lines.pop(of)
        return True

    def flatten(self, names: list[str], line: int) -> None:
        """The arguments are trees; these are their leaves, and the placeholders."""
        forms = {n: r for n, r in self.known.items() if r is not None and "shape" in r}
        self.program.nodes.clear()
        self.program.lines.clear()
        self.known.clear()
        for name in names:
            self.placeholder(name, None, line)
            row = self.program.nodes[-1]
            if "shape" not in row and name in forms:
                row |= {key: forms[name][key] for key in ("shape", "dtype")}


def call(name: str, target: str, args: list[Any], kwargs: Json | None = None) -> Json:
    """The node of an operator."""
    return _row(name, "call_function", target, args, kwargs)


def constant(name: str, target: str) -> Json:
    """The node of a tensor that ``self`` holds."""
    return _row(name, "get_attr", target)


def output(returned: Any) -> Json:
    """The node that says what is returned."""
    return _row("output", "output", "output", [returned])


def form(tree: ast.expr | None) -> tuple[list[int | str] | None, str | None]:
    """Shape and dtype of an annotation, None where it speaks of no tensor."""
    if isinstance(tree, ast.Constant) and isinstance(tree.value, str):
        return annotated(tree.value)
    return None, None


def arithmetic(tree: ast.expr) -> tuple[str | None, list[ast.expr]]:
    """Arithmetic of sizes, ``sym_size_int + 1``: its name and operands."""
    if isinstance(tree, ast.BinOp):
        return ARITHMETIC.get(type(tree.op)), [tree.left, tree.right]
    if isinstance(tree, ast.UnaryOp):
        return ARITHMETIC.get(type(tree.op)), [tree.operand]
    if isinstance(tree, ast.Compare) and len(tree.ops) == 1:
        return ARITHMETIC.get(type(tree.ops[0])), [tree.left, tree.comparators[0]]
    return None, []


def _row(
    name: str, op: str, target: str, args: list[Any] | None = None, kwargs: Json | None = None
) -> Json:
    return {"name": name, "op": op, "target": target, "args": args or [], "kwargs": kwargs or {}}
