"""The order of batches under caps, against the exact optimum: python -m benchmarks.planner.caps

Small cases, three batches of three requests on two stages with two and one slots, solved exactly
(OR-tools). The optimum knows every duration and may serve requests in any order, also within a
batch, and let a slot wait for a request that is to come. `equal`: all requests of a batch take the
same time, so that knowing durations helps less. Weighted time that the trainers wait, over the sum
of all cases.
"""

import argparse
from dataclasses import dataclass

import numpy as np

from assay.config.planning import PlanSettings
from assay.model.arrays import SECOND_NS, Ints, to_ns
from assay.model.observation import Cause, Observation, OpenBatch, PoolView, TaskView
from assay.planner.core.demand import Guess, assemble, ranks
from assay.planner.core.plan import best_order
from assay.planner.core.trial import Trial
from benchmarks.planner.optimum import least_idle

CAPS = (2, 1)
BATCHES = 3
REQUESTS = 3
EMPTY: Ints = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """Weighted seconds that the trainers of a case wait."""

    by_deadline: float
    planned: float
    optimum: float


def draw(random: np.random.Generator, *, equal: bool) -> tuple[Ints, Ints]:
    """(requests,) arrivals and (requests, stages) times, in seconds."""
    arrived = np.sort(random.integers(0, 15, REQUESTS))
    rows = 1 if equal else REQUESTS
    service = np.stack([random.integers(3, 15, rows), random.integers(0, 5, rows)], axis=1)
    return arrived, np.tile(service, (REQUESTS // rows, 1))


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


def case(seed: int, *, equal: bool) -> Waiting:
    """One random case; the planner's search of the order is given the true times."""
    random = np.random.default_rng(seed)
    drawn = [draw(random, equal=equal) for _ in range(BATCHES)]
    rates = random.choice([1, 2, 8], BATCHES)
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
    peaks, weights = np.array(CAPS, np.int64), rates.astype(np.float64)
    _, plain = trial.measure(peaks)
    tenants = ["t"] * BATCHES
    _, _, planned = best_order(trial, peaks, by_deadline, tenants, weights)
    optimum = least_idle(
        np.concatenate([a for a, _ in drawn]).tolist(),
        np.concatenate([s for _, s in drawn]).tolist(),
        np.repeat(np.arange(BATCHES), REQUESTS).tolist(),
        [int((a + s.sum(axis=1)).max()) for a, s in drawn],
        rates.tolist(),
        CAPS,
    )
    return Waiting(
        by_deadline=float(plain.mean(axis=0) @ weights) / SECOND_NS,
        planned=float(planned.mean(axis=0) @ weights) / SECOND_NS,
        optimum=float(optimum),
    )


def main() -> None:
    """Print both ratios for both kinds of cases."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=40)
    args = parser.parse_args()
    for name, equal in (("equal", True), ("any", False)):
        found = [case(seed, equal=equal) for seed in range(args.cases)]
        best = sum(one.optimum for one in found)
        print(
            f"{name}: by deadline {sum(one.by_deadline for one in found) / best:.2f}, "
            f"planned {sum(one.planned for one in found) / best:.2f} times the optimum"
        )


if __name__ == "__main__":
    main()
