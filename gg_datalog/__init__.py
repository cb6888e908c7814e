"""Checks that a distributed program computes what its sequential original computes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gg_datalog.foundation.version import __version__

if TYPE_CHECKING:
    from gg_datalog.commands.assertion import NotRefined, assert_refines
    from gg_datalog.commands.verify import Result, verify
    from gg_datalog.tracing import Pair, capture

__all__ = ["NotRefined", "Pair", "Result", "__version__", "assert_refines", "capture", "verify"]


def __getattr__(name: str) -> Any:
    """The Python interface, loaded when it is asked for: capture needs torch, nothing else does."""
    if name in ("capture", "Pair"):
        from gg_datalog.commands.capture import tracing

        return getattr(tracing(), name)
    if name in ("verify", "Result"):
        from gg_datalog.commands import verify as verifying

        return getattr(verifying, name)
    if name in ("assert_refines", "NotRefined"):
        from gg_datalog.commands import assertion

        return getattr(assertion, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
