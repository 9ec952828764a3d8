"""A store whose workers go by the API: `WorkService` on a real port, everything else direct."""

import asyncio
import contextlib
import secrets
import tempfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import grpc

from assay.config.settings import RewardSettings
from assay.core.hosts.record import HostRecord
from assay.core.ids import JobId, StageName, TenantId, WorkerId
from assay.core.outcome import Outcome
from assay.core.records import (
    Claim,
    CompletedBatch,
    EndRequest,
    Finished,
    FinishStatus,
    Lease,
    Reaped,
    Report,
)
from assay.edge.calls import CallGuard
from assay.edge.clock import Clock
from assay.edge.door import Door, DoorLimits
from assay.edge.tracing import NoTracer
from assay.edge.work.store import WAIT_S_MAX, RemoteStore
from assay.edge.work.token_files import TokenFiles
from assay.edge.work.tokens import WorkerCallers, WorkerKeys, WorkerPass
from assay.reward.workers.gateway import WorkGateway
from assay.reward.workers.listener import WorkListener
from assay.store.port import Store
from assay.verifiers.registry import load_pipelines, stages_of

KEY = secrets.token_hex(32).encode()
STAGES = tuple(StageName(name) for name in ("compile", "run", "noop", "group", "relative", "judge"))
Tls = tuple[bytes, tuple[bytes, bytes] | None]
"""What a worker believes; key and certificate that it shows."""
YEAR_NS = 365 * 86_400 * 10**9


def token_for(*stages: str, expires_ns: int = 0, name: str = "test") -> str:
    """The operator's token for these stages."""
    found = WorkerPass(
        stages=tuple(map(StageName, stages)),
        expires_ns=expires_ns or Clock().now_ns() + YEAR_NS,
        name=name,
    )
    return WorkerKeys([KEY]).mint(found)


class WorkPort:
    """The API's port for workers, on a store."""

    def __init__(
        self,
        store: Store,
        folder: Path,
        *,
        token_s: float = 600.0,
        waits_max: int = 384,
        settings: RewardSettings | None = None,
    ) -> None:
        self._folder = folder
        key_file = folder / "keys"
        key_file.write_bytes(KEY)
        clock = Clock()
        callers = WorkerCallers(key_file, clock)
        pipelines = load_pipelines()
        self.completed: list[CompletedBatch] = []
        self.gateway = WorkGateway(
            store=store,
            pipelines=pipelines,
            stages=stages_of(pipelines),
            keys=lambda: callers.keys,
            token_s=token_s,
            attempts_max=3,
            clock=clock,
            on_completed=self.completed.append,
            sweeps_apart_s=0.0,
            waits_max=waits_max,
        )
        guard = CallGuard(
            callers=callers,
            door=Door(DoorLimits(calls_max=512, streams_max=1, bytes_max=10**9, tenants=2)),
            clock=clock,
            tracer=NoTracer(),
            on_call=lambda *_: None,
        )
        self.listener = WorkListener(
            gateway=self.gateway,
            guard=guard,
            settings=settings or RewardSettings(worker_port=0),
            artifact_bytes_max=64 * 1024**2,
            time_s=lambda: clock.monotonic_ns() / 1e9,
        )
        self.address = ""

    async def start(self) -> None:
        self.address = await self.listener.start()

    def worker(
        self,
        *stages: str,
        name: str = "host:1",
        token: str = "",
        tls: Tls | None = None,
        clock: Clock | None = None,
    ) -> RemoteStore:
        """A worker with a token for these stages."""
        file = self._folder / f"token-{secrets.token_hex(4)}"
        file.write_text(token or token_for(*stages))
        return RemoteStore(
            [self.address if tls is None else f"grpcs://{self.address}"],
            worker=WorkerId(name),
            tokens=TokenFiles(file, self._folder / f"{file.name}.kept"),
            authority=None if tls is None else tls[0],
            identity=None if tls is None else tls[1],
            clock=clock or Clock(),
        )

    def channel(self) -> grpc.aio.Channel:
        return grpc.aio.insecure_channel(self.address)


