"""The plan: how many slots each stage needs for the rest of the open batches.

`make_plan` is a pure function of an observation, in three steps:

1. futures: what may still happen, drawn from history (`futures.py`);
2. peaks: per stage, the most expensive first, the fewest slots `peak` that keep P(d <= D) >= 1 -
   epsilon, given what is up now and the start-up time of what is ordered now (`trial.py`);
3. shape: simulated under these peaks, how many slots are busy when (`shape.py`).

Stages and pools are the same thing here: pools are shared by all tasks. Stages that no open batch
connects are planned apart (`groups.py`). Batches of more than ten thousand requests are planned on
every k-th of them (`thin.py`). A slot that takes several requests at once counts for as many
(`batched.py`).
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np

from assay.config.planning import PlanSettings
from assay.core.errors import InvalidRequest
from assay.model.arrays import Floats, Ints
from assay.model.observation import Observation
from assay.planner.core.batched import in_places, in_slots, places_of
from assay.planner.core.demand import open_tasks, ranks
from assay.planner.core.futures import draw_futures
from assay.planner.core.groups import groups_of, joined, part_of
from assay.planner.core.prices import price
from assay.planner.core.shape import NO_SLOTS, Plan, empty_plan, shape_plan
from assay.planner.core.thin import (
    TOTAL_REQUESTS_MAX,
    every_kth,
    multiplied,
    size_of,
    thinned,
)
from assay.planner.core.trial import Trial, find_peaks

REORDERED_MAX: Final = 6
"""Batches that are tried at other places in the order when the caps bind."""
ORDER_ROUNDS_MAX: Final = 4
"""Times that the moves are tried again on the best order so far."""
ORDER_SERVED_MAX: Final = 600_000
"""Requests that are simulated to compare orders, all orders and futures together: some 0.05 s."""
ORDER_FUTURES_MIN: Final = 4
ORDER_GAIN_MIN: Final = 0.02
"""Minimum relative gain before a new order replaces the order of the deadlines (hysteresis)."""


def make_plan(
    observation: Observation,
    settings: PlanSettings | None = None,
    *,
    peaks_hint: Sequence[int] | None = None,
    search: bool = True,
    kept: bool = False,
) -> Plan:
    """Plan from an observation.

    Args:
        observation: history, state of the open batches, pools and costs.
        settings: how to plan.
        peaks_hint: peaks of the previous plan, where the search starts.
        search: false = keep `peaks_hint` and only compute the shape again.
        kept: the previous plan was of the same batches; its peaks change for a reason only.

    Raises:
        InvalidRequest: the observation cannot be planned; names the field.
    """
    settings = settings or PlanSettings()
    check(observation, settings)
    places = places_of(observation)
    if (places == 1).all():
        return plan_groups(observation, settings, peaks_hint, search=search, kept=kept)
    if peaks_hint is not None:
        pairs = zip(peaks_hint, places, strict=True)
        peaks_hint = [int(peak * each) for peak, each in pairs]
    plan = plan_groups(
        in_places(observation, places), settings, peaks_hint, search=search, kept=kept
    )
    return in_slots(plan, places, observation, settings)


def plan_groups(
    observation: Observation,
    settings: PlanSettings,
    peaks_hint: Sequence[int] | None,
    *,
    search: bool,
    kept: bool,
) -> Plan:
    """Plan where a slot serves one request at a time; arguments as of `make_plan`."""
    groups = groups_of(observation)
    if not groups:
        return empty_plan(observation, settings)
    sizes = [size_of(task, task.open) for task in observation.tasks if task.open is not None]
    least = -(-sum(sizes) // TOTAL_REQUESTS_MAX)
    parts = []
    for group in groups:
        hint = None if peaks_hint is None else [peaks_hint[j] for j in group.stages]
        part = part_of(observation, group)
        parts.append((group, plan_part(part, settings, hint, least, search=search, kept=kept)))
    return joined(observation, parts, NO_SLOTS)


def plan_part(
    part: Observation,
    settings: PlanSettings,
    peaks_hint: Sequence[int] | None,
    least: int,
    *,
    search: bool,
    kept: bool,
) -> Plan:
    """Plan one group, on every k-th of its requests where there are many; `k` at `least`."""
    k = max(every_kth(part), least)
    hint = None if peaks_hint is None else [-(-peak // k) for peak in peaks_hint]
    return multiplied(
        plan_each(thinned(part, k), settings, hint, search=search, kept=kept), k, part
    )


def plan_each(
    observation: Observation,
    settings: PlanSettings,
    peaks_hint: Sequence[int] | None,
    *,
    search: bool,
    kept: bool = False,
) -> Plan:
    """Plan request by request; arguments as of `make_plan`."""
    active = open_tasks(observation)
    if not active:
        return empty_plan(observation, settings)
    search = search or peaks_hint is None
    futures = draw_futures(
        observation.now_ns,
        active,
        observation.tasks,
        count=settings.futures if search else min(settings.shape_futures, settings.futures),
        seed=settings.seed,
        prior=settings.prior,
    )
    trial = Trial(observation, active, futures, settings)
    if search:
        wanted = find_peaks(trial, peaks_hint, kept=kept)
        if len(active) > 1 and over_caps(observation, wanted):
            return plan_under_caps(observation, settings, trial, wanted)
    else:
        wanted = np.minimum(np.array(peaks_hint, np.int64), trial.most)
    factors = settings.peak_factors if search else (1.0,)
    return cheapest(observation, settings, trial, wanted, factors)


def cheapest(
    observation: Observation,
    settings: PlanSettings,
    trial: Trial,
    wanted: Ints,
    factors: Sequence[float],
) -> Plan:
    """The plan with the lowest cost of capacity (`prices.py`) and of trainer time lost to delay.

    More slots than the constraint needs cost little when they are released as soon as they are
    idle; a trainer that waits costs all its GPUs.
    """
    caps = np.array([pool.cap for pool in observation.pools], np.int64)
    rates = [task.trainer_cost * task.barrier for task, _ in open_tasks(observation)]
    best: tuple[float, Plan] | None = None
    for factor in factors:
        more = np.minimum(np.ceil(wanted * factor).astype(np.int64), trial.most)
        busy, delays = trial.measure(np.minimum(more, caps))
        plan = shape_plan(observation, settings, trial, more, np.minimum(more, caps), busy, delays)
        capacity = price(plan, observation.pools, settings)
        total = capacity + float(delays.mean(axis=0) @ np.array(rates)) / 1e9
        if best is None or total < best[0]:
            best = (total, plan)
    assert best is not None  # noqa: S101 - there is at least one factor
    return best[1]


def over_caps(observation: Observation, wanted: Iterable[int]) -> bool:
    """Whether some stage needs more slots than its cap."""
    return any(n > pool.cap for n, pool in zip(wanted, observation.pools, strict=True))


def plan_under_caps(
    observation: Observation, settings: PlanSettings, trial: Trial, wanted: Ints
) -> Plan:
    """The plan, and the order of batches, where the caps are too small for all open batches."""
    caps = np.array([pool.cap for pool in observation.pools], np.int64)
    peaks = np.minimum(wanted, caps)
    active = open_tasks(observation)
    indices = [k for k, task in enumerate(observation.tasks) if task.open is not None]
    rates = np.array([task.weight * task.trainer_cost for task, _ in active])
    by_deadline = np.argsort(ranks([batch for _, batch in active])).tolist()
    tenants = [task.tenant for task, _ in active]
    order, busy, delays = best_order(trial, peaks, by_deadline, tenants, rates)
    plan = shape_plan(observation, settings, trial, wanted, peaks, busy, delays)
    if order == by_deadline:
        return plan
    return replace(plan, order=tuple(indices[b] for b in order), reason="planned under caps")


def best_order(
    trial: Trial, peaks: Ints, by_deadline: list[int], tenants: Sequence[str], rates: Floats
) -> tuple[list[int], Ints, Floats]:
    """The order of batches with the lowest weighted cost of waiting trainers, of those tried: the
    order of the deadlines, each of its first few batches moved to its front or to its end, and the
    same moves of the best of these, until none gains or `ORDER_ROUNDS_MAX` is reached.

    Orders are compared on as many of the futures as `ORDER_SERVED_MAX` allows; what is found must
    gain on all of them.

    Returns:
        The order; what `Trial.measure` gives under it.
    """
    futures, tries_max = order_budget(trial, len(orders(by_deadline, tenants)))
    best, tried = (
        by_deadline,
        {tuple(by_deadline): _lost(trial, peaks, by_deadline, rates, futures)},
    )
    for _ in range(ORDER_ROUNDS_MAX):
        before = best
        for order in orders(before, tenants):
            key = tuple(order)
            if key in tried or len(tried) == tries_max:
                continue
            tried[key] = _lost(trial, peaks, order, rates, futures)
            if tried[key] < tried[tuple(best)] * (1 - ORDER_GAIN_MIN):
                best = order
        if best is before:
            break
    plain = _measured(trial, peaks, by_deadline, rates)
    found = plain if best is by_deadline else _measured(trial, peaks, best, rates)
    found = found if found.lost < plain.lost * (1 - ORDER_GAIN_MIN) else plain
    trial.reorder(found.order)
    return found.order, found.busy, found.delays


def order_budget(trial: Trial, moves: int) -> tuple[int, int]:
    """Futures that orders are compared on, and how many orders, with `moves` of them per round."""
    requests = max(len(future.batch_of) for future in trial.futures)
    tries = moves * ORDER_ROUNDS_MAX
    wanted = max(ORDER_SERVED_MAX // max(tries * requests, 1), ORDER_FUTURES_MIN)
    futures = min(wanted, len(trial.futures))
    return futures, max(ORDER_SERVED_MAX // max(futures * requests, 1), moves)


class _Measured(NamedTuple):
    lost: float
    """Weighted cost of waiting trainers, per future."""
    order: list[int]
    busy: Ints
    delays: Floats


def _measured(trial: Trial, peaks: Ints, order: list[int], rates: Floats) -> _Measured:
    trial.reorder(order)
    busy, delays = trial.measure(peaks)
    return _Measured(float(delays.mean(axis=0) @ rates), order, busy, delays)


def _lost(trial: Trial, peaks: Ints, order: list[int], rates: Floats, futures: int) -> float:
    trial.reorder(order)
    return float(trial.delays(peaks, futures).mean(axis=0) @ rates)


def orders(by_deadline: list[int], tenants: Sequence[str]) -> list[list[int]]:
    """The order itself; each of its first few batches moved to the front; each moved to the end.

    An order that serves each tenant's own batches as an earlier candidate does is left out: ranks
    do not change the shares between tenants.
    """
    few = by_deadline[:REORDERED_MAX]
    front = [[b, *(o for o in by_deadline if o != b)] for b in few[1:]]
    back = [[*(o for o in by_deadline if o != b), b] for b in few[:-1]]
    distinct: dict[tuple[int, ...], list[int]] = {}
    for order in (by_deadline, *front, *back):
        distinct.setdefault(tuple(sorted(order, key=lambda b: tenants[b])), order)
    return list(distinct.values())


def check(observation: Observation, settings: PlanSettings) -> None:
    """Check an observation.

    Raises:
        InvalidRequest: it cannot be planned; names the field.
    """
    if not 0 <= settings.epsilon < 1:
        raise InvalidRequest(f"epsilon: {settings.epsilon} is out of range", field="epsilon")
    if settings.futures < 1:
        raise InvalidRequest(f"futures: {settings.futures} is out of range", field="futures")
    for p, pool in enumerate(observation.pools):
        if pool.cap < 0 or not np.isfinite(pool.cost) or pool.cost < 0 or pool.startup_ns < 0:
            raise InvalidRequest(
                f"the sizes of a pool contradict each other: {pool}", field=f"pools[{p}]"
            )
    for k, task in enumerate(observation.tasks):
        if len(task.timeout_ns) != len(observation.pools):
            raise InvalidRequest("one timeout per stage", field=f"tasks[{k}].timeout_ns")
        if task.delay_budget_ns is not None and task.delay_budget_ns < 0:
            raise InvalidRequest(
                "the delay budget is negative", field=f"tasks[{k}].delay_budget_ns"
            )
        for past in task.history:
            if past.columns is None and past.service_ns.shape[1] != len(observation.pools):
                raise InvalidRequest("one time per stage", field=f"tasks[{k}].history")
