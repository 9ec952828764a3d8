"""The asynchronous client over HTTP, with the methods, types and errors of `Client`.

    async with AsyncHttpClient("http://127.0.0.1:8471") as client:
        scores = await client.score([Request(...)], pipeline="math")

For environments in which protobuf or grpcio cannot be installed; see `assay.client.http.client` for
what it lacks. A task that is cancelled closes its connection at once, which ends a `score` on the
platform too.
"""

from __future__ import annotations

import asyncio
import uuid
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Self

from assay.client import variables
from assay.client.backoff import Backoff
from assay.client.http import bodies, calls
from assay.client.http.address import LISTEN_S, tls_of
from assay.client.http.operations import AsyncBatchOperations, AsyncOperations, Operation, T
from assay.client.http.streams import AsyncTransport, lines
from assay.client.http.transport import WORTH_REPEATING, Silent
from assay.client.paged import Paged
from assay.client.types import (
    Page,
    Request,
    Scores,
    Submitted,
    Task,
)
from assay.core.errors import AssayError, DependencyDown

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable, Mapping
    from pathlib import Path


class AsyncHttpClient(AsyncOperations):
    """A connection to the reward service; for the tasks of one event loop."""

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        root_certificates: bytes | None = None,
        identity: tuple[Path, Path] | None = None,
        backoff: Backoff | None = None,
        timeout_s: float = 60.0,
    ) -> None:
        self._transport = AsyncTransport(
            url,
            token=variables.token_of(token),
            tls=tls_of(url, root_certificates, identity),
            backoff=backoff or Backoff(),
            timeout_s=timeout_s,
        )

    async def __aenter__(self) -> Self:
        """No message is sent yet."""
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close idle connections; batches continue on the server."""
        await self._transport.close()

    async def open_batch(
        self,
        task: Task | str,
        *,
        size: int = 0,
        group_size: int = 0,
        batch_id: str = "",
        deadline_s: float | None = None,
        deadline_ns: int | None = None,
    ) -> AsyncHttpBatch:
        call = calls.open_batch(
            task,
            batch_id=batch_id or uuid.uuid4().hex,
            size=size,
            group_size=group_size,
            deadline_s=deadline_s,
            deadline_ns=deadline_ns,
        )
        return self.batch((await self._told(call))["batch"]["batch_id"])

    def batch(self, batch_id: str) -> AsyncHttpBatch:
        return AsyncHttpBatch(batch_id, transport=self._transport)

    async def score(
        self,
        requests: Iterable[Request],
        *,
        task: Task | str = "",
        pipeline: str = "",
        settings: Mapping[str, Any] | None = None,
        timeout_s: float | None = None,
        deadline_ns: int | None = None,
    ) -> Scores:
        call = calls.score(
            requests,
            task=task,
            pipeline=pipeline,
            settings=dict(settings or {}),
            timeout_s=timeout_s,
            deadline_ns=deadline_ns,
        )
        now_s = asyncio.get_running_loop().time()
        until_s = None if timeout_s is None else now_s + timeout_s
        content = await self._transport.call(call, deadline_s=until_s, waits=True)
        return bodies.scores(bodies.parsed(content))

    async def _done(self, operation: Operation[T]) -> T:
        return operation.read(await self._transport.call(operation.call))

    async def _told(self, call: calls.Call) -> dict[str, Any]:
        return bodies.parsed(await self._transport.call(call))


class AsyncHttpBatch(AsyncBatchOperations, Paged):
    """`Batch` over HTTP."""

    def __init__(self, batch_id: str, *, transport: AsyncTransport) -> None:
        self.batch_id = batch_id
        self._transport = transport

    async def submit(self, requests: Iterable[Request]) -> Submitted:
        accepted = duplicates = 0
        runs = bodies.runs(list(requests))
        for first, run in runs:
            try:
                answer = await self._told(calls.submit(self.batch_id, run))
            except AssayError as error:
                runs.refused(first, run, error)
                continue
            accepted += answer["accepted"]
            duplicates += answer["duplicates"]
        return Submitted(accepted=accepted, duplicates=duplicates)

    async def pages(self, *, cursor: int = 0) -> AsyncGenerator[Page, None]:
        """As of `Batch`; after a lost connection it resumes from the last page's cursor."""
        pauses = self._transport.pauses()
        while True:
            try:
                async with aclosing(self._listen(cursor)) as pages:
                    async for page in pages:
                        pauses = self._transport.pauses()
                        cursor = page.cursor
                        yield page
            except Silent:
                await self.status()  # alive, and the batch is there
            except WORTH_REPEATING as error:
                await self._transport.pause(pauses, error)
            else:
                return

    async def _listen(self, cursor: int) -> AsyncGenerator[Page, None]:
        """The lines of one stream, until the batch is over.

        Raises:
            DependencyDown: the stream ended before the batch did.
            AssayError: the service ended it.
        """
        call = calls.listen(self.batch_id, cursor)
        last = False
        async with (
            self._transport.answer(call, timeout_s=LISTEN_S) as answer,
            aclosing(lines(answer)) as told_lines,
        ):
            async for line in told_lines:
                told = bodies.parsed(line)
                if "error" in told:
                    raise bodies.error_of(answer.status, line)
                last = bool(told["last"])
                yield bodies.page(told)
        if not last:
            raise DependencyDown(bodies.CUT_SHORT)

    async def _done(self, operation: Operation[T]) -> T:
        return operation.read(await self._transport.call(operation.call))

    async def _told(self, call: calls.Call) -> dict[str, Any]:
        return bodies.parsed(await self._transport.call(call))
