"""What instructions compute: the translated program is executed, and compared with numbers that
were worked out by hand or by torch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

import torch

from .executed import run_dist, run_seq
from .reading import documents, program

X = torch.arange(24, dtype=torch.float64).reshape(4, 6)
IDS = torch.tensor([[5], [-2], [1]])
INF = float("inf")
R4 = torch.arange(4.0, dtype=torch.float64)

CASES: dict[str, tuple[str, Any]] = {
    "slice": ("f32[2,3] slice(x), slice={[1:3], [0:6:2]}", X[1:3, 0:6:2]),
    "slice in steps beyond the end": ("f32[2,6] slice(x), slice={[1:4:2], [0:6]}", X[1:4:2]),
    "slice in steps that do not fit": ("f32[4,2] slice(x), slice={[0:4], [1:6:4]}", X[:, 1:6:4]),
    "pad": (
        "f32[5,12] pad(x, seven), padding=1_0x-1_2_1",
        torch.tensor(
            [[7.0] * 12] + [[7, r[1], 7, r[2], 7, r[3], 7, r[4], 7, r[5], 7, 7] for r in X.tolist()]
        ),
    ),
    "transpose": ("f32[6,4] transpose(x), dimensions={1,0}", X.T),
    "reshape": ("f32[3,8] reshape(x)", X.reshape(3, 8)),
    "broadcast": ("f32[6,2,4] broadcast(x), dimensions={2,0}", X.T[:, None].expand(6, 2, 4)),
    "concatenate": ("f32[4,12] concatenate(x, x), dimensions={1}", torch.cat([X, X], 1)),
    "a reduction that begins with a number": (
        "f32[4] reduce(x, seven), dimensions={1}, to_apply=sum",
        X.sum(1) + 7,
    ),
    "a maximum that begins with a number": (
        "f32[4] reduce(x, seven), dimensions={1}, to_apply=largest",
        X.amax(1).clamp(min=7),
    ),
    "a maximum": ("f32[6] reduce(x, low), dimensions={0}, to_apply=largest", X.amax(0)),
    "a minimum of two dimensions": (
        "f32[] reduce(x, high), dimensions={0,1}, to_apply=smallest",
        torch.tensor(0.0),
    ),
    "dot": (
        "f32[6,6] dot(x, x), lhs_contracting_dims={0}, rhs_contracting_dims={0}",
        X.T @ X,
    ),
    "dot with nothing to add up": (
        "f32[4,6,6] dot(x, x), lhs_batch_dims={0}, rhs_batch_dims={0}",
        X[:, :, None] * X[:, None],
    ),
    "gather moves ids inside": (
        "f32[3,6] gather(x, ids), offset_dims={1}, collapsed_slice_dims={0}, "
        "start_index_map={0}, index_vector_dim=1, slice_sizes={1,6}",
        X[[3, 0, 1]],
    ),
    "gather of columns": (
        "f32[4,3] gather(x, ids), offset_dims={0}, collapsed_slice_dims={1}, "
        "start_index_map={1}, index_vector_dim=1, slice_sizes={4,1}",
        X[:, [5, 0, 1]],
    ),
    "dynamic slice at a constant is moved inside": (
        "f32[2,6] dynamic-slice(x, five, minus), dynamic_slice_sizes={2,6}",
        X[2:4],
    ),
    "dynamic slice at data": (
        "f32[2,1] dynamic-slice(x, k, k), dynamic_slice_sizes={2,1}",
        X[2:4, 5:],
    ),
    "dynamic update": (
        "f32[4,6] dynamic-update-slice(x, y, one, five)",
        torch.cat([X[:1], torch.cat([X[1:3, :4], torch.full((2, 2), -1.0)], 1), X[3:]]),
    ),
    "iota along a dimension": ("s32[2,3] iota(), iota_dimension=1", torch.tensor([[0, 1, 2]] * 2)),
    "clamp": ("f32[4,6] clamp(seven, x, nine)", X.clamp(7, 9)),
    "maximum with nothing": ("f32[4,6] maximum(x, lows)", X),
    "power": ("f32[4,6] power(x, twos)", X**2),
    "compare, the number first": ("pred[4,6] compare(twos, x), direction=LT", X > 2),
    "select": ("f32[4,6] select(mask, x, twos)", torch.where(X < 2, X, torch.tensor(2.0))),
    "convert to integers": ("s32[4] convert(r)", torch.tensor([0, 1, 2, 3])),
    "or over a dimension": (
        "pred[4] reduce(mask, no), dimensions={1}, to_apply=either",
        (X < 2).any(1),
    ),
    "and over a dimension": (
        "pred[4] reduce(mask, yes), dimensions={1}, to_apply=both",
        (X < 2).all(1),
    ),
    "sums of everything before": (
        "f32[4,6] reduce-window(x, zero), window={size=1x6 pad=0_0x5_0}, to_apply=sum",
        X.cumsum(1),
    ),
    "scatter adds": (
        "f32[4,6] scatter(x, good, rows), update_window_dims={1}, inserted_window_dims={0}, "
        "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=sum",
        X + torch.tensor([[0.0], [2.0], [0.0], [1.0]]) * torch.ones(4, 6),
    ),
    "a literal in steps": ("s32[3] add(steps, steps)", torch.tensor([4, 10, 16])),
}
BEFORE = """  x = f32[4,6] parameter(0)
  ids = s32[3,1] parameter(1)
  k = s32[] parameter(2)
  r = f32[4] parameter(3)
  seven = f32[] constant(7)
  nine = f32[] constant(9)
  zero = f32[] constant(0)
  low = f32[] constant(-inf)
  high = f32[] constant(inf)
  lows = f32[4,6] broadcast(low), dimensions={}
  two = f32[] constant(2)
  twos = f32[4,6] broadcast(two), dimensions={}
  mask = pred[4,6] compare(x, twos), direction=LT
  no = pred[] constant(false)
  yes = pred[] constant(true)
  one = s32[] constant(1)
  five = s32[] constant(5)
  minus = s32[] constant(-3)
  neg = f32[] constant(-1)
  y = f32[2,2] broadcast(neg), dimensions={}
  good = s32[3,1] parameter(4)
  steps = s32[3] constant({2, 5, 8})
  unit = f32[] constant(1)
  rows = f32[3,6] broadcast(unit), dimensions={}
