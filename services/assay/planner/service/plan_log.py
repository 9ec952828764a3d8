"""What is kept of each batch for `ExplainPlan`: the plans made for it, and what pools really were.

Bounded: samples wait for the next plan in a ring, the store keeps a bounded number of plans.
"""

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

import structlog

from assay.core.errors import AssayError
from assay.core.ids import StageName
from assay.core.records import OpenWork
from assay.planner.session.messages import Look, PoolFacts
from assay.planner.session.plan_view import (
    BatchKey,
    PlanRecord,
    PlanView,
    PoolSample,
    of_batch,
    pack_record,
)
from assay.store.port import Store

SAMPLES_MAX: Final = 2_000
"""Of a batch, between two plans."""
BATCHES_MAX: Final = 256
OVER: Final = "the batch is over"

log = structlog.get_logger(__name__)


class Chronicle:
    """Told of every look and every plan."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._stages: dict[BatchKey, frozenset[StageName]] = {}
        self._samples: dict[BatchKey, deque[PoolSample]] = {}
        self._plans: dict[BatchKey, PlanView] = {}

    def saw(self, look: Look, planned: Mapping[StageName, int]) -> None:
        """Pools as of one look; `planned` is what the plan wants now."""
        queued = Counter(r.stage for w in look.work for r in w.requests if not r.claimed_ns)
        for work in look.work[:BATCHES_MAX]:
            key = key_of(work)
            self._stages.setdefault(key, frozenset(work.task.stages))
            self._samples.setdefault(key, deque(maxlen=SAMPLES_MAX))
            self._sample(key, look.pools, look.now_ns, planned, queued)

    def _sample(
        self,
        key: BatchKey,
        pools: Sequence[PoolFacts],
        now_ns: int,
        planned: Mapping[StageName, int],
        queued: Mapping[StageName, int],
    ) -> None:
        self._samples[key].extend(
            PoolSample(
                at_ns=now_ns,
                stage=pool.stage,
                planned=planned.get(pool.stage, pool.desired),
                desired=pool.desired,
                ready=pool.ready,
                busy=pool.busy,
                queued=queued.get(pool.stage, 0),
            )
            for pool in pools
            if pool.stage in self._stages[key]
        )

    async def planned(self, plan: PlanView) -> None:
        """A plan was made."""
        for key in {batch.key for batch in plan.batches if batch.batch_id}:
            self._plans[key] = of_batch(plan, key)
            await self._keep(key)

    async def ended(
        self, work: Sequence[OpenWork], pools: Sequence[PoolFacts], now_ns: int
    ) -> None:
        """Close the books on batches that are open no longer."""
        open_now = {key_of(one) for one in work}
        for key in self._gone(open_now):
            if key in self._plans:
                self._sample(key, pools, now_ns, {}, {})
                self._plans[key] = replace(self._plans[key], made_ns=now_ns, reason=OVER)
                await self._keep(key)
            self._plans.pop(key, None)
            self._samples.pop(key, None)
            self._stages.pop(key, None)

    def _gone(self, open_now: set[BatchKey]) -> Iterable[BatchKey]:
        return [key for key in self._samples if key not in open_now]

    async def _keep(self, key: BatchKey) -> None:
        samples = self._samples.get(key, ())
        record = PlanRecord(plan=self._plans[key], samples=tuple(samples))
        try:
            await self._store.put_plan(*key, pack_record(record))
        except AssayError as error:  # the batch is kept no longer, or the store is out: no harm
            log.info("plan_not_kept", batch_id=key[1], why=error.message)
            return
        if key in self._samples:
            self._samples[key].clear()


def key_of(work: OpenWork) -> BatchKey:
    """As the store names it."""
    return work.batch.tenant, work.batch.batch_id
