"""Reads HLO texts and judges them through the command line, in this process."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gg_datalog.extract.documents import CaseDocuments
from gg_datalog.readers import ReaderInput
from gg_datalog.readers.hlo import read

from ..command import run as cli

Json = dict[str, Any]


def judged(files: Sequence[Path], folder: Path, *options: str) -> Json:
    """The report on texts."""
    facts = folder / "facts"
    status, _, errors = cli("extract", "--from", "hlo", *files, "-o", facts, *options)
    assert status == 0, errors
    _, out, errors = cli("run", facts, "--format", "json")
    assert out, errors
    return dict(json.loads(out))


def documents(folder: Path, seq: str, *dist: str) -> CaseDocuments:
    """The case that texts become."""
    files = []
    for name, text in (("seq", seq), *((f"part{i}", t) for i, t in enumerate(dist))):
        files.append(folder / f"{name}.hlo")
        files[-1].write_text(text)
    return read(ReaderInput(files))


def program(body: str, header: str = "") -> str:
    """A module around the instructions of its entry; ``add`` and its like are there."""
    regions = "".join(
        f"{name} {{\n  a = {dtype}[] parameter(0)\n  b = {dtype}[] parameter(1)\n"
        f"  ROOT c = {dtype}[] {opcode}(a, b)\n}}\n\n"
        for name, opcode, dtype in (
            ("sum", "add", "f32"),
            ("largest", "maximum", "f32"),
            ("smallest", "minimum", "f32"),
            ("product", "multiply", "f32"),
            ("both", "and", "pred"),
            ("either", "or", "pred"),
            ("total", "add", "s32"),
        )
    )
    return f"HloModule test{header}\n\n{regions}ENTRY main {{\n{body}\n}}\n"
