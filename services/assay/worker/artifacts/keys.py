"""Under which key an artifact of a slot is kept.

A slot names what it makes, and it has read what a candidate wrote. If a candidate took it over, it
could make anything under any name, and others would run it as their program. So the host decides by
its own claim, never by what the slot says:

* a key with the prefix that the stage's pipeline gives for this request
  (`StageDefinition.artifacts`) is kept for all requests of the tenant with the same program;
* any other key is kept for requests of the tenant with exactly the same payload.

Invariants: a slot reads and writes only what belongs to a request that it holds now; no two tenants
share a key. The CPU time of a result shows whether its program was compiled for it: if tenants
shared compiled programs, each could find out which ones another has sent.
"""

import asyncio
import hashlib
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Final

from assay.core.errors import InvalidRequest
from assay.core.ids import PipelineName, kept_for, owner_of
from assay.core.records import Claim, Member
from assay.core.tools.response import response_text
from assay.verifiers.intake import last_answer, parse_messages, parse_reference, parse_settings
from assay.verifiers.port import PipelineDefinition, StageDefinition, Work
from assay.worker.assignment import Assignment, HeldClaim

OWN: Final = "own:"
"""Beginning of the keys that hold for one payload."""


class ArtifactKeys:
    """One instance per stage."""

    def __init__(
        self, definition: StageDefinition, pipelines: Mapping[PipelineName, PipelineDefinition]
    ) -> None:
        self._named = definition.artifacts
        self._pipelines = pipelines
        self._begins: Callable[[Work], Sequence[str]] | None = None

    async def kept_as(self, assignment: Assignment | None, key: str) -> str | None:
        """The key in the store for a slot's own; `None`: the slot holds no request now."""
        if assignment is None or not assignment.open:
            return None
        held = assignment.current
        works = assignment.open.values() if held is None else (held,)
        owner = owner_of(one.claim.task.tenant for one in works)
        for one in works if self._named else ():
            if one.artifacts is None:
                one.artifacts = await asyncio.to_thread(self._beginnings, one)
            if any(key.startswith(beginning) for beginning in one.artifacts):
                return kept_for(owner, key)
        return kept_for(owner, own_key(next(iter(works)).claim, key))

    def _beginnings(self, held: HeldClaim) -> tuple[str, ...]:
        if self._begins is None:
            module, _, name = self._named.partition(":")
            self._begins = getattr(import_module(module), name)
        try:
            work = _work(held.claim, self._pipelines[PipelineName(held.claim.task.pipeline)])
            return tuple(self._begins(work))
        except (InvalidRequest, KeyError, AttributeError, TypeError):
            return ()  # the slot cannot read it either, or its pipeline names no program


def own_key(claim: Claim, key: str) -> str:
    """The key of an artifact that only requests with the same payload share."""
    digest = hashlib.sha256()
    task = claim.task
    parts = [task.pipeline.encode(), task.settings_json]
    for one in claim.members or (claim,):
        parts += _payload(one)
    for part in (*parts, key.encode()):
        digest.update(len(part).to_bytes(8, "big") + part)
    return OWN + digest.hexdigest()


def _payload(one: Claim | Member) -> list[bytes]:
    files = [part for file in one.artifacts for part in (file.name.encode(), file.content)]
    return [one.response, one.reference, one.messages, *files]


def _work(claim: Claim, pipeline: PipelineDefinition) -> Work:
    transcript = parse_messages(claim.messages, "messages") if claim.messages else ()
    return Work(
        response=response_text(claim.response) or last_answer(transcript),
        reference=parse_reference(pipeline, claim.reference),
        settings=parse_settings(pipeline, claim.task.settings_json),
        messages=transcript,
    )
