"""The asynchronous client.

    async with Client("127.0.0.1:8470") as client:
        task = await client.register_task("run-7", pipeline="math")
        batch = await client.open_batch(task, size=512, group_size=8)
        await batch.submit([Request(request_id="p1/k0", response="4", reference={...}), ...])
        async for result in batch.results():
            ...

Everything may be repeated: a request that was submitted twice is one request, a batch that was
opened twice is one batch. A batch that lost acknowledged requests (its store was rolled back) gets
them again from the client that submitted them, while that waits for results. Errors are those of
`assay.core.errors`, and `BatchLost`.
"""

from __future__ import annotations

import asyncio
import uuid
from collections import deque
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Self

from assay.client import wire
from assay.client.backoff import Backoff
from assay.client.connection import Connection, Sleep
from assay.client.failures import BatchLost, shifted
from assay.client.ledger import Handed, Ledger
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
from assay.core.errors import AssayError, NotFound, TooLarge
from assay.v1 import reward_pb2, reward_pb2_grpc

if TYPE_CHECKING:
    import random
    from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
    from types import TracebackType

    from assay.v1.reward_pb2_grpc import RewardServiceAsyncStub

MESSAGE_BYTES = 2 * 1024**2
"""Approximate size in bytes of the messages into which submissions are split."""
MESSAGE_REQUESTS = 512


class Client:
    """A connection to the reward service; safe to share between the tasks of one event loop."""

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        root_certificates: bytes | None = None,
        backoff: Backoff | None = None,
        timeout_s: float = 60.0,
        new_id: Callable[[], str] = lambda: uuid.uuid4().hex,
        sleep: Sleep = asyncio.sleep,
        randomness: random.Random | None = None,
    ) -> None:
        """Make a client; it connects on first use, within a running event loop.

        Args:
            url: `host:port`, `grpc://host:port`, or `grpcs://host:port` for TLS.
            token: the tenant's bearer token; by default that of `ASSAY_TOKEN`.
            root_certificates: PEM of the authorities to trust, in place of the system's; implies
                TLS.
            backoff: how long to retry when the service cannot be reached or is full.
            timeout_s: timeout of one attempt of a call that does not wait for scoring.
            new_id: makes names for batches that are opened without one.
            sleep: waits between attempts.
            randomness: source of jitter.
        """
        self._connection = Connection(
            url,
            token=token,
            root_certificates=root_certificates,
            backoff=backoff or Backoff(),
            timeout_s=timeout_s,
            sleep=sleep,
            randomness=randomness,
        )
        self._stub = reward_pb2_grpc.RewardServiceStub(self._connection.channel)
        self._new_id = new_id

    async def __aenter__(self) -> Self:
        """No message is sent yet."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close."""
        await self.close()

    async def close(self) -> None:
        """Close the connection; batches continue on the server."""
        await self._connection.close()

    async def list_pipelines(self) -> list[Pipeline]:
        """What can be judged, and in which form."""
        answer = await self._connection.call(
            self._stub.ListPipelines, reward_pb2.ListPipelinesRequest()
        )
        return [wire.pipeline(pipeline) for pipeline in answer.pipelines]

    async def register_task(
        self,
        task_id: str,
        *,
        pipeline: str,
        settings: Mapping[str, Any] | None = None,
        batch_size: int = 0,
        delay_budget_ms: int | None = None,
        trainer_cost_rate: float = 0.0,
    ) -> Task:
        """Register a training job; repeating it with the same content is no error.

        Raises:
            InvalidRequest: a field is wrong.
            NotFound: no such pipeline.
            Conflict: a task of that name differs.
        """
        request = reward_pb2.RegisterTaskRequest(
            task=reward_pb2.Task(
                task_id=task_id,
                pipeline=pipeline,
                settings_json=wire.object_text(settings, "settings"),
                batch_size=batch_size,
                delay_budget_ms=delay_budget_ms,
                trainer_cost_rate=trainer_cost_rate,
            )
        )
        return wire.task(await self._connection.call(self._stub.RegisterTask, request))

    async def hint(self, task: Task | str, *, size: int = 0) -> None:
        """Announce that a rollout phase has begun: `size` requests will come soon (0 = a batch)."""
        request = reward_pb2.HintRequest(task_id=_task_id(task), size=size)
        await self._connection.call(self._stub.Hint, request)

    async def open_batch(
        self,
        task: Task | str,
        *,
        size: int = 0,
        group_size: int = 0,
        batch_id: str = "",
        deadline_s: float | None = None,
    ) -> Batch:
        """Open a batch, or find the one of that name.

        Args:
            task: a registered task or its name.
            size: requests it will hold; reaching it seals it. 0 = until `seal`.
            group_size: K, responses per group.
            batch_id: your name for it; empty: the client chooses one.
            deadline_s: when you need it, from now; `None` = the service's estimate.

        Raises:
            NotFound: no such task.
            Conflict: a batch of that name differs.
            Saturated: too many batches are open.
        """
        request = reward_pb2.OpenBatchRequest(
            task_id=_task_id(task),
            # Named by the client and not by the service, so that a repeated call opens the same
            # batch.
            batch_id=batch_id or self._new_id(),
            size=size,
            group_size=group_size,
            deadline_ms=None if deadline_s is None else round(deadline_s * 1000),
        )
        answer = await self._connection.call(self._stub.OpenBatch, request)
        return self.batch(answer.batch.batch_id)

    def batch(self, batch_id: str) -> Batch:
        """Use a batch that is already open, for example after a restart of the trainer."""
        return Batch(batch_id, connection=self._connection, stub=self._stub)

    async def score(
        self,
        requests: Iterable[Request],
        *,
        task: Task | str = "",
        pipeline: str = "",
        settings: Mapping[str, Any] | None = None,
        timeout_s: float | None = None,
    ) -> Scores:
        """Submit and wait, in one call; for simple trainers. Cancelled when the caller disconnects.

        Args:
            requests: at most what fits into one message.
            task: a registered task; or name a `pipeline` (and its `settings`).
            pipeline: name of a pipeline, instead of a task.
            settings: settings of the pipeline.
            timeout_s: how long to wait before the work is cancelled.

        Raises:
            DeadlinePassed: `timeout_s` passed.
        """
        request = reward_pb2.ScoreRequest(
            task_id=_task_id(task),
            pipeline=pipeline,
            settings_json=wire.object_text(settings, "settings"),
            requests=wire.reward_requests(list(requests)),
        )
        answer = await self._connection.call_waiting(self._stub.Score, request, timeout_s=timeout_s)
        return wire.scores(answer)


