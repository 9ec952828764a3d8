"""The trainer's loop: scored rollouts from the rollout service, weights pushed after each step.

The next step's prompts are submitted before the trainer works on the present ones, so that
decoding, scoring and training overlap; a group is then one version behind. Everything goes through
the public client, as any trainer's would.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from assay.cli.demo.tally import Tally
from assay.client.rollouts import (
    Prompt,
    RolloutClient,
    RolloutGroup,
    RolloutSession,
    SamplingParams,
    StepBatch,
    Weight,
)
from assay.core.errors import DependencyDown
from assay.rollout.demo import task, training
from assay.rollout.demo.transformer import Shape, Weights, initial

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Sequence

K: Final = 8
"""Responses per prompt."""
HELD_OUT_K: Final = 2
DEADLINE_S: Final = 20.0
"""When a step's rewards are needed."""
WARM_RATE: Final = 3e-3
RATE: Final = 6e-4
"""At the first training step; it falls to 0 over all of them."""
MINIBATCHES: Final = 4
"""Optimizer steps per training step, each on a part of its responses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What one training step saw and did."""

    number: int
    reward: float
    """Mean over the scored responses."""
    degenerate: float
    """Share of groups whose rewards are all equal: nothing is learnt from them."""
    unscored: int
    staleness: float
    """Mean over groups: the version that is trained minus the oldest that sampled a token."""
    late: bool
    """Whether a reward came after the step's deadline."""
    clipped: float
    """Share of tokens whose importance ratio is outside of the bound."""
    push_s: float
    pause_s: float
    took_s: float


@dataclass(slots=True)
class Learner:
    """The model that is trained, and its optimizer."""

    shape: Shape
    weights: Weights
    chance: random.Random
    optimizer: training.Adam = field(default_factory=lambda: training.Adam(RATE))

    @classmethod
    def warm(cls, seed: int, steps: int, tell: Callable[[float], None]) -> Learner:
        """A model after supervised steps; `tell` gets the loss of each."""
        shape, chance = Shape(), random.Random(seed)  # noqa: S311 no secret
        weights, optimizer = initial(shape, seed), training.Adam(WARM_RATE)
        known = task.problems(held_out=False)
        for _ in range(steps):
            chosen = task.draw(chance, known, 64)
            loss, gradients = training.supervised(shape, weights, chosen)
            weights = optimizer.update(weights, gradients)
            tell(loss)
        return cls(shape, weights, chance)

    def slow_down(self, done: float) -> None:
        """Set the rate after this share of the training."""
        self.optimizer.rate = RATE * (1.0 - done)

    def learn(self, samples: Sequence[training.Sample]) -> float:
        """Some steps of the policy's loss, on parts of the samples; returns the clipped share."""
        mixed, clipped = self.chance.sample(samples, len(samples)), 0.0
        parts = [mixed[at::MINIBATCHES] for at in range(min(MINIBATCHES, len(mixed)))]
        for part in parts:
            step = training.policy(self.shape, self.weights, part)
            self.weights = self.optimizer.update(self.weights, step.gradients)
            clipped += step.clipped / len(parts)
        return clipped


