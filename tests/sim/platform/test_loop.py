"""The loop of virtual time: no waiting, no threads, and an end to what never ends."""

import asyncio
import time

import pytest

from assay.sim.platform.loop import Deadlock, Livelock, VirtualLoop


def test_an_hour_passes_at_once() -> None:
    loop = VirtualLoop("1")
    began = time.process_time()
    loop.run_until_complete(asyncio.sleep(3_600))
    assert loop.time() == pytest.approx(3_600, abs=1e-3)
    assert time.process_time() - began < 60
    loop.close()


def test_timers_of_one_instant_run_in_the_order_of_the_seed() -> None:
    def order(seed: str) -> list[int]:
        loop, seen = VirtualLoop(seed), []

        async def tick(number: int) -> None:
            await asyncio.sleep(1.0)
            seen.append(number)

        async def all_of_them() -> None:
            await asyncio.gather(*(tick(number) for number in range(9)))

        loop.run_until_complete(all_of_them())
        loop.close()
        return seen

    assert order("1") == order("1")
    assert len({tuple(order(str(seed))) for seed in range(5)}) > 1


def test_what_waits_for_ever_is_a_deadlock() -> None:
    loop = VirtualLoop("1")

    async def wait() -> None:
        await asyncio.Event().wait()

    with pytest.raises(Deadlock):
        loop.run_until_complete(wait())
    loop.set_exception_handler(lambda *_: None)
    loop.close()


def test_what_runs_in_a_circle_is_a_livelock() -> None:
    loop = VirtualLoop("1")

    async def spin() -> None:
        while True:
            await asyncio.sleep(0)

    with pytest.raises(Livelock):
        loop.run_until_complete(spin())
    loop.set_exception_handler(lambda *_: None)
    loop.close()


def test_threads_are_no_threads() -> None:
    import threading

    loop = VirtualLoop("1")

    async def where() -> int:
        return await asyncio.to_thread(threading.get_ident)

    assert loop.run_until_complete(where()) == threading.get_ident()
    assert loop.time() > 0
    loop.close()
