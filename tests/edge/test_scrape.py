"""The text of `/metrics` says what prometheus-client's own collector says."""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest, values
from prometheus_client.mmap_dict import MmapedDict, mmap_key
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.parser import text_string_to_metric_families

from assay.core.ids import BatchId, TaskId, TenantId
from assay.core.records import BatchRecord, BatchState
from assay.edge.metrics import Metrics
from assay.edge.scrape.exemplars import KEPT_MAX, Exemplars, exemplars_in, forget_the_dead
from assay.edge.scrape.exposition import DirectoryRegistry, answer_of, text_of
from assay.edge.tracing import batch_trace

ASKS = "application/openmetrics-text;version=1.0.0;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
"""As Prometheus asks."""

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client.metrics_core import Metric

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


def told_families(text: bytes) -> list[Metric]:
    return list(text_string_to_metric_families(text.decode()))


def open_metrics_of(registry: CollectorRegistry) -> list[Metric]:
    """What a reader of OpenMetrics, which refuses what is not, finds."""
    text, kind = answer_of(registry, ASKS)
    assert kind.startswith("application/openmetrics-text; version=1.0.0")
    assert text.endswith(b"# EOF\n")
    strict = re.sub(r"^assay_batch_slack_seconds_count.*\n", "", text.decode(), flags=re.M)
    return list(openmetrics.text_string_to_metric_families(strict))  # type: ignore[no-untyped-call]


def samples(families: list[Metric]) -> list[tuple[str, list[tuple[str, str]], float]]:
    return sorted(
        (one.name, sorted(one.labels.items()), one.value)
        for family in families
        for one in family.samples
    )


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
            assert samples(open_metrics_of(ours)) == samples(told_families(text_of(ours)))
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


@pytest.mark.parametrize(
    ("accept", "is_open"),
    [
        ("", False),
        ("*/*", False),
        ("text/plain", False),
        ("application/openmetrics-text", True),
        ("text/plain;q=0.5, Application/OpenMetrics-Text; version=1.0.0; charset=utf-8", True),
        (ASKS, True),
        ("application/openmetrics-text;version=2.0.0", False),
        ("application/openmetrics-text;q=0", False),
        ("application/openmetrics-text;q=nonsense", False),
        (";,;=,application/openmetrics-text;;q=0.1", True),
    ],
)
def test_open_metrics_is_for_those_who_ask(accept: str, is_open: bool) -> None:
    text, kind = answer_of(CollectorRegistry(), accept)
    assert kind.startswith("application/openmetrics-text") == is_open
    assert text.endswith(b"# EOF\n") == is_open


@given(st.text())
def test_any_accept_header_gets_one_of_the_two(accept: str) -> None:
    assert answer_of(CollectorRegistry(), accept)[1].startswith(("application/", "text/plain"))


def ended(batch: str, at_s: float = 1.0) -> BatchRecord:
    return BatchRecord(
        tenant=TenantId('red"\n\\'), batch_id=BatchId(batch), task_id=TaskId("t"),
        state=BatchState.COMPLETE, size=1, group_size=0, opened_ns=0, deadline_ns=0,
        completed_ns=round(at_s * 1e9), submitted=1, ended=1, queued=0, running=0,
        outcomes={},
    )  # fmt: skip


@pytest.fixture
def values_of_one_process() -> Iterator[None]:
    """Metrics with a directory change how values are kept in this process."""
    before = values.ValueClass, os.environ.get("PROMETHEUS_MULTIPROC_DIR")
    yield
    values.ValueClass = before[0]
    if before[1] is None:
        os.environ.pop("PROMETHEUS_MULTIPROC_DIR", None)
    else:
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = before[1]


@pytest.mark.usefixtures("values_of_one_process")
def test_the_latest_batch_of_each_bucket_is_shown_with_its_trace(tmp_path: Path) -> None:
    metrics = Metrics(tmp_path, traces=True)
    slacks = {"b1": -7_000.0, "b2": -5.0, "b3": -3.0, "b4": 0.0, "b5": 10.0, "b6": 9e9, "b" * 99: 2}
    for at_s, (batch, slack_s) in enumerate(slacks.items()):
        metrics.batch_completed(ended(batch, at_s), slack_s=slack_s)
    found = [
        (float(one.labels["le"]), one.exemplar)
        for family in open_metrics_of(metrics.registry)
        for one in family.samples
        if one.exemplar is not None
    ]
    latest = {one.labels["trace_id"]: (bound, one) for bound, one in found}
    shown = {"b1": -3600.0, "b3": -1.0, "b4": 0.0, "b6": float("inf"), "b" * 99: 10.0}
    assert len(found) == len(shown)
    for batch, bound in shown.items():
        at, one = latest[batch_trace('red"\n\\', batch).trace_id]
        assert (at, one.value) == (bound, slacks[batch])
        assert one.labels.get("batch_id") == (batch if len(batch) < 99 else None)
    assert b"trace_id" not in text_of(metrics.registry)


def test_of_several_processes_the_newest_exemplar_is_shown(tmp_path: Path) -> None:
    for pid, at_s in ((1, 5.0), (2, 9.0), (3, 7.0)):
        (tmp_path / f"exemplars_{pid}.json").write_text(json.dumps({"s": [at_s, f"of {pid}"]}))
    (tmp_path / "exemplars_4.json").write_text("{")
    assert exemplars_in(tmp_path) == {"s": "of 2"}


def test_exemplars_are_bounded_and_go_with_their_process(tmp_path: Path) -> None:
    kept = Exemplars(tmp_path)
    for n in range(KEPT_MAX + 20):
        kept.note("h", {"tenant": str(n)}, (1.0,), 0.5, of={"trace_id": "a"}, at_s=n)
    found = exemplars_in(tmp_path)
    assert len(found) == KEPT_MAX
    assert 'h_bucket{tenant="19",le="1.0"}' not in found
    with subprocess.Popen(["true"]) as ended_process:
        gone = tmp_path / f"exemplars_{ended_process.pid}.json"
    gone.write_text("{}")
    forget_the_dead(tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == [f"exemplars_{os.getpid()}.json"]


def test_a_registry_of_one_process_is_rendered_by_the_client() -> None:
    registry = CollectorRegistry()
    assert text_of(registry) == generate_latest(registry)
