"""Exemplars: the latest batch in each bucket of a histogram, with its trace.

prometheus-client keeps none where several processes share a directory, so each process keeps its
own in a file beside its values, and a scrape joins them. They are shown in OpenMetrics only; the
text format of Prometheus has no place for them.
"""

import contextlib
import json
import os
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from prometheus_client.utils import floatToGoString

from assay.edge.scrape.labels import braced

KEPT_MAX: Final = 256
"""Exemplars of one process; beyond it, those that were not renewed for longest are forgotten."""
CHARS_MAX: Final = 128
"""Of an exemplar's names and values together, by OpenMetrics; labels beyond it are left out."""
_PREFIX: Final = "exemplars_"


class Exemplars:
    """The exemplars that this process adds to its metrics."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._kept: OrderedDict[str, tuple[float, str]] = OrderedDict()

    def note(
        self,
        histogram: str,
        labels: Mapping[str, str],
        bounds: Sequence[float],
        value: float,
        *,
        of: Mapping[str, str],
        at_s: float,
    ) -> None:
        """Keep the exemplar of the bucket in which an observation falls.

        Args:
            histogram: its name.
            labels: of the observed series.
            bounds: upper bounds of its buckets, without infinity.
            value: what was observed.
            of: what the exemplar says, the most important first.
            at_s: Unix time of the observation.
        """
        place = bisect_left(bounds, value)
        bound = floatToGoString(bounds[place] if place < len(bounds) else float("inf"))  # type: ignore[no-untyped-call]  # unannotated
        series = f"{histogram}_bucket{braced(labels, le=bound)}"
        self._kept.pop(series, None)
        self._kept[series] = (at_s, f" # {braced(_fitting(of))} {value!r} {at_s:.3f}")
        while len(self._kept) > KEPT_MAX:
            self._kept.popitem(last=False)
        self._write()

    def _write(self) -> None:
        """Replace the file; on a full disk the exemplars of before stay."""
        file = self._directory / f"{_PREFIX}{os.getpid()}.json"
        new = file.with_suffix(".new")
        with contextlib.suppress(OSError):
            new.write_text(json.dumps(self._kept), "utf-8")
            new.replace(file)


def _fitting(labels: Mapping[str, str]) -> dict[str, str]:
    kept: dict[str, str] = {}
    chars = 0
    for name, value in labels.items():
        chars += len(name) + len(value)
        if chars > CHARS_MAX:
            break
        kept[name] = value
    return kept


def exemplars_in(directory: Path) -> Mapping[str, str]:
    """What stands behind the value of a series' line, by the line's beginning: the newest of all
    processes."""
    found: dict[str, tuple[float, str]] = {}
    for file in directory.glob(f"{_PREFIX}*.json"):
        try:
            kept = json.loads(file.read_text("utf-8"))
        except (OSError, ValueError):  # of a process that has just ended
            continue
        for series, (at_s, text) in kept.items():
            if series not in found or found[series][0] < at_s:
                found[series] = (at_s, text)
    return {series: text for series, (_, text) in found.items()}


def forget_the_dead(directory: Path) -> None:
    """Remove the files of processes that have ended."""
    for file in directory.glob(f"{_PREFIX}*"):
        pid = file.stem.removeprefix(_PREFIX)
        if pid.isdecimal() and not Path("/proc", pid).exists():
            file.unlink(missing_ok=True)
