"""A store that goes away while a host claims, works or ends: no request is begun twice for it."""

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.worker.hosts import RunHost, Trainer, until

from assay.core.errors import DependencyDown
from assay.core.ids import StageName
from assay.core.records import Claim, Finished, Report
from assay.store.port import Store
from assay.worker import host as host_module
from assay.worker.sweeps import LostAnswers


class Away:
    """A store whose claims are made and not answered, and whose reports do not arrive, for as long
    as the test says."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.lost: list[Claim] = []
        """Claimed, and not told."""
        self.loses = 0
        """Answers to claims that are still to be lost."""
        self.takes_reports = True
        self.reported = 0
        """Most reports of one call, whether it was answered or not."""

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    async def claim(self, stage: StageName, **options: Any) -> Sequence[Claim]:
        claims = await self._store.claim(stage, **options)
        if claims and self.loses:
            self.loses -= 1
            self.lost += claims
            raise DependencyDown("no answer from the store")
        return claims

    async def give_back_undelivered(self, stage: StageName, **options: Any) -> int:
        self._refuse()
        return await self._store.give_back_undelivered(stage, **options)

    async def finish(
        self, stage: StageName, reports: Sequence[Report], attempts_max: int
    ) -> Finished:
        self.reported = max(self.reported, len(reports))
        self._refuse()
        return await self._store.finish(stage, reports, attempts_max)

    def _refuse(self) -> None:
        if not self.takes_reports:
            raise DependencyDown("no answer from the store")

    async def close(self) -> None:
        """It is the trainer's too."""


async def first_attempts(trainer: Trainer, batch: Any) -> list[int]:
    return [one.record.attempts for one in await trainer.results(batch)]


async def test_claims_whose_answers_were_lost_are_made_again_at_once_as_first_attempts(
    run_host: RunHost, trainer: Trainer, store: Store
) -> None:
    away = Away(store)
    host = await run_host("patient", store=cast("Store", away), slots=2, reap_every_s=600)
    await until(lambda: host.host.pools()[0].ready == 2)
    away.loses = 2
    batch = await trainer.submit("patient", ["pass"] * 8)
    assert await first_attempts(trainer, batch) == [1] * 8
    assert len(away.lost) >= 2
    await host.stop()  # before the store is closed


async def test_a_host_that_drains_gives_back_claims_whose_answers_were_lost(
    run_host: RunHost, trainer: Trainer, store: Store
) -> None:
    away = Away(store)
    host = await run_host("patient", store=cast("Store", away), slots=1, drain_s=60)
    await until(lambda: host.host.pools()[0].ready == 1)
    away.loses, away.takes_reports = 1, False
    batch = await trainer.submit("patient", ["pass"])
    await until(lambda: away.lost)
    stopping = asyncio.create_task(host.stop())
    await until(lambda: host.host.why_not_ready == "draining")
    await asyncio.sleep(0.1)  # it asks without success
    away.takes_reports = True
    await stopping
    record = await trainer.record(batch)
    assert (record.queued, record.running) == (1, 0)
    await run_host("patient")
    assert await first_attempts(trainer, batch) == [1]


async def test_a_host_that_ends_reports_for_as_long_as_it_may_drain(
    run_host: RunHost, trainer: Trainer, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node that is drained takes the store along: it is back after some time, on another."""
    monkeypatch.setattr(host_module, "CLOSE_S_MAX", 0.05)
    away = Away(store)
    host = await run_host("patient", store=cast("Store", away), slots=2, drain_s=60)
    await until(lambda: host.host.pools()[0].ready == 2)
    away.takes_reports = False
    batch = await trainer.submit("patient", ["pass"] * 2)
    await until(lambda: away.reported == 2)
    stopping = asyncio.create_task(host.stop())
    await until(lambda: host.host.why_not_ready == "draining")
    await asyncio.sleep(0.5)  # ten times what is left after a drain that took all of its time
    away.takes_reports = True
    await stopping
    assert await first_attempts(trainer, batch) == [1] * 2


async def test_after_any_outage_a_stage_asks_once_what_was_lost() -> None:
    asked: list[int] = []

    async def give_back(_stage: str, *, worker: str, leases: Sequence[object]) -> int:
        del worker
        asked.append(len(leases))
        return 0

    health = SimpleNamespace(regained_ns=0)
    store = SimpleNamespace(give_back_undelivered=give_back)
    parts: Any = SimpleNamespace(store=store, health=health, worker="w")
    lost = LostAnswers(parts, StageName("s"), [])
    await lost.settle()
    assert not asked, "the store was never away"
    health.regained_ns = 7
    await lost.settle()
    await lost.settle()
    assert asked == [0]
    lost.note()
    await lost.settle()
    await lost.settle()
    assert asked == [0, 0]
