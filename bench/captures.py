"""What the capture of a Llama of any depth costs: CPU seconds, per operator, and memory.

    python bench/captures.py                                  # 8 layers of an 8B, 8 ranks
    python bench/captures.py --layers 32 --mode eager dynamo
    python bench/captures.py --size 405b --layers 126

Forward and backward, sequential and on every rank. The configuration is written here, weights are
not initialised: nothing is downloaded, and no size needs memory. CPU seconds are those of all
processes, imports left out; they stay what they are beside other jobs, seconds do not. Memory is
that of the largest process. Needs transformers and torch.
"""

from __future__ import annotations

import argparse
import resource
import time
from typing import Any

from models import example

from gg_datalog import capture

SIZES: dict[str, dict[str, Any]] = {
    "8b": {"hidden_size": 4096, "intermediate_size": 14336, "num_attention_heads": 32},
    "405b": {"hidden_size": 16384, "intermediate_size": 53248, "num_attention_heads": 128},
}
SHARED: dict[str, Any] = {"num_key_value_heads": 8, "vocab_size": 128256}
HEAD = "| size | layers | ranks | mode | operators | CPU s | ms per operator | s | peak MB |"
RULE = "| --- | ---: | ---: | --- | ---: | ---: | ---: | ---: | ---: |"


def llama(size: str, layers: int, mode: str, world_size: int) -> dict[str, Any]:
    """What to call `capture` with."""
    from transformers import LlamaConfig

    rope = {"rope_type": "default", "rope_theta": 500000.0}
    config = LlamaConfig(**SIZES[size], **SHARED, rope_parameters=rope)
    given: dict[str, Any] = example().arguments(config, layers, mode=mode)
    return given | {"world_size": world_size}


def cpu_seconds() -> float:
    """Of this process and of those that it started and that ended."""
    used = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in used)


def measured(given: dict[str, Any], jobs: int | None) -> tuple[int, float, float, float]:
    """Operators of all programs, CPU seconds, seconds and MB of one capture."""
    cpu, started = cpu_seconds(), time.perf_counter()
    pair = capture(**given, jobs=jobs)
    cpu, seconds = cpu_seconds() - cpu, time.perf_counter() - started
    calls = sum(record.counts["calls"] for record in pair.records)
    return calls, cpu, seconds, max(record.memory for record in pair.records) / 1e6


def main() -> None:
    """Prints one row per mode and repetition."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", choices=sorted(SIZES), default="8b")
    parser.add_argument("--layers", type=int, default=8, metavar="N", help="depth [8]")
    parser.add_argument("--ranks", type=int, default=8, metavar="N", help="degree [8]")
    parser.add_argument("--mode", nargs="+", choices=("dynamo", "eager"), default=["eager"])
    parser.add_argument("--jobs", type=int, metavar="N", help="as for capture [processors]")
    parser.add_argument("--repeat", type=int, default=1, metavar="N", help="runs per row [1]")
    options = parser.parse_args()
    measured(llama(options.size, 1, options.mode[0], 1), 0)  # imports, and what torch keeps
    print(HEAD, RULE, sep="\n")
    for mode in options.mode:
        given = llama(options.size, options.layers, mode, options.ranks)
        for _ in range(options.repeat):
            calls, cpu, seconds, memory = measured(given, options.jobs)
            print(
                f"| {options.size} | {options.layers} | {options.ranks} | {mode} | {calls} | "
                f"{cpu:.1f} | {1000 * cpu / calls:.2f} | {seconds:.1f} | {memory:.0f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
