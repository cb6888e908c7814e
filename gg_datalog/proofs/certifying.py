"""Certificates: for each mapped output the steps that prove it, and nothing else."""

from __future__ import annotations

import json
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gg_datalog.foundation.errors import GGError, InputError
from gg_datalog.foundation.folders import in_use
from gg_datalog.foundation.progress import Progress
from gg_datalog.proofs.checker import ONE, Checker, Statement
from gg_datalog.proofs.derivations import Derivation, Derivations, elements
from gg_datalog.proofs.positions import Refused
from gg_datalog.result.folder import AGAIN, open_result, result_manifest
from gg_datalog.result.records import Records

if TYPE_CHECKING:
    import duckdb

FORM = "gg-datalog certificate 1"
_Proved = tuple[Statement, Derivation]


def derivations(database: duckdb.DuckDBPyConnection) -> Derivations:
    """The facts and the derived relations of a result, to look for the steps behind them."""
    from gg_datalog.extract.schema import RULE_RELATIONS

    rows = {r.name: database.table(f'"{r.name}"').fetchall() for r in RULE_RELATIONS}
    return Derivations(Checker(rows), Records(database).relations())


def certificate(result: Path, progress: Progress) -> dict[str, Any]:
    """The certificate of a result folder: its steps, in an order in which each uses earlier ones,
    and the hash of the facts that they are about.

    Raises:
        InputError: no output of the result is mapped.
        GGError: no step is found for a relation that was derived (an error of ours).
    """
    with in_use(result):
        manifest = result_manifest(result)
        with open_result(result) as database:
            progress("reading the result")
            known = derivations(database)
            mapped = [k for (k,) in database.sql(_MAPPED).fetchall()]
    if not isinstance(manifest.get("hash"), str):
        raise InputError("the result does not say of which facts it is", str(result), AGAIN)
    if not mapped:
        raise InputError(
            "no output is mapped: there is nothing to prove",
            str(result),
            "see `gg-datalog report` for what is wrong",
        )
    progress("looking for the steps")
    shares = {wants: _shares(known, wants) for wants in mapped}
    goals = [x for found in shares.values() for used in found.values() for x in used]
    proof = _ordered(_proofs(known, goals), goals)
    numbers = {id(x): number for number, (x, _) in enumerate(proof)}
    steps = [
        {
            "step": number,
            "rule": found.rule,
            "by": found.by,
            "uses": [[numbers[id(x)] for x in used] for used in found.uses],
            "says": json.loads(said.written()),
        }
        for number, (said, found) in enumerate(proof)
    ]
    outputs = [
        {
            "wants": k,
            "shares": {str(r): [numbers[id(x)] for x in used] for r, used in found.items()},
        }
        for k, found in shares.items()
    ]
    return {"form": FORM, "facts": manifest["hash"], "steps": steps, "outputs": outputs}


_MAPPED = "SELECT wants FROM output_status WHERE status = 'mapped' ORDER BY wants"


def as_text(document: Mapping[str, Any]) -> str:
    """The document with a step on each line."""
    steps = ",\n".join(json.dumps(line, ensure_ascii=False) for line in document["steps"])
    outputs = ",\n".join(json.dumps(line, ensure_ascii=False) for line in document["outputs"])
    form, facts = json.dumps(document["form"]), json.dumps(document["facts"])
    head = f'"form": {form},\n"facts": {facts}'
    return f'{{{head},\n"steps": [\n{steps}\n],\n"outputs": [\n{outputs}\n]}}\n'


# ---- what an output rests on -----------------------------------------------------------------
def _shares(known: Derivations, wants: int) -> dict[int, list[Statement]]:
    """For each rank the statements about what it returns: as few as make up the output."""
    checker = known.facts
    t, scale = checker.one("wanted", wants)
    returned = {rank: (d, times) for rank, d, times in checker.all("returned", wants)}
    partial = bool(checker.all("may_be_partial", wants))
    useful = {
        rank: [
            x
            for x in known.between(d, t)
            if _complete(checker, times, x, scale)
            and (not x.parts or (partial and not x.parts[1:]))
        ]
        for rank, (d, times) in returned.items()
    }
    for shares in _choices(useful):
        try:
            checker.output_mapped(wants, {str(rank): used for rank, used in shares.items()})
        except (Refused, LookupError, ValueError):
            continue
        return shares
    raise GGError(f"output {wants} is mapped, but no proof is found", None, _REPORT)


