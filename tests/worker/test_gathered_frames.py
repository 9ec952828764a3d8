"""A slot that sends a frame per request has them read together, and none is lost or held back."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from tests.worker.claims import held

from assay.sandbox.accounting.blocked import BlockedTime
from assay.worker.assignment import Assignment
from assay.worker.forking.processes import Condition
from assay.worker.slots.frames import encode
from assay.worker.slots.process import GATHER_S, SlotProcess

WAIT_S = 30.0


class Forked:
    """A slot without a process: the test has the other end of its channel."""

    def __init__(self) -> None:
        self.ours, self.theirs = socket.socketpair()
        self.is_killed = False

    def watch(self, on_end: Callable[[], None]) -> None:
        """It never ends by itself."""

    async def connect(self, protocol: asyncio.Protocol) -> None:
        await asyncio.get_running_loop().connect_accepted_socket(lambda: protocol, self.ours)

    def kill(self) -> None:
        self.is_killed = True

    def close(self) -> None:
        self.theirs.close()

    def cpu_ns(self) -> int:
        return 0

    def blocked_time(self) -> BlockedTime:
        raise NotImplementedError

    def condition(self) -> Condition:
        raise NotImplementedError


class Scene:
    """A slot with an assignment; each frame `(number)` is the verdict of that work."""

    def __init__(self, works: int, *, individually: bool) -> None:
        self.forked = Forked()
        each = [held(str(number)) for number in range(works)]
        self.assignment = Assignment(held=each, individually=individually)
        self.seen: list[object] = []
        self.ends: list[str] = []
        self.changed = asyncio.Event()
        self.slot = SlotProcess(
            self.forked,
            number=1,
            scratch=Path(),
            asked_ns=0,
            on_frame=self.on_frame,
            on_gone=self.on_gone,
        )
        self.slot.assignment = self.assignment

    def on_frame(self, _slot: SlotProcess, frame: list[object]) -> None:
        [number] = frame
        assert isinstance(number, int)
        assert self.assignment.take(number) is not None
        self.seen.append(number)
        self.changed.set()

    def on_gone(self, _slot: SlotProcess, why: str) -> None:
        self.ends.append(why)
        self.changed.set()

    def say(self, *numbers: int) -> None:
        self.forked.theirs.sendall(b"".join(map(encode, numbers)))

    async def until(self, is_so: Callable[[], bool]) -> None:
        async with asyncio.timeout(WAIT_S):
            while not is_so():
                self.changed.clear()
                await self.changed.wait()

    @property
    def is_reading(self) -> bool:
        transport = self.slot._transport
        return transport is not None and transport.is_reading()


@pytest.fixture
async def scene(request: pytest.FixtureRequest) -> AsyncIterator[Scene]:
    works, individually = request.param
    made = Scene(works, individually=individually)
    await made.slot.connect()
    yield made
    made.slot.kill("the test is over")
    made.forked.theirs.close()
    await asyncio.sleep(0)  # the transport closes


@pytest.mark.parametrize("scene", [(5, True)], indirect=True)
async def test_frames_behind_the_first_are_read_in_one_go(scene: Scene) -> None:
    scene.say(0)
    await scene.until(lambda: scene.seen == [0])
    assert not scene.is_reading
    scene.say(1)
    scene.say(2)
    await asyncio.sleep(0)
    assert scene.seen == [0]
    await scene.until(lambda: len(scene.seen) > 1)
    assert scene.seen == [0, 1, 2]


@pytest.mark.parametrize("scene", [(2, True), (1, True), (5, False)], indirect=True)
async def test_what_is_the_last_frame_is_read_when_it_comes(scene: Scene) -> None:
    scene.say(0)
    await scene.until(lambda: scene.seen == [0])
    assert scene.is_reading


@pytest.mark.parametrize("scene", [(4, True)], indirect=True)
async def test_frames_that_gather_count_before_the_slots_end(scene: Scene) -> None:
    scene.say(0)
    await scene.until(lambda: scene.seen == [0])
    scene.say(1, 2)
    scene.forked.theirs.close()
    await scene.until(lambda: bool(scene.ends))
    assert scene.seen == [0, 1, 2]


@pytest.mark.parametrize("scene", [(4, True)], indirect=True)
async def test_a_slot_that_is_killed_while_frames_gather_ends_once(scene: Scene) -> None:
    scene.say(0)
    await scene.until(lambda: scene.seen == [0])
    scene.say(1)
    scene.slot.kill("a limit")
    assert scene.ends == ["a limit"]
    await asyncio.sleep(2 * GATHER_S)
    assert scene.ends == ["a limit"]
    assert scene.seen == [0]
