"""One audit of everything that is known to be right or wrong: the corpus, the zoo, our own programs
after reported mistakes, the examples and generated pairs. Run by hand.

    python bench/everything.py OUT                    # writes OUT/plan.toml, and runs it
    python bench/everything.py OUT --jobs 2 --only "zoo/B7*"
    python bench/everything.py OUT --plan             # only writes the plan

These programs are expected to end as they are named: `bug*` does not refine, `fix*` and
`keep*` refine; cases say it themselves. The corpus and the zoo lie in `../shared`, or are left out;
so is an example whose packages are not installed. Needs torch, and transformers for its example.
Exit codes are those of `gg-datalog audit`.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import gpt
import llama
import qwen2

from gg_datalog.audit.database import asked
from gg_datalog.audit.folder import AuditFolder

ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared"
NAMED = re.compile(r"^def ((bug|fix|keep)\w*)\(", re.MULTILINE)
RIGHT, WRONG = "refines", "does-not-refine"
Entry = dict[str, Any]

# Of each example: the package that it needs, and its entry.
BUG: Entry = {"matrix": {"bug": [False, True]}, "expected": [{"bug": True, "status": WRONG}]}
TWO: Entry = {"capture": {"world-size": 2}}
EXAMPLES: dict[str, tuple[str, Entry]] = {
    "first/model.py:tensor_parallel": ("torch", {"capture": {"world-size": 4}}),
    **{
        f"handwritten/{name}.py:arguments": ("torch", BUG)
        for name in ("autograd_pair", "data_parallel", "pipeline", "tensor_parallel", "ulysses")
    },
    "dtensor_llama/model.py:llama": ("torch", TWO),
    "transformers_tp/model.py:llama": ("transformers", TWO),
    "transformers_tp/model.py:qwen3": ("transformers", TWO),
    "transformers_tp/model.py:mixtral": ("transformers", TWO),
    "transformers_tp/model.py:qwen3_moe": ("transformers", TWO),
    "torchtitan_llama/model.py:llama3": ("torchtitan", TWO),
    "megatron_gpt/model.py:gpt": ("megatron.core", {}),
    "megatron_gpt/model.py:cross_entropy": ("megatron.core", {}),
}
STEPS = {
    "step": (RIGHT, ["--tensor", "2"]),
    "step-sequence": (RIGHT, ["--tensor", "2", "--data", "2", "--sequence-parallel"]),
    "step-bug": (WRONG, ["--tensor", "2", "--bug", "input-gradient-not-reduced"]),
}
GENERATED: dict[str, tuple[Any, Mapping[str, int]]] = {
    "gpt": (gpt, {"hidden": 16, "heads": 8, "ffn": 16, "vocab": 16, "seq": 8, "batch": 2}),
    "llama": (llama, {"hidden": 64, "heads": 8, "kv_heads": 8, "ffn": 16, "vocab": 16, "seq": 3}),
    "qwen2": (qwen2, {"hidden": 16, "heads": 8, "kv_heads": 8, "ffn": 16, "vocab": 16, "seq": 3}),
}


# ---- the plan ------------------------------------------------------------------------------------
def entries(folder: Path, shared: Path) -> Iterator[Entry]:
    """All entries; what has to be generated is written below a folder."""
    if (shared / "corpus").is_dir():
        yield {"name": "corpus", "cases": str(shared / "corpus")}
    for model in sorted(shared.glob("zoo/cases/*/model.py")):
        yield from named("zoo", model)
    for model in sorted((ROOT / "bench" / "programs").glob("*/model.py")):
        yield from named("programs", model)
    yield from examples()
    yield {"name": "generated", "cases": str(generated(folder / "generated"))}


def named(where: str, model: Path) -> Iterator[Entry]:
    """The programs of a module, which are named by what they are."""
    for name, kind in NAMED.findall(model.read_text(encoding="utf-8")):
        expect = WRONG if kind == "bug" else RIGHT
        shown = f"{where}/{model.parent.name}.{name}"
        yield {"name": shown, "program": f"{model}:{name}", "expect": expect}


def examples() -> Iterator[Entry]:
    """The programs and the cases of the examples."""
    for program, (package, entry) in EXAMPLES.items():
        if _installed(package):
            name = f"examples/{program.replace('/model.py:', '.').replace('.py:', '.')}"
            yield {"name": name, "program": str(ROOT / "examples" / program), **entry}
    block = ROOT / "examples" / "tp_block"
    yield {"name": "examples/tp_block", "cases": str(block / "case")}
    wrong = {"cases": str(block / "case-missing-all-reduce"), "expect": WRONG}
    yield {"name": "examples/tp_block-missing-all-reduce", **wrong}


def _installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:
        return False


def generated(folder: Path) -> Path:
    """Pairs of every family, of several depths and degrees, and the steps of training."""
    for family, (module, sizes) in GENERATED.items():
        for layers in (1, 2):
            for ranks in (2, 4, 8):
                case = module.case(module.Sizes(layers=layers, ranks=ranks, **sizes))
                case.write(folder / f"{family}-{layers}x{ranks}")
    script = ROOT / "examples" / "training_step" / "capture.py"
    for name, (expect, options) in STEPS.items():
        subprocess.run([sys.executable, str(script), str(folder / name), *options], check=True)
        (folder / name / "expect.json").write_text(json.dumps({"verdict": expect}))
    return folder


def toml(value: Any) -> str:
    """A value as TOML writes it, tables in one line."""
    if isinstance(value, Mapping):
        return f"{{ {', '.join(f'{key} = {toml(one)}' for key, one in value.items())} }}"
    if isinstance(value, list):
        return f"[{', '.join(map(toml, value))}]"
    return json.dumps(value)


def plan(found: Iterator[Entry]) -> str:
    """The plan with these entries."""
    head = 'name = "everything"\n\n[limits]\nwall = 900\nmemory = "6 GB"\n'
    tables = ("\n".join(f"{key} = {toml(one)}" for key, one in entry.items()) for entry in found)
    return head + "".join(f"\n[[entry]]\n{table}\n" for table in tables)


# ---- what came of it -----------------------------------------------------------------------------
OUTCOME = """
    SELECT split_part(item, '/', 1) AS source, array_to_string(expected, ' or ') AS expected,
           status, count(*) AS items, round(sum(cpu)) AS "CPU seconds"
    FROM items GROUP BY ALL ORDER BY ALL"""
UNEXPECTED = """
    SELECT i.item, i.status, coalesce(nullif(i.reason, ''), f.message, '')
    FROM items i LEFT JOIN findings f ON f.item = i.item AND f.place = 1
    WHERE NOT i.as_expected ORDER BY i.item"""


def outcome(folder: AuditFolder) -> None:
    """Prints how many ended how, by what was expected, and what was not expected."""
    found = asked(folder, OUTCOME)
    for row in (found.columns, *found.rows):
        print(" | ".join(map(str, row)))
    rows = asked(folder, UNEXPECTED).rows
    print(f"\n{len(rows)} not as expected")
    for item, status, why in rows:
        print(f"  {item}: {status}: {str(why).splitlines()[0][:200] if why else ''}")


def main() -> int:
    """Writes the plan, runs it, and says what came of it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("--shared", type=Path, default=SHARED, help="where corpus and zoo lie")
    parser.add_argument("--plan", action="store_true", help="only write the plan")
    given, passed = parser.parse_known_args()
    given.out.mkdir(parents=True, exist_ok=True)
    place = given.out / "plan.toml"
    found = entries(given.out.absolute(), given.shared.absolute())
    place.write_text(plan(found), encoding="utf-8")
    if given.plan:
        return 0
    audit = given.out / "audit"
    command = [sys.executable, "-m", "gg_datalog", "audit", str(place), "-o", str(audit), *passed]
    code = subprocess.run(command, check=False).returncode
    outcome(AuditFolder(audit))
    return code


if __name__ == "__main__":
    sys.exit(main())
