"""Sends finished responses to the reward service and returns their rewards.

One lane per session and reward batch. Responses that arrive while a message is in flight go with
the next one: nothing waits for a timer, and messages grow with the load.

Invariants:
  - each response is answered once: by its result, or as INFRA_FAILED when the reward service
  refused it, stayed unreachable until the client gave up, or did not judge it within `wait_s_max`.
  A reward always comes from a judge;
  - a failed lane is dropped: the next response of its batch opens another one;
  - at most `waiting_max` responses wait, over all lanes (`Saturated` beyond).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Protocol

import structlog

from assay.client import Client, Request
from assay.core.errors import AssayError, Conflict, InvalidRequest, Saturated, TooLarge
from assay.core.outcome import Outcome
from assay.core.verdict import Evidence
from assay.rollout.service.records import Judged, RewardPlan, SessionKey

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from assay.client import Batch, Result, Task
    from assay.edge.clock import Clock

EXPIRE_EVERY_S: Final = 0.5
RETRY_AFTER_S: Final = 1.0
CANCEL_S_MAX: Final = 2.0
CANCELLED_PER_CALL_MAX: Final = 4_096

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """One finished response; `number` identifies it within the service."""

    number: int
    group_id: str
    text: bytes
    reference_json: bytes


class RewardDesk(Protocol):
    """Where finished responses go."""

    async def open_session(self, key: SessionKey, plan: RewardPlan, *, token: str | None) -> None:
        """Judge the responses of this session, on behalf of the token's owner.

        Raises:
            NotFound: no such pipeline.
            InvalidRequest: its settings are wrong.
            DependencyDown: the reward service cannot be reached.
        """
        ...

    def open_batch(self, key: SessionKey, batch_id: str, *, deadline_s: float | None) -> None:
        """Name the deadline of a batch before its first response."""
        ...

    def announce(self, key: SessionKey, responses: int) -> None:
        """Rollouts have begun: this many responses will come."""
        ...

    def hand_in(self, key: SessionKey, batch_id: str, response: Response) -> None:
        """Have it judged.

        Raises:
            Saturated: too many wait already.
        """
        ...

    def forget(self, number: int) -> None:
        """Its answer is no longer needed: withdraw it, if there is none yet."""
        ...

    def seal(self, key: SessionKey, batch_id: str) -> None:
        """No more responses of this batch will come."""
        ...

    async def close_session(self, key: SessionKey) -> None:
        """Cancel the session's remaining responses."""
        ...

    @property
    def waiting(self) -> int:
        """Responses without an answer yet."""
        ...

    async def close(self) -> None:
        """Close all sessions."""
        ...


@dataclass(slots=True)
class _Awaited:
    """One response without an answer yet."""

    until_ns: int
    """When it is given up, on the loop's clock."""
    asked_ns: int = 0
    stored_ns: int = 0


@dataclass(slots=True)
class _Lane:
    """One reward batch of a session."""

    due: list[Response] = field(default_factory=list)
    withdrawn: list[int] = field(default_factory=list)
    """Submitted, or being submitted, and no longer needed."""
    awaited: dict[int, _Awaited] = field(default_factory=dict)
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    deadline_s: float | None = None
    sealed: bool = False
    task: asyncio.Task[None] | None = None

    def stamp(self, sent: Sequence[Response], *, asked_ns: int = 0, stored_ns: int = 0) -> None:
        """Note when these responses were sent, or stored by the reward service."""
        for response in sent:
            awaited = self.awaited.get(response.number)
            if awaited is not None:
                awaited.asked_ns = awaited.asked_ns or asked_ns
                awaited.stored_ns = awaited.stored_ns or stored_ns

    def withdraw(self, number: int) -> None:
        """Do not send it, or cancel it."""
        left = [response for response in self.due if response.number != number]
        if len(left) == len(self.due):
            self.withdrawn.append(number)
            self.wake.set()
        self.due = left


@dataclass(slots=True)
class _Session:
    plan: RewardPlan
    client: Client
    task: Task
    lanes: dict[str, _Lane] = field(default_factory=dict)
    announced: int = 0
    """Responses to announce next; 0: none."""
    announcing: asyncio.Task[None] | None = None


