"""Simulated slots: the processes behind `ForkedSlot`, with the real protocol in real frames.

A slot does what the responses of its assignment say (`pipelines`). Like a process, it may be killed
at any time; then its channel closes and its exit is seen, in either order.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from assay.core.codec import unpack_handover
from assay.core.errors import AssayError
from assay.core.ids import StageName
from assay.core.outcome import Outcome
from assay.core.verdict import Ended, Evidence, HandedOver, ResourceUse
from assay.sandbox.accounting.blocked import BlockedTime
from assay.sim.platform.nodes import Node
from assay.sim.platform.pipelines import CULPRITS, FIRST, GROUPS, Deed, SlotScript, script_of
from assay.worker.forking.client import ForkFailed
from assay.worker.forking.processes import Condition
from assay.worker.slots import messages
from assay.worker.slots.frames import SlotFrameReader, encode

FORK_S_MAX: Final = 0.05
SLOW_FORK_S_MAX: Final = 1.0
SLOW_FORK_SHARE: Final = 0.1
BEGIN_S_MAX: Final = 0.001
"""How late a slot reads an assignment."""
HEARD_S: Final = 0.001
"""After this time the host hears what a slot says, where works are short: the slot may have begun
the next work before."""
BRISK_SHARE: Final = 0.03
LONG_S_MIN: Final = 2.0
"""Durations that stay as they are."""
NOT_RETIRING: Final = False
ARTIFACT_KEY: Final = "program"


@dataclass(slots=True)
class SlotWorld:
    """Shared by the slots of all hosts: earlier attempts, and who started them."""

    tried: set[bytes] = field(default_factory=set)
    forks_fail: int = 0
    """Number of forks that will fail."""
    warm_s_max: float = 0.4
    """Longest start-up time of a slot."""
    slow: float = 1.0
    """Factor on all durations: a busy machine."""
    brisk: bool = False
    """Works that are not long take `BRISK_SHARE` of their time."""

    def service_s(self, script: SlotScript, stage: StageName) -> float:
        """How long a slot works."""
        service_s = script.service_s(stage) * self.slow
        return service_s * BRISK_SHARE if self.brisk and service_s < LONG_S_MIN else service_s


class SimBlocked(BlockedTime):
    """Blocked time of a slot, depending on whether it sleeps."""

    def __init__(self, slot: "SimSlot") -> None:
        super().__init__(lambda: ())
        self._slot = slot
        self._seen_ns = 0

    def begin(self, now_ns: int) -> None:
        self._seen_ns = now_ns

    def look(self, now_ns: int, *, due_ns: int, has_answered: int | None = None) -> None:
        if self._slot.deed is Deed.SLEEP:
            self.blocked_ns += now_ns - self._seen_ns
        self._seen_ns = now_ns


class SimForks:
    """Implements `SlotForks` for one host."""

    def __init__(self, node: Node, world: SlotWorld) -> None:
        self._node = node
        self._world = world
        self.slots: dict[SimSlot, None] = {}

    async def fork_slot(self, stage: StageName, number: int) -> "SimSlot":
        """See `SlotForks.fork_slot`."""
        draw = self._node.random
        longest_s = SLOW_FORK_S_MAX if draw.random() < SLOW_FORK_SHARE else FORK_S_MAX
        await asyncio.sleep(draw.random() * longest_s)
        self._node.check()
        if self._world.forks_fail:
            self._world.forks_fail -= 1
            raise ForkFailed("simulated")
        slot = SimSlot(self._node, self._world, stage, self)
        self.slots[slot] = None
        return slot

    async def close(self) -> None:
        """See `SlotForks.close`."""
        self.kill()

    def kill(self) -> None:
        """End all slots at once."""
        for slot in list(self.slots):
            slot.kill()


class SimTransport(asyncio.Transport):
    """The host's end of a slot's channel: what comes while it does not read is read later."""

    def __init__(
        self, slot: "SimSlot", protocol: asyncio.Protocol, loop: asyncio.AbstractEventLoop
    ) -> None:
        super().__init__()
        self._slot = slot
        self._protocol = protocol
        self._loop = loop
        self._unread = bytearray()
        self._is_reading = True
        self._is_lost = False
        """The other end is closed."""
        self._is_over = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send bytes to the slot."""
        self._slot.hear(bytes(data))

    def is_reading(self) -> bool:
        """Whether it reads what comes."""
        return self._is_reading and not self._is_over

    def pause_reading(self) -> None:
        """Leave what comes from now on."""
        self._is_reading = False

    def resume_reading(self) -> None:
        """Read on, beginning with what was left."""
        self._is_reading = True
        self._loop.call_soon(self._read)

    def abort(self) -> None:
        """Close the channel at once."""
        self._is_over = True

    def receive(self, data: bytes) -> None:
        """Bytes arrive from the slot."""
        self._unread += data
        self._read()

    def lose(self) -> None:
        """The other end closes, behind all bytes."""
        self._is_lost = True
        self._read()

    def _read(self) -> None:
        if self._unread and self.is_reading():
            data = bytes(self._unread)
            self._unread.clear()
            self._protocol.data_received(data)
        if self._is_lost and not self._unread and self.is_reading():
            self._is_over = True
            self._protocol.connection_lost(None)


