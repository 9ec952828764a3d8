"""The scaler of pods against an API server: sizes out, states in."""

import time
from collections.abc import Mapping, Sequence
from functools import partial

import pytest
from tests.kubernetes.api_server import ApiServer, Fault
from tests.kubernetes.cluster import (
    Cluster,
    condition,
    not_placed,
    ready,
    until,
    waiting,
)
from tests.kubernetes.real_server import DEFINITIONS, define
from tests.kubernetes.relay import Server
from tests.kubernetes.scaling import RunScaler, Scaling

from assay.config.kubernetes import KubernetesSettings
from assay.core.errors import DependencyDown, InvalidRequest
from assay.core.ids import StageName
from assay.edge.clock import Clock

RUN = "python.run"
MATH = "math.verify"


def patches(server: Server) -> list[int]:
    """Sizes that the scaler asked for."""
    return [
        call.body["spec"]["replicas"]
        for call in server.calls
        if call.method == "PATCH" and call.query.get("fieldManager") == "assay-planner"
    ]


async def test_a_resize_patches_the_scale_with_its_own_field_manager(
    cluster: Cluster, run_scaler: RunScaler
) -> None:
    name = await cluster.deploy(RUN)
    scaling = run_scaler(RUN)
    state = await scaling.resize(RUN, 7)
    assert (state.desired, await cluster.replicas(name)) == (7, 7)
    found = await cluster.call("GET", cluster.path("deployments", name))
    owners = [
        entry["manager"]
        for entry in found["metadata"]["managedFields"]
        if "f:replicas" in entry["fieldsV1"].get("f:spec", {})
    ]
    assert owners == ["assay-planner"]


async def test_a_size_that_is_there_is_not_asked_for_again(
    server: Server, cluster: Cluster, run_scaler: RunScaler
) -> None:
    await cluster.deploy(RUN, replicas=3)
    scaling = run_scaler(RUN)
    for _ in range(5):
        await scaling.resize(RUN, 3)
    await scaling.resize(RUN, 4)
    for _ in range(5):
        await scaling.resize(RUN, 4)
    assert patches(server) == [4]


async def test_a_deployment_without_replicas_has_one(
    cluster: Cluster, run_scaler: RunScaler
) -> None:
    await cluster.deploy(RUN, replicas=None)
    assert (await run_scaler(RUN).pool(RUN)).desired == 1


async def test_slots_are_pods_times_the_slots_of_a_pod_rounded_up(
    cluster: Cluster, run_scaler: RunScaler
) -> None:
    name = await cluster.deploy(RUN)
    scaling = run_scaler(RUN, slots_per_pod=2, slots_per_pod_by_stage={RUN: 4})
    state = await scaling.resize(RUN, 9)
    assert (state.desired, await cluster.replicas(name)) == (12, 3)
    await cluster.add_pod(RUN, ready(time.time()))
    scaling.busy[StageName(RUN)] = 6
    await until(lambda: _ready(scaling, RUN, 4), "one pod is four slots")
    assert (await scaling.pool(RUN)).busy == 4


async def _ready(scaling: Scaling, stage: str, slots: int) -> bool:
    found = await scaling.seen(stage)
    return found is not None and found.ready == slots


async def test_pods_of_other_stages_and_deployments_of_none_are_not_counted(
    cluster: Cluster, run_scaler: RunScaler
) -> None:
    await cluster.deploy(RUN, replicas=1)
    await cluster.deploy(MATH, replicas=2)
    await cluster.add_pod(RUN, ready(time.time()))
    await cluster.add_pod(MATH, ready(time.time()))
    scaling = run_scaler(RUN, "cpp.run")
    await until(lambda: _ready(scaling, RUN, 1), "its own pod")
    assert [pool.stage for pool in await scaling.scaler.pools()] == [RUN]
    with pytest.raises(InvalidRequest, match="no pool"):
        await scaling.resize("cpp.run", 1)


@pytest.mark.fake_api
async def test_more_objects_than_a_page_are_all_seen(
    server: ApiServer, cluster: Cluster, run_scaler: RunScaler
) -> None:
    await cluster.deploy(RUN, replicas=1_203)
    for n in range(1_203):
        labels = server.objects["deployments", "assay-python-run"]["metadata"]["labels"]
        pod = {"metadata": {"name": f"p{n}", "labels": labels}, "status": ready(time.time())}
        server.put("pods", pod, "ADDED")
    scaling = run_scaler(RUN)
    assert (await scaling.pool(RUN)).ready == 1_203


