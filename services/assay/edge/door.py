"""Admission limits per tenant, so that no tenant can occupy the whole service.

Three things are limited: calls, streams, and bytes of messages that were read and not yet handed
on. Each has a total. Half of it is divided among the configured tenants and reserved for them; the
rest is first come, first served, up to a tenant's own limit. What does not fit is `Saturated`,
with a delay after which to retry. Where there are several tenants, each also has a rate in calls
and in bytes per second: faster calls wait, and so do refusals, because otherwise a tenant could
keep the service busy with refusing.
"""

import asyncio
import math
from collections import defaultdict
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Generator,
    Iterator,
)
from contextlib import aclosing, asynccontextmanager, contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Generic, TypeVar

from assay.core.errors import DeadlinePassed, Saturated, TooLarge
from assay.core.ids import TenantId
from assay.edge.auth import OwnLimits

T = TypeVar("T")

READING: Final = "reading a part of the answer"
"""What takes too long where a client does not read."""
RETRY_AFTER_S: Final = 0.25
"""Retry delay for a call that finds the service full; clients add their own jitter."""
READS_MAX: Final = 2
"""Large messages of one tenant that are received at the same time (gRPC: all messages, because
their size is not known before). The others wait within `body_s_max`."""
UPLOADS_MAX: Final = 4
"""Sending streams per tenant; each may be in the middle of a message at any time."""


LARGE_BYTES: Final = 64 * 1024
"""Messages above this size count towards the rate in bytes."""
DISCARD_FACTOR: Final = 4
"""A body up to this many times its limit is read to its end and discarded, so that the answer
reaches a client that does not listen while it sends."""
ANSWERS_MAX: Final = 1
"""Pages of results of one tenant that are made at once. Each yields to others again and again; but
with a hundred at work, a call that yields would wait for a step of each."""
ANSWER_REST: Final = 2.0
"""Rest between two such pages, per time that the last one took: however many streams a tenant
reads, most steps of other tenants' calls find no page at work."""
ANSWER_REST_S_LEAST: Final = 0.005
"""A shorter rest is left out: a small answer does not delay the next one."""
ANSWER_REST_S_MAX: Final = 0.5
DISCARDS_MAX: Final = 32
"""Refused streams of one tenant whose rest is read, those that wait for their turn included. A
further one gets its status at once, which a client in the middle of a message may not see."""
PIECE_BYTES_MAX: Final = 256 * 1024
"""Short pieces of a message are joined up to this size; a longer copy would block other calls."""
BURST_S: Final = 1.0
"""Burst: how far a tenant may be ahead of its rate."""
REFUSALS_MAX: Final = 2_048
"""Calls that wait for their refusal; further ones are refused at once, as fast as they come. Half
of them may be one tenant's; each takes some 30 KB, and as much as its headers."""
REFUSAL_S_MAX: Final = 20.0
NO_LIMITS: Final = OwnLimits()


class Kind(StrEnum):
    """What a call holds while it runs."""

    CALL = "calls"
    STREAM = "streams"
    UPLOAD = "sending streams"


