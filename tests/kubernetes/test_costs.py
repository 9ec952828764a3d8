"""Scale-in takes idle pods: the controller marks them before it sets the size."""

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kubernetes.api_server import Fault
from tests.kubernetes.cluster import Cluster, not_placed, ready, until
from tests.kubernetes.relay import Server
from tests.kubernetes.scaling import RunScaler, Scaling, host_of
from tests.store.driver import FIRST

from assay.core.errors import DependencyDown
from assay.core.hosts.record import BUSY_UNKNOWN
from assay.edge.clock import Clock
from assay.planner.kubernetes import scaler
from assay.planner.kubernetes.costs import DOUBTED, GOES_FIRST, MARKS_MAX, OURS, annotated, costs
from assay.planner.kubernetes.hosts import PodHosts
from assay.planner.kubernetes.pods import DELETION_COST, PodState, PodView, pod_view
from assay.store.port import Store

RUN = str(FIRST)
LONG_S = 600.0


class Pool:
    """Four ready pods, of which the second and the third are idle."""

    def __init__(self, server: Server, cluster: Cluster, scaling: Scaling, store: Store) -> None:
        self.server = server
        self.cluster = cluster
        self.scaling = scaling
        self.store = store
        self.deployment = ""
        self.pods: list[str] = []

    async def make(self) -> None:
        """Make the Deployment, its pods and the records of their hosts."""
        self.deployment = await self.cluster.deploy(RUN, replicas=4)
        self.pods = [await self.cluster.add_pod(RUN, ready(time.time())) for _ in range(4)]
        for pod, busy in zip(self.pods, (1, 0, 0, BUSY_UNKNOWN), strict=True):
            await self.works(pod, busy)
        await until(self.all_ready, "four pods")

    async def all_ready(self) -> bool:
        found = await self.scaling.seen(RUN)
        return found is not None and found.ready == 4

    async def works(self, pod: str, busy: int) -> None:
        """What the pod's host says."""
        await self.store.put_host(host_of(pod, busy=busy), lease_s=LONG_S)

    async def costs(self) -> dict[str, str]:
        """The annotation of each pod that has one."""
        found: dict[str, str] = {}
        for pod in self.pods:
            one = await self.cluster.call("GET", self.cluster.path("pods", pod))
            cost = one["metadata"].get("annotations", {}).get(DELETION_COST)
            found |= {pod: cost} if cost is not None else {}
        return found

    def patched(self) -> list[str]:
        """What the scaler has changed, in order: names of pods, and `scale`."""
        return [
            call.path.rpartition("/")[2]
            for call in self.server.calls
            if call.method == "PATCH" and call.query.get("fieldManager") == "assay-planner"
        ]


@pytest.fixture
async def pool(server: Server, cluster: Cluster, run_scaler: RunScaler, store: Store) -> Pool:
    scaling = run_scaler(RUN, hosts=PodHosts(store, attempts_max=3))
    one = Pool(server, cluster, scaling, store)
    await one.make()
    return one


async def test_idle_pods_are_marked_before_the_size_is_set(pool: Pool) -> None:
    await pool.scaling.resize(RUN, 2)
    idle = set(pool.pods[1:3])
    assert await pool.costs() == dict.fromkeys(idle, str(GOES_FIRST))
    *marked, last = pool.patched()
    assert (set(marked), last) == (idle, "scale")


async def test_as_many_are_marked_as_go(pool: Pool) -> None:
    await pool.scaling.resize(RUN, 3)
    assert len(await pool.costs()) == 1
    assert set(await pool.costs()) < set(pool.pods[1:3])


async def test_a_marked_pod_that_stayed_and_works_again_loses_its_mark(pool: Pool) -> None:
    await pool.scaling.resize(RUN, 3)
    [marked] = await pool.costs()
    await pool.works(marked, 1)
    await pool.scaling.resize(RUN, 4)

    async def is_seen() -> bool:
        await pool.scaling.pool(RUN)
        await pool.scaling.resize(RUN, 3)
        await pool.scaling.resize(RUN, 4)
        return marked not in await pool.costs()

    await until(is_seen, "the mark is taken back")
    [other] = await pool.costs()
    assert other in pool.pods[1:3]


