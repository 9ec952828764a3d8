"""The simulator's files: arrival traces in, results out. A shell: everything else here is pure."""

import csv
import dataclasses
import json
from collections import defaultdict
from pathlib import Path

import numpy as np

from assay.core.errors import InvalidRequest
from assay.model.arrays import Floats
from assay.sim.pools.result import Result


def read_arrivals(path: Path) -> tuple[Floats, ...]:
    """One ascending array of seconds a step, from a CSV with columns `step` and `arrival_s`.

    Raises:
        InvalidRequest: a column is missing or a time is no non-negative number.
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
            raise InvalidRequest("an arrival is negative or no number", field="arrival_s")
    return curves


def write_json(result: Result, path: Path) -> None:
    """Everything, derived figures included."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result.to_dict(), indent=1) + "\n")


def write_parquet(result: Result, path: Path) -> None:
    """One row a batch; policy and seed in every row, so that files can be put together."""
    import pyarrow
    import pyarrow.parquet

    rows = [
        {"policy": result.policy, "seed": result.seed}
        | {k: v for k, v in dataclasses.asdict(batch).items() if k != "outcomes"}
        | {f"outcome_{word.lower()}": count for word, count in batch.outcomes.items()}
        for batch in result.batches
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
