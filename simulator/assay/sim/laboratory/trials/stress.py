"""Policies on mixes, each rival tuned for the mix, and `assay` in ratios to the best of them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

import numpy as np

from assay.config.planning import PlanSettings
from assay.model.arrays import Floats
from assay.model.policy import Policy
from assay.planner.core.policy import Assay
from assay.sim.laboratory.trials.mixes import Mix, draw
from assay.sim.policies.autoscalers import Kpa
from assay.sim.policies.distrs import Distrs, Ideal, peak_concurrency
from assay.sim.policies.large_pools import LARGE_POOLS
from assay.sim.policies.rivals import CappedReaction, PinnedToTrajectory, Reaction, StaticByTask
from assay.sim.pools.result import Result, Sample
from assay.sim.pools.runner import Options, simulate
from assay.sim.pools.workload import Workload

Make = Callable[[Workload], Policy]
NODE_SLOTS: Final = 16
"""Slots of a stage that fit onto a node, perfectly packed."""
SAMPLE_S: Final = 5.0
IN_TIME_MIN: Final = 0.95
"""Share of batches with d <= D from which a rival counts as keeping D."""
RIVALS: Final = ("reaction", "kpa", "capped", "pinned", "static_by_task")
EQUAL_DELAY_S: Final = 0.5
"""A rival's p95 d may be so much larger and still counts as equal."""
COMPARED: Final = ("cost", "peak", "started", "resizes_per_minute", "node_hours")
"""Figures of `assay` that are reported as ratios to the best rival's."""
REFERENCES: Final = ("distrs", "ideal")


def ceiling(workload: Workload) -> tuple[int, ...]:
    """Slots per stage that all tasks' largest batches would need at once without queueing."""
    peaks = [
        np.max([peak_concurrency(b.arrived_ns, b.service_ns) for b in task], axis=0)
        for task in workload.batches
    ]
    return tuple(int(n) for n in np.sum(peaks, axis=0))


def settings_of(policy: str, plans: PlanSettings = LARGE_POOLS) -> dict[str, Make]:
    """The settings that are tried for a policy: the label of each, and how it is made; `plans` are
    those of `assay`."""

    def kpa(window_s: float, use: float) -> Make:
        return lambda w: Kpa(ceiling(w), utilisation=use, stable_s=window_s)

    def reaction(spare: int, keep_s: float) -> Make:
        return lambda w: Reaction(spare=spare, keep_s=keep_s)

    def capped(keep_s: float) -> Make:
        return lambda w: CappedReaction(keep_s=keep_s)

    def static(share: float) -> Make:
        return lambda w: StaticByTask(share=share)

    everything: dict[str, dict[str, Make]] = {
        "reaction": {
            f"+{n}, {s:g} s": reaction(n, s) for n in (0, 2, 5, 15) for s in (6.0, 15.0, 40.0)
        },
        "kpa": {
            f"{s:g} s, {u:g}": kpa(s, u) for s in (6.0, 12.0, 30.0, 60.0) for u in (0.7, 0.85, 1.0)
        },
        "capped": {f"{s:g} s": capped(s) for s in (6.0, 15.0, 40.0)},
        "pinned": {"": lambda w: PinnedToTrajectory()},
        "static_by_task": {f"{share:g}": static(share) for share in (0.6, 0.8, 1.0)},
        "distrs": {"": lambda w: Distrs()},
        "ideal": {"": Ideal},
        "assay": {"": lambda w: Assay(plans)},
    }
    return everything[policy]


@dataclass(frozen=True, slots=True, kw_only=True)
class StressScore:
    """One policy with one setting on one mix, over all seeds."""

    mix: str
    policy: str
    setting: str
    seeds: tuple[int, ...]
    cost: float
    """Mean over the seeds: slots and trainers that waited, in trainer GPU-seconds."""
    slot_cost: float
    peak: float
    """Most slots at once; mean over the seeds."""
    delay_mean_s: float
    delay_p95_s: float
    """Over the batches of all seeds."""
    in_time: float
    """Share of the batches of all seeds with d <= D."""
    started: float
    resizes_per_minute: float
    node_hours: float
    """Of nodes with `NODE_SLOTS` slots of one stage, perfectly packed."""
    by_seed: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """The figures of `COMPARED`, one for each seed."""
    kept: tuple[bool, ...] = ()
    """Whether d <= D, of the batches of all seeds; in the same order for every policy."""


