"""Every metric of the platform, with names from the glossary.

Processes of one machine share a directory (prometheus-client's multiprocess mode), so that any of
them can expose all metrics: `/metrics` renders `Metrics.registry`. Nothing here reads a clock; the
caller passes durations. Worker slots open no metrics; their host counts for them.

What to do when one moves is in `docs/operations.md`, a line for each.
"""

import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from prometheus_client import CollectorRegistry, values

from assay.config.ready_files import REPLACES
from assay.core.records import BatchRecord
from assay.edge.scrape.definer import Definer
from assay.edge.scrape.directory import keep_values_in
from assay.edge.scrape.exemplars import Exemplars
from assay.edge.scrape.exposition import DirectoryRegistry
from assay.edge.scrape.fast import observe_all
from assay.edge.scrape.labels import OTHERS, FirstNames
from assay.edge.scrape.rollout_metrics import RolloutMetrics
from assay.edge.tracing import batch_trace

DIRECTORY: Final = "metrics"  # in `data_dir`
_WAIT_S: Final = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800)
_SERVICE_S: Final = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
_SLACK_S: Final = (-3600, -600, -60, -10, -1, 0, 1, 10, 60, 600, 3600)
TASKS_NAMED_MAX: Final = 1_000
"""Tasks that have metrics of their own in one process; further ones are counted together."""
TENANTS_NAMED_MAX: Final = 2_000
"""The same of tenants, which come and go with `reward.tenants_file`."""
_IMPLICIT: Final = "score-"
"""Beginning of the names of tasks that a `Score` call makes."""
_CALL_S: Final = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 2.5, 10)


