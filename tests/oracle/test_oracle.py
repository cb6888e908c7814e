"""The oracle on a few combinations of every kind of operator, and that it can fail at all."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable

import pytest

pytest.importorskip("torch", reason="the oracle compares with torch")
pytest.importorskip("expecttest", reason="torch's own operator tests need it")

from gg_datalog.extract.context import HANDLERS
from gg_datalog.extract.table import Table, load_table

from ..numeric import lowered
from . import opinion, samples
from .report import page, table, wrong
from .running import Counts, _turns, apart, run, turns

# OpInfos, and of each kind of description an operator that is among what they call.
OPINFOS = ("view", "select", "split", "cat", "flip", "add", "sub", "mul", "mm", "sum", "amax", "prod", "cumsum",
           "index_select", "masked_fill", "maximum", "exp", "bitwise_not", "softmax", "_foreach_add")  # fmt: skip
SOME = (
    "aten.view.default", "aten.select.int", "aten.split.Tensor", "aten.cat.default", "aten.flip.default",
    "aten.add.Tensor", "aten.sub.Tensor", "aten.mul.Tensor", "aten.mm.default", "aten.sum.dim_IntList",
    "aten.amax.default", "aten.prod.dim_int", "aten.cumsum.default", "aten.index_select.default",
    "aten.masked_fill.Scalar", "aten.maximum.default", "aten.exp.default", "aten.bitwise_not.default",
    "aten._softmax.default", "aten._foreach_add.Scalar", "aten.to.dtype", "aten._fused_rms_norm.default",
)  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def _recorded() -> None:
    samples.restrict(OPINFOS)


def test_relations_hold_in_numbers() -> None:
    counts = run(turns(SOME, 10 * len(SOME)), seed=5)
    assert wrong(counts) == []
    assert [name for name, found in counts.items() if not found.tried] == []
    assert sum(found.relations for found in counts.values()) > 1000


def test_rules_of_torch_are_derived() -> None:
    found = opinion.ask(["aten.mm.default", "aten.mul.Tensor", "aten.flip.default"], seed=0)
    covered, derived = (sum(getattr(o, n) for o in found.values()) for n in ("covered", "derived"))
    assert covered >= 30
    assert derived >= 0.9 * covered
    assert f"{100 * derived / covered:.1f} % of all" in page({}, found, 0, 1.0)


def test_a_turn_is_the_same_for_a_seed() -> None:
    first, again = (_turns([("aten.add.Tensor", 3)], seed=2) for _ in range(2))
    assert first == again


# ---- the oracle can fail
def _caught(target: str) -> list[str]:
    """What is wrong in the first turns of an operator."""
    return wrong(_turns([(target, number) for number in range(3)], seed=1))


def _with(change: Callable[[Table], None]) -> Callable[[], Table]:
    made = load_table()
    change(made)
    return lambda: made


@pytest.mark.parametrize(
    ("target", "change"),
    [
        ("aten.exp.default", lambda t: t.elementwise.update({"aten.exp": ("linear",)})),
        ("aten.bitwise_not.default", lambda t: t.identity.update({"aten.bitwise_not": 0})),
    ],
)
def test_a_wrong_row_is_caught(
    target: str, change: Callable[[Table], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert _caught(target) == []
    monkeypatch.setattr(lowered, "builtin_table", _with(change))
    (first, *_) = _caught(target)
    assert f"--op {target} --seed 1 --turn" in first
    assert "differs" in first


def test_a_wrong_lowering_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _caught("aten.sub.Tensor") == []
    monkeypatch.setitem(HANDLERS, "aten.sub", HANDLERS["aten.add"])
    assert _caught("aten.sub.Tensor")


def test_a_lowering_that_crashes_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(ctx: object) -> None:
        raise RecursionError("no end")

    monkeypatch.setitem(HANDLERS, "aten.mul", crash)
    assert "crash" in _caught("aten.mul.Tensor")[0]


def test_a_process_that_ends_costs_its_turn_only() -> None:
    assert apart(lambda: os.kill(os.getpid(), signal.SIGKILL)) is None
    assert apart(lambda: time.strftime("%Y")) is not None


def test_the_report_names_what_is_wrong() -> None:
    counts = {"aten.add.Tensor": Counts(tried=3, relations=7, wrong=["aten.add.Tensor: differs"])}
    text = table(counts, {})
    assert "WRONG aten.add.Tensor: differs" in text
    assert "| `aten.add.Tensor` | 3 | 7 | 1 |" in page(counts, {}, 0, 1.0)
