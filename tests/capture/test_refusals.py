"""What cannot be captured: who, what, which line, what to do; one message and nothing written."""

from __future__ import annotations

import copy
import os
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="capture traces programs with torch")

import torch
import torch.distributed as dist
from torch import nn

from gg_datalog import capture
from gg_datalog.foundation.errors import InputError

Tensor = torch.Tensor
HERE = "test_refusals.py"


class Calls(nn.Module):
    """A linear layer and a function of its result."""

    def __init__(self, function: Callable[[Tensor], Any], rank: int = 0) -> None:
        super().__init__()
        self.function, self.rank = function, rank
        self.layer = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Any:
        return self.function(self.layer(x))


def rows() -> tuple[Tensor, ...]:
    """The inputs of every rank."""
    return (torch.ones(2, 4),)


def refused(
    function: Callable[[Tensor], Any] | None = None, mode: Any = "eager", **given: Any
) -> InputError:
    """The error of a capture."""
    arguments: dict[str, Any] = {
        "build": lambda rank, world: Calls(function or double), "make_inputs": rows,
        "world_size": 2, "mode": mode, "jobs": 0,
    }  # fmt: skip
    with pytest.raises(InputError) as found:
        capture(**{**arguments, **given})
    assert not dist.is_initialized()
    assert found.value.hint
    return found.value


def double(y: Tensor) -> Tensor:
    return y * 2


# ---- values
def branches(y: Tensor) -> Tensor:
    if y.sum() > 0:
        return y
    return -y


def reads(y: Tensor) -> Tensor:
    return y * y.sum().item()


def selects(y: Tensor) -> Tensor:
    return y[y > 0]


VALUES = {
    branches: ("if y.sum() > 0:", "a value of a tensor steers the program"),
    reads: ("return y * y.sum().item()", "a value of a tensor steers the program"),
    selects: ("return y[y > 0]", "the size of a result depends on data"),
}


@pytest.mark.parametrize("mode", ["eager", "dynamo"])
@pytest.mark.parametrize("function", VALUES, ids=lambda f: f.__name__)
def test_what_depends_on_data(function: Any, mode: Any) -> None:
    line, hint = VALUES[function]
    error = refused(function, mode)
    where = error.where or ""
    assert where.startswith("the sequential program, ") and HERE in where
    assert where.endswith(f" in {function.__name__}: {line}")
    assert hint in (error.hint or "")
    assert error.what.startswith("capture failed: ") and len(error.what) < 300


def test_which_rank() -> None:
    error = refused(build=lambda rank, world: Calls(reads if rank == 1 else double))
    assert (error.where or "").startswith("rank 1, ")


# ---- what the user's functions do
def raises(rank: int, world_size: int) -> nn.Module:
    raise ValueError("no such\nlayer")


def leaves(rank: int, world_size: int) -> nn.Module:
    sys.exit(3)


def test_build_raises() -> None:
    error = refused(build=raises)
    assert error.what == "building the program failed: ValueError: no such layer"
    assert (error.where or "").endswith('in raises: raise ValueError("no such\\nlayer")')


def test_build_ends_the_process() -> None:
    error = refused(build=leaves)
    assert error.what == "building the program failed: SystemExit: 3"
    assert (error.where or "").endswith("in leaves: sys.exit(3)")


def test_make_inputs_raises() -> None:
    error = refused(make_inputs=lambda rank, world: {}["x"])
    assert error.what == "building the program failed: KeyError: 'x'"
    assert HERE in (error.where or "")


def test_build_returns_no_module() -> None:
    error = refused(build=lambda rank, world: double)
    assert error.what == "`build` returned function, not a torch.nn.Module"
    assert error.where == "the sequential program"


@pytest.mark.parametrize("given", [None, 3, "text"])
def test_make_inputs_returns_nonsense(given: Any) -> None:
    error = refused(make_inputs=lambda: given)
    assert error.what == f"`make_inputs` returned {type(given).__name__}"


@pytest.mark.parametrize("mode", ["eager", "dynamo"])
def test_the_program_raises(mode: Any, capfd: pytest.CaptureFixture[str]) -> None:
    """Inputs that do not fit: torch's own tracebacks stay away."""
    error = refused(make_inputs=lambda: (torch.ones(3, 5),), mode=mode)
    assert "must have same reduction dim" in error.what
    assert (error.where or "").endswith("in forward: return self.function(self.layer(x))")
    assert "Traceback" not in "".join(capfd.readouterr())


