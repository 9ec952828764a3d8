"""A batch: asynchronous, and the same for programs without an event loop.

Everything may be repeated: a request that was submitted twice is one request. A batch that lost
acknowledged requests (its store was rolled back) gets them again from the client that submitted
them, while that waits for results.
"""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING

from assay.client import wire
from assay.client.failures import BatchLost
from assay.client.joining import JOIN_S, Joining
from assay.client.ledger import Handed, Ledger
from assay.client.loop_thread import LoopThread, documented_as
from assay.client.paged import Paged
from assay.client.types import (
    BatchStatus,
    GroupSummary,
    Page,
    Request,
    Result,
    Scores,
    Submitted,
)
from assay.core.errors import AssayError, NotFound
from assay.core.tools.splitting import MESSAGE_BYTES, MESSAGE_REQUESTS
from assay.v1 import reward_pb2

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence

    from assay.client.connection import Connection
    from assay.v1.reward_pb2_grpc import RewardServiceAsyncStub


class Batch(Paged):
    """The requests whose rewards one training step consumes together."""

    def __init__(
        self,
        batch_id: str,
        *,
        connection: Connection,
        stub: RewardServiceAsyncStub,
        join_s: float = JOIN_S,
    ) -> None:
        self.batch_id = batch_id
        self._connection = connection
        self._stub = stub
        self._ledger = Ledger()
        self._joining = Joining(self._submit, join_s=join_s)

    async def submit(self, requests: Iterable[Request]) -> Submitted:
        """Send requests, in as many messages as they need; durable on return.

        Small submissions that meet others in progress are joined with them (`Client.join_s`).
        Submitting the same requests again is no error, so after any error the whole call may be
        repeated.

        Raises:
            InvalidRequest: a request is wrong; `field` says which (`requests[3].reference`).
            TooLarge: a payload is over the service's limit, or a request over a whole quota.
            Conflict: a `request_id` exists with other content.
            FailedPrecondition: the batch is sealed, full or cancelled.
            Saturated: a quota was reached during the whole time of the backoff.
            BatchLost: the batch is gone, although it had acknowledged requests.
        """
        return await self._joining.submit(wire.reward_requests(list(requests)))

    async def _submit(self, messages: Sequence[reward_pb2.RewardRequest]) -> Submitted:
        accepted = duplicates = 0
        runs = wire.runs(messages, bytes_max=MESSAGE_BYTES, items_max=MESSAGE_REQUESTS)
        for first, run in runs:
            request = reward_pb2.SubmitRequest(batch_id=self.batch_id, requests=run)
            try:
                if request.ByteSize() > MESSAGE_BYTES:
                    parts = wire.parts(request)
                    answer = await self._connection.call(self._stub.SubmitParts, parts)
                else:
                    answer = await self._connection.call(self._stub.Submit, request)
            except NotFound as error:
                raise self._gone(error) from error
            except AssayError as error:
                runs.refused(first, run, error)
                continue
            self._ledger.acknowledge(run)
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

    async def cancel_requests(
        self, request_ids: Iterable[str] = (), *, group_ids: Iterable[str] = ()
    ) -> int:
        """End these requests, and those of these groups, that have not ended; return their number.

        The batch continues. Idempotent; name many at once.

        Raises:
            InvalidRequest: nothing is named.
        """
        request = reward_pb2.CancelRequestsRequest(
            batch_id=self.batch_id, request_ids=request_ids, group_ids=group_ids
        )
        answer = await self._connection.call(self._stub.CancelRequests, request)
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
        except NotFound as error:
            raise self._gone(error) from error

    async def _made_good(self, cursor: int) -> int:
        """Send again the acknowledged requests that the store lost; return the cursor to read from.

        Raises:
            BatchLost: not all of them can be sent again.
        """
        acknowledged = self._ledger.acknowledged
        if not acknowledged:
            return cursor
        # Counted before: a submission that is acknowledged while the answer comes is not missing.
        status = await self.status()
        missing = acknowledged - status.submitted
        if missing <= 0:
            return cursor
        messages = self._ledger.again()
        if status.over or messages is None:
            raise BatchLost(f"the store lost {missing} acknowledged requests")
        await self._submit(messages)
        return 0

    def _gone(self, error: NotFound) -> NotFound:
        """The error for a batch that does not exist."""
        if isinstance(error, BatchLost) or not self._ledger.unanswered:
            return error
        return BatchLost(f"the store lost the batch: {error.message}", field=error.field)


@documented_as(Batch)
class SyncBatch:
    """`Batch` without an event loop."""

    def __init__(self, batch: Batch, *, loop: LoopThread) -> None:
        self.batch_id = batch.batch_id
        self._batch = batch
        self._loop = loop

    def submit(self, requests: Iterable[Request]) -> Submitted:
        return self._loop.run(self._batch.submit(requests))

    def seal(self) -> BatchStatus:
        return self._loop.run(self._batch.seal())

    def cancel(self) -> int:
        return self._loop.run(self._batch.cancel())

    def cancel_requests(
        self, request_ids: Iterable[str] = (), *, group_ids: Iterable[str] = ()
    ) -> int:
        return self._loop.run(self._batch.cancel_requests(request_ids, group_ids=group_ids))

    def status(self) -> BatchStatus:
        return self._loop.run(self._batch.status())

    def pages(self, *, cursor: int = 0) -> Iterator[Page]:
        return self._loop.iterate(self._batch.pages(cursor=cursor))

    def results(self, *, cursor: int = 0) -> Iterator[Result]:
        for page in self.pages(cursor=cursor):
            yield from page.results

    def groups(self, *, cursor: int = 0) -> Iterator[GroupSummary]:
        for page in self.pages(cursor=cursor):
            yield from page.groups

    def collect(self) -> Scores:
        return self._loop.run(self._batch.collect())