class DoorLimit:
    """A total in which every tenant has a reserve, and may hold at most its own limit."""

    def __init__(self, what: str, *, total: int, tenants: int, share: float) -> None:
        """Divide `total` among `tenants`; one of them may hold up to `share` of it (0 to 1)."""
        self._what = what
        self._total = total
        self._share = share
        self._held: defaultdict[TenantId, int] = defaultdict(int)
        self._all = 0
        self.divide(tenants)

    def divide(self, tenants: int) -> None:
        """Divide the total again; what is held stays held."""
        tenants = max(1, tenants)
        total = self._total
        self._reserve = total // (2 * tenants)
        self._common = total - tenants * self._reserve
        self._most = max(1, self._reserve, round(total * self._share)) if tenants > 1 else total
        self._common_held = sum(map(self._beyond, self._held.values()))

    @property
    def held(self) -> int:
        """Amount held by all tenants."""
        return self._all

    def check_fits(self, amount: int) -> None:
        """Check that a tenant could hold this much if no one held anything.

        Raises:
            TooLarge: it could not, so that waiting does not help.
        """
        most = min(self._most, self._reserve + self._common)
        if amount > most:
            message = f"{amount} {self._what}; this tenant's limit at once is {most}"
            raise TooLarge(message, field="message")

    def take(self, tenant: TenantId, amount: int = 1, *, own_max: int | None = None) -> None:
        """Hold `amount` more until it is given back; `own_max`: the tenant's own limit.

        Raises:
            Saturated: the tenant is at its limit, or the common part is used up.
        """
        now = self._held.get(tenant, 0) + amount
        most = self._most if own_max is None else min(own_max, self._total)
        if now > most:
            message = f"this tenant's limit of {most} {self._what} at once is reached"
            raise Saturated(message, retry_after_s=RETRY_AFTER_S)
        more = self._beyond(now) - self._beyond(now - amount)
        # Workers are more than the tenants that the total is divided among: their reserves together
        # exceed it.
        if self._common_held + more > self._common or self._all + amount > self._total:
            message = f"the limit of {self._what} at once is reached"
            raise Saturated(message, retry_after_s=RETRY_AFTER_S)
        self._held[tenant] = now
        self._common_held += more
        self._all += amount

    def give_back(self, tenant: TenantId, amount: int = 1) -> None:
        """Hold `amount` less."""
        now = self._held[tenant] - amount
        self._common_held -= self._beyond(now + amount) - self._beyond(now)
        self._all -= amount
        if now:
            self._held[tenant] = now
        else:
            del self._held[tenant]

    def _beyond(self, held: int) -> int:
        return max(0, held - self._reserve)


class Load:
    """Bytes that one call holds; released once, early or at its end."""

    def __init__(self, limit: DoorLimit, tenant: TenantId) -> None:
        self._limit = limit
        self._tenant = tenant
        self._bytes = 0

    def add(self, count: int) -> None:
        """Hold `count` more.

        Raises:
            Saturated: they do not fit.
            TooLarge: the call as a whole never fits.
        """
        self._limit.check_fits(self._bytes + count)
        self._limit.take(self._tenant, count)
        self._bytes += count

    def release(self) -> None:
        """Release all bytes."""
        count, self._bytes = self._bytes, 0
        if count:
            self._limit.give_back(self._tenant, count)


class RateLimit:
    """A rate in units per second per tenant, with a short burst."""

    def __init__(self, per_s: float) -> None:
        """With `math.inf`, nothing ever waits."""
        self._per_s = per_s
        self._free_s: dict[TenantId, float] = {}

    def wait_s(
        self, tenant: TenantId, amount: float, now_s: float, *, own_per_s: float | None = None
    ) -> float:
        """Take `amount`; returns how many seconds to wait first. `own_per_s`: the tenant's rate."""
        free_s = max(self._free_s.get(tenant, 0.0), now_s - BURST_S)
        self._free_s[tenant] = free_s + amount / (own_per_s or self._per_s)
        return max(0.0, free_s - now_s)


class Pieces:
    """The bytes of a message as they arrive; never one piece, because copying blocks other calls.

    `taken` hands them over, so that no one holds a message longer than needed.
    """

    def __init__(self) -> None:
        self.size = 0
        self._pieces: list[bytes] = []

    def add(self, piece: bytes) -> None:
        """Append `piece`; tiny ones are joined, because each costs memory of its own."""
        self.size += len(piece)
        if self._pieces and len(self._pieces[-1]) + len(piece) <= PIECE_BYTES_MAX:
            self._pieces[-1] += piece
        elif piece:
            self._pieces.append(piece)

    def count(self, byte: bytes) -> int:
        """Occurrences of one byte."""
        return sum(piece.count(byte) for piece in self._pieces)

    def taken(self) -> list[bytes]:
        """Return the pieces and keep none."""
        pieces, self._pieces = self._pieces, []
        return pieces


@dataclass(frozen=True, slots=True, kw_only=True)
class DoorLimits:
    """Totals; `tenant_share` is what one of several tenants may hold of each."""

    calls_max: int
    streams_max: int
    bytes_max: int
    tenants: int = 1
    tenant_share: float = 0.5
    tenant_calls_per_s: float = math.inf
    tenant_bytes_per_s: float = math.inf
    tenant_requests_per_s: float = math.inf
    body_s_max: float = 30.0
    stream_idle_s_max: float = 900.0
    stream_s_max: float = 14_400.0


