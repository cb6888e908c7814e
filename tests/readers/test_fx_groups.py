"""Process groups by option, and forward and backward graphs as one program."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gg_datalog.foundation.errors import InputError
from gg_datalog.readers import ReaderInput
from gg_datalog.readers.fx_text import read

from ..command import run as cli


def rank(tmp_path: Path, name: str, *groups: str, size: int = 0) -> Path:
    """A graph that calls a collective of every group; with a size, it gathers."""
    lines = ["class G(torch.nn.Module):", '    def forward(self, x: "f32[8]"):']
    for number, group in enumerate(groups):
        kind, rest = ("all_gather_into_tensor", f"{size}") if size else ("all_reduce", "'sum'")
        call = f"torch.ops._c10d_functional.{kind}.default(x, {rest}, '{group}')"
        lines.append(f'        y_{number}: "f32[{8 * (size or 1)}]" = {call}')
    file = tmp_path / f"{name}.txt"
    file.write_text("\n".join([*lines, "        return (x,)", ""]))
    return file


def groups(tmp_path: Path, ranks: list[list[str]], **given: tuple[int, ...]) -> Any:
    """The distributed groups of a program; keywords are options, `_` for `:`."""
    files = [rank(tmp_path, "seq")]
    files += [rank(tmp_path, f"r{number}", *names) for number, names in enumerate(ranks)]
    named = {key.lstrip("g").replace("_", ":"): members for key, members in given.items()}
    found = read(ReaderInput(files, named)).groups
    return found and [(e["ranks"], e["names"]) for e in found["dist"]]


def test_no_groups(tmp_path: Path) -> None:
    assert groups(tmp_path, [["12"], ["12"]]) is None


def test_one_name_on_every_rank(tmp_path: Path) -> None:
    found = groups(tmp_path, [["12", "7"], ["12", "7"]], g12=(0, 1), g7=(0, 1))
    names = [{"0": name, "1": name} for name in ("12", "7")]
    assert found == [([0, 1], names[0]), ([0, 1], names[1])]


def test_names_rank_by_rank(tmp_path: Path) -> None:
    """By the name that ranks share, else in the order of the options."""
    ranks = [["12", "13"], ["7", "13"]]
    given: dict[str, tuple[int, ...]] = {"g0_12": (0, 1), "g0_13": (0, 1), "g1_13": (0, 1)}
    found = groups(tmp_path, ranks, **given, g1_7=(0, 1))
    assert found == [([0, 1], {"0": "12", "1": "7"}), ([0, 1], {"0": "13", "1": "13"})]
    found = groups(tmp_path, [["12"], ["7"]], g12=(0, 1), g1_7=(0, 1))
    assert found == [([0, 1], {"0": "12", "1": "7"})]


def test_one_name_for_several_groups(tmp_path: Path) -> None:
    ranks = [["12"], ["12"], ["12"], ["12"]]
    given: dict[str, tuple[int, ...]] = {f"g{r}_12": (0, 1) if r < 2 else (2, 3) for r in range(4)}
    assert groups(tmp_path, ranks, **given) == [
        ([0, 1], {"0": "12", "1": "12"}),
        ([2, 3], {"2": "12", "3": "12"}),
    ]
    found = groups(tmp_path, ranks, g12=(0, 1), g2_12=(2, 3), g3_12=(2, 3))
    assert found == [([0, 1], {"0": "12", "1": "12"}), ([2, 3], {"2": "12", "3": "12"})]


@pytest.mark.parametrize(
    ("ranks", "given", "told"),
    [
        ([["12"], ["7"]], {"g12": (0, 1)}, r"r1.txt:3: node `y_0` of rank 1: its group `7`"),
        ([["12"], ["12"]], {"g12": (0, 2)}, "no file for rank 2"),
        ([["12"], ["12"]], {"g12": (0, 0)}, "named twice"),
        ([["12"], ["12"]], {"g1_12": (0,)}, "rank 1 is no member"),
        ([["12"], ["12"]], {"g12": (0, 1), "g0_12": (0,)}, "two groups are called `12` on rank 0"),
        ([["12"], ["12"]], {"g12": (0,)}, "of rank 1: its group `12` is not given"),
    ],
)
def test_groups_that_do_not_fit(
    ranks: list[list[str]], given: dict[str, tuple[int, ...]], told: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=told):
        groups(tmp_path, ranks, **given)


def test_names_with_a_colon(tmp_path: Path) -> None:
    files = [rank(tmp_path, "seq", "7"), rank(tmp_path, "r0", "tp:0"), rank(tmp_path, "r1", "tp:0")]
    found = read(ReaderInput(files, {"tp:0": (0, 1)})).groups
    assert found == {
        "seq": [{"ranks": [0], "names": {"0": "7"}}],
        "dist": [{"ranks": [0, 1], "names": {"0": "tp:0", "1": "tp:0"}}],
    }


def test_an_option_that_nothing_uses(tmp_path: Path) -> None:
    files = [rank(tmp_path, "seq"), rank(tmp_path, "r0", "12")]
    about = read(ReaderInput(files, {"12": (0,), "13": (0,)})).about
    assert about["warnings"] == ["--group 13=...: no graph names such a group"]


def test_a_size_that_is_not_all_ranks(tmp_path: Path) -> None:
    files = [rank(tmp_path, "seq"), *(rank(tmp_path, f"r{i}", "12", size=2) for i in range(3))]
    out = ["-o", tmp_path / "facts"]
    status, _, error = cli("extract", "--from", "fx-text", *files, *out)
    assert status == 2 and "`y_0` says that its group `12` has 2 members, not all 3" in error
    assert "--group 12=0,1" in error
    status, _, error = cli("extract", "--from", "fx-text", *files[:3], *out)
    assert status == 0, error
    twice = ["--group", "12=0,1", "--group", "12=1,2"]
    status, _, error = cli("extract", "--from", "fx-text", *files, *twice, *out)
    assert status == 2 and "--group 1:12=..." in error


# ---- forward and backward
FORWARD = """class GraphModule(torch.nn.Module):
    def forward(self, primals_1: "f32[4, 4]", primals_2: "f32[2, 4]", primals_3: "Sym(s0)"):
        t: "f32[4, 4]" = torch.ops.aten.t.default(primals_1);  primals_1 = None
        mm: "f32[2, 4]" = torch.ops.aten.mm.default(primals_2, t)
        tanh: "f32[2, 4]" = torch.ops.aten.tanh.default(mm);  mm = None
        return (tanh, primals_2, t, tanh, primals_3)
