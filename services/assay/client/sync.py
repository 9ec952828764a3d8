"""The synchronous client, for programs without an event loop.

It runs the asynchronous client on an event loop in a separate thread, so the two behave alike.
Ctrl-C ends the waiting call, on the server too. Must not be used across a fork.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import TYPE_CHECKING, Any, Self, TypeVar

from assay.client.client import Batch, Client

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Coroutine, Iterable, Iterator, Mapping
    from types import TracebackType

    from assay.client.backoff import Backoff
    from assay.client.types import (
        BatchStatus,
        GroupSummary,
        Page,
        Pipeline,
        Request,
        Result,
        Scores,
        Submitted,
        Task,
    )

T = TypeVar("T")


class SyncClient:
    """See `Client`; usable from any thread."""

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        root_certificates: bytes | None = None,
        backoff: Backoff | None = None,
        timeout_s: float = 60.0,
    ) -> None:
        """See `Client.__init__`."""
        self._loop = _LoopThread()
        try:
            self._client = self._loop.run(
                _made(
                    url,
                    token=token,
                    root_certificates=root_certificates,
                    backoff=backoff,
                    timeout_s=timeout_s,
                )
            )
        except BaseException:
            self._loop.close()
            raise

    def __enter__(self) -> Self:
        """No message is sent yet."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close."""
        self.close()

    def close(self) -> None:
        """See `Client.close`; may be called twice."""
        if self._loop.running:
            self._loop.run(self._client.close())
            self._loop.close()

    def list_pipelines(self) -> list[Pipeline]:
        """See `Client.list_pipelines`."""
        return self._loop.run(self._client.list_pipelines())

    def register_task(
        self,
        task_id: str,
        *,
        pipeline: str,
        settings: Mapping[str, Any] | None = None,
        batch_size: int = 0,
        delay_budget_ms: int | None = None,
        trainer_cost_rate: float = 0.0,
    ) -> Task:
        """See `Client.register_task`."""
        registering = self._client.register_task(
            task_id,
            pipeline=pipeline,
            settings=settings,
            batch_size=batch_size,
            delay_budget_ms=delay_budget_ms,
            trainer_cost_rate=trainer_cost_rate,
        )
        return self._loop.run(registering)

    def hint(self, task: Task | str, *, size: int = 0) -> None:
        """See `Client.hint`."""
        self._loop.run(self._client.hint(task, size=size))

    def open_batch(
        self,
        task: Task | str,
        *,
        size: int = 0,
        group_size: int = 0,
        batch_id: str = "",
        deadline_s: float | None = None,
    ) -> SyncBatch:
        """See `Client.open_batch`."""
        opening = self._client.open_batch(
            task, size=size, group_size=group_size, batch_id=batch_id, deadline_s=deadline_s
        )
        return SyncBatch(self._loop.run(opening), loop=self._loop)

    def batch(self, batch_id: str) -> SyncBatch:
        """See `Client.batch`."""
        return SyncBatch(self._client.batch(batch_id), loop=self._loop)

    def score(
        self,
        requests: Iterable[Request],
        *,
        task: Task | str = "",
        pipeline: str = "",
        settings: Mapping[str, Any] | None = None,
        timeout_s: float | None = None,
    ) -> Scores:
        """See `Client.score`."""
        scoring = self._client.score(
            requests, task=task, pipeline=pipeline, settings=settings, timeout_s=timeout_s
        )
        return self._loop.run(scoring)


class SyncBatch:
    """See `Batch`."""

    def __init__(self, batch: Batch, *, loop: _LoopThread) -> None:
        self.batch_id = batch.batch_id
        self._batch = batch
        self._loop = loop

    def submit(self, requests: Iterable[Request]) -> Submitted:
        """See `Batch.submit`."""
        return self._loop.run(self._batch.submit(requests))

    def seal(self) -> BatchStatus:
        """See `Batch.seal`."""
        return self._loop.run(self._batch.seal())

    def cancel(self) -> int:
        """See `Batch.cancel`."""
        return self._loop.run(self._batch.cancel())

    def status(self) -> BatchStatus:
        """See `Batch.status`."""
        return self._loop.run(self._batch.status())

    def pages(self, *, cursor: int = 0) -> Iterator[Page]:
        """See `Batch.pages`."""
        return self._loop.iterate(self._batch.pages(cursor=cursor))

    def results(self, *, cursor: int = 0) -> Iterator[Result]:
        """See `Batch.results`."""
        for page in self.pages(cursor=cursor):
            yield from page.results

    def groups(self, *, cursor: int = 0) -> Iterator[GroupSummary]:
        """See `Batch.groups`."""
        for page in self.pages(cursor=cursor):
            yield from page.groups

    def collect(self) -> Scores:
        """See `Batch.collect`."""
        return self._loop.run(self._batch.collect())


async def _made(url: str, **options: Any) -> Client:  # noqa: ANN401 those of `Client`
    # On the loop that will use it: a channel belongs to the loop on which it was made.
    return Client(url, **options)


class _LoopThread:
    """An event loop in a daemon thread."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="assay-client", daemon=True
        )
        self._thread.start()

    @property
    def running(self) -> bool:
        """False once closed."""
        return self._thread.is_alive()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` on the loop and wait for it; an interrupt here cancels it there."""
        if not self.running:
            work.close()
            raise RuntimeError("the client is closed")
        doing = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return doing.result()
        except BaseException:
            doing.cancel()
            raise

    def iterate(self, items: AsyncGenerator[T, None]) -> Iterator[T]:
        """Yield items one by one."""
        try:
            with contextlib.suppress(StopAsyncIteration):
                while True:
                    yield self.run(_next(items))
        finally:
            if self.running:
                self.run(items.aclose())

    def close(self) -> None:
        """Stop the loop and its thread."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _next(items: AsyncGenerator[T, None]) -> T:
    return await anext(items)
