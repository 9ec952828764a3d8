"""Runs a workload against a policy.

The loop is closed: a task's next batch opens `gap_s` after its last one completed, so extra delay
shifts everything after it, as for a real trainer.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from assay.config.planning import PlanSettings
from assay.core.errors import InvalidRequest
from assay.core.ordering import order_key
from assay.core.outcome import Outcome
from assay.model.arrays import FAR_NS, SECOND_NS, Ints, to_ns
from assay.model.observation import (
    Cause,
    Observation,
    OpenBatch,
    PastBatch,
    PoolView,
    Sizing,
    TaskView,
    past_batch,
)
from assay.model.policy import Policy, swapped
from assay.model.starts import startup_at
from assay.sim.pools.cluster import Cluster, Pools, draw_deaths, lay_out
from assay.sim.pools.nodes import NodeGroup
from assay.sim.pools.reference import ReferenceWorld
from assay.sim.pools.result import BatchResult, Result, Sample, StageUse
from assay.sim.pools.state import ENDED, FUTURE
from assay.sim.pools.workload import OUTCOMES, Workload
from assay.sim.pools.world import FastWorld, PoolWorld

STARTS_MIN: Final = 3
STARTS_KEPT: Final = 64
STARTS_SIGMAS: Final = PlanSettings().startup_sigmas
"""Start-up times that are seen: from so many on, of the latest so many, one that is so much slower
than the median, from the two quantiles that worker hosts report."""
HISTORY_MAX: Final = 20
"""Past batches per task that policies see."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a simulation has beside the policy and the workload."""

    seed: int = 0
    fcfs: bool = False
    reference: bool = False
    """Use the readable world instead of the compiled one."""
    sample_every_s: float | None = None
    """Keep samples of the pools at least this often."""
    deadline_unknown_s: float = 600.0
    """Deadline, after the opening, of a batch whose task has no history."""
    decisions_max: int = 2_000_000


class Turns:
    """How often the targets of pools change, and turn."""

    def __init__(self, pools: int) -> None:
        self.resizes = [0] * pools
        self.reversals = [0] * pools
        self._last = [0] * pools
        """By pool, the last change."""

    def add(self, pool: int, change: int) -> None:
        """Count a change of the pool's target, which may be 0."""
        if change:
            self.resizes[pool] += 1
            self.reversals[pool] += self._last[pool] * change < 0
            self._last[pool] = change


def order_deadline(opened_ns: int, span_ns: int, budget_ns: int, *, weight: float) -> int:
    """The deadline that Earliest Batch First sorts by: T + D after the opening.

    A weight w > 1 counts the span as T / w: when slots are scarce, a tenant with long batches is
    not passed by every shorter batch that opens in the meantime. Weight 1 is plain EBF.
    """
    if not weight > 0:
        raise InvalidRequest(f"weight is {weight}", field="weight")
    return opened_ns + round(span_ns / weight) + budget_ns