async def test_sizes_set_by_others_are_seen_and_set_back_when_the_plan_says_so(
    server: Server, cluster: Cluster, run_scaler: RunScaler
) -> None:
    name = await cluster.deploy(RUN)
    scaling = run_scaler(RUN)
    await scaling.resize(RUN, 4)
    await cluster.scale(name, 9)

    async def sees_it() -> bool:
        return (await scaling.pool(RUN)).desired == 9

    await until(sees_it, "the other size")
    await scaling.resize(RUN, 4)
    assert patches(server) == [4, 4]
    assert (await scaling.pool(RUN)).condition == ""


async def test_an_owner_that_keeps_sizing_the_pool_is_named_and_not_fought(
    server: Server, cluster: Cluster, run_scaler: RunScaler
) -> None:
    name = await cluster.deploy(RUN)
    scaling = run_scaler(RUN)
    for _ in range(5):
        await scaling.resize(RUN, 4)
        await cluster.scale(name, 1, manager="kube-controller-manager")

        async def sees_it() -> bool:
            return (await scaling.pool(RUN)).desired == 1

        await until(sees_it, "the other size")
    found = (await scaling.pool(RUN)).condition
    assert found.startswith("Contended: kube-controller-manager")
    assert len(patches(server)) == 3


@pytest.mark.fake_api
async def test_start_up_times_are_measured_once_per_pod_and_told_to_the_planner(
    cluster: Cluster, run_scaler: RunScaler
) -> None:
    await cluster.deploy(RUN, replicas=12)
    scaling = run_scaler(RUN)
    now_s = float(int(time.time()))
    assert (await scaling.pool(RUN)).startup_ns is None
    for took_s in (2, 3, 4, 5, 6, 7, 8, 9, 10, 30):
        await cluster.add_pod(RUN, ready(now_s - 60, took_s), created_s=now_s - 60)
    await until(lambda: _ready(scaling, RUN, 10), "all pods")
    again = await cluster.add_pod(RUN, ready(now_s - 60, 8), created_s=now_s - 60)
    await cluster.set_status(again, {**ready(now_s - 60, 8), "message": "changed"})
    await until(lambda: _ready(scaling, RUN, 11), "the pod that changed")
    counts = scaling.metrics.registry.get_sample_value(
        "assay_pool_startup_seconds_count", {"stage": RUN}
    )
    assert counts == 11
    assert (await scaling.pool(RUN)).startup_ns == 10 * 10**9


@pytest.mark.fake_api
async def test_each_pod_is_a_host_with_its_slots_its_start_and_its_trouble(
    cluster: Cluster, run_scaler: RunScaler
) -> None:
    await cluster.deploy(RUN, replicas=2)
    now_s = float(int(time.time()))
    good = await cluster.add_pod(RUN, ready(now_s - 60, 7), created_s=now_s - 60)
    bad = await cluster.add_pod(RUN, {"phase": "Pending", **waiting("ErrImagePull")})
    await cluster.add_pod("of.another", ready(now_s))
    scaling = run_scaler(RUN, slots_per_pod=4)
    state = await scaling.pool(RUN)
    assert (state.startup.measured, state.startup.p90_ns) == (1, 7 * 10**9)
    hosts = {one.host: one for one in scaling.scaler.hosts()}
    assert list(hosts) == sorted([good, bad])
    [slots] = hosts[good].pools
    assert (hosts[good].state, slots.ready, slots.startup.p50_ns) == ("Counted", 4, 7 * 10**9)
    [none] = hosts[bad].pools
    assert (hosts[bad].state, none.ready, none.desired) == ("image_failed", 0, 4)


@pytest.mark.parametrize(
    ("status", "name"),
    [
        ({"phase": "Pending", **waiting("ImagePullBackOff")}, "ImagePullFailed"),
        ({"phase": "Pending", **waiting("ErrImagePull")}, "ImagePullFailed"),
        ({"phase": "Running", **waiting("CrashLoopBackOff")}, "PodsBroken"),
        ({"phase": "Failed", "reason": "Evicted"}, "PodsLost"),
        (
            {"phase": "Running", "conditions": [
                condition("Ready", "True", 1.0),
                condition("DisruptionTarget", "True", 2.0, reason="PreemptionByScheduler"),
            ]},
            "PodsLost",
        ),
        (
            {"phase": "Running", "conditions": [
                condition("Ready", "False", 1.0, reason="NodeNotReady"),
            ]},
            "PodsLost",
        ),
    ],
)  # fmt: skip
async def test_a_pod_in_trouble_is_no_slot_and_is_named(
    cluster: Cluster, run_scaler: RunScaler, status: dict[str, object], name: str
) -> None:
    await cluster.deploy(RUN, replicas=2)
    await cluster.add_pod(RUN, ready(time.time()))
    await cluster.add_pod(RUN, status)
    scaling = run_scaler(RUN)
    state = await scaling.pool(RUN)
    assert (state.ready, state.condition.partition(":")[0]) == (1, name)
    labels = {"stage": RUN, "condition": name}
    assert scaling.metrics.registry.get_sample_value("assay_pool_condition", labels) == 1