@pytest.mark.parametrize("mode", ["eager", "dynamo"])
def test_arguments_that_do_not_fit(mode: Any) -> None:
    error = refused(make_inputs=lambda: {"y": torch.ones(2, 4)}, mode=mode)
    assert "argument" in error.what and "inspect.py" not in (error.where or "")


# ---- losses and gradients
def test_no_scalar_loss() -> None:
    error = refused(double, backward=True)
    assert "needs one scalar loss, the program returns (2, 4)" in error.what
    assert "loss(output, *inputs)" in (error.hint or "")


@pytest.mark.parametrize("mode", ["eager", "dynamo"])
def test_a_loss_that_uses_nothing(mode: Any) -> None:
    error = refused(double, mode, backward=True, loss=lambda y, x: x.sum())
    assert "nothing that the program returns depends on a parameter" in error.what


@pytest.mark.parametrize("value", [3, None, {}])
@pytest.mark.parametrize("mode", ["eager", "dynamo"])
def test_what_returns_no_tensor(value: Any, mode: Any) -> None:
    error = refused(lambda y: value, mode)
    assert ("no result of the sequential program" in error.what) or (
        "the program returns no tensor" in error.what
    )


def test_ranks_that_return_something_else() -> None:
    error = refused(
        build=lambda rank, world: Calls((lambda y: {"a": y}) if world == 1 else lambda y: {"b": y})
    )
    assert "no result of the sequential program is returned by any rank" in error.what


def test_a_step_that_dynamo_does_not_capture() -> None:
    error = refused(lambda y: y.sum(), "dynamo", backward=True, step=lambda module: None)
    assert (
        "a step after the backward pass" in error.what and error.hint == 'capture with mode="eager"'
    )


# ---- modules and collectives
class FullyShardedDataParallel(nn.Module):
    """Has the name of the one that needs an accelerator to be built."""

    def forward(self, x: Tensor) -> Tensor:
        return x * 2


@pytest.mark.parametrize("mode", ["eager", "dynamo"])
def test_modules_of_the_first_fsdp(mode: Any) -> None:
    error = refused(build=lambda rank, world: FullyShardedDataParallel(), mode=mode)
    assert (error.where or "").startswith("the sequential program")
    assert (error.hint or "").startswith("use fully_shard, or build the module without it")


def skips(rank: int, world: int) -> nn.Module:
    """Has a layer that it does not use, which DDP is to find out."""
    module = Calls(double)
    module.unused = nn.Linear(4, 4)
    if world == 1:
        return module
    return nn.parallel.DistributedDataParallel(module, find_unused_parameters=True)


def test_parameters_that_ddp_finds_unused_by_values() -> None:
    error = refused(build=skips, backward=True, loss=lambda y, x: y.sum())
    assert "reduces gradients of parameters that this rank may not use" in error.what
    assert "`unused.weight`" in error.what


def builtin_hook(rank: int, world: int) -> nn.Module:
    module = nn.parallel.DistributedDataParallel(Calls(double))
    kind: Any = torch.distributed
    module._register_builtin_comm_hook(kind.BuiltinCommHookType.ALLREDUCE)
    return module


def test_communication_hooks_that_run_in_cpp() -> None:
    error = refused(build=builtin_hook)
    assert "a built-in communication hook" in error.what


def asks_for_a_future(y: Tensor) -> Tensor:
    work = dist.all_reduce(y, async_op=True)
    work.get_future().wait()
    return y


def test_the_future_of_a_collective() -> None:
    error = refused(asks_for_a_future)
    assert "takes the future of a collective" in error.what
    assert error.hint == "wait for the collective: .wait()"


# ---- objects that ranks send each other
class Told(nn.Module):
    """Multiplies by a number that the first rank tells all."""

    def __init__(self, rank: int, world: int, root: int = 0) -> None:
        super().__init__()
        told: list[Any] = [3.0 if rank == root else None]
        if world > 1:
            dist.broadcast_object_list(told, root)
        counted: list[Any] = [None] * world
        if world > 1:
            dist.all_gather_object(counted, rank + 1)
        self.factor = (told[0] or 3.0) * (sum(counted) / 3 if world > 1 else 1)

    def forward(self, x: Tensor) -> Tensor:
        return x * self.factor


