"""The seed of tests that draw their own cases.

It is the same in every run, so that a change is judged by what it changes. To look for cases that
were not drawn before: `ASSAY_TEST_SEED=$RANDOM python -m pytest tests/rollout/gateway`.
"""

from __future__ import annotations

import os
from typing import Final

VARIABLE: Final = "ASSAY_TEST_SEED"


def drawn_seed() -> int:
    """The seed of this run, printed, as a failure has to say which it was."""
    seed = int(os.environ.get(VARIABLE, "1"))
    print("seed", seed)
    return seed
