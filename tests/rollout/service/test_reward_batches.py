"""Reward batches: how responses are sent, and when batches are opened and sealed."""

from __future__ import annotations

import asyncio
import itertools
import socket
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("numpy")

from tests.rollout.service.test_service import S_MAX, SAMPLED, prompts, scored, take, weights_of

from assay.client import Batch, Client, Request
from assay.client.rollouts import StepBatch
from assay.core.errors import DependencyDown
from assay.core.ids import TenantId
from assay.core.outcome import Outcome
from assay.core.records import BatchState
from assay.edge.clock import Clock
from assay.rollout.service.records import Judged, RewardPlan, SessionKey
from assay.rollout.service.rewards import Response, RewardServiceDesk
from assay.rollout.service.rewards.lane import MESSAGES_MAX

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.rollout.service.served import RunRollouts
    from tests.running import Running, RunWorker

    from assay.core.records import BatchRecord

KEY = SessionKey(TenantId("t"), "s")
PLAN = RewardPlan(pipeline="noop", settings_json="{}", wait_s_max=S_MAX)


async def batches_when(
    api: Running, holds: Callable[[Sequence[BatchRecord]], bool]
) -> Sequence[BatchRecord]:
    """The batches that are not complete, once `holds` holds of them."""
    async with asyncio.timeout(S_MAX):
        while not holds(found := await api.store.batches(batches_max=100)):
            await asyncio.sleep(0.01)
    return found


def response(number: int) -> Response:
    return Response(number=number, group_id="g", text=b"x", reference_json=b"{}")


