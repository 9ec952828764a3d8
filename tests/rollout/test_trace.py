"""The trace: every boundary stamped, in order, matched inside one tenancy, and exportable."""

from __future__ import annotations

import ctypes as ct
import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.rollout import ProbeEngine, Runtime, RuntimeOptions
from assay.rollout.layout import Event, TraceRecord
from assay.rollout.local.trace import PAIRS, percentile, spans, summarise, write_perfetto

if TYPE_CHECKING:
    from pathlib import Path


def traced(n: int, events_max: int = 1 << 14) -> tuple[list[TraceRecord], int]:
    options = RuntimeOptions(
        seq_len_max=64, native_scorer=True, trace=True, trace_events_max=events_max
    )
    with Runtime(ProbeEngine(), 8, options) as runtime:
        for _ in range(n):
            runtime.submit(list(range(20)), max_tokens=5, seeds=range(8))
            assert len(runtime.drain(10.0)) == 8
        records, _, lost = runtime.read_trace()
        return records, lost


def test_every_rollout_has_all_eight_pairs_and_slots_are_not_mixed_up() -> None:
    records, lost = traced(5)
    assert lost == 0
    found = spans(records)
    for pair in PAIRS:
        mine = [s for s in found if s.pair is pair]
        if pair.begin is not Event.STEP_BEGIN:
            assert len(mine) == 40, pair.name
            assert len({(s.slot, s.generation) for s in mine}) == 40
    assert {s.pair.name for s in found} == {pair.name for pair in PAIRS}


def test_one_rollouts_instants_are_in_the_order_of_its_life() -> None:
    records, _ = traced(3)
    life = [e for e in Event if e not in {Event.STEP_BEGIN, Event.STEP_END}]
    by_rollout: dict[tuple[int, int], dict[int, int]] = {}
    for r in records:
        if r.event in life:
            by_rollout.setdefault((r.slot, r.generation), {})[r.event] = r.ticks
    assert len(by_rollout) == 24
    for instants in by_rollout.values():
        ticks = [instants[e] for e in life]
        assert ticks == sorted(ticks)


def test_after_a_wrap_the_newest_events_come_out_in_order_and_the_rest_are_counted() -> None:
    records, lost = traced(20, events_max=256)
    assert len(records) + 0 <= 256
    assert len(records) > 200
    assert lost > 0
    done = [r.generation for r in records if r.event == Event.OBSERVED]
    assert done == sorted(done)


def test_tracing_off_records_nothing() -> None:
    with Runtime(ProbeEngine(), 8, RuntimeOptions(seq_len_max=64)) as runtime:
        runtime.submit([1, 2], max_tokens=5, seeds=[1], want_reward=False)
        runtime.drain(10.0)
        assert runtime.stats().trace_events == 0


def test_the_export_is_what_perfetto_opens(tmp_path: Path) -> None:
    found = spans(traced(1)[0])
    write_perfetto(found, tmp_path / "trace.json")
    written = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    complete = [e for e in written if e["ph"] == "X"]
    assert len(complete) == len(found)
    assert all(e["dur"] >= 0 and e["ts"] > 0 for e in complete)
    assert {e["args"]["name"] for e in written if e["ph"] == "M"} == {
        "queues",
        "rollouts",
        "worker",
    }


@given(st.lists(st.integers(0, 1000), min_size=1), st.sampled_from([0.5, 0.9, 0.99]))
def test_a_percentile_is_the_least_value_that_covers_its_share(xs: list[int], q: float) -> None:
    xs.sort()
    p = percentile(xs, q)
    assert p in xs
    assert sum(x <= p for x in xs) >= q * len(xs)
    assert sum(x < p for x in xs) < q * len(xs) + 1e-9


def test_a_summary_keeps_tenants_apart() -> None:
    def record(event: Event, generation: int, at: int) -> TraceRecord:
        return TraceRecord(ticks=at, slot=3, generation=generation, event=event)

    records = [
        record(Event.POSTED, 1, 10),
        record(Event.POSTED, 2, 100),
        record(Event.CONSUMED, 2, 130),
    ]
    summary = summarise(spans(records))
    assert summary["posted -> consumed"].n == 1
    assert summary["posted -> consumed"].max_ns == pytest.approx(30)
    assert ct.sizeof(TraceRecord) == 24
