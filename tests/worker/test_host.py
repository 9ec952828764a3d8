"""What a host makes of what its slots do: real processes, a real store, no stand-ins."""

import asyncio
import os
import random
import signal
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
from tests.worker.hosts import (
    TENANT,
    Judged,
    RunHost,
    Trainer,
    is_alive,
    slots_of_this_process,
    until,
)

from assay.config.settings import WorkerSettings
from assay.core.codec import unpack_body
from assay.core.errors import DependencyDown
from assay.core.ids import StageName, TenantId, WorkerId, kept_for, owner_of
from assay.core.outcome import Outcome
from assay.core.records import BatchState, Claim
from assay.edge.tracing import batch_trace
from assay.store.port import Store
from assay.store.valkey import ValkeyStore
from assay.verifiers.registry import load_pipelines, stages_of
from assay.worker.build import host_settings
from assay.worker.forking import processes
from assay.worker.host import WAIT_S, BackgroundTasks, HostFailed

if TYPE_CHECKING:
    from assay.edge.tracing import Tracer

SCORED, RESOURCE_LIMIT = Outcome.SCORED, Outcome.RESOURCE_LIMIT


def outcomes(results: list[Judged]) -> list[Outcome]:
    return [one.record.outcome for one in results]


def attempts(results: list[Judged]) -> list[int]:
    return [one.record.attempts for one in results]


# -- the ordinary way ------------------------------------------------------------------------------


async def test_every_request_of_a_batch_is_judged_once(run_host: RunHost, trainer: Trainer) -> None:
    await run_host("batch")
    results = await trainer.judge("batch", *["pass"] * 50)
    assert outcomes(results) == [SCORED] * 50
    assert {one.record.reward for one in results} == {1.0}
    for one in results:
        (timing,) = one.record.stages
        assert timing.enqueued_ns <= timing.claimed_ns <= timing.started_ns
        assert timing.started_ns <= timing.finished_ns <= timing.released_ns


@pytest.mark.parametrize("cut", [[0, 2], [0, 1, 2]])
async def test_a_response_longer_than_the_service_takes_is_a_limit_and_is_not_read(
    run_host: RunHost, trainer: Trainer, cut: list[int]
) -> None:
    await run_host("batch")
    batch = await trainer.submit("batch", ["pass"] * 3, cut=cut)
    results = await trainer.results(batch)
    expected = [RESOURCE_LIMIT if number in cut else SCORED for number in range(3)]
    assert outcomes(results) == expected
    assert [one.record.reward for one in results] == [float(one is SCORED) for one in expected]
    assert [results[at].evidence.error for at in cut] == ["response has 9000000 bytes"] * len(cut)


async def test_work_is_spread_over_idle_slots(run_host: RunHost, trainer: Trainer) -> None:
    await run_host("batch", slots=3)
    await until(lambda: len(slots_of_this_process()) == 3)
    results = await trainer.judge("batch", *["sleep 0.05"] * 12)
    assert len({one.evidence.extracted for one in results}) == 3


async def test_a_hand_over_reaches_the_next_stage_and_use_adds_up(
    run_host: RunHost, trainer: Trainer
) -> None:
    await run_host("patient", "batch")
    (result,) = await trainer.judge("two", "hand over")
    assert result.evidence.extracted == "from before"
    assert unpack_body(result.record.body)[1].cpu_s == 1.5
    assert [timing.stage for timing in result.record.stages] == ["patient", "batch"]


async def test_a_stage_at_work_causes_no_claims_for_idle_stages(
    run_host: RunHost, trainer: Trainer, monkeypatch: pytest.MonkeyPatch
) -> None:
    claimed: Counter[str] = Counter()
    claim = ValkeyStore.claim

    async def counted(store: ValkeyStore, stage: StageName, **options: Any) -> Sequence[Claim]:
        claimed[stage] += 1
        return await claim(store, stage, **options)

    monkeypatch.setattr(ValkeyStore, "claim", counted)
    await run_host("batch", "patient", "cpu", slots=1)
    for _ in range(5):
        await trainer.judge("batch", "pass")
    assert claimed["batch"] >= 5
    assert claimed["patient"] + claimed["cpu"] <= 4, "at the start, and not for each request"


