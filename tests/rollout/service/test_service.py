"""Prompts in, groups out, over real gRPC, with a real engine, reward API and store."""

from __future__ import annotations

import asyncio
import random
import signal
import socket
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("numpy")

import numpy as np
from tests.rollout.service.pushing import pieces
from tests.rollout.service.served import SLOTS, TOKENS_MAX, Rollouts, RunRollouts, rollouts
from tests.rollout.test_weight_slots import version_of

from assay.client import Backoff, Outcome
from assay.client.rollouts import (
    NextTurn,
    Prompt,
    RolloutClient,
    RolloutGroup,
    RolloutSession,
    SamplingParams,
    StepBatch,
    Weight,
)
from assay.client.rollouts import session as client_session
from assay.core.codec import pack_body
from assay.core.errors import (
    AssayError,
    Conflict,
    DependencyDown,
    FailedPrecondition,
    InvalidRequest,
    NotFound,
    Saturated,
)
from assay.core.records import EndRequest, Finish, GiveBack
from assay.core.verdict import Evidence, ResourceUse
from assay.rollout import ProbeEngine, Sampling
from assay.v1 import rollout_pb2

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from tests.running import Running, RunWorker, StartProcess

    from assay.core.records import Claim
    from assay.rollout import Completed, ScoreRequest

S_MAX = 240.0
SAMPLED = SamplingParams(temperature=0.8, max_tokens=12)


def prompts(n: int, k: int = 3, **more: object) -> list[Prompt]:
    return [
        Prompt(group_id=f"p{i}", prompt_ids=[1 + i, 2, 3], k=k, seed=100 * i, **more)  # type: ignore[arg-type]
        for i in range(n)
    ]


async def take(session: RolloutSession, n: int) -> list[RolloutGroup]:
    found: list[RolloutGroup] = []
    async with asyncio.timeout(S_MAX):
        async for group in session.groups():
            found.append(group)
            session.acknowledge(group)
            if len(found) == n:
                break
    return found


async def test_groups_come_whole_with_the_engines_own_numbers(run_rollouts: RunRollouts) -> None:
    own = await run_rollouts()
    session = await own.client.open_session("s", sampling=SAMPLED)
    assert await session.submit(prompts(9, k=4)) == 9
    assert await session.submit(prompts(9, k=4)) == 0
    groups = {group.group_id: group for group in await take(session, 9)}
    assert groups.keys() == {f"p{i}" for i in range(9)}
    for i in range(9):
        group = groups[f"p{i}"]
        assert group.prompt_ids.tolist() == [1 + i, 2, 3]
        assert [t.seed for t in group.trajectories] == [100 * i + m for m in range(4)]
        assert {t.finish_reason for t in group.trajectories} == {"length"}
        assert {t.outcome for t in group.trajectories} == {None}
    # The same seeds, straight from the runtime.
    direct = await direct_completions(own, [1, 2, 3], range(4))
    for trajectory, ended in zip(groups["p0"].trajectories, direct, strict=True):
        assert trajectory.response_ids.tolist() == list(ended.tokens)
        assert trajectory.rollout_logp.tolist() == list(ended.logps)
        assert trajectory.response_mask.tolist() == [1] * len(ended.tokens)
        assert np.asarray(trajectory.rollout_logp).dtype == np.float32


async def direct_completions(
    own: Rollouts, prompt: Sequence[int], seeds: Sequence[int]
) -> list[Completed]:
    """Rollouts of the runtime itself, which the service's own pump would throw away.

    The pump is a thread, so it is redirected before it can have seen the first of them.
    """
    kept: list[Completed] = []
    listener = own.service.flights.on_ready

    def keep(responses: Sequence[ScoreRequest], ended: Sequence[Completed]) -> None:
        kept.extend(ended)
        listener(responses, [])

    own.service.flights.on_ready = keep  # type: ignore[method-assign]
    own.runtime.submit(
        prompt,
        max_tokens=12,
        seeds=seeds,
        sampling=Sampling(temperature=0.8),
        user_ids=range(1 << 40, (1 << 40) + len(seeds)),
        want_reward=False,
    )
    async with asyncio.timeout(S_MAX):
        while len(kept) < len(seeds):
            await asyncio.sleep(0.01)
    own.service.flights.on_ready = listener  # type: ignore[method-assign]
    return sorted(kept, key=lambda one: one.user_id)


def by_its_last_digit(claim: Claim) -> Finish:
    """1 for an even last token, 0 for an odd one, no verdict where it is divisible by 5."""
    last = int(claim.response.split()[-1])
    body = pack_body(Evidence(verdict=f"last {last}"), ResourceUse())
    if last % 5 == 0:
        return EndRequest(outcome=Outcome.INFRA_FAILED, reward=None, body=body)
    return EndRequest(outcome=Outcome.SCORED, reward=float(last % 2 == 0), body=body)


