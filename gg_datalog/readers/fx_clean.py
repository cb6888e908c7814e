"""The one class of an FX text: decoded, without colours and log prefixes, lines in their places."""

from __future__ import annotations

import codecs
import json
import re
from dataclasses import dataclass, replace
from pathlib import Path

from gg_datalog.foundation.errors import InputError

COLOUR = re.compile(r"\x1b\[[0-9;]*m")
LOGGED = re.compile(r"[VDIWEC]\d{4} \d\d:\d\d:\d\d\.\d+ \d+ [^\]\s]+:\d+\] ?")
TAGS = re.compile(r"(?:\[[^\]\s]*\] ?)*")
RECORD = re.compile(r'\{\s*"(\w+)"')
CLASS = re.compile(r"(\s*)(?:\S*[/\\]\S+ +)?class (.+?)\(torch\.nn\.Module\):\s*$")
FORWARD = re.compile(r"(\s*)def (\w+)\(")
# Records of TORCH_TRACE that hold graphs of ATen operators, the one to prefer first.
GRAPHS = (
    "aot_joint_graph",
    "aot_inference_graph",
    "aot_forward_graph",
    "aot_backward_graph",
    "inductor_post_grad_graph",
)
PRINT = "print the graph with graph_module.print_readable(), or take a file that tlparse wrote"


@dataclass(frozen=True)
class Cleaned:
    """Python text with the line numbers of the file; ``nested`` are the classes inside the first.

    Names of classes are replaced: torch prints ``<lambda>`` and numbers."""

    path: str
    lines: tuple[str, ...]
    nested: frozenset[str] = frozenset()


def cleaned(path: Path) -> Cleaned:
    """Reads a file that holds one printed graph; an :class:`InputError` says what else it is."""
    lines = _logged(_decoded(path).split("\n"), str(path))
    return _class(Cleaned(str(path), tuple(lines)))


def _decoded(path: Path) -> str:
    try:
        data = path.read_bytes()
        wide = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
        text = data.decode("utf-16" if wide else "utf-8-sig")
    except OSError as error:
        raise InputError(f"the text cannot be read: {error.strerror}", str(path)) from None
    except UnicodeDecodeError:
        raise InputError("this is no text: it is not in UTF-8", str(path), PRINT) from None
    if "\0" in text:
        raise InputError("this is no text: it holds zero bytes", str(path), PRINT)
    if not text.strip():
        raise InputError("the file is empty", str(path), PRINT)
    return COLOUR.sub("", text).replace("\r\n", "\n").replace("\r", "\n")


# ---- logs
def _logged(lines: list[str], path: str) -> list[str]:
    """Lines without what logging puts before them. Of a TORCH_TRACE log only one graph is kept."""
    inside = 0  # the line that opened the record of a TORCH_TRACE log, or 0
    graphs: dict[int, tuple[str, str]] = {}
    kept: list[tuple[int, str]] = []
    for number, line in enumerate(lines, 1):
        found = LOGGED.match(line)
        rest = line[found.end() :] if found else line
        if found and RECORD.match(rest):
            inside = number
            graphs |= _graph(rest, number)
            kept.append((inside, ""))
        elif found:  # TORCH_LOGS: every line has the prefix
            kept.append((0, TAGS.sub("", rest, count=1)))
        else:
            kept.append((inside, line))
    chosen = _chosen(graphs, path)
    return [line if opened in (0, chosen) else "" for opened, line in kept]


def _graph(record: str, number: int) -> dict[int, tuple[str, str]]:
    """Which graph a record of the log holds: its kind, and the compilation that it is of."""
    try:
        found = json.loads(record)
    except ValueError:
        return {}
    ids = [str(found.get(key)) for key in ("frame_id", "frame_compile_id", "attempt")]
    kind = next((kind for kind in GRAPHS if kind in found), None)
    return {number: (kind, "/".join(ids))} if kind else {}


def _chosen(graphs: dict[int, tuple[str, str]], path: str) -> int:
    """The record to read, by its line: the joint graph of the one compilation."""
    if not graphs:
        return 0
    best = min((kind for kind, _ in graphs.values()), key=GRAPHS.index)
    found = [line for line, (kind, _) in graphs.items() if kind == best]
    halves = best == "aot_forward_graph" and "aot_backward_graph" in dict(graphs.values())
    if len(found) > 1 or halves or len({compiled for _, compiled in graphs.values()}) > 1:
        told = ", ".join(f"{kind} (line {line})" for line, (kind, _) in graphs.items())
        hint = "give one of the files that tlparse makes of it"
        raise InputError(f"the log holds several graphs: {told}", path, hint)
    return found[0]


# ---- the class
def _class(text: Cleaned) -> Cleaned:
    heads = [(i, m) for i, line in enumerate(text.lines) if (m := CLASS.match(line))]
    if not heads:
        heads = [(i, m) for i, line in enumerate(text.lines) if (m := FORWARD.match(line))][:1]
    if not heads:
        raise _no_graph(text)
    start, head = heads[0]
    base = head[1]
    others = [i + 1 for i, m in heads[1:] if len(m[1]) <= len(base)]
    if others:
        raise InputError(
            f"the text holds {len(others) + 1} graphs, at lines {start + 1}, "
            + ", ".join(map(str, others)),
            text.path,
            "give one graph per file; a forward and a backward graph are joined as FWD.txt+BWD.txt",
        )
    stop = _end(text.lines, start, len(base))
    inside = [line.removeprefix(base) for line in text.lines[start:stop]]
    lines = ["" for _ in range(start)] + [_renamed(line) for line in inside]
    nested = frozenset(m[2] for _, m in heads[1:])
    return replace(text, lines=tuple(lines), nested=nested)


def _renamed(line: str) -> str:
    found = CLASS.match(line)
    return f"{found[1]}class Graph(torch.nn.Module):" if found else line


def _end(lines: tuple[str, ...], start: int, base: int) -> int:
    """The first line after the block that opens at ``start``."""
    for number in range(start + 1, len(lines)):
        inside = lines[number].lstrip()
        if inside and len(lines[number]) - len(inside) <= base and not inside.startswith(")"):
            return number
    return len(lines)


def _no_graph(text: Cleaned) -> InputError:
    words = [line.strip() for line in text.lines if line.strip()]
    told = [line for line in words if not line.startswith("#")]
    if any(line.startswith("HloModule") for line in told[:50]):
        return InputError("this is an HLO text, not an FX graph", text.path, "read it: --from hlo")
    if told and told[0].startswith(("{", "[")):
        hint = "give JSON graphs with --seq and --dist, without --from"
        return InputError("this is JSON, not the text of an FX graph", text.path, hint)
    if not told:
        return InputError("the text holds nothing but comments", text.path, PRINT)
    return InputError("no FX graph found: the text has no `def forward`", text.path, PRINT)
