"""Checks what a worker host reports about its pools: a false report would cost other hosts."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from statistics import median_high
from types import MappingProxyType
from typing import Final

from assay.core.hosts.record import SLOTS_MAX, HostRecord
from assay.core.ids import StageName, WorkerId
from assay.core.tools.backoff import pause_s
from assay.planner.session.conduct import SHORT_NS, Conduct
from assay.planner.session.messages import HostState, Machine, PoolState, Startup
from assay.v1 import worker_pb2

CALM_NS: Final = 10 * 10**9
"""A host that was idle when it answered is not asked again for this long while its record in the
store stays as it is. It renews that each second, with the number of slots that are at work."""
AWAY_NS: Final = 3 * 10**9
"""A host that did not answer for this long is not counted on, though it may still work."""
REFUSED_NS: Final = 10**9
"""A host that answered before, and whose port refused connections for this long, is dead: the
machine answers, and its process does not listen any more."""
UNANSWERED_S_MAX: Final = 10.0
"""Longest time between two looks at a host that does not answer."""
STARTUP_S_MAX: Final = 120.0
"""The longest that a host lets a slot start; one that says more is not believed."""
STARTS_KEPT_MAX: Final = 64
NO_STARTS: Final[Mapping[StageName, int]] = MappingProxyType({})
STARTS_MIN: Final = 3
"""Fewer measured starts do not replace the settings' value."""


@dataclass(slots=True, kw_only=True)
class HostView:
    """One host as the planner sees it."""

    record: HostRecord
    pools: Mapping[StageName, PoolState] = field(default_factory=dict)
    """As it said last; empty: it never answered."""
    answered_ns: int = 0
    sandbox_mode: str = ""
    refused_ns: int = 0
    """Since when its port refuses connections, or another process answers there; 0 = neither."""
    grace_ns: int = 0
    """`CALM_NS` if it was idle when it answered, else 0."""
    news: bool = True
    """Its record has changed since it answered."""
    misses: int = 0
    """Looks in a row that it did not answer."""
    due_ns: int = 0
    """When it is looked at again."""
    conduct: dict[StageName, Conduct] = field(default_factory=dict)
    """How it keeps its word, by stage."""
    sizes_asked: int = 0
    """Begins and ends of calls for a size; an answer to a look that one of them crossed is old."""

    @property
    def is_registered(self) -> bool:
        """Whether the store has had its record; else only the ready file names it."""
        return bool(self.record.stages)

    def counts(self, now_ns: int) -> bool:
        """Whether its slots are counted on."""
        away_ns = AWAY_NS + self.grace_ns
        return bool(self.pools) and now_ns - self.answered_ns < away_ns and not self.refused_ns

    def is_calm(self, now_ns: int) -> bool:
        """Whether there is no reason to look at it, unless its pools are wanted now."""
        return not self.news and now_ns - self.answered_ns < self.grace_ns

    def listed(self, record: HostRecord) -> None:
        """The store has this record of it."""
        self.news = self.news or record != self.record
        self.record = record

    def is_dead(self, now_ns: int) -> bool:
        """Whether its process is known to be gone."""
        # One that never answered may listen elsewhere: its address may be wrong.
        return bool(self.pools) and self.refused_ns > 0 and now_ns - self.refused_ns >= REFUSED_NS

    def believed(self, stage: StageName) -> int:
        """Slots of a stage that it has or will have soon."""
        return self._conduct(stage).believed(self.pools[stage])

    def ready(self, stage: StageName, now_ns: int) -> int:
        """Slots of a stage that are ready, as far as the host is believed."""
        return self._conduct(stage).ready(self.pools[stage], now_ns)

    def said(
        self,
        pools: Mapping[StageName, PoolState],
        now_ns: int,
        patience_ns: Mapping[StageName, int] = NO_STARTS,
    ) -> None:
        """Note its pools; `patience_ns`: see `conduct.patience_with`."""
        self.pools = pools
        for stage, pool in pools.items():
            self._conduct(stage).said(pool, now_ns, patience_ns.get(stage, SHORT_NS))

    def _conduct(self, stage: StageName) -> Conduct:
        return self.conduct.setdefault(stage, Conduct())

    def answered(self, now_ns: int) -> None:
        """It answered a look."""
        self.answered_ns, self.refused_ns, self.misses, self.due_ns = now_ns, 0, 0, 0
        self.news, self.grace_ns = False, 0 if self.record.busy else CALM_NS

    def missed(self, now_ns: int, *, gone: bool) -> None:
        """It did not; `gone`: because it does not listen there, or another process does.

        One that is only silent is looked at less often, or a thousand of them would delay others.
        """
        self.misses += 1
        self.grace_ns = 0
        if gone:
            self.refused_ns, self.due_ns = self.refused_ns or now_ns, 0
        else:
            wait_s = pause_s(self.misses, first_s=2.0, longest_s=UNANSWERED_S_MAX)
            self.refused_ns, self.due_ns = 0, now_ns + int(wait_s * 1e9)

    def room(self, stage: StageName, now_ns: int) -> int:
        """Most slots of a stage that it may be asked for."""
        return self._conduct(stage).room(self.pools[stage], self.record.slots_max, now_ns)

    def is_to_be_asked(self, stage: StageName, wanted: int, now_ns: int) -> bool:
        """Whether a new size is to be sent to it."""
        return self._conduct(stage).is_to_be_asked(wanted, self.pools[stage], now_ns)

    def obeyed(
        self,
        stage: StageName,
        wanted: int,
        state: PoolState,
        now_ns: int,
        patience_ns: Mapping[StageName, int] = NO_STARTS,
    ) -> bool:
        """Note what it said to a new size; returns whether it took it."""
        self.pools = {**self.pools, stage: state}
        return self._conduct(stage).took(wanted, state, now_ns, patience_ns.get(stage, SHORT_NS))

    def did_not_resize(self, stage: StageName, now_ns: int) -> None:
        """It did not answer a new size. It is not counted on before it answers a look."""
        self._conduct(stage).failed(now_ns)
        self.answered_ns = 0