async def test_rewards_come_with_the_group_and_the_unscored_leave_the_baseline(
    run_rollouts: RunRollouts, api: Running, run_worker: RunWorker
) -> None:
    await run_worker(by_its_last_digit)
    own = await run_rollouts(api.addresses.grpc)
    session = await own.client.open_session("s", sampling=SAMPLED, pipeline="noop")
    await session.submit(
        prompts(12, k=8, reference={}, batch_id="step-1"),
        batches=[StepBatch(batch_id="step-1", deadline_s=30.0, last=True)],
    )
    groups = await take(session, 12)
    unscored = 0
    for group in groups:
        for one, advantage in zip(group.trajectories, group.advantages(), strict=True):
            last = one.response_ids[-1]
            if last % 5 == 0:
                unscored += 1
                assert (one.outcome, one.reward, advantage) == (Outcome.INFRA_FAILED, None, None)
            else:
                assert (one.outcome, one.reward) == (Outcome.SCORED, float(last % 2 == 0))
                assert one.evidence.verdict == f"last {last}"
        rewards = [t.reward for t in group.trajectories if t.reward is not None]
        assert group.summary.rewards == len(rewards)
        if rewards:
            assert group.summary.mean == pytest.approx(sum(rewards) / len(rewards))
    assert unscored > 3
    status = await own.client.status()
    assert (status.rewards_waiting, status.groups_running, status.engine["in_flight"]) == (0, 0, 0)


async def test_a_dead_reward_service_is_no_reward_and_no_stuck_slot(
    run_rollouts: RunRollouts, api: Running, run_worker: RunWorker
) -> None:
    own = await run_rollouts(api.addresses.grpc)
    session = await own.client.open_session("s", sampling=SAMPLED, pipeline="noop")
    await api.api.stop()
    await session.submit(prompts(6, k=SLOTS, reference={}))
    groups = await take(session, 6)
    outcomes = {t.outcome for group in groups for t in group.trajectories}
    assert outcomes == {Outcome.INFRA_FAILED}
    assert all(t.reward is None for group in groups for t in group.trajectories)
    assert own.runtime.stats().in_flight == 0


