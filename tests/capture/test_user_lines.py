"""Lines are the user's: never those of a decorator that torch takes from what it is built on."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="capture traces programs with torch")

import torch
import torch.distributed as dist
import typing_extensions
from torch import nn

from gg_datalog import capture
from gg_datalog.tracing.source import is_library


class Gathered(nn.Module):
    """Gathers by a function that torch has decorated as deprecated."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = torch.empty(x.shape[0] * dist.get_world_size(), x.shape[1])
        dist._all_gather_base(out, x)
        return out


@pytest.mark.filterwarnings("ignore:.*deprecated:FutureWarning")
def test_a_decorated_function_of_torch() -> None:
    pair = capture(
        lambda rank, world: Gathered(),
        lambda rank, world: (torch.empty(4 // world, 2),),
        world_size=2,
        mode="eager",
        jobs=0,
    )
    sources = [n["source"] for n in pair.documents.dist[0]["nodes"] if "gather" in n["name"]]
    assert sources and all("test_user_lines.py" in (source or "") for source in sources)


def test_what_torch_requires_is_no_program_of_the_user() -> None:
    assert is_library(typing_extensions.__file__)
    assert not is_library(pytest.__file__) and not is_library(__file__)