class Metrics(RolloutMetrics):
    """Counters, gauges and histograms, one method per event."""

    def __init__(self, directory: Path | None = None, *, traces: bool = False) -> None:
        """Open the metrics of this process.

        Args:
            directory: shared by the processes of this machine; `None` keeps them in this process.
            traces: spans are exported, so that exemplars can name the trace of a batch.
        """
        if directory is None:
            values.ValueClass = values.MutexValue
        else:
            keep_values_in(directory)
        own = CollectorRegistry()
        new = Definer(own)
        self._define_queues(new)
        self._define_workers(new)
        self._define_planner(new)
        self._define_calls(new)
        self._define_rollouts(new)
        self._define_gateway(new)
        self.registry: CollectorRegistry = own
        self._exemplars = Exemplars(directory) if traces and directory is not None else None
        if directory is not None:
            self.registry = DirectoryRegistry(directory)

    def _define_queues(self, new: Definer) -> None:
        self._queued = new.gauge(
            "assay_queue_requests", "Requests waiting, per stage.", ("stage",), "mostrecent"
        )
        self._running = new.gauge(
            "assay_running_requests", "Requests under a lease, per stage.", ("stage",), "mostrecent"
        )
        self._oldest = new.gauge(
            "assay_queue_oldest_age_seconds",
            "Seconds since the oldest waiting request was enqueued, per stage.",
            ("stage",), "mostrecent",
        )  # fmt: skip
        self._dead = new.gauge(
            "assay_dead_letters", "Requests out of attempts, per stage.", ("stage",), "mostrecent"
        )
        self._slack = new.histogram(
            "assay_batch_slack_seconds",
            "Seconds from a batch's end to its deadline, per tenant; below 0 = late.",
            ("tenant",), _SLACK_S,
        )  # fmt: skip
        self._requests = new.counter(
            "assay_requests_total", "Requests that ended, per tenant, pipeline and outcome.",
            ("tenant", "pipeline", "outcome"),
        )  # fmt: skip
        of_task = ("tenant", "task_id")
        self._task_requests = new.counter(
            "assay_task_requests_total",
            "Requests of ended batches, per tenant and task (`task_id`).", of_task,
        )  # fmt: skip
        self._unjudged = new.counter(
            "assay_task_unjudged_total",
            "Requests of ended batches that no judge saw, per tenant, task and cause.",
            (*of_task, "cause"),
        )  # fmt: skip
        self._grouped = new.counter(
            "assay_task_grouped_total",
            "Requests of ended batches that had a group, per tenant and task.", of_task,
        )  # fmt: skip
        self._bias = new.counter(
            "assay_task_bias_avoided_total",
            "Sum over grouped requests of the shift of advantages by zeros, per tenant and task.",
            of_task,
        )  # fmt: skip
        self._tasks = FirstNames(TASKS_NAMED_MAX)
        self._tenants = FirstNames(TENANTS_NAMED_MAX)

    def _define_workers(self, new: Definer) -> None:
        self._slots = new.gauge(
            "assay_slots", "Worker slots, per stage and state: desired, starting, ready, busy.",
            ("stage", "state"), "livesum",
        )  # fmt: skip
        self._sandbox = new.gauge(
            "assay_sandbox_info", "1 for the mode by which this host isolates untrusted code.",
            ("mode",), "livemax",
        )  # fmt: skip
        self._wait = new.histogram(
            "assay_wait_seconds", "Seconds from enqueue to claim, per stage.", ("stage",), _WAIT_S
        )
        self._service = new.histogram(
            "assay_service_seconds", "Seconds a claim held its slot, per stage.",
            ("stage",), _SERVICE_S,
        )  # fmt: skip
        self._attempts = new.counter(
            "assay_attempts_total", "Claims that ended, per stage and reported result.",
            ("stage", "result"),
        )  # fmt: skip
        self._leases_lost = new.counter(
            "assay_leases_lost_total", "Leases lost, per stage; `seen_by`: holder or reaper.",
            ("stage", "seen_by"),
        )  # fmt: skip
        self._slots_ended = new.counter(
            "assay_slots_ended_total", "Worker slots that ended, per stage and reason.",
            ("stage", "reason"),
        )  # fmt: skip
        self._artifacts = new.counter(
            "assay_artifacts_total", "Artifacts, per result: cached, fetched, made, missing.",
            ("result",),
        )  # fmt: skip
        self._reused = new.counter(
            "assay_reused_verdicts_total",
            "Verdicts of tasks with `reuse_results`, per stage and result: made, kept, shared.",
            ("stage", "result"),
        )  # fmt: skip
        self._audits = new.counter(
            "assay_reference_audits_total",
            "Audits of references, per stage and result: sound, weak, failed.", ("stage", "result"),
        )  # fmt: skip
        self._second = new.counter(
            "assay_second_judge_total",
            "Second-judged verdicts, per pipeline and result: agrees, disagrees, abstains.",
            ("pipeline", "result"),
        )  # fmt: skip
        self._missing_packages = new.counter(
            "assay_missing_packages_total",
            "Programs that failed because boxes lack a package, per pipeline and package.",
            ("pipeline", "package"),
        )  # fmt: skip

    def _define_planner(self, new: Definer) -> None:
        self._planned_slots = new.gauge(
            "assay_planned_slots", "Slots in the current plan, per stage.", ("stage",), "livemax"
        )
        self._planners = new.gauge(
            "assay_planners", "Planners, per state: leading, standing_by.", ("state",), "livesum"
        )
        self._planning = new.histogram(
            "assay_planning_seconds", "Seconds to make one plan, per reason.", ("reason",), _CALL_S
        )
        self._planning_lost = new.counter(
            "assay_planning_lost_total", "Planning processes that failed, per reason.", ("reason",)
        )
        self._at_risk = new.counter(
            "assay_batches_at_risk_total",
            "Batches reported as likely to miss their deadline, per tenant.", ("tenant",),
        )  # fmt: skip
        self._doubted = new.counter(
            "assay_hosts_doubted_total", "Worker hosts or pods that end no work, per stage.",
            ("stage",),
        )  # fmt: skip

        self._pool_slots = new.gauge(
            "assay_pool_slots", "Slots of pods, per stage and state: desired, ready, busy.",
            ("stage", "state"), "mostrecent",
        )  # fmt: skip
        self._pool_condition = new.gauge(
            "assay_pool_condition", "1 while a stage's pool of pods has this condition, else 0.",
            ("stage", "condition"), "mostrecent",
        )  # fmt: skip
        self._pool_conditions: dict[str, str] = {}
        self._pool_startup = new.histogram(
            "assay_pool_startup_seconds", "Seconds from a pod's creation to readiness, per stage.",
            ("stage",), _WAIT_S,
        )  # fmt: skip

    def _define_calls(self, new: Definer) -> None:
        self._store = new.histogram(
            "assay_store_call_seconds", "Seconds per call, per operation.", ("operation",), _CALL_S
        )
        self._store_fit = new.gauge(
            "assay_store_fit",
            "1 while the store answers and is fit for acknowledged work, else 0.", (), "livemin",
        )  # fmt: skip
        self._calls = new.histogram(
            "assay_api_call_seconds",
            "Seconds per call of the API, per method; `reason`: ok or the error's.",
            ("method", "reason"), _CALL_S,
        )  # fmt: skip
        self._loop_lag = new.histogram(
            "assay_api_loop_lag_seconds",
            "Seconds by which the API's event loop runs a timer too late.", (), _CALL_S,
        )  # fmt: skip
        self._replaced = new.counter(
            "assay_parts_replaced_total",
            "Processes started again, per part and reason: died, hung, not_ready.",
            ("part", "reason"),
        )  # fmt: skip

    # -- queues --------------------------------------------------------------------------------
    def queue_seen(
        self, *, stage: str, queued: int, running: int, oldest_age_s: float, dead_letters: int
    ) -> None:
        """Current state of a stage's queue."""
        self._queued.labels(stage).set(queued)
        self._running.labels(stage).set(running)
        self._oldest.labels(stage).set(oldest_age_s)
        self._dead.labels(stage).set(dead_letters)

    def batch_completed(self, batch: BatchRecord, *, slack_s: float) -> None:
        """A batch ended `slack_s` before its deadline."""
        tenant = self._tenants.label(batch.tenant)
        self._slack.labels(tenant).observe(slack_s)
        if self._exemplars is not None:
            trace_id = batch_trace(batch.tenant, batch.batch_id).trace_id
            self._exemplars.note(
                "assay_batch_slack_seconds", {"tenant": tenant}, _SLACK_S, slack_s,
                of={"trace_id": trace_id, "batch_id": batch.batch_id}, at_s=batch.completed_ns / 1e9
            )  # fmt: skip
        self.batch_ended(batch)

    def batch_ended(self, batch: BatchRecord) -> None:
        """A batch ended, by its last result or because it was cancelled."""
        tenant = self._tenants.label(batch.tenant)
        task = self._task_label(tenant, batch.task_id)
        self._task_requests.labels(tenant, task).inc(batch.ended)
        for cause, count in batch.outcomes.items():
            if not cause.carries_reward:
                self._unjudged.labels(tenant, task, cause).inc(count)
        self._grouped.labels(tenant, task).inc(batch.grouped)
        self._bias.labels(tenant, task).inc(batch.shift_micro / 1e6)

    def _task_label(self, tenant: str, task: str) -> str:
        return OTHERS if task.startswith(_IMPLICIT) else self._tasks.label(tenant, task)

    def requests_ended(self, *, tenant: str, pipeline: str, outcome: str, count: int = 1) -> None:
        """Requests ended with this outcome."""
        self._requests.labels(self._tenants.label(tenant), pipeline, outcome).inc(count)

    # -- workers -------------------------------------------------------------------------------
    def slots_seen(self, *, stage: str, states: dict[str, int]) -> None:
        """Current slots of a host per stage; name every state each time."""
        for state, count in states.items():
            self._slots.labels(stage, state).set(count)

    def slot_ended(self, *, stage: str, reason: str) -> None:
        """A slot's process ended."""
        self._slots_ended.labels(stage, reason).inc()

    def waits(self, *, stage: str) -> Callable[[Sequence[float]], None]:
        """Return a function to call with the seconds that each claim waited."""
        return partial(observe_all, self._wait.labels(stage))

    def services(self, *, stage: str) -> Callable[[Sequence[float]], None]:
        """Return a function to call with the seconds that each claim held its slot."""
        return partial(observe_all, self._service.labels(stage))

    def attempts_ended(self, *, stage: str, result: str, count: int = 1) -> None:
        """Claims ended: `ended`, `handed_over`, `failed`, `given_back`, `stale` or `dropped`."""
        self._attempts.labels(stage, result).inc(count)

    def leases_lost(self, *, stage: str, seen_by: str, count: int = 1) -> None:
        """Claims were lost, detected by the `holder` (mostly a cancel) or by the `reaper`."""
        self._leases_lost.labels(stage, seen_by).inc(count)

    def artifact_had(self, *, result: str) -> None:
        """An artifact was `cached` here, `fetched` from the store, `made`, or `missing`."""
        self._artifacts.labels(result).inc()

    def verdict_reused(self, *, stage: str, result: str) -> None:
        """`kept`, `shared` with one that was judged meanwhile, or `made`."""
        self._reused.labels(stage, result).inc()

    def reference_audited(self, *, stage: str, result: str) -> None:
        """A slot found a reference `sound` or `weak`, or `failed` to audit it."""
        self._audits.labels(stage, result).inc()

    def second_judged(self, *, pipeline: str, result: str) -> None:
        """A second judge `agrees`, `disagrees` or `abstains`."""
        self._second.labels(pipeline, result).inc()

    def package_missed(self, *, pipeline: str, package: str) -> None:
        """A program failed because boxes lack a package (`verifiers.program_packages`)."""
        self._missing_packages.labels(pipeline, package).inc()

    def sandbox_seen(self, *, mode: str) -> None:
        """Set the isolation mode of this machine."""
        self._sandbox.labels(mode).set(1)

    # -- planner -------------------------------------------------------------------------------
    def planner_seen(self, *, leading: bool) -> None:
        """Current state of a planner."""
        self._planners.labels("leading").set(leading)
        self._planners.labels("standing_by").set(not leading)

    def planned(self, *, reason: str, seconds: float, slots: dict[str, int]) -> None:
        """A plan was made."""
        self._planning.labels(reason).observe(seconds)
        for stage, count in slots.items():
            self._planned_slots.labels(stage).set(count)

    def pool_seen(self, *, stage: str, desired: int, ready: int, busy: int, condition: str) -> None:
        """A pool's slots, and the name of what is wrong with it; empty = nothing."""
        for state, count in (("desired", desired), ("ready", ready), ("busy", busy)):
            self._pool_slots.labels(stage, state).set(count)
        before = self._pool_conditions.get(stage, "")
        if before and before != condition:
            self._pool_condition.labels(stage, before).set(0)
        if condition:
            self._pool_condition.labels(stage, condition).set(1)
        self._pool_conditions[stage] = condition

    def pool_started(self, *, stage: str, seconds: float) -> None:
        """A pod became ready `seconds` after it was created (or placed, if that had to wait)."""
        self._pool_startup.labels(stage).observe(seconds)

    def hosts_doubted(self, stage: str, count: int) -> None:
        """So many worker hosts or pods take work and end none, from now on."""
        self._doubted.labels(stage).inc(count)

    def planning_lost(self, *, reason: str) -> None:
        """The planning process `died`, `hung`, did not `start`, or left a question unanswered."""
        self._planning_lost.labels(reason).inc()

    def batch_at_risk(self, *, tenant: str) -> None:
        """A plan shows that a batch may miss its deadline."""
        self._at_risk.labels(self._tenants.label(tenant)).inc()

    # -- calls ---------------------------------------------------------------------------------
    def store_called(self, *, operation: str, seconds: float) -> None:
        """A call to the store finished."""
        self._store.labels(operation).observe(seconds)

    def store_fit(self, *, fit: bool) -> None:
        """Whether the store answers and is fit for acknowledged work."""
        self._store_fit.set(int(fit))

    def api_called(self, method: str, reason: str, seconds: float) -> None:
        """A call of the API finished with `ok` or the reason of an error."""
        self._calls.labels(method, reason).observe(seconds)

    def loop_lagged(self, seconds: float) -> None:
        """The API's event loop ran a timer this much too late."""
        self._loop_lag.observe(seconds)

    def part_replaced(self, *, part: str, reason: str) -> None:
        """A process `died`, `hung`, or was `not_ready` in time, and another one runs instead."""
        self._replaced.labels(part, reason).inc()


def open_metrics(data_dir: Path, otlp_endpoint: str = "") -> Metrics:
    """Open the metrics of this process, in the directory that this machine's processes share."""
    metrics = Metrics(data_dir / DIRECTORY, traces=bool(otlp_endpoint))
    part, _, reason = os.environ.pop(REPLACES, "").partition(":")
    if reason:
        metrics.part_replaced(part=part, reason=reason)
    return metrics
