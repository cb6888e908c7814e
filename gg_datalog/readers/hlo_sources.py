"""Where instructions come from: ``metadata`` and the tables of stack frames."""

from __future__ import annotations

import re
from collections.abc import Mapping

from gg_datalog.readers.hlo_scan import unquoted
from gg_datalog.readers.hlo_text import Instruction, Module

PAIR = re.compile(r'(\w+)=("(?:[^"\\]|\\.)*"|[^\s,{}]+)')
UNREADABLE = re.compile(r"[\x00-\x1f\x7f]+")
LIBRARIES = ("/site-packages/", "/dist-packages/")


def pairs(text: str) -> dict[str, str]:
    """``{op_name="a" source_line=7}`` as a table."""
    return {key: unquoted(value) for key, value in PAIR.findall(text)}


class Sources:
    """Source lines and scopes of a module's instructions."""

    def __init__(self, module: Module) -> None:
        self.files = {n: unquoted(row) for n, row in module.tables.get("FileNames", {}).items()}
        self.functions = {
            n: unquoted(row) for n, row in module.tables.get("FunctionNames", {}).items()
        }
        self.locations = _numbers(module.tables.get("FileLocations", {}))
        self.frames = _numbers(module.tables.get("StackFrames", {}))
        # Some versions print a parent's number plus one, so that 1 is no parent.
        self.shift = int(any(f.get("parent_frame_id") == n for n, f in self.frames.items()))

    def of(self, instruction: Instruction) -> tuple[str, str]:
        """(source, module) of an instruction; empty where nothing is known."""
        given = pairs(instruction.attributes.get("metadata", ""))
        source = ""
        if "source_file" in given:
            source = f"{given['source_file']}:{given.get('source_line', 0)}"
        elif given.get("stack_frame_id", "").isdecimal():
            source = self._frame(int(given["stack_frame_id"]))
        scope = given.get("op_name", "").rpartition("/")[0]
        return UNREADABLE.sub(" ", source), UNREADABLE.sub(" ", scope)

    def name(self, instruction: Instruction) -> str:
        """The name that the user's program gave, ``op_name``."""
        return pairs(instruction.attributes.get("metadata", "")).get("op_name", "")

    def _frame(self, number: int) -> str:
        """The innermost frame outside of libraries."""
        innermost = ""
        seen: set[int] = set()
        while number and number not in seen and number in self.frames:
            seen.add(number)
            frame = self.frames[number]
            place = self.locations.get(frame.get("file_location_id", 0), {})
            path = self.files.get(place.get("file_name_id", 0), "")
            if path:
                text = f"{path}:{place.get('line', 0)}"
                function = self.functions.get(place.get("function_name_id", 0), "")
                text = f"{text} in {function}" if function else text
                if not any(library in path for library in LIBRARIES):
                    return text
                innermost = innermost or text
            number = frame.get("parent_frame_id", 0) - self.shift
        return innermost


def _numbers(rows: Mapping[int, str]) -> dict[int, dict[str, int]]:
    """Rows such as ``{file_name_id=1 line=7}``."""
    found = {}
    for number, row in rows.items():
        given = pairs(row)
        found[number] = {k: int(v) for k, v in given.items() if v.isdecimal()}
    return found