@pytest.mark.parametrize("root", [0, 1])
@pytest.mark.parametrize("jobs", [0, 1, 2])
def test_objects_reach_other_ranks(root: int, jobs: int) -> None:
    pair = capture(
        lambda rank, world: Told(rank, world, root), rows, world_size=2, mode="eager", jobs=jobs
    )
    for graph in (pair.documents.seq, *pair.documents.dist.values()):
        assert [n["args"][1] for n in graph["nodes"] if n["op"] == "call_function"] == [3.0]


class Listens(nn.Module):
    """Waits for an object that nobody sends."""

    def __init__(self, rank: int, world: int) -> None:
        super().__init__()
        if world > 1 and rank == 1:
            dist.recv_object_list([None], src=0)

    def forward(self, x: Tensor) -> Tensor:
        return x * 2


@pytest.mark.parametrize("jobs", [0, 2])
def test_an_object_that_nobody_sends(jobs: int) -> None:
    error = refused(build=Listens, jobs=jobs)
    assert "rank 1 for an object of rank 0 (send_object_list)" in error.what


def test_a_collective_that_has_no_functional_form() -> None:
    from gg_datalog.tracing import collective_mode

    with pytest.MonkeyPatch.context() as patch:
        patch.delitem(collective_mode.REWRITES, "allreduce_")
        error = refused(summed)
    assert "the collective c10d.allreduce_ has no functional form here" in error.what
    assert (error.where or "").endswith("in summed: dist.all_reduce(y, op=op)")


def summed(y: Tensor, op: Any = dist.ReduceOp.SUM) -> Tensor:
    dist.all_reduce(y, op=op)
    return y


def test_a_reduction_that_is_not_known() -> None:
    error = refused(lambda y: summed(y, dist.ReduceOp.BOR))
    assert "the reduction BOR of a collective is not known here" in error.what
    assert error.hint == "known: avg, max, min, product, sum"


def test_other_memory_for_a_parameter() -> None:
    def step(module: nn.Module) -> None:
        module.layer.weight.data = module.layer.weight.data - module.layer.weight.grad

    error = refused(lambda y: y.sum(), backward=True, step=step)
    assert "gives `layer.weight` other memory (`.data = ...`)" in error.what


class Shares(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4, 4))
        self.register_buffer("first", self.weight.detach()[0])

    def forward(self, x: Tensor) -> Tensor:
        self.first.add_(1)
        return x @ self.weight


def test_inputs_that_share_memory_that_is_written() -> None:
    error = refused(build=lambda rank, world: Shares())
    assert "`first` and `weight` share memory, and the program writes into it" in error.what


def test_a_tensor_that_nothing_holds() -> None:
    class Hides(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 4)
            self.hidden = [torch.ones(4)]

        def forward(self, x: Tensor) -> Tensor:
            return (self.layer(x) * self.hidden[0]).sum()

    error = refused(build=lambda rank, world: Hides(), mode="dynamo", backward=True)
    assert "neither an input nor a parameter, buffer or attribute" in error.what


WRITES = {
    "fill_": lambda tensor: tensor.untyped_storage().fill_(1),
    "copy_": lambda tensor: tensor.untyped_storage().copy_(torch.ones(4).untyped_storage()),
    "an item": lambda tensor: tensor.untyped_storage().__setitem__(0, 1),
    "typed": lambda tensor: tensor.storage().fill_(1.0),
}


@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")
@pytest.mark.parametrize("when", ["building", "forward"])
@pytest.mark.parametrize("how", WRITES)
def test_a_storage_that_is_written(how: str, when: str) -> None:
    class Writes(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 4)
            self.register_buffer("scale", torch.zeros(4))
            if when == "building":
                WRITES[how](self.scale)

        def forward(self, x: Tensor) -> Tensor:
            if when == "forward":
                WRITES[how](self.scale)
            return self.layer(x) * self.scale

    error = refused(build=lambda rank, world: Writes())
    assert "writes into the storage of a tensor" in error.what


def test_a_module_that_is_copied() -> None:
    layers = [copy.deepcopy(nn.Linear(4, 4))]
    pair = capture(
        lambda rank, world: nn.Sequential(copy.deepcopy(nn.Linear(4, 4)), *layers),
        rows, world_size=1, mode="eager", jobs=0,
    )  # fmt: skip
    assert pair.documents.outputs


