"""Honest trainers: they stop when they have every result of their batches, and all are correct.

Some cancel single requests and groups meanwhile.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final

from assay.core.errors import (
    DependencyDown,
    FailedPrecondition,
    NotFound,
)
from assay.core.outcome import Outcome
from assay.core.records import ResultRecord
from assay.edge.auth import Tenant
from assay.reward.drafts import BatchDraft, RequestDraft, ResultsPage, TaskDraft
from assay.reward.service import RewardService
from assay.sim.platform.ledger.entries import require
from assay.sim.platform.nodes import EPOCH_NS
from assay.sim.platform.pipelines import GROUPED, script_of
from assay.sim.platform.tenants.trainer import AGAIN_S, Network, Trainer

IDLE_S: Final = 10.0
"""A trainer without news for this long submits again."""
RESULT_S_MAX: Final = 1.0
"""How long after its end a result may be streamed when there are no faults."""
PAGE_MAX: Final = 5
"""Results in a page: so few that a batch has several."""
CUT_SHARE: Final = 0.3
"""Share of submissions after which a trainer that cuts cancels something."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchPlan:
    """Plan of an honest trainer."""

    task: TaskDraft
    batches: int
    requests: int
    group: int
    sized: bool
    """The batch's size is announced; otherwise it is sealed."""
    pause_s: float
    """Pause between two batches."""
    span_s: float
    """Time over which the responses of a batch arrive."""
    hints: bool
    cuts: bool = False
    """It cancels single requests and whole groups while their batch goes on."""
    bursts: bool = False
    """All responses of a batch arrive at once."""
    plain: bool = False
    """All requests are judged without faults."""


