"""What buffers hold is computed while programs are built, and says which part a rank has."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from gg_datalog import capture, verify  # noqa: E402
from gg_datalog.foundation.errors import InputError  # noqa: E402
from gg_datalog.tracing.pair import Pair  # noqa: E402

ROWS, WIDTH = 8, 4
Build = Callable[["Net", int, int], None]


class Net(nn.Module):  # type: ignore[misc]
    """Adds a table to its rows."""

    def __init__(self, build: Build, rank: int, ranks: int) -> None:
        super().__init__()
        build(self, rank, ranks)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.table


def angles(first: int, count: int) -> torch.Tensor:
    """Rows of a rotary table."""
    frequencies = 1.0 / 10000 ** (torch.arange(0, WIDTH, 1).float() / WIDTH)
    return torch.outer(torch.arange(first, first + count).float(), frequencies).cos()


def pair(build: Build, mode: str = "eager", relations: Any = None, ranks: int = 2) -> Pair:
    def inputs(rank: int, world: int) -> tuple[torch.Tensor, ...]:
        return (torch.zeros(ROWS // world, WIDTH),)

    return capture(
        lambda r, n: Net(build, r, n), inputs, world_size=ranks, mode=mode, jobs=0,
        relations=relations,
    )  # fmt: skip


def whole(build: Callable[[int, int], torch.Tensor]) -> Build:
    """A table that is a buffer which no checkpoint has."""

    def at(module: Net, rank: int, ranks: int) -> None:
        count = ROWS // ranks
        module.register_buffer("table", build(rank * count, count), persistent=False)

    return at


def in_pieces(first: int, count: int) -> torch.Tensor:
    """Written into memory that was empty."""
    table = torch.empty(count, WIDTH)
    for row in range(count):
        table[row].copy_(angles(first + row, 1)[0])
    return table


def written(first: int, count: int) -> torch.Tensor:
    """All of it, then parts of it once more."""
    table = torch.zeros(count, WIDTH)
    table[:, 1:] = angles(first, count)[:, 1:]
    table[:, 0].fill_(1.0).mul_(torch.arange(first, first + count))
    return table


REFUSED = {"eager": "does-not-refine", "dynamo": "inconclusive"}  # by numbers, and without


@pytest.mark.parametrize("mode", REFUSED)
@pytest.mark.parametrize("table", [angles, written], ids=["outer", "written"])
def test_the_offset_of_a_table(table: Callable[[int, int], torch.Tensor], mode: str) -> None:
    right = pair(whole(table), mode)
    assert verify(right).verdict == "refines"
    assert right.documents.about["warnings"] == []
    kinds = [row["kind"] for row in right.documents.about["assumptions"]]
    assert "computed values" in kinds
    wrong = pair(whole(lambda first, count: table(0, count)), mode)
    assert verify(wrong, confirm=60 if mode == "eager" else 0).verdict == REFUSED[mode]
    (warning,) = wrong.documents.about["warnings"]
    assert warning == (
        "buffer `table` of rank 1 holds [0:4, 0:4] of the sequential one, as their values show, "
        "where its place among the ranks lets expect [4:8, 0:4]"
    )


def test_memory_that_is_filled_in_pieces_is_not_known() -> None:
    """Rows of what was empty: not all of it is known to be written."""
    found = pair(whole(in_pieces)).documents.about
    assert "computed values" not in [row["kind"] for row in found["assumptions"]]


def test_zig_zag() -> None:
    """Rank r of n holds chunks r and 2n - 1 - r: the table says so itself."""

    def build(module: Net, rank: int, ranks: int) -> None:
        rows = angles(0, ROWS).chunk(2 * ranks)
        module.table = torch.cat([rows[rank], rows[2 * ranks - 1 - rank]])

    halves = [
        {"rank": r, "sequential": [[2 * c, 2 * c + 2], [0, 4]], "distributed": [[2 * i, 2 * i + 2], [0, 4]]}
        for r in range(2)
        for i, c in enumerate((r, 3 - r))
    ]  # fmt: skip
    found = pair(build, relations={"relation": [{"name": "x", "pieces": halves}]})
    rows = [row for row in found.documents.relations or [] if row["dist"] == "attribute_table"]
    assert [row["seq_box"][0] for row in rows] == [[0, 2], [6, 8], [2, 6]]
    assert verify(found).verdict == "refines"


def test_kinds_of_numbers() -> None:
    """Numbers in tensors are constants; a mask and a table of indices keep their values."""

    def build(module: Net, rank: int, ranks: int) -> None:
        module.register_buffer("table", torch.full((), 1 / math.sqrt(WIDTH)), persistent=False)
        if ranks == 1:
            module.table = torch.tensor(0.25)
        else:
            module.table = torch.tensor(1.0) / 4

    found = pair(build)
    values = [
        row.get("value")
        for graph in (found.documents.seq, *found.documents.dist.values())
        for row in graph["nodes"]
        if row["op"] == "get_attr"
    ]
    assert values == [0.25] * 3
    assert verify(found).verdict == "refines"

    def other(module: Net, rank: int, ranks: int) -> None:
        module.table = torch.tensor(0.25 / ranks)

    assert verify(pair(other)).verdict == "does-not-refine"


def test_what_a_checkpoint_may_replace_is_guessed() -> None:
    def build(module: Net, rank: int, ranks: int) -> None:
        module.register_buffer("table", torch.zeros(ROWS // ranks, WIDTH))

    found = pair(build).documents.about["assumptions"]
    assert [row["kind"] for row in found] == ["guessed relation"]


def test_what_is_drawn_is_guessed() -> None:
    def build(module: Net, rank: int, ranks: int) -> None:
        table = torch.ones(ROWS // ranks, WIDTH)
        table.view(-1)[: WIDTH * 2].normal_()
        module.register_buffer("table", table, persistent=False)

    found = pair(build).documents.about["assumptions"]
    assert [row["kind"] for row in found] == ["guessed relation"]


def test_what_a_program_writes_is_guessed() -> None:
    class Counting(Net):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.table += 1
            return x * self.table

    def inputs(rank: int, world: int) -> tuple[torch.Tensor, ...]:
        return (torch.zeros(ROWS // world, WIDTH),)

    build = whole(angles)
    found = capture(lambda r, n: Counting(build, r, n), inputs, world_size=2, mode="eager", jobs=0)
    kinds = [row["kind"] for row in found.documents.about["assumptions"]]
    assert kinds == ["guessed relation"]


def test_values_that_are_not_there() -> None:
    """A rank's table that has nothing of the sequential one is taken for nothing."""

    def build(module: Net, rank: int, ranks: int) -> None:
        table = angles(0, ROWS) if ranks == 1 else 2.0 + angles(rank * 4, 4)
        module.register_buffer("table", table, persistent=False)

    found = pair(build)
    assert [row for row in found.documents.relations or [] if row["dist"] == "table"] == []
    assert "holds nothing of what the sequential one holds" in "".join(
        found.documents.about["warnings"]
    )
    assert verify(found, confirm=60).verdict == "does-not-refine"


