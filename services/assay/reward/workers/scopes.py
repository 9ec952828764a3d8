"""Where the artifacts of hosts without the store are.

They are apart for each set of pipelines that a token reaches, so that what a worker stores reaches
none that does not depend on it anyway. Reports are read by the API too, which knows the pipeline of
a report and not who was at work: they are kept for each of these pipelines alone as well.
"""

import hashlib
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import Final

from assay.core.ids import PipelineName, StageName, is_report
from assay.verifiers.port import PipelineDefinition

SCOPE_CHARS: Final = 16


class ArtifactScopes:
    """Which artifacts of the installed pipelines a host may read and write."""

    def __init__(self, pipelines: Mapping[PipelineName, PipelineDefinition]) -> None:
        self._stages = {name: one.spec.stages for name, one in pipelines.items()}
        self._scopes = scopes_of(pipelines)

    def keys(self, stages: Collection[StageName], key: str) -> list[str]:
        """Where an artifact is of a worker for these stages, and where else it is to be kept."""
        scopes = {self._scopes.get(stage, stage) for stage in stages}
        together = _key(scopes, key)
        if len(scopes) == 1 or not is_report(key):
            return [together]
        return [together, *(_key([scope], key) for scope in sorted(scopes))]

    def report_key(self, pipeline: PipelineName, key: str) -> str:
        """Where a report of the pipeline is that a worker has made."""
        stages = self._stages[pipeline]
        return _key([self._scopes[stages[0]]], key)


class KeptReports:
    """Reports, whichever kind of host has made them."""

    def __init__(
        self, get: Callable[[str], Awaitable[bytes | None]], scopes: ArtifactScopes
    ) -> None:
        self._get = get
        self._scopes = scopes

    async def __call__(self, pipeline: str, key: str) -> bytes | None:
        """The report of a request, if it is still kept."""
        found = await self._get(key)
        if found is None:
            found = await self._get(self._scopes.report_key(PipelineName(pipeline), key))
        return found


def _key(scopes: Iterable[StageName], key: str) -> str:
    scope = hashlib.sha256("\n".join(sorted(scopes)).encode()).hexdigest()[:SCOPE_CHARS]
    return f"worker:{scope}:{key}"


def scopes_of(
    pipelines: Mapping[PipelineName, PipelineDefinition],
) -> Mapping[StageName, StageName]:
    """For each stage the first, by name, of those that it is connected with by pipelines."""
    scope: dict[StageName, StageName] = {}
    for definition in pipelines.values():
        stages = definition.spec.stages
        joined = {scope.get(stage, stage) for stage in stages}
        first = min(joined)
        for stage in stages:
            scope.setdefault(stage, first)
        scope = {stage: first if of in joined else of for stage, of in scope.items()}
    return scope
