"""What a simulation recorded, and the figures computed from it. Pure values."""

import bisect
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of time."""

    start: float
    end: float

    @property
    def length(self) -> float:
        """How long it is."""
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class Generation(Span):
    """One rollout in one slot, from its start there to its end or to the end of the run."""

    slot: int
    group: int
    version: int
    """Of the weights that were active at its start."""
    ended: bool
    """False: it was stopped, or the run ended before it did."""


@dataclass(frozen=True, slots=True)
class Step(Span):
    """One training step."""

    version: int
    """Of the weights that it trains."""
    staleness: tuple[int, ...]
    """Of each group: `version` minus the oldest version in the group."""
    tokens: float
    waited: float
    """How long the trainer was ready and had too few groups."""


@dataclass(slots=True)
class Timeline:
    """All that happened, in the order in which it ended."""

    name: str
    slots: int
    gpus: int
    payload_bytes: int
    until: float = 0.0
    generations: list[Generation] = field(default_factory=list)
    pauses: list[Span] = field(default_factory=list)
    """Of all slots at once."""
    fetches: list[tuple[int, Span]] = field(default_factory=list)
    """Slot and time of weights fetched from a relay."""
    pushes: list[Span] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    queue: list[tuple[float, int]] = field(default_factory=list)
    """Complete groups that wait for the trainer, after each change."""
    versions: list[tuple[float, int]] = field(default_factory=list)
    """Active version after each activation."""
    groups_done: int = 0
    groups_stale: int = 0
    """Discarded because they were too old when they were read."""
    groups_cut: int = 0
    """Stopped and discarded because enough others had ended."""
    tokens_discarded: float = 0.0


@dataclass(frozen=True, slots=True)
class Figures:
    """Summary of a timeline; times in its unit."""

    rollout_utilisation: float
    """Share of slot time in which a slot decoded."""
    trainer_utilisation: float
    generations: int
    steps: int
    step_time: float
    """Mean, from the end of a training step to that of the next; NaN with fewer than two."""
    train_wait: float
    """Mean per step, without the first."""
    pause: float
    """Mean per push."""
    tokens_per_gpu: float
    """Tokens trained on per unit of time and GPU."""
    queue_peak: int
    queue_mean: float
    staleness_mean: float
    staleness_max: int
    payload_bytes: int
    """Of all pushes."""
    discarded: float
    """Share of the generated tokens that no step used: stale or stopped groups."""


FIGURES = tuple(one.name for one in fields(Figures))


def _paused_before(pauses: Sequence[Span]) -> Callable[[float], float]:
    """The paused time before an instant; pauses do not overlap and are in order."""
    starts = [pause.start for pause in pauses]
    sums = [0.0, *itertools.accumulate(pause.length for pause in pauses)]

    def before(at: float) -> float:
        last = bisect.bisect_right(starts, at) - 1
        return sums[last] + min(at, pauses[last].end) - starts[last] if last >= 0 else 0.0

    return before


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values) if values else math.nan


def decoding_time(timeline: Timeline) -> float:
    """Slot time in which a slot decoded: generations without the pauses in them."""
    paused = _paused_before(timeline.pauses)
    return math.fsum(g.length - paused(g.end) + paused(g.start) for g in timeline.generations)


def _queue_mean(timeline: Timeline) -> float:
    ends = [at for at, _ in timeline.queue[1:]] + [timeline.until]
    area = (depth * (end - at) for (at, depth), end in zip(timeline.queue, ends, strict=True))
    return math.fsum(area) / timeline.until


def figures(timeline: Timeline) -> Figures:
    """Compute the summary."""
    steps, until = timeline.steps, timeline.until
    finished = [s for s in steps if s.end <= until]
    between = [b.end - a.end for a, b in itertools.pairwise(finished)]
    staleness = [s for step in steps for s in step.staleness]
    trained = math.fsum(step.tokens for step in finished)
    generated = trained + timeline.tokens_discarded
    return Figures(
        rollout_utilisation=decoding_time(timeline) / (until * timeline.slots),
        trainer_utilisation=math.fsum(min(s.end, until) - s.start for s in steps) / until,
        generations=sum(g.ended for g in timeline.generations),
        steps=len(steps),
        step_time=_mean(between),
        train_wait=_mean([s.waited for s in finished[1:]]),
        pause=_mean([p.length for p in timeline.pauses]) if timeline.pauses else 0.0,
        tokens_per_gpu=trained / until / timeline.gpus,
        queue_peak=max(depth for _, depth in timeline.queue),
        queue_mean=_queue_mean(timeline),
        staleness_mean=_mean(staleness) if staleness else 0.0,
        staleness_max=max(staleness, default=0),
        payload_bytes=timeline.payload_bytes * len(timeline.pushes),
        discarded=timeline.tokens_discarded / generated if generated else 0.0,
    )
