"""The asynchronous client of the rollout service.

    async with RolloutClient("127.0.0.1:8480") as client:
        session = await client.open_session("run-7", pipeline="math", max_tokens=256)
        await session.submit([Prompt(group_id="p1", text="2 + 3 =", k=8, seed=1,
                                     reference={"answers": ["5"]})])
        async for group in session.groups():
            for trajectory in group.trajectories:
                trajectory.response_ids, trajectory.rollout_logp, trajectory.reward
            session.acknowledge(group)

Token columns are memoryviews into the message (`int32`, `uint8`, `float32`): `numpy.asarray(view)`
and `torch.frombuffer(view, dtype=...)` see them without a copy. Everything may be repeated: a group
that was submitted twice is one group; groups that were not acknowledged come again.
"""

from assay.client.rollouts.client import RolloutClient
from assay.client.rollouts.session import RolloutSession
from assay.client.rollouts.types import (
    Activated,
    NextTurn,
    Prompt,
    PushedWeights,
    RolloutGroup,
    SamplingParams,
    StepBatch,
    Trajectory,
    Weight,
)

__all__ = [
    "Activated",
    "NextTurn",
    "Prompt",
    "PushedWeights",
    "RolloutClient",
    "RolloutGroup",
    "RolloutSession",
    "SamplingParams",
    "StepBatch",
    "Trajectory",
    "Weight",
]
