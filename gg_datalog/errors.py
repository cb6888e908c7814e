"""Errors that plug-ins may raise: what a reader refuses, with what, where and what to do."""

from gg_datalog.foundation.errors import GGError, InputError

__all__ = ["GGError", "InputError"]
