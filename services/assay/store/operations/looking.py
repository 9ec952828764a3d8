"""What who looks at a running platform reads: how far the store is, its queues and open batches.

`assay status` has these calls alone, so that it starts without the others and all their records.
"""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from assay.config.settings import StoreSettings
from assay.core.batches.record import BatchRecord, BatchState, StageDepth
from assay.core.ids import BatchId, StageName, TaskId, TenantId
from assay.core.outcome import Outcome
from assay.store.link import Link, Reply
from assay.store.script import load_script
from assay.store.server import embedded_url

US: Final = 1_000
"""Nanoseconds per microsecond."""
_COUNTS: Final = [(f"o:{outcome.value}".encode(), outcome) for outcome in Outcome]
"""Fields of a batch that count its outcomes."""
_STATES: Final = {state.value.encode(): state for state in BatchState}


class Looking:
    """The calls of a store that only look, each bounded in size."""

    def __init__(self, link: Link) -> None:
        self._link = link

    async def round_trip(self) -> float:
        """See `Store.round_trip`."""
        await self._link.call("PING")  # connects
        before_s = time.perf_counter()
        await self._link.call("PING")
        return time.perf_counter() - before_s

    async def depths(self, stages: Sequence[StageName]) -> Sequence[StageDepth]:
        """See `Store.depths`."""
        now_us, *found = await self._link.run(load_script("depths"), *stages)
        return [stage_depth(stage, now_us, one) for stage, one in zip(stages, found, strict=True)]

    async def batches(self, *, batches_max: int) -> Sequence[BatchRecord]:
        """See `Store.batches`."""
        found = await self._link.run(load_script("batches"), batches_max)
        return [batch_record(flat) for flat in found]

    async def close(self) -> None:
        """Close the connection."""
        await self._link.close()


def open_looking(settings: StoreSettings, *, data_dir: Path) -> Looking:
    """Looks at the store of these settings; connects on first use."""
    url = settings.url or embedded_url(data_dir)
    return Looking(Link(url, prefix=key_prefix(settings), timeout_s=settings.timeout_s))


def key_prefix(settings: StoreSettings) -> str:
    """What the names of all keys begin with."""
    return f"assay:{{{settings.shard}}}:"


def batch_record(flat: Sequence[bytes]) -> BatchRecord:
    """From the field-value list of a batch's hash."""
    fields = dict(zip(flat[::2], flat[1::2], strict=True))
    submitted, ended, running = (int(fields[name]) for name in (b"submitted", b"ended", b"running"))
    counts = [(outcome, int(fields[key])) for key, outcome in _COUNTS if key in fields]
    return BatchRecord(
        tenant=TenantId(fields[b"tenant"].decode()),
        batch_id=BatchId(fields[b"batch"].decode()),
        task_id=TaskId(fields[b"task"].decode()),
        state=_STATES[fields[b"state"]],
        size=int(fields[b"size"]),
        group_size=int(fields[b"k"]),
        opened_ns=int(fields[b"opened"]) * US,
        deadline_ns=int(fields[b"deadline"]) * US,
        completed_ns=int(fields[b"completed"]) * US,
        submitted=submitted,
        ended=ended,
        queued=submitted - ended - running,
        running=running,
        outcomes={outcome: count for outcome, count in counts if count},
        deadline_at_risk=fields.get(b"risk") == b"1",
        # Below 0 where an earlier release, which did not count, logged a group that ends again.
        grouped=max(0, int(fields.get(b"grouped", 0))),
        shift_micro=max(0, int(fields.get(b"shift", 0))),
    )


def stage_depth(stage: StageName, now_us: int, reply: Reply) -> StageDepth:
    """From the depths script."""
    queued, running, letters, oldest_us = reply
    return StageDepth(
        stage=stage,
        queued=queued,
        running=running,
        oldest_age_s=max(0.0, (now_us - oldest_us) / 1e6) if queued else 0.0,
        dead_letters=letters,
    )
