"""Annotations and arguments of an FX text, in the form of the JSON graphs."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable
from typing import Any

Json = dict[str, Any]

# As torch abbreviates dtypes in annotations (torch/utils/_dtype_abbrs.py).
DTYPES = {
    "b8": "bool",
    "u8": "uint8",
    "u16": "uint16",
    "u32": "uint32",
    "u64": "uint64",
    "i8": "int8",
    "i16": "int16",
    "i32": "int32",
    "i64": "int64",
    "f16": "float16",
    "bf16": "bfloat16",
    "f32": "float32",
    "f64": "float64",
    "c32": "complex32",
    "c64": "complex64",
    "c128": "complex128",
    "f8e5m2": "float8_e5m2",
    "f8e4m3fn": "float8_e4m3fn",
    "f8e5m2fnuz": "float8_e5m2fnuz",
    "f8e4m3fnuz": "float8_e4m3fnuz",
    "f8e8m0fnu": "float8_e8m0fnu",
    "f4e2m1fnx2": "float4_e2m1fn_x2",
    "b1x8": "bits1x8",
    "b2x4": "bits2x4",
    "b4x2": "bits4x2",
    "b8x1": "bits8",
    "b16x1": "bits16",
}
LAYOUTS = (
    "strided",
    "jagged",
    "sparse_coo",
    "sparse_csr",
    "sparse_csc",
    "sparse_bsr",
    "sparse_bsc",
)
MEMORY = ("contiguous_format", "preserve_format", "channels_last", "channels_last_3d")
SCALARS = {"half": "float16", "float": "float32", "double": "float64", "long": "int64"}
TENSOR = re.compile(r"(\w+)\[")
WRAPPED = re.compile(r"(?:Parameter|Buffer)\((.*)\)")
RESERVED = {"node", "float", "slice", "dtype", "device", "layout", "memory_format"}


class Unclear(Exception):
    """Something in the text that has no meaning here."""


def annotated(text: str) -> tuple[list[int | str] | None, str | None]:
    """Shape and dtype of an annotation such as ``f32[8, s0][s0, 1]cpu``; None for ``Sym(u0)``."""
    if text.startswith("Sym("):
        return None, None
    wrapped = WRAPPED.fullmatch(text)
    if wrapped:
        return annotated(wrapped[1])
    found = TENSOR.match(text)
    if found is None or (closed := _closing(text, found.end())) is None:
        raise Unclear(f"the annotation {text!r} is no tensor such as f32[8, 16]")
    if found[1] not in DTYPES:
        raise Unclear(f"the dtype `{found[1]}` of annotation {text!r} is not known")
    sizes = _split(text[found.end() : closed])
    return [int(s) if re.fullmatch(r"\d{1,18}", s) else s for s in sizes], DTYPES[found[1]]


def _closing(text: str, start: int) -> int | None:
    depth = 1
    for place in range(start, len(text)):
        depth += (text[place] in "[(") - (text[place] in "])")
        if depth == 0:
            return place
    return None


def _split(text: str) -> list[str]:
    """Sizes: a comma inside parentheses belongs to an expression such as ``Max(1, s0)``."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "[(") - (letter in "])")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    sizes = [part.strip() for part in parts]
    if sizes == [""]:
        return []
    if not all(sizes):
        raise Unclear(f"the sizes [{text}] of an annotation are not complete")
    return sizes


def dotted(tree: ast.expr) -> list[str] | None:
    """``a.b.c`` as its names; torch writes ``getattr(a, "0").c`` for names that are numbers."""
    names: list[str] = []
    while True:
        if isinstance(tree, ast.Name):
            return [tree.id, *reversed(names)]
        if isinstance(tree, ast.Attribute):
            names.append(tree.attr)
            tree = tree.value
        elif (attribute := _getattr(tree)) is not None:
            names.append(attribute)
            tree = tree.args[0]  # type: ignore[attr-defined]
        else:
            return None


def _getattr(tree: ast.expr) -> str | None:
    if not (isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name)):
        return None
    name = tree.args[1] if tree.func.id == "getattr" and len(tree.args) == 2 else None
    return name.value if isinstance(name, ast.Constant) and isinstance(name.value, str) else None


