"""Pushes that activate what they stage: one call per step in place of two."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import grpc
import pytest

pytest.importorskip("numpy")

from tests.rollout.service.test_pauses import LONG, held_while_they_run
from tests.rollout.service.test_pushes import CASES, safetensors, tensors
from tests.rollout.service.test_service import SAMPLED, prompts, take, weights_of

from assay.client.failures import error_of
from assay.core.errors import FailedPrecondition, InvalidRequest
from assay.v1 import rollout_pb2

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.rollout.service.served import RunRollouts


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
