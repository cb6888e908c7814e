"""Results whose certificates are checked, altered and explained."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gg_datalog.extract import case_files, extract_case
from gg_datalog.extract.schema import RULE_RELATIONS
from gg_datalog.inference.run import Options, run_facts
from gg_datalog.proofs.certifying import as_text, certificate
from gg_datalog.proofs.checker import Checker
from gg_datalog.result.store import write_facts

ROOT = Path(__file__).resolve().parents[2]


def silent(_: str) -> None:
    """No progress."""


@dataclass(frozen=True)
class Proved:
    """A result with its certificate and a checker over its facts."""

    facts: Path
    result: Path
    document: dict[str, Any]
    checker: Checker


def run(case: Path, folder: Path, *partial: str, engine: str = "clingo") -> Path:
    """Extracts and runs a case; the folder of its facts."""
    write_facts(extract_case(case_files(case)), folder, "parquet", {})
    run_facts(folder, folder / "result", Options(engine, partial=partial), silent)
    return folder


def proved(facts: Path) -> Proved:
    """The certificate of a result, and a checker over the same facts, read anew."""
    from gg_datalog.result.store import read_facts

    tables, _ = read_facts(facts)
    rows = {
        r.name: list(zip(*(c.to_pylist() for c in tables[r.name].columns), strict=True))
        for r in RULE_RELATIONS
    }
    document = json.loads(as_text(certificate(facts / "result", silent)))
    return Proved(facts, facts / "result", document, Checker(rows))


@pytest.fixture(scope="session")
def block(tmp_path_factory: pytest.TempPathFactory) -> Proved:
    """A transformer block on two ranks."""
    folder = tmp_path_factory.mktemp("proofs") / "block"
    return proved(run(ROOT / "examples" / "tp_block" / "case", folder))


@pytest.fixture(scope="session")
def gpt(tmp_path_factory: pytest.TempPathFactory) -> Proved:
    """A GPT with its vocabulary and its loss over two ranks."""
    folder = tmp_path_factory.mktemp("proofs")
    script = [sys.executable, str(ROOT / "bench" / "generate.py"), "--layers", "1", "--ranks", "2"]
    subprocess.run([*script, "-o", str(folder / "case")], check=True, capture_output=True)
    return proved(run(folder / "case", folder / "gpt"))


@pytest.fixture(scope="session")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The block without its all-reduce: the folder of its facts."""
    folder = tmp_path_factory.mktemp("proofs") / "broken"
    return run(ROOT / "examples" / "tp_block" / "case-missing-all-reduce", folder)
