"""Checks that a distributed program computes what its sequential original computes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gg_datalog.asserting import NotRefined, assert_refines
    from gg_datalog.tracing import Pair, capture
    from gg_datalog.verifying import Result, verify

__all__ = ["NotRefined", "Pair", "Result", "__version__", "assert_refines", "capture", "verify"]
__version__ = "0.3.0"

# In a checkout the sub-packages lie beside this folder; installed, they lie inside it.
_here = Path(__file__).resolve().parent
if not (_here / "engine").is_dir():
    __path__.append(str(_here.parent))
del _here


def __getattr__(name: str) -> Any:
    """The Python interface, loaded when it is asked for: capture needs torch, nothing else does."""
    if name in ("capture", "Pair"):
        from gg_datalog.capturing import tracing

        return getattr(tracing(), name)
    if name in ("verify", "Result"):
        from gg_datalog import verifying

        return getattr(verifying, name)
    if name in ("assert_refines", "NotRefined"):
        from gg_datalog import asserting

        return getattr(asserting, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
