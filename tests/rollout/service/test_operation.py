"""What an operator sees and may do: metrics, hints, permissions."""

from __future__ import annotations

import asyncio
import gc
import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("numpy")

from tests import certificates
from tests.rollout.service.served import leftovers
from tests.rollout.service.test_pushes import CASES, tensors
from tests.rollout.service.test_service import (
    S_MAX,
    SAMPLED,
    by_its_last_digit,
    prompts,
    take,
    weights_of,
)

from assay.client.rollouts import Prompt, RolloutClient, StepBatch
from assay.config.access import TenantSettings
from assay.core.errors import DependencyDown, FailedPrecondition, PermissionDenied
from assay.v1 import rollout_pb2

if TYPE_CHECKING:
    from pathlib import Path

    from tests.rollout.service.served import RunRollouts
    from tests.running import Running, RunWorker

    from assay.rollout.service.records import SessionKey


async def test_over_tls_only(run_rollouts: RunRollouts, tmp_path: Path) -> None:
    certificate, key = certificates.certificate(tmp_path)
    own = await run_rollouts(tls_certificate=certificate, tls_key=key)
    trusted = certificate.read_bytes()
    async with RolloutClient(f"grpcs://{own.address}", root_certificates=trusted) as client:
        assert await client.policy_version() == 0
    with pytest.raises(DependencyDown):
        await own.client.policy_version()


@pytest.mark.parametrize("fails", [False, True])
async def test_a_session_is_closed_to_its_end_when_the_caller_leaves_meanwhile(
    run_rollouts: RunRollouts, monkeypatch: pytest.MonkeyPatch, *, fails: bool
) -> None:
    own = await run_rollouts()
    closing, may_close, closed = asyncio.Event(), asyncio.Event(), asyncio.Event()
    close = own.service._desk.close_session

    async def slowly(key: SessionKey) -> None:
        closing.set()
        await may_close.wait()
        await close(key)
        closed.set()
        if fails:
            raise DependencyDown("the reward service does not answer")

    monkeypatch.setattr(own.service._desk, "close_session", slowly)
    await own.client.open_session("s", sampling=SAMPLED)
    async with asyncio.timeout(S_MAX):
        call = own.client._stub.CloseSession(rollout_pb2.CloseSessionRequest(session_id="s"))
        await closing.wait()
        call.cancel()
        while own.server._guard.calls:  # until the service knows that its caller has gone
            await asyncio.sleep(0.01)
        may_close.set()
        await closed.wait()
    gc.collect()
    assert not leftovers(own)


async def test_what_happens_is_counted(
    run_rollouts: RunRollouts, api: Running, run_worker: RunWorker
) -> None:
    await run_worker(by_its_last_digit)
    own = await run_rollouts(api.addresses.grpc)
    session = await own.client.open_session(
        "s", sampling=SAMPLED, pipeline="noop", staleness_max=1, retry_stale=True
    )
    await session.submit(prompts(4, k=6, reference={}))
    groups = await take(session, 4)
    degenerate = sum(group.summary.degenerate for group in groups)
    assert own.sample("assay_rollout_groups_read_total", result="degenerate") == degenerate
    assert own.sample("assay_rollout_groups_read_total", result="varied") == 4 - degenerate
    assert own.sample("assay_rollout_tokens_total") == 4 * 6 * 12
    assert own.sample("assay_rollout_staleness_versions_bucket", le="0.0") == 4
    await own.client.push_weights(1, weights_of(1))
    config, arrays = CASES["lora"]
    await own.client.activate(1)
    await own.client.push_adapter(2, config, tensors(arrays))
    await own.client.activate(2)
    assert own.sample("assay_weights_stage_seconds_count", kind="full") == 1
    assert own.sample("assay_weights_stage_seconds_count", kind="lora") == 1
    assert own.sample("assay_weights_pause_seconds_count") == 2
    own.service.report()
    assert own.sample("assay_rollouts", state="free") == own.runtime.slots
    assert own.sample("assay_rollouts", state="reward") == 0
    assert own.sample("assay_rollout_groups", state="ended") == 4  # read, not acknowledged
    assert own.sample("assay_rollout_credits", limit="decode") > 0


