"""Callers that go away: none makes another one fail, and no error of theirs is left unheard."""

from __future__ import annotations

import asyncio
import gc
from typing import TYPE_CHECKING, Any

import pytest
from starlette.requests import Request

from assay.core.errors import DependencyDown
from assay.reward.endpoints.calling import _Shared, while_connected
from assay.reward.operations.results import Results

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

DOWN = DependencyDown("no answer")
SOON_S = 60


class Caller:
    """An HTTP call, at its service's end."""

    def __init__(self) -> None:
        self.hangs_up: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.request = Request({"type": "http"}, self._receive)

    async def _receive(self) -> Any:
        return await self.hangs_up

    def waits_for(self, work: Any) -> asyncio.Task[Any]:
        return asyncio.create_task(while_connected(self.request, work))


@pytest.mark.parametrize("is_reset", [False, True])
async def test_the_work_of_a_caller_that_hangs_up_is_cancelled_and_its_errors_are_heard(
    *, is_reset: bool
) -> None:
    caller, is_over = Caller(), asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            for _ in range(10):
                await asyncio.sleep(0)
            is_over.set()
            raise DOWN

    waiting = caller.waits_for(work())
    await asyncio.sleep(0)
    if is_reset:
        caller.hangs_up.set_exception(ConnectionResetError("by the peer"))
    else:
        caller.hangs_up.set_result({"type": "http.disconnect"})
    async with asyncio.timeout(SOON_S):
        await asyncio.wait((waiting,))
    assert waiting.cancelled()
    assert is_over.is_set(), "before its call gives its slot back"
    del caller, waiting
    gc.collect()


async def test_a_connection_that_is_lost_as_its_answer_comes_logs_no_error() -> None:
    async def receive() -> Any:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise ConnectionResetError("by the peer") from None

    request = Request({"type": "http"}, receive)
    assert await while_connected(request, asyncio.sleep(0.01, "answer")) == "answer"
    del request
    gc.collect()


async def test_shared_work_goes_on_for_those_who_stay() -> None:
    may_end = asyncio.Event()
    shared = _Shared(may_end.wait(), lambda _: None)
    leaving, staying = (asyncio.create_task(shared.joined()) for _ in range(2))
    await asyncio.sleep(0)
    leaving.cancel()
    await asyncio.wait((leaving,))
    assert not shared.done()
    may_end.set()
    assert await staying


async def test_shared_work_ends_with_its_last_caller_and_an_error_of_its_end_is_heard() -> None:
    order: list[str] = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            order.append("over")
            raise DOWN

    shared = _Shared(work(), lambda _: order.append("forgotten"))
    callers = [asyncio.create_task(shared.joined()) for _ in range(2)]
    await asyncio.sleep(0)
    for caller in callers:
        caller.cancel()
    await asyncio.wait(callers)
    async with asyncio.timeout(SOON_S):
        await asyncio.wait((shared,))
    assert order[:2] == ["forgotten", "over"], "no later call joins what is being cancelled"
    del shared, callers, caller
    gc.collect()


async def test_a_failure_of_shared_work_is_the_answer_of_all_who_wait() -> None:
    may_fail = asyncio.Event()

    async def work() -> None:
        await may_fail.wait()
        raise DOWN

    shared = _Shared(work(), lambda _: None)
    callers = [asyncio.create_task(shared.joined()) for _ in range(2)]
    may_fail.set()
    assert await asyncio.gather(*callers, return_exceptions=True) == [DOWN] * 2


async def test_a_watch_that_fails_as_its_reader_leaves_logs_no_error() -> None:
    part: Any = None  # neither is used: nothing is read
    results = Results(store=part, clock=part, turn=None)
    readers: list[asyncio.Task[None]] = []

    async def changes() -> AsyncGenerator[None, None]:
        await asyncio.sleep(0)
        readers[0].cancel()
        raise DOWN
        yield

    readers.append(asyncio.create_task(results._change(changes())))
    await asyncio.wait(readers)
    assert readers[0].cancelled()
    readers.clear()
    gc.collect()


async def test_a_reader_that_leaves_ends_no_other_stream_and_a_stop_ends_all() -> None:
    part: Any = None
    results = Results(store=part, clock=part, turn=None)
    watched = [asyncio.Event() for _ in range(3)]

    async def changes(begun: asyncio.Event) -> AsyncGenerator[None, None]:
        begun.set()
        await asyncio.Event().wait()
        yield

    watches = [changes(begun) for begun in watched]
    leaving, *staying = [asyncio.create_task(results._change(one)) for one in watches]
    for begun in watched:
        await begun.wait()
    leaving.cancel()
    await asyncio.wait((leaving,))
    assert not any(one.done() for one in staying)
    results.stop()
    for one in staying:
        with pytest.raises(DependencyDown, match="resume from your cursor"):
            await one
    for watch in watches:
        await watch.aclose()  # none is still being waited for
