"""The statements of a printed graph, one by one, as nodes. Nothing is executed."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

from gg_datalog.extract.graph import HIGHER_ORDER
from gg_datalog.foundation.errors import InputError
from gg_datalog.readers import fx_nodes
from gg_datalog.readers.fx_clean import Cleaned, cleaned
from gg_datalog.readers.fx_constants import declared
from gg_datalog.readers.fx_nodes import Nodes, Program
from gg_datalog.readers.fx_source import TRUNCATED, Sources, functions, parsed
from gg_datalog.readers.fx_values import Json, Unclear, argument, dotted, operator, shown

GETITEM = "<built-in function getitem>"
AFTER = (
    "this is a graph before AOTAutograd: print the graph of ATen operators after it, "
    "as aot_joint_graph or aot_forward_graph of TORCH_TRACE"
)
ALONE = "capture the program without it (no control flow, no checkpointing, no Triton kernels)"
SIZES = ("sym_", "_sym_")


class Refused(Exception):
    """Something that is understood and not read: what, and what to do instead."""


def program(path: Path) -> Program:
    """Reads the text of one graph."""
    text = cleaned(path)
    try:
        return _read(text)
    except (RecursionError, MemoryError):
        raise InputError("the text is nested too deeply", text.path, TRUNCATED) from None


def _read(text: Cleaned) -> Program:
    forward, constructor = functions(text, parsed(text))
    walk = _Walk(text)
    steps: list[ast.arg | ast.stmt] = [*_words(text, forward), *forward.body]
    for tree in steps:
        where = f"{text.path}:{tree.lineno}"
        try:
            walk.step(tree)
        except Unclear as reason:
            raise InputError(str(reason), where, TRUNCATED) from None
        except Refused as reason:
            raise InputError(reason.args[0], where, reason.args[1]) from None
    walk.nodes.program.constants = declared(constructor)
    if _cut(text, forward):
        where = f"{text.path}:{forward.end_lineno}"
        raise InputError("the text ends in the middle of its last line", where, TRUNCATED)
    return _complete(walk.nodes.program, forward)


def _words(text: Cleaned, forward: ast.FunctionDef) -> list[ast.arg]:
    given = forward.args
    if given.vararg or given.kwonlyargs or given.kwarg:
        where = f"{text.path}:{forward.lineno}"
        raise InputError("the graph takes any number of arguments", where, AFTER)
    return [word for word in (*given.posonlyargs, *given.args) if word.arg != "self"]


def _cut(text: Cleaned, forward: ast.FunctionDef) -> bool:
    """Does the text end in a return that may have been longer? torch ends it with a line break."""
    last = forward.body[-1]
    whole = isinstance(last, ast.Return) and isinstance(last.value, (ast.List, ast.Tuple, ast.Call))
    return not whole and last.end_lineno == len(text.lines)


def _complete(found: Program, forward: ast.FunctionDef) -> Program:
    """The graph, if its text has an end and says shapes."""
    if not found.nodes or found.nodes[-1]["op"] != "output":
        where = f"{found.path}:{forward.end_lineno}"
        raise InputError("the graph returns nothing: its text is cut short", where, TRUNCATED)
    called = any(row["op"] == "call_function" for row in found.nodes)
    if called and not any("shape" in row for row in found.nodes):
        raise InputError(
            "no line says shape or dtype: this is the bare code of the graph",
            found.path,
            "print it with graph_module.print_readable()",
        )
    return found


class _Walk:
    """Walks through the arguments and the statements of ``forward``."""

    def __init__(self, text: Cleaned) -> None:
        self.nested = text.nested
        self.sources = Sources(text)
        self.nodes = Nodes(Program(text.path))

    def step(self, tree: ast.arg | ast.stmt) -> None:
        """One argument, or one statement."""
        rows = self.nodes.program.nodes
        if isinstance(tree, ast.arg):
            self.nodes.placeholder(tree.arg, tree.annotation, tree.lineno)
        elif rows and rows[-1]["op"] == "output":
            raise Unclear("a statement follows the return")
        elif isinstance(tree, ast.Return):
            self._return(tree)
        elif isinstance(tree, ast.AnnAssign) and isinstance(tree.target, ast.Name):
            if tree.value is None:
                self.nodes.notes[tree.target.id] = tree.annotation
            else:
                self._assign(tree.target.id, tree.annotation, tree.value)
        elif isinstance(tree, ast.Assign):
            self._assignment(tree)
        elif isinstance(tree, ast.AugAssign):
            raise Refused(f"`{shown(tree)}` is an operator in place", AFTER)
        elif not isinstance(tree, ast.Pass) and not _is_text(tree):
            raise Unclear(f"the statement `{shown(tree)}` is not understood")

    def _assignment(self, tree: ast.Assign) -> None:
        names = [t.id for t in tree.targets if isinstance(t, ast.Name)]
        if len(names) == len(tree.targets) and _is_none(tree.value):
            return  # `view = None` frees a tensor
        if len(names) == len(tree.targets) == 1:
            self._assign(names[0], None, tree.value)
        elif isinstance(tree.targets[0], ast.Tuple) and len(tree.targets) == 1:
            self._flatten(tree.targets[0], tree)
        else:
            raise Refused(f"`{shown(tree)}` is no operator of ATen", AFTER)

    def _flatten(self, names: ast.Tuple, tree: ast.Assign) -> None:
        """``a, b, = fx_pytree.tree_flatten_spec(...)``: these are the placeholders."""
        made = dotted(tree.value.func) if isinstance(tree.value, ast.Call) else None
        leaves = [name.id for name in names.elts if isinstance(name, ast.Name)]
        fresh = all(row["op"] == "placeholder" for row in self.nodes.program.nodes)
        if (
            not made
            or made[-1] != "tree_flatten_spec"
            or len(leaves) < len(names.elts)
            or not fresh
        ):
            raise Refused(f"`{shown(tree)}` is not understood", AFTER)
        self.nodes.flatten(leaves, tree.lineno)

    def _assign(self, name: str, annotation: ast.expr | None, value: ast.expr) -> None:
        if isinstance(value, ast.Name):
            if not self.nodes.rename(name, value.id):
                raise Unclear(f"`{name} = {value.id}` is no operator")
            return
        row = self._row(name, annotation, value)
        if row is not None:
            source = self.sources.of(value.lineno)
            self.nodes.add(row, annotation, value.lineno, source)

    def _row(self, name: str, annotation: ast.expr | None, value: ast.expr) -> Json | None:
        """The node that a right side stands for, if it is one."""
        names = dotted(value)
        if names is not None:
            return self._attribute(name, names, value)
        if isinstance(value, ast.Call):
            return self._call(name, value)
        if isinstance(value, ast.Subscript):
            args = [self._argument(value.value), self._argument(value.slice)]
            return fx_nodes.call(name, GETITEM, args)
        kind, operands = fx_nodes.arithmetic(value)
        if kind is None:
            raise Unclear(f"the expression `{shown(value)}` is not understood")
        if fx_nodes.form(annotation)[0] is not None:
            raise Refused(f"`{shown(value)}` is no operator of ATen", AFTER)
        args = [self._argument(part) for part in operands]
        return fx_nodes.call(name, f"<built-in function {kind}>", args)

    def _attribute(self, name: str, names: list[str], value: ast.expr) -> Json | None:
        if names[0] != "self" or len(names) < 2:
            raise Refused(f"`{shown(value)}` reads an attribute of a node", AFTER)
        if len(names) == 2 and names[1] in self.nested:
            self.nodes.known[name] = None
            return None
        return fx_nodes.constant(name, ".".join(names[1:]))

    # ---- calls
    def _call(self, name: str, call: ast.Call) -> Json | None:
        names = dotted(call.func) or []
        if names[:1] == ["self"] and names[-1].startswith("_guards_fn"):
            return None  # checks of torch.export; nothing uses what it gives
        target = self._target(names, call)
        if _higher_order(names) and target not in HIGHER_ORDER:
            what = f"the higher-order operator `{target}` runs a graph or kernel that is not read"
            raise Refused(what, ALONE)
        kwargs: Json = {}
        for word in call.keywords:
            if word.arg is None:
                raise Unclear(f"the arguments of `{shown(call)}` are not understood")
            kwargs[word.arg] = self._argument(word.value)
        return fx_nodes.call(name, target, [self._argument(part) for part in call.args], kwargs)

    def _target(self, names: list[str], call: ast.Call) -> str:
        if (target := operator(names)) is not None:
            return target
        if len(names) == 2 and names[0] in ("operator", "_operator"):
            return f"<built-in function {names[1]}>"
        if len(names) == 2 and (names[0] == "math" or names[1].startswith(SIZES)):
            return ".".join(names)
        if names[:1] == ["self"]:
            raise Refused(f"`{shown(call)}` calls a submodule", AFTER)
        if names and names[0] in self.nodes.known:
            raise Refused(f"`{shown(call)}` calls a method", AFTER)
        raise Refused(f"`{shown(call)}` is no operator of ATen", AFTER)

    def _argument(self, tree: ast.expr) -> Any:
        return argument(tree, self.nodes.reference)

    # ---- what is returned
    def _return(self, tree: ast.Return) -> None:
        value = tree.value
        if isinstance(value, ast.Call):
            names = dotted(value.func) or [""]
            if names[-1] != "tree_unflatten" or not value.args:
                raise Refused(f"`{shown(tree)}` is not understood", AFTER)
            value = value.args[0]
        returned = None if value is None else self._returned(value)
        self.nodes.program.nodes.append(fx_nodes.output(returned))

    def _returned(self, tree: ast.expr) -> Any:
        """What is returned; of a dictionary the values, in their order."""
        if isinstance(tree, (ast.List, ast.Tuple)):
            return [self._returned(part) for part in tree.elts]
        if isinstance(tree, ast.Dict):
            return [self._returned(part) for part in tree.values]
        return self._argument(tree)


def _higher_order(names: list[str]) -> bool:
    return names[1:3] == ["ops", "higher_order"] or names[1:2] == ["_higher_order_ops"]


def _is_none(tree: ast.expr) -> bool:
    return isinstance(tree, ast.Constant) and tree.value is None


def _is_text(tree: ast.stmt) -> bool:
    """A string on its own: FX_GRAPH_SHOW_META prints what else is known of a node."""
    return isinstance(tree, ast.Expr) and isinstance(tree.value, ast.Constant)
