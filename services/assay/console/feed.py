"""One reader of the platform for all who look at the console.

However many look, the store and the planner are read by one task, while someone looks, at most each
`EVERY_S` and for at most a fifth of the time; each viewer's part is made once per reading.
"""

import asyncio
import json
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import structlog

from assay.console.look import (
    COMPLETED_MAX,
    OPERATOR_BATCHES_MAX,
    TENANT_BATCHES_MAX,
    Look,
    shown,
)
from assay.console.plans import PlannerClient
from assay.console.viewer import Viewer
from assay.core.errors import AssayError
from assay.core.ids import StageName
from assay.edge.clock import Clock
from assay.edge.lifecycle import going_on, wait_at_most
from assay.edge.status import detail_of, internal_detail
from assay.store.operations.viewing import BatchKey, Viewing
from assay.store.port import Store

EVERY_S: Final = 2.0
"""Time between two readings, unless a reading takes long, or someone new looks."""
REST: Final = 4.0
"""Rest after a reading, per time that it took."""
NAMES_MAX: Final = 10_000
"""Open batches that are counted."""
TENANTS_MAX: Final = 16
"""Tenants whose completed batches the operator is shown: those whose tasks were used last."""
TASKS_MAX: Final = 256
COMPLETED_EACH: Final = 5

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class _Published:
    """The last reading, made for those who looked."""

    number: int
    events: dict[Viewer, bytes]


class Feed:
    """Yields events to viewers."""

    def __init__(
        self,
        *,
        viewing: Viewing,
        store: Store,
        planner: PlannerClient,
        stages: Sequence[StageName],
        clock: Clock,
    ) -> None:
        self._viewing = viewing
        self._store = store
        self._planner = planner
        self._stages = stages
        self._clock = clock
        self._viewers: Counter[Viewer] = Counter()
        self._published = _Published(0, {})
        self._changed = asyncio.Condition()
        self._joined = asyncio.Event()
        self._reading: asyncio.Task[None] | None = None
        self._stopped = False

    @property
    def viewers(self) -> int:
        """How many look."""
        return self._viewers.total()

    async def watch(self, viewer: Viewer) -> AsyncGenerator[bytes, None]:
        """Yield server-sent events, the first within a moment, until the service stops."""
        self._viewers[viewer] += 1
        self._joined.set()
        if self._reading is None:
            self._reading = asyncio.create_task(self._read_on(), name="console")
        seen = self._published.number
        try:
            while not self._stopped:
                async with self._changed:
                    while self._published.number == seen and not self._stopped:
                        await self._changed.wait()
                    seen, event = self._published.number, self._published.events.get(viewer)
                if event is not None and not self._stopped:
                    yield event
        finally:
            self._viewers[viewer] -= 1
            if not self._viewers[viewer]:
                del self._viewers[viewer]
            if not self._viewers and self._reading is not None:
                self._reading.cancel()
                self._reading = None

    async def stop(self) -> None:
        """End all streams."""
        self._stopped = True
        if self._reading is not None:
            self._reading.cancel()
        async with self._changed:
            self._changed.notify_all()

    async def _read_on(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            self._joined.clear()
            begun_s = loop.time()
            events = await self._events()
            spent_s = loop.time() - begun_s
            self._published = _Published(self._published.number + 1, events)
            async with self._changed:
                self._changed.notify_all()
            await asyncio.sleep(REST * spent_s)
            await wait_at_most(max(0.0, EVERY_S - REST * spent_s), self._joined)

    async def _events(self) -> dict[Viewer, bytes]:
        viewers = list(self._viewers)
        try:
            look = await going_on(lambda: self._look(viewers))
            events = {}
            for viewer in viewers:
                events[viewer] = event("look", shown(look, viewer))
                await asyncio.sleep(0)
        except AssayError as error:
            return dict.fromkeys(viewers, event("failed", detail_of(error).body()))
        except Exception:  # a bug: viewers see an error, and the next reading may succeed
            log.exception("console_reading_failed")
            return dict.fromkeys(viewers, event("failed", internal_detail("").body()))
        return events

    async def _look(self, viewers: Sequence[Viewer]) -> Look:
        viewing = self._viewing
        at_ns = self._clock.now_ns()
        names = await viewing.open_names(NAMES_MAX)
        for_operator = any(viewer.tenant is None for viewer in viewers)
        queues = await viewing.queues(self._stages)
        depths = await self._store.depths(self._stages) if for_operator else ()
        completed = await self._completed(viewers, for_operator=for_operator)
        batches = await viewing.batches(_chosen(names, viewers, for_operator=for_operator))
        return Look(
            at_ns=at_ns,
            batches=[batch for batch in batches if not batch.over],
            completed=[one for one in await viewing.batches(completed) if one.over],
            open_counts=Counter(tenant for tenant, _ in names),
            is_cut=len(names) == NAMES_MAX,
            depths=depths,
            queues=queues,
            planner=await self._planner.look(),
        )

    async def _completed(
        self, viewers: Sequence[Viewer], *, for_operator: bool
    ) -> Sequence[BatchKey]:
        most = {viewer.tenant: COMPLETED_MAX for viewer in viewers if viewer.tenant is not None}
        if for_operator:
            found = await self._viewing.tenants(TASKS_MAX)
            each = COMPLETED_MAX if len(found) == 1 else COMPLETED_EACH
            for tenant in found[:TENANTS_MAX]:
                most.setdefault(tenant, each)
        names: list[BatchKey] = []
        for tenant, names_max in most.items():
            names += await self._viewing.completed_names(tenant, names_max)
        return names


def _chosen(
    names: Iterable[BatchKey], viewers: Iterable[Viewer], *, for_operator: bool
) -> Sequence[BatchKey]:
    """The batches that at least one viewer is shown, in their order."""
    looking = {viewer.tenant for viewer in viewers}
    counts: defaultdict[str, int] = defaultdict(int)
    chosen = []
    for place, (tenant, batch) in enumerate(names):
        own = tenant in looking and counts[tenant] < TENANT_BATCHES_MAX
        counts[tenant] += own
        if own or (for_operator and place < OPERATOR_BATCHES_MAX):
            chosen.append((tenant, batch))
    return chosen


def event(kind: str, data: object) -> bytes:
    """A server-sent event; JSON has no line breaks of its own."""
    return f"event: {kind}\ndata: {json.dumps(data, separators=(',', ':'))}\n\n".encode()
