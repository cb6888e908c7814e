"""Reports that the tests look at, written by the command line."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

from click.testing import CliRunner

from gg_datalog.cli import cli

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "tp_block"
HOSTILE = '</script><img src=x onerror="document.title=`owned`">{{ 7 * 7 }}<!--'
Tree = dict[str, Any]


class Pages:
    """Pages in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @cache  # noqa: B019 - one object, as long as the session
    def __call__(self, name: str) -> Path:
        """The page of ``good``, ``broken``, ``explained``, ``hostile`` or ``large``."""
        make: Callable[[], Path] = getattr(self, f"_{name}")
        return make()

    def result(self, name: str) -> Path:
        """The folder of results that belongs to a page."""
        self(name)
        return self.folder / name / "facts" / "result"

    def _good(self) -> Path:
        return self._written("good", EXAMPLES / "case")

    def _broken(self) -> Path:
        return self._written("broken", EXAMPLES / "case-missing-all-reduce")

    def _explained(self) -> Path:
        """The broken case, each tensor with a tree of explanations."""
        page = self.folder / "explained.html"
        with patch("gg_datalog.reporting.html_explain._explainer", lambda database: explained):
            _done("report", self.result("broken"), "--report", f"html={page}")
        return page

    def _hostile(self) -> Path:
        """The broken case, with names, modules and source lines that try to get out of the page."""
        case = self.folder / "hostile" / "case"
        shutil.copytree(EXAMPLES / "case-missing-all-reduce", case)
        for path in (case / "seq.json", *case.glob("dist.r*.json")):
            document = json.loads(path.read_text(encoding="utf-8"))
            for node in document["nodes"]:
                node["module"] = node["source"] = f"model.py:1 in forward: {HOSTILE}"
            path.write_text(json.dumps(_renamed(document)), encoding="utf-8")
        for name in ("relations", "outputs"):
            path = case / f"{name}.json"
            renamed = _renamed(json.loads(path.read_text(encoding="utf-8")), ("seq", "dist"))
            path.write_text(json.dumps(renamed), encoding="utf-8")
        return self._written("hostile", case)

    def _large(self) -> Path:
        """8 layers on 8 ranks, without the all-reduce after the embedding."""
        import gpt

        case = self.folder / "large" / "case"
        gpt.case(gpt.Sizes(layers=8, ranks=8)).write(case)
        for path in case.glob("dist.r*.json"):
            document = json.loads(path.read_text(encoding="utf-8"))
            first = next(n for n in document["nodes"] if "all_reduce" in str(n["target"]))
            first["target"], first["args"] = "aten.clone.default", first["args"][:1]
            path.write_text(json.dumps(document), encoding="utf-8")
        return self._written("large", case)

    def _written(self, name: str, case: Path) -> Path:
        page, facts = self.folder / f"{name}.html", self.folder / name / "facts"
        _done("extract", case, "-o", facts)
        _done("run", facts, "--engine", "clingo", "--report", f"html={page}")
        return page


def _done(*arguments: object) -> None:
    done = CliRunner().invoke(cli, [str(argument) for argument in arguments])
    assert done.exit_code in (0, 1), done.output


def _renamed(value: Any, keys: tuple[str, ...] = ("name", "node")) -> Any:
    """Every name of a node with hostile text behind it."""
    if isinstance(value, list):
        return [_renamed(one, keys) for one in value]
    if isinstance(value, dict):
        return {
            key: one + HOSTILE if key in keys and isinstance(one, str) else _renamed(one, keys)
            for key, one in value.items()
        }
    return value


class explained:
    """Stands for ``gg_datalog.proofs.explaining.explain``: a tree of three levels for every tensor."""

    def __init__(self, tensor: str, rank: int | None) -> None:
        self.tensor, self.rank = tensor, rank

    def document(self) -> Tree:
        """What ``explain`` documents."""
        leaf = self._node("as the input relations say", None, [])
        operand = self._node(f"an operand of {self.tensor} <{HOSTILE}>", "input", [leaf])
        top = self._node(f"{self.tensor} is a part of a sum", "operator", [operand, leaf])
        side = "seq" if self.rank is None else "dist"
        about = {"schema_version": 1, "tensor": self.tensor, "side": side, "rank": self.rank}
        return {**about, "mapped": False, "explanations": [top]}

    def _node(self, text: str, rule: str | None, premises: list[Tree]) -> Tree:
        at = {
            "side": "seq",
            "node": self.tensor,
            "target": "aten.mm.default",
            "source": "m.py:1",
            "module": "",
        }
        return {"text": text, "rule": rule, "at": [at], "premises": premises, "more": len(premises)}


def walk(tree: Tree) -> Iterator[Tree]:
    """A node and all below it."""
    yield tree
    for premise in tree["premises"]:
        yield from walk(premise)
