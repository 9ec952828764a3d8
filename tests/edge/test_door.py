"""What one tenant holds never keeps another from its reserve; what is given back can be taken."""

import asyncio
import math
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from assay.config.access import TenantSettings
from assay.core.errors import DeadlinePassed, Saturated, TooLarge
from assay.core.ids import TenantId
from assay.edge.access.rules import ANYONE
from assay.edge.auth import Tenants
from assay.edge.calls import Arrival, CallGuard
from assay.edge.clock import Clock
from assay.edge.door import (
    ANSWER_REST_S_MAX,
    LARGE_BYTES,
    Door,
    DoorLimit,
    DoorLimits,
    Kind,
    RateLimit,
    limited,
    within,
)
from assay.edge.tracing import NoTracer

NAMES = tuple(map(TenantId, ("red", "blue", "green")))
RED, BLUE, _ = NAMES


def _taken(limit: DoorLimit, tenant: TenantId, amount: int = 1) -> bool:
    try:
        limit.take(tenant, amount)
    except Saturated:
        return False
    return True


@given(
    total=st.integers(1, 60),
    share=st.floats(0.01, 1.0),
    steps=st.lists(st.tuples(st.sampled_from(NAMES), st.integers(-9, 9)), max_size=80),
)
def test_no_order_of_taking_passes_a_total_or_a_reserve(
    total: int, share: float, steps: list[tuple[TenantId, int]]
) -> None:
    limit = DoorLimit("things", total=total, tenants=3, share=share)
    reserve = total // 6
    held: Counter[TenantId] = Counter()
    for tenant, amount in steps:
        if amount < 0:
            amount = min(-amount, held[tenant])
            if amount:
                limit.give_back(tenant, amount)
                held[tenant] -= amount
        elif amount:
            if _taken(limit, tenant, amount):
                held[tenant] += amount
            else:
                assert held[tenant] + amount > reserve, "the reserve is never refused"
        assert limit.held == held.total() <= total
    for tenant in NAMES:
        if held[tenant] < reserve:
            limit.take(tenant, reserve - held[tenant])


@given(total=st.integers(4, 1_000), others=st.integers(1, 20))
def test_one_tenant_alone_never_has_the_total(total: int, others: int) -> None:
    limit = DoorLimit("things", total=total, tenants=1 + others, share=0.5)
    assert sum(_taken(limit, RED) for _ in range(total)) <= max(1, round(total / 2))
    with pytest.raises(Saturated, match="this tenant's limit") as caught:
        limit.take(RED)
    assert caught.value.retry_after_s > 0


@given(st.integers(1, 6), st.integers(1, 4), st.lists(st.integers(0, 99), min_size=20, max_size=40))
def test_more_callers_than_tenants_pass_no_total(
    total: int, tenants: int, takers: list[int]
) -> None:
    limit, held = DoorLimit("things", total=total, tenants=tenants, share=0.5), 0
    for taker in takers:
        held += _taken(limit, TenantId(str(taker)))
    assert limit.held == held <= total


def test_the_only_tenant_may_have_everything() -> None:
    limit = DoorLimit("things", total=7, tenants=1, share=0.5)
    limit.take(RED, 7)
    with pytest.raises(Saturated):
        limit.take(RED)


def test_streams_hold_no_slots_of_calls_and_loads_end_with_their_calls() -> None:
    door = Door(DoorLimits(calls_max=1, streams_max=2, bytes_max=10))
    with door.slot(RED, Kind.STREAM), door.slot(RED, Kind.CALL) as load:
        load.add(10)
        with pytest.raises(TooLarge, match="limit at once is 10"):
            load.add(1)  # this call is more than the total by itself
        with door.slot(BLUE, Kind.STREAM) as other, pytest.raises(Saturated):
            other.add(1)
        load.release()
        load.release()
        load.add(10)
        with pytest.raises(Saturated), door.slot(RED, Kind.CALL):
            pass
    assert not door.held(Kind.CALL)
    assert not door.held(Kind.STREAM)
    with door.slot(BLUE, Kind.CALL) as load:
        load.add(10)


@given(
    per_s=st.floats(1, 1_000),
    arrivals=st.lists(st.floats(0, 5), min_size=1, max_size=60).map(sorted),
)
def test_a_pace_lets_through_its_rate_and_a_burst(per_s: float, arrivals: list[float]) -> None:
    pace = RateLimit(per_s)
    starts = sorted(now_s + pace.wait_s(RED, 1, now_s) for now_s in arrivals)
    assert pace.wait_s(BLUE, 1, 0.0) == 0.0, "one tenant's pace is not another's"
    for first in range(len(starts)):
        for last in range(first, len(starts)):
            span_s = starts[last] - starts[first]
            assert last - first <= per_s * (span_s + 1.0) + 1.001


def test_without_a_pace_nothing_waits() -> None:
    pace = RateLimit(math.inf)
    assert not any(pace.wait_s(RED, 10**9, 1.0) for _ in range(100))