class Decays(nn.Module):
    """A scale that is smaller in the next step; ``in_place``: written into, else replaced."""

    def __init__(self, kind: str, in_place: bool) -> None:
        super().__init__()
        self.in_place, self.calls = in_place, 0
        self.seen: list[Tensor] = []
        self.last: Tensor | None = None
        if kind == "buffer":
            self.register_buffer("scale", torch.ones(4))
        else:
            self.scale = torch.ones(4)

    def forward(self, x: Tensor) -> Tensor:
        y = x * self.scale
        self.calls += 1
        self.last = y
        self.seen.append(y)
        if self.in_place:
            self.scale.mul_(0.9)
        else:
            self.scale = self.scale * 0.9
        return y


@pytest.mark.parametrize("loss", [None, lambda y, x: y.sum()], ids=["plain", "loss"])
@pytest.mark.parametrize("kind", ["buffer", "attribute"])
def test_state_that_is_replaced(kind: str, loss: Any) -> None:
    def build(rank: int, world: int) -> nn.Module:
        return nn.Sequential(nn.Linear(4, 4), Decays(kind, False))

    error = refused(build=build, mode="dynamo", loss=loss)
    assert error.what == (
        "capture failed: the program gives `1.scale` another tensor, which dynamo does not record"
    )
    pair = capture(build, rows, world_size=1, mode="eager", loss=loss, jobs=0)
    assert "updated_1.scale" in [row["name"] for row in pair.documents.outputs]


