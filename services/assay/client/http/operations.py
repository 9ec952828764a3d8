"""Operations that are one call and one answer, of both clients over HTTP side by side.

Each is defined once, as what is sent and how the answer is read; a client sends it its own way.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from assay.client.http import bodies
from assay.client.http.calls import JSON, Call, batch_path, post, put_file, task_path
from assay.client.types import BatchStatus, Pipeline, StoredArtifact, Task

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Operation(Generic[T]):
    """A call, and how its answer is read."""

    call: Call
    read: Callable[[bytes], T]

    @classmethod
    def of(cls, call: Call, read: Callable[[dict[str, Any]], T]) -> Operation[T]:
        """One whose answer is a JSON object."""
        return cls(call, lambda content: read(bodies.parsed(content)))


# -- of the service -------------------------------------------------------------------------------
def list_pipelines() -> Operation[list[Pipeline]]:
    call = Call(method="GET", path="/v1/pipelines")
    return Operation.of(call, lambda told: [bodies.pipeline(one) for one in told["pipelines"]])


def register_task(
    task_id: str, settings: Mapping[str, Any] | None, **told: object
) -> Operation[Task]:
    call = post("/v1/tasks", task_id=task_id, settings=dict(settings or {}), **told)
    return Operation.of(call, bodies.task)


def hint(task: Task | str, size: int) -> Operation[None]:
    body = bodies.encoded({"size": size}, "size")
    call = Call(method="POST", path=f"{task_path(task)}/hint", body=body, headers=JSON)
    return Operation(call, lambda _: None)


def put_artifact(content: bytes) -> Operation[StoredArtifact]:
    return Operation.of(put_file(content), lambda told: bodies.made(StoredArtifact, told))


class Operations(ABC):
    """The calls of `HttpClient` that are one message and one answer."""

    @abstractmethod
    def _done(self, operation: Operation[T]) -> T:
        """Send it, and read the answer."""

    def list_pipelines(self) -> list[Pipeline]:
        return self._done(list_pipelines())

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
        return self._done(
            register_task(
                task_id,
                settings,
                pipeline=pipeline,
                batch_size=batch_size,
                delay_budget_ms=delay_budget_ms,
                trainer_cost_rate=trainer_cost_rate,
            )
        )

    def hint(self, task: Task | str, *, size: int = 0) -> None:
        self._done(hint(task, size))

    def put_artifact(self, content: bytes) -> StoredArtifact:
        return self._done(put_artifact(content))


class AsyncOperations(ABC):
    """The calls of `AsyncHttpClient` that are one message and one answer."""

    @abstractmethod
    async def _done(self, operation: Operation[T]) -> T:
        """Send it, and read the answer."""

    async def list_pipelines(self) -> list[Pipeline]:
        return await self._done(list_pipelines())

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
        return await self._done(
            register_task(
                task_id,
                settings,
                pipeline=pipeline,
                batch_size=batch_size,
                delay_budget_ms=delay_budget_ms,
                trainer_cost_rate=trainer_cost_rate,
            )
        )

    async def hint(self, task: Task | str, *, size: int = 0) -> None:
        await self._done(hint(task, size))

    async def put_artifact(self, content: bytes) -> StoredArtifact:
        return await self._done(put_artifact(content))


# -- of a batch -----------------------------------------------------------------------------------
def seal(batch_id: str) -> Operation[BatchStatus]:
    return Operation.of(post(f"{batch_path(batch_id)}/seal"), bodies.batch_status)


def cancel(batch_id: str) -> Operation[int]:
    return Operation.of(post(f"{batch_path(batch_id)}/cancel"), _cancelled)


def cancel_requests(
    batch_id: str, request_ids: Iterable[str], group_ids: Iterable[str]
) -> Operation[int]:
    path = f"{batch_path(batch_id)}/requests/cancel"
    call = post(path, request_ids=list(request_ids), group_ids=list(group_ids))
    return Operation.of(call, _cancelled)


def status(batch_id: str) -> Operation[BatchStatus]:
    return Operation.of(Call(method="GET", path=batch_path(batch_id)), bodies.batch_status)


def _cancelled(told: Mapping[str, Any]) -> int:
    return int(told["cancelled"])


class BatchOperations(ABC):
    """The calls of `HttpBatch` that are one message and one answer."""

    batch_id: str

    @abstractmethod
    def _done(self, operation: Operation[T]) -> T:
        """Send it, and read the answer."""

    def seal(self) -> BatchStatus:
        return self._done(seal(self.batch_id))

    def cancel(self) -> int:
        return self._done(cancel(self.batch_id))

    def cancel_requests(
        self, request_ids: Iterable[str] = (), *, group_ids: Iterable[str] = ()
    ) -> int:
        return self._done(cancel_requests(self.batch_id, request_ids, group_ids))

    def status(self) -> BatchStatus:
        return self._done(status(self.batch_id))


class AsyncBatchOperations(ABC):
    """The calls of `AsyncHttpBatch` that are one message and one answer."""

    batch_id: str

    @abstractmethod
    async def _done(self, operation: Operation[T]) -> T:
        """Send it, and read the answer."""

    async def seal(self) -> BatchStatus:
        return await self._done(seal(self.batch_id))

    async def cancel(self) -> int:
        return await self._done(cancel(self.batch_id))

    async def cancel_requests(
        self, request_ids: Iterable[str] = (), *, group_ids: Iterable[str] = ()
    ) -> int:
        return await self._done(cancel_requests(self.batch_id, request_ids, group_ids))

    async def status(self) -> BatchStatus:
        return await self._done(status(self.batch_id))
