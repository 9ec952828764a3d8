"""The port of workers while the store behind it is away for a moment."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.store.driver import FIRST, Driver, requests
from tests.store.remote import WorkPort

from assay.core.errors import DependencyDown
from assay.core.ids import StageName, WorkerId
from assay.core.records import Claim, StageDepth
from assay.edge.work.tokens import WorkerPass
from assay.reward.workers.gateway import CLAIMS_SLICE
from assay.store.port import Store

WHO = WorkerPass(stages=(FIRST,), expires_ns=2**62, name="x", worker=WorkerId("host"))
LONG_S = 600.0


async def test_requests_that_were_leased_before_the_store_went_away_reach_their_worker(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drive, gateway = Driver(store), WorkPort(store, tmp_path).gateway
    await drive.open()
    await drive.submit(requests(*(f"r{number:02d}" for number in range(3 * CLAIMS_SLICE))))
    claim, calls = store.claim, iter((True, False))

    async def once(stage: StageName, **options: Any) -> Sequence[Claim]:
        if not next(calls):
            raise DependencyDown("no answer from the store")
        return await claim(stage, **options)

    monkeypatch.setattr(store, "claim", once)
    found = await gateway.claim(WHO, [FIRST], claims_max=99, lease_s=LONG_S, wait_ms=0)
    assert len(found.claims) == len(found.leases) == CLAIMS_SLICE


async def test_a_store_that_does_not_answer_at_all_is_said_to_be_away(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def down(*_: object, **__: object) -> Sequence[Claim]:
        raise DependencyDown("no answer from the store")

    monkeypatch.setattr(store, "claim", down)
    gateway = WorkPort(store, tmp_path).gateway
    with pytest.raises(DependencyDown):
        await gateway.claim(WHO, [FIRST], claims_max=99, lease_s=LONG_S, wait_ms=0)


async def test_after_an_outage_nothing_is_swept_before_workers_could_renew_their_leases(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway = WorkPort(store, tmp_path).gateway
    now_ns = 10**9
    monkeypatch.setattr(gateway, "_clock", type("At", (), {"monotonic_ns": lambda _: now_ns})())
    assert (await gateway.sweep(WHO, FIRST))[0] is not None
    depths = store.depths

    async def down(stages: Sequence[StageName]) -> Sequence[StageDepth]:
        raise DependencyDown("no answer from the store")

    monkeypatch.setattr(store, "depths", down)
    with pytest.raises(DependencyDown):
        await gateway.sweep(WHO, FIRST)
    monkeypatch.setattr(store, "depths", depths)
    now_ns += int(2.9e9)
    reaped, depth = await gateway.sweep(WHO, FIRST)
    assert reaped is None
    assert depth.queued == 0
    now_ns += int(0.2e9)
    assert (await gateway.sweep(WHO, FIRST))[0] is not None