"""
BACKWARD = """class GraphModule(torch.nn.Module):
    def forward(self, primals_3: "Sym(s0)", primals_2: "f32[2, 4]", t: "f32[4, 4]", tanh: "f32[2, 4]", tangents_1: "f32[2, 4]"):
        mm: "f32[2, 4]" = torch.ops.aten.mm.default(primals_2, t)
        tanh_backward: "f32[2, 4]" = torch.ops.aten.tanh_backward.default(tangents_1, tanh)
        mul: "f32[2, 4]" = torch.ops.aten.mul.Tensor(tanh_backward, mm)
        return (mul, None, mm)
"""


def pair(tmp_path: Path, forward: str = FORWARD, backward: str = BACKWARD) -> Path:
    (tmp_path / "fwd.txt").write_text(forward)
    (tmp_path / "bwd.txt").write_text(backward)
    return Path(f"{tmp_path}/fwd.txt+{tmp_path}/bwd.txt")


def test_forward_and_backward(tmp_path: Path) -> None:
    """What is computed again under the same name gets another one."""
    rows = read(ReaderInput([pair(tmp_path)] * 2)).seq["nodes"]
    again = "mm_again"
    inputs = ["primals_1", "primals_2", "primals_3", "tangents_1"]
    assert [row["name"] for row in rows] == [
        *inputs,
        *("t", "mm", "tanh", again, "tanh_backward", "mul", "output"),
    ]
    assert rows[-2]["args"] == [{"node": "tanh_backward"}, {"node": again}]
    assert rows[-1]["args"] == [[{"node": "tanh"}, {"node": "mul"}, None, {"node": again}]]


@pytest.mark.parametrize(
    ("forward", "backward", "told"),
    [
        (FORWARD, BACKWARD.replace("tanh: ", "sigmoid: ").replace(", tanh)", ", sigmoid)"),
         "takes `sigmoid`, which the forward does not return"),
        (FORWARD, BACKWARD.replace('t: "f32[4, 4]"', 't: "f32[4, 5]"'), r"takes `t` as float32\[4, 5\]"),
        (FORWARD.replace("(tanh, primals_2, t, tanh", "(primals_2, tanh, t, mm"), BACKWARD,
         "does not end with what the backward graph takes"),
        (FORWARD.replace("primals_2, t, tanh, p", "t, primals_2, tanh, p"), BACKWARD,
         "does not end with what the backward graph takes"),
        (BACKWARD, FORWARD, "takes `primals_1`, which the forward does not return"),
    ],
)  # fmt: skip
def test_graphs_that_are_no_pair(forward: str, backward: str, told: str, tmp_path: Path) -> None:
    file = pair(tmp_path, forward, backward)
    with pytest.raises(InputError, match=told):
        read(ReaderInput([file, file]))


def test_a_pair_on_the_command_line(tmp_path: Path) -> None:
    file = pair(tmp_path)
    status, _, error = cli("extract", "--from", "fx-text", file, file, "-o", tmp_path / "facts")
    assert status == 0, error
    missing = f"{tmp_path}/fwd.txt+{tmp_path}/none.txt"
    status, _, error = cli("extract", "--from", "fx-text", missing, file, "-o", tmp_path / "facts")
    assert status == 2 and "no such file" in error
