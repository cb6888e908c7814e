"""Lookups in a shard of a table (``lemmas/vocabulary.dl``): the forms of Megatron-LM, vLLM, DTensor."""

from __future__ import annotations

import pytest

from .build import Case, check, row, table
from .conftest import Outcomes

SEQ = "ids: i64[3, 5]\nw: f32[{n}, 4]\ny = embedding(w, ids)\nreturn y"
HEAD = "ids: i64[3, 5]\nw: f32[{n}, 4]\nlo = 6 * rank\n"
# `lo` and `hi` stand for the rank's bounds
MEGATRON = """
ids: i64[3, 5]
w: f32[6, 4]
below = lt.Scalar(ids, 6 * rank)
above = ge.Scalar(ids, 6 * rank + 6)
mask: b[3, 5] = bitwise_or.Tensor(below, above)
local: i64[3, 5] = sub.Tensor(clone(ids), 6 * rank)
zero: i64[()] = const(0)
clamped: i64[3, 5] = index_put(local, [mask], zero)
rows = index.Tensor(w, [clamped])
none: f32[()] = const(0)
kept = index_put(rows, [mask], none)
y = all_reduce(kept, "sum", "g")
return y
"""
VLLM = """
ids: i64[3, 5]
w: f32[6, 4]
inside: b[3, 5] = bitwise_and.Tensor(ge.Scalar(ids, 6 * rank), lt.Scalar(ids, 6 * rank + 6))
extra: b[3, 5] = bitwise_and.Tensor(ge.Scalar(ids, 18), lt.Scalar(ids, 18))
valid: b[3, 5] = bitwise_or.Tensor(inside, extra)
shift: i64[3, 5] = mul.Tensor(inside, 6 * rank)
more: i64[3, 5] = mul.Tensor(extra, 18)
offset: i64[3, 5] = add.Tensor(shift, more)
local: i64[3, 5] = mul.Tensor(valid, sub.Tensor(ids, offset))
mask: b[3, 5] = bitwise_not(valid)
rows = embedding(w, local)
kept = masked_fill.Scalar(rows, unsqueeze(mask, -1), 0)
y = all_reduce(kept, "sum", "g")
return y
"""
DTENSOR = """
ids: i64[3, 5]
w: f32[6, 4]
mask: b[3, 5] = bitwise_or.Tensor(lt.Scalar(ids, 6 * rank), ge.Scalar(ids, 6 * rank + 6))
local: i64[3, 5] = sub.Tensor(ids, 6 * rank)
zero: i64[()] = const(0)
clamped: i64[3, 5] = index_put(local, [mask], zero)
rows = embedding(w, clamped)
kept = masked_fill.Scalar(rows, unsqueeze(mask, -1), 0)
y = all_reduce(kept, "sum", "g")
return y
"""
SHIFTED = DTENSOR.replace(
    "mask: b[3, 5] = bitwise_or.Tensor(lt.Scalar(ids, 6 * rank), ge.Scalar(ids, 6 * rank + 6))\n"
    "local: i64[3, 5] = sub.Tensor(ids, 6 * rank)\n",
    "local: i64[3, 5] = sub.Tensor(ids, 6 * rank)\n"
    "mask: b[3, 5] = bitwise_or.Tensor(lt.Scalar(local, 0), ge.Scalar(local, 6))\n",
)
FORMS = {"Megatron": MEGATRON, "vLLM": VLLM, "DTensor": DTENSOR, "DTensor on shifted ids": SHIFTED}
MISTAKES = (
    (
        "fill is not 0",
        {
            "Megatron": ("none: f32[()] = const(0)", "none: f32[()] = const(1)"),
            "*": ("(mask, -1), 0)", "(mask, -1), 1)"),
        },
    ),
    ("rows outside are not cleared", {"*": ("all_reduce(kept,", "all_reduce(rows,")}),
    (
        "lower bound off by one",
        {
            "Megatron": ("lt.Scalar(ids, 6 * rank)", "lt.Scalar(ids, 6 * rank + 1)"),
            "vLLM": ("ge.Scalar(ids, 6 * rank)", "ge.Scalar(ids, 6 * rank + 1)"),
            "DTensor": ("lt.Scalar(ids, 6 * rank)", "lt.Scalar(ids, 6 * rank + 1)"),
            "DTensor on shifted ids": ("lt.Scalar(local, 0)", "lt.Scalar(local, 1)"),
        },
    ),
    (
        "upper bound off by one",
        {
            "DTensor on shifted ids": ("ge.Scalar(local, 6)", "ge.Scalar(local, 5)"),
            "*": ("6 * rank + 6", "6 * rank + 5"),
        },
    ),
    (
        "upper bound one too high",
        {
            "DTensor on shifted ids": ("ge.Scalar(local, 6)", "ge.Scalar(local, 7)"),
            "*": ("6 * rank + 6", "6 * rank + 7"),
        },
    ),
    (
        "gt for ge",
        {
            "vLLM": ("ge.Scalar(ids, 6 * rank)", "gt.Scalar(ids, 6 * rank)"),
            "*": ("ge.Scalar", "gt.Scalar"),
        },
    ),
    (
        "the offset of the next rank",
        {
            "vLLM": ("mul.Tensor(inside, 6 * rank)", "mul.Tensor(inside, 6 * rank + 6)"),
            "Megatron": (
                "sub.Tensor(clone(ids), 6 * rank)",
                "sub.Tensor(clone(ids), 6 * rank + 6)",
            ),
            "*": ("sub.Tensor(ids, 6 * rank)", "sub.Tensor(ids, 6 * rank + 6)"),
        },
    ),
    (
        "no offset",
        {
            "vLLM": ("mul.Tensor(inside, 6 * rank)", "mul.Tensor(inside, 0)"),
            "Megatron": ("sub.Tensor(clone(ids), 6 * rank)", "clone(ids)"),
            "DTensor": ("sub.Tensor(ids, 6 * rank)", "clone(ids)"),
            "DTensor on shifted ids": ("sub.Tensor(ids, 6 * rank)", "clone(ids)"),
        },
    ),
    (
        "clamped to a row outside",
        {
            "vLLM": (
                "offset: i64[3, 5] = add.Tensor(shift, more)",
                "offset: i64[3, 5] = add.Tensor(add.Tensor(shift, more), -6)",
            ),
            "*": ("zero: i64[()] = const(0)", "zero: i64[()] = const(6)"),
        },
    ),
    (
        "and for or",
        {
            "vLLM": (
                "bitwise_and.Tensor(ge.Scalar(ids, 6 * rank), lt.",
                "bitwise_or.Tensor(ge.Scalar(ids, 6 * rank), lt.",
            ),
            "*": ("bitwise_or", "bitwise_and"),
        },
    ),
    (
        "mask the other way round",
        {
            "vLLM": ("bitwise_not(valid)", "clone(valid)"),
            "*": ("kept =", "mask: b[3, 5] = bitwise_not(mask)\nkept ="),
        },
    ),
    (
        "mask of other ids",
        {"*": ("kept =", "u: b[3, 5] = view(t(mask), [3, 5])\nmask: b[3, 5] = clone(u)\nkept =")},
    ),
    ("without the all-reduce", {"*": ("return y", "return kept")}),
)


