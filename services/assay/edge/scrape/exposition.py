"""The text of `/metrics`, made from the files in which this machine's processes keep their values.

prometheus-client reads every file and sorts out each key again for each scrape: with a thousand
tenants some 20 us per series, during which the service answers no one. Here a file's keys are read
once and remembered with their line of text, and a scrape reads values at known places and adds them
up. Only counters and histograms, the kinds with a label per tenant; gauges go the client's own way.

The files are those of `prometheus_client.mmap_dict`: 4 bytes of length used, 4 of padding, then
entries of a key's length (4 bytes), the key as JSON padded to 8 bytes, value and timestamp
(doubles). They only grow.
"""

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.openmetrics import exposition as openmetrics

from assay.edge.scrape.exemplars import exemplars_in
from assay.edge.scrape.labels import text_of_labels

_HEAD: Final = 8
_ENTRY: Final = 16
_LENGTH: Final = struct.Struct("i").unpack_from
_VALUE: Final = struct.Struct("d").unpack_from
VERSIONS: Final = frozenset({"0.0.1", "1.0.0"})
"""Of OpenMetrics, between which nothing that is said here differs."""
_ADDED: Final = ("counter_", "histogram_")
"""Beginnings of the names of files whose values are added up over processes."""


class DirectoryRegistry(CollectorRegistry):
    """The metrics of all processes that share a directory."""

    def __init__(self, directory: Path) -> None:
        super().__init__()
        MultiProcessCollector(self, path=str(directory))  # type: ignore[no-untyped-call]  # unannotated
        self._directory = directory
        self._added = _Added(directory)
        self._gauges = CollectorRegistry()
        self._gauges.register(_Gauges(directory))

    def text(self) -> bytes:
        """All metrics in the text format."""
        return self._added.text().encode() + generate_latest(self._gauges)

    def open_metrics(self) -> bytes:
        """All metrics as OpenMetrics, with exemplars; their end is said by the gauges."""
        added = self._added.text(_OpenMetrics(exemplars_in(self._directory)))
        return added.encode() + _as_open_metrics(self._gauges)


def text_of(registry: CollectorRegistry) -> bytes:
    """The metrics of a registry in Prometheus' text format."""
    return registry.text() if isinstance(registry, DirectoryRegistry) else generate_latest(registry)


def answer_of(registry: CollectorRegistry, accept: str) -> tuple[bytes, str]:
    """The metrics in the format that a scrape asks for, and its content type.

    Args:
        registry: whose metrics.
        accept: the header of this name; without OpenMetrics in it, Prometheus' text format.
    """
    if not _wants_open_metrics(accept):
        return text_of(registry), CONTENT_TYPE_LATEST
    if isinstance(registry, DirectoryRegistry):
        return registry.open_metrics(), openmetrics.CONTENT_TYPE_LATEST
    return _as_open_metrics(registry), openmetrics.CONTENT_TYPE_LATEST


def _as_open_metrics(registry: CollectorRegistry) -> bytes:
    text: bytes = openmetrics.generate_latest(registry)  # type: ignore[no-untyped-call]  # unannotated
    return text


def _wants_open_metrics(accept: str) -> bool:
    for one in accept.lower().split(","):
        kind, *parameters = (part.strip() for part in one.split(";"))
        given = dict(part.partition("=")[::2] for part in parameters)
        if kind == "application/openmetrics-text" and given.get("version", "1.0.0") in VERSIONS:
            return _weight(given.get("q", "1")) > 0
    return False


