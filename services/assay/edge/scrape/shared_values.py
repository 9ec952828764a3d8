"""Values in files that the processes of one machine share: prometheus-client, multiprocess mode."""

import contextlib
import os
from bisect import bisect_left
from collections import Counter as TallyOf
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from prometheus_client import Histogram, values
from prometheus_client.multiprocess import mark_process_dead

FILES_OF_THE_DEAD_MAX: Final = 256
"""Counters of dead processes stay in the sums until there are more dead processes than this."""


def open_directory(directory: Path) -> None:
    """Have prometheus-client keep values in files there; remove the oldest dead files."""
    directory.mkdir(parents=True, exist_ok=True)
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(directory)
    values.ValueClass = values.MultiProcessValue()  # type: ignore[no-untyped-call]  # unannotated
    dead: list[tuple[float, Path]] = []
    for file in directory.glob("*.db"):
        pid = file.stem.rpartition("_")[2]
        if not pid.isdecimal() or Path("/proc", pid).exists():
            continue
        mark_process_dead(int(pid), str(directory))  # type: ignore[no-untyped-call]  # unannotated
        with contextlib.suppress(FileNotFoundError):
            dead.append((file.stat().st_mtime, file))
    for _, file in sorted(dead)[:-FILES_OF_THE_DEAD_MAX]:
        file.unlink(missing_ok=True)


def observe_all(histogram: Histogram, seconds: Sequence[float]) -> None:
    """As `histogram.observe` for each, with one write per bucket: a write takes some 2 us."""
    if not seconds:
        return
    bounds, buckets = histogram._upper_bounds, histogram._buckets  # noqa: SLF001 no public way
    for index, count in TallyOf(bisect_left(bounds, one) for one in seconds).items():
        buckets[index].inc(count)
    histogram._sum.inc(sum(seconds))  # noqa: SLF001 as above
