"""Writes seq.hlo and part.hlo: the block on one device, and split over a mesh of host devices.

python dump.py OUT --mesh 2x4            jit with shardings, loss and gradients
python dump.py OUT --mesh 1x2 --by-hand  shard_map, the block forward (--grad: and backward)
python dump.py OUT --mesh 1x2 --by-hand --forget mlp   ... with one psum left out
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
FLAGS = (
    "--xla_force_host_platform_device_count={count} --xla_dump_to={folder} "
    "--xla_dump_hlo_as_text --xla_dump_hlo_pass_re=spmd-partitioning"
)
# What XLA compiled before its own passes, and what the partitioner made of it.
SEQ, PART = "*jit_{name}.before_optimizations.txt", "*jit_{name}*after_spmd-partitioning*.txt"


def main() -> None:
    """Dumps both programs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--mesh", default="1x2", help="data x tensor parallel")
    parser.add_argument("--by-hand", action="store_true")
    parser.add_argument("--grad", action="store_true")
    parser.add_argument("--forget", default="", choices=["", "attention", "mlp"])
    parser.add_argument("--compile", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.compile:
        compile_both(given)
    else:
        dump(given)


def dump(given: argparse.Namespace) -> None:
    """Compiles in a process whose flags XLA reads, and takes the two texts from its dumps."""
    count = 1
    for size in given.mesh.split("x"):
        count *= int(size)
    given.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        flags = FLAGS.format(count=count, folder=folder)
        environment = os.environ | {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
        again = [sys.executable, str(HERE / "dump.py"), *sys.argv[1:], "--compile"]
        subprocess.run(again, env=environment, check=True)
        for name, pattern in (("seq", SEQ), ("part", PART)):
            (found,) = Path(folder).glob(pattern.format(name=name))
            text = found.read_text().replace(str(HERE), "examples/jax_block")
            (given.out / f"{name}.hlo").write_text(text)


def compile_both(given: argparse.Namespace) -> None:
    """Compiles both programs; nothing is run."""
    import jax
    import jax.numpy as jnp
    import model
    import numpy as np
    from jax.sharding import Mesh, NamedSharding

    sizes = [int(n) for n in given.mesh.split("x")]
    mesh = Mesh(np.array(jax.devices()).reshape(sizes), ("dp", "tp"))
    rows = NamedSharding(mesh, model.P("dp"))

    def of(name: str) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(model.PARAMETERS[name][0], jnp.float32)

    def over(name: str) -> NamedSharding:
        return NamedSharding(mesh, model.PARAMETERS[name][1])

    names = list(model.PARAMETERS)
    if given.by_hand:
        names = [n for n in names if n not in ("table", "head")]
        hidden = (model.BATCH, model.LENGTH, model.WIDTH)
        inputs = [jax.ShapeDtypeStruct(hidden, jnp.float32)]
        one, many = model.block, model.split_by_hand(mesh, given.forget)
        if given.grad:
            one, many = _gradients(one), _gradients(many)
    else:
        inputs = [jax.ShapeDtypeStruct((model.BATCH, model.LENGTH), jnp.int32)] * 2
        one = many = jax.value_and_grad(model.loss)
    args = ({name: of(name) for name in names}, *inputs)
    places = ({name: over(name) for name in names}, *([rows] * len(inputs)))
    _compile(one, "seq", args)
    _compile(many, "part", args, in_shardings=places)


def _gradients(of: Any) -> Any:
    """Gradients of a sum of squares of what a function gives."""
    import jax

    return jax.grad(lambda p, x: (of(p, x) ** 2).sum(), argnums=(0, 1))


def _compile(function: Any, name: str, args: Any, **how: Any) -> None:
    import jax

    def named(*values: Any) -> Any:
        return function(*values)

    named.__name__ = name
    jax.jit(named, **how).lower(*args).compile()


if __name__ == "__main__":
    main()
