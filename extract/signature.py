"""What an operator's arguments are: names, kinds, defaults, what aliases what and what is written.

The schemas of torch are data (`schemas/torch.txt`, made by `gg_datalog.tracing.schemas`), so that
nothing here needs torch; those of other kernels that the project knows are in
`schemas/kernels.txt`. What a schema does not say, or says wrongly, is in
`schemas/corrections.toml`, with the reason. The notation is torch's own
(https://github.com/pytorch/pytorch/blob/main/aten/src/ATen/native/README.md).
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

REQUIRED: Any = type("Required", (), {"__repr__": lambda self: "required"})()
COMPOSITE, RANDOM = "~", "?"  # behind a line: made of other operators; draws random numbers


Bound = dict[str | int, Any]  # by name; of kernels without a signature by position, too


class Unbound(ValueError):
    """Arguments that do not fit the operator's signature; the text says which."""


class Parameter(NamedTuple):
    """One argument: ``type`` as the schema has it without marks; ``aliases`` names the sets of
    memory that it belongs to; ``default`` is :data:`REQUIRED` where it has to be given."""

    name: str
    type: str
    default: Any
    keyword: bool  # only by name
    aliases: frozenset[str]
    written: bool
    when: str = ""  # the argument that has to be true for it to be written

    @property
    def out(self) -> bool:
        """Is it memory for a result, which is never read?"""
        return self.keyword and self.written

    @property
    def tensor(self) -> bool:
        """Does it hold tensors?"""
        return self.type.startswith("Tensor")


@dataclass(frozen=True)
class Signature:
    """``results`` lists the sets of memory that each result belongs to."""

    target: str
    parameters: tuple[Parameter, ...]
    results: tuple[frozenset[str], ...]
    composite: bool = False  # its schema does not speak of aliases
    random: bool = False

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Bound:
        """Every argument by name, in the order of the schema, defaults filled in."""
        places = [p for p in self.parameters if not p.keyword]
        if len(args) > len(places):
            raise Unbound(f"it takes {len(places)} arguments by position, {len(args)} are given")
        given = {p.name: a for p, a in zip(places, args, strict=False)}
        names = {p.name for p in self.parameters}
        for name, value in kwargs.items():
            if name not in names:
                raise Unbound(f"it has no argument `{name}`")
            if name in given:
                raise Unbound(f"argument `{name}` is given twice")
            given[name] = value
        bound: Bound = {p.name: given.get(p.name, p.default) for p in self.parameters}
        missing = [name for name, value in bound.items() if value is REQUIRED]
        if missing:
            raise Unbound(f"argument `{missing[0]}` is missing")
        return bound

    def fits(self, bound: Mapping[str | int, Any]) -> bool:
        """Are the values of the kinds that the schema asks for? (References may be anything.)"""
        return all(_fits(p.type, bound[p.name]) for p in self.parameters)

    def default(self, name: str) -> Any:
        """What an argument is where it is not given; :data:`REQUIRED` where it has to be."""
        return next((p.default for p in self.parameters if p.name == name), REQUIRED)

    def written(self, bound: Mapping[str | int, Any]) -> list[str]:
        """The arguments into which a call with these arguments writes."""
        return [p.name for p in self.parameters if p.written and (not p.when or bound[p.when])]

    def returned(self, name: str) -> bool:
        """May a result lie in the memory of argument ``name``?"""
        mine = next(p for p in self.parameters if p.name == name)
        if self.composite:
            return mine.tensor
        return any(mine.aliases & result or "*" in result & mine.aliases for result in self.results)


# ---- the data -----------------------------------------------------------------------------------
@cache
def _lines() -> dict[str, dict[str, str]]:
    """Per operator (`aten.add`) the schema of each overload."""
    found: dict[str, dict[str, str]] = {}
    folder = files("gg_datalog.extract").joinpath("schemas")
    for file in ("torch.txt", "kernels.txt"):
        for line in folder.joinpath(file).read_text("utf-8").splitlines():
            if "(" not in line or line.startswith("#"):
                continue
            space, _, rest = line.partition("(")[0].partition("::")
            name, _, overload = rest.partition(".")
            found.setdefault(f"{space}.{name}", {})[overload or "default"] = line
    return found


@cache
def _corrections() -> dict[str, Any]:
    text = files("gg_datalog.extract").joinpath("schemas/corrections.toml").read_text("utf-8")
    return tomllib.loads(text)


@cache
def signature(target: str) -> Signature | None:
    """The signature of an operator with its overload (`aten.add.Tensor`); None where it is not
    known. Operators without overloads (`hlo.dot`) go by their name."""
    name, _, overload = target.rpartition(".") if target.count(".") > 1 else (target, "", "default")
    line = _lines().get(name, {}).get(overload)
    return None if line is None else _corrected(read(line), name)


def overloads(target: str) -> list[Signature]:
    """The signatures of all overloads of an operator, whichever the target names."""
    name = packet_of(target)
    found = (signature(f"{name}.{overload}") for overload in _lines().get(name, {}))
    return [s for s in found if s is not None]