async def test_a_wake_up_whose_answer_was_lost_leaves_no_work_waiting(
    run_host: RunHost, trainer: Trainer, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait, lost = ValkeyStore.wait_for_work, asyncio.Event()

    async def forgotten(store: ValkeyStore, stages: Sequence[StageName], **options: Any) -> object:
        woken = await wait(store, stages, **options)
        if woken is None or lost.is_set():
            return woken
        lost.set()
        raise DependencyDown("no answer from the store")

    monkeypatch.setattr(ValkeyStore, "wait_for_work", forgotten)
    await run_host("batch", reap_every_s=600.0)  # no sweep wakes the host
    async with asyncio.timeout(20):
        while not lost.is_set():  # the first may be claimed by a host that has just started
            (result,) = await trainer.judge("batch", "pass")
            assert result.record.outcome is SCORED


async def test_a_hand_over_from_the_last_stage_is_a_failure(
    run_host: RunHost, trainer: Trainer
) -> None:
    await run_host("patient")
    (result,) = await trainer.judge("patient", "hand over")
    assert result.record.outcome is Outcome.INFRA_FAILED
    assert "it is the last one" in result.record.error


async def test_slots_see_no_credentials(
    run_host: RunHost, trainer: Trainer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASSAY_STORE__PASSWORD", "secret")
    monkeypatch.setenv("SECRET_TOKEN", "secret")
    monkeypatch.setenv("MODEL_HOME", "/models")
    await run_host("patient", environment=["MODEL_HOME"])
    (result,) = await trainer.judge("patient", "environment")
    seen = set(result.evidence.extracted.split())
    assert "MODEL_HOME" in seen
    assert not any("SECRET" in name or "ASSAY" in name for name in seen)


async def test_a_slot_has_scratch_space_that_goes_with_it(
    run_host: RunHost, trainer: Trainer
) -> None:
    service = await run_host("patient")
    (result,) = await trainer.judge("patient", "scratch")
    scratch = Path(result.evidence.extracted)
    assert (scratch / "file").read_text() == "mine"
    service.host.resize("patient", 0)
    await until(lambda: not scratch.exists())


# -- handlers that break ---------------------------------------------------------------------------


async def test_an_exception_fails_its_own_request_only(run_host: RunHost, trainer: Trainer) -> None:
    await run_host("batch", slots=1)
    results = await trainer.judge("batch", "pass", "pass", "raise", "pass", "pass")
    assert outcomes(results) == [SCORED, SCORED, Outcome.INFRA_FAILED, SCORED, SCORED]
    assert attempts(results) == [1, 1, 3, 1, 1]
    assert "ValueError: the handler broke" in results[2].record.error
    assert results[2].record.reward is None


async def test_a_slot_that_dies_fails_its_own_request_only(
    run_host: RunHost, trainer: Trainer
) -> None:
    await run_host("batch", slots=1)
    results = await trainer.judge("batch", "pass", "exit", "pass", "die", "pass", "pass")
    dead = Outcome.INFRA_FAILED
    assert outcomes(results) == [SCORED, dead, SCORED, dead, SCORED, SCORED]
    assert attempts(results) == [1, 3, 1, 3, 1, 1]


async def test_nonsense_from_a_slot_costs_the_slot_and_an_attempt(
    run_host: RunHost, trainer: Trainer
) -> None:
    await run_host("patient", slots=1)
    results = await trainer.judge("patient", "nonsense", "pass")
    assert outcomes(results) == [Outcome.INFRA_FAILED, SCORED]
    assert "broke the protocol" in results[0].record.error


async def test_a_slot_that_died_by_accident_costs_an_attempt_not_the_result(
    run_host: RunHost, trainer: Trainer, tmp_path: Path
) -> None:
    await run_host("batch", slots=1)
    results = await trainer.judge("batch", f"die_once {tmp_path / 'died'}", "pass")
    assert outcomes(results) == [SCORED, SCORED]
    assert attempts(results) == [1, 1], "no one knew which one it was, so no one was blamed"
    (result,) = await trainer.judge("batch", f"die_once {tmp_path / 'died_alone'}")
    assert attempts([result]) == [2]


async def test_a_stage_whose_handler_cannot_be_made_is_tried_again(
    run_host: RunHost, trainer: Trainer, tmp_path: Path
) -> None:
    service = await run_host("broken", "batch", slots=1)
    await trainer.judge("batch", "pass")
    assert "no slot of stage broken" in service.host.why_not_ready
    batch = await trainer.submit("broken", ["pass"])
    assert (await trainer.record(batch)).queued == 1, "nothing is claimed that no one can do"
    (tmp_path / "data" / "repaired").touch()
    assert outcomes(await trainer.results(batch)) == [SCORED]
    assert service.host.why_not_ready == ""


# -- limits ----------------------------------------------------------------------------------------


async def test_too_much_time_asleep_is_the_requests_fault(
    run_host: RunHost, trainer: Trainer
) -> None:
    trainer.settings["reward_resource_limit"] = -0.5
    await run_host("batch", slots=1)
    results = await trainer.judge("batch", "pass", "sleep 60", "pass")
    assert outcomes(results) == [SCORED, RESOURCE_LIMIT, SCORED]
    assert [one.record.reward for one in results] == [1.0, -0.5, 1.0]
    assert results[1].evidence.verdict == "blocked_limit"
    assert attempts(results) == [1, 1, 1]


async def test_too_much_cpu_time_is_the_requests_fault(run_host: RunHost, trainer: Trainer) -> None:
    trainer.settings["reward_resource_limit"] = -0.5
    await run_host("cpu", slots=1)
    results = await trainer.judge("cpu", "pass", "spin", "pass", "spin", "pass")
    assert outcomes(results) == [SCORED, RESOURCE_LIMIT, SCORED, RESOURCE_LIMIT, SCORED]
    assert [one.record.reward for one in results] == [1.0, -0.5, 1.0, -0.5, 1.0]
    body = unpack_body(results[1].record.body)
    assert body.evidence.verdict == "cpu_limit"
    assert 0.3 <= body.use.cpu_s < 2
    versions = {unpack_body(one.record.body).pipeline_version for one in results}
    assert len(versions) == 1, "the host's own verdict has the version of the slots'"
    assert all(versions)
    assert attempts(results) == [1] * 5


async def test_sleeping_is_not_cpu_time(run_host: RunHost, trainer: Trainer) -> None:
    await run_host("cpu", slots=1)
    results = await trainer.judge("cpu", "sleep 0.6", "pass")
    assert outcomes(results) == [SCORED, SCORED]


async def test_too_much_memory_is_the_requests_fault(run_host: RunHost, trainer: Trainer) -> None:
    await run_host("confined", slots=1)
    results = await trainer.judge("confined", "pass", "memory", "pass", "memory")
    assert outcomes(results) == [SCORED, RESOURCE_LIMIT, SCORED, RESOURCE_LIMIT]
    assert results[1].evidence.verdict == "memory_limit"
    assert attempts(results) == [1] * 4


async def test_a_response_that_a_confined_handler_fails_on_alone_is_wrong(
    run_host: RunHost, trainer: Trainer
) -> None:
    trainer.settings["reward_fail"] = -0.25
    await run_host("quiet", "confined", slots=1)
    results = await trainer.judge("quiet", "pass", "raise", "pass", "raise")
    assert outcomes(results) == [SCORED] * 4
    assert [one.record.reward for one in results] == [1.0, -0.25, 1.0, -0.25]
    assert results[1].evidence.verdict == "broke_the_run"
    assert "the handler broke" in results[1].evidence.error
    assert attempts(results) == [1] * 4
    # This handler fails on trivial responses too.
    (result,) = await trainer.judge("confined", "raise")
    assert result.record.outcome is Outcome.INFRA_FAILED


async def test_memory_that_ran_out_in_a_used_slot_is_tried_again_in_a_fresh_one(
    run_host: RunHost, trainer: Trainer
) -> None:
    await run_host("confined", slots=5)
    await until(lambda: len(slots_of_this_process()) == 5)
    await trainer.judge("confined", *["sleep 0.2"] * 20)
    (result,) = await trainer.judge("confined", "memory")
    assert (result.record.outcome, result.record.attempts) == (RESOURCE_LIMIT, 1)


async def test_a_slot_that_was_stopped_costs_an_attempt_not_a_reward(
    run_host: RunHost, trainer: Trainer, tmp_path: Path
) -> None:
    await run_host("single", "patient", slots=1)
    for stage in ("single", "patient"):  # found by its time limit; by looking after its lease
        marker = tmp_path / stage
        results = await trainer.judge(stage, f"stop_once {marker}", "pass")
        assert outcomes(results) == [SCORED, SCORED]
        assert attempts(results) == [2, 1]


# -- leases ----------------------------------------------------------------------------------------


async def test_work_longer_than_its_lease_keeps_it(run_host: RunHost, trainer: Trainer) -> None:
    await run_host("patient", slots=1)
    (result,) = await trainer.judge("patient", "sleep 3.2")
    assert (result.record.outcome, result.record.attempts) == (SCORED, 1)


async def test_cancelling_kills_the_running_tree_and_spares_the_neighbour(
    run_host: RunHost, trainer: Trainer, store: Store, tmp_path: Path
) -> None:
    await run_host("patient", slots=2)
    pids, begun, go = tmp_path / "pids", tmp_path / "begun", tmp_path / "go"
    doomed = await trainer.submit("patient", [f"family {pids}", "pass", "pass"])
    other = await trainer.submit("patient", [f"wait_for {begun} {go}"])
    await until(lambda: pids.exists() and begun.exists())
    family = list(map(int, pids.read_text().split()))
    assert len(family) == 4
    assert all(map(is_alive, family))
    await store.cancel(TENANT, doomed)
    await until(lambda: not any(map(is_alive, family)))
    go.touch()
    (result,) = await trainer.results(other)
    assert (result.record.outcome, result.record.attempts) == (SCORED, 1)
    assert (await trainer.record(doomed)).state is BatchState.CANCELLED


# -- pools -----------------------------------------------------------------------------------------


async def test_pools_grow_and_shrink_under_load(run_host: RunHost, trainer: Trainer) -> None:
    service = await run_host("patient", slots=1)
    host = service.host
    batch = await trainer.submit("patient", ["sleep 0.02"] * 300)
    assert host.resize("patient", 6).desired == 6
    await until(lambda: host.pools()[0].busy == 6)
    host.resize("patient", 2)
    await until(lambda: host.pools()[0].ready == 2 and host.pools()[0].starting == 0)
    await until(lambda: len(slots_of_this_process()) == 2)
    results = await trainer.results(batch)
    assert outcomes(results) == [SCORED] * 300
    assert attempts(results) == [1] * 300, "a busy slot finishes what it holds"


async def test_a_pool_of_none_takes_nothing_until_it_grows(
    run_host: RunHost, trainer: Trainer
) -> None:
    service = await run_host("batch", slots=0)
    batch = await trainer.submit("batch", ["pass"] * 3)
    assert (await trainer.record(batch)).queued == 3
    service.host.resize("batch", 1)
    assert outcomes(await trainer.results(batch)) == [SCORED] * 3


async def test_a_stage_on_demand_starts_its_slots_with_the_first_request(
    run_host: RunHost, trainer: Trainer
) -> None:
    host = (await run_host("rare", "batch", slots=2)).host
    await until(lambda: len(slots_of_this_process()) == 4)
    for _ in range(2):
        assert host.resize("rare", 0).desired == 0, "a planner lets it sleep"
        await until(lambda: len(slots_of_this_process()) == 2)
        await trainer.judge("batch", "pass")
        assert [pool.desired for pool in host.pools()] == [0, 2]
        assert outcomes(await trainer.judge("rare", *["pass"] * 5)) == [SCORED] * 5
        assert [pool.desired for pool in host.pools()] == [2, 2]


async def test_the_stages_that_come_next_start_with_the_first(
    run_host: RunHost, trainer: Trainer
) -> None:
    host = (await run_host("waking", "woken", "rare", slots=2)).host
    for stage in ("waking", "woken", "rare"):
        host.resize(stage, 0)
    await until(lambda: not slots_of_this_process())
    assert outcomes(await trainer.judge("waking", "pass")) == [SCORED]  # ends in its first stage
    assert [pool.desired for pool in host.pools()] == [2, 2, 0]


async def test_a_stage_that_is_made_smaller_while_it_wakes_loses_nothing(
    run_host: RunHost, trainer: Trainer
) -> None:
    host = (await run_host("rare", slots=2)).host
    for _ in range(3):
        host.resize("rare", 0)
        await until(lambda: not slots_of_this_process())
        batch = await trainer.submit("rare", ["pass"] * 5)
        await until(lambda: host.pools()[0].desired == 2)
        host.resize("rare", 0)
        assert outcomes(await trainer.results(batch)) == [SCORED] * 5


def test_stages_on_demand_are_asleep_at_the_start_unless_they_are_named() -> None:
    settings = WorkerSettings(slots=3, slots_by_stage={"sql.run": 4})
    for stage, on_demand, slots in [
        ("judged.run", True, 0),
        ("math.verify", False, 3),
        ("sql.run", True, 4),
    ]:
        assert settings.slots_at_start(stage, on_demand=on_demand) == slots
    named = WorkerSettings(slots=3, stages=("judged.run",))
    assert named.slots_at_start("judged.run", on_demand=True) == 3


@pytest.mark.parametrize(
    ("pipelines", "stages"),
    [((), set()), (("math",), {"math.verify"}), (("unknown",), set())],
)
def test_stages_of_pipelines_that_are_named_are_awake(
    pipelines: tuple[str, ...], stages: set[str]
) -> None:
    settings = WorkerSettings(slots=3, pipelines_awake=pipelines)
    known = {
        name: one
        for name, one in load_pipelines().items()
        if all(stage.spec.on_demand for stage in one.stages)
    }
    assert {"math", "code.python"} <= set(known)
    host = host_settings(settings, stages_of(known), known, "")
    assert {name for name, slots in host.slots.items() if slots} == stages
    assert sum(host.slots.values()) == 3 * len(stages)


async def test_a_stage_that_comes_to_want_work_is_waited_for_at_once(
    run_host: RunHost, trainer: Trainer
) -> None:
    service = await run_host("patient", "batch", slots=0)
    service.host.resize("batch", 1)
    await trainer.judge("batch", "pass")
    service.host.resize("patient", 1)
    await trainer.judge("patient", "pass")
    async with asyncio.timeout(WAIT_S / 2):
        await trainer.judge("patient", "pass")
        await trainer.judge("batch", "pass")


async def test_any_process_of_the_host_may_be_killed_at_any_time(
    run_host: RunHost, trainer: Trainer
) -> None:
    await run_host("patient", "batch", slots=2, reap_every_s=0.1)
    batch = await trainer.submit("patient", ["sleep 0.01"] * 200)
    rng = random.Random(7)
    killed = 0
    while not (await trainer.record(batch)).over:
        await asyncio.sleep(0.15)
        below = list(slots_of_this_process())
        root = [pid for pid in processes.children(os.getpid()) if "fork-server" in _name(pid)]
        stage_servers = [pid for one in root for pid in processes.children(one)]
        victims = below if killed % 5 else [*root, *stage_servers]
        if victims and killed < 12:
            os.kill(rng.choice(victims), signal.SIGKILL)
            killed += 1
    results = await trainer.results(batch)
    assert killed >= 5
    counted = Counter(outcomes(results))
    assert counted[SCORED] + counted[Outcome.INFRA_FAILED] == 200
    assert counted[Outcome.INFRA_FAILED] <= 2, "three kills must hit the same request"


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text()
    except OSError:
        return ""


# -- rate limits -----------------------------------------------------------------------------------


async def test_all_slots_and_hosts_share_one_rate_limit_per_tenant(
    run_host: RunHost, trainer: Trainer, store: Store
) -> None:
    """Two calls per minute are allowed."""
    await run_host("patient", slots=3)
    await run_host("patient", slots=3)
    results = await trainer.judge("patient", *["permit p"] * 12)
    waits = sorted(float(one.evidence.extracted) for one in results)
    assert waits[:2] == [0.0, 0.0]
    assert 0.0 < waits[2] <= waits[-1] <= 30.0
    assert await store.permit(TENANT, "p", {"requests": (1, 2)}) > 0.0


async def test_a_slot_has_no_permit_in_the_name_of_a_tenant_whose_work_it_does_not_do(
    run_host: RunHost, trainer: Trainer, store: Store
) -> None:
    await run_host("patient", slots=1)
    (result,) = await trainer.judge("patient", "permit p other")
    assert float(result.evidence.extracted) > 0.0
    assert [await store.permit(TenantId("other"), "p", {"requests": (1, 2)}) for _ in range(2)] == [
        0.0,
        0.0,
    ]


# -- artifacts -------------------------------------------------------------------------------------


async def test_an_artifact_is_made_once_however_many_ask(
    run_host: RunHost, trainer: Trainer, store: Store, tmp_path: Path
) -> None:
    await run_host("patient", slots=4)
    log = tmp_path / "log"
    results = await trainer.judge("patient", *[f"make key {log}"] * 8, "find nothing")
    assert {one.evidence.extracted for one in results[:8]} == {"content of key"}
    assert log.read_text().splitlines() == ["made"]
    assert results[8].evidence.extracted == "nothing"
    assert await store.artifact_get("key") is None, "it is for this payload only"


async def test_requests_with_the_same_program_share_its_artifact(
    run_host: RunHost, trainer: Trainer, tmp_path: Path
) -> None:
    await run_host("sharing", slots=2)
    log = tmp_path / "log"
    words = [f"make shared-one- {log} good {name} one" for name in "abcd"]
    results = await trainer.judge("sharing", *words, "find shared-one- one")
    assert {one.evidence.extracted for one in results[:4]} == {"content of shared-one-"}
    assert log.read_text().splitlines() == ["made"]


async def test_a_slot_cannot_make_the_program_of_another_request(
    run_host: RunHost, trainer: Trainer, store: Store, tmp_path: Path
) -> None:
    """The first response's slot asks for leave to make what the second one's will look for."""
    first = await run_host("sharing", slots=1)
    stolen, own = tmp_path / "stolen", tmp_path / "own"
    (thief,) = await trainer.judge("sharing", f"make shared-honest- {stolen} good thief")
    assert thief.evidence.extracted == "content of shared-honest-", "for itself only"
    kept = kept_for(owner_of([trainer.tenant]), "shared-honest-")
    assert await store.artifact_get(kept) is None
    first.host.resize("sharing", 0)  # its slot remembers what it made
    await run_host("sharing", slots=1)
    (found,) = await trainer.judge("sharing", "find shared-honest- honest")
    assert found.evidence.extracted == "nothing"
    await trainer.judge("sharing", f"make shared-honest- {own} good honest")
    assert own.read_text().splitlines() == ["made"]
    assert await store.artifact_get(kept) == b"content of shared-honest-"


async def test_an_artifact_whose_maker_dies_is_made_by_another(
    run_host: RunHost, trainer: Trainer, tmp_path: Path
) -> None:
    await run_host("patient", slots=2)
    log = tmp_path / "log"
    results = await trainer.judge("patient", *[f"make key {log} die_once"] * 2)
    assert outcomes(results) == [SCORED, SCORED]
    assert sorted(attempts(results)) == [1, 2]
    assert log.read_text().splitlines() == ["made", "made"]


async def test_a_making_that_fails_is_nobodys_artifact(
    run_host: RunHost, trainer: Trainer, store: Store, tmp_path: Path
) -> None:
    await run_host("patient", slots=1)
    (result,) = await trainer.judge("patient", f"make key {tmp_path / 'log'} raise")
    assert result.record.outcome is Outcome.INFRA_FAILED
    (again,) = await trainer.judge("patient", f"make key {tmp_path / 'log'}")
    assert again.evidence.extracted == "content of key"


# -- the host itself -------------------------------------------------------------------------------


class BrokenStore:
    """A store with a bug: what it raises is no error of the contract."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    async def claim(self, *_: object, **__: object) -> None:
        raise ValueError("a bug")


async def test_a_bug_ends_the_host_and_is_not_hidden(run_host: RunHost, store: Store) -> None:
    service = await run_host("batch", store=cast("Store", BrokenStore(store)))
    async with asyncio.timeout(120):
        with pytest.raises(HostFailed, match="a bug"):
            await service.host.run(asyncio.Event())


class Spans:
    """Keeps what it receives."""

    def __init__(self) -> None:
        self.told: list[tuple[str, int, Mapping[str, str | int]]] = []
        self.parents: set[str] = set()

    def record(
        self,
        name: str,
        *,
        began_ns: int,
        ended_ns: int,
        attributes: Mapping[str, str | int],
        parent: str = "",
    ) -> None:
        self.told.append((name, ended_ns - began_ns, attributes))
        self.parents.add(parent)


async def test_every_run_of_a_stage_is_a_span_of_its_batchs_trace(
    run_host: RunHost, trainer: Trainer
) -> None:
    spans = Spans()
    await run_host("batch", slots=1, tracer=cast("Tracer", spans))
    await trainer.judge("batch", "sleep 0.05", "raise")
    finishes = sorted(str(attributes["assay.finish"]) for _, _, attributes in spans.told)
    assert finishes == ["EndRequest", "FailAttempt", "FailAttempt", "FailAttempt"]
    name, spent_ns, attributes = next(one for one in spans.told if one[2]["request_id"] == "r0")
    assert (name, attributes["assay.attempt"]) == ("stage batch", 1)
    assert spent_ns >= 50_000_000
    assert spans.parents == {batch_trace(TENANT, str(spans.told[0][2]["batch_id"])).parent}


# -- stopping --------------------------------------------------------------------------------------


async def test_draining_finishes_what_runs_and_gives_back_the_rest(
    run_host: RunHost, trainer: Trainer, tmp_path: Path
) -> None:
    first = await run_host("patient", slots=2, drain_s=30)
    begun, go = tmp_path / "begun", tmp_path / "go"
    batch = await trainer.submit("patient", [f"wait_for {begun} {go}", "pass"])
    await trainer.until_ended(batch, 1)
    await until(begun.exists)
    stopping = asyncio.create_task(first.stop())
    later = await trainer.submit("patient", ["pass"] * 3)
    go.touch()
    await stopping
    assert outcomes(await trainer.results(batch)) == [SCORED] * 2
    assert (await trainer.record(later)).queued == 3
    await run_host("patient")
    assert attempts(await trainer.results(later)) == [1] * 3


async def test_a_host_says_how_many_of_its_slots_are_at_work(
    run_host: RunHost, trainer: Trainer, tmp_path: Path
) -> None:
    await run_host("patient", slots=2)
    begun, go = tmp_path / "begun", tmp_path / "go"

    async def until_said(busy: int) -> None:
        async with asyncio.timeout(60):
            while [one.busy for one in await trainer.store.hosts()] != [busy]:
                await asyncio.sleep(0.05)

    await until_said(0)
    batch = await trainer.submit("patient", [f"wait_for {begun} {go}"])
    await until_said(1)
    go.touch()
    await trainer.results(batch)
    await until_said(0)


class Gate:
    """A store whose claims answer, and whose host is forgotten, only when the test says so."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.answers, self.forgets = asyncio.Event(), asyncio.Event()
        self.answers.set()
        self.claimed: list[int] = []
        """How many requests each claim asked for."""
        self.leaving = asyncio.Event()

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    async def claim(self, stage: StageName, *, claims_max: int, **more: Any) -> Sequence[Claim]:
        self.claimed.append(claims_max)
        claims = await self._store.claim(stage, claims_max=claims_max, **more)
        await self.answers.wait()
        return claims

    async def drop_host(self, worker: WorkerId) -> None:
        self.leaving.set()
        await self.forgets.wait()
        await self._store.drop_host(worker)

    async def close(self) -> None:
        """It is the trainer's too."""


@pytest.mark.parametrize("drain_s", [30, 0.01], ids=["within the drain", "after the drain"])
async def test_what_a_claim_in_flight_brings_is_given_back_without_an_attempt(
    run_host: RunHost, trainer: Trainer, store: Store, drain_s: float
) -> None:
    gate = Gate(store)
    host = await run_host("patient", store=cast("Store", gate), slots=2, drain_s=drain_s)
    await until(lambda: host.host.pools()[0].ready == 2)
    # A claim that found nothing must not be the one that the gate holds.
    await until(lambda: "claim patient" not in {task.get_name() for task in asyncio.all_tasks()})
    gate.answers.clear()
    batch = await trainer.submit("patient", ["pass"] * 2)

    async def is_claimed() -> bool:
        return (await trainer.record(batch)).running == 2

    async with asyncio.timeout(120):
        while not await is_claimed():
            await asyncio.sleep(0.01)
    stopping = asyncio.create_task(host.stop())
    gate.forgets.set()
    await until(lambda: host.host.why_not_ready == "draining")
    await asyncio.sleep(0.05)  # beyond the shorter drain; of no consequence for the longer
    gate.answers.set()
    await stopping
    record = await trainer.record(batch)
    assert (record.queued, record.running) == (2, 0)
    await run_host("patient")
    assert attempts(await trainer.results(batch)) == [1] * 2


async def test_nothing_is_claimed_while_a_host_that_stops_is_still_being_forgotten(
    run_host: RunHost, trainer: Trainer, store: Store
) -> None:
    gate = Gate(store)
    host = await run_host("patient", store=cast("Store", gate), slots=1)
    await until(lambda: host.host.pools()[0].ready == 1)
    stopping = asyncio.create_task(host.stop())
    await gate.leaving.wait()
    before = len(gate.claimed)
    batch = await trainer.submit("patient", ["pass"] * 3)
    await stopping  # `leave` gives up after a while
    assert not any(gate.claimed[before:])
    assert (await trainer.record(batch)).queued == 3


async def test_work_that_outlasts_the_drain_is_given_back_without_an_attempt(
    run_host: RunHost, trainer: Trainer, tmp_path: Path
) -> None:
    first = await run_host("patient", slots=1, drain_s=0.1)
    begun, go = tmp_path / "begun", tmp_path / "go"
    batch = await trainer.submit("patient", [f"wait_for {begun} {go}"])
    await until(begun.exists)
    await first.stop()
    record = await trainer.record(batch)
    assert (record.queued, record.running) == (1, 0)
    go.touch()
    await run_host("patient", slots=1)
    assert attempts(await trainer.results(batch)) == [1]


async def test_a_task_whose_call_is_cancelled_under_it_has_failed() -> None:
    tasks = BackgroundTasks()
    call: asyncio.Future[None] = asyncio.Future()

    async def loop() -> None:
        await call

    ended = tasks.spawn(loop(), name="ended")
    await asyncio.sleep(0)
    ended.cancel()
    await asyncio.wait((ended,))
    assert not tasks.failed.done()
    call = asyncio.Future()
    tasks.spawn(loop(), name="failed")
    await asyncio.sleep(0)
    call.cancel()
    async with asyncio.timeout(60):
        assert isinstance(await tasks.failed, RuntimeError)