@pytest.mark.parametrize("reason", ["SchedulingGated", "Unschedulable"])
async def test_pods_that_get_no_place_are_quota_and_no_slow_start(
    cluster: Cluster, run_scaler: RunScaler, reason: str
) -> None:
    await cluster.deploy(RUN, replicas=5)
    now_s = time.time()
    for _ in range(2):
        await cluster.add_pod(RUN, ready(now_s))
    for _ in range(3):
        await cluster.add_pod(RUN, not_placed(reason, now_s - 600))
    scaling = run_scaler(RUN, quota_hold_s=1.0, gated_s=0.0, unschedulable_s=0.0)
    state = await scaling.pool(RUN)
    assert (state.ready, state.slots_max) == (2, 2)
    assert state.condition.startswith("QuotaExhausted: 2 slots")


async def test_a_pod_without_a_place_is_given_time_for_a_new_node(
    cluster: Cluster, run_scaler: RunScaler
) -> None:
    await cluster.deploy(RUN, replicas=1)
    await cluster.add_pod(RUN, not_placed("Unschedulable", time.time()), created_s=time.time())
    assert (await run_scaler(RUN, unschedulable_s=60.0).pool(RUN)).slots_max is None


async def test_exhausted_quota_is_tried_again_after_a_while(
    cluster: Cluster, run_scaler: RunScaler
) -> None:
    await cluster.deploy(RUN, replicas=1)
    gated = not_placed("SchedulingGated", time.time() - 60)
    pod = await cluster.add_pod(RUN, gated)
    scaling = run_scaler(RUN, quota_hold_s=0.5, gated_s=0.0)
    assert (await scaling.pool(RUN)).slots_max == 0
    await cluster.remove_pod(pod)

    async def free_again() -> bool:
        return (await scaling.pool(RUN)).slots_max is None

    await until(free_again, "the cap is lifted")


async def test_a_resource_quota_that_refuses_pods_is_quota(
    cluster: Cluster, run_scaler: RunScaler
) -> None:
    name = await cluster.deploy(RUN, replicas=4)
    await cluster.add_pod(RUN, ready(time.time()))
    told = condition("ReplicaFailure", "True", time.time(), reason="FailedCreate",
                     message="exceeded quota: team-a")  # fmt: skip
    await cluster.set_deployment_status(name, {"conditions": [told]})
    state = await run_scaler(RUN).pool(RUN)
    assert state.slots_max == 1
    assert "exceeded quota: team-a" in state.condition


async def test_the_time_that_a_pod_waits_for_quota_is_no_start_up_time(
    cluster: Cluster, run_scaler: RunScaler
) -> None:
    await cluster.deploy(RUN, replicas=3)
    now_s = float(int(time.time()))
    gated = not_placed("SchedulingGated", now_s - 300)
    pods = [await cluster.add_pod(RUN, gated, created_s=now_s - 300) for _ in range(3)]
    scaling = run_scaler(RUN)
    await scaling.pool(RUN)
    for pod in pods:
        await cluster.set_status(pod, ready(now_s - 10, took_s=4))
    await until(lambda: _ready(scaling, RUN, 3), "admitted and ready")
    assert (await scaling.pool(RUN)).startup_ns == 4 * 10**9


async def test_a_conflict_is_tried_again_at_once_and_not_for_ever(
    server: Server, cluster: Cluster, run_scaler: RunScaler
) -> None:
    name = await cluster.deploy(RUN)
    scaling = run_scaler(RUN)
    await scaling.pool(RUN)
    server.faults.append(Fault(method="PATCH", part="/scale", status=409, times=2))
    await scaling.resize(RUN, 3)
    assert await cluster.replicas(name) == 3
    server.faults.append(Fault(method="PATCH", part="/scale", status=409, times=50))
    with pytest.raises(InvalidRequest, match="Conflict"):
        await scaling.resize(RUN, 4)
    assert server.faults[-1].times == 46


