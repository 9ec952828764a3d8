"""The host among the worker hosts: its record in the store, and what its predecessor left.

A host renews its record every `RENEW_EVERY_S`. First it gives back the leases of
the previous process on the same data directory, if that one was killed. The lock of the file
`run/worker.life` proves that no other process runs, and the file names the previous one.
"""

import asyncio
import contextlib
import fcntl
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import structlog

from assay.core.errors import AssayError
from assay.core.hosts.record import NAME_CHARS_MAX, HostRecord
from assay.core.ids import StageName, WorkerId
from assay.edge.clock import Clock
from assay.edge.metrics import Metrics
from assay.store.port import WorkerStore
from assay.worker.reports import note_reaped

RENEW_EVERY_S: Final = 1.0
RECORD_LEASE_S: Final = 5.0
"""A host that did not renew for this long is no longer counted on."""
LEAVE_S_MAX: Final = 2.0

log = structlog.get_logger(__name__)


class Life:
    """The lock on a data directory's file of lives, held until the process ends."""

    def __init__(self, path: Path, worker: WorkerId) -> None:
        """Take it, if no other host on the directory lives.

        Args:
            path: of the file.
            worker: this life.

        Raises:
            OSError: the file cannot be opened or written.
        """
        self.predecessor: WorkerId | None = None
        """The life before this one, if it was killed."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:  # two hosts on one directory: neither follows the other
            os.close(self._file)
            self._file = -1
            return
        before = os.read(self._file, NAME_CHARS_MAX).decode("utf-8", "replace")
        self.predecessor = WorkerId(before) if before else None
        self._write(worker.encode())

    def _write(self, content: bytes) -> None:
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, content, 0)

    def end(self) -> None:
        """This process holds no leases: the next one has nothing to give back."""
        if self._file >= 0:
            with contextlib.suppress(OSError):  # a full disk: the next one finds nothing to return
                self._write(b"")
            os.close(self._file)
            self._file = -1


class Membership:
    """Keeps the host's record while it lives."""

    def __init__(
        self,
        *,
        store: WorkerStore,
        stages: Sequence[StageName],
        life: Life,
        attempts_max: int,
        clock: Clock,
        metrics: Metrics,
    ) -> None:
        self._store = store
        self._stages = stages
        self._life = life
        self._attempts_max = attempts_max
        self._clock = clock
        self._metrics = metrics
        self._owed = list(stages) if life.predecessor is not None else []
        """Stages whose leases of the life before are not given back yet."""
        self._record: HostRecord | None = None
        self._busy: Callable[[], int] | None = None
        self._keeping: asyncio.Task[None] | None = None

    def begin(self, record: HostRecord, *, busy: Callable[[], int] | None = None) -> None:
        """Register this host, from now until `leave`.

        Args:
            record: of this life of the host.
            busy: its slots that are at work at present.
        """
        self._record, self._busy = record, busy
        self._keeping = asyncio.create_task(self._keep(record), name="membership")

    async def _keep(self, record: HostRecord) -> None:
        lost = ""
        while True:
            try:
                await self._succeed()
                now = record if self._busy is None else replace(record, busy=self._busy())
                await self._store.put_host(now, lease_s=RECORD_LEASE_S)
                lost = ""
            except AssayError as error:
                if lost != error.reason:
                    lost = error.reason
                    log.warning("host_not_registered", why=error.message)
            await self._clock.sleep(RENEW_EVERY_S)

    async def _succeed(self) -> None:
        """Give back what the life before held."""
        predecessor = self._life.predecessor
        while self._owed and predecessor is not None:
            stage = self._owed[0]
            taken = await self._store.take_back(stage, predecessor, attempts_max=self._attempts_max)
            note_reaped(stage, taken, self._metrics)
            self._owed.pop(0)
            if not self._owed:
                await self._store.drop_host(predecessor)

    async def leave(self) -> None:
        """Deregister: planners place slots elsewhere while this host drains."""
        keeping, self._keeping = self._keeping, None
        if keeping is None or self._record is None:
            return
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)
        with contextlib.suppress(AssayError, TimeoutError):  # then the record runs out
            async with asyncio.timeout(LEAVE_S_MAX):
                await self._store.drop_host(self._record.worker)

    def end(self) -> None:
        """The host has given back or reported all that it held."""
        self._life.end()
