"""Worker hosts: their records, and the leases of one that is known to be dead."""

from collections.abc import Mapping, Sequence
from typing import Final

from assay.config.settings import StoreSettings
from assay.core.codec import CodecError, pack, unpack
from assay.core.errors import InvalidRequest
from assay.core.hosts.record import (
    BUSY_UNKNOWN,
    HOST_GONE,
    HOSTS_PER_OWNER_MAX,
    HostRecord,
    check_host,
    too_many_hosts,
)
from assay.core.ids import StageName, WorkerId
from assay.store import codec
from assay.store.link import SLICE, Link, Reply
from assay.store.port import Reaped, Store
from assay.store.script import load_script

_FIELDS: Final = ("address", "stages", "cores", "memory_bytes", "slots_max", "credential", "busy")
_OF_ONE: Final = -2


class HostCalls:
    """The calls of a store about worker hosts."""

    _link: Link
    _settings: StoreSettings

    async def put_host(self, host: HostRecord, *, lease_s: float, owner: str = "") -> bool:
        """See `Store.put_host`."""
        check_host(host)
        hosts_max = self._settings.hosts_max
        packed = pack({name: getattr(host, name) for name in _FIELDS})
        lease_ms = max(1, int(lease_s * 1000))
        result = await self._link.run(
            load_script("put_host"),
            *(host.worker, packed, lease_ms, hosts_max, owner, HOSTS_PER_OWNER_MAX),
        )
        if result < 0:
            raise too_many_hosts(of_one=result == _OF_ONE, hosts_max=hosts_max)
        return bool(result)

    async def drop_host(self, worker: WorkerId) -> None:
        """See `Store.drop_host`."""
        await self._link.run(load_script("drop_host"), worker)

    async def hosts(self) -> Sequence[HostRecord]:
        """See `Store.hosts`."""
        found = await self._link.run(load_script("hosts"))
        return [host for worker, packed in found if (host := record_of(worker, packed)) is not None]

    async def ended_by(
        self, workers: Sequence[WorkerId]
    ) -> Mapping[WorkerId, Mapping[StageName, int]]:
        """See `Store.ended_by`."""
        found: dict[WorkerId, Mapping[StageName, int]] = {}
        for first in range(0, len(workers), SLICE):
            some = workers[first : first + SLICE]
            rows = await self._link.run(load_script("ended_by"), *some)
            for worker, row in zip(some, rows, strict=True):
                pairs = zip(row[::2], row[1::2], strict=True)
                found[worker] = {StageName(name.decode()): int(count) for name, count in pairs}
        return found

    async def take_back(self, stage: StageName, worker: WorkerId, *, attempts_max: int) -> Reaped:
        """See `Store.take_back`."""
        settings = self._settings
        redelivered = dead = 0
        completed: list[Reply] = []
        cursor: Reply = b"0"
        while True:
            cursor, again, buried, over = await self._link.run(
                load_script("take_back"),
                *(stage, attempts_max, settings.dead_letters_max),
                *(settings.dead_letters_per_tenant_max, worker, HOST_GONE, cursor, SLICE),
            )
            redelivered, dead = redelivered + again, dead + buried
            completed += over
            if cursor == b"0":
                break
        return Reaped(
            redelivered=redelivered,
            dead=dead,
            expired=0,
            completed=tuple(map(codec.completed_batch, completed)),
        )


async def take_back_all(store: Store, host: HostRecord, *, attempts_max: int) -> None:
    """Give back the leases of a host that is known to be dead, and forget it.

    Raises:
        DependencyDown: the store does not answer; repeat it.
    """
    for stage in host.stages:
        taken = await store.take_back(stage, host.worker, attempts_max=attempts_max)
        if taken.redelivered or taken.dead:
            import structlog  # here: commands that only read the store log nothing

            structlog.get_logger(__name__).warning(
                "leases_taken_back", stage=stage, worker=host.worker,
                redelivered=taken.redelivered, dead=taken.dead,
            )  # fmt: skip
    await store.drop_host(host.worker)


def record_of(worker: bytes, packed: bytes) -> HostRecord | None:
    """A record; `None`: one that no release so far has written, which counts as absent."""
    try:
        found = unpack(packed)
        if not isinstance(found, dict):
            return None
        return check_host(
            HostRecord(
                worker=WorkerId(worker.decode()),
                address=str(found["address"]),
                stages=tuple(StageName(str(stage)) for stage in found["stages"]),
                cores=int(found["cores"]),
                memory_bytes=int(found["memory_bytes"]),
                slots_max=int(found["slots_max"]),
                credential=str(found.get("credential", "")),
                busy=int(found.get("busy", BUSY_UNKNOWN)),
            )
        )
    except (CodecError, InvalidRequest, KeyError, TypeError, ValueError):
        return None
