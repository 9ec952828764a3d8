"""Acknowledged writes that are lost when the store is killed with SIGKILL and restarted.

    python -m benchmarks.store.durability [--trials 25] [--seed N] [--json]

In each trial, writers count upwards in their own keys on an embedded store, while other processes
keep the disk busy with large synced writes. The server is killed at a random time and restarted,
and each counter is compared with the last value acknowledged to its writer. Compares the server's
own `appendfsync everysec` with the embedded store's two settings. Exits non-zero when a setting of
the embedded store lost a write.
"""

import argparse
import asyncio
import contextlib
import multiprocessing
import os
import random
import secrets
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from assay.store.embedded import EmbeddedValkey
from benchmarks.harness.report import Report, percentile

WRITERS = 8
VALUE = "x" * 20_000
HOGS = 3
HOG_CHUNK = os.urandom(8 * 1024**2)
HOG_CHUNKS = 32
KILL_AFTER_S = (1.5, 4.0)
SERVERS_OWN = "server's everysec"
SETTINGS = (SERVERS_OWN, "everysec", "always")


@dataclass(slots=True)
class Counted:
    """All trials of one setting."""

    trials_with_loss: int = 0
    lost: int = 0
    lost_most: int = 0
    acknowledged: int = 0
    latencies_s: list[float] = field(default_factory=list)


def hog(folder: str) -> None:
    """Write and sync a large file repeatedly."""
    with tempfile.NamedTemporaryFile(dir=folder) as file:
        while True:
            file.seek(0)
            for _ in range(HOG_CHUNKS):
                file.write(HOG_CHUNK)
            file.flush()
            os.fsync(file.fileno())


@contextmanager
def busy_disk(folder: Path) -> Iterator[None]:
    """Keep the disk of `folder` busy."""
    context = multiprocessing.get_context("spawn")
    hogs = [context.Process(target=hog, args=(str(folder),), daemon=True) for _ in range(HOGS)]
    for one in hogs:
        one.start()
    try:
        yield
    finally:
        for one in hogs:
            one.terminate()
        for one in hogs:
            one.join()


async def write(server: EmbeddedValkey, key: str, told: dict[str, int], counted: Counted) -> None:
    """Count upwards until the server is killed."""
    once = Retry(NoBackoff(), 0)  # a repeated write would be counted twice
    async with Redis.from_url(server.url, retry=once) as redis:
        with contextlib.suppress(RedisError, OSError):
            while True:
                before_s = time.monotonic()
                told[key] = int(await redis.incr(key))
                counted.latencies_s.append(time.monotonic() - before_s)
                await redis.set(f"{key}-ballast", VALUE)


async def trial(folder: Path, setting: str, rng: random.Random, counted: Counted) -> None:
    """One trial: write, kill, restart, compare."""
    server = EmbeddedValkey(folder, appendfsync=setting if setting == "always" else "everysec")
    await server.start()
    keeper = asyncio.create_task(server.keep_alive())
    try:
        if setting == SERVERS_OWN:
            async with Redis.from_url(server.url) as redis:
                await redis.config_set("appendfsync", "everysec")
        told: dict[str, int] = {}
        writers = [
            asyncio.create_task(write(server, f"writer-{index}", told, counted))
            for index in range(WRITERS)
        ]
        await asyncio.sleep(rng.uniform(*KILL_AFTER_S))
        assert server.pid is not None
        os.kill(server.pid, signal.SIGKILL)
        await asyncio.gather(*writers)
        lost = sum(await losses(server, told))
    finally:
        keeper.cancel()
        await asyncio.gather(keeper, return_exceptions=True)
        await server.stop()
    counted.acknowledged += sum(told.values())
    counted.trials_with_loss += lost > 0
    counted.lost += lost
    counted.lost_most = max(counted.lost_most, lost)


async def losses(server: EmbeddedValkey, told: dict[str, int]) -> list[int]:
    """Writes acknowledged to each writer that are missing after the restart."""
    async with Redis.from_url(server.url) as redis:
        while True:
            try:
                there = await redis.mget(list(told))
            except (RedisError, OSError):
                await asyncio.sleep(0.05)
                continue
            return [
                max(0, n - int(value or 0)) for n, value in zip(told.values(), there, strict=True)
            ]


async def main(trials: int, seed: int, *, as_json: bool) -> int:
    """Run everything; return the exit status."""
    print(f"seed {seed}", file=sys.stderr)
    rng = random.Random(seed)
    found = {setting: Counted() for setting in SETTINGS}
    with tempfile.TemporaryDirectory(prefix="assay-durability-") as name, busy_disk(Path(name)):
        for number in range(trials):
            for setting in SETTINGS:  # alternating: disk load affects all settings equally
                folder = Path(name) / f"{setting.replace(' ', '-')}-{number}"
                await trial(folder, setting, rng, found[setting])
    columns = ("setting", "trials", "with loss", "acknowledged", "lost", "most", "p50_ms", "p99_ms")
    report = Report(title="Acknowledged writes lost by kill -9 of the store", columns=columns)
    for setting, counted in found.items():
        report.add(
            setting=setting,
            trials=trials,
            acknowledged=counted.acknowledged,
            lost=counted.lost,
            most=counted.lost_most,
            p50_ms=1e3 * percentile(counted.latencies_s, 0.5),
            p99_ms=1e3 * percentile(counted.latencies_s, 0.99),
            **{"with loss": counted.trials_with_loss},
        )
    report.show(as_json=as_json)
    return int(any(found[setting].lost for setting in SETTINGS if setting != SERVERS_OWN))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=25)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(2**32))
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    sys.exit(asyncio.run(main(chosen.trials, chosen.seed, as_json=chosen.json)))