def padded(case: Case, rows: int) -> list[Case]:
    """A table of so many rows, of which the last rank's shard has fewer than the others."""
    shards = [
        row(r, "w", seq_box=[[lo, hi], [0, 4]], dist_box=[[0, hi - lo], [0, 4]])
        for r, (lo, hi) in enumerate([(0, 6), (6, 12), (12, rows)])
    ]
    first = row(0, "w", seq_box=[[0, 5], [0, 4]], dist_box=[[0, 5], [0, 4]])
    behind = row(2, "w", seq_box=[[12, rows], [0, 4]], dist_box=[[18 - rows, 6], [0, 4]])
    one = case.but(
        f"padded to 18 rows from {rows}", seq=SEQ.format(n=rows), relate={"w": shards}, maps=None
    )
    return [
        one,
        one.but("padding in front", relate={"w": [*shards[:2], behind]}),
        one.but("a row of an inner shard is padding", relate={"w": [first, *shards[1:]]}),
        one.but("a table of one row more", seq=SEQ.format(n=rows + 1)),
        one.but(
            "other rows",
            relate={
                "w": [shards[0], shards[1], {**shards[2], "seq_box": [[12 - 1, rows - 1], [0, 4]]}]
            },
        ),
        one.but("without the all-reduce", dist=one.dist.replace("return y", "return kept")),
    ]


