"""Texts that JAX makes here: pairs of the example on meshes of one and two dimensions, and
functions whose translation is executed and compared with JAX's own result."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

jax = pytest.importorskip("jax")
pytest.importorskip("torch")

import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax import lax  # noqa: E402

HERE = Path(__file__).resolve().parent

from gg_datalog.extract.table import load_table  # noqa: E402
from gg_datalog.readers.hlo import program  # noqa: E402
from gg_datalog.readers.hlo_devices import Devices  # noqa: E402
from gg_datalog.readers.hlo_text import read_module  # noqa: E402
from gg_datalog.replay.execute import run_ranks  # noqa: E402

from .executed import inputs, no_masks, returned  # noqa: E402
from .reading import judged  # noqa: E402

DUMP = HERE.parents[1] / "examples" / "jax_block" / "dump.py"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("--mesh 1x2", "refines"),
        ("--mesh 2x2", "refines"),
        ("--mesh 2x4", "refines"),
        ("--mesh 1x4 --by-hand", "refines"),
        ("--mesh 2x4 --by-hand --grad", "refines"),
        ("--mesh 1x2 --by-hand --forget attention", "does-not-refine"),
        ("--mesh 1x2 --by-hand --grad --forget mlp", "does-not-refine"),
    ],
)
def test_the_example(options: str, expected: str, tmp_path: Path) -> None:
    subprocess.run([sys.executable, str(DUMP), str(tmp_path), *options.split()], check=True)
    report = judged([tmp_path / "seq.hlo", tmp_path / "part.hlo"], tmp_path)
    assert report["verdict"] == expected


def _x(*dims: int) -> Any:
    return jnp.asarray(np.random.RandomState(0).randn(*dims).astype(np.float32))


def _n(top: int, *dims: int) -> Any:
    return jnp.asarray(np.random.RandomState(1).randint(0, top, dims).astype(np.int32))


FUNCTIONS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "elements": (
        lambda a, b: jnp.exp(a) + jnp.tanh(b) * jax.nn.sigmoid(a) - jnp.clip(a, -0.5, 0.5) / 3,
        (_x(4, 6), _x(4, 6)),
    ),
    "gelu, silu, log": (
        lambda a: jax.nn.gelu(a) + jax.nn.silu(a) + jnp.log1p(a * a) + jnp.expm1(a),
        (_x(4, 6),),
    ),
    "comparisons": (lambda a, b: ((a < b) & (a > 0)) | ~(b >= 0.5), (_x(4, 6), _x(4, 6))),
    "softmax": (lambda a: jax.nn.log_softmax(a) + jax.nn.softmax(a, 0), (_x(4, 6),)),
    "strides": (lambda a: a[1::2, ::3] + a[::-1][:2, 1::3][:, :2] * 0, (_x(4, 6),)),
    "padding": (lambda a: lax.pad(a, 3.0, ((1, 0, 2), (-1, 2, 1))), (_x(4, 6),)),
    "products": (
        lambda a, b: jnp.einsum("bij,bjk->bik", a, b) + jnp.einsum("bij,bjk->bik", a * 2, b),
        (_x(2, 4, 6), _x(2, 6, 4)),
    ),
    "rows": (lambda t, i: t[i] + jnp.take(t, i + 90, axis=0, mode="clip"), (_x(6, 5), _n(6, 4, 3))),
    "columns": (lambda t, i: jnp.take(t, i, axis=1), (_x(6, 5), _n(5, 4))),
    "one of each row": (lambda t, i: jnp.take_along_axis(t, i, 1), (_x(6, 5), _n(5, 6, 2))),
    "dynamic slices": (
        lambda t, i: lax.dynamic_slice(t, (i[0], i[1]), (3, 2)),
        (_x(6, 5), _n(9, 2)),
    ),
    "updates": (lambda t, u: lax.dynamic_update_slice(t, u, (5, -3)), (_x(6, 6), _x(2, 3))),
    "added rows": (lambda t, i, u: t.at[i].add(u), (_x(6, 5), _n(6, 4), _x(4, 5))),
    "loops": (lambda a: lax.fori_loop(0, 3, lambda i, c: c * 2 + a[i], a[0]), (_x(4, 6),)),
    "scans": (lambda a: lax.scan(lambda c, x: (c + x, c * x), a[0], a)[1], (_x(4, 6),)),
    "branches": (
        lambda a, n: lax.cond(n[0] > 1, lambda v: v * 2, lambda v: v - 1, a),
        (_x(4, 6), _n(4, 2)),
    ),
    "triangles": (lambda a: jnp.tril(a[:, :4]) + jnp.eye(4) * a[0, 0], (_x(4, 6),)),
    "casts": (lambda a: (a * 3).astype(int) + (a > 0).astype(int).sum(), (_x(4, 6),)),
    "means": (lambda a: a.var(1) + a.mean((1,)) + a.max(1) - a.min(1), (_x(4, 6),)),
    "gradients": (
        jax.grad(lambda v: (jax.nn.softmax(v) ** 2).sum() + jnp.max(v) + v[::2].sum()),
        (_x(4, 6),),
    ),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function(name: str, tmp_path: Path) -> None:
    function, given = FUNCTIONS[name]
    lowered = jax.jit(function, keep_unused=True).lower(*given)
    text = lowered.compiler_ir("hlo").as_hlo_text(print_large_constants=True)
    (tmp_path / "f.hlo").write_text(text)
    made = program(read_module(tmp_path / "f.hlo"), Devices(1, 1), 0)
    order = [made.parameters[i][0].node for i in sorted(made.parameters)]
    graph: dict[str, Any] = {"nodes": made.nodes, "rank": 0, "order": order}
    feeds = {0: inputs(graph, [np.array(v) for v in given])}
    (found,) = returned(graph, run_ranks({0: graph}, [], load_table(), feeds, no_masks)[0])
    expected = np.asarray(function(*given))
    assert tuple(found.shape) == expected.shape
    assert np.allclose(np.asarray(found, dtype=np.float64), expected, atol=1e-4)
