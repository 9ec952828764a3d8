"""Random faults between a rollout service and its engine's server: no token is lost or changed.

    python -m tests.rollout.chaos.remote [--seed N] [--seconds 60]

The service is in this process; its engine is `python -m assay.rollout.server`, reached through a
relay. Trainers open sessions, submit groups, read, cancel and vanish. The seed draws the faults:
the server is killed, or stopped in order, and started again; it stands still for a while; all
connections to it are reset, at once or after some more bytes; nothing passes for a while. Exits
non-zero unless

* every group of a trainer that stays was returned, whole, and no rollout ended as a failure;
* every token and log-prob is, bit for bit, what the native engine makes;
* some streams were lost in the middle, and their rollouts continued;
* at the end no rollout or slot is missing or left over, and the service is ready.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import random
import secrets
import signal
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import structlog
from tests.rollout.chaos.record import Record, misjudged
from tests.rollout.chaos.trainers import train
from tests.rollout.checkpoints import write_checkpoint
from tests.rollout.service.test_remote_engine import Own, service
from tests.rollout.test_remote import COMMANDS, Process
from tests.rollout.test_weight_slots import alone

from assay.rollout.models import Engine, load_model

if TYPE_CHECKING:
    from collections.abc import Iterator

TRAINERS = 3
AWAY_S = 200.0
TOKENS_MAX = 150
"""Of a response; one of a few tokens is never in the middle when a fault comes."""
SETTLE_S_MAX = 120.0
PIECE_BYTES = 1 << 16
BYTES_MORE = 2_000
"""Most bytes that still pass before connections are reset."""


class Relay:
    """Passes bytes between the service and the server, until a fault."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._open: set[asyncio.StreamWriter] = set()
        self._passes = asyncio.Event()
        self._passes.set()
        self._left: int | None = None
        """Bytes until all connections are reset."""

    async def start(self) -> str:
        """Listen; the URL."""
        self._server = await asyncio.start_server(self._joined, "127.0.0.1", 0)
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def stop(self) -> None:
        self._server.close()
        self.reset()

    def reset(self, after_bytes: int = 0) -> None:
        """Reset all connections, now or when this many bytes more have passed."""
        if after_bytes:
            self._left = after_bytes
            return
        self._left = None
        for one in self._open:
            one.transport.abort()

    async def hold(self, seconds: float) -> None:
        """Let nothing pass."""
        self._passes.clear()
        await asyncio.sleep(seconds)
        self._passes.set()

    async def _joined(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there = await asyncio.open_connection("127.0.0.1", self._port)
        except OSError:
            writer.transport.abort()
            return
        self._open |= {writer, there[1]}
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(self._passing(reader, there[1]))
                both.create_task(self._passing(there[0], writer))
        finally:
            self._open -= {writer, there[1]}

    async def _passing(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(PIECE_BYTES):
                await self._passes.wait()
                if self._left is not None:
                    writer.write(data[: self._left])
                    self._left -= len(data)
                    if self._left <= 0:
                        self.reset()
                        break
                else:
                    writer.write(data)
                await writer.drain()
        writer.close()


class Faults:
    """One method per fault; each returns when the server answers again, or soon will."""

    def __init__(self, server: Process, relay: Relay, rng: random.Random) -> None:
        self._server, self._relay, self._rng = server, relay, rng

    async def killed(self) -> None:
        await asyncio.to_thread(self._server.kill)
        await self._again()

    async def stopped_in_order(self) -> None:
        self._signal(signal.SIGTERM)
        assert self._server.running is not None
        await asyncio.to_thread(self._server.running.wait, 60)
        await self._again()

    async def stands_still(self) -> None:
        self._signal(signal.SIGSTOP)
        await asyncio.sleep(self._rng.uniform(0.1, 2.0))
        self._signal(signal.SIGCONT)

    async def connections_reset(self) -> None:
        self._relay.reset()

    async def streams_cut(self) -> None:
        self._relay.reset(after_bytes=self._rng.randrange(1, BYTES_MORE))

    async def nothing_passes(self) -> None:
        await self._relay.hold(self._rng.uniform(0.1, 2.0))

    async def _again(self) -> None:
        await asyncio.sleep(self._rng.uniform(0.0, 1.0))
        await asyncio.to_thread(self._server.start)

    def _signal(self, number: signal.Signals) -> None:
        assert self._server.running is not None
        self._server.running.send_signal(number)


async def break_things(faults: Faults, rng: random.Random, counts: Counter[str]) -> None:
    """One fault after the other, until cancelled; those of connections are more frequent."""
    often = [faults.connections_reset, faults.streams_cut, faults.streams_cut]
    turns = [faults.killed, faults.stopped_in_order, faults.stands_still, faults.nothing_passes]
    while True:
        some = [*turns, *often, *often]
        rng.shuffle(some)
        for fault in some:
            await asyncio.sleep(rng.uniform(0.0, 1.0))
            await fault()
            counts[fault.__name__.replace("_", " ")] += 1


def changed(record: Record, model: Path) -> Iterator[str]:
    """Trajectories that the native engine would not make."""
    with Engine.create(load_model(model), COMMANDS) as engine:
        for prompt, _, group in record.groups:
            for one in group.trajectories:
                ids = one.response_ids.tolist()
                made, told = alone(engine, list(prompt.prompt_ids), len(ids), one.seed)
                if made != ids or not np.array_equal(np.array(told, np.float32), one.rollout_logp):
                    yield f"{group.group_id}[{one.member}]: tokens or log-probs differ"


async def leftovers(own: Own) -> list[str]:
    """What is still missing or left when everything had time to come back."""
    until_s = time.monotonic() + SETTLE_S_MAX
    while True:
        status = await own.client.status()
        found = {
            "rollouts in flight": status.engine["in_flight"],
            "slots": 12 - status.engine["slots_free"],
            "sessions": status.sessions,
            "not ready": status.not_ready,
            "no stream was lost": not status.engine["lost"],
        }
        left = [f"{name}: {what}" for name, what in found.items() if what]
        if not left or time.monotonic() > until_s:
            print(f"streams lost: {status.engine['lost']} of {status.engine['requests']}")
            return left
        await asyncio.sleep(0.2)


async def run(seed: int, seconds: float) -> int:
    """Run everything; return the exit status."""
    rng, record, counts = random.Random(seed), Record(), Counter[str]()
    with tempfile.TemporaryDirectory(prefix="assay-chaos-") as name:
        model = write_checkpoint(
            Path(name, "base.bin"), dim=128, hidden=256, layers=4, positions=1024
        )
        server = Process(model)
        await asyncio.to_thread(server.start)
        relay = Relay(server.port)
        try:
            url = await relay.start()
            async with service(Path(name), engine_url=url, engine_away_s=AWAY_S) as own:
                breaking = asyncio.create_task(
                    break_things(Faults(server, relay, rng), rng, counts)
                )
                async with asyncio.TaskGroup() as training:
                    for number in range(TRAINERS):
                        chance = random.Random(seed + number)
                        training.create_task(
                            train(
                                f"t{number}",
                                own,
                                chance,
                                record,
                                seconds,
                                scored=0.0,
                                tokens_max=TOKENS_MAX,
                            )
                        )
                breaking.cancel()
                [ended] = await asyncio.gather(breaking, return_exceptions=True)
                if not isinstance(ended, asyncio.CancelledError):
                    record.wrong.append(f"the faults ended: {ended!r}")
                await asyncio.to_thread(server.kill)
                await asyncio.to_thread(server.start)
                serving = own.api.server._service
                for key in list(serving._sessions):  # of trainers that vanished for good
                    await serving.close_session(key)
                left = await leftovers(own)
        finally:
            await relay.stop()
            server.kill()
        wrong = [*record.wrong, *misjudged(record), *changed(record, model), *left]
    return tell(record, counts, wrong)


def tell(record: Record, counts: Counter[str], wrong: list[str]) -> int:
    """Print what happened; non-zero when a check failed."""
    for name, count in sorted(counts.items()):
        print(f"fault {name}: {count}")
    print(f"groups returned: {len(record.groups)}; outcomes: {dict(record.outcomes)}")
    for problem in wrong[:20]:
        print(f"PROBLEM {problem}")
    print(f"problems: {len(wrong)}")
    return int(bool(wrong))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=secrets.randbelow(2**32))
    parser.add_argument("--seconds", type=float, default=60.0)
    chosen = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    print(f"seed {chosen.seed}", flush=True)
    sys.exit(asyncio.run(run(chosen.seed, chosen.seconds)))
