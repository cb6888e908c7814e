"""torch.nn.parallel.DistributedDataParallel itself, with small buckets, no_sync, a compression hook, unused-free model; with SGD."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

B, H, FF = 8, 4, 8


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down, self.norm = nn.Linear(H, FF), nn.Linear(FF, H), nn.LayerNorm(H)

    def forward(self, x, target):
        return F.mse_loss(x + self.down(F.gelu(self.up(self.norm(x)))), target)


class Avg(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x = x.clone()
        dist.all_reduce(x)
        return x / dist.get_world_size()

    @staticmethod
    def backward(ctx, g):
        return g


def loss(out, *_):
    return Avg.apply(out) if dist.get_world_size() > 1 else out


def sum_hook(state, bucket):
    return dist.all_reduce(bucket.buffer(), async_op=True).get_future().then(lambda f: f.value()[0])


def bf16_hook(state, bucket):
    t = bucket.buffer().to(torch.bfloat16).div_(dist.get_world_size())
    return (
        dist.all_reduce(t, async_op=True)
        .get_future()
        .then(lambda f: f.value()[0].to(bucket.buffer().dtype))
    )


def build(rank, world, hook=None, **kw):
    net = Net()
    if world > 1:
        net = DDP(net, **kw)
        if hook:
            net.register_comm_hook(None, hook)
    return net


def step(module):
    with torch.no_grad():
        for p in module.parameters():
            p.sub_(0.1 * p.grad)


def args(w=2, **kw):
    return dict(
        build=lambda r, w: build(r, w, **kw),
        make_inputs=lambda r, w: (torch.randn(B // w, H), torch.randn(B // w, H)),
        world_size=w,
        mode="eager",
        backward=True,
        loss=loss,
        step=step,
    )


def fix():
    return args()


def keep_buckets_4():
    return args(4, bucket_cap_mb=1e-4)


def keep_bf16_hook():
    return args(hook=bf16_hook)


def keep_gradient_as_bucket_view():
    return args(gradient_as_bucket_view=True)


def bug():
    return args(hook=sum_hook)
