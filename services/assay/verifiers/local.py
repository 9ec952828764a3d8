"""Runs a pipeline in this process, without service, store or workers.

For authors of pipelines, for the accuracy tables, and for tests. It uses the same intake and the
same handlers as a worker, stage after stage. Nothing bounds a confined stage here, because the
worker does that; so do not use it on hostile text.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from assay.config.settings import SandboxSettings, VerifierSettings
from assay.core.ids import PipelineName
from assay.core.response import response_bytes, response_text
from assay.core.verdict import Ended, ResourceUse
from assay.verifiers.intake import parse_reference, parse_settings
from assay.verifiers.port import (
    HandlerContext,
    PipelineDefinition,
    StageDefinition,
    StageHandler,
    Work,
)
from assay.verifiers.registry import load_handler, load_pipelines


class MemoryArtifacts:
    """Artifacts of one process; see `assay.verifiers.port.Artifacts`."""

    def __init__(self) -> None:
        """Start empty."""
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
    ) -> None:
        """Load the definitions.

        Args:
            scratch: a directory for handlers.
            verifiers: the operator's settings.
            sandbox: the operator's settings of the sandbox.
            pipelines: pipelines to use instead of the installed ones.
        """
        limits = verifiers or VerifierSettings()
        self.artifacts = MemoryArtifacts()
        self.pipelines = load_pipelines(limits) if pipelines is None else pipelines
        self._handlers: dict[str, StageHandler] = {}
        self._context = HandlerContext(
            artifacts=self.artifacts,
            sandbox=sandbox or SandboxSettings(),
            verifiers=limits,
            scratch=scratch,
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
        handover = b""
        use = ResourceUse()
        for stage in self.pipelines[PipelineName(pipeline)].stages:
            work = self.work(pipeline, response, reference, handover, **settings)
            [verdict] = self.handler(stage).run([work])
            use = use.plus(verdict.use)
            if isinstance(verdict, Ended):
                return replace(verdict, use=use)
            handover = verdict.artifact
        message = f"the last stage of {pipeline} handed over instead of ending the request"
        raise RuntimeError(message)

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
            self._handlers[name] = load_handler(stage)(self._context)
        return self._handlers[name]

    def close(self) -> None:
        """Close all handlers."""
        while self._handlers:
            self._handlers.popitem()[1].close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
