"""The load of `benchmarks.kubernetes.scale`, and a store that has it at every instant."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from assay.core.hosts.record import HostRecord
from assay.core.ids import BatchId, PipelineName, StageName, TaskId, TenantId, WorkerId
from assay.core.outcome import Outcome
from assay.core.records import (
    BatchHistory,
    BatchRecord,
    BatchState,
    HintRecord,
    InFlight,
    OpenWork,
    RequestHistory,
    StageDepth,
    TaskRecord,
)
from assay.edge.clock import Clock
from assay.testing.memory_store import MemoryStore

S = 10**9
STAGES_PER_TASK = 4
LATE_S = 30
"""Delay budget of every batch."""


@dataclass(frozen=True, kw_only=True)
class Load:
    """What the platform has to do."""

    pods: int
    stages: int
    per_minute: int
    span_s: float

    @cached_property
    def tasks(self) -> tuple[TaskRecord, ...]:
        """Tasks of four stages each."""
        return tuple(
            TaskRecord(
                tenant=TenantId(f"team{n % 10}"),
                task_id=TaskId(f"task{n}"),
                pipeline=PipelineName("p"),
                stages=tuple(StageName(f"s{n}.{j}") for j in range(STAGES_PER_TASK)),
                settings_json=b"{}",
                batch_size=self.batch_size,
                delay_budget_ms=1000 * LATE_S,
                trainer_cost_rate=8.0,
            )
            for n in range(self.stages // STAGES_PER_TASK)
        )

    @property
    def names(self) -> list[StageName]:
        return [stage for task in self.tasks for stage in task.stages]

    @property
    def batch_size(self) -> int:
        """Requests that arrive in the span of a batch."""
        count = self.stages // STAGES_PER_TASK
        return round(self.per_minute / 60 * self.span_s / count)

    @property
    def apart_ns(self) -> int:
        """Between two arrivals of a task."""
        return round(self.span_s * S / self.batch_size)

    @property
    def service_ns(self) -> int:
        """Of one stage, such that all pods are busy."""
        return round(self.pods / (self.per_minute / 60) / STAGES_PER_TASK * S)


def host_of(pod: str, stage: StageName) -> HostRecord:
    """The record of a pod's host, with its stage behind the name of the pod."""
    return HostRecord(
        worker=WorkerId(f"{pod}:{stage}"),
        address="10.0.0.7:8472",
        stages=(stage,),
        cores=1,
        memory_bytes=1 << 30,
        slots_max=1,
        busy=1,
    )