async def test_a_stale_group_is_counted(run_rollouts: RunRollouts) -> None:
    own = await run_rollouts()
    session = await own.client.open_session("s", sampling=SAMPLED, staleness_max=0)
    await session.submit(prompts(2))
    async with asyncio.timeout(S_MAX):
        while (await own.client.status()).groups_ended < 2:
            await asyncio.sleep(0.01)
    await own.client.push_weights(1, weights_of(1))
    await own.client.activate(1)
    await session.submit(prompts(3)[2:])
    await take(session, 1)
    assert own.sample("assay_rollout_groups_read_total", result="stale_dropped") == 2
    assert own.sample("assay_rollout_groups_read_total", result="unscored") == 1


async def test_the_reward_service_gets_a_hint_when_rollouts_begin(
    run_rollouts: RunRollouts, api: Running
) -> None:
    own = await run_rollouts(api.addresses.grpc)
    held = await own.client.pause()
    session = await own.client.open_session("s", sampling=SAMPLED, pipeline="noop")
    await session.submit(prompts(3, k=5, reference={}))
    async with asyncio.timeout(S_MAX):
        while not (hints := await api.store.hints()):
            await asyncio.sleep(0.02)
    assert [hint.size for hint in hints] == [15]
    await own.client.resume(held)


def tenant(token: str, *, operate: bool) -> TenantSettings:
    digest = hashlib.sha256(token.encode()).hexdigest()
    return TenantSettings.model_validate({"token_sha256": digest, "operate": operate})


async def test_only_a_tenant_that_may_operate_changes_weights_or_pauses(
    run_rollouts: RunRollouts,
) -> None:
    tenants = {"owner": tenant("o", operate=True), "guest": tenant("g", operate=False)}
    own = await run_rollouts(tenants=tenants)
    config, arrays = CASES["lora"]
    async with (
        RolloutClient(own.address, token="o") as owner,
        RolloutClient(own.address, token="g") as guest,
    ):
        pause_id = await owner.pause()
        for refused in (
            guest.push_weights(1, weights_of(1)),
            guest.push_adapter(1, config, tensors(arrays)),
            guest.activate(0),
            guest.pause(),
            guest.resume(pause_id),
        ):
            with pytest.raises(PermissionDenied, match="guest"):
                await refused
        await owner.push_adapter(1, config, tensors(arrays))
        await owner.activate(1)
        await owner.resume(pause_id)
        session = await guest.open_session("s", sampling=SAMPLED)
        await session.submit(prompts(1))
        [group] = await take(session, 1)
        assert {v for t in group.trajectories for v, _ in t.policy_versions} == {1}


