"""GRPO/PPO losses: advantages normalised by the local mean and std; clip ratio; KL masked mean; token-level over sequences of all ranks (TRL #2..., verl, OpenRLHF)."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

B, S, H = 8, 3, 4


class Policy(nn.Module):
    def __init__(self, how):
        super().__init__()
        self.how, self.f = how, nn.Linear(H, 1)

    def everyone(self, x):
        if dist.get_world_size() == 1:
            return x
        parts = [torch.empty_like(x) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, x.contiguous())
        return torch.cat(parts)

    def forward(self, x, old, reward, mask):
        world, rank = dist.get_world_size(), dist.get_rank()
        rewards = reward if self.how == "local_stats" else self.everyone(reward)
        mean, std = rewards.mean(), rewards.std()
        adv = (reward - mean) / (std + 1e-4)
        logp = F.logsigmoid(self.f(x).squeeze(-1))
        ratio = torch.exp(logp - old)
        a = adv.unsqueeze(1)
        per = -torch.min(ratio * a, torch.clamp(ratio, 0.8, 1.2) * a)
        n = mask.sum()
        if self.how != "local_count" and world > 1:
            dist.all_reduce(n)
        loss = (per * mask).sum() / n
        if self.how == "local_count":
            loss = loss / world
        loss.backward()
        out = loss.detach().clone()
        if world > 1:
            dist.all_reduce(out)
            for p in self.parameters():
                dist.all_reduce(p.grad)
        return out


def truth_inputs():
    g = torch.Generator().manual_seed(3)
    return (
        torch.randn(B, S, H, generator=g, dtype=torch.float64),
        -torch.rand(B, S, generator=g, dtype=torch.float64),
        torch.randn(B, generator=g, dtype=torch.float64),
        (torch.rand(B, S, generator=g) > 0.3).double(),
    )


def case(how):
    return dict(
        build=lambda r, w: Policy(how),
        make_inputs=lambda r, w: (
            torch.randn(B // w, S, H),
            torch.zeros(B // w, S),
            torch.randn(B // w),
            torch.ones(B // w, S),
        ),
        world_size=2,
        mode="eager",
        backward=True,
    )


def fix():
    return case("ok")


def bug_local_stats():
    return case("local_stats")


def bug_local_count():
    return case("local_count")
