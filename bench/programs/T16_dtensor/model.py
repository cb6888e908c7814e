"""parallelize_module plans: Colwise/Rowwise, SequenceParallel, PrepareModuleInput, loss_parallel; 2-d with fully_shard."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    loss_parallel,
    parallelize_module,
)

B, S, H, FF, NH, V = 2, 4, 8, 16, 4, 8


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(H, H, bias=False) for _ in range(4))

    def forward(self, x):
        b, s, _ = x.shape
        q, k, v = (
            w(x).view(b, s, -1, H // NH).transpose(1, 2) for w in (self.wq, self.wk, self.wv)
        )
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.wo(a.transpose(1, 2).reshape(b, s, -1))


class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.w1, self.w2, self.w3 = (
            nn.Linear(H, FF, bias=False),
            nn.Linear(FF, H, bias=False),
            nn.Linear(H, FF, bias=False),
        )

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.attn, self.mlp, self.n1, self.n2 = Attention(), MLP(), nn.RMSNorm(H), nn.RMSNorm(H)

    def forward(self, x):
        x = x + self.attn(self.n1(x))
        return x + self.mlp(self.n2(x))


class Net(nn.Module):
    def __init__(self, head=True):
        super().__init__()
        self.emb = nn.Embedding(V, H)
        self.layers = nn.ModuleList(Block() for _ in range(2))
        self.norm = nn.RMSNorm(H)
        self.out = nn.Linear(H, V, bias=False)

    def forward(self, tokens, target):
        x = self.emb(tokens)
        for layer in self.layers:
            x = layer(x)
        return F.cross_entropy(self.out(self.norm(x)).flatten(0, 1), target.flatten(0, 1))


def plan_tp(net, mesh, bug=None):
    parallelize_module(net, mesh, {"out": ColwiseParallel(output_layouts=Replicate())})
    for layer in net.layers:
        parallelize_module(
            layer,
            mesh,
            {
                "attn.wq": ColwiseParallel(),
                "attn.wk": ColwiseParallel(),
                "attn.wv": ColwiseParallel(),
                "attn.wo": RowwiseParallel()
                if bug != "row"
                else RowwiseParallel(output_layouts=Shard(-1), use_local_output=True),
                "mlp.w1": ColwiseParallel(),
                "mlp.w3": ColwiseParallel(),
                "mlp.w2": RowwiseParallel(),
            },
        )


def plan_sp(net, mesh):
    parallelize_module(
        net,
        mesh,
        {
            "emb": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)),
            "norm": SequenceParallel(),
            "out": ColwiseParallel(input_layouts=Shard(1), output_layouts=Replicate()),
        },
    )
    for layer in net.layers:
        parallelize_module(
            layer,
            mesh,
            {
                "n1": SequenceParallel(),
                "n2": SequenceParallel(),
                "attn": PrepareModuleInput(
                    input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),)
                ),
                "attn.wq": ColwiseParallel(),
                "attn.wk": ColwiseParallel(),
                "attn.wv": ColwiseParallel(),
                "attn.wo": RowwiseParallel(output_layouts=Shard(1)),
                "mlp": PrepareModuleInput(
                    input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),)
                ),
                "mlp.w1": ColwiseParallel(),
                "mlp.w3": ColwiseParallel(),
                "mlp.w2": RowwiseParallel(output_layouts=Shard(1)),
            },
        )


def build(rank, world, plan, fsdp=False, **kw):
    net = Net()
    if world > 1:
        if fsdp:
            mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
            plan(net, mesh["tp"], **kw)
            for layer in net.layers:
                fully_shard(layer, mesh=mesh["dp"])
            fully_shard(net, mesh=mesh["dp"])
        else:
            plan(net, init_device_mesh("cpu", (world,)), **kw)
    return net


def inputs(rank, world):
    return torch.zeros(B, S, dtype=torch.long), torch.zeros(B, S, dtype=torch.long)


INT_HIGH = V


def args(plan=plan_tp, w=2, **kw):
    return dict(
        build=lambda r, w: build(r, w, plan, **kw),
        make_inputs=inputs,
        world_size=w,
        mode="eager",
        backward=True,
    )


def fix():
    return args()


def keep_sp():
    return args(plan_sp)


def keep_4():
    return args(w=4)


def keep_dynamo():
    return dict(args(), mode="dynamo")


def keep_sp_dynamo():
    return dict(args(plan_sp), mode="dynamo")


class Avg(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, g):
        x = x.clone()
        dist.all_reduce(x, group=g)
        return x / 2

    @staticmethod
    def backward(ctx, g):
        return g, None


def fsdp_inputs(rank, world):
    b = B // 2 if world > 1 else B
    return torch.zeros(b, S, dtype=torch.long), torch.zeros(b, S, dtype=torch.long)


def fsdp_loss(out, *_):
    if dist.get_world_size() == 1:
        return out
    rank = dist.get_rank()
    groups = [dist.new_group([0, 2]), dist.new_group([1, 3])]
    return Avg.apply(out, groups[rank % 2])


def place(name, full, rank, world):
    if name in ("tokens", "target") and world == 4 and FSDP:
        return full.chunk(2)[rank // 2]
    return NotImplemented


FSDP = False


def bug_fsdp_tp_mean_of_means():
    global FSDP
    FSDP = True
    return dict(
        args(w=4, fsdp=True),
        make_inputs=fsdp_inputs,
        loss=fsdp_loss,
        relations={
            "mesh": {"dp": 2, "tp": 2},
            "relation": [
                {"name": "tokens", "placement": "shard(0, dp)"},
                {"name": "target", "placement": "shard(0, dp)"},
            ],
        },
    )


class LossParallel(Net):
    def forward(self, tokens, target):
        x = self.emb(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.out(self.norm(x))


def lp_build(rank, world):
    net = LossParallel()
    if world > 1:
        plan = init_device_mesh("cpu", (world,))
        parallelize_module(
            net, plan, {"out": ColwiseParallel(output_layouts=Shard(-1), use_local_output=False)}
        )
    return net


def lp_loss(out, tokens, target):
    if dist.get_world_size() == 1:
        return F.cross_entropy(out.flatten(0, 1), target.flatten())
    with loss_parallel():
        return F.cross_entropy(out.flatten(0, 1), target.flatten())


def keep_loss_parallel_forward():
    return dict(args(), build=lp_build, loss=lp_loss, backward=False)


def manual_bug(net, mesh):
    """The MLP's second matrix is cut like a column: sizes fit, the reduction is missing."""
    plan_tp(net, mesh)
    for layer in net.layers:
        layer.mlp.w2.register_forward_hook(lambda m, i, o: o * 2)


def bug():
    return args(manual_bug)


def bad_norm(net, mesh):
    plan_sp(net, mesh)
    net.layers[1].n2.register_forward_hook(
        lambda m, i, o: (
            DTensor.from_local(o.to_local(), o.device_mesh, [Replicate()]).redistribute(
                placements=[Shard(1)]
            )
            if isinstance(o, DTensor)
            else o
        )
    )


def bug_plain():
    return args(bad_norm)