class Door:
    """The resources that all calls of a service hold together."""

    def __init__(self, limits: DoorLimits, *, count: Callable[[], int] | None = None) -> None:
        """`count`: how many tenants there are now, if that may change."""
        self.limits = limits
        self._count = count
        self._divided = limits.tenants
        self._own: dict[TenantId, OwnLimits] = {}
        self._slots = {
            Kind.CALL: self._limit("calls", limits.calls_max),
            Kind.STREAM: self._limit("streams", limits.streams_max),
            Kind.UPLOAD: self._limit_each("sending streams", UPLOADS_MAX),
        }
        self._discarding = self._limit_each("refused streams", DISCARDS_MAX)
        self._bytes = self._limit("bytes of messages", limits.bytes_max)
        several = limits.tenants > 1
        self._calls_pace = RateLimit(limits.tenant_calls_per_s if several else math.inf)
        self._bytes_pace = RateLimit(limits.tenant_bytes_per_s if several else math.inf)
        self._requests_pace = RateLimit(limits.tenant_requests_per_s if several else math.inf)
        self._refusals = self._limit("refusals", REFUSALS_MAX)
        self._reads: defaultdict[TenantId, asyncio.Semaphore] = defaultdict(
            lambda: asyncio.Semaphore(READS_MAX)
        )
        self._discards: defaultdict[TenantId, asyncio.Semaphore] = defaultdict(
            lambda: asyncio.Semaphore(READS_MAX)
        )
        self._answers: defaultdict[TenantId, asyncio.Semaphore] = defaultdict(
            lambda: asyncio.Semaphore(ANSWERS_MAX)
        )

    def know(self, tenant: TenantId, own: OwnLimits) -> None:
        """Apply a tenant's own limits from now on, and divide the totals among all tenants."""
        self._own[tenant] = own
        count = self._divided if self._count is None else self._count()
        if count != self._divided:
            self._divided = count
            for limit in (*self._slots.values(), self._bytes, self._refusals, self._discarding):
                limit.divide(count)

    def _limit(self, what: str, total: int) -> DoorLimit:
        limits = self.limits
        return DoorLimit(what, total=total, tenants=limits.tenants, share=limits.tenant_share)

    def _limit_each(self, what: str, each: int) -> DoorLimit:
        """So many for each tenant; twice as many for a single one."""
        tenants = self.limits.tenants
        return DoorLimit(what, total=2 * each * tenants, tenants=tenants, share=0.5 / tenants)

    def held(self, kind: Kind) -> int:
        """Slots of this kind in use."""
        return self._slots[kind].held

    @property
    def refusals_held(self) -> int:
        """Calls that wait for their refusal."""
        return self._refusals.held + self._discarding.held

    @property
    def bytes_held(self) -> int:
        """Bytes of messages that were received and not yet released."""
        return self._bytes.held

    @asynccontextmanager
    async def turn_to_read(self, tenant: TenantId) -> AsyncIterator[None]:
        """Receive one message, whose size may be unknown, inside the block."""
        async with self._reads[tenant]:
            yield

    @asynccontextmanager
    async def turn_to_answer(self, tenant: TenantId) -> AsyncIterator[None]:
        """Make a large answer, or a page of one, inside the block; send it outside.

        Of several tenants, each then rests before its next one, for `ANSWER_REST` times as long.
        """
        loop, answers = asyncio.get_running_loop(), self._answers[tenant]
        await answers.acquire()
        begun_s = loop.time()
        try:
            yield
        finally:
            rest_s = (loop.time() - begun_s) * ANSWER_REST
            if self._divided > 1 and rest_s > ANSWER_REST_S_LEAST:
                loop.call_later(min(rest_s, ANSWER_REST_S_MAX), answers.release)
            else:
                answers.release()

    @asynccontextmanager
    async def turn_to_discard(self, tenant: TenantId) -> AsyncIterator[None]:
        """Receive the rest of a refused stream inside the block; streams that are read, and may
        never end, do not keep it waiting.

        Raises:
            Saturated: too many of the tenant's wait already.
        """
        self._discarding.take(tenant)
        try:
            async with self._discards[tenant]:
                yield
        finally:
            self._discarding.give_back(tenant)

    async def keep_pace(self, tenant: TenantId, bytes_read: int = 0) -> None:
        """Wait until the tenant's next call, or message of this size, is due."""
        now_s = asyncio.get_running_loop().time()
        if bytes_read > LARGE_BYTES:
            wait_s = self._bytes_pace.wait_s(tenant, bytes_read, now_s)
        else:
            own = self._own.get(tenant, NO_LIMITS).calls_per_s
            wait_s = self._calls_pace.wait_s(tenant, not bytes_read, now_s, own_per_s=own)
        if wait_s:
            await asyncio.sleep(wait_s)

    async def keep_pace_in_stream(self, tenant: TenantId, bytes_read: int) -> None:
        """Wait until the next message of a stream is due; one counts as `LARGE_BYTES` or more,
        because each costs time, however small it is."""
        now_s = asyncio.get_running_loop().time()
        wait_s = self._bytes_pace.wait_s(tenant, max(bytes_read, LARGE_BYTES), now_s)
        if wait_s:
            await asyncio.sleep(wait_s)

    async def pace_requests(self, tenant: TenantId, count: int) -> None:
        """Wait until `count` more requests of the tenant are due to be stored."""
        now_s = asyncio.get_running_loop().time()
        own = self._own.get(tenant, NO_LIMITS).requests_per_s
        wait_s = self._requests_pace.wait_s(tenant, count, now_s, own_per_s=own)
        if wait_s:
            await asyncio.sleep(wait_s)

    async def refuse_at_pace(self, tenant: TenantId) -> None:
        """Wait until a refusal is due; returns at once when too many already wait."""
        try:
            self._refusals.take(tenant)
        except Saturated:
            return
        try:
            async with asyncio.timeout(REFUSAL_S_MAX):
                await self.keep_pace(tenant)
        except TimeoutError:
            return
        finally:
            self._refusals.give_back(tenant)

    @contextmanager
    def slot(self, tenant: TenantId, kind: Kind) -> Iterator[Load]:
        """Hold a slot for the duration of the block; yields the account of the call's bytes.

        Raises:
            Saturated: there is none for this tenant.
        """
        slots, own = self._slots[kind], self._own.get(tenant, NO_LIMITS)
        own_max = {Kind.CALL: own.calls_max, Kind.STREAM: own.streams_max}.get(kind)
        slots.take(tenant, own_max=own_max)
        load = Load(self._bytes, tenant)
        try:
            yield load
        finally:
            load.release()
            slots.give_back(tenant)


