"""An explanation as a model, which becomes JSON or a tree in a terminal."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gg_datalog.foundation.visible import visible_json
from gg_datalog.proofs.stating import Made
from gg_datalog.result.printable import printable

if TYPE_CHECKING:
    from rich.tree import Tree


@dataclass
class Node:
    """One line of an explanation: a relation, the rule that gave it, and what it follows from.

    ``state`` is ``holds``, ``above`` (explained already), ``missing`` (a tensor that cannot be
    rebuilt) or ``closest``; ``more`` counts premises that are not shown.
    """

    text: str
    state: str = "holds"
    rule: str | None = None
    at: Sequence[Made] = ()
    premises: list[Node] = field(default_factory=list)
    more: int = 0

    def document(self) -> dict[str, Any]:
        """As JSON has it."""
        places = [
            {
                "side": x.side,
                "node": x.name,
                "target": x.target,
                "source": x.source,
                "module": x.module,
            }
            for x in self.at
        ]
        below = [node.document() for node in self.premises]
        about = {"text": self.text, "state": self.state, "rule": self.rule, "at": places}
        return {**about, "premises": below, "more": self.more}


@dataclass(frozen=True)
class Explanation:
    """Why a tensor is mapped, or why it is not."""

    tensor: str
    side: str
    rank: int | None
    mapped: bool
    explanations: list[Node]

    def document(self) -> dict[str, Any]:
        """As JSON has it."""
        about = {"tensor": self.tensor, "side": self.side, "rank": self.rank, "mapped": self.mapped}
        trees = [node.document() for node in self.explanations]
        return {"schema_version": 1, **about, "explanations": trees}


# ---- as text -----------------------------------------------------------------------------------
def as_json(found: Explanation) -> str:
    """The explanation as a JSON document."""
    return visible_json(json.dumps(found.document(), indent=1, ensure_ascii=False))


STYLES: Mapping[str, str] = {"holds": "", "above": "dim", "missing": "red", "closest": "yellow"}


def as_tree(found: Explanation, width: int, colour: bool) -> str:
    """The explanation as a tree in text, lines folded to ``width`` columns."""
    from io import StringIO

    from rich.console import Console
    from rich.text import Text
    from rich.tree import Tree

    found = printable(found)
    verdict = "is mapped" if found.mapped else "is not mapped"
    if not found.mapped and any(node.state == "holds" for node in found.explanations):
        verdict = "holds only a part or a multiple"
    root = Tree(Text(f"{found.tensor} {verdict}", style="bold"))
    _grow(root, found.explanations)
    text = StringIO()
    console = Console(file=text, width=width, force_terminal=colour, no_color=not colour)
    console.print(root, overflow="fold")
    return "\n".join(line.rstrip() for line in text.getvalue().splitlines())


def _grow(tree: Tree, below: Iterable[Node]) -> None:
    from rich.text import Text

    for node in below:
        told = " (explained above)" if node.state == "above" else ""
        line = Text(f"{node.text}{told}", style=STYLES[node.state])
        if node.rule:
            line.append(f"  [{node.rule}]", style="cyan")
        for made in node.at if node.state != "above" else ():
            if made.source:
                line.append(f"\n{_side(made)}: {made.source}", style="dim")
        branch = tree.add(line)
        _grow(branch, node.premises)
        if node.more:
            branch.add(Text(f"... {node.more} more, with a larger --depth", style="dim"))


def _side(made: Made) -> str:
    module = f" ({made.module})" if made.module else ""
    return f"{'sequential' if made.side == 'seq' else 'ranks'}{module}"
