"""Plans and batches of sessions, at a desk that writes down what it received."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from assay.core.errors import DependencyDown
from assay.core.ids import TenantId
from assay.rollout.gateway import rewards as gateway_rewards
from assay.rollout.gateway.rewards import SessionRewards
from assay.rollout.service.records import RewardPlan

if TYPE_CHECKING:
    from collections.abc import Callable

    from assay.rollout.gateway.rewards import BatchPart
    from assay.rollout.service.records import Judged, SessionKey
    from assay.rollout.service.rewards import Response

RED, BLUE = TenantId("red"), TenantId("blue")


class Desk:
    """A `RewardDesk` without a reward service; opening and closing wait for `gates`."""

    waiting = 0

    def __init__(self, _on_judged: Callable[[int, Judged], None]) -> None:
        self.open: set[SessionKey] = set()
        self.said: list[tuple[str, str]] = []
        self.handed: list[tuple[str, str]] = []
        self.gates: dict[str, asyncio.Event] = {}
        self.fails = 0

    async def _pass(self, gate: str) -> None:
        if gate in self.gates:
            await self.gates[gate].wait()

    async def open_session(self, key: SessionKey, plan: RewardPlan, *, token: str | None) -> None:
        del token
        await self._pass(f"open {plan.pipeline}")
        if self.fails:
            self.fails -= 1
            raise DependencyDown("away")
        assert key not in self.open
        self.open.add(key)
        self.said.append(("open", plan.pipeline))

    async def close_session(self, key: SessionKey) -> None:
        self.open.remove(key)
        self.said.append(("close", key.session_id))
        await self._pass("close")

    def open_batch(self, key: SessionKey, batch_id: str, *, deadline_s: float | None) -> None:
        del deadline_s
        assert key in self.open
        assert ("seal", batch_id) not in self.said, "a sealed batch takes no more responses"

    def announce(self, key: SessionKey, responses: int) -> None:
        del key, responses

    def hand_in(self, key: SessionKey, batch_id: str, response: Response) -> None:
        del key
        self.handed.append((batch_id, response.text.decode()))

    def forget(self, number: int) -> None:
        del number

    def seal(self, key: SessionKey, batch_id: str) -> None:
        del key
        self.said.append(("seal", batch_id))

    async def close(self) -> None:
        self.open.clear()


def made() -> tuple[SessionRewards, Desk]:
    desks: list[Desk] = []

    def desk(on_judged: Callable[[int, Judged], None]) -> Desk:
        desks.append(Desk(on_judged))
        return desks[0]

    rewards = SessionRewards(desk)
    return rewards, desks[0]


async def claim(
    rewards: SessionRewards, plan: str, group: str = "g", *, size: int = 1, tenant: TenantId = RED
) -> BatchPart:
    terms = RewardPlan(pipeline=plan, settings_json="{}", wait_s_max=1.0)
    return await rewards.open(tenant, terms, group_id=group, size=size, token=None)


def judge(rewards: SessionRewards, one: BatchPart, text: str) -> None:
    rewards.ask(one, text=text, reference={}, left_s=None, on_judged=lambda _: None)


async def turns() -> None:
    """Let other tasks run until they wait."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_no_session_waits_for_another_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway_rewards, "PLANS_MAX", 1)
    rewards, desk = made()
    desk.gates = {"close": asyncio.Event(), "open slow": asyncio.Event()}
    rewards.leave(await claim(rewards, "old"))
    async with asyncio.timeout(30.0):
        await claim(rewards, "new")  # "old" is being closed, which lasts
        await turns()
        told = [what for what, _ in desk.said if what != "seal"]
        assert told == ["open", "open", "close"]
        slow = asyncio.create_task(claim(rewards, "slow", tenant=BLUE))
        await turns()
        await claim(rewards, "new")
        again = asyncio.create_task(claim(rewards, "old", tenant=RED))
        await turns()
        assert not slow.done()
        assert not again.done(), "opened while it is being closed, it would be closed too"
        for gate in desk.gates.values():
            gate.set()
        old = await again
        assert old.plan in desk.open
        await slow
        assert sum(said == ("open", "new") for said in desk.said) == 1


async def test_a_plan_that_could_not_be_opened_is_tried_again_by_the_next() -> None:
    rewards, desk = made()
    desk.gates, desk.fails = {"open p": asyncio.Event()}, 1
    first, second = (asyncio.create_task(claim(rewards, "p")) for _ in range(2))
    await turns()
    desk.gates["open p"].set()
    with pytest.raises(DependencyDown):
        await first
    assert (await second).plan in desk.open


async def test_a_batch_with_an_open_session_is_never_sealed_early(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gateway_rewards, "BATCHES_IDLE_MAX", 2)
    rewards, desk = made()
    held = [await claim(rewards, "p", f"held{i}", size=2) for i in range(5)]
    left = [await claim(rewards, "p", f"left{i}", size=2) for i in range(4)]
    other = await claim(rewards, "p", "other", size=2, tenant=BLUE)
    for one in [*left, other]:
        judge(rewards, one, "first")
        rewards.leave(one)
    sealed = [batch for what, batch in desk.said if what == "seal"]
    assert sealed == [one.batch_id for one in left[:2]], "the oldest without sessions, per tenant"

    back = await claim(rewards, "p", "left3", size=2)
    assert back.batch_id == left[3].batch_id
    second = await claim(rewards, "p", "left0", size=2)
    assert second.batch_id != left[0].batch_id
    for one in [*held, back, second]:
        judge(rewards, one, "second")  # the desk refuses a sealed batch
    assert ("seal", back.batch_id) in desk.said
