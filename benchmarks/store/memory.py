"""What a request holds of the store's memory: while it waits, and after it has ended.

    python -m benchmarks.store.memory [--requests 20000]

An embedded Valkey and one batch of requests with a 1 KB response, a 100-byte reference and a
200-byte body, as in `benchmarks.store.calls`. Prints bytes per request and how many fit into a GiB.
These do not depend on the machine's load.
"""

import argparse
import asyncio

from redis.asyncio import Redis

from assay.core.records import Quota
from assay.store.link import SLICE
from benchmarks.store.calls import END, STAGE, TENANT, WORKER, _open, _report, _requests, opened

LEASE_S = 600.0


async def used(redis: Redis) -> int:
    """Bytes of the store's memory that hold data."""
    return int((await redis.info("memory"))["used_memory"])


async def measure(count: int) -> None:
    """Fill a batch, then judge it."""
    async with opened() as (server, store):
        redis = Redis.from_url(server.url)
        before = await used(redis)
        batch = await _open(store, "memory", count)
        requests = _requests(count)
        for first in range(0, count, 1_000):
            await store.submit(TENANT, batch, requests[first : first + 1_000], Quota())
        waiting = await used(redis)
        while claims := await store.claim(STAGE, claims_max=SLICE, lease_s=LEASE_S, worker=WORKER):
            await store.finish(STAGE, [_report(claim, END) for claim in claims], 3)
        ended = await used(redis)
        await redis.aclose()
    for what, now in (("waits", waiting), ("has ended", ended)):
        each = (now - before) / count
        print(f"a request that {what}: {each:,.0f} bytes; {2**30 / each:,.0f} per GiB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=20_000)
    asyncio.run(measure(parser.parse_args().requests))


if __name__ == "__main__":
    main()
