"""The order of batches under caps, which the plan changes, against other orders, simulated.

    python -m benchmarks.planner.caps [--cases 40] [--json] [--plot PATH]
    python -m benchmarks.planner.caps --mixes [--seeds 5] [--json] [--plot PATH]

Small cases, three batches of three requests on two stages with two and one slots, solved exactly
(OR-tools). The optimum knows every duration and may serve requests in any order, also within a
batch, and let a slot wait for a request that is to come. `equal`: all requests of a batch take the
same time, so that knowing durations helps less. Weighted time that the trainers wait, over the sum
of all cases.

Between the plan and the optimum stand the best that any order gives while no slot waits: one order
of the batches, one per stage, and one of all requests per stage (exchanges of two requests for as
long as one helps, from `STARTS` drawn orders). Larger cases are compared with the best of all
orders of their batches.

`--mixes`: whole runs of the mixes of `capped_mixes`, by the plan and by the same plan that leaves
batches in the order of their deadlines (EBF alone). GPU-seconds that the trainers wait.
"""

import argparse
import heapq
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass, fields
from itertools import combinations, permutations, product
from pathlib import Path
from typing import TypeVar

import numpy as np
from rich.console import Console
from rich.progress import track as rich_track

from assay.config.planning import PlanSettings
from assay.model.arrays import SECOND_NS, Ints, to_ns
from assay.model.observation import Cause, Observation, OpenBatch, PoolView, TaskView
from assay.model.policy import Policy
from assay.planner.core.demand import Guess, assemble, ranks
from assay.planner.core.plan import best_order
from assay.planner.core.policy import Assay
from assay.planner.core.trial import Trial
from assay.sim.laboratory.trials.mixes import Mix, capped_mixes, draw
from assay.sim.policies.by_deadline import ByDeadline
from assay.sim.policies.large_pools import LARGE_POOLS
from assay.sim.pools.runner import Options, simulate
from benchmarks.harness.report import OUT, Report, Spread, bar_plot
from benchmarks.planner.common import arrivals
from benchmarks.planner.optimum import least_idle

CAPS = (2, 1)
BATCHES = 3
MORE = (5, 6)
"""Batches of larger cases, compared with the best of all their orders."""
REQUESTS = 3
KINDS = (("equal", True), ("any", False))
STARTS = 4
"""Of the search for an order of requests."""
EMPTY: Ints = np.zeros(0, np.int64)
Drawn = tuple[Ints, Ints]
"""Arrivals and times of a batch; see `draw_batch`."""
ItemT = TypeVar("ItemT")


