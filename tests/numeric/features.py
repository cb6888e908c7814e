"""What random programs may speak of beside the plain operators, each as a feature of a program."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from .aliasing import ALIASING
from .buckets import BUCKETS
from .fuzz import Fuzzer, Tensor
from .state import STATE
from .transfers import TRANSFERS
from .widths import WIDTH_STEPS

Step = Callable[[Fuzzer, Tensor], None]
STEPS_OF: Mapping[str, Sequence[Step]] = {
    "views": ALIASING,
    "integers": WIDTH_STEPS,
    "state": STATE,
    "transfers": TRANSFERS,
    "buckets": BUCKETS,
}
FEATURES = [*STEPS_OF, "keywords", "handles"]
