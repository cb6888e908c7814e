"""Masked losses by parts: where the mask enters (multiplied, divided, selected) under DP without TP (Open-RLHF, TRL, verl reports of token-mean losses)."""

import torch
import torch.distributed as dist
from torch import nn

B, S, H, V = 4, 6, 5, 7


class Policy(nn.Module):
    def __init__(self, how):
        super().__init__()
        self.how = how
        self.body = nn.Linear(H, H)
        self.head = nn.Linear(H, V, bias=False)

    def forward(self, x, ids, mask):
        logp = torch.log_softmax(self.head(torch.tanh(self.body(x))), -1)
        nll = -torch.gather(logp, -1, ids.unsqueeze(-1)).squeeze(-1)
        n = mask.sum()
        world = dist.get_world_size()
        if self.how in ("global", "where", "clamp", "wrong_mask"):
            dist.all_reduce(n) if world > 1 else None
            if self.how == "clamp":
                n = n.clamp(min=1.0)
            if self.how == "where":
                loss = torch.where(mask > 0, nll, torch.zeros_like(nll)).sum() / n
            else:
                loss = (nll * mask).sum() / n
        elif self.how == "seq_mean":
            loss = ((nll * mask).sum(-1) / mask.sum(-1)).sum() / (B * 1.0)
        elif self.how == "local":
            loss = (nll * mask).sum() / n / world
        elif self.how == "seq_mean_local":
            loss = ((nll * mask).sum(-1) / mask.sum(-1)).mean()
        elif self.how == "rescale":  # transformers: num_items_in_batch * world with DDP's mean
            dist.all_reduce(n) if world > 1 else None
            loss = (nll * mask).sum() / n * world
        loss.backward()
        out = loss.detach().clone()
        if world > 1:
            dist.all_reduce(out)
            if self.how == "rescale":
                out = out / world
        return out


def step_sum(m):
    if dist.get_world_size() > 1:
        for p in m.parameters():
            dist.all_reduce(p.grad)


def step_mean(m):
    if dist.get_world_size() > 1:
        for p in m.parameters():
            dist.all_reduce(p.grad)
            p.grad /= dist.get_world_size()


def make_inputs(rank, world):
    b = B // world
    return torch.randn(b, S, H), torch.zeros(b, S, dtype=torch.long), torch.ones(b, S)


def truth_inputs():
    g = torch.Generator().manual_seed(3)
    m = (torch.rand(B, S, generator=g) > 0.4).double()
    m[:, 0] = 1
    return (
        torch.randn(B, S, H, generator=g, dtype=torch.float64),
        torch.randint(0, V, (B, S), generator=g),
        m,
    )


def args(how, step=step_sum):
    return dict(
        build=lambda r, w: Policy(how),
        make_inputs=make_inputs,
        world_size=2,
        mode="eager",
        backward=True,
        step=step,
    )


def fix():
    return args("global")


def fix_clamp():
    return args("clamp")


def fix_where():
    return args("where")


def fix_seq_mean():
    return args("seq_mean")


def fix_rescale():
    return args("rescale", step_mean)


def bug_local():
    return args("local")


def bug_rescale_sum():
    return args("rescale")


def bug_seq_mean_local():
    """the mean over local sequences, summed over ranks"""
    return args("seq_mean_local")


def bug_mean_of_global():
    """divided by the global number of tokens, then averaged as well"""
    return args("global", step_mean)
