"""What is remembered of an operator is what torch gives for it, in form and in memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402
from torch.utils._pytree import tree_flatten  # noqa: E402

from gg_datalog.tracing import remembered  # noqa: E402

aten = torch.ops.aten


@pytest.fixture(autouse=True)
def nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remembered, "KNOWN", {})


@pytest.fixture
def mode() -> Iterator[Any]:
    with FakeTensorMode() as mode:
        yield mode


def forms(out: Any, *given: torch.Tensor) -> list[Any]:
    """Forms, and in the memory of which operand each result is."""
    memories = [one.untyped_storage()._cdata for one in given]
    return [
        (
            tuple(one.shape), one.stride(), one.dtype, one.storage_offset(), one.device,
            [one.untyped_storage()._cdata == memory for memory in memories],
            one.untyped_storage().nbytes(), one.requires_grad,
        )
        for one in tree_flatten(out)[0]
    ]  # fmt: skip


def called(func: Any, *args: Any) -> Any:
    return remembered.performed(func, args, {}, [a for a in args if isinstance(a, torch.Tensor)])


CALLS = [
    (aten.mm.default, ((4, 6), (6, 2)), ()),
    (aten.add.Tensor, ((4, 1), (6,)), ()),
    (aten.t.default, ((4, 6),), ()),
    (aten.view.default, ((4, 6),), ([2, 12],)),
    (aten.slice.Tensor, ((4, 6),), (1, 2, 5)),
    (aten.select.int, ((4, 6),), (0, 3)),
    (aten.expand.default, ((4, 1),), ([4, 5],)),
    (aten.split.Tensor, ((4, 6),), (2, 1)),
    (aten.detach.default, ((4, 6),), ()),
    (aten.clone.default, ((4, 6),), ()),
    (aten.native_layer_norm.default, ((4, 6),), ([6], None, None, 1e-5)),
    (aten.max.dim, ((4, 6),), (1,)),
    (aten.sum.dim_IntList, ((4, 6),), ([0], True)),
    (aten.pow.Tensor_Scalar, ((4, 6),), (2,)),
    (aten._softmax.default, ((4, 6),), (1, False)),
]


@pytest.mark.parametrize(("func", "shapes", "rest"), CALLS, ids=lambda value: str(value)[:30])
def test_as_torch_gives_it(mode: Any, func: Any, shapes: Any, rest: Any) -> None:
    """The first time, the second time, and for an operand that is a part of another tensor."""
    for offset in (0, 0, 3, 3):
        whole = [torch.empty(offset + torch.Size(shape).numel()) for shape in shapes]
        given = [one[offset:].view(shape) for one, shape in zip(whole, shapes, strict=True)]
        expected = forms(func(*given, *rest), *given)
        assert forms(called(func, *given, *rest), *given) == expected
    assert len(remembered.KNOWN) == 2


def test_numbers_of_other_kinds_are_others(mode: Any) -> None:
    x = torch.empty(4, dtype=torch.int64)
    found = [called(aten.mul.Scalar, x, number).dtype for number in (1, 1.0, True, 1, 1.0)]
    assert found == [torch.int64, torch.float32, torch.int64, torch.int64, torch.float32]


def test_the_type_of_numbers_counts(mode: Any) -> None:
    """A quotient of integers is of the type that a program says last."""
    x, before, found = torch.empty(4, dtype=torch.int64), torch.get_default_dtype(), []
    try:
        for kind in (torch.float32, torch.float64, torch.float32):
            torch.set_default_dtype(kind)
            found.append(called(aten.div.Scalar, x, 2).dtype)
    finally:
        torch.set_default_dtype(before)
    assert found == [torch.float32, torch.float64, torch.float32]


def test_a_name_of_its_own(mode: Any) -> None:
    """A result is remembered by its form, not as the tensor that it was."""
    x, y = torch.empty(4, 6), torch.empty(4, 6)
    first, second = called(aten.t.default, x), called(aten.t.default, y)
    assert second.untyped_storage()._cdata == y.untyped_storage()._cdata
    assert first.untyped_storage()._cdata == x.untyped_storage()._cdata


def test_strides_count(mode: Any) -> None:
    x = torch.empty(4, 6)
    called(aten.view.default, x, [24])
    with pytest.raises((RuntimeError, ValueError), match=r"[Cc]annot view|not compatible"):
        called(aten.view.default, x.t(), [24])


def test_writes_and_sizes_of_memory_are_not_remembered(mode: Any) -> None:
    x, small = torch.empty(24)[:4], torch.empty(4)
    called(aten.add_.Tensor, x, x)
    called(aten.as_strided.default, x, [2, 12], [12, 1])
    assert not remembered.KNOWN
    # torch checks it where the tensor is real; here nothing but the call may say what comes
    assert called(aten.as_strided.default, small, [2, 2], [2, 1]).shape == (2, 2)


def test_a_tensor_with_a_value_keeps_it(mode: Any) -> None:
    """`torch.tensor(3).view(1)` is 3, also after another view of a scalar was remembered."""
    called(aten.view.default, torch.empty((), dtype=torch.int64), [1])
    assert len(remembered.KNOWN) == 1
    assert called(aten.view.default, torch.tensor(3), [1]).constant.tolist() == [3]


def test_a_snapshot_keeps_its_form(mode: Any) -> None:
    x = torch.empty(4, 6)
    kept = remembered.snapshot(x)
    x.unsqueeze_(0)
    assert (tuple(x.shape), tuple(kept.shape)) == ((1, 4, 6), (4, 6))
    assert kept.untyped_storage()._cdata == x.untyped_storage()._cdata


def test_modes_do_not_share_tensors() -> None:
    for _ in range(2):
        with FakeTensorMode() as mode:
            for _ in range(2):
                made = called(aten.neg.default, torch.empty(4))
                assert made.fake_mode is mode


def test_what_is_learnt_crosses_processes(mode: Any) -> None:
    import pickle

    called(aten.clone.default, torch.empty(4, 6))
    called(aten.split.Tensor, torch.empty(4, 6), 2, 1)
    assert dict(pickle.loads(pickle.dumps(remembered.learnt(0)))) == remembered.KNOWN
    assert len(remembered.learnt(1)) == 1