class Loop:
    """Drives one session of the rollout service."""

    def __init__(
        self,
        client: RolloutClient,
        session: RolloutSession,
        learner: Learner,
        *,
        prompts: int,
        now: Callable[[], float],
    ) -> None:
        self._client, self._session, self._learner = client, session, learner
        self._prompts, self._now = prompts, now
        self._groups: AsyncGenerator[RolloutGroup, None] = session.groups()
        self._waiting: dict[str, list[RolloutGroup]] = {}
        self._known = task.problems(held_out=False)
        self._held_out = task.problems(held_out=True)
        self._ids: dict[str, str] = {}
        self._sent_at: dict[str, float] = {}
        self.tallies = {"training": Tally(), "held-out": Tally()}

    async def close(self) -> None:
        """End the stream of groups."""
        await self._groups.aclose()

    async def held_out(self, name: str) -> float:
        """Mean reward on the prompts that are never trained on, as sampled for training.

        Raises:
            DependencyDown: not one response was judged.
        """
        await self._submit(name, self._held_out, HELD_OUT_K, seed=1)
        groups = await self._of(name, len(self._held_out))
        for group in groups:
            self.tallies["held-out"].add(group)
        rewards = [t.reward for g in groups for t in g.trajectories if t.reward is not None]
        if not rewards:
            why = groups[0].trajectories[0].evidence.error
            raise DependencyDown(f"no response to the held-out prompts was judged: {why}")
        return float(np.mean(rewards))

    async def run(self, steps: int, tell: Callable[[Step], None]) -> None:
        """Train; `tell` gets each step."""
        await self._submit_step(0)
        for number in range(steps):
            if number + 1 < steps:
                await self._submit_step(number + 1)
            self._learner.slow_down(number / steps)
            tell(await self._step(number))

    async def _submit_step(self, number: int) -> None:
        chosen = task.draw(self._learner.chance, self._known, self._prompts)
        await self._submit(f"step-{number}", chosen, K, seed=1_000_000 * (number + 1))

    async def _submit(
        self, batch: str, chosen: Sequence[task.Problem], k: int, *, seed: int
    ) -> None:
        self._sent_at[batch] = self._now()
        self._ids |= {f"{batch}/{one.name}": batch for one in chosen}
        await self._session.submit(
            [
                Prompt(
                    group_id=f"{batch}/{one.name}",
                    prompt_ids=task.encode(one.prompt),
                    k=k,
                    seed=seed + k * at,
                    reference={"answers": [one.answer]},
                    batch_id=batch,
                )
                for at, one in enumerate(chosen)
            ],
            batches=[StepBatch(batch_id=batch, deadline_s=DEADLINE_S, last=True)],
        )

    async def _of(self, batch: str, count: int) -> list[RolloutGroup]:
        """All groups of a batch; those of later ones are kept."""
        while len(self._waiting.get(batch, ())) < count:
            group = await anext(self._groups)
            self._session.acknowledge(group)
            self._waiting.setdefault(self._ids.pop(group.group_id), []).append(group)
        return self._waiting.pop(batch)

    async def _step(self, number: int) -> Step:
        began, version = self._now(), number
        groups = await self._of(f"step-{number}", self._prompts)
        waited_s = self._now() - self._sent_at.pop(f"step-{number}")
        clipped = await asyncio.to_thread(self._learner.learn, samples_of(groups))
        push_s, pause_s = await self._push(version + 1)
        unscored = sum(self.tallies["training"].add(group) for group in groups)
        rewards = [t.reward for g in groups for t in g.trajectories]
        scored = [reward for reward in rewards if reward is not None]
        return Step(
            number=number,
            reward=float(np.mean(scored)) if scored else 0.0,
            degenerate=sum(not any(group.advantages()) for group in groups) / len(groups),
            unscored=unscored,
            staleness=float(np.mean([version - _oldest(g, version) for g in groups])),
            late=waited_s > DEADLINE_S,
            clipped=clipped,
            push_s=push_s,
            pause_s=pause_s,
            took_s=self._now() - began,
        )

    async def _push(self, version: int) -> tuple[float, float]:
        tensors = {
            name: Weight(dtype="F32", shape=tensor.shape, data=tensor.astype("<f4").tobytes())
            for name, tensor in self._learner.weights.items()
        }
        pushed = await self._client.push_weights(version, tensors)
        return pushed.stage_s, (await self._client.activate(version)).pause_s


def samples_of(groups: Sequence[RolloutGroup]) -> list[training.Sample]:
    """What is trained on: responses with an advantage, and the log-probs recorded of them."""
    return [
        training.Sample(group.prompt_ids, one.response_ids, one.rollout_logp, advantage)
        for group in groups
        for one, advantage in zip(group.trajectories, group.advantages(), strict=True)
        if advantage  # None: not judged; 0: nothing to learn
    ]


def _oldest(group: RolloutGroup, version: int) -> int:
    """The oldest version of a token in it; `version` where there is none."""
    versions = (sampled for t in group.trajectories for sampled, _ in t.policy_versions)
    return min(versions, default=version)


async def open_loop(
    client: RolloutClient, learner: Learner, *, prompts: int, now: Callable[[], float]
) -> Loop:
    """Open a session whose responses are scored by the pipeline `exact`."""
    session = await client.open_session(
        "demo",
        pipeline="exact",
        sampling=SamplingParams(
            temperature=1.0, max_tokens=task.RESPONSE_MAX, stop_ids=(task.STOP,)
        ),
    )
    return Loop(client, session, learner, prompts=prompts, now=now)
