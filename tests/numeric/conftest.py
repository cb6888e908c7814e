"""Makes the harness beside the tests, and the generators of ``bench``, importable."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
for folder in (HERE, HERE.parents[1] / "bench"):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
