"""Where messages are read: small ones in this process, larger ones in reader processes.

Invariants: at most `readers_max` messages are read in reader processes at once, and one of these
places is for messages up to `SMALL_BYTES_MAX`; the next message is that of the tenant with the
fewest in progress, then the one that has waited longest. Waiting messages are bounded by the bytes
in flight. A message that is too costly ends its own process and is refused; nothing else is
affected.
"""

import asyncio
import json
import signal
import socket
import struct
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Protocol

import structlog

from assay.config.settings import RewardSettings, VerifierSettings
from assay.core.errors import AssayError, Saturated, TooLarge
from assay.core.ids import TenantId
from assay.core.records import NewRequest
from assay.edge.calls import note_about
from assay.reward import reading
from assay.reward.admission import RequestCheck
from assay.reward.drafts import Message, ScoreDraft
from assay.reward.endpoints import sandbox_fusion_bodies
from assay.reward.late import Late
from assay.reward.reading import Form
from assay.verifiers.port import PipelineDefinition

SMALL_BYTES_MAX: Final = 1024**2
HERE_COMMAS_MAX: Final = 1_024
HERE_REQUESTS_MAX: Final = 256
"""Bounds of a message that is parsed in the API process, in addition to its bytes: about a
millisecond. Each comma of a reference may be an error, and all of them are found before one is
reported."""
MIB: Final = 1024**2
ANSWER_S_MAX: Final = 60.0
"""Timeout for a process whose CPU time is bounded; beyond it the machine is overloaded."""
TIMEVAL: Final = struct.pack("@ll", int(ANSWER_S_MAX), 0)
RETRY_AFTER_S: Final = 1.0
ALLOWANCE_SHARE: Final = 0.05
"""CPU seconds per second in which each of several tenants may have its messages read at ordinary
priority; further messages are read in idle CPU time."""
ALLOWANCE_S_MAX: Final = 0.25
"""Upper bound of the unused allowance that accumulates, in seconds."""
BY_REASON: Final = {error.reason: error for error in AssayError.__subclasses__()}

log = structlog.get_logger(__name__)


class Reading(Protocol):
    """A message whose head was read."""

    score: ScoreDraft
    batch_id: str
    context: str

    async def requests(self, definition: PipelineDefinition) -> list[NewRequest]:
        """Check the requests against their pipeline; called once.

        Raises:
            InvalidRequest, TooLarge: a request is wrong; `field` says which and where.
            Saturated: the message cannot be read now.
        """

    def close(self) -> None:
        """Release what was not used."""


class InlineReading:
    """Reads in this process."""

    def __init__(self, message: Message, check: RequestCheck, tenant: TenantId) -> None:
        self.score = message.score
        self.batch_id = message.batch_id
        self.context = message.context
        self._message: Message | None = message
        self._check = check
        self._tenant = tenant

    async def requests(self, definition: PipelineDefinition) -> list[NewRequest]:
        """See `Reading.requests`."""
        message, self._message = self._message, None
        assert message is not None  # noqa: S101 called once
        return self._check.check_message(message, definition, self._tenant)

    def close(self) -> None:
        """See `Reading.close`."""


@dataclass(eq=False, slots=True, kw_only=True)
class Place:
    """A tenant's turn in a reader process."""

    tenant: TenantId
    large: bool
    free: asyncio.Future[None]


class Places:
    """Decides whose message is read next.

    Of several tenants, none has all places, and none has two large messages read at once.
    """

    def __init__(self, places_max: int, *, tenants: int) -> None:
        """Divide `places_max` (2 or more) among `tenants`."""
        self._places_max = places_max
        self._own_max = places_max - 1 if tenants > 1 else places_max
        self._own_large_max = 1 if tenants > 1 else places_max - 1
        self._running: Counter[TenantId] = Counter()
        self._large: Counter[TenantId] = Counter()
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
        """Free the place for another message."""
        self._running[place.tenant] -= 1
        self._large[place.tenant] -= place.large
        self._running += Counter()  # drops tenants without a place
        self._large += Counter()
        self._hand_out()

    def _hand_out(self) -> None:
        while self._running.total() < self._places_max:
            # One whose call was cancelled is still here until that call goes on.
            may = [one for one in self._waiting if not one.free.done() and self._may(one)]
            if not may:
                return
            place = min(may, key=lambda p: self._running[p.tenant])
            self._waiting.remove(place)
            self._running[place.tenant] += 1
            self._large[place.tenant] += place.large
            place.free.set_result(None)

    def _may(self, place: Place) -> bool:
        if self._running[place.tenant] >= self._own_max:
            return False
        if not place.large:
            return True
        own = self._large[place.tenant]
        return own < self._own_large_max and self._large.total() < self._places_max - 1


