"""One reward batch of a session at the reward service.

A response is sent at once, unless `MESSAGES_MAX` messages are in flight: then it goes with the next
one. Nothing waits for a timer, and messages grow with the load.

Invariants:
  - each response is answered once: by its result, or as INFRA_FAILED when the batch failed or the
  response was given up;
  - a request is cancelled after the message that submits it was answered, and the batch is sealed
  after all of them were.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import structlog

from assay.client import Request
from assay.core.errors import AssayError, InvalidRequest, TooLarge
from assay.core.outcome import Outcome
from assay.core.verdict import Evidence
from assay.rollout.service.records import Judged
from assay.rollout.service.rewards.port import infra_failed

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from assay.client import Batch, Result
    from assay.edge.clock import Clock
    from assay.rollout.service.rewards.port import Response

MESSAGES_MAX: Final = 8
"""Messages that are submitted at the same time. With four, a response that ended while they were in
flight waited for an answer: three of four of the longest waits."""
CANCEL_S_MAX: Final = 2.0
CANCELLED_PER_CALL_MAX: Final = 4_096
DEADLINE_S_LEAST: Final = 0.001
"""Of a batch whose deadline has passed when its first response ends."""

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class _Awaited:
    """One response without an answer yet."""

    until_ns: int
    """When it is given up, on the loop's clock."""
    asked_ns: int = 0
    stored_ns: int = 0


