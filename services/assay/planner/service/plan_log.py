"""The records of each batch for `ExplainPlan`: its plans, and samples of the pools in between.

Bounded: samples wait for the next plan in a ring; the store keeps a bounded number of plans.
"""

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

import structlog

from assay.core.errors import AssayError
from assay.core.ids import StageName
from assay.core.records import OpenWork
from assay.planner.session.messages import PoolState, Snapshot
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
"""Samples per batch between two plans."""
BATCHES_MAX: Final = 256
ENDED: Final = "the batch has ended"

log = structlog.get_logger(__name__)


class PlanLog:
    """Receives every snapshot and every plan."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._stages: dict[BatchKey, frozenset[StageName]] = {}
        self._samples: dict[BatchKey, deque[PoolSample]] = {}
        self._plans: dict[BatchKey, PlanView] = {}

    def sampled(self, snapshot: Snapshot, planned: Mapping[StageName, int]) -> None:
        """Keep the pools of a snapshot; `planned` are the slots that the plan holds now."""
        queued = Counter(r.stage for w in snapshot.work for r in w.requests if not r.claimed_ns)
        for work in snapshot.work[:BATCHES_MAX]:
            key = key_of(work)
            self._stages.setdefault(key, frozenset(work.task.stages))
            self._samples.setdefault(key, deque(maxlen=SAMPLES_MAX))
            self._sample(key, snapshot.pools, snapshot.now_ns, planned, queued)

    def _sample(
        self,
        key: BatchKey,
        pools: Sequence[PoolState],
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
        """Keep a new plan."""
        for key in dict.fromkeys(batch.key for batch in plan.batches if batch.batch_id):
            self._plans[key] = of_batch(plan, key)
            await self._keep(key)

    async def ended(
        self, work: Sequence[OpenWork], pools: Sequence[PoolState], now_ns: int
    ) -> None:
        """Keep the last samples of batches that are no longer open, and drop the batches."""
        open_now = {key_of(one) for one in work}
        for key in self._gone(open_now):
            if key in self._plans:
                self._sample(key, pools, now_ns, {}, {})
                self._plans[key] = replace(self._plans[key], made_ns=now_ns, reason=ENDED)
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
        except AssayError as error:  # the batch is no longer kept, or the store is down
            log.info("plan_not_kept", batch_id=key[1], why=error.message)
            return
        if key in self._samples:
            self._samples[key].clear()


def key_of(work: OpenWork) -> BatchKey:
    """The store's key of the batch."""
    return work.batch.tenant, work.batch.batch_id
