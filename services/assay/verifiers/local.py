"""Runs a pipeline in this process, without service, store or workers.

For authors of pipelines, for the accuracy tables, and for tests. It uses the same intake and the
same handlers as a worker, stage after stage. In the main thread the CPU limit of a confined stage
ends what Python code computes; a worker, which kills processes, also ends single steps of C code.
So do not use it on hostile text.
"""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import assay
from assay.config.computed import computed_dir
from assay.config.settings import SandboxSettings, VerifierSettings
from assay.core.ids import PipelineName
from assay.core.tools.lru import TenantCache
from assay.core.tools.response import response_bytes, response_text
from assay.core.verdict import Ended, Evidence, HandedOver, ResourceUse, StageVerdict
from assay.sandbox.port import RunStatus
from assay.verifiers.audit import REFERENCES_MAX, reference_key, refused
from assay.verifiers.intake import last_answer, parse_reference, parse_settings
from assay.verifiers.port import (
    Artifacts,
    AuditingHandler,
    GroupHandler,
    GroupWork,
    HandlerContext,
    PipelineDefinition,
    PipelineSettings,
    Reference,
    StageDefinition,
    StageHandler,
    Work,
    resource_limited,
)
from assay.verifiers.registry import load_handler, load_pipelines
from assay.verifiers.text.bounds import USER_TIMER, OutOfTime, cpu_time
from assay.verifiers.total import judged


class MemoryArtifacts:
    """Artifacts of one process; see `assay.verifiers.port.Artifacts`."""

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}
        self.made = 0
        """The number of artifacts that were made."""

    def get_or_make(self, key: str, make: Callable[[], bytes]) -> bytes:
        """Return the kept artifact, or make and keep it."""
        if key not in self.kept:
            self.kept[key] = make()
            self.made += 1
        return self.kept[key]

    def get(self, key: str) -> bytes | None:
        """Return the kept artifact."""
        return self.kept.get(key)