async def test_reward_batches_that_are_never_last_are_bounded(
    run_rollouts: RunRollouts, api: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("assay.rollout.service.sessions.BATCHES_OPEN_MAX", 2)
    own = await run_rollouts(api.addresses.grpc)
    session = await own.client.open_session("s", sampling=SAMPLED, pipeline="noop")

    def of(group: int, batch: int) -> list[Prompt]:
        return [replace(prompts(group + 1, reference={})[group], batch_id=f"b{batch}")]

    await own.client.pause()  # no batch ends
    await session.submit(of(0, 0))
    await session.submit(of(1, 1))
    await session.submit(of(1, 1))  # sent again
    await session.submit(of(2, 1))
    with pytest.raises(FailedPrecondition, match="3 reward batches") as refused:
        await session.submit(of(3, 2))
    assert refused.value.field == "batches"
    assert (await own.client.status()).groups_running == 3
    await session.submit(of(3, 2), batches=[StepBatch(batch_id="b1", last=True)])
    await session.submit(of(4, 3), batches=[StepBatch(batch_id="b3", last=True)])


# -- status and trace ------------------------------------------------------------------------------
async def test_the_status_says_which_queue_owns_which_rollout(
    run_rollouts: RunRollouts, api: Running
) -> None:
    own = await run_rollouts(api.addresses.grpc)
    scored = await own.client.open_session("scored", sampling=SAMPLED, pipeline="noop")
    await scored.submit(prompts(1, k=4, reference={}))
    async with asyncio.timeout(S_MAX):
        while (await own.client.status()).rewards_waiting < 4:
            await asyncio.sleep(0.01)
    held = await own.client.pause()
    plain = await own.client.open_session("plain", sampling=SAMPLED)
    await plain.submit(prompts(2, k=3))
    status = await own.client.status(rollouts=True)
    reward, prefill = rollout_pb2.ROLLOUT_QUEUE_REWARD, rollout_pb2.ROLLOUT_QUEUE_PREFILL
    assert [(p.session_id, p.group_id, p.member, p.queue) for p in status.rollouts] == [
        *(("scored", "p0", member, reward) for member in range(4)),
        *(("plain", f"p{group}", member, prefill) for group in range(2) for member in range(3)),
    ]
    assert len({(p.slot, p.generation) for p in status.rollouts}) == 10
    assert all((p.decoded_ns > 0) == (p.queue == reward) for p in status.rollouts)
    assert status.engine["slots_free"] == own.runtime.slots - 10
    assert status.engine["queue_prefill"] == 6
    assert status.engine["kv_available"] > 0
    assert not (await own.client.status()).rollouts
    await own.client.resume(held)
    await take(plain, 2)
    await scored.cancel()
    await take(scored, 1)
    assert not (await own.client.status(rollouts=True)).rollouts


async def test_another_tenants_rollouts_are_not_listed(run_rollouts: RunRollouts) -> None:
    tenants = {"owner": tenant("o", operate=True), "guest": tenant("g", operate=False)}
    own = await run_rollouts(tenants=tenants)
    async with (
        RolloutClient(own.address, token="o") as owner,
        RolloutClient(own.address, token="g") as guest,
    ):
        await owner.pause()
        session = await owner.open_session("s", sampling=SAMPLED)
        await session.submit(prompts(1))
        assert len((await owner.status(rollouts=True)).rollouts) == 3
        assert not (await guest.status(rollouts=True)).rollouts
        with pytest.raises(PermissionDenied):
            await anext(guest.trace())


async def test_a_trace_has_every_instant_of_a_rollout_and_stops_with_its_reader(
    run_rollouts: RunRollouts,
) -> None:
    own = await run_rollouts()
    session = await own.client.open_session("s", sampling=SAMPLED)
    await session.submit(prompts(1))
    await take(session, 1)
    events: list[rollout_pb2.TraceEvent] = []
    trace = own.client.trace()
    async with asyncio.timeout(S_MAX):
        reading = asyncio.create_task(anext(trace))
        while own.service.tracer._readers == 0:
            await asyncio.sleep(0.01)
        await session.submit([replace(prompts(1)[0], group_id="traced", k=2)])
        events += (await reading).events
        while sum(event.event == "observed" for event in events) < 2:
            events += (await anext(trace)).events
        await trace.aclose()
        while own.service.tracer._readers:
            await asyncio.sleep(0.01)
    names = {event.event for event in events}
    assert {"posted", "prefill_begin", "step_begin", "decode_done", "observed"} <= names
    rollouts = {(e.slot, e.generation) for e in events if e.event == "posted"}
    assert len(rollouts) == 2  # none from before the stream
    before = own.runtime.stats().trace_events
    await session.submit([replace(prompts(1)[0], group_id="untraced")])
    await take(session, 2)
    assert own.runtime.stats().trace_events == before