def operator(names: list[str]) -> str | None:
    """The JSON name of an operator: ``torch.ops.aten.mm.default`` is ``aten.mm.default``."""
    if names[:3] == ["torch", "ops", "higher_order"] or names[:2] == ["torch", "_higher_order_ops"]:
        return names[-1] if len(names) > 3 else None
    return ".".join(names[2:]) if names[:2] == ["torch", "ops"] and len(names) > 3 else None


def argument(tree: ast.expr, node: Callable[[str], Any]) -> Any:
    """An argument in the JSON form; ``node`` gives the reference to a node by its name."""
    if isinstance(tree, ast.Constant):
        return _constant(tree.value)
    if isinstance(tree, ast.Name):
        return {"float": tree.id} if tree.id in ("inf", "nan") else node(tree.id)
    if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.USub):
        return _negative(argument(tree.operand, node), tree)
    if isinstance(tree, (ast.List, ast.Tuple)):
        return [argument(part, node) for part in tree.elts]
    if isinstance(tree, ast.Dict):
        return _dict(tree, node)
    if isinstance(tree, ast.Call):
        return _made(tree, node)
    if isinstance(tree, ast.Attribute):
        return _named(tree)
    raise Unclear(f"the argument `{shown(tree)}` is not understood")


def shown(tree: ast.AST) -> str:
    """A piece of the text for a message."""
    text = " ".join(ast.unparse(tree).split())
    return text if len(text) <= 80 else text[:77] + "..."


def _constant(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": str(value)}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise Unclear(f"the argument `{value!r}` has no meaning in a graph")


def _negative(value: Any, tree: ast.expr) -> Any:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return -value
    if value == {"float": "inf"}:
        return {"float": "-inf"}
    raise Unclear(f"the argument `{shown(tree)}` is not a number")


def _dict(tree: ast.Dict, node: Callable[[str], Any]) -> Json:
    found: Json = {}
    for key, value in zip(tree.keys, tree.values, strict=True):
        if not isinstance(key, ast.Constant) or not isinstance(key.value, str):
            raise Unclear(f"the argument `{shown(tree)}` has keys that are not strings")
        found[key.value] = argument(value, node)
    if len(found) == 1 and set(found) <= RESERVED:
        raise Unclear(f"the argument `{shown(tree)}` cannot be told from a literal")
    return found


def _made(tree: ast.Call, node: Callable[[str], Any]) -> Json:
    """``device(type='cuda', index=0)``, ``torch.device('cpu')`` and ``slice(0, 4, None)``."""
    names = dotted(tree.func)
    if names == ["slice"] and not tree.keywords and 1 <= len(tree.args) <= 3:
        parts = [argument(part, node) for part in tree.args]
        if all(part is None or isinstance(part, int) for part in parts):
            return {"slice": parts if len(parts) > 1 else [None, *parts, None]}
    if names in (["device"], ["torch", "device"]):
        given: Json = dict(zip(("type", "index"), (_plain(a) for a in tree.args), strict=False))
        given |= {word.arg: _plain(word.value) for word in tree.keywords if word.arg}
        if isinstance(given.get("type"), str) and set(given) <= {"type", "index"}:
            index = given.get("index")
            return {"device": given["type"] if index is None else f"{given['type']}:{index}"}
    raise Unclear(f"the argument `{shown(tree)}` is not understood")


def _plain(tree: ast.expr) -> Any:
    return tree.value if isinstance(tree, ast.Constant) else tree


def _named(tree: ast.Attribute) -> Any:
    """``torch.float32``, ``torch.strided`` and the like; an operator is a string."""
    names = dotted(tree) or []
    if (name := operator(names)) is not None:
        return name
    if len(names) == 2 and names[0] == "torch":
        if names[1] in DTYPES.values() or names[1] in SCALARS:
            return {"dtype": SCALARS.get(names[1], names[1])}
        if names[1] in LAYOUTS:
            return {"layout": names[1]}
        if names[1] in MEMORY:
            return {"memory_format": names[1]}
    raise Unclear(f"the argument `{shown(tree)}` is not understood")
