"""Types of the arrays that hold many requests at once, and their units."""

from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

Ints: TypeAlias = NDArray[np.int64]
"""Instants, durations (nanoseconds), counts and indices."""
Floats: TypeAlias = NDArray[np.float64]
Flags: TypeAlias = NDArray[np.bool_]

SECOND_NS: Final = 1_000_000_000
FAR_NS: Final = 1 << 60
"""Later than any instant of a simulation (36 years)."""


def to_ns(seconds: float) -> int:
    """Seconds to whole nanoseconds."""
    return round(seconds * SECOND_NS)
