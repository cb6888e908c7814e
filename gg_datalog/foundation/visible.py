"""Texts that can be shown: names come from graphs and files, which may hold anything."""

from __future__ import annotations

import re

SPACES = re.compile(r"[\t\n\r\x0b\x0c\x85\u2028\u2029]+")
# Controls move a terminal's cursor, and XML has no way to write them; marks of direction show a
# text in another order than it has; what has no width makes two names look alike; halves of a
# surrogate pair are no text.
UNSEEN = re.compile(
    r"[\x00-\x1f\x7f-\x9f\xad\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    r"\u2028-\u202e\u2060-\u206f\u3164\ud800-\udfff\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff"
    r"\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)


def visible(text: str) -> str:
    """A text in one line, what cannot be seen of it written as an escape such as ``\\x1b``."""
    return UNSEEN.sub(_escape, SPACES.sub(" ", text))


def visible_lines(text: str) -> str:
    """A text of several lines, each of them made :func:`visible`."""
    return "\n".join(map(visible, text.split("\n")))


def visible_json(text: str) -> str:
    """A JSON document that says the same, what cannot be seen of its strings written as JSON's
    own escapes: a reader gets names as they are, a terminal does not."""
    return UNSEEN.sub(_json_escape, text)


def _escape(found: re.Match[str]) -> str:
    number = ord(found[0])
    if number < 0x100:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


def _json_escape(found: re.Match[str]) -> str:
    char = found[0]
    if char in "\n\t":  # between strings: inside of them JSON has escaped these
        return char
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
