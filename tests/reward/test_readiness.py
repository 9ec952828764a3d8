"""Readiness: each caller has the answer of the round trip that it waited for."""

import asyncio
from typing import TYPE_CHECKING, cast

import pytest
from tests.unheard import leave

from assay.core.errors import DependencyDown
from assay.edge.metrics import Metrics
from assay.reward.server import Readiness

if TYPE_CHECKING:
    from assay.store.port import Store


class Far:
    """A store that answers in a few turns of the loop, or that is down."""

    def __init__(self, *, is_down: bool) -> None:
        self.is_down = is_down
        self.round_trips = 0

    async def ping(self) -> float:
        self.round_trips += 1
        for _ in range(3):
            await asyncio.sleep(0)
        if self.is_down:
            raise DependencyDown("store: no answer")
        return float(self.round_trips)


@pytest.mark.parametrize("is_down", [False, True])
async def test_callers_at_any_moment_share_round_trips_and_each_has_an_answer(
    *, is_down: bool
) -> None:
    far = Far(is_down=is_down)
    readiness = Readiness(cast("Store", far), Metrics())
    callers = []
    for _ in range(40):
        callers.append(asyncio.create_task(readiness.ping()))
        await asyncio.sleep(0)
    answers = await asyncio.gather(*callers, return_exceptions=True)
    if is_down:
        assert all(isinstance(answer, DependencyDown) for answer in answers)
    else:
        assert all(isinstance(answer, float) for answer in answers)
    assert 1 < far.round_trips < len(callers)


async def test_a_caller_that_goes_away_takes_no_answer_from_the_others() -> None:
    readiness = Readiness(cast("Store", Far(is_down=False)), Metrics())
    first, second = (asyncio.create_task(readiness.ping()) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    assert await second == 1.0


async def test_a_failure_that_its_only_caller_does_not_wait_for_is_not_logged() -> None:
    await leave(Readiness(cast("Store", Far(is_down=True)), Metrics()).ping())
