"""What the interpreter makes of collectives that are waited for, of messages, and of integers: small
programs whose values are known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from .interpreter import Run, run_ranks
from .program import Json
from .promotion import Array, Invalid

GROUPS = [{"ranks": [0, 1], "names": {"0": "g", "1": "g"}}]
FUNCTIONAL = "_c10d_functional."
X = {0: np.arange(4.0), 1: np.arange(4.0) + 10}
TOTAL = X[0] + X[1]


def ref(name: str) -> Json:
    """A reference to a node."""
    return {"node": name}


def graph(*rows: tuple[Any, ...], dtype: str = "float32") -> Json:
    """``x`` and what is computed from it: (name, target, arguments)."""
    first = {
        "name": "x",
        "op": "placeholder",
        "target": "x",
        "args": [],
        "kwargs": {},
        "dtype": dtype,
    }
    nodes: list[Json] = [first]
    for name, target, *args in rows:
        full = FUNCTIONAL + target if not target.startswith("aten.") else target
        nodes.append(
            {"name": name, "op": "call_function", "target": f"{full}", "args": args, "kwargs": {}}
        )
    return {"nodes": nodes}


def run(one: Json, other: Json | None = None, given: Any = None) -> dict[int, Run]:
    """Two ranks."""
    given = given or X
    return run_ranks({0: one, 1: other or one}, GROUPS, {r: {"x": given[r]} for r in (0, 1)})


REDUCE = ("h", "all_reduce.default", ref("x"), "sum", "g")
WAIT = ("w", "wait_tensor.default", ref("h"))
READ = ("y", "aten.clone.default", ref("h"))


def equal(a: Array, b: Array) -> bool:
    """The same numbers?"""
    return bool(np.array_equal(a, b))


def test_a_result_is_there_when_it_is_waited_for() -> None:
    waited, early = run(graph(REDUCE, WAIT, READ)), run(graph(REDUCE, READ, WAIT))
    assert equal(waited[0].values["y"], TOTAL) and equal(waited[1].values["y"], TOTAL)
    assert not np.isclose(early[0].values["y"], TOTAL).any()
    assert equal(early[0].values["w"], TOTAL)


def test_who_never_waits_has_it_at_once() -> None:
    assert equal(run(graph(REDUCE, READ))[0].values["y"], TOTAL)


def test_waiting_twice_changes_nothing() -> None:
    again = ("v", "wait_tensor.default", ref("w"))
    assert equal(run(graph(REDUCE, WAIT, again, READ))[0].values["y"], TOTAL)


@pytest.mark.parametrize("waits_for", ["h", "x"])
def test_in_place_the_operand_holds_the_result(waits_for: str) -> None:
    reduce = ("h", "all_reduce_.default", ref("x"), "sum", "g")
    wait = ("w", "wait_tensor.default", ref(waits_for))
    found = run(graph(("e", "aten.clone.default", ref("x")), reduce, wait))
    assert equal(found[0].values["x"], TOTAL) and equal(found[0].values["e"], X[0])


def test_what_is_written_in_flight_is_lost() -> None:
    gather = ("h", "all_gather_into_tensor.default", ref("x"), 2, "g")
    write = ("z", "aten.zero_.default", ref("x"))
    whole = np.concatenate([X[0], X[1]])
    assert equal(run(graph(gather, WAIT, write))[0].values["w"], whole)
    assert not np.isclose(run(graph(gather, write, WAIT))[0].values["w"], whole).any()


# ---- messages ------------------------------------------------------------------------------------------
BUFFER = ("b", "aten.empty_like.default", ref("x"))


def test_a_message_fills_the_buffer() -> None:
    sends = graph(
        ("s", "isend.default", ref("x"), 1, 3, "g"), ("z", "aten.zero_.default", ref("x"))
    )
    receives = graph(BUFFER, ("s", "irecv.default", ref("b"), 0, 3, "g"))
    assert equal(run(sends, receives)[1].values["b"], X[0])


@pytest.mark.parametrize(("peer", "tag"), [(0, 4), (1, 3)])
def test_a_message_for_nobody_hangs(peer: int, tag: int) -> None:
    sends = graph(("s", "isend.default", ref("x"), 1, 3, "g"))
    receives = graph(BUFFER, ("s", "irecv.default", ref("b"), peer, tag, "g"))
    with pytest.raises(Invalid):
        run(sends, receives)


def test_what_is_never_received_is_no_program() -> None:
    with pytest.raises(Invalid):
        run(graph(("s", "isend.default", ref("x"), 1, 3, "g")), graph(BUFFER))


def test_a_batch_exchanges() -> None:
    args = [["isend", "irecv"], None, [0, 0], [ref("x"), ref("b")], "g"]
    graphs = [
        graph(BUFFER, ("s", "batch_p2p_ops.default", args[0], [1 - r, 1 - r], *args[2:]))
        for r in (0, 1)
    ]
    found = run(*graphs)
    assert equal(found[0].values["b"], X[1]) and equal(found[1].values["b"], X[0])


# ---- integers ------------------------------------------------------------------------------------------
def test_integers_are_added_up_in_their_width() -> None:
    given = {r: np.full(4, 200, np.uint8) for r in (0, 1)}
    found = run(graph(REDUCE, dtype="uint8"), given=given)[0].values["h"]
    assert found.dtype == np.uint8 and (found == 144).all()


def test_masks_are_joined() -> None:
    given = {0: np.array([True, False]), 1: np.array([True, False])}
    found = run(graph(REDUCE, dtype="bool"), given=given)[0].values["h"]
    assert found.dtype == bool and found.tolist() == [True, False]