def bound(
    target: str, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[Signature, Bound] | None:
    """The signature of a call and its arguments by name; None where the operator is not known.

    A target without its overload, or with one that this release does not have, is the first one
    that the arguments fit. :class:`Unbound` where none does."""
    exact = signature(target)
    others = overloads(target)
    if exact is not None and (target.count(".") > 1 or len(others) == 1):
        return exact, exact.bind(args, kwargs)
    problem: Unbound | None = None
    for one in others:
        try:
            given = one.bind(args, kwargs)
        except Unbound as error:
            problem = problem or error
            continue
        if one.fits(given):
            return one, given
        problem = problem or Unbound("its arguments are of other kinds")
    if problem is not None:
        raise problem
    return None


# ---- reading a schema -----------------------------------------------------------------------
MARK = re.compile(r"\(([^()]*)\)")


def read(line: str) -> Signature:
    """A schema in torch's notation, such as ``aten::t(Tensor(a) self) -> Tensor(a)``."""
    text = line
    marks: list[str] = []
    while text.endswith((f" {COMPOSITE}", f" {RANDOM}")):
        text, marks = text[:-2], [*marks, text[-1]]
    name, _, rest = text.partition("(")
    inside, _, results = _closed(rest)
    target = name.replace("::", ".")
    target = target if target.count(".") > 1 else f"{target}.default"
    parameters, keyword = [], False
    for part in at_commas(inside):
        if part == "*":
            keyword = True
            continue
        parameters.append(_parameter(part, keyword))
    given = results.strip().removeprefix("->").strip()
    listed = at_commas(_closed(given[1:])[0]) if given.startswith("(") else [given]
    shared = tuple(_marks(r)[0] for r in listed if r)
    return Signature(target, tuple(parameters), shared, COMPOSITE in marks, RANDOM in marks)


def _closed(text: str) -> tuple[str, str, str]:
    """What stands before the bracket that closes, the bracket, and what stands behind it."""
    depth = 1
    for i, letter in enumerate(text):
        depth += (letter in "([") - (letter in ")]")
        if depth == 0:
            return text[:i], letter, text[i + 1 :]
    raise ValueError(f"a bracket is not closed: {text}")


def at_commas(text: str) -> list[str]:
    """Parts between commas that are in no bracket, as arguments are written."""
    parts, depth, start = [], 0, 0
    for i, letter in enumerate(text):
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and depth == 0:
            parts.append(text[start:i].strip())
            start = i + 1
    last = text[start:].strip()
    return [*parts, last] if last else parts


def _marks(text: str) -> tuple[frozenset[str], bool]:
    """The sets of memory that a type names, and whether it is written."""
    found = MARK.search(text.partition(" ")[0] if "->" not in text else text)
    if found is None:
        return frozenset(), False
    inside = found.group(1)
    return frozenset(re.findall(r"\w+|\*", inside.replace("!", ""))), "!" in inside


def _parameter(text: str, keyword: bool) -> Parameter:
    aliases, written = _marks(text)
    plain = MARK.sub("", text) if aliases else text
    kind, _, rest = plain.partition(" ")
    name, equals, default = rest.partition("=")
    value = _default(default.strip(), kind) if equals else REQUIRED
    return Parameter(name.strip(), kind, value, keyword, aliases, written)


def _default(text: str, kind: str) -> Any:
    words = {"None": None, "True": True, "False": False}
    if text in words:
        return words[text]
    if text.startswith("["):
        return tuple(_default(part, kind) for part in at_commas(_closed(text[1:])[0]))
    if text.startswith(("'", '"')):
        return text[1:-1]
    if not NUMBER.fullmatch(text):
        return text
    whole = text.lstrip("-").isdigit() and not kind.startswith("float")
    return int(text) if whole else float(text)


NUMBER = re.compile(r"-?[\d.]+(e-?\d+)?")
LISTS = re.compile(r"\[\d*\]\??$")


def _fits(kind: str, value: Any) -> bool:
    """Could ``value`` be of this kind? A reference to a node may be anything."""
    base = kind.removesuffix("?")
    if value is None:
        return kind.endswith("?") or base in ("Any", "Generator")
    if isinstance(value, (tuple, list)):
        listed = LISTS.search(base) is not None
        return listed and all(v is None or _fits(LISTS.sub("", base), v) for v in value)
    if LISTS.search(base):
        return isinstance(value, int) and not base.startswith("Tensor") and base[-2].isdigit()
    if isinstance(value, bool):
        return base in ("bool", "Scalar", "Any", "Tensor")
    if isinstance(value, int):
        return base in ("int", "SymInt", "Scalar", "float", "Any", "Tensor", "ScalarType")
    if isinstance(value, float):
        return base in ("float", "Scalar", "Any", "Tensor")
    return base in ("str", "Any") if isinstance(value, str) else True


def _corrected(given: Signature, name: str) -> Signature:
    """With what the schema leaves out."""
    rows = _corrections()
    for row in rows.get("writes", []):
        if name in row["operators"]:
            given = _writing(given, row["arguments"], row.get("when", ""))
    composite = given.composite or name in rows["returns_operand"]["operators"]
    return replace(given, composite=composite and name not in rows["computes"]["operators"])


def _writing(given: Signature, names: Sequence[str], when: str) -> Signature:
    def corrected(p: Parameter) -> Parameter:
        aliases = p.aliases | {f"{p.name}!"}
        return p._replace(written=True, when=when, aliases=aliases) if p.name in names else p

    return replace(given, parameters=tuple(map(corrected, given.parameters)))


def tensor_names(of: Signature) -> Iterator[str]:
    """The arguments that hold tensors."""
    return (p.name for p in of.parameters if p.tensor)


def packet_of(target: str) -> str:
    """An operator's namespace and name, without its overload: ``aten.add`` of ``aten.add.Tensor``.
    Names of other libraries may have no overload."""
    return target.rpartition(".")[0] if target.count(".") > 1 else target
