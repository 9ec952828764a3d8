"""Random sequences of calls, each on a rollout service of its own.

    python -m tests.rollout.sequences [--seed N] [--count 200] [--length 80]

Prints the seed of each sequence that fails, with its calls, and exits non-zero.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import random
import secrets
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Final

import structlog
from tests.rollout.sequences.attack import CALLS, Sequence, run
from tests.rollout.service.test_service import by_its_last_digit
from tests.running import own_shard, running_api, working

from assay.store.embedded import EmbeddedValkey

BESIDE_EACH_OTHER: Final = 4
"""Most of a sequence is waiting for connections."""
S_MAX: Final = 600.0


def sequence(seed: int, length: int) -> Sequence:
    """The calls of a seed."""
    rng = random.Random(seed)
    names = [*CALLS, "submit", "submit", "read"]
    beginning = ("open", rng.randrange(1 << 16))
    more = range(rng.randrange(1, length))
    return [beginning, *((rng.choice(names), rng.randrange(1 << 16)) for _ in more)]


async def main(seed: int, count: int, length: int) -> int:
    """Run them; return the exit status."""
    failed = 0
    turn = asyncio.Semaphore(BESIDE_EACH_OTHER)

    async def one(number: int, port: int) -> None:
        nonlocal failed
        calls = sequence(number, length)
        async with turn:
            try:
                async with asyncio.timeout(S_MAX):
                    await run(calls, port)
            except Exception:  # noqa: BLE001 - whatever it is, it is reported with the calls that led to it
                failed += 1
                print(
                    f"PROBLEM seed {number}: {calls}\n{traceback.format_exc(limit=-4)}", flush=True
                )

    with tempfile.TemporaryDirectory(prefix="assay-sequences-") as folder:
        valkey = EmbeddedValkey(Path(folder) / "valkey")
        await valkey.start()
        try:
            store = own_shard(valkey)
            async with running_api(store, Path(folder)) as api, working(store, by_its_last_digit):
                port = int(api.addresses.grpc.rpartition(":")[2])
                await asyncio.gather(*(one(seed + i, port) for i in range(count)))
        finally:
            await valkey.stop()
    print(f"sequences: {count} from seed {seed}; problems: {failed}")
    return int(failed > 0)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=secrets.randbelow(2**32))
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--length", type=int, default=80)
    chosen = parser.parse_args()
    quiet = structlog.make_filtering_bound_logger(logging.CRITICAL)
    structlog.configure(wrapper_class=quiet)  # most calls are refused on purpose
    sys.exit(asyncio.run(main(chosen.seed, chosen.count, chosen.length)))
