"""A trainer that always has requests in flight, and checks each of their results."""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Sequence
from typing import Final

from assay.client import Client, Request

BATCH: Final = 100
DEADLINE_S: Final = 240.0
"""Of each batch: enough for the longest trouble, a start and a lease, one after the other, on a
machine with other work; a batch that misses it fails the run."""

Row = tuple[str, Request, float]
"""The pipeline, the request and the reward that it deserves."""


class Trainer:
    """Submits the rows in portions, half of the batches to each API, and checks every result."""

    def __init__(
        self,
        clients: Sequence[Client],
        group: asyncio.TaskGroup,
        work: Sequence[Row],
        portions: int,
    ) -> None:
        self._clients, self._group = clients, group
        self._portions = [work[first::portions] for first in range(portions)]
        self._deserved = {request.request_id: reward for _, request, reward in work}
        self._ended: Counter[str] = Counter()
        self._batches = 0
        self.open = 0
        """Requests that were acknowledged and have no result yet."""
        self.slowest_s = 0.0
        """The longest that a batch took."""

    def submit_portion(self) -> list[asyncio.Event]:
        """Submit the next one; the events are set when its batches are acknowledged."""
        events = []
        rows = self._portions.pop() if self._portions else []
        for pipeline in ("math", "exact"):
            mine = [request for of, request, _ in rows if of == pipeline]
            for first in range(0, len(mine), BATCH):
                events.append(asyncio.Event())
                batch = mine[first : first + BATCH]
                self._group.create_task(self._score(pipeline, batch, events[-1]))
        return events

    async def submit_all(self) -> None:
        """Submit what is left."""
        while self._portions:
            for event in self.submit_portion():
                await event.wait()

    async def in_flight(self, draw: random.Random) -> int:
        """Submit until some requests have a result and others have none; return how many have none.

        Where the results of two portions came in one go, those of the third are not waited for.

        Raises:
            AssertionError: those of three portions ended before any was seen to be open.
        """
        for is_last in (False, False, True):
            for event in self.submit_portion():
                await event.wait()
            enough = self.open if is_last else draw.random() * self.open
            while self.open > enough:
                await asyncio.sleep(0.001)
            if self.open:
                return self.open
        raise AssertionError("nothing was in flight")

    async def _score(self, pipeline: str, rows: Sequence[Request], sent: asyncio.Event) -> None:
        begun_s = time.monotonic()
        self._batches += 1
        name = f"b{self._batches}"
        client = self._clients[self._batches % len(self._clients)]
        task = await client.register_task(f"task-{pipeline}", pipeline=pipeline)
        opened = await client.open_batch(task, size=len(rows), batch_id=name, deadline_s=DEADLINE_S)
        await opened.submit(rows)
        self.open += len(rows)
        sent.set()
        async for result in opened.results():
            self.open -= 1
            self._ended[result.request_id] += 1
            wanted = self._deserved[result.request_id]
            if result.outcome.value != "SCORED" or result.reward != wanted:
                message = f"{result.request_id}: {result.outcome} {result.reward} {wanted}"
                raise AssertionError(message)
        status = await opened.status()
        if status.completed_ns > status.deadline_ns:
            late_s = (status.completed_ns - status.deadline_ns) / 1e9
            message = f"{name} was late by {late_s:.1f} s"
            raise AssertionError(message)
        self.slowest_s = max(self.slowest_s, time.monotonic() - begun_s)

    def check(self) -> None:
        """Every request has ended once."""
        if set(self._ended) != set(self._deserved) or set(self._ended.values()) != {1}:
            lost = len(set(self._deserved) - set(self._ended))
            twice = sum(n > 1 for n in self._ended.values())
            message = f"{lost} requests lost, {twice} ended twice"
            raise AssertionError(message)
