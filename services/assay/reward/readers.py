"""Messages are read where they hold up no one: small ones here, larger ones in processes apart.

Invariants: at most `readers_max` messages are read apart at once, one place of them is for messages
up to `SMALL_BYTES_MAX`; the next is that of the tenant with the fewest being read, then the one
that waits longest. What waits is bounded by the bytes in flight. A message that is too costly ends
its own process and is refused; nothing else is touched by that.
"""

import asyncio
import json
import signal
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Final, ParamSpec, Protocol, TypeVar

import structlog

from assay.config.settings import RewardSettings, VerifierSettings
from assay.core.errors import AssayError, Saturated, TooLarge
from assay.core.ids import TenantId
from assay.core.records import NewRequest
from assay.reward import reading
from assay.reward.admission import RequestCheck
from assay.reward.drafts import ScoreDraft
from assay.reward.reading import Form, Message
from assay.verifiers.port import PipelineDefinition

P = ParamSpec("P")
R = TypeVar("R")

SMALL_BYTES_MAX: Final = 1024**2
MIB: Final = 1024**2
ANSWER_S_MAX: Final = 60.0
"""Nothing for so long from a process whose CPU time is bounded: the machine is overloaded."""
RETRY_AFTER_S: Final = 1.0
BY_REASON: Final = {error.reason: error for error in AssayError.__subclasses__()}

log = structlog.get_logger(__name__)


class Reading(Protocol):
    """A message whose head was read."""

    score: ScoreDraft
    batch_id: str

    async def requests(self, definition: PipelineDefinition) -> list[NewRequest]:
        """Check the requests against their pipeline; called once.

        Raises:
            InvalidRequest, TooLarge: a request is wrong; `field` says which and where.
            Saturated: the message could not be read now.
        """

    def close(self) -> None:
        """Let go of what was not asked for."""


class InlineReading:
    """Read here."""

    def __init__(self, message: Message, check: RequestCheck) -> None:
        self.score = message.score
        self.batch_id = message.batch_id
        self._drafts = message.requests
        self._check = check

    async def requests(self, definition: PipelineDefinition) -> list[NewRequest]:
        """As `Reading`."""
        drafts, self._drafts = self._drafts, ()
        return self._check.check(drafts, definition)

    def close(self) -> None:
        """As `Reading`."""


@dataclass(eq=False, slots=True, kw_only=True)
class Place:
    """A tenant's turn to have a message read apart."""

    tenant: TenantId
    large: bool
    free: asyncio.Future[None]


class Places:
    """Who is next."""

    def __init__(self, places_max: int) -> None:
        self._places_max = places_max
        self._running: Counter[TenantId] = Counter()
        self._large = 0
        self._waiting: list[Place] = []

    async def take(self, tenant: TenantId, *, large: bool) -> Place:
        """Wait for a place."""
        place = Place(tenant=tenant, large=large, free=asyncio.get_running_loop().create_future())
        self._waiting.append(place)
        self._hand_out()
        try:
            await place.free
        except asyncio.CancelledError:
            if place in self._waiting:
                self._waiting.remove(place)
            else:
                self.give_back(place)
            raise
        return place

    def give_back(self, place: Place) -> None:
        """Another may have it."""
        self._running[place.tenant] -= 1
        self._running += Counter()  # forgets who has none
        self._large -= place.large
        self._hand_out()

    def _hand_out(self) -> None:
        while self._running.total() < self._places_max:
            may = [p for p in self._waiting if not p.large or self._large < self._places_max - 1]
            if not may:
                return
            place = min(may, key=lambda p: self._running[p.tenant])
            self._waiting.remove(place)
            self._running[place.tenant] += 1
            self._large += place.large
            place.free.set_result(None)


