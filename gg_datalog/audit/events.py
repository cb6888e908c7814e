"""What happens in an audit, for machines: ``events.jsonl``, one JSON object a line."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any


class Events:
    """A file that grows: every line is written in one go, and none is changed."""

    def __init__(self, path: Path, run: str) -> None:
        self.run = run
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        self._handle = os.open(path, flags, 0o666)

    def say(self, event: str, **told: Any) -> None:
        """Adds a line."""
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        line = json.dumps({"time": now, "run": self.run, "event": event, **told})
        os.write(self._handle, line.encode() + b"\n")

    def close(self) -> None:
        """Nothing more is said."""
        os.close(self._handle)