class Runner:
    """One simulation; `run` once."""

    def __init__(
        self, workload: Workload, cluster: Cluster, policy: Policy, options: Options
    ) -> None:
        self.workload = workload
        self.policy = policy
        self.options = options
        self.pools: Pools = lay_out(
            workload, cluster, policy.sharing, options.seed, elastic=policy.elastic
        )
        self.world: PoolWorld = self.build_world(cluster)
        self.timeouts = [workload.timeouts_ns(k) for k in range(len(workload.tasks))]
        self.history: list[tuple[PastBatch, ...]] = [
            tuple(past_batch(b.arrived_ns, b.service_ns) for b in reversed(task))[:HISTORY_MAX]
            for task in workload.past
        ]
        self.gaps = [
            tuple(workload.gap_ns(k, b) for b in reversed(task[1:]))[:HISTORY_MAX]
            for k, task in enumerate(workload.past)
        ]
        """By task, newest first; when the last batch before the simulation ended is not known."""
        self.ended_ns: list[int | None] = [None] * len(workload.tasks)
        self.iteration = [-1] * len(workload.tasks)
        self.deadline = [0] * len(workload.tasks)
        self.opens = [to_ns(task.starts_after_s) for task in workload.tasks]
        self.first = [FAR_NS] * len(workload.tasks)
        self.wake_ns = FAR_NS
        self.decisions = 0
        self.turns = Turns(len(self.pools.stage_of))
        self.peak = 0
        self.samples: list[Sample] = []
        self.asked = [0] * len(self.pools.stage_of)
        """Slots by pool, as the policy decided; nodes may not be ready for all of them."""
        self.startup_seen = [(0, 0)] * len(self.asked)
        """By pool: after so many starts, their quantile in nanoseconds."""
        self.asked_nodes = [0] * len(self.asked)
        self.groups: list[NodeGroup] = (
            [NodeGroup(cluster.nodes) for _ in self.asked] if cluster.nodes is not None else []
        )
        self.startup_ns = np.median(self.pools.startup_ns, axis=1).astype(np.int64)

    def build_world(self, cluster: Cluster) -> PoolWorld:
        """The simulated platform."""
        deaths = draw_deaths(self.workload, cluster.faults, self.options.seed)
        world = ReferenceWorld if self.options.reference else FastWorld
        attempts_max = cluster.faults.attempts_max
        return world(
            self.workload, self.pools, deaths, attempts_max=attempts_max, fcfs=self.options.fcfs
        )

    def run(self) -> Result:
        """Run until every batch is complete."""
        self.ask(Cause.START)
        completions = 0
        batches = len(self.world.state.remaining)
        while completions < batches:
            nodes_ns = min((group.next_ready_ns for group in self.groups), default=FAR_NS)
            until = min(*self.opens, *self.first, self.wake_ns, self.next_sample(), nodes_ns)
            if until >= FAR_NS:
                until = FAR_NS - 1
            reached = self.world.advance(until)
            if reached >= FAR_NS - 1:
                raise InvalidRequest("work is left that no slot will ever take", field="policy")
            self.sample()
            if reached >= nodes_ns:
                self.place_slots()
            if int(self.world.state.completions[0]) > completions:
                completions = int(self.world.state.completions[0])
                self.close_batches(reached)
                self.ask(Cause.BATCH_END)
            self.open_batches(reached)
            if reached >= self.wake_ns:
                self.ask(Cause.WAKE)
        return self.summarize()

    def open_batches(self, now_ns: int) -> None:
        """Start what is due: rollouts first, then planning at the first request."""
        for task, at_ns in enumerate(self.opens):
            if at_ns <= now_ns:
                self.open_batch(task)
                self.ask(Cause.HINT)
        for task, at_ns in enumerate(self.first):
            if at_ns <= now_ns:
                self.first[task] = FAR_NS
                self.ask(Cause.FIRST_REQUEST)

    def open_batch(self, task: int) -> None:
        """Start the rollouts of the task's next batch."""
        now_ns, ended_ns = self.world.now_ns, self.ended_ns[task]
        if ended_ns is not None:
            self.gaps[task] = (now_ns - ended_ns, *self.gaps[task])[:HISTORY_MAX]
        self.iteration[task] += 1
        history = self.history[task]
        span = history[0].natural_ns if history else to_ns(self.options.deadline_unknown_s)
        load = self.workload.tasks[task]
        self.deadline[task] = order_deadline(
            now_ns, span, to_ns(load.delay_budget_s), weight=load.weight
        )
        self.world.open_batch(task, self.iteration[task], self.deadline[task])
        self.opens[task] = FAR_NS
        batch = self.workload.batches[task][self.iteration[task]]
        self.first[task] = now_ns + int(batch.arrived_ns[0])

    def close_batches(self, now_ns: int) -> None:
        """Move completed batches into the history and schedule the next rollouts."""
        for task, iteration in enumerate(self.iteration):
            place = self.world.places[task][max(iteration, 0)]
            if iteration < 0 or self.world.state.completed_ns[place.batch] != now_ns:
                continue
            batch = self.workload.batches[task][iteration]
            done = past_batch(batch.arrived_ns, batch.service_ns)
            self.history[task] = (done, *self.history[task])[:HISTORY_MAX]
            self.ended_ns[task] = now_ns
            if iteration + 1 < len(self.workload.batches[task]):
                following = self.workload.batches[task][iteration + 1]
                self.opens[task] = now_ns + self.workload.gap_ns(task, following)

    def ask(self, cause: Cause) -> None:
        """Call the policy and apply its decision."""
        self.decisions += 1
        if self.decisions > self.options.decisions_max:
            raise InvalidRequest("the policy asks to be woken too often", field="wake_ns")
        if self.policy.elastic:
            return
        decision = self.policy.decide(self.observe(cause))
        self.carry_out(decision)

    def carry_out(self, decision: Sizing) -> None:
        """Resize the pools, never above their caps."""
        if len(decision.targets) != len(self.pools.stage_of):
            raise InvalidRequest("one target per pool", field="targets")
        for pool, target in enumerate(decision.targets):
            wanted = min(target, self.room(pool))
            self.turns.add(pool, wanted - self.asked[pool])
            self.asked[pool] = wanted
            self.asked_nodes[pool] = decision.nodes[pool] if decision.nodes else 0
        self.place_slots()
        self.wake_ns = FAR_NS if decision.wake_ns is None else decision.wake_ns
        self.reorder(decision.order)

    def place_slots(self) -> None:
        """Resize the pools as far as nodes are ready; order and release nodes."""
        for pool, asked in enumerate(self.asked):
            if not self.groups:
                self.world.set_target(pool, asked)
                continue
            group, now_ns = self.groups[pool], self.world.now_ns
            group.advance(now_ns)
            self.world.set_target(pool, min(asked, group.room))
            wanted = max(group.needed(asked), self.asked_nodes[pool])
            group.settle(now_ns, wanted, self.held(pool))
        # Only a higher target raises what is held: a slot that died is replaced, not added.
        self.peak = max(self.peak, sum(map(self.held, range(len(self.asked)))))

    def held(self, pool: int) -> int:
        """Slots of the pool that are paid for."""
        state = self.world.state
        return int(state.idle[pool] + state.running[pool] + state.starting[pool])

    def reorder(self, order: tuple[int, ...]) -> None:
        """Give the earliest deadline of a tenant's open batches to its first task, and so on."""
        tenants = [self.workload.tasks[task].tenant for task in order]
        deadlines = swapped([self.deadline[task] for task in order], tenants)
        for task, deadline_ns in zip(order, deadlines, strict=True):
            self.deadline[task] = deadline_ns
            place = self.world.places[task][self.iteration[task]]
            rank = order_key(deadline_ns=deadline_ns, sequence=0).deadline_ms
            self.world.state.rank[place.batch] = rank

    def room(self, pool: int) -> int:
        """The maximum slots of the pool."""
        slots: int = self.world.state.ready_ns.shape[1]
        return min(int(self.pools.caps[pool]), slots)

    def observe(self, cause: Cause) -> Observation:
        """The policy's current view."""
        return Observation(
            now_ns=self.world.now_ns,
            cause=cause,
            pools=tuple(self.see_pool(pool) for pool in range(len(self.pools.stage_of))),
            tasks=tuple(self.see_task(task) for task in range(len(self.workload.tasks))),
        )

    def see_pool(self, pool: int) -> PoolView:
        """Current state of a pool."""
        state, stage = self.world.state, int(self.pools.stage_of[pool])
        return PoolView(
            stage=stage,
            target=self.asked[pool],
            idle=int(state.idle[pool]),
            running=int(state.running[pool]),
            starting=int(state.starting[pool]),
            waiting=int(state.waiting[pool]),
            cap=int(self.pools.caps[pool]),
            cost=self.workload.stages[stage].cost,
            startup_ns=self.startup_seen_ns(pool),
            nodes=self.groups[pool].view() if self.groups else None,
        )

    def startup_seen_ns(self, pool: int) -> int:
        """What the platform knows of start-up times, from the quantiles of the latest starts that
        worker hosts report; the setting, which is the median, until a few were measured."""
        state = self.world.state
        started = int(state.ordered[pool]) - int(state.starting[pool])
        if started < STARTS_MIN:
            return int(self.startup_ns[pool])
        if started != self.startup_seen[pool][0]:
            draws = self.pools.startup_ns[pool]
            latest = draws[np.arange(max(started - STARTS_KEPT, 0), started) % len(draws)]
            p50, p90 = (int(found) for found in np.quantile(latest, (0.5, 0.9)))
            self.startup_seen[pool] = started, startup_at(p50, p90, STARTS_SIGMAS)
        return self.startup_seen[pool][1]

    def see_task(self, task: int) -> TaskView:
        """Current state of a task."""
        load, ended_ns = self.workload.tasks[task], self.ended_ns[task]
        return TaskView(
            pool_of=self.pools.pool_of[task],
            timeout_ns=self.timeouts[task],
            batch_size=load.batch_size,
            delay_budget_ns=to_ns(load.delay_budget_s),
            weight=load.weight,
            trainer_cost=load.trainer_gpus,
            history=self.history[task],
            open=self.see_batch(task),
            tenant=load.tenant,
            gaps_ns=self.gaps[task],
            barrier=load.barrier,
            rested_ns=None if ended_ns is None else self.world.now_ns - ended_ns,
        )

    def see_batch(self, task: int) -> OpenBatch | None:
        """The task's open batch, if any."""
        state, iteration = self.world.state, self.iteration[task]
        if iteration < 0:
            return None
        place = self.world.places[task][iteration]
        if state.completed_ns[place.batch] > 0:
            return None
        opened = int(state.opened_ns[place.batch])
        rows = slice(place.first, int(state.next_request[task]))
        stage, since = state.stage_now[rows], state.since_ns[rows]
        arrived, finish = state.arrived_ns[rows], state.finish_ns[rows] > 0
        passed = state.service_ns[rows] * finish
        natural = arrived - opened + sum(passed.T)
        over = stage == ENDED
        here = np.flatnonzero(~over & (stage != FUTURE))
        elapsed = np.where(since >= 0, self.world.now_ns - since, -1)[here]
        return OpenBatch(
            number=iteration,
            opened_ns=opened,
            deadline_ns=self.deadline[task],
            size=self.workload.tasks[task].batch_size,
            arrived=len(stage),
            ended_natural_ns=int(natural[over].max()) if over.any() else 0,
            stage=stage[here].copy(),
            elapsed_ns=elapsed,
            natural_ns=natural[here] + np.maximum(elapsed, 0),
            sequence=here.astype(np.int64),
            passed_ns=passed,
            reached=np.where(over, last_passed(passed), stage),
            arrivals_ns=arrived - opened,
        )

    def next_sample(self) -> int:
        """Time of the next sample."""
        if self.options.sample_every_s is None:
            return FAR_NS
        last = to_ns(self.samples[-1].at_s) if self.samples else -to_ns(1e6)
        return max(last + to_ns(self.options.sample_every_s), self.world.now_ns + 1)

    def sample(self) -> None:
        """Sample the pools, if samples are enabled."""
        if self.options.sample_every_s is None:
            return
        state = self.world.state
        held = state.idle + state.running + state.starting
        columns = (state.target, held, state.running, state.waiting)
        target, held_now, running, waiting = (tuple(int(x) for x in c) for c in columns)
        self.samples.append(
            Sample(
                at_s=self.world.now_ns / SECOND_NS,
                target=target,
                held=held_now,
                running=running,
                waiting=waiting,
            )
        )

    def summarize(self) -> Result:
        """The results of all batches, and the slot-seconds of the pools."""
        batches = tuple(
            self.batch_result(task, iteration)
            for task, loads in enumerate(self.workload.batches)
            for iteration in range(len(loads))
        )
        for group in self.groups:
            group.advance(self.world.now_ns)
        tasks = self.workload.tasks
        idle = sum(
            b.extra_delay_s * tasks[b.task].trainer_gpus for b in batches if tasks[b.task].barrier
        )
        return Result(
            policy=self.policy.name,
            seed=self.options.seed,
            duration_s=self.world.now_ns / SECOND_NS,
            stages=tuple(self.stage_use(j) for j in range(len(self.workload.stages))),
            batches=batches,
            trainer_idle_gpu_s=idle,
            decisions=self.decisions,
            slots_peak=self.peak,
            resizes=sum(self.turns.resizes),
            resizes_by_pool=tuple(self.turns.resizes),
            reversals_by_pool=tuple(self.turns.reversals),
            node_s=sum(group.held_s for group in self.groups) if self.groups else None,
            nodes_ordered=sum(group.ordered for group in self.groups),
            samples=tuple(self.samples),
        )

    def batch_result(self, task: int, iteration: int) -> BatchResult:
        state, place = self.world.state, self.world.places[task][iteration]
        load = self.workload.batches[task][iteration]
        took = int(state.completed_ns[place.batch] - state.opened_ns[place.batch])
        late_ns = took - load.natural_ns
        if not self.workload.tasks[task].barrier:
            rows = slice(place.first, place.end)
            alone = state.arrived_ns[rows] + state.service_ns[rows].sum(axis=1)
            late_ns = int((state.ended_ns[rows] - alone).max())
        lost = state.lost[place.first : place.end] > 0
        codes = np.where(lost, len(OUTCOMES), load.outcome)
        outcomes = {word: int((codes == code).sum()) for code, word in enumerate(OUTCOMES)}
        outcomes[Outcome.INFRA_FAILED] += int(lost.sum())
        return BatchResult(
            task=task,
            iteration=iteration,
            opened_s=int(state.opened_ns[place.batch]) / SECOND_NS,
            natural_s=load.natural_ns / SECOND_NS,
            extra_delay_s=max(late_ns, 0) / SECOND_NS,
            budget_s=self.workload.tasks[task].delay_budget_s,
            outcomes={word: count for word, count in outcomes.items() if count},
        )

    def stage_use(self, stage: int) -> StageUse:
        """Slot-seconds of the stage's pools together."""
        state, mine = self.world.state, self.pools.stage_of == stage
        return StageUse(
            stage=self.workload.stages[stage].name,
            cost=self.workload.stages[stage].cost,
            held_s=float(state.held_ns[mine].sum()) / SECOND_NS,
            busy_s=float(state.busy_ns[mine].sum()) / SECOND_NS,
            slots_started=int(state.ordered[mine].sum()),
            slots_lost=int(state.deaths[mine].sum()),
        )


def last_passed(passed_ns: Ints) -> Ints:
    """(n,): the last stage with time, -1 = none."""
    last = np.full(len(passed_ns), -1, np.int64)
    for stage, column in enumerate(passed_ns.T):
        last[column > 0] = stage
    return last


def simulate(
    workload: Workload, cluster: Cluster, policy: Policy, options: Options | None = None
) -> Result:
    """Simulate `workload` with `policy` on `cluster`."""
    return Runner(workload, cluster, policy, options or Options()).run()
