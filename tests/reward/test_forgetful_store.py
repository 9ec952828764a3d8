"""`Score` beside a store that fails over and forgets what it had acknowledged last."""

import asyncio
from collections.abc import Sequence
from copy import deepcopy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.config.settings import RewardSettings
from assay.core.errors import DependencyDown
from assay.core.ids import GroupId, PipelineName, RequestId, StageName, TenantId, WorkerId
from assay.core.outcome import Outcome
from assay.core.records import (
    Claim,
    EndRequest,
    Finish,
    GiveBack,
    NewRequest,
    Quota,
    Report,
    StageReport,
)
from assay.edge.auth import Tenant
from assay.edge.clock import Clock
from assay.edge.metrics import Metrics
from assay.reward.drafts import Scored, ScoreDraft
from assay.reward.operations.scoring import PART_REQUESTS_MAX
from assay.reward.service import RewardService
from assay.testing.memory_store import MemoryStore
from assay.verifiers.registry import load_pipelines

TENANT = Tenant(tenant_id=TenantId("trainer"), quota=Quota())
STAGE = StageName("noop")
AT_ONCE = 1_000


class Platform:
    """A reward service, its store with all states since the call was stored, and a worker."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.store = MemoryStore(self.clock)
        self.states = [deepcopy(self.store.model)]
        self.service = RewardService(
            store=self.store,
            pipelines=load_pipelines(),
            settings=RewardSettings(),
            clock=self.clock,
            metrics=Metrics(),
            new_id=lambda: "one",
        )

    def score(self, count: int, stored: asyncio.Event) -> asyncio.Task[Scored]:
        """Begin a call of `count` requests."""

        async def checked(_: object) -> list[NewRequest]:
            return [
                NewRequest(
                    request_id=RequestId(f"r{number}"),
                    group_id=GroupId(""),
                    response=b"x",
                    reference=b"{}",
                )
                for number in range(count)
            ]

        draft = ScoreDraft(pipeline=PipelineName("noop"))
        call = self.service.score(TENANT, draft, checked, stored=stored.set)
        return asyncio.ensure_future(call)

    async def end(self, which: int) -> None:
        """End one of the requests that wait, and let the call read."""
        claims = await self.store.claim(
            STAGE, claims_max=AT_ONCE, lease_s=60.0, worker=WorkerId("host")
        )
        ended = EndRequest(outcome=Outcome.SCORED, reward=1.0, body=b"")
        reports = [
            self._report(claim, ended if place == which % len(claims) else GiveBack())
            for place, claim in enumerate(claims)
        ]
        await self.store.finish(STAGE, reports, 3)
        self.states.append(deepcopy(self.store.model))
        await settle()

    async def fail_over(self, states: int) -> None:
        """Continue from an earlier state."""
        del self.states[max(1, len(self.states) - states) :]
        self.store.restore(deepcopy(self.states[-1]))
        await settle()

    def _report(self, claim: Claim, finish: Finish) -> Report:
        account = StageReport(worker=WorkerId("host"), started_after_ns=0, finished_after_ns=1)
        return Report(lease=claim.lease, report=account, finish=finish)


async def settle() -> None:
    """Let the call do all that it can do now."""
    for _ in range(50):
        await asyncio.sleep(0)


ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("end"), st.integers(0, AT_ONCE)),
        st.tuples(st.just("fail over"), st.integers(1, 6)),
    ),
    max_size=14,
)


async def scored(count: int, actions: Sequence[tuple[str, int]]) -> Scored:
    """The result of a call, where a worker and failovers do this, and then the worker the rest."""
    platform, stored = Platform(), asyncio.Event()
    call = platform.score(count, stored)
    await asyncio.wait_for(stored.wait(), 5.0)
    platform.states.append(deepcopy(platform.store.model))
    del platform.states[0]
    for action, size in actions:
        await (platform.end(size) if action == "end" else platform.fail_over(size))
    for _ in range(count + len(actions)):
        await platform.end(0)
    return await asyncio.wait_for(call, 2.0)


@given(count=st.integers(1, 5), actions=ACTIONS)
def test_a_call_has_each_result_whatever_the_store_forgot_of_them(
    count: int, actions: Sequence[tuple[str, int]]
) -> None:
    found = asyncio.run(scored(count, actions))
    assert [result.request_id for result in found.results] == [f"r{n}" for n in range(count)]


def test_so_has_a_call_whose_requests_were_stored_in_parts() -> None:
    count = PART_REQUESTS_MAX + 2
    actions = [("end", 0)] * 5 + [("fail over", 3)] + [("end", 60)] * 4 + [("fail over", 2)]
    found = asyncio.run(scored(count, actions))
    assert [result.request_id for result in found.results] == [f"r{n}" for n in range(count)]


@pytest.mark.parametrize("count", [2, PART_REQUESTS_MAX + 2])
async def test_a_call_whose_requests_the_store_lost_is_told_to_come_again(count: int) -> None:
    platform, stored = Platform(), asyncio.Event()
    call = platform.score(count, stored)
    await asyncio.wait_for(stored.wait(), 5.0)
    await platform.fail_over(AT_ONCE)
    with pytest.raises(DependencyDown, match="lost"):
        await asyncio.wait_for(call, 10.0)
