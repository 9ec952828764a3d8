"""Tasks: registered, found again, and when their batches are due by default."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from assay.config.settings import RewardSettings
from assay.core.errors import Conflict, InvalidRequest
from assay.core.ids import BatchId, PipelineName, StageName, TaskId, TenantId
from assay.core.records import Quota, TaskRecord
from assay.core.tools.lru import LruCache
from assay.edge.auth import Tenant
from assay.edge.clock import Clock
from assay.reward import admission
from assay.reward.drafts import ScoreDraft, TaskDraft
from assay.reward.operations.deadline import deadline_after_ms
from assay.store.port import Store
from assay.verifiers.intake import parse_settings
from assay.verifiers.port import PipelineDefinition

TASKS_KNOWN_MAX: Final = 10_000
BATCHES_KNOWN_MAX: Final = 10_000
TASK_KNOWN_S: Final = 3_600.0
BATCH_KNOWN_S: Final = 30.0
"""Shorter than the store keeps any batch, so that a reused name is looked up again."""
DEADLINE_KNOWN_S: Final = 2.0
"""How long an estimate is used: reading the history for every `score` costs more than the score."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownTask:
    """A task and its pipeline."""

    record: TaskRecord
    definition: PipelineDefinition


class Tasks:
    """Tasks of the store, remembered for as long as they cannot have changed."""

    def __init__(
        self,
        *,
        store: Store,
        pipelines: Mapping[PipelineName, PipelineDefinition],
        settings: RewardSettings,
        clock: Clock,
    ) -> None:
        self._store = store
        self._pipelines = pipelines
        self._settings = settings

        def now_s() -> float:
            return clock.monotonic_ns() / 1e9

        self._known: LruCache[tuple[TenantId, TaskId], KnownTask] = LruCache(
            weight_max=TASKS_KNOWN_MAX, age_s_max=TASK_KNOWN_S, now_s=now_s
        )
        self._of_batches: LruCache[tuple[TenantId, BatchId], TaskId] = LruCache(
            weight_max=BATCHES_KNOWN_MAX, age_s_max=BATCH_KNOWN_S, now_s=now_s
        )
        self._deadlines_ms: LruCache[tuple[TenantId, TaskId], int] = LruCache(
            weight_max=TASKS_KNOWN_MAX, age_s_max=DEADLINE_KNOWN_S, now_s=now_s
        )

    async def register(self, tenant: Tenant, draft: TaskDraft) -> tuple[TaskRecord, bool]:
        admission.check_task(draft)
        definition = admission.pipeline_of(self._pipelines, draft.pipeline, "task.pipeline")
        record = _record(tenant, definition, draft)
        created = await self._put(record, tenant.quota)
        self.know(KnownTask(record=record, definition=definition))
        return record, created

    def know(self, task: KnownTask) -> None:
        """Remember a task that the store has."""
        self._known.put((task.record.tenant, task.record.task_id), task)

    def know_batch(self, tenant: Tenant, batch_id: BatchId, task_id: TaskId) -> None:
        """Remember the task of a batch that the store has."""
        self._of_batches.put((tenant.tenant_id, batch_id), task_id)

    async def find(self, tenant: Tenant, task_id: TaskId, of_pipeline: str = "") -> KnownTask:
        """Return a registered task, of this pipeline if one is named.

        Raises:
            NotFound: no such task; or its pipeline is not served here.
            InvalidRequest: it is a task of another pipeline.
        """
        found = await self._find(tenant, task_id)
        if of_pipeline and found.record.pipeline != of_pipeline:
            message = f"task_id: {task_id} is a task of {found.record.pipeline}, not {of_pipeline}"
            raise InvalidRequest(message, field="task_id")
        return found

    async def _find(self, tenant: Tenant, task_id: TaskId) -> KnownTask:
        known = self._known.get((tenant.tenant_id, task_id))
        if known:
            return known
        record = await self._store.get_task(tenant.tenant_id, task_id)
        definition = admission.pipeline_of(self._pipelines, record.pipeline, "task.pipeline")
        if _follows(record, definition) != record:
            record = _follows(record, definition)
            await self._put(record, tenant.quota)
        task = KnownTask(record=record, definition=definition)
        self.know(task)
        return task

    async def _put(self, record: TaskRecord, quota: Quota) -> bool:
        """Register it. The same task with the stages that its pipeline had before (an earlier
        release, another version of a plugin) has those of today from now on."""
        try:
            return await self._store.put_task(record, quota)
        except Conflict:
            there = await self._store.get_task(record.tenant, record.task_id)
            stages_only = replace(there, stages=record.stages, group_stage=record.group_stage)
            if stages_only != record:
                raise
            return await self._store.put_task(record, quota, replaces=there)

    async def of_batch(self, tenant: Tenant, batch_id: BatchId) -> KnownTask:
        """Return the task of a batch.

        Raises:
            NotFound: no such batch.
        """
        task_id = self._of_batches.get((tenant.tenant_id, batch_id))
        if task_id is None:
            batch = await self._store.get_batch(tenant.tenant_id, batch_id)
            task_id = batch.task_id
            self._of_batches.put((tenant.tenant_id, batch_id), task_id)
        return await self.find(tenant, task_id)

    async def of_score(self, tenant: Tenant, draft: ScoreDraft) -> tuple[KnownTask, bool]:
        """The task of a `score`, and whether it comes with its batch; nothing is stored here."""
        if draft.task_id:
            if draft.pipeline or draft.settings_json:
                message = "task_id: the task has a pipeline and settings; name only one of the two"
                raise InvalidRequest(message, field="task_id")
            named = admission.task_name(draft.task_id)
            return await self.find(tenant, named, draft.of_pipeline), False
        definition = admission.pipeline_of(self._pipelines, draft.pipeline, "pipeline")
        admission.check_settings_size(draft.settings_json)
        stages = ",".join(definition.spec.stages)  # a name of its own where they have changed
        said = (draft.pipeline.encode(), stages.encode(), draft.settings_json)
        name = hashlib.sha256(b"\n".join(said))
        task_id = TaskId(f"score-{name.hexdigest()[:32]}")
        known = self._known.get((tenant.tenant_id, task_id))
        if known:
            return known, False
        implicit = TaskDraft(
            task_id=task_id, pipeline=draft.pipeline, settings_json=draft.settings_json
        )
        record = _record(tenant, definition, implicit)
        return KnownTask(record=record, definition=definition), True

    async def deadline_ms(self, tenant: Tenant, task: KnownTask) -> int:
        """When a batch of the task is due by default, in milliseconds from its opening."""
        key = (tenant.tenant_id, task.record.task_id)
        known = self._deadlines_ms.get(key)
        if known is not None:
            return known
        spans_ns = await self._store.natural_spans_ns(*key)
        estimate = deadline_after_ms(
            spans_ns,
            delay_budget_ms=task.record.delay_budget_ms,
            default_ms=round(self._settings.deadline_default_s * 1000),
        )
        if spans_ns:  # the first batch's history must count from the second batch on
            self._deadlines_ms.put(key, estimate)
        return estimate


def _follows(record: TaskRecord, definition: PipelineDefinition) -> TaskRecord:
    """The task with the stages that its pipeline has."""
    return replace(record, stages=definition.spec.stages, group_stage=definition.group_stage)


def _record(tenant: Tenant, definition: PipelineDefinition, draft: TaskDraft) -> TaskRecord:
    settings = parse_settings(definition, draft.settings_json)
    return TaskRecord(
        tenant=tenant.tenant_id,
        task_id=TaskId(draft.task_id),
        pipeline=definition.spec.name,
        stages=tuple(StageName(stage) for stage in definition.spec.stages),
        settings_json=settings.model_dump_json().encode(),
        batch_size=draft.batch_size,
        delay_budget_ms=draft.delay_budget_ms,
        trainer_cost_rate=draft.trainer_cost_rate,
        group_stage=definition.group_stage,
    )
