"""The client, asynchronous and synchronous.

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
from typing import TYPE_CHECKING, Any, Self

from assay.client import wire
from assay.client.backoff import Backoff
from assay.client.batch import Batch, SyncBatch
from assay.client.connection import Connection, Sleep
from assay.client.joining import JOIN_S
from assay.client.loop_thread import LoopThread, documented_as
from assay.client.types import StoredArtifact
from assay.core.tools.splitting import MESSAGE_BYTES
from assay.v1 import reward_pb2, reward_pb2_grpc

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterable, Mapping
    from types import TracebackType

    from assay.client.connection import Identity
    from assay.client.types import (
        Pipeline,
        Request,
        Scores,
        Task,
    )


class Client:
    """A connection to the reward service; safe to share between the tasks of one event loop."""

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        root_certificates: bytes | None = None,
        identity: Identity | None = None,
        backoff: Backoff | None = None,
        timeout_s: float = 60.0,
        join_s: float = JOIN_S,
        new_id: Callable[[], str] = lambda: uuid.uuid4().hex,
        sleep: Sleep = asyncio.sleep,
        randomness: random.Random | None = None,
    ) -> None:
        """Make a client; it connects on first use, within a running event loop.

        Args:
            url: `host:port`, `grpc://host:port`, or `grpcs://host:port` for TLS.
            token: the tenant's bearer token; by default that of `ASSAY_TOKEN`.
            root_certificates: PEM of the authorities to trust, in place of the system's; implies
                TLS. With TLS by default those in the file `ASSAY_CA`.
            identity: the certificate that stands for the tenant, or that the service asks for;
                implies TLS. With TLS by default that of `ASSAY_CERTIFICATE` and `ASSAY_KEY`.
            backoff: how long to retry when the service cannot be reached or is full.
            timeout_s: timeout of one attempt of a call that does not wait for scoring.
            join_s: how long a small submission that meets another of its batch in progress waits
                to be joined with more; 0: each is a message of its own.
            new_id: makes names for batches that are opened without one.
            sleep: waits between attempts.
            randomness: source of jitter.
        """
        self._connection = Connection(
            url,
            token=token,
            root_certificates=root_certificates,
            identity=identity,
            backoff=backoff or Backoff(),
            timeout_s=timeout_s,
            sleep=sleep,
            randomness=randomness,
        )
        self._stub = reward_pb2_grpc.RewardServiceStub(self._connection.channel)
        self._join_s = join_s
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
        task = wire.filled(
            reward_pb2.Task,
            "task",
            task_id=task_id,
            pipeline=pipeline,
            settings_json=wire.object_text(settings, "settings"),
            batch_size=batch_size,
            delay_budget_ms=delay_budget_ms,
            trainer_cost_rate=trainer_cost_rate,
        )
        request = reward_pb2.RegisterTaskRequest(task=task)
        return wire.task(await self._connection.call(self._stub.RegisterTask, request))

    async def hint(self, task: Task | str, *, size: int = 0) -> None:
        """Announce that a rollout phase has begun: `size` requests will come soon (0 = a batch)."""
        with wire.holding("size"):
            request = reward_pb2.HintRequest(task_id=_task_id(task), size=size)
        await self._connection.call(self._stub.Hint, request)

    async def put_artifact(self, content: bytes) -> StoredArtifact:
        """Send a file ahead, once for all requests that come with it; may be repeated.

        Raises:
            InvalidRequest, TooLarge: it is empty, or larger than a request's files may be.
            Saturated: the tenant's `uploads_bytes_max` is used up.
        """
        answer = await self._connection.call(self._stub.PutArtifact, wire.pieces(content))
        return wire.made(StoredArtifact, answer)

    async def open_batch(
        self,
        task: Task | str,
        *,
        size: int = 0,
        group_size: int = 0,
        batch_id: str = "",
        deadline_s: float | None = None,
        deadline_ns: int | None = None,
    ) -> Batch:
        """Open a batch, or find the one of that name.

        Args:
            task: a registered task or its name.
            size: requests it will hold; reaching it seals it. 0 = until `seal`.
            group_size: K, responses per group.
            batch_id: your name for it; empty: the client chooses one.
            deadline_s: when you need it, from now; `None` = the service's estimate.
            deadline_ns: the same as an instant, in place of `deadline_s`: Unix time.

        Raises:
            NotFound: no such task.
            Conflict: a batch of that name differs.
            Saturated: too many batches are open.
        """
        request = wire.filled(
            reward_pb2.OpenBatchRequest,
            "",
            task_id=_task_id(task),
            # Named by the client and not by the service, so that a repeated call opens the same.
            batch_id=batch_id or self._new_id(),
            size=size,
            group_size=group_size,
            deadline_ms=wire.milliseconds(deadline_s, "deadline_s"),
            deadline_ns=deadline_ns,
        )
        answer = await self._connection.call(self._stub.OpenBatch, request)
        return self.batch(answer.batch.batch_id)

    def batch(self, batch_id: str) -> Batch:
        """Use a batch that is already open, for example after a restart of the trainer."""
        return Batch(batch_id, connection=self._connection, stub=self._stub, join_s=self._join_s)

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
        """Submit and wait, in one call; for simple trainers. Cancelled when the caller disconnects.

        Args:
            requests: at most what fits into one message.
            task: a registered task; or name a `pipeline` (and its `settings`).
            pipeline: name of a pipeline, instead of a task.
            settings: settings of the pipeline.
            timeout_s: how long to wait before the work is cancelled.
            deadline_ns: the same as an instant (Unix time); the earlier of the two counts.

        Raises:
            DeadlinePassed: `timeout_s` or the deadline passed.
        """
        with wire.holding("deadline_ns"):
            request = reward_pb2.ScoreRequest(deadline_ns=deadline_ns)
        request.task_id = _task_id(task)
        request.pipeline = pipeline
        request.settings_json = wire.object_text(settings, "settings")
        request.requests.extend(wire.reward_requests(list(requests)))
        waiting = self._connection.call_waiting
        if request.ByteSize() > MESSAGE_BYTES:
            parts = wire.parts(request)
            answer = await waiting(self._stub.ScoreParts, parts, timeout_s=timeout_s)
        else:
            answer = await waiting(self._stub.Score, request, timeout_s=timeout_s)
        return wire.scores(answer)


@documented_as(Client)
class SyncClient:
    """`Client` without an event loop, usable from any thread."""

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        root_certificates: bytes | None = None,
        identity: Identity | None = None,
        backoff: Backoff | None = None,
        timeout_s: float = 60.0,
        join_s: float = JOIN_S,
    ) -> None:
        self._loop = LoopThread()
        try:
            self._client = self._loop.run(
                _made(
                    url,
                    token=token,
                    root_certificates=root_certificates,
                    identity=identity,
                    backoff=backoff,
                    timeout_s=timeout_s,
                    join_s=join_s,
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
        self.close()

    def close(self) -> None:
        """Close the connection; may be called twice."""
        if self._loop.running:
            self._loop.run(self._client.close())
            self._loop.close()

    def list_pipelines(self) -> list[Pipeline]:
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
        self._loop.run(self._client.hint(task, size=size))

    def put_artifact(self, content: bytes) -> StoredArtifact:
        return self._loop.run(self._client.put_artifact(content))

    def open_batch(
        self,
        task: Task | str,
        *,
        size: int = 0,
        group_size: int = 0,
        batch_id: str = "",
        deadline_s: float | None = None,
        deadline_ns: int | None = None,
    ) -> SyncBatch:
        opening = self._client.open_batch(
            task,
            size=size,
            group_size=group_size,
            batch_id=batch_id,
            deadline_s=deadline_s,
            deadline_ns=deadline_ns,
        )
        return SyncBatch(self._loop.run(opening), loop=self._loop)

    def batch(self, batch_id: str) -> SyncBatch:
        return SyncBatch(self._client.batch(batch_id), loop=self._loop)

    def score(
        self,
        requests: Iterable[Request],
        *,
        task: Task | str = "",
        pipeline: str = "",
        settings: Mapping[str, Any] | None = None,
        timeout_s: float | None = None,
        deadline_ns: int | None = None,
    ) -> Scores:
        scoring = self._client.score(
            requests,
            task=task,
            pipeline=pipeline,
            settings=settings,
            timeout_s=timeout_s,
            deadline_ns=deadline_ns,
        )
        return self._loop.run(scoring)


async def _made(url: str, **options: Any) -> Client:  # noqa: ANN401 those of `Client`
    # On the loop that will use it: a channel belongs to the loop on which it was made.
    return Client(url, **options)


def _task_id(task: Task | str) -> str:
    return task if isinstance(task, str) else task.task_id
