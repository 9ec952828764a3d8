"""Two agents in one session whose conversations continue from any earlier point, at the same time.

Every turn is trained once: where the trajectories have sampled tokens, they have exactly those that
the agents were given, after exactly the tokens that the engine had as the prompt.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from itertools import groupby
from typing import TYPE_CHECKING, Any

from tests.seeds import drawn_seed

if TYPE_CHECKING:
    from tests.rollout.gateway.gateways import RunGateway

TURNS = 12
"""Of each agent."""
Said = list[dict[str, Any]]
Turn = tuple[tuple[int, ...], tuple[int, ...]]
"""Token ids of the prompt and of the response."""


def turns_of(trajectory: dict[str, Any]) -> list[Turn]:
    """Each run of sampled tokens after all that was before it."""
    whole, found = list(trajectory["prompt_ids"]), []
    ids, at = trajectory["response_ids"], 0
    for sampled, run in groupby(trajectory["response_mask"]):
        n = len(list(run))
        if sampled:
            found.append((tuple(whole), tuple(ids[at : at + n])))
        whole += ids[at : at + n]
        at += n
    return found


async def test_each_turn_is_trained_once_however_conversations_fork_and_join(
    run_gateway: RunGateway,
) -> None:
    seed = drawn_seed()
    own = await run_gateway()
    session = await own.open(sampling={"temperature": 0.9})
    points: list[Said] = [[]]
    """Conversations that were had, which any agent may go on with."""
    given: Counter[Turn] = Counter()

    async def agent(rng: random.Random) -> None:
        for number in range(TURNS):
            before = rng.choice(points if rng.random() < 0.5 else points[-2:])
            asked = [*before, {"role": "user", "content": f"{rng.choice('abc')}{number % 3}"}]
            answer = await own.complete(
                session, messages=asked, max_tokens=rng.randrange(1, 6), return_token_ids=True
            )
            [choice] = answer["choices"]
            given[tuple(answer["prompt_token_ids"]), tuple(choice["token_ids"])] += 1
            if len(asked) < 8:
                points.append([*asked, choice["message"]])

    await asyncio.gather(*(agent(random.Random(seed + i)) for i in range(2)))
    read = await own.read(session)
    trained = Counter(turn for one in read["trajectories"] for turn in turns_of(one))
    assert trained == given
    counts = read["counts"]
    assert counts["joined"] + counts["forked"] + counts["started"] == 2 * TURNS
    assert min(counts["joined"], counts["forked"], counts["started"]) > 0
