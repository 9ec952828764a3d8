"""A tenant that waits for single scores, or leaves before them; and a hostile one.

The hostile one floods, cancels, sends invalid messages and sets tiny deadlines; it must not be able
to prevent an honest one from finishing.
"""

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Final

from assay.core.errors import (
    AssayError,
    DeadlinePassed,
    DependencyDown,
    NotFound,
    Saturated,
)
from assay.reward.drafts import BatchDraft, RequestDraft, ScoreDraft, TaskDraft
from assay.reward.operations.scoring import PART_REQUESTS_MAX
from assay.reward.service import RewardService
from assay.sim.platform.tenants.trainer import AGAIN_S, Trainer

LEAVES_SHARE: Final = 0.2
"""Share of scores whose caller leaves before the answer."""
LEAVES_S_MAX: Final = 0.5
LARGE_SHARE: Final = 0.08
"""Share of scores whose requests are stored in parts."""
FLOOD_FIRST_MAX: Final = 24
"""The hostile tenant numbers its requests from up to here: some exist, with another content."""


class Scorer(Trainer):
    """Scores a few responses occasionally, and waits."""

    is_waiting = False
    """A call is open."""

    async def score(self, times: int) -> None:
        """One after the other."""
        for number in range(times):
            is_large = self._draw.random() < LARGE_SHARE
            count = self._draw.randint(1, 4) + is_large * PART_REQUESTS_MAX
            drafts = self.requests(f"score{number}", count, 0, plain=True, brief=is_large)
            draft = ScoreDraft(
                pipeline="sim.one", timeout_s=self._draw.choice([0.3, 5.0, 60.0, None])
            )

            async def score(
                service: RewardService,
                draft: ScoreDraft = draft,
                drafts: Sequence[RequestDraft] = drafts,
            ) -> object:
                return await service.score(
                    self.tenant,
                    draft,
                    lambda definition: self.checked(drafts, definition),
                    stored=lambda: None,
                )

            leaves = self._draw.random() < LEAVES_SHARE
            leaves_s = self._draw.random() * LEAVES_S_MAX if leaves else None
            self.is_waiting = True
            with contextlib.suppress(
                DeadlinePassed, DependencyDown, Saturated, NotFound, TimeoutError
            ):
                async with asyncio.timeout(leaves_s):
                    await self.call(score)
            self.is_waiting = False
            await asyncio.sleep(self._draw.random() * 3)


class Hostile(Trainer):
    """Misbehaves, as far as the API permits."""

    async def attack(self, until_s: float) -> None:
        """Attack until `until_s`; leave every other batch open."""
        loop = asyncio.get_running_loop()
        task = TaskDraft(task_id="flood", pipeline="sim.two", batch_size=4)
        await self.register(task)
        names: list[str] = []
        while loop.time() < until_s:
            try:
                await self._one(names)
            except AssayError:
                await asyncio.sleep(AGAIN_S)
            await asyncio.sleep(self._draw.random() * 0.5)
        for name in names[::2]:
            try:
                await self.insist(lambda s, n=name: s.cancel_batch(self.tenant, n))  # type: ignore[misc]
            except AssayError:
                continue

    async def _one(self, names: list[str]) -> None:
        deed = self._draw.randrange(7)
        if deed <= 1 or not names:
            name = f"flood.{len(names)}"
            names.append(name)
            draft = BatchDraft(
                task_id="flood", batch_id=name, deadline_ms=self._draw.choice([1, 1_000, 600_000])
            )
            await self.call(lambda service: service.open_batch(self.tenant, draft))
            return
        name = self._draw.choice(names)
        if deed == 2:
            await self.call(lambda service: service.cancel_batch(self.tenant, name))
        elif deed == 3:
            await self.call(lambda service: service.seal_batch(self.tenant, name))
        elif deed == 4:
            ids = [f"r{self._draw.randrange(2 * FLOOD_FIRST_MAX)}" for _ in range(8)]
            groups = self._draw.choice([[], ["", "none"]])
            await self.call(
                lambda s: s.cancel_requests(self.tenant, name, request_ids=ids, group_ids=groups)
            )
        else:
            drafts = self.requests(
                name, self._draw.randint(1, 12), 0, plain=self._draw.random() < 0.5,
                first=self._draw.randrange(FLOOD_FIRST_MAX),
            )  # fmt: skip
            await self.call(self.submitting(name, drafts))
