"""Places in reader processes: given to those who still wait."""

import asyncio

import pytest

from assay.core.ids import TenantId
from assay.reward.readers import Places

ONE, OTHER = TenantId("one"), TenantId("other")


@pytest.mark.parametrize("leaving", [(0,), (1,), (0, 1), (0, 2)])
async def test_a_place_is_given_back_although_one_that_waits_for_it_has_just_left(
    leaving: tuple[int, ...],
) -> None:
    places = Places(2, tenants=2)
    held = [await places.take(one, large=False) for one in (ONE, OTHER)]
    waiting = [asyncio.create_task(places.take(ONE, large=False)) for _ in range(3)]
    await asyncio.sleep(0)
    for number in leaving:
        waiting[number].cancel()
    places.give_back(held[0])  # in the same turn of the loop: no one has noticed yet
    staying = [one for number, one in enumerate(waiting) if number not in leaving]
    async with asyncio.timeout(5):
        for one in staying:
            places.give_back(await one)
        places.give_back(held[1])
        again = [await places.take(one, large=False) for one in (ONE, OTHER)]
    assert len(again) == 2, "none is lost"
