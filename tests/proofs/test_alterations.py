"""A certificate with one step altered, removed or borrowed from elsewhere is refused at that step."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from gg_datalog.proofs.checker import RULES, Checker
from gg_datalog.proofs.positions import Refused

from .conftest import Proved

ALTERATIONS = 2000
Json = Any
Change = tuple[Json, int]


def refused_at(checker: Checker, document: Json) -> int:
    """The step at which a certificate is refused."""
    with pytest.raises(Refused) as found:
        checker.certificate(document)
    where = str(found.value).partition(":")[0]
    assert where.startswith("step "), found.value
    return int(where.removeprefix("step "))


def used(line: Json) -> list[int]:
    """The steps that a step uses."""
    return [k for group in line["uses"] for k in group]


# ---- places of a JSON value that can be altered ------------------------------------------------
def leaves(value: Json, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Paths to everything in a value that is no list."""
    if isinstance(value, list):
        for at, item in enumerate(value):
            yield from leaves(item, (*path, at))
    else:
        yield path


def put(value: Json, path: tuple[Any, ...], new: Json) -> None:
    """Replaces what is at a path."""
    for key in path[:-1]:
        value = value[key]
    value[path[-1]] = new


def get(value: Json, path: tuple[Any, ...]) -> Json:
    """What is at a path."""
    for key in path:
        value = value[key]
    return value


def other(value: Json, rng: random.Random) -> Json:
    """Another value of the same kind, a near one where it is a number."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return rng.choice([value + 1, value - 1, -value or 2, value * 2 or 3])
    return f"{value}'" if isinstance(value, str) else 0


# ---- ways to alter a step --------------------------------------------------------------------
def says(document: Json, rng: random.Random) -> Change:
    """Another conclusion: a tensor, a coefficient, a part, an offset, a run."""
    number = rng.randrange(len(document["steps"]))
    line = document["steps"][number]
    path = rng.choice(list(leaves(line["says"])))
    put(line["says"], path, other(get(line["says"], path), rng))
    return document, number


def fewer(document: Json, rng: random.Random) -> Change:
    """A run less, or a part less, in a conclusion."""
    number = rng.randrange(len(document["steps"]))
    said = document["steps"][number]["says"]
    lists = [x for x in (said[3], said[4][2], said[4][0], said[4][1]) if x]
    if lists:
        del rng.choice(lists)[0]
    else:
        said[4][0].append(0)
    return document, number


def rule(document: Json, rng: random.Random) -> Change:
    """Another rule (not one that is the same rule under another name)."""
    number = rng.randrange(len(document["steps"]))
    line = document["steps"][number]
    same = {getattr(Checker, line["rule"])}
    line["rule"] = rng.choice([name for name in RULES if getattr(Checker, name) not in same])
    return document, number


def operand(document: Json, rng: random.Random) -> Change:
    """Another statement for an operand: about other tensors, or another one about the same."""
    using = [line for line in document["steps"] if line["uses"]]
    line = rng.choice(using)
    group = rng.choice(line["uses"])
    at = rng.randrange(len(group))
    known = document["steps"][: line["step"]]
    about = [x["step"] for x in known if x["says"][:2] == known[group[at]]["says"][:2]]
    pool = [k for k in (about if rng.random() < 0.5 else range(line["step"])) if k != group[at]]
    group[at] = rng.choice(pool or [line["step"]])
    return document, line["step"]


def fewer_operands(document: Json, rng: random.Random) -> Change:
    """An operand less."""
    line = rng.choice([line for line in document["steps"] if line["uses"]])
    del line["uses"][rng.randrange(len(line["uses"]))]
    return document, line["step"]


def application(document: Json, rng: random.Random) -> Change:
    """Applied to another operator, as another step of the same rule is."""
    alike: dict[str, list[Json]] = {}
    for line in document["steps"]:
        alike.setdefault(line["rule"], []).append(line)
    lines = rng.choice([lines for lines in alike.values() if len(lines) > 1])
    line, lender = rng.sample(lines, 2)
    line["by"] = copy.deepcopy(lender["by"])
    return document, line["step"]


def removed(document: Json, rng: random.Random) -> Change:
    """A step less: the one after it is in its place."""
    number = rng.randrange(len(document["steps"]) - 1)
    del document["steps"][number]
    return document, number


def forgotten(document: Json, rng: random.Random) -> Change:
    """A step less, all the others renumbered: the first that used it cannot any more."""
    number = rng.randrange(len(document["steps"]))
    users = [line["step"] for line in document["steps"] if number in used(line)]
    if not users:
        return removed(document, rng)
    del document["steps"][number]
    for line in document["steps"][number:]:
        line["step"] -= 1
        line["uses"] = [[k - (k > number) for k in group if k != number] for group in line["uses"]]
    return document, users[0] - 1


def exchanged(document: Json, rng: random.Random) -> Change:
    """Two steps in each other's place, with their numbers put right."""
    line = rng.choice([line for line in document["steps"] if line["uses"]])
    earlier = rng.choice(used(line))
    steps = document["steps"]
    steps[earlier], steps[line["step"]] = steps[line["step"]], steps[earlier]
    steps[earlier]["step"], steps[line["step"]]["step"] = earlier, line["step"]
    return document, earlier


