"""Captures a real model at full depth, and verifies the pair: seconds, operators, memory.

    python bench/models.py --model llama --layers 32 --world-size 8 --mode eager

The models are those of `examples/transformers_tp` (needs transformers and torch).
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from gg_datalog import capture
from gg_datalog.inference.run import Options, run_facts
from gg_datalog.result.sources import extracted
from gg_datalog.result.store import write_facts

MODEL = Path(__file__).parents[1] / "examples" / "transformers_tp" / "model.py"


def example() -> Any:
    """The module of the example, which is no package."""
    spec = spec_from_file_location("transformers_tp", MODEL)
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def measure(arguments: dict[str, Any], world_size: int, engine: str, jobs: int | None) -> None:
    """Prints what capture and verification took."""
    started = time.perf_counter()
    pair = capture(**arguments, world_size=world_size, jobs=jobs)
    print(f"capture {time.perf_counter() - started:.1f} s")
    for row in pair.documents.about["programs"]:
        print("  ", row)
    with tempfile.TemporaryDirectory() as work:
        files = pair.save(Path(work) / "case")
        started = time.perf_counter()
        tables, case = extracted(files, [], lambda text: None)
        write_facts(tables, Path(work) / "facts", "parquet", case)
        took = time.perf_counter() - started
        print(f"extract {took:.1f} s, {sum(table.num_rows for table in tables.values())} facts")
        started = time.perf_counter()
        options = Options(engine)
        report = run_facts(Path(work) / "facts", Path(work) / "result", options, lambda text: None)
        print(f"run {time.perf_counter() - started:.1f} s, {report.stats['relations']} derived")
        print(report.verdict, report.engine, report.stats["seconds"])


def main() -> None:
    """Parse the arguments and measure."""
    parser = argparse.ArgumentParser(description="capture and verify a real model")
    parser.add_argument(
        "--model", choices=("llama", "qwen3", "mixtral", "qwen3_moe"), default="llama"
    )
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--world-size", type=int, default=8)
    parser.add_argument("--mode", choices=("dynamo", "eager"), default="eager")
    parser.add_argument("--engine", choices=("auto", "clingo", "souffle"), default="clingo")
    parser.add_argument("--jobs", type=int)
    args = parser.parse_args()
    arguments = getattr(example(), args.model)(layers=args.layers) | {"mode": args.mode}
    measure(arguments, args.world_size, args.engine, args.jobs)


if __name__ == "__main__":
    main()