class ByTheApi:
    """Workers' calls by gRPC; every worker name of a test is a worker of its own there."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._folder = tempfile.TemporaryDirectory()
        self._port = WorkPort(store, Path(self._folder.name))
        self._starting = asyncio.Lock()
        self._workers: dict[str, RemoteStore] = {}
        self._holders: dict[Lease, tuple[str, Lease]] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def _worker(self, name: str = "host/1") -> RemoteStore:
        async with self._starting:
            if not self._port.address:
                await self._port.start()
        if name not in self._workers:
            self._workers[name] = self._port.worker(*STAGES, name=name.replace(" ", "-"))
        return self._workers[name]

    async def claim(
        self,
        stage: StageName,
        *,
        claims_max: int,
        lease_s: float,
        worker: WorkerId,
        left_out: Collection[TenantId] = (),
    ) -> Sequence[Claim]:
        remote = await self._worker(worker)
        found = await remote.claim(
            stage, claims_max=claims_max, lease_s=lease_s, worker=worker, left_out=left_out
        )
        return [await self._as_in_the_store(claim, worker) for claim in found]

    async def _as_in_the_store(self, claim: Claim, worker: str) -> Claim:
        """With its own lease and all of its task: a worker sees less of both."""
        task = await self._store.get_task(claim.task.tenant, claim.task.task_id)
        seen = (claim.task.pipeline, claim.task.stages, claim.task.settings_json)
        assert seen == (task.pipeline, task.stages, task.settings_json)
        lease = Lease(job_id=JobId(claim.lease.job_id.split("~")[0]), fence=claim.lease.fence)
        self._holders[lease] = (worker, claim.lease)
        return replace(claim, lease=lease, task=task)

    async def beat(
        self, stage: StageName, *, lease_s: float, leases: Sequence[Lease]
    ) -> Sequence[Lease]:
        lost: list[Lease] = []
        for lease in leases:
            holder, shown = self._holders.get(lease, ("host/1", lease))
            remote = await self._worker(holder)
            if await remote.beat(stage, lease_s=lease_s, leases=[shown]):
                lost.append(lease)
        return lost

    async def finish(
        self, stage: StageName, reports: Sequence[Report], attempts_max: int
    ) -> Finished:
        self._port.gateway.attempts_max = attempts_max  # the API's own setting
        ends = [one.finish for one in reports if isinstance(one.finish, EndRequest)]
        if any(one.outcome in {Outcome.EXPIRED, Outcome.CANCELLED} for one in ends):
            return await self._store.finish(stage, reports, attempts_max)  # no worker says these
        before = len(self._port.completed)
        statuses = [FinishStatus.STALE] * len(reports)
        held = [self._holders.get(one.lease, ("host/1", one.lease)) for one in reports]
        for holder in dict(held):
            places = [at for at, (name, _) in enumerate(held) if name == holder]
            mine = [replace(reports[at], lease=held[at][1]) for at in places]
            remote = await self._worker(holder)
            some = await remote.finish(stage, mine, attempts_max)
            for at, status in zip(places, some.statuses, strict=True):
                statuses[at] = status
        completed = tuple(self._port.completed[before:])
        return Finished(statuses=tuple(statuses), completed=completed)

    async def reap(self, stage: StageName, *, attempts_max: int, jobs_max: int) -> Reaped:
        if jobs_max < 10:  # the API's own limit
            return await self._store.reap(stage, attempts_max=attempts_max, jobs_max=jobs_max)
        self._port.gateway.attempts_max = attempts_max
        before = len(self._port.completed)
        remote = await self._worker()
        found = await remote.reap(stage, attempts_max=attempts_max, jobs_max=jobs_max)
        return Reaped(
            redelivered=found.redelivered, dead=found.dead, expired=found.expired,
            completed=tuple(self._port.completed[before:]),
        )  # fmt: skip

    async def wait_for_work(
        self, stages: Sequence[StageName], *, timeout_s: float
    ) -> StageName | None:
        while timeout_s > 0:  # one call waits no longer than `WAIT_S_MAX`
            remote = await self._worker()
            found = await remote.wait_for_work(stages, timeout_s=timeout_s)
            timeout_s -= WAIT_S_MAX
            if found is not None:
                return found
        return None

    async def put_host(self, host: HostRecord, *, lease_s: float, owner: str = "") -> bool:
        return await self._store.put_host(host, lease_s=lease_s, owner=owner)

    async def artifact_get(self, key: str) -> bytes | None:
        return await (await self._worker()).artifact_get(key)

    async def artifact_begin(self, key: str, *, lease_s: float) -> bool:
        return await (await self._worker()).artifact_begin(key, lease_s=lease_s)

    async def artifact_put(self, key: str, content: bytes) -> None:
        await (await self._worker()).artifact_put(key, content)

    async def artifact_abandon(self, key: str) -> None:
        await (await self._worker()).artifact_abandon(key)

    async def artifact_wait(self, key: str, *, timeout_s: float) -> bytes | None:
        return await (await self._worker()).artifact_wait(key, timeout_s=timeout_s)

    async def ended_by(
        self, workers: Sequence[WorkerId]
    ) -> Mapping[WorkerId, Mapping[StageName, int]]:
        remotes = self._workers
        names = {
            one: WorkerId(_name_of(remotes[one]) if one in remotes else one) for one in workers
        }
        found = await self._store.ended_by(list(names.values()))
        return {one: found[name] for one, name in names.items()}

    async def give_back_undelivered(
        self, stage: StageName, *, worker: WorkerId, leases: Sequence[Lease]
    ) -> int:
        remote = await self._worker(worker)
        shown = [self._holders[lease][1] for lease in leases]
        return await remote.give_back_undelivered(stage, worker=worker, leases=shown)

    async def take_back(self, stage: StageName, worker: WorkerId, *, attempts_max: int) -> Reaped:
        remote = self._workers.get(worker)
        session = worker if remote is None else _name_of(remote)
        return await self._store.take_back(stage, WorkerId(session), attempts_max=attempts_max)

    async def close(self) -> None:
        for remote in self._workers.values():
            await remote.close()
        await self._port.listener.stop()
        await self._store.close()
        with contextlib.suppress(OSError):
            self._folder.cleanup()


def _name_of(remote: RemoteStore) -> str:
    """What the API calls the worker."""
    return WorkerKeys([KEY]).read(remote.session).worker


def by_the_api(store: Store) -> Store:
    """The store with the API between it and its workers."""
    return cast("Store", ByTheApi(store))
