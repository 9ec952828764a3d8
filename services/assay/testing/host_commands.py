"""The commands of the store in memory that are about worker hosts."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Protocol

from assay.core.hosts.record import HostRecord
from assay.core.ids import StageName, WorkerId
from assay.core.records import Lease, Reaped
from assay.testing.queue_model import QueueModel


class Now(Protocol):
    """The part of a clock that the store needs."""

    def now_ns(self) -> int:
        """Unix time in nanoseconds."""


class HostCommands(ABC):
    """Mixed into `MemoryStore`."""

    _model: QueueModel
    _clock: Now

    @abstractmethod
    def _wake(self) -> None:
        """Tell those who wait that something has changed."""

    async def put_host(self, host: HostRecord, *, lease_s: float, owner: str = "") -> bool:
        """See `Store.put_host`."""
        is_new = self._model.hosts.put(host, int(lease_s * 1e9), self._clock.now_ns(), owner)
        self._model.changes.planning |= is_new
        self._wake()
        return is_new

    async def drop_host(self, worker: WorkerId) -> None:
        """See `Store.drop_host`."""
        self._model.changes.planning |= self._model.hosts.drop(worker)
        self._wake()

    async def hosts(self) -> Sequence[HostRecord]:
        """See `Store.hosts`."""
        return self._model.hosts.all(self._clock.now_ns())

    async def ended_by(
        self, workers: Sequence[WorkerId]
    ) -> Mapping[WorkerId, Mapping[StageName, int]]:
        """See `Store.ended_by`."""
        return {worker: dict(self._model.hosts.ended[worker]) for worker in workers}

    async def give_back_undelivered(
        self, stage: StageName, *, worker: WorkerId, leases: Sequence[Lease]
    ) -> int:
        """See `Store.give_back_undelivered`."""
        given = self._model.give_back_undelivered(
            stage, worker=worker, leases=leases, now_ns=self._clock.now_ns()
        )
        self._wake()
        return given

    async def take_back(self, stage: StageName, worker: WorkerId, *, attempts_max: int) -> Reaped:
        """See `Store.take_back`."""
        taken = self._model.take_back(
            stage, worker, attempts_max=attempts_max, now_ns=self._clock.now_ns()
        )
        self._wake()
        return taken
