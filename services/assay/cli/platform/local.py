"""One machine's platform: what `assay up` shows and what `assay score` starts for itself.

Order: the embedded store (when no store is named), a worker host, the reward API, and, once these
serve, a planner, which nothing waits for. Drained are the planner, the host, the API, the store.
Where each listens stands in `data_dir/run`, which is how other commands find it. When the platform
itself is killed, their wardens drain them.
"""

import asyncio
import fcntl
import json
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from assay.cli.platform.addresses import Addresses
from assay.cli.platform.children import Child, Platform
from assay.cli.platform.forks import WARM_LOG, PartForks
from assay.config.ready_files import Part, ready_file
from assay.config.settings import Settings
from assay.core.errors import FailedPrecondition
from assay.edge.clock import Clock
from assay.edge.lifecycle import starting
from assay.store.embedded import EmbeddedValkey
from assay.store.fitness import until_fit
from assay.store.valkey import open_store


class LocalPlatform:
    """Starts all of it; `run` keeps it alive; `stop` drains it."""

    def __init__(self, settings: Settings, *, clock: Clock, forks: PartForks | None = None) -> None:
        """Start nothing yet.

        Args:
            settings: of the platform.
            clock: for times.
            forks: where its parts come from.
        """
        self._settings = settings
        logs = settings.data_dir / "logs"
        self._forks = forks or PartForks(logs / WARM_LOG)
        self._platform = Platform(clock=clock, log_dir=logs, forks=self._forks)
        self._embedded: EmbeddedValkey | None = None
        self._lock: int | None = None

    async def start(self) -> Addresses:
        """Come up.

        Raises:
            FailedPrecondition: another platform uses the data directory, the store is not fit, or
                a part's configuration is wrong.
            DependencyDown: the store does not answer, or a part does not start; says why.
        """
        try:
            return await self._start()
        except BaseException:
            await self.stop()
            raise

    def _own(self) -> None:
        """Lock the data directory: one platform per directory, wherever its store is."""
        data_dir = self._settings.data_dir
        with starting():
            data_dir.mkdir(parents=True, exist_ok=True)
            path = data_dir / "platform.lock"
            self._lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            message = f"data_dir: another process uses the data directory {data_dir}"
            raise FailedPrecondition(message, field="data_dir") from None

    async def _start(self) -> Addresses:
        self._own()
        self._forks.begin()  # its imports take as long as the start of the store
        store = await self._start_store()
        data_dir = self._settings.data_dir
        environment = {
            "ASSAY_STORE__URL": store,
            "ASSAY_DATA_DIR": str(self._settings.data_dir),
        }
        reward = self._platform.add(
            "reward",
            ["-m", "assay.reward"],
            ready_file=ready_file(data_dir, Part.REWARD),
            drain_s=self._settings.reward.drain_s,
            environment=environment,
        )
        worker = self._platform.add(
            "worker",
            ["-m", "assay.worker"],
            ready_file=ready_file(data_dir, Part.WORKER),
            drain_s=self._settings.worker.drain_s,
            environment=environment,
        )
        for child in (worker, reward):  # the worker host first: its slots take longest
            await self._platform.begin(child)
        api = json.loads(await self._addresses(reward))
        pools = json.loads(await self._addresses(worker))
        # A part that is started again keeps the port that callers know.
        reward.environment["ASSAY_REWARD__GRPC_PORT"] = _port(api["grpc"])
        reward.environment["ASSAY_REWARD__HTTP_PORT"] = _port(api["http"])
        worker.environment["ASSAY_WORKER__CONTROL_PORT"] = _port(pools["control"])
        if self._settings.planner.enabled:
            environment["ASSAY_WORKER__CONTROL_PORT"] = _port(pools["control"])
            await self._start_planner(ready_file(data_dir, Part.PLANNER), environment)
        rollout, gateway = "", ""
        if self._settings.rollout.model is not None or self._settings.rollout.engine_url:
            rollout, gateway = await self._start_rollout(
                ready_file(data_dir, Part.ROLLOUT), environment, api["grpc"]
            )
        return Addresses(
            grpc=api["grpc"],
            http=api["http"],
            control=pools["control"],
            store=store,
            rollout=rollout,
            gateway=gateway,
        )

    async def _start_rollout(
        self, ready: Path, environment: Mapping[str, str], reward_url: str
    ) -> tuple[str, str]:
        """Serve rollouts; returns its address, and its gateway's or an empty text."""
        child = await self._platform.start(
            "rollout",
            ["-m", "assay.rollout"],
            ready_file=ready,
            drain_s=self._settings.rollout.drain_s,
            environment={
                **environment,
                **self._engine_of_rollouts(),
                "ASSAY_ROLLOUT__REWARD_URL": reward_url,
            },
        )
        where = json.loads(await self._addresses(child))
        # One that is started again keeps the ports that callers know.
        child.environment["ASSAY_ROLLOUT__GRPC_PORT"] = _port(where["grpc"])
        child.environment["ASSAY_ROLLOUT__HTTP_PORT"] = _port(where["http"])
        gateway = str(where.get("gateway", ""))
        if gateway:
            child.environment["ASSAY_ROLLOUT__GATEWAY_PORT"] = _port(gateway)
        return str(where["grpc"]), gateway

    def _engine_of_rollouts(self) -> dict[str, str]:
        """A remote engine's settings are in the environment already."""
        model = self._settings.rollout.model
        return {} if model is None else {"ASSAY_ROLLOUT__MODEL": str(model)}

    async def _start_planner(self, ready: Path, environment: Mapping[str, str]) -> None:
        """Without one pools keep their size, so the platform outlives it."""
        await self._platform.start(
            "planner",
            ["-m", "assay.planner"],
            ready_file=ready,
            drain_s=self._settings.planner.drain_s,
            environment=environment,
            needed=False,
        )

    async def _start_store(self) -> str:
        if self._settings.store.url:
            await self._check_store()
            return self._settings.store.url
        self._embedded = EmbeddedValkey(
            self._settings.data_dir, appendfsync=self._settings.store.appendfsync
        )
        await self._embedded.start()
        return self._embedded.url

    async def _check_store(self) -> None:
        """Once for all parts, so that what is wrong is said once."""
        store = open_store(self._settings.store, data_dir=self._settings.data_dir)
        try:
            await until_fit(store, wait_s=self._settings.store.start_wait_s)
        finally:
            await store.close()

    async def _addresses(self, child: Child) -> str:
        return await self._platform.wait_for(child)

    async def run(self) -> None:
        """Start again what dies, until cancelled.

        Raises:
            DependencyDown: a part is in a crash loop.
        """
        jobs = [asyncio.create_task(self._platform.watch())]
        if self._embedded is not None:
            jobs.append(asyncio.create_task(self._embedded.keep_alive()))
        try:
            await asyncio.gather(*jobs)
        finally:
            for job in jobs:
                job.cancel()
            await asyncio.gather(*jobs, return_exceptions=True)

    @asynccontextmanager
    async def kept(self) -> AsyncIterator[None]:
        """`run` for the length of the block, which does not outlive the platform.

        Raises:
            DependencyDown: a part is in a crash loop; the block was cancelled.
        """
        try:
            async with asyncio.TaskGroup() as tasks:
                running = tasks.create_task(self.run())
                yield
                running.cancel()
        except ExceptionGroup as group:  # of one: what the block raised, or why the platform ended
            raise group.exceptions[0] from None

    async def stop(self) -> None:
        """Drain the workers, then the API, then the store."""
        await self._platform.stop()
        if self._embedded is not None:
            await self._embedded.stop()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def _port(address: str) -> str:
    return address.rsplit(":", 1)[1]