class Allowance:
    """CPU time at ordinary priority for the messages of each of several tenants.

    A tenant that has used it up has its messages read in idle CPU time, until it has grown again.
    """

    def __init__(self, *, tenants: int) -> None:
        """A single tenant has no limit."""
        self._endless = tenants <= 1
        self._left: dict[TenantId, tuple[float, float]] = {}

    def left_s(self, tenant: TenantId, now_s: float) -> float:
        """Seconds that the tenant has left; below zero: used up."""
        left_s, at_s = self._left.get(tenant, (ALLOWANCE_S_MAX, now_s))
        return min(ALLOWANCE_S_MAX, left_s + ALLOWANCE_SHARE * (now_s - at_s))

    def use(self, tenant: TenantId, cpu_s: float, now_s: float) -> None:
        """Record the CPU time of a message."""
        self._left[tenant] = (self.left_s(tenant, now_s) - cpu_s, now_s)

    def scheduling(self, tenant: TenantId, now_s: float) -> bytes:
        """Scheduling of the tenant's next message."""
        if self._endless or self.left_s(tenant, now_s) > 0:
            return reading.ORDINARY
        return reading.IDLE


class Readers:
    """Reads messages; owns the template process, which starts with the first large message."""

    def __init__(
        self,
        settings: RewardSettings,
        verifiers: VerifierSettings,
        *,
        tenants: int | None = None,
        on_replaced: Callable[[], None] = lambda: None,
    ) -> None:
        """Prepare.

        Args:
            settings: limits of messages.
            verifiers: limits of the pipelines, which check references.
            tenants: how many there are; absent: as many as in the settings.
            on_replaced: called when the template had died.
        """
        self._on_replaced = on_replaced
        self._settings = settings
        self._verifiers = verifiers
        self._check = RequestCheck(settings)
        if tenants is None:
            tenants = max(1, len(settings.tenants))
        self._places = Places(settings.readers_max, tenants=tenants)
        self.allowance = Allowance(tenants=tenants)
        self._threads = ThreadPoolExecutor(settings.readers_max, thread_name_prefix="reader")
        self._find_programs = Late(sandbox_fusion_bodies.prepare)
        self._template: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None

    async def read(self, form: Form, body: list[bytes], tenant: TenantId) -> Reading:
        """Read a message's head; the caller closes what this returns.

        Args:
            form: format of the message.
            body: its pieces; the list is emptied when they were sent to a reader process.
            tenant: who sent it.

        Raises:
            InvalidRequest, TooLarge: the message is malformed, or costs too much to read.
            Saturated: it cannot be read now.
        """
        size = sum(map(len, body))
        if form in reading.FIND_PROGRAMS:
            await self._find_programs.get()
        if size <= self._settings.read_inline_bytes_max:
            whole = b"".join(body)
            if whole.count(b",") <= HERE_COMMAS_MAX:
                with suppress(reading.TooManyHereError):
                    message = reading.read(form, whole, self._check, here_max=HERE_REQUESTS_MAX)
                    note_about(batch_id=message.batch_id)
                    return InlineReading(message, self._check, tenant)
        place = await self._places.take(tenant, large=size > SMALL_BYTES_MAX)
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

    def connect(self, tenant: TenantId) -> socket.socket:
        """Start a process for one message; returns our end of the connection to it.

        Raises:
            OSError: it cannot be started now.
        """
        ours, theirs = socket.socketpair()
        # The kernel's timeout: Python's own would make the socket non-blocking.
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, TIMEVAL)
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, TIMEVAL)
        scheduling = self.allowance.scheduling(tenant, asyncio.get_running_loop().time())
        with theirs:
            try:
                socket.send_fds(self._be_up(), [scheduling], [theirs.fileno()])
            except OSError:
                ours.close()
                self.stop()  # the next message starts another template
                raise
        return ours

    def exchange(
        self,
        channel: socket.socket,
        parts: Sequence[object],
        body: list[bytes],
        found: list[NewRequest],
    ) -> Future[list[object]]:
        """Send `parts` and `body` (which is emptied) and wait for the answer, in a thread.

        Requests that come before the answer are added to `found`. There are as many threads as
        messages in reader processes.

        Raises (the future):
            EOFError, OSError: the process is gone, or does not answer in time.
        """
        return self._threads.submit(_exchange, channel, parts, body, found)

    def give_back(self, place: Place) -> None:
        """Record that a message was read."""
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
            self._on_replaced()
            self.stop()
        if self._control is None:
            self._control, theirs = socket.socketpair()
            settings = json.dumps((_plain(self._settings), self._verifiers.model_dump(mode="json")))
            command = (sys.executable, "-P", "-m", "assay.reward.reading", settings)
            with theirs:
                self._template = subprocess.Popen(command, stdin=theirs.fileno())  # noqa: S603 ourselves
            log.info("reader_template_up", pid=self._template.pid)
        return self._control


