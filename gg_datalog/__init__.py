"""Checks that a distributed program computes what its sequential original computes."""

from pathlib import Path

__version__ = "0.2.0"

# In a checkout the sub-packages lie beside this folder; installed, they lie inside it.
_here = Path(__file__).resolve().parent
if not (_here / "engine").is_dir():
    __path__.append(str(_here.parent))
del _here
