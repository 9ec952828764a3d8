"""Joins small submissions of one batch into one message: a message costs far more than a request.

A submission that meets no other goes at once. One that meets another in progress waits until that
one is answered, and no longer than `JOIN_S`, so a trainer that submits responses one by one as they
finish sends one or two messages per round trip in place of one per response. If a joined message is
refused, nothing of it was stored, and each submission is sent again by itself, so that each caller
gets its own error.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from assay.client.types import Submitted
from assay.core.errors import AssayError, DependencyDown

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from assay.v1.reward_pb2 import RewardRequest

    Messages = Sequence[RewardRequest]

JOIN_S: Final = 0.003
"""How long a submission waits for others, in seconds."""
JOINED_REQUESTS_MAX: Final = 256
"""A larger submission, or one that would exceed this together with others, goes by itself."""
JOINED_BYTES_MAX: Final = 512 * 1024


class Joining:
    """Submissions of one batch."""

    def __init__(self, send: Callable[[Messages], Awaitable[Submitted]], *, join_s: float) -> None:
        """Join submissions.

        Args:
            send: submits requests as one submission.
            join_s: how long one waits for others; 0: none ever does.
        """
        self._send = send
        self._join_s = join_s
        self._sending = 0
        self._waiting: list[tuple[Messages, asyncio.Future[Submitted]]] = []
        self._room = JOINED_REQUESTS_MAX
        self._bytes_left = JOINED_BYTES_MAX
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None

    async def submit(self, messages: Messages) -> Submitted:
        """As `send`, maybe together with other submissions."""
        self._enter_loop()
        if self._join_s and (self._sending or self._waiting) and self._fits(messages):
            return await self._wait(messages)
        self._sending += 1
        try:
            return await self._send(messages)
        finally:
            self._answered()

    def _enter_loop(self) -> None:
        """What another loop had in progress, for example before a fork, is no longer waited for."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._loop, self._timer = loop, None
            self._sending, self._waiting = 0, []
            self._room = JOINED_REQUESTS_MAX
            self._bytes_left = JOINED_BYTES_MAX

    def _fits(self, messages: Messages) -> bool:
        size = sum(message.ByteSize() for message in messages)
        if len(messages) > JOINED_REQUESTS_MAX or size > JOINED_BYTES_MAX:
            return False
        if len(messages) > self._room or size > self._bytes_left:
            self._flush()
        self._room -= len(messages)
        self._bytes_left -= size
        return True

    async def _wait(self, messages: Messages) -> Submitted:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Submitted] = loop.create_future()
        self._waiting.append((messages, answer))
        if self._timer is None:
            self._timer = loop.call_later(self._join_s, self._flush)
        return await answer

    def _flush(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        # A caller that was cancelled meanwhile submits nothing.
        waiting = [one for one in self._waiting if not one[1].done()]
        self._waiting = []
        self._room, self._bytes_left = JOINED_REQUESTS_MAX, JOINED_BYTES_MAX
        if waiting:
            task = asyncio.create_task(self._send_joined(waiting))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _send_joined(
        self, waiting: Sequence[tuple[Messages, asyncio.Future[Submitted]]]
    ) -> None:
        self._sending += 1
        try:
            results: Sequence[Submitted | BaseException] = await self._as_one(waiting)
            if not results:
                sending = (self._send(messages) for messages, _ in waiting)
                results = await asyncio.gather(*sending, return_exceptions=True)
            for (_, answer), result in zip(waiting, results, strict=True):
                _settle(answer, result)
        except BaseException as error:
            for _, answer in waiting:
                _settle(answer, error)
            if not isinstance(error, Exception):  # any other its callers have
                raise
        finally:
            self._answered()

    async def _as_one(
        self, waiting: Sequence[tuple[Messages, asyncio.Future[Submitted]]]
    ) -> list[Submitted]:
        """Each caller's part of one message; none if it has to be sent by itself.

        Raises:
            DependencyDown: nothing can be sent now, neither together nor each by itself.
        """
        if len(waiting) == 1:
            return []
        try:
            joined = await self._send([one for messages, _ in waiting for one in messages])
        except DependencyDown:
            raise
        except AssayError:
            return []  # which of them is wrong shows when each is sent by itself
        return _shares(waiting, joined)

    def _answered(self) -> None:
        """A message was answered; if it was the only one, what waits goes."""
        self._sending -= 1
        if not self._sending and self._waiting:
            # After the callers that this answer wakes: what they submit next goes with it.
            asyncio.get_running_loop().call_soon(self._flush)


def _shares(
    waiting: Sequence[tuple[Messages, asyncio.Future[Submitted]]], joined: Submitted
) -> list[Submitted]:
    """Each caller's part of the counts.

    A request that is twice in the message counts for the first. Those that another client had
    submitted before count as duplicates of the first callers: the sums are exact.
    """
    seen: set[str] = set()
    shares, left = [], joined.duplicates
    repeated = []
    for messages, _ in waiting:
        ids = {message.request_id for message in messages}
        repeated.append(len(messages) - len(ids - seen))
        seen |= ids
    left -= sum(repeated)
    for (messages, _), twice in zip(waiting, repeated, strict=True):
        before = min(max(left, 0), len(messages) - twice)
        left -= before
        duplicates = twice + before
        shares.append(Submitted(accepted=len(messages) - duplicates, duplicates=duplicates))
    return shares


def _settle(answer: asyncio.Future[Submitted], result: Submitted | BaseException) -> None:
    if answer.done():
        return
    if isinstance(result, asyncio.CancelledError):
        answer.cancel()
    elif isinstance(result, BaseException):
        answer.set_exception(result)
    else:
        answer.set_result(result)
