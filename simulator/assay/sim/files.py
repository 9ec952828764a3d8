"""Files that the simulator reads: arrival traces."""

import csv
from collections import defaultdict
from pathlib import Path

import numpy as np

from assay.core.errors import InvalidRequest
from assay.model.arrays import Floats


def read_arrivals(path: Path) -> tuple[Floats, ...]:
    """One ascending array of seconds per step, from a CSV with columns `step` and `arrival_s`.

    Raises:
        InvalidRequest: a column is missing or a time is not a non-negative number.
    """
    steps: dict[str, list[float]] = defaultdict(list)
    with path.open(newline="") as lines:
        for number, row in enumerate(csv.DictReader(lines)):
            try:
                steps[row["step"]].append(float(row["arrival_s"]))
            except (KeyError, ValueError) as error:
                raise InvalidRequest(f"row {number}: {error}", field="arrival_s") from error
    curves = tuple(np.sort(np.array(seconds)) for seconds in steps.values())
    for curve in curves:
        if not np.isfinite(curve).all() or (curve < 0).any():
            raise InvalidRequest("an arrival is negative or not a number", field="arrival_s")
    return curves