class LocalPipelines:
    """All pipelines of this installation; a stage's handler is created on first use."""

    def __init__(
        self,
        *,
        scratch: Path,
        verifiers: VerifierSettings | None = None,
        sandbox: SandboxSettings | None = None,
        pipelines: Mapping[PipelineName, PipelineDefinition] | None = None,
        artifacts: Artifacts | None = None,
    ) -> None:
        """Load the definitions.

        Args:
            scratch: a directory for handlers.
            verifiers: the operator's settings.
            sandbox: the operator's settings of the sandbox.
            pipelines: pipelines to use instead of the installed ones.
            artifacts: where handlers keep artifacts instead of in this process.
        """
        limits = verifiers or VerifierSettings()
        self.artifacts = MemoryArtifacts()
        self.pipelines = load_pipelines(limits) if pipelines is None else pipelines
        self._handlers: dict[str, StageHandler] = {}
        self._lets_pass: TenantCache[str, bool] = TenantCache(weight_max=REFERENCES_MAX)
        self._context = HandlerContext(
            artifacts=artifacts or self.artifacts,
            sandbox=sandbox or SandboxSettings(),
            verifiers=limits,
            scratch=scratch,
            shared=scratch / "shared",
            computed=computed_dir(assay.__path__, os.environ),
        )

    def judge(
        self,
        pipeline: str,
        response: str | bytes,
        reference: Mapping[str, Any] | None = None,
        **settings: Any,  # noqa: ANN401 - any JSON
    ) -> Ended:
        """Send one response through all stages.

        Raises:
            InvalidRequest: settings or reference are malformed.
        """
        return self.judge_request(pipeline, response, reference, settings=settings)

    def judge_request(
        self,
        pipeline: str,
        response: str | bytes = "",
        reference: Mapping[str, Any] | None = None,
        *,
        settings: Mapping[str, Any],
        messages: Sequence[Mapping[str, Any]] = (),
        artifacts: Mapping[str, bytes] | None = None,
        tenant: str = "",
    ) -> Ended:
        """As `judge`, with a transcript and artifacts; handlers remember nothing across tenants."""
        handover = b""
        use = ResourceUse()
        if self.pipelines[PipelineName(pipeline)].group_stage is not None:
            raise ValueError(f"pipeline {pipeline} judges whole groups: see `judge_group`")
        for stage in self.pipelines[PipelineName(pipeline)].stages:
            work = self.work(pipeline, response, reference, handover, **settings)
            work = replace(
                work,
                response=work.response or last_answer(messages),
                messages=messages,
                artifacts=artifacts or {},
                tenant=tenant,
            )
            verdict = self._verdict(stage, work)
            use = use.plus(verdict.use)
            if isinstance(verdict, Ended):
                return self._audited(replace(verdict, use=use), work, stage, pipeline)
            handover = verdict.artifact
        message = f"the last stage of {pipeline} handed over instead of ending the request"
        raise RuntimeError(message)

    def judge_group(
        self,
        pipeline: str,
        responses: Sequence[str | bytes],
        reference: Mapping[str, Any] | None = None,
        **settings: Any,  # noqa: ANN401 - any JSON
    ) -> list[Ended]:
        """Send the responses to one prompt through all stages, one of which judges them together.

        Raises:
            InvalidRequest: settings or reference are malformed.
        """
        verdicts: dict[int, StageVerdict] = dict.fromkeys(
            range(len(responses)), HandedOver(artifact=b"")
        )
        for stage in self.pipelines[PipelineName(pipeline)].stages:
            works: dict[int, Work] = {}
            for index, verdict in verdicts.items():
                if isinstance(verdict, HandedOver):
                    works[index] = self.work(
                        pipeline, responses[index], reference, verdict.artifact, **settings
                    )
            if works:
                verdicts |= zip(works, self._verdicts(stage, works, len(responses)), strict=True)
        ended = [verdict for verdict in verdicts.values() if isinstance(verdict, Ended)]
        if len(ended) < len(responses):
            message = f"the last stage of {pipeline} handed over instead of ending the request"
            raise RuntimeError(message)
        return ended

    def _verdicts(
        self, stage: StageDefinition, works: Mapping[int, Work], submitted: int
    ) -> Sequence[StageVerdict]:
        if not stage.spec.gathers:
            return [self._verdict(stage, work) for work in works.values()]
        handler = load_handler(stage)(self._context)
        if not isinstance(handler, GroupHandler):
            raise TypeError(f"stage {stage.spec.name} gathers, but its handler judges no groups")
        [verdicts] = handler.run_groups(
            [GroupWork(works=list(works.values()), submitted=submitted)]
        )
        handler.close()
        return verdicts

    def _verdict(self, stage: StageDefinition, work: Work) -> StageVerdict:
        handler, limit_s = self.handler(stage), stage.spec.cpu_s_max
        if not stage.confined:
            [verdict] = handler.run([work])
            return verdict
        if limit_s is None:
            return judged(handler, work)
        try:
            with cpu_time(limit_s, USER_TIMER):
                return judged(handler, work)
        except OutOfTime:
            return resource_limited(
                settings=work.settings,
                evidence=Evidence(verdict=RunStatus.CPU_LIMIT.value),
                use=ResourceUse(cpu_s=limit_s),
            )

    def _audited(self, ended: Ended, work: Work, stage: StageDefinition, pipeline: str) -> Ended:
        """Do what a worker's host does; see `assay.worker.auditing`."""
        handler = self.handler(stage)
        if not ended.unaudited or not isinstance(handler, AuditingHandler):
            return ended
        settings: PipelineSettings = work.settings
        reference: Reference = work.reference
        key = reference_key(
            pipeline,
            _as_bytes(settings.model_dump_json()),
            _as_bytes(reference.model_dump_json()),
            work.tenant,
        )
        lets_pass = self._lets_pass.get(work.tenant, key)
        if lets_pass is None:
            lets_pass = handler.lets_pass(work)
            if lets_pass is not None:
                self._lets_pass.put(work.tenant, key, lets_pass)
        return refused(ended, settings.reference_audit) if lets_pass else ended

    def work(
        self,
        pipeline: str,
        response: str | bytes,
        reference: Mapping[str, Any] | None = None,
        handover: bytes = b"",
        **settings: Any,  # noqa: ANN401 - any JSON
    ) -> Work:
        """One request as a handler sees it."""
        definition = self.pipelines[PipelineName(pipeline)]
        return Work(
            response=response_text(response_bytes(response)),
            reference=parse_reference(definition, json.dumps(reference or {}).encode()),
            settings=parse_settings(definition, json.dumps(settings).encode()),
            handover=handover,
        )

    def handler(self, stage: StageDefinition) -> StageHandler:
        """The handler of `stage`."""
        name = stage.spec.name
        if name not in self._handlers:
            made = load_handler(stage)(self._context)
            if isinstance(made, GroupHandler):
                raise TypeError(f"stage {name} judges whole groups")
            self._handlers[name] = made
        return self._handlers[name]

    def close(self) -> None:
        """Close all handlers."""
        while self._handlers:
            self._handlers.popitem()[1].close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _as_bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