@pytest.mark.parametrize(("status", "condition"), [(403, "Forbidden"), (500, "Refused")])
async def test_a_pool_that_may_not_be_sized_is_named_and_does_not_stop_the_others(
    server: Server, cluster: Cluster, run_scaler: RunScaler, status: int, condition: str
) -> None:
    await cluster.deploy(RUN)
    await cluster.deploy(MATH)
    scaling = run_scaler(RUN, MATH)
    await scaling.pool(RUN)
    server.faults.append(Fault(method="PATCH", part="assay-python-run/scale", status=status))
    with pytest.raises(InvalidRequest, match=condition):
        await scaling.resize(RUN, 3)
    assert (await scaling.resize(MATH, 3)).desired == 3
    assert (await scaling.pool(RUN)).condition.startswith(condition)
    await scaling.resize(RUN, 3)
    assert (await scaling.pool(RUN)).condition == ""


class Rushed(Clock):
    """Each look at it is three seconds after the last one."""

    looks = 0

    def monotonic_ns(self) -> int:
        self.looks += 1
        return super().monotonic_ns() + self.looks * 3 * 10**9


@pytest.mark.parametrize("status", [500, 504, 0])
async def test_a_pool_that_delays_the_step_is_not_tried_in_the_next_one(
    server: Server, cluster: Cluster, run_scaler: RunScaler, status: int
) -> None:
    """A server whose time runs out while it writes an error closes the connection instead."""
    await cluster.deploy(RUN)
    await cluster.deploy(MATH)
    scaling = run_scaler(RUN, MATH, clock=Rushed())
    await scaling.pool(RUN)
    fault = Fault(method="PATCH", part="assay-python-run/scale", status=status, times=9)
    server.faults.append(fault)
    with pytest.raises(DependencyDown):
        await scaling.resize(RUN, 3)
    assert (await scaling.resize(RUN, 3)).desired == 0
    assert (await scaling.resize(MATH, 3)).desired == 3
    assert fault.times == 8, "not tried again so soon"
    assert (await scaling.pool(RUN)).condition.startswith("Unanswered")


async def test_a_server_that_asks_to_wait_is_not_called_before(
    server: Server, cluster: Cluster, run_scaler: RunScaler
) -> None:
    await cluster.deploy(RUN)
    scaling = run_scaler(RUN)
    await scaling.pool(RUN)
    busy = Fault(method="PATCH", part="/scale", status=429, headers={"Retry-After": "1"})
    server.faults.append(busy)
    with pytest.raises(DependencyDown, match="wait 1 s") as caught:
        await scaling.resize(RUN, 3)
    assert caught.value.retry_after_s == 1
    before = len(patches(server))
    with pytest.raises(DependencyDown, match="asked to wait"):
        await scaling.resize(RUN, 3)
    assert len(patches(server)) == before

    async def resized() -> bool:
        try:
            return (await scaling.resize(RUN, 3)).desired == 3
        except DependencyDown:
            return False

    await until(resized, "after the pause")


async def test_pools_stay_as_they_are_while_the_api_server_is_down(
    server: Server, cluster: Cluster, run_scaler: RunScaler
) -> None:
    name = await cluster.deploy(RUN)
    scaling = run_scaler(RUN, stale_s=0.3)
    await scaling.resize(RUN, 3)
    await server.stop()

    async def says_so() -> bool:
        return await scaling.seen(RUN) is None

    await until(says_so, "old news are not taken for new")
    with pytest.raises(DependencyDown):
        await scaling.resize(RUN, 0)
    await server.start()
    await until(lambda: scaling.seen(RUN), "it is back")
    assert await cluster.replicas(name) == 3
    assert (await scaling.resize(RUN, 5)).desired == 5


async def test_a_watch_that_breaks_goes_on_where_it_ended(
    server: Server, cluster: Cluster, run_scaler: RunScaler
) -> None:
    await cluster.deploy(RUN, replicas=3)
    scaling = run_scaler(RUN)
    await scaling.pool(RUN)
    for count in (1, 2, 3):
        server.cut_watches()
        await cluster.add_pod(RUN, ready(time.time()))
        await until(partial(_ready, scaling, RUN, count), "the pod of the gap")
    lists = [c for c in server.calls if c.method == "GET" and c.path.endswith("/pods")]
    whole = [c for c in lists if not c.watch and c.query.get("limit") != "1"]
    assert len(whole) == 1


@pytest.mark.fake_api
async def test_a_version_that_is_too_old_leads_to_a_new_list_without_ghosts(
    server: ApiServer, cluster: Cluster, run_scaler: RunScaler
) -> None:
    await cluster.deploy(RUN, replicas=2)
    pods = [await cluster.add_pod(RUN, ready(time.time())) for _ in range(2)]
    scaling = run_scaler(RUN)
    await until(lambda: _ready(scaling, RUN, 2), "both")
    await server.stop()
    found = server.objects["pods", pods[0]]
    server.put("pods", found, "DELETED")
    server.compact()
    await server.start()
    await until(lambda: _ready(scaling, RUN, 1), "the one that went in the gap is gone")


