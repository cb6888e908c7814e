"""A pipeline of two stages, micro-batch by micro-batch, with forward and backward by hand.

    verify(capture(**arguments()))          # refines
    verify(capture(**arguments(bug=True)))  # the last stage takes targets of another micro-batch

All micro-batches go forward, then all go backward (GPipe). A rank has the parameters of its stage
only, and only the last one has the loss. The sequential program is both stages in a row.
"""

from __future__ import annotations

from functools import partial, reduce
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

BATCH, HIDDEN, FFN, MICRO_BATCHES = 6, 6, 10, 3


class Stage(nn.Module):
    """Two layers with a residual connection."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(HIDDEN, FFN)
        self.down = nn.Linear(FFN, HIDDEN)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(torch.relu(self.up(x)))


class Model(nn.Module):
    """Some of the stages."""

    def __init__(self, *numbers: int) -> None:
        super().__init__()
        self.stages = nn.ModuleDict({str(number): Stage() for number in numbers})


class Sequential(Model):
    """Both stages over the whole batch."""

    def forward(self, x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        loss = F.mse_loss(self.stages["1"](self.stages["0"](x)), target)
        loss.backward()
        return loss.detach()


class FirstStage(Model):
    """Sends activations and receives their gradients."""

    def forward(self, x: torch.Tensor, target: torch.Tensor) -> None:
        sent = []
        for piece in x.chunk(MICRO_BATCHES):
            sent.append(self.stages["0"](piece))
            dist.send(sent[-1].detach(), 1)
        for activation in sent:
            grad = torch.empty_like(activation)
            dist.recv(grad, 1)
            activation.backward(grad)


class LastStage(Model):
    """Receives activations, has the loss, and sends gradients back."""

    bug = False

    def loss(self, x: torch.Tensor, targets: tuple[torch.Tensor, ...], i: int) -> torch.Tensor:
        """The loss of a micro-batch, as it counts in the mean."""
        result = self.stages["1"](x)
        if self.bug:
            return F.mse_loss(result, targets[i - 1]) / MICRO_BATCHES  # planted: not its targets
        return F.mse_loss(result, targets[i]) / MICRO_BATCHES

    def forward(self, x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        targets = target.chunk(MICRO_BATCHES)
        received, losses = [], []
        for i in range(MICRO_BATCHES):
            piece = torch.empty_like(x.chunk(MICRO_BATCHES)[i])
            dist.recv(piece, 0)
            received.append(piece.requires_grad_())
            losses.append(self.loss(piece, targets, i))
        for piece, loss in zip(received, losses, strict=True):
            loss.backward()
            assert piece.grad is not None
            dist.send(piece.grad, 0)
        return reduce(torch.add, losses).detach()


def build(rank: int, world_size: int, bug: bool = False) -> nn.Module:
    """The program of one rank."""
    if rank == 0:
        return FirstStage(0)
    stage = LastStage(1)
    stage.bug = bug
    return stage


def sequential(rank: int, world_size: int) -> nn.Module:
    """Both stages."""
    return Sequential(0, 1)


def make_inputs(rank: int, world_size: int) -> tuple[torch.Tensor, ...]:
    """Both ranks load the whole batch, and use their end of it."""
    return torch.randn(BATCH, HIDDEN), torch.randn(BATCH, HIDDEN)


def arguments(bug: bool = False) -> dict[str, Any]:
    """What to call `gg_datalog.capture` with; the programs run backward themselves."""
    return {
        "build": partial(build, bug=bug),
        "make_inputs": make_inputs,
        "world_size": 2,
        "mode": "eager",
        "sequential": sequential,
        "backward": True,
    }
