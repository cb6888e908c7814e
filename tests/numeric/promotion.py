"""Element types as torch combines them: which type operands have in common, and how a number gets
into another type. Floats of every width are float64, integers wrap around modulo their width."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
INTEGERS = ("uint8", "int8", "int16", "int32", "int64")
WIDTHS = {"uint8": 8, "int8": 8, "int16": 16, "int32": 32, "int64": 64}
NUMPY: dict[str, Any] = {"bool": np.bool_} | {n: getattr(np, n) for n in INTEGERS}


class Invalid(Exception):
    """The program cannot be executed: an index out of range, sizes that do not fit, a hang."""


def numpy_type(dtype: str) -> Any:
    """The type that stands for a dtype of the graph."""
    return NUMPY.get(dtype, np.float64)


def torch_name(array: Array) -> str:
    """The dtype of the graph that an array stands for."""
    return "float32" if array.dtype.kind == "f" else str(array.dtype)


def cast(x: Array, dtype: str | None) -> Array:
    """To a dtype of the graph: the array itself where it has it already."""
    if dtype is None or x.dtype == (wanted := numpy_type(dtype)):
        return x
    if x.dtype.kind == "f" and dtype in INTEGERS:
        return _cut(x, dtype)
    return x.astype(wanted)


def _cut(x: Array, dtype: str) -> Array:
    """Floats to integers: what does not fit is not defined."""
    limits, whole = np.iinfo(numpy_type(dtype)), np.trunc(x)
    if not np.isfinite(x).all() or (whole < limits.min).any() or (whole > limits.max).any():
        raise Invalid(f"a float that does not fit {dtype}")
    return whole.astype(numpy_type(dtype))


# ---- common types ------------------------------------------------------------------------------------
SCALARS = {bool: np.dtype(np.bool_), int: np.dtype(np.int64), float: np.dtype(np.float64)}


def _category(dtype: Any) -> int:
    return {"b": 0, "i": 1, "u": 1, "f": 2}[dtype.kind]


def common_type(operands: list[Any]) -> Any:
    """The type of a result: tensors count more than tensors without dimensions, and these more
    than numbers, unless what counts less is of another category (bool, integer, float)."""
    levels: tuple[list[Any], ...] = ([], [], [])
    for x in operands:
        level = 2 if not isinstance(x, np.ndarray) else int(x.ndim == 0)
        x = x.item() if isinstance(x, np.generic) else x
        levels[level].append(x.dtype if isinstance(x, np.ndarray) else SCALARS[type(x)])
    found: Any = None
    for level in filter(None, levels):
        here = np.result_type(*level)
        if found is None or _category(here) > _category(found):
            found = here
    return found


def number(value: Any, dtype: Any) -> Array:
    """A number as an element of an integer type, modulo its width."""
    if dtype.kind in "iu" and isinstance(value, (int, np.integer)):
        value = (int(value) + 2**63) % 2**64 - 2**63
        return np.asarray(value, np.int64).astype(dtype)
    return np.asarray(value).astype(dtype)


def together(*operands: Any) -> list[Array]:
    """Operands in the type that they have in common."""
    dtype = common_type(list(operands))
    return [x.astype(dtype) if isinstance(x, np.ndarray) else number(x, dtype) for x in operands]


def floats(*operands: Any) -> list[Array]:
    """Operands as floats."""
    return [np.asarray(x, np.float64) for x in operands]


def fits(value: Any, dtype: Any) -> None:
    """:class:`Invalid` for a number that the type cannot hold, where torch refuses it."""
    if dtype.kind in "iu" and not isinstance(value, np.ndarray) and value == int(value):
        limits = np.iinfo(dtype)
        low = -limits.max if dtype.kind == "u" else limits.min
        if not low <= value <= limits.max:
            raise Invalid(f"{value} does not fit {dtype}")
