"""What every store gives planners; run on the memory of this process and on a real Valkey."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import replace

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
    request,
    requests,
)

from assay.core.errors import AssayError, NotFound, Saturated, TooLarge
from assay.core.ids import BatchId, TaskId, TenantId
from assay.core.outcome import Outcome
from assay.core.records import EndRequest, HintRecord, Leadership, OpenWork
from assay.core.store_limits import HINTS_MAX, PLAN_BYTES_MAX, PLANS_MAX

STEP = BatchId("step-1")
ELSEWHERE = BatchId("none")


async def open_work(drive: Driver, *, requests_max: int = 100_000) -> list[OpenWork]:
    return list(await drive.store.open_work(batches_max=100, requests_max=requests_max))


# -- open work -----------------------------------------------------------------------------------


async def test_without_open_batches_there_is_no_open_work(drive: Driver) -> None:
    assert await open_work(drive) == []
    await drive.open()
    await drive.seal()
    assert await open_work(drive) == []


async def test_open_work_shows_where_each_request_is_and_what_it_took_so_far(
    drive: Driver,
) -> None:
    await drive.open(size=5)
    await drive.submit(requests("a"))
    await drive.submit(requests("b", "c", "d", "e"))
    a, b, c, d = await drive.claim(4)
    await drive.hand_over([a, b])
    await drive.fail([d])
    [first] = await drive.claim(1, stage=SECOND)
    await drive.score([c])
    [work] = await open_work(drive)
    assert (work.batch, work.task, work.number) == (await drive.batch(), TASK, 0)
    assert (work.batch.ended, work.batch.running, work.batch.queued) == (1, 1, 3)
    assert work.order_deadline_ns == work.batch.deadline_ns
    on_a, on_b, on_d, on_e = work.requests
    assert [one.stage for one in work.requests] == [SECOND, SECOND, FIRST, FIRST]
    assert [one.service_ns for one in work.requests] == [(4_000, 0), (4_000, 0), (0, 0), (0, 0)]
    assert on_a.claimed_ns == first.claimed_ns > 0
    assert (on_b.claimed_ns, on_d.claimed_ns, on_e.claimed_ns) == (0, 0, 0), "they wait"
    assert on_a.enqueued_ns == first.enqueued_ns > on_d.enqueued_ns == d.enqueued_ns
    arrivals = [one.arrived_after_ns for one in (on_a, on_b, on_d, on_e)]
    assert arrivals == sorted(arrivals)
    assert arrivals[0] >= 0
    assert on_a.enqueued_ns > work.batch.opened_ns + on_a.arrived_after_ns


async def test_the_natural_span_of_what_ended_is_its_latest_arrival_and_service(
    drive: Driver,
) -> None:
    await drive.open()
    await drive.submit(requests("a", "b"))
    [work] = await open_work(drive)
    assert work.ended_natural_ns == 0
    await drive.hand_over(await drive.claim())
    [a, b] = await drive.claim(stage=SECOND)
    first_ns, last_ns = (one.arrived_after_ns for one in work.requests)
    await drive.score([a])
    [work] = await open_work(drive)
    assert work.ended_natural_ns == first_ns + 8_000, "two stages of 4 us"
    await drive.finish([b], EndRequest(outcome=Outcome.REJECTED_INVALID, reward=None, body=b""))
    assert [work.ended_natural_ns for work in await open_work(drive)] == [last_ns + 8_000]


async def test_open_work_comes_by_deadline_and_is_numbered_within_its_task(drive: Driver) -> None:
    await drive.open("late", deadline_after_ms=9_000_000)
    await drive.open("over")
    await drive.seal("over")
    await drive.open("soon", deadline_after_ms=1_000_000)
    await drive.open("soon", deadline_after_ms=1_000_000)  # said again
    listed = await open_work(drive)
    assert [(work.batch.batch_id, work.number) for work in listed] == [("soon", 2), ("late", 0)]
    [one] = await drive.store.open_work(batches_max=1, requests_max=9)
    assert one == listed[0]


async def test_open_work_of_any_size_is_read_whole_and_once(drive: Driver) -> None:
    sizes = [1, 700, 130, 0, 1_301, *[3] * 70]
    for number, size in enumerate(sizes):
        await drive.open(f"b{number:02d}", deadline_after_ms=1_000_000 + number * 1_000)
        new = [request(f"r{i}") for i in range(size)]
        for first in range(0, size, 300):
            await drive.submit(new[first : first + 300], f"b{number:02d}")
    listed = await open_work(drive, requests_max=sum(sizes))
    assert [len(work.requests) for work in listed] == sizes
    for work in listed:
        arrivals = [one.arrived_after_ns for one in work.requests]
        assert arrivals == sorted(arrivals)
    with pytest.raises(Saturated) as caught:
        await open_work(drive, requests_max=sum(sizes) - 1)
    assert caught.value.retry_after_s > 0


async def test_an_attempt_that_is_made_again_and_a_replay_are_open_work(drive: Driver) -> None:
    await drive.open()
    await drive.submit(requests("a"))
    await drive.hand_over(await drive.claim())
    await drive.fail(await drive.claim(stage=SECOND), attempts_max=1)
    assert (await open_work(drive))[0].requests == ()
    [letter] = await drive.store.dead_letters(letters_max=9)
    await drive.store.replay(letter.job_id)
    [work] = await open_work(drive)
    [again] = work.requests
    assert (again.stage, again.service_ns, again.claimed_ns) == (SECOND, (4_000, 0), 0)


# -- tasks and hints -----------------------------------------------------------------------------


async def test_tasks_are_listed_by_their_last_use(drive: Driver) -> None:
    assert await drive.store.tasks(tasks_max=9) == []
    await drive.open("first", size=1)
    others = [
        replace(TASK, task_id=TaskId("b")),
        replace(TASK, tenant=TenantId("other")),
    ]
    for task in others:
        await drive.store.put_task(task)
    assert await drive.store.tasks(tasks_max=9) == [others[1], others[0], TASK]
    await drive.store.put_task(others[0])
    assert await drive.store.tasks(tasks_max=2) == [others[0], others[1]]
    await drive.submit(requests("x"), "first")
    await drive.score(await drive.claim())
    assert await drive.store.tasks(tasks_max=9) == [TASK, others[0], others[1]]
    await drive.store.put_task(others[1])
    await drive.open("second")
    assert await drive.store.tasks(tasks_max=1) == [TASK]


async def hinted(drive: Driver) -> list[tuple[TaskId, int]]:
    return [(hint.task_id, hint.size) for hint in await drive.store.hints()]


async def test_a_hint_is_kept_until_a_batch_of_its_task_opens(drive: Driver) -> None:
    assert await drive.store.hints() == []
    batch = await drive.open()
    other = replace(TASK, task_id=TaskId("other"))
    await drive.store.put_task(other)
    await drive.store.hint(TENANT, TASK.task_id, 512)
    await drive.store.hint(TENANT, other.task_id, 64)
    assert await hinted(drive) == [(TASK.task_id, 512), (other.task_id, 64)]
    assert (await drive.store.hints())[0].hinted_ns > batch.opened_ns
    await drive.store.hint(TENANT, TASK.task_id, 256)
    assert await hinted(drive) == [(other.task_id, 64), (TASK.task_id, 256)]
    await drive.open()  # it is open already
    assert len(await drive.store.hints()) == 2
    await drive.open("step-2")
    assert await hinted(drive) == [(other.task_id, 64)]


async def test_a_hint_that_nothing_followed_expires(make_store: MakeStore) -> None:
    drive = Driver(make_store(results_kept_s=0.3))
    await drive.store.hint(TENANT, TASK.task_id, 1)

    async def gone() -> bool:
        return not await drive.store.hints()

    await eventually(gone)
    await drive.store.hint(TENANT, TaskId("other"), 2)
    [hint] = await drive.store.hints()
    expected = HintRecord(tenant=TENANT, task_id=TaskId("other"), size=2, hinted_ns=hint.hinted_ns)
    assert hint == expected


async def test_hints_are_bounded(drive: Driver) -> None:
    for number in range(HINTS_MAX + 3):
        tenant = TenantId(f"tenant{number % 20}")
        await drive.store.hint(tenant, TaskId(f"t{number:04d}"), number)
    hints = await hinted(drive)
    assert len(hints) == HINTS_MAX
    assert hints[-1] == (f"t{HINTS_MAX + 2}", HINTS_MAX + 2)


# -- who leads -----------------------------------------------------------------------------------


async def test_one_planner_leads_and_the_others_are_told_who(drive: Driver) -> None:
    led = await drive.store.lead("a", lease_s=600.0)
    assert (led.leads, led.planner, led.fence) == (True, "a", 1)
    told = await drive.store.lead("b", lease_s=600.0)
    assert told == Leadership(leads=False, planner="a", fence=1, expires_ns=led.expires_ns)
    renewed = await drive.store.lead("a", lease_s=900.0)
    assert (renewed.leads, renewed.fence) == (True, 1)
    assert renewed.expires_ns - led.expires_ns >= 299 * 10**9


async def test_a_lead_that_was_given_up_is_free_at_once(drive: Driver) -> None:
    await drive.store.lead("a", lease_s=600.0)
    await drive.store.resign("b")
    assert (await drive.store.lead("b", lease_s=600.0)).planner == "a"
    await drive.store.resign("a")
    await drive.store.resign("a")
    assert (await drive.store.lead("b", lease_s=600.0)).fence == 2
    assert not (await drive.store.lead("a", lease_s=600.0)).leads


async def test_a_lead_that_is_not_renewed_is_free_when_its_lease_is_over(drive: Driver) -> None:
    await drive.store.lead("a", lease_s=0.001)

    async def taken() -> Leadership | None:
        leadership = await drive.store.lead("b", lease_s=600.0)
        return leadership if leadership.leads else None

    assert (await eventually(taken)).fence == 2
    noticed = await drive.store.lead("a", lease_s=600.0)
    assert (noticed.leads, noticed.planner, noticed.fence) == (False, "b", 2)


# -- waking planners -----------------------------------------------------------------------------


async def nothing(_: Driver) -> None:
    """Some events need no set-up."""


async def opened(drive: Driver) -> None:
    await drive.open()


async def running(drive: Driver) -> None:
    await drive.open()
    await drive.submit(requests("a"))


async def sealed(drive: Driver) -> None:
    await running(drive)
    await drive.seal()


async def dead(drive: Driver) -> None:
    await running(drive)
    await drive.fail(await drive.claim(), attempts_max=1)


async def led(drive: Driver) -> None:
    await drive.store.lead("a", lease_s=600.0)


async def end(drive: Driver) -> None:
    await drive.score(await drive.claim())


async def replay(drive: Driver) -> None:
    [letter] = await drive.store.dead_letters(letters_max=9)
    await drive.store.replay(letter.job_id)


EVENTS: dict[str, tuple[Callable[[Driver], Awaitable[None]], Callable[[Driver], Awaitable[object]]]]
EVENTS = {
    "opened": (nothing, lambda drive: drive.open()),
    "first request": (opened, lambda drive: drive.submit(requests("a"))),
    "ended": (sealed, end),
    "sealed empty": (opened, lambda drive: drive.seal()),
    "cancelled": (running, lambda drive: drive.cancel()),
    "hint": (nothing, lambda drive: drive.store.hint(TENANT, TASK.task_id, 1)),
    "replayed": (dead, replay),
    "resigned": (led, lambda drive: drive.store.resign("a")),
}


async def watching(drive: Driver) -> AsyncGenerator[None, None]:
    """A watch that has yielded at once."""
    watch = drive.store.watch_planning()
    async with asyncio.timeout(PATIENCE_S):
        await anext(watch)
    return watch


@pytest.mark.parametrize("name", EVENTS)
async def test_planners_are_woken_by_what_changes_their_plans(drive: Driver, name: str) -> None:
    before, event = EVENTS[name]
    await before(drive)
    watches = [await watching(drive) for _ in range(2)]
    try:
        await event(drive)
        async with asyncio.timeout(PATIENCE_S):
            for watch in watches:
                await anext(watch)
    finally:
        for watch in watches:
            await watch.aclose()


async def test_planners_sleep_while_requests_move(drive: Driver) -> None:
    await running(drive)
    watch = await watching(drive)
    woken = asyncio.create_task(anext(watch))
    try:
        await drive.submit(requests("b", "c"))
        a, b, _ = await drive.claim()
        await drive.score([a])
        await drive.hand_over([b])
        assert await drive.store.ping() >= 0.0
        assert not woken.done()
        await drive.cancel()
        async with asyncio.timeout(PATIENCE_S):
            await woken
    finally:
        woken.cancel()
        await asyncio.wait([woken])
        await watch.aclose()


async def test_a_watch_of_planning_ends_with_its_store(drive: Driver) -> None:
    watch = await watching(drive)
    woken = asyncio.create_task(anext(watch, "ended"))
    await asyncio.sleep(0)
    await drive.store.close()
    async with asyncio.timeout(PATIENCE_S):
        assert await woken == "ended"


# -- what planners say of a batch ----------------------------------------------------------------

SAYINGS: dict[str, Callable[[Driver, BatchId], Awaitable[object]]] = {
    "mark_at_risk": lambda drive, name: drive.store.mark_at_risk(TENANT, name),
    "prioritize": lambda drive, name: drive.store.prioritize(TENANT, name, 1),
    "put_plan": lambda drive, name: drive.store.put_plan(TENANT, name, b"plan"),
    "plans": lambda drive, name: drive.store.plans(TENANT, name),
}


@pytest.mark.parametrize("name", SAYINGS)
async def test_nothing_is_said_of_a_batch_that_is_not_there(drive: Driver, name: str) -> None:
    await drive.open()
    with pytest.raises(NotFound):
        await SAYINGS[name](drive, ELSEWHERE)
    await SAYINGS[name](drive, STEP)


async def test_a_batch_says_whether_its_deadline_is_at_risk(drive: Driver) -> None:
    assert not (await drive.open()).deadline_at_risk
    changes = drive.store.watch(STEP)
    try:
        async with asyncio.timeout(PATIENCE_S):
            await anext(changes)
            await drive.store.mark_at_risk(TENANT, STEP)
            await anext(changes)
    finally:
        await changes.aclose()
    assert (await drive.batch()).deadline_at_risk
    assert (await drive.open()).deadline_at_risk
    assert [batch.deadline_at_risk for batch in await drive.store.batches(batches_max=9)] == [True]
    await drive.store.mark_at_risk(TENANT, STEP, at_risk=False)
    assert not (await drive.batch()).deadline_at_risk


async def test_a_batch_that_is_over_keeps_the_last_word_on_its_risk(drive: Driver) -> None:
    await drive.open()
    await drive.store.mark_at_risk(TENANT, STEP)
    assert (await drive.seal()).deadline_at_risk
    await drive.store.mark_at_risk(TENANT, STEP, at_risk=False)
    assert (await drive.batch()).deadline_at_risk


async def served(drive: Driver, count: int = 100) -> list[str]:
    return [claim.request_id for claim in await drive.claim(count)]


async def test_a_prioritized_batch_is_served_as_if_its_deadline_were_another(
    drive: Driver,
) -> None:
    soon = await drive.open("soon", deadline_after_ms=1_000_000)
    late = await drive.open("late", deadline_after_ms=9_000_000)
    await drive.submit(requests("s1"), "soon")
    await drive.submit(requests("l1"), "late")
    await drive.store.prioritize(TENANT, late.batch_id, soon.deadline_ns - 1_000_000)
    await drive.submit(requests("l2"), "late")
    work = {one.batch.batch_id: one for one in await open_work(drive)}
    assert work[late.batch_id].order_deadline_ns == soon.deadline_ns - 1_000_000
    assert (await drive.batch("late")).deadline_ns == late.deadline_ns, "what was announced"
    [claim] = await drive.claim(1)
    assert (claim.request_id, claim.deadline_ns) == ("l2", late.deadline_ns)
    assert await served(drive) == ["s1", "l1"], "what waited before keeps its place"
    await drive.store.prioritize(TENANT, late.batch_id, 0)
    await drive.submit(requests("l3"), "late")
    await drive.submit(requests("s2"), "soon")
    assert await served(drive) == ["s2", "l3"]


async def test_a_priority_holds_for_the_next_stage_and_the_next_attempt(drive: Driver) -> None:
    soon = await drive.open("soon", deadline_after_ms=1_000_000)
    late = await drive.open("late", deadline_after_ms=9_000_000)
    await drive.submit(requests("s1", "s2"), "soon")
    await drive.submit(requests("l1", "l2"), "late")
    s1, s2, l1, l2 = await drive.claim()
    await drive.store.prioritize(TENANT, soon.batch_id, late.deadline_ns + 1_000_000)
    await drive.hand_over([s1, l1])
    await drive.give_back([s2, l2])
    assert await served(drive) == ["l2", "s2"]
    claims = await drive.claim(stage=SECOND)
    assert [claim.request_id for claim in claims] == ["l1", "s1"]


async def test_plans_of_a_batch_are_kept_in_order_the_first_and_the_last(drive: Driver) -> None:
    await drive.open()
    assert await drive.store.plans(TENANT, STEP) == []
    bodies = [bytes([number, 0, 255]) for number in range(PLANS_MAX + 5)]
    for body in bodies:
        await drive.store.put_plan(TENANT, STEP, body)
    assert await drive.store.plans(TENANT, STEP) == [bodies[0], *bodies[6:]]


async def test_a_plan_that_is_too_large_is_refused(drive: Driver) -> None:
    await drive.open()
    with pytest.raises(TooLarge):
        await drive.store.put_plan(TENANT, STEP, b"x" * (PLAN_BYTES_MAX + 1))
    assert await drive.store.plans(TENANT, STEP) == []


async def test_plans_are_forgotten_with_their_batch(make_store: MakeStore) -> None:
    drive = Driver(make_store(results_kept_s=0.5))
    await drive.open()
    await drive.store.put_plan(TENANT, STEP, b"one")
    await drive.seal()
    await drive.store.put_plan(TENANT, STEP, b"two")
    assert await drive.store.plans(TENANT, STEP) == [b"one", b"two"]

    async def gone() -> bool:
        try:
            await drive.store.plans(TENANT, STEP)
        except AssayError:
            return True
        return False

    await eventually(gone)
    await drive.open()
    assert await drive.store.plans(TENANT, STEP) == [], "of another batch of that name"


# -- history -------------------------------------------------------------------------------------


async def test_the_history_of_a_task_holds_batches_of_any_size(make_store: MakeStore) -> None:
    drive = Driver(make_store(history_batches=3))
    for name, size in (("a", 1), ("b", 4), ("c", 0), ("d", 2)):
        await drive.open(name, size=size)
        await drive.submit(requests(*(f"r{i}" for i in range(size or 3))), name)
        await drive.score(await drive.claim())
        await drive.seal(name)
    history = await drive.store.history(TENANT, TASK.task_id, batches_max=9)
    assert [(one.batch_id, len(one.requests)) for one in history] == [("d", 2), ("c", 3), ("b", 4)]


async def test_a_store_answers_a_ping_and_takes_a_hint(drive: Driver) -> None:
    await drive.store.put_task(TASK)
    await drive.store.hint(TENANT, TASK.task_id, 512)
    assert await drive.store.ping() >= 0.0
    assert await drive.store.round_trip() >= 0.0
