"""Sends finished responses to the reward service and returns their rewards.

One lane per session and reward batch (`lane`), opened at the reward service by its first response:
until then, the reward service plans by the hint.

Invariants:
  - each response is answered once: by its result, or as INFRA_FAILED when the reward service
  refused it, stayed unreachable until the client gave up, or did not judge it within `wait_s_max`.
  A reward always comes from a judge;
  - a lane that failed or was sealed takes no more responses: the next one of its batch opens
  another, with the deadline of the first;
  - at most `waiting_max` responses wait, over all lanes (`Saturated` beyond).
"""

from __future__ import annotations

import asyncio
import functools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import structlog

from assay.core.errors import AssayError, Conflict, DependencyDown, Saturated
from assay.rollout.service.records import UNNAMED_MARK
from assay.rollout.service.rewards.lane import Lane
from assay.rollout.service.rewards.port import json_object

if TYPE_CHECKING:
    from collections.abc import Callable

    from assay.client import Batch, Client, Task
    from assay.edge.clock import Clock
    from assay.rollout.service.records import Judged, RewardPlan, SessionKey
    from assay.rollout.service.rewards.port import Response

EXPIRE_EVERY_S: Final = 0.5
RETRY_AFTER_S: Final = 1.0
OPEN_S_MAX: Final = 10.0
"""Shorter than the time that callers of OpenSession, and agents' HTTP clients, wait themselves."""

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class _Session:
    plan: RewardPlan
    client: Client
    task: Task
    lanes: dict[str, Lane] = field(default_factory=dict)
    """Those that take responses."""
    serving: dict[Lane, asyncio.Task[None]] = field(default_factory=dict)
    """Those that have begun; the sealed ones until their last answer."""
    deadlines: dict[str, int] = field(default_factory=dict)
    """Monotonic, of the batches that are not sealed: a batch keeps its own when its lane fails."""
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
        self._lane_of: dict[int, Lane] = {}
        self._expiry: asyncio.Task[None] | None = None

    @property
    def waiting(self) -> int:
        """Responses without an answer yet."""
        return len(self._lane_of)

    async def open_session(self, key: SessionKey, plan: RewardPlan, *, token: str | None) -> None:
        """See `RewardDesk`; a reward service that is away is waited for `OPEN_S_MAX` at most."""
        client = self._connect(token)
        try:
            async with asyncio.timeout(OPEN_S_MAX):
                task = await _registered(client, key, plan, self._new_id)
        except TimeoutError:
            await client.close()
            message = f"the reward service did not answer within {OPEN_S_MAX} s"
            raise DependencyDown(message) from None
        except BaseException:
            await client.close()
            raise
        self._sessions[key] = _Session(plan=plan, client=client, task=task)
        if self._expiry is None:
            self._expiry = asyncio.create_task(self._expire(), name="reward-expiry")

    def open_batch(self, key: SessionKey, batch_id: str, *, deadline_s: float | None) -> None:
        """Set the deadline of a batch before its first response."""
        session = self._sessions[key]
        lane = self._lane(session, batch_id)
        if deadline_s is not None:
            deadline_ns = self._clock.monotonic_ns() + round(deadline_s * 1e9)
            session.deadlines[batch_id] = deadline_ns
            lane.set_deadline(deadline_ns)

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
        session = self._sessions[key]
        lane = self._lane(session, batch_id)
        until_ns = self._clock.monotonic_ns() + round(session.plan.wait_s_max * 1e9)
        lane.hand_in(response, until_ns)
        self._lane_of[response.number] = lane
        if lane not in session.serving:
            session.serving[lane] = lane.begin()

    def forget(self, number: int) -> None:
        """Its answer is no longer needed: withdraw it, if there is none yet."""
        lane = self._lane_of.pop(number, None)
        if lane is not None:
            lane.forget(number)

    def seal(self, key: SessionKey, batch_id: str) -> None:
        """No more responses of this batch will come."""
        session = self._sessions.get(key)
        if session is None:
            return
        session.deadlines.pop(batch_id, None)
        lane = session.lanes.pop(batch_id, None)
        if lane is not None:
            lane.seal()

    async def close_session(self, key: SessionKey) -> None:
        """Cancel the session's remaining responses."""
        session = self._sessions.pop(key, None)
        if session is None:
            return
        lanes = list(session.serving)
        tasks = [*session.serving.values()]
        tasks += [session.announcing] if session.announcing is not None else []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for lane in lanes:
            lane.fail("the session was closed")
        await session.client.close()

    async def close(self) -> None:
        """Close all sessions."""
        if self._expiry is not None:
            self._expiry.cancel()
        for key in list(self._sessions):
            await self.close_session(key)

    # -- lanes -----------------------------------------------------------------------------------
    def _lane(self, session: _Session, batch_id: str) -> Lane:
        """The one that takes responses of this batch."""
        lane = session.lanes.get(batch_id)
        if lane is None:
            lane = session.lanes[batch_id] = Lane(
                batch_id,
                open_batch=functools.partial(self._opened, session, batch_id),
                on_answer=self._answer,
                on_ended=functools.partial(_remove, session, batch_id),
                clock=self._clock,
                deadline_ns=session.deadlines.get(batch_id),
            )
        return lane

    async def _opened(self, session: _Session, batch_id: str, deadline_s: float | None) -> Batch:
        readable = batch_id.partition(UNNAMED_MARK)[0] or "rollout"
        return await session.client.open_batch(
            session.task, batch_id=f"{readable[:64]}.{self._new_id()}", deadline_s=deadline_s
        )

    def _answer(self, number: int, judged: Judged) -> None:
        if self._lane_of.pop(number, None) is not None:
            self._on_judged(number, judged)

    async def _expire(self) -> None:
        while True:
            await self._clock.sleep(EXPIRE_EVERY_S)
            now_ns = self._clock.monotonic_ns()
            for number, lane in list(self._lane_of.items()):
                lane.give_up(number, now_ns)


def _remove(session: _Session, batch_id: str, lane: Lane) -> None:
    """The lane has ended: the next response of its batch opens another one."""
    session.serving.pop(lane, None)
    if session.lanes.get(batch_id) is lane:
        del session.lanes[batch_id]


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
