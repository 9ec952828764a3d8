"""What the open batch itself shows: its durations and its transitions, against those of history.

Durations. Each stage of a past batch is stretched by the factor under which the batch's own
requests are neither too fast nor too slow: an accelerated failure time whose cumulative hazard,
summed over all requests that were at the stage, equals the number that finished there. Those that
still run count with the time that they have run (right-censored), so a batch that is much slower
than its history shows it before the first of its requests has ended. Requests cut at the timeout
are censored there: a hang says nothing about the pace of the others.

Transitions. Of the requests that finished a stage, a share goes on; rows of the past batch are cut
short, or continued as another row that went on, until their share is the batch's own.

Both are shrunk towards history by a fixed number of requests, so that the first few change little.
"""

from typing import Final

import numpy as np

from assay.model.arrays import Flags, Floats, Ints
from assay.model.jit import jit
from assay.model.observation import OpenBatch, PastBatch, past_batch

SHRINK: Final = 12.0
"""Requests of evidence by which a factor, or a share, leans towards history."""
STRETCH_MAX: Final = 20.0
STRETCH_MIN: Final = 1 / STRETCH_MAX
STRETCH_SLACK: Final = 0.05
"""A factor this close to 1 is taken for 1: no reason to leave what is known."""
SHARE_SLACK: Final = 0.05
SAMPLE_MAX: Final = 256
"""Requests, of the batch and of history, that a factor is estimated from: evenly spaced ranks."""
HALVINGS: Final = 16


@jit
def hazard(at: float, times: Floats, total: Floats, hangs: float) -> float:
    """Cumulative hazard of history at `at`.

    What runs longer than all of history is one of its hangs, which end at the timeout only, or one
    more slow request, of which each doubling of the time leaves half.
    """
    n = len(times)
    if at >= times[n - 1]:
        return float(total[n - 1] + np.log((hangs + 1) / (hangs + times[n - 1] / at)))
    low, high = 0, n
    while low < high:
        middle = (low + high) // 2
        if times[middle] <= at:
            low = middle + 1
        else:
            high = middle
    return total[low - 1] if low else 0.0


@jit
def expected_ends(factor: float, seen: Floats, times: Floats, total: Floats, hangs: float) -> float:
    """How many requests should have ended by now under the factor."""
    expected = 0.0
    for k in range(len(seen)):
        expected += hazard(seen[k] / factor, times, total, hangs)
    return expected


@jit
def best_stretch(seen: Floats, ends: float, times: Floats, total: Floats, hangs: float) -> float:
    """The factor at which as many requests should have ended as did; by bisection, in logs."""
    low, high = np.log(STRETCH_MIN), np.log(STRETCH_MAX)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        if expected_ends(np.exp(middle), seen, times, total, hangs) > ends:
            low = middle
        else:
            high = middle
    return float(np.exp((low + high) / 2))


def thinned(values: Ints) -> Floats:
    """At most `SAMPLE_MAX` of the values, ascending, at evenly spaced ranks."""
    values = np.sort(values)
    if len(values) > SAMPLE_MAX:
        ranks = (np.arange(SAMPLE_MAX) + 0.5) * len(values) / SAMPLE_MAX
        values = values[ranks.astype(np.int64)]
    return values.astype(np.float64)


