"""A caller that has every call of the rollout service running at once, until it is killed.

python -m tests.rollout.service.vanishing ADDRESS SEED
"""

from __future__ import annotations

import asyncio
import random
import sys
from typing import TYPE_CHECKING, Any

from tests.rollout.service.attacks import STAGED_NEVER, prompt, session, submission
from tests.rollout.service.pushing import pieces
from tests.rollout.service.test_service import weights_of

from assay.client.rollouts import RolloutClient
from assay.client.rollouts.pushes import full_push
from assay.v1 import rollout_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

NAME, KEPT = "vanishing", "kept"
LONG = pb.Sampling(temperature=0.8, max_tokens=80)


async def begin(client: RolloutClient, rng: random.Random) -> list[asyncio.Future[Any]]:
    """All of them, in any order."""
    stub: Any = client._stub
    shown = {"metadata": client._connection.metadata}
    await stub.OpenSession(session(NAME), **shown)
    long = [prompt(n, k=4, sampling=LONG) for n in range(9)]
    await stub.SubmitPrompts(submission(NAME, *long), **shown)
    every = [one async for one in pieces(full_push(STAGED_NEVER, 0.0), weights_of(1))]

    async def stalled() -> AsyncIterator[Any]:
        for one in every[: rng.randrange(len(every))]:
            yield one
        await asyncio.Event().wait()

    async def kept() -> None:
        await stub.Pause(pb.PauseRequest(pause_id=KEPT, hold_ms=100), **shown)
        await stub.KeepPaused(pb.KeepPausedRequest(pause_id=KEPT), **shown).read()

    made: list[Any] = [
        lambda: stub.StreamGroups(pb.StreamGroupsRequest(session_id=NAME), **shown).read(),
        lambda: stub.StreamTrace(pb.StreamTraceRequest(), **shown).read(),
        lambda: stub.PushWeights(stalled(), **shown),
        lambda: stub.Pause(pb.PauseRequest(mode=pb.PAUSE_MODE_FINISH), **shown),
        kept,
        lambda: stub.Activate(pb.ActivateRequest(mode=pb.PAUSE_MODE_FINISH), **shown),
        lambda: stub.Activate(pb.ActivateRequest(mode=pb.PAUSE_MODE_RETRACT), **shown),
        lambda: stub.CancelRollouts(pb.CancelRolloutsRequest(session_id=NAME), **shown),
        lambda: stub.SubmitPrompts(submission(NAME, prompt(99)), **shown),
        lambda: stub.GetStatus(pb.GetStatusRequest(rollouts=True), **shown),
    ]
    rng.shuffle(made)
    return [asyncio.ensure_future(one()) for one in made]


async def main(address: str, seed: int) -> None:
    async with RolloutClient(address, token="x") as client:
        calls = await begin(client, random.Random(seed))
        print("begun", flush=True)
        await asyncio.gather(*calls, return_exceptions=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
