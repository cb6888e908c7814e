"""``extract``: which files the user meant, and their facts in a folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import click

from gg_datalog.extract import CaseFiles, case_files
from gg_datalog.foundation.errors import InputError
from gg_datalog.foundation.folders import refuse_inside
from gg_datalog.foundation.progress import Progress
from gg_datalog.foundation.regular import refuse_special
from gg_datalog.result.sources import extracted
from gg_datalog.result.store import facts_folder, write_relations

CASE = "case"


@dataclass(frozen=True)
class Given:
    """The files of a command line: a case folder, single graphs, or texts for a reader."""

    paths: Sequence[Path]
    reader: str | None = None
    named_groups: Sequence[str] = ()
    seq: Path | None = None
    dist: Sequence[Path] = ()
    groups: Path | None = None
    relations: Path | None = None
    outputs: Path | None = None

    def extract(
        self,
        facts: Path,
        operators: Sequence[Path],
        chosen: Sequence[str],
        partial: Sequence[str],
        form: str,
        progress: Progress,
    ) -> list[str]:
        """Writes the facts; the warnings."""
        others = (self.seq, *self.dist, self.groups, self.relations, self.outputs)
        refuse_inside((*self.paths, *others, *operators), facts)
        with facts_folder(facts) as fresh:
            files = self.files(fresh / CASE, progress)
            files = replace(
                files,
                groups=self.groups or files.groups,
                relations=self.relations or files.relations,
                outputs=self.outputs or files.outputs,
                chosen=list(chosen),
                partial=list(partial),
            )
            tables, case = extracted(files, operators, progress)
            write_relations(tables, fresh, form, case)
        return [str(text) for text in tables["warning"]["text"].to_pylist()]

    def files(self, kept: Path, progress: Progress) -> CaseFiles:
        """The files of the case; what a reader makes of texts is written to ``kept``."""
        if self.reader is not None:
            return self._read(self.reader, kept, progress)
        if self.named_groups:
            raise click.UsageError("--group goes with --from; give --groups FILE otherwise")
        if len(self.paths) > 1:
            raise click.UsageError("give one CASE_DIR, or say of which form the files are: --from")
        if self.paths:
            if self.seq is not None or self.dist:
                raise click.UsageError("give either CASE_DIR or --seq and --dist, not both")
            return case_files(self.paths[0])
        if self.seq is None or not self.dist:
            raise click.UsageError("give CASE_DIR, or --seq once and --dist once per rank")
        return CaseFiles(self.seq, list(self.dist))

    def _read(self, name: str, kept: Path, progress: Progress) -> CaseFiles:
        from gg_datalog.readers import ReaderInput, load_reader, read_with
        from gg_datalog.readers.fx_groups import contradictions
        from gg_datalog.readers.fx_text import parts

        if self.seq is not None or self.dist:
            raise click.UsageError("with --from give FILEs: the sequential one, then the ranks'")
        reader = load_reader(name)
        if len(self.paths) < 2:
            raise click.UsageError(
                "with --from give at least two FILEs: the sequential one, then the ranks'"
            )
        for path in self.paths:
            refuse_special(path)
            if not all(part.is_file() for part in (parts(path) if name == "fx-text" else [path])):
                raise InputError("no such file", str(path), "give the path of an existing file")
        given = ReaderInput(self.paths, _groups(self.named_groups), progress)
        documents = read_with(name, reader, given)
        if documents.groups is None and self.groups is None:
            contradictions(documents.seq, documents.dist)
        return documents.write(kept)


def _groups(texts: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """``NAME=0,1`` or, for the name that rank 0 has for it, ``0:NAME=0,1``."""
    groups: dict[str, tuple[int, ...]] = {}
    for name, ranks in map(_named, texts):
        if groups.setdefault(name, ranks) != ranks:
            raise click.UsageError(
                f"--group {name} is given twice with different ranks; where ranks use one name "
                f"for different groups, say whose it is: --group {ranks[0]}:{name}=..."
            )
    return groups


def _named(text: str) -> tuple[str, tuple[int, ...]]:
    name, equals, ranks = text.rpartition("=")
    numbers = ranks.split(",")
    if not equals or not name or not all(n.strip().isdecimal() for n in numbers):
        raise click.UsageError(f"--group {text!r} is not NAME=RANK,RANK,...")
    return name, tuple(int(n) for n in numbers)
