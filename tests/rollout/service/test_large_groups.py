"""A group as large as the contract allows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

pytest.importorskip("numpy")

from tests.rollout.service.test_service import by_its_last_digit, take

from assay.client import Outcome
from assay.client.rollouts import Prompt, SamplingParams
from assay.core.advantages import advantages
from assay.core.errors import InvalidRequest

if TYPE_CHECKING:
    from tests.rollout.service.served import RunRollouts
    from tests.running import Running, RunWorker


K_MAX = 1_024


def prompt(group_id: str, k: int) -> Prompt:
    return Prompt(group_id=group_id, prompt_ids=[5, 6, 7], k=k, seed=10, reference={})


async def test_a_group_of_the_largest_size_is_decoded_judged_and_returned_as_one(
    run_rollouts: RunRollouts, api: Running, run_worker: RunWorker
) -> None:
    await run_worker(by_its_last_digit)
    own = await run_rollouts(api.addresses.grpc, slots=K_MAX)
    sampling = SamplingParams(temperature=1.0, max_tokens=3)
    session = await own.client.open_session("s", sampling=sampling, pipeline="noop")
    with pytest.raises(InvalidRequest) as refused:
        await session.submit([prompt("small", 1), prompt("g", K_MAX + 1)])
    assert refused.value.field == "prompts[1].k"
    assert await session.submit([prompt("g", K_MAX), prompt("after", 2)]) == 2

    first, second = await take(session, 2)
    group = max(first, second, key=lambda one: len(one.trajectories))
    assert [one.member for one in group.trajectories] == list(range(K_MAX))
    assert [one.seed for one in group.trajectories] == list(range(10, 10 + K_MAX))
    assert {len(one.response_ids) for one in group.trajectories} == {3}
    for one in group.trajectories:
        last = one.response_ids[-1]
        judged = last % 5 != 0
        assert one.outcome == (Outcome.SCORED if judged else Outcome.INFRA_FAILED)
        assert one.reward == (float(last % 2 == 0) if judged else None)
    assert group.advantages() == advantages([one.reward for one in group.trajectories])
    # What was computed for the prompt once served all of them.
    stats = own.runtime.stats()
    assert stats.slots_free == K_MAX - stats.in_flight
    assert stats.prefill_tokens < 3 * K_MAX
