"""CPU time and memory of plans of many stages: python -m benchmarks.planner.many_stages

The load of `benchmarks.kubernetes.scale` (tasks of four stages, one open batch each) goes
to a planning session in this process; the first row reads eight past batches per task. With
`--shared`, all tasks have their first stage in common, so that nothing can be planned apart.
"""

import argparse
import asyncio
import resource
import time
from dataclasses import replace

from assay.config.planning import PlanSettings
from assay.core.records import OpenWork, TaskRecord
from assay.edge.clock import Clock
from assay.planner.session.messages import PoolState, Snapshot, StageLimits, TaskHistory
from assay.planner.session.session import Session
from benchmarks.kubernetes.load import Load, ModelStore, S

PER_STAGE_PER_MINUTE = 5_000
PODS_PER_STAGE = 50
HISTORY = 8


class Scene:
    """The load, and snapshots of it."""

    def __init__(self, stages: int, *, shared: bool) -> None:
        clock = Clock()
        self.load = Load(
            pods=PODS_PER_STAGE * stages,
            stages=stages,
            per_minute=PER_STAGE_PER_MINUTE * stages,
            span_s=12.0,
        )
        self.store, self.now_ns = ModelStore(self.load, clock), clock.now_ns
        self.origin_ns = clock.now_ns() - 3_600 * S
        self.shared = shared

    def task(self, task: TaskRecord) -> TaskRecord:
        """The task, with the stage that all have in common."""
        first = self.load.tasks[0].stages[0]
        return replace(task, stages=(first, *task.stages[1:])) if self.shared else task

    def work(self, work: OpenWork) -> OpenWork:
        """The batch of such a task."""
        task = self.task(work.task)
        names = dict(zip(work.task.stages, task.stages, strict=True))
        requests = tuple(replace(one, stage=names[one.stage]) for one in work.requests)
        return replace(work, task=task, requests=requests)

    async def histories(self) -> tuple[TaskHistory, ...]:
        """The histories of every task."""
        return tuple([
            TaskHistory(
                task=self.task(task),
                batches=tuple(
                    await self.store.history(task.tenant, task.task_id, batches_max=HISTORY)
                ),
            )
            for task in self.load.tasks
        ])  # fmt: skip

    async def snapshot(self, histories: tuple[TaskHistory, ...]) -> Snapshot:
        work = await self.store.open_work(batches_max=256, requests_max=200_000)
        slots = PODS_PER_STAGE
        return Snapshot(
            now_ns=self.now_ns(),
            origin_ns=self.origin_ns,
            leader=True,
            stages=tuple(
                StageLimits(
                    stage=stage, timeout_ns=60 * S, slots_min=0, slots_max=4 * slots, cost=0.025,
                    startup_ns=S,
                )
                for stage in self.load.names
            ),
            pools=tuple(
                PoolState(stage=stage, desired=slots, ready=slots, busy=slots)
                for stage in self.load.names
            ),
            work=tuple(self.work(one) for one in work),
            hints=(),
            histories=histories,
        )  # fmt: skip


async def measure(stages: int, steps: int, *, shared: bool) -> None:
    """One row per step."""
    scene, session = Scene(stages, shared=shared), Session(PlanSettings())
    for step in range(steps):
        snapshot = await scene.snapshot(await scene.histories() if step == 0 else ())
        begun_s = time.process_time()
        found = session.step(snapshot)
        took_s = time.process_time() - begun_s
        mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        what = f"{found.plan.reason}, {found.plan.simulations} simulations" if found.plan else ""
        print(f"{took_s:.1f} s CPU, at most {mib:.0f} MiB so far: {found.why}; {what}", flush=True)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stages", type=int, default=200, help="a multiple of four")
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--shared", action="store_true", help="all tasks share their first stage")
    given = parser.parse_args()
    asyncio.run(measure(given.stages, given.steps, shared=given.shared))


if __name__ == "__main__":
    main()