class Lane:
    """See the module. Every call comes from the event loop."""

    def __init__(
        self,
        name: str,
        *,
        open_batch: Callable[[float | None], Awaitable[Batch]],
        on_answer: Callable[[int, Judged], None],
        on_ended: Callable[[Lane], None],
        clock: Clock,
        deadline_ns: int | None = None,
    ) -> None:
        """Make a lane; it does nothing before `begin`.

        Args:
            name: of the batch, for people.
            open_batch: opens it at the reward service, given the seconds until its deadline.
            on_answer: called with each answer.
            on_ended: called when it takes no more responses, since its batch is over or failed.
            clock: for deadlines and time stamps.
            deadline_ns: when its rewards are needed, monotonic; `None`: not known.
        """
        self._name = name
        self._open_batch = open_batch
        self._on_answer = on_answer
        self._on_ended = on_ended
        self._clock = clock
        self._due: list[Response] = []
        self._withdrawn: list[int] = []
        """Submitted, or being submitted, and no longer needed."""
        self._awaited: dict[int, _Awaited] = {}
        self._wake = asyncio.Event()
        self._deadline_ns = deadline_ns
        self._sealed = False
        self._messages = 0
        """In flight."""
        self._unanswered: set[int] = set()
        """Responses in these messages."""
        self._cancelling = False

    def begin(self) -> asyncio.Task[None]:
        """Open the batch and serve it, in a task."""
        return asyncio.create_task(self._serve(), name=f"rewards {self._name}")

    def set_deadline(self, deadline_ns: int) -> None:
        """Monotonic; without effect once the batch is being opened."""
        self._deadline_ns = deadline_ns

    def hand_in(self, response: Response, until_ns: int) -> None:
        """Have it judged."""
        self._due.append(response)
        self._awaited[response.number] = _Awaited(until_ns)
        self._wake.set()

    def forget(self, number: int) -> None:
        """Its answer is not needed: do not send it, or cancel it."""
        self._awaited.pop(number, None)
        left = [response for response in self._due if response.number != number]
        if len(left) == len(self._due):
            self._withdrawn.append(number)
            self._wake.set()
        self._due = left

    def give_up(self, number: int, now_ns: int) -> None:
        """Answer it without a reward if its time has passed, and withdraw it."""
        awaited = self._awaited.get(number)
        if awaited is not None and awaited.until_ns <= now_ns:
            self._answer(number, infra_failed("no reward within the session's time"))
            self.forget(number)

    def seal(self) -> None:
        """No more responses will come."""
        self._sealed = True
        self._wake.set()

    def fail(self, why: str) -> None:
        """Answer everything without a reward."""
        self._due = []
        for number in list(self._awaited):
            self._answer(number, infra_failed(why))

    # -- its task --------------------------------------------------------------------------------
    async def _serve(self) -> None:
        batch: Batch | None = None
        try:
            batch = await self._open_batch(self._left_s())
            async with asyncio.TaskGroup() as tasks:
                sending = tasks.create_task(self._send(batch, tasks))
                await self._read(batch)
                sending.cancel()  # the batch is complete
            self.fail("the reward batch ended without it")
        except* AssayError as errors:
            log.warning("rewards_failed", batch=self._name, why=str(errors.exceptions[0]))
            self.fail(str(errors.exceptions[0]))
        except* asyncio.CancelledError:
            if batch is not None:
                await _cancel(batch)
            raise
        finally:
            self._on_ended(self)

    def _left_s(self) -> float | None:
        if self._deadline_ns is None:
            return None
        return max(DEADLINE_S_LEAST, (self._deadline_ns - self._clock.monotonic_ns()) / 1e9)

    async def _send(self, batch: Batch, tasks: asyncio.TaskGroup) -> None:
        """Send what became due or was withdrawn, until the batch ends."""
        sealed = False
        while True:
            await self._wake.wait()
            self._wake.clear()
            if self._due and self._messages < MESSAGES_MAX:
                due, self._due = self._due, []
                self._messages += 1
                self._unanswered.update(response.number for response in due)
                tasks.create_task(self._submit(batch, due))
            gone = [number for number in self._withdrawn if number not in self._unanswered]
            if gone and not self._cancelling:
                self._cancelling = True
                tasks.create_task(self._cancel_requests(batch, gone[:CANCELLED_PER_CALL_MAX]))
            if self._sealed and not (self._due or self._messages or sealed):
                await batch.seal()
                sealed = True

    async def _submit(self, batch: Batch, due: Sequence[Response]) -> None:
        try:
            await self._submit_valid(batch, list(due))
        finally:
            self._messages -= 1
            self._unanswered.difference_update(response.number for response in due)
            self._wake.set()

    async def _submit_valid(self, batch: Batch, left: list[Response]) -> None:
        """Submit all; a response that the reward service refuses as invalid is left out."""
        while left:
            requests = [_request(response) for response in left]
            numbers = [response.number for response in left]
            self._stamp(numbers, asked_ns=self._clock.now_ns())
            try:
                await batch.submit(requests)
            except (InvalidRequest, TooLarge) as error:
                wrong = _index_of(error.field)
                if wrong is None or wrong >= len(left):
                    raise
                evidence = Evidence(error=f"{error.field}: {error.message}")
                judged = Judged(outcome=Outcome.REJECTED_INVALID, evidence=evidence)
                self._answer(left.pop(wrong).number, judged)
            else:
                self._stamp(numbers, stored_ns=self._clock.now_ns())
                return

    def _stamp(self, numbers: Sequence[int], *, asked_ns: int = 0, stored_ns: int = 0) -> None:
        """Note when these responses were sent, or stored by the reward service."""
        for number in numbers:
            awaited = self._awaited.get(number)
            if awaited is not None:
                awaited.asked_ns = awaited.asked_ns or asked_ns
                awaited.stored_ns = awaited.stored_ns or stored_ns

    async def _cancel_requests(self, batch: Batch, numbers: Sequence[int]) -> None:
        """Cancel; if that fails, the work is done although no one needs it."""
        taken = frozenset(numbers)
        self._withdrawn = [number for number in self._withdrawn if number not in taken]
        try:
            await batch.cancel_requests(map(str, numbers))
        except AssayError as error:
            log.warning("rewards_not_cancelled", responses=len(numbers), why=error.message)
        finally:
            self._cancelling = False
            self._wake.set()

    async def _read(self, batch: Batch) -> None:
        async with aclosing(batch.results()) as results:
            async for result in results:
                number = int(result.request_id)
                self._stamp([number], stored_ns=self._clock.now_ns())  # if its answer is late
                self._answer(number, _judged(result))

    def _answer(self, number: int, judged: Judged) -> None:
        awaited = self._awaited.pop(number, None)
        if awaited is not None:
            asked_ns, stored_ns = awaited.asked_ns, awaited.stored_ns
            self._on_answer(number, replace(judged, asked_ns=asked_ns, stored_ns=stored_ns))


def _request(response: Response) -> Request:
    return Request(
        request_id=str(response.number),
        group_id=response.group_id,
        response=response.text,
        reference=response.reference_json or b"{}",
    )


def _judged(result: Result) -> Judged:
    return Judged(outcome=result.outcome, reward=result.reward, evidence=result.evidence)


def _index_of(field_name: str) -> int | None:
    found = re.match(r"requests\[(\d+)\]", field_name)
    return int(found[1]) if found else None


async def _cancel(batch: Batch) -> None:
    with contextlib.suppress(AssayError, TimeoutError):
        async with asyncio.timeout(CANCEL_S_MAX):
            await batch.cancel()