_REPORT = "please report this: the rules and the checker of certificates do not agree"


def _complete(checker: Checker, times: str, x: Statement, scale: str) -> bool:
    try:
        return checker.effect(times, x.times, scale) == ONE
    except Refused:
        return False


def _choices(useful: Mapping[int, Sequence[Statement]]) -> Iterator[dict[int, list[Statement]]]:
    """One statement for each rank, the largest; then the pieces of each; then everything."""
    for parts in (False, True):
        of_kind = {r: [x for x in found if bool(x.parts) == parts] for r, found in useful.items()}
        if all(of_kind.values()):
            yield {rank: [max(found, key=elements)] for rank, found in of_kind.items()}
            yield {rank: list(found) for rank, found in of_kind.items()}
    kinds = {(x.parts[0][:2], x.parts[0][4]) for found in useful.values() for x in found if x.parts}
    for kind in sorted(kinds):
        like = {
            rank: [x for x in found if x.parts and (x.parts[0][:2], x.parts[0][4]) == kind]
            for rank, found in useful.items()
        }
        if all(like.values()):
            yield {rank: [max(found, key=elements)] for rank, found in like.items()}


# ---- a derivation for every statement, none of which goes round in a circle --------------------
@dataclass
class _Search:
    said: Statement
    more: Iterator[Derivation]
    found: list[Derivation] = field(default_factory=list)
    ended: bool = False

    def advance(self) -> list[Statement]:
        """Looks for one more derivation; the statements that it uses."""
        step = next(self.more, None)
        if step is None:
            self.ended = True
            return []
        self.found.append(step)
        return [x for used in step.uses for x in used]


def _proofs(known: Derivations, goals: Sequence[Statement]) -> dict[int, _Proved]:
    """By statement the derivation that proves it. The first one that is found mostly will do; where
    statements would prove each other in a circle, further ones are looked for."""
    searches = {id(goal): _Search(goal, known.of(goal)) for goal in goals}
    todo = deque(searches.values())
    while True:
        while todo:
            search = todo.popleft()
            for x in search.advance():
                if id(x) not in searches:
                    searches[id(x)] = _Search(x, known.of(x))
                    todo.append(searches[id(x)])
        proved = _closure(searches)
        if all(id(goal) in proved for goal in goals):
            return proved
        todo += [s for key, s in searches.items() if key not in proved and not s.ended]
        if not todo:
            open_ends = (s.said for key, s in searches.items() if key not in proved)
            raise GGError(f"no step gives {next(open_ends).written()}", None, _REPORT)


def _closure(searches: Mapping[int, _Search]) -> dict[int, _Proved]:
    """Everything that follows from nothing, with the derivation that came first."""
    proved: dict[int, _Proved] = {}
    waiting: dict[int, list[tuple[Statement, Derivation]]] = defaultdict(list)
    ready = deque((s.said, step) for s in searches.values() for step in s.found)
    while ready:
        said, step = ready.popleft()
        if id(said) in proved:
            continue
        missing = next((x for used in step.uses for x in used if id(x) not in proved), None)
        if missing is not None:
            waiting[id(missing)].append((said, step))
            continue
        proved[id(said)] = said, step
        ready += waiting.pop(id(said), ())
    return proved


def _ordered(proved: Mapping[int, _Proved], goals: Sequence[Statement]) -> list[_Proved]:
    """What the goals rest on, in the order in which it was proved."""
    needed: set[int] = set()
    todo = [id(goal) for goal in goals]
    while todo:
        key = todo.pop()
        if key not in needed:
            needed.add(key)
            todo += [id(x) for used in proved[key][1].uses for x in used]
    return [found for key, found in proved.items() if key in needed]
