"""The same programs executed by torch itself, in float64, as another machine of the interpreter."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.distributed._functional_collectives

from .execution import Values, garbage
from .kernels_np import NotExecuted
from .program import Json
from .promotion import Array, Invalid, torch_name

DOUBLE = torch.float64


def dtype_of(name: str) -> torch.dtype:
    """A dtype of the graph; floats of every width are float64."""
    found: torch.dtype = getattr(torch, name.removeprefix("torch."))
    return DOUBLE if found.is_floating_point else found


def resolve(argument: Any, values: Values) -> Any:
    """An argument as torch takes it."""
    if isinstance(argument, list):
        return [resolve(a, values) for a in argument]
    if not isinstance(argument, dict):
        return argument
    if "node" in argument:
        return values[argument["node"]]
    if "float" in argument:
        return float(argument["float"])
    ((kind, word),) = argument.items()
    if kind == "memory_format":
        return getattr(torch, word.removeprefix("torch."))
    return dtype_of(word) if kind == "dtype" else word


class Torch:
    """Runs nodes on torch tensors."""

    def tensor(self, value: Array, dtype: str) -> Any:
        """An array as a tensor of its own."""
        return torch.from_numpy(np.array(value))

    def number(self, value: float, shape: Any, dtype: str) -> Any:
        """A constant."""
        return torch.full(shape, value, dtype=dtype_of(dtype or "float32"))

    def array(self, value: Any) -> Array:
        """The value of a tensor now: the same memory, seen by numpy."""
        return value.detach().numpy()

    def fill(self, tensor: Any, value: Array) -> None:
        """Writes into a tensor."""
        tensor.copy_(torch.from_numpy(np.array(value)))

    def call(self, node: Json, values: Values) -> tuple[Any, list[Any]]:
        """A node that is an operator, and the memory that it has written by its schema."""
        args = resolve(node["args"], values)
        kwargs = {k: resolve(v, values) for k, v in node["kwargs"].items()}
        if "getitem" in node["target"]:
            return args[0][args[1]], []
        space, name, overload = node["target"].split(".")
        op = getattr(getattr(getattr(torch.ops, space), name), overload)
        try:
            with torch.no_grad():
                value = op(*args, **kwargs)
        except NotImplementedError as error:
            raise NotExecuted(f"{node['target']}: {error}") from error
        except (RuntimeError, IndexError, ZeroDivisionError) as error:
            raise Invalid(f"{node['name']}: {error}") from error
        self._expect(node, value)
        if name.startswith(("empty", "new_empty")):
            self.fill(
                value, garbage(tuple(value.shape), torch_name(self.array(value)), node["name"])
            )
        if name == "native_batch_norm" and args[5]:  # its schema does not say so
            return value, args[3:5]
        return value, self._written(op, args, kwargs)

    def _expect(self, node: Json, value: Any) -> None:
        """The dtype that the graph says."""
        if node.get("shape") is not None and isinstance(value, torch.Tensor):
            found = torch_name(self.array(value))
            assert found == node["dtype"], f"{node['target']} gives {found}, not {node['dtype']}"

    def _written(self, op: Any, args: list[Any], kwargs: dict[str, Any]) -> list[Any]:
        given = dict(zip((a.name for a in op._schema.arguments), args, strict=False)) | kwargs
        found = [
            given[a.name]
            for a in op._schema.arguments
            if a.alias_info is not None and a.alias_info.is_write and a.name in given
        ]
        return [t for one in found for t in (one if isinstance(one, list) else [one])]