async def test_pods_are_not_touched_where_the_pool_grows_or_marking_is_off(
    pool: Pool, run_scaler: RunScaler, store: Store
) -> None:
    await pool.scaling.resize(RUN, 9)
    unmarked = run_scaler(RUN, hosts=PodHosts(store, attempts_max=3), mark_idle_pods=False)
    await until(lambda: unmarked.seen(RUN), "the pods are seen")
    await unmarked.resize(RUN, 1)
    assert pool.patched() == ["scale", "scale"]


async def test_without_the_right_the_size_is_set_all_the_same(pool: Pool) -> None:
    pool.server.faults.append(Fault(method="PATCH", part="/pods/", status=403, times=99))
    await pool.scaling.resize(RUN, 2)
    assert await pool.costs() == {}
    assert await pool.cluster.replicas(pool.deployment) == 2


class Rushed(Clock):
    """Each look at it is three seconds after the last one, until it is at rest."""

    looks, at_rest = 0, False

    def monotonic_ns(self) -> int:
        self.looks += not self.at_rest
        return super().monotonic_ns() + self.looks * 3 * 10**9


@pytest.mark.parametrize("status", [500, 0])
async def test_a_webhook_of_pods_that_does_not_answer_delays_one_size_and_stops_none(
    server: Server, cluster: Cluster, run_scaler: RunScaler, store: Store, status: int
) -> None:
    clock = Rushed()
    scaling = run_scaler(RUN, hosts=PodHosts(store, attempts_max=3), clock=clock)
    pool = Pool(server, cluster, scaling, store)
    await pool.make()
    pool.server.faults.append(Fault(method="PATCH", part="/pods/", status=status, times=99))
    await pool.scaling.resize(RUN, 2)
    assert await pool.cluster.replicas(pool.deployment) == 2
    asked, clock.at_rest = len(pool.patched()), True
    await pool.scaling.resize(RUN, 1)
    assert pool.patched()[asked:] == ["scale"], "marks are not tried again so soon"


async def test_a_pod_that_is_gone_meanwhile_stops_nothing(pool: Pool) -> None:
    pool.server.faults.append(Fault(method="PATCH", part=pool.pods[1], status=404))
    await pool.scaling.resize(RUN, 2)
    assert set(await pool.costs()) == {pool.pods[2]}
    assert await pool.cluster.replicas(pool.deployment) == 2


async def test_a_pod_that_is_gone_does_not_stop_the_marks_that_follow(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scaler, "MARKS_AT_ONCE", 1)
    pool.server.faults.append(Fault(method="PATCH", part="/pods/", status=404, times=1))
    await pool.scaling.resize(RUN, 2)
    assert len(await pool.costs()) == 1


async def test_a_pool_that_grows_keeps_its_marks(pool: Pool) -> None:
    await pool.cluster.call("PATCH", pool.cluster.path("pods", pool.pods[1]), annotated(GOES_FIRST))

    async def is_seen() -> bool:
        await pool.scaling.pool(RUN)
        await pool.scaling.resize(RUN, 4)
        before = len(pool.patched())
        await pool.scaling.resize(RUN, 3)
        return pool.patched()[before:] == ["scale"]

    await until(is_seen, "the mark is seen")
    await pool.scaling.resize(RUN, 9)
    assert pool.patched()[-2:] == ["scale", "scale"]
    assert pool.pods[1] in await pool.costs()


async def test_a_server_that_asks_to_wait_gets_no_size_either(pool: Pool) -> None:
    slow_down = Fault(method="PATCH", part="/pods/", status=429, headers={"Retry-After": "1"})
    pool.server.faults.append(slow_down)
    with pytest.raises(DependencyDown):
        await pool.scaling.resize(RUN, 3)
    assert await pool.cluster.replicas(pool.deployment) == 4