async def test_a_reward_service_killed_in_the_middle_of_a_batch_costs_no_reward(
    run_rollouts: RunRollouts, start: StartProcess, run_worker: RunWorker
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        ports = {"ASSAY_REWARD__GRPC_PORT": str(free.getsockname()[1])}
    rewards = await (await start(**ports)).up()
    patient = Backoff(first_s=0.05, longest_s=0.5, total_s=S_MAX)
    async with rollouts(rewards.grpc, desk_backoff=patient) as own:
        session = await own.client.open_session(
            "s", sampling=SAMPLED, pipeline="noop", reward_wait_s=S_MAX
        )
        every = StepBatch(batch_id="b", last=True)
        await session.submit(prompts(8, k=4, reference={}, batch_id="b"), batches=[every])
        async with asyncio.timeout(S_MAX):
            while (await own.client.status()).rewards_waiting < SLOTS:
                await asyncio.sleep(0.01)
        rewards.process.send_signal(signal.SIGKILL)
        await rewards.wait()
        rewards.sign.unlink()
        await run_worker(lambda _claim: scored(1.0))
        await (await start(**ports)).up()
        groups = await take(session, 8)
        assert {t.reward for group in groups for t in group.trajectories} == {1.0}
        assert own.runtime.stats().slots_free == SLOTS
        for one in (t for group in groups for t in group.trajectories):
            assert one.submitted_ns < one.decoded_ns <= one.reward_asked_ns
            assert one.reward_asked_ns <= one.reward_stored_ns <= one.ended_ns


async def test_a_reader_that_acknowledges_late_gets_each_group_once_and_in_bounded_messages(
    run_rollouts: RunRollouts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("assay.client.connection.LISTEN_S", 0.2)  # a stream is opened again then
    monkeypatch.setattr("assay.rollout.service.service.PAGE_GROUPS_MAX", 2)
    own = await run_rollouts()
    session = await own.client.open_session("s", sampling=SAMPLED)
    await session.submit(prompts(5))
    came: list[str] = []

    async def read() -> None:
        async for group in session.groups():
            came.append(group.group_id)

    reading = asyncio.create_task(read())
    [opened] = own.service._sessions.values()
    async with asyncio.timeout(S_MAX):
        while len(came) < 5:
            await asyncio.sleep(0.01)
        streams = opened.reader
        while opened.reader < streams + 2:
            await asyncio.sleep(0.01)
    reading.cancel()
    await asyncio.wait([reading])
    assert sorted(came) == [f"p{i}" for i in range(5)]
    pages = [page async for page in messages_of(own, "s", 5)]
    assert [len(page.groups) for page in pages] == [2, 2, 1]
    assert [page.cursor for page in pages] == [2, 4, 5]
    for cursor in (-1, 6):
        request = rollout_pb2.SubmitPromptsRequest(session_id="s", acknowledged=cursor)
        with pytest.raises(InvalidRequest) as refused:
            await own.client._connection.call(own.client._stub.SubmitPrompts, request)
        assert refused.value.field == "acknowledged"


async def messages_of(
    own: Rollouts, session_id: str, groups: int
) -> AsyncIterator[rollout_pb2.StreamGroupsResponse]:
    """Messages of a new stream, until this many groups came."""
    request = rollout_pb2.StreamGroupsRequest(session_id=session_id)
    async with asyncio.timeout(S_MAX):
        async for page in own.client._stub.StreamGroups(request):
            yield page
            if page.cursor == groups:
                return


async def test_a_silent_judge_is_waited_for_no_longer_than_the_session_says(
    run_rollouts: RunRollouts, api: Running
) -> None:
    own = await run_rollouts(api.addresses.grpc)
    session = await own.client.open_session(
        "s", sampling=SAMPLED, pipeline="noop", reward_wait_s=0.5
    )
    await session.submit(prompts(2, reference={}))
    for group in await take(session, 2):
        assert {t.outcome for t in group.trajectories} == {Outcome.INFRA_FAILED}
        assert {len(t.response_ids) for t in group.trajectories} == {12}


async def test_cancelled_groups_come_back_as_that(run_rollouts: RunRollouts, api: Running) -> None:
    own = await run_rollouts(api.addresses.grpc)
    session = await own.client.open_session("s", sampling=SAMPLED, pipeline="noop")
    await session.submit(prompts(8, k=6, reference={}))  # more than fits: some wait
    assert await session.cancel(["p0", "p7"]) == 12
    assert {g.group_id for g in await take(session, 2)} == {"p0", "p7"}
    assert await session.cancel() == 36
    rest = await take(session, 6)
    assert {t.outcome for g in rest for t in g.trajectories} == {Outcome.CANCELLED}
    assert await session.close() == 0
    with pytest.raises(NotFound):
        await session.submit(prompts(1))


async def test_a_lost_reader_gets_what_it_had_not_acknowledged(run_rollouts: RunRollouts) -> None:
    own = await run_rollouts()
    session = await own.client.open_session("s", sampling=SAMPLED)
    await session.submit(prompts(10))
    first = await take(session, 4)
    async with RolloutClient(own.address) as other:
        again = await other.open_session("s", sampling=SAMPLED)
        everything = await take(again, 10)
    assert [g.group_id for g in everything[:4]] == [g.group_id for g in first]
    assert len({g.group_id for g in everything}) == 10
    rest = await take(session, 6)
    assert [g.group_id for g in rest] == [g.group_id for g in everything[4:]]


async def test_what_is_not_acknowledged_keeps_more_out(run_rollouts: RunRollouts) -> None:
    own = await run_rollouts()
    session = await own.client.open_session("s", sampling=SAMPLED, groups_open_max=4)
    await session.submit(prompts(4))
    more = [Prompt(group_id="more", prompt_ids=[5], k=1, seed=1)]
    with pytest.raises(Saturated):
        await session.submit(more)
    await take(session, 4)
    assert await session.submit(more) == 1


BAD_SESSIONS = [
    ({"session_id": "a b"}, "session.session_id"),
    ({"model": "other"}, "session.model"),
    ({"sampling": SamplingParams(temperature=float("nan"))}, "session.sampling.temperature"),
    ({"sampling": SamplingParams(top_p=0.0)}, "session.sampling.top_p"),
    ({"sampling": SamplingParams(max_tokens=0)}, "session.sampling.max_tokens"),
    ({"sampling": SamplingParams(stop_ids=(1 << 30,))}, "session.sampling.stop_ids"),
    ({"groups_open_max": -1}, "session.groups_open_max"),
    ({"staleness_max": -1}, "session.staleness_max"),
]


@pytest.mark.parametrize(("fields", "field"), BAD_SESSIONS)
async def test_a_bad_session_names_its_field(
    run_rollouts: RunRollouts, fields: dict[str, object], field: str
) -> None:
    own = await run_rollouts()
    with pytest.raises((InvalidRequest, NotFound)) as refused:
        await own.client.open_session(**{"session_id": "s", **fields})  # type: ignore[arg-type]
    assert refused.value.field == field


BAD_PROMPTS = [
    ({"prompt_ids": []}, "prompt_ids"),
    ({"prompt_ids": [], "text": "2 + 2"}, "text"),
    ({"prompt_ids": [1] * TOKENS_MAX}, "prompt_ids"),
    (
        {"prompt_ids": [1] * (TOKENS_MAX - 1), "sampling": SamplingParams(max_tokens=2)},
        "sampling.max_tokens",
    ),
    ({"prompt_ids": [1 << 20]}, "prompt_ids"),
    ({"prompt_ids": [-1]}, "prompt_ids"),
    ({"k": 0}, "k"),
    ({"k": SLOTS + 1}, "k"),
    ({"group_id": ""}, "group_id"),
    ({"group_id": "x" * 257}, "group_id"),
    ({"batch_id": "a b"}, "batch_id"),
    ({"reference": b"[1]"}, "reference_json"),
    ({"reference": b"\xff"}, "reference_json"),
    ({"sampling": SamplingParams(stop_strings=(b"x",))}, "sampling.stop_strings"),
    ({"sampling": SamplingParams(temperature=float("nan"))}, "sampling.temperature"),
    ({"sampling": SamplingParams(min_p=1.5)}, "sampling.min_p"),
    ({"sampling": SamplingParams(max_tokens=TOKENS_MAX)}, "sampling.max_tokens"),
    ({"sampling": SamplingParams(stop_strings=(b"",))}, "sampling.stop_strings"),
]


@pytest.mark.parametrize(("fields", "field"), BAD_PROMPTS)
async def test_a_bad_prompt_names_its_field_and_nothing_is_taken(
    run_rollouts: RunRollouts, fields: dict[str, object], field: str
) -> None:
    own = await run_rollouts()
    session = await own.client.open_session("s", sampling=SAMPLED)
    good = {"group_id": "bad", "prompt_ids": [1], "k": 1, "seed": 1}
    bad = Prompt(**{**good, **fields})  # type: ignore[arg-type]
    with pytest.raises(InvalidRequest) as refused:
        await session.submit([*prompts(1), bad])
    assert refused.value.field == f"prompts[1].{field}"
    status = await own.client.status()
    assert (status.groups_waiting, status.groups_running, status.groups_ended) == (0, 0, 0)


async def test_a_bad_prompt_is_named_by_its_place_in_the_whole_submission(
    run_rollouts: RunRollouts, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = await run_rollouts()
    session = await own.client.open_session("s", sampling=SAMPLED)
    monkeypatch.setattr(client_session, "MESSAGE_PROMPTS", 2)
    for wrong, field in (
        ({"k": 0}, "prompts[3].k"),
        ({"prompt_ids": [1 << 40]}, "prompts[3].prompt_ids"),
        ({"seed": -1}, "prompts[3].seed"),
        ({"reference": {"x": object()}}, "prompts[3].reference"),
    ):
        bad = replace(prompts(1)[0], group_id="bad", **wrong)
        with pytest.raises(InvalidRequest) as refused:
            await session.submit([*prompts(3), bad])
        assert refused.value.field == field


async def test_what_the_reward_service_refuses_is_refused_when_the_session_opens(
    run_rollouts: RunRollouts, api: Running
) -> None:
    own = await run_rollouts(api.addresses.grpc)
    with pytest.raises(NotFound):
        await own.client.open_session("s", pipeline="nothing")
    with pytest.raises(InvalidRequest):
        await own.client.open_session("s", pipeline="math", settings={"no_such": 1})
    await own.client.open_session("s", pipeline="math")
    with pytest.raises(Conflict):
        await own.client.open_session("s", pipeline="noop")
    lonely = await run_rollouts()
    with pytest.raises(DependencyDown):
        await lonely.client.open_session("s", pipeline="math")


# -- weights ---------------------------------------------------------------------------------------
NAMES = {
    "EMBED": "model.embed_tokens.weight",
    "LM_HEAD": "lm_head.weight",
    "FINAL_NORM": "model.norm.weight",
    "ATTN_NORM": "input_layernorm.weight",
    "WQ": "self_attn.q_proj.weight",
    "WK": "self_attn.k_proj.weight",
    "WV": "self_attn.v_proj.weight",
    "BQ": "self_attn.q_proj.bias",
    "BK": "self_attn.k_proj.bias",
    "BV": "self_attn.v_proj.bias",
    "Q_NORM": "self_attn.q_norm.weight",
    "K_NORM": "self_attn.k_norm.weight",
    "WO": "self_attn.o_proj.weight",
    "BO": "self_attn.o_proj.bias",
    "FFN_NORM": "post_attention_layernorm.weight",
    "W_GATE": "mlp.gate_proj.weight",
    "W_UP": "mlp.up_proj.weight",
    "W_DOWN": "mlp.down_proj.weight",
    "B_GATE": "mlp.gate_proj.bias",
    "B_UP": "mlp.up_proj.bias",
    "B_DOWN": "mlp.down_proj.bias",
}


def weights_of(version: int) -> dict[str, Weight]:
    found = {}
    for (kind, layer), tensor in version_of(version).tensors.items():
        name = NAMES[kind.name]
        if name.startswith(("self_attn", "mlp", "input", "post")):
            name = f"model.layers.{layer}.{name}"
        shape = tuple(n for n in tensor.shape if n != 1) if tensor.data.ndim == 2 else tensor.shape
        found[name] = Weight(
            dtype=tensor.dtype.name,
            shape=tensor.shape if len(shape) == 2 else shape,
            data=tensor.data.tobytes(),
        )
    return found


async def test_weights_are_pushed_while_tokens_are_made_and_tokens_say_which(
    run_rollouts: RunRollouts,
) -> None:
    own = await run_rollouts()
    session = await own.client.open_session("s", sampling=SAMPLED)
    await session.submit(prompts(3))
    before = {g.group_id: g for g in await take(session, 3)}
    pushed = await own.client.push_weights(1, weights_of(1))
    assert pushed.policy_version == 1
    assert await own.client.policy_version() == 0
    activated = await own.client.activate(1)
    assert (activated.previous_version, activated.policy_version) == (0, 1)
    await session.submit(prompts(3))
    after = {g.group_id: g for g in await take(session, 3)}
    for name, group in after.items():
        assert {v for t in group.trajectories for v, _ in t.policy_versions} == {1}
        assert {v for t in before[name].trajectories for v, _ in t.policy_versions} == {0}
    await own.client.activate(0)  # a rollback finds the slot
    await session.submit([Prompt(group_id="again", prompt_ids=[1, 2, 3], k=3, seed=0)])
    [again] = await take(session, 1)
    for one, other in zip(again.trajectories, before["p0"].trajectories, strict=True):
        assert one.response_ids.tolist() == other.response_ids.tolist()
        assert one.rollout_logp.tolist() == other.rollout_logp.tolist()


def broken(weights: dict[str, Weight], how: str, rng: random.Random) -> dict[str, Weight]:
    name = rng.choice(sorted(weights))
    good = weights[name]
    data = bytes(good.data)
    if how == "missing":
        del weights[name]
    elif how == "unknown":
        weights["model.layers.99.mlp.up_proj.weight"] = good
    elif how == "shape":
        weights[name] = Weight(dtype=good.dtype, shape=(7, 3), data=data)
    elif how == "dtype":
        weights[name] = Weight(dtype="I8", shape=good.shape, data=data)
    elif how == "short":
        weights[name] = Weight(dtype=good.dtype, shape=good.shape, data=data[:-4])
    elif how == "long":
        weights[name] = Weight(dtype=good.dtype, shape=good.shape, data=data + b"1234")
    elif how == "nan":
        nan = np.array([np.nan], dtype="<f4").tobytes()
        weights[name] = Weight(dtype="F32", shape=good.shape, data=nan + data[4:])
    return weights


@pytest.mark.parametrize("how", ["missing", "unknown", "shape", "dtype", "short", "long", "nan"])
async def test_a_wrong_push_leaves_nothing_to_activate(run_rollouts: RunRollouts, how: str) -> None:
    own = await run_rollouts()
    with pytest.raises((InvalidRequest, FailedPrecondition)):
        await own.client.push_weights(1, broken(weights_of(1), how, random.Random(how)))
    with pytest.raises(FailedPrecondition):
        await own.client.activate(1)
    await own.client.push_weights(1, weights_of(1))  # and the next one is taken
    assert (await own.client.activate(1)).policy_version == 1


async def test_a_push_that_is_cut_leaves_nothing_and_the_next_is_taken(
    run_rollouts: RunRollouts,
) -> None:
    own = await run_rollouts()
    whole = weights_of(1)
    half = asyncio.Event()

    async def first_half() -> AsyncIterator[rollout_pb2.PushWeightsRequest]:
        opening = rollout_pb2.PushWeightsRequest(policy_version=1)
        every = [piece async for piece in pieces(opening, whole)]
        for piece in every[: len(every) // 2]:
            yield piece
        half.set()
        await asyncio.Event().wait()  # the sender hangs, then dies

    call = own.client._stub.PushWeights(first_half())
    await half.wait()
    with pytest.raises(FailedPrecondition):
        await own.client.push_weights(1, whole)  # one at a time
    call.cancel()
    async with asyncio.timeout(S_MAX):
        while not await taken(own, whole):
            await asyncio.sleep(0.05)
    assert (await own.client.activate(1)).policy_version == 1


async def taken(own: Rollouts, weights: dict[str, Weight]) -> bool:
    """Whether a push is taken: not while the one that was cut is being cleared away."""
    try:
        await own.client.push_weights(1, weights)
    except FailedPrecondition:
        return False
    return True


async def test_pauses_count(run_rollouts: RunRollouts) -> None:
    own = await run_rollouts()
    session = await own.client.open_session("s", sampling=SAMPLED)
    first, second = await own.client.pause(), await own.client.pause(mode="retract")
    await session.submit(prompts(2))
    await own.client.resume(first)
    with pytest.raises(FailedPrecondition):
        await own.client.resume(first)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.5):
            await take(session, 1)
    await own.client.resume(second)
    assert len(await take(session, 2)) == 2


async def test_stale_groups_are_made_again_by_the_weights_of_the_day(
    run_rollouts: RunRollouts,
) -> None:
    own = await run_rollouts()
    session = await own.client.open_session(
        "s", sampling=SAMPLED, staleness_max=0, retry_stale=True
    )
    await session.submit(prompts(4))
    async with asyncio.timeout(S_MAX):
        while (await own.client.status()).groups_ended < 4:
            await asyncio.sleep(0.01)
    await own.client.push_weights(1, weights_of(1))
    await own.client.activate(1)
    for group in await take(session, 4):
        assert group.staleness == 0
        assert {v for t in group.trajectories for v, _ in t.policy_versions} == {1}


async def test_errors_of_calls_are_typed_over_the_wire(run_rollouts: RunRollouts) -> None:
    own = await run_rollouts()
    with pytest.raises(FailedPrecondition):
        await own.client.activate(77)
    with pytest.raises(FailedPrecondition):
        await own.client.resume("none")
    session = RolloutSession("of-no-one", own.client._connection, own.client._stub, tokens_max=1)
    for call in (session.submit(prompts(1)), session.cancel(), session.close()):
        with pytest.raises(AssayError) as refused:
            await call
        assert isinstance(refused.value, NotFound)


async def test_an_engine_that_dies_ends_what_it_had_without_a_reward(
    run_rollouts: RunRollouts, api: Running
) -> None:
    own = await run_rollouts(api.addresses.grpc, probe=ProbeEngine(fail_at_step=5))
    session = await own.client.open_session("s", sampling=SAMPLED, pipeline="noop")
    await session.submit(prompts(6, k=6, reference={}))  # of which four wait for the engine
    groups = await take(session, 6)
    assert {t.outcome for g in groups for t in g.trajectories} == {Outcome.INFRA_FAILED}
    assert all(t.reward is None for g in groups for t in g.trajectories)
    with pytest.raises(DependencyDown):
        await session.submit([Prompt(group_id="late", prompt_ids=[1], k=1, seed=1)])


async def test_responses_of_a_session_that_was_closed_disturb_no_other(
    run_rollouts: RunRollouts, api: Running, run_worker: RunWorker
) -> None:
    await run_worker(by_its_last_digit)
    own = await run_rollouts(api.addresses.grpc)
    closing, staying = [
        await own.client.open_session(name, sampling=SAMPLED, pipeline="noop")
        for name in ("closing", "staying")
    ]
    late: list[tuple[Sequence[ScoreRequest], Sequence[Completed]]] = []
    listener = own.service.flights.on_ready
    own.service.flights.on_ready = lambda *ready: late.append(ready)  # type: ignore[method-assign]
    await closing.submit(prompts(1, k=4, reference={}))
    await staying.submit(prompts(1, k=4, reference={}))
    async with asyncio.timeout(S_MAX):
        while sum(len(responses) for responses, _ in late) < 8:
            await asyncio.sleep(0.01)
    await closing.close()
    own.service.flights.on_ready = listener  # type: ignore[method-assign]
    listener([one for responses, _ in late for one in responses], [])
    assert len(await take(staying, 1)) == 1
    async with asyncio.timeout(S_MAX):
        while own.runtime.stats().in_flight:
            await asyncio.sleep(0.01)


async def test_no_one_has_a_session_before_the_reward_service_knows_it(
    run_rollouts: RunRollouts, api: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = await run_rollouts(api.addresses.grpc)
    asked, go_on = asyncio.Event(), asyncio.Event()
    desk = own.service._desk
    open_session = desk.open_session

    async def slowly(*arguments: Any, **named: Any) -> None:
        asked.set()
        await go_on.wait()
        await open_session(*arguments, **named)

    monkeypatch.setattr(desk, "open_session", slowly)
    first = asyncio.create_task(own.client.open_session("s", pipeline="noop"))
    await asked.wait()
    second = asyncio.create_task(own.client.open_session("s", pipeline="noop"))
    done, _ = await asyncio.wait([second], timeout=0.3)
    assert not done
    go_on.set()
    await asyncio.gather(first, second)
    assert (await own.client.status()).sessions == 1


# -- several turns ---------------------------------------------------------------------------------
def next_turns(name: str, before: str, members: Sequence[int], **more: object) -> Prompt:
    turns = [NextTurn(member=m, environment_ids=[50 + m, 60]) for m in members]
    return Prompt(
        group_id=name,
        continues=before,
        turns=turns,
        k=len(turns),
        seed=7,
        **more,  # type: ignore[arg-type]
    )


async def test_a_trajectory_of_two_turns_is_one_with_the_environment_masked(
    run_rollouts: RunRollouts, api: Running, run_worker: RunWorker
) -> None:
    await run_worker(by_its_last_digit)
    own = await run_rollouts(api.addresses.grpc)
    session = await own.client.open_session("s", sampling=SAMPLED, pipeline="noop")
    await session.submit(prompts(1, k=4, reference={}, scored=False))
    [first] = await take(session, 1)
    assert {one.outcome for one in first.trajectories} == {None}
    await own.client.push_weights(1, weights_of(1))
    await own.client.activate(1)
    second_turn = next_turns("p0/2", "p0", [0, 1, 2, 2], reference={})
    assert await session.submit([second_turn]) == 1  # and acknowledges the first turn
    assert await session.submit([second_turn]) == 0  # found again without the first turn
    [second] = await take(session, 1)
    assert second.prompt_ids.tolist() == [1, 2, 3]
    for at, one in enumerate(second.trajectories):
        member = min(at, 2)
        before = first.trajectories[member]
        assert one.response_ids[:12] == before.response_ids
        assert one.rollout_logp[:12] == before.rollout_logp
        assert one.response_ids[12:14].tolist() == [50 + member, 60]
        assert one.response_mask.tolist() == [1] * 12 + [0] * 2 + [1] * 12
        assert one.rollout_logp[12:14].tolist() == [0.0, 0.0]
        assert one.policy_versions == ((0, 12), (-1, 2), (1, 12))
        assert [s.tokens for s in one.tokens.segments] == [12, 2, 12]
        assert one.outcome in {Outcome.SCORED, Outcome.INFRA_FAILED}
    branches = [one.response_ids[14:].tolist() for one in second.trajectories[2:]]
    assert (
        branches[0] != branches[1]
    )  # two continuations of one trajectory, with seeds of their own
    assert second.staleness == 1
    # The second turn is what the engine makes of the whole context.
    context = second.trajectories[0].tokens.context()[:17]
    [direct] = await direct_completions(own, context, [7])
    assert second.trajectories[0].response_ids[14:].tolist() == list(direct.tokens)
    assert second.trajectories[0].rollout_logp[14:].tolist() == list(direct.logps)


BAD_TURNS = [
    ({"continues": "nothing"}, "continues"),
    ({"prompt_ids": [1]}, "prompt_ids"),
    ({"k": 2}, "turns"),
    ({"turns": [NextTurn(member=-1)]}, "turns[0].member"),
    ({"turns": [NextTurn(member=3)]}, "turns"),
    ({"turns": [NextTurn(member=0, environment_text="x")]}, "turns[0].environment_text"),
    ({"turns": [NextTurn(member=0, environment_ids=[1 << 20])]}, "turns[0].environment_ids"),
    ({"turns": [NextTurn(member=0, environment_ids=[1] * 80)]}, "sampling.max_tokens"),
    ({"continues": ""}, "turns"),
]


@pytest.mark.parametrize(("fields", "field"), BAD_TURNS)
async def test_a_bad_turn_names_its_field(
    run_rollouts: RunRollouts, fields: dict[str, object], field: str
) -> None:
    own = await run_rollouts()
    session = await own.client.open_session("s", sampling=SAMPLED)
    await session.submit(prompts(1))
    async for _ in session.groups():
        break
    good = {
        "group_id": "next",
        "continues": "p0",
        "turns": [NextTurn(member=0)],
        "k": 1,
        "seed": 1,
    }
    with pytest.raises((InvalidRequest, NotFound)) as refused:
        await session.submit([Prompt(**{**good, **fields})])  # type: ignore[arg-type]
    assert refused.value.field == f"prompts[0].{field}"


async def test_next_turns_wait_for_room_as_a_whole(run_rollouts: RunRollouts) -> None:
    own = await run_rollouts()
    session = await own.client.open_session("s", sampling=SAMPLED)
    await session.submit(prompts(1, k=SLOTS))
    async for _ in session.groups():
        break
    await session.submit(
        [next_turns(f"n{i}", "p0", range(SLOTS)) for i in range(4)]
        + [Prompt(group_id="one", prompt_ids=[1], k=1, seed=1)]
    )
    groups = await take(session, 6)
    assert {len(g.trajectories) for g in groups} == {SLOTS, 1}
    assert {t.finish_reason for g in groups for t in g.trajectories} == {"length"}
    assert own.runtime.stats().in_flight == 0


# -- early cut -------------------------------------------------------------------------------------
async def queued(api: Running) -> int:
    found = await api.store.batches(batches_max=100)
    return sum(batch.queued + batch.running for batch in found)


async def until_nothing_is_queued(api: Running) -> None:
    async with asyncio.timeout(S_MAX):
        while await queued(api):
            await asyncio.sleep(0.02)


async def until_queued(api: Running, n: int) -> None:
    async with asyncio.timeout(S_MAX):
        while await queued(api) < n:
            await asyncio.sleep(0.02)


async def test_cancelling_a_group_withdraws_its_queued_reward_work(
    run_rollouts: RunRollouts, api: Running
) -> None:
    own = await run_rollouts(api.addresses.grpc)
    session = await own.client.open_session("s", sampling=SAMPLED, pipeline="noop")
    await session.submit(prompts(3, k=4, reference={}))
    await until_queued(api, 12)  # no worker: all wait for a reward
    assert await session.cancel(["p1"]) == 4
    [group] = await take(session, 1)
    assert {t.outcome for t in group.trajectories} == {Outcome.CANCELLED}
    async with asyncio.timeout(S_MAX):
        while await queued(api) != 8:
            await asyncio.sleep(0.02)
    [batch] = await api.store.batches(batches_max=100)
    assert batch.outcomes == {Outcome.CANCELLED: 4}
    await session.cancel()
    await until_nothing_is_queued(api)


async def test_reward_work_of_a_response_that_waited_too_long_is_withdrawn(
    run_rollouts: RunRollouts, api: Running
) -> None:
    own = await run_rollouts(api.addresses.grpc)
    session = await own.client.open_session(
        "s", sampling=SAMPLED, pipeline="noop", reward_wait_s=1.5
    )
    await session.submit(prompts(2, reference={}))
    await until_queued(api, 6)
    await take(session, 2)
    await until_nothing_is_queued(api)


async def test_a_batch_with_enough_groups_cancels_the_rest(
    run_rollouts: RunRollouts, api: Running, run_worker: RunWorker
) -> None:
    own = await run_rollouts(api.addresses.grpc)
    session = await own.client.open_session("s", sampling=SAMPLED, pipeline="noop")
    enough = StepBatch(batch_id="b", enough_groups=2, last=True)
    await session.submit(prompts(9, k=4, reference={}, batch_id="b"), batches=[enough])
    await until_queued(api, SLOTS)
    await run_worker(by_its_last_digit)
    groups = await take(session, 9)
    whole = [g for g in groups if Outcome.CANCELLED not in {t.outcome for t in g.trajectories}]
    assert 2 <= len(whole) <= SLOTS // 4  # those that ended together with the second
    await until_nothing_is_queued(api)
    assert own.runtime.stats().in_flight == 0


async def test_only_groups_whose_rewards_differ_are_enough(
    run_rollouts: RunRollouts, api: Running, run_worker: RunWorker
) -> None:
    await run_worker(lambda _claim: scored(1.0))
    own = await run_rollouts(api.addresses.grpc)
    session = await own.client.open_session("s", sampling=SAMPLED, pipeline="noop")
    varied = StepBatch(batch_id="b", enough_groups=1, only_varied=True)
    await session.submit(prompts(6, k=4, reference={}, batch_id="b"), batches=[varied])
    groups = await take(session, 6)
    assert {t.outcome for g in groups for t in g.trajectories} == {Outcome.SCORED}


def scored(reward: float) -> Finish:
    body = pack_body(Evidence(), ResourceUse())
    return EndRequest(outcome=Outcome.SCORED, reward=reward, body=body)


async def test_a_group_that_cannot_vary_any_more_is_cut(
    run_rollouts: RunRollouts, api: Running, run_worker: RunWorker
) -> None:
    own = await run_rollouts(api.addresses.grpc)
    session = await own.client.open_session("s", sampling=SAMPLED, pipeline="noop", minority_min=3)
    await session.submit(prompts(1, k=6, reference={}))
    await until_queued(api, 6)
    left = 4

    def equal_then_slow(_claim: Claim) -> Finish:
        nonlocal left
        left -= 1
        return scored(1.0) if left >= 0 else GiveBack()

    await run_worker(equal_then_slow)  # of six, four are equal: at most two can differ
    [group] = await take(session, 1)
    outcomes = [t.outcome for t in group.trajectories]
    assert outcomes.count(Outcome.SCORED) == 4
    assert outcomes.count(Outcome.CANCELLED) == 2
    await until_nothing_is_queued(api)
