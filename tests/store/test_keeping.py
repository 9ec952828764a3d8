"""What every store keeps of batches that are over, for how long, and what it counts.

Each test runs on the store in memory and on a real Valkey. Instants are each store's own, so
nothing here compares them with the test's clock; where time must pass, the test waits for what it
brings about.
"""

import pytest
from tests.store.driver import (
    FIRST,
    PATIENCE_S,
    SECOND,
    TASK,
    TENANT,
    Driver,
    MakeStore,
    eventually,
    requests,
)

from assay.core.errors import NotFound
from assay.core.ids import TaskId
from assay.core.outcome import Outcome


async def gone(drive: Driver, name: str = "step-1") -> bool:
    try:
        await drive.batch(name)
    except NotFound:
        return True
    return False


async def test_a_finished_batch_is_forgotten_with_its_dead_letters(make_store: MakeStore) -> None:
    drive = Driver(make_store(results_kept_s=0.05))
    await drive.open(size=2)
    await drive.submit(requests("a", "b"))
    a, b = await drive.claim()
    await drive.fail([a], attempts_max=1)
    await drive.score([b])
    await eventually(lambda: gone(drive))
    with pytest.raises(NotFound):
        await drive.log()
    await drive.reap()
    assert await drive.store.dead_letters(letters_max=1) == []
    await drive.open(size=2)
    assert (await drive.submit(requests("a"))).accepted == 1


async def test_a_batch_is_kept_until_its_replayed_request_has_ended_again(
    make_store: MakeStore,
) -> None:
    drive = Driver(make_store(results_kept_s=0.1))
    await drive.open("a", size=1)
    await drive.submit(requests("x"), "a")
    await drive.kill()
    [letter] = await drive.store.dead_letters(letters_max=1)
    assert await drive.store.replay(letter.job_id)
    await drive.open("b", size=0)
    await drive.seal("b")
    await eventually(lambda: gone(drive, "b"))
    await drive.reap()
    assert (await drive.batch("a")).queued == 1
    await drive.score(await drive.claim())
    await eventually(lambda: gone(drive, "a"))


async def test_finished_batches_become_the_history_of_their_task(make_store: MakeStore) -> None:
    drive = Driver(make_store(history_batches=2))
    for name in ("a", "b", "c"):
        await drive.open(name, size=2)
        await drive.submit(requests("x", "y"), name)
        x, y = await drive.claim()
        await drive.hand_over([x])
        await drive.score(await drive.claim(stage=SECOND))
        await drive.fail([y], attempts_max=1)
    history = await drive.store.history(TENANT, TASK.task_id, batches_max=10)
    assert [batch.batch_id for batch in history] == ["c", "b"]
    batch = await drive.batch("c")
    newest = history[0]
    assert (newest.opened_ns, newest.completed_ns) == (batch.opened_ns, batch.completed_ns)
    assert newest.deadline_ns == batch.deadline_ns
    good, bad = newest.requests
    assert (good.outcome, good.service_ns) == (Outcome.SCORED, (4_000, 4_000))
    assert (bad.outcome, bad.service_ns) == (Outcome.INFRA_FAILED, (4_000, 0))
    assert 0 <= good.arrived_after_ns <= bad.arrived_after_ns < PATIENCE_S * 1e9
    spans_ns = await drive.store.natural_spans_ns(TENANT, TASK.task_id)
    assert len(spans_ns) == 3
    assert {batch.natural_span_ns for batch in history} <= set(spans_ns)
    assert await drive.store.natural_spans_ns(TENANT, TaskId("none")) == []
    assert len(await drive.store.history(TENANT, TASK.task_id, batches_max=1)) == 1
    assert await drive.store.history(TENANT, TaskId("none"), batches_max=1) == []


async def test_a_cancelled_batch_is_no_history(drive: Driver) -> None:
    await drive.open()
    await drive.submit(requests("a"))
    await drive.cancel()
    assert await drive.store.history(TENANT, TASK.task_id, batches_max=10) == []
    assert await drive.store.natural_spans_ns(TENANT, TASK.task_id) == []


async def test_depths_count_what_waits_runs_and_died(drive: Driver) -> None:
    await drive.open("late", deadline_after_ms=9_000_000)
    await drive.open("soon", deadline_after_ms=1_000_000)
    await drive.submit(requests("a"), "late")
    await drive.submit(requests("b", "c", "d"), "soon")
    b, _ = await drive.claim(2)
    await drive.fail([b], attempts_max=1)
    first, second = await drive.store.depths([FIRST, SECOND])
    assert (first.stage, first.queued, first.running, first.dead_letters) == (FIRST, 2, 1, 1)
    assert (second.queued, second.running, second.oldest_age_s) == (0, 0, 0.0)
    older = await eventually(lambda: older_than(drive, first.oldest_age_s))
    assert older < PATIENCE_S


async def older_than(drive: Driver, age_s: float) -> float | None:
    now_s = (await drive.depth()).oldest_age_s
    return now_s if now_s > age_s else None
