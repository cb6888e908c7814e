"""The type of values in a replay."""

from typing import Any, TypeAlias

Tensor: TypeAlias = Any  # torch.Tensor; torch is an optional extra that the type check does not see
