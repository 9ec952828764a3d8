"""Requests of a remote engine: one task per decoding rollout, on an event loop in its own thread.

Invariants:
  - no request is sent during a pause, and no token is accepted during one in place;
  - a lost request is sent again with the tokens received so far appended to its prompt, at most
    `attempts_max` times in a row without a new token;
  - after a loss the server is first asked which weights it has, and brought back to ours;
  - whatever a server sends, each rollout ends: tokens are checked before they count, a stream that
  brings none for `idle_s` is lost, and what is not expected here ends the one rollout.
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from assay.core.tools.backoff import pause_s
from assay.rollout.errors import ServerLost, ServerRefused, WorkerStalled
from assay.rollout.layout import PauseMode, Stop
from assay.rollout.remote.dialects import check_part

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine, Mapping

    from assay.rollout.remote.dialects import Dialect, Greeting, ReadPart
    from assay.rollout.remote.ledger import RemoteLedger, Row
    from assay.rollout.remote.options import RemoteOptions
    from assay.rollout.remote.transport import Transport


NOT_FOUND = 404


def _lacks_its_end(row: Row, part: ReadPart) -> bool:
    """Whether these are the last possible tokens, and an event with the receipt follows."""
    full = len(row.tokens) + len(part.progress.tokens) >= row.group.max_tokens
    return full and part.stop is Stop.NONE and not part.cut


def _ends_early(row: Row, part: ReadPart) -> bool:
    """Whether it says that the response is over, and the response cannot be: without any token,
    or as too long below its length."""
    n = len(row.tokens) + len(part.progress.tokens)
    short = part.stop is Stop.LENGTH and n < row.group.max_tokens
    return short or (part.stop is not Stop.NONE and n == 0)


@asynccontextmanager
async def _progress_within(seconds: float) -> AsyncIterator[asyncio.Timeout]:
    """The block is lost after this time, which it moves on with each token."""
    try:
        async with asyncio.timeout(seconds) as limit:
            yield limit
    except TimeoutError:
        raise ServerLost(f"the server sent no token for {seconds} s") from None


class Decoder:
    """Moves the ledger's rollouts through the server. `changed` guards the ledger."""

    def __init__(
        self, ledger: RemoteLedger, transport: Transport, dialect: Dialect, options: RemoteOptions
    ) -> None:
        self.changed = threading.Condition(threading.RLock())
        self._ledger, self._transport = ledger, transport
        self._dialect, self._options = dialect, options
        self._tasks: dict[Row, asyncio.Task[None]] = {}
        self._aside: set[asyncio.Task[None]] = set()
        self._pauses = 0
        self._freezes = 0
        """Pauses that hold responses on the server; other pauses need it to decode."""
        self._server_paused = False
        self._suspect = False
        self._closed = False
        self.ids_below = 1 << 31
        """Token ids of responses are below it; its owner sets it once the server is known."""
        self._gate = asyncio.Event()
        self._gate.set()
        self._admin = asyncio.Lock()

    # ---- on the event loop

    async def greet(self) -> Greeting:
        """Check the server, and keep watch on it from now on.

        Raises:
            ServerRefused, ServerLost: as `Dialect.greet`.
        """
        greeting = await self._dialect.greet(self._transport, self._options)
        self._ledger.activated(greeting.version)
        self._keep(self._watch())
        return greeting

    async def _watch(self) -> None:
        """Note whether the server serves: without requests, no one else would see it."""
        while not self._closed:
            try:
                await self._transport.check_health(self._options.health_s)
                away = ""
            except (ServerLost, ServerRefused) as error:
                away = str(error)
            with self.changed:
                self._ledger.away = away
            await asyncio.sleep(self._options.health_every_s)

    def dispatch(self) -> None:
        """Start every waiting rollout that can get a credit."""
        while not self._pauses and not self._closed:
            with self.changed:
                row = self._ledger.start()
            if row is None:
                return
            self._tasks[row] = asyncio.ensure_future(self._decode(row))

    def drop(self, row: Row) -> None:
        """The rollout ended for another reason: close its connection."""
        task = self._tasks.get(row)
        if task is not None:
            task.cancel()
        self.dispatch()

    async def _decode(self, row: Row) -> None:
        try:
            await self._attempts(row)
        except asyncio.CancelledError:
            with self.changed:
                self._ledger.retract(row)
        except Exception as error:  # noqa: BLE001 - see the module: the rollout ends
            self._note(row, f"{type(error).__name__}: {error}", crash=True)
        finally:
            del self._tasks[row]
            with self.changed:
                self.changed.notify_all()
            self.dispatch()

    async def _attempts(self, row: Row) -> None:
        failures = 0
        while row.decoding:
            known = len(row.tokens)
            try:
                await self._request(row)
            except (ServerLost, ServerRefused) as error:
                failures = 1 if len(row.tokens) > known else failures + 1
                self._suspect = True
                last = failures >= self._options.attempts_max or not _may_recover(error)
                self._note(row, str(error), crash=last)
                await asyncio.sleep(self._backoff_s(failures))

    def _note(self, row: Row, why: str, *, crash: bool) -> None:
        with self.changed:
            self._ledger.lost += 1
            self._ledger.last_error = why
            if crash:
                self._ledger.crash(row, why)
            self.changed.notify_all()

    def _backoff_s(self, failures: int) -> float:
        least, most = self._options.backoff_s_min, self._options.backoff_s_max
        return pause_s(failures, first_s=least, longest_s=most)

    async def _request(self, row: Row) -> None:
        await self._gate.wait()
        if self._suspect:
            await self._restore()
        with self.changed:
            if not row.decoding:
                return
            row.requests += 1
            self._ledger.requests += 1
            version = self._ledger.policy_version
            body = self._dialect.body(row)
        await self._stream(row, body, version)
        if row.decoding:
            raise ServerLost("the stream ended before the response did")

    async def _stream(self, row: Row, body: Mapping[str, object], version: int) -> None:
        known = 0
        last: ReadPart | None = None
        loop, idle_s = asyncio.get_running_loop(), self._options.idle_s
        try:
            async with (
                _progress_within(idle_s) as limit,
                aclosing(self._transport.events(self._dialect.path, body)) as events,
            ):
                async for event in events:
                    part = self._dialect.part(event, version, known)
                    if not self._gate.is_set():
                        limit.reschedule(None)
                        await self._gate.wait()
                        limit.reschedule(loop.time() + idle_s)
                    if part is None:
                        continue
                    check_part(part, self.ids_below, self._ledger.versions)
                    if part.progress.tokens:
                        limit.reschedule(loop.time() + idle_s)
                    known += len(part.progress.tokens)
                    if last is not None and not part.progress.tokens:
                        part, last = replace(part, progress=last.progress), None
                    if body.get("return_receipt") and _lacks_its_end(row, part):
                        last = part
                    else:
                        self._take(row, part)
        finally:
            if last is not None:
                self._take(row, last)

    def _take(self, row: Row, part: ReadPart) -> None:
        if _ends_early(row, part):
            part = replace(part, stop=Stop.NONE, cut=True)
        with self.changed:
            if part.receipt is not None and row.requests == 1:
                row.receipt = part.receipt
            now_ns = round(1e9 * asyncio.get_running_loop().time())  # CLOCK_MONOTONIC
            self._ledger.append(row, part.progress, part.stop, now_ns=now_ns)
            if not row.decoding:
                self.changed.notify_all()
        if part.cut and row.decoding:
            raise ServerLost("the server cut the response short")

    async def _restore(self) -> None:
        async with self._admin:
            if self._suspect:
                await self._dialect.restore(self._transport, self._ledger.policy_version)
                self._suspect = False

    # ---- pauses

    async def hold(self, mode: PauseMode, timeout_s: float) -> None:
        """Stop decoding; returns once nothing decodes. `release` ends it.

        Raises:
            WorkerStalled: not held within `timeout_s`; nothing is paused.
        """
        self._pauses += 1
        self._freezes += self._freezing(mode)
        try:
            async with asyncio.timeout(timeout_s):
                await self._hold(mode)
        except TimeoutError:
            self.release(mode)
            raise WorkerStalled(f"not held within {timeout_s} s") from None
        except BaseException:
            self.release(mode)
            raise

    def _freezing(self, mode: PauseMode) -> bool:
        return mode is PauseMode.IN_PLACE and self._dialect.keeps_paused

    async def _hold(self, mode: PauseMode) -> None:
        if mode is PauseMode.FINISH:
            while self._tasks:
                await asyncio.wait(self._tasks.values())
        elif self._freezing(mode):
            await self._hold_in_place()
        else:
            await self._retract()

    async def _hold_in_place(self) -> None:
        self._gate.clear()
        try:
            async with self._admin:
                if not self._server_paused:
                    await self._dialect.pause(self._transport)
                    self._server_paused = True
        except (ServerLost, ServerRefused):
            await self._retract()  # without a connection no response continues

    async def _retract(self) -> None:
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def release(self, mode: PauseMode) -> None:
        """One pause has ended."""
        self._pauses -= 1
        self._freezes -= self._freezing(mode)
        if not self._freezes:
            self._gate.set()
            if self._server_paused:
                self._keep(self._resume_server())
        self.dispatch()

    async def _resume_server(self) -> None:
        """Retry until it answers, or is to be held again, or the engine is closed."""
        failures = 0
        while not self._closed:
            async with self._admin:
                if self._freezes or not self._server_paused:
                    return
                try:
                    await self._dialect.resume(self._transport)
                except ServerRefused:
                    return  # a server that was replaced is not paused
                except ServerLost:
                    failures += 1
                else:
                    self._server_paused = False
                    return
            await asyncio.sleep(self._backoff_s(failures))

    def _keep(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._aside.add(task)
        task.add_done_callback(self._aside.discard)

    # ---- weights

    async def stage(self, version: int, path: str) -> None:
        """See `Dialect.stage`."""
        async with self._admin:
            allowed = self._options.stage_s
            await self._dialect.stage(self._transport, version, path, allowed)

    async def activate(self, version: int) -> None:
        """See `Dialect.activate`; within a pause."""
        async with self._admin:
            await self._dialect.activate(self._transport, version, self._options.stage_s)
            with self.changed:
                self._ledger.activated(version)

    async def close(self) -> None:
        """Close every connection."""
        self._closed = True
        for task in [*self._tasks.values(), *self._aside]:
            task.cancel()
        await asyncio.gather(*self._tasks.values(), *self._aside, return_exceptions=True)
        await self._transport.close()
        await asyncio.get_running_loop().shutdown_asyncgens()


def _may_recover(error: ServerLost | ServerRefused) -> bool:
    """A missing model means that a new process was not given it yet."""
    return isinstance(error, ServerLost) or error.status == NOT_FOUND
