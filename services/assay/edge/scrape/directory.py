"""Values of metrics in files, which all processes of one machine share."""

import contextlib
import os
from pathlib import Path
from typing import Final

from prometheus_client import values
from prometheus_client.multiprocess import mark_process_dead

from assay.edge.scrape.exemplars import forget_the_dead

FILES_OF_THE_DEAD_MAX: Final = 256
"""Counters of dead processes stay in the sums until there are more dead processes than this."""


def keep_values_in(directory: Path) -> None:
    """Have prometheus-client keep values in files there; remove the oldest dead files."""
    directory.mkdir(parents=True, exist_ok=True)
    forget_the_dead(directory)
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
