"""HLO text: a module of computations, each a list of instructions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from gg_datalog.foundation.errors import InputError
from gg_datalog.readers.hlo_scan import (
    Unbalanced,
    closing,
    depth,
    split,
    without_comments,
)
from gg_datalog.readers.hlo_shapes import BadShape, Shape, read_shape

HEAD = re.compile(r"\s*HloModule\s+(%?[^\s,]+)\s*,?")
COMPUTATION = re.compile(r"\s*(ENTRY\s+)?%?([^\s(){}=,]+)\s*(\(.*\)\s*->.*)?\s*\{\s*$")
BEGIN = re.compile(r"\s*(ROOT\s+)?%?([^\s=(){},]+)\s*=\s*")
OPCODE = re.compile(r"\s*([a-z][\w\-]*)\s*\(")
KEY = re.compile(r"([A-Za-z_][\w\-.]*)\s*=\s*")
TABLES = ("FileNames", "FunctionNames", "FileLocations", "StackFrames")
ROW = re.compile(r"\s*(\d+)\s+(.*)")
DUMP = (
    "give XLA's HLO text, such as the dump *after_spmd-partitioning*.txt of "
    "XLA_FLAGS='--xla_dump_to=DIR --xla_dump_hlo_as_text --xla_dump_hlo_pass_re=spmd-partitioning'"
)
LONGEST = 100_000  # lines of one instruction


@dataclass(frozen=True)
class Instruction:
    """``name = shape opcode(operands), attributes``; ``inner`` is what the brackets hold."""

    name: str
    shape: Shape
    opcode: str
    inner: str
    operands: tuple[str, ...]
    attributes: dict[str, str]
    line: int
    root: bool


@dataclass
class Computation:
    """Instructions in order; the last or the marked one is what it gives."""

    name: str
    line: int
    instructions: list[Instruction] = field(default_factory=list)

    @property
    def root(self) -> Instruction:
        """What the computation gives."""
        marked = [i for i in self.instructions if i.root]
        return marked[-1] if marked else self.instructions[-1]

    @property
    def parameters(self) -> list[Instruction]:
        """The parameters by number."""
        found = [i for i in self.instructions if i.opcode == "parameter"]
        return sorted(found, key=lambda i: int(i.inner))


@dataclass
class Module:
    """A file of HLO text."""

    path: str
    name: str
    attributes: dict[str, str]
    computations: dict[str, Computation]
    entry: Computation
    tables: dict[str, dict[int, str]]

    def where(self, line: int) -> str:
        """A place, for messages."""
        return f"{self.path}:{line}"

    def count(self, key: str) -> int:
        """A number of the header; 1 where it is absent."""
        text = self.attributes.get(key, "1")
        if not text.isdecimal() or not 1 <= int(text) <= 2**20:
            raise InputError(f"`{key}` is {text!r}", self.where(1), "dump it again")
        return int(text)


def read_module(path: Path) -> Module:
    """The HLO text in a file; an :class:`InputError` names file and line."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise InputError(f"it cannot be read: {error}", str(path)) from None
    except UnicodeDecodeError:
        raise InputError("it is no text (a protocol buffer?)", str(path), DUMP) from None
    refuse_others(text, str(path))
    return _Reader(str(path), text.splitlines()).module()


def refuse_others(text: str, path: str) -> None:
    """An :class:`InputError` for texts that are no HLO, which says what they are."""
    if not text.strip():
        raise InputError("it is empty", path, DUMP)
    if "\0" in text:
        raise InputError("it is no text (a protocol buffer?)", path, DUMP)
    if re.search(r"^\s*HloModule\s", text, re.MULTILINE):
        return
    start = text.lstrip()[:20000]
    if re.search(r"\b(stablehlo|mhlo|func)\.\w+|^module\b|#sdy|sdy\.mesh", start):
        what = "it is MLIR (StableHLO), which has no collectives of a partitioned program yet"
    elif re.search(r"^graph\(\)|num_users=|torch\.fx|def forward\(", start, re.MULTILINE):
        raise InputError("it is an FX graph as text", path, "read it with --from fx-text")
    elif start[0] in "{[":
        what = "it is JSON"
    else:
        what = "it is no HLO text: no line begins with `HloModule`"
    raise InputError(what, path, DUMP)


