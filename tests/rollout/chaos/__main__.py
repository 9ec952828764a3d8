"""Random faults on a rollout service while trainers use it: nothing is lost, mixed or leaked.

    python -m tests.rollout.chaos [--seed N] [--seconds 60]

The service decodes a random model in this process. The reward service is a process that is killed
with SIGKILL and started again; a stand-in for a worker host judges. Trainers open sessions, submit
groups, read, cancel, and vanish, some of them for good. The seed draws one fault after the other:
the reward service is killed; beside that, pushes are cut or wrong, new weights are activated, while
the slot drains too, a rollback, pauses. Exits non-zero unless

* every group of a trainer that stays was returned, whole, with one outcome per trajectory, and a
  reward exactly when a judge gave one;
* every token and log-prob is, bit for bit, what an engine that never held other weights makes with
  those of the token's version;
* at the end no slot, credit, block of keys and values, file or thread is missing or left over.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import os
import random
import secrets
import sys
import tempfile
import time
from collections import Counter
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

import structlog
from tests.rollout.chaos.faults import RewardProcess, break_things
from tests.rollout.chaos.record import Record, Reference, misjudged
from tests.rollout.chaos.trainers import train
from tests.rollout.service.served import Rollouts, leftovers, rollouts
from tests.rollout.service.test_service import by_its_last_digit
from tests.running import own_shard, working

from assay.client import Backoff
from assay.store.embedded import EmbeddedValkey

TRAINERS = 3
SETTLE_S_MAX = 120.0
REST_READINGS = 20
POOL_THREADS = 64
GRPC_THREAD = "event_engine"


@dataclass(frozen=True)
class Held:
    """What this process holds of the system."""

    files: Counter[str]
    """By what is open: a path, or a kind such as `socket`."""
    threads: Counter[str]
    """By name."""

    @classmethod
    def now(cls) -> Held:
        own = Path("/proc/self")
        threads: Counter[str] = Counter()
        for task in (own / "task").iterdir():
            with suppress(OSError):  # it has ended
                threads[(task / "comm").read_text().strip()] += 1
        files: Counter[str] = Counter()
        for link in (own / "fd").iterdir():
            with suppress(OSError):  # the listing itself
                files[os.readlink(link).partition(":[")[0]] += 1
        return cls(files, threads)

    def more_than(self, before: Held) -> dict[str, int]:
        """What was not there before. gRPC starts and ends threads of its pool as the load says."""
        threads = self.threads - before.threads
        del threads[GRPC_THREAD]
        named = {f"threads named {name}": count for name, count in threads.items()}
        left = self.files.total() - before.files.total()
        kinds = ", ".join(f"{kind} {n}" for kind, n in (self.files - before.files).items())
        return {f"file descriptors ({kinds})": max(0, left), **named}


async def at_rest() -> Held:
    """With the fewest files of some readings: connections of those who left are still closing."""
    readings = []
    for _ in range(REST_READINGS):
        readings.append(Held.now())
        await asyncio.sleep(0.1)
    return min(readings, key=lambda one: one.files.total())


async def settled(own: Rollouts, before: Held | None) -> list[str]:
    """What is still missing or left when everything had time to come back."""
    until_s = time.monotonic() + SETTLE_S_MAX
    while True:
        gc.collect()
        more = {} if before is None else Held.now().more_than(before)
        left = [*leftovers(own), *(f"{name}: {count}" for name, count in more.items() if count)]
        if not left or time.monotonic() > until_s:
            return left
        await asyncio.sleep(0.2)


async def run(seed: int, seconds: float) -> int:
    """Run everything; return the exit status."""
    rng, record, faults = random.Random(seed), Record(), Counter[str]()
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="assay-chaos-")))
        valkey = EmbeddedValkey(folder / "valkey")
        await valkey.start()
        stack.push_async_callback(valkey.stop)
        store = own_shard(valkey)
        rewards = RewardProcess(store, folder)
        await rewards.start()
        stack.push_async_callback(rewards.stop)
        await stack.enter_async_context(working(store, by_its_last_digit))
        patient = Backoff(first_s=0.05, longest_s=0.5, total_s=300.0)
        serving = rollouts(rewards.address, desk_backoff=patient)
        own = await stack.enter_async_context(serving)
        # The executor's threads are started before they are counted, with one trainer's round.
        await asyncio.gather(*(asyncio.to_thread(time.sleep, 0.01) for _ in range(POOL_THREADS)))
        await train("warm-up", own, random.Random(seed), record, 0.0)
        await settled(own, None)
        await own.client.policy_version()  # its connection is no leftover
        before = await at_rest()
        breaking = asyncio.create_task(break_things(own, rewards, rng, faults, record))
        async with asyncio.TaskGroup() as training:
            for number in range(TRAINERS):
                turn = train(f"t{number}", own, random.Random(seed + number), record, seconds)
                training.create_task(turn)
        print(f"trainers done, faults so far: {faults.total()}", flush=True)
        breaking.cancel()
        await asyncio.gather(breaking, return_exceptions=True)
        await rewards.ensure()
        for key in list(own.service._sessions):  # those of trainers that vanished for good
            await own.service.close_session(key)
        left = await settled(own, before)
        print(f"settled: {not left}; comparing tokens with their weights'", flush=True)
    return tell(record, faults, left)


def tell(record: Record, faults: Counter[str], left: list[str]) -> int:
    """Print what happened; non-zero when a check failed."""
    wrong = [*record.wrong, *misjudged(record), *Reference().mixed(record)]
    for name, count in sorted(faults.items()):
        print(f"fault {name}: {count}")
    print(f"groups returned: {len(record.groups)}; outcomes: {dict(record.outcomes)}")
    print(f"weights used: {len(record.versions)}; trajectories of two versions: {record.spanning}")
    for problem in [*wrong[:20], *left]:
        print(f"PROBLEM {problem}")
    print(f"problems: {len(wrong) + len(left)}")
    return int(bool(wrong or left))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=secrets.randbelow(2**32))
    parser.add_argument("--seconds", type=float, default=60.0)
    chosen = parser.parse_args()
    quiet = structlog.make_filtering_bound_logger(logging.CRITICAL)
    structlog.configure(wrapper_class=quiet)  # most calls are refused on purpose
    print(f"seed {chosen.seed}", flush=True)
    sys.exit(asyncio.run(run(chosen.seed, chosen.seconds)))
