"""Work that goes on when a caller leaves: the others get its result, and no error is unheard."""

import asyncio
import gc

import pytest
from tests.unheard import failing, leave

from assay.core.errors import DependencyDown
from assay.edge.lifecycle import failure_of, going_on, heard, joined, to_its_end

DOWN = DependencyDown("no answer")


async def test_work_goes_on_to_its_end_when_its_caller_leaves() -> None:
    done = asyncio.Event()

    async def work() -> None:
        await failing_not()
        done.set()

    async def failing_not() -> None:
        for _ in range(5):
            await asyncio.sleep(0)

    await leave(to_its_end(work()))
    assert done.is_set()


async def test_an_error_of_work_whose_caller_has_left_is_not_logged() -> None:
    await leave(to_its_end(failing(DOWN)))


async def test_an_error_reaches_those_who_still_wait() -> None:
    with pytest.raises(DependencyDown):
        await to_its_end(failing(DOWN))
    shared = heard(asyncio.create_task(failing(DOWN)))
    staying = asyncio.create_task(joined(shared))
    await leave(joined(shared))
    with pytest.raises(DependencyDown):
        await staying


async def test_an_error_of_shared_work_that_all_have_left_is_not_logged() -> None:
    shared = heard(asyncio.create_task(failing(DOWN)))
    await leave(joined(shared))
    assert shared.done()
    del shared
    gc.collect()


async def test_a_caller_that_leaves_does_not_end_the_work_of_others() -> None:
    shared = asyncio.create_task(asyncio.sleep(0.01, "done"))
    await leave(joined(shared))
    assert await joined(shared) == "done"
    assert await joined(shared) == "done", "also when it is over"


async def test_work_whose_call_is_cancelled_under_it_has_failed() -> None:
    """Not ended: a loop of a service would be over, and nothing would say so."""
    call: asyncio.Future[None] = asyncio.Future()

    async def loop() -> None:
        await call

    for turns in (0, 1, 2):  # also one that has not begun
        call = asyncio.Future()
        cancelled = asyncio.create_task(going_on(loop))
        for _ in range(turns):
            await asyncio.sleep(0)
        cancelled.cancel()
        await asyncio.wait((cancelled,))
        assert cancelled.cancelled()
        assert failure_of(cancelled) is None

    call = asyncio.Future()
    failed = asyncio.create_task(going_on(loop))
    await asyncio.sleep(0)
    call.cancel()
    with pytest.raises(RuntimeError):
        await failed