async def test_messages_of_a_stream_have_a_pace_however_small(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waits: list[float] = []

    async def waited(seconds: float) -> None:
        waits.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", waited)
    limits = DoorLimits(
        calls_max=1, streams_max=1, bytes_max=1, tenants=2, tenant_bytes_per_s=LARGE_BYTES / 100
    )
    door = Door(limits)
    for _ in range(10):
        await door.keep_pace_in_stream(RED, 0)
    assert max(waits) > 100.0, "each message counts as a large one"


async def test_after_a_page_of_results_its_tenant_rests_and_no_other_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loop = asyncio.get_running_loop()
    now_s, rests, releases = 0.0, list[float](), list[Callable[[], object]]()

    def later(after_s: float, act: Callable[[], object]) -> None:
        rests.append(after_s)
        releases.append(act)

    monkeypatch.setattr(loop, "time", lambda: now_s)
    monkeypatch.setattr(loop, "call_later", later)
    for tenants, rested in ((1, []), (2, [0.2, ANSWER_REST_S_MAX])):
        door = Door(DoorLimits(calls_max=1, streams_max=1, bytes_max=1, tenants=tenants))
        rests.clear()
        for took_s in (0.0001, 0.1, 9.0):
            async with door.turn_to_answer(RED):
                now_s += took_s
            waiting = asyncio.ensure_future(_turn(door))
            async with door.turn_to_answer(BLUE):
                pass
            await asyncio.sleep(0)
            assert waiting.done() == (not releases)
            while releases:
                releases.pop()()
            await waiting
        assert rests == pytest.approx(rested)


async def _turn(door: Door) -> None:
    async with door.turn_to_answer(RED):
        pass


async def test_what_the_caller_does_has_its_time() -> None:
    with pytest.raises(DeadlinePassed, match=r"sending took longer than 0\.01 s"):
        await within(asyncio.Event().wait(), seconds=0.01, what="sending")


async def test_what_need_not_wait_sets_no_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    async def at_once(error: Exception | None = None) -> str:
        if error is not None:
            raise error
        return "read"

    async def after(*events: asyncio.Event) -> str:
        for event in events:
            await event.wait()
        return "read"

    timers: list[float] = []
    set_timer = asyncio.timeout

    def counted(seconds: float) -> asyncio.Timeout:
        timers.append(seconds)
        return set_timer(seconds)

    monkeypatch.setattr(asyncio, "timeout", counted)
    assert await within(at_once(), seconds=9.0, what="sending") == "read"
    with pytest.raises(KeyError):
        await within(at_once(KeyError()), seconds=9.0, what="sending")
    assert timers == []

    first, second = asyncio.Event(), asyncio.Event()
    waiting = asyncio.create_task(within(after(first, second), seconds=9.0, what="sending"))
    for event in (first, second):
        await asyncio.sleep(0)
        assert not waiting.done()
        event.set()
    assert await waiting == "read"
    assert timers == [9.0]

    stuck = asyncio.create_task(within(after(asyncio.Event()), seconds=9.0, what="sending"))
    await asyncio.sleep(0)
    stuck.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stuck


async def _to_the_end(stream: AsyncIterator[int]) -> None:
    async for _ in stream:
        pass


async def test_an_idle_stream_and_an_old_one_end_with_a_word_on_how_to_go_on() -> None:
    closed = []

    async def pages(pause_s: float) -> AsyncGenerator[int, None]:
        try:
            for number in range(10**9):
                yield number
                await asyncio.sleep(pause_s)
        finally:
            closed.append(pause_s)

    for pause_s, idle_s, life_s in ((60.0, 0.02, 60.0), (0.001, 60.0, 0.05)):
        limits = DoorLimits(
            calls_max=1, streams_max=1, bytes_max=1, stream_idle_s_max=idle_s, stream_s_max=life_s
        )
        stream = limited(pages(pause_s), limits)
        assert await anext(stream) == 0
        with pytest.raises(Saturated, match="resume from your cursor"):
            await _to_the_end(stream)
    assert closed == [60.0, 0.001]


async def test_strangers_wait_for_their_refusal_and_no_tenant_waits_with_them() -> None:
    tokens = {name: sha256(name.encode()).hexdigest() for name in ("red", "blue")}
    tenants = {name: TenantSettings(token_sha256=SecretStr(one)) for name, one in tokens.items()}
    limits = DoorLimits(
        calls_max=8, streams_max=4, bytes_max=1, tenants=2, tenant_calls_per_s=0.001
    )
    guard = CallGuard(
        callers=Tenants(tenants),
        door=Door(limits),
        clock=Clock(),
        tracer=NoTracer(),
        on_call=lambda *_: None,
    )

    async def call(token: str) -> str:
        with guard.call(Arrival(method="m", authorization=f"Bearer {token}", rule=ANYONE)) as call:
            await call.admit()
        await guard.before_refusal(call)
        return call.error.reason if call.error else "ok"

    strangers = [asyncio.create_task(call("stranger")) for _ in range(5)]
    async with asyncio.timeout(60):
        assert await strangers[0] == "unauthenticated"
        assert await call("red") == await call("blue") == "ok"
    assert guard.door.refusals_held == 4
    for one in strangers:
        one.cancel()
    await asyncio.gather(*strangers, return_exceptions=True)
    assert guard.door.refusals_held == 0