def field(document: Json, rng: random.Random) -> Change:
    """A field less, or one more."""
    number = rng.randrange(len(document["steps"]))
    line = document["steps"][number]
    if rng.random() < 0.5:
        line["note"] = "trust me"
    else:
        del line[rng.choice(["by", "uses", "says", "rule"])]
    return document, number


WAYS = (
    *(says, says, says, fewer, rule, operand, fewer_operands),
    *(application, removed, forgotten, exchanged, field),
)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("name", ["block", "gpt"])
def test_an_altered_step_is_refused(name: str, seed: int, request: pytest.FixtureRequest) -> None:
    found: Proved = request.getfixturevalue(name)
    rng = random.Random(f"{name} {seed}")
    plain = json.dumps(found.document)
    share = ALTERATIONS // 8 if name == "block" else ALTERATIONS // 80
    for _ in range(share):
        way: Callable[[Json, random.Random], Change] = rng.choice(WAYS)
        document, number = way(json.loads(plain), rng)
        if document == found.document:  # an operator that gives two statements
            continue
        assert refused_at(found.checker, document) == number, way.__name__


def test_a_step_of_another_proof_is_refused(block: Proved, gpt: Proved) -> None:
    rng = random.Random(7)
    borrowed = 0
    for lender in rng.sample(gpt.document["steps"], 60):
        document = copy.deepcopy(block.document)
        number = rng.randrange(len(document["steps"]))
        line = copy.deepcopy(lender)
        line["step"] = number
        line["uses"] = [[k % max(number, 1) for k in group] for group in line["uses"]]
        if number or not line["uses"]:
            document["steps"][number] = line
            assert refused_at(block.checker, document) == number
            borrowed += 1
    assert borrowed > 50


def test_a_step_that_nothing_uses_is_refused(block: Proved) -> None:
    document = copy.deepcopy(block.document)
    earlier = [k for line in document["steps"] for k in used(line)]
    repeated = copy.deepcopy(document["steps"][earlier[0]])
    repeated["step"] = len(document["steps"])
    document["steps"].append(repeated)
    assert refused_at(block.checker, document) == repeated["step"]


def test_an_altered_output_is_refused(block: Proved) -> None:
    for change in (
        lambda row: row["shares"].pop(next(iter(row["shares"]))),
        lambda row: row["shares"].update({"9": []}),
        lambda row: row["shares"].update({key: [0] for key in row["shares"]}),
        lambda row: row["shares"].update({key: [] for key in row["shares"]}),
        lambda row: row.update(wants=99),
        lambda row: row.update(wants=float(row["wants"])),
        lambda row: row.update(note="trust me"),
        lambda row: row["shares"].update({"00": row["shares"]["0"]}),
        lambda row: row["shares"].update({key: [*x, -1] for key, x in row["shares"].items()}),
    ):
        document = copy.deepcopy(block.document)
        change(document["outputs"][0])
        with pytest.raises(Refused, match=r"output|step"):
            block.checker.certificate(document)
    document = copy.deepcopy(block.document)
    document["outputs"] *= 2
    with pytest.raises(Refused, match="twice"):
        block.checker.certificate(document)
    document = copy.deepcopy(block.document)
    document["outputs"] = []
    with pytest.raises(Refused, match="nothing uses it"):
        block.checker.certificate(document)


def test_what_is_nested_too_deeply_is_refused(block: Proved) -> None:
    deep: Json = []
    for _ in range(100_000):
        deep = [deep]
    document = dict(block.document)
    for field in ("says", "by"):
        document["steps"] = [{**block.document["steps"][0], field: deep}]
        assert refused_at(block.checker, document) == 0
