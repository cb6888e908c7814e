"""Generated pairs of other degrees and depths refine."""

from __future__ import annotations

import pytest

from .cases import GENERATED, generated
from .trial import Bench


@pytest.mark.parametrize("name", GENERATED)
def test_a_generated_pair_refines(name: str, bench: Bench) -> None:
    found = bench.run(generated(name, bench.folder))
    assert found.status == 0, found.error or found.report["findings"]
    assert {row["status"] for row in found.report["outputs"]} == {"mapped"}