def cases() -> list[Case]:
    """Every form with three shards of a table, and each mistake in it."""
    found = []
    for form, text in FORMS.items():
        case = Case(form, SEQ.format(n=18), text, ranks=3)
        found.append(case)
        found += [case.miss(what, *(how.get(form) or how["*"])) for what, how in MISTAKES]
        found.append(
            case.but(
                "clamped to another row inside",
                maps=None,
                dist=text.replace("zero: i64[()] = const(0)", "zero: i64[()] = const(3)"),
            )
            if form != "vLLM"
            else case.but("as it is, once more", maps=None)
        )
        shards = [[6, 12], [0, 6], [12, 18]]
        found.append(
            case.but(
                "shards exchanged",
                relate={"w": [row(r, "w", seq_box=[shards[r], [0, 4]]) for r in range(3)]},
            )
        )
        # a table of more rows than the mask lets through, and of fewer
        for rows, what in ((7, "shard longer than the mask"), (5, "shard shorter than the mask")):
            low = [min(6 * r, 18 - rows) for r in range(3)]
            found.append(
                case.but(
                    what,
                    dist=text.replace("f32[6, 4]", f"f32[{rows}, 4]"),
                    relate={
                        "w": [
                            row(r, "w", seq_box=[[low[r], low[r] + rows], [0, 4]]) for r in range(3)
                        ]
                    },
                )
            )
        found.append(case.but("table of 19 rows", seq=SEQ.format(n=19)))
        for rows in (16, 13):  # the last shard is padded, its bound lies behind all ids
            found += padded(case, rows)
    odd = MEGATRON.replace("6 * rank + 6", "7 * rank + 7 - (rank == 2)").replace(
        "6 * rank", "7 * rank"
    )
    found.append(
        Case(
            "odd vocabulary",
            SEQ.format(n=20),
            odd.replace("f32[6, 4]", "f32[7 - (rank == 2), 4]"),
            ranks=3,
        )
    )
    return found


ASIDE = (
    Case(
        "lookup in a replica",
        "ids: i64[6]\nw: f32[7, 4]\ny = embedding(w, ids)\nreturn y",
        "ids: i64[3]\nw: f32[7, 4]\ny = embedding(w, ids)\nreturn y",
    ),
    Case(
        "lookup in a shard of the columns",
        "ids: i64[6]\nw: f32[7, 4]\ny = embedding(w, ids)\nreturn y",
        "ids: i64[6]\nw: f32[7, 2]\ny = embedding(w, ids)\nreturn y",
    ),
    Case(
        "lookup in a shard of the rows",
        "ids: i64[6]\nw: f32[8, 4]\ny = embedding(w, ids)\nreturn y",
        "ids: i64[6]\nw: f32[4, 4]\ny = embedding(w, ids)\nreturn y",
        maps=(),
    ),
    Case(
        "lookup of other ids",
        "ids: i64[6]\nw: f32[7, 4]\ny = embedding(w, ids)\nreturn y",
        "ids: i64[6]\nw: f32[7, 4]\ny = embedding(w, add.Tensor(ids, 1))\nreturn y",
        maps=(),
    ),
    Case(
        "lookup of scaled ids",
        "ids: i64[6]\nw: f32[7, 4]\ny = mul.Tensor(embedding(w, ids), 2)\nreturn y",
        "ids: i64[6]\nw: f32[7, 4]\ny = embedding(w, mul.Tensor(ids, 2))\nreturn y",
        maps=(),
    ),
)


COLUMNS = Case(
    "columns chosen of sharded rows",
    seq="x: f32[4, 6]\nids: i64[6]\ny = index_select(x, 1, ids)\nreturn y",
    dist="x: f32[2, 6]\nids: i64[6]\ny = index_select(x, 1, ids)\nreturn y",
)


@table(COLUMNS, COLUMNS.miss("rows of one rank are chosen", "x, 1", "x, 0"))
def test_what_is_chosen(case: Case, outcomes: Outcomes) -> None:
    check(case, outcomes(case))


@table(*cases(), *ASIDE)
def test_lookups(case: Case, outcomes: Outcomes) -> None:
    """A masked lookup in a shard is a part of the lookup in the whole, if everything fits."""
    check(case, outcomes(case))


def test_every_mistake_has_a_place_in_every_form() -> None:
    """No mistake is left out of a form by accident."""
    for what, how in MISTAKES:
        assert "*" in how or set(how) == set(FORMS), what
    assert pytest.importorskip("clingo")


