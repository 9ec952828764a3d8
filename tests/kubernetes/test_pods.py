"""What is read out of pods and Deployments, whatever stands in them."""

from hypothesis import given
from hypothesis import strategies as st
from tests.kubernetes.cluster import condition, not_placed, ready

from assay.config.kubernetes import KubernetesSettings
from assay.core.ids import StageName
from assay.planner.kubernetes.pods import PodState, PodView, older, pod_view
from assay.planner.kubernetes.pool import Pool, Target, p90_ns, target_view

WORDS = st.sampled_from(
    ["metadata", "status", "conditions", "type", "Ready", "True", "status", "reason", "phase",
     "containerStatuses", "state", "waiting", "PodScheduled", "lastTransitionTime", "labels",
     "spec", "replicas", "managedFields", "fieldsV1", "f:spec", "name", "Failed", "message"]
)  # fmt: skip
LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=True) | WORDS | st.text()
JSON = st.recursive(
    LEAVES, lambda inner: st.lists(inner) | st.dictionaries(WORDS | st.text(), inner), max_leaves=12
)
OBJECTS = st.dictionaries(WORDS, JSON)


@given(OBJECTS)
def test_any_object_is_read_and_none_is_a_slot_by_accident(found: dict[str, object]) -> None:
    pod = pod_view(found, pool_label="x")
    target = target_view(found)
    assert target.replicas >= 0
    assert len(pod.why) <= 200
    if pod.state is PodState.READY:
        assert "Ready" in repr(found)


@given(
    states=st.lists(st.sampled_from(PodState), max_size=40),
    replicas=st.integers(0, 50),
    slots_per_pod=st.integers(1, 8),
    running=st.integers(0, 500),
    waited_s=st.floats(0, 1e6),
)
def test_a_pool_has_at_most_the_slots_of_its_ready_pods_and_a_cap_only_for_want_of_place(
    states: list[PodState], replicas: int, slots_per_pod: int, running: int, waited_s: float
) -> None:
    pool = Pool(stage=StageName("s"), path="/d", name="d", slots_per_pod=slots_per_pod)
    pods = [
        PodView(name=str(n), stage="s", state=state, created_s=1.0)
        for n, state in enumerate(states)
    ]
    found = pool.state(
        Target(name="d", replicas=replicas, version="1"), pods,
        running=running, now_s=1.0 + waited_s, patience=KubernetesSettings(),
    )  # fmt: skip
    assert found.ready == slots_per_pod * states.count(PodState.READY)
    assert 0 <= found.busy <= found.ready
    no_place = {PodState.GATED, PodState.UNSCHEDULABLE} & set(states)
    assert found.slots_max is None or no_place
    if found.slots_max is not None:
        assert found.slots_max >= found.ready
        assert found.condition.startswith("QuotaExhausted")


@given(st.integers(0, 10_000), st.integers(1, 64))
def test_pods_hold_the_slots_and_no_pod_is_in_vain(slots: int, slots_per_pod: int) -> None:
    pool = Pool(stage=StageName("s"), path="/d", name="d", slots_per_pod=slots_per_pod)
    pods = pool.pods_for(slots)
    assert pods * slots_per_pod >= slots
    assert (pods - 1) * slots_per_pod < slots or pods == 0


def test_a_pod_being_deleted_is_no_slot_although_it_is_ready() -> None:
    pod = {"metadata": {"name": "p", "deletionTimestamp": "2026-11-01T00:00:00Z"},
           "status": ready(1.0)}  # fmt: skip
    assert pod_view(pod, pool_label="x").state is PodState.ENDING


def test_a_start_is_counted_from_the_admission_of_a_pod_that_was_gated() -> None:
    made = {"name": "p", "creationTimestamp": "1970-01-01T00:00:10Z"}
    gated = pod_view(
        {"metadata": made, "status": not_placed("SchedulingGated", 10.0)}, pool_label="x"
    )
    placed = {"conditions": [condition("PodScheduled", "True", 100.0),
                             condition("Ready", "True", 107.0)]}  # fmt: skip
    now = {"metadata": made, "status": placed}
    assert pod_view(now, pool_label="x", before=gated).startup_s == 7.0
    assert pod_view(now, pool_label="x").startup_s == 97.0


def test_only_decimal_versions_have_an_order() -> None:
    assert older("9", "10")
    assert not older("10", "9")
    assert not older("abc", "b")
    assert not older("", "5")


def started(name: str, took_s: float, *, cold: bool = False) -> PodView:
    return PodView(
        name=name, stage="s", state=PodState.READY, created_s=10.0, ready_s=10.0 + took_s, cold=cold
    )


def test_a_start_that_needed_a_node_is_counted_from_its_creation() -> None:
    made = {"name": "p", "creationTimestamp": "1970-01-01T00:00:10Z"}
    without = pod_view(
        {"metadata": made, "status": not_placed("Unschedulable", 10.0)}, pool_label="x"
    )
    placed = {"conditions": [condition("PodScheduled", "True", 100.0),
                             condition("Ready", "True", 107.0)]}  # fmt: skip
    now = pod_view({"metadata": made, "status": placed}, pool_label="x", before=without)
    assert (now.cold, now.startup_s) == (True, 97.0)
    assert not pod_view({"metadata": made, "status": placed}, pool_label="x").cold


@given(
    warm=st.lists(st.integers(1, 20), max_size=30), cold=st.lists(st.integers(60, 180), max_size=30)
)
def test_cold_starts_are_learnt_apart_and_with_the_others(warm: list[int], cold: list[int]) -> None:
    pool = Pool(stage=StageName("s"), path="deployments", name="d", slots_per_pod=1)
    for k, took_s in enumerate(warm):
        assert pool.pod_seen(started(f"w{k}", took_s)) == took_s
    for k, took_s in enumerate(cold):
        pool.pod_seen(started(f"c{k}", took_s, cold=True))
    assert pool.pod_seen(started("late", 3_600.0, cold=True)) is None, "a lack of capacity"
    assert (p90_ns(pool.cold) is None) == (len(cold) < 3)
    found = p90_ns(pool.startups)
    if len(cold) >= 3:
        assert (p90_ns(pool.cold) or 0) >= 60 * 10**9
        assert found is not None
        if len(cold) > 0.15 * (len(warm) + len(cold)) + 1:
            assert found >= 60 * 10**9, "more than one in ten"
    if len(warm) >= 3 and not cold:
        assert found is not None
        assert found <= 20 * 10**9
