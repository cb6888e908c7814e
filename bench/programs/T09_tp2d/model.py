"""2-d tensor parallelism (SUMMA, Optimus / Colossal-AI) and Cannon, forward; also with gradients."""

import torch
import torch.distributed as dist
from torch import nn

M, K, N, Q = 4, 6, 8, 2


class Groups:
    def __init__(self, rank):
        self.rows = [dist.new_group([i * Q + j for j in range(Q)]) for i in range(Q)]
        self.cols = [dist.new_group([i * Q + j for i in range(Q)]) for j in range(Q)]
        self.i, self.j = rank // Q, rank % Q
        self.row, self.col = self.rows[self.i], self.cols[self.j]


def summa(a, b, g, bug=False):
    """C = A B: A's column t is broadcast in rows, B's row t in columns."""
    c = 0
    for t in range(Q):
        x = a.clone() if g.j == t else torch.empty_like(a)
        y = b.clone() if g.i == t else torch.empty_like(b)
        dist.broadcast(x, src=g.i * Q + t, group=g.row)
        dist.broadcast(y, src=(t if not bug else (t + 1) % Q) * Q + g.j, group=g.col)
        c = c + x @ y
    return c


def summa_abt(a, b, g):
    """C = A B^T: B's row t is broadcast in columns, products are reduced in rows to column t."""
    out = None
    for t in range(Q):
        y = b.clone() if g.i == t else torch.empty_like(b)
        dist.broadcast(y, src=t * Q + g.j, group=g.col)
        c = a @ y.t()
        dist.reduce(c, dst=g.i * Q + t, group=g.row)
        if g.j == t:
            out = c
    return out


def summa_atb(a, b, g):
    """C = A^T B."""
    out = None
    for t in range(Q):
        x = a.clone() if g.j == t else torch.empty_like(a)
        dist.broadcast(x, src=g.i * Q + t, group=g.row)
        c = x.t() @ b
        dist.reduce(c, dst=t * Q + g.j, group=g.col)
        if g.i == t:
            out = c
    return out


class Summa(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b, g, bug):
        ctx.save_for_backward(a, b)
        ctx.g = g
        return summa(a, b, g, bug)

    @staticmethod
    def backward(ctx, grad):
        a, b = ctx.saved_tensors
        return summa_abt(grad, b, ctx.g), summa_atb(a, grad, ctx.g), None, None


class Cannon(nn.Module):
    pass


class Net(nn.Module):
    def __init__(self, rank, world, bug=False, how="summa"):
        super().__init__()
        self.world, self.bug, self.how = world, bug, how
        q = Q if world > 1 else 1
        self.w1 = nn.Parameter(torch.empty(K // q, N // q))
        self.w2 = nn.Parameter(torch.empty(N // q, K // q))
        if world > 1:
            self.g = Groups(rank)

    def mm(self, a, b):
        if self.world == 1:
            return a @ b
        if self.how == "summa":
            return Summa.apply(a, b, self.g, self.bug)
        if self.how == "gather":
            row = [torch.empty_like(a) for _ in range(Q)]
            col = [torch.empty_like(b) for _ in range(Q)]
            dist.all_gather(row, a.contiguous(), group=self.g.row)
            dist.all_gather(col, b.contiguous(), group=self.g.col)
            return torch.cat(row, 1) @ torch.cat(col, 0)
        return self.cannon(a, b)

    def shift(self, t, dst, src):
        out = torch.empty_like(t)
        for w in dist.batch_isend_irecv(
            [dist.P2POp(dist.isend, t.contiguous(), dst), dist.P2POp(dist.irecv, out, src)]
        ):
            w.wait()
        return out

    def cannon(self, a, b):
        i, j = self.g.i, self.g.j
        rank = lambda i, j: (i % Q) * Q + j % Q
        if i % Q:
            a = self.shift(a, rank(i, j - i), rank(i, j + i))
        if j % Q:
            b = self.shift(b, rank(i - j, j), rank(i + j, j))
        c = a @ b
        for _ in range(Q - 1):
            a = self.shift(a, rank(i, j - 1), rank(i, j + 1))
            b = self.shift(b, rank(i - 1, j), rank(i + 1, j))
            c = c + a @ b
        return c

    def forward(self, x):
        return self.mm(torch.relu(self.mm(x, self.w1)), self.w2)


def place(name, full, rank, world):
    if full.dim() == 2:
        return full.chunk(Q, 0)[rank // Q].chunk(Q, 1)[rank % Q]
    return NotImplemented


REL = {
    "mesh": {"r": Q, "c": Q},
    "relation": [
        {"name": n, "placement": ["shard(0, r)", "shard(1, c)"]} for n in ("x", "w1", "w2")
    ],
}


def inputs(rank, w):
    q = Q if w > 1 else 1
    return (torch.randn(M // q, K // q),)


class SumSquare(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x = x.clone()
        dist.all_reduce(x)
        return x

    @staticmethod
    def backward(ctx, g):
        return g


def loss(out, *_):
    total = out.square().sum()
    return SumSquare.apply(total) if dist.get_world_size() > 1 else total


def args(backward=False, **kw):
    out = dict(
        build=lambda r, w: Net(r, w, **kw),
        make_inputs=inputs,
        world_size=4,
        mode="eager",
        backward=backward,
        relations=REL,
    )
    return dict(out, loss=loss) if backward else out


def fix():
    return args()


def bug():
    return args(bug=True)


def keep_backward():
    return args(True)


def keep_cannon():
    return args(how="cannon")


def keep_gather():
    return args(how="gather")