# ---- shards of one row ---------------------------------------------------------------------------
def alone(name: str) -> Case:
    """A table of two rows, one on each rank."""
    dist = FORMS[name]
    for old, new in (
        ("f32[6, 4]", "f32[1, 4]"),
        ("6 * rank + 6", "rank + 1"),
        ("6 * rank", "rank"),
        ("(local, 6)", "(local, 1)"),
    ):
        dist = dist.replace(old, new)
    return Case(f"{name}, one row on each rank", SEQ.format(n=2), dist)


ALONE = {name: alone(name) for name in ("Megatron", "DTensor", "DTensor on shifted ids")}


@table(
    *ALONE.values(),
    ALONE["Megatron"].miss("not masked", "index_put(rows, [mask], none)", "clone(rows)"),
    ALONE["Megatron"].miss("masked one late", "rank + 1)", "rank + 2)"),
    ALONE["DTensor"].miss("not masked", "all_reduce(kept", "all_reduce(rows"),
    ALONE["DTensor"].miss("of the other rank", "lt.Scalar(ids, rank)", "lt.Scalar(ids, 1 - rank)"),
    ALONE["DTensor on shifted ids"].miss(
        "one further", "sub.Tensor(ids, rank)", "sub.Tensor(ids, rank + 1)"
    ),
)
def test_shards_of_one_row(case: Case, outcomes: Outcomes) -> None:
    check(case, outcomes(case))


# ---- ids that are filled in some places ------------------------------------------------------------
FILLED_SEQ = """
w: f32[8, 4]
ids: i64[5]
p: i64[5] = arange(5)
hide: b[5] = {hide}
k: i64[5] = masked_fill.Scalar(ids, hide, 0)
y = embedding(w, k)
return y
"""
FILLED_DIST = """
w: f32[4, 4]
ids: i64[5]
p: i64[5] = arange(5)
hide: b[5] = {hide}
k: i64[5] = masked_fill.Scalar(ids, hide, 0)
mask: b[5] = bitwise_or.Tensor(lt.Scalar(k, 4 * rank), ge.Scalar(k, 4 * rank + 4))
local: i64[5] = masked_fill.Scalar(sub.Tensor(k, 4 * rank), mask, 0)
rows = masked_fill.Scalar(embedding(w, local), unsqueeze(mask, -1), 0)
y = all_reduce(rows, "sum", "g")
return y
"""


def hidden(name: str, hide: str) -> Case:
    """Ids of which some are filled with 0 before they are looked up in shards."""
    return Case(name, FILLED_SEQ.format(hide=hide), FILLED_DIST.format(hide=hide))


BEHIND = hidden("ids behind a position are filled", "ge.Scalar(p, 3)")
BETWEEN = hidden(
    "ids at some positions are filled", "bitwise_and.Tensor(ge.Scalar(p, 1), lt.Scalar(p, 3))"
)
EITHER = hidden(
    "ids behind a position, and small ones, are filled",
    "bitwise_or.Tensor(ge.Scalar(p, 3), lt.Scalar(ids, 2))",
)


@table(
    BEHIND,
    BEHIND.miss("other positions on the ranks", "(p, 3)", "(p, 2)"),
    BEHIND.miss("other positions on one rank", "(p, 3)", "(p, 3 - rank)"),
    BEHIND.miss("filled with another id", "hide, 0)", "hide, 1)"),
    BEHIND.miss("filled before ids are compared, but not looked up", "sub.Tensor(k", "sub.Tensor(ids"),
    BEHIND.miss("masked one late", "4 * rank + 4", "4 * rank + 5"),
    BEHIND.miss("not masked", "embedding(w, local), unsqueeze(mask, -1), 0", "embedding(w, local), unsqueeze(hide, -1), 0"),
    BEHIND.miss("masked by position", "lt.Scalar(k, 4 * rank)", "lt.Scalar(p, 4 * rank)"),
    BETWEEN,
    BETWEEN.miss("other positions", "(p, 1)", "(p, 0)"),
    BETWEEN.miss("the other ones", "hide, 0)", "logical_not(hide), 0)"),
    EITHER,
    EITHER.miss("both", "bitwise_or.Tensor(ge.Scalar(p", "bitwise_and.Tensor(ge.Scalar(p"),
)  # fmt: skip
def test_filled_ids(case: Case, outcomes: Outcomes) -> None:
    """Positions are no ids: ids that are filled in some places stand for themselves."""
    check(case, outcomes(case))
