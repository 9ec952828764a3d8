"""One group of K responses from a running rollout service, scored by a running platform.

./run up &
ASSAY_ROLLOUT__MODEL=MODEL python -m assay.rollout &
python examples/rollout_service.py --prompt "2 + 3 =" --answer 5 [--k 8]
"""

import argparse
import asyncio

from assay.client.rollouts import Prompt, RolloutClient, SamplingParams


async def show(chosen: argparse.Namespace) -> None:
    """Submit one prompt and print what came of it."""
    async with RolloutClient(chosen.url) as client:
        session = await client.open_session(
            "example", pipeline="math", sampling=SamplingParams(max_tokens=chosen.tokens)
        )
        prompt = Prompt(
            group_id=f"{chosen.prompt!r:.40}".encode().hex(),
            text=chosen.prompt,
            k=chosen.k,
            seed=chosen.seed,
            reference={"answers": [chosen.answer]},
        )
        await session.submit([prompt])
        async for group in session.groups():
            worth = group.advantages()
            for one, advantage in zip(group.trajectories, worth, strict=True):
                logp = sum(one.rollout_logp)
                print(f"{one.outcome} reward {one.reward} advantage {advantage} logp {logp:.2f}")
            session.acknowledge(group)
            break
        await session.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--url", default="127.0.0.1:8480")
    parser.add_argument("--prompt", default="2 + 3 =")
    parser.add_argument("--answer", default="5")
    parser.add_argument("--k", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tokens", type=int, default=64)
    asyncio.run(show(parser.parse_args()))