def stretch(done_ns: Ints, running_ns: Ints, past_ns: Ints, timeout_ns: int) -> float:
    """How much longer the batch's requests take at a stage than those of a past batch.

    Args:
        done_ns: times of those that finished the stage.
        running_ns: times so far of those that run there.
        past_ns: times of the past batch's requests at the stage, without those that skipped it.
        timeout_ns: times from here on are cut off and say only that a request took that long.

    Returns:
        The factor; 1 where there is nothing to learn from.
    """
    finished = done_ns[done_ns < timeout_ns]
    known = past_ns[past_ns < timeout_ns]
    seen = np.concatenate([done_ns, running_ns])
    seen = seen[seen > 0]
    if len(known) == 0 or len(seen) == 0:
        return 1.0
    times = np.maximum(thinned(known), 1.0)
    # Those cut at the timeout outlived every time of history.
    left = len(past_ns) / len(known) * len(times) - np.arange(len(times))
    total = np.cumsum(1.0 / np.maximum(left, 1.0))
    sample = thinned(seen)
    hangs = float(len(past_ns) - len(known))
    factor = best_stretch(sample, len(finished) * len(sample) / len(seen), times, total, hangs)
    # The weight of the evidence: requests that ended, or should have ended under history, each
    # counted once.
    expected = expected_ends(1.0, sample, times, total, hangs) * len(seen) / len(sample)
    weight = max(float(len(finished)), min(expected, float(len(seen))))
    factor = factor ** (weight / (weight + SHRINK))
    return 1.0 if abs(np.log(factor)) < STRETCH_SLACK else factor


def went_on(service_ns: Ints, stage: int) -> tuple[Flags, Flags]:
    """(n,) requests with work at the stage; of these, those with work at a later one."""
    here = service_ns[:, stage] > 0
    later = (service_ns[:, stage + 1 :] > 0).any(axis=1)
    return here, here & later


def share_going_on(batch: OpenBatch, past: PastBatch, stage: int) -> float:
    """The share of requests that go on after the stage, leaning towards history."""
    here, later = went_on(past.service_ns, stage)
    known = float(later.sum() / max(here.sum(), 1))
    finished = batch.passed_ns[:, stage] > 0
    on = float((finished & (batch.reached > stage)).sum())
    return (on + SHRINK * known) / (float(finished.sum()) + SHRINK)


def redirect(service_ns: Ints, stage: int, share: float) -> bool:
    """Make this share of the rows go on after the stage, in place; whether any row changed."""
    here, later = went_on(service_ns, stage)
    stops = here & ~later
    wanted = round(share * int(here.sum()))
    more = wanted - int(later.sum())
    if abs(more) < SHARE_SLACK * max(int(here.sum()), 1):
        return False
    chosen = np.flatnonzero(stops if more > 0 else later)
    donors = np.flatnonzero(later)
    if len(chosen) == 0 or (more > 0 and len(donors) == 0):
        return False
    count = min(abs(more), len(chosen))
    spaced = chosen[(np.arange(count) * len(chosen)) // count]
    if more < 0:
        service_ns[spaced, stage + 1 :] = 0
    else:
        like = donors[np.arange(count) % len(donors)]
        service_ns[spaced, stage + 1 :] = service_ns[like, stage + 1 :]
    return True


def adapted(past: PastBatch, batch: OpenBatch, timeout_ns: Ints) -> PastBatch:
    """The past batch, at the pace and with the transitions of the open one.

    Args:
        past: a finished batch.
        batch: the open batch of the same task.
        timeout_ns: (stages,) 0 = not in the pipeline.
    """
    if len(batch.passed_ns) == 0:
        return past
    service = past.service_ns
    factors = np.ones(service.shape[1])
    for stage in np.flatnonzero(timeout_ns).tolist():
        done = batch.passed_ns[:, stage]
        running = batch.elapsed_ns[(batch.stage == stage) & batch.running]
        column = service[:, stage]
        factors[stage] = stretch(
            done[done > 0], running, column[column > 0], int(timeout_ns[stage])
        )
    changed = bool((factors != 1.0).any())
    if changed:
        longer = np.minimum(np.rint(service * factors), np.maximum(timeout_ns, 1)).astype(np.int64)
        service = np.where(service >= timeout_ns, service, np.maximum(longer, service > 0))
    else:
        service = service.copy()
    for stage in range(service.shape[1] - 1):
        if timeout_ns[stage]:
            changed |= redirect(service, stage, share_going_on(batch, past, stage))
    return past_batch(past.arrived_ns, service) if changed else past