async def test_responses_are_sent_beside_each_other_and_the_batch_is_sealed_after_them(
    api: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every message is held on its way: only those beyond `MESSAGES_MAX` wait for another."""
    told: list[tuple[str, list[str]]] = []
    arrive = asyncio.Event()
    submit, cancel, seal = Batch.submit, Batch.cancel_requests, Batch.seal

    async def held(batch: Batch, requests: Any) -> Any:
        sent: list[Request] = list(requests)
        told.append(("submit", [one.request_id for one in sent]))
        await arrive.wait()
        return await submit(batch, sent)

    async def cancelled(batch: Batch, request_ids: Any) -> int:
        named = list(request_ids)
        told.append(("cancel", named))
        return await cancel(batch, named)

    async def sealed(batch: Batch) -> Any:
        told.append(("seal", []))
        return await seal(batch)

    monkeypatch.setattr(Batch, "submit", held)
    monkeypatch.setattr(Batch, "cancel_requests", cancelled)
    monkeypatch.setattr(Batch, "seal", sealed)
    answers: dict[int, Judged] = {}
    ids = itertools.count()
    desk = RewardServiceDesk(
        connect=lambda token: Client(api.addresses.grpc, token=token),
        on_judged=answers.__setitem__,
        clock=Clock(),
        new_id=lambda: str(next(ids)),
        waiting_max=64,
    )
    await desk.open_session(KEY, PLAN, token=None)
    for number in range(1, MESSAGES_MAX + 3):
        desk.hand_in(KEY, "b", response(number))
        async with asyncio.timeout(S_MAX):
            while len(told) < min(number, MESSAGES_MAX):
                await asyncio.sleep(0)
    desk.forget(1)
    desk.seal(KEY, "b")
    for _ in range(20):
        await asyncio.sleep(0)
    alone = [("submit", [str(number)]) for number in range(1, MESSAGES_MAX + 1)]
    assert told == alone
    arrive.set()
    [batch] = await batches_when(
        api, lambda found: len(found) == 1 and found[0].state is BatchState.SEALED
    )
    assert batch.submitted == MESSAGES_MAX + 2
    rest = [str(MESSAGES_MAX + 1), str(MESSAGES_MAX + 2)]
    assert ("submit", rest) in told
    assert ("cancel", ["1"]) in told
    assert told.index(("seal", [])) > told.index(("submit", rest))
    await desk.close()
    assert not answers.keys() & {1}
    assert desk.waiting == 0


async def test_a_batch_whose_lane_failed_keeps_its_deadline(
    api: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    deadlines: list[float | None] = []
    open_batch = Client.open_batch

    async def fails_once(client: Client, task: Any, **named: Any) -> Batch:
        deadlines.append(named["deadline_s"])
        if len(deadlines) == 1:
            raise DependencyDown("no reward service")
        return await open_batch(client, task, **named)

    monkeypatch.setattr(Client, "open_batch", fails_once)
    answers: dict[int, Judged] = {}
    ids = itertools.count()
    desk = RewardServiceDesk(
        connect=lambda token: Client(api.addresses.grpc, token=token),
        on_judged=answers.__setitem__,
        clock=Clock(),
        new_id=lambda: str(next(ids)),
        waiting_max=64,
    )
    await desk.open_session(KEY, PLAN, token=None)
    desk.open_batch(KEY, "b", deadline_s=S_MAX)
    desk.hand_in(KEY, "b", response(1))
    async with asyncio.timeout(S_MAX):
        while 1 not in answers:
            await asyncio.sleep(0.01)
    assert answers[1].outcome is Outcome.INFRA_FAILED
    desk.hand_in(KEY, "b", response(2))
    await batches_when(api, lambda found: any(one.submitted for one in found))
    first, second = deadlines
    assert first is not None
    assert second is not None
    assert 0 < second <= first <= S_MAX
    await desk.close()


async def test_a_session_is_not_opened_for_ever_while_the_reward_service_is_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("assay.rollout.service.rewards.desk.OPEN_S_MAX", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"  # answers nothing
        desk = RewardServiceDesk(
            connect=lambda token: Client(address, token=token),
            on_judged=lambda _number, _judged: None,
            clock=Clock(),
            new_id=lambda: "0",
            waiting_max=64,
        )
        async with asyncio.timeout(S_MAX):
            with pytest.raises(DependencyDown, match="reward service"):
                await desk.open_session(KEY, PLAN, token=None)
        desk.seal(KEY, "b")  # as if it had never been
        await desk.close()


async def test_groups_without_a_batch_share_bounded_ones(
    run_rollouts: RunRollouts,
    api: Running,
    run_worker: RunWorker,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("assay.rollout.service.sessions.UNNAMED_GROUPS_MAX", 2)
    own = await run_rollouts(api.addresses.grpc)
    session = await own.client.open_session("s", sampling=SAMPLED, pipeline="noop")
    await session.submit(prompts(5, k=2, reference={}))
    found = await batches_when(
        api, lambda found: sum(one.submitted for one in found) == 10 and len(found) == 3
    )
    assert sorted(one.submitted for one in found) == [2, 4, 4]
    await run_worker(lambda _claim: scored(1.0))
    groups = await take(session, 5)
    assert {t.reward for group in groups for t in group.trajectories} == {1.0}
    # The session is open and could submit more.
    await batches_when(api, lambda found: not found)
    await session.submit(prompts(6, k=2, reference={})[5:])
    [group] = await take(session, 1)
    assert [t.reward for t in group.trajectories] == [1.0, 1.0]
    await batches_when(api, lambda found: not found)


async def test_an_unnamed_batch_takes_more_groups_for_a_bounded_time(
    run_rollouts: RunRollouts, api: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("assay.rollout.service.sessions.UNNAMED_S_MAX", 0.0)
    own = await run_rollouts(api.addresses.grpc)
    session = await own.client.open_session("s", sampling=SAMPLED, pipeline="noop")
    await session.submit(prompts(3, k=2, reference={}))
    found = await batches_when(api, lambda found: sum(one.submitted for one in found) == 6)
    assert [one.submitted for one in found] == [2, 2, 2]


@pytest.mark.parametrize("last", ["with the prompts", "after the second time"])
async def test_the_batch_of_a_group_that_is_generated_again_is_sealed(
    run_rollouts: RunRollouts, api: Running, run_worker: RunWorker, last: str
) -> None:
    await run_worker(lambda _claim: scored(1.0))
    own = await run_rollouts(api.addresses.grpc)
    session = await own.client.open_session(
        "s", sampling=SAMPLED, pipeline="noop", staleness_max=0, retry_stale=True
    )
    early = last == "with the prompts"
    marked = [StepBatch(batch_id="b", last=True)]
    await session.submit(prompts(2, reference={}, batch_id="b"), batches=marked if early else [])
    async with asyncio.timeout(S_MAX):
        while (await own.client.status()).groups_ended < 2:
            await asyncio.sleep(0.01)
    await own.client.push_weights(1, weights_of(1))
    await own.client.activate(1)
    groups = await take(session, 2)
    assert {t.reward for group in groups for t in group.trajectories} == {1.0}
    if not early:
        await session.submit([], batches=marked)
    await batches_when(api, lambda found: not found)