def node_hours(samples: Sequence[Sample], stages: int) -> float:
    """Hours of nodes, perfectly packed, from samples of the pools; pools are shared."""
    total = 0.0
    for now, then in pairwise(samples):
        nodes = sum(-(-held // NODE_SLOTS) for held in now.held[:stages])
        total += nodes * (then.at_s - now.at_s)
    return total / 3_600


def hours_of_nodes(result: Result) -> float:
    """Node-hours as ordered, where the cluster has nodes; else perfectly packed after the fact."""
    if result.node_s is not None:
        return result.node_s / 3_600
    return node_hours(result.samples, len(result.samples[0].held))


def score(
    mix: Mix, policy: str, setting: str, seeds: Sequence[int], found: Sequence[Result]
) -> StressScore:
    """Put the results of all seeds together."""
    by_seed = {
        "cost": tuple(r.cost for r in found),
        "peak": tuple(float(r.slots_peak) for r in found),
        "started": tuple(float(r.slots_started) for r in found),
        "resizes_per_minute": tuple(r.resizes_per_minute for r in found),
        "node_hours": tuple(hours_of_nodes(r) for r in found),
    }
    means = {name: float(np.mean(values)) for name, values in by_seed.items()}
    delays = [d for result in found for d in result.delays_s]
    in_time = [batch.in_time for result in found for batch in result.batches]
    return StressScore(
        mix=mix.name,
        policy=policy,
        setting=setting,
        seeds=tuple(seeds),
        **means,
        slot_cost=float(np.mean([r.slot_cost for r in found])),
        delay_mean_s=float(np.mean(delays)),
        delay_p95_s=float(np.quantile(delays, 0.95)),
        in_time=float(np.mean(in_time)),
        kept=tuple(in_time),
        by_seed=by_seed,
    )


def run(
    mix: Mix,
    policies: Sequence[str],
    seeds: Sequence[int],
    sources: Sequence[Floats] = (),
    plans: PlanSettings = LARGE_POOLS,
) -> Iterator[StressScore]:
    """Every setting of every policy on the mix."""
    loads = [draw(mix, seed=seed, sources=sources) for seed in seeds]
    for policy in policies:
        for setting, make in settings_of(policy, plans).items():
            results = [
                simulate(load, mix.cluster, make(load), Options(seed=seed, sample_every_s=SAMPLE_S))
                for seed, load in zip(seeds, loads, strict=True)
            ]
            yield score(mix, policy, setting, seeds, results)


def cheapest(scores: Sequence[StressScore]) -> StressScore | None:
    """The cheapest that keeps D; where none does, the cheapest of those that keep it most often."""
    if not scores:
        return None
    goal = min(IN_TIME_MIN, max(one.in_time for one in scores))
    return min((one for one in scores if one.in_time >= goal), key=lambda one: one.cost)


def tuned(scores: Sequence[StressScore], policy: str) -> StressScore | None:
    """The best setting of a policy."""
    return cheapest([one for one in scores if one.policy == policy])


def best_rival(scores: Sequence[StressScore]) -> StressScore | None:
    """The best of the tuned rivals, by the same rule."""
    return cheapest([one for name in RIVALS if (one := tuned(scores, name)) is not None])


def as_punctual(scores: Sequence[StressScore]) -> StressScore | None:
    """The cheapest setting of any rival whose p95 d is no larger than that of `assay`."""
    mine = tuned(scores, "assay")
    if mine is None:
        return None
    most_s = mine.delay_p95_s + EQUAL_DELAY_S
    rivals = [one for one in scores if one.policy in RIVALS and one.delay_p95_s <= most_s]
    return min(rivals, key=lambda one: one.cost, default=None)


def chosen(scores: Sequence[StressScore]) -> list[StressScore]:
    """One row per policy, tuned for the mix."""
    names = dict.fromkeys(one.policy for one in scores)
    return [one for name in names if (one := tuned(scores, name)) is not None]


def ratios(scores: Sequence[StressScore]) -> Mapping[str, float]:
    """`assay` over the best rival, and its peak over that of `ideal`."""
    mine, rival, ideal = tuned(scores, "assay"), best_rival(scores), tuned(scores, "ideal")
    found: dict[str, float] = {}
    if mine is not None and rival is not None:
        for name in COMPARED:
            other = getattr(rival, name)
            found[name] = getattr(mine, name) / other if other else float("inf")
        found["p95 d minus the rival's (s)"] = mine.delay_p95_s - rival.delay_p95_s
    equal = as_punctual(scores)
    if mine is not None and equal is not None and equal.cost:
        found["cost at equal p95 d"] = mine.cost / equal.cost
        found["peak at equal p95 d"] = mine.peak / equal.peak if equal.peak else float("inf")
    if mine is not None and ideal is not None and ideal.peak:
        found["peak over ideal"] = mine.peak / ideal.peak
    if mine is not None and ideal is not None and any(ideal.kept):
        both = [one for one, other in zip(mine.kept, ideal.kept, strict=True) if other]
        found["d <= D where ideal keeps it"] = float(np.mean(both))
    return found


def spans(mine: StressScore, other: StressScore) -> Mapping[str, tuple[float, float]]:
    """The smallest and the largest ratio of each compared figure over the seeds."""
    found: dict[str, tuple[float, float]] = {}
    for name, values in mine.by_seed.items():
        pairs = zip(values, other.by_seed.get(name, ()), strict=False)
        each = [value / against for value, against in pairs if against]
        if each:
            found[name] = min(each), max(each)
    return found
