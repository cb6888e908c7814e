"""The arguments of operators by name, as torch's schemas list them: ``signatures.txt``. Positional,
keyword and spelt-out forms of a call are one; ``test_torch.py`` compares the file with torch."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from .program import Json

FILE = Path(__file__).with_name("signatures.txt")
REQUIRED = object()


@dataclass(frozen=True)
class Signature:
    """The arguments of an operator in order; those from ``keyword`` on have to be named."""

    names: tuple[str, ...]
    defaults: tuple[Any, ...]
    keyword: int

    def bind(self, args: list[Any], kwargs: dict[str, Any]) -> dict[str, Any] | None:
        """The arguments that are given, by name; None where they do not fit."""
        if len(args) > self.keyword or set(kwargs) - set(self.names[len(args) :]):
            return None
        return dict(zip(self.names, args, strict=False)) | kwargs

    def default(self, name: str) -> Any:
        """What an argument is where it is left out."""
        return self.defaults[self.names.index(name)]


def _signature(arguments: ast.arguments) -> Signature:
    plain = [*arguments.args]
    given = [ast.literal_eval(d) for d in arguments.defaults]
    defaults: list[Any] = [*[REQUIRED] * (len(plain) - len(given)), *given]
    defaults += [REQUIRED if d is None else ast.literal_eval(d) for d in arguments.kw_defaults]
    names = [a.arg for a in (*plain, *arguments.kwonlyargs)]
    return Signature(tuple(names), tuple(defaults), len(plain))


@cache
def signatures() -> dict[str, Signature]:
    """All of the file, by target."""
    found = {}
    for line in FILE.read_text("utf-8").splitlines():
        target, _, rest = line.partition("(")
        parsed = ast.parse(f"lambda {rest[:-1]}: 0", mode="eval").body
        assert isinstance(parsed, ast.Lambda), line
        found[target] = _signature(parsed.args)
    return found


def canonical(node: Json) -> Json:
    """The node with positional arguments in their places, without what only says the default."""
    known = signatures().get(node["target"]) if node["op"] == "call_function" else None
    bound = known.bind(node["args"], node.get("kwargs") or {}) if known else None
    if known is None or bound is None:
        return node
    args: list[Any] = []
    for name, default in list(zip(known.names, known.defaults, strict=True))[: known.keyword]:
        if name not in bound and default is REQUIRED:
            return node
        args.append(bound.get(name, default))
    while args and _same(args[-1], known.defaults[len(args) - 1]):
        args.pop()
    kwargs = {n: bound[n] for n in known.names[known.keyword :] if n in bound}
    kept = {n: v for n, v in kwargs.items() if not _same(v, known.default(n))}
    return node | {"args": args, "kwargs": kept}


def _same(value: Any, default: Any) -> bool:
    return type(value) is type(default) and bool(value == default)
