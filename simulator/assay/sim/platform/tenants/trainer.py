"""The network to the APIs, and the calls that every tenant makes over it.

The network loses responses and duplicates calls; a call whose response is lost is repeated, on any
live API.
"""

import asyncio
import json
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

from assay.config.settings import RewardSettings
from assay.core.errors import (
    AssayError,
    DependencyDown,
    Saturated,
)
from assay.core.records import NewRequest
from assay.edge.auth import Tenant
from assay.reward.admission import RequestCheck
from assay.reward.drafts import RequestDraft, TaskDraft
from assay.reward.service import RewardService
from assay.sim.platform.nodes import Node
from assay.sim.platform.pipelines import CULPRITS, Deed, SlotScript
from assay.verifiers.port import PipelineDefinition

CALL_S_MAX: Final = 0.01
LOST_S: Final = 1.0
AGAIN_S: Final = 0.2
LONG_MS: Final = 7_000
"""Longer than a lease, and within the time limit of the second stage."""
BRIEF_MS: Final = 20
LONG_SHARE: Final = 0.04
CULPRIT_SHARE: Final = 0.05
TRANSCRIPT_SHARE: Final = 0.2
"""Share of requests that end a transcript; they have no response beside it."""
_DEEDS: Final = (
    (Deed.SCORE, 60), (Deed.LIMIT, 5), (Deed.FLAKY, 6), (Deed.RAISE, 2), (Deed.POISON, 2),
    (Deed.GARBAGE, 2), (Deed.BURN, 3), (Deed.SLEEP, 2), (Deed.RETIRE, 4), (Deed.SHARED, 6),
)  # fmt: skip
"""Weights of what requests do."""

T = TypeVar("T")
Calling = Callable[[RewardService], Awaitable[T]]


@dataclass(slots=True)
class Network:
    """The network to the APIs."""

    apis: dict[str, tuple[Node, RewardService]] = field(default_factory=dict)
    double: bool = False
    lose: bool = False
    burns: bool = True
    """Requests may compute forever: their stage has a limit on CPU time."""


class Trainer:
    """Base of all tenants."""

    def __init__(self, tenant: Tenant, network: Network, draw: random.Random) -> None:
        self.tenant = tenant
        self._network = network
        self._draw = draw
        self._check = RequestCheck(RewardSettings())
        self._registered: TaskDraft | None = None

    async def call(self, calling: Calling[T]) -> T:
        """One call.

        Raises:
            DependencyDown: no response; the call may have been executed.
        """
        draw = self._draw
        await asyncio.sleep(draw.random() * CALL_S_MAX)
        alive = [(n, s) for n, s in self._network.apis.values() if n.is_alive]
        if not alive:
            await asyncio.sleep(LOST_S)
            raise DependencyDown("no API answers")
        node, service = draw.choice(alive)
        times = 2 if self._network.double and draw.random() < 0.3 else 1
        tasks = [node.spawn(_made(calling, service), name="call") for _ in range(times)]
        try:
            await asyncio.wait(tasks)
        finally:  # a caller that leaves cancels its call
            for task in tasks:
                task.cancel()
        await asyncio.sleep(draw.random() * CALL_S_MAX)
        last = tasks[-1]
        if last.cancelled() or (self._network.lose and draw.random() < 0.2):
            await asyncio.sleep(LOST_S)
            raise DependencyDown("no answer")
        found = last.result()
        if isinstance(found, AssayError):
            raise found
        return found

    async def insist(self, calling: Calling[T]) -> T:
        """Repeat the call until there is a response."""
        while True:
            try:
                return await self.call(calling)
            except Saturated as error:
                await asyncio.sleep(max(error.retry_after_s, AGAIN_S))
            except DependencyDown:
                await asyncio.sleep(AGAIN_S)

    async def checked(
        self, drafts: Sequence[RequestDraft], definition: PipelineDefinition
    ) -> list[NewRequest]:
        """Parse as the API does."""
        return self._check.check(drafts, definition)

    async def register(self, draft: TaskDraft) -> None:
        """Repeat until it is registered."""
        self._registered = draft
        await self.insist(lambda service: service.register_task(self.tenant, draft))

    def submitting(self, batch_id: str, drafts: Sequence[RequestDraft]) -> Calling[object]:
        """One submit call."""

        async def submit(service: RewardService) -> object:
            return await service.submit(
                self.tenant, batch_id, lambda definition: self.checked(drafts, definition)
            )

        return submit

    def requests(
        self,
        batch: str,
        count: int,
        group: int,
        *,
        plain: bool,
        brief: bool = False,
        first: int = 0,
        culprits: random.Random | None = None,
    ) -> list[RequestDraft]:
        """Draw this many responses, numbered from `first` on, and with `culprits` which of them
        make the stage of their group fail; `brief`: none works long."""
        longest = (BRIEF_MS, BRIEF_MS) if brief else (400, 600)
        deeds, weights = zip(*_DEEDS, strict=True)
        talks = random.Random(f"{batch}/{first}/{count}")  # noqa: S311 - to be repeated
        found = []
        for number in range(first, first + count):
            deed = Deed.SCORE if plain else self._draw.choices(deeds, weights)[0]
            if deed is Deed.BURN and not self._network.burns:
                deed = Deed.SLEEP
            if culprits is not None and culprits.random() < CULPRIT_SHARE:
                deed = culprits.choice(sorted(CULPRITS))
            script = SlotScript(
                deed,
                self._draw.randrange(5, longest[0]),
                LONG_MS if self._is_long() and not plain else self._draw.randrange(5, longest[1]),
                self._draw.randrange(1000),
            )
            group_id = f"g{number // group}" if group else ""
            content = script.packed() + f" {batch} {number}".encode()
            said = b""
            if talks.random() < TRANSCRIPT_SHARE:
                content, said = b"", _transcript(content.decode(), script)
            found.append(RequestDraft(f"r{number}", group_id, content, b"{}", said))
        return found

    def _is_long(self) -> bool:
        return self._draw.random() < LONG_SHARE


def _transcript(last: str, script: SlotScript) -> bytes:
    """A conversation that ends with a message; an earlier one would get another reward."""
    other = replace(script, deed=Deed.SCORE, points=script.points + 1).packed().decode()
    turns = [("user", "?"), ("assistant", other), ("tool", last[:1]), ("assistant", last)]
    return json.dumps([{"role": role, "content": said} for role, said in turns]).encode()


async def _made(calling: Calling[T], service: RewardService) -> T | AssayError:
    """An error of the API is a response, too."""
    try:
        return await calling(service)
    except AssayError as error:
        return error
