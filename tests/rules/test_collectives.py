"""Collectives beyond sums and gathers: splits, roots, transfers between ranks, several groups."""

from __future__ import annotations

from .build import Case, check, row, table
from .conftest import Outcomes

TP = {"tp": [[0, 1], [2, 3]], "dp": [[0, 2], [1, 3]]}
SEQ = "x: f32[8, 4]\ny = relu(x)\nreturn y"
SWAP = Case(
    "all-to-all swaps two shardings",
    "x: f32[4, 6]\nv: f32[2, 4]\nz = mm(v, gelu(relu(x)))\nreturn z",
    """
    x: f32[2, 6]
    v: f32[2, 4]
    y = relu(x)
    cut = clone(t(y))
    got = all_to_all_single(cut, [], [], "g")
    parts = split(got, 3, 0)
    whole = cat([parts[0], parts[1]], 1)
    z = mm(v, t(gelu(whole)))
    return z
    """,
)
UNEVEN = Case(
    "all-to-all with split sizes",
    "x: f32[6, 4]\ny = relu(x)\nreturn y",
    """
    x: f32[6, 4]
    a = slice(x, 0, 0, 2) if rank == 0 else slice(x, 0, 2, 6)
    y = relu(a)
    z = all_to_all_single(y, [1, 1] if rank == 0 else [1, 3], [1, 1] if rank == 0 else [1, 3], "g")
    return z
    """,
    anywhere=True,
)
SENT = Case(
    "a pipeline of two stages",
    "x: f32[4, 4]\nw: f32[4, 4]\nv: f32[4, 4]\ny = mm(relu(mm(x, w)), v)\nreturn y",
    """
    x: f32[4, 4]
    w: f32[4, 4]
    v: f32[4, 4]
    h = relu(mm(x, w))
    s = isend(h, 1, 0, "g") if rank == 0 else irecv(h, 0, 0, "g")
    y = mm(wait_tensor(s), v)
    t1 = irecv(y, 1, 1, "g") if rank == 0 else isend(y, 0, 1, "g")
    out = wait_tensor(t1)
    return out
    """,
)
MICRO = Case(
    "micro-batches through a pipeline",
    "x: f32[4, 4]\nw: f32[4, 4]\nv: f32[4, 4]\ny = mm(relu(mm(x, w)), v)\nreturn y",
    """
    x: f32[4, 4]
    w: f32[4, 4]
    v: f32[4, 4]
    a = relu(mm(slice(x, 0, 0, 2), w))
    b = relu(mm(slice(x, 0, 2, 4), w))
    s0 = isend(a, 1, 0, "g") if rank == 0 else irecv(a, 0, 0, "g")
    s1 = isend(b, 1, 0, "g") if rank == 0 else irecv(b, 0, 0, "g")
    y0 = mm(wait_tensor(s0), v)
    y1 = mm(wait_tensor(s1), v)
    y = cat([y0, y1], 0)
    return y
    """,
)
EXCHANGED = Case(
    "halves exchanged, posted before they are sent",
    "x: f32[4, 4]\ny = relu(x)\nreturn y",
    """
    x: f32[2, 4]
    e: f32[2, 4] = empty([2, 4])
    r = irecv(e, 1 - rank, 0, "g")
    s = isend(x, 1 - rank, 0, "g")
    other = wait_tensor(r)
    mine = wait_tensor(s)
    y = relu(cat([mine, other], 0) if rank == 0 else cat([other, mine], 0))
    return y
    """,
)
BATCH = Case(
    "a batch of transfers",
    "x: f32[4, 4]\nv: f32[2, 4]\ny = mm(v, relu(x))\nreturn y",
    """
    x: f32[2, 4]
    v: f32[2, 4]
    y = relu(x)
    e: f32[2, 4] = empty([2, 4])
    got = batch_p2p_ops(["isend", "irecv"], [1 - rank, 1 - rank], [7, 7], [y, e], "g")
    z = wait_tensor(got[1])
    out = mm(v, cat([y, z], 0) if rank == 0 else cat([z, y], 0))
    return out
    """,
)
ROOT = Case(
    "a reduction to one rank, sent back to all",
    "x: f32[4, 8]\nw: f32[8, 4]\ny = relu(mm(x, w))\nreturn y",
    """
    x: f32[4, 4]
    w: f32[4, 4]
    p = mm(x, w)
    r = reduce(p, "sum", 1, "g")
    y = relu(broadcast(r, 1, "g"))
    return y
    """,
)
SCATTER = Case(
    "rows scattered by one rank and gathered by another",
    "x: f32[4, 4]\ny = relu(x)\nreturn y",
    """
    x: f32[4, 4]
    part = split(x, 2, 0)
    mine = scatter([part[0], part[1]], 0, "g") if rank == 0 else scatter([], 0, "g")
    y = relu(mine)
    return y
    """,
)
COALESCED = Case(
    "two reductions in one",
    "x: f32[4, 8]\nw: f32[8, 4]\nv: f32[8, 2]\na = relu(mm(x, w))\nb = relu(mm(x, v))\nreturn a, b",
    """
    x: f32[4, 4]
    w: f32[4, 4]
    v: f32[4, 2]
    both = all_reduce_coalesced([mm(x, w), mm(x, v)], "sum", "g")
    a = relu(wait_tensor(both[0]))
    b = relu(wait_tensor(both[1]))
    return a, b
    """,
)
WAITED = Case(
    "both results of one reduction waited for, then read",
    "x: f32[4, 8]\nw: f32[8, 4]\na = mm(x, w)\ny = relu(a)\nz = neg(a)\nreturn y, z",
    """
    x: f32[4, 4]
    w: f32[4, 4]
    a = mm(x, w)
    both = all_reduce_coalesced([a, a], "sum", "g")
    p = wait_tensor(both[0])
    q = wait_tensor(both[1])
    y = relu(p)
    z = neg(q)
    return y, z
    """,
)
MESH = Case(
    "tensor and data parallel at once",
    "x: f32[4, 8]\nw: f32[8, 6]\nv: f32[6, 8]\ny = mm(relu(mm(x, w)), v)\n"
    "g = sum.dim_IntList(y, [0])\nreturn y, g",
    """
    x: f32[2, 8]
    w: f32[8, 3]
    v: f32[3, 8]
    y = all_reduce(mm(relu(mm(x, w)), v), "sum", "tp")
    g = all_reduce(sum.dim_IntList(y, [0]), "sum", "dp")
    return y, g
    """,
    ranks=4,
    groups=TP,
    relate={
        "x": [row(r, "x", seq_box=[[2 * (r // 2), 2 * (r // 2) + 2], [0, 8]]) for r in range(4)],
        "w": [row(r, "w", seq_box=[[0, 8], [3 * (r % 2), 3 * (r % 2) + 3]]) for r in range(4)],
        "v": [row(r, "v", seq_box=[[3 * (r % 2), 3 * (r % 2) + 3], [0, 8]]) for r in range(4)],
    },
)


@table(
    SWAP,
    SWAP.miss("parts in the wrong order", "[parts[0], parts[1]]", "[parts[1], parts[0]]"),
    SWAP.miss("without the exchange", 'all_to_all_single(cut, [], [], "g")', "clone(cut)"),
    UNEVEN,
    UNEVEN.miss(
        "sizes that do not meet",
        "[1, 1] if rank == 0 else [1, 3], [1, 1] if",
        "[1, 1] if rank == 0 else [2, 2], [1, 1] if",
        mismatch=True,
    ),
    SENT,
    SENT.miss("the wrong stage's weight", "y = mm(wait_tensor(s), v)", "y = mm(wait_tensor(s), w)"),
    SENT.miss("another tag", 'irecv(h, 0, 0, "g")', 'irecv(h, 0, 3, "g")', mismatch=True),
    MICRO,
    MICRO.miss("micro-batches swapped", "cat([y0, y1], 0)", "cat([y1, y0], 0)"),
    MICRO.miss(
        "received in another order",
        's1 = isend(b, 1, 0, "g") if rank == 0 else irecv(b, 0, 0, "g")',
        's1 = isend(a, 1, 0, "g") if rank == 0 else irecv(b, 0, 0, "g")',
    ),
    MICRO.miss(
        "one is never received",
        's1 = isend(b, 1, 0, "g") if rank == 0 else irecv(b, 0, 0, "g")',
        's1 = isend(b, 1, 0, "g") if rank == 0 else clone(b)',
        mismatch=True,
        maps=("y",),
    ),
    BATCH,
    BATCH.miss(
        "sends what it received",
        "cat([y, z], 0) if rank == 0 else cat([z, y], 0)",
        "cat([z, z], 0)",
    ),
    BATCH.miss("received into what is still used", "[y, e]", "[y, y]"),
    ROOT,
    ROOT.miss("another root", 'broadcast(r, 1, "g")', 'broadcast(r, 0, "g")'),
    ROOT.miss("used where it did not arrive", 'broadcast(r, 1, "g")', "clone(r)"),
    SCATTER,
    SCATTER.miss("the same part twice", "[part[0], part[1]]", "[part[0], part[0]]"),
    EXCHANGED,
    EXCHANGED.miss(
        "both wait for what they send before they receive",
        'r = irecv(e, 1 - rank, 0, "g")\n    s = isend(x, 1 - rank, 0, "g")\n'
        "    other = wait_tensor(r)\n    mine = wait_tensor(s)",
        's = isend(x, 1 - rank, 0, "g")\n    mine = wait_tensor(s)\n'
        '    r = irecv(e, 1 - rank, 0, "g")\n    other = wait_tensor(r)',
        maps=("y",),
        mismatch=True,
    ),
    WAITED,
    WAITED.miss(
        "one is read before it is there",
        "q = wait_tensor(both[1])",
        "q = both[1]\n    r = wait_tensor(both[1])",
        maps=("y",),
    ),
    COALESCED,
    COALESCED.miss(
        "one of them twice",
        "[mm(x, w), mm(x, v)]",
        "[mm(x, w), mm(x, w)]",
        maps=("a",),
    ),
    MESH,
    MESH.miss("reduced over the other group", '"sum", "tp")', '"sum", "dp")'),
    MESH.miss(
        "gradient not reduced",
        'g = all_reduce(sum.dim_IntList(y, [0]), "sum", "dp")',
        "g = sum.dim_IntList(y, [0])",
        maps=("y",),
    ),
)
def test_collectives(case: Case, outcomes: Outcomes) -> None:
    check(case, outcomes(case))
