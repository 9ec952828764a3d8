"""One page shows what all processes of the machine have counted."""

import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Histogram, generate_latest, values

from assay.config.ready_files import REPLACES
from assay.core.ids import BatchId, TaskId, TenantId
from assay.core.outcome import Outcome
from assay.core.records import BatchRecord, BatchState
from assay.edge.metrics import Metrics, open_metrics
from assay.edge.scrape import directory as scrape_directory
from assay.edge.scrape.fast import observe_all

OTHER = """
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from assay.edge.metrics import open_metrics
metrics = open_metrics(Path(sys.argv[1]))
metrics.requests_ended(tenant="default", pipeline="math", outcome="SCORED", count=5)
metrics.slots_seen(stage="noop", states={"busy": 7})
"""


def page(metrics: Metrics) -> str:
    return generate_latest(metrics.registry).decode()


def count_elsewhere(data_dir: Path) -> None:
    subprocess.run([sys.executable, "-c", OTHER, str(data_dir)], check=True)


@pytest.fixture(autouse=True)
def values_of_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Opening the metrics changes how the whole process counts: only while the test runs."""
    monkeypatch.setattr(values, "ValueClass", values.ValueClass)
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", "")
    monkeypatch.delenv("PROMETHEUS_MULTIPROC_DIR")


def test_what_another_process_counted_is_on_the_page(tmp_path: Path) -> None:
    count_elsewhere(tmp_path)
    metrics = open_metrics(tmp_path)
    metrics.requests_ended(tenant="default", pipeline="math", outcome="SCORED", count=2)
    line = 'assay_requests_total{outcome="SCORED",pipeline="math",tenant="default"} 7.0'
    assert line in page(metrics)


def test_slots_of_a_dead_host_are_not_counted(tmp_path: Path) -> None:
    count_elsewhere(tmp_path)
    metrics = open_metrics(tmp_path)
    metrics.slots_seen(stage="noop", states={"busy": 1})
    assert 'assay_slots{stage="noop",state="busy"} 1.0' in page(metrics)


def test_files_of_the_dead_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scrape_directory, "FILES_OF_THE_DEAD_MAX", 2)
    for _ in range(3):
        count_elsewhere(tmp_path)
    open_metrics(tmp_path)
    assert len(list((tmp_path / "metrics").glob("counter_*.db"))) == 2


def test_metrics_of_ones_own_need_no_directory() -> None:
    metrics = Metrics()
    metrics.batch_completed(batch(), slack_s=-2.0)
    metrics.waits(stage="noop")([0.01])
    text = page(metrics)
    assert 'assay_batch_slack_seconds_bucket{le="-1.0",tenant="default"} 1.0' in text
    assert 'assay_wait_seconds_count{stage="noop"} 1.0' in text


def batch(task: str = "run-7") -> BatchRecord:
    """A completed batch with requests that no judge saw."""
    return BatchRecord(
        tenant=TenantId("default"),
        batch_id=BatchId("b"),
        task_id=TaskId(task),
        state=BatchState.COMPLETE,
        size=8,
        group_size=4,
        opened_ns=0,
        deadline_ns=0,
        completed_ns=1,
        submitted=8,
        ended=8,
        queued=0,
        running=0,
        outcomes={Outcome.SCORED: 5, Outcome.INFRA_FAILED: 2, Outcome.EXPIRED: 1},
        grouped=8,
        shift_micro=1_500_000,
    )


def test_what_no_judge_saw_is_counted_by_task_and_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("assay.edge.metrics.TASKS_NAMED_MAX", 1)
    metrics = Metrics()
    for task in ("run-7", "run-7", "run-8", "score-0123"):
        metrics.batch_completed(batch(task), slack_s=1.0)
    text = page(metrics)
    for task in ("run-7", "(others)"):
        own = f'task_id="{task}",tenant="default"'
        for name, labels, value in [
            ("requests", own, 16.0),
            ("unjudged", f'cause="INFRA_FAILED",{own}', 4.0),
            ("unjudged", f'cause="EXPIRED",{own}', 2.0),
            ("grouped", own, 16.0),
            ("bias_avoided", own, 3.0),
        ]:
            assert f"assay_task_{name}_total{{{labels}}} {value}" in text
    assert 'cause="SCORED"' not in text
    assert "run-8" not in text


def test_tenants_that_come_and_go_leave_a_bounded_number_of_series_and_every_event_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("assay.edge.metrics.TENANTS_NAMED_MAX", 3)
    metrics = Metrics()
    for n in range(20):
        tenant = f"tenant-{n}"
        metrics.requests_ended(tenant=tenant, pipeline="math", outcome="SCORED")
        metrics.batch_at_risk(tenant=tenant)
        metrics.batch_completed(replace(batch("run-7"), tenant=TenantId(tenant)), slack_s=1.0)
    named: dict[str, set[str]] = {}
    sums: Counter[str] = Counter()
    for family in metrics.registry.collect():
        for sample in family.samples:
            if "tenant" in sample.labels and not sample.name.endswith("_created"):
                named.setdefault(sample.name, set()).add(sample.labels["tenant"])
                sums[sample.name] += int(sample.value)
    assert len(named) > 5
    for name, tenants in named.items():
        assert tenants == {"tenant-0", "tenant-1", "tenant-2", "(others)"}, name
    assert sums["assay_requests_total"] == sums["assay_batches_at_risk_total"] == 20
    assert sums["assay_batch_slack_seconds_count"] == 20
    assert sums["assay_task_requests_total"] == 20 * 8


def test_a_part_that_was_started_again_is_counted_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(REPLACES, "reward:hung")
    code = (
        "import pathlib, sys\n"
        "from assay.edge.metrics import open_metrics\n"
        "from prometheus_client import generate_latest\n"
        "metrics = [open_metrics(pathlib.Path(sys.argv[1])) for _ in range(2)][0]\n"
        "print(generate_latest(metrics.registry).decode())\n"
    )
    told = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True
    ).stdout
    assert 'assay_parts_replaced_total{part="reward",reason="hung"} 1.0' in told


@given(seconds=st.lists(st.sampled_from([0.0, 0.1, 0.25, 1.0, 5.0]) | st.floats(0, 8), max_size=20))
def test_values_observed_together_count_as_those_observed_one_by_one(seconds: list[float]) -> None:
    pages = []
    for together in (True, False):
        registry = CollectorRegistry()
        histogram = Histogram("x", "x", registry=registry, buckets=(0.1, 1.0, 5.0))
        if together:
            observe_all(histogram, seconds)
        else:
            for one in seconds:
                histogram.observe(one)
        lines = generate_latest(registry).decode().splitlines()
        pages.append([line for line in lines if "_sum" not in line and "_created" not in line])
        assert registry.get_sample_value("x_sum") == pytest.approx(sum(seconds))
    assert pages[0] == pages[1]