class Honest(Trainer):
    """One training job."""

    def __init__(
        self,
        tenant: Tenant,
        network: Network,
        draw: random.Random,
        plan: BatchPlan,
        *,
        is_calm: bool,
        forgets: bool,
    ) -> None:
        """`forgets`: the store may forget what it acknowledged."""
        super().__init__(tenant, network, draw)
        self._plan = plan
        self._forgets = forgets
        self._is_calm = is_calm
        self.done = 0
        self.took_s: list[float] = []
        self._cut: set[str] = set()
        """Requests of the current batch that it cancels."""

    async def train(self) -> None:
        """All batches, one after the other."""
        plan = self._plan
        await self.register(plan.task)
        for number in range(plan.batches):
            if plan.hints:
                size = plan.requests
                await self.insist(lambda s, n=size: s.hint(self.tenant, plan.task.task_id, n))  # type: ignore[misc]
            await asyncio.sleep(self._draw.random() * plan.pause_s)
            began_s = asyncio.get_running_loop().time()
            await self._batch(f"{plan.task.task_id}.{number}")
            self.took_s.append(asyncio.get_running_loop().time() - began_s)
            self.done += 1

    async def _batch(self, name: str) -> None:
        plan = self._plan
        own = random.Random(f"{self.tenant.tenant_id}/{name}")  # noqa: S311 - to be repeated
        culprits = own if plan.task.pipeline == GROUPED else None
        drafts = self.requests(name, plan.requests, plan.group, plain=plan.plain, culprits=culprits)
        opening = BatchDraft(
            task_id=plan.task.task_id,
            batch_id=name,
            size=plan.requests if plan.sized else 0,
            group_size=plan.group,
            deadline_ms=self._draw.choice([None, 5_000, 20_000, 60_000]),
        )
        self._cut.clear()
        await self._send_slowly(name, opening, drafts)
        while not await self._collected(name, drafts):
            await self._send(name, opening, drafts)
        if not self._forgets:
            await self._read_by_pages(name, drafts)

    async def _read_by_pages(self, name: str, drafts: Sequence[RequestDraft]) -> None:
        """The log of a complete batch in small pages: each result once, and an end."""
        found: list[str] = []
        cursor, is_last = 0, False
        while not is_last:
            some = self._draw.randint(1, PAGE_MAX)
            page = await self.insist(
                lambda s, c=cursor, n=some: s.page(self.tenant, name, cursor=c, results_max=n)  # type: ignore[misc]
            )
            read = len(page.results) + len(page.groups)
            require(page.cursor == cursor + read, "a page skips results", page=page)
            require(page.last or read > 0, "a page of a complete batch is empty", page=page)
            found += [one.request_id for one in page.results]
            cursor, is_last = page.cursor, page.last
        expected = sorted(draft.request_id for draft in drafts)
        require(sorted(found) == expected, "the log of a batch is not its requests", got=found)

    async def _send_slowly(
        self, name: str, opening: BatchDraft, drafts: Sequence[RequestDraft]
    ) -> None:
        """Submit as rollouts end."""
        await self._open(opening)
        at = 0
        while at < len(drafts):
            count = len(drafts) if self._plan.bursts else self._draw.randint(1, 6)
            part = drafts[at : at + count]
            try:
                await self.insist(self.submitting(name, part))
            except NotFound:  # the store forgot the batch
                at = 0
                await self._open(opening)
                continue
            at += count
            await asyncio.sleep(self._draw.random() * self._plan.span_s * count / len(drafts))
            if self._plan.cuts and self._draw.random() < CUT_SHARE:
                await self._cut_some(name, drafts[:at])
        if not self._plan.sized:
            await self._seal(name)

    async def _cut_some(self, name: str, sent: Sequence[RequestDraft]) -> None:
        """Cancel a request, or what was sent of a group; nothing else of the batch."""
        one = self._draw.choice(sent)
        is_group = bool(one.group_id) and self._draw.random() < 0.5
        chosen = [d for d in sent if d.group_id == one.group_id] if is_group else [one]
        self._cut.update(draft.request_id for draft in chosen)
        requests = [] if is_group else [one.request_id, "unknown"]
        groups = [one.group_id] if is_group else []
        try:
            batch, count = await self.insist(
                lambda s: s.cancel_requests(
                    self.tenant, name, request_ids=requests, group_ids=groups
                )
            )
        except NotFound:  # the store forgot the batch
            return
        require(count <= len(chosen), "more was cancelled than asked for", batch=name)
        is_over = batch.ended >= len(self._cut)
        require(is_over or self._forgets, "a cancelled request has not ended", batch=batch)

    async def _send(self, name: str, opening: BatchDraft, drafts: Sequence[RequestDraft]) -> None:
        """Submit all again; known requests count as duplicates."""
        try:
            await self._open(opening)
            await self.insist(self.submitting(name, drafts))
            if not self._plan.sized:
                await self._seal(name)
        except FailedPrecondition:  # the seal outlived its requests: no more can be added
            await asyncio.sleep(AGAIN_S)
        except NotFound:
            return

    async def _open(self, opening: BatchDraft) -> None:
        try:
            await self.insist(lambda service: service.open_batch(self.tenant, opening))
        except NotFound:  # the store forgot the task too
            await self.register(self._plan.task)
            await self.insist(lambda service: service.open_batch(self.tenant, opening))

    async def _seal(self, name: str) -> None:
        try:
            await self.insist(lambda service: service.seal_batch(self.tenant, name))
        except NotFound:
            return

    async def _collected(self, name: str, drafts: Sequence[RequestDraft]) -> bool:
        """Read the results; False when they do not arrive."""
        found: dict[str, ResultRecord] = {}
        cursor = 0
        expected = {draft.request_id: draft for draft in drafts}

        async def pages(service: RewardService) -> AsyncIterator[ResultsPage]:
            async with aclosing(service.stream(self.tenant, name, cursor=cursor)) as stream:
                async for page in stream:
                    yield page

        while True:
            before = cursor

            async def read(service: RewardService) -> bool:
                nonlocal cursor
                began_s = asyncio.get_running_loop().time()
                async for page in pages(service):
                    for one in page.results:
                        self._judge(one, expected)
                        self._is_fresh(one, began_s)
                        found[one.request_id] = one
                    require(
                        not page.last or page.batch.over,
                        "a stream ends before its batch",
                        name=name,
                    )
                    cursor = page.cursor
                    if page.last:
                        return True
                return False

            try:
                async with asyncio.timeout(IDLE_S):
                    is_last = await self.call(read)
            except TimeoutError:
                if cursor == before:
                    return False
                continue
            except DependencyDown:
                await asyncio.sleep(AGAIN_S)
                continue
            except NotFound:
                return False
            if is_last and found.keys() != expected.keys():
                require(self._forgets, "a stream ends without some results", batch=name)
                return await self._gave_up(name)
            if is_last:
                return True

    async def _gave_up(self, name: str) -> bool:
        """The log ended without some results: read again, unless the batch is complete."""
        batch = await self.insist(lambda service: service.get_batch(self.tenant, name))
        page = await self.insist(lambda service: service.page(self.tenant, name, cursor=0))
        read = len(page.results) + len(page.groups)
        # After a failover a batch may have its seal and none of its requests.
        require(read > 0 or not batch.submitted, "a batch is over without results", batch=batch)
        return batch.over

    def _is_fresh(self, found: ResultRecord, began_s: float) -> None:
        """Results are streamed as they arrive; nothing delays them when there are no faults."""
        if self._is_calm and found.stages:
            now_s = asyncio.get_running_loop().time()
            ended_s = (found.stages[-1].released_ns - EPOCH_NS) / 1e9
            late_s = now_s - max(ended_s, began_s)
            require(late_s <= RESULT_S_MAX, "a result is streamed late", late_s=late_s)

    def _judge(self, found: ResultRecord, expected: dict[str, RequestDraft]) -> None:
        draft = expected.get(found.request_id)
        require(draft is not None, "a result that was not asked for", id=found.request_id)
        assert draft is not None  # noqa: S101 - for the checker
        script = script_of(draft)
        if found.reward is not None:
            require(found.reward == script.reward, "a trainer got another reward", script=script)
        if found.outcome is Outcome.CANCELLED:
            require(found.request_id in self._cut, "a request was cancelled by no one", got=found)
            require(found.reward is None, "a cancelled request has a reward", got=found)
        elif self._is_calm:
            require(found.outcome is script.outcome, "a trainer got another outcome", got=found)