class ReadingApart:
    """A message in a reader process."""

    def __init__(self, readers: Readers, place: Place) -> None:
        self.score = ScoreDraft()
        self.batch_id = ""
        self.context = ""
        self._readers = readers
        self._place: Place | None = place
        self._tenant = place.tenant
        self._channel: socket.socket | None = None
        self._cpu_s = 0.0
        self._charged = False
        self._exchange: Future[list[object]] | None = None

    async def begin(self, form: Form, body: list[bytes]) -> None:
        """Have the head read."""
        size = sum(map(len, body))
        self._cpu_s = self._readers.cpu_s(size)
        head = await self._answer("head", form.value, self._cpu_s, size, body=body)
        batch_id, task_id, pipeline, settings_json, timeout_s, deadline_ns, context = head
        self.batch_id = str(batch_id)
        self.context = str(context)
        note_about(batch_id=self.batch_id)
        self.score = ScoreDraft(
            task_id=str(task_id),
            pipeline=str(pipeline),
            settings_json=settings_json if isinstance(settings_json, bytes) else b"",
            timeout_s=timeout_s if isinstance(timeout_s, float) else None,
            deadline_ns=deadline_ns if isinstance(deadline_ns, int) else None,
        )

    async def requests(self, definition: PipelineDefinition) -> list[NewRequest]:
        """See `Reading.requests`."""
        try:
            parts: list[NewRequest] = []
            await self._answer("requests", definition.spec.name, found=parts)
            return parts
        finally:
            self.close()

    def close(self) -> None:
        """See `Reading.close`."""
        channel, self._channel = self._channel, None
        if channel is not None:
            if not self._charged:  # its process may continue up to its limit
                self._charge(self._cpu_s)
            with suppress(OSError):
                channel.shutdown(socket.SHUT_RDWR)  # wakes the thread that waits on it
            if self._exchange is None:
                channel.close()
            else:  # only after the thread is done: its descriptor could be reused by then
                self._exchange.add_done_callback(lambda _: channel.close())
        place, self._place = self._place, None
        if place is not None:
            self._readers.give_back(place)

    async def _answer(
        self,
        kind: str,
        *parts: object,
        body: list[bytes] | None = None,
        found: list[NewRequest] | None = None,
    ) -> list[object]:
        try:
            if self._channel is None:
                self._channel = self._readers.connect(self._tenant)
            requests = [] if found is None else found
            self._exchange = self._readers.exchange(self._channel, parts, body or [], requests)
            answer = await asyncio.wrap_future(self._exchange)
        except (OSError, EOFError) as error:
            raise _unread(repr(error)) from error
        match answer:
            case ["head", *rest] if kind == "head":
                return rest
            case ["requests", float(cpu_s)] if kind == "requests":
                self._charge(cpu_s)
                return []
            case ["refused", float(cpu_s), str(reason), str(message), str(field)]:
                self._charge(cpu_s)
                raise BY_REASON[reason](message, field=field)
            case ["died", float(cpu_s), int(status)]:
                self._charge(cpu_s)
                raise self._why(status)
        raise _unread("unexpected answer")

    def _charge(self, cpu_s: float) -> None:
        self._charged = True
        now_s = asyncio.get_running_loop().time()
        self._readers.allowance.use(self._tenant, cpu_s, now_s)

    def _why(self, status: int) -> AssayError:
        if status == -signal.SIGPROF:
            message = f"message: reading it takes more than {self._cpu_s:g} s of CPU time"
            return TooLarge(message, field="message")
        if status in _NO_MEMORY:
            message = "message: reading it takes too much memory"
            return TooLarge(message, field="message")
        return _unread(f"exit status {status}")


_NO_MEMORY: Final = frozenset((reading.OUT_OF_MEMORY, -signal.SIGABRT))
"""Exit statuses of a process that got no more memory; a native parser then ends it itself."""


def _unread(why: str) -> Saturated:
    log.warning("message_not_read", why=why)
    return Saturated("the message could not be read now", retry_after_s=RETRY_AFTER_S)


def _exchange(
    channel: socket.socket, parts: Sequence[object], body: list[bytes], found: list[NewRequest]
) -> list[object]:
    with suppress(BrokenPipeError, ConnectionResetError):  # its last frame may already be there
        reading.send(channel, *parts)
        body.reverse()
        while body:
            channel.sendall(body.pop())
    body.clear()
    while True:
        answer = reading.receive(channel)
        if answer[0] != "part":
            return answer
        _, rows = answer
        assert isinstance(rows, list)  # noqa: S101 for the checker: our own child packed it
        found += reading.receive_part(channel, rows)


def _plain(settings: RewardSettings) -> Mapping[str, object]:
    return settings.model_dump(mode="json", exclude={"tenants"})
