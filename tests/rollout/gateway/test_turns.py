"""Turns that start at the moment at which no one waits for them any more."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

import pytest

pytest.importorskip("numpy")

from assay.core.errors import Saturated
from assay.rollout.errors import InvalidRollout
from assay.rollout.gateway.turns import AgentTurns
from assay.rollout.interface.rollouts import GroupOptions, RolloutRef, Sampling

if TYPE_CHECKING:
    from assay.core.errors import AssayError
    from assay.rollout.service.flights import Guest


class Engine:
    """Takes or refuses everything."""

    def __init__(self, refuses: Exception | None = None) -> None:
        self.refuses = refuses
        self.cancelled: list[RolloutRef] = []

    def submit(self, prompt: object, **options: Any) -> list[RolloutRef]:
        if self.refuses is not None:
            raise self.refuses
        return [RolloutRef(slot, 1) for slot in range(len(options["seeds"]))]

    def cancel(self, ref: RolloutRef) -> None:
        self.cancelled.append(ref)


class Room:
    """Starts nothing by itself."""

    def add_guest(self, guest: Guest) -> None:
        del guest

    def start_waiting(self) -> None:
        return

    def check(self) -> None:
        return


def turns_of(engine: Engine, *, wait_s: float) -> AgentTurns:
    return AgentTurns(cast("Any", engine), Room(), waiting_max=4, wait_s=wait_s)


def begun(turns: AgentTurns) -> asyncio.Task[Any]:
    options = GroupOptions(max_tokens=1, seeds=[1, 2], sampling=Sampling())
    return asyncio.create_task(turns.begin([1], options))


async def test_a_turn_that_starts_when_its_time_is_over_is_cancelled_in_the_engine() -> None:
    engine = Engine()
    turns = turns_of(engine, wait_s=0.0)
    turn = begun(turns)
    asyncio.get_running_loop().call_soon(turns.start_next)  # after it waits, before its timer
    with pytest.raises(Saturated):
        await turn
    assert engine.cancelled == [RolloutRef(0, 1), RolloutRef(1, 1)]
    assert len(turns.tickets) == 0


@pytest.mark.parametrize("refuses", [None, InvalidRollout("prompt", "too long")])
async def test_a_turn_that_is_cancelled_when_it_starts_ends_as_that(
    refuses: AssayError | None,
) -> None:
    engine = Engine(refuses)
    turns = turns_of(engine, wait_s=60.0)
    turn = begun(turns)
    await asyncio.sleep(0)
    turns.start_next()
    turn.cancel()
    with pytest.raises(asyncio.CancelledError):
        await turn
    assert len(engine.cancelled) == (2 if refuses is None else 0)
    assert len(turns.tickets) == turns.waiting == 0
