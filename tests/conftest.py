"""Nothing is executed to confirm a verdict, unless a test asks for it: it takes torch seconds to
be there."""

from __future__ import annotations

import os

os.environ.setdefault("GG_DATALOG_CONFIRM", "0")
