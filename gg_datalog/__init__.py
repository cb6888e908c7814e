"""Checks that a distributed program computes what its sequential original computes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gg_datalog.asserting import NotRefined, assert_refines
    from gg_datalog.tracing import Pair, capture
    from gg_datalog.verifying import Result, verify

__all__ = ["NotRefined", "Pair", "Result", "__version__", "assert_refines", "capture", "verify"]
__version__ = "0.3.0"


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
