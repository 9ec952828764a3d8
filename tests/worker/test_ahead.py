"""Busy slots get their next work ahead, while works are short: what becomes of it, whatever the
work before it does. Real slots, a real store."""

import asyncio
import os
import signal
import time
from pathlib import Path

import pytest
from tests.worker.hosts import TENANT, Judged, RunHost, Trainer, slots_of_this_process, until

from assay.core.outcome import Outcome
from assay.core.records import BatchState
from assay.store.port import Store
from assay.worker import ahead
from assay.worker.slots import messages
from assay.worker.slots.process import SlotProcess

BRISK = ["pass"] * 32
"""Enough short works that the next ones are given ahead."""
AFTER = ["pass"] * 40
LATER = ["sleep 0.01"] * 30
"""More than what may be late."""


@pytest.fixture
def never_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is ahead of a long work stays there until something else happens."""
    monkeypatch.setattr(ahead, "_LATE_NS", 10**18)


def attempts(results: list[Judged]) -> list[int]:
    return [one.record.attempts for one in results]


async def test_what_is_ahead_of_a_long_work_is_judged_by_a_slot_that_has_more_to_do(
    run_host: RunHost, trainer: Trainer, tmp_path: Path
) -> None:
    begun, last, go = tmp_path / "begun", tmp_path / "last", tmp_path / "go"
    service = await run_host("patient", slots=2)
    await until(lambda: service.host.pools()[0].ready == 2)
    long = [f"wait_for {one} {go}" for one in (begun, last)]
    batch = await trainer.submit("patient", [*BRISK, long[0], *LATER, long[1]])
    await until(lambda: begun.exists() and last.exists())
    await trainer.until_ended(batch, len(BRISK) + len(LATER))
    go.touch()
    assert set(attempts(await trainer.results(batch))) == {1}


@pytest.mark.usefixtures("never_late")
async def test_what_is_ahead_of_a_long_work_is_judged_by_a_slot_that_is_idle(
    run_host: RunHost, trainer: Trainer, tmp_path: Path
) -> None:
    begun, go = tmp_path / "begun", tmp_path / "go"
    service = await run_host("patient", slots=2)
    await until(lambda: service.host.pools()[0].ready == 2)
    batch = await trainer.submit("patient", [*BRISK, f"wait_for {begun} {go}", *AFTER])
    await until(begun.exists)
    await trainer.until_ended(batch, len(BRISK) + len(AFTER))
    go.touch()
    assert set(attempts(await trainer.results(batch))) == {1}


async def test_a_slot_that_has_just_begun_what_is_taken_back_does_not_keep_it_from_others(
    run_host: RunHost, trainer: Trainer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go = ([tmp_path / f"{word}-{at}" for at in range(2)] for word in ("begun", "go"))

    def send_late(slot: SlotProcess, *parts: object) -> None:
        if parts[0] == messages.TAKE_BACK and not begun[1].exists():
            go[0].touch()
            while not begun[1].exists():  # this host does not hear that it has begun
                time.sleep(0.01)
        send(slot, *parts)

    send = SlotProcess.send
    monkeypatch.setattr(SlotProcess, "send", send_late)
    await run_host("patient", slots=1)
    await trainer.judge("patient", "pass")
    (first,) = slots_of_this_process()
    long = [f"wait_for {begun[at]} {go[at]}" for at in range(2)]
    batch = await trainer.submit("patient", [*BRISK, *long, *AFTER])
    await until(begun[1].exists)
    await until(lambda: first not in slots_of_this_process(), timeout_s=15)
    go[1].touch()
    assert set(attempts(await trainer.results(batch))) == {1}


async def test_what_is_ahead_of_a_long_work_is_left_to_another_host(
    run_host: RunHost, trainer: Trainer, tmp_path: Path
) -> None:
    begun, go = tmp_path / "begun", tmp_path / "go"
    await run_host("patient", slots=1)
    batch = await trainer.submit("patient", [*BRISK, f"wait_for {begun} {go}", *AFTER])
    await until(begun.exists)
    await run_host("patient", slots=1)
    await trainer.until_ended(batch, len(BRISK) + len(AFTER))
    go.touch()
    assert set(attempts(await trainer.results(batch))) == {1}


@pytest.mark.usefixtures("never_late")
async def test_what_is_ahead_when_its_slot_dies_is_not_blamed(
    run_host: RunHost, trainer: Trainer, tmp_path: Path
) -> None:
    begun, go = tmp_path / "begun", tmp_path / "go"
    await run_host("patient", slots=1)
    batch = await trainer.submit("patient", [*BRISK, f"wait_for {begun} {go}", *AFTER])
    await until(begun.exists)
    (slot,) = slots_of_this_process()
    await asyncio.sleep(0.1)  # what may be given ahead is
    os.kill(slot, signal.SIGKILL)
    go.touch()
    results = await trainer.results(batch)
    died = results.pop(len(BRISK))
    assert {one.record.outcome for one in [died, *results]} == {Outcome.SCORED}
    assert (died.record.attempts, set(attempts(results))) == (2, {1})
    after = results[len(BRISK) :]
    assert min(after, key=lambda one: one.record.stages[0].started_ns) is after[0]


@pytest.mark.usefixtures("never_late")
async def test_what_is_ahead_and_cancelled_is_not_begun(
    run_host: RunHost, trainer: Trainer, store: Store, tmp_path: Path
) -> None:
    begun, go, log = tmp_path / "begun", tmp_path / "go", tmp_path / "log"
    await run_host("patient", slots=1)
    batch = await trainer.submit("patient", [*BRISK, *BRISK, f"wait_for {begun} {go}"])
    doomed = await trainer.submit("patient", [f"log {log}"] * 20)
    await until(begun.exists)
    async with asyncio.timeout(30):
        while not (await trainer.record(doomed)).running:
            await asyncio.sleep(0.01)
    await store.cancel(TENANT, doomed)
    await asyncio.sleep(1.5)  # a beat: then the host knows
    go.touch()
    await trainer.results(batch)
    await trainer.judge("patient", "pass")
    assert not log.exists()
    assert (await trainer.record(doomed)).state is BatchState.CANCELLED


@pytest.mark.usefixtures("never_late")
async def test_a_host_that_drains_begins_nothing_that_was_ahead(
    run_host: RunHost, trainer: Trainer, tmp_path: Path
) -> None:
    begun, go = tmp_path / "begun", tmp_path / "go"
    service = await run_host("patient", slots=1, drain_s=30)
    batch = await trainer.submit("patient", [*BRISK, f"wait_for {begun} {go}", *AFTER])
    await until(begun.exists)
    stopping = asyncio.create_task(service.stop())
    await until(lambda: service.host.why_not_ready == "draining")
    go.touch()
    await stopping
    assert (await trainer.record(batch)).ended == len(BRISK) + 1
    await run_host("patient", slots=1)
    assert set(attempts(await trainer.results(batch))) == {1}


async def test_a_pool_shrinks_while_its_slots_get_work_ahead(
    run_host: RunHost, trainer: Trainer
) -> None:
    service = await run_host("patient", slots=2)
    await until(lambda: service.host.pools()[0].ready == 2)
    batch = await trainer.submit("patient", [*BRISK, *["sleep 0.01"] * 300])
    await trainer.until_ended(batch, 100)
    service.host.resize("patient", 1)
    await until(lambda: service.host.pools()[0].ready == 1)
    assert (await trainer.record(batch)).ended < 250
    assert set(attempts(await trainer.results(batch))) == {1}
