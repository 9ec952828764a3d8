"""A member that fails in the engine is made again; its siblings are kept.

What the engine says of chosen rollouts as they end is replaced: their logits were not finite.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pytest

pytest.importorskip("numpy")

from tests.rollout.service.test_service import by_its_last_digit, take

from assay.client import Outcome
from assay.client.rollouts import Prompt, SamplingParams
from assay.rollout.layout import RolloutOutcome, Stop

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.rollout.service.served import Rollouts, RunRollouts
    from tests.running import Running, RunWorker

    from assay.client.rollouts import RolloutGroup
    from assay.rollout import Completed, ScoreRequest

K: Final = 6
SEED: Final = 40


def failing(own: Rollouts, often: dict[int, int]) -> None:
    """Members by seed, and how often each fails as it ends."""
    listener, left = own.service.flights.on_ready, dict(often)

    def seen(one: Completed) -> Completed:
        member = own.service.flights._flights[one.user_id].member
        if left.get(member.seed, 0) == 0:
            return one
        left[member.seed] -= 1
        return replace(one, outcome=RolloutOutcome.NOT_FINITE, stop=Stop.NONE, reward=None)

    def on_ready(responses: Sequence[ScoreRequest], ended: Sequence[Completed]) -> None:
        listener(responses, [seen(one) for one in ended])

    own.service.flights.on_ready = on_ready  # type: ignore[method-assign]


async def one_group(own: Rollouts, pipeline: str) -> RolloutGroup:
    sampling = SamplingParams(temperature=1.0, max_tokens=8)
    session = await own.client.open_session("s", sampling=sampling, pipeline=pipeline)
    prompt = Prompt(group_id="g", prompt_ids=[1, 2, 3], k=K, seed=SEED, reference={})
    await session.submit([prompt])
    [group] = await take(session, 1)
    await session.close()
    assert own.runtime.stats().in_flight == 0
    assert own.runtime.audit() == 0
    return group


@pytest.mark.parametrize("pipeline", ["", "noop"])
async def test_a_member_that_fails_once_is_the_same_member_and_twice_is_no_reward(
    run_rollouts: RunRollouts, api: Running, run_worker: RunWorker, pipeline: str
) -> None:
    await run_worker(by_its_last_digit)
    undisturbed = await one_group(await run_rollouts(api.addresses.grpc), pipeline)
    own = await run_rollouts(api.addresses.grpc)
    failing(own, {SEED + 1: 1, SEED + 4: 2})
    group = await one_group(own, pipeline)

    assert [one.attempts for one in group.trajectories] == [1, 2, 1, 1, 2, 1]
    for at, (one, before) in enumerate(
        zip(group.trajectories, undisturbed.trajectories, strict=True)
    ):
        assert one.seed == before.seed
        if at == 4:
            assert one.finish_reason in {"failed", "cancelled"}
            assert (one.outcome, one.reward) == (Outcome.INFRA_FAILED, None)
        else:
            assert (one.outcome, one.reward) == (before.outcome, before.reward)
            assert one.response_ids.tolist() == before.response_ids.tolist()
            assert one.rollout_logp.tolist() == before.rollout_logp.tolist()
    assert own.sample("assay_rollouts_retried_total") == 2
