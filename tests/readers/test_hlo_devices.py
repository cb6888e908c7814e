"""Groups of devices and shardings, in every form in which XLA writes them."""

from __future__ import annotations

import pytest

from gg_datalog.readers.hlo_devices import BadGroups, Devices, read_groups
from gg_datalog.readers.hlo_sharding import (
    UNKNOWN,
    read_meshes,
    read_sharding,
    read_shardings,
)

GROUPS = {
    "{{0,1},{2,3}}": [[0, 1], [2, 3]],
    "{{1, 0}}": [[1, 0]],
    "{}": [],
    "{{}}": [],
    "{0,1}": [[0, 1]],
    "[2,4]<=[8]": [[0, 1, 2, 3], [4, 5, 6, 7]],
    "[4,2]<=[2,4]T(1,0)": [[0, 4], [1, 5], [2, 6], [3, 7]],
    "mesh['a'=2,'b'=2] {'b'}": [[0, 1], [2, 3]],
    "mesh['a'=2,'b'=2] {'a'}": [[0, 2], [1, 3]],
    "mesh[a=2,b=2] {a,b}": [[0, 1, 2, 3]],
    "mesh['a'=2,'b'=2] {'b','a'}": [[0, 2, 1, 3]],
    "mesh['a'=4] {'a':(1)2}": [[0, 2], [1, 3]],
    "mesh['a'=4] {'a':(2)2}": [[0, 1], [2, 3]],
    "mesh['a'=2,'b'=2], device_ids=([2,2]<=[2,2]T(1,0)) {'b'}": [[0, 2], [1, 3]],
}


@pytest.mark.parametrize("text", GROUPS)
def test_groups(text: str) -> None:
    assert sorted(read_groups(text)) == sorted(GROUPS[text])


@pytest.mark.parametrize(
    "text", ["[2,4]<=[9]", "[8]<=[8]", "[2,4]<=[2,4]T(0,0)", "what", "mesh[a=2] {b}"]
)
def test_groups_that_do_not_make_sense(text: str) -> None:
    with pytest.raises(BadGroups):
        read_groups(text)


@pytest.mark.parametrize(
    ("channel", "flat", "text", "rank", "expected"),
    [
        (False, False, "{{0,1}}", 1, (1, 3)),  # replicas, each with its own partition
        (True, False, "{{0,1}}", 1, (0, 1, 2, 3)),  # replicas with all their partitions
        (True, True, "{{0,3},{1,2}}", 1, (1, 2)),  # ranks
        (True, None, "{{0,1}}", 3, (2, 3)),  # partitions of one replica
        (False, False, "{}", 2, (0, 2)),
        (True, True, "{}", 2, (0, 1, 2, 3)),
    ],
)
def test_what_ids_mean(
    channel: bool, flat: bool | None, text: str, rank: int, expected: tuple[int, ...]
) -> None:
    assert Devices(2, 2).groups(text, channel, flat, rank) == expected


def test_a_device_in_no_group_and_one_too_many() -> None:
    assert Devices(4, 1).groups("{{0,1}}", False, False, 3) is None
    with pytest.raises(BadGroups):
        Devices(2, 1).groups("{{0,2}}", False, False, 0)


SHARDINGS = {
    # text: (whole, part, device, box or None)
    "{devices=[2,1]<=[2]}": ((8, 4), (4, 4), 1, [[4, 8], [0, 4]]),
    "{devices=[1,2,2]<=[4] last_tile_dim_replicate}": ((8, 4), (8, 2), 3, [[0, 8], [2, 4]]),
    "{devices=[1,2,2]<=[2,2]T(1,0) last_tile_dim_replicate}": ((8, 4), (8, 2), 2, [[0, 8], [0, 2]]),
    "{devices=[2,2]0,2,1,3}": ((8, 4), (4, 2), 2, [[0, 4], [2, 4]]),
    '{devices=[2,2]0,2,1,3 metadata={op_name="a"}}': ((8, 4), (4, 2), 2, [[0, 4], [2, 4]]),
    "{devices=[2,1,2]<=[4] last_tile_dims={replicated}}": ((8, 4), (4, 4), 2, [[4, 8], [0, 4]]),
    "{devices=[4,1]<=[4]}": ((10, 4), (3, 4), 3, [[9, 10], [0, 4]]),
    "{replicated}": ((8, 4), (8, 4), 1, [[0, 8], [0, 4]]),
    "{maximal device=1}": ((8, 4), (8, 4), 1, [[0, 8], [0, 4]]),
    "{mesh['a'=2,'b'=2], [{'b'}, {'a'}]}": ((8, 4), (4, 2), 1, [[4, 8], [0, 2]]),
    "{mesh['a'=2,'b'=2], [{'a', 'b'}, {?}]}": ((8, 4), (2, 4), 3, [[6, 8], [0, 4]]),
    "{mesh['a'=2], replicated}": ((8, 4), (8, 4), 1, [[0, 8], [0, 4]]),
}


@pytest.mark.parametrize("text", SHARDINGS)
def test_shardings(text: str) -> None:
    whole, part, device, box = SHARDINGS[text]
    found = read_sharding(text, 2).boxes(device, whole, part)
    assert found is not None and found[0] == box
    assert [hi - lo for lo, hi in found[0]] == [hi - lo for lo, hi in found[1]]


@pytest.mark.parametrize(
    "text",
    [
        "{manual}",
        "{unknown}",
        "{devices=[2,1,2]<=[4] last_tile_dims={manual}}",
        "{devices=[1,1,2,2]<=[4] last_tile_dims={replicated, manual}}",
        "{mesh['a'=2], [{}, {}], unreduced={'a'}}",
        "{mesh['a'=2], manual}",
    ],
)
def test_shardings_that_do_not_tell(text: str) -> None:
    assert read_sharding(text, 2) == UNKNOWN


def test_padding_alone_and_the_other_devices_have_nothing() -> None:
    assert read_sharding("{devices=[4]<=[4]}", 1).boxes(3, (6,), (2,)) is None
    assert read_sharding("{maximal device=1}", 1).boxes(0, (6,), (6,)) is None


def test_a_sharding_has_to_fit_its_parameter() -> None:
    with pytest.raises(BadGroups):
        read_sharding("{devices=[2]<=[2]}", 1).boxes(0, (8,), (8,))
    with pytest.raises(BadGroups):
        read_sharding("{devices=[2,3]<=[6]}", 1)
    with pytest.raises(BadGroups):
        read_sharding("{devices=[2]<=[2]}", 1).boxes(2, (8,), (4,))


def test_tuples_and_the_form_of_shardy() -> None:
    assert read_shardings("{{replicated}, {devices=[2]<=[2]}}", [1, 1], {})[1].tiles == (2,)
    meshes = read_meshes('{xla.sdy.meshes="{m = #sdy.mesh<[\\"a\\"=2, \\"b\\"=4]>}"}')
    text = '#sdy.sharding<@m, [{"b"}, {"a", ?}]>'
    (found,) = read_shardings(text, [2], meshes, shardy=True)
    assert found.tiles == (4, 2) and found.places[5] == (1, 1)