def reduced(module: Net, rank: int, ranks: int) -> None:
    table = torch.tensor(0.25)
    if ranks > 1:
        torch.distributed.all_reduce(table)
    module.table = table


def sent(module: Net, rank: int, ranks: int) -> None:
    module.register_buffer("table", angles(rank * 4, ROWS // ranks), persistent=False)
    if ranks > 1:
        torch.distributed.broadcast(module.table, 0)


def behind_its_back(module: Net, rank: int, ranks: int) -> None:
    """Through a view that is too large to be computed."""
    module.register_buffer("table", angles(rank * 4, ROWS // ranks), persistent=False)
    if ranks > 1:
        module.table.expand(300_000, 4, WIDTH)[3].mul_(2)


def through_another(module: Net, rank: int, ranks: int) -> None:
    module.register_buffer("table", angles(rank * 4, ROWS // ranks), persistent=False)
    if ranks > 1:
        other = torch.empty(4, WIDTH)
        other.set_(module.table.untyped_storage(), 0, (4, WIDTH), (WIDTH, 1))
        other.mul_(3)


@pytest.mark.parametrize("build", [reduced, sent, behind_its_back, through_another])
def test_what_is_written_otherwise_is_not_known(build: Build) -> None:
    found = pair(build).documents.about["assumptions"]
    assert {row["kind"] for row in found} == {"guessed relation"}


SLOPES = {
    "tiny": lambda: 10.0 ** -torch.arange(7, 15).float(),
    "bfloat16": lambda: (2.0 ** -torch.arange(4, 12).float()).bfloat16(),
    "float16": lambda: (2.0 ** -torch.arange(4, 12).float() / 16).half(),
}


@pytest.mark.parametrize("name", SLOPES)
def test_numbers_that_lie_close(name: str) -> None:
    """None of the slopes is another one."""

    def build(module: Net, rank: int, ranks: int) -> None:
        slopes = SLOPES[name]()[:, None]
        module.table = slopes if ranks == 1 else slopes[:4]

    (warning,) = pair(build).documents.about["warnings"]
    assert "attribute `table` of rank 1 holds [0:4, 0:1]" in warning


def test_building_may_read_what_is_known() -> None:
    def build(module: Net, rank: int, ranks: int) -> None:
        (first,) = torch.arange(2)[1:].tolist()
        module.table = angles(rank * 4 * first, ROWS // ranks)

    assert verify(pair(build)).refines


def test_numbers_are_those_that_are_there() -> None:
    """A rank leaves out what a mask hides: with any other mask that would be wrong."""

    class Masked(Net):
        half: slice | None = None

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            scores = x @ x.t()
            if self.half is None:
                return (scores * self.table) @ x
            rows = (scores[self.half] * self.table)[:, : self.half.stop]
            return rows @ x[: self.half.stop]

    def build(module: Net, rank: int, ranks: int) -> None:
        whole = torch.tril(torch.ones(ROWS, ROWS))
        if ranks > 1:
            module.half = slice(rank * 4, rank * 4 + 4)  # type: ignore[assignment]
            whole = whole[module.half]  # type: ignore[index]
        module.table = whole

    found = capture(
        lambda r, n: Masked(build, r, n), lambda r, n: (torch.zeros(ROWS, WIDTH),), world_size=2,
        mode="eager", jobs=0,
    )  # fmt: skip
    assert verify(found, confirm=60).verdict in ("refines", "inconclusive")


class Meshed(nn.Module):  # type: ignore[misc]
    """Checks a mesh as frameworks do, and has what they find."""

    def __init__(self, rank: int, ranks: int) -> None:
        super().__init__()
        places = torch.arange(ranks)
        mesh = places.view(ranks, 1)
        assert torch.equal(torch.unique(places), torch.unique(mesh))
        assert torch.unique(mesh).numel() == ranks
        found = torch.nonzero(mesh == rank)
        assert found.tolist() == [[rank, 0]]
        first = int(found[0, 0]) * (ROWS // ranks)
        self.register_buffer("table", angles(first, ROWS // ranks), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.table


def test_sizes_that_follow_from_known_values() -> None:
    def inputs(rank: int, world: int) -> tuple[torch.Tensor, ...]:
        return (torch.zeros(ROWS // world, WIDTH),)

    one = capture(Meshed, inputs, world_size=2, mode="eager", jobs=0)
    assert verify(one).refines
    assert any("computed values" in row["kind"] for row in one.documents.about["assumptions"])


def test_a_size_of_what_is_not_known() -> None:
    def build(module: Net, rank: int, ranks: int) -> None:
        module.table = nn.Parameter(torch.randn(ROWS // ranks, WIDTH))
        torch.unique(module.table.detach())

    with pytest.raises(InputError, match="the size of a result depends on data"):
        pair(build)


def test_known_values_that_were_overwritten_are_not_known() -> None:
    def build(module: Net, rank: int, ranks: int) -> None:
        places = torch.arange(ROWS)
        places.random_(0, ROWS)
        torch.unique(places)

    with pytest.raises(InputError, match="the size of a result depends on data"):
        pair(build)


def test_memory_that_is_freed_says_nothing_of_what_comes_after() -> None:
    """Parameters that are given other memory again and again, between known values."""

    def at(module: Net, rank: int, ranks: int) -> None:
        first, count = rank * (ROWS // ranks), ROWS // ranks
        for _ in range(50):
            weight = nn.Parameter(torch.randn(ROWS, WIDTH))
            weight.data = torch.randn(count, WIDTH)
            places = torch.arange(ROWS)
            assert torch.unique(places).numel() == ROWS
            setattr(module, f"w{_}", weight)
        module.register_buffer("table", angles(first, count), persistent=False)

    assert verify(pair(at), confirm=0, repairs=False).refines


@pytest.mark.parametrize("first", [1, 0])
def test_a_rank_that_holds_one_number_of_several(first: int) -> None:
    def slopes(module: Net, rank: int, ranks: int) -> None:
        start = rank * first if ranks > 1 else 0
        values = torch.tensor([0.5**i for i in range(ROWS)])
        module.register_buffer("table", values[start : start + ROWS // ranks, None], False)

    found = verify(pair(slopes, ranks=ROWS))
    assert (found.verdict == "refines") == (first == 1)
