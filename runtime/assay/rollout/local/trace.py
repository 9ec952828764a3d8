"""Analysis of the trace ring: eight pairs of events, their percentiles, and a Perfetto file.

A pair is matched inside one (slot, generation), so a reused slot never mixes events of two
rollouts; the step pair is matched by step number. Durations are nanoseconds of one clock.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from assay.rollout.layout import Event

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from assay.rollout.layout import TraceRecord


@dataclass(frozen=True, slots=True)
class Pair:
    """Two instants of one rollout (or step), and the time between."""

    name: str
    begin: Event
    end: Event
    track: str
    """Row of the exported trace."""


PAIRS = (
    Pair("posted -> consumed", Event.POSTED, Event.CONSUMED, "queues"),
    Pair("prefill", Event.PREFILL_BEGIN, Event.PREFILL_END, "rollouts"),
    Pair("decode step", Event.STEP_BEGIN, Event.STEP_END, "worker"),
    Pair("decode done -> reward posted", Event.DECODE_DONE, Event.REWARD_POSTED, "queues"),
    Pair("reward posted -> scored", Event.REWARD_POSTED, Event.SCORED, "rollouts"),
    Pair("scored -> trajectory", Event.SCORED, Event.TRAJECTORY_TAKEN, "queues"),
    Pair("decode done -> trajectory done", Event.DECODE_DONE, Event.TRAJECTORY_DONE, "rollouts"),
    Pair("completion visible -> observed", Event.COMPLETION_VISIBLE, Event.OBSERVED, "queues"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Percentiles:
    """Percentiles of one pair, in nanoseconds."""

    n: int
    p50_ns: float
    p90_ns: float
    p99_ns: float
    max_ns: float


@dataclass(frozen=True, slots=True)
class Span:
    """One matched pair."""

    pair: Pair
    slot: int
    generation: int
    begin_ns: int
    end_ns: int


def spans(records: Iterable[TraceRecord]) -> list[Span]:
    """All pairs with both ends among the records."""
    instants: dict[tuple[int, int, int], int] = {}
    for r in records:
        # Of a repeated event the first counts; both ends of a step carry the same number and rows.
        instants.setdefault((r.event, r.slot, r.generation), r.ticks)
    found = []
    for pair in PAIRS:
        for (event, slot, generation), begin in instants.items():
            if event != pair.begin:
                continue
            end = instants.get((pair.end, slot, generation))
            if end is not None:
                found.append(Span(pair, slot, generation, begin, max(begin, end)))
    return found


def percentile(ordered: Sequence[float], share: float) -> float:
    """The smallest value that at least `share` of the ordered values do not exceed."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def summarise(found: Iterable[Span]) -> dict[str, Percentiles]:
    """Percentiles by pair name; a pair without spans is left out."""
    by_name: dict[str, list[float]] = {}
    for span in found:
        by_name.setdefault(span.pair.name, []).append(span.end_ns - span.begin_ns)
    summary = {}
    for name, durations in by_name.items():
        durations.sort()
        p50, p90, p99 = (percentile(durations, q) for q in (0.5, 0.9, 0.99))
        summary[name] = Percentiles(
            n=len(durations), p50_ns=p50, p90_ns=p90, p99_ns=p99, max_ns=durations[-1]
        )
    return summary


def write_perfetto(found: Iterable[Span], path: Path) -> None:
    """Chrome's trace event format, for Perfetto and chrome://tracing."""
    events: list[dict[str, object]] = []
    tracks: dict[str, int] = {}
    for span in found:
        process = tracks.setdefault(span.pair.track, len(tracks) + 1)
        events.append(
            {
                "name": span.pair.name,
                "ph": "X",
                "pid": process,
                "tid": 0 if span.pair.track == "worker" else span.slot,
                "ts": span.begin_ns / 1000,
                "dur": (span.end_ns - span.begin_ns) / 1000,
                "args": {"slot": span.slot, "generation": span.generation},
            }
        )
    names = [
        {"name": "process_name", "ph": "M", "pid": number, "args": {"name": track}}
        for track, number in tracks.items()
    ]
    path.write_text(json.dumps({"traceEvents": names + events, "displayTimeUnit": "ns"}))
