"""How attempts ended: measured, logged, traced, and reported to the store.

Invariant: an attempt is reported once, and not at all if its lease is lost.
"""

from collections.abc import Callable, Iterable

import structlog

from assay.core.codec import CodecError
from assay.core.ids import PipelineName, StageName, WorkerId
from assay.core.records import Claim, FailAttempt, Finish, GiveBack, StageReport
from assay.edge.clock import Clock
from assay.edge.metrics import Metrics
from assay.edge.tracing import Tracer, batch_trace
from assay.worker.assignment import HeldClaim
from assay.worker.auditing.culprits import Failure
from assay.worker.auditing.searches import GroupSearches
from assay.worker.finish import broke_limit, finish_of, missing_package, second_opinion
from assay.worker.reports import Reports
from assay.worker.slots.messages import Said

log = structlog.get_logger(__name__)


def count_evidence(metrics: Metrics, claim: Claim, said: Said) -> None:
    """Count facts in the evidence that operators need; slots have no metrics."""
    if opinion := second_opinion(said):
        metrics.second_judged(pipeline=claim.task.pipeline, result=opinion)
    if package := missing_package(said):
        metrics.package_missed(pipeline=claim.task.pipeline, package=package)


class Attempts:
    """The attempts of one stage on this host."""

    def __init__(
        self,
        *,
        stage: StageName,
        worker: WorkerId,
        reports: Reports,
        clock: Clock,
        tracer: Tracer | None,
        version_of: Callable[[PipelineName, bytes], str],
        searches: GroupSearches,
    ) -> None:
        self._stage = stage
        self._searches = searches
        self._worker = worker
        self._reports = reports
        self._clock = clock
        self._tracer = tracer
        self._version_of = version_of

    def name(self, slot_number: int) -> WorkerId:
        """What a slot is called in reports."""
        return WorkerId(f"{self._worker}/{self._stage}-{slot_number}")

    def judged(self, held: HeldClaim, report: StageReport, said: Said) -> None:
        """A slot judged the request."""
        if not self._searched(held, report, said):
            self._report(held, report, finish_of(held.claim, said))

    def judged_before(self, held: HeldClaim, said: Said) -> None:
        """The same request was judged, so it took no time."""
        report = StageReport(worker=self._worker, started_after_ns=0, finished_after_ns=0)
        self._report(held, report, finish_of(held.claim, said))

    def failed(self, slot_number: int, held: HeldClaim, why: str) -> None:
        """The attempt failed with its slot."""
        self.log_failure(held, why)
        report = self._until_now(slot_number, held)
        if not self._searched(held, report, Failure(error=why)):
            self._report(held, report, FailAttempt(error=why))

    def broke_limit(self, slot_number: int, held: HeldClaim, limit: str, cpu_s: float) -> None:
        """Its slot is killed because the request is over a limit of the stage."""
        error = f"killed at the limit of stage {self._stage}"
        report = self._until_now(slot_number, held)
        if not self._searched(held, report, Failure(error=error, limit=limit, cpu_s=cpu_s)):
            self._report(held, report, self._limit_finish(held.claim, limit, error, cpu_s))

    def give_back(self, claims: Iterable[HeldClaim]) -> None:
        """They were not started; another host takes them."""
        report = StageReport(worker=self._worker, started_after_ns=0, finished_after_ns=0)
        for held in claims:
            if not held.is_lost:
                self._reports.add(held, report, GiveBack())

    def log_failure(self, held: HeldClaim, error: str) -> None:
        """Log a failed attempt."""
        log.warning(
            "attempt_failed",
            stage=self._stage,
            attempt=held.claim.attempt,
            error=error,
            **_ids(held),
        )

    def _until_now(self, slot_number: int, held: HeldClaim) -> StageReport:
        held_ns = self._clock.monotonic_ns() - held.claimed_ns
        worker = self.name(slot_number)
        return StageReport(worker=worker, started_after_ns=0, finished_after_ns=held_ns)

    def _searched(self, held: HeldClaim, report: StageReport, ended: Said | Failure) -> bool:
        """Whether the end of this run is that of a group whose members at fault are searched."""
        if not self._searches.concerns(held, ended):
            return False
        task = held.claim.task
        version = self._version_of(task.pipeline, task.settings_json)
        finish = self._searches.take(held, ended, version=version)
        if finish is not None:
            self._report(held, report, finish)
        return True

    def _limit_finish(self, claim: Claim, limit: str, error: str, cpu_s: float) -> Finish:
        if claim.members:  # a service may have been waited for, so no member is to blame
            return FailAttempt(error=f"{limit}: {error}")
        version = self._version_of(claim.task.pipeline, claim.task.settings_json)
        try:
            return broke_limit(
                claim,
                handover=claim.handover,
                limit=limit,
                error=error,
                cpu_s=cpu_s,
                version=version,
            )
        except (CodecError, ValueError) as problem:
            why = f"{limit}, and its task or hand-over cannot be read: {problem}"
            return FailAttempt(error=why)

    def _report(self, held: HeldClaim, report: StageReport, finish: Finish) -> None:
        if held.is_lost:
            return
        self._reports.add(held, report, finish)
        if self._tracer is not None:
            self._trace(self._tracer, held, report, finish)

    def _trace(self, tracer: Tracer, held: HeldClaim, report: StageReport, finish: Finish) -> None:
        claimed_unix_ns = self._clock.now_ns() - (self._clock.monotonic_ns() - held.claimed_ns)
        tracer.record(
            f"stage {self._stage}",
            began_ns=claimed_unix_ns + report.started_after_ns,
            ended_ns=claimed_unix_ns + report.finished_after_ns,
            attributes={
                **_ids(held),
                "assay.worker": report.worker,
                "assay.attempt": held.claim.attempt,
                "assay.finish": type(finish).__name__,
            },
            parent=batch_trace(held.claim.task.tenant, held.claim.batch_id).parent,
        )


def _ids(held: HeldClaim) -> dict[str, str]:
    claim = held.claim
    return {
        "tenant": claim.task.tenant,
        "task_id": claim.task.task_id,
        "batch_id": claim.batch_id,
        "request_id": claim.request_id,
    }
