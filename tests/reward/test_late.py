"""An answer that is made when it is first wanted."""

import asyncio
import threading
import time

from tests.unheard import leave

from assay.reward.late import Late


async def test_an_answer_is_made_once_and_not_before_it_is_wanted() -> None:
    made: list[int] = []

    def make() -> int:
        made.append(threading.get_ident())
        return len(made)

    late = Late(make)
    assert not made
    assert await asyncio.gather(*(late.get() for _ in range(5))) == [1] * 5
    assert await late.get() == 1
    assert made != [threading.get_ident()], "the loop goes on meanwhile"


async def test_a_caller_that_goes_away_leaves_the_answer_to_the_others() -> None:
    go = threading.Event()
    late = Late(lambda: go.wait(10))
    first, second = (asyncio.create_task(late.get()) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.sleep(0)
    go.set()
    assert await second is True
    assert first.cancelled()


async def test_what_making_it_raises_those_who_wait_get_and_it_is_not_kept() -> None:
    left = [ValueError("no form"), ValueError("no form yet")]

    def make() -> str:
        if left:
            raise left.pop()
        return "made"

    late = Late(make)
    for _ in range(2):
        failed = await asyncio.gather(late.get(), late.get(), return_exceptions=True)
        assert all(isinstance(one, ValueError) for one in failed)
    assert await late.get() == "made"


async def test_no_two_answers_are_made_at_once() -> None:
    at_work = most = 0

    def make() -> None:
        nonlocal at_work, most
        at_work += 1
        most = max(most, at_work)
        time.sleep(0.02)
        at_work -= 1

    await asyncio.gather(*(Late(make).get() for _ in range(4)))
    assert most == 1


async def test_a_failure_that_its_only_caller_does_not_wait_for_is_not_logged() -> None:
    made = threading.Event()

    def make() -> str:
        made.set()
        raise ValueError("no form")

    await leave(Late(make).get())
    await asyncio.to_thread(made.wait)
