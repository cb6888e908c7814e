"""The child process of the clingo engine: grounds a program and prints its atoms.

Run as ``python clingo_worker.py FILE...``, without the package around it. A process of its own, as
the grounder cannot be interrupted. It prints through clingo's own writer, which is many
times faster than walking over the atoms in Python.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from clingo.application import Application, clingo_main
from clingo.control import Control

UNDECIDED = "undecided atoms"


class Evaluate(Application):
    """Grounds the files and fails unless everything derived is a fact."""

    program_name = "gg-datalog"

    def main(self, control: Control, files: Sequence[str]) -> None:
        """Called by clingo."""
        for file in files:
            control.load(file)
        control.ground([("base", [])])
        control.solve()
        rules = control.statistics["problem"]["lp"]
        if rules["bodies"] or rules["rules_choice"] or rules["disjunctions"]:
            raise RuntimeError(UNDECIDED)


def main() -> int:
    """Evaluate the files named on the command line."""
    options = ["--outf=1", "--out-ifs=\\n", "--verbose=0", "--stats=0"]
    return clingo_main(Evaluate(), [*options, *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
