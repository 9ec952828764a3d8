"""Pushes that activate what they stage: one call per step in place of two."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING
from unittest.mock import ANY

import grpc
import pytest

pytest.importorskip("numpy")

from tests.rollout.service.test_operation import tenant
from tests.rollout.service.test_pauses import LONG, held_while_they_run
from tests.rollout.service.test_pushes import CASES, safetensors, tensors
from tests.rollout.service.test_service import S_MAX, SAMPLED, prompts, take, weights_of

from assay.client.failures import error_of
from assay.client.rollouts import RolloutClient
from assay.core.errors import FailedPrecondition, InvalidRequest
from assay.rollout.layout import PauseMode
from assay.v1 import rollout_pb2

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.rollout.service.served import Rollouts, RunRollouts

    from assay.rollout.interface.rollouts import Activation


@pytest.mark.parametrize("mode", ["in_place", "finish", "retract"])
async def test_a_push_that_activates_is_in_use_when_it_returns(
    run_rollouts: RunRollouts, tmp_path: Path, mode: str
) -> None:
    own = await run_rollouts(shared_dir=tmp_path)
    config, arrays = CASES["lora"]
    adapter = tensors(arrays)
    file = safetensors(adapter, tmp_path / "a.safetensors")
    session = await own.client.open_session("s", sampling=SAMPLED)
    await session.submit(prompts(4))
    for pushed in (
        await own.client.push_weights(1, weights_of(1), activate=mode),
        await own.client.push_adapter(2, config, adapter, activate=mode),
        await own.client.push_file(3, file, config=config, activate=mode),
    ):
        assert pushed.activated is not None
        assert pushed.activated.policy_version == pushed.policy_version
        assert pushed.activated.previous_version == pushed.policy_version - 1
    assert await own.client.policy_version() == 3
    assert own.sample("assay_weights_pause_seconds_count") == 3
    assert len(await take(session, 4)) == 4
    assert (await own.client.push_weights(4, weights_of(2))).activated is None
    assert await own.client.policy_version() == 3


async def test_an_adapter_without_checksums_is_the_same_adapter(run_rollouts: RunRollouts) -> None:
    own = await run_rollouts()
    config, arrays = CASES["lora"]
    whole = await own.client.push_adapter(1, config, tensors(arrays))
    assert await own.client.push_adapter(1, config, tensors(arrays), checksums=False) == replace(
        whole, stage_s=ANY
    )


async def test_a_push_that_is_wrong_activates_nothing(run_rollouts: RunRollouts) -> None:
    own = await run_rollouts()
    weights = weights_of(1)
    name = next(iter(weights))
    not_finite = bytes(weights[name].data)[:-4] + b"\xff\xff\xff\x7f"
    weights[name] = replace(weights[name], data=not_finite)
    with pytest.raises(InvalidRequest):
        await own.client.push_weights(1, weights, activate="in_place")
    assert await own.client.policy_version() == 0
    assert own.engine.ready_version is None


async def test_a_mode_that_is_none_is_refused_before_any_tensor(run_rollouts: RunRollouts) -> None:
    own = await run_rollouts()
    with pytest.raises(InvalidRequest):
        await own.client.push_weights(1, weights_of(1), activate="now")

    async def only() -> AsyncIterator[rollout_pb2.PushWeightsRequest]:
        yield rollout_pb2.PushWeightsRequest(policy_version=1, activate=99)  # type: ignore[arg-type]

    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await own.client._stub.PushWeights(only())
    error = error_of(refused.value)
    assert isinstance(error, InvalidRequest)
    assert error.field == "activate"


async def test_an_activation_that_is_refused_leaves_the_push_staged(
    run_rollouts: RunRollouts,
) -> None:
    own = await run_rollouts()
    session = await own.client.open_session("s", sampling=LONG)
    pause, n = await held_while_they_run(own, session)
    with pytest.raises(FailedPrecondition) as refused:
        await own.client.push_weights(1, weights_of(1), activate="finish")
    assert refused.value.field == "mode"
    assert (await own.client.policy_version(), own.engine.ready_version) == (0, 1)
    await own.client.resume(pause)
    assert (await own.client.activate(1, mode="finish")).policy_version == 1
    assert len(await take(session, n)) == n


async def some_are_decoded(own: Rollouts) -> None:
    before = own.runtime.stats().decode_tokens
    async with asyncio.timeout(S_MAX):
        while own.runtime.stats().decode_tokens == before:
            await asyncio.sleep(0.001)


@pytest.mark.parametrize("by", ["a call", "the push"])
async def test_rollouts_keep_their_weights_where_their_session_says_so(
    run_rollouts: RunRollouts, by: str
) -> None:
    own = await run_rollouts()
    await own.client.open_session("other", sampling=LONG, at_activation="retract")
    session = await own.client.open_session("s", sampling=LONG, at_activation="finish")
    for version in range(1, 4):
        await session.submit([replace(p, group_id=f"{version}/{p.group_id}") for p in prompts(3)])
        await some_are_decoded(own)
        if by == "a call":
            await own.client.push_weights(version, weights_of(version))
            await own.client.activate(version)
        else:
            await own.client.push_weights(version, weights_of(version), activate="sessions")
        assert await own.client.policy_version() == version
        for group in await take(session, 3):
            assert all(len(one.policy_versions) == 1 for one in group.trajectories)


@pytest.mark.parametrize(
    ("said", "mode", "chosen"),
    [
        ([], "sessions", "IN_PLACE"),
        (["in_place"], "sessions", "IN_PLACE"),
        (["in_place", "retract"], "sessions", "RETRACT"),
        (["retract", "finish", "in_place"], "sessions", "FINISH"),
        (["finish"], "in_place", "IN_PLACE"),
        (["in_place"], "finish", "FINISH"),
    ],
)
async def test_the_strictest_of_the_callers_sessions_decides_unless_the_call_does(
    run_rollouts: RunRollouts,
    monkeypatch: pytest.MonkeyPatch,
    said: list[str],
    mode: str,
    chosen: str,
) -> None:
    tenants = {"owner": tenant("o", operate=True), "guest": tenant("g", operate=False)}
    own = await run_rollouts(tenants=tenants)
    activate, used = own.runtime.activate, list[PauseMode]()

    def noted(version: int, *, mode: PauseMode, timeout_s: float) -> Activation:
        used.append(mode)
        done: Activation = activate(version, mode=mode, timeout_s=timeout_s)
        return done

    monkeypatch.setattr(own.runtime, "activate", noted)
    async with (
        RolloutClient(own.address, token="o") as owner,
        RolloutClient(own.address, token="g") as guest,
    ):
        await guest.open_session("strict", sampling=SAMPLED, at_activation="finish")
        for i, one in enumerate(said):
            await owner.open_session(f"s{i}", sampling=SAMPLED, at_activation=one)
        await owner.push_weights(1, weights_of(1), activate=mode)
        await owner.activate(0, mode=mode)
    assert [one.name for one in used] == [chosen, chosen]


async def test_what_is_no_mode_is_refused_by_its_field(run_rollouts: RunRollouts) -> None:
    own = await run_rollouts()
    with pytest.raises(InvalidRequest):
        await own.client.open_session("s", at_activation="sessions")
    session = rollout_pb2.Session(session_id="s", at_activation=99)  # type: ignore[arg-type]
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await own.client._stub.OpenSession(rollout_pb2.OpenSessionRequest(session=session))
    error = error_of(refused.value)
    assert isinstance(error, InvalidRequest)
    assert error.field == "session.at_activation"


async def test_a_version_that_is_not_staged_is_refused_by_its_field(
    run_rollouts: RunRollouts,
) -> None:
    own = await run_rollouts()
    for version in (-1, 9, 1 << 40):
        with pytest.raises(FailedPrecondition) as refused:
            await own.client.activate(version)
        assert refused.value.field == "policy_version"
