"""What could be put into the ranks' programs to close a gap, and how a person says it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from gg_datalog.result.placement import names_text, ranks_text

Group = tuple[int, ...]

FEW = 6


@dataclass(frozen=True, order=True)
class Site:
    """A place: after node ``node`` of rank ``rank``. What is put in there is used by all that used
    the node, or only by ``users``."""

    rank: int
    node: str
    users: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The node as reports name it."""
        return f"r{self.rank}.{self.node}"


@dataclass(frozen=True)
class Candidate:
    """One collective or scalar at some places, which has not been tried.

    ``action`` is as in :class:`~gg_datalog.result.report.Repair`; ``groups`` are the ranks that
    take part together, in member order; ``root`` is a place in a group, ``dim`` a dimension of
    the node.
    Where it ``replaces``, the places are collectives over the wrong ranks, or slices of what is to
    be scattered; a ``reduction`` that is empty is left as it is. ``note`` is for the
    reader.
    """

    action: str
    sites: tuple[Site, ...]
    groups: tuple[Group, ...] = ()
    reduction: str = "sum"
    factor: Fraction | None = None
    dim: int = 0
    root: int = 0
    replaces: bool = False
    source: str = ""
    note: str = ""

    @property
    def ranks(self) -> tuple[int, ...]:
        """All ranks that are changed."""
        return tuple(sorted({site.rank for site in self.sites}))

    @property
    def nodes(self) -> tuple[str, ...]:
        """The nodes of all places, with their ranks."""
        return tuple(dict.fromkeys(site.name for site in self.sites))

    def group_of(self, rank: int) -> Group:
        """The ranks that ``rank`` takes part with."""
        return next(group for group in self.groups if rank in group)

    def text(self) -> str:
        """What to do, as one would tell a colleague."""
        at = self.source.partition(" in ")[0]
        where = self._where() + (f" ({at})" if at else "")
        return where + (f", {self.note}" if self.note else "")

    def _where(self) -> str:
        taking_part = {rank for group in self.groups for rank in group}
        nodes = self._names(self.nodes, taking_part == set(self.ranks))
        used_by = [(site.rank, user) for site in self.sites for user in site.users]
        users = self._names([f"r{rank}.{user}" for rank, user in used_by], True)
        uses = "uses" if len({user for _, user in used_by}) == 1 else "use"
        where = f", where {users} {uses} it" if users else ""
        if self.action == "scale":
            return f"multiply {nodes} by {self.factor}{where}"
        if not self.reduction:
            return f"let the group of {nodes} be {listed_groups(self.groups)}"
        place = "instead of" if self.replaces else "after"
        return f"{self._what()} over {listed_groups(self.groups)} {place} {nodes}{where}"

    def _names(self, names: Sequence[str], ranks_known: bool) -> str:
        """Nodes, with their ranks where the reader does not know these."""
        text = names_text(names)
        plain = ranks_known and text.count(" on rank") == 1
        return text.removesuffix(f" on {ranks_text(self.ranks)}") if plain else text

    def _what(self) -> str:
        if self.action == "all_gather":
            return f"all-gather along dimension {self.dim}"
        if self.action == "broadcast":
            return f"broadcast from rank {self.groups[0][self.root]}"
        return f"{self.action.replace('_', '-')} ({self.reduction})"

    def wider(self, sites: Iterable[Site], **changes: Any) -> Candidate | None:
        """The same at these places, too; nothing where there are no more."""
        places = tuple(sorted({*self.sites, *sites}))
        return None if places == self.sites else replace(self, sites=places, **changes)


def joined(each: Sequence[Sequence[Candidate]]) -> Iterator[Candidate]:
    """What is proposed alike for each of several places, as one candidate for all of them."""
    first, *others = each if len(each) > 1 else [()]
    for one in first:
        like = [next((c for c in found if _form(c) == _form(one)), None) for found in others]
        sites = [site for c in like if c is not None for site in c.sites]
        wider = one.wider(sites) if None not in like else None
        if wider is not None:
            yield wider


def _form(of: Candidate) -> Candidate:
    """A candidate without its places."""
    return replace(of, sites=(), source="", note="")


def listed_groups(groups: Sequence[Group]) -> str:
    """``ranks 0-3``, or ``ranks 0-1 and ranks 2-3``."""
    told = [ranks_text(group) for group in groups]
    if len(told) > FEW:
        return f"{len(told)} groups of {len(groups[0])} ranks ({told[0]}, {told[1]}, ...)"
    return " and ".join(told)
