"""Nothing is executed to confirm a verdict, unless a test asks for it: it takes torch seconds to
be there."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

os.environ.setdefault("GG_DATALOG_CONFIRM", "0")
# Translated rules are kept for all processes and turns of the tests, but not among the user's own.
CACHE = Path(tempfile.gettempdir(), f"gg-datalog-tests-{os.geteuid()}")
os.environ.setdefault("GG_DATALOG_CACHE", str(CACHE))
