"""Reports to the store how claims ended, many in one call.

A report is sent immediately if no call is in progress; reports that arrive during a call go out
with the next one. While more verdicts will come soon, a few reports wait `GATHER_S` for them: a
call costs as much as several reports in it. While the store is unreachable, reports wait, each for
at most `KEPT_S_MAX`: by then another worker has the request, or the store has forgotten it.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

import structlog

from assay.core.errors import AssayError
from assay.core.ids import StageName
from assay.core.outcome import Outcome
from assay.core.records import (
    EndRequest,
    FailAttempt,
    Finish,
    Finished,
    FinishGroup,
    FinishStatus,
    GiveBack,
    HandOver,
    Reaped,
    Report,
    StageReport,
)
from assay.edge.clock import Clock
from assay.edge.metrics import Metrics
from assay.store.port import WorkerStore
from assay.worker.assignment import HeldClaim
from assay.worker.slots.pool import Spawn
from assay.worker.store_health import StoreHealth

REPORTS_MAX: Final = 256
"""Maximum number of reports in one call."""
BYTES_MAX: Final = 8 * 1024**2
"""Maximum payload of one call; a larger report is sent alone."""
KEPT_S_MAX: Final = 120.0
GATHER_S: Final = 0.005
GATHER_MAX: Final = 8
"""So many reports do not wait for more."""
_FIXED_BYTES: Final = 200

log = structlog.get_logger(__name__)

OnSettled = Callable[[HeldClaim], None]


class Reports:
    """The reports of one stage."""

    def __init__(
        self,
        *,
        stage: StageName,
        store: WorkerStore,
        health: StoreHealth,
        clock: Clock,
        metrics: Metrics,
        attempts_max: int,
        spawn: Spawn,
        more_soon: Callable[[], bool],
        on_settled: OnSettled,
        reports_max: int = REPORTS_MAX,
    ) -> None:
        """Start with none.

        Args:
            stage: whose.
            store: takes them.
            health: of the store.
            clock: for pauses.
            metrics: for calls and ends.
            attempts_max: of a request.
            spawn: starts tasks.
            more_soon: whether other claims of this host will be judged within some milliseconds.
            on_settled: the store has one, or will not take it.
            reports_max: of one call.
        """
        self._stage = stage
        self._store = store
        self._health = health
        self._clock = clock
        self._metrics = metrics
        self._note_services = metrics.services(stage=stage)
        self._attempts_max = attempts_max
        self._spawn = spawn
        self._more_soon = more_soon
        self._on_settled = on_settled
        self._reports_max = reports_max
        self._waiting: deque[tuple[HeldClaim, Report]] = deque()
        self._sending: asyncio.Task[None] | None = None

    def add(self, held: HeldClaim, report: StageReport, finish: Finish) -> None:
        """Report the end of a claim as soon as no call is in progress."""
        held.is_reported = True
        self._waiting.append((held, Report(lease=held.claim.lease, report=report, finish=finish)))
        if self._sending is None:
            self._sending = self._spawn(self._send(), name=f"report {self._stage}")

    async def flush(self) -> None:
        """Wait until all added reports are settled."""
        while self._sending is not None:
            await asyncio.wait([self._sending])

    async def _send(self) -> None:
        failures = 0
        try:
            while self._waiting:
                if len(self._waiting) < GATHER_MAX and self._more_soon():
                    await self._clock.sleep(GATHER_S)
                some = self._next()
                began_ns = self._clock.monotonic_ns()
                try:
                    finished = await self._store.finish(
                        self._stage, [report for _, report in some], self._attempts_max
                    )
                except AssayError as error:
                    self._health.failed(error)
                    self._drop_hopeless()
                    failures += 1
                    await self._health.pause(failures)
                    continue
                self._health.worked()
                spent_s = (self._clock.monotonic_ns() - began_ns) / 1e9
                self._metrics.store_called(operation="finish", seconds=spent_s)
                failures = 0
                for _ in some:
                    self._waiting.popleft()
                self._settle(some, finished)
        finally:
            self._sending = None

    def _next(self) -> list[tuple[HeldClaim, Report]]:
        some: list[tuple[HeldClaim, Report]] = []
        size = 0
        for held, report in self._waiting:
            size += _payload_bytes(report.finish)
            if some and (len(some) >= self._reports_max or size > BYTES_MAX):
                break
            some.append((held, report))
        return some

    def _drop_hopeless(self) -> None:
        now_ns = self._clock.monotonic_ns()
        while self._waiting:
            held, report = self._waiting[0]
            age_s = (now_ns - held.claimed_ns - report.report.finished_after_ns) / 1e9
            if age_s < KEPT_S_MAX:
                return
            self._waiting.popleft()
            log.error("report_dropped", request_id=held.claim.request_id, stage=self._stage)
            self._metrics.attempts_ended(stage=self._stage, result="dropped")
            self._on_settled(held)

    def _settle(self, some: list[tuple[HeldClaim, Report]], finished: Finished) -> None:
        reports = [report.report for _, report in some if not isinstance(report.finish, GiveBack)]
        self._note_services(
            [(one.finished_after_ns - one.started_after_ns) / 1e9 for one in reports]
        )
        counts: dict[tuple[str, str, str], int] = {}
        attempts: dict[str, int] = {}
        for (held, report), status in zip(some, finished.statuses, strict=True):
            self._on_settled(held)
            word = _word(report.finish) if status is FinishStatus.DONE else "stale"
            attempts[word] = attempts.get(word, 0) + 1
            ends = self._ends(held, report.finish) if status is FinishStatus.DONE else ()
            for outcome in ends:
                key = (held.claim.task.tenant, held.claim.task.pipeline, outcome)
                counts[key] = counts.get(key, 0) + 1
        for word, count in attempts.items():
            self._metrics.attempts_ended(stage=self._stage, result=word, count=count)
        for (tenant, pipeline, outcome), count in counts.items():
            self._metrics.requests_ended(
                tenant=tenant, pipeline=pipeline, outcome=outcome, count=count
            )
        for one in finished.completed:
            self._metrics.batch_completed(one.batch, slack_s=one.slack_ms / 1e3)

    def _ends(self, held: HeldClaim, finish: Finish) -> Sequence[str]:
        """The outcome of each request that the report ends."""
        match finish:
            case EndRequest():
                return [finish.outcome.value]
            case FailAttempt() if held.claim.attempt >= self._attempts_max:
                return [Outcome.INFRA_FAILED.value] * max(1, len(held.claim.members))
            case FinishGroup():
                ends = (_end_of_member(said) for _, said in finish.members)
                return [outcome for outcome in ends if outcome]
        return ()


def _end_of_member(said: EndRequest | HandOver | FailAttempt) -> str:
    """What a member of a group ends with; empty: it goes on."""
    if isinstance(said, EndRequest):
        return said.outcome.value
    return Outcome.INFRA_FAILED.value if isinstance(said, FailAttempt) else ""


def _word(finish: Finish) -> str:
    if isinstance(finish, EndRequest | FinishGroup):
        return "ended"
    if isinstance(finish, HandOver):
        return "handed_over"
    return "failed" if isinstance(finish, FailAttempt) else "given_back"


def _payload_bytes(finish: Finish) -> int:
    if isinstance(finish, EndRequest):
        return len(finish.body) + _FIXED_BYTES
    if isinstance(finish, HandOver):
        return len(finish.handover) + _FIXED_BYTES
    if isinstance(finish, FinishGroup):
        return sum(_payload_bytes(said) for _, said in finish.members) + _FIXED_BYTES
    return _FIXED_BYTES


def note_reaped(stage: StageName, reaped: Reaped, metrics: Metrics) -> None:
    """Log and count the expired leases that a search has found."""
    expired = reaped.redelivered + reaped.dead
    if expired:
        log.warning("leases_expired", stage=stage, redelivered=reaped.redelivered, dead=reaped.dead)
        metrics.leases_lost(stage=stage, seen_by="reaper", count=expired)
    for one in reaped.completed:
        metrics.batch_completed(one.batch, slack_s=one.slack_ms / 1e3)