"""
GIVEN = [X, IDS, torch.tensor(9), R4, torch.tensor([[1], [3], [1]])]
PLAIN = program("  x = f32[4,6] parameter(0)\n  ROOT y = f32[4,6] copy(x)")


@pytest.mark.parametrize("name", CASES)
def test_an_instruction(name: str, tmp_path: Path) -> None:
    text, expected = CASES[name]
    case = documents(tmp_path, program(f"{BEFORE}  ROOT out = {text}"), PLAIN)
    (found,) = run_seq(case, GIVEN)
    expected = torch.as_tensor(expected)
    assert list(found.shape) == list(expected.shape)
    assert torch.allclose(found.to(torch.float64), expected.to(torch.float64))


LOOP = """cond {
  s = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(3)
  ROOT less = pred[] compare(i, n), direction=LT
}

body {
  s = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  v = f32[4] get-tuple-element(s), index=1
  one = s32[] constant(1)
  next = s32[] add(i, one)
  w = f32[4] add(v, v)
  ROOT t = (s32[], f32[4]) tuple(next, w)
}

"""


def module(entry: str, more: str) -> str:
    """A module with more computations."""
    head, _, rest = program(entry).partition("\n\n")
    return f"{head}\n\n{more}{rest}"


def test_a_loop_of_known_length_is_unrolled(tmp_path: Path) -> None:
    entry = """  r = f32[4] parameter(0)
  zero = s32[] constant(0)
  start = (s32[], f32[4]) tuple(zero, r)
  loop = (s32[], f32[4]) while(start), condition=cond, body=body
  ROOT out = f32[4] get-tuple-element(loop), index=1"""
    case = documents(tmp_path, module(entry, LOOP), PLAIN)
    assert torch.equal(run_seq(case, [R4])[0], R4 * 8)
    names = [n["name"] for n in case.seq["nodes"]]
    assert "loop:0/w" in names and "loop:2/w" in names and len(set(names)) == len(names)


BRANCHES = """twice {
  v = f32[4] parameter(0)
  ROOT t = f32[4] add(v, v)
}

less {
  v = f32[4] parameter(0)
  ROOT n = f32[4] negate(v)
}