class _Reader:
    def __init__(self, path: str, lines: list[str]) -> None:
        self.path, self.lines = path, lines
        self.at = 0  # the line that is read next
        self.tables: dict[str, dict[int, str]] = {}
        self.computations: dict[str, Computation] = {}
        self.entry: Computation | None = None

    def module(self) -> Module:
        heads = [i for i, line in enumerate(self.lines) if HEAD.match(line)]
        if not heads:
            raise self.error("the module has no name", 1)
        if len(heads) > 1:
            raise self.error("a second module begins", heads[1] + 1, "give one module per file")
        self.at = heads[0]
        head = HEAD.match(self.lines[self.at])
        assert head is not None
        first, line = self.at + 1, self._statement()
        attributes = self._attributes(line[head.end() :], first)
        self._tables()
        while self.at < len(self.lines):
            self._computation()
        if not self.computations:
            raise self.error("the module holds no computation", first)
        if self.entry is None and len(self.computations) > 1:
            raise self.error(
                "no computation is the ENTRY: the text ends too early", len(self.lines)
            )
        entry = self.entry or next(iter(self.computations.values()))
        name = head[1].lstrip("%")
        return Module(self.path, name, attributes, self.computations, entry, self.tables)

    def error(self, what: str, line: int, hint: str = "dump it again") -> InputError:
        return InputError(what, f"{self.path}:{line}", hint)

    def _statement(self) -> str:
        """The line at hand, with those that close its brackets."""
        text, first = self.lines[self.at], self.at
        self.at += 1
        while text.count("(") + text.count("{") != text.count(")") + text.count("}"):
            if depth(text) <= 0:
                break
            if self.at >= len(self.lines) or self.at - first > LONGEST:
                raise self.error("a bracket is never closed: the text ends too early", first + 1)
            text += "\n" + self.lines[self.at]
            self.at += 1
        return without_comments(text)

    def _blank(self, line: str) -> bool:
        return not line.strip() or line.lstrip().startswith(("//", "#"))

    def _tables(self) -> None:
        """The tables of files and stack frames that newer dumps have before the computations."""
        rows: dict[int, str] | None = None
        while self.at < len(self.lines):
            line = self.lines[self.at].strip()
            if line in TABLES:
                rows = self.tables.setdefault(line, {})
            elif rows is not None and (found := ROW.fullmatch(line)):
                rows[int(found[1])] = found[2]
            elif not self._blank(line):
                return
            self.at += 1

    def _computation(self) -> None:
        line, number = self.lines[self.at], self.at + 1
        self.at += 1
        if self._blank(line):
            return
        head = COMPUTATION.match(without_comments(line))
        if head is None:
            raise self.error(f"no computation begins with {line.strip()[:60]!r}", number)
        made = Computation(head[2], number)
        made.instructions.extend(self._instructions(number))
        if not made.instructions:
            raise self.error(f"computation `{made.name}` is empty", number)
        if made.name in self.computations:
            raise self.error(f"two computations are called `{made.name}`", number)
        self.computations[made.name] = made
        if head[1]:
            if self.entry is not None:
                raise self.error("there are two ENTRY computations", number)
            self.entry = made

    def _instructions(self, first: int) -> Iterator[Instruction]:
        names: set[str] = set()
        while self.at < len(self.lines):
            if self.lines[self.at].lstrip().startswith("}"):
                self.at += 1
                return
            if self._blank(self.lines[self.at]):
                self.at += 1
                continue
            number = self.at + 1
            made = self._instruction(self._statement(), number)
            if made.name in names:
                raise self.error(f"two instructions are called `{made.name}`", number)
            names.add(made.name)
            yield made
        raise self.error("the computation is never closed: the text ends too early", first)

    def _instruction(self, text: str, number: int) -> Instruction:
        begin = BEGIN.match(text)
        if begin is None:
            raise self.error(f"no instruction begins with {text.strip()[:60]!r}", number)
        try:
            shape, at = read_shape(text, begin.end())
            opcode = OPCODE.match(text, at)
            if opcode is None:
                raise BadShape(f"no opcode at {text[at : at + 30].strip()!r}")
            end = closing(text, opcode.end() - 1)
            inner = text[opcode.end() : end].strip()
            literal = opcode[1] in ("constant", "parameter", "iota")
            operands = () if literal else tuple(_operand(part) for part in split(inner))
        except (BadShape, Unbalanced) as error:
            raise self.error(f"`{begin[2]}`: {error}", number) from None
        attributes = self._attributes(text[end + 1 :], number)
        if opcode[1] == "parameter" and not inner.isdecimal():
            raise self.error(f"`{begin[2]}`: parameter {inner!r} has no number", number)
        return Instruction(
            begin[2], shape, opcode[1], inner, operands, attributes, number, bool(begin[1])
        )

    def _attributes(self, text: str, number: int) -> dict[str, str]:
        found: dict[str, str] = {}
        last = ""
        try:
            parts = split(text.strip().lstrip(","))
        except Unbalanced as error:
            raise self.error(str(error), number) from None
        for part in parts:
            key = KEY.match(part)
            if key is None or (key[1] == "device_ids" and last):
                if not last:
                    raise self.error(f"{part[:40]!r} is no attribute", number)
                found[last] += ", " + part  # `mesh[..], device_ids=(..) {..}` is one value
                continue
            last = key[1]
            found[last] = part[key.end() :].strip()
        return found


def _operand(part: str) -> str:
    """The name of an operand, which older texts write with its shape."""
    words = part.split()
    if not words:
        raise BadShape("an operand is missing")
    return words[-1].lstrip("%")