class SimSlot:
    """Implements `ForkedSlot`, and simulates the process behind it."""

    def __init__(self, node: Node, world: SlotWorld, stage: StageName, forks: SimForks) -> None:
        self._node = node
        self._world = world
        self._stage = stage
        self._forks = forks
        self._loop = node.loop
        self._reader = SlotFrameReader()
        self._transport: SimTransport | None = None
        self._on_end: Callable[[], None] | None = None
        self._running: asyncio.Task[None] | None = None
        self._heard: deque[list[object]] = deque()
        """Assignments, and words that take them back, in order; not yet read by the slot."""
        self._at_work = False
        """It has an assignment, and has not said its last verdict, or has another one."""
        self._artifact: asyncio.Future[tuple[bytes | None, bool]] | None = None
        self._served = 0
        self._cpu_ns = 0
        self._burning_since_ns: int | None = None
        self.deed: Deed | None = None
        """Its current deed."""
        self.runs = asyncio.Event()
        """Cleared while a signal stops it."""
        self.runs.set()
        self.is_dead = False

    # -- the host's side -----------------------------------------------------------------------
    def watch(self, on_end: Callable[[], None]) -> None:
        """See `ForkedSlot.watch`."""
        self._on_end = on_end

    async def connect(self, protocol: asyncio.Protocol) -> None:
        """See `ForkedSlot.connect`."""
        self._transport = SimTransport(self, protocol, self._loop)
        protocol.connection_made(self._transport)
        self._loop.call_later(self.warm_s(), self._say, messages.READY, [])

    def warm_s(self) -> float:
        """How long this slot takes to start."""
        return self._node.random.random() * self._world.warm_s_max * self._world.slow

    def kill(self) -> None:
        """See `ForkedSlot.kill`."""
        if not self.is_dead:
            self.is_dead = True
            self._node.events += 1
            self._forks.slots.pop(self, None)
            if self._running is not None:
                self._running.cancel()
            if self._node.is_alive:
                self._loop.call_soon(self._end)

    def _end(self) -> None:
        if self._on_end is not None:
            self._on_end()

    def close(self) -> None:
        """See `ForkedSlot.close`."""
        self._on_end = None

    def cpu_ns(self) -> int:
        """See `ForkedSlot.cpu_ns`."""
        if self._burning_since_ns is None:
            return self._cpu_ns
        return self._cpu_ns + self._node.clock.monotonic_ns() - self._burning_since_ns

    def blocked_time(self) -> BlockedTime:
        """See `ForkedSlot.blocked_time`."""
        return SimBlocked(self)

    def condition(self) -> Condition:
        """See `ForkedSlot.condition`."""
        return Condition(state="S" if self.runs.is_set() else "T")

    # -- the process ---------------------------------------------------------------------------
    def die(self) -> None:
        """Exit: the channel closes, and then the host sees the exit."""
        transport = self._transport
        if self.is_dead:
            return
        self.kill()
        if transport is not None and self._node.is_alive:
            if self._world.brisk:  # after what it said
                self._loop.call_later(HEARD_S, transport.lose)
            else:
                self._loop.call_soon(transport.lose)

    def _say(self, *parts: object) -> None:
        self._node.events += 1
        if self.is_dead:
            return
        if self._world.brisk:
            self._loop.call_later(HEARD_S, self._deliver, encode(*parts))
        else:
            self._deliver(encode(*parts))

    def _deliver(self, data: bytes) -> None:
        self._node.events += 1
        if self._node.is_alive and self._transport is not None:
            self._transport.receive(data)

    def hear(self, data: bytes) -> None:
        """Receive bytes from the host."""
        for frame in self._reader.feed(data):
            if self.is_dead:
                return
            match frame[0]:
                case messages.WORK if not (self._world.brisk or self._at_work):
                    self._at_work = True
                    self._running = self._node.spawn(self._work_alone(frame), name="slot")
                case messages.WORK | messages.TAKE_BACK:
                    self._heard.append(frame)
                    if self._running is None or self._running.done():
                        self._running = self._node.spawn(self._serve(), name="slot")
                case messages.ARTIFACT:
                    if self._artifact is not None and not self._artifact.done():
                        self._artifact.set_result((frame[1], bool(frame[2])))  # type: ignore[arg-type]
                case messages.END:
                    self._loop.call_later(0.001, self.die)

    async def _serve(self) -> None:
        """Read what was heard, until nothing is left; it may be taken back while this begins."""
        while self._heard and not self.is_dead:
            frame = self._heard.popleft()
            if frame[0] == messages.TAKE_BACK:
                continue
            await asyncio.sleep(self._node.random.random() * BEGIN_S_MAX)
            if self._heard and self._heard[0][0] == messages.TAKE_BACK:
                self._heard.popleft()
                self._say(messages.TAKEN_BACK)
                continue
            if not await self._work(frame):
                return
        self._at_work = False

    async def _work_alone(self, frame: list[object]) -> None:
        if await self._work(frame):
            await self._serve()  # what it got ahead

    async def _work(self, frame: list[object]) -> bool:
        """Judge an assignment; whether another one waits behind it, and this slot serves on."""
        tasks, works, individually = messages.read_works(frame)
        together = not individually and len(works) > 1
        is_more = False
        said = []
        for at, wire in enumerate(works):
            started_ns = self._node.clock.monotonic_ns()
            if self._stage == GROUPS:
                words = await self._judge_group(wire, tasks[wire.task])
            else:
                script = script_of(wire)
                self.deed = script.deed
                words = await self._judge(script, wire, tasks[wire.task])
            self.deed = None
            if words is None:
                return False
            said.append((at, started_ns, self._node.clock.monotonic_ns(), words))
            self._served += 1
            if not together:
                self._at_work = at < len(works) - 1 or bool(self._heard)
                is_more = self._at_work  # the host hears it at once, and may send the next
                self._say(messages.VERDICTS, said, NOT_RETIRING)
                said = []
        if together:
            self._at_work = is_more = bool(self._heard)
            self._say(messages.VERDICTS, said, NOT_RETIRING)
        return is_more

    async def _judge(
        self, script: SlotScript, wire: messages.WireWork, task: messages.WireTask
    ) -> tuple[object, ...] | None:
        """The reply for it; `None`: there will be none."""
        await self._spend(script)
        key = wire.response + wire.messages + wire.reference + self._stage.encode()
        first_time = key not in self._world.tried
        self._world.tried.add(key)
        match script.deed:
            case Deed.POISON:
                self.die()
                return None
            case Deed.GARBAGE:
                self._say("no such word")
                return None
            case Deed.RAISE:
                return messages.failed("simulated")
            case Deed.FLAKY if first_time:
                return messages.failed("simulated, once")
            case Deed.RETIRE if self._served:
                self._say(messages.RETIRE)
                return None
            case Deed.SHARED:
                await self._use_artifact()
        return self._verdict(script, wire, task)

    async def _judge_group(
        self, wire: messages.WireWork, task: messages.WireTask
    ) -> tuple[object, ...] | None:
        """The members are judged at once, or none of them; a control stands for a harmless one."""
        members = [messages.WireWork(*one) for one in wire.members]
        scripts = [script_of(one) for one in members]
        culprits = {one.deed for one in scripts} & CULPRITS if not wire.control else set()
        if Deed.HOG in culprits:
            self.deed = Deed.BURN
            await self._spend(SlotScript(Deed.BURN, 0, 0, 0))
        await self._spend(max(scripts, key=lambda one: one.second_ms))
        if Deed.CRASH in culprits:
            self.die()
            return None
        if culprits:
            return messages.failed("simulated, of the group")
        keys = {one.response + one.messages + self._stage.encode() for one in members}
        tried = keys <= self._world.tried
        self._world.tried.update(keys)
        deeds = {script.deed for script in scripts}
        if Deed.FLAKY in deeds and not tried:
            return messages.failed("simulated, once")
        if Deed.RETIRE in deeds and self._served:
            self._say(messages.RETIRE)
            return None
        if Deed.SHARED in deeds:
            await self._use_artifact()
        pairs = zip(scripts, members, strict=True)
        return messages.said_of_group([self._verdict(*one, task) for one in pairs])

    async def _spend(self, script: SlotScript) -> None:
        self._burning_since_ns = self._node.clock.monotonic_ns()
        if script.deed is not Deed.BURN:
            self._cpu_ns += int(script.service_s(self._stage) * 1e9)
            self._burning_since_ns = None
        if script.deed in {Deed.BURN, Deed.SLEEP}:
            await asyncio.sleep(3_600)
        await asyncio.sleep(self._world.service_s(script, self._stage))
        await self.runs.wait()

    def _verdict(
        self, script: SlotScript, wire: messages.WireWork, task: messages.WireTask
    ) -> tuple[object, ...]:
        before = unpack_handover(wire.handover)[1]
        use = ResourceUse(cpu_s=script.service_s(self._stage))
        if task.pipeline != "sim.one" and self._stage == FIRST:
            return messages.said_by(HandedOver(artifact=b"built", use=use), before)
        if script.deed is Deed.LIMIT:
            limit = Ended(outcome=Outcome.RESOURCE_LIMIT, reward=0.0, use=use)
            return messages.said_by(limit, before)
        evidence = Evidence(verdict="right")
        ended = Ended(
            outcome=Outcome.SCORED, reward=script.points / 100, evidence=evidence, use=use
        )
        return messages.said_by(ended, before)

    async def _use_artifact(self) -> None:
        content, make = await self._ask(messages.ASK, ARTIFACT_KEY)
        if make:
            await asyncio.sleep(0.05)
            await self._ask(messages.MADE, ARTIFACT_KEY, b"made")
        elif content not in {None, b"made"}:
            raise AssayError("an artifact with another content")

    async def _ask(self, *words: object) -> tuple[bytes | None, bool]:
        self._artifact = self._loop.create_future()
        self._say(*words)
        return await self._artifact