class ModelStore(MemoryStore):
    """The planner's side of a store on which the load runs without queueing."""

    def __init__(self, load: Load, clock: Clock) -> None:
        super().__init__(clock)
        self._load = load
        self._now = clock.now_ns
        self._begun_ns = clock.now_ns()
        self._history: list[BatchHistory] = []
        self.cpu_s = 0.0
        """CPU time of answering: not the controller's."""
        self.pods: Callable[[], Iterable[tuple[str, StageName]]] = lambda: ()
        """Names and stages of the pods, whose hosts have records; none: hosts are not looked at."""

    async def open_work(self, *, batches_max: int, requests_max: int) -> Sequence[OpenWork]:
        """The batch of each task that is open now."""
        begun_s = time.thread_time()
        found = [self._open(n, task) for n, task in enumerate(self._load.tasks)]
        self.cpu_s += time.thread_time() - begun_s
        return found[:batches_max]

    def _open(self, n: int, task: TaskRecord) -> OpenWork:
        load = self._load
        since_ns = self._now() - self._begun_ns + n * round(load.span_s * S) // len(load.tasks)
        number, age_ns = divmod(since_ns, round(load.span_s * S))
        took_ns = load.service_ns * STAGES_PER_TASK
        arrived = min(age_ns // load.apart_ns + 1, load.batch_size)
        ended = max((age_ns - took_ns) // load.apart_ns + 1, 0)
        opened_ns = self._now() - age_ns
        requests = tuple(self._in_flight(task, k, age_ns, opened_ns) for k in range(ended, arrived))
        record = BatchRecord(
            tenant=task.tenant,
            batch_id=BatchId(f"{task.task_id}-{number}"),
            task_id=task.task_id,
            state=BatchState.OPEN,
            size=load.batch_size,
            group_size=0,
            opened_ns=opened_ns,
            deadline_ns=opened_ns + round((load.span_s + LATE_S) * S) + took_ns,
            completed_ns=0,
            submitted=arrived,
            ended=ended,
            queued=0,
            running=len(requests),
            outcomes={Outcome.SCORED: ended},
        )
        return OpenWork(
            batch=record,
            task=task,
            number=number,
            order_deadline_ns=record.deadline_ns,
            ended_natural_ns=max(age_ns, 0) if ended else 0,
            requests=requests,
        )

    def _in_flight(self, task: TaskRecord, k: int, age_ns: int, opened_ns: int) -> InFlight:
        load = self._load
        arrived_ns = k * load.apart_ns
        at = min((age_ns - arrived_ns) // load.service_ns, STAGES_PER_TASK - 1)
        entered_ns = opened_ns + arrived_ns + at * load.service_ns
        return InFlight(
            arrived_after_ns=arrived_ns,
            stage=task.stages[at],
            service_ns=(load.service_ns,) * at + (0,) * (STAGES_PER_TASK - at),
            enqueued_ns=entered_ns,
            claimed_ns=entered_ns,
        )

    async def depths(self, stages: Sequence[StageName]) -> Sequence[StageDepth]:
        """Every pod is busy, nothing waits."""
        busy = self._load.pods // self._load.stages
        return [
            StageDepth(stage=stage, queued=0, running=busy, oldest_age_s=0.0, dead_letters=0)
            for stage in stages
        ]

    async def hosts(self) -> Sequence[HostRecord]:
        """One host per pod, at work."""
        begun_s = time.thread_time()
        found = [host_of(name, stage) for name, stage in self.pods()]
        self.cpu_s += time.thread_time() - begun_s
        return found

    async def ended_by(
        self, workers: Sequence[WorkerId]
    ) -> Mapping[WorkerId, Mapping[StageName, int]]:
        """All end as many requests as they should."""
        begun_s = time.thread_time()
        ended = (self._now() - self._begun_ns) // self._load.service_ns
        found = {worker: {StageName(worker.partition(":")[2]): ended} for worker in workers}
        self.cpu_s += time.thread_time() - begun_s
        return found

    async def history(
        self, tenant: TenantId, task_id: TaskId, *, batches_max: int
    ) -> Sequence[BatchHistory]:
        """Batches like the open one."""
        begun_s = time.thread_time()
        while len(self._history) < batches_max:
            self._history.append(self._past(len(self._history)))
        self.cpu_s += time.thread_time() - begun_s
        return self._history[:batches_max]

    def _past(self, n: int) -> BatchHistory:
        load, span_ns = self._load, round(self._load.span_s * S)
        opened_ns = self._begun_ns - (n + 1) * span_ns
        service_ns = (load.service_ns,) * STAGES_PER_TASK
        return BatchHistory(
            batch_id=BatchId(f"past{n}"),
            opened_ns=opened_ns,
            completed_ns=opened_ns + span_ns,
            deadline_ns=opened_ns + span_ns + LATE_S * S,
            requests=tuple(
                RequestHistory(
                    arrived_after_ns=k * load.apart_ns,
                    service_ns=service_ns,
                    outcome=Outcome.SCORED,
                )
                for k in range(load.batch_size)
            ),
        )

    async def tasks(self, *, tasks_max: int) -> Sequence[TaskRecord]:
        """All of them."""
        return self._load.tasks[:tasks_max]

    async def hints(self) -> Sequence[HintRecord]:
        """None: a batch is open at all times."""
        return ()

    async def watch_planning(self) -> AsyncGenerator[None, None]:
        """A batch of some task opens."""
        while True:
            yield None
            await asyncio.sleep(self._load.span_s / len(self._load.tasks))

    async def prioritize(self, tenant: TenantId, batch_id: BatchId, deadline_ns: int) -> None:
        """Nothing waits, so nothing changes."""

    async def mark_at_risk(
        self, tenant: TenantId, batch_id: BatchId, *, at_risk: bool = True
    ) -> None:
        """Nothing reads it."""

    async def put_plan(self, tenant: TenantId, batch_id: BatchId, body: bytes) -> None:
        """Packed by the caller, which is what it costs there."""