def track(items: Iterable[ItemT]) -> Iterable[ItemT]:
    """The items, with a progress bar on stderr."""
    return rich_track(items, console=Console(stderr=True), transient=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """Weighted seconds that the trainers of a case wait."""

    by_deadline: float
    planned: float
    one_order: float
    order_per_stage: float
    requests_in_order: float
    optimum: float


def draw_batch(random: np.random.Generator, *, equal: bool) -> Drawn:
    """(requests,) arrivals and (requests, stages) times, in seconds."""
    arrived = np.sort(random.integers(0, 15, REQUESTS))
    rows = 1 if equal else REQUESTS
    service = np.stack([random.integers(3, 15, rows), random.integers(0, 5, rows)], axis=1)
    return arrived, np.tile(service, (REQUESTS // rows, 1))


def ends(arrived: Sequence[int], service: Ints, ranks: Sequence[Sequence[int]]) -> list[int]:
    """When each request ends where no slot waits while a request does.

    Args:
        arrived: (n,) seconds.
        service: (n, stages) seconds; 0 = skipped.
        ranks: (stages, n); of those that wait, the one with the lowest rank begins.
    """
    ready = list(arrived)
    for j, cap in enumerate(CAPS):
        coming = sorted((ready[i], i) for i in range(len(arrived)) if service[i, j])
        free, waiting = [0] * cap, list[tuple[int, int, int]]()
        while coming or waiting:
            now = heapq.heappop(free)
            now = now if waiting else max(now, coming[0][0])
            while coming and coming[0][0] <= now:
                came, i = coming.pop(0)
                heapq.heappush(waiting, (ranks[j][i], came, i))
            i = heapq.heappop(waiting)[2]
            ready[i] = now + int(service[i, j])
            heapq.heappush(free, ready[i])
    return ready


def best_of_orders(drawn: Sequence[Drawn], rates: Sequence[int]) -> int:
    """The least that the trainers wait by any order of the batches, in weighted seconds."""
    idle = idle_of(drawn, rates)
    return min(idle([order] * len(CAPS)) for order in batch_orders(len(drawn)))


def without_waiting_slots(
    drawn: Sequence[Drawn], rates: Sequence[int], seed: int
) -> tuple[int, int]:
    """The same by one order of the batches per stage, and by one of requests per stage."""
    idle, requests = idle_of(drawn, rates), len(drawn) * REQUESTS

    random = np.random.default_rng(seed)
    starts = ([random.permutation(requests).tolist() for _ in CAPS] for _ in range(STARTS))
    per_stage = product(batch_orders(len(drawn)), repeat=len(CAPS))
    return min(map(idle, per_stage)), min(exchanged(idle, start) for start in starts)


def exchanged(idle: Callable[[Sequence[Sequence[int]]], int], ranks: list[list[int]]) -> int:
    """The least that exchanges of two requests at a stage lead to, each of which helps."""
    least, before = idle(ranks), None
    pairs = list(combinations(range(len(ranks[0])), 2))
    while least != before:
        before = least
        for of_stage, (a, b) in product(ranks, pairs):
            of_stage[a], of_stage[b] = of_stage[b], of_stage[a]
            found = idle(ranks)
            if found >= least:
                of_stage[a], of_stage[b] = of_stage[b], of_stage[a]
            least = min(least, found)
    return least


def idle_of(
    drawn: Sequence[Drawn], rates: Sequence[int]
) -> Callable[[Sequence[Sequence[int]]], int]:
    """What ranks of requests, (stages, n), cost the trainers."""
    arrived = np.concatenate([a for a, _ in drawn]).tolist()
    service = np.concatenate([s for _, s in drawn])
    natural = [int((a + s.sum(axis=1)).max()) for a, s in drawn]

    def idle(ranks: Sequence[Sequence[int]]) -> int:
        done = np.array(ends(arrived, service, ranks)).reshape(len(drawn), -1).max(axis=1)
        return sum(rate * int(end - at) for rate, end, at in zip(rates, done, natural, strict=True))

    return idle


def batch_orders(batches: int) -> list[list[int]]:
    """Ranks of the requests under each order of the batches."""
    return [np.repeat(order, REQUESTS).tolist() for order in permutations(range(batches))]


def task_of(arrived: Ints, service: Ints, number: int, rate: float) -> TaskView:
    """A task whose batch opens now."""
    natural = int((arrived + service.sum(axis=1)).max())
    batch = OpenBatch(
        number=number, opened_ns=0, deadline_ns=to_ns(natural + 5), size=REQUESTS, arrived=0,
        ended_natural_ns=0, stage=EMPTY, elapsed_ns=EMPTY, natural_ns=EMPTY, sequence=EMPTY,
    )  # fmt: skip
    return TaskView(
        pool_of=np.arange(2), timeout_ns=np.array([to_ns(20), to_ns(10)]), batch_size=REQUESTS,
        delay_budget_ns=to_ns(5), weight=1.0, trainer_cost=rate, history=(), open=batch,
    )  # fmt: skip


def draw_case(seed: int, batches: int, *, equal: bool) -> tuple[list[Drawn], list[int]]:
    """Batches, and the rates of their trainers."""
    random = np.random.default_rng(seed)
    drawn = [draw_batch(random, equal=equal) for _ in range(batches)]
    return drawn, random.choice([1, 2, 8], batches).tolist()


def by_plan(drawn: Sequence[Drawn], rates: Sequence[int]) -> tuple[float, float]:
    """What the trainers wait by deadline and as planned; the planner is given the true times."""
    tasks = [task_of(a, s, k, float(rates[k])) for k, (a, s) in enumerate(drawn)]
    pools = tuple(
        PoolView(
            stage=j, target=cap, idle=cap, running=0, starting=0, waiting=0, cap=cap, cost=1.0,
            startup_ns=0,
        )
        for j, cap in enumerate(CAPS)
    )  # fmt: skip
    seen = Observation(now_ns=0, cause=Cause.WAKE, pools=pools, tasks=tuple(tasks))
    active = [(task, task.open) for task in tasks if task.open is not None]
    guesses = [
        Guess(
            arrived_ns=a * SECOND_NS,
            service_ns=s * SECOND_NS,
            present_ns=np.zeros((0, 2), np.int64),
        )
        for a, s in drawn
    ]
    future = assemble(0, [batch for _, batch in active], guesses, tasks)
    trial = Trial(seen, active, [future], PlanSettings(futures=1))
    by_deadline = np.argsort(ranks([batch for _, batch in active])).tolist()
    peaks, weights = np.array(CAPS, np.int64), np.array(rates, np.float64)
    _, plain = trial.measure(peaks)
    _, _, planned = best_order(trial, peaks, by_deadline, ["t"] * len(drawn), weights)
    plain_s, planned_s = (float(d.mean(axis=0) @ weights) / SECOND_NS for d in (plain, planned))
    return plain_s, planned_s


def case(seed: int, *, equal: bool) -> Waiting:
    """One random case with all its bounds."""
    drawn, rates = draw_case(seed, BATCHES, equal=equal)
    by_deadline, planned = by_plan(drawn, rates)
    order_per_stage, requests_in_order = without_waiting_slots(drawn, rates, seed)
    optimum = least_idle(
        np.concatenate([a for a, _ in drawn]).tolist(),
        np.concatenate([s for _, s in drawn]).tolist(),
        np.repeat(np.arange(BATCHES), REQUESTS).tolist(),
        [int((a + s.sum(axis=1)).max()) for a, s in drawn],
        rates,
        CAPS,
    )
    return Waiting(
        by_deadline=by_deadline,
        planned=planned,
        one_order=best_of_orders(drawn, rates),
        order_per_stage=order_per_stage,
        requests_in_order=requests_in_order,
        optimum=optimum,
    )


def over_the_best_order(seeds: int, batches: int, *, equal: bool) -> tuple[float, float]:
    """By deadline and as planned, over the best order of so many batches."""
    cases = [draw_case(seed, batches, equal=equal) for seed in range(seeds)]
    best = sum(best_of_orders(*one) for one in cases)
    plain, planned = np.array([by_plan(*one) for one in cases]).sum(axis=0) / best
    return float(plain), float(planned)


def small_cases(cases: int, report: Report) -> dict[str, float]:
    """Rows of three batches; the bars of the plot."""
    bars: dict[str, float] = {}
    for name, equal in KINDS:
        found = np.array([astuple(case(seed, equal=equal)) for seed in track(range(cases))])
        ratios = found.sum(axis=0) / found.sum(axis=0)[-1]
        by_name = dict(zip((field.name for field in fields(Waiting)), ratios.tolist(), strict=True))
        del by_name["optimum"]
        report.add(batches=BATCHES, times=name, over="optimum", **by_name)
        bars |= {f"{name}, {what}": ratio for what, ratio in by_name.items()}
    return bars


def larger_cases(cases: int, report: Report) -> None:
    """Rows of more batches."""
    for batches, (name, equal) in product(MORE, KINDS):
        plain, planned = over_the_best_order(cases, batches, equal=equal)
        report.add(
            batches=batches, times=name, over="best order", by_deadline=plain, planned=planned
        )


def idle_gpu_s(mix: Mix, policy: Policy, seed: int) -> float:
    """GPU-seconds that the trainers of a run wait."""
    load = draw(mix, seed=seed, sources=arrivals())
    return simulate(load, mix.cluster, policy, Options(seed=seed)).trainer_idle_gpu_s


def whole_runs(seeds: int, report: Report) -> dict[str, float | Spread]:
    """Rows of mixes; the bars of the plot."""
    bars: dict[str, float | Spread] = {}
    runs = track([(mix, seed) for mix in capped_mixes() for seed in range(1, seeds + 1)])
    waited: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for mix, seed in runs:
        policies = ByDeadline(LARGE_POOLS), Assay(LARGE_POOLS)
        plain, planned = (idle_gpu_s(mix, policy, seed) for policy in policies)
        waited[mix.name].append((plain, planned))
    for name, found in waited.items():
        plain, planned = np.array(found).sum(axis=0) / seeds
        ratios = Spread.of([ordered / by_deadline for by_deadline, ordered in found])
        report.add(
            mix=name, by_deadline=float(plain), planned=float(planned),
            ratio=float(planned / plain), each=ratios,
        )  # fmt: skip
        bars[name] = ratios
    return bars


def main() -> None:
    """Print how long trainers wait, and draw it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cases", type=int, default=40)
    parser.add_argument("--mixes", action="store_true")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--plot", type=Path, default=OUT / "planner" / "caps.png")
    args = parser.parse_args()
    bars: Mapping[str, float | Spread]
    if args.mixes:
        title, unit = (
            "GPU-seconds that trainers wait under caps (simulated)",
            "planned / by deadline",
        )
        report = Report(title=title, columns=("mix", "by_deadline", "planned", "ratio", "each"))
        bars = whole_runs(args.seeds, report)
    else:
        title, unit = "Weighted time that trainers wait under caps", "over the optimum"
        orders = [field.name for field in fields(Waiting)][:-1]
        report = Report(title=title, columns=("batches", "times", "over", *orders))
        bars = small_cases(args.cases, report)
        larger_cases(args.cases, report)
    report.show(as_json=args.json)
    with suppress(ImportError):  # the plot is optional
        bar_plot(args.plot, title, unit, bars)


if __name__ == "__main__":
    main()