class Batch:
    """The requests whose rewards one training step consumes together."""

    def __init__(
        self,
        batch_id: str,
        *,
        connection: Connection,
        stub: RewardServiceAsyncStub,
    ) -> None:
        self.batch_id = batch_id
        self._connection = connection
        self._stub = stub
        self._ledger = Ledger()

    async def submit(self, requests: Iterable[Request]) -> Submitted:
        """Send requests, in as many messages as they need; durable on return.

        Submitting the same requests again is no error, so after any error the whole call may be
        repeated.

        Raises:
            InvalidRequest: a request is wrong; `field` says which (`requests[3].reference`).
            TooLarge: a payload is over the service's limit.
            Conflict: a `request_id` exists with other content.
            FailedPrecondition: the batch is sealed, full or cancelled.
            Saturated: a quota was reached during the whole time of the backoff.
            BatchLost: the batch is gone, although it had acknowledged requests.
        """
        return await self._submit(wire.reward_requests(list(requests)))

    async def _submit(self, messages: Sequence[reward_pb2.RewardRequest]) -> Submitted:
        accepted = duplicates = 0
        waiting = deque(
            wire.chunks(messages, bytes_max=MESSAGE_BYTES, requests_max=MESSAGE_REQUESTS)
        )
        while waiting:
            first, chunk = waiting.popleft()
            request = reward_pb2.SubmitRequest(batch_id=self.batch_id, requests=chunk)
            try:
                answer = await self._connection.call(self._stub.Submit, request)
            except NotFound as error:
                raise self._gone(error) from error
            except AssayError as error:
                if not _is_too_much_together(error, chunk):
                    raise shifted(error, first) from error
                half = len(chunk) // 2
                waiting.extendleft([(first + half, chunk[half:]), (first, chunk[:half])])
                continue
            self._ledger.acknowledge(chunk)
            accepted += answer.accepted
            duplicates += answer.duplicates
        return Submitted(accepted=accepted, duplicates=duplicates)

    async def seal(self) -> BatchStatus:
        """Declare that no more requests will come; idempotent."""
        request = reward_pb2.SealBatchRequest(batch_id=self.batch_id)
        answer = await self._connection.call(self._stub.SealBatch, request)
        return wire.batch_status(answer.batch)

    async def cancel(self) -> int:
        """End all requests that have not ended as CANCELLED; return their number. Idempotent."""
        request = reward_pb2.CancelBatchRequest(batch_id=self.batch_id)
        answer = await self._connection.call(self._stub.CancelBatch, request)
        return answer.cancelled

    async def status(self) -> BatchStatus:
        """Current status of the batch."""
        request = reward_pb2.GetBatchRequest(batch_id=self.batch_id)
        answer = await self._connection.call(self._stub.GetBatch, request)
        return wire.batch_status(answer.batch)

    async def pages(self, *, cursor: int = 0) -> AsyncGenerator[Page, None]:
        """Yield results and group summaries as they arrive, until the batch is complete.

        To resume later, pass the `cursor` of the last page that you handled. After a loss in the
        store the log is read from its beginning; unchanged entries that were already yielded are
        left out.

        Raises:
            BatchLost: the store lost the batch, or part of it, permanently.
        """
        handed = Handed()
        async with aclosing(self._listen(await self._begin(cursor))) as pages:
            async for page in pages:
                yield handed.fresh(page)
        if cursor == 0 and self._ledger.unanswered:
            # It was rolled back and continued in another order, between two of our reads.
            async with aclosing(self._listen(0)) as pages:
                async for page in pages:
                    yield handed.fresh(page)
        if cursor == 0 and self._ledger.unanswered:
            raise BatchLost(f"{self._ledger.unanswered} acknowledged requests have no result")
        self._ledger.forget()

    async def _listen(self, cursor: int) -> AsyncGenerator[Page, None]:
        def request_from(position: int) -> reward_pb2.StreamResultsRequest:
            return reward_pb2.StreamResultsRequest(batch_id=self.batch_id, cursor=position)

        stream = self._connection.stream(
            self._stub.StreamResults, request_from, cursor, again=self._made_good
        )
        try:
            async with aclosing(stream):
                async for message in stream:
                    page = wire.page(message)
                    self._ledger.answer(page.results)
                    yield page
        except NotFound as error:
            raise self._gone(error) from error

    async def _begin(self, cursor: int) -> int:
        try:
            return await self._made_good(cursor)
        except BatchLost:
            raise
        except NotFound as error:
            raise self._gone(error) from error

    async def _made_good(self, cursor: int) -> int:
        """Send again the acknowledged requests that the store lost; return the cursor to read from.

        Raises:
            BatchLost: not all of them can be sent again.
        """
        if not self._ledger.acknowledged:
            return cursor
        status = await self.status()
        missing = self._ledger.acknowledged - status.submitted
        if missing <= 0:
            return cursor
        messages = self._ledger.again()
        if status.over or messages is None:
            raise BatchLost(f"the store lost {missing} acknowledged requests")
        await self._submit(messages)
        return 0

    def _gone(self, error: NotFound) -> NotFound:
        """The error for a batch that does not exist."""
        if not self._ledger.unanswered:
            return error
        return BatchLost(f"the store lost the batch: {error.message}", field=error.field)

    async def results(self, *, cursor: int = 0) -> AsyncGenerator[Result, None]:
        """Yield results in the order in which requests end, until the batch is complete.

        A request whose dead letter was replayed comes twice; the later result counts.
        """
        async with aclosing(self.pages(cursor=cursor)) as pages:
            async for page in pages:
                for result in page.results:
                    yield result

    async def groups(self, *, cursor: int = 0) -> AsyncGenerator[GroupSummary, None]:
        """Yield each group's summary once all its requests have ended."""
        async with aclosing(self.pages(cursor=cursor)) as pages:
            async for page in pages:
                for group in page.groups:
                    yield group

    async def collect(self) -> Scores:
        """Wait for the whole batch."""
        results: dict[str, Result] = {}
        groups: dict[str, GroupSummary] = {}
        async with aclosing(self.pages()) as pages:
            async for page in pages:
                results.update((result.request_id, result) for result in page.results)
                groups.update((group.group_id, group) for group in page.groups)
        return Scores(results=list(results.values()), groups=list(groups.values()))


def _is_too_much_together(error: AssayError, chunk: Sequence[object]) -> bool:
    """Whether sending half of the message may help: it was too large as a whole."""
    return isinstance(error, TooLarge) and error.field == "message" and len(chunk) > 1


def _task_id(task: Task | str) -> str:
    return task if isinstance(task, str) else task.task_id