async def within(work: Awaitable[T], *, seconds: float, what: str) -> T:
    """Await an operation that depends on the caller: sending a message, or reading one.

    A timer is set only if it has to wait: mostly a message is in the buffers already, or fits into
    them, and two timers per call would cost more than reading it.

    Raises:
        DeadlinePassed: it took longer.
    """
    begun = _Begun(work)
    if not begun.waits:
        return begun.result
    try:
        async with asyncio.timeout(seconds):
            return await begun
    except TimeoutError:
        message = f"{what} took longer than {seconds:g} s"
        raise DeadlinePassed(message) from None


class _Begun(Generic[T]):
    """Work that ran up to its first wait; await it at once, in the same task."""

    result: T

    def __init__(self, work: Awaitable[T]) -> None:
        self._steps: Any = work.__await__()
        self.waits = True
        try:
            self._awaited = self._steps.send(None)
        except StopIteration as ended:
            self.result = ended.value
            self.waits = False

    def __await__(self) -> Generator[Any, Any, T]:
        awaited = self._awaited
        try:
            while True:
                try:
                    given = yield awaited
                except BaseException as error:  # noqa: BLE001 - passed on
                    awaited = self._steps.throw(error)
                else:
                    awaited = self._steps.send(given)
        except StopIteration as ended:
            result: T = ended.value
            return result


async def limited(pages: AsyncGenerator[T, None], limits: DoorLimits) -> AsyncGenerator[T, None]:
    """Yield a stream's messages until it has been idle, or open, for too long.

    Raises:
        Saturated: the stream was too long idle or open; the caller opens another from its cursor.
    """
    loop = asyncio.get_running_loop()
    ends_s = loop.time() + limits.stream_s_max
    async with aclosing(pages):
        while True:
            until_s = min(ends_s, loop.time() + limits.stream_idle_s_max)
            try:
                async with asyncio.timeout_at(until_s):
                    held = [await anext(pages)]
            except StopAsyncIteration:
                return
            except TimeoutError:
                message = "the stream was idle or open for too long; resume from your cursor"
                raise Saturated(message, retry_after_s=RETRY_AFTER_S) from None
            yield held.pop()  # not held while it is sent: see `lifecycle.Collector`
