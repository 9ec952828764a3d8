"""Pods that are gone give back what their hosts held; those that may live do not."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kubernetes.cluster import Cluster, condition, ready, until
from tests.kubernetes.scaling import RunScaler, host_of
from tests.store.driver import FIRST, Driver, requests

from assay.planner.kubernetes.hosts import PodHosts, PodLives
from assay.planner.kubernetes.pods import PodState, PodView
from assay.store.port import Store

RUN = str(FIRST)
LONG_S = 600.0
GONE = {"phase": "Failed", "reason": "Evicted"}
SILENT = {
    "phase": "Running",
    "conditions": [condition("Ready", "Unknown", 1.0, reason="NodeStatusUnknown")],
}


@pytest.mark.parametrize("how", ["deleted", "ended"])
async def test_what_a_pod_held_is_given_back_when_it_is_gone_and_not_when_it_is_silent(
    cluster: Cluster, run_scaler: RunScaler, store: Store, how: str
) -> None:
    await cluster.deploy(RUN, replicas=2)
    dies, silent = [await cluster.add_pod(RUN, ready(time.time())) for _ in range(2)]
    drive = Driver(store)
    await drive.open()
    await drive.submit(requests("a", "b", "c"))
    for pod, count in ((dies, 2), (silent, 1)):
        host = host_of(pod)
        await store.put_host(host, lease_s=LONG_S)
        await store.claim(FIRST, claims_max=count, lease_s=LONG_S, worker=host.worker)
    scaling = run_scaler(RUN, hosts=PodHosts(store, attempts_max=3))
    await until(lambda: scaling.seen(RUN), "both pods are seen")
    await cluster.set_status(silent, SILENT)
    if how == "deleted":
        await cluster.remove_pod(dies)
    else:
        await cluster.set_status(dies, GONE)

    async def given_back() -> bool:
        await scaling.seen(RUN)
        depth = await drive.depth()
        return (depth.queued, depth.running) == (2, 1)

    await until(given_back, "the leases of the one that is gone")
    for _ in range(3):
        await scaling.seen(RUN)
    assert await given_back(), "the silent one keeps its lease"
    assert [one.worker for one in await store.hosts()] == [host_of(silent).worker]
    assert [one.attempt for one in await drive.claim(9)] == [2, 2]


async def test_a_host_whose_record_ran_out_before_its_pod_was_deleted_is_remembered(
    cluster: Cluster, run_scaler: RunScaler, store: Store
) -> None:
    await cluster.deploy(RUN, replicas=1)
    pod = await cluster.add_pod(RUN, ready(time.time()))
    drive = Driver(store)
    await drive.open()
    await drive.submit(requests("a"))
    host = host_of(pod)
    await store.put_host(host, lease_s=LONG_S)
    await store.claim(FIRST, claims_max=1, lease_s=LONG_S, worker=host.worker)
    scaling = run_scaler(RUN, hosts=PodHosts(store, attempts_max=3))
    await until(lambda: scaling.seen(RUN), "the pod is seen")
    await store.drop_host(host.worker)  # as when its record runs out
    await scaling.seen(RUN)
    await cluster.remove_pod(pod)

    async def given_back() -> bool:
        await scaling.seen(RUN)
        return (await drive.depth()).queued == 1

    await until(given_back, "its lease")


# -- pure ----------------------------------------------------------------------------------------


def view(name: str, *, over: bool = False) -> PodView:
    return PodView(name=name, stage=RUN, state=PodState.READY, over=over)


def test_a_pod_with_a_long_name_is_found_by_the_name_that_its_processes_see() -> None:
    pod = "a" * 62 + "-" + "b" * 60
    lives = PodLives()
    host = host_of("a" * 62)
    assert not lives.gone([host], [view(pod)])
    assert lives.gone([], []) == [host]


@given(st.lists(st.tuples(st.sets(st.integers(0, 5)), st.sets(st.integers(0, 5)))))
def test_only_a_host_that_was_seen_with_its_pod_is_ever_gone_and_once(
    looks: list[tuple[set[int], set[int]]],
) -> None:
    lives, seen = PodLives(), set[str]()
    for hosts, pods in looks:
        records = [host_of(f"p{number}") for number in sorted(hosts)]
        gone = lives.gone(records, [view(f"p{number}") for number in pods])
        seen |= {host_of(f"p{number}").worker for number in hosts & pods}
        assert {one.worker for one in gone} == {
            worker for worker in seen if int(worker[1]) not in pods
        }
        for one in gone:
            lives.settled(one.worker)
            seen.discard(one.worker)
