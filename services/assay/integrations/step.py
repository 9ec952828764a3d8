"""One trainer step as one batch on the platform: filled while it is scored.

Invariants: every sample that was added gets exactly one judgement, whatever happens to the
platform; the wait is bounded by `patience_s` without any result, and messages name what is being
waited for. Everything sent may be sent again, so an attempt that failed is repeated with the same
requests, in a new batch where the old one is lost.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import uuid
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from assay.client import Request
from assay.client.variables import TOKEN
from assay.core.errors import (
    AssayError,
    Conflict,
    FailedPrecondition,
    InvalidRequest,
    NotFound,
    PermissionDenied,
    Saturated,
    TooLarge,
    Unauthenticated,
)
from assay.integrations.judgement import (
    REJECTED_SATURATED,
    UNREACHABLE,
    Judgement,
    judgement,
    unscored,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from assay.client import Batch as GrpcBatch
    from assay.client.http import AsyncHttpBatch
    from assay.integrations.sample import Sample

    Batch = GrpcBatch | AsyncHttpBatch

LOG: Final = logging.getLogger("assay.integrations")
CALLERS_MISTAKE: Final = (
    InvalidRequest,
    TooLarge,
    Unauthenticated,
    PermissionDenied,
    NotFound,
    Conflict,
)
"""Raised while nothing was ever scored, because waiting cannot help; later they are waited out."""
REJECTED_INVALID: Final = "REJECTED_INVALID"
PAUSE_S: Final = 1.0
CANCEL_S: Final = 2.0
_INDEX: Final = re.compile(r"requests\[(\d+)\]")


def _advised(error: AssayError) -> AssayError:
    """Say what to set where the service can only say what did not arrive."""
    if isinstance(error, Unauthenticated):
        return Unauthenticated(f"{error.message}; the option `token` or {TOKEN} is the tenant's")
    return error


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long a step waits for a platform that returns nothing, and how often it says so."""

    total_s: float
    say_every_s: float = 30.0


class _OutOfPatienceError(Exception):
    """No result arrived for `patience_s`."""