class RewardServiceDesk:
    """A `RewardDesk` in front of the reward service."""

    def __init__(
        self,
        *,
        connect: Callable[[str | None], Client],
        on_judged: Callable[[int, Judged], None],
        clock: Clock,
        new_id: Callable[[], str],
        waiting_max: int,
    ) -> None:
        """Make a desk.

        Args:
            connect: a client of the reward service that shows this token.
            on_judged: called with each answer, on the event loop.
            clock: for time limits.
            new_id: names reward batches and requests, so that a service that was started again
                never meets its own names.
            waiting_max: responses without an answer.
        """
        self._connect = connect
        self._on_judged = on_judged
        self._clock = clock
        self._new_id = new_id
        self._waiting_max = waiting_max
        self._sessions: dict[SessionKey, _Session] = {}
        self._lane_of: dict[int, _Lane] = {}
        self._expiry: asyncio.Task[None] | None = None

    @property
    def waiting(self) -> int:
        """Responses without an answer yet."""
        return len(self._lane_of)

    async def open_session(self, key: SessionKey, plan: RewardPlan, *, token: str | None) -> None:
        """See `RewardDesk`."""
        client = self._connect(token)
        try:
            task = await _registered(client, key, plan, self._new_id)
        except BaseException:
            await client.close()
            raise
        self._sessions[key] = _Session(plan=plan, client=client, task=task)
        if self._expiry is None:
            self._expiry = asyncio.create_task(self._expire(), name="reward-expiry")

    def open_batch(self, key: SessionKey, batch_id: str, *, deadline_s: float | None) -> None:
        """Set the deadline of a batch before its first response."""
        lane = self._lane(key, batch_id)
        lane.deadline_s = lane.deadline_s if deadline_s is None else deadline_s

    def announce(self, key: SessionKey, responses: int) -> None:
        """Hint to the reward service; while one hint is in progress, only the last is kept."""
        session = self._sessions[key]
        session.announced = responses
        if session.announcing is None or session.announcing.done():
            session.announcing = asyncio.create_task(_hint(session), name="reward-hint")

    def hand_in(self, key: SessionKey, batch_id: str, response: Response) -> None:
        """Have the response judged.

        Raises:
            Saturated: too many wait already.
        """
        if self.waiting >= self._waiting_max:
            raise Saturated("too many responses wait for rewards", retry_after_s=RETRY_AFTER_S)
        session, lane = self._sessions[key], self._lane(key, batch_id)
        until_ns = self._clock.monotonic_ns() + round(session.plan.wait_s_max * 1e9)
        lane.due.append(response)
        lane.awaited[response.number] = _Awaited(until_ns)
        self._lane_of[response.number] = lane
        lane.wake.set()
        if lane.task is None:
            lane.task = asyncio.create_task(
                self._serve(batch_id, session, lane), name=f"rewards {batch_id}"
            )

    def forget(self, number: int) -> None:
        """Its answer is no longer needed: withdraw it, if there is none yet."""
        lane = self._lane_of.pop(number, None)
        if lane is not None:
            lane.awaited.pop(number, None)
            lane.withdraw(number)

    def seal(self, key: SessionKey, batch_id: str) -> None:
        """No more responses of this batch will come."""
        session = self._sessions.get(key)
        lane = session.lanes.get(batch_id) if session else None
        if session is None or lane is None:
            return
        lane.sealed = True
        lane.wake.set()
        if lane.task is None:  # no response came
            del session.lanes[batch_id]

    async def close_session(self, key: SessionKey) -> None:
        """Cancel the session's remaining responses."""
        session = self._sessions.pop(key, None)
        if session is None:
            return
        tasks = [lane.task for lane in session.lanes.values() if lane.task is not None]
        tasks += [session.announcing] if session.announcing is not None else []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for lane in session.lanes.values():
            self._fail(lane, "the session was closed")
        await session.client.close()

    async def close(self) -> None:
        """Close all sessions."""
        if self._expiry is not None:
            self._expiry.cancel()
        for key in list(self._sessions):
            await self.close_session(key)

    # -- one lane --------------------------------------------------------------------------------
    def _lane(self, key: SessionKey, batch_id: str) -> _Lane:
        return self._sessions[key].lanes.setdefault(batch_id, _Lane())

    async def _serve(self, batch_id: str, session: _Session, lane: _Lane) -> None:
        batch: Batch | None = None
        try:
            batch = await self._open(batch_id, session, lane)
            async with asyncio.TaskGroup() as tasks:
                sending = tasks.create_task(self._send(batch, lane))
                await self._read(batch, lane)
                sending.cancel()  # the batch is complete
        except* AssayError as errors:
            log.warning("rewards_failed", batch=batch_id, why=str(errors.exceptions[0]))
            self._fail(lane, str(errors.exceptions[0]))
        except* asyncio.CancelledError:
            if batch is not None:
                await _cancel(batch)
            raise
        finally:
            if session.lanes.get(batch_id) is lane:
                del session.lanes[batch_id]

    async def _open(self, batch_id: str, session: _Session, lane: _Lane) -> Batch:
        name = f"{batch_id[:64]}.{self._new_id()}" if batch_id else f"rollout.{self._new_id()}"
        return await session.client.open_batch(
            session.task, batch_id=name, deadline_s=lane.deadline_s
        )

    async def _send(self, batch: Batch, lane: _Lane) -> None:
        """What became due or was withdrawn meanwhile goes in one message, until the batch ends."""
        sealed = False
        while True:
            await lane.wake.wait()
            lane.wake.clear()
            due, lane.due = lane.due, []
            if due:
                await self._submit(batch, lane, due)
            gone, lane.withdrawn = lane.withdrawn, []
            for first in range(0, len(gone), CANCELLED_PER_CALL_MAX):
                await _cancel_requests(batch, gone[first : first + CANCELLED_PER_CALL_MAX])
            if lane.sealed and not lane.due and not sealed:
                await batch.seal()
                sealed = True

    async def _submit(self, batch: Batch, lane: _Lane, due: Sequence[Response]) -> None:
        """Submit all; a response that the reward service refuses as invalid is left out."""
        left = list(due)
        while left:
            requests = [_request(response) for response in left]
            lane.stamp(left, asked_ns=self._clock.now_ns())
            try:
                await batch.submit(requests)
            except (InvalidRequest, TooLarge) as error:
                wrong = _index_of(error.field)
                if wrong is None or wrong >= len(left):
                    raise
                evidence = Evidence(error=f"{error.field}: {error.message}")
                judged = Judged(outcome=Outcome.REJECTED_INVALID, evidence=evidence)
                self._answer(lane, left.pop(wrong).number, judged)
            else:
                lane.stamp(left, stored_ns=self._clock.now_ns())
                return

    async def _read(self, batch: Batch, lane: _Lane) -> None:
        async with aclosing(batch.results()) as results:
            async for result in results:
                self._answer(lane, int(result.request_id), _judged(result))

    def _answer(self, lane: _Lane, number: int, judged: Judged) -> None:
        awaited = lane.awaited.pop(number, None)
        if awaited is not None:
            del self._lane_of[number]
            asked_ns, stored_ns = awaited.asked_ns, awaited.stored_ns
            self._on_judged(number, replace(judged, asked_ns=asked_ns, stored_ns=stored_ns))

    def _fail(self, lane: _Lane, why: str) -> None:
        lane.due = []
        for number in list(lane.awaited):
            self._answer(lane, number, infra_failed(why))

    async def _expire(self) -> None:
        while True:
            await self._clock.sleep(EXPIRE_EVERY_S)
            now_ns = self._clock.monotonic_ns()
            for number, lane in list(self._lane_of.items()):
                if lane.awaited[number].until_ns <= now_ns:
                    lane.withdraw(number)
                    self._answer(lane, number, infra_failed("no reward within the session's time"))


