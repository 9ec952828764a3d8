"""Faults: of the reward service, of pushes, of activations."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from tests.rollout.service.pushing import pieces, serialized
from tests.rollout.service.test_service import weights_of

from assay.client.rollouts.pushes import full_push
from assay.core.errors import AssayError, FailedPrecondition, InvalidRequest

if TYPE_CHECKING:
    import random
    from collections import Counter
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    from tests.rollout.chaos.record import Record
    from tests.rollout.service.served import Rollouts

    from assay.client.rollouts import Weight
    from assay.config.settings import StoreSettings
    from assay.v1 import rollout_pb2

    Turns = list[tuple[str, Callable[[], Awaitable[None]]]]

START_S_MAX = 240.0
BETWEEN_S = (0.0, 0.3)
"""Between two faults of weights; the more of them, the more swaps are in progress."""
BETWEEN_KILLS_S = (0.0, 5.0)


class RewardProcess:
    """`python -m assay.reward`, killed and started again on the same port."""

    def __init__(self, store: StoreSettings, folder: Path) -> None:
        self._store, self._folder = store, folder
        self._process: asyncio.subprocess.Process | None = None
        self.address, self._port = "", "0"

    async def start(self) -> None:
        """Start it and wait until it listens."""
        sign = self._folder / "run" / "reward.json"
        await asyncio.to_thread(sign.unlink, missing_ok=True)
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("ASSAY_")}
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "assay.reward"),
            env={
                **inherited,
                "ASSAY_DATA_DIR": str(self._folder),
                "ASSAY_STORE__URL": self._store.url,
                "ASSAY_STORE__SHARD": self._store.shard,
                "ASSAY_REWARD__GRPC_PORT": self._port,
                "ASSAY_REWARD__HTTP_PORT": "0",
            },
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        async with asyncio.timeout(START_S_MAX):
            while not await asyncio.to_thread(sign.exists):
                await asyncio.sleep(0.05)
        said = json.loads(await asyncio.to_thread(sign.read_text))
        self.address = said["grpc"]
        self._port = self.address.rpartition(":")[2]

    async def stop(self) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(signal.SIGKILL)
            await self._process.wait()

    async def ensure(self) -> None:
        """Start it if it does not run."""
        if self._process is None or self._process.returncode is not None:
            await self.start()


class Faults:
    """One method per fault; each returns when the service has dealt with it."""

    def __init__(
        self, own: Rollouts, rewards: RewardProcess, rng: random.Random, record: Record
    ) -> None:
        self._own, self._rewards, self._rng, self._record = own, rewards, rng, record
        self._version = 0

    async def reward_service_killed(self) -> None:
        await self._rewards.stop()
        await asyncio.sleep(self._rng.uniform(0.0, 1.0))
        await self._rewards.start()

    async def _divided(self) -> list[rollout_pb2.PushWeightsRequest]:
        """The messages of a push, of random sizes; at least two, the last with a tensor."""
        push, weights = full_push(self._next(), 0.0), self._weights()
        together, piece = self._rng.choice([1, 10_000, 40_000]), self._rng.choice([5_000, 1 << 20])
        return [
            one async for one in pieces(push, weights, together_bytes=together, piece_bytes=piece)
        ]

    async def push_cut(self) -> None:
        every = await self._divided()

        async def first_ones() -> AsyncIterator[rollout_pb2.PushWeightsRequest]:
            for piece in every[: self._rng.randrange(1, len(every))]:
                yield piece
            cut.set()
            await asyncio.Event().wait()

        cut = asyncio.Event()
        call = self._own.client._stub.PushWeights(first_ones())
        await cut.wait()
        call.cancel()
        while self._own.engine._staging.locked():
            await asyncio.sleep(0.02)
        await self._expect_unstaged("a push that was cut")

    async def wrong_checksum(self) -> None:
        every = await self._divided()
        heads = [[one.tensor] if one.HasField("tensor") else list(one.tensors) for one in every]
        self._rng.choice([head for some in heads for head in some]).sha256 = "0" * 64

        async def all_of_them() -> AsyncIterator[rollout_pb2.PushWeightsRequest]:
            for piece in every:
                yield piece

        pushing = self._own.client._push(serialized(all_of_them()))
        await self._expect(InvalidRequest, pushing, "a wrong checksum")
        await self._expect_unstaged("a wrong checksum")

    async def wrong_shape(self) -> None:
        weights = self._weights()
        name = self._rng.choice(sorted(weights))
        weights[name] = replace(weights[name], shape=(7, *weights[name].shape))
        pushing = self._own.client.push_weights(self._next(), weights)
        await self._expect(InvalidRequest, pushing, "a wrong shape")
        await self._expect_unstaged("a wrong shape")

    async def new_weights(self) -> None:
        await self._pushed()
        await self._own.client.activate(self._version, mode=self._rng.choice(["finish", "retract"]))

    async def activation_while_the_slot_drains(self) -> None:
        """FINISH waits for running rollouts; meanwhile others push and activate."""
        await self._pushed()
        draining = asyncio.create_task(self._own.client.activate(self._version, mode="finish"))
        await asyncio.sleep(0)
        absent = self._own.client.activate(self._version + 1_000_000, mode="retract")
        await self._expect(FailedPrecondition, absent, "weights that are not staged")
        try:
            await self._pushed()
        except FailedPrecondition:  # the slot is busy, or was exchanged meanwhile
            self._version -= 1
        try:
            await draining
        except FailedPrecondition:  # its weights were overwritten before the slot had drained
            return

    async def rollback(self) -> None:
        await self._pushed()
        done = await self._own.client.activate(self._version, mode="finish")
        await self._own.client.activate(done.previous_version, mode="retract")
        if await self._own.client.policy_version() != done.previous_version:
            self._record.wrong.append("a rollback did not bring the previous weights back")

    async def pause(self) -> None:
        held = await self._own.client.pause(mode=self._rng.choice(["in_place", "retract"]))
        await asyncio.sleep(self._rng.uniform(0.0, 0.3))
        await self._own.client.resume(held)

    # -- parts of them -------------------------------------------------------------------------
    def _next(self) -> int:
        self._version += 1
        return self._version

    def _weights(self) -> dict[str, Weight]:
        return weights_of(self._version)

    async def _pushed(self) -> None:
        version = self._next()
        await self._own.client.push_weights(version, weights_of(version))

    async def _expect(self, kind: type[AssayError], call: Awaitable[object], what: str) -> None:
        try:
            await call
        except kind:
            return
        self._record.wrong.append(f"{what} was accepted")

    async def _expect_unstaged(self, what: str) -> None:
        activating = self._own.client.activate(self._version, mode="retract")
        await self._expect(FailedPrecondition, activating, f"activating {what}")


async def break_things(
    own: Rollouts,
    rewards: RewardProcess,
    rng: random.Random,
    counts: Counter[str],
    record: Record,
) -> None:
    """Faults of the reward service, and beside them those of weights, until cancelled."""
    faults = Faults(own, rewards, rng, record)
    of_rewards: Turns = [("reward service killed", faults.reward_service_killed)]
    of_weights: Turns = [
        ("push cut", faults.push_cut),
        ("wrong checksum", faults.wrong_checksum),
        ("wrong shape", faults.wrong_shape),
        *3 * [("new weights", faults.new_weights)],
        ("activation while the slot drains", faults.activation_while_the_slot_drains),
        ("rollback", faults.rollback),
        ("pause", faults.pause),
    ]
    async with asyncio.TaskGroup() as chains:
        for turns, between_s in ((of_rewards, BETWEEN_KILLS_S), (of_weights, BETWEEN_S)):
            chains.create_task(_one_after_the_other(turns, between_s, rng, counts, record))


async def _one_after_the_other(
    turns: Turns,
    between_s: tuple[float, float],
    rng: random.Random,
    counts: Counter[str],
    record: Record,
) -> None:
    while True:
        rng.shuffle(turns)
        for name, fault in turns:
            await asyncio.sleep(rng.uniform(*between_s))
            try:
                await fault()
            except AssayError as error:
                record.wrong.append(f"{name}: {error!r}")
            counts[name] += 1