class Readers:
    """Reads messages; owns the template of the processes, from the first large message on."""

    def __init__(self, settings: RewardSettings, verifiers: VerifierSettings) -> None:
        self._settings = settings
        self._verifiers = verifiers
        self._check = RequestCheck(settings)
        self._places = Places(settings.readers_max)
        self._threads = ThreadPoolExecutor(settings.readers_max, thread_name_prefix="reader")
        self._template: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None

    async def read(self, form: Form, body: bytes, tenant: TenantId) -> Reading:
        """Read a message's head; the caller closes what this returns.

        Raises:
            InvalidRequest, TooLarge: it is no such message, or costs too much to read.
            Saturated: it could not be read now.
        """
        if len(body) <= self._settings.read_inline_bytes_max:
            return InlineReading(reading.read(form, body, self._check), self._check)
        place = await self._places.take(tenant, large=len(body) > SMALL_BYTES_MAX)
        apart = ReadingApart(self, place)
        try:
            await apart.begin(form, body)
        except BaseException:
            apart.close()
            raise
        return apart

    def cpu_s(self, size: int) -> float:
        """CPU time that reading a message of `size` bytes may take."""
        return self._settings.read_cpu_s_per_mib * max(1.0, size / MIB)

    def connect(self) -> socket.socket:
        """Start a process for one message; returns our end of the connection to it.

        Raises:
            OSError: it cannot be started now.
        """
        ours, theirs = socket.socketpair()
        ours.settimeout(ANSWER_S_MAX)
        with theirs:
            try:
                socket.send_fds(self._be_up(), [b"1"], [theirs.fileno()])
            except OSError:
                ours.close()
                self.stop()  # the next message starts another template
                raise
        return ours

    async def exchange(
        self, channel: socket.socket, parts: Sequence[object], body: bytes
    ) -> list[object]:
        """Say `parts`, send `body` and wait for the answer, in a thread.

        Raises:
            EOFError, OSError: the process is gone, or does not answer in time.
        """
        return await self.in_a_thread(_exchange, channel, parts, body)

    async def in_a_thread(self, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """There are as many as there are messages being read apart."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, partial(work, *args, **kwargs))

    def give_back(self, place: Place) -> None:
        """A message was read."""
        self._places.give_back(place)

    def stop(self) -> None:
        """End the template; its children end with their messages."""
        if self._control is not None:
            self._control.close()
            self._control = None
        if self._template is not None:
            self._template.kill()
            self._template.wait()
            self._template = None

    def _be_up(self) -> socket.socket:
        if self._template is not None and self._template.poll() is not None:
            log.warning("reader_template_died", exit_code=self._template.returncode)
            self.stop()
        if self._control is None:
            self._control, theirs = socket.socketpair()
            settings = json.dumps((_plain(self._settings), self._verifiers.model_dump(mode="json")))
            command = (sys.executable, "-m", "assay.reward.reading", settings)
            with theirs:
                self._template = subprocess.Popen(command, stdin=theirs.fileno())  # noqa: S603 ourselves
            log.info("reader_template_up", pid=self._template.pid)
        return self._control


class ReadingApart:
    """A message that another process reads."""

    def __init__(self, readers: Readers, place: Place) -> None:
        self.score = ScoreDraft()
        self.batch_id = ""
        self._readers = readers
        self._place: Place | None = place
        self._channel: socket.socket | None = None
        self._cpu_s = 0.0

    async def begin(self, form: Form, body: bytes) -> None:
        """Have the head read."""
        self._cpu_s = self._readers.cpu_s(len(body))
        batch_id, task_id, pipeline, settings_json, timeout_s = await self._answer(
            "head", form.value, self._cpu_s, len(body), body=body
        )
        self.batch_id = str(batch_id)
        self.score = ScoreDraft(
            task_id=str(task_id),
            pipeline=str(pipeline),
            settings_json=settings_json if isinstance(settings_json, bytes) else b"",
            timeout_s=timeout_s if isinstance(timeout_s, float) else None,
        )

    async def requests(self, definition: PipelineDefinition) -> list[NewRequest]:
        """As `Reading`."""
        try:
            (rows,) = await self._answer("requests", definition.spec.name)
            assert isinstance(rows, list)  # noqa: S101 for the checker: our own child packed it
            return await self._readers.in_a_thread(reading.requests_of, rows)
        finally:
            self.close()

    def close(self) -> None:
        """As `Reading`."""
        channel, self._channel = self._channel, None
        if channel is not None:
            with suppress(OSError):
                channel.shutdown(socket.SHUT_RDWR)  # wakes the thread that waits at it
            channel.close()
        place, self._place = self._place, None
        if place is not None:
            self._readers.give_back(place)

    async def _answer(self, kind: str, *parts: object, body: bytes = b"") -> list[object]:
        try:
            if self._channel is None:
                self._channel = self._readers.connect()
            answer = await self._readers.exchange(self._channel, parts, body)
        except (OSError, EOFError) as error:
            raise _unread(repr(error)) from error
        match answer:
            case [found, *rest] if found == kind:
                return rest
            case ["refused", str(reason), str(message), str(field)]:
                raise BY_REASON[reason](message, field=field)
            case ["died", int(status)]:
                raise self._why(status)
        raise _unread("it said something else")

    def _why(self, status: int) -> AssayError:
        if status == -signal.SIGPROF:
            message = f"message: reading it takes more than {self._cpu_s:g} s of CPU time"
            return TooLarge(message, field="message")
        if status == reading.OUT_OF_MEMORY:
            message = "message: reading it takes too much memory"
            return TooLarge(message, field="message")
        return _unread(f"exit status {status}")


def _unread(why: str) -> Saturated:
    log.warning("message_not_read", why=why)
    return Saturated("the message could not be read now", retry_after_s=RETRY_AFTER_S)


def _exchange(channel: socket.socket, parts: Sequence[object], body: bytes) -> list[object]:
    with suppress(BrokenPipeError, ConnectionResetError):  # its last word may be there
        reading.send(channel, *parts)
        channel.sendall(body)
    return reading.receive(channel)


def _plain(settings: RewardSettings) -> Mapping[str, object]:
    return settings.model_dump(mode="json", exclude={"tenants"})