def _weight(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


class _Gauges:
    """Gauges: the name of a file says how those of several processes become one."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def collect(self) -> list[Metric]:
        files = [str(file) for file in self._directory.glob("gauge_*.db")]
        return list(MultiProcessCollector.merge(files, accumulate=True))  # type: ignore[no-untyped-call]  # unannotated

    def describe(self) -> list[Metric]:
        return []


@dataclass(frozen=True, slots=True)
class _OpenMetrics:
    """Differences of OpenMetrics from Prometheus' own text format."""

    exemplars: Mapping[str, str]


@dataclass(slots=True)
class _File:
    """Where the values of a file are."""

    inode: int
    read: int = _HEAD
    places: list[int] = field(default_factory=list)
    """Of the values, in bytes."""
    slots: list[int] = field(default_factory=list)
    """Which sum each belongs to."""


@dataclass(slots=True)
class _Histogram:
    """One histogram: its sums, by the upper bounds of its buckets."""

    buckets: dict[str, int] = field(default_factory=dict)
    total: int | None = None


@dataclass(slots=True)
class _Family:
    """The series of one metric."""

    name: str
    words: str
    kind: str
    lines: dict[str, int] = field(default_factory=dict)
    """Of a counter: the text before the value, and the place of its sum."""
    histograms: dict[str, _Histogram] = field(default_factory=dict)
    """By their labels, as text."""


class _Added:
    """Counters and histograms of the files in a directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._files: dict[Path, _File] = {}
        self._slots: dict[bytes, int] = {}
        self._families: dict[str, _Family] = {}

    def text(self, form: "_OpenMetrics | None" = None) -> str:
        """Their present values; in Prometheus' own format unless a form is given."""
        sums = self._sums()
        parts: list[str] = []
        for name in sorted(self._families):
            family = self._families[name]
            words = family.words.replace("\\", r"\\").replace("\n", r"\n")
            shown = family.name
            if form is not None:
                words = words.replace('"', r"\"")
                shown = shown.removesuffix("_total") if family.kind == "counter" else shown
            parts.append(f"# HELP {shown} {words}\n# TYPE {shown} {family.kind}\n")
            parts += [f"{line} {sums[slot]!r}\n" for line, slot in family.lines.items()]
            for labels, one in family.histograms.items():
                _add_histogram(parts, name, labels, one, sums, form)
        return "".join(parts)

    def _sums(self) -> list[float]:
        contents: list[tuple[_File, bytes]] = []
        known, self._files = self._files, {}
        for path in sorted(self._directory.glob("*.db")):
            if not path.name.startswith(_ADDED):
                continue
            try:
                inode, content = path.stat().st_ino, path.read_bytes()
            except FileNotFoundError:  # of a process that ended long ago
                continue
            file = known.get(path)
            if file is None or file.inode != inode:
                file = _File(inode)
            self._files[path] = file
            self._learn(file, content, "histogram" if path.name[0] == "h" else "counter")
            contents.append((file, content))
        sums = [0.0] * len(self._slots)
        for file, content in contents:
            for place, slot in zip(file.places, file.slots, strict=True):
                sums[slot] += _VALUE(content, place)[0]
        return sums

    def _learn(self, file: _File, content: bytes, kind: str) -> None:
        """Read the keys that were added to a file since it was read last."""
        used = min(_LENGTH(content, 0)[0], len(content)) if len(content) >= _HEAD else 0
        place = file.read
        while place < used:
            length = _LENGTH(content, place)[0]
            begin = place + 4
            value = begin + length + (8 - (length + 4) % 8)
            if length < 0 or value + _ENTRY > used:
                break  # it is being written
            key = content[begin : begin + length]
            file.places.append(value)
            file.slots.append(self._slot(key, kind))
            place = value + _ENTRY
        file.read = place

    def _slot(self, key: bytes, kind: str) -> int:
        slot = self._slots.get(key)
        if slot is None:
            slot = self._slots[key] = len(self._slots)
            metric, name, labels, words = json.loads(key)
            self._place(metric, name, labels, words, kind, slot)
        return slot

    def _place(
        self, metric: str, name: str, labels: Mapping[str, str], words: str, kind: str, slot: int
    ) -> None:
        family = self._families.get(metric)
        if family is None:
            shown = f"{metric}_total" if kind == "counter" else metric
            family = self._families[metric] = _Family(shown, words, kind)
        if kind == "counter":
            text = text_of_labels(labels)
            family.lines[f"{name}{{{text}}}" if text else name] = slot
            return
        text = text_of_labels({key: value for key, value in labels.items() if key != "le"})
        histogram = family.histograms.setdefault(text, _Histogram())
        if name.endswith("_sum"):
            histogram.total = slot
        else:
            histogram.buckets[labels["le"]] = slot


def _add_histogram(
    parts: list[str],
    name: str,
    labels: str,
    one: _Histogram,
    sums: list[float],
    form: "_OpenMetrics | None",
) -> None:
    """Append the lines of a histogram; its files hold each bucket's own count."""
    before = f"{labels}," if labels else ""
    braced = f"{{{labels}}}" if labels else ""
    count = 0.0
    for bound in sorted(one.buckets, key=float):
        count += sums[one.buckets[bound]]
        series = f'{name}_bucket{{{before}le="{bound}"}}'
        exemplar = "" if form is None else form.exemplars.get(series, "")
        parts.append(f"{series} {count!r}{exemplar}\n")
    parts.append(f"{name}_count{braced} {count!r}\n")
    if form is not None and any(float(bound) < 0 for bound in one.buckets):
        # OpenMetrics has no sum of what may be below 0, as it would not only grow. It has no count
        # then either; that is kept, as prometheus-client does: boards and alerts ask for it.
        return
    if one.total is not None:
        parts.append(f"{name}_sum{braced} {sums[one.total]!r}\n")
