"""Pods that take work and end none: they are not counted, replaced, and the first to go.

Pods of one pool are drawn, honest and not, and a ReplicaSet's rules choose which go. Whatever the
pods that lie do, while requests wait all along:

* never more pods are asked for than are wanted, and `SPARES_MAX`;
* no honest pod is doubted, so none is replaced;
* within a bounded time there are as many honest ready pods as are wanted, as long as new pods are
  honest; and those that were doubted are gone.
"""

import random
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.kubernetes.cluster import Cluster, ready, until
from tests.kubernetes.scaling import RunScaler, host_of
from tests.kubernetes.test_costs import removed
from tests.store.driver import FIRST, Driver, requests

from assay.config.kubernetes import KubernetesSettings
from assay.core.ids import StageName, WorkerId
from assay.core.outcome import Outcome
from assay.core.records import EndRequest, StageDepth, StageReport
from assay.edge.clock import Clock
from assay.planner.kubernetes import doubts
from assay.planner.kubernetes.costs import DOUBTED, GOES_FIRST, costs
from assay.planner.kubernetes.doubts import PodDoubts
from assay.planner.kubernetes.hosts import PodHosts
from assay.planner.kubernetes.pods import DELETION_COST, PodState, PodView
from assay.planner.kubernetes.pool import SPARES_MAX, Pool, Target
from assay.planner.session import trust
from assay.planner.session.messages import PoolState
from assay.planner.session.trust import DOUBT_S_MAX, STUCK_S_MIN, Reading, Trust
from assay.store.port import Report, Store
from assay.testing.memory_store import MemoryStore

RUN = str(FIRST)
START_S = 5
PATIENCE = KubernetesSettings(namespace="rewards", deployments={RUN: "assay-run"})
HABITS = ("takes", "few", "idles", "flaps")
LONG_S = 600.0


@dataclass(slots=True)
class FakePod:
    """A pod that ends a request per second, or has a habit."""

    name: str
    begun_s: int
    habit: str = ""
    ended: int = 0
    cost: int = 0

    def state(self, now_s: int, draw: random.Random) -> PodState:
        flaps = self.habit == "flaps" and draw.random() < 0.1
        is_ready = now_s - self.begun_s >= START_S and not flaps
        return PodState.READY if is_ready else PodState.STARTING

    def works(self, now_s: int) -> None:
        if not self.habit or (self.habit == "few" and now_s % 200 == 0):
            self.ended += 1


@dataclass(slots=True)
class Cell:
    """A Deployment, its ReplicaSet, and the planner's parts without connections."""

    draw: random.Random
    lies: float
    """Share of the new pods that have a habit."""
    replaces: bool = True
    replicas: int = 0
    now_s: int = 0
    made: int = 0
    pods: dict[str, FakePod] = field(default_factory=dict)
    trust: Trust = field(default_factory=lambda: Trust(timeout_s=10.0))
    pool: Pool = field(
        default_factory=lambda: Pool(stage=FIRST, path="/deployments", name="run", slots_per_pod=2)
    )
    doubted_ever: set[str] = field(default_factory=set)

    def add(self, habit: str) -> None:
        self.made += 1
        name = f"p{self.made}"
        self.pods[name] = FakePod(name, self.now_s, habit)

    def views(self) -> dict[str, PodView]:
        return {
            one.name: PodView(
                name=one.name, stage=RUN, state=one.state(self.now_s, self.draw),
                ready_s=float(one.begun_s), deletion_cost=one.cost,
            )
            for one in self.pods.values()
        }  # fmt: skip

    def second(self, wanted: int) -> PoolState:
        self.now_s += 1
        for one in self.pods.values():
            one.works(self.now_s)
        views = self.views()
        self.trust.look(
            [
                Reading(WorkerId(name), 2, self.pods[name].ended)
                for name, view in views.items()
                if view.state is PodState.READY
            ],
            now_s=float(self.now_s), waited_s=1.0,
        )  # fmt: skip
        doubted = frozenset(map(str, self.trust.doubted))
        self.doubted_ever |= doubted
        self.pool.replaces = self.replaces
        state = self.pool.state(
            Target(name="run", replicas=self.replicas, version=str(self.now_s)), views.values(),
            running=0, now_s=float(self.now_s), patience=PATIENCE, doubted=doubted,
        )  # fmt: skip
        if state.desired != wanted * 2:
            self.resize(self.pool.pods_for(wanted * 2), views, doubted)
        self.reconcile(wanted)
        return state

    def resize(self, size: int, views: dict[str, PodView], doubted: frozenset[str]) -> None:
        if self.replaces and size < len(views):
            marks = costs(views.values(), idle=frozenset(), stay=size, doubted=doubted)
            for name, cost in marks.items():
                self.pods[name].cost = cost
        self.replicas = size
        self.pool.resized(size, str(self.now_s), float(self.now_s))

    def reconcile(self, wanted: int) -> None:
        assert self.replicas <= wanted + SPARES_MAX
        while len(self.pods) < self.replicas:
            self.add(self.draw.choice(HABITS) if self.draw.random() < self.lies else "")
        for name in removed(self.views(), self.replicas):
            del self.pods[name]

    def honest(self) -> list[FakePod]:
        old = self.now_s - START_S
        return [one for one in self.pods.values() if not one.habit and one.begun_s <= old]