async def test_a_pod_that_is_not_ready_goes_before_a_ready_one_without_a_mark(pool: Pool) -> None:
    await pool.cluster.set_status(pool.pods[0], not_placed("Unschedulable", time.time()))

    async def is_seen() -> bool:
        found = await pool.scaling.seen(RUN)
        return found is not None and found.ready == 3

    await until(is_seen, "three are ready")
    await pool.scaling.resize(RUN, 3)
    assert await pool.costs() == {}


# -- pure ----------------------------------------------------------------------------------------
PODS = st.lists(
    st.tuples(
        st.sampled_from([PodState.READY, PodState.STARTING, PodState.ENDING, PodState.LOST]),
        st.booleans(),
        st.sampled_from([0, GOES_FIRST, DOUBTED, 5, -2_500]),
        st.floats(0, 9),
    ),
    max_size=30,
)


def removed(pods: Mapping[str, PodView], stay: int) -> list[str]:
    """What a ReplicaSet removes: what is not ready, then the least cost, then the youngest."""
    there = [pod for pod in pods.values() if pod.state is not PodState.ENDING]
    there.sort(key=lambda pod: (pod.state is PodState.READY, pod.deletion_cost, -pod.ready_s))
    return [pod.name for pod in there[: max(0, len(there) - stay)]]


@given(PODS, st.integers(0, 31))
def test_no_busy_pod_goes_while_an_idle_one_stays(
    drawn: list[tuple[PodState, bool, int, float]], stay: int
) -> None:
    pods = {
        f"p{n}": PodView(name=f"p{n}", stage=RUN, state=state, deletion_cost=cost, ready_s=ready_s)
        for n, (state, _, cost, ready_s) in enumerate(drawn)
    }
    idle = {f"p{n}" for n, (_, is_idle, _, _) in enumerate(drawn) if is_idle}
    changes = costs(pods.values(), idle=idle, stay=stay)
    foreign = {name for name, pod in pods.items() if pod.deletion_cost not in OURS}
    assert not foreign & set(changes), "what another has set is left as it is"
    after = {n: replace(pod, deletion_cost=changes.get(n, pod.deletion_cost))
             for n, pod in pods.items()}  # fmt: skip
    assert not costs(after.values(), idle=idle, stay=stay), "the same size again changes nothing"
    if not foreign:
        gone = set(removed(after, stay))
        ready_pods = {name for name, pod in pods.items() if pod.state is PodState.READY}
        assert not ((gone & ready_pods) - idle) or not ((ready_pods & idle) - gone)


def test_the_same_size_again_takes_the_pods_that_are_marked() -> None:
    pods = [PodView(name=f"p{n}", stage=RUN, state=PodState.READY, ready_s=n) for n in range(5)]
    marked = [replace(pods[0], deletion_cost=GOES_FIRST), *pods[1:]]
    assert costs(marked, idle={pod.name for pod in pods}, stay=4) == {}


def test_a_step_marks_a_bounded_number_of_pods() -> None:
    pods = [PodView(name=f"p{n}", stage=RUN, state=PodState.READY) for n in range(2_000)]
    found = costs(pods, idle={pod.name for pod in pods}, stay=0)
    assert len(found) == MARKS_MAX


@given(st.one_of(st.none(), st.text(), st.integers()))
def test_a_cost_is_read_as_kubernetes_reads_it(value: object) -> None:
    annotations: dict[str, Any] = {} if value is None else {DELETION_COST: str(value)}
    pod = pod_view({"metadata": {"name": "p", "annotations": annotations}}, pool_label="x")
    assert -(2**31) <= pod.deletion_cost < 2**31
    if isinstance(value, int) and -(2**31) <= value < 2**31:
        assert pod.deletion_cost == value
