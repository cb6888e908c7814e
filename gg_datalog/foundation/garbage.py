"""How often a process of ours looks for garbage."""

from __future__ import annotations

import gc

SELDOM = (200_000, 20, 50)
"""After how many new objects, and how many times of the younger generations (Python: 700, 10, 10).
What is read and derived stays to the end, so that most of what is looked at is none."""


def collected_seldom() -> None:
    """From now on in this process. What there is already is not looked at again."""
    gc.freeze()
    gc.set_threshold(*SELDOM)
