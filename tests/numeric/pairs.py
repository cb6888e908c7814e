"""Tiny pairs of every family of the generators, and where the shipped cases and the corpus lie."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import gpt
import llama
import qwen2

from .program import Program, load

ROOT = Path(__file__).resolve().parents[2]
CORPUS = ROOT.parent / "shared" / "corpus"
EXAMPLES = {
    name: ROOT / "examples" / "tp_block" / name for name in ("case", "case-missing-all-reduce")
}

_GPT: dict[str, Any] = {"hidden": 12, "heads": 6, "ffn": 12, "vocab": 9, "seq": 6, "batch": 2}
_FOUR: dict[str, Any] = {"hidden": 16, "heads": 8, "ffn": 12, "vocab": 12, "seq": 8, "batch": 3}
_LLAMA: dict[str, Any] = {"hidden": 32, "heads": 8, "kv_heads": 4, "ffn": 8, "vocab": 12, "seq": 3}
_QWEN: dict[str, Any] = {"hidden": 16, "heads": 8, "ffn": 8, "vocab": 12, "seq": 3, "batch": 2}
SIZES: dict[str, tuple[Any, dict[str, Any]]] = {
    "gpt-1x2": (gpt, {"layers": 1, "ranks": 2, **_FOUR, "heads": 4, "batch": 2, "hidden": 8}),
    "gpt-2x3": (gpt, {"layers": 2, "ranks": 3, **_GPT}),
    "gpt-1x4": (gpt, {"layers": 1, "ranks": 4, **_FOUR}),
    "gpt-1x2-one-head": (gpt, {"layers": 1, "ranks": 2, **_FOUR, "heads": 2, "hidden": 8}),
    "llama-1x2": (llama, {"layers": 1, "ranks": 2, **_LLAMA, "batch": 2}),
    "llama-1x4-one-kv-head": (llama, {"layers": 1, "ranks": 4, **_LLAMA, "batch": 2}),
    "llama-2x4-one-each": (llama, {"layers": 2, "ranks": 4, **_LLAMA, "batch": 2, "heads": 4}),
    "qwen2-2x2": (qwen2, {"layers": 2, "ranks": 2, **_QWEN, "kv_heads": 4}),
    "qwen2-1x4-one-kv-head": (qwen2, {"layers": 1, "ranks": 4, **_QWEN, "kv_heads": 4}),
    "qwen2-1x4-replicated": (qwen2, {"layers": 1, "ranks": 4, **_QWEN, "kv_heads": 2}),
    "qwen2-1x8-replicated": (qwen2, {"layers": 1, "ranks": 8, **_QWEN, "kv_heads": 2, "vocab": 16}),
}


@cache
def pair(name: str) -> Program:
    """A tiny pair of the generators, or a shipped case; not to be changed."""
    if name in EXAMPLES:
        return load(EXAMPLES[name])
    family, sizes = SIZES[name]
    with tempfile.TemporaryDirectory() as folder:
        family.case(family.Sizes(**sizes)).write(Path(folder))
        return load(Path(folder))


def corpus(name: str) -> Program | None:
    """A captured pair, where the corpus lies beside the project."""
    return load(CORPUS / name) if (CORPUS / name / "seq.json").is_file() else None
