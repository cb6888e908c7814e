"""HLO instructions as a capture of them names and writes them."""

from __future__ import annotations

from graphs import Graph
from shapes import Tensor


class Instructions:
    """Writes instructions into a graph."""

    def __init__(self, graph: Graph) -> None:
        self.g = graph

    def op(self, base: str, target: str, *args: object, dtype: str | None = None) -> Tensor:
        """A call named after its HLO instruction."""
        result = self.g.emit(target, list(args), {}, base, dtype)
        assert isinstance(result, Tensor)
        return result

    def custom(self, x: Tensor) -> Tensor:
        """A marker on a parameter, written as a copy."""
        return self.op("custom-call", "aten.clone.default", x)

    def convert(self, x: Tensor, dtype: str) -> Tensor:
        """A cast, written as a copy."""
        return self.op("convert", "aten.clone.default", x, dtype=dtype)

    def reshape(self, x: Tensor, *shape: int) -> Tensor:
        """A reshape."""
        return self.op("reshape", "aten.view.default", x, list(shape))

    def transpose(self, x: Tensor, *order: int) -> Tensor:
        """A permutation of the dimensions."""
        return self.op("transpose", "aten.permute.default", x, list(order))

    def broadcast(self, x: Tensor | float, dims: list[int], *shape: int) -> Tensor:
        """Operand dimensions to `dims` of the shape, repeated along the others."""
        return self.op("broadcast", "hlo.broadcast", x, dims, list(shape))

    def dot(self, x: Tensor, y: Tensor, inner: tuple[int, int]) -> Tensor:
        """A product that contracts one dimension of each."""
        return self.op("dot", "hlo.dot", x, y, [inner[0]], [inner[1]], [], [])

    def binary(self, base: str, x: Tensor, y: Tensor) -> Tensor:
        """Elementwise arithmetic."""
        short = {"multiply": "mul", "subtract": "sub", "add": "add", "divide": "div"}[base]
        return self.op(base, f"aten.{short}.Tensor", x, y)

    def cut(self, x: Tensor, dim: int, lo: int, hi: int) -> Tensor:
        """A slice."""
        return self.op("slice", "aten.slice.Tensor", x, dim, lo, hi, 1)
