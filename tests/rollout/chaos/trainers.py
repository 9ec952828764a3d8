"""Trainers: they submit groups, read them, cancel some, and vanish."""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING, Protocol

from assay.client import Backoff
from assay.client.rollouts import Prompt, RolloutClient, SamplingParams, StepBatch

if TYPE_CHECKING:
    import random
    from collections.abc import Mapping, Sequence

    from tests.rollout.chaos.record import Record

    from assay.client.rollouts import RolloutGroup, RolloutSession

SAMPLED = SamplingParams(temperature=0.8, top_k=40)
PATIENT = Backoff(first_s=0.01, longest_s=0.5, total_s=300.0)
LOST_S = 300.0
"""A group that does not come for this long is lost."""


class Listening(Protocol):
    """A service; `Rollouts` is one."""

    @property
    def address(self) -> str: ...


async def train(
    name: str,
    own: Listening,
    rng: random.Random,
    record: Record,
    seconds: float,
    *,
    scored: float = 0.7,
    tokens_max: int = 40,
) -> None:
    """Sessions one after the other, at least one; this share of them has rewards."""
    clock = asyncio.get_running_loop().time
    until_s = clock() + seconds
    for step in itertools.count():
        prompts = _prompts(f"{name}.{step}", rng, tokens_max)
        await _session(f"{name}.{step}", own, rng, record, prompts, scored=rng.random() < scored)
        if clock() >= until_s:
            return


async def _session(
    name: str,
    own: Listening,
    rng: random.Random,
    record: Record,
    asked: Sequence[Prompt],
    *,
    scored: bool,
) -> None:
    prompts = {prompt.group_id: prompt for prompt in asked}
    came: dict[str, RolloutGroup] = {}
    submitted = False
    while len(came) < len(prompts):
        client = RolloutClient(own.address, backoff=PATIENT)
        try:
            pipeline = "noop" if scored else ""
            session = await client.open_session(name, sampling=SAMPLED, pipeline=pipeline)
            if not submitted or rng.random() < 0.3:  # the same again is no other group
                last = StepBatch(batch_id="b", last=True)
                await session.submit(prompts.values(), batches=[last])
            submitted = True
            if rng.random() < 0.2:
                await session.cancel(rng.sample(sorted(prompts), 1))
            patience = rng.choice([1, 2, len(prompts), len(prompts)])
            if not await _read(session, prompts, came, patience, record):
                return
            if rng.random() < 0.1:
                return  # it vanishes for good, and leaves its session open
            if len(came) == len(prompts):
                await session.close()
        finally:
            await client._connection.close()  # without a word to the service
    record.groups += [(prompts[key], scored, group) for key, group in came.items()]


def _prompts(name: str, rng: random.Random, tokens_max: int) -> list[Prompt]:
    return [
        Prompt(
            group_id=f"{name}/{i}",
            prompt_ids=[rng.randrange(1, 60) for _ in range(rng.randrange(1, 20))],
            k=rng.randrange(1, 7),
            seed=rng.randrange(1 << 40),
            sampling=SamplingParams(max_tokens=rng.randrange(1, tokens_max)),
            reference={},
            batch_id="b",
        )
        for i in range(rng.randrange(1, 6))
    ]


async def _read(
    session: RolloutSession,
    prompts: Mapping[str, Prompt],
    came: dict[str, RolloutGroup],
    patience: int,
    record: Record,
) -> bool:
    """Read some of the groups that have not come; whether none is lost."""
    groups = session.groups()
    try:
        async with asyncio.timeout(LOST_S):
            async for group in groups:
                before = came.setdefault(group.group_id, group)
                if group.group_id not in prompts or _said(before) != _said(group):
                    record.wrong.append(f"{group.group_id}: came again with other content")
                session.acknowledge(group)
                patience -= 1
                if patience <= 0 or len(came) == len(prompts):
                    return True
    except TimeoutError:
        record.wrong.append(f"lost: {sorted(prompts.keys() - came.keys())}")
    finally:
        await groups.aclose()
    return False


def _said(group: RolloutGroup) -> list[tuple[object, ...]]:
    return [
        (one.outcome, one.reward, one.response_ids.tolist(), one.rollout_logp.tolist())
        for one in group.trajectories
    ]