"""


@pytest.mark.parametrize(("choice", "factor"), [(0, 2.0), (1, -1.0), (7, -1.0)])
def test_branches_become_a_choice(choice: int, factor: float, tmp_path: Path) -> None:
    entry = """  r = f32[4] parameter(0)
  k = s32[] parameter(1)
  ROOT out = f32[4] conditional(k, r, r), branch_computations={%twice, %less}"""
    case = documents(tmp_path, module(entry, BRANCHES), PLAIN)
    assert torch.equal(run_seq(case, [R4, torch.tensor(choice)])[0], R4 * factor)


# ---- one program for several devices
def parted(folder: Path, body: str, header: str = ", num_partitions=2") -> Any:
    """The case of a program of several devices."""
    return documents(folder, PLAIN, program(body, header))


ON_TWO = {
    "all-gather along dimension 1": (
        "f32[2,4] all-gather(x), channel_id=1, replica_groups={{0,1}}, dimensions={1}, "
        "use_global_device_ids=true",
        lambda a, b: [torch.cat([a, b], 1)] * 2,
    ),
    "members in another order": (
        "f32[4,2] all-gather(x), channel_id=1, replica_groups={{1,0}}, dimensions={0}, "
        "use_global_device_ids=true",
        lambda a, b: [torch.cat([b, a])] * 2,
    ),
    "reduce-scatter along dimension 1": (
        "f32[2,1] reduce-scatter(x), channel_id=1, replica_groups=[1,2]<=[2], dimensions={1}, "
        "use_global_device_ids=true, to_apply=sum",
        lambda a, b: [(a + b)[:, :1], (a + b)[:, 1:]],
    ),
    "a maximum over the mesh": (
        "f32[2,2] all-reduce(x), channel_id=1, replica_groups=mesh['a'=2] {'a'}, "
        "use_global_device_ids=true, to_apply=largest",
        lambda a, b: [torch.maximum(a, b)] * 2,
    ),
    "all-to-all along dimension 1": (
        "f32[2,2] all-to-all(x), channel_id=1, replica_groups={{0,1}}, dimensions={1}",
        lambda a, b: [
            torch.cat([a[:, :1], b[:, :1]], 1),
            torch.cat([a[:, 1:], b[:, 1:]], 1),
        ],
    ),
    "collective-permute leaves 0": (
        "f32[2,2] collective-permute(x), channel_id=1, source_target_pairs={{0,1}}",
        lambda a, b: [torch.zeros_like(a), a],
    ),
    "collective-permute in a ring": (
        "f32[2,2] collective-permute(x), channel_id=1, source_target_pairs={{0,1},{1,0}}",
        lambda a, b: [b, a],
    ),
    "collective-broadcast": (
        "f32[2,2] collective-broadcast(x), channel_id=1, replica_groups={{1,0}}",
        lambda a, b: [b, b],
    ),
    "groups of one": (
        "f32[2,2] all-reduce(x), channel_id=1, replica_groups={{0},{1}}, "
        "use_global_device_ids=true, to_apply=sum",
        lambda a, b: [a, b],
    ),
}
A, B = torch.tensor([[1.0, 2], [3, 4]]), torch.tensor([[5.0, 6], [7, 8]])


@pytest.mark.parametrize("name", ON_TWO)
def test_a_collective(name: str, tmp_path: Path) -> None:
    text, expected = ON_TWO[name]
    case = parted(tmp_path, f"  x = f32[2,2] parameter(0)\n  ROOT y = {text}")
    found = run_dist(case, {0: [A], 1: [B]})
    for rank, value in enumerate(expected(A, B)):
        assert torch.equal(found[rank][0], value.to(torch.float64))


def test_tuples_of_collectives_and_their_halves(tmp_path: Path) -> None:
    body = """  x = f32[2,2] parameter(0)
  n = f32[2,2] negate(x)
  both = (f32[2,2], f32[2,2]) all-reduce(x, n), channel_id=1, replica_groups={{0,1}}, use_global_device_ids=true, to_apply=sum
  first = f32[2,2] get-tuple-element(both), index=1
  start = (f32[2,2], f32[4,2]) all-gather-start(x), channel_id=2, replica_groups={{0,1}}, dimensions={0}, use_global_device_ids=true
  done = f32[4,2] all-gather-done(start)
  parts = (f32[2,2], f32[2,2]) all-to-all(x, n), channel_id=3, replica_groups={{0,1}}
  second = f32[2,2] get-tuple-element(parts), index=1
  ROOT t = (f32[2,2], f32[4,2], f32[2,2]) tuple(first, done, second)"""
    found = run_dist(parted(tmp_path, body), {0: [A], 1: [B]})
    for rank, from_one in ((0, B), (1, -B)):
        expected = [-(A + B), torch.cat([A, B]), from_one]
        assert all(torch.equal(f, e.double()) for f, e in zip(found[rank], expected, strict=True))


def test_a_slice_at_the_number_of_the_device(tmp_path: Path) -> None:
    body = """  x = f32[2,2] parameter(0)
  table = s32[2] constant({1, 0})
  id = u32[] partition-id()
  at = s32[1] dynamic-slice(table, id), dynamic_slice_sizes={1}
  offset = s32[] reshape(at)
  zero = s32[] constant(0)
  ROOT y = f32[1,2] dynamic-slice(x, offset, zero), dynamic_slice_sizes={1,2}"""
    case = parted(tmp_path, body)
    found = run_dist(case, {0: [A], 1: [A]})
    assert torch.equal(found[0][0], A[1:].double()) and torch.equal(found[1][0], A[:1].double())
    assert "aten.slice.Tensor" in {n["target"] for n in case.dist[0]["nodes"]}
    assert "hlo.constant" not in {n["target"] for n in case.dist[0]["nodes"]}


def test_replicas_and_partitions(tmp_path: Path) -> None:
    body = """  x = f32[2,2] parameter(0)
  ROOT y = f32[2,2] all-reduce(x), replica_groups={{0,1}}, to_apply=sum"""
    case = parted(tmp_path, body, ", replica_count=2, num_partitions=2")
    assert [g["ranks"] for g in case.groups["dist"]] == [[0, 2], [1, 3]]
