"""Pairs of the generators in the sizes that the tests here use."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gpt
import llama
import qwen2

_GPT: dict[str, Any] = {"hidden": 48, "heads": 24, "ffn": 96, "vocab": 48, "seq": 24, "batch": 2}
_LLAMA: dict[str, Any] = {
    "hidden": 64,
    "heads": 16,
    "kv_heads": 8,
    "ffn": 32,
    "vocab": 48,
    "seq": 5,
}
_QWEN: dict[str, Any] = {"hidden": 32, "heads": 8, "ffn": 16, "vocab": 24, "seq": 5, "batch": 2}
GENERATED: dict[str, tuple[Any, dict[str, Any]]] = {
    "gpt-1x3": (gpt, {"layers": 1, "ranks": 3, **_GPT}),
    "gpt-3x4": (gpt, {"layers": 3, "ranks": 4, **_GPT}),
    "gpt-2x6": (gpt, {"layers": 2, "ranks": 6, **_GPT}),
    "gpt-1x8": (gpt, {"layers": 1, "ranks": 8, **_GPT}),
    "llama-2x4": (llama, {"layers": 2, "ranks": 4, **_LLAMA, "batch": 2}),
    "llama-1x8": (llama, {"layers": 1, "ranks": 8, **_LLAMA, "batch": 3}),
    "qwen2-2x4-shared": (qwen2, {"layers": 2, "ranks": 4, **_QWEN, "kv_heads": 2}),
}


def generated(name: str, folder: Path) -> Path:
    """Writes a generated pair."""
    family, sizes = GENERATED[name]
    case = folder / name
    if not case.is_dir():
        family.case(family.Sizes(**sizes)).write(case)
    return case
