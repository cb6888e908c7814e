"""Capture of sequential and distributed programs with torch, on one CPU and without a cluster."""

from gg_datalog.tracing.api import capture
from gg_datalog.tracing.pair import Pair

__all__ = ["Pair", "capture"]