def checked(
    record: HostRecord, pools: Iterable[worker_pb2.StagePool]
) -> Mapping[StageName, PoolState]:
    """The pools of a host's answer: of stages that it registered, each once, numbers in range."""
    found: dict[StageName, PoolState] = {}
    for pool in pools:
        stage = StageName(pool.stage)
        if stage not in found and (stage in record.stages or not record.stages):
            found[stage] = state_of(pool)
    return found


def state_of(pool: worker_pb2.StagePool) -> PoolState:
    """A pool's numbers, no larger than any host's may be, and no more busy than ready."""
    ready = _within(pool.slots_ready, SLOTS_MAX)
    return PoolState(
        stage=StageName(pool.stage),
        desired=_within(pool.slots_desired, SLOTS_MAX),
        ready=ready,
        busy=_within(pool.slots_busy, ready),
        startup=Startup(
            measured=_within(pool.starts_measured, STARTS_KEPT_MAX),
            p50_ns=_time_of(pool.startup_p50_s),
            p90_ns=_time_of(pool.startup_p90_s),
        ),
    )


def startup_of(pools: Sequence[PoolState]) -> Startup:
    """Of a stage over its hosts: the middle host's, so that no single one decides."""
    measured = [pool.startup for pool in pools if pool.startup.measured >= STARTS_MIN]
    if not measured:
        return Startup()
    middle = median_high(sorted((one.p90_ns, one.p50_ns) for one in measured))
    count = sum(one.measured for one in measured)
    return Startup(measured=count, p50_ns=middle[1], p90_ns=middle[0])


def _time_of(seconds: float) -> int:
    if not isfinite(seconds):
        return 0
    return round(max(0.0, min(seconds, STARTUP_S_MAX)) * 1e9)


def _within(value: int, most: int) -> int:
    return max(0, min(value, most))


def unregistered(address: str) -> HostRecord:
    """The host of this machine where none is registered: one of an earlier release."""
    return HostRecord(
        worker=WorkerId(address), address=address, stages=(), cores=0, memory_bytes=0,
        slots_max=SLOTS_MAX,
    )  # fmt: skip


def seen_as(
    view: HostView, now_ns: int, *, doubted: Sequence[StageName], core_cost: float | None
) -> HostState:
    """A host as operators see it."""
    record = view.record
    if view.counts(now_ns):
        state = "Counted" if not doubted else f"Doubted: {', '.join(sorted(doubted))}"
    elif view.refused_ns:
        state = "Gone"
    else:
        state = "Away" if view.pools else "NeverAnswered"
    return HostState(
        host=record.worker,
        address=record.address,
        state=state,
        sandbox_mode=view.sandbox_mode,
        machine=Machine(cores=record.cores, memory_bytes=record.memory_bytes),
        slots_max=record.slots_max,
        pools=tuple(view.pools.values()),
        core_cost=core_cost,
    )
