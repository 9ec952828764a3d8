"""Tenants that call at once take turns of the event loop, and a call alone waits for no one."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from assay.edge.connections.turns import TenantTurns


async def crowd(callers: list[str]) -> list[list[str]]:
    """Whose turn it was in each turn of the loop, when all come at once."""
    turns, seen, now = TenantTurns(), list[list[str]](), list[str]()

    async def call(tenant: str) -> None:
        await turns.turn(tenant)
        now.append(tenant)

    tasks = [asyncio.ensure_future(call(tenant)) for tenant in callers]
    while not all(task.done() for task in tasks):
        await asyncio.sleep(0)
        seen.append(now.copy())
        now.clear()
    return [some for some in seen if some]


@given(callers=st.lists(st.sampled_from(["red", "blue", "green"]), max_size=40))
def test_one_goes_on_per_turn_of_the_loop_of_the_tenants_in_rotation(callers: list[str]) -> None:
    seen = asyncio.run(crowd(callers))
    assert all(len(some) == 1 for some in seen)
    order = [tenant for (tenant,) in seen]
    assert sorted(order) == sorted(callers)
    left = {tenant: callers.count(tenant) for tenant in callers}
    waited = dict.fromkeys(left, 0)
    for number, tenant in enumerate(order):
        left[tenant] -= 1
        waited[tenant] = 0
        for other in left:
            if other != tenant and left[other] and number:
                waited[other] += 1
                assert waited[other] <= len(left)


def test_a_call_alone_goes_on_at_once() -> None:
    async def alone() -> bool:
        turns = TenantTurns()
        for _ in range(3):
            going = asyncio.ensure_future(turns.turn("red"))
            await asyncio.sleep(0)
            if not going.done():
                return False
            await asyncio.sleep(0)
        return True

    assert asyncio.run(alone())


def test_a_caller_that_leaves_delays_the_others_by_its_turn_only() -> None:
    async def leave() -> list[str]:
        turns, seen = TenantTurns(), list[str]()

        async def call(name: str, tenant: str) -> None:
            await turns.turn(tenant)
            seen.append(name)

        first, leaving, last = (
            asyncio.ensure_future(call(*one))
            for one in (("first", "red"), ("leaving", "red"), ("last", "blue"))
        )
        await asyncio.sleep(0)
        leaving.cancel()
        async with asyncio.timeout(10):
            await asyncio.gather(first, last)
        return seen

    assert asyncio.run(leave()) == ["first", "last"]
