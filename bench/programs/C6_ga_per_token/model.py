"""transformers #34191 / Unsloth / Megatron calculate_per_token_loss: per-token normalisation over micro-batches and data-parallel ranks."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

B, S, H, V, M = 8, 3, 4, 6, 2


class LM(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Linear(H, H)
        self.out = nn.Linear(H, V)

    def losses(self, x, y):
        return F.cross_entropy(
            self.out(F.gelu(self.emb(x))).flatten(0, 1), y.flatten(), reduction="none"
        ).view_as(y)


class Trainer(nn.Module):
    def __init__(self, how):
        super().__init__()
        self.how, self.model = how, LM()

    def forward(self, x, y, mask):
        world = dist.get_world_size()
        if world == 1:
            loss = (self.model.losses(x, y) * mask).sum() / mask.sum()
            loss.backward()
            return loss.detach()
        num = torch.zeros(())
        tot = torch.zeros(())
        for i in range(M):
            xs, ys, ms = x.chunk(M)[i], y.chunk(M)[i], mask.chunk(M)[i]
            l = (self.model.losses(xs, ys) * ms).sum()
            n = ms.sum()
            if self.how == "micro":
                (l / n / M).backward()
            else:
                l.backward()
            tot = tot + l.detach()
            num = num + n
        if self.how == "micro":
            for p in self.parameters():
                dist.all_reduce(p.grad)
                p.grad.div_(world)
        elif self.how == "global":
            dist.all_reduce(num)
            for p in self.parameters():
                dist.all_reduce(p.grad)
                p.grad.mul_(1.0 / num)
        elif self.how == "local_tokens":
            for p in self.parameters():
                p.grad.div_(num * world)
                dist.all_reduce(p.grad)
            dist.all_reduce(num)
        dist.all_reduce(tot)
        return tot / num


class Before(Trainer):
    """the number of tokens of all micro-batches is known before the first forward (num_items_in_batch)"""

    def forward(self, x, y, mask):
        world = dist.get_world_size()
        items = sum(m.sum() for m in mask.chunk(M)) if world > 1 else mask.sum()
        if world > 1 and self.how != "no_gather":
            dist.all_reduce(items)
        total = 0.0
        for xs, ys, ms in zip(
            x.chunk(M if world > 1 else 1),
            y.chunk(M if world > 1 else 1),
            mask.chunk(M if world > 1 else 1),
        ):
            loss = (self.model.losses(xs, ys) * ms).sum() / items
            if self.how == "ddp" and world > 1:
                loss = loss * world
            loss.backward()
            total = total + loss.detach()
        if world > 1:
            for p in self.parameters():
                dist.all_reduce(p.grad)
                if self.how in ("ddp", "no_gather"):
                    p.grad /= world
            dist.all_reduce(total)
            if self.how in ("ddp", "no_gather"):
                total = total / world
        return total


def make_inputs(rank, world):
    return (
        torch.randn(B // world, S, H),
        torch.zeros(B // world, S, dtype=torch.long),
        torch.ones(B // world, S),
    )


def truth_inputs():
    g = torch.Generator().manual_seed(3)
    return (
        torch.randn(B, S, H, generator=g, dtype=torch.float64),
        torch.randint(0, V, (B, S), generator=g),
        (torch.rand(B, S, generator=g) > 0.4).double(),
    )


def args(how, kind=Trainer):
    return dict(
        build=lambda r, w: kind(how),
        make_inputs=make_inputs,
        world_size=2,
        mode="eager",
        backward=True,
    )


def fix():
    return args("global")


def fix_items():
    return args("sum", Before)


def fix_items_ddp():
    return args("ddp", Before)


def bug_micro_mean():
    return args("micro")


def bug_local_tokens():
    return args("local_tokens")


def bug_items_not_gathered():
    return args("no_gather", Before)
