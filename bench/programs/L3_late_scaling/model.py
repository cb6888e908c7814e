"""calculate_per_token_loss (Megatron finalize_model_grads): sums are backpropagated, gradients scaled by 1/num_tokens at the end; ignore_index, label mask, micro-batches."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

B, S, H, V = 8, 3, 4, 6
IGNORE = -100


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.l1, self.l2 = nn.Linear(H, 2 * H), nn.Linear(2 * H, V, bias=False)
        self.norm = nn.LayerNorm(H)

    def forward(self, x):
        return self.l2(F.silu(self.l1(self.norm(x))))


class Train(nn.Module):
    def __init__(self, how, micro):
        super().__init__()
        self.how, self.micro, self.model = how, micro, Model()

    def forward(self, x, y):
        world = dist.get_world_size()
        if world == 1:
            loss = F.cross_entropy(self.model(x).view(-1, V), y.view(-1), ignore_index=IGNORE)
            loss.backward()
            return loss.detach()
        tokens = torch.zeros((), dtype=torch.long)
        total = torch.zeros(())
        for xs, ys in zip(x.chunk(self.micro), y.chunk(self.micro)):
            loss = F.cross_entropy(
                self.model(xs).view(-1, V), ys.view(-1), ignore_index=IGNORE, reduction="sum"
            )
            loss.backward()
            tokens += (ys != IGNORE).sum()
            total += loss.detach()
        if self.how != "local":
            dist.all_reduce(tokens)
        dist.all_reduce(total)
        for p in self.parameters():
            dist.all_reduce(p.grad)
            if self.how == "twice":
                p.grad /= world
            p.grad /= tokens
        return total / tokens


def make_inputs(rank, world):
    return torch.randn(B // world, S, H), torch.zeros(B // world, S, dtype=torch.long)


def truth_inputs():
    g = torch.Generator().manual_seed(3)
    y = torch.randint(0, V, (B, S), generator=g)
    y[torch.rand(B, S, generator=g) > 0.7] = IGNORE
    return torch.randn(B, S, H, generator=g, dtype=torch.float64), y


def args(how, micro=1):
    return dict(
        build=lambda r, w: Train(how, micro),
        make_inputs=make_inputs,
        world_size=2,
        mode="eager",
        backward=True,
    )


def fix():
    return args("ok")


def fix_micro():
    return args("ok", 2)


def bug_local_tokens():
    return args("local")


def bug_averaged_too():
    return args("twice")