@pytest.mark.parametrize("kind", ["buffer", "attribute"])
def test_state_that_is_written_into(kind: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pair = capture(lambda rank, world: Decays(kind, True), rows, world_size=1, jobs=0)
    assert "updated_scale" in [row["name"] for row in pair.documents.outputs]


# ---- arguments of capture
ARGUMENTS: list[tuple[dict[str, Any], str]] = [
    ({"world_size": 0}, "world_size is 0"),
    ({"world_size": "2"}, "world_size is '2'"),
    ({"mode": "compile"}, "mode is 'compile'"),
    ({"ranks": []}, r"ranks is \[\]"),
    ({"ranks": [2]}, r"ranks is \[2\]"),
    ({"ranks": "0,1"}, "ranks is '0,1'"),
    ({"ranks": [True]}, r"ranks is \[True\]"),
    ({"build": 3}, "build is 3"),
    ({"make_inputs": None}, "make_inputs is None"),
    ({"loss": "mse"}, "loss is 'mse'"),
    ({"step": 3}, "step is 3"),
    ({"sequential": 3}, "sequential is 3"),
    (
        {"relations": {"relation": [{"name": "v", "placement": "replicate"}]}},
        "no input is called `v`",
    ),
    ({"relations": 3}, "relations are int"),
]


@pytest.mark.parametrize(("given", "text"), ARGUMENTS)
def test_arguments(given: dict[str, Any], text: str) -> None:
    import re

    assert re.match(text, refused(**given).what)


# ---- processes
def killed(rank: int, world_size: int) -> nn.Module:
    if world_size > 1 and rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return Calls(double)


def test_a_process_that_is_killed() -> None:
    error = refused(build=killed, jobs=2)
    assert error.where == "rank 1" and "signal 9" in error.what


def test_an_error_in_a_process() -> None:
    error = refused(reads, jobs=2)
    assert (error.where or "").endswith("in reads: return y * y.sum().item()")
    assert "a value of a tensor steers the program" in (error.hint or "")


def test_what_cannot_be_sent_back() -> None:
    """An error in a process that is none of capture's is one message, too."""
    error = refused(build=leaves, jobs=1)
    assert "SystemExit: 3" in error.what


# ---- the command line
PROGRAM = """
import os, sys
import torch
from torch import nn

print("imported")

class Calls(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function
        self.layer = nn.Linear(4, 4)
    def forward(self, x):
        return self.function(self.layer(x))

def rows():
    print("inputs")
    os.write(1, b"below python\\n")
    return (torch.ones(2, 4),)

def told(function):
    def build(rank, world_size):
        print("building")
        return Calls(function)
    return build

def doubled(y):
    print("running")
    return y * 2

def good():
    print("described")
    return {"build": told(doubled), "make_inputs": rows, "mode": "eager"}

def reads():
    return {"build": told(lambda y: y * y.sum().item()), "make_inputs": rows, "mode": "eager"}

def sized(): return {**good(), "world_size": 4}
def misspelt(): return {**good(), "backwards": True}
def number(): return 3
def half(): return {"build": told(doubled)}
def triple(): return told(doubled), rows, 3
def fails(): return {}["x"]
def leaves(): sys.exit(0)
def empty(): return {**good(), "relations": {"relation": [{"name": "v", "placement": "replicate"}]}}
constant = 3
"""
COMMANDS: dict[str, tuple[Sequence[str], str]] = {
    "a value": (["programs:reads"], "the sequential program, programs.py:"),
    "no colon": (["programs"], "'programs' is not MODULE:FUNCTION"),
    "no module": ([":good"], "':good' is not MODULE:FUNCTION"),
    "no function": (["programs:"], "'programs:' is not MODULE:FUNCTION"),
    "a module that is not there": (["missing:f"], "the module cannot be imported: ModuleNotFound"),
    "a module that is wrong": (["wrong:f"], "the module cannot be imported: SyntaxError"),
    "a module that raises": (["failing:f"], "the module cannot be imported: RuntimeError: here"),
    "a module that ends": (["ending:f"], "the module cannot be imported: SystemExit: 0"),
    "a function that is not there": (["programs:missing"], "there is no function `missing` in it"),
    "a constant": (["programs:constant"], "there is no function `constant` in it"),
    "a number": (["programs:number"], "it returned int"),
    "half of it": (["programs:half"], "it returned dict"),
    "too much": (["programs:triple"], "it returned tuple"),
    "a function that raises": (["programs:fails"], "it failed: KeyError: 'x'"),
    "a function that ends": (["programs:leaves"], "it failed: SystemExit: 0"),
    "an unknown argument": (["programs:misspelt"], "unexpected keyword argument 'backwards'"),
    "another world": (["programs:sized"], "it returns world_size 4, --world-size is 2"),
    "a name that fits nothing": (["programs:empty"], "no input is called `v`"),
    "ranks": (["programs:good", "--ranks", "0;1"], "--ranks '0;1' is no list of ranks"),
    "a rank too many": (["programs:good", "--ranks", "0,2"], "ranks is [0, 2]"),
    "no relations": (["programs:good", "--relations", "missing.toml"], "missing.toml: the relations file"),
    "wrong relations": (["programs:good", "--relations", "wrong.py"], "the relations file is not TOML"),
}  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of programs, which is the current one."""
    for name, text in {
        "programs": PROGRAM, "wrong": "def f(:", "failing": "raise RuntimeError('here')",
        "ending": "import sys; sys.exit(0)",
    }.items():  # fmt: skip
        (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    known = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - known:
        if name in ("programs", "wrong", "failing", "ending"):
            del sys.modules[name]


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_that_is_refused(name: str, folder: Path, cli: Any) -> None:
    arguments, text = COMMANDS[name]
    done = cli("capture", *arguments, "--world-size", 2, "-o", "case", "--jobs", 0)
    assert (done.status, done.out) == (2, "")
    assert "Traceback" not in done.err and done.err.count("error: ") == 1
    message = done.err[done.err.index("error: ") :]
    assert text in message and len(message.strip().splitlines()) == 2, message
    assert sorted(p.name for p in folder.iterdir() if p.suffix != ".py") in ([], ["__pycache__"])


@pytest.mark.parametrize("jobs", [0, 2])
def test_what_the_program_prints_is_not_the_report(jobs: int, folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "gg_datalog", "capture", "programs:good", "--world-size", "2",
         "-o", "case", "--jobs", str(jobs)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    for text in ("imported", "described", "building", "inputs", "below python", "running"):
        assert text in done.stderr
    assert "rank 1: " in done.stderr
    assert (folder / "case" / "dist.r1.json").is_file()


def test_without_torch(folder: Path, cli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from gg_datalog.commands import capture as capturing

    monkeypatch.setattr(capturing, "find_spec", lambda name: None)
    done = cli("capture", "programs:good", "--world-size", 2, "-o", "case")
    assert (done.status, done.out) == (2, "")
    assert "torch, which is not installed" in done.err and "pip install" in done.err