@pytest.mark.parametrize("status", [403, 500, 503])
async def test_lists_that_are_refused_make_the_pools_unreachable_until_they_are_not(
    server: Server, cluster: Cluster, run_scaler: RunScaler, status: int
) -> None:
    await cluster.deploy(RUN, replicas=2)
    server.faults.append(Fault(method="GET", part="/pods", status=status, times=2))
    scaling = run_scaler(RUN)
    with pytest.raises(DependencyDown):
        await scaling.pool(RUN)
    await until(lambda: scaling.seen(RUN), "the third list")


async def test_without_work_nothing_is_asked_of_the_api_server(
    server: Server, cluster: Cluster, run_scaler: RunScaler
) -> None:
    await cluster.deploy(RUN, replicas=2)
    scaling = run_scaler(RUN)
    await scaling.pool(RUN)
    await until(lambda: len(server.streams) == 2, "both watches are open")
    before = len(server.calls)
    for _ in range(200):
        await scaling.pool(RUN)
    assert len(server.calls) == before


async def test_a_step_that_sizes_many_pools_looks_at_the_pods_once(
    cluster: Cluster, run_scaler: RunScaler
) -> None:
    stages = [f"stage{n}" for n in range(40)]
    for stage in stages:
        await cluster.deploy(stage)
    scaling = run_scaler(*stages)
    looks = 0
    asked = scaling.running

    async def counted(names: Sequence[StageName]) -> Mapping[StageName, int]:
        nonlocal looks
        looks += 1
        return await asked(names)

    scaling.scaler._running = counted
    await scaling.scaler.pools()
    sizes = [(await scaling.resize(stage, n)).desired for n, stage in enumerate(stages)]
    assert sizes == list(range(40))
    assert looks == 1
    assert [pool.desired for pool in await scaling.scaler.pools()] == sizes


async def has_warm_pools(cluster: Cluster) -> bool:
    """Whether a real server serves agent-sandbox's kinds."""
    found = await cluster.call("GET", "/apis")
    return "extensions.agents.x-k8s.io" in {group["name"] for group in found["groups"]}


async def test_a_warm_pool_of_sandboxes_is_sized_by_the_same_patch_beside_deployments(
    server: Server, cluster: Cluster, run_scaler: RunScaler
) -> None:
    if not isinstance(server, ApiServer):
        if "SandboxWarmPool" not in await define(cluster):
            pytest.skip(f"{DEFINITIONS} has no kinds of agent-sandbox")
        await until(lambda: has_warm_pools(cluster), "the server knows the kind")
    await cluster.deploy(MATH, replicas=1)
    await cluster.add_warm_pool(RUN, "warm", replicas=1)
    await cluster.add_pod(RUN, ready(time.time()))
    scaling = run_scaler(MATH, warm_pools={RUN: "warm"}, slots_per_pod=2)
    assert {(one.stage, one.desired, one.ready) for one in await scaling.scaler.pools()} == {
        (MATH, 2, 0),
        (RUN, 2, 2),
    }
    assert (await scaling.resize(RUN, 5)).desired == 6
    assert patches(server) == [3]
    [patched] = [call for call in server.calls if call.method == "PATCH" and "warm" in call.path]
    assert patched.path == cluster.path("sandboxwarmpools", "warm", "scale")
    await until(lambda: scaling.scaler.replicas_there(RUN) == 3, "the news arrives")
    await scaling.resize(RUN, 0)
    assert patches(server) == [3, 0]
    assert await cluster.replicas("assay-math-verify") == 1
    server.faults.append(Fault(method="PATCH", part="/warm/", status=403))
    with pytest.raises(InvalidRequest, match="Forbidden"):
        await scaling.resize(RUN, 4)


def test_a_stage_has_one_pool() -> None:
    with pytest.raises(ValueError, match="has a Deployment already"):
        KubernetesSettings(deployments={RUN: "d"}, warm_pools={RUN: "w"})


@pytest.mark.parametrize("stage", ["a" * 64, "run.", "-run", ""])
@pytest.mark.parametrize("pools", ["deployments", "warm_pools"])
def test_a_stage_that_no_pod_can_be_labelled_with_is_refused_by_its_name(
    stage: str, pools: str
) -> None:
    with pytest.raises(ValueError, match="cannot be a label of pods"):
        KubernetesSettings.model_validate({pools: {stage: "d"}})
    longest = f"9.{'a' * 60}9"
    assert KubernetesSettings.model_validate({pools: {longest: "d"}})
