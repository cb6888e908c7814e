"""Brackets, strings and commas of HLO text."""

from __future__ import annotations

import re

MARKS = re.compile(r'"(?:[^"\\]|\\.)*"|[()\[\]{},]')
OPEN, CLOSE = "([{", ")]}"
COMMENT = re.compile(r'("(?:[^"\\]|\\.)*")|/\*.*?\*/', re.DOTALL)
STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')
ESCAPE = re.compile(r"\\(?:([0-7]{3})|x([0-9a-fA-F]{2})|(.))", re.DOTALL)
NAMED = {"n": "\n", "t": "\t", "r": "\r"}


class Unbalanced(ValueError):
    """A bracket without its partner."""


def without_comments(text: str) -> str:
    """The text without ``/*index=5*/`` outside of strings."""
    if "/*" not in text:
        return text
    return COMMENT.sub(lambda found: found[1] or "", text)


def depth(text: str) -> int:
    """How many brackets are still open at the end."""
    marks = [m[0] for m in MARKS.finditer(text)]
    return sum((m in OPEN) - (m in CLOSE) for m in marks if m != ",")


def closing(text: str, at: int) -> int:
    """Where the bracket at ``at`` is closed."""
    level = 0
    for found in MARKS.finditer(text, at):
        mark = found[0]
        if mark in OPEN:
            level += 1
        elif mark in CLOSE:
            level -= 1
            if level == 0:
                return found.start()
    raise Unbalanced(f"no partner for `{text[at : at + 1]}`")


def split(text: str) -> list[str]:
    """The parts between commas that no bracket holds; of an empty text none."""
    if not text.strip():
        return []
    parts, start, level = [], 0, 0
    for found in MARKS.finditer(text):
        mark = found[0]
        if mark in OPEN:
            level += 1
        elif mark in CLOSE:
            level -= 1
        elif mark == "," and level == 0:
            parts.append(text[start : found.start()])
            start = found.end()
    if level:
        raise Unbalanced("brackets do not match")
    return [part.strip() for part in (*parts, text[start:])]


def unquoted(text: str) -> str:
    """The content of a string; other text as it is."""
    found = STRING.fullmatch(text.strip()) if '"' in text else None
    if found is None:
        return text
    return ESCAPE.sub(_character, found[1]) if "\\" in found[1] else found[1]


def _character(found: re.Match[str]) -> str:
    if found[1]:
        return chr(int(found[1], 8))
    if found[2]:
        return chr(int(found[2], 16))
    return NAMED.get(found[3], found[3])


def numbers(text: str) -> list[int]:
    """The integers of ``{0,1}``."""
    return [int(n) for n in re.findall(r"-?\d+", text)]


def inside(text: str) -> str:
    """What one pair of brackets holds."""
    text = text.strip()
    return text[1:-1] if text and text[0] in OPEN and text[-1] in CLOSE else text
