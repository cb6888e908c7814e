"""3-d tensor parallelism (2x2x2 is 8 ranks; here 1 x 2 x 2), 2.5-d with depth over the batch; 1-d ring matmul."""

import torch
import torch.distributed as dist
from torch import nn

M, K, N = 8, 4, 8


class Depth(nn.Module):
    """Depth 2 over rows (data), width 2 over columns: weights are held once in the depth, gathered when used (2.5-d)."""

    def __init__(self, rank, world, bug=None):
        super().__init__()
        self.world, self.bug = world, bug
        n = 2 if world > 1 else 1
        self.d, self.c = rank // 2, rank % 2
        self.w1 = nn.Parameter(torch.empty(K // n, N // n))  # rows over depth, columns over width
        self.w2 = nn.Parameter(torch.empty(N // n, K // n))  # rows over width, columns over depth
        if world > 1:
            self.depth = [dist.new_group([0, 2]), dist.new_group([1, 3])][self.c]
            self.width = [dist.new_group([0, 1]), dist.new_group([2, 3])][self.d]

    def gather(self, t, dim):
        parts = [torch.empty_like(t) for _ in range(2)]
        dist.all_gather(parts, t.contiguous(), group=self.depth)
        return torch.cat(parts if self.bug != "order" else parts[::-1], dim)

    def forward(self, x):
        if self.world == 1:
            return torch.relu(x @ self.w1) @ self.w2
        h = torch.relu(x @ self.gather(self.w1, 0))
        y = h @ self.gather(self.w2, 1)
        dist.all_reduce(y, group=self.width)
        return y


def place(name, full, rank, world):
    d, c = rank // 2, rank % 2
    if name == "x" or name.startswith("output"):
        return full.chunk(2)[d]
    if name == "w1":
        return full.chunk(2, 0)[d].chunk(2, 1)[c]
    if name == "w2":
        return full.chunk(2, 0)[c].chunk(2, 1)[d]
    return NotImplemented


REL = {
    "mesh": {"d": 2, "c": 2},
    "relation": [
        {"name": "x", "placement": "shard(0, d)"},
        {"name": "w1", "placement": ["shard(0, d)", "shard(1, c)"]},
        {"name": "w2", "placement": ["shard(0, c)", "shard(1, d)"]},
    ],
}


def args(bug=None):
    return dict(
        build=lambda r, w: Depth(r, w, bug),
        make_inputs=lambda r, w: (torch.randn(M // (2 if w > 1 else 1), K),),
        world_size=4,
        mode="eager",
        backward=False,
        relations=REL,
    )


def fix():
    return args()


def bug():
    return args("order")


class Funcol(Depth):
    """The same with functional collectives and dynamo."""

    def forward(self, x):
        import torch.distributed._functional_collectives as funcol

        if self.world == 1:
            return torch.relu(x @ self.w1) @ self.w2
        h = torch.relu(x @ funcol.all_gather_tensor(self.w1, 0, self.depth))
        y = h @ funcol.all_gather_tensor(self.w2, 1 if self.bug != "dim" else 1, self.depth)
        return funcol.all_reduce(y, "sum" if self.bug != "avg" else "avg", self.width)


def keep_funcol():
    return dict(args(), build=lambda r, w: Funcol(r, w))


def bug_funcol_avg():
    return dict(args(), build=lambda r, w: Funcol(r, w, "avg"))
