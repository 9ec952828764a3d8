"""An answer that is made when it is first wanted."""

import asyncio
import threading

import pytest

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


async def test_what_making_it_raises_every_caller_gets() -> None:
    def make() -> int:
        raise ValueError("no form")

    late = Late(make)
    for _ in range(2):
        with pytest.raises(ValueError, match="no form"):
            await late.get()
