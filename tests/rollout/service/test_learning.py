"""Learning is right: what was sampled from is what the trainer's weights say, to the token.

The trainer here is `Exact`, a forward pass in double precision that shares no code with the engine.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("numpy")

import numpy as np
from tests.rollout.engine.exact import Exact, probabilities
from tests.rollout.service.test_service import S_MAX, prompts, take, weights_of
from tests.rollout.test_weight_slots import version_of

from assay.client.rollouts import SamplingParams
from assay.core.errors import FailedPrecondition
from assay.rollout.models.driver import TokenSampling

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from tests.rollout.service.served import RunRollouts

    from assay.client.rollouts import RolloutGroup, Trajectory

TEMPERATURE = 0.9
RATIO_OFF_MAX = 1e-3


def ratios(version: int, group: RolloutGroup, one: Trajectory) -> NDArray[np.float64]:
    """pi_trainer / pi_rollout of each token, by the trainer's weights of this version."""
    ids = [*group.prompt_ids.tolist(), *one.response_ids.tolist()]
    logits = np.asarray(Exact(version_of(version)).logits(ids))
    how = TokenSampling(temperature=TEMPERATURE)
    first = len(group.prompt_ids) - 1
    found = []
    for at, (token, logp) in enumerate(zip(one.response_ids, one.rollout_logp, strict=True)):
        exact = probabilities(logits[first + at], how)[token]
        found.append(np.log(exact) - logp)
    return np.exp(np.array(found, dtype=np.float64))


async def test_ratios_are_1_for_the_policy_that_sampled_and_only_for_it(
    run_rollouts: RunRollouts,
) -> None:
    own = await run_rollouts()
    session = await own.client.open_session(
        "s", sampling=SamplingParams(temperature=TEMPERATURE, max_tokens=16)
    )
    await session.submit(prompts(3))
    for version in (0, 1):
        for group in await take(session, 3):
            for one in group.trajectories:
                assert [v for v, _ in one.policy_versions] == [version]
                assert np.abs(ratios(version, group, one) - 1).max() < RATIO_OFF_MAX
                assert np.abs(ratios(1 - version, group, one) - 1).max() > 10 * RATIO_OFF_MAX
        await own.client.push_weights(version + 1, weights_of(version + 1))
        await own.client.activate(version + 1)
        await session.submit(prompts(3))


@pytest.mark.parametrize("said", ["in_place", "retract"])
async def test_tokens_on_both_sides_of_a_swap_carry_both_versions_and_the_log_probs_of_each(
    run_rollouts: RunRollouts, said: str
) -> None:
    own = await run_rollouts()
    await own.client.push_weights(1, weights_of(1))
    session = await own.client.open_session(
        "s",
        sampling=SamplingParams(temperature=TEMPERATURE, max_tokens=64),
        at_activation=said,
    )
    mixed = 0
    for turn in range(40):
        await session.submit(
            [replace(p, group_id=f"{turn}/{p.group_id}", seed=turn) for p in prompts(2)]
        )
        active = turn % 2
        await own.client.activate(1 - active)
        for group in await take(session, 2):
            for one in group.trajectories:
                assert sum(n for _, n in one.policy_versions) == len(one.response_ids)
                if len(one.policy_versions) > 1:
                    mixed += 1
                    assert [v for v, _ in one.policy_versions] == [active, 1 - active]
                    (_, n), *_ = one.policy_versions
                    assert np.abs(ratios(active, group, one)[:n] - 1).max() < RATIO_OFF_MAX
                    if said == "retract":  # in place, keys and values of the old weights are used
                        after = ratios(1 - active, group, one)[n:]
                        assert np.abs(after - 1).max() < RATIO_OFF_MAX
        if mixed:
            break
    assert mixed, "no swap fell into a response"


async def test_weights_that_wait_for_the_running_rollouts_make_no_token_of_theirs(
    run_rollouts: RunRollouts,
) -> None:
    """While the slot drains, an activation of weights that are not staged retracts nothing."""
    own = await run_rollouts()
    await own.client.push_weights(1, weights_of(1))
    session = await own.client.open_session(
        "s", sampling=SamplingParams(temperature=TEMPERATURE, max_tokens=64)
    )
    await session.submit(prompts(4))
    async with asyncio.timeout(S_MAX):
        while not (await own.client.status()).engine["decode_tokens"]:
            await asyncio.sleep(0.001)
    draining = asyncio.create_task(own.client.activate(1, mode="finish"))
    with pytest.raises(FailedPrecondition):
        await own.client.activate(7, mode="retract")
    assert (await draining).policy_version == 1
    made = set()
    for group in await take(session, 4):
        for one in group.trajectories:
            [(version, tokens)] = one.policy_versions
            assert tokens == 64
            assert np.abs(ratios(version, group, one) - 1).max() < RATIO_OFF_MAX
            made.add(version)
    assert 0 in made
