"""Megatron GPT loss: vocabulary-parallel cross entropy, a loss mask, masked mean sum(loss*mask)/sum(mask); also over data-parallel ranks."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

S, B, H, V = 4, 2, 6, 8


class _Copy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        return x.view_as(x)

    @staticmethod
    def backward(ctx, g):
        g = g.contiguous()
        dist.all_reduce(g, group=ctx.group)
        return g, None


class _VocabParallelCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits, target, group):
        m = torch.max(logits, dim=-1)[0]
        dist.all_reduce(m, op=dist.ReduceOp.MAX, group=group)
        logits = logits - m.unsqueeze(-1)
        part = logits.size(-1)
        start = dist.get_rank(group) * part
        mask = (target < start) | (target >= start + part)
        local = target.clone() - start
        local[mask] = 0
        two = logits.view(-1, part)
        one = local.view(-1)
        rows = torch.arange(two.size(0))
        picked = two[rows, one].clone().view_as(target)
        picked[mask] = 0.0
        dist.all_reduce(picked, group=group)
        exp = torch.exp(logits)
        total = exp.sum(dim=-1)
        dist.all_reduce(total, group=group)
        loss = torch.log(total) - picked
        ctx.save_for_backward(exp / total.unsqueeze(-1), mask, one)
        return loss

    @staticmethod
    def backward(ctx, grad_output):
        softmax, mask, one = ctx.saved_tensors
        grad = softmax.clone()
        two = grad.view(-1, softmax.size(-1))
        rows = torch.arange(two.size(0))
        two[rows, one] -= 1.0 - mask.view(-1).to(grad.dtype)
        return grad * grad_output.unsqueeze(-1), None, None


class GPT(nn.Module):
    def __init__(self, rank, world, tp, how):
        super().__init__()
        self.how, self.tp, self.world = how, tp if world > 1 else 1, world
        self.dp = world // self.tp
        self.tpg = self.dpg = None
        if world > 1:
            for d in range(self.dp):
                g = dist.new_group(list(range(d * tp, d * tp + tp)))
                if rank // tp == d:
                    self.tpg = g
            for t in range(tp):
                g = dist.new_group(list(range(t, world, tp)))
                if rank % tp == t:
                    self.dpg = g
        self.norm = nn.LayerNorm(H)
        self.head = nn.Parameter(torch.empty(V // self.tp, H))

    def forward(self, hidden, labels, loss_mask):
        x = self.norm(hidden)
        if self.world == 1:
            logits = F.linear(x, self.head)
            losses = F.cross_entropy(logits.view(-1, V), labels.view(-1), reduction="none").view_as(
                labels
            )
        else:
            logits = F.linear(_Copy.apply(x, self.tpg), self.head)
            losses = _VocabParallelCrossEntropy.apply(logits, labels, self.tpg)
        losses = losses.float() if losses.dtype == torch.float32 else losses
        mask = loss_mask.view(-1)
        total = (losses.view(-1) * mask).sum()
        count = mask.sum()
        if self.how == "mean":
            return losses.mean()
        if self.dp > 1 and self.how != "local":
            count = count.clone()
            dist.all_reduce(count, group=self.dpg)
        loss = total / count
        if self.how == "local" and self.dp > 1:
            loss = loss / self.dp
        loss.backward()
        report = loss.detach().clone()
        if self.dp > 1:
            dist.all_reduce(report, group=self.dpg)
        return report


def step(module):
    if module.dp > 1:
        for p in module.parameters():
            dist.all_reduce(p.grad, group=module.dpg)


def make(tp, dp):
    def make_inputs(rank, world):
        b = B * dp // (dp if world > 1 else 1)
        return torch.randn(b, S, H), torch.zeros(b, S, dtype=torch.long), torch.ones(b, S)

    return make_inputs


INT_HIGH = V


def truth_inputs():
    g = torch.Generator().manual_seed(3)
    b = B * DP
    return (
        torch.randn(b, S, H, generator=g, dtype=torch.float64),
        torch.randint(0, V, (b, S), generator=g),
        (torch.rand(b, S, generator=g) > 0.4).double(),
    )


DP = 1


def args(how, tp=2, dp=1):
    global DP
    DP = dp
    r = dict(
        build=lambda r, w: GPT(r, w, tp, how),
        make_inputs=make(tp, dp),
        world_size=tp * dp,
        mode="eager",
        backward=True,
        step=step,
    )
    if dp > 1:
        r["relations"] = {
            "mesh": {"dp": dp, "tp": tp},
            "relation": [
                {"name": n, "placement": "shard(0, dp)"} for n in ("hidden", "labels", "loss_mask")
            ]
            + [{"name": "head", "placement": "shard(0, tp)"}],
        }
    return r


def fix_tp():
    return args("global")


def fix_tp_dp():
    return args("global", 2, 2)


def bug_tp_dp_local_count():
    return args("local", 2, 2)