class Step:
    """A batch that samples are added to; belongs to one event loop."""

    def __init__(
        self,
        *,
        open_batch: Callable[[str], Awaitable[Batch]],
        patience: Patience,
        proven: Callable[[], bool],
        judged: Callable[[Judgement], None],
    ) -> None:
        """Make a step; `run` does its work.

        Args:
            open_batch: registers the task and opens the batch of this name; may be repeated.
            patience: how long to wait without a result.
            proven: whether the platform has scored anything before.
            judged: is called with each judgement.
        """
        self.count = 0
        self.closed = False
        self._open_batch = open_batch
        self._patience = patience
        self._proven = proven
        self._judged = judged
        self._requests: dict[str, Request] = {}
        self._waiting: dict[str, asyncio.Future[Judgement]] = {}
        self._unsent: list[str] = []
        self._withdrawn: list[str] = []
        self._changed = asyncio.Event()
        self._over = asyncio.Event()
        self._batch: Batch | None = None
        self._sealed = False
        self._last_s = self._said_s = self._now_s()
        self._said = False
        self._saturated = False
        """The last attempt without a result ended because a quota or a queue was full."""

    @property
    def open_count(self) -> int:
        """Samples without a judgement."""
        return len(self._requests)

    def add(self, samples: Sequence[Sample]) -> list[asyncio.Future[Judgement]]:
        """Add samples; each future ends with the sample's judgement.

        A future that is cancelled withdraws its request, on the platform too.

        Raises:
            FailedPrecondition: the step is closed.
        """
        if self.closed:
            raise FailedPrecondition("the step is closed")
        if not self._requests:
            self._last_s = self._said_s = self._now_s()
            self._said = False
        futures = []
        for sample in samples:
            request_id = f"s{self.count}"
            self.count += 1
            self._requests[request_id] = Request(
                request_id=request_id,
                response=sample.response,
                reference=sample.reference,
                group_id=sample.group_id,
            )
            self._unsent.append(request_id)
            future = asyncio.get_running_loop().create_future()
            future.add_done_callback(partial(self._withdraw_if_cancelled, request_id))
            self._waiting[request_id] = future
            futures.append(future)
        self._changed.set()
        return futures

    def close(self) -> None:
        """No more samples will be added."""
        self.closed = True
        self._changed.set()

    async def run(self) -> None:
        """Judge all samples until the step is closed and nothing is open."""
        batch_id = uuid.uuid4().hex
        try:
            while not (self.closed and not self._requests):
                try:
                    await self._attempt(batch_id)
                except AssayError as error:
                    if isinstance(error, NotFound | FailedPrecondition | Conflict):
                        batch_id = uuid.uuid4().hex
                    await self._stall(error)
        except Exception as error:
            if not self._proven():  # it may be so in every step
                self._fail_all(error)
            raise
        finally:
            if self._requests or self._withdrawn:  # the trainer interrupts the wait
                try:
                    await self._cancel()
                finally:
                    self._resolve_all(unscored(UNREACHABLE, "the wait was interrupted"))

    async def _stall(self, error: AssayError) -> None:
        """Wait before the next attempt, or end all samples: with the error, or unscored."""
        if isinstance(error, CALLERS_MISTAKE) and not self._proven():
            self._fail_all(_advised(error))
            return
        self._saturated = isinstance(error, Saturated)
        try:
            self._check_patience(f"{type(error).__name__}: {error.message}", failed=True)
        except _OutOfPatienceError as spent:
            self._resolve_all(self._out_of_patience(str(spent)))
        else:
            await asyncio.sleep(max(PAUSE_S, error.retry_after_s))

    def _out_of_patience(self, reason: str) -> Judgement:
        return unscored(REJECTED_SATURATED if self._saturated else UNREACHABLE, reason)

    async def _attempt(self, batch_id: str) -> None:
        if not self._requests:
            await self._changed_or_closed()
            return
        batch = self._batch = await self._open_batch(batch_id)
        self._unsent, self._sealed = list(self._requests), False
        over = asyncio.create_task(self._over.wait())
        work = {asyncio.create_task(self._send(batch)), asyncio.create_task(self._listen(batch))}
        pending = work | {over}
        try:
            while over in pending:
                done, pending = await asyncio.wait(
                    pending,
                    timeout=min(self._patience.say_every_s, self._patience.total_s),
                    return_when=asyncio.FIRST_COMPLETED,
                )
                for task in done:
                    task.result()
                self._check_patience("the platform has sent no result, and no error", failed=False)
        except _OutOfPatienceError as spent:
            for task in work:  # what the cancelled batch says of its requests is no news
                task.cancel()
            await self._cancel()
            self._resolve_all(self._out_of_patience(str(spent)))
        finally:
            for task in work | {over}:
                task.cancel()
            await asyncio.gather(*work, over, return_exceptions=True)

    async def _changed_or_closed(self) -> None:
        self._changed.clear()
        if not self.closed:
            await self._changed.wait()

    async def _send(self, batch: Batch) -> None:
        while True:  # nothing is awaited between finding no work and clearing the event
            if self._unsent:
                ids, self._unsent = self._unsent, []
                await self._submit(batch, ids)
            elif self._withdrawn:
                await self._cancel_withdrawn(batch)
            elif self.closed and not self._sealed:
                await batch.seal()
                self._sealed = True
                self._end_if_complete()
            else:
                self._changed.clear()
                await self._changed.wait()

    async def _cancel_withdrawn(self, batch: Batch) -> None:
        """End what no caller waits for; a platform that cannot be told judges it for nothing."""
        count = len(self._withdrawn)
        with contextlib.suppress(AssayError, TimeoutError):
            async with asyncio.timeout(CANCEL_S):
                await batch.cancel_requests(self._withdrawn[:count])
        del self._withdrawn[:count]
        self._end_if_complete()

    async def _submit(self, batch: Batch, ids: list[str]) -> None:
        """Send these; one that the service refuses is unscored and stops none of the others."""
        while ids := [request_id for request_id in ids if request_id in self._requests]:
            try:
                await batch.submit([self._requests[request_id] for request_id in ids])
            except (InvalidRequest, TooLarge) as error:
                found = _INDEX.match(error.field)
                if found is None or int(found[1]) >= len(ids):
                    raise
                self._resolve(ids.pop(int(found[1])), unscored(REJECTED_INVALID, error.message))
            else:
                return

    async def _listen(self, batch: Batch) -> None:
        async with aclosing(batch.pages()) as pages:
            async for page in pages:
                for result in page.results:
                    self._resolve(result.request_id, judgement(result))
                self._end_if_complete()
        if self._requests:
            raise FailedPrecondition(f"the batch ended without {len(self._requests)} results")

    def _end_if_complete(self) -> None:
        if self._sealed and not self._requests and not self._withdrawn:
            self._over.set()

    def _check_patience(self, reason: str, *, failed: bool) -> None:
        """Say what is being waited for: after the first failed attempt, then at intervals.

        Raises:
            _OutOfPatienceError: nothing arrived for too long.
        """
        if not self._requests:
            return
        idle_s = self._now_s() - self._last_s
        due = self._now_s() - self._said_s >= self._patience.say_every_s
        if due or (failed and not self._said):
            self._said, self._said_s = True, self._now_s()
            LOG.warning(
                "waiting for %d rewards since %.0f s (at most %.0f s): %s",
                *(len(self._requests), idle_s, self._patience.total_s, reason),
            )
        if idle_s >= self._patience.total_s:
            message = f"no result for {idle_s:.0f} s: {reason}"
            LOG.warning("%d samples stay unscored: %s", len(self._requests), message)
            raise _OutOfPatienceError(message)

    def _resolve(self, request_id: str, judged: Judgement) -> None:
        if self._requests.pop(request_id, None) is None:
            return
        self._last_s = self._said_s = self._now_s()
        self._saturated = False
        self._judged(judged)
        future = self._waiting.pop(request_id)
        if not future.done():
            future.set_result(judged)

    def _withdraw_if_cancelled(self, request_id: str, future: asyncio.Future[Judgement]) -> None:
        if future.cancelled() and self._requests.pop(request_id, None) is not None:
            del self._waiting[request_id]
            self._withdrawn.append(request_id)
            self._changed.set()

    def _resolve_all(self, judged: Judgement) -> None:
        for request_id in list(self._requests):
            self._resolve(request_id, judged)

    async def _cancel(self) -> None:
        """Tell the platform that no one waits for the batch any longer, if it can be reached."""
        if self._batch is not None:
            with contextlib.suppress(AssayError, TimeoutError):
                async with asyncio.timeout(CANCEL_S):
                    await self._batch.cancel()

    def _fail_all(self, error: Exception) -> None:
        self.closed = True
        self._requests.clear()
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(error)
        self._waiting.clear()

    @staticmethod
    def _now_s() -> float:
        return asyncio.get_running_loop().time()