def infra_failed(why: str) -> Judged:
    """End it as INFRA_FAILED; `why` goes into the evidence."""
    return Judged(outcome=Outcome.INFRA_FAILED, evidence=Evidence(error=why))


async def _hint(session: _Session) -> None:
    """A hint only helps to start workers in time: without it, rewards come later."""
    while session.announced:
        size, session.announced = session.announced, 0
        try:
            await session.client.hint(session.task, size=size)
        except AssayError as error:
            log.warning("hint_failed", why=error.message)


async def _registered(
    client: Client, key: SessionKey, plan: RewardPlan, new_id: Callable[[], str]
) -> Task:
    settings = json_object(plan.settings_json, "session.reward.settings_json")
    try:
        name = f"rollout.{key.session_id}"[:128]
        return await client.register_task(name, pipeline=plan.pipeline, settings=settings)
    except Conflict:  # a session of that name had other reward settings
        name = f"rollout.{new_id()}"
        return await client.register_task(name, pipeline=plan.pipeline, settings=settings)


def json_object(text: str | bytes, field_name: str) -> dict[str, Any]:
    """Parse a JSON object; empty text is the empty object.

    Raises:
        InvalidRequest: it is not a JSON object.
    """
    try:
        parsed = json.loads(text) if text else {}
    except (ValueError, RecursionError) as error:
        raise InvalidRequest(f"{field_name}: {error}", field=field_name) from None
    if not isinstance(parsed, dict):
        raise InvalidRequest(f"{field_name}: not a JSON object", field=field_name)
    return parsed


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


async def _cancel_requests(batch: Batch, numbers: Sequence[int]) -> None:
    """Cancel; if that fails, the work is done although no one needs it."""
    try:
        await batch.cancel_requests(map(str, numbers))
    except AssayError as error:
        log.warning("rewards_not_cancelled", responses=len(numbers), why=error.message)


async def _cancel(batch: Batch) -> None:
    with contextlib.suppress(AssayError, TimeoutError):
        async with asyncio.timeout(CANCEL_S_MAX):
            await batch.cancel()
