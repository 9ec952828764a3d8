"""Scores on a running API and prints what came back, as JSON: `python score_once.py HOST:PORT`.

Run by `test_dependency_ranges` in environments with other versions of gRPC and protobuf.
"""

import asyncio
import faulthandler
import json
import sys

import google.protobuf
import grpc

from assay.client import Client, Request, SyncClient, rollouts

SECONDS_MAX = 120.0
REFERENCE = {"answers": ["Paris"]}


def _requests() -> list[Request]:
    responses = ("Paris", "Rome", "\ud800", "Paris\x00")
    return [
        Request(request_id=f"p/k{n}", group_id="p", response=text, reference=REFERENCE)
        for n, text in enumerate(responses)
    ]


async def _stream(url: str) -> dict[str, float | None]:
    async with Client(url) as client:
        task = await client.register_task("ranges", pipeline="exact")
        batch = await client.open_batch(task, size=4, group_size=4)
        await batch.submit(_requests())
        return {result.request_id: result.reward async for result in batch.results()}


def main(url: str) -> None:
    """Score at once and as a stream; when that takes too long, show where it waits."""
    faulthandler.dump_traceback_later(SECONDS_MAX, exit=True)
    scored = SyncClient(url).score(_requests(), pipeline="exact").rewards
    found = {
        "grpcio": grpc.__version__,
        "protobuf": google.protobuf.__version__,
        "scored": list(scored),
        "streamed": asyncio.run(_stream(url)),
        "rollouts": rollouts.RolloutClient.__name__,
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1])