FOUND_S = STUCK_S_MIN + START_S + 3
"""From the first look until a liar's spare is ready."""


@settings(max_examples=40, deadline=None)
@given(
    honest=st.integers(1, 6),
    liars=st.lists(st.sampled_from(HABITS[:3]), min_size=1, max_size=40),
    seed=st.integers(0, 2**32 - 1),
)
@example(honest=1, liars=["takes"], seed=0)
@example(honest=1, liars=["takes"] * (SPARES_MAX * 2 + 1), seed=0)
def test_pods_that_end_nothing_are_replaced_within_a_bounded_time(
    honest: int, liars: list[str], seed: int
) -> None:
    cell = Cell(random.Random(seed), lies=0.0)
    for habit in ["", *liars, *[""] * (honest - 1)]:
        cell.add(habit)
    wanted = cell.replicas = len(cell.pods)
    rounds = -(-len(liars) // SPARES_MAX)
    for _ in range(round(FOUND_S + rounds * (START_S + 5)) + START_S):
        state = cell.second(wanted)
    assert len(cell.honest()) == len(cell.pods) == wanted
    assert (state.ready, state.desired, state.condition) == (wanted * 2, wanted * 2, "")
    assert cell.doubted_ever == {f"p{n + 2}" for n in range(len(liars))}


@settings(max_examples=15, deadline=None)
@given(
    liars=st.lists(st.sampled_from(HABITS), min_size=1, max_size=6),
    lies=st.floats(0, 0.6),
    seed=st.integers(0, 2**32 - 1),
)
def test_where_new_pods_lie_too_honest_ones_stay_and_are_as_many_in_the_end(
    liars: list[str], lies: float, seed: int
) -> None:
    cell = Cell(random.Random(seed), lies=lies)
    for habit in ["", "", *liars]:
        cell.add(habit)
    wanted = cell.replicas = len(cell.pods)
    honest_at_first = {"p1", "p2"}
    for _ in range(900):
        cell.second(wanted)
        assert honest_at_first <= set(cell.pods)
    cell.lies = 0.0
    for _ in range(900):  # one that flaps is forgotten at each look that it is not ready
        cell.second(wanted)
    still = [one.habit for one in cell.pods.values() if one.habit]
    assert set(still) <= {"flaps"}
    assert not {one for one in cell.doubted_ever if one in cell.pods and not cell.pods[one].habit}


def test_where_all_pods_are_stuck_nothing_is_replaced() -> None:
    cell = Cell(random.Random(0), lies=0.0)
    for _ in range(4):
        cell.add("takes")
    cell.replicas = 4
    for _ in range(600):
        state = cell.second(4)
    assert cell.made == 4
    assert (state.ready, state.condition) == (8, "")


def test_where_pods_cannot_be_made_to_go_first_the_spares_stay() -> None:
    """Or Kubernetes would take any pod, and a further spare would be asked for each time."""
    cell = Cell(random.Random(0), lies=0.0, replaces=False)
    for habit in ("", "", "takes"):
        cell.add(habit)
    cell.replicas = 3
    for _ in range(round(DOUBT_S_MAX * 0.9)):
        state = cell.second(3)
    assert (cell.made, cell.replicas, state.ready, state.desired) == (4, 4, 6, 6)
    assert state.condition == "HostsDoubted: 1 of 4 pods, p3"


def test_within_a_quota_the_doubted_pod_makes_room_for_another() -> None:
    pool = Pool(stage=FIRST, path="/deployments", name="run", slots_per_pod=1, replaces=True)
    gated = PodView(name="g", stage=RUN, state=PodState.GATED, why="no quota", created_s=1.0)
    there = [PodView(name=n, stage=RUN, state=PodState.READY) for n in ("a", "b", "c")]
    pool.wanted = 3

    def seen(replicas: int, pods: list[PodView]) -> PoolState:
        return pool.state(
            Target(name="run", replicas=replicas, version="1"), pods, running=0,
            now_s=1_000.0, patience=PATIENCE, doubted={"c"},
        )  # fmt: skip

    assert seen(3, there).desired == 2
    assert pool.pods_for(3) == 4
    state = seen(4, [*there, gated])
    assert (state.slots_max, state.ready) == (2, 2), "what is given, without the doubted one"
    assert pool.pods_for(2) == 2, "the cap is the plan's, and a and b are there: c goes"


def test_a_doubted_pod_goes_before_an_idle_one_and_is_marked_though_it_is_busy() -> None:
    pods = [PodView(name=name, stage=RUN, state=PodState.READY) for name in "abcd"]
    assert costs(pods, idle={"a"}, stay=3, doubted={"c"}) == {"c": DOUBTED}
    assert costs(pods, idle={"a"}, stay=2, doubted={"c"}) == {"c": DOUBTED, "a": GOES_FIRST}
    marked = [replace(one, deletion_cost=DOUBTED) if one.name == "c" else one for one in pods]
    assert costs(marked, idle=set(), stay=3, doubted=set()) == {"c": 0}, "believed again"


# -- against an API server ---------------------------------------------------------------------


async def end_one(store: Store, pod: str) -> None:
    """The pod's host judges a request."""
    worker = host_of(pod).worker
    claims = await store.claim(FIRST, claims_max=1, lease_s=LONG_S, worker=worker)
    report = StageReport(worker=worker, started_after_ns=1_000, finished_after_ns=5_000)
    end = EndRequest(outcome=Outcome.SCORED, reward=1.0, body=b"")
    reports = [Report(lease=one.lease, report=report, finish=end) for one in claims]
    await store.finish(FIRST, reports, 3)


async def test_a_pod_that_holds_a_request_for_ever_is_replaced_and_its_request_given_back(
    cluster: Cluster, run_scaler: RunScaler, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trust, "STUCK_S_MIN", 0.5)
    monkeypatch.setattr(doubts, "LOOK_EVERY_S", 0.01)
    deployment = await cluster.deploy(RUN, replicas=2)
    good, stuck = [await cluster.add_pod(RUN, ready(time.time())) for _ in range(2)]
    drive, told = Driver(store), list[tuple[StageName, int]]()
    await drive.open()
    await drive.submit(requests(*(f"r{n}" for n in range(2_000))))
    for pod in (good, stuck):
        await store.put_host(host_of(pod), lease_s=LONG_S)
    await store.claim(FIRST, claims_max=1, lease_s=LONG_S, worker=host_of(stuck).worker)
    found = PodDoubts(store, timeout_of=lambda _: 0.1, on_doubt=lambda *one: told.append(one))
    scaling = run_scaler(RUN, hosts=PodHosts(store, attempts_max=3, doubts=found))

    async def numbers(ready: int, desired: int) -> bool:
        await end_one(store, good)
        state = await scaling.seen(RUN)
        return state is not None and (state.ready, state.desired) == (ready, desired)

    await until(lambda: numbers(2, 2), "both pods")
    await scaling.resize(RUN, 2)
    await until(lambda: numbers(1, 1), "one of them is doubted")
    state = await scaling.pool(RUN)
    assert state.condition == f"HostsDoubted: 1 of 2 pods, {stuck}"
    assert told == [(FIRST, 1)]
    states = {one.host: one.state for one in scaling.scaler.hosts()}
    assert states == {good: "Counted", stuck: f"Doubted: {RUN}"}
    await scaling.resize(RUN, 2)
    await until(lambda: numbers(1, 2), "a spare one is asked for")
    assert await cluster.replicas(deployment) == 3
    spare = await cluster.add_pod(RUN, ready(time.time()))
    await until(lambda: numbers(2, 3), "the spare one is ready")
    await scaling.resize(RUN, 2)
    assert await cluster.replicas(deployment) == 2
    marked = {}
    for pod in (good, stuck, spare):
        one = await cluster.call("GET", cluster.path("pods", pod))
        marked[pod] = one["metadata"].get("annotations", {}).get(DELETION_COST)
    assert marked == {good: None, stuck: str(DOUBTED), spare: None}
    assert (await drive.depth()).running == 1
    await cluster.remove_pod(stuck)
    await until(lambda: numbers(2, 2), "it is gone")
    assert (await drive.depth()).running == 0
    assert not (await scaling.pool(RUN)).condition


# -- a bounded part of the planner's time ----------------------------------------------------------
class Counts(MemoryStore):
    """What is asked of a store about pods that each end a request per second, or none."""

    def __init__(self, stages: int, pods: int, timeout_s: float = 1.0) -> None:
        super().__init__(Clock())
        self.names = [StageName(f"s{n}") for n in range(stages)]
        self.records = [
            replace(host_of(f"p{k}-{name}"), stages=(name,))
            for name in self.names
            for k in range(pods)
        ]
        self.liars = {"p1"}
        self.starting: set[str] = set()
        self.now_s = 0.0
        self.idle: set[StageName] = set()
        self.oldest_age_s = 99.0
        self.asked: list[int] = []
        self.told: list[tuple[StageName, int]] = []
        self.doubts = PodDoubts(
            self, timeout_of=lambda _: timeout_s, on_doubt=lambda *one: self.told.append(one)
        )

    async def depths(self, stages: Sequence[StageName]) -> Sequence[StageDepth]:
        waiting = [0 if stage in self.idle else 9 for stage in stages]
        return [
            StageDepth(
                stage=stage, queued=n, running=1, oldest_age_s=self.oldest_age_s, dead_letters=0
            )
            for stage, n in zip(stages, waiting, strict=True)
        ]

    async def ended_by(
        self, workers: Sequence[WorkerId]
    ) -> Mapping[WorkerId, Mapping[StageName, int]]:
        self.asked.append(len(workers))
        return {one: dict.fromkeys(self.names, self.ended(doubts.pod_of(one))) for one in workers}

    def ended(self, pod: str) -> int:
        return 0 if pod.partition("-")[0] in self.liars else int(self.now_s)

    async def look(self, after_s: float = doubts.LOOK_EVERY_S) -> None:
        def ready_of(stages: Collection[StageName]) -> dict[StageName, frozenset[str]]:
            names = {stage: set[str]() for stage in stages}
            for one in self.records:
                if (pod := doubts.pod_of(one.worker)) not in self.starting:
                    names.get(one.stages[0], set()).add(pod)
            return {stage: frozenset(some) for stage, some in names.items()}

        self.now_s += after_s
        await self.doubts.look(self.records, ready_of, slots_of=lambda _: 1, now_s=self.now_s)


async def test_stages_are_compared_in_turn_a_bounded_number_of_pods_per_look() -> None:
    counts = Counts(stages=40, pods=50)
    for _ in range(4):
        await counts.look()
    assert counts.asked == [500] * 4
    for _ in range(80):
        await counts.look()
    assert all(counts.doubts.of(name) == {f"p1-{name}"} for name in counts.names)
    assert sorted(counts.told) == sorted((name, 1) for name in counts.names)


async def test_a_large_stage_is_compared_whole_and_less_often() -> None:
    size = 3 * doubts.HOSTS_AT_ONCE
    counts = Counts(stages=1, pods=size)
    for _ in range(6):
        await counts.look()
    assert counts.asked == [size] * 2
    for _ in range(18):
        await counts.look()
    assert counts.doubts.of(counts.names[0]) == {"p1-s0"}


async def test_what_pods_ended_while_nothing_waited_is_no_evidence() -> None:
    counts = Counts(stages=2, pods=3)
    quiet, busy = counts.names
    counts.idle = {quiet}
    for _ in range(30):
        await counts.look()
    assert counts.doubts.of(busy) == {f"p1-{busy}"}
    assert not counts.doubts.of(quiet)
    assert set(counts.asked) == {3}, "pods of a stage in which nothing waits are not asked about"
    counts.idle = set()
    await counts.look()
    await counts.look()
    assert not counts.doubts.of(quiet), "the first comparison is where counting begins"
    for _ in range(20):
        await counts.look()
    assert counts.doubts.of(quiet) == {f"p1-{quiet}"}


async def test_pods_whose_requests_waited_for_a_part_of_the_time_are_not_doubted() -> None:
    counts = Counts(stages=1, pods=3)
    for look in range(60):
        counts.idle = set(counts.names) if look % 2 else set()
        await counts.look()
    assert counts.asked
    assert not counts.doubts.of(counts.names[0])


async def test_pods_are_not_asked_about_more_often_than_the_bound_says() -> None:
    counts = Counts(stages=1, pods=3)
    for _ in range(9):
        await counts.look(after_s=doubts.LOOK_EVERY_S / 4)
    assert counts.asked == [3] * 3


async def test_requests_that_came_after_the_last_look_did_not_wait_all_along() -> None:
    counts = Counts(stages=1, pods=3)
    counts.oldest_age_s = 2 * doubts.LOOK_EVERY_S
    for _ in range(30):
        await counts.look(after_s=3 * doubts.LOOK_EVERY_S)
    assert not counts.doubts.of(counts.names[0])


async def test_a_doubted_pod_that_is_the_last_one_is_counted() -> None:
    counts = Counts(stages=1, pods=3)
    for _ in range(30):
        await counts.look()
    assert counts.doubts.of(counts.names[0])
    counts.records = counts.records[1:2]
    await counts.look()
    assert not counts.doubts.of(counts.names[0])


async def test_about_a_pod_that_is_alone_the_store_is_not_asked() -> None:
    counts = Counts(stages=1, pods=3)
    await counts.look()
    assert counts.asked == [3]
    counts.records = counts.records[:1]
    for _ in range(9):
        await counts.look()
    assert counts.asked == [3]


async def test_a_doubt_ends_where_nothing_waits_any_more() -> None:
    counts = Counts(stages=1, pods=3)
    for _ in range(30):
        await counts.look()
    assert counts.doubts.of(counts.names[0])
    counts.idle = set(counts.names)
    await counts.look(after_s=DOUBT_S_MAX)
    assert not counts.doubts.of(counts.names[0])


async def test_a_second_doubted_pod_is_told_alone_and_one_that_starts_is_not_compared() -> None:
    counts = Counts(stages=1, pods=6)
    counts.starting = {"p4-s0"}
    counts.liars |= {"p4"}
    for _ in range(30):
        await counts.look()
    assert counts.doubts.of(counts.names[0]) == {"p1-s0"}
    counts.liars |= {"p2"}
    for _ in range(60):
        await counts.look()
    assert counts.doubts.of(counts.names[0]) == {"p1-s0", "p2-s0"}
    assert counts.told == [(counts.names[0], 1)] * 2


async def test_pods_with_long_requests_have_two_timeouts_of_their_stage() -> None:
    counts = Counts(stages=1, pods=3, timeout_s=60.0)
    counts.liars |= {"p2"}
    counts.ended = lambda pod: int(pod == "p0-s0" and counts.now_s > 30.0)  # type: ignore[method-assign]
    for _ in range(30):
        await counts.look()
    assert not counts.doubts.of(counts.names[0])
