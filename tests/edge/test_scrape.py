"""The text of `/metrics` says what prometheus-client's own collector says."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.mmap_dict import MmapedDict, mmap_key
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.parser import text_string_to_metric_families

from assay.edge.scrape.exposition import DirectoryRegistry, text_of

BOUNDS = ("0.5", "1.0", "+Inf")
LABEL = st.one_of(st.sampled_from(["a", "b"]), st.text(st.characters(codec="utf-8"), max_size=5))
EVENT = st.tuples(
    st.sampled_from(["counter", "histogram", "gauge_livesum", "gauge_mostrecent"]),
    st.integers(1, 3),
    LABEL,
    st.integers(0, 10**9).map(float),
)
"""Kind, process, label, value; sums of whole numbers are exact in any order."""


def key(kind: str, name: str, label: str, **more: str) -> str:
    """As prometheus-client writes it."""
    labels = {"stage": "s", "tenant": label, **more}
    metric = f"assay_{kind}"
    found: str = mmap_key(metric, f"{metric}{name}", list(labels), list(labels.values()), "It's.\\")
    return found


def write(
    files: dict[tuple[str, int], Any], folder: Path, event: tuple[str, int, str, float]
) -> None:
    """One event of one process."""
    kind, process, label, value = event
    file = files.get((kind, process))
    if file is None:
        file = files[kind, process] = MmapedDict(str(folder / f"{kind}_{process}.db"))  # type: ignore[no-untyped-call]
    if kind != "histogram":
        name = key(kind, "_total" if kind == "counter" else "", label)
        file.write_value(name, file.read_value(name)[0] + value, 1.0 + process)
        return
    total = key(kind, "_sum", label)
    file.write_value(total, file.read_value(total)[0] + value, 0.0)
    for bound in BOUNDS:  # all of them, as a histogram does when it is made
        bucket = key(kind, "_bucket", label, le=bound)
        held = file.read_value(bucket)[0]
        file.write_value(bucket, held + (bound == BOUNDS[int(value) % 3]), 0.0)


def told(text: bytes) -> dict[str, Any]:
    """What a text says, without its order and without zero counts of what was not seen."""
    return {
        family.name: (
            family.type,
            family.documentation,
            sorted((s.name, sorted(s.labels.items()), s.value) for s in family.samples),
        )
        for family in text_string_to_metric_families(text.decode())
    }


@given(st.lists(EVENT, max_size=12), st.lists(EVENT, max_size=6))
def test_it_says_what_the_clients_own_collector_says(
    first: list[tuple[str, int, str, float]], later: list[tuple[str, int, str, float]]
) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder, files = Path(name), dict[tuple[str, int], Any]()
        ours, theirs = DirectoryRegistry(folder), CollectorRegistry()
        MultiProcessCollector(theirs, path=name)  # type: ignore[no-untyped-call]
        for events in (first, later):
            for event in events:
                write(files, folder, event)
            assert told(text_of(ours)) == told(generate_latest(theirs))
        for (kind, process), file in files.items():
            file.close()
            if kind == "counter" and process == 1:  # a process ended long ago
                (folder / f"{kind}_{process}.db").unlink()
        kept = told(text_of(ours))
        for family, found in told(generate_latest(theirs)).items():
            assert {tuple(map(str, s)) for s in found[2]} <= {
                tuple(map(str, s)) for s in kept[family][2]
            }


def test_a_file_that_is_cut_short_does_no_harm() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files: dict[tuple[str, int], Any] = {}
        write(files, folder, ("counter", 1, "a", 5.0))
        files["counter", 1].close()
        ours = DirectoryRegistry(folder)
        whole = (folder / "counter_1.db").read_bytes()
        for cut in (0, 4, 8, 20, 60, 100):
            (folder / "counter_2.db").write_bytes(whole[:cut])
            assert b'tenant="a"} 5.0\n' in text_of(ours)


def test_a_registry_of_one_process_is_rendered_by_the_client() -> None:
    registry = CollectorRegistry()
    assert text_of(registry) == generate_latest(registry)
