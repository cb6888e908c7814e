"""vLLM #-style: attention output projection or MLP down projection without all-reduce; a fused residual norm that sees partial sums."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

T, H, HEADS, FF = 6, 8, 4, 12


def tensor_model_parallel_all_reduce(x):
    if dist.get_world_size() == 1:
        return x
    x = x.clone()
    dist.all_reduce(x)
    return x


class Layer(nn.Module):
    def __init__(self, world, how):
        super().__init__()
        self.how, self.world = how, world
        self.n = HEADS // world
        self.ln1, self.ln2 = nn.RMSNorm(H, eps=1e-5), nn.RMSNorm(H, eps=1e-5)
        self.q = nn.Linear(H, H // world, bias=False)
        self.k = nn.Linear(H, H // world, bias=False)
        self.v = nn.Linear(H, H // world, bias=False)
        self.o = nn.Linear(H // world, H, bias=False)
        self.gate = nn.Linear(H, FF // world, bias=False)
        self.up = nn.Linear(H, FF // world, bias=False)
        self.down = nn.Linear(FF // world, H, bias=False)

    def attn(self, x):
        q, k, v = [p(x).view(T, self.n, -1).transpose(0, 1) for p in (self.q, self.k, self.v)]
        return self.o(
            F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(0, 1).reshape(T, -1)
        )

    def forward(self, x):
        a = self.attn(self.ln1(x))
        if self.how not in ("attn", "late"):
            a = tensor_model_parallel_all_reduce(a)
        x = x + a
        h = self.ln2(x)
        m = self.down(F.silu(self.gate(h)) * self.up(h))
        if (
            self.how == "late"
        ):  # parallel attention (GPT-J) reduces both at once; a serial block may not
            return x - a + tensor_model_parallel_all_reduce(a + m)
        if self.how != "mlp":
            m = tensor_model_parallel_all_reduce(m)
        return x + m


class Parallel(Layer):
    """GPT-J / Falcon: attention and MLP from the same norm, one reduction for both"""

    def forward(self, x):
        h = self.ln1(x)
        return x + tensor_model_parallel_all_reduce(
            self.attn(h) + self.down(F.silu(self.gate(h)) * self.up(h))
        )


def case(how, kind=Layer, world=2):
    return dict(
        build=lambda r, w: kind(w, how if w > 1 else "ok").requires_grad_(False),
        make_inputs=lambda: (torch.randn(T, H),),
        world_size=world,
        mode="eager",
    )


def fix():
    return case("ok")


def keep_parallel():
    return case("ok", Parallel)


def keep_parallel_tp4():
    return case("ok", Parallel, 4)


def bug_attention():
    return case("attn")


def bug_mlp():
    return case("mlp")


def bug_serial_late():
    return case("late")
