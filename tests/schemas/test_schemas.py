"""What `extract/schemas` says of torch's operators is what the installed torch says, and does."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import pytest

from gg_datalog.extract.signature import REQUIRED, Signature, Unbound, bound, signature

torch = pytest.importorskip("torch")
FOLDER = files("gg_datalog.extract").joinpath("schemas")


def lines() -> list[str]:
    return FOLDER.joinpath("torch.txt").read_text("utf-8").splitlines()


def test_the_data_is_what_torch_registers() -> None:
    from gg_datalog.tracing.schemas import registered

    ours = {line.removesuffix(" ?").removesuffix(" ~") for line in lines()}
    theirs = set(registered())
    assert ours == theirs, (
        f"missing: {sorted(theirs - ours)[:5]}, gone: {sorted(ours - theirs)[:5]}"
    )


def test_marks_are_torchs_own() -> None:
    from gg_datalog.tracing.schemas import composite, is_drawn

    made = composite()
    for line in lines():
        name = line.partition("(")[0].replace("::", ".")
        name = name if name.count(".") > 1 else f"{name}.default"
        marks = line.rpartition(")")[2].split(" ")[1:] if line.endswith(("~", "?")) else []
        marks = [m for m in marks if m in ("~", "?")]
        assert ("~" in marks, "?" in marks) == (name in made, is_drawn(name)), line


def test_schemas_are_read_as_torch_reads_them() -> None:
    """Names, what has to be given, what is given by keyword only, what is written."""
    corrected = {"native_batch_norm", "cudnn_batch_norm", "miopen_batch_norm", "batch_norm",
                 "_batch_norm_impl_index", "instance_norm", "batch_norm_gather_stats",
                 "batch_norm_gather_stats_with_counts", "batch_norm_update_stats"}  # fmt: skip
    for line in lines():
        name, _, overload = line.partition("(")[0].partition(".")
        schema = torch._C._get_schema(name, overload)
        ours = signature(f"{name.replace('::', '.')}.{overload or 'default'}")
        assert ours is not None
        theirs = [
            (a.name, a.default_value is None and not a.has_default_value(), a.kwarg_only)
            for a in schema.arguments
        ]
        assert [(p.name, p.default is REQUIRED, p.keyword) for p in ours.parameters] == theirs, line
        if name.startswith("aten") and name.removeprefix("aten::") not in corrected:
            written = [a.name for a in schema.arguments if a.alias_info and a.alias_info.is_write]
            assert [p.name for p in ours.parameters if p.written] == written, line


def call(target: str, *args: Any, **kwargs: Any) -> tuple[Signature, dict[Any, Any]]:
    found = bound(target, args, kwargs)
    assert found is not None
    return found


def test_every_form_of_a_call_is_one() -> None:
    position = call("_c10d_functional.all_reduce.default", "x", "avg", "g")[1]
    keyword = call("_c10d_functional.all_reduce.default", "x", group_name="g", reduce_op="avg")[1]
    assert position == keyword == {"input": "x", "reduce_op": "avg", "group_name": "g"}
    plain = call("aten.add.Tensor", "x", "y")[1]
    assert plain == call("aten.add.Tensor", other="y", self="x", alpha=1)[1]


@pytest.mark.parametrize(
    ("args", "kwargs", "problem"),
    [
        ((), {}, "argument `self` is missing"),
        (("x", "y", 2), {}, "takes 2 arguments by position, 3 are given"),
        (("x", "y"), {"beta": 2}, "has no argument `beta`"),
        (("x", "y"), {"self": "z"}, "argument `self` is given twice"),
    ],
)
def test_what_does_not_bind(args: Any, kwargs: Any, problem: str) -> None:
    with pytest.raises(Unbound, match=problem):
        bound("aten.add.Tensor", args, kwargs)


# ---- the corrections, executed ------------------------------------------------------------------
def memory(value: Any) -> set[int]:
    values = value if isinstance(value, (list, tuple)) else [value]
    return {v.untyped_storage().data_ptr() for v in values if isinstance(v, torch.Tensor)}


@pytest.mark.parametrize(
    ("target", "args"),
    [
        ("_unsafe_view", ([6, 4],)),
        ("unsafe_split.Tensor", (2,)),
        ("unsafe_split_with_sizes", ([2, 2],)),
        ("unsafe_chunk", (2,)),
        ("type_as", (torch.ones(1),)),
        ("atleast_2d", ()),
        ("data", ()),
        ("dropout", (0.5, False)),
    ],
)
def test_results_that_are_the_operand(target: str, args: Any) -> None:
    x = torch.ones(4, 6)
    name, _, overload = target.partition(".")
    made = getattr(getattr(torch.ops.aten, name), overload or "default")(x, *args)
    assert memory(x) & memory(made)
    ours = signature(f"aten.{name}.{overload or 'default'}")
    assert ours is not None and ours.returned(ours.parameters[0].name)


@pytest.mark.parametrize("training", [False, True])
def test_running_statistics_are_written_in_training(training: bool) -> None:
    x, mean, var = torch.arange(12.0).reshape(4, 3), torch.zeros(3), torch.ones(3)
    given = (x, None, None, mean, var, training, 0.1, 1e-5)
    torch.ops.aten.native_batch_norm(*given)
    moved = not torch.equal(mean, torch.zeros(3))
    ours, named = call("aten.native_batch_norm.default", *given)
    assert moved == training == ("running_mean" in ours.written(named))


@pytest.mark.parametrize("scaled", [False, True])
def test_a_fused_step_writes_gradients_where_it_unscales_them(scaled: bool) -> None:
    p, g, m, v = (torch.full((2,), 2.0) for _ in range(4))
    scale = torch.full((), 4.0) if scaled else None
    args = ([p], [g], [m], [v], [], [torch.ones(())])
    more = {"lr": 0.1, "beta1": 0.9, "beta2": 0.9, "weight_decay": 0.0, "eps": 1e-8}
    more |= {"amsgrad": False, "maximize": False, "grad_scale": scale}
    torch.ops.aten._fused_adam_(*args, **more, found_inf=None)
    ours, named = call("aten._fused_adam_.default", *args, **more)
    assert (not torch.equal(g, torch.full((2,), 2.0))) == scaled == ("grads" in ours.written(named))
    assert {"self", "exp_avgs", "exp_avg_sqs"} <= set(ours.written(named))


COMPUTES = {
    "linear": (torch.eye(4),), "matmul": (torch.eye(4),), "layer_norm": ([4],), "rms_norm": ([4],),
    "softmax.int": (1,), "log_softmax.int": (1,), "square": (), "absolute": (), "negative": (),
    "multiply.Scalar": (1,), "divide.Scalar": (1,), "subtract.Scalar": (0,), "relu6": (),
    "selu": (), "clip": (-100.0, 100.0), "special_expit": (), "float_power.Tensor_Scalar": (1,), "diag": (),
    "outer": None, "max.other": (torch.zeros(4, 4),), "var": (), "std": (), "argsort": (),
}  # fmt: skip


@pytest.mark.parametrize("target", COMPUTES)
def test_composites_that_compute(target: str) -> None:
    x = torch.rand(4, 4)
    x, args = (x[0], (x[1],)) if COMPUTES[target] is None else (x, COMPUTES[target])
    name, _, overload = target.partition(".")
    made = getattr(getattr(torch.ops.aten, name), overload or "default")(x, *args)
    assert not memory(made) & memory(x)
    ours = signature(f"aten.{name}.{overload or 'default'}")
    assert ours is not None and not ours.returned(ours.parameters[0].name)
